"""Windows of any assigner with any trigger. Flink: WindowOperatorTest, EvictingWindowOperatorTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models.window_models import (
    FixedWindows,
    Sessions,
    expected,
    of_each_key,
    play,
    records,
    run,
    run_with_cut,
    scripts,
)
from support.models.window_programs import (
    WAYS,
    Gather,
    Numbers,
    SortedNumbers,
    factory,
    joined,
    key_of,
    opened,
    state_left,
)

from flinkbuf._core.operators.window_operator import WindowOperator
from flinkbuf.streaming.chain.functions import ReduceFunction
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.state.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.windows.assigner import SessionWindowTimeGapExtractor, WindowAssigner
from flinkbuf.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from flinkbuf.streaming.windows.evictors import CountEvictor, Evictor, TimeEvictor
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows, ProcessingTimeSessionWindows
from flinkbuf.streaming.windows.time_triggers import ContinuousEventTimeTrigger, EventTimeTrigger
from flinkbuf.streaming.windows.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkbuf.streaming.windows.trigger import Trigger, TriggerResult
from flinkbuf.streaming.windows.triggers import CountTrigger, PurgingTrigger
from flinkbuf.streaming.windows.window import GlobalWindow, TimeWindow, Window
from flinkbuf.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.duration import Time
from flinkbuf.types.types import Types
from flinkbuf.types.values import StreamRecord, Watermark

MAX = 2**63 - 1


# --- against a list -----------------------------------------------------------------------------------------------


@given(size=st.integers(1, 12), slide=st.integers(1, 12), lateness=st.integers(0, 15), script=scripts())
def test_fixed_windows_give_what_a_list_of_the_records_gives(size, slide, lateness, script):
    made = factory(SlidingEventTimeWindows(size, slide, 0), allowed_lateness_ms=lateness)
    results, late = run(made.general, script)
    model_results, model_late = expected(FixedWindows(size, slide, lateness), script)
    assert of_each_key(results) == of_each_key(model_results)
    assert late == model_late


@pytest.mark.parametrize("way", WAYS)
@given(gap=st.integers(1, 12), lateness=st.integers(0, 15), script=scripts())
def test_sessions_give_what_a_list_of_the_records_gives(way, gap, lateness, script):
    made = factory(EventTimeSessionWindows(gap), allowed_lateness_ms=lateness, **WAYS[way])
    results, late = run(made.general, script)
    model_results, model_late = expected(Sessions(gap, lateness), script)
    assert of_each_key(results) == of_each_key(model_results)
    assert late == model_late


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("assigner", [SlidingEventTimeWindows(10, 4, 0), EventTimeSessionWindows(7)], ids=str)
@given(script=scripts(), cut=st.integers(0, 40))
def test_results_are_the_same_wherever_the_operator_is_restored(assigner, way, script, cut):
    made = factory(assigner, allowed_lateness_ms=8, **WAYS[way])
    straight = run(made.general, script)[0]
    assert of_each_key(run_with_cut(made.general, made.general, script, min(cut, len(script)))) == of_each_key(straight)


@given(script=scripts(keys="abcdef"), cut=st.integers(0, 40))
def test_results_are_the_same_when_two_subtasks_go_on_where_one_was(script, cut):
    made = factory(EventTimeSessionWindows(7), **WAYS["aggregate"])
    straight, cut = run(made, script)[0], min(cut, len(script))
    with OperatorHarness(made()) as before:
        play(before, script[:cut])
        snapshot = before.snapshot()
        results = records(before)
    watermark = max((step[1] for step in script[:cut] if step[0] == "watermark"), default=-(2**62))
    for subtask in range(2):
        with OperatorHarness(made(), restore=snapshot, parallelism=2, subtask_index=subtask) as after:
            groups = after.context.keyed_state.key_groups
            group_of = groups.grouper().group_of
            after.process_watermark(watermark)
            for number, step in enumerate(script[cut:], cut):
                if step[0] == "watermark":
                    after.process_watermark(step[1])
                elif groups.first <= group_of(step[1]) <= groups.last:
                    after.process_element((step[1], number), step[2])
            results += records(after)
    assert of_each_key(results) == of_each_key(straight)


# --- lateness, timestamps, cleaning up ----------------------------------------------------------------------------


def test_results_carry_the_last_millisecond_of_their_window_late_firings_too():
    with opened(TumblingEventTimeWindows(10, 0), allowed_lateness_ms=100) as harness:
        harness.process_element(("a", 1), 3)
        harness.process_watermark(20)
        harness.process_element(("a", 2), 5)
        assert [each.timestamp for each in harness.output if isinstance(each, StreamRecord)] == [9, 9]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows(10, 0), SlidingEventTimeWindows(10, 3, 0), EventTimeSessionWindows(7)],
    ids=str,
)
@pytest.mark.parametrize("trigger", [None, ContinuousEventTimeTrigger(2), PurgingTrigger(EventTimeTrigger())])
def test_nothing_of_a_window_stays_when_it_is_over(assigner, way, trigger):
    made = factory(assigner, allowed_lateness_ms=5, trigger=trigger, **WAYS[way])
    for make in (made, made.general):
        with OperatorHarness(make()) as harness:
            for number in range(200):
                harness.process_element(("abc"[number % 3], number), (number * 37) % 100)
                if number % 20 == 0:
                    harness.process_watermark(number // 4)
            harness.process_watermark(1000)
            assert state_left(harness) == []


def test_late_records_are_counted_where_no_side_output_takes_them():
    made = WindowOperatorFactory(TumblingEventTimeWindows(10, 0), key_selector=key_of, window_function=Numbers())
    for make in (made, made.general):
        with OperatorHarness(make()) as harness:
            harness.process_watermark(20)
            harness.process_element(("a", 1), 3)
            harness.process_element(("a", 1), 25)
            assert harness.metrics.sample()["numLateRecordsDropped"] == 1


def test_a_window_that_ends_with_time_is_never_cleared_and_never_late():
    last = MAX - MAX % 10 - 10
    with opened(TumblingEventTimeWindows(10, 0), allowed_lateness_ms=100) as harness:
        harness.process_element(("a", 1), last)
        harness.process_watermark(MAX)
        assert harness.output_values == [("a", last, last + 10, (1,))]


# --- functions ----------------------------------------------------------------------------------------------------


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window, list(inputs))]


class ApplyAll(AllWindowFunction):
    def apply(self, window, inputs):
        return [(window, list(inputs))]


class ProcessAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window(), list(elements)


def test_apply_gets_key_window_and_records():
    with opened(TumblingEventTimeWindows(10, 0), window_function=Apply()) as harness:
        harness.process_element(("a", 1), 3)
        harness.process_element(("a", 2), 1)
        harness.process_watermark(9)
        assert harness.output_values == [("a", TimeWindow(0, 10), [("a", 1), ("a", 2)])]


@pytest.mark.parametrize("function", [ApplyAll(), ProcessAll()], ids=["apply", "process"])
def test_windows_over_the_whole_stream_have_no_key(function):
    made = WindowOperatorFactory(TumblingEventTimeWindows(10, 0), window_function=function)
    for make in (made, made.general):
        with OperatorHarness(make()) as harness:
            harness.process_element("x", 3)
            harness.process_element("y", 1)
            harness.process_watermark(9)
            assert harness.output_values == [(TimeWindow(0, 10), ["x", "y"])]


def test_what_is_reduced_is_the_result_where_no_function_follows():
    made = factory(TumblingEventTimeWindows(10, 0), window_function=None, reduce_function=joined)
    for make in (made, made.general):
        with OperatorHarness(make()) as harness:
            for number in range(3):
                harness.process_element(("a", number), number)
            harness.process_watermark(9)
            assert harness.output == [StreamRecord(("a", (0, 1, 2)), 9), Watermark(9)]


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(100, 0), EventTimeSessionWindows(10)], ids=str)
def test_a_callable_with_a_method_reduce_of_its_own_is_still_called(assigner):
    class Both:
        def __call__(self, one, other):
            return one[0], one[1] + other[1]

        def reduce(self, one, other):
            raise AssertionError("this is another method, such as that of numpy.add")

    made = factory(assigner, window_function=None, reduce_function=Both())
    for make in (made, made.general):
        with OperatorHarness(make()) as harness:
            for number, timestamp in enumerate((0, 15, 8)):
                harness.process_element(("a", number), timestamp)
            harness.process_watermark(99)
            assert harness.output_values == [("a", 3)]


def test_a_function_is_given_the_one_value_that_was_reduced():
    with opened(TumblingEventTimeWindows(10, 0), reduce_function=joined, window_function=Apply()) as harness:
        harness.process_element(("a", 1), 3)
        harness.process_element(("a", 2), 1)
        harness.process_watermark(9)
        assert harness.output_values == [("a", TimeWindow(0, 10), [("a", (1, 2))])]


def test_functions_are_opened_and_closed_once():
    calls = []

    class Reduce(ReduceFunction):
        def open(self, runtime_context):
            calls.append(("open reduce", runtime_context.get_index_of_this_subtask()))

        def reduce(self, value1, value2):
            return value2

        def close(self):
            calls.append("close reduce")

    class Function(Apply):
        def open(self, runtime_context):
            calls.append("open window")

        def close(self):
            calls.append("close window")

    with opened(TumblingEventTimeWindows(10, 0), reduce_function=Reduce(), window_function=Function()):
        assert calls == [("open reduce", 0), "open window"]
    assert calls[2:] == ["close window", "close reduce"]


class Context(ProcessWindowFunction):
    """Counts firings of the window and of the key, and clears the first."""

    firings = ValueStateDescriptor("firings", Types.LONG())

    def process(self, key, context, elements):
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(self.firings)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, context.window().start, *counts, context.current_watermark(), context.current_processing_time()

    def clear(self, context):
        context.window_state().get_state(self.firings).clear()


def test_a_process_function_has_state_of_the_window_and_of_the_key_and_the_time():
    for make in ("__call__", "general"):
        made = factory(TumblingEventTimeWindows(10, 0), window_function=Context(), allowed_lateness_ms=50)
        with OperatorHarness(getattr(made, make)()) as harness:
            harness.set_processing_time(77)
            harness.process_element(("a", 1), 3)
            harness.process_element(("a", 1), 13)
            harness.process_watermark(30)
            harness.process_element(("a", 1), 3)
            assert harness.output_values == [("a", 0, 1, 1, 30, 77), ("a", 10, 1, 2, 30, 77), ("a", 0, 2, 3, 30, 77)]
            harness.process_watermark(100)
            assert state_left(harness) == [("firings", None, "a", 3)]


def test_sessions_have_no_state_of_a_window():
    with opened(EventTimeSessionWindows(5), window_function=Context()) as harness:
        harness.process_element(("a", 1), 3)
        with pytest.raises(RuntimeError, match="Per-window state is not allowed when using merging windows"):
            harness.process_watermark(50)


def test_a_window_function_may_use_side_outputs():
    class Split(WindowFunction):
        def apply(self, key, window, inputs):
            for value in inputs:
                yield OutputTag("side"), value
            yield "main"

    with opened(TumblingEventTimeWindows(10, 0), window_function=Split()) as harness:
        harness.process_element(("a", 1), 3)
        harness.process_watermark(9)
        assert harness.output_values == ["main"]
        assert harness.side_output("side") == [StreamRecord(("a", 1), 9)]


# --- sessions -----------------------------------------------------------------------------------------------------


def test_a_late_record_that_joins_two_sessions_with_contents_loses_nothing():
    for way in WAYS:
        with opened(EventTimeSessionWindows(10), **WAYS[way]) as harness:
            for number, timestamp in enumerate((0, 15, 30, 8, 23)):
                harness.process_element(("a", number), timestamp)
            harness.process_watermark(1000)
            assert harness.output_values == [("a", 0, 40, (0, 1, 2, 3, 4))]


def test_sessions_of_processing_time():
    made = factory(ProcessingTimeSessionWindows(10), **WAYS["reduce"])
    with OperatorHarness(made()) as harness:
        for number, now in enumerate((0, 5, 30)):
            harness.set_processing_time(now)
            harness.process_element(("a", number))
        assert harness.output_values == [("a", 0, 15, (0, 1))]
        harness.set_processing_time(41)
        assert harness.output_values[1:] == [("a", 30, 40, (2,))]
        assert state_left(harness) == []


def test_sessions_whose_gap_a_record_says():
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return element[1]

    with opened(EventTimeSessionWindows.with_dynamic_gap(Gap()), **WAYS["process"]) as harness:
        harness.process_element(("a", 100), 0)
        harness.process_element(("a", 2), 50)
        harness.process_element(("a", 1), 101)
        harness.process_watermark(200)
        assert harness.output_values == [("a", 0, 100, (2, 100)), ("a", 101, 102, (1,))]


class ShrinkingWindows(EventTimeSessionWindows):
    """Merges into windows that are over already."""

    def merge_windows(self, windows, callback):
        windows = list(windows)
        if len(windows) > 1:
            callback.merge(windows, TimeWindow(0, 1))


def test_merging_must_not_end_a_window_in_the_past():
    with opened(ShrinkingWindows(10), window_function=SortedNumbers()) as harness:
        harness.process_watermark(20)
        harness.process_element(("a", 1), 30)
        with pytest.raises(RuntimeError, match="cannot become earlier than the current watermark by merging"):
            harness.process_element(("a", 2), 50)


def test_a_trigger_that_cannot_merge_is_refused_for_sessions():
    with pytest.raises(ValueError, match=r"cannot be used with a trigger that does not support merging: AtTen"):
        factory(EventTimeSessionWindows(10), trigger=AtTen())


# --- count windows ------------------------------------------------------------------------------------------------


def test_tumbling_count_windows_fire_when_full_and_keep_nothing():
    with opened(CountTumblingWindowAssigner.of(3), window_function=Apply()) as harness:
        for number in range(7):
            harness.process_element(("a", number))
        harness.process_element(("b", 0))
        assert [[number for _, number in values] for _, _, values in harness.output_values] == [[0, 1, 2], [3, 4, 5]]
        assert [value for name, _, _, value in state_left(harness) if name == "window-contents"] == [
            [("a", 6)],
            [("b", 0)],
        ]


def test_sliding_count_windows_fire_when_full():
    with opened(CountSlidingWindowAssigner.of(4, 2), window_function=Apply()) as harness:
        for number in range(9):
            harness.process_element(("a", number))
        assert [[number for _, number in values] for _, _, values in harness.output_values] == [
            [0, 1, 2, 3],
            [2, 3, 4, 5],
            [4, 5, 6, 7],
        ]


def test_global_windows_with_a_count_trigger_accumulate_unless_purged():
    for trigger, results in [
        (CountTrigger.of(2), [[0, 1], [0, 1, 2, 3]]),
        (PurgingTrigger.of(CountTrigger.of(2)), [[0, 1], [2, 3]]),
    ]:
        with opened(GlobalWindows.create(), trigger=trigger, window_function=Apply()) as harness:
            for number in range(5):
                harness.process_element(("a", number))
            assert [[number for _, number in values] for _, _, values in harness.output_values] == results
            assert {record.timestamp for record in harness.output} == {MAX}


# --- evictors -----------------------------------------------------------------------------------------------------


def test_an_evictor_chooses_what_the_function_sees_and_what_stays():
    arguments = {"trigger": CountTrigger.of(2), "evictor": CountEvictor.of(3), "window_function": Apply()}
    with opened(GlobalWindows.create(), **arguments) as harness:
        for number in range(6):
            harness.process_element(("a", number))
        assert [[number for _, number in values] for _, _, values in harness.output_values] == [
            [0, 1],
            [1, 2, 3],
            [3, 4, 5],
        ]


def test_an_evictor_by_time_uses_the_records_timestamps():
    arguments = {"evictor": TimeEvictor.of(Time.milliseconds(3)), "window_function": Numbers()}
    with opened(TumblingEventTimeWindows(10, 0), **arguments) as harness:
        for number, timestamp in enumerate((1, 8, 6, 9)):
            harness.process_element(("a", number), timestamp)
        harness.process_watermark(9)
        assert harness.output_values == [("a", 0, 10, (1, 3))]


@pytest.mark.parametrize("way", ["reduce", "aggregate"])
def test_what_an_evictor_leaves_is_gathered_when_the_window_fires(way):
    with opened(TumblingEventTimeWindows(10, 0), evictor=CountEvictor.of(2), **WAYS[way]) as harness:
        for number in range(4):
            harness.process_element(("a", number), number)
        harness.process_watermark(9)
        assert harness.output_values == [("a", 0, 10, (2, 3))]


def test_sessions_may_have_an_evictor():
    with opened(EventTimeSessionWindows(10), evictor=CountEvictor.of(2), window_function=SortedNumbers()) as harness:
        for number, timestamp in enumerate((0, 15, 30, 8, 23)):
            harness.process_element(("a", number), timestamp)
        harness.process_watermark(1000)
        ((key, start, end, numbers),) = harness.output_values
        assert (key, start, end, len(numbers)) == ("a", 0, 40, 2)
        assert state_left(harness) == []


# --- what users write ---------------------------------------------------------------------------------------------


class AtTen(Trigger):
    """Fires at the tenth millisecond of a window; counts its records in state."""

    count = ReducingStateDescriptor("count", lambda one, other: one + other, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(self.count).add(1)
        ctx.register_event_time_timer(window.start + 10)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        if time != window.start + 10:
            return TriggerResult.CONTINUE
        assert ctx.get_partitioned_state(self.count).get() == 2
        assert ctx.get_current_watermark() >= time
        return TriggerResult.FIRE

    def on_merge(self, window, ctx):
        raise AssertionError("nothing is merged")

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.count).clear()
        ctx.delete_event_time_timer(window.start + 10)


def test_a_trigger_of_ones_own_has_timers_and_state():
    with opened(TumblingEventTimeWindows(100, 0), trigger=AtTen()) as harness:
        harness.process_element(("a", 1), 3)
        harness.process_element(("a", 2), 99)
        harness.process_watermark(10)
        assert harness.output_values == [("a", 0, 100, (1, 2))]
        harness.process_watermark(200)
        assert state_left(harness) == []


class EvenAndOdd(Window):
    def __init__(self, rest):
        self.rest = rest

    def max_timestamp(self):
        return 50

    def __eq__(self, other):
        return isinstance(other, EvenAndOdd) and self.rest == other.rest

    def __hash__(self):
        return self.rest


class ByRest(WindowAssigner):
    def assign_windows(self, element, timestamp, context):
        return {EvenAndOdd(element[1] % 2)}

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return None

    def is_event_time(self):
        return True


def test_an_assigner_and_windows_of_ones_own():
    class Rest(WindowFunction):
        def apply(self, key, window, inputs):
            yield window.rest, [number for _, number in inputs]

    with opened(ByRest(), window_function=Rest()) as harness:
        for number in range(5):
            harness.process_element(("a", number), 0)
        harness.process_watermark(50)
        assert sorted(harness.output_values) == [(0, [0, 2, 4]), (1, [1, 3])]
        assert state_left(harness) == []


# --- errors of users ----------------------------------------------------------------------------------------------


class Boom(Exception):
    pass


def broken(kind, method, outcome=Boom):
    """A class like `kind` one of whose methods raises `outcome`, or returns it."""

    def fail(self, *arguments):
        if isinstance(outcome, type) and issubclass(outcome, Exception):
            raise outcome(method)
        return outcome

    return type(kind.__name__, (kind,), {method: fail})()


def fire(harness):
    harness.process_element(("a", 1), 3)
    harness.process_element(("a", 2), 8)
    harness.process_watermark(1000)
    harness.process_element(("a", 1), 3)


RAISING = [
    ({"assigner": broken(ByRest, "assign_windows")}, "assign_windows"),
    ({"trigger": broken(AtTen, "on_element")}, "on_element"),
    ({"trigger": broken(EventTimeTrigger, "on_event_time")}, "on_event_time"),
    ({"trigger": broken(EventTimeTrigger, "clear")}, "clear"),
    ({"window_function": broken(Numbers, "process")}, "process"),
    ({"window_function": broken(Context, "clear")}, "clear"),
    ({"window_function": broken(Apply, "apply")}, "apply"),
    ({"reduce_function": broken(ReduceFunction, "reduce"), "window_function": None}, "reduce"),
    ({"aggregate_function": broken(Gather, "create_accumulator"), "window_function": None}, "create_accumulator"),
    ({"aggregate_function": broken(Gather, "add"), "window_function": None}, "add"),
    ({"aggregate_function": broken(Gather, "get_result"), "window_function": None}, "get_result"),
]


@pytest.mark.parametrize(("arguments", "method"), RAISING, ids=[row[1] for row in RAISING])
@pytest.mark.parametrize("is_general", [False, True])
def test_an_error_of_a_user_goes_up_with_what_was_in_hand(arguments, method, is_general):
    arguments = dict(arguments)
    made = factory(arguments.pop("assigner", TumblingEventTimeWindows(10, 0)), **arguments)
    with OperatorHarness(made.general() if is_general else made()) as harness:
        with pytest.raises(Boom, match=method):
            fire(harness)
        assert harness.operator.is_in_function
        in_hand = harness.operator.value_in_hand
        assert in_hand in (("a", 1), ("a", 2)) or repr(in_hand) == "TimeWindow(start=0, end=10) of key 'a'"


class Keep(Evictor):
    def evict_before(self, elements, size, window, ctx):
        pass

    def evict_after(self, elements, size, window, ctx):
        pass


@pytest.mark.parametrize("method", ["evict_before", "evict_after"])
def test_an_error_of_an_evictor_goes_up(method):
    with opened(TumblingEventTimeWindows(10, 0), evictor=broken(Keep, method)) as harness:
        with pytest.raises(Boom, match=method):
            fire(harness)
        assert harness.operator.is_in_function


@pytest.mark.parametrize("method", ["on_merge", "clear"])
def test_an_error_of_a_trigger_while_windows_merge_goes_up(method):
    with opened(EventTimeSessionWindows(10), trigger=broken(EventTimeTrigger, method)) as harness:
        with pytest.raises(Boom, match=method):
            fire(harness)
        assert harness.operator.is_in_function
        assert harness.operator.value_in_hand == ("a", 2)


def test_an_error_of_merge_goes_up():
    arguments = {"aggregate_function": broken(Gather, "merge"), "window_function": None}
    with opened(EventTimeSessionWindows(10), **arguments) as harness:
        harness.process_element(("a", 1), 0)
        harness.process_element(("a", 2), 15)
        with pytest.raises(Boom, match="merge"):
            harness.process_element(("a", 3), 8)
        assert harness.operator.is_in_function


def test_an_error_of_the_key_selector_goes_up():
    with opened(TumblingEventTimeWindows(10, 0)) as harness:
        with pytest.raises(TypeError, match="not subscriptable"):
            harness.process_element(5, 3)
        assert harness.operator.is_in_function
        assert harness.operator.value_in_hand == 5


@pytest.mark.parametrize("result", [None, True, "FIRE", [], 1])
@pytest.mark.parametrize("method", ["on_element", "on_event_time"])
def test_a_trigger_that_returns_no_result_is_told_so(method, result):
    with (
        opened(TumblingEventTimeWindows(10, 0), trigger=broken(EventTimeTrigger, method, result)) as harness,
        pytest.raises(TypeError, match=rf"EventTimeTrigger.{method}\(\) must return a TriggerResult.*it returned"),
    ):
        fire(harness)


@pytest.mark.parametrize("result", [None, 5, TimeWindow(0, 1)])
def test_an_assigner_that_returns_no_windows_is_told_so(result):
    with (
        opened(broken(ByRest, "assign_windows", result)) as harness,
        pytest.raises(TypeError, match=r"ByRest.assign_windows\(\) must return a collection of windows; it returned"),
    ):
        fire(harness)


@pytest.mark.parametrize(("kind", "method"), [(Numbers, "process"), (Apply, "apply")])
@pytest.mark.parametrize("result", [None, 5])
def test_a_window_function_that_returns_no_results_is_told_so(kind, method, result):
    with (
        opened(TumblingEventTimeWindows(10, 0), window_function=broken(kind, method, result)) as harness,
        pytest.raises(TypeError, match=rf"{kind.__name__}.{method}\(\) must return an iterable"),
    ):
        fire(harness)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"window_function": None}, TypeError, "a window needs a function"),
        ({"window_function": ApplyAll()}, TypeError, "should be a WindowFunction or ProcessWindowFunction"),
        ({"window_function": print}, TypeError, "should be a WindowFunction or ProcessWindowFunction"),
        ({"allowed_lateness_ms": -1}, ValueError, "The allowed lateness cannot be negative, got -1 ms"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        factory(TumblingEventTimeWindows(10, 0), **arguments)


def test_a_function_for_keys_is_refused_for_windows_over_the_whole_stream():
    with pytest.raises(TypeError, match="should be a AllWindowFunction or ProcessAllWindowFunction"):
        WindowOperatorFactory(TumblingEventTimeWindows(10, 0), window_function=Numbers())


def test_state_that_cannot_be_merged_is_refused_in_on_merge():
    class Merging(EventTimeTrigger):
        def on_merge(self, window, ctx):
            ctx.merge_partitioned_state(ValueStateDescriptor("value", Types.LONG()))

    with opened(EventTimeSessionWindows(10), trigger=Merging()) as harness:
        harness.process_element(("a", 1), 3)
        with pytest.raises(TypeError, match="the state 'value' cannot be merged"):
            harness.process_element(("a", 2), 8)


def test_merging_state_is_for_on_merge_only():
    class Merging(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.merge_partitioned_state(ListStateDescriptor("list", Types.LONG()))

    with (
        opened(EventTimeSessionWindows(10), trigger=Merging()) as harness,
        pytest.raises(RuntimeError, match=r"merge_partitioned_state\(\) is for on_merge\(\)"),
    ):
        harness.process_element(("a", 1), 3)


def test_the_window_of_all_is_one():
    assert isinstance(factory(GlobalWindows.create(), window_function=Apply())(), WindowOperator)
    assert GlobalWindow() == GlobalWindow.get()
