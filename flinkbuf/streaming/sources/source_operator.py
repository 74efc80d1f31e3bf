"""The operator around a `SourceReader`: splits, event time, alignment and the end of a source.

Flink: SourceOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from flinkbuf._core.operators.source_operator import ReaderOutput, ReaderSourceOperator
from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, Output
from flinkbuf.streaming.chain.batch import without_watermarks
from flinkbuf.streaming.chain.latency_markers import LatencyMarkerEmitter, emit_latency_markers
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.reader_output import EventTime, EventTimeOutput, generates_watermarks
from flinkbuf.streaming.sources.source import ReaderContext, Source, SourceReader
from flinkbuf.streaming.sources.source_events import (
    AlignmentAnnounced,
    NoMoreSplits,
    SourceEvent,
    SplitRequested,
    SplitsAssigned,
    WatermarkReported,
)
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.streaming.time.processing_time import TimerHandle
from flinkbuf.streaming.time.watermark_alignment import ReaderAlignment
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from flinkbuf.streaming.sources.source import SourceSplit
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

SPLITS_STATE = "SourceReaderState"
ALLOW_UNALIGNED_SPLITS = "pipeline.watermark-alignment.allow-unaligned-source-splits"


class SourceState(Enum):
    """What a source operator does with its next turn. Flink: SourceOperator.OperatingMode."""

    READING = "READING"
    WAITING_FOR_ALIGNMENT = "WAITING_FOR_ALIGNMENT"
    SOURCE_DRAINED = "SOURCE_DRAINED"
    SOURCE_STOPPED = "SOURCE_STOPPED"
    DATA_FINISHED = "DATA_FINISHED"


class SourceOperator(ReaderSourceOperator):
    """Polls a reader and tells the source's coordinator what it needs.

    Parameters
    ----------
    source : Source
    watermark_strategy : WatermarkStrategy, optional
        None: as no_watermarks().
    """

    def __init__(self, source: Source, watermark_strategy: WatermarkStrategy | None = None) -> None:
        self._source = source
        self._strategy = watermark_strategy
        self.state = SourceState.READING
        self._alignment = ReaderAlignment()
        self._reader: SourceReader | None = None
        self._event_time: EventTime | None = None
        self._markers: LatencyMarkerEmitter | None = None
        self._timers: dict[str, TimerHandle] = {}
        self._restored_splits: list[SourceSplit] = []

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Take the splits that were not read to their end."""
        super().initialize_state(snapshot)
        self._splits = self.context.operator_state.get_list_state(ListStateDescriptor(SPLITS_STATE, None))
        self._restored_splits = self._splits.get()

    def open(self) -> None:
        """Make the reader and register it: splits may come at once."""
        context = self.context
        assert context.coordinator is not None, "a source is deployed with its coordinator"
        self._coordinator = context.coordinator
        self._subtask_index = context.task.subtask_index
        self._reader = self._source.create_reader(self._reader_context())
        self.poll_next = self._reader.poll_next
        self._reader_output = self._make_output()
        self._markers = emit_latency_markers(self)
        if self._restored_splits:
            self._add_splits(self._restored_splits)
        self._coordinator.register_reader(self._subtask_index, self)
        self._reader.start()

    def _reader_context(self) -> ReaderContext:
        context = self.context
        return ReaderContext(
            task=context.task,
            processing_time=context.processing_time,
            wake=context.wake,
            send_split_request=lambda: self._tell(SplitRequested()),
            send_source_event=lambda event: self._tell(SourceEvent(event)),
            metrics=context.metrics,
            runtime_context=context.runtime_context,
        )

    def _make_output(self) -> ReaderOutput:
        if self._strategy is not None and self.context.settings.is_batch:
            self._strategy = without_watermarks(self._strategy)
        if self._strategy is None or not generates_watermarks(self._strategy, self.context.clock):
            return ReaderOutput(self.output)
        output = self.output
        self._event_time = EventTime(self._strategy, output, self.context.clock, self._check_alignment)
        self._repeat("watermarks", self.watermark_interval_ms(), self._event_time.emit_periodically)
        if self._strategy.alignment is not None:
            self._repeat("alignment", self._strategy.alignment.update_interval_ms, self._report_watermark)
        return EventTimeOutput(output, self._event_time)

    def watermark_interval_ms(self) -> int:
        """Return how often generators emit their watermarks; 0: not by the clock."""
        return self.context.settings.auto_watermark_interval_ms

    def _repeat(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        """Call a function every so often, for as long as the operator is open."""
        if interval_ms <= 0:
            return
        time = self.context.processing_time

        def repeat(timestamp_ms: int) -> None:
            work()
            self._timers[name] = time.register_timer(time.now_ms() + interval_ms, repeat)

        self._timers[name] = time.register_timer(time.now_ms() + interval_ms, repeat)

    def emit_next(self, output: Output, max_records: int) -> int:
        """Let the reader emit, unless the source waits or has ended."""
        if self.state is SourceState.READING:
            status = self.poll_reader(self._reader_output, output, max_records)
            if status != InputStatus.END_OF_INPUT:
                return status if self.state is SourceState.READING else InputStatus.NOTHING_AVAILABLE
            self._end(SourceState.DATA_FINISHED)
            return InputStatus.END_OF_INPUT
        if self.state is SourceState.WAITING_FOR_ALIGNMENT:
            return InputStatus.NOTHING_AVAILABLE
        return InputStatus.STOPPED if self.state is SourceState.SOURCE_STOPPED else InputStatus.END_OF_INPUT

    def stop(self, is_drain: bool) -> None:
        """Stop reading, though there is more: the job stops with a savepoint."""
        if self.state is not SourceState.DATA_FINISHED:
            self._end(SourceState.SOURCE_DRAINED if is_drain else SourceState.SOURCE_STOPPED)

    def _end(self, state: SourceState) -> None:
        self.state = state
        if self._event_time is not None and state is not SourceState.SOURCE_STOPPED:
            self._event_time.emit_periodically()
        self._coordinator.reader_ended(self._subtask_index)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Keep the splits as they are now."""
        if self._reader is not None:
            self._splits.update(self._reader.snapshot_state(checkpoint_id))
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the reader, which may have offsets to commit."""
        if self._reader is not None:
            self._reader.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        """Close the reader, whatever happened."""
        for timer in self._timers.values():
            timer.cancel()
        if self._markers is not None:
            self._markers.close()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    # The coordinator

    def _tell(self, event: object) -> None:
        self._coordinator.handle_event(self._subtask_index, event)

    def handle_event(self, event: object) -> None:
        """Handle an event of the coordinator; on the task's thread."""
        if self._reader is None:
            return  # closed meanwhile
        if isinstance(event, SplitsAssigned):
            # A source that was stopped for a savepoint has sent its splits' state, or is about to: what the coordinator
            # assigns since the savepoint began is in the coordinator's state already.
            if self.state not in (SourceState.SOURCE_STOPPED, SourceState.SOURCE_DRAINED):
                self._add_splits(event.splits)
        elif isinstance(event, NoMoreSplits):
            self._reader.notify_no_more_splits()
        elif isinstance(event, SourceEvent):
            self._reader.handle_source_event(event.event)
        elif isinstance(event, AlignmentAnnounced):
            self._alignment.limit = event.max_watermark
            self._check_split_alignment()
            self._check_alignment()
        else:
            raise TypeError(f"a coordinator does not send {event!r}")
        # This mail may have been put before the reader was found to have nothing, and be run after that.
        self.context.wake()

    def _add_splits(self, splits: Sequence[SourceSplit]) -> None:
        assert self._reader is not None
        if self._reader.has_split_outputs:
            for split in splits:
                self._reader_output.create_output_for_split(split.split_id)
        self._reader.add_splits(splits)

    # Alignment

    def _report_watermark(self) -> None:
        watermarks = self._event_time.watermarks  # type: ignore[union-attr]
        self._tell(WatermarkReported(MAX_WATERMARK if watermarks.is_idle else watermarks.watermark))

    def _check_alignment(self) -> None:
        if self._event_time is None or self._strategy is None or self._strategy.alignment is None:
            return
        is_ahead = self._alignment.is_ahead(self._event_time.watermarks.watermark)
        if self.state is SourceState.READING and is_ahead:
            self.state = SourceState.WAITING_FOR_ALIGNMENT
            self._reader_output.turn.end()
        elif self.state is SourceState.WAITING_FOR_ALIGNMENT and not is_ahead:
            self.state = SourceState.READING
            self.context.wake()

    def _check_split_alignment(self) -> None:
        if self._event_time is None or self._reader is None:
            return
        to_pause, to_resume = self._alignment.changes(self._event_time.multiplexer.split_watermarks)
        if not to_pause and not to_resume:
            return
        try:
            self._reader.pause_or_resume_splits(to_pause, to_resume)
        except NotImplementedError:
            if self.context.settings.job_parameters.get(ALLOW_UNALIGNED_SPLITS) != "true":
                raise

    @property
    def is_waiting(self) -> bool:
        """Return whether the source waits for slower sources of its group."""
        return self.state is SourceState.WAITING_FOR_ALIGNMENT
