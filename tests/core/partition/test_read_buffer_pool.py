"""The memory that partition files are read into, from Python: what it says, and what readers of files take of it."""

import itertools
import os
import random

import pytest
from support.faults.fault_job import Task
from support.faults.fault_proxy import wait_until

import flinkbuf as fb


def test_it_says_what_it_has():
    pool = fb.network.ReadBufferPool(1 << 20)
    assert (pool.size, pool.used_size, pool.peak_size, pool.reader_count, pool.waiting_count) == (1 << 20, 0, 0, 0, 0)
    assert fb.network.ReadBufferPool().size == 64 << 20


@pytest.mark.parametrize("size", [0, 100])
def test_too_little_for_one_reader_is_refused(size):
    with pytest.raises(ValueError, match=f"a pool of {size} bytes"):
        fb.network.ReadBufferPool(size)


def test_readers_share_little_memory_and_give_it_back(tmp_path):
    buffers = fb.NetworkBufferPool(64, segment_size=4096)
    reads = fb.network.ReadBufferPool(64 << 10)
    partition = fb.ResultPartition(buffers, 40, "BLOCKING", tmp_path / "p", read_pool=reads)
    text = random.Random(1).randbytes(1000).hex()
    with fb.RecordWriter(partition, fb.Types.STRING(), "broadcast") as writer:
        writer.emit_all([text] * 100)
    gates = [fb.InputGate([(partition, channel)]) for channel in range(40)]
    readers = [iter(fb.RecordReader(gate, fb.Types.STRING())) for gate in gates]
    for number in range(100):  # all at once, a record of each in turn: 40 × 200 KB through 64 KiB
        assert [next(reader) for reader in readers] == [text] * 40
        if number == 0:
            assert reads.reader_count == 40
    assert reads.peak_size <= (64 << 10) + 40 * (16 << 10)  # the budget, and the little that each is sure of
    for reader, gate in zip(readers, gates, strict=True):
        assert list(reader) == []
        gate.close()
    partition.release()
    partition.close()
    assert reads.used_size == 0
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("read_before", [4500, 6000, 9000])
def test_a_gate_is_read_to_its_end_while_another_one_is_left_where_it_is(read_before):
    """What channels of the first hold is not given back meanwhile: those of the second go on with what is theirs."""
    channels, count, text = 150, 30_000, "x" * 500
    reads = fb.network.ReadBufferPool(4_000_000)
    with fb.NetworkBufferPool(600, segment_size=4096) as buffers:
        partitions = [fb.ResultPartition(buffers, channels, "BLOCKING", read_pool=reads) for _ in range(2)]
        for partition in partitions:
            with fb.RecordWriter(partition, fb.Types.STRING(), "rebalance") as writer:
                writer.emit_all(itertools.repeat(text, count))
        gates = [fb.InputGate([(partition, index) for index in range(channels)]) for partition in partitions]
        first, second = [fb.RecordReader(gate, fb.Types.STRING()) for gate in gates]
        assert list(itertools.islice(first, read_before)) == [text] * read_before
        for reader, rest in ((second, count), (first, count - read_before)):
            task = Task(lambda reader=reader: sum(1 for _ in reader))
            task.start()
            assert task.end().result == rest
        for gate in gates:
            gate.close()
        assert wait_until(
            lambda: (reads.used_size, reads.waiting_count) == (0, 0)
        )  # a thread may be reading ahead still
