"""Which of a consumer's channels have something to read."""

import pytest

import flinkbuf as fb


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(32, segment_size=4096) as pool:
        yield pool
        assert pool.available_segment_count == 32, "a segment did not come home"


def test_a_gate_without_channels_is_refused():
    with pytest.raises(ValueError, match="at least one channel"):
        fb.InputGate([])


def test_a_subpartition_that_does_not_exist_is_refused(pool):
    with fb.ResultPartition(pool, 2) as partition:
        for index in (-1, 2):
            with pytest.raises(IndexError, match=f"subpartition {index}"):
                fb.InputGate([(partition, index)])


def test_a_subpartition_can_be_read_once(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.InputGate([(partition, 0)]) as first, fb.InputGate([(partition, 0)]) as second:
            first.request_partitions()
            with pytest.raises(RuntimeError, match="channel 0"):
                second.poll()


def test_poll_returns_none_when_nothing_comes_in_time(pool):
    with fb.ResultPartition(pool, 1) as partition, fb.InputGate([(partition, 0)]) as gate:
        assert gate.poll() is None
        assert gate.poll(30) is None
        assert not gate.is_finished


def test_no_channel_is_served_twice_while_another_waits(pool):
    with fb.ResultPartition(pool, 3) as partition, fb.InputGate([(partition, c) for c in range(3)]) as gate:
        with fb.RecordWriter(partition, fb.Types.INT(), "broadcast") as writer:
            for i in range(4):
                writer.emit(i)
                writer.flush()
                for _ in range(3):
                    gate.poll(10_000)[1].release()
        seen = []
        while (item := gate.poll(None)) is not None:
            seen.append(item[0])
            item[1].release()
        assert seen == [0, 1, 2, 0, 1, 2] or sorted(seen[:3]) == sorted(seen[3:]) == [0, 1, 2]
        assert gate.is_finished and gate.has_received_end_of_data and gate.is_drained


def test_a_closed_gate_lets_the_partition_go(pool):
    partition = fb.ResultPartition(pool, 1)
    writer = fb.RecordWriter(partition, fb.Types.INT())
    gate = fb.InputGate([(partition, 0)])
    writer.emit(1)
    gate.request_partitions()
    gate.close()
    gate.close()
    assert gate.is_closed and gate.queued_channel_count == 0
    writer.close()
    partition.close()
