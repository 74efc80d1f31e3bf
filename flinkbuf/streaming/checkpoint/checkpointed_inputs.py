"""The gates of a task as its barrier handler sees them: one row of channels; and what the handler wants, done.

Flink: CheckpointedInputGate, InputProcessorUtil.createCheckpointBarrierHandler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from flinkbuf._core.gate.input_gate import InputGate
from flinkbuf._core.gate.union_input_gate import UnionInputGate
from flinkbuf.log import logger
from flinkbuf.network.events import CancelCheckpointMarker, CheckpointBarrier, EventAnnouncement
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.checkpoint.barrier_actions import (
    AbortCheckpoint,
    BarrierAction,
    BeginAlignment,
    BeginInputState,
    ConvertToPriority,
    EndInputState,
    ResumeChannels,
    TakeCheckpoint,
)
from flinkbuf.streaming.checkpoint.barrier_handler import SingleCheckpointBarrierHandler
from flinkbuf.streaming.checkpoint.barrier_tracker import CheckpointBarrierTracker
from flinkbuf.streaming.time.processing_time import TaskTimerService, Timer

SLOW_ALIGNMENT_MS = 10_000
Gate = InputGate | UnionInputGate
CheckpointBarrierHandler = SingleCheckpointBarrierHandler | CheckpointBarrierTracker


class CheckpointTaking(Protocol):
    """The actions of a barrier handler: `SubtaskCheckpoints`, with what its task adds."""

    def take(self, action: TakeCheckpoint, bytes_processed: int) -> object:
        """Take a checkpoint."""

    def give_up(self, checkpoint_id: int, reason: str) -> None:
        """Abort the checkpoint here: it will not be complete."""

    def begin_input(self, checkpoint_id: int) -> bool:
        """Keep what comes before the barriers that have not come; False: the checkpoint cannot be taken any more."""

    def end_input(self, checkpoint_id: int, alignment_ms: int, bytes_processed: int) -> None:
        """End keeping records: all barriers have come."""


def make_barrier_handler(channels: int, settings: ExecutionSettings) -> CheckpointBarrierHandler:
    """Return the handler that the job's guarantee asks for.

    Examples
    --------
    >>> type(make_barrier_handler(2, ExecutionSettings(is_exactly_once=False))).__name__
    'CheckpointBarrierTracker'
    """
    takes_after_end = settings.checkpoints_after_tasks_finish
    if not settings.is_exactly_once:
        return CheckpointBarrierTracker(channels, takes_after_end=takes_after_end)
    return SingleCheckpointBarrierHandler(
        channels, can_overtake=settings.unaligned_checkpoints_enabled, takes_after_end=takes_after_end
    )


class CheckpointedInputs:
    """Tells the barrier handler what came out of which gate, and does what it answers.

    Parameters
    ----------
    settings : ExecutionSettings
    timers : TaskTimerService
        Those of the task itself.
    taking : CheckpointTaking
    task_name : str
        For warnings.
    """

    def __init__(
        self, settings: ExecutionSettings, timers: TaskTimerService, taking: CheckpointTaking, task_name: str
    ) -> None:
        self._settings = settings
        self._timers = timers
        self._taking = taking
        self._task_name = task_name
        self._first_channel: dict[int, int] = {}  # of each gate, by its id
        self._places: list[tuple[Gate, int]] = []  # gate and channel by the channel's number here
        self._handler: CheckpointBarrierHandler | None = None
        self._timer: Timer | None = None
        self._timer_ms: int | None = None
        self._bytes_before = 0

    def add_gate(self, gate: Gate) -> None:
        """Add the channels of one input; all are added before the first event."""
        self._first_channel[id(gate)] = len(self._places)
        self._places += [(gate, channel) for channel in range(gate.channel_count)]

    @property
    def handler(self) -> CheckpointBarrierHandler:
        """Decides for all gates."""
        if self._handler is None:
            self._handler = make_barrier_handler(len(self._places), self._settings)
        return self._handler

    @property
    def has_open_channels(self) -> bool:
        """Return whether a channel has not ended."""
        return bool(self._places) and bool(self.handler.open_channels)

    # ---- what comes out of gates ------------------------------------------------------------------------

    def process_barrier(self, barrier: CheckpointBarrier, gate: Gate, channel: int) -> None:
        """Handle a barrier that was read."""
        self._perform(self.handler.on_barrier(barrier, self._number(gate, channel), self._timers.now_ms()))

    def process_cancellation(self, marker: CancelCheckpointMarker, gate: Gate, channel: int) -> None:
        """Handle a checkpoint that a task before this one has given up."""
        number = self._number(gate, channel)
        self._perform(self.handler.on_cancellation(marker.checkpoint_id, number, self._timers.now_ms()))

    def process_announcement(self, announcement: EventAnnouncement, gate: Gate, channel: int) -> None:
        """Handle an event on its way behind records; only barriers matter to the handler."""
        barrier = announcement.announced
        if isinstance(barrier, CheckpointBarrier):
            number, now_ms = self._number(gate, channel), self._timers.now_ms()
            self._perform(self.handler.on_announcement(barrier, announcement.sequence_number, number, now_ms))

    def process_end_of_partition(self, gate: Gate, channel: int) -> None:
        """Handle the end of a channel."""
        self._perform(self.handler.on_end_of_partition(self._number(gate, channel), self._timers.now_ms()))

    def _number(self, gate: Gate, channel: int) -> int:
        return self._first_channel[id(gate)] + channel

    # ---- what the job master says -----------------------------------------------------------------------

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Count a barrier for each channel that has not ended: all tasks before this one have finished."""
        for channel in self.handler.open_channels:
            self._perform(self.handler.on_barrier(barrier, channel, self._timers.now_ms(), is_triggered=True))

    def abort(self, checkpoint_id: int) -> None:
        """Give up a checkpoint: channels that wait for others because of it go on."""
        if self._places:
            self._perform(self.handler.on_abort(checkpoint_id))

    # ---- what the handler wants -------------------------------------------------------------------------

    def _perform(self, actions: Iterable[BarrierAction]) -> None:
        for action in actions:
            if isinstance(action, BeginInputState) and not self._taking.begin_input(action.barrier.checkpoint_id):
                self._perform(self.handler.on_abort(action.barrier.checkpoint_id))
                return  # a barrier of a newer checkpoint is on its way already
            self._do(action)
        self._set_timer()

    def _do(self, action: BarrierAction) -> None:
        if isinstance(action, ResumeChannels):
            for number in action.channels:
                gate, channel = self._places[number]
                gate.resume_consumption(channel)
        elif isinstance(action, TakeCheckpoint):
            self._note_alignment(action)
            self._taking.take(action, self._bytes_processed())
        elif isinstance(action, AbortCheckpoint):
            self._taking.give_up(action.checkpoint_id, action.reason)
        elif isinstance(action, BeginAlignment):
            self._bytes_before = self._bytes_read()
        elif isinstance(action, ConvertToPriority):
            gate, channel = self._places[action.channel]
            gate.convert_to_priority(channel, action.sequence_number)
        elif isinstance(action, EndInputState):
            self._taking.end_input(action.checkpoint_id, action.alignment_ms, self._bytes_processed())

    def _set_timer(self) -> None:
        deadline_ms = self.handler.deadline_ms
        if deadline_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, deadline_ms
        if deadline_ms is not None:
            self._timer = self._timers.register_timer(deadline_ms - 1, self._on_time)  # due when that is over

    def _on_time(self, timestamp_ms: int) -> None:
        self._timer = self._timer_ms = None
        self._perform(self.handler.on_time(self._timers.now_ms()))

    # ---- numbers ----------------------------------------------------------------------------------------

    def _gates(self) -> list[InputGate]:
        """The gates that a union is made of are asked themselves."""
        return [
            part
            for gate, channel in self._places
            if not channel
            for part in (gate.gates if isinstance(gate, UnionInputGate) else (gate,))
        ]

    def _bytes_read(self) -> int:
        if len(self._places) < 2:
            return 0  # no alignment, and so nothing comes during one
        return sum(channel["bytes"] for gate in self._gates() for channel in gate.figures()["channels"])

    def _bytes_processed(self) -> int:
        return self._bytes_read() - self._bytes_before

    def _note_alignment(self, action: TakeCheckpoint) -> None:
        if action.alignment_ms is None or action.alignment_ms < SLOW_ALIGNMENT_MS or action.last_channel is None:
            return
        channels = [channel for gate in self._gates() for channel in gate.figures()["channels"]]
        source = channels[action.last_channel]["source"] or "in this process"
        logger.warning(
            "%s: the barriers of checkpoint %d came over %d ms; the last one by channel %d (%s). Until then the other "
            "channels waited. What is done with the records of that channel, here or before it, is slow, or there are "
            "many of them on the way; execution.checkpointing.unaligned.enabled lets barriers overtake them.",
            self._task_name,
            action.barrier.checkpoint_id,
            action.alignment_ms,
            action.last_channel,
            source,
        )
