"""Windows of a key that become one, and where their state stays. Flink: MergingWindowSetTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.windows.merging_window_set import MergingWindowSet
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows
from flinkbuf.streaming.windows.window import TimeWindow

ASSIGNER = EventTimeSessionWindows(3)


class Merges:
    """Keeps what a set tells of merges."""

    def __init__(self):
        self.told = []

    def __call__(self, result, merged, state_window, others):
        self.told.append((result, set(merged), state_window, list(others)))


def window_set(*windows):
    windows_of_key = MergingWindowSet(ASSIGNER)
    for window in windows:
        windows_of_key.add_window(window, Merges())
    return windows_of_key


def add(windows, start, end):
    merges = Merges()
    return windows.add_window(TimeWindow(start, end), merges), merges.told


def test_the_first_window_is_its_own_state_window():
    windows = window_set()
    assert add(windows, 0, 4) == (TimeWindow(0, 4), [])
    assert windows.state_window(TimeWindow(0, 4)) == TimeWindow(0, 4)


def test_a_window_that_overlaps_grows_and_keeps_the_place_of_its_state():
    windows = window_set(TimeWindow(0, 4))
    result, told = add(windows, 3, 6)
    assert result == TimeWindow(0, 6)
    assert told == [(TimeWindow(0, 6), {TimeWindow(0, 4)}, TimeWindow(0, 4), [])]
    assert windows.state_window(TimeWindow(0, 6)) == TimeWindow(0, 4)
    assert windows.state_window(TimeWindow(0, 4)) is None


def test_incremental_merges_keep_the_first_place():
    windows = window_set(TimeWindow(0, 4), TimeWindow(4, 8), TimeWindow(8, 12))
    assert windows.mapping == {TimeWindow(0, 12): TimeWindow(0, 4)}


def test_one_window_may_join_two():
    windows = window_set(TimeWindow(0, 3), TimeWindow(5, 8))
    result, told = add(windows, 3, 5)
    assert result == TimeWindow(0, 8)
    assert told == [
        (TimeWindow(0, 8), {TimeWindow(0, 3), TimeWindow(5, 8)}, TimeWindow(0, 3), [TimeWindow(5, 8)]),
    ]
    assert windows.mapping == {TimeWindow(0, 8): TimeWindow(0, 3)}


def test_one_window_may_join_three():
    windows = window_set(TimeWindow(10, 13), TimeWindow(5, 8), TimeWindow(0, 3))
    result, told = add(windows, 3, 10)
    assert result == TimeWindow(0, 13)
    (_, merged, state_window, others), *more = told
    assert not more and len(merged) == 3
    assert {state_window, *others} == {TimeWindow(10, 13), TimeWindow(5, 8), TimeWindow(0, 3)}


def test_a_window_within_one_that_exists_changes_nothing():
    windows = MergingWindowSet(ASSIGNER, window_set(TimeWindow(0, 10)).mapping)
    assert add(windows, 2, 5) == (TimeWindow(0, 10), [])
    assert add(windows, 0, 10) == (TimeWindow(0, 10), [])
    assert not windows.is_changed


def test_the_same_window_again_keeps_its_state():
    windows = window_set(TimeWindow(0, 4), TimeWindow(3, 6))
    assert add(windows, 0, 6) == (TimeWindow(0, 6), [])
    assert windows.state_window(TimeWindow(0, 6)) == TimeWindow(0, 4)


def test_a_window_around_those_that_exist_takes_them_in():
    windows = window_set(TimeWindow(3, 4), TimeWindow(6, 7))
    result, told = add(windows, 0, 10)
    assert result == TimeWindow(0, 10)
    assert told == [(TimeWindow(0, 10), {TimeWindow(3, 4), TimeWindow(6, 7)}, TimeWindow(3, 4), [TimeWindow(6, 7)])]


def test_windows_apart_stay_apart():
    windows = window_set(TimeWindow(0, 3), TimeWindow(10, 13))
    assert windows.mapping == {TimeWindow(0, 3): TimeWindow(0, 3), TimeWindow(10, 13): TimeWindow(10, 13)}


def test_a_retired_window_is_forgotten():
    windows = window_set(TimeWindow(0, 3))
    windows.retire_window(TimeWindow(0, 3))
    assert windows.mapping == {}
    with pytest.raises(ValueError, match="none of the windows of this key"):
        windows.retire_window(TimeWindow(0, 3))


def test_a_set_goes_on_from_the_mapping_of_another():
    before = window_set(TimeWindow(0, 4), TimeWindow(3, 6))
    after = MergingWindowSet(ASSIGNER, before.mapping)
    assert not after.is_changed
    assert add(after, 5, 9)[0] == TimeWindow(0, 9)
    assert after.is_changed
    assert after.state_window(TimeWindow(0, 9)) == TimeWindow(0, 4)
    assert before.mapping == {TimeWindow(0, 6): TimeWindow(0, 4)}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=20))
def test_state_follows_its_windows(bounds):
    """Each record's state is found under the window that covers it, however windows merged."""
    windows, state = MergingWindowSet(ASSIGNER), {}

    def on_merge(result, merged, state_window, others):
        for other in others:
            state.setdefault(state_window, []).extend(state.pop(other, []))

    for number, (start, size) in enumerate(bounds):
        window = TimeWindow(start, start + size)
        result = windows.add_window(window, on_merge)
        assert result.start <= window.start and window.end <= result.end
        state.setdefault(windows.state_window(result), []).append(number)
    found = sorted(windows.mapping)
    assert all(not one.intersects(other) for one in found for other in found if one is not other)
    assert set(windows.mapping.values()) == set(state)
    for window, state_window in windows.mapping.items():
        inside = [n for n, (start, size) in enumerate(bounds) if window.start <= start and start + size <= window.end]
        assert sorted(state[state_window]) == inside
