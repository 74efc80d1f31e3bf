"""The flusher of the process: data becomes readable in time, one thread serves all, and it goes when unused."""

import os
import signal
import time

import pytest

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.output_flusher import flushed_partition_count, flusher_turn_count
from flinkbuf.network.partition import ResultPartition


@pytest.fixture
def network():
    assert flushed_partition_count() == 0
    yield NetworkBufferPool(64, segment_size=256)
    assert flushed_partition_count() == 0


def test_written_bytes_become_readable_within_the_timeout(network):
    with ResultPartition(network, 2) as partition:
        view = partition.create_view(1)
        partition.start_flushing(20)
        for _ in range(3):
            started = time.monotonic()
            partition.emit(b"x", 1)
            assert view.listener.wait(20_000)
            assert time.monotonic() - started >= 0.01
            assert bytes(view.poll()[0]) == b"x"
        partition.broadcast(b"all")
        assert view.listener.wait(20_000)
        view.release()


def test_without_a_timeout_nothing_is_flushed(network):
    with ResultPartition(network, 1) as partition:
        view = partition.create_view(0)
        partition.emit(b"x", 0)
        assert not view.listener.wait(100) and flushed_partition_count() == 0
        partition.start_flushing(5)
        partition.stop_flushing()
        partition.stop_flushing()
        partition.emit(b"x", 0)
        assert not view.listener.wait(100)
        view.release()


def test_thread_is_started_by_the_first_and_stopped_after_the_last(network):
    threads = len(os.listdir("/proc/self/task"))
    first, second = ResultPartition(network, 1), ResultPartition(network, 1)
    assert len(os.listdir("/proc/self/task")) == threads
    first.start_flushing(10)
    second.start_flushing(10)
    assert flushed_partition_count() == 2 and len(os.listdir("/proc/self/task")) == threads + 1
    first.close()
    assert flushed_partition_count() == 1
    second.close()
    assert len(os.listdir("/proc/self/task")) == threads


def test_thread_sleeps_while_nothing_is_written(network):
    with ResultPartition(network, 1) as partition:
        partition.start_flushing(1)
        time.sleep(0.05)
        assert flusher_turn_count() == 0
        partition.emit(b"x", 0)
        time.sleep(0.1)
        turns = flusher_turn_count()
        time.sleep(0.05)
        assert 2 <= turns == flusher_turn_count()


def test_second_timeout_for_a_partition_is_refused(network):
    with ResultPartition(network, 1) as partition:
        partition.start_flushing(10)
        with pytest.raises(RuntimeError, match="flushed by another writer's timeout"):
            partition.start_flushing(10)
        assert flushed_partition_count() == 1
    with ResultPartition(network, 1) as partition, pytest.raises(ValueError, match="at least 1 ms, got 0"):
        partition.start_flushing(0)


def test_forked_child_has_a_flusher_of_its_own(network):
    with ResultPartition(network, 1) as parents:
        parents.start_flushing(10)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            code = 1
            try:
                assert flushed_partition_count() == 0
                pool = NetworkBufferPool(8, segment_size=64)
                with ResultPartition(pool, 1) as partition:
                    view = partition.create_view(0)
                    partition.start_flushing(5)
                    partition.emit(b"x", 0)
                    code = 0 if view.listener.wait(10_000) and flushed_partition_count() == 1 else 2
                    view.release()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert flushed_partition_count() == 1
