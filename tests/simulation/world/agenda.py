"""Virtual time: what is to happen, earliest first. Time jumps to it."""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any


class Agenda:
    """A heap of calls. Two at the same time happen in the order in which they were planned."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.step_count = 0
        self._calls: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call; a time that has passed means now."""
        self._number += 1
        heapq.heappush(self._calls, (max(time_ms, self.now_ms), self._number, call, arguments))

    def after(self, delay_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call that many milliseconds from now."""
        self.at(self.now_ms + delay_ms, call, *arguments)

    @property
    def next_ms(self) -> int | None:
        """When the next call is due."""
        return self._calls[0][0] if self._calls else None

    def step(self) -> bool:
        """Make the next call; False: there is none."""
        if not self._calls:
            return False
        self.now_ms, _, call, arguments = heapq.heappop(self._calls)
        self.step_count += 1
        call(*arguments)
        return True


class Inbox:
    """What waits for one thread, in order; the thread takes one thing after the other, unless it is held up."""

    def __init__(self, agenda: Agenda, handle: Callable[[Any], None]) -> None:
        self._agenda = agenda
        self._handle = handle
        self._items: deque[Any] = deque()
        self._last: Any = None  # taken when nothing else waits
        self._is_planned = False
        self._free_at_ms = 0
        self._is_busy = False
        self.is_closed = False

    def put(self, item: Any) -> None:
        """Behind all others."""
        self._items.append(item)
        self._plan()

    def put_last(self, item: Any) -> None:
        """Only when nothing else waits."""
        self._last = item
        self._plan()

    def hold_up(self, delay_ms: int) -> None:
        """The thread takes nothing for so long: user code holds the interpreter, or the process was stopped."""
        self._free_at_ms = max(self._free_at_ms, self._agenda.now_ms + delay_ms)

    def begin(self) -> None:
        """The thread has not come back from what it took."""
        self._is_busy = True

    def end(self) -> None:
        """It has."""
        self._is_busy = False
        self._plan()

    @property
    def is_held_up(self) -> bool:
        """Whether the thread does not come to take anything."""
        return self._agenda.now_ms < self._free_at_ms

    def _plan(self) -> None:
        if (self._items or self._last is not None) and not self._is_planned and not self._is_busy:
            self._is_planned = True
            self._agenda.at(self._free_at_ms, self._take)

    def _take(self) -> None:
        self._is_planned = False
        if self.is_closed:
            self._items.clear()
            self._last = None
        elif not self.is_held_up and not self._is_busy:
            self._handle(self._next())
        self._plan()

    def _next(self) -> Any:
        if self._items:
            return self._items.popleft()
        item, self._last = self._last, None
        return item
