"""What Python asks of count windows by slots."""

import numpy as np
import pytest

from flinkbuf._core.columns.count_slots import CountSlots


def keys(*numbers):
    return np.array(numbers, np.uint32)


def test_windows_are_told_in_the_order_in_which_they_fill():
    windows = CountSlots(2)
    slots, full_keys, full = windows.add(keys(0, 1, 1, 2, 0, 1), 3)
    assert (slots.tolist(), full_keys.tolist(), full.tolist()) == ([0, 1, 1, 2, 0, 3], [1, 0], [1, 0])
    assert [each.tolist() for each in windows.all()] == [[1, 2], [3, 2], [1, 1]]
    assert (len(windows), windows.open_count) == (4, 2) and windows.nbytes > 0
    again = CountSlots(2)
    open_keys, _, rows = windows.all()
    assert again.restore(open_keys, 3, rows).tolist() == [0, 1]
    assert again.add(keys(2, 0), 3)[2].tolist() == [1] and again.open_count == 2


def test_batches_without_rows_are_nothing():
    windows = CountSlots(1)
    assert [each.tolist() for each in windows.add(keys(), 0)] == [[], [], []]
    assert [each.tolist() for each in windows.all()] == [[], [], []]
    assert windows.restore(np.array([], np.int64), 0, np.array([], np.int64)).tolist() == []


def test_what_does_not_fit_is_refused():
    windows = CountSlots(2)
    for said in (
        lambda: CountSlots(0),
        lambda: windows.add(keys(0, 1), 1),
        lambda: windows.restore(np.array([0]), 1, np.array([2])),
        lambda: windows.restore(np.array([1]), 1, np.array([1])),
        lambda: windows.restore(np.array([0]), 1, np.array([1, 1])),
    ):
        with pytest.raises(ValueError):
            said()
    assert len(windows) == 0
