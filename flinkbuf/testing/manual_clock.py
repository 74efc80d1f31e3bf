"""A clock that stands still until it is set; and what an operator sees of it."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable


class ManualClock:
    """Processing time that a test sets.

    Also what an operator registers its processing-time timers with; they are called by `advance_to`, in the order of
    their times, once the clock has passed them.

    Parameters
    ----------
    now_ms : int, default 0
        Where it begins.

    Examples
    --------
    >>> clock, fired = ManualClock(), []
    >>> _ = clock.register_timer(5, fired.append)
    >>> clock.advance_to(5); print(fired)
    []
    >>> clock.advance_to(6); print(fired)
    [5]

    References
    ----------
    Flink ``TestProcessingTimeService``.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._order = itertools.count()
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._lock = threading.Lock()
        self._subscribers: list[Callable[[], object]] = []

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return self._now_ms

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], object]) -> ManualTimer:
        """Have ``callback(timestamp_ms)`` called once the clock has passed `timestamp_ms`."""
        timer = ManualTimer(timestamp_ms, callback)
        heapq.heappush(self._timers, (timestamp_ms, next(self._order), timer))
        return timer

    def advance_to(self, now_ms: int) -> None:
        """Set the time and call what is due; a clock never goes back."""
        if now_ms < self._now_ms:
            raise ValueError(f"a clock never goes back: it is {self._now_ms}, got {now_ms}")
        self._now_ms = now_ms
        while self._timers and self._timers[0][0] < now_ms:
            _, _, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                timer.callback(timer.timestamp_ms)
        with self._lock:
            subscribers = list(self._subscribers)
        for tell in subscribers:
            tell()

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have ``callback()`` called after each move, as running tasks do; returns what ends that. From any thread."""
        with self._lock:
            self._subscribers.append(callback)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.remove(callback)

        return unsubscribe

    @property
    def timer_count(self) -> int:
        """How many timers wait."""
        return sum(not timer.is_cancelled for _, _, timer in self._timers)


class ManualTimer:
    """A callback that waits."""

    def __init__(self, timestamp_ms: int, callback: Callable[[int], object]) -> None:
        self.timestamp_ms = timestamp_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not call it any more."""
        self.is_cancelled = True
