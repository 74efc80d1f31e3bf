"""Several input gates read as one, through the binding and by a record reader."""

import gc
import threading
import time

import pytest
from support.later import later

import flinkbuf as fb
from flinkbuf.network.events import CheckpointBarrier, EndOfData, EndOfPartition


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(64, segment_size=4096) as pool:
        yield pool
        gc.collect()
        assert pool.available_segment_count == 64, "a segment did not come home"


def write(partition, records):
    with fb.RecordWriter(partition, fb.Types.INT(), "rebalance", seed=1) as writer:
        writer.emit_all(records)


def gates_on(*partitions):
    return [fb.InputGate([(p, index) for index in range(p.subpartition_count)]) for p in partitions]


def test_a_union_needs_two_different_gates(pool):
    with fb.ResultPartition(pool, 2) as partition:
        first, second = fb.InputGate([(partition, 0)]), fb.InputGate([(partition, 1)])
        with pytest.raises(ValueError, match="at least two input gates, got 0"):
            fb.network.UnionInputGate([])
        with pytest.raises(ValueError, match="at least two input gates, got 1"):
            fb.network.UnionInputGate([first])
        with pytest.raises(ValueError, match="only once"):
            fb.network.UnionInputGate([first, second, first])
        with pytest.raises(TypeError, match="number 1 is of type ResultPartition"):
            fb.network.UnionInputGate([first, partition])
        second.request_partitions()
        with pytest.raises(RuntimeError, match="read already, or belongs to another union"):
            fb.network.UnionInputGate([first, second])
        second.close()
        with pytest.raises(RuntimeError, match="closed"):
            fb.network.UnionInputGate([first, second])
        first.close()


def test_a_gate_belongs_to_one_union(pool):
    with fb.ResultPartition(pool, 3) as partition:
        gates = [fb.InputGate([(partition, index)]) for index in range(3)]
        with fb.network.UnionInputGate(gates[:2]) as union:
            assert union.gates == tuple(gates[:2])
            with pytest.raises(RuntimeError, match="another union"):
                fb.network.UnionInputGate(gates[1:])
        assert gates[0].is_closed and gates[1].is_closed and not gates[2].is_closed


def test_channels_are_numbered_through_and_none_starves(pool):
    with fb.ResultPartition(pool, 3) as a, fb.ResultPartition(pool, 5) as b:
        for partition in (a, b):
            write(partition, range(30))
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            assert union.channel_count == 8
            assert union.queued_channel_count == 0  # nothing was asked for yet
            seen = []
            while item := union.poll(None):
                seen.append(item[0])
                item[1].release()
            # Data, EndOfData and EndOfPartition of each, in turns of gates and of channels.
            assert seen == [0, 3, 1, 4, 2, 5, 0, 6, 1, 7, 2, 3, 0, 4, 1, 5, 2, 6, 7, 3, 4, 5, 6, 7]
            assert union.is_finished and union.has_received_end_of_data and union.is_drained
            assert union.poll(None) is None


def test_a_reader_reads_all_gates(pool):
    with fb.ResultPartition(pool, 2) as a, fb.ResultPartition(pool, 1) as b:
        write(a, range(1000))
        write(b, range(1000, 1500))
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            reader = fb.RecordReader(union, fb.Types.INT())
            records = {0: [], 1: [], 2: []}
            for record in reader:
                records[reader.channel_index].append(record)
        assert records[2] == list(range(1000, 1500))
        assert sorted(records[0] + records[1]) == list(range(1000)) and len(records[0]) == 500


def test_a_reader_reads_batches_of_all_gates(pool):
    with fb.ResultPartition(pool, 2) as a, fb.ResultPartition(pool, 1) as b:
        write(a, range(1000))
        write(b, range(1000, 1500))
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            reader = fb.RecordReader(union, fb.Types.INT())
            batches = [reader.read_batch(400) for _ in range(5)]
        assert [len(batch) for batch in batches] == [400, 400, 400, 300, 0]
        assert sorted(value for batch in batches for value in batch.tolist()) == list(range(1500))


def test_events_come_in_their_place_and_barriers_block_their_channel(pool):
    with fb.ResultPartition(pool, 1) as a, fb.ResultPartition(pool, 1) as b:
        for number, partition in enumerate((a, b)):
            with fb.RecordWriter(partition, fb.Types.INT()) as writer:
                writer.emit(number)
                writer.write_event(CheckpointBarrier(7, 0))
                writer.emit(number + 10)
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            reader = fb.RecordReader(union, fb.Types.INT(), events=True)
            items = [(next(reader), reader.channel_index) for _ in range(4)]
            assert [item for item in items if item[1] == 0] == [(0, 0), (CheckpointBarrier(7, 0), 0)]
            assert [item for item in items if item[1] == 1] == [(1, 1), (CheckpointBarrier(7, 0), 1)]
            assert union.poll(30) is None
            union.resume_consumption(1)
            assert [next(reader) for _ in range(3)] == [11, EndOfData(), EndOfPartition()]
            assert reader.channel_index == 1
            union.resume_consumption(0)
            assert list(reader) == [10, EndOfData(), EndOfPartition()]
            with pytest.raises(IndexError, match="channel 2 of a union with 2"):
                union.resume_consumption(2)


def test_producers_of_all_gates_learn_that_all_was_processed(pool):
    with fb.ResultPartition(pool, 2) as a, fb.ResultPartition(pool, 1) as b:
        write(a, range(10))
        write(b, range(10))
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            assert sorted(fb.RecordReader(union, fb.Types.INT())) == sorted([*range(10)] * 2)
        assert a.is_all_data_processed and b.is_all_data_processed


def test_errors_name_the_channel_of_the_union_and_stay(pool):
    with fb.ResultPartition(pool, 2) as a, fb.ResultPartition(pool, 2) as b:
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            assert union.poll() is None
            b.fail(ZeroDivisionError("by zero"))
            for _ in range(2):
                with pytest.raises(fb.errors.CancelTaskError, match="channel [23] .*ZeroDivisionError: by zero"):
                    union.poll(20_000)


def test_a_partition_that_is_read_already_is_named(pool):
    with fb.ResultPartition(pool, 1) as a, fb.ResultPartition(pool, 1) as b:
        with fb.InputGate([(b, 0)]) as thief, fb.network.UnionInputGate(gates_on(a, b)) as union:
            thief.request_partitions()
            with pytest.raises(RuntimeError, match="channel 1"):
                union.poll()


def test_a_union_waits_for_any_of_its_gates(pool):
    with fb.ResultPartition(pool, 1) as a, fb.ResultPartition(pool, 1) as b:
        with fb.network.UnionInputGate(gates_on(a, b)) as union:
            assert union.poll(20) is None
            for index, partition in enumerate((a, b)):
                timer = threading.Timer(
                    0.03, lambda partition=partition: (partition.emit(b"1", 0), partition.flush_all())
                )
                timer.start()
                channel, buffer = union.poll(20_000)
                buffer.release()
                timer.join()
                assert channel == index


def test_a_thread_that_waits_is_told_when_a_gate_is_closed(pool):
    with fb.ResultPartition(pool, 1) as a, fb.ResultPartition(pool, 1) as b:
        gates = gates_on(a, b)
        union = fb.network.UnionInputGate(gates)
        started = time.monotonic()
        with later(0.05, gates[1].close), pytest.raises(fb.errors.CancelTaskError, match="closed by another thread"):
            union.poll(20_000)
        assert time.monotonic() - started < 10
        assert union.is_closed
        union.close()
        union.close()
        for method in (union.poll, union.request_partitions, lambda: union.resume_consumption(0)):
            with pytest.raises(RuntimeError, match="closed"):
                method()
        assert union.queued_channel_count == 0 and not union.is_finished


def test_a_forgotten_union_lets_its_gates_go(pool):
    with fb.ResultPartition(pool, 1) as a, fb.ResultPartition(pool, 1) as b:
        gates = gates_on(a, b)
        union = fb.network.UnionInputGate(gates)
        union.poll()
        union.itself = union  # a cycle: the collector finds it
        del union
        gc.collect()
        assert all(gate.is_closed for gate in gates)
        write(a, [1])


def test_gates_of_several_processes_are_read_as_one():
    with fb.NetworkEnvironment(num_segments=64) as here, fb.NetworkEnvironment(num_segments=64) as there:
        ids = [fb.network.ResultPartitionID.random() for _ in range(2)]
        for number, (env, partition_id) in enumerate(zip((here, there), ids, strict=True)):
            write(env.create_partition(partition_id, 1), range(number * 1000, number * 1000 + 1000))
        channels = [fb.network.LocalChannel(ids[0], 0), fb.network.RemoteChannel(*there.address, ids[1], 0)]
        with fb.network.UnionInputGate([here.create_gate([channel]) for channel in channels]) as union:
            assert sorted(fb.RecordReader(union, fb.Types.INT())) == list(range(2000))


def test_an_environment_that_closes_tells_who_reads_its_gates_together():
    env = fb.NetworkEnvironment(num_segments=64)
    ids = [fb.network.ResultPartitionID.random() for _ in range(2)]
    for partition_id in ids:
        env.create_partition(partition_id, 1)
    channels = [fb.network.RemoteChannel(*env.address, partition_id, 0) for partition_id in ids]
    union = fb.network.UnionInputGate([env.create_gate([channel]) for channel in channels])
    with later(0.05, env.close), pytest.raises((RuntimeError, fb.FlinkbufError)):
        union.poll(20_000)
    union.close()
