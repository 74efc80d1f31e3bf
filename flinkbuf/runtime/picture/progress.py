"""A running job on the terminal: one line an operator, drawn again and again in place, and once more at the end.

What is shown is decided by `Progress`, which is given the job's details and the time; a view draws it: in place where
rich is installed, else as plain lines every few seconds. Flink shows the same in its dashboard.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from flinkbuf.log import logger, printable_line
from flinkbuf.runtime.picture.plain_words import NOTHING, event_time_text

REDRAW_S = 0.5
PLAIN_EVERY_MS = 5_000
NAME_WIDTH = 44
_MIN_WATERMARK = -(2**63)
_HEADINGS = ("operator", "subtasks", "in", "in/s", "out", "out/s", "watermark", "busy", "held back")

_terminal = threading.Lock()  # held by the job that draws in place: two would draw over each other


@dataclass(frozen=True)
class ProgressLine:
    """What is said about one operator."""

    name: str
    parallelism: int
    state: str
    records_in: int | None  # None: not known, or it has none
    in_rate: float | None  # records a second
    records_out: int | None
    out_rate: float | None
    watermark_ms: int | None
    busy: float | None  # share of the time of its task's subtasks, from 0 to 1; None: it is not the first of its task
    held_back: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Return one text for each column."""
        return (
            self.name if len(self.name) <= NAME_WIDTH else self.name[: NAME_WIDTH - 1] + "…",
            str(self.parallelism),
            _count(self.records_in),
            _count(self.in_rate),
            _count(self.records_out),
            _count(self.out_rate),
            event_time_text(self.watermark_ms),
            _percent(self.busy),
            _percent(self.held_back),
        )


class _Rate:
    """Rate of a count that is reported in steps, such as with heartbeats; falls when no report comes any more."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None

    def note(self, now_ms: int, count: float) -> None:
        if self._last is None or count != self._last[1]:
            self._before, self._last = self._last, (now_ms, count)

    def a_second(self, now_ms: int) -> float | None:
        if self._last is None:
            return None
        if self._before is None:
            return 0.0 if self._last[1] == 0 else None
        (start_ms, first), (end_ms, last) = self._before, self._last
        step_ms = end_ms - start_ms
        return max(0.0, (last - first) * 1000 / max(1, max(end_ms, now_ms - step_ms) - start_ms))


class Progress:
    """Makes lines of the details of a job that runs; remembers what rates need.

    Examples
    --------
    >>> progress = Progress()
    >>> vertex = {"name": "Map", "parallelism": 2, "status": "RUNNING"}
    >>> for now_ms, count in (0, 100), (500, 600):
    ...     counted = {**vertex, "metrics": {"read-records": count}}
    ...     (line,) = progress.lines({"vertices": [counted]}, now_ms)
    >>> line.records_in, line.in_rate
    (600, 1000.0)
    """

    def __init__(self) -> None:
        self._rates: dict[tuple[int, int, str], _Rate] = {}

    def lines(self, details: Mapping[str, Any], now_ms: int) -> list[ProgressLine]:
        """Return one line for each operator of each task."""

        def rate_of(key: tuple[int, int, str], count: float) -> float | None:
            rate = self._rates.setdefault(key, _Rate())
            rate.note(now_ms, count)
            return rate.a_second(now_ms)

        return _lines(details, rate_of)


def final_lines(details: Mapping[str, Any]) -> list[ProgressLine]:
    """Return one line for each operator of each task of a job that has ended; rates are those of its whole life."""
    duration_ms = max(1, details["duration"])
    return _lines(details, lambda key, count: count * 1000 / duration_ms)


_RateOf = Callable[[tuple[int, int, str], float], "float | None"]


def _lines(details: Mapping[str, Any], rate_of: _RateOf) -> list[ProgressLine]:
    lines = []
    for number, vertex in enumerate(details["vertices"]):
        metrics = vertex.get("metrics", {})
        whole = {
            "name": vertex["name"],
            "records_in": metrics.get("read-records"),
            "records_out": metrics.get("write-records"),
        }
        for place, operator in enumerate(vertex.get("operators") or [whole]):
            lines.append(_line(vertex, operator, (number, place), rate_of))
    return lines


def _line(
    vertex: Mapping[str, Any], operator: Mapping[str, Any], place: tuple[int, int], rate_of: _RateOf
) -> ProgressLine:
    """Return an operator's line; figures of the task as a whole stand at its first operator only."""
    is_first, parallelism = place[1] == 0, vertex["parallelism"]
    count_in = None if operator["name"].startswith("Source: ") else operator.get("records_in")
    count_out = None if operator["name"].startswith("Sink: ") else operator.get("records_out")

    def rate(what: str, count: float | None) -> float | None:
        return None if count is None else rate_of((*place, what), count)

    def share(name: str) -> float | None:
        grown = rate(name, vertex.get("metrics", {}).get(name)) if is_first else None
        return None if grown is None else min(1.0, grown / 1000 / max(1, parallelism))

    return ProgressLine(
        name=("" if is_first else "  ") + printable_line(operator["name"]),
        parallelism=parallelism,
        state=vertex["status"],
        records_in=count_in,
        in_rate=rate("in", count_in),
        records_out=count_out,
        out_rate=rate("out", count_out),
        watermark_ms=_lowest_watermark(vertex) if is_first else None,
        busy=share("accumulated-busy-time"),
        held_back=share("accumulated-backpressured-time"),
    )


def _lowest_watermark(vertex: Mapping[str, Any]) -> int | None:
    """Return the watermark of the subtask that is furthest behind; None: not all have one yet."""
    values = [int(each["value"]) for each in vertex.get("watermarks", ())]
    if len(values) < vertex["parallelism"] or min(values) == _MIN_WATERMARK:
        return None
    return min(values)


def _count(count: float | None) -> str:
    return NOTHING if count is None else f"{count:,.0f}"


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.0%}"


def headline(details: Mapping[str, Any]) -> str:
    """Return the line above the operators."""
    restarts = details.get("exceptions", {}).get("restarts", details.get("restarts", 0))
    parts = [f"job {details['name']!r}", str(details["state"]), f"{max(0, details.get('duration', 0)) / 1000:.1f} s"]
    if restarts:
        parts.append(f"restarted {restarts} times" if restarts > 1 else "restarted once")
    return " · ".join(parts)


def text_lines(details: Mapping[str, Any], lines: list[ProgressLine]) -> list[str]:
    """Return headline, headings and operators as lines of text, in columns."""
    rows = [_HEADINGS, *(line.cells for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    texts = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [headline(details), *("  " + text for text in texts)]


class View(Protocol):
    """Draws the progress of a job."""

    def draw(self, details: Mapping[str, Any], lines: list[ProgressLine], now_ms: int) -> None:
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

    def draw(self, details: Mapping[str, Any], lines: list[ProgressLine], now_ms: int) -> None:
        """Write the lines if it is time: for the first time after some seconds, so that short jobs stay quiet."""
        if self._next_ms is None:
            self._next_ms = now_ms + PLAIN_EVERY_MS
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + PLAIN_EVERY_MS
            _write(self._stream, text_lines(details, lines))

    def close(self) -> None:
        """Do nothing: plain lines stay."""


class LiveView:
    """Lines that are drawn over the former ones; needs rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        console = Console(file=stream)
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            vertical_overflow="crop",
            redirect_stdout=sys.stdout.isatty(),  # what the program prints stands above; a file is left alone
        )
        self._live.start()

    def draw(self, details: Mapping[str, Any], lines: list[ProgressLine], now_ms: int) -> None:
        """Draw over what was drawn before."""
        self._live.update(self._text("\n".join(text_lines(details, lines)), no_wrap=True), refresh=True)

    def close(self) -> None:
        """Remove the lines."""
        self._live.stop()


def _write(stream: TextIO, lines: list[str]) -> None:
    stream.write("\n".join(lines) + "\n")
    stream.flush()


class JobProgress:
    """Shows a job, from its start to its end; a context manager around ``job.run()``.

    Parameters
    ----------
    job : RunningJob
        Or what else has ``details()``.
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
        job: Any,
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
        self._progress = Progress()
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
            self._draw_end()
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
        details = self._job.details()
        if details.get("vertices"):
            now_ms = self._now_ms()
            view.draw(details, self._progress.lines(details, now_ms), now_ms)

    def _draw_end(self) -> None:
        details = self._job.details()
        if any(vertex["status"] != "CREATED" for vertex in details.get("vertices", ())):  # else it was refused
            _write(self._stream, text_lines(details, final_lines(details)))


def _live_view(stream: TextIO) -> View:
    try:
        return LiveView(stream)
    except ImportError:
        return PlainView(stream)
