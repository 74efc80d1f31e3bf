"""Which windows a record belongs to. Flink: TumblingEventTimeWindowsTest and its sisters."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.windows.assigner import SessionWindowTimeGapExtractor
from flinkbuf.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from flinkbuf.streaming.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from flinkbuf.streaming.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkbuf.streaming.windows.time_windows import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkbuf.streaming.windows.triggers import CountTrigger, NeverTrigger
from flinkbuf.streaming.windows.window import CountWindow, GlobalWindow, TimeWindow
from flinkbuf.types.duration import Duration, Time

MIN = -(2**63)


class Context:
    """At a fixed time, with a state that counts."""

    def __init__(self, now=0):
        self.now = now
        self.states = {}

    def get_current_processing_time(self):
        return self.now

    def get_runtime_context(self):
        return self

    def get_state(self, descriptor):
        return self.states.setdefault(descriptor.name, Counted())


class Counted:
    count = None

    def value(self):
        return self.count

    def update(self, count):
        self.count = count


def ms(milliseconds):
    return Time.milliseconds(milliseconds)


@pytest.mark.parametrize(
    ("timestamp", "window"),
    [(0, (0, 5)), (4, (0, 5)), (5, (5, 10)), (-1, (-5, 0)), (-5, (-5, 0))],
)
def test_tumbling_windows_meet_without_overlap(timestamp, window):
    assert TumblingEventTimeWindows.of(ms(5)).assign_windows("a", timestamp, None) == [TimeWindow(*window)]
    clock = Context(timestamp)
    assert TumblingProcessingTimeWindows.of(ms(5)).assign_windows("a", MIN, clock) == [TimeWindow(*window)]


def test_an_offset_shifts_all_windows():
    windows = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    start = windows.assign_windows("a", 0, None)[0].start
    assert start == -8 * 3_600_000


@given(
    timestamp=st.integers(-1000, 1000),
    size=st.integers(1, 50),
    slide=st.integers(1, 50),
    shift=st.integers(0, 49),
)
def test_sliding_windows_are_all_that_contain_the_timestamp(timestamp, size, slide, shift):
    offset = shift % slide
    windows = SlidingEventTimeWindows(size, slide, offset).assign_windows("a", timestamp, None)
    expected = [
        TimeWindow(start, start + size)
        for start in range(timestamp, timestamp - size, -1)
        if (start - offset) % slide == 0
    ]
    assert windows == expected  # the last one first
    assert SlidingProcessingTimeWindows(size, slide, offset).assign_windows("a", MIN, Context(timestamp)) == expected


@given(timestamp=st.integers(-1000, 1000), step=st.integers(1, 20), steps=st.integers(1, 9), shift=st.integers(-99, 99))
def test_cumulating_windows_are_all_parts_of_the_whole_that_end_after_the_timestamp(timestamp, step, steps, shift):
    size = step * steps
    offset = shift % size
    (start,) = [start for start in range(timestamp, timestamp - size, -1) if (start - offset) % size == 0]
    windows = CumulatingEventTimeWindows(size, step, offset).assign_windows("a", timestamp, None)
    assert windows == [TimeWindow(start, end) for end in range(start + step, start + size + 1, step) if end > timestamp]


@pytest.mark.parametrize(("max_size", "step", "offset"), [(10, 3, 0), (10, 0, 0), (10, -5, 0), (5, 10, 0), (10, 5, 10)])
def test_the_whole_of_cumulating_windows_is_a_multiple_of_their_step(max_size, step, offset):
    with pytest.raises(ValueError, match=f"{max_size} ms and {offset if offset else step} ms"):
        CumulatingEventTimeWindows(max_size, step, offset)


def test_a_session_begins_at_its_record():
    assert EventTimeSessionWindows.with_gap(ms(7)).assign_windows("a", 3, None) == [TimeWindow(3, 10)]
    assert ProcessingTimeSessionWindows.with_gap(ms(7)).assign_windows("a", 3, Context(5)) == [TimeWindow(5, 12)]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element


def test_a_record_may_say_its_gap_itself():
    event_time = EventTimeSessionWindows.with_dynamic_gap(Gap())
    processing_time = ProcessingTimeSessionWindows.with_dynamic_gap(Gap())
    assert isinstance(event_time, DynamicEventTimeSessionWindows)
    assert isinstance(processing_time, DynamicProcessingTimeSessionWindows)
    assert event_time.assign_windows(4, 10, None) == [TimeWindow(10, 14)]
    assert processing_time.assign_windows(4, 10, Context(20)) == [TimeWindow(20, 24)]


@pytest.mark.parametrize("gap", [0, -5])
def test_a_dynamic_gap_is_longer_than_nothing(gap):
    with pytest.raises(ValueError, match=f"Dynamic session time gap must satisfy 0 < gap, got {gap} ms"):
        EventTimeSessionWindows.with_dynamic_gap(Gap()).assign_windows(gap, 10, None)


@pytest.mark.parametrize("gap", [None, "5", 2.5])
def test_a_dynamic_gap_is_an_int(gap):
    with pytest.raises(TypeError, match=r"a session gap is an int, in milliseconds; Gap.extract gave"):
        EventTimeSessionWindows.with_dynamic_gap(Gap()).assign_windows(gap, 10, None)


def test_an_extractor_has_a_method_extract():
    with pytest.raises(TypeError, match=r"has a method extract\(element\), got 5"):
        EventTimeSessionWindows.with_dynamic_gap(5)


def test_tumbling_count_windows_follow_each_other():
    context, windows = Context(), CountTumblingWindowAssigner.of(3)
    ids = [window.id for _ in range(7) for window in windows.assign_windows("a", 0, context)]
    assert ids == [0, 0, 0, 1, 1, 1, 2]


@given(size=st.integers(1, 9), slide=st.integers(1, 9))
def test_sliding_count_windows_are_all_that_contain_the_number(size, slide):
    context, windows = Context(), CountSlidingWindowAssigner.of(size, slide)
    for number in range(40):
        expected = [CountWindow(id) for id in range(number, -1, -1) if id * slide <= number < id * slide + size]
        assert windows.assign_windows("a", 0, context) == expected


def test_the_global_window_takes_all():
    assert GlobalWindows.create().assign_windows("a", 5, None) == [GlobalWindow()]


@pytest.mark.parametrize(
    ("assigner", "is_event_time", "trigger"),
    [
        (TumblingEventTimeWindows.of(ms(5)), True, EventTimeTrigger),
        (TumblingProcessingTimeWindows.of(ms(5)), False, ProcessingTimeTrigger),
        (SlidingEventTimeWindows.of(ms(5), ms(1)), True, EventTimeTrigger),
        (SlidingProcessingTimeWindows.of(ms(5), ms(1)), False, ProcessingTimeTrigger),
        (EventTimeSessionWindows.with_gap(ms(5)), True, EventTimeTrigger),
        (ProcessingTimeSessionWindows.with_gap(ms(5)), False, ProcessingTimeTrigger),
        (EventTimeSessionWindows.with_dynamic_gap(Gap()), True, EventTimeTrigger),
        (ProcessingTimeSessionWindows.with_dynamic_gap(Gap()), False, ProcessingTimeTrigger),
        (CountTumblingWindowAssigner.of(3), False, CountTrigger),
        (CountSlidingWindowAssigner.of(3, 1), False, CountTrigger),
        (GlobalWindows.create(), False, NeverTrigger),
    ],
)
def test_each_has_its_time_its_trigger_and_its_serializer(assigner, is_event_time, trigger):
    assert assigner.is_event_time() is is_event_time
    assert type(assigner.get_default_trigger(None)) is trigger
    assert assigner.get_window_serializer() is not None


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(5, 0), SlidingEventTimeWindows(5, 1, 0)])
def test_event_time_needs_timestamps(assigner):
    with pytest.raises(ValueError, match=r"no timestamp .*call assign_timestamps_and_watermarks"):
        assigner.assign_windows("a", MIN, None)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TumblingEventTimeWindows.of(ms(1), ms(2)), "TumblingEventTimeWindows parameters must satisfy abs"),
        (lambda: TumblingEventTimeWindows.of(ms(0)), r"abs\(offset\) < size"),
        (lambda: TumblingProcessingTimeWindows.of(ms(5), ms(-5)), "TumblingProcessingTimeWindows parameters"),
        (lambda: SlidingEventTimeWindows.of(ms(1), ms(0)), r"abs\(offset\) < slide and size > 0"),
        (lambda: SlidingProcessingTimeWindows.of(ms(0), ms(1)), "SlidingProcessingTimeWindows parameters"),
        (lambda: EventTimeSessionWindows.with_gap(ms(0)), "EventTimeSessionWindows parameters must satisfy 0 < size"),
        (lambda: ProcessingTimeSessionWindows(-1), "ProcessingTimeSessionWindows parameters must satisfy 0 < size"),
        (lambda: CountTumblingWindowAssigner.of(0), "at least one record, got 0"),
        (lambda: CountSlidingWindowAssigner.of(2, 0), "slides by at least one record, got 0"),
    ],
)
def test_windows_that_cannot_be_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize("size", [5, 5.0, "5", None])
def test_a_size_without_a_unit_is_refused(size):
    with pytest.raises(TypeError, match="size must be a Time, a Duration or a timedelta"):
        TumblingEventTimeWindows.of(size)


@pytest.mark.parametrize("size", [Time.seconds(5), Duration.of_seconds(5), datetime.timedelta(seconds=5)])
def test_any_length_of_time_is_a_size(size):
    assert repr(TumblingEventTimeWindows.of(size)) == "TumblingEventTimeWindows(5000, 0)"


@pytest.mark.parametrize(
    ("assigner", "text"),
    [
        (SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)), "SlidingEventTimeWindows(2000, 1000, 0)"),
        (TumblingProcessingTimeWindows.of(ms(5), ms(-1)), "TumblingProcessingTimeWindows(5, -1)"),
        (SlidingProcessingTimeWindows.of(ms(5), ms(2)), "SlidingProcessingTimeWindows(5, 2, 0)"),
        (EventTimeSessionWindows.with_gap(Time.seconds(1)), "EventTimeSessionWindows(1000)"),
        (ProcessingTimeSessionWindows.with_gap(ms(1)), "ProcessingTimeSessionWindows(1)"),
        (GlobalWindows.create(), "GlobalWindows()"),
        (CountTumblingWindowAssigner.of(3), "CountTumblingWindowAssigner(3)"),
        (CountSlidingWindowAssigner.of(3, 2), "CountSlidingWindowAssigner(3, 2)"),
    ],
)
def test_assigners_print_as_in_pyflink(assigner, text):
    assert repr(assigner) == text
