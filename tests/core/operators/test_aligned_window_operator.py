"""The fast way through aligned windows gives what the general one gives, and each goes on from the other's state."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models.window_models import (
    check_processing_time,
    check_restores,
    check_that_a_snapshot_stays,
    play,
    run,
    scripts,
)
from support.models.window_programs import WAYS, Numbers, factory, state_left

from flinkbuf._core.operators.aligned_window_operator import AlignedWindowOperator
from flinkbuf._core.operators.session_window_operator import SessionWindowOperator
from flinkbuf._core.operators.window_operator import WindowOperator
from flinkbuf.streaming.windows.evictors import CountEvictor
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows, ProcessingTimeSessionWindows
from flinkbuf.streaming.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkbuf.streaming.windows.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkbuf.streaming.windows.triggers import CountTrigger
from flinkbuf.testing import OperatorHarness

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("assigner", "arguments", "kind"),
    [
        (TumblingEventTimeWindows(10, 0), {}, AlignedWindowOperator),
        (SlidingEventTimeWindows(10, 5, 0), {}, AlignedWindowOperator),
        (TumblingProcessingTimeWindows(10, 0), {}, AlignedWindowOperator),
        (SlidingProcessingTimeWindows(10, 5, 0), {}, AlignedWindowOperator),
        (TumblingEventTimeWindows(10, 0), {"trigger": EventTimeTrigger()}, AlignedWindowOperator),
        (EventTimeSessionWindows(10), {}, SessionWindowOperator),
        (ProcessingTimeSessionWindows(10), {}, SessionWindowOperator),
        (TumblingProcessingTimeWindows(10, 0), {"trigger": ProcessingTimeTrigger(True)}, AlignedWindowOperator),
        (ProcessingTimeSessionWindows(10), {"trigger": ProcessingTimeTrigger(True)}, WindowOperator),
        (TumblingEventTimeWindows(10, 0), {"trigger": ProcessingTimeTrigger()}, WindowOperator),
        (TumblingEventTimeWindows(10, 0), {"trigger": CountTrigger.of(2)}, WindowOperator),
        (TumblingEventTimeWindows(10, 0), {"evictor": CountEvictor.of(2)}, WindowOperator),
        (EventTimeSessionWindows(10), {"evictor": CountEvictor.of(2)}, WindowOperator),
        (EventTimeSessionWindows(10), {"trigger": CountTrigger.of(2)}, WindowOperator),
        (type("Mine", (TumblingEventTimeWindows,), {})(10, 0), {}, WindowOperator),
        (type("Mine", (EventTimeSessionWindows,), {})(10), {}, WindowOperator),
    ],
)
def test_a_fast_way_is_taken_where_nobody_can_see_it(assigner, arguments, kind):
    made = factory(assigner, **arguments)
    assert type(made()) is kind
    assert type(made.general()) is WindowOperator


OFFSETS = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(-11, 11)).filter(lambda o: abs(o[2]) < o[1])


@pytest.mark.parametrize("way", WAYS)
@given(bounds=OFFSETS, lateness=st.integers(0, 15), script=scripts())
def test_event_time(way, bounds, lateness, script):
    made = factory(SlidingEventTimeWindows(*bounds), allowed_lateness_ms=lateness, **WAYS[way])
    assert run(made, script) == run(made.general, script)


@pytest.mark.parametrize("way", WAYS)
@given(bounds=OFFSETS, steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=40))
def test_processing_time(way, bounds, steps):
    check_processing_time(factory(SlidingProcessingTimeWindows(*bounds), **WAYS[way]), steps, state_left)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("way", WAYS)
@given(bounds=OFFSETS, steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=40))
def test_processing_time_that_fires_at_the_end(way, ends, bounds, steps):
    made = factory(SlidingProcessingTimeWindows(*bounds), trigger=ProcessingTimeTrigger(fires_at_end=True), **WAYS[way])
    check_processing_time(made, steps, state_left, ends)


@pytest.mark.parametrize("way", WAYS)
@given(script=scripts(), cut=st.integers(0, 40))
def test_each_goes_on_from_the_others_snapshot(way, script, cut):
    check_restores(factory(SlidingEventTimeWindows(10, 4, 0), allowed_lateness_ms=8, **WAYS[way]), script, cut)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("assigner", [SlidingEventTimeWindows(10, 4, 0), EventTimeSessionWindows(6)])
@given(before=scripts(), behind=scripts())
def test_event_time_begins_anew_behind_a_restore(way, assigner, before, behind):
    """Records for windows that were evaluated before, and are kept for late ones, have them evaluated once more."""
    made, outputs = factory(assigner, allowed_lateness_ms=8, **WAYS[way]), []
    for make in (made, made.general):
        with OperatorHarness(make()) as harness:
            play(harness, before)
            snapshot = harness.snapshot()
        with OperatorHarness(make(), restore=snapshot) as harness:
            play(harness, behind)
            harness.process_watermark(MAX)
            outputs.append(harness.output)
    assert outputs[0] == outputs[1]


def test_a_window_that_was_evaluated_before_a_restore_is_evaluated_with_a_record_behind_it():
    made = factory(TumblingEventTimeWindows(10, 0), allowed_lateness_ms=5, **WAYS["process"])
    with OperatorHarness(made()) as harness:
        harness.process_element(("a", 1), 3)
        harness.process_watermark(9)
        snapshot = harness.snapshot()
    with OperatorHarness(made(), restore=snapshot) as harness:
        harness.process_element(("a", 2), 4)
        assert harness.output == []
        harness.process_watermark(9)
        assert len(harness.output) == 2, "the window, and the watermark"


@given(script=scripts(), cut=st.integers(0, 40))
def test_a_snapshot_is_what_it_was_when_it_was_taken(script, cut):
    check_that_a_snapshot_stays(factory(TumblingEventTimeWindows(10, 0), **WAYS["process"]), script, cut)


def test_a_reduction_to_none_leaves_nothing_as_in_a_reducing_state():
    made = factory(TumblingEventTimeWindows(10, 0), window_function=None, reduce_function=lambda one, other: None)
    outputs = []
    for operator in (made(), made.general()):
        with OperatorHarness(operator) as harness:
            for number in range(3):
                harness.process_element(("a", number), number)
            harness.process_watermark(9)
            outputs.append(harness.output_values)
    assert outputs == [[("a", 2)]] * 2


def test_records_without_a_timestamp_are_refused_with_what_to_do():
    with (
        OperatorHarness(factory(TumblingEventTimeWindows(10, 0))()) as harness,
        pytest.raises(ValueError, match="call assign_timestamps_and_watermarks"),
    ):
        harness.process_element(("a", 1))


@pytest.mark.parametrize("timestamp", [MAX, MAX - 9, -MAX, -MAX + 10, -MAX + 29])
def test_timestamps_at_the_ends_of_time_are_refused(timestamp):
    with (
        OperatorHarness(factory(TumblingEventTimeWindows(10, 0))()) as harness,
        pytest.raises(OverflowError, match=f"timestamp {timestamp} does not fit into 64 bits"),
    ):
        harness.process_element(("a", 1), timestamp)


@pytest.mark.parametrize("timestamp", [MAX - 10, -MAX + 30])
def test_timestamps_next_to_the_ends_of_time_have_their_windows(timestamp):
    with OperatorHarness(factory(SlidingEventTimeWindows(10, 10, 3))()) as harness:
        harness.process_element(("a", 1), timestamp)
        harness.process_watermark(MAX)
        ((_, start, end, _),) = harness.output_values
        assert (end - start, start % 10) == (10, 3)
        assert start <= timestamp < end


def test_windows_that_are_over_are_not_held():
    """Each window of a sliding operator finds the one before it; there are many in a stream without an end."""
    before = count_objects("Pane")
    with OperatorHarness(factory(SlidingEventTimeWindows(20, 5, 0))()) as harness:
        for number in range(1_000):
            harness.process_element(("a", number), 5 * number)
            harness.process_watermark(5 * number)
        assert 0 < count_objects("Pane") - before < 20


def count_objects(class_name):
    gc.collect()
    return sum(type(each).__name__ == class_name for each in gc.get_objects())


def test_many_windows_at_once():
    made = factory(TumblingEventTimeWindows(1, 0), window_function=Numbers())
    with OperatorHarness(made()) as harness:
        for number in range(10_000):
            harness.process_element(("a", number), number * 7919 % 10_000)
        harness.process_watermark(MAX)
        assert harness.output_values == [
            ("a", start, start + 1, (start * pow(7919, -1, 10_000) % 10_000,)) for start in range(10_000)
        ]
