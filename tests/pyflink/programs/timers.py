"""Contexts of process functions, and timers of both kinds."""

import os
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, MapFunction, ProcessFunction, TimeDomain
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

PAUSE_S = float(os.environ.get("PAUSE_S", "1"))
START_S = float(os.environ.get("START_S", "0"))


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Show(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class ShowTime(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


class TimerAtEachRecord(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        yield "record", value, ctx.get_current_key(), ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        is_event_time = ctx.time_domain() == TimeDomain.EVENT_TIME
        yield "timer", timestamp, ctx.get_current_key(), ctx.timestamp(), is_event_time


class SortedByTime(KeyedProcessFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.waiting.add(value)
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        waiting = list(self.waiting.get())
        self.waiting.update([value for value in waiting if value[1] > timestamp])
        for value in waiting:
            if value[1] <= timestamp:
                yield value


class TimersDeleted(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        for at in (5, 5, 7, 9):
            timers.register_event_time_timer(at)
        timers.delete_event_time_timer(7)
        timers.delete_event_time_timer(1234)

    def on_timer(self, timestamp, ctx):
        yield timestamp, ctx.get_current_key()


class TimerOfTimer(KeyedProcessFunction):
    """Counts down: each timer sets the next, those of the past too."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

    def process_element(self, value, ctx):
        self.left.update(3)
        ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp, ctx):
        left = self.left.value()
        yield timestamp, left
        if left > 0:
            self.left.update(left - 1)
            ctx.timer_service().register_event_time_timer(timestamp - 10)


class ProcessingTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        if value == "go":
            timers.register_processing_time_timer(now + 200)
            timers.register_processing_time_timer(now + 300)
            timers.delete_processing_time_timer(now + 300)
            timers.register_processing_time_timer(now + 3_600_000)
        yield "record", value, abs(now - time.time() * 1000) < 60_000

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), ctx.time_domain().name


class Slowly(MapFunction):
    def open(self, runtime_context):
        time.sleep(START_S)

    def map(self, value):
        if value == "wait":
            time.sleep(2 * PAUSE_S)
        return value


class WatermarkSeen(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp, ctx):
        yield timestamp, ctx.timer_service().current_watermark()


def _timed(env, records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


def no_timestamps(env):
    return list(env.from_collection([1]).process(Show()).execute_and_collect())


def timestamps(env):
    return list(_timed(env, [("a", 3), ("b", 1), ("c", -7)]).process(Show()).execute_and_collect())


def timers_in_order(env):
    keyed = _timed(env, [("a", 30), ("b", 10), ("a", 20), ("b", 40)]).key_by(lambda value: value[0])
    return list(keyed.process(TimerAtEachRecord()).execute_and_collect())


def timestamps_of_what_timers_emit(env):
    keyed = _timed(env, [("a", 30), ("a", 20)]).key_by(lambda value: value[0])
    return list(keyed.process(TimerAtEachRecord()).process(ShowTime()).execute_and_collect())


def sorted_by_event_time(env):
    records = [("k", at) for at in (5, 1, 4, 1, 9, 3)]
    return list(_timed(env, records).key_by(lambda value: value[0]).process(SortedByTime()).execute_and_collect())


def timers_deleted_and_doubled(env):
    keyed = _timed(env, [("a", 1), ("b", 2), ("a", 3)]).key_by(lambda value: value[0])
    return sorted(keyed.process(TimersDeleted()).execute_and_collect())


def timers_set_by_timers(env):
    return list(_timed(env, [("a", 1)]).key_by(lambda value: value[0]).process(TimerOfTimer()).execute_and_collect())


def timers_without_timestamps(env):
    keyed = env.from_collection([1, 2]).key_by(lambda value: value)
    return sorted(keyed.process(WatermarkSeen()).execute_and_collect())


def processing_timers(env):
    configuration = Configuration()
    configuration.set_string("python.fn-execution.bundle.size", "1")
    env.configure(configuration)
    stream = env.from_collection(["go", "wait", "done"]).map(Slowly())
    return list(stream.key_by(lambda value: "k").process(ProcessingTimer()).execute_and_collect())


def processing_timers_after_the_end(env):
    keyed = env.from_collection(["go"]).key_by(lambda value: "k")
    return list(keyed.process(ProcessingTimer()).execute_and_collect())


def timers_in_parallel(env):
    env.set_parallelism(2)
    keyed = _timed(env, [(f"k{n % 5}", n) for n in range(30)]).key_by(lambda value: value[0])
    return sorted(map(repr, keyed.process(TimerAtEachRecord()).execute_and_collect()))
