"""Event time of operators with several inputs. Flink: CombinedWatermarkStatus, in MultipleInputStreamTaskTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.time.combined_watermark import CombinedWatermark

MIN = -(2**63)


def test_it_is_the_lowest_of_all_inputs_and_only_rises():
    combined = CombinedWatermark(3)
    assert combined.watermark == MIN
    assert not combined.update_watermark(0, 5)
    assert not combined.update_watermark(1, 8)
    assert combined.update_watermark(2, 6)
    assert combined.watermark == 5
    assert not combined.update_watermark(0, 4)
    assert combined.update_watermark(0, 100)
    assert combined.watermark == 6


def test_an_idle_input_holds_nothing_back():
    combined = CombinedWatermark(2)
    combined.update_watermark(0, 5)
    assert combined.update_status(1, True)
    assert (combined.watermark, combined.is_idle) == (5, False)
    assert not combined.update_status(1, True)


def test_when_all_are_idle_it_is_the_highest_of_them():
    combined = CombinedWatermark(2)
    combined.update_watermark(0, 5)
    combined.update_watermark(1, 9)
    assert not combined.update_status(1, True)
    assert combined.update_status(0, True)
    assert (combined.watermark, combined.is_idle) == (9, True)


def test_one_that_comes_back_behind_does_not_turn_time_back():
    combined = CombinedWatermark(2)
    combined.update_watermark(0, 5)
    combined.update_status(1, True)
    assert not combined.update_status(1, False)
    assert not combined.update_watermark(1, 3)
    assert (combined.watermark, combined.is_idle) == (5, False)
    assert not combined.update_watermark(0, 8)
    assert combined.update_watermark(1, 6)
    assert combined.watermark == 6


def test_no_input_is_refused():
    with pytest.raises(ValueError, match="at least one input"):
        CombinedWatermark(0)


@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(st.integers(0, 20), st.booleans()))))
def test_it_is_what_its_definition_says(steps):
    combined = CombinedWatermark(3)
    watermarks, idle, highest = [MIN] * 3, [False] * 3, MIN
    for index, step in steps:
        if isinstance(step, bool):
            idle[index] = step
            has_advanced = combined.update_status(index, step)
        else:
            watermarks[index] = max(watermarks[index], step)
            has_advanced = combined.update_watermark(index, step)
        awake = [watermark for watermark, is_idle in zip(watermarks, idle, strict=True) if not is_idle]
        now = max(highest, min(awake) if awake else max(watermarks))
        assert (combined.watermark, combined.is_idle, has_advanced) == (now, all(idle), now > highest)
        highest = now
