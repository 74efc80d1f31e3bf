"""What a source with ``run(context)`` emits into, and what becomes of it: timestamps, watermarks, idleness.

The decisions are taken on the task's thread and read no clock but the one they are given. Flink: StreamSourceContexts.
"""

from __future__ import annotations

from enum import Enum

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP, Output
from flinkbuf.streaming.time.processing_time import ProcessingTimeService, TimerHandle


class TimeCharacteristic(Enum):
    """Which time a source with ``run(context)`` gives its records. Flink: TimeCharacteristic."""

    PROCESSING_TIME = "ProcessingTime"
    """None: timestamps and watermarks of the source are dropped."""
    INGESTION_TIME = "IngestionTime"
    """That of the clock; watermarks follow by themselves."""
    EVENT_TIME = "EventTime"
    """What the source says."""


class NonTimestampContext:
    """Records without timestamps, and no watermarks."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def collect(self, value: object) -> None:
        """Emit a record."""
        self._output.collect(value, NO_TIMESTAMP)

    def collect_with_timestamp(self, value: object, timestamp: int) -> None:
        """Emit a record; its timestamp is dropped."""
        self._output.collect(value, NO_TIMESTAMP)

    def emit_watermark(self, timestamp: int) -> None:
        """Do nothing: there is no event time."""

    def mark_as_temporarily_idle(self) -> None:
        """Do nothing: no operator waits for watermarks."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


class ManualWatermarkContext:
    """Timestamps and watermarks are those of the source; what it emits after a pause makes it active again."""

    def __init__(self, output: Output, is_batch: bool = False) -> None:
        self._output = output
        self._is_batch = is_batch  # no operator needs a watermark before the last
        self._is_idle = False
        self._is_at_end = False

    def collect(self, value: object) -> None:
        """Emit a record without a timestamp."""
        self._be_active()
        self._output.collect(value, NO_TIMESTAMP)

    def collect_with_timestamp(self, value: object, timestamp: int) -> None:
        """Emit a record."""
        self._be_active()
        self._output.collect(value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark: no record with a timestamp up to this one follows."""
        if self._is_at_end or (self._is_batch and timestamp != MAX_WATERMARK):
            return
        self._is_at_end = timestamp == MAX_WATERMARK
        self._be_active()
        self._output.emit_watermark(timestamp)

    def mark_as_temporarily_idle(self) -> None:
        """Let others not wait for this source until it emits again."""
        if not self._is_idle and not self._is_batch:
            self._is_idle = True
            self._output.emit_watermark_status(True)

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _be_active(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self._output.emit_watermark_status(False)


class AutomaticWatermarkContext:
    """Records are stamped with the time at which they come in; a watermark follows at each interval of that time.

    Parameters
    ----------
    output : Output
    time : ProcessingTimeService
        The clock, and timers for watermarks while no records come.
    interval_ms : int
        pipeline.auto-watermark-interval.
    is_batch : bool
        There is no watermark but the last, and no source is idle.
    """

    def __init__(self, output: Output, time: ProcessingTimeService, interval_ms: int, is_batch: bool = False) -> None:
        if interval_ms < 1:
            raise ValueError(
                f"ingestion time needs a pipeline.auto-watermark-interval of at least 1 ms, got {interval_ms}"
            )
        self._output = output
        self._time = time
        self._interval_ms = interval_ms
        self._next_watermark = MAX_WATERMARK if is_batch else NO_TIMESTAMP
        self._is_batch = is_batch
        self._is_idle = False
        self._is_at_end = False
        self._timer: TimerHandle = time.register_timer(time.now_ms() + interval_ms, self._on_timer)

    def collect(self, value: object) -> None:
        """Emit a record with the time that it is now."""
        self._be_active()
        now_ms = self._time.now_ms()
        self._output.collect(value, now_ms)
        # At an interval's first record at once: the timer may come late.
        if now_ms > self._next_watermark:
            self._emit(now_ms)

    def collect_with_timestamp(self, value: object, timestamp: int) -> None:
        """Emit a record; the time that it is now replaces its timestamp."""
        self.collect(value)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit the last watermark only: the source's others are replaced."""
        if timestamp == MAX_WATERMARK and not self._is_at_end:
            self._is_at_end = True
            self._timer.cancel()
            self._be_active()
            self._output.emit_watermark(timestamp)

    def mark_as_temporarily_idle(self) -> None:
        """Let others not wait for this source until it emits again."""
        if not self._is_idle and not self._is_batch:
            self._is_idle = True
            self._output.emit_watermark_status(True)

    def close(self) -> None:
        """Emit no more watermarks."""
        self._timer.cancel()

    def _on_timer(self, timestamp_ms: int) -> None:
        now_ms = self._time.now_ms()
        if not self._is_idle and not self._is_at_end and now_ms > self._next_watermark:
            self._emit(now_ms)
        self._timer = self._time.register_timer(now_ms + self._interval_ms, self._on_timer)

    def _emit(self, now_ms: int) -> None:
        if self._is_at_end:
            return
        # One below the interval's beginning: a record of this very millisecond may still come.
        watermark = now_ms - now_ms % self._interval_ms - 1
        self._next_watermark = watermark + 1 + self._interval_ms
        self._output.emit_watermark(watermark)

    def _be_active(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self._output.emit_watermark_status(False)


def source_context(
    characteristic: TimeCharacteristic,
    output: Output,
    time: ProcessingTimeService,
    interval_ms: int,
    is_batch: bool = False,
) -> NonTimestampContext | AutomaticWatermarkContext | ManualWatermarkContext:
    """Make the context of one source."""
    if characteristic is TimeCharacteristic.PROCESSING_TIME:
        return NonTimestampContext(output)
    if characteristic is TimeCharacteristic.INGESTION_TIME:
        return AutomaticWatermarkContext(output, time, interval_ms, is_batch)
    return ManualWatermarkContext(output, is_batch)
