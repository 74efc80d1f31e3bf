"""The storage of sort-merge partitions, from Python: what it is given, and what the files then are."""

import os

import pytest

import flinkbuf as fb
from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf._core.partition.partition_file import PartitionFile
from flinkbuf._core.partition.result_partition import ResultPartition
from flinkbuf._core.partition.sort_merge_partition import SortMergeStorage, open_partition_file
from flinkbuf.network.compression import buffer_codec

BLOCKING, PERSISTENT = 3, 4


@pytest.fixture
def executor():
    made = IOExecutor("test")
    yield made
    made.close()


@pytest.fixture
def pool():
    made = fb.NetworkBufferPool(32, segment_size=4096)
    yield made
    assert made.available_segment_count == 32


def written(pool, path, executor, *, count=4, type=PERSISTENT, **options):
    storage = SortMergeStorage(path, read_pool=fb.network.ReadBufferPool(), executor=executor, **options)
    partition = ResultPartition(pool.create_buffer_pool(8, 8), type, count, storage)
    for number in range(3000):
        partition.emit(b"\0\0\0\4" + number.to_bytes(4, "big"), number % count)
    partition.finish()
    partition.close()
    return partition


def stream(file, subpartition, codec=None):
    blocks = [
        (codec.decompress(data, 4096) if packed else data)
        for kind, packed, data in file.buffers(subpartition)
        if kind == 1
    ]
    return b"".join(blocks)


def expected(subpartition, count=4):
    return b"".join(b"\0\0\0\4" + number.to_bytes(4, "big") for number in range(subpartition, 3000, count))


@pytest.mark.parametrize("first", [0, 2, 3])
def test_regions_begin_with_the_subpartition_that_is_asked_for(pool, tmp_path, executor, first):
    written(pool, tmp_path / "p", executor, first_subpartition=first)
    file = PartitionFile(tmp_path / "p")
    offsets = [file.entry(0, subpartition)[0] for subpartition in range(4)]
    assert offsets.index(min(offsets)) == first
    assert [stream(file, subpartition) for subpartition in range(4)] == [expected(n) for n in range(4)]


def test_small_regions_are_merged_unless_they_shall_stay(pool, tmp_path, executor):
    written(pool, tmp_path / "merged", executor, count=16, log_segments=2)
    written(pool, tmp_path / "small", executor, count=16, log_segments=2, merges_regions=False)
    merged, small = PartitionFile(tmp_path / "merged"), PartitionFile(tmp_path / "small")
    assert merged.region_count <= small.region_count
    for subpartition in range(16):
        assert stream(merged, subpartition) == stream(small, subpartition) == expected(subpartition, 16)


@pytest.mark.parametrize("name", ["LZ4", "ZSTD"])
def test_a_codec_makes_the_file_smaller(pool, tmp_path, executor, name):
    written(pool, tmp_path / "plain", executor)
    codec = buffer_codec(name)
    written(pool, tmp_path / "packed", executor, codec=codec)
    plain, packed = PartitionFile(tmp_path / "plain"), PartitionFile(tmp_path / "packed")
    assert packed.data_size < 0.9 * plain.data_size
    assert [stream(packed, n, codec) for n in range(4)] == [expected(n) for n in range(4)]


def test_a_finished_file_is_a_partition_like_any_other(pool, tmp_path, executor):
    written(pool, tmp_path / "p", executor)
    opened = open_partition_file(
        PartitionFile(tmp_path / "p"), read_pool=fb.network.ReadBufferPool(), executor=executor
    )
    assert opened.is_finished and opened.subpartition_count == 4
    with fb.InputGate([(opened, 1)]) as gate:
        assert list(fb.RecordReader(gate, fb.Types.INT())) == list(range(1, 3000, 4))
    with pytest.raises(RuntimeError, match="finish"):
        opened.emit(b"\0\0\0\0", 0)
    opened.release()
    assert len(os.listdir(tmp_path)) == 2  # it never removes them


def test_a_path_that_is_taken_is_named(pool, tmp_path, executor):
    written(pool, tmp_path / "p", executor)
    with pytest.raises(FileExistsError, match="p.shuffle"):
        written(pool, tmp_path / "p", executor)
