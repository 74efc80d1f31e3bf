"""The fast way through sessions gives what the general one gives, and each goes on from the other's state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models.window_models import (
    Sessions,
    check_processing_time,
    check_restores,
    check_that_a_snapshot_stays,
    expected,
    of_each_key,
    run,
    scripts,
)
from support.models.window_programs import WAYS, factory, state_left

from flinkbuf.streaming.windows.assigner import SessionWindowTimeGapExtractor
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows, ProcessingTimeSessionWindows
from flinkbuf.testing import OperatorHarness

MAX = 2**63 - 1


class ByNumber(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 1 + element[1] * 7 % 11


ASSIGNERS = st.one_of(
    st.integers(1, 12).map(EventTimeSessionWindows), st.just(EventTimeSessionWindows.with_dynamic_gap(ByNumber()))
)


@pytest.mark.parametrize("way", WAYS)
@given(assigner=ASSIGNERS, lateness=st.integers(0, 15), script=scripts())
def test_event_time(way, assigner, lateness, script):
    made = factory(assigner, allowed_lateness_ms=lateness, **WAYS[way])
    assert run(made, script) == run(made.general, script)


@pytest.mark.parametrize("way", WAYS)
@given(gap=st.integers(1, 12), lateness=st.integers(0, 15), script=scripts())
def test_it_gives_what_a_list_of_the_records_gives(way, gap, lateness, script):
    made = factory(EventTimeSessionWindows(gap), allowed_lateness_ms=lateness, **WAYS[way])
    results, late = run(made, script)
    model_results, model_late = expected(Sessions(gap, lateness), script)
    assert of_each_key(results) == of_each_key(model_results)
    assert late == model_late


@pytest.mark.parametrize("way", WAYS)
@given(gap=st.integers(2, 12), steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=40))
def test_processing_time(way, gap, steps):
    check_processing_time(factory(ProcessingTimeSessionWindows(gap), **WAYS[way]), steps, state_left)


@pytest.mark.parametrize("way", WAYS)
@given(assigner=ASSIGNERS, script=scripts(), cut=st.integers(0, 40))
def test_each_goes_on_from_the_others_snapshot(way, assigner, script, cut):
    check_restores(factory(assigner, allowed_lateness_ms=8, **WAYS[way]), script, cut)


@given(script=scripts(), cut=st.integers(0, 40))
def test_a_snapshot_is_what_it_was_when_it_was_taken(script, cut):
    made = factory(EventTimeSessionWindows(7), allowed_lateness_ms=5, **WAYS["process"])
    check_that_a_snapshot_stays(made, script, cut)


def test_nothing_of_a_session_stays_when_it_is_over():
    for way in WAYS:
        with OperatorHarness(factory(EventTimeSessionWindows(7), allowed_lateness_ms=5, **WAYS[way])()) as harness:
            for number in range(200):
                harness.process_element(("abc"[number % 3], number), (number * 37) % 300)
                if number % 20 == 0:
                    harness.process_watermark(number)
            harness.process_watermark(1000)
            assert state_left(harness) == []


def test_a_late_record_of_a_new_key_leaves_nothing():
    made = factory(EventTimeSessionWindows(7))
    for operator in (made(), made.general()):
        with OperatorHarness(operator) as harness:
            harness.process_watermark(100)
            harness.process_element(("a", 1), 5)
            assert state_left(harness) == []
            assert len(harness.side_output("late")) == 1


def test_a_record_at_the_end_of_time_is_refused():
    with (
        OperatorHarness(factory(EventTimeSessionWindows(10))()) as harness,
        pytest.raises(OverflowError, match=f"timestamp {MAX} does not fit into 64 bits"),
    ):
        harness.process_element(("a", 1), MAX)


def test_an_error_of_merge_goes_up_with_the_record_in_hand():
    class Boom(Exception):
        pass

    def fail(one, other):
        if "joins" in (one[1], other[1]):
            return one
        raise Boom

    made = factory(EventTimeSessionWindows(10), reduce_function=fail, window_function=None)
    with OperatorHarness(made()) as harness:
        harness.process_element(("a", 1), 0)
        harness.process_element(("a", 2), 15)
        with pytest.raises(Boom):
            harness.process_element(("a", "joins"), 8)
        assert harness.operator.is_in_function
        assert harness.operator.value_in_hand == ("a", "joins")
