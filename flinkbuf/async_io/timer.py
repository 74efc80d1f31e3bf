"""Time in an async operator: timers in one heap, timeouts behind one timer, and a limit on calls per second."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from time import monotonic
from typing import Any

_STALL_SECONDS = 0.05  # after so long a standstill of the loop, answers that wait are read before timeouts count


class Timers:
    """Runs functions at their times; however many wait, the loop sees one.

    A timer cannot be cancelled: its function has to look whether it is still wanted. Times are those of
    ``time.monotonic()``: the clock of uvloop counts whole milliseconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_error: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._on_error = on_error
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0  # equal times run in the order in which they were set
        self._handle: asyncio.TimerHandle | None = None
        # Asked for less than a millisecond, uvloop does not wait at all.
        self._shortest = 0.0 if isinstance(loop, asyncio.BaseEventLoop) else 0.001

    def __len__(self) -> int:
        return len(self._heap)

    def soon(self, function: Callable[[], None]) -> None:
        """Run `function` when what runs now has ended."""
        self._loop.call_soon(self._run, function)

    def at(self, when: float, function: Callable[[], None]) -> None:
        """Run `function` at `when`."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, function))
        if self._heap[0][1] == self._count:
            self._arm()

    def close(self) -> None:
        """Drop all timers that have not run."""
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self.later(self._heap[0][0], self._fire) if self._heap else None

    def later(self, when: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Have the loop itself call `function` at `when`, or a little earlier; returns the handle that cancels it."""
        delay = when - monotonic()
        return self._loop.call_later(0.0 if delay <= 0 else max(delay, self._shortest), function)

    def _fire(self) -> None:
        self._handle = None
        now = monotonic()
        while self._heap and self._heap[0][0] <= now:
            self._run(heapq.heappop(self._heap)[2])
        if self._handle is None:
            self._arm()

    def _run(self, function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            self._on_error(error)  # the loop would only log it


class Timeouts:
    """Finds what has been running for longer than the timeout.

    The timeout is the same for all, so what began first runs out first, and one timer of the loop serves all.

    Parameters
    ----------
    timers : Timers
        Those of the operator.
    seconds : float or None
        How long is too long.
    on_timeout : callable
        Given each of `running` whose time ran out, after it was taken out of there.

    Attributes
    ----------
    running : dict
        What runs, by the time of its beginning; whoever knows of its end takes it out.
    """

    def __init__(self, timers: Timers, seconds: float | None, on_timeout: Callable[[Any], None]) -> None:
        self.running: dict[Any, None] = {}
        self._timers, self._seconds, self._on_timeout = timers, seconds, on_timeout
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the handle should run
        self._grace_until = 0.0  # no timeout counts before: the loop stood still

    def begin(self, work: Any) -> None:
        """Note that `work` begins now, as its `submitted`."""
        work.submitted = now = monotonic()
        self.running[work] = None
        if self._handle is None and self._seconds is not None:
            self._wait_until(now + self._seconds)

    def close(self) -> None:
        """Stop looking; nothing times out any more."""
        if self._handle is not None:
            self._handle.cancel()

    def _wait_until(self, due: float) -> None:
        self._due = due
        self._handle = self._timers.later(due, self._look)

    def _look(self) -> None:
        now, seconds = monotonic(), self._seconds
        assert seconds is not None
        self._handle = None
        if now - self._due > _STALL_SECONDS:
            self._grace_until = now + 2 * _STALL_SECONDS
        overdue = []
        for work in self.running:
            due = max(work.submitted + seconds, self._grace_until)
            if due > now:
                self._wait_until(due)
                break
            overdue.append(work)
        for work in overdue:
            if work in self.running:  # what was done for another one may have ended it
                del self.running[work]
                self._on_timeout(work)


class RateLimiter:
    """Spaces calls evenly: so many per second, and after a pause no more at once than fit in 50 ms.

    Examples
    --------
    >>> limiter = RateLimiter(10)
    >>> [round(limiter.reserve(now), 2) for now in (5.0, 5.0, 5.1)]
    [0.0, 0.1, 0.0]
    """

    _SLACK_SECONDS = 0.05  # timers run late by less than this

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next = float("-inf")

    def reserve(self, now: float) -> float:
        """Take the right to call now and return 0, or return the seconds until there is one."""
        if self._next > now + 1e-9:
            return self._next - now
        # A timer that ran a little late is made up for by the next call; after a longer pause the spacing starts anew.
        start = now if now - self._next > self._SLACK_SECONDS else self._next
        self._next = start + self._interval
        return 0.0
