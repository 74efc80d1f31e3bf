"""The binding of the result partition: what it checks itself, and objects that outlive each other."""

import gc
import sys

import pytest

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.result_partition import ResultPartition


def test_partition_takes_its_local_pool_over():
    network = NetworkBufferPool(8, segment_size=64)
    local = network.create_buffer_pool(2, 4)
    partition = ResultPartition(local, 1, 1)
    with pytest.raises(RuntimeError, match="belongs to another result partition"):
        ResultPartition(local, 1, 1)
    del local
    gc.collect()
    partition.emit(b"x", 0)
    assert network.available_segment_count < 8
    partition.close()
    del partition
    assert network.available_segment_count == 8 and network.buffer_pool_count == 0


def test_partition_without_subpartitions_is_refused_and_keeps_no_memory():
    network = NetworkBufferPool(8, segment_size=64)
    with pytest.raises(ValueError, match="with 0 subpartitions"):
        ResultPartition(network.create_buffer_pool(2, 4), 0, 0)
    assert network.available_segment_count == 8 and network.buffer_pool_count == 0


def test_view_keeps_the_partition_and_buffer_keeps_the_memory():
    network = NetworkBufferPool(8, segment_size=64)
    partition = ResultPartition(network.create_buffer_pool(2, 4), 0, 1)
    partition.emit(b"still here", 0)
    partition.finish()
    view = partition.create_view(0)
    del partition, network
    gc.collect()
    buffer = view.poll()[0]
    del view
    gc.collect()
    assert bytes(buffer) == b"still here"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_emit_takes_any_contiguous_bytes_and_holds_them_only_meanwhile(kind):
    network = NetworkBufferPool(8, segment_size=64)
    partition = ResultPartition(network.create_buffer_pool(2, 4), 0, 2)
    data = kind(b"0123456789")
    references = sys.getrefcount(data)
    for _ in range(5):
        partition.emit(data, 1)
    partition.broadcast(data)
    partition.emit(kind(b""), 0)
    assert sys.getrefcount(data) == references
    partition.finish()
    view = partition.create_view(1)
    assert [bytes(view.poll()[0]) for _ in range(3)] == [b"0123456789" * 5, b"0123456789", b"\0\0\0\0"]
    with pytest.raises(BufferError):
        ResultPartition(network.create_buffer_pool(2, 4), 0, 1).emit(memoryview(b"0123456789")[::2], 0)


def test_large_record_is_copied_without_the_gil_and_arrives_whole():
    network = NetworkBufferPool(64, segment_size=4096)
    partition = ResultPartition(network.create_buffer_pool(2), 0, 1)
    data = bytes(range(256)) * 512
    partition.emit(data, 0)
    partition.finish()
    view, taken = partition.create_view(0), b""
    while (item := view.poll())[0].data_type == 1:
        taken += bytes(item[0])
    assert taken == data
