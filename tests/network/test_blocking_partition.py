"""Blocking partitions by every storage: what was written is read, by each reader, however it was collected and kept."""

import contextlib
import gc
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf.network.buffer import DataType
from flinkbuf.network.environment import LocalChannel, NetworkEnvironment, RemoteChannel
from flinkbuf.network.events import EndOfData, EndOfPartition, event_from_bytes

SEGMENT_SIZE = 4096
STORAGES = ["sort-merge", "file", "mmap", "auto"]
CODECS = [None, "LZ4", "ZSTD"]
PAIR = fb.as_type("n bigint, s string")
TYPES = {
    "int": (fb.Types.INT(), lambda draw: draw.randrange(-(2**31), 2**31)),
    "long": (fb.Types.LONG(), lambda draw: draw.randrange(-(2**63), 2**63)),
    "double": (fb.Types.DOUBLE(), lambda draw: draw.random()),
    "string": (fb.Types.STRING(), lambda draw: "é" * draw.choice([0, 1, 7, 300])),
    "bytes": (fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE()), lambda draw: draw.randbytes(draw.choice([0, 5, 90]))),
    "row": (PAIR, lambda draw: (draw.randrange(1000), "x" * draw.randrange(50))),
    "list": (fb.Types.LIST(fb.Types.INT()), lambda draw: [draw.randrange(9)] * draw.randrange(20)),
    "map": (fb.Types.MAP(fb.Types.STRING(), fb.Types.INT()), lambda draw: {str(draw.randrange(9)): 1}),
    "anything": (fb.Types.PICKLED_BYTE_ARRAY(), lambda draw: draw.choice([None, 1, "a", (1, [2.5]), {"k": b"v"}])),
}


@pytest.fixture
def pool():
    """A pool whose segments must all be home at the end of the test."""
    made = fb.NetworkBufferPool(128, segment_size=SEGMENT_SIZE)
    yield made
    gc.collect()
    assert made.available_segment_count == made.total_segment_count


@pytest.fixture
def folder(tmp_path):
    """A folder in which no partition leaves a file behind."""
    yield tmp_path
    gc.collect()
    wait_until_empty(tmp_path)


@contextlib.contextmanager
def blocking(pool, subpartition_count, path, **options):
    """A partition whose producer closes it, and whom nobody needs any more at the end."""
    partition = fb.ResultPartition(pool, subpartition_count, "BLOCKING", path, **options)
    try:
        yield partition
    finally:
        partition.release()
        partition.close()


def wait_until_empty(folder):
    """Files go with the last reader, which may be a thread that is just reading ahead."""
    wait_until(lambda: os.listdir(folder) == [])


def read(partition, subpartition, record_type):
    with fb.InputGate([(partition, subpartition)]) as gate:
        return list(fb.RecordReader(gate, record_type))


def taken(partition, subpartition):
    """Every buffer and event of a subpartition, through a view: (data type, bytes)."""
    found = []
    with partition.create_view(subpartition) as view:
        while not found or found[-1][0] != DataType.END_OF_PARTITION:
            polled = view.poll()
            if polled is None:
                assert view.listener.wait(20_000)
                continue
            with polled[0] as buffer:
                found.append((DataType(buffer.data_type), bytes(buffer)))
    return found


# ---- what was written is read


@pytest.mark.parametrize("sort_buffers", [4, 100], ids=["log", "builders"])
@pytest.mark.parametrize("kind", TYPES)
def test_records_of_every_type_come_back_in_order(pool, folder, kind, sort_buffers):
    record_type, make = TYPES[kind]
    draw = random.Random(kind)
    expected = [[] for _ in range(9)]
    with blocking(pool, 9, folder / "p", sort_buffers=sort_buffers) as partition:
        with fb.RecordWriter(partition, record_type) as writer:
            for _ in range(2000):
                record = make(draw)
                if draw.random() < 0.02:
                    writer.broadcast(record)
                    for records in expected:
                        records.append(record)
                else:
                    channel = draw.randrange(9)
                    writer.emit_to(record, channel)
                    expected[channel].append(record)
        for channel in (3, 0, 8, 3, 1, 2, 4, 5, 6, 7):
            assert read(partition, channel, record_type) == expected[channel]


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage_gives_the_same(pool, folder, storage, compression):
    records = [(number % 7, "value " * (number % 5)) for number in range(5000)]
    options = {"storage": storage, "compression": compression}
    with blocking(pool, 7, folder / "p", **options) as partition:
        with fb.RecordWriter(partition, PAIR, lambda record, count: record[0]) as writer:
            assert writer.emit_all(records) == 5000
        size = sum(os.path.getsize(folder / name) for name in os.listdir(folder))
        for _ in range(2):
            for channel in range(7):
                assert read(partition, channel, PAIR) == [record for record in records if record[0] == channel]
    plain = sum(16 + len(text) for _, text in records)
    if storage in ("sort-merge", "file"):  # a mapped file is as long as what is mapped
        assert size < plain * 0.7 if compression else size > plain * 0.8


@pytest.mark.parametrize("sort_buffers", [4, 100], ids=["log", "builders"])
@pytest.mark.parametrize("storage", STORAGES)
def test_records_larger_than_all_buffers_go_through(pool, folder, storage, sort_buffers):
    records = [(0, "a"), (1, "b" * 3_000_000), (2, "c"), (1, "d" * 100_000), (0, "e" * SEGMENT_SIZE), (1, "f")]
    with blocking(pool, 3, folder / "p", storage=storage, sort_buffers=sort_buffers) as partition:
        with fb.RecordWriter(partition, PAIR, lambda record, count: record[0]) as writer:
            writer.emit_all(records)
            writer.broadcast((9, "g" * 50_000))
        for channel in range(3):
            mine = [record for record in records if record[0] == channel]
            assert read(partition, channel, PAIR) == [*mine, (9, "g" * 50_000)]


@pytest.mark.parametrize("sort_buffers", [4, 100], ids=["log", "builders"])
def test_columns_of_numbers_are_records_like_others(pool, folder, sort_buffers):
    values = np.arange(30_000, dtype=np.int64) * 37
    channels = (values % 11).astype(np.uint32)
    with blocking(pool, 11, folder / "p", sort_buffers=sort_buffers) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            assert writer.emit_batch(values[:10], channels[:10]) == 10
            writer.emit_to(5, 3)
            assert writer.emit_batch(values[10:], channels[10:]) == 29_990
        for channel in range(11):
            expected = [int(value) for value in values[channels == channel]]
            if channel == 3:
                expected.insert(int((channels[:10] == 3).sum()), 5)
            assert read(partition, channel, fb.Types.LONG()) == expected
    with blocking(pool, 3, folder / "q", sort_buffers=sort_buffers) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG(), "broadcast") as writer:
            writer.emit_batch(values)
        assert [read(partition, channel, fb.Types.LONG()) for channel in range(3)] == [values.tolist()] * 3
    with blocking(pool, 1, folder / "r", sort_buffers=sort_buffers) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            writer.emit_batch(values)
        assert read(partition, 0, fb.Types.LONG()) == values.tolist()


@pytest.mark.parametrize("sort_buffers", [4, 100], ids=["log", "builders"])
@pytest.mark.parametrize("storage", STORAGES)
def test_timestamps_watermarks_and_events_keep_their_places(pool, folder, storage, sort_buffers):
    element = fb.Types.STREAM_ELEMENT(fb.Types.INT())
    with blocking(pool, 2, folder / "p", storage=storage, sort_buffers=sort_buffers) as partition:
        with fb.RecordWriter(partition, element, lambda value, count: value % count) as writer:
            for number in range(6):
                writer.emit(number, number * 10)
            writer.emit(fb.types.Watermark(60))
            writer.write_event(fb.events.EndOfSuperstep())
            writer.emit(6, 70)
        with fb.InputGate([(partition, 0)]) as gate:
            reader = fb.RecordReader(gate, element)
            found = [(record, reader.timestamp) for record in reader]
        assert found[:3] == [(0, 0), (2, 20), (4, 40)] and (fb.types.Watermark(60), None) in found
        kinds = [kind for kind, _ in taken(partition, 1)]
        assert kinds[-2:] == [DataType.END_OF_DATA, DataType.END_OF_PARTITION]
        assert sum(DataType(kind).is_event if hasattr(kind, "is_event") else kind > 1 for kind in kinds) >= 3


@pytest.mark.parametrize("storage", STORAGES)
def test_events_come_with_the_data_types_that_they_had(pool, folder, storage):
    with blocking(pool, 2, folder / "p", storage=storage) as partition:
        partition.emit(b"\0\0\0\1a", 0)
        partition.broadcast_event(EndOfData())
        partition.finish()
        assert [kind for kind, _ in taken(partition, 0)] == [
            DataType.DATA_BUFFER,
            DataType.END_OF_DATA,
            DataType.END_OF_PARTITION,
        ]
        (_, end_of_data), (_, end) = taken(partition, 1)
        assert isinstance(event_from_bytes(end_of_data), EndOfData)
        assert isinstance(event_from_bytes(end), EndOfPartition)


# ---- readers


@pytest.mark.parametrize("storage", STORAGES)
def test_many_readers_at_once_and_one_after_the_other(pool, folder, storage):
    records = [(number % 5, "r" * (number % 60)) for number in range(20_000)]
    with blocking(pool, 5, folder / "p", storage=storage, compression="LZ4") as partition:
        with fb.RecordWriter(partition, PAIR, lambda record, count: record[0]) as writer:
            writer.emit_all(records)
        partition.close()  # the producer's part is over
        expected = [[record for record in records if record[0] == channel] for channel in range(5)]
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(lambda n: read(partition, n % 5, PAIR) == expected[n % 5], range(40)))
        assert all(results)
        with fb.InputGate([(partition, channel) for channel in range(5)]) as gate:
            assert sorted(fb.RecordReader(gate, PAIR)) == sorted(records)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_reader_may_stop_anywhere(pool, folder, storage):
    with blocking(pool, 2, folder / "p", storage=storage) as partition:
        with fb.RecordWriter(partition, PAIR, "broadcast") as writer:
            writer.emit_all((number, "s" * 100) for number in range(3000))
        for count in (0, 1, 700):
            with fb.InputGate([(partition, 0)]) as gate:
                reader = iter(fb.RecordReader(gate, PAIR))
                for number in range(count):
                    assert next(reader)[0] == number
        assert len(read(partition, 0, PAIR)) == 3000


@pytest.mark.parametrize("storage", STORAGES)
def test_nobody_reads_before_it_is_finished(pool, folder, storage):
    with blocking(pool, 2, folder / "p", storage=storage) as partition:
        partition.emit(b"\0\0\0\1a", 0)
        with pytest.raises(RuntimeError, match="not finished"):
            partition.create_view(0)
        with fb.InputGate([(partition, 0)]) as gate, pytest.raises(RuntimeError, match="not finished"):
            gate.request_partitions()
        partition.finish()
        assert len(taken(partition, 0)) == 2


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_finished_holds_no_buffers(folder, storage):
    pool = fb.NetworkBufferPool(8, segment_size=4096)
    partitions = []
    for number in range(5):  # together they would be guaranteed more than there are
        partition = fb.ResultPartition(pool, 3, "BLOCKING", folder / f"{number}", storage=storage)
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(range(3000))
        assert pool.available_segment_count == pool.total_segment_count
        assert pool.required_segment_count == 0
        partitions.append(partition)
    with fb.InputGate([(each, index) for each in partitions for index in range(3)]) as gate:
        assert sum(1 for _ in fb.RecordReader(gate, fb.Types.INT())) == 5 * 3000
    for each in partitions:
        each.close()
        each.release()


@pytest.mark.parametrize("storage", STORAGES)
def test_release_during_a_read_ends_it_and_deletes_the_files_behind_it(pool, folder, storage):
    partition = fb.ResultPartition(pool, 2, "BLOCKING", folder / "p", storage=storage)
    with fb.RecordWriter(partition, PAIR, "broadcast") as writer:
        writer.emit_all((number, "t" * 200) for number in range(20_000))
    partition.close()
    with fb.InputGate([(partition, 0)]) as gate:
        reader = iter(fb.RecordReader(gate, PAIR))
        assert next(reader)[0] == 0
        assert os.listdir(folder)
        partition.release()
        with pytest.raises(fb.errors.CancelTaskError):
            for _ in reader:
                pass
        with pytest.raises(fb.errors.CancelTaskError):
            partition.create_view(1)
    wait_until_empty(folder)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_block_that_raises_leaves_nothing(pool, folder, storage):
    with pytest.raises(ZeroDivisionError):
        with fb.ResultPartition(pool, 3, "BLOCKING", folder / "p", storage=storage) as partition:
            with fb.RecordWriter(partition, PAIR) as writer:
                writer.emit_all((number, "u" * 500) for number in range(2000))
                1 / 0
    assert os.listdir(folder) == []
    with pytest.raises(fb.errors.CancelTaskError, match="ZeroDivisionError"):
        partition.create_view(0)


def test_a_partition_that_nobody_has_any_more_takes_its_files_along(pool, folder):
    partition = fb.ResultPartition(pool, 2, "BLOCKING", folder / "p")
    with fb.RecordWriter(partition, PAIR) as writer:
        writer.emit((1, "v"))
    assert os.listdir(folder)
    del partition, writer
    gc.collect()


def test_temporary_files_lie_with_the_io_manager(pool, tmp_path):
    with fb.network.IOManager([tmp_path]) as manager:
        partition = fb.ResultPartition(pool, 2, "BLOCKING", io_manager=manager)
        assert partition.path.startswith(str(tmp_path))
        with fb.RecordWriter(partition, PAIR) as writer:
            writer.emit((1, "v"))
        assert read(partition, 0, PAIR) + read(partition, 1, PAIR) == [(1, "v")]
        partition.release()
        partition.close()
    assert os.listdir(tmp_path) == []


# ---- over the network, and in the environment of a process


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD"])
@pytest.mark.parametrize("kind", ["sort-merge", "file", "mmap"])
def test_remote_and_local_readers_read_it_any_number_of_times(kind, compression):
    records = [(number % 4, "w" * (number % 90)) for number in range(5000)]
    config = fb.NetworkConfig(
        compression_codec=compression,
        segment_size=SEGMENT_SIZE,
        sort_shuffle_min_parallelism=1 if kind == "sort-merge" else 100,
        blocking_shuffle_type="file" if kind == "sort-merge" else kind,
    )
    partition_id = fb.network.ResultPartitionID.random()
    with NetworkEnvironment(config) as here, NetworkEnvironment(config) as there:
        partition = there.create_partition(partition_id, 4, "BLOCKING")
        assert partition.partition_type == "BLOCKING"
        with fb.RecordWriter(partition, PAIR, lambda record, count: record[0]) as writer:
            writer.emit_all(records)

        def remote(channel):
            with here.create_gate([RemoteChannel(*there.address, partition_id, channel)]) as gate:
                return list(fb.RecordReader(gate, PAIR))

        def local(channel):
            with there.create_gate([LocalChannel(partition_id, channel)]) as gate:
                return list(fb.RecordReader(gate, PAIR))

        expected = [[record for record in records if record[0] == channel] for channel in range(4)]
        for channel in range(4):
            assert remote(channel) == local(channel) == expected[channel]
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(remote, [0, 1, 2, 3, 0, 1])) == [expected[n] for n in [0, 1, 2, 3, 0, 1]]
        there.release_partition(partition_id)
        assert partition.is_released


def test_a_remote_reader_is_told_what_is_wrong():
    partition_id = fb.network.ResultPartitionID.random()
    config = fb.NetworkConfig(request_backoff_initial_ms=0, request_backoff_max_ms=0, partition_request_timeout_ms=50)
    with NetworkEnvironment(config) as here, NetworkEnvironment(config) as there:
        partition = there.create_partition(partition_id, 1, "BLOCKING")
        with here.create_gate([RemoteChannel(*there.address, partition_id, 0)]) as gate:
            with pytest.raises(fb.FlinkbufError, match="still being written"):
                list(fb.RecordReader(gate, PAIR))
        with fb.RecordWriter(partition, PAIR) as writer:
            writer.emit((1, "x"))
        with here.create_gate([RemoteChannel(*there.address, partition_id, 0)]) as gate:
            assert list(fb.RecordReader(gate, PAIR)) == [(1, "x")]
        there.release_partition(partition_id)
        with here.create_gate([RemoteChannel(*there.address, partition_id, 0)]) as gate:
            with pytest.raises(fb.errors.PartitionNotFoundError):
                list(fb.RecordReader(gate, PAIR))


def test_an_environment_takes_its_partitions_along(tmp_path):
    with fb.network.IOManager([tmp_path]) as manager, NetworkEnvironment(io_manager=manager) as env:
        kept = env.create_partition(fb.network.ResultPartitionID.random(), 2, "BLOCKING_PERSISTENT", tmp_path / "kept")
        gone = env.create_partition(
            fb.network.ResultPartitionID.random(), 2, "BLOCKING", tmp_path / "gone", owner="task"
        )
        for partition in (kept, gone):
            with fb.RecordWriter(partition, PAIR) as writer:
                writer.emit((1, "y"))
        assert len(os.listdir(tmp_path)) >= 4
        env.release_owner("task")
        assert gone.is_released and not kept.is_released
    assert sorted(os.listdir(tmp_path)) == ["kept.shuffle.data", "kept.shuffle.index"]


# ---- limits


def test_ten_thousand_subpartitions_fit_the_buffers_that_there_are(folder):
    pool = fb.NetworkBufferPool(64, segment_size=32 * 1024)  # 2 MiB
    with blocking(pool, 10_000, folder / "p") as partition:
        with fb.RecordWriter(partition, fb.Types.INT(), lambda number, count: number * 7919 % count) as writer:
            writer.emit_all(range(100_000))
        found = [read(partition, channel, fb.Types.INT()) for channel in (0, 1, 5000, 9999)]
        for channel, numbers in zip((0, 1, 5000, 9999), found, strict=True):
            assert numbers == [number for number in range(100_000) if number * 7919 % 10_000 == channel]


def test_nothing_is_left_open(pool, tmp_path):
    def use():
        with fb.network.IOManager([tmp_path]) as manager:
            for storage in STORAGES:
                partition = fb.ResultPartition(pool, 3, "BLOCKING", io_manager=manager, storage=storage)
                with fb.RecordWriter(partition, PAIR) as writer:
                    writer.emit_all((number, "z") for number in range(1000))
                read(partition, 1, PAIR)
                partition.create_view(2).release()
                partition.release()
                partition.close()

    use()
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir("/proc/self/task"))
    for _ in range(3):
        use()
    gc.collect()
    assert before == (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(os.listdir("/proc/self/task")),
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"type": "BLOCKING_PERSISTENT"}, "needs a path"),
        ({"type": "BLOCKING", "storage": "disk"}, "storage must be one of"),
        ({"type": "BLOCKING", "compression": "GZIP"}, "codec must be one of"),
        ({"type": "BLOCKING", "sort_buffers": 1}, "at least 2"),
        ({"type": "BLOCKING", "path": "/tmp/"}, "beginning of a file's name"),
        ({"type": "PIPELINED", "path": "/tmp/p"}, "for blocking partitions"),
        ({"compression": "LZ4"}, "for blocking partitions"),
        ({"type": "blocking"}, "type must be one of"),
    ],
)
def test_what_has_no_meaning_is_refused(pool, options, message):
    with pytest.raises(ValueError, match=message):
        fb.ResultPartition(pool, 2, **options)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_folder_that_is_not_there_is_named(pool, folder, storage):
    with pytest.raises(OSError, match="nowhere"):
        fb.ResultPartition(pool, 2, "BLOCKING", folder / "nowhere" / "p", storage=storage)
