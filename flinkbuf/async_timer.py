"""Timers of an async operator: one heap behind one handle of the loop, and a limit on calls per second."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable


class Timers:
    """Runs functions at times of the loop's clock; however many wait, the loop sees one.

    A timer is not taken back: its function looks whether it is still wanted.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_error: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._on_error = on_error
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0  # equal times run in the order in which they were set
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, function: Callable[[], None]) -> None:
        """Run `function` at `when`, in seconds of ``loop.time()``."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, function))
        if self._heap[0][1] == self._count:
            self._arm()

    def close(self) -> None:
        """Run nothing any more."""
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(self._heap[0][0], self._fire) if self._heap else None

    def _fire(self) -> None:
        self._handle = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            function = heapq.heappop(self._heap)[2]
            try:
                function()
            except Exception as error:
                self._on_error(error)  # the loop would only log it
        if self._handle is None:
            self._arm()


class RateLimiter:
    """Spaces calls evenly: so many per second, and after a pause no more at once than fit in 50 ms.

    Examples
    --------
    >>> limiter = RateLimiter(10)
    >>> [round(limiter.reserve(now), 2) for now in (5.0, 5.0, 5.1)]
    [0.0, 0.1, 0.0]
    """

    _SLACK_SECONDS = 0.05  # timers are late by less; what they are late is made up

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next = float("-inf")

    def reserve(self, now: float) -> float:
        """Take the right to call now and return 0, or return the seconds until there is one."""
        if self._next > now + 1e-9:
            return self._next - now
        # What timers are late is made up for; after a longer pause the spacing starts anew.
        start = now if now - self._next > self._SLACK_SECONDS else self._next
        self._next = start + self._interval
        return 0.0
