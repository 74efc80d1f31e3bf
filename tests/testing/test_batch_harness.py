"""The operator harness in batch execution, and what it says of programs: the answers are those of tasks."""

from flinkbuf.common import Time, Types
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.functions import KeyedBroadcastProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction
from flinkbuf.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkbuf.datastream.window import EventTimeSessionWindows
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord, Watermark

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
END = Watermark(2**63 - 1)
ENV = StreamExecutionEnvironment.get_execution_environment()


def stream():
    return ENV.from_collection([], PAIR)


def keyed():
    return stream().key_by(lambda pair: pair[0], Types.STRING())


class CountAtEnd(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


def test_keys_come_one_after_the_other_when_all_is_there():
    with OperatorHarness.of(keyed().process(CountAtEnd()), is_batch=True) as harness:
        harness.process_elements([("b", 1), ("a", 2), ("b", 3)])
        assert harness.output == []
        harness.end_input()
        assert harness.output_values == [("a", 1), ("b", 2)]
        assert harness.output[-1] == END


def test_negative_numbers_come_first():
    totals = stream().key_by(lambda pair: pair[1], Types.INT()).reduce(lambda one, two: one)
    with OperatorHarness.of(totals, is_batch=True) as harness:
        harness.process_elements([("a", 256), ("b", 0), ("c", -1), ("d", -300), ("e", 127)])
        harness.end_input()
        assert [pair[1] for pair in harness.output_values] == [-300, -1, 0, 127, 256]


def test_sessions_of_a_key_are_whole_whatever_the_order_of_records():
    windows = keyed().window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    summed = windows.reduce(lambda one, two: (one[0], one[1] + two[1]))
    with OperatorHarness.of(summed, is_batch=True) as harness:
        for timestamp in (20, 3, 0, 7, 100):
            harness.process_element(("a", timestamp), timestamp)
        harness.process_element(("b", 1), 50)
        harness.end_input()
        assert harness.output == [
            StreamRecord(("a", 10), 11),
            StreamRecord(("a", 20), 24),
            StreamRecord(("a", 100), 104),
            StreamRecord(("b", 1), 54),
            END,
        ]


class Sides(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield 1, value

    def process_element2(self, value, ctx):
        yield 2, value


def test_two_keyed_inputs_are_read_as_one():
    with OperatorHarness.of(keyed().connect(keyed()).process(Sides()), is_batch=True) as harness:
        harness.process_element(("b", 1), 1, input=1)
        harness.process_element(("b", 2), 0, input=2)
        harness.process_element(("a", 3), 9, input=2)
        harness.end_input(1)
        assert harness.output == []
        harness.end_input(2)
        assert harness.output_values == [(2, ("a", 3)), (2, ("b", 2)), (1, ("b", 1))]


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Rules(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.get_broadcast_state(RULES).get(value[0])

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


def test_broadcast_records_are_there_before_sorted_ones():
    made = keyed().connect(stream().broadcast(RULES)).process(Rules())
    with OperatorHarness.of(made, is_batch=True) as harness:
        harness.process_element(("b", 0), input=1)
        harness.process_element(("b", 5), input=2)
        harness.end_input(2)
        harness.end_input(1)
        assert harness.output_values == [("b", 5)]


def test_what_has_no_keys_is_not_kept_back():
    with OperatorHarness.of(stream().map(lambda pair: pair[1]), is_batch=True) as harness:
        harness.process_element(("b", 7))
        assert harness.output_values == [7]
