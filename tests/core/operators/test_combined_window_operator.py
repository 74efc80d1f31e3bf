"""Windows of what was combined before it was sent give what windows of the records themselves give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models.window_models import play, records, scripts
from support.models.window_programs import WAYS, Gather, key_of, state_left

from flinkbuf._core.operators.combined_window_operator import CombinedWindowOperator
from flinkbuf.streaming.chain.aggregations import COMBINED_KEY
from flinkbuf.streaming.windows.evictors import CountEvictor
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows
from flinkbuf.streaming.windows.time_triggers import ProcessingTimeTrigger
from flinkbuf.streaming.windows.time_windows import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkbuf.streaming.windows.triggers import CountTrigger
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.types import Types
from flinkbuf.types.values import StreamRecord, Watermark

MAX = 2**63 - 1
GATHERING = {name: way for name, way in WAYS.items() if name != "process"}
OFFSETS = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(-11, 11)).filter(lambda o: abs(o[2]) < o[1])
OBJECT = Types.PICKLED_BYTE_ARRAY().codec


def plain_factory(assigner, **arguments):
    return WindowOperatorFactory(assigner, key_selector=key_of, **arguments)


def factories(assigner, max_delay_ms=100, **arguments):
    """Of what combines, and of what is behind the exchange."""
    behind = WindowOperatorFactory(assigner, key_selector=COMBINED_KEY, two_phase=True, **arguments)
    return behind.combining(key_of, None, max_delay_ms), behind


def send(combining, behind):
    """Let what was combined go through bytes, as to another task."""
    for element in combining.take_output():
        if isinstance(element, StreamRecord):
            behind.process_element(OBJECT.deserialize(OBJECT.serialize(element.value)), element.timestamp)
        elif isinstance(element, Watermark):
            behind.process_watermark(element.timestamp)


def run_two(made, script, cut=None):
    """The results of both operators, behind each other; with a snapshot of the second before the step `cut`."""
    first, second = made
    with OperatorHarness(first(), is_keyed=False) as combining:
        behind = OperatorHarness(second())
        behind.open()
        results = []
        for number, step in enumerate([*script, None]):
            if number == cut:
                combining.operator.prepare_snapshot_pre_barrier(1)
                send(combining, behind)
                results += records(behind)
                snapshot = behind.snapshot()
                behind.close()
                behind = OperatorHarness(second(), restore=snapshot)
                behind.open()
            if step is not None:
                play(combining, [step], number)
                send(combining, behind)
        combining.end_input()
        send(combining, behind)
        results += records(behind)
        left = state_left(behind)
        behind.close()
        return results, left


def sorted_contents(left):
    """State, where numbers are in the order in which they came."""

    def plain(value):
        if isinstance(value, list):
            return sorted(value)
        if isinstance(value, tuple) and value and isinstance(value[-1], tuple):
            return value[0], tuple(sorted(value[-1]))
        return value

    return sorted(((name, namespace, key, plain(value)) for name, namespace, key, value in left), key=repr)


@pytest.mark.parametrize("way", GATHERING)
@given(bounds=OFFSETS, script=scripts())
def test_event_time(way, bounds, script):
    assigner = SlidingEventTimeWindows(*bounds)
    with OperatorHarness(plain_factory(assigner, **WAYS[way])()) as harness:
        play(harness, script)
        expected, left = records(harness), state_left(harness)
    found, found_left = run_two(factories(assigner, **WAYS[way]), script)
    assert sorted(found) == sorted(expected)
    assert sorted_contents(found_left) == sorted_contents(left)


@pytest.mark.parametrize("way", GATHERING)
@given(script=scripts(), cut=st.integers(0, 40))
def test_a_snapshot_at_any_point_changes_nothing(way, script, cut):
    assigner = SlidingEventTimeWindows(10, 4, 0)
    script = [*script, ("watermark", MAX)]
    with OperatorHarness(plain_factory(assigner, **WAYS[way])()) as harness:
        play(harness, script[:cut])
        expected, snapshot = records(harness), harness.snapshot()
    with OperatorHarness(plain_factory(assigner, **WAYS[way])(), restore=snapshot) as harness:
        play(harness, script[cut:], cut)
        expected += records(harness)
    first, second = factories(assigner, **WAYS[way])
    # Event time begins anew behind a restore, also for what combines.
    results, taken = [], None
    for part, number in ((script[:cut], 0), (script[cut:], cut)):
        with OperatorHarness(first(), is_keyed=False) as combining, OperatorHarness(second(), restore=taken) as behind:
            play(combining, part, number)
            combining.operator.prepare_snapshot_pre_barrier(1)
            send(combining, behind)
            results += records(behind)
            taken = behind.snapshot()
    assert sorted(results) == sorted(expected)


@given(script=scripts(), cut=st.integers(0, 40))
def test_it_goes_on_from_a_snapshot_of_plain_windows(script, cut):
    assigner = TumblingEventTimeWindows(10, 0)
    script = [*script, ("watermark", MAX)]
    with OperatorHarness(plain_factory(assigner, **WAYS["aggregate"])()) as harness:
        play(harness, script[:cut])
        before, snapshot = records(harness), harness.snapshot()
    with OperatorHarness(plain_factory(assigner, **WAYS["aggregate"])(), restore=snapshot) as harness:
        play(harness, script[cut:], cut)
        expected = records(harness)
    first, second = factories(assigner, **WAYS["aggregate"])
    with OperatorHarness(first(), is_keyed=False) as combining, OperatorHarness(second(), restore=snapshot) as behind:
        play(combining, script[cut:], cut)
        combining.end_input()
        send(combining, behind)
        assert sorted(before + records(behind)) == sorted(before + expected)


@pytest.mark.parametrize("assigner", [TumblingProcessingTimeWindows(10, 0), SlidingProcessingTimeWindows(10, 5, 0)])
@pytest.mark.parametrize("way", GATHERING)
def test_windows_of_processing_time_are_those_of_when_what_was_combined_comes(way, assigner):
    first, second = factories(assigner, 4, **WAYS[way])
    with (
        OperatorHarness(first(), is_keyed=False) as combining,
        OperatorHarness(second(), clock=combining.clock) as behind,
    ):
        for number in range(4):
            combining.process_element(("a", number))
        assert combining.output == []
        combining.set_processing_time(combining.clock.now_ms() + 4)
        send(combining, behind)
        combining.process_element(("a", 4))
        combining.set_processing_time(combining.clock.now_ms() + 10)
        send(combining, behind)
        combining.set_processing_time(combining.clock.now_ms() + 30)
        counted = [number for result in records(behind) for number in result[3]]
        copies = 1 if assigner.size_ms == assigner.slide_ms else 2
        assert sorted(counted) == sorted([*range(5)] * copies)


@pytest.mark.parametrize(
    ("assigner", "arguments", "words"),
    [
        (EventTimeSessionWindows(10), {}, "tumbling and sliding"),
        (CumulatingEventTimeWindows(10, 5, 0), {}, "tumbling and sliding"),
        (TumblingEventTimeWindows(10, 0), {"trigger": CountTrigger.of(2)}, "tumbling and sliding"),
        (TumblingEventTimeWindows(10, 0), {"trigger": ProcessingTimeTrigger()}, "tumbling and sliding"),
        (TumblingEventTimeWindows(10, 0), {"evictor": CountEvictor.of(2)}, "evictor"),
        (TumblingEventTimeWindows(10, 0), {"allowed_lateness_ms": 1}, "allowed_lateness"),
        (TumblingEventTimeWindows(10, 0), {"late_tag_id": "late"}, "side_output_late_data"),
    ],
)
def test_what_does_not_go_with_it_is_refused(assigner, arguments, words):
    with pytest.raises(ValueError, match=words):
        factories(assigner, aggregate_function=Gather(), **arguments)


@pytest.mark.parametrize(
    ("timestamp", "is_taken"), [(MAX - 10, True), (MAX - 9, False), (-MAX + 24, True), (-MAX + 23, False)]
)
def test_timestamps_next_to_the_ends_of_time(timestamp, is_taken):
    first, second = factories(SlidingEventTimeWindows(10, 7, 3), aggregate_function=Gather())
    with OperatorHarness(first(), is_keyed=False) as combining, OperatorHarness(second()) as behind:
        if is_taken:
            combining.process_element(("a", 1), timestamp)
            combining.end_input()
            send(combining, behind)
            behind.process_watermark(MAX)
            assert 1 <= len(records(behind)) <= 2
        else:
            with pytest.raises(OverflowError, match="does not fit into 64 bits"):
                combining.process_element(("a", 1), timestamp)


def test_all_records_of_a_window_are_not_combined():
    with pytest.raises(ValueError, match="reduce and aggregate"):
        factories(TumblingEventTimeWindows(10, 0), **WAYS["process"])


def test_a_record_without_a_timestamp_is_refused_where_it_is():
    first, second = factories(TumblingEventTimeWindows(10, 0), aggregate_function=Gather())
    assert type(second()) is CombinedWindowOperator
    with OperatorHarness(first(), is_keyed=False) as harness, pytest.raises(ValueError, match="no timestamp"):
        harness.process_element(("a", 1))


class Unmerged(Gather):
    def merge(self, acc_a, acc_b):
        """Left out: without `two_phase` only sessions call it."""


@pytest.mark.parametrize(
    ("gathering", "words"),
    [
        ({"aggregate_function": Unmerged()}, r"Unmerged.merge\(\) must return .* returned None"),
        ({"reduce_function": lambda one, other: None}, "cannot become None: leave out two_phase"),
    ],
)
def test_a_window_does_not_become_empty_by_what_is_added(gathering, words):
    first, second = factories(SlidingEventTimeWindows(4, 2, 0), **gathering)
    with OperatorHarness(first(), is_keyed=False) as combining, OperatorHarness(second()) as behind:
        combining.process_element(("a", 1), 0)
        combining.process_element(("a", 2), 2)
        combining.end_input()
        with pytest.raises(TypeError, match=words):
            send(combining, behind)
        assert behind.operator.is_in_function
