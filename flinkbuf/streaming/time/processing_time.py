"""Timers of a task by processing time, without a thread: the mailbox loop polls them before it sleeps.

`TimerQueue` decides; `TaskTimerService` asks the clock and posts mails; `OperatorTimerService` is what one operator is
given. Flink: SystemProcessingTimeService, ProcessingTimeServiceImpl.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, Protocol

from flinkbuf._core.task.task_mailbox import Mail, TaskMailbox
from flinkbuf.streaming.time.clock import Clock, SystemClock


class TimerHandle(Protocol):
    """A registered callback."""

    def cancel(self) -> None:
        """Do not call it any more; nothing happens if it was called."""
        ...


class ProcessingTimeService(Protocol):
    """Calls back on the task's thread when its clock has passed a time. Flink: ProcessingTimeService."""

    def now_ms(self) -> int:
        """Return the clock's time."""
        ...

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], object]) -> TimerHandle:
        """Call ``callback(timestamp_ms)`` as a mail once the clock is past `timestamp_ms` (one millisecond later)."""
        ...


class Timer:
    """One registered callback; ordered by when it is due, then by when it was registered."""

    __slots__ = ("callback", "due_ms", "is_over", "number", "mail_priority", "timestamp_ms")

    def __init__(
        self, timestamp_ms: int, due_ms: int, number: int, callback: Callable[[int], object], mail_priority: int
    ):
        self.timestamp_ms = timestamp_ms
        self.due_ms = due_ms
        self.number = number
        self.callback = callback
        self.mail_priority = mail_priority
        self.is_over = False  # called or cancelled

    def __lt__(self, other: Timer) -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)

    def cancel(self) -> None:
        """Do not call it; nothing happens if it was called."""
        self.is_over = True


class TimerQueue:
    """Which timers are due. Reads no clock.

    Examples
    --------
    >>> queue = TimerQueue()
    >>> _ = queue.register(10, now_ms=3, callback=print)
    >>> queue.next_due_ms  # the millisecond 10 is to be over
    11
    >>> [timer.timestamp_ms for timer in queue.pop_due(11)]
    [10]
    """

    def __init__(self) -> None:
        self._timers: list[Timer] = []
        self._numbers = itertools.count()

    def register(self, timestamp_ms: int, now_ms: int, callback: Callable[[int], Any], mail_priority: int = 0) -> Timer:
        """Add a timer: due one millisecond after its time, so that all of that time is over; at once if it is past."""
        due_ms = timestamp_ms + 1 if timestamp_ms >= now_ms else now_ms
        timer = Timer(timestamp_ms, due_ms, next(self._numbers), callback, mail_priority)
        heapq.heappush(self._timers, timer)
        return timer

    def pop_due(self, now_ms: int) -> list[Timer]:
        """Take out what is due, in order; what was cancelled is not given."""
        due = []
        while self._timers and (self._timers[0].is_over or self._timers[0].due_ms <= now_ms):
            timer = heapq.heappop(self._timers)
            if not timer.is_over:
                due.append(timer)
        return due

    @property
    def next_due_ms(self) -> int | None:
        """When the next timer is due; None: there is none."""
        while self._timers and self._timers[0].is_over:
            heapq.heappop(self._timers)
        return self._timers[0].due_ms if self._timers else None

    def clear(self) -> None:
        """Forget all timers."""
        self._timers.clear()


class TaskTimerService:
    """The timers of a task, for its thread: `post_due` turns what is due into mails."""

    def __init__(self, clock: Clock, mailbox: TaskMailbox) -> None:
        self._clock = clock
        self._mailbox = mailbox
        self._queue = TimerQueue()
        self.is_quiesced = False

    @property
    def is_of_machine(self) -> bool:
        """Return whether the time goes on by itself: that of a test may stand still until it is set."""
        return isinstance(self._clock, SystemClock)

    def now_ms(self) -> int:
        """Return the clock's time."""
        return self._clock.now_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], object], mail_priority: int = 0) -> Timer:
        """Call ``callback(timestamp_ms)`` as a mail once the clock is past `timestamp_ms`. Never after `quiesce`."""
        now_ms = self._clock.now_ms()
        if self.is_quiesced:
            return Timer(timestamp_ms, timestamp_ms, 0, callback, mail_priority)
        return self._queue.register(timestamp_ms, now_ms, callback, mail_priority)

    def post_due(self) -> int | None:
        """Post a mail for each timer that is due; returns the milliseconds until the next one, None without any."""
        next_due_ms = self._queue.next_due_ms
        if next_due_ms is None:
            return None
        now_ms = self._clock.now_ms()
        if next_due_ms <= now_ms:
            for timer in self._queue.pop_due(now_ms):
                self._post(timer)
            next_due_ms = self._queue.next_due_ms
        return None if next_due_ms is None else next_due_ms - now_ms

    def _post(self, timer: Timer) -> None:
        def fire() -> None:
            if not timer.is_over and not self.is_quiesced:
                timer.is_over = True
                timer.callback(timer.timestamp_ms)

        self._mailbox.put(Mail(fire, timer.mail_priority, f"timer at {timer.timestamp_ms}"))

    def quiesce(self) -> None:
        """Call no timer any more: neither those that wait nor those that come."""
        self.is_quiesced = True
        self._queue.clear()


class OperatorTimerService:
    """The processing time of one operator; it ends before the operator is finished, while others go on.

    Parameters
    ----------
    service : TaskTimerService
    mail_priority : int
        The operator's place in the chain: its timers are its mails.
    locate : callable, optional
        Called with an error that one of its timers has raised, before it goes on.
    """

    def __init__(
        self, service: TaskTimerService, mail_priority: int, locate: Callable[[BaseException], None] | None = None
    ) -> None:
        self._service = service
        self._priority = mail_priority
        self._locate = locate
        self._is_quiesced = False

    def now_ms(self) -> int:
        """Return the clock's time."""
        return self._service.now_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], object]) -> Timer:
        """Call ``callback(timestamp_ms)`` as a mail of the operator once the clock is past `timestamp_ms`."""

        def fire(timestamp_ms: int) -> None:
            if self._is_quiesced:
                return
            try:
                callback(timestamp_ms)
            except BaseException as error:
                if self._locate is not None:
                    self._locate(error)
                raise

        timer = self._service.register_timer(timestamp_ms, fire, self._priority)
        if self._is_quiesced:
            timer.cancel()
        return timer

    def quiesce(self) -> None:
        """Call no timer of this operator any more."""
        self._is_quiesced = True
