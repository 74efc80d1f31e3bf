"""Intervals of time. Flink: TimeWindowTest; results of PyFlink where they are shown to users."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.operators.time_window import TimeWindow

TIMES = st.integers(-(2**40), 2**40)


def test_it_looks_as_in_pyflink():
    window = TimeWindow(0, 10)
    assert repr(window) == str(window) == "TimeWindow(start=0, end=10)"
    assert (window.start, window.end, window.max_timestamp()) == (0, 10, 9)
    assert pickle.loads(pickle.dumps(window)) == window


def test_windows_that_touch_intersect():
    window = TimeWindow(0, 10)
    assert window.intersects(TimeWindow(10, 20)) and TimeWindow(10, 20).intersects(window)
    assert not window.intersects(TimeWindow(11, 20))
    assert window.cover(TimeWindow(5, 15)) == TimeWindow(0, 15)


def test_equal_windows_are_one_key():
    assert {TimeWindow(0, 10): "a"}[TimeWindow(0, 10)] == "a"
    assert TimeWindow(0, 10) != TimeWindow(0, 11)
    assert TimeWindow(0, 10) != (0, 10)


def test_order_is_by_start_then_by_end():
    windows = [TimeWindow(1, 2), TimeWindow(0, 11), TimeWindow(0, 10), TimeWindow(-5, 30)]
    assert sorted(windows) == [TimeWindow(-5, 30), TimeWindow(0, 10), TimeWindow(0, 11), TimeWindow(1, 2)]
    assert TimeWindow(0, 1) <= TimeWindow(0, 1) >= TimeWindow(0, 1)
    with pytest.raises(TypeError, match="among TimeWindows only, got int 5"):
        assert TimeWindow(0, 1) < 5


@given(timestamp=TIMES, size=st.integers(1, 10**6), offset=st.integers(-(10**7), 10**7))
def test_a_timestamp_lies_in_the_window_that_begins_where_it_is_told(timestamp, size, offset):
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


def test_a_window_without_length_is_refused():
    with pytest.raises(ValueError, match="longer than 0 ms, got 0"):
        TimeWindow.get_window_start_with_offset(1, 0, 0)


@given(st.lists(st.tuples(TIMES, st.integers(1, 2**39)), max_size=30))
def test_hashes_of_equal_windows_are_equal(bounds):
    for start, size in bounds:
        assert hash(TimeWindow(start, start + size)) == hash(TimeWindow(start, start + size))


def test_hashes_of_windows_in_a_row_differ_in_their_low_bits():
    hashes = {hash(TimeWindow(start, start + 1000)) % 4096 for start in range(0, 1_000_000, 1000)}
    assert len(hashes) > 700


def merged(windows):
    found = []

    class Callback:
        def merge(self, to_be_merged, merge_result):
            found.append((merge_result, set(to_be_merged)))

    TimeWindow.merge_windows(windows, Callback())
    return found


def test_windows_that_lie_apart_are_not_merged():
    assert merged([TimeWindow(0, 4), TimeWindow(5, 9)]) == []
    assert merged([]) == []


def test_several_groups_are_found_at_once():
    groups = [[TimeWindow(0, 1), TimeWindow(1, 2), TimeWindow(2, 3)], [TimeWindow(4, 6), TimeWindow(5, 9)]]
    assert merged([window for group in reversed(groups) for window in group]) == [
        (TimeWindow(0, 3), set(groups[0])),
        (TimeWindow(4, 9), set(groups[1])),
    ]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=15))
def test_merging_is_the_transitive_closure_of_intersection(bounds):
    windows = {TimeWindow(start, start + size) for start, size in bounds}
    groups = [{window} for window in windows]
    while True:
        pair = next(
            (
                (one, other)
                for one in groups
                for other in groups
                if one is not other and any(a.intersects(b) for a in one for b in other)
            ),
            None,
        )
        if pair is None:
            break
        groups.remove(pair[1])
        pair[0].update(pair[1])
    expected = {frozenset(group) for group in groups if len(group) > 1}
    found = merged(windows)
    assert {frozenset(group) for _, group in found} == expected
    for result, group in found:
        assert (result.start, result.end) == (min(w.start for w in group), max(w.end for w in group))
