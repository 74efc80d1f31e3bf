"""Records behind the watermark. They come slowly, so that a watermark can pass between two of them."""

import os
import time

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, MapFunction, OutputTag, ProcessFunction, ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

# What passes records on slowly needs a long pause between two, and may start late itself.
PAUSE_S = float(os.environ.get("PAUSE_S", "1"))
START_S = float(os.environ.get("START_S", "0"))
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
EVENTS = [("a", 1, 1), ("a", 12, 2), ("a", 3, 3), ("a", 25, 4), ("a", 13, 5), ("a", 4, 6)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Slowly(MapFunction):
    def open(self, runtime_context):
        time.sleep(START_S)

    def map(self, value):
        time.sleep(PAUSE_S)
        return value


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window(), [element[2] for element in elements]


class Watermarks(ProcessFunction):
    def process_element(self, value, ctx):
        yield value[2], ctx.timestamp(), ctx.timer_service().current_watermark()


class TimerInThePast(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(2)
        yield "record", value[2]

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp


def _slow(env, strategy=None, events=EVENTS):
    """Each record in a bundle of its own and a pause after the one before; a watermark every 50 ms.

    rebalance() gives the watermarks a task of their own, which does not sleep.
    """
    configuration = Configuration()
    configuration.set_string("python.fn-execution.bundle.size", "1")
    env.configure(configuration)
    env.get_config().set_auto_watermark_interval(50)
    strategy = strategy or WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_collection(events, EVENT).map(Slowly(), EVENT).rebalance()
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def _late_tag():
    return OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))


def _windows(env, lateness=0):
    windows = _slow(env).key_by(lambda event: event[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.allowed_lateness(lateness) if lateness else windows


def late_records_are_dropped(env):
    return list(_windows(env).process(Contents()).execute_and_collect())


def late_records_to_the_side(env):
    late = _late_tag()
    results = _windows(env).side_output_late_data(late).process(Contents())
    return list(results.get_side_output(late).execute_and_collect())


def lateness_allowed(env):
    return list(_windows(env, 10).process(Contents()).execute_and_collect())


def lateness_without_end(env):
    return list(_windows(env, 1000).reduce(lambda one, two: (one[0], one[1], one[2] + two[2])).execute_and_collect())


def lateness_allowed_and_the_rest_to_the_side(env):
    late = _late_tag()
    results = _windows(env, 10).side_output_late_data(late).process(Contents())
    return list(results.get_side_output(late).execute_and_collect())


def late_sessions(env):
    keyed = _slow(env).key_by(lambda event: event[0])
    windows = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).allowed_lateness(15)
    return list(windows.process(Contents()).execute_and_collect())


def watermarks_of_monotonous_timestamps(env):
    return list(_slow(env).process(Watermarks()).execute_and_collect())


def watermarks_out_of_order(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    return list(_slow(env, strategy).process(Watermarks()).execute_and_collect())


def no_watermarks(env):
    return list(_slow(env, WatermarkStrategy.no_watermarks()).process(Watermarks()).execute_and_collect())


def idle_input_does_not_hold_time_back(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(100))
    return list(_slow(env, strategy).process(Watermarks()).execute_and_collect())


def timers_of_the_past_fire_at_the_next_watermark(env):
    keyed = _slow(env, events=[*EVENTS[:2], ("a", 30, 3)]).key_by(lambda event: event[0])
    return list(keyed.process(TimerInThePast()).execute_and_collect())
