"""What a barrier handler wants its task to do, in the order of the list it gives.

Channels are numbered over all gates of the task. Flink: BarrierHandlerState.Controller, CheckpointableInput.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkbuf.network.events import CheckpointBarrier


@dataclass(frozen=True)
class BeginAlignment:
    """The first barrier of a checkpoint is here, or what stands for it."""

    checkpoint_id: int


@dataclass(frozen=True)
class TakeCheckpoint:
    """Send the barrier on and take the state, before anything else is read.

    Attributes
    ----------
    barrier : CheckpointBarrier
        As it is to be sent on.
    start_delay_ms : int
        From the checkpoint's trigger until its first barrier.
    alignment_ms : int or None
        From the first barrier to the last. None: more are to come, `EndInputState` says it then.
    last_channel : int or None
        Which one the others have waited for.
    """

    barrier: CheckpointBarrier
    start_delay_ms: int = 0
    alignment_ms: int | None = 0
    last_channel: int | None = None


@dataclass(frozen=True)
class ResumeChannels:
    """Read on behind the barriers of these channels."""

    channels: tuple[int, ...]


@dataclass(frozen=True)
class AbortCheckpoint:
    """It will not be taken here: tell those behind, and the job master."""

    checkpoint_id: int
    reason: str  # a CheckpointFailureReason by name


@dataclass(frozen=True)
class ConvertToPriority:
    """Let an announced barrier overtake what is queued in front of it."""

    channel: int
    sequence_number: int


@dataclass(frozen=True)
class BeginInputState:
    """What these channels bring before their barrier belongs to the checkpoint: keep it from now on."""

    barrier: CheckpointBarrier
    channels: tuple[int, ...]


@dataclass(frozen=True)
class EndInputState:
    """All barriers are here: what was kept is complete."""

    checkpoint_id: int
    alignment_ms: int = 0


BarrierAction = (
    BeginAlignment
    | TakeCheckpoint
    | ResumeChannels
    | AbortCheckpoint
    | ConvertToPriority
    | BeginInputState
    | EndInputState
)
