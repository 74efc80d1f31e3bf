"""Partitions that Flink has written to files, as it does in batch jobs, read by flinkbuf."""

import threading
import time

import pytest
from flink_peer import NO_EXCLUSIVE, remote_channels
from flink_records import END, TYPES, broadcast, expected, records
from our_tasks import read

import flinkbuf as fb

MEBIBYTE = 2**20
CODECS = ["NONE", "LZ4", "ZSTD"]


def config(codec, segment_size=32768, exclusive=True, **knobs):
    """`exclusive`: whether channels have buffers of their own in our gate."""
    return fb.NetworkConfig(
        segment_size=segment_size, compression_codec=codec, **({} if exclusive else NO_EXCLUSIVE), **knobs
    )


def serve(flink, kind, steps, subpartitions):
    """Let Flink write a partition to its end, since nobody may read it before."""
    partition_id = fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, subpartitions, "BLOCKING")
    flink.write(partition_id, kind, steps).result(60)
    return partition_id


any_codec = pytest.mark.parametrize("codec", CODECS)
any_exclusive = pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "floating"])


@any_codec
@any_exclusive
@pytest.mark.parametrize("segment_size", [4096, 32768])
@pytest.mark.parametrize("subpartitions", [1, 3, 100])
def test_records_of_all_sizes(open_ours, open_flink, codec, segment_size, subpartitions, exclusive):
    knobs = config(codec, segment_size, exclusive)
    ours, flink = open_ours(knobs), open_flink(knobs)
    sizes = (0, 1, segment_size - 8, 3, segment_size - 9, 100, 2 * segment_size - 16, 5, 30, 3 * segment_size, 9, 77)
    steps = [records(1001, *sizes), *END]
    partition_id = serve(flink, "bytes", steps, subpartitions)
    with ours.create_gate(remote_channels(flink.address, partition_id, subpartitions)) as gate:
        assert read(gate, "bytes") == expected("bytes", steps, subpartitions)


@any_codec
@pytest.mark.parametrize("kind", ["long", "string"])
def test_other_types(open_ours, open_flink, codec, kind):
    ours, flink = open_ours(config(codec)), open_flink(config(codec))
    steps = [records(5000, 1, 30, 200), *END]
    partition_id = serve(flink, kind, steps, 3)
    with ours.create_gate(remote_channels(flink.address, partition_id, 3)) as gate:
        assert read(gate, kind) == expected(kind, steps, 3)


@any_codec
@any_exclusive
@pytest.mark.parametrize("segment_size", [4096, 32768])
def test_record_of_ten_megabytes_between_empty_ones(open_ours, open_flink, codec, segment_size, exclusive):
    knobs = config(codec, segment_size, exclusive)
    ours, flink = open_ours(knobs), open_flink(knobs)
    steps = [records(14, 0, 0, 10 * MEBIBYTE, 1, 0, 10 * MEBIBYTE + 1, 7), *END]
    partition_id = serve(flink, "bytes", steps, 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        assert read(gate, "bytes") == expected("bytes", steps, 1)


@any_codec
def test_more_than_the_memory_of_the_writer(open_ours, open_flink, codec):
    """Several regions in the file, broadcast ones among them."""
    ours, flink = open_ours(config(codec)), open_flink(config(codec, sort_shuffle_min_buffers=64))
    steps = [records(1000, 9000), broadcast(300, 4000), records(2000, 2000), broadcast(1, 100), *END]
    partition_id = serve(flink, "bytes", steps, 3)
    with ours.create_gate(remote_channels(flink.address, partition_id, 3)) as gate:
        assert read(gate, "bytes") == expected("bytes", steps, 3)


@any_codec
def test_many_readers_one_after_the_other_and_at_once(open_ours, open_flink, codec):
    ours, flink = open_ours(config(codec)), open_flink(config(codec))
    steps = [records(3000, 1000, 7000), *END]
    partition_id = serve(flink, "bytes", steps, 3)
    for _ in range(2):
        with ours.create_gate(remote_channels(flink.address, partition_id, 3)) as gate:
            assert read(gate, "bytes") == expected("bytes", steps, 3)
    digests = {}

    def task(number):
        with ours.create_gate([fb.network.RemoteChannel(*flink.address, partition_id, number % 3)]) as gate:
            digests[number] = read(gate, "bytes")

    tasks = [threading.Thread(target=task, args=(number,)) for number in range(6)]
    for thread in tasks:
        thread.start()
    for thread in tasks:
        thread.join(60)
    assert digests == {number: [expected("bytes", steps, 3)[number % 3]] for number in range(6)}


@any_codec
@any_exclusive
def test_slow_reader(open_ours, open_flink, codec, exclusive):
    knobs = config(codec, 4096, exclusive, floating_buffers_per_gate=1)
    ours, flink = open_ours(knobs), open_flink(knobs)
    steps = [records(2000, 1000, 3000), *END]
    partition_id = serve(flink, "bytes", steps, 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        assert read(gate, "bytes", pause_every=100, pause_ms=20) == expected("bytes", steps, 1)


@any_codec
def test_reader_that_stops_early_disturbs_nobody(open_ours, open_flink, codec):
    ours, flink = open_ours(config(codec)), open_flink(config(codec))
    steps = [records(9000, 3000), *END]
    partition_id = serve(flink, "bytes", steps, 3)
    with ours.create_gate(remote_channels(flink.address, partition_id, 3)) as gate:
        for _ in range(5):
            with ours.create_gate(remote_channels(flink.address, partition_id, 3)) as other:
                assert sum(digest["records"] for digest in read(other, "bytes", limit=100)) == 100
        assert read(gate, "bytes") == expected("bytes", steps, 3)


def test_partition_that_is_released_while_it_is_read(open_ours, open_flink):
    """A reader of a blocking partition is told, once it has what Flink had read ahead; one of a pipelined partition
    learns it from its job manager alone."""
    options = {"taskmanager.memory.framework.off-heap.batch-shuffle.size": "4 mb"}
    ours, flink = open_ours(config("NONE")), open_flink(config("NONE"), options)
    partition_id = serve(flink, "bytes", [records(9000, 3000), *END], 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        reader = fb.RecordReader(gate, TYPES["bytes"])
        next(reader)
        flink.release(partition_id)
        time.sleep(0.3)  # they do it in the background
        with pytest.raises(fb.errors.CancelTaskError, match="released"):
            list(reader)


@pytest.mark.parametrize(("theirs", "assumed"), [("LZ4", "ZSTD"), ("ZSTD", "LZ4")])
def test_other_codec_than_configured_is_an_error_that_says_so(open_ours, open_flink, theirs, assumed):
    ours, flink = open_ours(config(assumed)), open_flink(config(theirs))
    partition_id = serve(flink, "bytes", [records(100, 3000), *END], 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        with pytest.raises(fb.errors.CorruptDataError, match="does the producer use another"):
            read(gate, "bytes")


def test_compressed_where_none_was_configured_is_an_error_that_says_so(open_ours, open_flink):
    ours, flink = open_ours(config("NONE")), open_flink(config("LZ4"))
    partition_id = serve(flink, "bytes", [records(100, 3000), *END], 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        with pytest.raises(ValueError, match="set NetworkConfig.compression_codec to the producer's"):
            read(gate, "bytes")


def test_lzo_is_refused_by_name(open_ours, open_flink):
    ours, flink = open_ours(config("LZO")), open_flink(config("LZO"))
    partition_id = serve(flink, "bytes", [records(100, 3000), *END], 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        with pytest.raises(ValueError, match="flinkbuf does not read or write LZO"):
            read(gate, "bytes")


def test_segments_of_another_size_are_an_error_that_says_so(open_ours, open_flink):
    ours, flink = open_ours(config("LZ4", 4096)), open_flink(config("LZ4", 32768))
    partition_id = serve(flink, "bytes", [records(100, 30000), *END], 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        with pytest.raises(fb.FlinkbufError, match="the segment size of the reading side"):
            read(gate, "bytes")
