"""What makes watermarks of timestamps. Flink: BoundedOutOfOrdernessWatermarksTest, WatermarksWithIdlenessTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.operators.watermark_generator import (
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarksWithIdleness,
)
from flinkbuf.testing import ManualClock

MIN = -(2**63)
IDLE, ACTIVE = "idle", "active"


class Recorder(WatermarkOutput):
    def __init__(self):
        self.elements = []

    def emit_watermark(self, timestamp):
        self.elements.append(timestamp)

    def mark_idle(self):
        self.elements.append(IDLE)

    def mark_active(self):
        self.elements.append(ACTIVE)


def play(generator, steps, clock=None):
    """An int is a record with that timestamp, None the end of an interval of 10 ms."""
    output = Recorder()
    for step in steps:
        if step is None:
            if clock is not None:
                clock.advance_to(clock.now_ms() + 10)
            generator.on_periodic_emit(output)
        else:
            generator.on_event("record", step, output)
    return output.elements


def test_before_the_first_record_the_watermark_is_the_smallest_number():
    assert play(BoundedOutOfOrdernessWatermarks(5), [None]) == [MIN]


@given(
    bound=st.integers(0, 2**62),
    timestamps=st.lists(st.integers(MIN, 2**63 - 1), min_size=1),
)
def test_the_watermark_is_the_highest_timestamp_less_the_bound_less_one(bound, timestamps):
    expected = max(MIN, max(timestamps) - bound - 1)
    assert play(BoundedOutOfOrdernessWatermarks(bound), [*timestamps, None]) == [expected]


def test_a_bound_below_zero_is_refused():
    with pytest.raises(ValueError, match="maxOutOfOrderness cannot be negative, got -1 ms"):
        BoundedOutOfOrdernessWatermarks(-1)


def test_no_watermarks_are_none():
    assert play(NoWatermarksGenerator(), [1, 2, None]) == []


def idle_after(timeout_ms, clock):
    return WatermarksWithIdleness(BoundedOutOfOrdernessWatermarks(0), timeout_ms, clock)


def test_a_stream_is_idle_when_its_timeout_is_over_since_the_first_look_without_a_record():
    clock = ManualClock()
    assert play(idle_after(20, clock), [100, None, None, None, None, None, None], clock) == [99, 99, 99, 99, IDLE]


def test_the_next_record_makes_it_active_again():
    clock = ManualClock()
    generator = idle_after(5, clock)
    assert play(generator, [None, None, 7, None], clock) == [MIN, IDLE, ACTIVE, 6]
    assert play(generator, [None, None], clock) == [6, IDLE]


def test_records_keep_a_stream_awake():
    clock = ManualClock()
    assert IDLE not in play(idle_after(5, clock), [1, None, 2, None, 3, None, 3, None], clock)


def test_a_timeout_of_nothing_is_refused():
    with pytest.raises(ValueError, match="idleTimeout must be greater than zero"):
        WatermarksWithIdleness(NoWatermarksGenerator(), 0, ManualClock())


@given(
    timeout_ms=st.integers(1, 50),
    steps=st.lists(st.one_of(st.none(), st.none(), st.integers(0, 100)), max_size=40),
)
def test_idleness_is_what_its_definition_says(timeout_ms, steps):
    clock, expected = ManualClock(), []
    now, had_event, since, is_idle, highest = 0, False, None, False, MIN + 1
    for step in steps:
        if step is not None:
            highest, had_event = max(highest, step), True
            if is_idle:
                is_idle = False
                expected.append(ACTIVE)
            continue
        now += 10
        since = None if had_event else now if since is None else since
        had_event = False
        if since is None or now - since <= timeout_ms:
            expected.append(highest - 1)
        elif not is_idle:
            is_idle = True
            expected.append(IDLE)
    assert play(idle_after(timeout_ms, clock), steps, clock) == expected


def test_a_generator_of_ones_own_is_wrapped_like_the_others():
    class AtEachRecord(WatermarkGenerator):
        def on_event(self, event, event_timestamp, output):
            output.emit_watermark(event_timestamp)

    clock = ManualClock()
    assert play(WatermarksWithIdleness(AtEachRecord(), 5, clock), [3, None, None, None, 4], clock) == [
        3,
        IDLE,
        ACTIVE,
        4,
    ]
