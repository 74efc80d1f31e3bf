"""ResultPartition.abort: one thread takes a partition from another that writes it."""

import itertools
import random
import threading
import time
from array import array

import pytest
from support.faults.fault_job import HANG_S, Task
from support.faults.fault_proxy import FaultProxy, wait_until
from support.later import later

import flinkbuf as fb
from flinkbuf.network.events import EndOfData


@pytest.fixture
def pool():
    """A pool whose segments must all be home at the end of the test."""
    with fb.NetworkBufferPool(32, segment_size=4096) as pool:
        yield pool
        assert pool.available_segment_count == 32


def start(function, *args):
    task = Task(function, *args)
    task.start()
    return task


def writer_of(partition, buffer_timeout_ms=5, partitioner="rebalance"):
    return fb.RecordWriter(partition, fb.Types.INT(), partitioner, buffer_timeout_ms=buffer_timeout_ms)


def test_who_waits_for_a_buffer_is_woken_and_told_the_cause(pool):
    partition = fb.ResultPartition(pool, 2)
    with (
        later(0.05, partition.abort, ValueError("enough")),
        pytest.raises(fb.errors.CancelTaskError, match="the result partition was aborted: ValueError: enough"),
        writer_of(partition) as writer,
    ):
        writer.emit_all(itertools.count())


def test_half_a_record_that_waits_for_its_other_half_is_given_up(pool):
    partition = fb.ResultPartition(pool, 1)
    task = start(partition.emit, b"\0\1\0\0" + bytes(65536), 0)
    while partition.is_available:
        time.sleep(0.001)
    assert partition.abort("enough")
    assert isinstance(task.end().error, fb.errors.CancelTaskError)


def test_nothing_can_be_written_afterwards_whichever_way(pool):
    partition = fb.ResultPartition(pool, 2)
    writer = writer_of(partition)
    writer.emit_all([1, 2, 3])
    assert partition.abort("enough") and partition.is_closed and partition.is_released
    assert pool.available_segment_count == 32
    ways = [
        lambda: writer.emit(4),
        lambda: writer.emit_to(4, 1),
        lambda: writer.broadcast(4),
        lambda: writer.emit_all([4, 5]),
        lambda: writer.emit_batch(array("i", [4, 5])),
        lambda: writer.write_event(EndOfData()),
        lambda: writer_of(partition),
        lambda: partition.emit(bytes(8), 0),
        lambda: partition.broadcast(bytes(8)),
        lambda: partition.broadcast_event(EndOfData()),
        lambda: partition.emit_event(EndOfData(), 0),
        lambda: partition.start_flushing(1),
        partition.flush_all,
        partition.finish,
        writer.close,
    ]
    for way in ways:
        with pytest.raises(fb.errors.CancelTaskError, match="the result partition was aborted: enough"):
            way()
    partition.close()
    assert partition.abort("again") and partition.failure_cause == "enough"


def test_readers_are_told_the_first_cause(pool):
    partition = fb.ResultPartition(pool, 1)
    with partition.create_view(0) as view:
        partition.fail("the first")
        assert partition.abort("the second")
        with pytest.raises(fb.errors.CancelTaskError, match="the first"):
            view.poll()
    with pytest.raises(fb.errors.CancelTaskError, match="the first"):
        partition.emit(bytes(8), 0)


def test_what_was_finished_is_dropped(pool):
    partition = fb.ResultPartition(pool, 1)
    with writer_of(partition) as writer:
        writer.emit_all(range(1000))
    assert pool.available_segment_count < 32
    assert partition.abort("enough")
    assert pool.available_segment_count == 32


def test_a_writer_that_is_busy_elsewhere_is_waited_for_and_then_left_to_close_by_itself(pool):
    partition = fb.ResultPartition(pool, 1)
    may_go_on, is_busy = threading.Event(), threading.Event()

    def halting():
        yield 1
        is_busy.set()
        may_go_on.wait(HANG_S)
        yield 2

    task = start(writer_of(partition).emit_all, halting())
    assert is_busy.wait(HANG_S)
    assert partition.abort("enough", timeout_ms=20) is False
    assert partition.is_closed and partition.is_released and pool.available_segment_count < 32
    waiting = start(partition.abort, "enough", 1000 * HANG_S)
    may_go_on.set()
    assert isinstance(task.end().error, fb.errors.CancelTaskError)
    assert waiting.end().result is True


def test_a_writer_does_not_wait_for_itself(pool):
    partition = fb.ResultPartition(pool, 1)
    said = []

    def aborting():
        yield 1
        said.append(partition.abort("enough", timeout_ms=3_600_000))
        yield 2

    with pytest.raises(fb.errors.CancelTaskError):
        writer_of(partition).emit_all(aborting())
    assert said == [False] and pool.available_segment_count == 32


def test_closing_what_another_thread_writes_is_refused_and_disturbs_nobody(pool):
    partition = fb.ResultPartition(pool, 1)
    may_go_on, is_busy = threading.Event(), threading.Event()

    def halting():
        yield 1
        is_busy.set()
        may_go_on.wait(HANG_S)
        yield 2

    writer = writer_of(partition)
    task = start(writer.emit_all, halting())
    assert is_busy.wait(HANG_S)
    with pytest.raises(RuntimeError, match="another thread"):
        partition.close()
    may_go_on.set()
    assert task.end().result == 2
    writer.close()
    partition.close()
    with fb.InputGate([(partition, 0)]) as gate:
        assert list(fb.RecordReader(gate, fb.Types.INT())) == [1, 2]


def test_abort_against_writing_and_flushing_brings_every_segment_home(pool):
    rng = random.Random(7)
    for _ in range(300):
        partition = fb.ResultPartition(pool, 3)
        writer = writer_of(partition, rng.choice([0, 1, 1]), rng.choice(["rebalance", "broadcast"]))
        tasks = [
            start(writer.emit_all, itertools.count())
            if rng.random() < 0.7
            else start(lambda emit=writer.emit: [emit(number) for number in itertools.count()])
        ]
        gate = fb.InputGate([(partition, index) for index in range(3)])
        tasks.append(start(list, fb.RecordReader(gate, fb.Types.INT())))
        time.sleep(rng.random() * 0.004)
        tasks += [start(partition.abort, "at random", 1000 * HANG_S) for _ in range(rng.randrange(1, 3))]
        for task in tasks[2:]:
            assert task.end().result is True, repr(task.error)
        for task in tasks[:2]:
            assert isinstance(task.end().error, fb.errors.CancelTaskError), repr(task.error)
        gate.close()
        assert partition.is_closed
        del tasks, task, writer
        assert pool.available_segment_count == 32


def filled(pool, path, storage):
    """A blocking partition whose end writes some megabytes."""
    partition = fb.ResultPartition(pool, 8, "BLOCKING", path / "part", storage=storage, sort_buffers=150)
    for number in range(150):
        partition.emit(b"\0\0\x70\0" + bytes(0x7000), number % 8)
    return partition


@pytest.mark.parametrize("storage", ["sort-merge", "file", "mmap"])
def test_a_blocking_partition_is_ended_or_aborted_never_both(tmp_path, storage):
    """abort() frees nothing under the thread that writes the end, and success means that it can be read."""
    rng, ended = random.Random(7), 0
    with fb.NetworkBufferPool(400, segment_size=32768) as pool:
        for _ in range(40):
            partition = filled(pool, tmp_path, storage)
            begins = threading.Event()
            task = start(lambda begins=begins, end=partition.finish: (begins.set(), end()))
            assert begins.wait(HANG_S)
            time.sleep(rng.random() * 0.004)
            partition.abort("at random", timeout_ms=0)
            error = task.end().error
            assert error is None or isinstance(error, fb.errors.CancelTaskError), repr(error)
            ended += error is None
            assert partition.is_closed and partition.is_finished >= (error is None)
            del partition, task
            assert pool.available_segment_count == 400
            assert wait_until(lambda: not list(tmp_path.iterdir()))
    assert ended < 40


def write_many(partition):
    for number in range(900):
        partition.emit(bytes(3000), number % 300)
    partition.finish()


@pytest.mark.parametrize(
    "call",
    [
        lambda partition: partition.broadcast_event_bytes(b"\0\0\0\3" + bytes(60_000), 2),
        lambda partition: partition.emit_event_bytes(b"\0\0\0\3" + bytes(60_000), 2, 0),
        lambda partition: partition.emit(b"\0\0\xea\x60" + bytes(60_000), 0),
    ],
    ids=["broadcast_event", "emit_event", "emit"],
)
@pytest.mark.parametrize("storage", ["sort-merge", "file"])
def test_one_call_at_a_time_writes_and_whoever_comes_second_is_told(tmp_path, storage, call):
    """An event that a blocking partition writes to its file lets other threads run, but none of them in."""
    with fb.NetworkBufferPool(64, segment_size=32768) as pool:
        partition = fb.ResultPartition(pool, 2, "BLOCKING", tmp_path / "part", storage=storage, sort_buffers=4)
        refused = []

        def write():
            done = 0
            for _ in range(300):
                try:
                    call(partition)
                    done += 1
                except RuntimeError as error:
                    assert "only one thread writes" in str(error), error
                    refused.append(error)
            return done

        tasks = [start(write) for _ in range(3)]
        done = sum(task.end().result for task in tasks)
        assert done + len(refused) == 900
        partition.finish()
        partition.close()
        with fb.InputGate([(partition, 0)]) as gate:
            sizes = iter(lambda: gate.poll(1000 * HANG_S), None)
            assert sum(len(bytes(buffer)) for _, buffer in sizes) == done * 60_004 + 4
        partition.release()


def test_close_waits_for_a_thread_that_comes_back_from_the_end(tmp_path):
    with fb.NetworkBufferPool(400, segment_size=32768) as pool:
        for _ in range(20):
            partition = filled(pool, tmp_path, "sort-merge")
            task = start(partition.finish)
            assert wait_until(lambda partition=partition: partition.is_finished)
            partition.close()
            assert task.end().error is None and partition.is_closed
            partition.release()
            del partition, task


def test_a_task_that_is_cancelled_after_its_reader_was_lost_is_told_of_the_reader():
    """Not that the partition is closed, which would look like a mistake in the task."""
    there, here = fb.NetworkEnvironment(num_segments=64), fb.NetworkEnvironment(num_segments=64)
    try:
        partition_id = fb.network.ResultPartitionID.random()
        partition = there.create_partition(partition_id, 1)
        writer = writer_of(partition)
        with FaultProxy(there.address) as proxy:
            gate = here.create_gate([fb.network.RemoteChannel(*proxy.address, partition_id, 0)])
            writer.emit_all(range(100))
            assert gate.poll(10_000) is not None
        assert wait_until(lambda: partition.is_reader_lost)
        assert partition.abort("the task was cancelled", timeout_ms=0)
        with pytest.raises(fb.errors.RemoteTransportError):
            writer.emit(1)
    finally:
        here.close()
        there.close()
