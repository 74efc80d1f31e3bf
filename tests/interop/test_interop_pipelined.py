"""Records and events of pipelined partitions, in both directions."""

import random
import threading

import pytest
from flink_peer import NO_EXCLUSIVE, remote_channels
from flink_records import (
    END,
    await_processed,
    barrier,
    barrier_timeout,
    broadcast,
    cancel_checkpoint,
    end_of_data,
    expected,
    finish,
    flush,
    records,
    sleep,
)
from our_tasks import read, write

import flinkbuf as fb

MEBIBYTE = 2**20


def config(segment_size=32768, exclusive=True, **knobs):
    """`exclusive`: whether channels have buffers of their own, in the gates of both sides."""
    return fb.NetworkConfig(segment_size=segment_size, **({} if exclusive else NO_EXCLUSIVE), **knobs)


def sizes(segment_size):
    """Around all the edges of a segment: the length before a record takes 4 bytes, that of the array in it 4 more."""
    size = segment_size
    return (0, 1, size - 8, size - 9, 3, size - 7, 100, 2 * size - 16, 5, 3 * size)


def flink_to_ours(ours, flink, kind, steps, subpartitions, flush_ms=100, type="PIPELINED_BOUNDED", **reading):
    """Flink writes a partition, one gate of ours reads all of it."""
    partition_id = fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, subpartitions, type)
    written = flink.write(partition_id, kind, steps, flush_ms)
    with ours.create_gate(remote_channels(flink.address, partition_id, subpartitions)) as gate:
        digests = read(gate, kind, **reading)
    written.result(60)
    return digests


def ours_to_flink(ours, flink, kind, steps, subpartitions, flush_ms=100, type="PIPELINED_BOUNDED", **reading):
    """We write a partition, a task of Flink reads each of its subpartitions."""
    partition_id = fb.network.ResultPartitionID.random()
    partition = ours.create_partition(partition_id, subpartitions, type)
    digests = flink.read_all(kind, ours.address, partition_id, subpartitions, type=type, **reading)
    write(partition, kind, steps, flush_ms)
    digests = digests.result(60)
    partition.close()
    return digests


both_ways = pytest.mark.parametrize("transfer", [flink_to_ours, ours_to_flink])
any_segments = pytest.mark.parametrize("segment_size", [4096, 32768])
any_exclusive = pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "floating"])


@both_ways
@any_segments
@any_exclusive
@pytest.mark.parametrize("subpartitions", [1, 3, 100])
def test_records_of_all_sizes(open_ours, open_flink, transfer, segment_size, exclusive, subpartitions):
    knobs = config(segment_size, exclusive)
    steps = [records(1000, *sizes(segment_size)), *END]
    read = transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, subpartitions)
    assert read == expected("bytes", steps, subpartitions)


@both_ways
@pytest.mark.parametrize("kind", ["long", "string"])
def test_other_types(open_ours, open_flink, transfer, kind):
    steps = [records(3000, 0, 1, 2, 11, 200, 40_000), *END]
    read = transfer(open_ours(), open_flink(), kind, steps, 3)
    assert read == expected(kind, steps, 3)


@any_exclusive
def test_thousand_channels(open_ours, open_flink, exclusive):
    knobs = config(4096, exclusive)
    steps = [records(30_000, 0, 100, 1000), *END]
    read = flink_to_ours(open_ours(knobs, num_segments=4096), open_flink(knobs), "bytes", steps, 1000)
    assert read == expected("bytes", steps, 1000)


@both_ways
@pytest.mark.parametrize("type", ["PIPELINED", "PIPELINED_APPROXIMATE"])
def test_other_kinds_of_pipelined_partitions(open_ours, open_flink, transfer, type):
    steps = [records(3000, 10, 3000), *END]
    assert transfer(open_ours(), open_flink(), "bytes", steps, 3, type=type) == expected("bytes", steps, 3)


@both_ways
@any_segments
@any_exclusive
def test_record_of_ten_megabytes_between_empty_ones(open_ours, open_flink, transfer, segment_size, exclusive):
    knobs = config(segment_size, exclusive)
    steps = [records(12, 0, 10 * MEBIBYTE, 0, 1), *END]
    assert transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, 1) == expected("bytes", steps, 1)


@both_ways
def test_nothing_but_an_end(open_ours, open_flink, transfer):
    assert transfer(open_ours(), open_flink(), "long", END, 3) == expected("long", END, 3)


@both_ways
def test_end_without_drain(open_ours, open_flink, transfer):
    steps = [records(5), end_of_data("NO_DRAIN"), finish()]
    assert transfer(open_ours(), open_flink(), "long", steps, 1) == expected("long", steps, 1)


@both_ways
def test_broadcast_between_other_records(open_ours, open_flink, transfer):
    steps = [records(100, 7), broadcast(50, 3, 40_000), records(100, 7), broadcast(1, 0), records(1, 1), *END]
    assert transfer(open_ours(), open_flink(), "bytes", steps, 3) == expected("bytes", steps, 3)


@both_ways
@any_exclusive
@pytest.mark.parametrize("flush_ms", [0, 1, -1])
def test_flushing(open_ours, open_flink, transfer, flush_ms, exclusive):
    """After each record, by time, and never: how buffers are cut is nobody's business."""
    knobs = config(4096, exclusive)
    steps = [records(300, 10), flush(), sleep(20), records(300, 10), flush(), flush(), *END]
    read = transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, 3, flush_ms)
    assert read == expected("bytes", steps, 3)


@both_ways
@any_exclusive
def test_slow_reader(open_ours, open_flink, transfer, exclusive):
    knobs = config(4096, exclusive, floating_buffers_per_gate=1)
    steps = [records(2000, 1000, 3000), *END]
    read = transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, 1, pause_every=100, pause_ms=20)
    assert read == expected("bytes", steps, 1)


@both_ways
@any_exclusive
@pytest.mark.parametrize("subpartitions", [1, 3])
def test_aligned_barriers(open_ours, open_flink, transfer, exclusive, subpartitions):
    """The reader resumes a channel when all of its gate's are blocked; what follows a barrier comes after that."""
    knobs = config(4096, exclusive)
    steps = [barrier(1)]
    for checkpoint in range(2, 20):
        steps += [records(100, 5, 900, 5000), barrier(checkpoint)]
    steps += [barrier(20), cancel_checkpoint(21), *END]
    read = transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, subpartitions)
    assert read == expected("bytes", steps, subpartitions)


@both_ways
@any_exclusive
def test_barrier_that_announces_itself(open_ours, open_flink, transfer, exclusive):
    knobs = config(4096, exclusive)
    steps = [records(300, 2000), barrier(1, timeout_ms=60_000), records(300, 2000), barrier(2, timeout_ms=1), *END]
    read = transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, 1)
    for digest in read:
        # The announcement comes from the reading gate, as soon as the barrier has arrived.
        digest["events"] = [event for event in digest["events"] if "announcement" not in event]
    assert read == expected("bytes", steps, 1)


@both_ways
@any_exclusive
def test_unaligned_barrier_overtakes(open_ours, open_flink, transfer, exclusive):
    knobs = config(4096, exclusive)
    steps = [records(500, 2000), barrier(1, "UNALIGNED", priority=True), records(500, 2000), *END]
    (read,) = transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, 1, pause_every=10, pause_ms=2)
    (whole,) = expected("bytes", steps, 1)
    place, text = read["events"].pop(0).split(" ", 1)
    assert (int(place) < 500, text) == (True, whole["events"].pop(0).split(" ", 1)[1])
    assert read == whole


@any_exclusive
def test_barrier_that_waited_too_long_overtakes(open_ours, open_flink, exclusive):
    """Flink's writer turns it into an unaligned one while it is queued behind data."""
    knobs = config(4096, exclusive)
    ours, flink = open_ours(knobs), open_flink(knobs)
    steps = [records(20, 1000), barrier(1, timeout_ms=1), barrier_timeout(1), records(20, 1000), *END]
    partition_id = fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, 1)
    flink.write(partition_id, "bytes", steps).result(60)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        (digest,) = read(gate, "bytes")
    (whole,) = expected("bytes", steps, 1)
    assert digest["events"][0] == whole["events"][0].replace("20 ", "0 ", 1).replace("ALIGNED", "UNALIGNED")
    assert (digest["records"], digest["sha256"], digest["events"][1:]) == (40, whole["sha256"], whole["events"][1:])


@both_ways
def test_barrier_that_nobody_aligns(open_ours, open_flink, transfer):
    steps = [records(50, 2000), barrier(1, "AT_LEAST_ONCE"), records(50, 2000), *END]
    assert transfer(open_ours(), open_flink(), "bytes", steps, 2) == expected("bytes", steps, 2)


@both_ways
def test_writer_learns_that_everything_was_processed(open_ours, open_flink, transfer):
    steps = [records(50), end_of_data(), await_processed(), finish()]
    assert transfer(open_ours(), open_flink(), "long", steps, 3) == expected("long", steps, 3)


@both_ways
def test_smaller_buffers_are_asked_for(open_ours, open_flink, transfer):
    """Flink's task announces a size, ours finds one by its consumption."""
    knobs = config(buffer_debloat_enabled=True, buffer_debloat_period_ms=10, buffer_debloat_target_ms=1)
    steps = [records(2000, 3000), *END]
    asked = {"buffer_size": 1000} if transfer is ours_to_flink else {"pause_every": 100, "pause_ms": 10}
    assert transfer(open_ours(knobs), open_flink(knobs), "bytes", steps, 1, **asked) == expected("bytes", steps, 1)


@both_ways
def test_barriers_of_several_producers_meet(open_ours, open_flink, transfer):
    """One gate, three partitions: a barrier blocks its channel until it has come from all of them."""
    knobs = config(4096)
    ours, flink = open_ours(knobs), open_flink(knobs)
    writer_of = [
        [records(count, 1000), barrier(1), records(100, 1000), barrier(2), records(count, 10), *END]
        for count in (10, 200, 1000)
    ]
    ids = [fb.network.ResultPartitionID.random() for _ in writer_of]
    if transfer is flink_to_ours:
        for partition_id in ids:
            flink.create_partition(partition_id, 1)
        written = [
            flink.write(partition_id, "bytes", steps) for partition_id, steps in zip(ids, writer_of, strict=True)
        ]
        with ours.create_gate(
            [fb.network.RemoteChannel(*flink.address, partition_id, 0) for partition_id in ids]
        ) as gate:
            digests = read(gate, "bytes")
        for task in written:
            task.result(60)
    else:
        partitions = [ours.create_partition(partition_id, 1) for partition_id in ids]
        reading = flink.read("bytes", [(0, [(ours.address, partition_id) for partition_id in ids])])
        tasks = [
            threading.Thread(target=write, args=(partition, "bytes", steps))
            for partition, steps in zip(partitions, writer_of, strict=True)
        ]
        for task in tasks:
            task.start()
        digests = reading.result(60)
        for task in tasks:
            task.join(60)
    assert digests == [expected("bytes", steps, 1)[0] for steps in writer_of]


@both_ways
@pytest.mark.parametrize("seed", range(12))
def test_anything(open_ours, open_flink, transfer, seed):
    """Steps, sizes, buffers and pace at random."""
    dice = random.Random(seed)
    segment_size = dice.choice([4096, 8192, 32768])
    knobs = config(segment_size, dice.choice([True, False]), floating_buffers_per_gate=dice.choice([1, 8]))
    kind, subpartitions = dice.choice(["bytes", "string"]), dice.choice([1, 2, 7])
    steps = []
    for checkpoint in range(dice.randrange(20)):
        sizes = [dice.choice([0, 1, 10, 300, segment_size - dice.randrange(16), 100_000]) for _ in range(5)]
        steps.append(
            dice.choice(
                [
                    records(dice.randrange(200), *sizes),
                    records(dice.randrange(2000), 30),
                    broadcast(dice.randrange(20), *sizes),
                    barrier(checkpoint),
                    cancel_checkpoint(checkpoint),
                    flush(),
                    sleep(dice.randrange(20)),
                ]
            )
        )
    steps += END
    pace = {"pause_every": dice.randrange(10, 200), "pause_ms": dice.randrange(3)}
    flush_ms = dice.choice([-1, 0, 1, 100])
    read = transfer(open_ours(knobs), open_flink(knobs), kind, steps, subpartitions, flush_ms, **pace)
    assert read == expected(kind, steps, subpartitions)


@both_ways
def test_partition_after_partition(open_ours, open_flink, transfer):
    """Over one connection, over several, and over one that is closed each time."""
    for knobs in ({}, {"max_num_tcp_connections": 3}, {"tcp_connection_enable_reuse_across_jobs": False}):
        ours, flink = open_ours(config(**knobs)), open_flink(config(**knobs))
        for count in range(5):
            steps = [records(count * 300, 1000), *END]
            assert transfer(ours, flink, "bytes", steps, 7) == expected("bytes", steps, 7)


def test_both_directions_at_once(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    steps = [records(20_000, 100, 3000), *END]
    there, here = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
    flink.create_partition(there, 2)
    partition = ours.create_partition(here, 2)
    flink_writes = flink.write(there, "bytes", steps)
    flink_reads = flink.read_all("bytes", ours.address, here, 2)
    we_write = threading.Thread(target=write, args=(partition, "bytes", steps))
    we_write.start()
    with ours.create_gate(remote_channels(flink.address, there, 2)) as gate:
        assert read(gate, "bytes") == expected("bytes", steps, 2)
    assert flink_reads.result(60) == expected("bytes", steps, 2)
    flink_writes.result(60)
    we_write.join(60)


@pytest.mark.parametrize("kind", ["bytes", "long", "string"])
def test_plain_loop_of_a_user(open_ours, open_flink, kind):
    """No events asked for: the reader resumes after barriers and acknowledges by itself; the writer ends by itself."""
    from flink_records import TYPES, record

    ours, flink = open_ours(), open_flink()
    numbers = range(1000)
    steps = [records(500, 30), barrier(1), records(500, 30), end_of_data(), await_processed(), finish()]
    there, here = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
    flink.create_partition(there, 1)
    written = flink.write(there, kind, steps)
    with ours.create_gate([fb.network.RemoteChannel(*flink.address, there, 0)]) as gate:
        received = list(fb.RecordReader(gate, TYPES[kind]))
    written.result(60)
    assert received == [record(kind, number, 30) for number in numbers]

    partition = ours.create_partition(here, 1)
    read = flink.read_all(kind, ours.address, here, 1)
    with fb.RecordWriter(partition, TYPES[kind]) as writer:
        writer.emit_all(received)
    steps = [records(1000, 30), *END]
    assert read.result(60) == expected(kind, steps, 1)
