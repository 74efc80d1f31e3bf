"""The event loop of an async operator, on a thread of its own: calls go on while the task is busy elsewhere."""

from __future__ import annotations

import asyncio
import concurrent.futures
import linecache
import os
import select
import selectors
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from types import CodeType, FrameType
from typing import TypeVar

from flinkbuf.log import logger

T = TypeVar("T")


_FINE_SECONDS = 0.05  # waits up to here are ended to the microsecond
BLOCKED_SECONDS = 0.25  # a coroutine that stands at one place for so long, without giving way, is told of
_OF_LOOP = (  # whose frames are not the user's
    os.path.join(os.path.dirname(asyncio.__file__), ""),
    threading.__file__,
    selectors.__file__,
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""),
    "flinkbuf/_core/",
)


if hasattr(selectors, "EpollSelector"):

    class FineSelector(selectors.EpollSelector):
        """Epoll that ends short waits on time; asyncio's own rounds each one up to a whole millisecond."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """Wait for events for at most `timeout` seconds, as selectors.BaseSelector does."""
            if timeout is not None and 0 < timeout < _FINE_SECONDS:
                descriptor = self.fileno()
                if descriptor < 1024:  # more select() cannot name
                    # An epoll descriptor is readable when it has events, and select() counts in microseconds.
                    select.select([descriptor], [], [], timeout)
                    timeout = 0
            return super().select(timeout)


class LoopThread:
    """An event loop and the thread that runs it until it is closed.

    Parameters
    ----------
    kind : {"auto", "asyncio", "uvloop"}
        As for `new_event_loop`.
    on_interrupt : callable
        Told of a KeyboardInterrupt or SystemExit that came out of the loop, which goes on.

    Notes
    -----
    Threads: the methods are for the one that made it; `loop` belongs to the new one.
    """

    def __init__(self, kind: str, on_interrupt: Callable[[BaseException], None]) -> None:
        self.loop = new_event_loop(kind)
        self.left_count = 0  # tasks that did not end when they were cancelled; known after `close`
        self._on_interrupt = on_interrupt
        self._is_closing = False
        self._finishing: asyncio.Task[None] | None = None
        self._close_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="flinkbuf-async-loop", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.loop.close()
            raise

    def run(self, coroutine: Coroutine[object, object, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for what it returns.

        Raises
        ------
        LoopTimeoutError
            If it takes longer than `timeout` seconds; it is cancelled then.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            concurrent.futures.wait([future], timeout)
            if not future.done():
                raise LoopTimeoutError(f"not done within {timeout:g} s; the loop is at {self.where()}")
            return future.result()
        finally:
            future.cancel()  # if the wait was interrupted

    def where(self) -> str:
        """Tell what the thread is doing: of use if it should have answered."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        if frame is None:
            return "its end"
        innermost = traceback.extract_stack(frame, limit=3)
        return " → ".join(f"{each.filename}:{each.lineno} in {each.name}" for each in innermost)

    def user_frame(self) -> FrameType | None:
        """Return the frame of the user's function that the thread is in; None if it is in none, as when it waits."""
        frame, found = sys._current_frames().get(self._thread.ident or 0), None
        while frame is not None:
            if not frame.f_code.co_filename.startswith(_OF_LOOP):
                found = frame  # the outermost: what it calls may be anybody's
            frame = frame.f_back
        return found

    @property
    def is_current(self) -> bool:
        """Whether this is the thread itself, which cannot wait for what it has to do."""
        return threading.current_thread() is self._thread

    def close_after(self, coroutine: Coroutine[object, object, object], timeout: float) -> None:
        """Run a coroutine and then close, without waiting for either; for the thread itself."""

        async def finish() -> None:
            try:
                await coroutine
            finally:
                self._is_closing, self._close_seconds = True, timeout
                self.loop.stop()

        self._finishing = self.loop.create_task(finish())

    def close(self, timeout: float) -> bool:
        """End all that still runs on the loop, and the thread; False if that takes longer than `timeout` seconds."""
        self._is_closing, self._close_seconds = True, timeout
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout + 0.5)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_closing:
            try:
                self.loop.run_forever()
            except BaseException as error:
                self._on_interrupt(error)
        self.left_count = close_event_loop(self.loop, self._close_seconds)


class BlockedWatch:
    """Finds out that a coroutine blocks the loop: others do not go on meanwhile, and no timeout acts.

    Parameters
    ----------
    thread : LoopThread
    name : str, optional
        The function's, as messages have it; by default that of the function that is found to block, as where a loop
        has the calls of several.
    instead : str
        What there is to do but to await.

    Attributes
    ----------
    is_over : bool
        It has said so, once.
    """

    def __init__(
        self,
        thread: LoopThread,
        name: str | None = None,
        instead: str = "make it a plain function (def), which runs on threads",
    ) -> None:
        self.is_over = False
        self._thread, self._name, self._instead = thread, name, instead
        self._place: tuple[CodeType, int] | None = None
        self._since = 0.0

    def look(self) -> None:
        """Look where the thread is; called now and then while no result comes."""
        frame, now = self._thread.user_frame(), time.monotonic()
        place = None if frame is None else (frame.f_code, frame.f_lasti)  # also of one call after the other
        if place is None or place != self._place:
            self._place, self._since = place, now
        elif now - self._since >= BLOCKED_SECONDS and frame is not None:
            self.is_over = True
            code = frame.f_code
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            logger.warning(
                "async: %s blocks the event loop, for %.2g s now, at %s:%d in %s: %s; no other call goes on meanwhile "
                "and no timeout acts. Await instead (asyncio.sleep, an async client), or %s",
                self._name or getattr(code, "co_qualname", code.co_name),  # it has the class from Python 3.11 on
                now - self._since,
                code.co_filename,
                frame.f_lineno,
                code.co_name,
                line or "(no source)",
                self._instead,
            )


class LoopTimeoutError(Exception):
    """The thread of the loop did not answer in time."""


def new_event_loop(kind: str = "auto") -> asyncio.AbstractEventLoop:
    """Make an event loop that nobody else uses.

    Parameters
    ----------
    kind : {"auto", "asyncio", "uvloop"}
        ``"auto"``: uvloop if it is installed.
    """
    if kind in ("auto", "uvloop"):
        try:
            import uvloop
        except ImportError:
            if kind == "uvloop":
                raise
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    elif kind != "asyncio":
        raise ValueError(f"event_loop must be 'auto', 'asyncio' or 'uvloop', got {kind!r}")
    if hasattr(selectors, "EpollSelector"):
        return asyncio.SelectorEventLoop(FineSelector())
    return asyncio.new_event_loop()


def close_event_loop(loop: asyncio.AbstractEventLoop, timeout: float) -> int:
    """End all that still runs on a stopped loop and close it; returns how many tasks had to be left behind.

    Parameters
    ----------
    timeout : float
        Seconds that tasks, asynchronous generators and the threads of ``asyncio.to_thread`` may take together.
    """
    until = time.monotonic() + timeout
    left: set[asyncio.Task[object]] = set()
    try:
        while pending := asyncio.all_tasks(loop) - left:  # a task may leave another one behind
            for task in pending:
                task.cancel()
            left |= loop.run_until_complete(_not_ended(pending, until))
        for shut_down in (loop.shutdown_asyncgens, loop.shutdown_default_executor):
            left |= loop.run_until_complete(_not_ended({loop.create_task(shut_down())}, until))
    finally:
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # told by whoever closes the loop
        loop.close()
    return len(left)


async def _not_ended(tasks: set[asyncio.Task[object]], until: float) -> set[asyncio.Task[object]]:
    """Wait for tasks; return those that still run at `until`, in seconds of ``time.monotonic()``."""
    done, left = await asyncio.wait(tasks, timeout=max(0.01, until - time.monotonic()))
    for task in done:
        if not task.cancelled():
            task.exception()  # looked at: asyncio would else complain that nobody did
    return left
