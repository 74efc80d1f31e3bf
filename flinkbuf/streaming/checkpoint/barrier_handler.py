"""Decides when a task takes its part of a checkpoint, from the barriers of all its channels.

One checkpoint at a time: the barrier of a newer one gives the older one up. Whatever the handler returns is done in its
order, so the state is taken before a channel goes on. Flink: SingleCheckpointBarrierHandler and the states of
BarrierHandlerState.
"""

from __future__ import annotations

from enum import Enum

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.network.events import AlignmentType, CheckpointBarrier
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
from flinkbuf.streaming.checkpoint.barriers import blocks_channel, overtaking, times_out_at


class _Phase(Enum):
    ALIGNING = "ALIGNING"  # channels whose barrier has come wait for the others
    OVERTAKEN = "OVERTAKEN"  # barriers are made to overtake, none has come yet
    COLLECTING = "COLLECTING"  # the checkpoint is taken, what comes before the other barriers is kept


class SingleCheckpointBarrierHandler:
    """Exactly once: aligned, and where `can_overtake` with barriers that overtake records after a timeout.

    Parameters
    ----------
    channels : int
        Of all gates of the task.
    can_overtake : bool
        Whether there may be unaligned barriers, and announcements of aligned ones.
    takes_after_end : bool
        Whether the end of a channel stands for its barrier; else it ends the checkpoint.

    Examples
    --------
    >>> handler = SingleCheckpointBarrierHandler(2)
    >>> handler.on_barrier(CheckpointBarrier(1, 0), channel=0, now_ms=5)
    [BeginAlignment(checkpoint_id=1)]
    >>> [type(action).__name__ for action in handler.on_barrier(CheckpointBarrier(1, 0), channel=1, now_ms=7)]
    ['TakeCheckpoint', 'ResumeChannels']
    """

    def __init__(self, channels: int, *, can_overtake: bool = False, takes_after_end: bool = True) -> None:
        self._open = set(range(channels))
        self._can_overtake = can_overtake
        self._takes_after_end = takes_after_end
        self._current_id = -1
        self._barrier: CheckpointBarrier | None = None  # of the checkpoint that is not complete here
        self._phase = _Phase.ALIGNING
        self._arrived: set[int] = set()  # channels whose barrier has come, or that have ended since
        self._blocked: dict[int, None] = {}  # channels that wait behind it, in the order of their barriers
        self._announced: dict[int, int] = {}  # sequence numbers of barriers behind records
        self._first_ms: int | None = None  # when the first barrier came
        self._start_delay_ms = 0

    @property
    def open_channels(self) -> tuple[int, ...]:
        """Channels that have not ended."""
        return tuple(sorted(self._open))

    @property
    def deadline_ms(self) -> int | None:
        """When `on_time` wants to be called."""
        if not self._can_overtake or self._barrier is None or self._phase is not _Phase.ALIGNING:
            return None
        return times_out_at(self._barrier)

    # ---- what happens -----------------------------------------------------------------------------------

    def on_barrier(
        self, barrier: CheckpointBarrier, channel: int, now_ms: int, is_triggered: bool = False
    ) -> list[BarrierAction]:
        """Take a barrier; `is_triggered`: none was read, the job master stands in for the tasks before this one."""
        is_blocked = not is_triggered and blocks_channel(barrier)
        if self._is_over(barrier.checkpoint_id):
            return [ResumeChannels((channel,))] if is_blocked else []
        actions = self._begin(barrier)
        if is_blocked:
            self._blocked[channel] = None
        if barrier.alignment is AlignmentType.UNALIGNED and not self._can_overtake:
            return [*actions, *self._abort(barrier.checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED)]
        actions += self._arrive(channel, now_ms)
        return actions + self._proceed(barrier, channel, now_ms)

    def on_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: int, now_ms: int
    ) -> list[BarrierAction]:
        """Note that a barrier is on its way behind records of a channel."""
        if not self._can_overtake or self._is_over(barrier.checkpoint_id):
            return []
        actions = self._begin(barrier)
        if channel in self._arrived:
            return actions
        if self._phase is not _Phase.ALIGNING:
            return [*actions, ConvertToPriority(channel, sequence_number)]
        self._announced[channel] = sequence_number
        return actions + self.on_time(now_ms)

    def on_cancellation(self, checkpoint_id: int, channel: int, now_ms: int) -> list[BarrierAction]:
        """Give up a checkpoint that a task before this one has given up."""
        if checkpoint_id < self._current_id or (checkpoint_id == self._current_id and self._barrier is None):
            return []
        actions: list[BarrierAction] = []
        if self._barrier is not None and self._barrier.checkpoint_id < checkpoint_id:
            actions += self._abort(self._barrier.checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
        return actions + self._abort(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)

    def on_end_of_partition(self, channel: int, now_ms: int) -> list[BarrierAction]:
        """Note that a channel has ended."""
        self._open.discard(channel)
        self._blocked.pop(channel, None)
        self._announced.pop(channel, None)
        if self._barrier is None:
            return []
        if not self._takes_after_end:
            return self._abort(self._current_id, CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM)
        return self._arrive(channel, now_ms) + self._proceed(self._barrier, channel, now_ms)

    def on_abort(self, checkpoint_id: int) -> list[BarrierAction]:
        """Give up a checkpoint that the job master has given up: its barriers count no more."""
        if checkpoint_id < self._current_id or (checkpoint_id == self._current_id and self._barrier is None):
            return []
        if self._barrier is not None and self._barrier.checkpoint_id == checkpoint_id:
            return self._abort(checkpoint_id, CheckpointFailureReason.CHECKPOINT_SUBSUMED)
        return []  # its barriers are still to come, and pass over a newer alignment as any do

    def on_time(self, now_ms: int) -> list[BarrierAction]:
        """Time has passed: an alignment that takes too long goes on with barriers that overtake."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms or self._barrier is None:
            return []
        return self._overtake(self._barrier)

    # ---- what follows from it ---------------------------------------------------------------------------

    def _is_over(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self._current_id or (checkpoint_id == self._current_id and self._barrier is None)

    def _begin(self, barrier: CheckpointBarrier) -> list[BarrierAction]:
        """Make this barrier's checkpoint the pending one, if it is not."""
        if barrier.checkpoint_id == self._current_id:
            return []
        actions: list[BarrierAction] = []
        if self._barrier is not None:
            actions = self._abort(self._current_id, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
        self._current_id, self._barrier = barrier.checkpoint_id, barrier
        return actions

    def _arrive(self, channel: int, now_ms: int) -> list[BarrierAction]:
        """Count a channel in."""
        assert self._barrier is not None, "a checkpoint is pending"
        self._arrived.add(channel)
        self._announced.pop(channel, None)
        if self._first_ms is not None:
            return []
        self._first_ms = now_ms
        self._start_delay_ms = max(now_ms - self._barrier.timestamp, 0)
        return [BeginAlignment(self._current_id)]

    def _proceed(self, barrier: CheckpointBarrier, channel: int, now_ms: int) -> list[BarrierAction]:
        """Go on after a channel was counted in: take the checkpoint, or begin to overtake, or wait."""
        is_complete = self._open <= self._arrived
        alignment_ms = max(now_ms - (now_ms if self._first_ms is None else self._first_ms), 0)
        if self._phase is _Phase.COLLECTING:
            if not is_complete:
                return []
            return [EndInputState(self._current_id, alignment_ms), *self._finish()]
        must_overtake = barrier.alignment is AlignmentType.UNALIGNED or self._phase is _Phase.OVERTAKEN
        if is_complete and not must_overtake:
            taken = TakeCheckpoint(barrier, self._start_delay_ms, alignment_ms, channel)
            return [taken, *self._finish()]
        actions: list[BarrierAction] = []
        if must_overtake and self._phase is _Phase.ALIGNING:
            actions = self._overtake(barrier)
        elif must_overtake:
            actions = self._take_at_once(barrier)
        else:
            actions = self.on_time(now_ms)
        if is_complete and self._phase is _Phase.COLLECTING:
            actions += [EndInputState(self._current_id, alignment_ms), *self._finish()]
        return actions

    def _overtake(self, barrier: CheckpointBarrier) -> list[BarrierAction]:
        """Let announced barriers overtake: with the first one the checkpoint is taken."""
        actions: list[BarrierAction] = [ConvertToPriority(*announced) for announced in self._announced.items()]
        self._announced.clear()
        self._phase = _Phase.OVERTAKEN
        if self._arrived:
            actions += self._take_at_once(barrier)
        return actions

    def _take_at_once(self, barrier: CheckpointBarrier) -> list[BarrierAction]:
        """Take the checkpoint with what is still under way in the channels whose barrier has not come."""
        self._phase = _Phase.COLLECTING
        sent = overtaking(barrier)
        missing = tuple(sorted(self._open - self._arrived))
        return [BeginInputState(sent, missing), TakeCheckpoint(sent, self._start_delay_ms, None)]

    def _finish(self) -> list[BarrierAction]:
        """End the pending checkpoint here; its channels go on."""
        blocked = tuple(self._blocked)
        self._forget()
        return [ResumeChannels(blocked)] if blocked else []

    def _abort(self, checkpoint_id: int, reason: CheckpointFailureReason) -> list[BarrierAction]:
        self._current_id = max(self._current_id, checkpoint_id)
        return [AbortCheckpoint(checkpoint_id, reason.name), *self._finish()]

    def _forget(self) -> None:
        self._barrier = None
        self._phase = _Phase.ALIGNING
        self._arrived.clear()
        self._blocked.clear()
        self._announced.clear()
        self._first_ms = None
        self._start_delay_ms = 0
