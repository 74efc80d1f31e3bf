"""What a barrier says of its checkpoint. Flink: CheckpointOptionsTest."""

import pytest

from flinkbuf.checkpoints.options import NO_TIMEOUT, CheckpointOptions, SnapshotKind
from flinkbuf.network.events import AlignmentType, CheckpointBarrier, SnapshotType, event_from_bytes
from flinkbuf.streaming.checkpoint.barriers import (
    barrier_of,
    blocks_channel,
    kind_of,
    options_of,
    overtaking,
    times_out_at,
)

KINDS = [kind.value for kind in SnapshotKind]
WAYS = [
    CheckpointOptions(location="s3://bucket/a b"),
    CheckpointOptions(is_exactly_once=False),
    CheckpointOptions(is_unaligned=True, aligned_timeout_ms=0),
    CheckpointOptions(aligned_timeout_ms=30_000),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS, ids=["aligned", "at least once", "unaligned", "timeout"])
def test_options_come_through_a_barrier_and_its_bytes(kind, way):
    options = CheckpointOptions(**{**vars(way), "kind": kind})
    barrier = event_from_bytes(barrier_of(7, 5, options).to_buffer_bytes())
    assert kind_of(barrier).value == kind
    expected = options
    if SnapshotKind(kind).is_savepoint:  # aligned, whatever the job's checkpoints are
        expected = CheckpointOptions(kind, options.location, options.is_exactly_once, False, NO_TIMEOUT)
    assert options_of(barrier) == expected


def test_which_barriers_wait():
    alignments = [barrier_of(1, 0, way).alignment for way in WAYS]
    assert alignments == [
        AlignmentType.ALIGNED,
        AlignmentType.AT_LEAST_ONCE,
        AlignmentType.UNALIGNED,
        AlignmentType.ALIGNED,
    ]
    assert [blocks_channel(barrier_of(1, 0, way)) for way in WAYS] == [True, False, False, True]
    assert [times_out_at(barrier_of(1, 5, way)) for way in WAYS] == [None, None, None, 30_005]
    assert blocks_channel(CheckpointBarrier(1, 0, alignment=AlignmentType.FORCED_ALIGNED))


def test_a_barrier_that_overtakes_has_no_timeout_any_more():
    sent = overtaking(barrier_of(1, 5, WAYS[3]))
    assert (sent.alignment, times_out_at(sent), sent.checkpoint_id) == (AlignmentType.UNALIGNED, None, 1)
    assert overtaking(sent) is sent


def test_a_native_savepoint_of_another_program_is_a_savepoint():
    assert kind_of(CheckpointBarrier(1, 0, SnapshotType.SAVEPOINT_SUSPEND_NATIVE)) is SnapshotKind.SAVEPOINT_SUSPEND
