"""The outputs that a `SourceReader` emits into, with or without timestamps and watermarks of the stream's own.

Flink: TimestampsAndWatermarks, ProgressiveTimestampsAndWatermarks, NoOpTimestampsAndWatermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flinkbuf._core.operators.source_operator import ReaderOutput, SourceTurn, WatermarkingOutput
from flinkbuf._core.operators.stream_operator import Output
from flinkbuf._core.operators.watermark_generator import NoWatermarksGenerator
from flinkbuf._core.record.plain_function import quickened
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.watermark_multiplexer import SourceWatermarks, WatermarkMultiplexer
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from flinkbuf._core.operators.watermark_generator import WatermarkGenerator
    from flinkbuf.streaming.time.watermark_multiplexer import SplitWatermarks

MAIN_OUTPUT = ""  # the reader's own output, for records of no split


class EventTime:
    """Timestamps and watermarks of one source operator.

    Parameters
    ----------
    strategy : WatermarkStrategy
    output : Output
        The operator's.
    clock : Clock
        For splits that become idle.
    on_change : callable
        Called after each watermark or status that was emitted.
    """

    def __init__(
        self, strategy: WatermarkStrategy, output: Output, clock: Clock, on_change: Callable[[], None]
    ) -> None:
        self._strategy = strategy
        self._output = output
        self._clock = clock
        self.watermarks = SourceWatermarks(output, on_change)
        self.multiplexer = WatermarkMultiplexer(self.watermarks)
        self._generators: dict[str, tuple[WatermarkGenerator, SplitWatermarks]] = {}
        self._bare_since_ms: int | None = None  # since when it has no split

    def create_output(self, split_id: str, turn: SourceTurn) -> WatermarkingOutput:
        """Make the output of a split, with a generator of its own."""
        split_watermarks = self.multiplexer.register(split_id)
        generator = self._strategy.create_watermark_generator(self._clock)
        self._generators[split_id] = (generator, split_watermarks)
        assigner = self._strategy.create_timestamp_assigner()
        extract = None if assigner is None else quickened(assigner.extract_timestamp, 2)
        return WatermarkingOutput(self._output, turn, extract, generator, split_watermarks)

    def release_output(self, split_id: str) -> None:
        """Drop the generator of a split that has ended."""
        self._generators.pop(split_id, None)
        self.multiplexer.unregister(split_id)

    def emit_periodically(self) -> None:
        """Let all generators emit their watermarks; called every pipeline.auto-watermark-interval."""
        self.multiplexer.update_together(self._ask_generators)
        self._check_without_splits()

    def _check_without_splits(self) -> None:
        """A reader that was given no split, or has read all of its own, is idle as one is whose splits are."""
        timeout_ms = self._strategy.idle_timeout_ms
        if self._generators or timeout_ms is None:
            self._bare_since_ms = None
        elif self._bare_since_ms is None:
            self._bare_since_ms = self._clock.now_ms()
        elif self._clock.now_ms() - self._bare_since_ms >= timeout_ms:
            self.watermarks.mark_idle()

    def _ask_generators(self) -> None:
        for generator, split_watermarks in self._generators.values():
            generator.on_periodic_emit(split_watermarks)


class EventTimeOutput(ReaderOutput):
    """A reader's output where the stream has a `WatermarkStrategy`. Flink: StreamingReaderOutput."""

    def __init__(self, output: Output, event_time: EventTime) -> None:
        super().__init__(output)
        self._event_time = event_time
        self._main: WatermarkingOutput | None = None
        self._splits: dict[str, WatermarkingOutput] = {}

    def collect(self, value: object, timestamp: int | None = None) -> None:
        """Emit a record that belongs to no split."""
        self.main.collect(value, timestamp)

    def collect_from(self, iterator: Iterator[object]) -> bool:
        """Emit what an iterator gives until the turn is over; returns whether it may have more."""
        return self.main.collect_from(iterator)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark of the source's own."""
        self.main.emit_watermark(timestamp)

    def mark_idle(self) -> None:
        """Mark the source idle outside of splits."""
        self.main.mark_idle()

    def mark_active(self) -> None:
        """Mark the source active outside of splits."""
        self.main.mark_active()

    def emit_periodically(self) -> None:
        """Let all generators emit their watermarks now."""
        self._event_time.emit_periodically()

    @property
    def main(self) -> WatermarkingOutput:
        """Return the output for records of no split, made at first use: without records it holds no split back."""
        if self._main is None:
            self._main = self._event_time.create_output(MAIN_OUTPUT, self.turn)
        return self._main

    def create_output_for_split(self, split_id: str) -> ReaderOutput:
        """Return the output of one split, whose watermarks are generated for it alone."""
        split = self._splits.get(split_id)
        if split is None:
            split = self._splits[split_id] = self._event_time.create_output(split_id, self.turn)
        return split

    def release_output_for_split(self, split_id: str) -> None:
        """Release the output of a split that has ended: its watermarks hold no other back any more."""
        if self._splits.pop(split_id, None) is not None:
            self._event_time.release_output(split_id)


def generates_watermarks(strategy: WatermarkStrategy, clock: Clock) -> bool:
    """Return whether a strategy does anything: assigns timestamps, makes watermarks, or tells idleness."""
    if strategy.create_timestamp_assigner() is not None or strategy.idle_timeout_ms is not None:
        return True
    return not isinstance(strategy.create_watermark_generator(clock), NoWatermarksGenerator)
