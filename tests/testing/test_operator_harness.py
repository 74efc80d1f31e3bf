"""The harness runs the production operator; only what surrounds it is the test's."""

import pytest

from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf._core.operators.process_operator import KeyedProcessOperator
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus

LATE = OutputTag("late")


class CountAndRemind:
    """Counts the records of a key, says so ten milliseconds later, in both times."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ctx.timer_service().register_processing_time_timer(5)
        yield LATE, value

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), ctx.time_domain()


def counting():
    return KeyedProcessOperator(
        CountAndRemind(), lambda value: value, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
    )


def test_records_watermarks_and_time_go_in_and_all_that_comes_out_is_kept_in_order():
    with OperatorHarness(counting()) as harness:
        harness.process_element("a", 1)
        harness.process_element("a", 1)
        harness.set_processing_time(6)
        harness.process_watermark(11)
        harness.process_watermark_status(True)
        assert harness.output == [
            StreamRecord(("a", 2, TimeDomain.PROCESSING_TIME), 5),
            StreamRecord(("a", 2, TimeDomain.EVENT_TIME), 11),
            Watermark(11),
            WatermarkStatus.IDLE,
        ]
        assert harness.side_output(LATE) == harness.side_output("late") == [StreamRecord("a", 1)] * 2


@pytest.mark.parametrize("parallelism", range(1, 6))
def test_a_snapshot_is_restored_at_any_parallelism_each_key_in_one_subtask(parallelism):
    with OperatorHarness(counting()) as before:
        for number in range(20):
            before.process_element(f"key {number}", number)
        snapshot = before.snapshot()
    found = []
    for subtask in range(parallelism):
        with OperatorHarness(counting(), restore=snapshot, parallelism=parallelism, subtask_index=subtask) as after:
            after.process_watermark(1000)
            found += [value[:2] for value in after.output_values]
    assert sorted(found) == sorted((f"key {number}", 1) for number in range(20))


def test_take_output_gives_what_is_new():
    with OperatorHarness(MapOperator(lambda value: -value)) as harness:
        harness.process_elements([1, StreamRecord(2, 5), Watermark(5), WatermarkStatus.ACTIVE])
        assert harness.take_output() == [StreamRecord(-1), StreamRecord(-2, 5), Watermark(5), WatermarkStatus.ACTIVE]
        assert harness.take_output() == []


def test_a_closed_harness_takes_nothing():
    harness = OperatorHarness(MapOperator(abs))
    with pytest.raises(RuntimeError, match="not open"):
        harness.process_element(1)
    with harness:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        harness.process_watermark(1)


def test_the_operator_is_closed_once_also_when_it_cannot_be_opened():
    class Refuses(StreamOperator):
        closed = 0

        def open(self):
            raise OSError("no")

        def close(self):
            self.closed += 1

    operator = Refuses()
    harness = OperatorHarness(operator)
    with pytest.raises(OSError, match="no"), harness:
        pass
    harness.close()
    assert operator.closed == 1


def test_an_input_that_does_not_exist_is_refused():
    with (
        OperatorHarness(MapOperator(abs)) as harness,
        pytest.raises(ValueError, match="1 inputs, counted from 1; got 2"),
    ):
        harness.process_element(1, input=2)


class Keep(KeyedProcessFunction):
    """Tells each record of a key how many came before; has a list that copies do not share."""

    def __init__(self):
        self.seen = []

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        self.seen.append(value)
        before = self.count.value() or 0
        self.count.update(before + 1)
        yield ctx.get_current_key(), before


def test_the_operator_of_a_stream_runs_with_a_copy_of_its_function_and_its_declared_keys():
    function = Keep()
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).key_by(lambda value: value, Types.DOUBLE()).process(function)
    with OperatorHarness.of(stream) as harness:
        harness.process_elements([1, 1.0, 2])
        assert harness.output_values == [(1.0, 0), (1.0, 1), (2.0, 0)]
        snapshot = harness.snapshot()
    assert function.seen == []
    with OperatorHarness.of(stream, restore=snapshot) as harness:
        harness.process_element(1)
        assert harness.output_values == [(1.0, 2)]


def test_a_stream_without_an_operator_that_takes_records_is_refused():
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    for each in (stream, stream.rebalance(), None):
        with pytest.raises(TypeError, match="whose last operator takes records"):
            OperatorHarness.of(each)


def test_an_operator_hears_how_its_checkpoints_ended():
    heard = []

    class Listening(StreamOperator):
        def notify_checkpoint_complete(self, checkpoint_id):
            heard.append(("complete", checkpoint_id))

        def notify_checkpoint_aborted(self, checkpoint_id):
            heard.append(("aborted", checkpoint_id))

    with OperatorHarness(Listening()) as harness:
        harness.snapshot(3)
        harness.notify_checkpoint_complete(3)
        harness.notify_checkpoint_aborted(4)
    assert heard == [("complete", 3), ("aborted", 4)]
    with pytest.raises(RuntimeError, match="not open"):
        harness.notify_checkpoint_complete(5)
