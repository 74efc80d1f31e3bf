"""What a barrier on its way says of its checkpoint, as `CheckpointOptions` and back.

Flink: CheckpointBarrier.getCheckpointOptions, CheckpointOptions.forConfig, toUnaligned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flinkbuf.checkpoints import options as checkpoint_options
from flinkbuf.checkpoints.options import CheckpointOptions, SnapshotKind
from flinkbuf.network.events import NO_TIMEOUT, AlignmentType, CheckpointBarrier, SnapshotType

_TYPES: Final = {
    SnapshotKind.CHECKPOINT: SnapshotType.CHECKPOINT,
    SnapshotKind.FULL_CHECKPOINT: SnapshotType.FULL_CHECKPOINT,
    SnapshotKind.SAVEPOINT: SnapshotType.SAVEPOINT_CANONICAL,
    SnapshotKind.SAVEPOINT_SUSPEND: SnapshotType.SAVEPOINT_SUSPEND_CANONICAL,
    SnapshotKind.SAVEPOINT_TERMINATE: SnapshotType.SAVEPOINT_TERMINATE_CANONICAL,
}
_KINDS: Final = {
    **{type: kind for kind, type in _TYPES.items()},
    SnapshotType.SAVEPOINT_NATIVE: SnapshotKind.SAVEPOINT,
    SnapshotType.SAVEPOINT_SUSPEND_NATIVE: SnapshotKind.SAVEPOINT_SUSPEND,
    SnapshotType.SAVEPOINT_TERMINATE_NATIVE: SnapshotKind.SAVEPOINT_TERMINATE,
}


def barrier_of(checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions) -> CheckpointBarrier:
    """Return the barrier that a source sends.

    Examples
    --------
    >>> barrier = barrier_of(7, 0, CheckpointOptions(is_unaligned=True, aligned_timeout_ms=0))
    >>> barrier.alignment.name, options_of(barrier).is_unaligned
    ('UNALIGNED', True)
    """
    alignment, timeout_ms = AlignmentType.ALIGNED, NO_TIMEOUT
    if not options.is_exactly_once:
        alignment = AlignmentType.AT_LEAST_ONCE
    elif options.snapshot_kind.is_savepoint:
        pass  # whatever the job does else: it holds nothing that is under way
    elif options.aligned_timeout_ms > 0:
        timeout_ms = options.aligned_timeout_ms
    elif options.is_unaligned:
        alignment = AlignmentType.UNALIGNED
    location = options.location.encode() if options.location else None
    return CheckpointBarrier(
        checkpoint_id, timestamp_ms, _TYPES[options.snapshot_kind], location, alignment, timeout_ms
    )


def options_of(barrier: CheckpointBarrier) -> CheckpointOptions:
    """Return the options that `barrier_of` was given, as far as a barrier on its way still knows."""
    is_unaligned = barrier.alignment is AlignmentType.UNALIGNED
    can_time_out = barrier.alignment is AlignmentType.ALIGNED and barrier.aligned_timeout_ms != NO_TIMEOUT
    timeout_ms = barrier.aligned_timeout_ms if can_time_out else 0 if is_unaligned else checkpoint_options.NO_TIMEOUT
    return CheckpointOptions(
        _KINDS[barrier.snapshot_type].value,
        (barrier.location or b"").decode(),
        barrier.alignment is not AlignmentType.AT_LEAST_ONCE,
        is_unaligned,
        timeout_ms,
    )


def kind_of(barrier: CheckpointBarrier) -> SnapshotKind:
    """Return the kind of the barrier's checkpoint."""
    return _KINDS[barrier.snapshot_type]


def blocks_channel(barrier: CheckpointBarrier) -> bool:
    """Return whether the channel delivers nothing behind the barrier until it is resumed."""
    return barrier.alignment in (AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED)


def overtaking(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """Return the same barrier as one that does not wait behind records."""
    if barrier.alignment is AlignmentType.UNALIGNED:
        return barrier
    return replace(barrier, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=NO_TIMEOUT)


def times_out_at(barrier: CheckpointBarrier) -> int | None:
    """Return when the barrier begins to overtake; None: never."""
    if barrier.alignment is not AlignmentType.ALIGNED or barrier.aligned_timeout_ms == NO_TIMEOUT:
        return None
    return barrier.timestamp + barrier.aligned_timeout_ms
