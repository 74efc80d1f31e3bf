"""Records to buffers and back without a partition."""

import gc
import random
import struct
import tracemalloc
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb

PAIR = "n bigint, s string"


def streams(pairs):
    """What each channel got: {channel: [buffer, ...]}."""
    by_channel = {}
    for channel, buffer in pairs:
        by_channel.setdefault(channel, []).append(buffer)
    return by_channel


def framed(*payloads):
    return b"".join(struct.pack(">i", len(p)) + p for p in payloads)


def config(segment_size=32768, segments=512):
    """Sizes far below what NetworkConfig allows: the layout has no smallest size."""
    return SimpleNamespace(segment_size=segment_size, sort_shuffle_min_buffers=segments, sort_shuffle_min_parallelism=1)


def test_a_channel_is_records_back_to_back_each_behind_its_length():
    pairs = list(fb.write_buffers([1, -1], fb.Types.SHORT(), 1))
    assert pairs == [(0, framed(b"\x00\x01", b"\xff\xff"))]


def test_buffers_are_full_except_the_last_of_each_channel():
    records = list(range(1000))
    by_channel = streams(fb.write_buffers(records, fb.Types.LONG(), 3, "rebalance", config=config(100), seed=1))
    assert set(by_channel) == {0, 1, 2}
    for buffers in by_channel.values():
        assert {len(b) for b in buffers[:-1]} == {100}
        assert 0 < len(buffers[-1]) <= 100


@pytest.mark.parametrize("segments", [512, 4], ids=["pages", "sorted log"])
@pytest.mark.parametrize("segment_size", [16, 33, 4096])
def test_records_of_any_size_come_back_in_order_in_every_channel(segments, segment_size):
    rng = random.Random(segment_size)
    records = [(i, "x" * rng.choice([0, 1, 5, 30, 200, 3000])) for i in range(500)]
    by_channel = streams(
        fb.write_buffers(records, PAIR, 7, lambda r, n: r[0] % n, config=config(segment_size, segments))
    )
    for channel in range(7):
        expected = [r for r in records if r[0] % 7 == channel]
        assert list(fb.read_buffers(by_channel[channel], PAIR)) == expected
        assert all(0 < len(b) <= segment_size for b in by_channel[channel])


@pytest.mark.parametrize("segments", [512, 4], ids=["pages", "sorted log"])
def test_broadcast_gives_every_channel_the_same_buffer_objects(segments):
    records = [(i, "y" * 50) for i in range(100)]
    by_channel = streams(fb.write_buffers(records, PAIR, 5, "broadcast", config=config(256, segments)))
    assert set(by_channel) == set(range(5))
    for buffers in by_channel.values():
        assert list(fb.read_buffers(buffers, PAIR)) == records
        assert all(mine is first for mine, first in zip(buffers, by_channel[0], strict=True))


def test_a_record_larger_than_the_whole_log_goes_through():
    records = [(0, "a"), (1, "b" * 100_000), (0, "c"), (1, "d")]
    pairs = fb.write_buffers(records, PAIR, 9, lambda r, n: r[0], config=config(64, 4))
    by_channel = streams(pairs)
    assert list(fb.read_buffers(by_channel[0], PAIR)) == [records[0], records[2]]
    assert list(fb.read_buffers(by_channel[1], PAIR)) == [records[1], records[3]]


def test_the_sorted_log_gives_the_same_streams_as_pages():
    rng = random.Random(5)
    records = [(rng.randrange(1000), "z" * rng.randrange(60)) for _ in range(2000)]
    key = fb.by_key("n")
    pages = streams(fb.write_buffers(records, PAIR, 6, key, config=config(128, 512)))
    log = streams(fb.write_buffers(records, PAIR, 6, key, config=config(128, 5)))
    assert {c: b"".join(b) for c, b in pages.items()} == {c: b"".join(b) for c, b in log.items()}


def test_nothing_is_pulled_before_it_is_asked_for_and_no_further_than_a_full_buffer():
    pulled = []

    def source():
        for i in range(100):
            pulled.append(i)
            yield i

    writer = fb.write_buffers(source(), fb.Types.LONG(), 1, config=config(24))
    assert pulled == []
    next(writer)
    assert pulled == [0, 1]  # two records of 12 bytes fill 24
    next(writer)
    assert pulled == [0, 1, 2, 3]


def test_an_error_of_the_iterable_comes_through_unchanged():
    error = KeyError("mine")

    def source():
        yield 1
        raise error

    with pytest.raises(KeyError) as caught:
        list(fb.write_buffers(source(), fb.Types.LONG(), 1))
    assert caught.value is error


def test_an_error_of_a_callable_partitioner_comes_through_unchanged():
    def choose(record, num_channels):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="^mine$"):
        list(fb.write_buffers([1], fb.Types.LONG(), 2, choose))


def test_a_bad_record_names_itself_and_leaves_nothing_in_the_buffers():
    writer = fb.write_buffers([(1, "a"), (2, 3.5), (4, "d")], PAIR, 1)
    with pytest.raises(TypeError, match=r"record 1: field 's': expected STRING, got 3\.5"):
        next(writer)
    assert list(fb.read_buffers([b for _, b in writer], PAIR)) == [(1, "a"), (4, "d")]


def test_no_record_no_buffer():
    assert list(fb.write_buffers([], PAIR, 3)) == []
    assert list(fb.write_buffers([], PAIR, 3, config=config(64, 4))) == []
    assert list(fb.read_buffers([], PAIR)) == []


def test_empty_buffers_are_passed_over():
    data = framed(b"\x00\x07")
    assert list(fb.read_buffers([b"", data[:3], b"", data[3:], b""], fb.Types.SHORT())) == [7]


@given(st.lists(st.binary(max_size=40), max_size=30), st.lists(st.integers(1, 50), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_the_stream_may_be_cut_anywhere(payloads, cuts):
    stream = framed(*[struct.pack(">i", len(p)) + p for p in payloads])
    buffers, at, turn = [], 0, 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        buffers.append(stream[at : at + step])
        at, turn = at + step, turn + 1
    assert list(fb.read_buffers(buffers, fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE()))) == payloads


def test_buffers_that_end_inside_a_record_are_an_error_that_says_where():
    data = framed(b"\x00\x07", b"\x00\x08")
    reader = fb.read_buffers([data[:-1]], fb.Types.SHORT())
    assert next(reader) == 7
    with pytest.raises(fb.errors.CorruptDataError, match="record 1 at byte 6.*ends inside it"):
        next(reader)


@pytest.mark.parametrize("length", [-1, -(2**31)])
def test_a_negative_length_is_an_error_that_says_where(length):
    data = framed(b"\x00\x07") + struct.pack(">i", length) + b"1234"
    reader = fb.read_buffers([data], fb.Types.SHORT())
    assert next(reader) == 7
    with pytest.raises(fb.errors.CorruptDataError, match="record 1 at byte 6"):
        next(reader)


def test_a_huge_length_allocates_nothing_and_ends_as_truncation():
    data = struct.pack(">i", 2**31 - 1) + b"abc"
    tracemalloc.start()
    try:
        with pytest.raises(fb.errors.CorruptDataError, match="record 0 at byte 0.*ends inside it"):
            list(fb.read_buffers([data], fb.Types.SHORT()))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_record_longer_than_its_type_is_an_error():
    with pytest.raises(fb.errors.CorruptDataError, match="record 0: 3 bytes long.*used only 2"):
        list(fb.read_buffers([framed(b"\x00\x07\x01")], fb.Types.SHORT()))


def test_buffers_may_be_any_bytes_like_object_and_are_let_go():
    data = bytearray(framed(b"\x00\x07"))
    assert list(fb.read_buffers([data, memoryview(bytes(data))], fb.Types.SHORT())) == [7, 7]
    data.append(0)  # raises BufferError if a view were still held


def test_what_is_not_bytes_is_a_type_error():
    with pytest.raises(TypeError):
        list(fb.read_buffers(["text"], fb.Types.SHORT()))


def test_memory_does_not_grow_with_the_number_of_channels_beyond_the_log():
    def peak(channels):
        records = ((i, "v" * 20) for i in range(20_000))
        gc.collect()
        tracemalloc.start()
        try:
            for _ in fb.write_buffers(
                records, PAIR, channels, fb.by_key("n", max_parallelism=32768), config=config(4096, 32)
            ):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(20_000) < 4 * 32 * 4096 + 20_000 * 64


def test_conversion_code_cannot_reenter_the_writer():
    class Sneaky:
        def __index__(self):
            next(writer)
            return 1

    writer = fb.write_buffers([Sneaky(), 2], fb.Types.LONG(), 1)
    with pytest.raises(RuntimeError, match="(?s)conversion.*code"):
        next(writer)


def test_no_segment_size_is_refused():
    with pytest.raises(ValueError, match="segment_size"):
        fb.write_buffers([], PAIR, 1, config=config(0))


REFUSED = {
    "type": ([(1, 1), (2, "late")], "global", TypeError, "field 'f1'"),
    "key": ([(1, 1), ("a", 1)], fb.by_key(0), TypeError, "key field 'f0'"),
    "partitioner": ([(1, 1), (99, 1)], lambda record, count: record[0] - 1, ValueError, None),
}


@pytest.mark.parametrize("segments", [512, 4])
@pytest.mark.parametrize("refused_by", REFUSED)
def test_the_error_for_a_refused_record_knows_what_its_message_says(refused_by, segments):
    records, partitioner, kind, field = REFUSED[refused_by]
    pairs = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.LONG()])
    writer = fb.write_buffers(records, pairs, 8, partitioner, config=config(segments=segments))
    with pytest.raises(kind) as failure:
        list(writer)
    error = failure.value
    assert (error.record_number, error.refused_by, error.field) == (1, refused_by, field)
    assert writer.has_record_in_hand, "it is the writer's own record, not one of its iterator's"


def test_an_error_of_the_iterator_is_not_about_a_record_in_hand():
    inner = fb.write_buffers([1, "late"], fb.Types.LONG(), 1)
    writer = fb.write_buffers(inner, fb.Types.TUPLE([fb.Types.LONG(), fb.Types.LONG()]), 1)
    with pytest.raises(TypeError, match="record 1: ") as failure:
        list(writer)
    assert failure.value.record_number == 1
    assert not writer.has_record_in_hand
    assert inner.has_record_in_hand


@pytest.mark.parametrize("segments", [512, 4])
def test_an_iterator_that_fails_after_a_refused_record_is_not_about_that_record(segments):
    class Source:
        values = iter([1, "late"])

        def __iter__(self):
            return self

        def __next__(self):
            for value in self.values:
                return value
            raise OSError("the source is gone")

    writer = fb.write_buffers(Source(), fb.Types.LONG(), 8, "rebalance", config=config(segments=segments))
    with pytest.raises(TypeError, match="record 1: "):
        list(writer)
    with pytest.raises(OSError, match="the source is gone"):
        list(writer)
    assert not writer.has_record_in_hand
