"""window_all: windows over the whole stream."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction
from pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

EVENTS = [("a", 1, 1), ("b", 2, 2), ("a", 5, 3), ("a", 12, 4), ("b", 11, 5), ("a", 3, 6), ("a", 25, 7)]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Contents(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window(), sorted(element[2] for element in elements)


class Apply(AllWindowFunction):
    def apply(self, window, inputs):
        return [(window, len(list(inputs)))]


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Results(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, list(elements)


def _stream(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    return env.from_collection(EVENTS, EVENT).assign_timestamps_and_watermarks(strategy)


def _tumbling(env):
    return _stream(env).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def all_processed(env):
    return list(_tumbling(env).process(Contents()).execute_and_collect())


def all_applied_in_parallel(env):
    env.set_parallelism(2)
    return list(_tumbling(env).apply(Apply()).execute_and_collect())


def all_aggregated(env):
    totals = list(_tumbling(env).aggregate(Total()).execute_and_collect())
    return [totals, list(_tumbling(env).aggregate(Total(), Results()).execute_and_collect())]


def all_reduced(env):
    return list(_tumbling(env).reduce(lambda one, two: ("all", 0, one[2] + two[2])).execute_and_collect())


def all_sliding_and_sessions(env):
    sliding = _stream(env).window_all(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)))
    sessions = _stream(env).window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(4)))
    return [list(windows.process(Contents()).execute_and_collect()) for windows in (sliding, sessions)]


def all_by_count(env):
    windows = _stream(env).window_all(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
    return list(windows.process(Contents()).execute_and_collect())
