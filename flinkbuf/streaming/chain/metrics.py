"""What a task tells about itself: plain numbers that any thread reads.

Flink: TaskIOMetricGroup, TimerGauge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BUSY, IDLE, BACK_PRESSURED = 0, 1, 2
NS_PER_MS = 1_000_000


class TaskTimes:
    """How long a task was busy, had nothing to do, or could not give on what it had made.

    Parameters
    ----------
    ticks : callable
        Nanoseconds of a clock that never jumps.

    Examples
    --------
    >>> ticks = iter([0, 5_000_000, 7_000_000]).__next__
    >>> times = TaskTimes(ticks)
    >>> times.enter(IDLE)
    0
    >>> times.total_ms(IDLE)
    2
    """

    def __init__(self, ticks: Callable[[], int]) -> None:
        self.ticks = ticks
        self._totals = [0, 0, 0]
        self._state = BUSY
        self._since = ticks()

    def enter(self, state: int) -> int:
        """Change the state that the task is in from now on; return the one before."""
        now = self.ticks()
        before = self._state
        self._totals[before] += now - self._since
        self._state, self._since = state, now
        return before

    def total_ms(self, state: int) -> int:
        """Return the milliseconds spent in a state so far, the present ones included."""
        total = self._totals[state]
        if self._state == state:
            total += self.ticks() - self._since
        return total // NS_PER_MS


@dataclass(frozen=True)
class TaskMetrics:
    """A task's numbers at one moment. Times are cumulative milliseconds.

    Attributes
    ----------
    rows_in, rows_out : int
        Of the records that are batches of columns; 0: none is.
    watermark : int or None
        How far event time has come: the lowest of what its inputs gave it, or what its source has sent.
    queued_in, queued_out : int
        Buffers that wait to be read by it, and by those behind it.
    credit_in : int
        Buffers that wait for what other processes may send it.
    in_pool_usage, out_pool_usage : float
        From 0 to 1, which share of the buffers for what it reads from other processes, and for what it writes, is in
        use.
    alignment_ms, start_delay_ms : int
        Of its last checkpoint: how long it waited for the last barrier after the first, and for the first.
    operators : tuple of dict
        Records, watermarks and the user's own metrics of each operator, head first.
    """

    records_in: int = 0
    records_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    busy_ms: int = 0
    idle_ms: int = 0
    back_pressured_ms: int = 0
    mailbox_queue_size: int = 0
    mails_processed: int = 0
    mailbox_latency_ms: float = 0.0
    watermark: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    buffers_in: int = 0
    buffers_out: int = 0
    queued_in: int = 0
    queued_out: int = 0
    credit_in: int = 0
    in_pool_usage: float = 0.0
    out_pool_usage: float = 0.0
    soft_back_pressured_ms: int = 0
    hard_back_pressured_ms: int = 0
    alignment_ms: int = 0
    start_delay_ms: int = 0
    operators: tuple[dict[str, object], ...] = ()
