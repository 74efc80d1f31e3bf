"""Records gathered in one log and read back sorted by subpartition."""

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core import data_buffer
from flinkbuf._core.data_buffer import DataBuffer

DATA_BUFFER, EVENT_BUFFER, END_OF_PARTITION = 1, 2, 10

appends = st.lists(
    st.tuples(st.integers(0, 4), st.binary(min_size=1, max_size=90), st.sampled_from([1, 1, 1, 1, 2, 10])), max_size=60
)


@settings(deadline=None)  # a loaded machine is no failure
@given(appends, st.integers(1, 20), st.integers(16, 200), st.integers(90, 300), st.permutations(range(5)))
def test_every_subpartition_comes_back_in_order_with_events_alone(records, segments, segment_size, capacity, order):
    log = DataBuffer(5, segments, segment_size)
    stored = [record for record in records if log.append(record[0], record[1], record[2])]
    assert log.record_count == len(stored)
    assert log.total_size == sum(len(data) for _, data, _ in stored)
    log.finish(order)
    buffers = iter(lambda: log.read(capacity), None)
    for subpartition in order:
        data = b""
        for data_type, payload in [(t, p) for s, p, t in stored if s == subpartition] + [(None, b"")]:
            if data_type == DATA_BUFFER:
                data += payload
                continue
            while data:  # records share full buffers up to the next event
                assert next(buffers) == (subpartition, DATA_BUFFER, data[:capacity])
                data = data[capacity:]
            if data_type is not None:
                assert next(buffers) == (subpartition, data_type, payload)
    assert next(buffers, None) is None


@settings(deadline=None)  # a loaded machine is no failure
@given(appends, st.integers(1, 6), st.integers(16, 200))
def test_append_is_refused_only_when_entry_and_record_do_not_fit(records, segments, segment_size):
    log = DataBuffer(5, segments, segment_size)
    position = 0  # in the log, all segments side by side
    for subpartition, data, data_type in records:
        rest = -position % segment_size
        start = position if rest >= 16 or position % segment_size == 0 else position + rest
        fits = start + 16 + len(data) <= segments * segment_size
        assert log.append(subpartition, data, data_type) is fits
        position = start + 16 + len(data) if fits else position


def test_reset_makes_room_again():
    log = DataBuffer(3, 1, 32)
    for _ in range(3):
        assert log.append(2, b"0123456789abcdef")
        assert not log.append(0, b"x")
        log.finish()
        assert log.is_finished
        assert list(log) == [(2, DATA_BUFFER, b"0123456789abcdef")]
        log.reset()
        assert (log.record_count, log.total_size, log.is_finished) == (0, 0, False)


def test_memory_does_not_grow_with_the_number_of_subpartitions():
    log = DataBuffer(100_000, 4, 32768)
    stored = 0
    while log.append(stored * 7919 % 100_000, b"12345678"):
        stored += 1
    assert stored == 4 * (32768 // 24)
    log.finish()
    assert sum(1 for _ in log) == stored


def test_order_of_use_is_enforced():
    log = DataBuffer(2, 1)
    with pytest.raises(RuntimeError, match="still being written"):
        log.read()
    log.finish()
    with pytest.raises(RuntimeError, match="read it, then reset"):
        log.append(0, b"x")
    with pytest.raises(RuntimeError, match="finished already"):
        log.finish()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, b"x"), "1 bytes for subpartition 2 of 2"),
        ((0, b""), "0 bytes for subpartition 0"),
        ((0, b"x", 0), "data_type must be from 1 to 13, got 0"),
        ((0, b"x", 14), "data_type must be from 1 to 13, got 14"),
    ],
)
def test_impossible_append_raises_and_stores_nothing(arguments, message):
    log = DataBuffer(2, 1)
    with pytest.raises(ValueError, match=message):
        log.append(*arguments)
    assert log.record_count == 0


@pytest.mark.parametrize("order", [[], [0], [0, 0], [0, 2], [0, 1, 2]])
def test_order_that_is_no_permutation_raises(order):
    log = DataBuffer(2, 1)
    with pytest.raises(ValueError, match="each of the 2 subpartitions once"):
        log.finish(order)
    assert not log.is_finished


@pytest.mark.parametrize("shape", [(0, 1, 64), (1, 0, 64), (1, 1, 15)])
def test_impossible_shape_raises(shape):
    with pytest.raises(ValueError, match=str(shape[2])):
        DataBuffer(*shape)


def test_examples_of_the_documentation_run():
    failed, attempted = doctest.testmod(data_buffer)
    assert failed == 0 < attempted
