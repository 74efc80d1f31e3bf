"""``yield tag, value`` from process functions of every kind."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.window import TumblingEventTimeWindows

TEXTS = OutputTag("texts", Types.STRING())
ODD = OutputTag("odd")


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield TEXTS, f"side {value}"
        if value % 2:
            yield ODD, (value, {"k": value})


class SplitByKey(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield TEXTS, f"{ctx.get_current_key()} {value}"
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        yield timestamp
        yield ODD, (ctx.get_current_key(), timestamp)


class SplitBoth(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield TEXTS, f"one {value}"
        yield value

    def process_element2(self, value, ctx):
        yield TEXTS, f"two {value}"


class SplitWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield TEXTS, f"{context.window().start} {sum(elements)}"
        yield key


class ByValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def main_and_side(env):
    split = env.from_collection([1, 2, 3], Types.INT()).process(Split(), Types.INT())
    streams = [split, split.get_side_output(TEXTS), split.get_side_output(ODD)]
    return [list(stream.execute_and_collect()) for stream in streams]


def both_sides_in_one_job(env):
    split = env.from_collection([1, 2, 3], Types.INT()).process(Split(), Types.INT())
    united = split.map(repr).union(split.get_side_output(TEXTS).map(repr), split.get_side_output(ODD).map(repr))
    return sorted(united.execute_and_collect())


def types_of_sides(env):
    split = env.from_collection([1]).process(Split())
    return [str(split.get_side_output(tag).get_type()) for tag in (TEXTS, ODD)]


def sides_of_keyed_timers(env):
    split = env.from_collection([5, 3, 4]).key_by(lambda value: value % 2).process(SplitByKey(), Types.LONG())
    streams = [split, split.get_side_output(TEXTS), split.get_side_output(ODD)]
    return [sorted(stream.execute_and_collect()) for stream in streams]


def sides_of_two_inputs(env):
    split = env.from_collection([1, 2]).connect(env.from_collection(["a"])).process(SplitBoth())
    streams = [split, split.get_side_output(TEXTS)]
    return [sorted(stream.execute_and_collect()) for stream in streams]


def sides_of_windows(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByValue())
    stream = env.from_collection([1, 2, 11, 25]).assign_timestamps_and_watermarks(strategy)
    windows = stream.key_by(lambda value: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    split = windows.process(SplitWindow(), Types.INT())
    streams = [split, split.get_side_output(TEXTS)]
    return [list(stream.execute_and_collect()) for stream in streams]


def sides_nobody_reads(env):
    return list(
        env.from_collection([1, 2]).process(Split()).filter(lambda value: isinstance(value, int)).execute_and_collect()
    )
