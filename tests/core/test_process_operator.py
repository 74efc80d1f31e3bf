"""Process functions: what they are given, and what becomes of what they make."""

import pytest

from flinkbuf._core.process_operator import ProcessOperator
from flinkbuf.streaming.output_tag import OutputTag
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


def test_a_context_is_good_for_one_call():
    kept = []
    with process(lambda value, ctx: kept.append(ctx)) as harness:
        harness.process_element(1)
        for method in (kept[0].timestamp, kept[0].timer_service):
            with pytest.raises(RuntimeError, match="good for one call"):
                method()


def test_timers_need_keys():
    with process(lambda value, ctx: ctx.timer_service().register_event_time_timer(1)) as harness:
        with pytest.raises(RuntimeError, match="Register timers is only supported on a keyed stream"):
            harness.process_element(1)
