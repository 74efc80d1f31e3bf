"""Decides when a task takes its part of a checkpoint where records behind a barrier may count twice: nothing waits.

Flink: CheckpointBarrierTracker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.network.events import CheckpointBarrier
from flinkbuf.streaming.checkpoint.barrier_actions import (
    AbortCheckpoint,
    BarrierAction,
    BeginAlignment,
    ResumeChannels,
    TakeCheckpoint,
)
from flinkbuf.streaming.checkpoint.barriers import blocks_channel

MAX_TRACKED = 50


@dataclass
class _Tracked:
    """A checkpoint some of whose barriers have come."""

    checkpoint_id: int
    open: set[int]  # channels that it waits for, those that have ended since included
    barrier: CheckpointBarrier | None = None  # None: nothing but that it was given up is known of it
    first_ms: int = 0
    start_delay_ms: int = 0
    is_aborted: bool = False
    arrived: set[int] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Return whether all channels have brought a barrier or its stand-in."""
        return self.open <= self.arrived


class CheckpointBarrierTracker:
    """At least once: counts barriers of many checkpoints at a time, and takes each with the last of its own.

    Parameters
    ----------
    channels : int
        Of all gates of the task.
    takes_after_end : bool
        Whether the end of a channel stands for its barriers; else it ends all checkpoints that are not complete.

    Examples
    --------
    >>> tracker = CheckpointBarrierTracker(2)
    >>> from flinkbuf.network.events import AlignmentType
    >>> barrier = CheckpointBarrier(1, 0, alignment=AlignmentType.AT_LEAST_ONCE)
    >>> tracker.on_barrier(barrier, channel=0, now_ms=5)
    [BeginAlignment(checkpoint_id=1)]
    """

    def __init__(self, channels: int, *, takes_after_end: bool = True) -> None:
        self._open = set(range(channels))
        self._takes_after_end = takes_after_end
        self._latest_id = -1
        self._tracked: dict[int, _Tracked] = {}  # oldest first

    deadline_ms: int | None = None

    @property
    def open_channels(self) -> tuple[int, ...]:
        """Channels that have not ended."""
        return tuple(sorted(self._open))

    def on_barrier(
        self, barrier: CheckpointBarrier, channel: int, now_ms: int, is_triggered: bool = False
    ) -> list[BarrierAction]:
        """Count a barrier that was read, or stands for one that will not be."""
        actions = self._count_in(barrier, channel, now_ms)
        if not is_triggered and blocks_channel(barrier):
            actions.append(ResumeChannels((channel,)))
        return actions

    def _count_in(self, barrier: CheckpointBarrier, channel: int, now_ms: int) -> list[BarrierAction]:
        tracked = self._tracked.get(barrier.checkpoint_id)
        if tracked is None:
            if barrier.checkpoint_id <= self._latest_id:
                return []
            tracked = self._track(barrier.checkpoint_id)
        actions: list[BarrierAction] = []
        if tracked.barrier is None and not tracked.is_aborted:
            tracked.barrier, tracked.first_ms = barrier, now_ms
            tracked.start_delay_ms = max(now_ms - barrier.timestamp, 0)
            actions.append(BeginAlignment(barrier.checkpoint_id))
        tracked.arrived.add(channel)
        return actions + self._complete(tracked, channel, now_ms)

    def on_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: int, now_ms: int
    ) -> list[BarrierAction]:
        """Do nothing: a barrier is counted when it comes."""
        return []

    def on_cancellation(self, checkpoint_id: int, channel: int, now_ms: int) -> list[BarrierAction]:
        """Give up a checkpoint that a task before this one has given up, and older ones."""
        actions = self._drop_older_than(
            checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
        )
        tracked = self._tracked.get(checkpoint_id)
        if tracked is None:
            if checkpoint_id <= self._latest_id:
                return actions
            tracked = self._track(checkpoint_id)
        actions += self._abort(tracked, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)
        tracked.arrived.add(channel)
        return actions + self._complete(tracked, channel, now_ms)

    def on_end_of_partition(self, channel: int, now_ms: int) -> list[BarrierAction]:
        """Note that a channel has ended."""
        self._open.discard(channel)
        actions: list[BarrierAction] = []
        if not self._takes_after_end:
            for tracked in list(self._tracked.values()):
                actions += self._abort(tracked, CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM)
            self._tracked.clear()
            return actions
        for tracked in reversed(list(self._tracked.values())):
            tracked.arrived.add(channel)
            if tracked.checkpoint_id in self._tracked:  # it was not dropped with a newer one
                actions += self._complete(tracked, channel, now_ms)
        return actions

    def on_abort(self, checkpoint_id: int) -> list[BarrierAction]:
        """Note that the job master has given a checkpoint up: it is counted on, and not taken."""
        tracked = self._tracked.get(checkpoint_id)
        return [] if tracked is None else self._abort(tracked, CheckpointFailureReason.CHECKPOINT_SUBSUMED)

    def on_time(self, now_ms: int) -> list[BarrierAction]:
        """Do nothing: no channel waits here."""
        return []

    # ---- what follows from it ---------------------------------------------------------------------------

    def _track(self, checkpoint_id: int) -> _Tracked:
        self._latest_id = checkpoint_id
        tracked = self._tracked[checkpoint_id] = _Tracked(checkpoint_id, set(self._open))
        if len(self._tracked) > MAX_TRACKED:
            del self._tracked[next(iter(self._tracked))]
        return tracked

    def _complete(self, tracked: _Tracked, channel: int, now_ms: int) -> list[BarrierAction]:
        """Take the checkpoint if all of its barriers are here; older ones are given up then."""
        if not tracked.is_complete:
            return []
        del self._tracked[tracked.checkpoint_id]
        if tracked.is_aborted or tracked.barrier is None:
            return []
        actions = self._drop_older_than(tracked.checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
        taken = TakeCheckpoint(tracked.barrier, tracked.start_delay_ms, max(now_ms - tracked.first_ms, 0), channel)
        return [*actions, taken]

    def _drop_older_than(self, checkpoint_id: int, reason: CheckpointFailureReason) -> list[BarrierAction]:
        actions: list[BarrierAction] = []
        for tracked in [each for each in self._tracked.values() if each.checkpoint_id < checkpoint_id]:
            del self._tracked[tracked.checkpoint_id]
            actions += self._abort(tracked, reason)
        return actions

    def _abort(self, tracked: _Tracked, reason: CheckpointFailureReason) -> list[BarrierAction]:
        if tracked.is_aborted:
            return []
        tracked.is_aborted = True
        return [AbortCheckpoint(tracked.checkpoint_id, reason.name)]
