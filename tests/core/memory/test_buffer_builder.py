"""BufferBuilder and BufferConsumer in Python: rows 18-20 of Flink's BufferBuilderAndConsumerTest."""

import pytest

from flinkbuf._core.memory.buffer_builder import BufferBuilder, BufferConsumer
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf.network.buffer import DataType


@pytest.fixture
def builder():
    with NetworkBufferPool(2, segment_size=16) as network, network.create_buffer_pool(min=1, max=1) as pool:
        with pool.request() as builder:
            yield builder


def built(consumer):
    with consumer.build() as buffer:
        return bytes(buffer)


def test_appended_bytes_are_seen_after_commit(builder):
    consumer = builder.create_buffer_consumer()
    assert builder.append(b"abc") == 3 and built(consumer) == b"" and not consumer.is_data_available
    builder.commit()
    assert consumer.is_data_available and built(consumer) == b"abc" and built(consumer) == b""


def test_what_does_not_fit_is_left(builder):
    consumer = builder.create_buffer_consumer()
    assert builder.append_and_commit(bytes(range(20))) == 16 and builder.is_full and builder.append(b"x") == 0
    assert built(consumer) == bytes(range(16))


def test_a_consumer_from_the_beginning_sees_what_was_there(builder):
    builder.append_and_commit(b"old")
    with builder.create_buffer_consumer_from_beginning() as consumer:
        assert built(consumer) == b"old"


def test_a_second_consumer_is_refused(builder):
    consumer = builder.create_buffer_consumer()
    for make in (builder.create_buffer_consumer, builder.create_buffer_consumer_from_beginning):
        with pytest.raises(RuntimeError, match="has its consumer"):
            make()
    consumer.close()


def test_copies_read_on_their_own_and_see_later_commits(builder):
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"ab")
    assert built(consumer) == b"ab"
    copy, early = consumer.copy(), consumer.copy_with_reader_position(1)
    builder.append_and_commit(b"cd")
    assert (built(copy), built(early), built(consumer)) == (b"cd", b"bcd", b"cd")
    with pytest.raises(ValueError, match="reader position 5, committed 4"):
        consumer.copy_with_reader_position(5)


@pytest.mark.parametrize("data", [b"", b"half", bytes(16)])
def test_the_end_is_seen_at_the_next_build_and_finish_is_idempotent(builder, data):
    consumer = builder.create_buffer_consumer()
    builder.append(data)
    assert builder.finish() == builder.finish() == len(data) and builder.is_finished
    assert not consumer.is_finished
    assert built(consumer) == data and consumer.is_finished
    for call in (lambda: builder.append(b"x"), builder.commit, lambda: builder.trim(4)):
        with pytest.raises(RuntimeError, match="finished"):
            call()


def test_skip_passes_over_readable_bytes_only(builder):
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"abcd")
    consumer.skip(3)
    with pytest.raises(RuntimeError, match="cannot skip 2 bytes where 1 are readable"):
        consumer.skip(2)
    assert built(consumer) == b"d"


def test_trim_shrinks_and_widens(builder):
    builder.append(b"0123")
    builder.trim(2)
    assert builder.is_full
    builder.trim(100)
    assert builder.writable_bytes == 12


def test_the_data_type_is_fixed_once_there_is_a_consumer(builder):
    builder.data_type = DataType.EVENT_BUFFER
    with pytest.raises(ValueError):
        builder.data_type = 14
    with builder.create_buffer_consumer() as consumer, consumer.build() as buffer:
        assert buffer.data_type == DataType.EVENT_BUFFER and not buffer.is_buffer
    with pytest.raises(RuntimeError, match="fixed"):
        builder.data_type = DataType.DATA_BUFFER


def test_closed_ends_refuse_everything_and_close_twice(builder):
    consumer = builder.create_buffer_consumer()
    for end in (consumer, builder):
        end.close()
        end.close()
        assert end.is_closed
    for call in (
        consumer.build,
        consumer.copy,
        lambda: consumer.skip(0),
        lambda: consumer.is_data_available,
        lambda: builder.append(b""),
        builder.finish,
        builder.create_buffer_consumer,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_the_buffer_goes_home_after_builder_consumer_and_slices():
    with NetworkBufferPool(2, segment_size=16) as network, network.create_buffer_pool(min=1, max=1) as pool:
        builder = pool.request()
        consumer = builder.create_buffer_consumer()
        builder.append_and_commit(b"abc")
        buffer = consumer.build()
        builder.close()
        consumer.close()
        assert pool.used_segment_count == 1 and bytes(buffer) == b"abc"
        buffer.release()
        assert pool.used_segment_count == 0


def test_ends_cannot_be_made_by_hand():
    for cls in (BufferBuilder, BufferConsumer):
        with pytest.raises(TypeError):
            cls()
