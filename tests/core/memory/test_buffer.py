"""Buffer: references, views and slices as Python sees them."""

import gc

import pytest

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf.network import buffer as face
from flinkbuf.network.buffer import Buffer, DataType


@pytest.fixture
def network():
    with NetworkBufferPool(4, segment_size=16) as network:
        yield network
        gc.collect()
        network.destroy_all_buffer_pools()
        assert network.available_segment_count == 4, "a test left a segment behind"


def filled(pool, data):
    with pool.request() as builder, builder.create_buffer_consumer() as consumer:
        builder.append_and_commit(data)
        return consumer.build()


def test_bytes_size_and_type_are_read(network):
    with network.create_buffer_pool(min=1) as pool, filled(pool, b"some bytes") as buffer:
        assert bytes(buffer) == b"some bytes" and len(buffer) == buffer.size == 10
        assert buffer.data_type == DataType.DATA_BUFFER and buffer.is_buffer and not buffer.is_compressed
        assert memoryview(buffer).readonly


def test_a_memoryview_keeps_the_segment_out_of_the_pool_until_it_is_gone(network):
    with network.create_buffer_pool(min=1, max=1) as pool:
        buffer = filled(pool, b"kept")
        view = memoryview(buffer)
        buffer.release()
        buffer.release()
        assert buffer.is_recycled and pool.request() is None
        assert bytes(view) == b"kept"
        del buffer
        assert bytes(view) == b"kept"
        view.release()
        with pool.request() as builder:
            assert builder.writable_bytes == 16


def test_a_forgotten_buffer_goes_home_by_itself(network):
    with network.create_buffer_pool(min=1, max=1) as pool:
        filled(pool, b"forgotten")
        assert pool.stock_segment_count == 1


def test_a_released_buffer_refuses_everything(network):
    buffer = Buffer.copy_of(b"gone")
    buffer.release()
    for access in (bytes, len, memoryview, lambda b: b.size, lambda b: b.data_type, lambda b: b.slice(0, 0)):
        with pytest.raises(RuntimeError, match="recycled"):
            access(buffer)
    assert repr(buffer) == "<Buffer released>"


def test_slices_hold_references_of_their_own(network):
    with network.create_buffer_pool(min=1, max=1) as pool:
        buffer = filled(pool, b"0123456789")
        part = buffer.slice(2, 6)
        inner = part.slice(1, 3)
        buffer.release()
        part.release()
        assert bytes(inner) == b"345" and pool.used_segment_count == 1
        inner.release()
        assert pool.used_segment_count == 0


@pytest.mark.parametrize("offset, size", [(-1, 1), (0, 5), (5, 0), (1, 4), (2, -1), (2**63 - 1, 1)])
def test_a_slice_outside_is_an_index_error(offset, size):
    with pytest.raises(IndexError, match="of a buffer of 4 bytes"):
        Buffer.copy_of(b"abcd").slice(offset, size)


def test_buffers_outlive_their_pools():
    network = NetworkBufferPool(2, segment_size=16)
    pool = network.create_buffer_pool(min=1)
    buffer = filled(pool, b"late")
    pool.close()
    network.close()
    del pool, network
    gc.collect()
    assert bytes(buffer) == b"late"


def test_copies_need_a_data_type_that_exists():
    assert Buffer.copy_of(b"", data_type=DataType.EVENT_BUFFER).size == 0
    for wrong in (0, 14, -1):
        with pytest.raises(ValueError):
            Buffer.copy_of(b"", data_type=wrong)


def test_buffers_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="copy_of"):
        Buffer()


def test_data_types_have_flinks_numbers_and_flags():
    assert [t.name for t in DataType if t.is_buffer] == ["DATA_BUFFER", "DATA_BUFFER_WITH_CLEAR_END"]
    assert [t.name for t in DataType if t.has_priority] == ["PRIORITIZED_EVENT_BUFFER"]
    assert [t.value for t in DataType if t.is_blocking_upstream] == [4, 5, 6, 12]
    assert [t.value for t in DataType if t.requires_announcement] == [5]
    assert [t.value for t in DataType] == list(range(14)) and not DataType.NONE.is_event
    assert set(face.__all__) == {"Buffer", "BufferBuilder", "BufferConsumer", "DataType"}
