"""The binding of partition files: entries and blocks, as `flinkbuf.network.PartitionFile` hands them on."""

import os

import pytest

import flinkbuf as fb
from flinkbuf._core.partition.partition_file import PartitionFile


@pytest.fixture
def base(tmp_path):
    pool = fb.NetworkBufferPool(16, segment_size=4096)
    with fb.ResultPartition(pool, 3, "BLOCKING_PERSISTENT", tmp_path / "p") as partition:
        partition.emit(b"\0\0\0\3one", 1)
        partition.broadcast(b"\0\0\0\3all")
        partition.emit(bytes([0, 4, 0, 0]) + bytes(1 << 18), 2)  # larger than any buffer, and than what is read at once
        partition.finish()
    return tmp_path / "p"


def test_blocks_come_in_order_and_end_with_the_partition(base):
    file = PartitionFile(base)
    assert (file.subpartition_count, file.path, file.data_size) == (
        3,
        str(base),
        os.path.getsize(f"{base}.shuffle.data"),
    )
    streams = []
    for subpartition in range(3):
        blocks = list(file.buffers(subpartition))
        assert blocks[-1] == (fb.network.DataType.END_OF_PARTITION, False, b"\0\0\0\0")
        assert {kind for kind, _, _ in blocks[:-1]} == {fb.network.DataType.DATA_BUFFER}
        streams.append(b"".join(data for _, _, data in blocks[:-1]))
    assert streams[0] == b"\0\0\0\3all"
    assert streams[1] == b"\0\0\0\3one\0\0\0\3all"
    assert streams[2] == b"\0\0\0\3all" + bytes([0, 4, 0, 0]) + bytes(1 << 18)


def test_what_is_not_there_is_an_error(base):
    file = PartitionFile(base)
    with pytest.raises(IndexError, match="subpartition 3"):
        file.entry(0, 3)
    with pytest.raises(IndexError, match="which has"):
        file.entry(file.region_count, 0)
    with pytest.raises(IndexError, match="which has 3"):
        file.buffers(3)
    with pytest.raises(FileNotFoundError):
        PartitionFile(f"{base}x")
