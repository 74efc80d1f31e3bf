"""Functions of a stream and a broadcast one: the second writes what the first reads."""

import pytest

from flinkbuf._core.operators.broadcast_operator import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.chain.process_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ValueStateDescriptor,
)
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord

RULES = MapStateDescriptor("rules", None, None)
COUNT = ValueStateDescriptor("count", None)
TAG = OutputTag("side")


class Translate(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(RULES).get(value), ctx.timestamp(), ctx.current_watermark()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        yield TAG, (value, ctx.current_processing_time())


class Count(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def process_broadcast_element(self, value, ctx):
        if value == "reset":
            ctx.apply_to_keyed_state(COUNT, lambda key, state: state.update(100) if key == "a" else state.clear())
        elif value == "read":
            self.count.value()
        else:
            ctx.get_broadcast_state(RULES)[value] = True

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), ctx.time_domain(), list(ctx.get_broadcast_state(RULES))


def translating():
    return BroadcastProcessOperator(Translate(), CombinedWatermark(2), (RULES,))


def counting():
    return KeyedBroadcastProcessOperator(
        Count(), CombinedWatermark(2), (RULES,), lambda value: value, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
    )


def test_the_broadcast_side_writes_what_the_other_reads():
    with OperatorHarness(translating(), is_keyed=False) as harness:
        harness.process_element("x", 1)
        harness.process_element(("x", "X"), 2, input=2)
        harness.process_watermark(3)
        harness.process_watermark(4, input=2)
        harness.process_element("x", 5)
        assert harness.output_values == [(None, 1, -(2**63)), ("X", 5, 3)]
        assert harness.side_output(TAG) == [StreamRecord((("x", "X"), 0), 2)]


def test_the_other_side_cannot_write():
    class Writes(Translate):
        def process_element(self, value, ctx):
            getattr(ctx.get_broadcast_state(RULES), value)(
                *{"put": (1, 2), "put_all": ({},), "remove": (1,)}.get(value, ())
            )

    operator = BroadcastProcessOperator(Writes(), CombinedWatermark(2), (RULES,))
    with OperatorHarness(operator, is_keyed=False) as harness:
        for method in ("put", "put_all", "remove", "clear"):
            with pytest.raises(
                (AttributeError, TypeError),
                match="'rules' can only be read here: write it in process_broadcast_element",
            ):
                harness.process_element(method)


def test_a_read_only_view_shows_the_state_as_it_is():
    seen = []

    class Looks(Translate):
        def process_element(self, value, ctx):
            seen.append(ctx.get_broadcast_state(RULES))

    operator = BroadcastProcessOperator(Looks(), CombinedWatermark(2), (RULES,))
    with OperatorHarness(operator, is_keyed=False) as harness:
        harness.process_element(1)
        harness.process_element(("x", "X"), input=2)
        harness.process_element(1)
        view = seen[0]
        assert seen[1] is view and isinstance(view, ReadOnlyBroadcastState) and not isinstance(view, BroadcastState)
        assert (view["x"], "x" in view, list(view), list(view.items()), list(view.values()), view.is_empty()) == (
            "X",
            True,
            ["x"],
            [("x", "X")],
            ["X"],
            False,
        )


def test_keyed_state_and_timers_work_on_the_keyed_side_and_for_all_keys_on_the_other():
    with OperatorHarness(counting()) as harness:
        for key in ("a", "b", "a"):
            harness.process_element(key, 1)
        harness.process_element("rule", 1, input=2)
        harness.process_element("reset", 1, input=2)
        with pytest.raises(RuntimeError, match="there is none now"):
            harness.process_element("read", 1, input=2)
        harness.process_watermark(11)
        harness.process_watermark(20, input=2)
        assert harness.output_values == [
            ("a", 100, TimeDomain.EVENT_TIME, ["rule"]),
            ("b", None, TimeDomain.EVENT_TIME, ["rule"]),
        ]


def test_contexts_are_of_the_classes_that_programs_name():
    seen = []

    class Looks(Count):
        def process_element(self, value, ctx):
            seen.append(isinstance(ctx, KeyedBroadcastProcessFunction.ReadOnlyContext))
            ctx.timer_service().register_event_time_timer(0)

        def process_broadcast_element(self, value, ctx):
            seen.append(isinstance(ctx, KeyedBroadcastProcessFunction.Context))

        def on_timer(self, timestamp, ctx):
            seen.append(isinstance(ctx, KeyedBroadcastProcessFunction.OnTimerContext))

    operator = KeyedBroadcastProcessOperator(Looks(), CombinedWatermark(2), (), str, 0, 1)
    with OperatorHarness(operator) as harness:
        harness.process_element("a")
        harness.process_element("b", input=2)
        harness.process_watermark(5)
        harness.process_watermark(5, input=2)
    assert seen == [True, True, True]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_broadcast_state_is_everywhere_after_a_rescale(parallelism):
    snapshots = []
    for _ in range(2):
        with OperatorHarness(translating(), is_keyed=False) as harness:
            harness.process_element(("x", "X"), input=2)
            snapshots.append(OperatorSnapshot.decode(harness.snapshot().encode()))
    for subtask in range(parallelism):
        with OperatorHarness(
            translating(), is_keyed=False, restore=snapshots, parallelism=parallelism, subtask_index=subtask
        ) as harness:
            harness.process_element("x", 1)
            assert harness.output_values[0][0] == "X"
