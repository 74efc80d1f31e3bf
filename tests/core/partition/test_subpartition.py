"""Views of subpartitions: notification, blocking, credit, debloating, replacement, and their errors."""

import time

import pytest
from support.later import later

import flinkbuf.network.events as ev
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.subpartition import AvailabilityListener, SubpartitionView
from flinkbuf.errors import CancelTaskError
from flinkbuf.network.buffer import DataType
from flinkbuf.network.partition import ResultPartition


@pytest.fixture
def partition():
    pool = NetworkBufferPool(32, segment_size=16)
    with ResultPartition(pool, 2) as partition:
        yield partition
        partition.release()
    assert pool.available_segment_count == 32


def test_reader_is_told_at_the_first_finished_buffer_and_at_a_flush(partition):
    view = partition.create_view(0)
    listener = view.listener
    partition.emit(b"x", 0)
    assert listener.notification_count == 0 and not listener.wait(0)
    partition.flush(0)
    assert listener.notification_count == 1 and listener.wait(0) and not listener.wait(0)
    assert bytes(view.poll()[0]) == b"x" and view.poll() is None
    partition.flush(0)  # nothing new
    assert listener.notification_count == 1
    partition.emit(bytes(40), 0)
    assert listener.notification_count == 2


def test_several_views_share_a_listener(partition):
    listener = AvailabilityListener()
    views = [partition.create_view(i, listener) for i in range(2)]
    partition.broadcast(b"x")
    partition.flush_all()
    assert listener.notification_count == 2 and all(view.listener is listener for view in views)


def test_waiting_reader_is_woken_by_another_thread_and_lets_python_run(partition):
    view = partition.create_view(0)
    with later(0.05, lambda: (partition.emit(b"x", 0), partition.flush(0))):
        assert view.listener.wait(20_000) and bytes(view.poll()[0]) == b"x"


def test_wait_ends_after_its_timeout(partition):
    started = time.monotonic()
    assert not partition.create_view(0).listener.wait(120)
    assert time.monotonic() - started >= 0.115


def test_released_partition_wakes_its_readers(partition):
    view = partition.create_view(0)
    with later(0.05, partition.fail, "gone"):
        assert view.listener.wait(20_000)
    with pytest.raises(CancelTaskError, match=r"subpartition 0 cannot be read on \(gone\)"):
        view.poll()


def test_aligned_barrier_blocks_until_consumption_is_resumed(partition):
    view = partition.create_view(0)
    with pytest.raises(RuntimeError, match="subpartition 0 is not blocked"):
        view.resume_consumption()
    partition.broadcast_event(ev.CheckpointBarrier(1, 2))
    partition.emit(bytes(20), 0)
    _, backlog, following, _ = view.poll()
    assert (backlog, following) == (0, DataType.NONE)
    assert view.poll() is None and not view.is_available and view.backlog == 0
    view.resume_consumption()
    assert view.is_available and view.poll()[0].size == 16


def test_priority_event_overtakes_and_needs_no_credit(partition):
    view = partition.create_view(0)
    partition.emit(bytes(20), 0)
    assert view.is_available and not view.is_available_without_credit
    partition.broadcast_event(ev.CheckpointBarrier(1, 2, alignment=ev.AlignmentType.UNALIGNED), is_priority=True)
    assert view.is_available_without_credit and view.queued_buffer_count == 3
    assert [view.poll()[0].data_type for _ in range(3)] == [3, 1, 1]


def test_announced_buffer_size_holds_from_the_next_buffer_on(partition):
    view = partition.create_view(0)
    partition.emit(b"1", 0)
    view.announce_buffer_size(4)
    partition.emit(bytes(14), 0)
    for _ in range(4):
        partition.emit(b"ab", 0)
    partition.flush(0)
    assert [view.poll()[0].size for _ in range(3)] == [16, 4, 3]
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        view.announce_buffer_size(-1)


def test_pipelined_subpartition_is_consumed_once(partition):
    view = partition.create_view(0)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        partition.create_view(0)
    view.release()
    view.release()
    with pytest.raises(CancelTaskError, match="its only reader has consumed it"):
        partition.create_view(0)


def test_reader_that_leaves_holds_nobody_up(partition):
    partition.create_view(0).release()
    for _ in range(50):
        partition.emit(bytes(100), 0)
    partition.emit(b"for the other", 1)
    partition.flush_all()
    assert bytes(partition.create_view(1).poll()[0]) == b"for the other"


def test_released_view_refuses_everything_but_release(partition):
    with partition.create_view(0) as view:
        pass
    assert view.is_released
    for use in (view.poll, view.resume_consumption, lambda: view.backlog, lambda: view.is_available):
        with pytest.raises(RuntimeError, match="view has been released"):
            use()


def test_views_are_made_by_partitions_only():
    with pytest.raises(TypeError, match="create_view"):
        SubpartitionView()


def test_forgotten_view_counts_as_released(partition):
    partition.create_view(0)
    partition.create_view(1)
    partition.close()
    assert partition.is_released


def test_counters_are_those_of_the_subpartition(partition):
    view = partition.create_view(0)
    partition.emit(bytes(20), 0)
    assert (view.total_buffer_count, view.total_byte_count) == (2, 0)
    view.poll()
    assert view.total_byte_count == 16


def test_approximate_partition_takes_a_new_reader_that_starts_at_a_whole_record():
    pool = NetworkBufferPool(32, segment_size=16)
    with ResultPartition(pool, 1, "PIPELINED_APPROXIMATE") as partition:
        first = partition.create_view(0)
        partition.emit(b"0123456789abcdefghij", 0)
        assert bytes(first.poll()[0]) == b"0123456789abcdef"
        second = partition.create_view(0)
        assert second.poll() is None
        partition.emit(b"next", 0)
        partition.flush(0)
        with pytest.raises(
            RuntimeError, match="subpartition 0 cannot be read on, since another reader has taken its place"
        ):
            first.poll()
        first.release()  # it was replaced: the new reader does not notice
        assert second.listener.notification_count == 1 and first.listener.notification_count == 2
        buffer, _, _, sequence_number = second.poll()
        assert (bytes(buffer), sequence_number) == (b"next", 0)
        del buffer
        partition.release()
        second.release()
    assert pool.available_segment_count == 32
