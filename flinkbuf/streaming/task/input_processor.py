"""Reads one input of a task, or several in turn, or a source: what the task's default action calls.

Flink: StreamOneInputProcessor, StreamMultipleInputProcessor, StreamTaskSourceInput, CheckpointedInputGate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from flinkbuf._core.operators.stream_operator import Input
from flinkbuf._core.task.stream_input import TaskSourceOutput
from flinkbuf.network.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Event,
    EventAnnouncement,
    StopMode,
)
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.input_selection import NONE_AVAILABLE, MultipleInputSelectionHandler
from flinkbuf.types.values import InternalWatermark, LatencyMarker

if TYPE_CHECKING:
    from flinkbuf._core.operators.source_operator import SourceOperatorBase
    from flinkbuf.network.input_gate import InputGate, UnionInputGate
    from flinkbuf.streaming.time.valve import StatusWatermarkValve

TURN_NS = 1_000_000  # how long a source is meant to be busy in one call
FIRST_RECORDS, MAX_RECORDS = 16, 4096


class StreamTaskInput(Protocol):
    """One input of the head operator."""

    def emit_next(self) -> int:
        """Process elements for one turn; return an `InputStatus`."""
        ...


class BarrierHandler(Protocol):
    """Decides when a checkpoint is taken; one for all gates of a task. Flink: ``CheckpointBarrierHandler``."""

    def process_barrier(self, barrier: CheckpointBarrier, gate: InputGate | UnionInputGate, channel: int) -> None:
        """Take a barrier; its channel is blocked until ``gate.resume_consumption(channel)``."""
        ...

    def process_cancellation(
        self, marker: CancelCheckpointMarker, gate: InputGate | UnionInputGate, channel: int
    ) -> None:
        """Note that a checkpoint was aborted by a task before this one."""
        ...

    def process_announcement(
        self, announcement: EventAnnouncement, gate: InputGate | UnionInputGate, channel: int
    ) -> None:
        """Note that a barrier is on its way behind records."""
        ...

    def process_end_of_partition(self, gate: InputGate | UnionInputGate, channel: int) -> None:
        """Note that no barrier comes from this channel any more."""
        ...


class NetworkInputEvents:
    """Handles the events of one input: its end, and the barriers in it.

    Parameters
    ----------
    gate : InputGate or UnionInputGate
    barriers : BarrierHandler
    """

    def __init__(self, gate: InputGate | UnionInputGate, barriers: BarrierHandler) -> None:
        self._gate = gate
        self._barriers = barriers
        self._ended_channels: set[int] = set()
        self._is_drained = True

    def process_event(self, channel: int, event: Event) -> int:
        """Return the input's status after an event of one channel."""
        if isinstance(event, EndOfData):
            return self._end_data(channel, event)
        if isinstance(event, CheckpointBarrier):
            self._barriers.process_barrier(event, self._gate, channel)
        elif isinstance(event, CancelCheckpointMarker):
            self._barriers.process_cancellation(event, self._gate, channel)
        elif isinstance(event, EventAnnouncement):
            self._barriers.process_announcement(event, self._gate, channel)
        elif isinstance(event, EndOfPartition):
            self._barriers.process_end_of_partition(self._gate, channel)
        return InputStatus.MORE_AVAILABLE

    def _end_data(self, channel: int, event: EndOfData) -> int:
        """End the input's data with that of its last channel; without a drain if any channel ended without."""
        self._gate.acknowledge_all_records_processed(channel)
        if channel in self._ended_channels:
            return InputStatus.MORE_AVAILABLE
        self._ended_channels.add(channel)
        self._is_drained &= event.mode is StopMode.DRAIN
        if len(self._ended_channels) < self._gate.channel_count:
            return InputStatus.MORE_AVAILABLE
        return InputStatus.END_OF_DATA if self._is_drained else InputStatus.STOPPED

    def process_marker(self, channel: int, marker: object, target: Input, valve: StatusWatermarkValve) -> None:
        """Pass on an element that is neither record nor watermark. Attributes of records are ignored here."""
        if isinstance(marker, LatencyMarker):
            target.process_latency_marker(marker)
        elif isinstance(marker, InternalWatermark):
            valve.input_watermark(marker.timestamp, channel)


class SourceInput:
    """Calls the source operator, so many records at a time that a call takes about a millisecond.

    Parameters
    ----------
    operator : StreamOperator
        Has ``emit_next(output, max_records)``.
    output : SourceOutput
    ticks : callable
        Nanoseconds of a clock that never jumps.
    """

    def __init__(self, operator: SourceOperatorBase, output: TaskSourceOutput, ticks: Callable[[], int]) -> None:
        self._operator = operator
        self._output = output
        self._ticks = ticks
        self._max_records = FIRST_RECORDS
        self._has_ended_data = False

    def emit_next(self) -> int:
        """Let the source emit; its data ends once before it ends itself, and it is not asked again."""
        if self._has_ended_data:
            return InputStatus.END_OF_INPUT
        start_ns = self._ticks()
        status: int = self._operator.emit_next(self._output, self._max_records)
        if status == InputStatus.MORE_AVAILABLE:
            self._adapt(self._ticks() - start_ns)
        elif status == InputStatus.END_OF_INPUT:
            status = InputStatus.END_OF_DATA
        if status in (InputStatus.END_OF_DATA, InputStatus.STOPPED):
            self._has_ended_data = True
        return status

    def _adapt(self, took_ns: int) -> None:
        if took_ns < TURN_NS // 2:
            self._max_records = min(self._max_records * 2, MAX_RECORDS)
        elif took_ns > TURN_NS:
            self._max_records = max(self._max_records // 2, 1)


class FinishedSource:
    """A source that was at its end before the checkpoint its task starts from."""

    def __init__(self) -> None:
        self._has_ended_data = False

    def emit_next(self) -> int:
        """End at once."""
        status = InputStatus.END_OF_INPUT if self._has_ended_data else InputStatus.END_OF_DATA
        self._has_ended_data = True
        return status


class FinishedOperatorInput(Input):
    """The input of an operator that was finished before: nothing but the end is expected of those before it.

    Flink: FinishedOnRestoreInput.
    """

    def process_element(self, value: object, timestamp: int) -> None:
        """Raise: the task that sends a record begins from another checkpoint than this one."""
        raise RuntimeError(
            f"the record {value!r} comes to a task that was finished before the checkpoint it starts from"
        )

    def process_watermark(self, timestamp: int) -> None:
        """Do nothing: event time has ended here."""

    def process_watermark_status(self, is_idle: bool) -> None:
        """Do nothing: event time has ended here."""

    def process_latency_marker(self, marker: object) -> None:
        """Do nothing: a finished operator measures no latency."""


def pass_over(input_number: int) -> None:
    """Do nothing: a finished operator needs no notice of an input's end."""


class OneInputProcessor:
    """The only input of a task, or its source.

    Parameters
    ----------
    input : StreamTaskInput
    end_input : callable
        Called with the number of the input, from 1, when its data has ended with a drain.
    index : int
        The input's number, from 0.
    """

    def __init__(self, input: StreamTaskInput, end_input: Callable[[int], None], index: int = 0) -> None:
        self._input = input
        self._end_input = end_input
        self._index = index

    def process_input(self) -> int:
        """Process elements for one turn; return an `InputStatus`."""
        status = self._input.emit_next()
        if status == InputStatus.END_OF_DATA:
            self._end_input(self._index + 1)
        return status


class MultipleInputProcessor:
    """Reads several inputs fairly: each turn another one, of those that the operator selects.

    Parameters
    ----------
    processors : sequence of OneInputProcessor
    selection : MultipleInputSelectionHandler
    seen : callable
        The rings of the task's bell so far: an input that had nothing is looked at again after a ring.
    """

    def __init__(
        self, processors: Sequence[OneInputProcessor], selection: MultipleInputSelectionHandler, seen: Callable[[], int]
    ) -> None:
        self._processors = processors
        self._selection = selection
        self._seen = seen
        self._last = len(processors) - 1  # the first one is the first in turn
        self._looked_at = [-1] * len(processors)  # the bell's count before an input was found empty
        self._is_prepared = False

    def process_input(self) -> int:
        """Process one turn of one input; return an `InputStatus` for all of them."""
        selection = self._selection
        if selection.are_all_inputs_finished:
            return InputStatus.END_OF_INPUT
        if not self._is_prepared:
            selection.select()  # not earlier: the operator is open now
            self._is_prepared = True
        self._refresh()
        index = selection.select_next_input(self._last)
        if index == NONE_AVAILABLE:
            return InputStatus.NOTHING_AVAILABLE
        self._last = index
        self._looked_at[index] = self._seen()
        status = self._processors[index].process_input()
        return selection.update(status, index)

    def _refresh(self) -> None:
        """Look again at inputs that had nothing, also while others keep the task busy."""
        seen = self._seen()
        for index in self._selection.unavailable_inputs:
            if self._looked_at[index] != seen:
                self._selection.set_available(index)
