"""Process functions: what they are given, and what becomes of what they make."""

import gc
import sys

import pytest

from flinkbuf._core.operators.process_operator import (
    CoProcessOperator,
    KeyedCoProcessOperator,
    KeyedProcessOperator,
    ProcessOperator,
)
from flinkbuf._core.operators.stream_operator import Output
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.chain.process_functions import KeyedCoProcessFunction, KeyedProcessFunction
from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.streaming.state.timers import TimerService
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord

TAG = OutputTag("side")


def process(function):
    """An operator whose function is `function(value, ctx)`."""

    class Process:
        def process_element(self, value, ctx):
            return function(value, ctx)

    return OperatorHarness(ProcessOperator(Process()), is_keyed=False)


def test_a_function_sees_the_time_and_its_results_have_the_record_s_timestamp():
    def look(value, ctx):
        yield (
            value,
            ctx.timestamp(),
            ctx.timer_service().current_watermark(),
            ctx.timer_service().current_processing_time(),
        )
        yield TAG, value

    with process(look) as harness:
        harness.set_processing_time(7)
        harness.process_element("x", 3)
        harness.process_watermark(5)
        harness.process_element("y")
        assert harness.output[0] == StreamRecord(("x", 3, -(2**63), 7), 3)
        assert harness.output[2] == StreamRecord(("y", -(2**63), 5, 7), None)
        assert harness.side_output(TAG) == [StreamRecord("x", 3), StreamRecord("y")]


@pytest.mark.parametrize("results", [[], (), None, iter(())])
def test_no_result_is_fine(results):
    with process(lambda value, ctx: results) as harness:
        harness.process_element(1)
        assert harness.output == []


def test_what_is_not_iterable_is_refused():
    with process(lambda value, ctx: 7) as harness:
        with pytest.raises(TypeError, match=r"process_element\(\) must return an iterable of results or None.* int, 7"):
            harness.process_element(1)
        assert harness.operator.is_in_function and harness.operator.value_in_hand == 1


def test_timers_need_keys():
    with process(lambda value, ctx: ctx.timer_service().register_event_time_timer(1)) as harness:
        with pytest.raises(RuntimeError, match="Register timers is only supported on a keyed stream"):
            harness.process_element(1)


class Everything(KeyedProcessFunction, KeyedCoProcessFunction):
    """Has every method of every process function; each does what `act` says."""

    def __init__(self, act, where):
        self.act, self.where = act, where

    def run(self, method, value, ctx):
        return self.act(value, ctx) if method == self.where else ()

    def open(self, runtime_context):
        self.run("open", None, runtime_context)

    def close(self):
        self.run("close", None, None)

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1) if self.where == "on_timer" else None
        return self.run("process_element", value, ctx)

    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1) if self.where == "on_timer" else None
        return self.run("process_element1", value, ctx)

    def process_element2(self, value, ctx):
        return self.run("process_element2", value, ctx)

    def on_timer(self, timestamp, ctx):
        return self.run("on_timer", timestamp, ctx)


def one_input(function):
    return ProcessOperator(function)


def keyed(function):
    return KeyedProcessOperator(function, lambda value: value, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)


def two_inputs(function):
    return CoProcessOperator(function, CombinedWatermark(2))


def two_keyed_inputs(function):
    domains = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
    return KeyedCoProcessOperator(function, CombinedWatermark(2), str, str, *domains)


METHODS = [
    (one_input, "process_element"),
    (keyed, "process_element"),
    (keyed, "on_timer"),
    (two_inputs, "process_element1"),
    (two_inputs, "process_element2"),
    (two_keyed_inputs, "process_element1"),
    (two_keyed_inputs, "process_element2"),
    (two_keyed_inputs, "on_timer"),
]


def run_all(make, act, where):
    harness = OperatorHarness(make(Everything(act, where)))
    with harness:
        for number in range(1, len(harness.operator.inputs) + 1):
            harness.process_element("x", 7, input=number)
        for number in range(1, len(harness.operator.inputs) + 1):
            harness.process_watermark(10, input=number)
    return harness


@pytest.mark.parametrize(("make", "where"), METHODS)
def test_an_error_of_a_function_is_found_in_the_operator_with_what_it_was_called_for(make, where):
    def fail(value, ctx):
        raise KeyError("mine")

    harness = None

    def remember(function):
        nonlocal harness
        harness = make(function)
        return harness

    with pytest.raises(KeyError, match="mine"):
        run_all(remember, fail, where)
    assert harness.is_in_function
    expected = "timer(1, TimeDomain.EVENT_TIME, key='x')" if where == "on_timer" else "'x'"
    assert repr(harness.value_in_hand) == expected


@pytest.mark.parametrize(("make", "where"), METHODS)
def test_an_error_after_the_first_result_comes_after_it(make, where):
    def fail_late(value, ctx):
        yield 1
        raise KeyError("late")

    with pytest.raises(KeyError, match="late"):
        run_all(make, fail_late, where)


@pytest.mark.parametrize("results", [5, 1.5, True, object()])
@pytest.mark.parametrize(("make", "where"), METHODS)
def test_what_is_no_iterable_is_refused_by_the_method_s_name(make, where, results):
    with pytest.raises(TypeError, match=rf"{where}\(\) must return an iterable of results or None"):
        run_all(make, lambda value, ctx: results, where)


@pytest.mark.parametrize(("make", "where"), METHODS)
@pytest.mark.parametrize(("result", "count"), [((TAG,), 1), ((TAG, 1, 2), 3)])
def test_a_tag_stands_before_one_value(make, where, result, count):
    with pytest.raises(ValueError, match=rf"{where}\(\) must yield a pair of tag and value, got {count} items"):
        run_all(make, lambda value, ctx: [result], where)


@pytest.mark.parametrize(("make", "where"), METHODS)
def test_a_context_kept_beyond_its_call_says_so(make, where):
    kept = []
    run_all(make, lambda value, ctx: kept.append(ctx), where)
    assert len(kept) == 1
    for method in ("timestamp", "timer_service", "get_current_key", "time_domain"):
        if hasattr(kept[0], method):
            with pytest.raises(RuntimeError, match="good for one call of the function"):
                getattr(kept[0], method)()


@pytest.mark.parametrize(("make", "where"), METHODS)
def test_results_have_the_time_of_what_they_are_made_of(make, where):
    harness = run_all(make, lambda value, ctx: [ctx.timestamp(), (), (1, 2), "ab"], where)
    time = 1 if where == "on_timer" else 7
    assert harness.output[:4] == [StreamRecord(value, time) for value in (time, (), (1, 2), "ab")]


@pytest.mark.parametrize("make", [one_input, keyed, two_inputs, two_keyed_inputs])
@pytest.mark.parametrize("where", ["open", "close"])
def test_an_error_of_open_or_close_comes_out(make, where):
    with pytest.raises(ZeroDivisionError):
        run_all(make, lambda value, ctx: 1 // 0, where)


@pytest.mark.parametrize("make", [keyed, two_keyed_inputs])
def test_keyed_state_is_out_of_reach_in_open_and_close(make):
    class Reaches(Everything):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("s", None))
            if self.where == "open":
                self.state.value()

        def close(self):
            self.state.value()

    for where in ("open", "close"):
        with (
            pytest.raises(RuntimeError, match="there is none now"),
            OperatorHarness(make(Reaches(None, where))) as harness,
        ):
            harness.process_element("x")


def test_a_failing_key_selector_is_an_error_of_its_operator():
    operator = KeyedProcessOperator(Everything(None, None), lambda value: 1 // value, 0, 1)
    with OperatorHarness(operator) as harness:
        with pytest.raises(ZeroDivisionError):
            harness.process_element(0)
        assert operator.is_in_function and operator.value_in_hand == 0


def test_a_key_that_nothing_identifies_is_an_error_that_says_so():
    key = []
    key.append(key)
    operator = KeyedProcessOperator(Everything(None, None), lambda value: key, 0, 1)
    with OperatorHarness(operator) as harness, pytest.raises((TypeError, ValueError)):
        harness.process_element(0)


def test_an_operator_without_what_it_needs_says_so_and_does_not_crash():
    operator = keyed(Everything(None, None))
    with pytest.raises((AttributeError, TypeError)):
        operator.process_element("x", 1)
    with pytest.raises((AttributeError, TypeError, RuntimeError)), OperatorHarness(operator, is_keyed=False):
        pass


def test_contexts_are_of_the_classes_that_programs_name():
    seen = []

    class Looks(KeyedProcessFunction):
        def process_element(self, value, ctx):
            seen.append(isinstance(ctx, KeyedProcessFunction.Context))
            seen.append(isinstance(ctx.timer_service(), TimerService))
            ctx.timer_service().register_processing_time_timer(0)

        def on_timer(self, timestamp, ctx):
            seen.append(isinstance(ctx, KeyedProcessFunction.OnTimerContext))
            seen.append((timestamp, ctx.timestamp(), ctx.time_domain(), ctx.get_current_key()))

    with OperatorHarness(keyed(Looks())) as harness:
        harness.process_element("a", 3)
        harness.set_processing_time(1)
    assert seen == [True, True, True, (0, 0, TimeDomain.PROCESSING_TIME, "a")]


def test_a_key_is_seen_as_the_record_has_it_and_1_true_and_1_0_are_three():
    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield repr(ctx.get_current_key()), self.count.value()

    with OperatorHarness(keyed(Count())) as harness:
        harness.process_elements([1, True, 1.0, [1], None, 1, True, [1]])
        assert harness.output_values == [
            ("1", 1),
            ("True", 1),
            ("1.0", 1),
            ("[1]", 1),
            ("None", 1),
            ("1", 2),
            ("True", 2),
            ("[1]", 2),
        ]


def test_nothing_leaks_over_many_records():
    class Both(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("s", None))

        def process_element(self, value, ctx):
            self.state.update((value, self.state.value() is None))
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
            yield value

        def on_timer(self, timestamp, ctx):
            self.state.clear()

    class Forgets(Output):
        def collect(self, value, timestamp):
            pass

        def emit_watermark(self, timestamp):
            pass

    harness = OperatorHarness(keyed(Both()))
    harness._output = Forgets()
    with harness:

        def play(begin):
            for number in range(begin, begin + 5_000):
                harness.process_element(f"key {number}", number)
            harness.process_watermark(begin + 6_000)

        play(0)
        gc.collect()
        before = sys.getallocatedblocks()
        for turn in range(1, 5):
            play(turn * 10_000)
        gc.collect()
        assert abs(sys.getallocatedblocks() - before) < 500
