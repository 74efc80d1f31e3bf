"""A running job on the terminal, as ``flinkbuf top`` draws it, again and again in place; at its end its operators stay.

It is drawn in place where rich is installed, else as plain lines every few seconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TextIO

from flinkbuf.log import logger
from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.picture.page_picture import page_picture
from flinkbuf.runtime.picture.top_view import WIDE, TopView, ended_view_of, rich_of, text_of, view_of
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

REDRAW_S = 0.5
PLAIN_EVERY_MS = 5_000

_terminal = threading.Lock()  # held by the job that draws in place: two would draw over each other


class ShownJob(Protocol):
    """A `RunningJob`, as far as it is looked at here."""

    @property
    def picture(self) -> JobPicture:
        """The job as it is now."""
        ...


class View(Protocol):
    """Draws a job that runs."""

    def draw(self, shown: TopView, now_ms: int) -> None:
        """Show the job as it is."""
        ...

    def close(self) -> None:
        """Remove the lines that are drawn again and again."""
        ...


class PlainView:
    """Lines that stay, every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_ms: int | None = None

    def draw(self, shown: TopView, now_ms: int) -> None:
        """Write the lines if it is time: for the first time after some seconds, so that short jobs stay quiet."""
        if self._next_ms is None:
            self._next_ms = now_ms + PLAIN_EVERY_MS
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + PLAIN_EVERY_MS
            _write(self._stream, shown)

    def close(self) -> None:
        """Do nothing: plain lines stay."""


class LiveView:
    """Lines that are drawn over the former ones; needs rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(file=stream),
            auto_refresh=False,
            transient=True,
            vertical_overflow="crop",
            redirect_stdout=sys.stdout.isatty(),  # what the program prints stands above; a file is left alone
        )
        self._live.start()

    def draw(self, shown: TopView, now_ms: int) -> None:
        """Draw over what was drawn before."""
        self._live.update(rich_of(shown), refresh=True)

    def close(self) -> None:
        """Remove the lines."""
        self._live.stop()


def _write(stream: TextIO, shown: TopView) -> None:
    stream.write(text_of(shown))
    stream.flush()


class JobProgress:
    """Shows a job, from its start to its end; a context manager around ``job.run()``.

    Parameters
    ----------
    job : RunningJob
    stream : file
        The terminal.
    in_place : bool
        Whether lines may be drawn over the former ones, if rich is installed and no other job does so.
    now_ms : callable
        The clock.
    redraw_s : float

    Examples
    --------
    >>> with JobProgress(job):  # doctest: +SKIP
    ...     job.run()
    """

    def __init__(
        self,
        job: ShownJob,
        stream: TextIO | None = None,
        *,
        in_place: bool = True,
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        redraw_s: float = REDRAW_S,
    ) -> None:
        self._job = job
        self._stream = stream or sys.stderr
        self._in_place = in_place
        self._now_ms = now_ms
        self._redraw_s = redraw_s
        self._drawn: JobPicture | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> JobProgress:
        self._thread = threading.Thread(target=self._run, name="progress of a job", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Draw until the end, on a thread of its own; an error here does not stop the job."""
        try:
            with self._view() as view:
                while not self._ended.wait(self._redraw_s):
                    self._draw(view)
            picture = self._job.picture
            states = {vertex.aggregate_state for vertex in picture.vertices}
            if states - {ExecutionState.CREATED}:  # else: refused
                _write(self._stream, ended_view_of(page_picture(picture, rows=0), _width(self._stream)))
        except Exception:
            logger.warning("showing the progress of a job failed", exc_info=True)

    @contextlib.contextmanager
    def _view(self) -> Iterator[View]:
        is_alone = self._in_place and _terminal.acquire(blocking=False)
        try:
            view = _live_view(self._stream) if is_alone else PlainView(self._stream)
            try:
                yield view
            finally:
                view.close()
        finally:
            if is_alone:
                _terminal.release()

    def _draw(self, view: View) -> None:
        picture = self._job.picture
        if picture is not self._drawn:  # there is a new one each second
            self._drawn = picture
            view.draw(view_of(page_picture(picture, rows=0, vertices=()), _width(self._stream)), self._now_ms())


def _width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # it is a file, or an object of the program's
        return WIDE


def _live_view(stream: TextIO) -> View:
    try:
        return LiveView(stream)
    except ImportError:
        return PlainView(stream)
