"""The event loop of an async operator: uvloop where it is installed and pays, else asyncio's with a finer clock."""

from __future__ import annotations

import asyncio
import select
import selectors
from typing import Any

_FINE_SECONDS = 0.05  # waits up to here are ended to the microsecond


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


def new_event_loop(kind: str = "auto", *, has_sockets: bool = True) -> asyncio.AbstractEventLoop:
    """Make an event loop that nobody else uses.

    Parameters
    ----------
    kind : {"auto", "asyncio", "uvloop"}
        ``"auto"``: uvloop if it is installed and `has_sockets`.
    has_sockets : bool, default True
        Whether calls are expected to talk over sockets. The operator enters the loop for every handful of results:
        that costs uvloop some 40 µs and asyncio 5, which sockets win back and calls that never wait do not.
    """
    if kind == "uvloop" or (kind == "auto" and has_sockets):
        try:
            import uvloop
        except ImportError:
            if kind == "uvloop":
                raise
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    elif kind not in ("auto", "asyncio"):
        raise ValueError(f"event_loop must be 'auto', 'asyncio' or 'uvloop', got {kind!r}")
    if hasattr(selectors, "EpollSelector"):
        return asyncio.SelectorEventLoop(FineSelector())
    return asyncio.new_event_loop()


def close_event_loop(loop: asyncio.AbstractEventLoop, timeout: float) -> int:
    """End all that still runs on a stopped loop and close it; returns how many tasks had to be left behind.

    Parameters
    ----------
    timeout : float
        Seconds that tasks may take to end after they are cancelled.
    """
    pending: set[asyncio.Task[Any]] = asyncio.all_tasks(loop)
    left = 0
    try:
        for task in pending:
            task.cancel()
        if pending:
            left = len(loop.run_until_complete(_ended_within(pending, timeout)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(_ended_within({loop.create_task(loop.shutdown_default_executor())}, timeout))
    finally:
        loop.close()
    return left


async def _ended_within(tasks: set[asyncio.Task[Any]], timeout: float) -> set[asyncio.Task[Any]]:
    done, left = await asyncio.wait(tasks, timeout=timeout)
    for task in done:
        if not task.cancelled():
            task.exception()  # looked at: asyncio would else complain that nobody did
    return left
