"""Writer to reader: records equal, memory flat, nothing left behind."""

import gc
import os
import random
import resource
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb

ROW = "id bigint, name string, delay double, tags array<string>"


def run(partition, write, type, reader_of=fb.RecordReader):
    """Write on a second thread while this one reads; returns what was read."""
    failure = []

    def produce():
        try:
            with fb.RecordWriter(partition, type, "global") as writer:
                write(writer)
        except BaseException as error:  # reported by the assertion below
            failure.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    with fb.InputGate([(partition, 0)]) as gate, reader_of(gate, type) as reader:
        records = list(reader)
    thread.join(60)
    assert not failure and not thread.is_alive()
    return records


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(max_size=30),
            st.none() | st.floats(allow_nan=False),
            st.none() | st.lists(st.none() | st.text(max_size=5), max_size=4),
        ),
        max_size=30,
    ),
    st.integers(16, 200),
)
@settings(max_examples=60, deadline=None)
def test_any_records_over_any_segment_size_are_equal_on_the_other_side(records, segment_size):
    with fb.NetworkBufferPool(8, segment_size=segment_size) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
            assert run(partition, lambda writer: writer.emit_all(records), ROW) == records
        assert pool.available_segment_count == 8


def test_two_gigabytes_pass_through_one_mebibyte_with_flat_memory():
    """A column of 179 million records, 2.1 GB on the stream, over 32 segments of 32 KiB."""
    column = np.arange(1 << 20, dtype=np.int64)
    rounds = 171
    sums = []

    def consume():
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, fb.Types.LONG()) as reader:
            while len(batch := reader.read_batch(1 << 20)):
                sums.append(int(batch.sum()))

    with fb.NetworkBufferPool(32, segment_size=32768) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
            thread = threading.Thread(target=consume)
            thread.start()
            with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
                for i in range(rounds):
                    writer.emit_batch(column)
                    if i == 10:
                        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            thread.join(120)
        assert pool.available_segment_count == 32
    assert sum(sums) == rounds * int(column.sum())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB


def test_two_tasks_that_send_to_each_other_do_not_lock_up():
    """Each writes more than all memory holds before the other has read it; each polls while it cannot write."""
    results = {}

    def task(name, mine, theirs):
        with fb.InputGate([(theirs, 0)]) as gate, fb.RecordReader(gate, fb.Types.LONG()) as reader:
            consumer = threading.Thread(target=lambda: results.__setitem__(name, list(reader)))
            consumer.start()
            with fb.RecordWriter(mine, fb.Types.LONG()) as writer:
                writer.emit_all(range(20_000))
            consumer.join(60)

    with fb.NetworkBufferPool(8, segment_size=256) as pool:
        with fb.ResultPartition(pool, 1) as left, fb.ResultPartition(pool, 1) as right:
            threads = [threading.Thread(target=task, args=a) for a in [("l", left, right), ("r", right, left)]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert pool.available_segment_count == 8
    assert results == {"l": list(range(20_000)), "r": list(range(20_000))}


def test_a_thousand_writers_and_readers_leave_no_thread_file_or_segment():
    def open_files():
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def threads():
        return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()

    rng = random.Random(7)
    with fb.NetworkBufferPool(16, segment_size=1024) as pool:
        files_before, threads_before = open_files(), threads()
        for _ in range(1000):
            with fb.ResultPartition(pool, 2) as partition:
                writer = fb.RecordWriter(partition, fb.Types.LONG(), "rebalance", seed=1)
                writer.emit_all(range(rng.randrange(200)))
                end = rng.randrange(3)
                if end == 0:
                    writer.close()
                elif end == 1:
                    partition.release()
                with fb.InputGate([(partition, 0), (partition, 1)]) as gate:
                    if end == 0:
                        list(fb.RecordReader(gate, fb.Types.LONG()))
        gc.collect()
        assert pool.available_segment_count == 16
        assert open_files() == files_before
        assert threads() <= threads_before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_can_write_and_read_on_its_own():
    """PySpark forks its workers: nothing of the parent's threads may be needed in the child."""
    with fb.NetworkBufferPool(8, segment_size=1024) as pool:
        with fb.ResultPartition(pool, 1) as partition:
            writer = fb.RecordWriter(partition, fb.Types.INT(), buffer_timeout_ms=10)
            writer.emit(1)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    with fb.NetworkBufferPool(8, segment_size=1024) as mine:
                        with fb.ResultPartition(mine, 1) as own:
                            with fb.InputGate([(own, 0)]) as gate:
                                second = fb.RecordWriter(own, fb.Types.INT(), buffer_timeout_ms=10)
                                second.emit(5)
                                code = 0 if next(fb.RecordReader(gate, fb.Types.INT())) == 5 else 2
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            writer.close()
            with fb.InputGate([(partition, 0)]) as gate:
                assert list(fb.RecordReader(gate, fb.Types.INT())) == [1]
