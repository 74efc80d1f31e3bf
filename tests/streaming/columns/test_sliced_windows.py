"""Windows as unions of slices, against windows as they are defined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.columns.sliced_windows import CumulatingWindows, SlicedWindows

LENGTHS = st.integers(1, 30)


@given(LENGTHS, LENGTHS, st.integers(-40, 40), st.integers(-200, 200))
def test_a_slice_lies_in_the_windows_that_its_times_lie_in(size, slide, offset, time):
    windows = SlicedWindows(size, slide, offset)
    (start,) = windows.starts_of(np.array([time])).tolist()
    assert start <= time < start + windows.slice_ms
    begins = [begin for begin in range(time - size + 1, time + 1) if (begin - offset) % slide == 0]
    assert list(windows.ends_with(start)) == [begin + size for begin in begins]
    for end in windows.ends_with(start):
        assert start in windows.slices_of(end)


@given(LENGTHS, st.integers(1, 9), st.integers(-40, 40), st.integers(-200, 200))
def test_a_slice_lies_in_the_cumulating_windows_that_its_times_lie_in(step, steps, offset, time):
    windows = CumulatingWindows(step * steps, step, offset)
    (start,) = windows.starts_of(np.array([time])).tolist()
    (begin,) = [each for each in range(time - step * steps + 1, time + 1) if (each - offset) % (step * steps) == 0]
    ends = [end for end in range(begin + step, begin + step * steps + 1, step) if end > time]
    assert list(windows.ends_with(start)) == ends
    for end in ends:
        assert windows.start_of(end) == begin
        assert list(windows.slices_of(end)) == list(range(begin, end, step))


@given(LENGTHS, LENGTHS, st.integers(-40, 40))
def test_the_slices_of_a_window_are_its_length(size, slide, offset):
    windows = SlicedWindows(size, slide, offset)
    slices = list(windows.slices_of(offset + size))
    assert slices[0] == offset and len(slices) * windows.slice_ms == size


@pytest.mark.parametrize("time", [2**63 - 1, 2**63 - 20, -(2**63) + 1, 20 - 2**63])
def test_times_whose_windows_do_not_fit_are_refused(time):
    """Their rows would be in no window that a watermark ends, or in one at the other end of time."""
    with pytest.raises(OverflowError, match=f"a row with timestamp {time} does not fit into 64 bits"):
        SlicedWindows(20, 10, 3).starts_of(np.array([5, time, 7]))
    assert SlicedWindows(20, 10, 3).starts_of(np.array([], np.int64)).tolist() == []
