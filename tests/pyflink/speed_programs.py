"""Four jobs whose speed is compared: each takes how many records there are, and how many keys, which come in turn."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, KeyedProcessFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % 1000 == 0:
            yield count


class TimerEach(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value)
        ctx.timer_service().register_event_time_timer(value + 5)

    def on_timer(self, timestamp, ctx):
        if self.last.value() == timestamp:
            yield timestamp


def _numbers(env, records):
    source = NumberSequenceSource(0, records - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def _timed(env, records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    return _numbers(env, records).assign_timestamps_and_watermarks(strategy)


def map_filter_map(env, records, keys):
    stream = _numbers(env, records).map(lambda number: number + 1, Types.LONG())
    stream = stream.filter(lambda number: number % 2 == 0).map(lambda number: number * 3, Types.LONG())
    return stream.filter(lambda number: number < 0)


def keyed_count(env, records, keys):
    return _numbers(env, records).key_by(lambda number: number % keys, Types.LONG()).process(Count(), Types.LONG())


def tumbling_window_sum(env, records, keys):
    keyed = _timed(env, records).key_by(lambda number: number % keys, Types.LONG())
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).aggregate(
        Sum(), accumulator_type=Types.LONG(), output_type=Types.LONG()
    )


def state_and_a_timer_each(env, records, keys):
    keyed = _timed(env, records).key_by(lambda number: number % keys, Types.LONG())
    return keyed.process(TimerEach(), Types.LONG())
