"""Thousands of records in disorder, two subtasks: what comes out is counted and hashed."""

import hashlib
import random

from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessWindowFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

EVENT = Types.ROW_NAMED(["key", "at", "amount"], [Types.STRING(), Types.LONG(), Types.INT()])


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value.amount, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, sorted(map(repr, elements))


class TimersOfMany(KeyedProcessFunction):
    """Sets a timer for each record, and takes every third away again."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))
        self.taken = runtime_context.get_map_state(MapStateDescriptor("taken", Types.LONG(), Types.INT()))

    def process_element(self, value, ctx):
        due = (value.at + 100_000) * 1000 + value.amount  # which of two subtasks sends first must not matter
        self.waiting.add(due)
        self.taken.put(due, value.amount)
        ctx.timer_service().register_event_time_timer(due)
        if value.amount % 3 == 0:
            ctx.timer_service().delete_event_time_timer(due)

    def on_timer(self, timestamp, ctx):
        later = [due for due in self.waiting.get() if due > timestamp]
        yield ctx.get_current_key(), timestamp, self.taken.get(timestamp), len(later)
        self.waiting.update(later)
        self.taken.remove(timestamp)


class Join(KeyedCoProcessFunction):
    """At the end of time, how many of each side there were."""

    def open(self, runtime_context):
        self.sides = runtime_context.get_map_state(MapStateDescriptor("sides", Types.STRING(), Types.LONG()))

    def process_element1(self, value, ctx):
        return self.add("left", value, ctx)

    def process_element2(self, value, ctx):
        return self.add("right", value, ctx)

    def add(self, side, value, ctx):
        self.sides.put(side, (self.sides.get(side) or 0) + value.amount)
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), sorted(self.sides.items())


def _events(seed, count):
    """Up to 200 ms behind their time; the watermarks wait for them."""
    numbers = random.Random(seed)
    return [
        Row(f"k{numbers.randrange(17)}", at * 3 - numbers.randrange(200), numbers.randrange(1000))
        for at in range(count)
    ]


def _keyed(env, seed=1, count=1500):
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(250)).with_timestamp_assigner(At())
    stream = env.from_collection(_events(seed, count), EVENT).assign_timestamps_and_watermarks(strategy)
    return stream.key_by(lambda event: event.key, Types.STRING())


def _digest(stream):
    results = sorted(map(repr, stream.execute_and_collect()))
    return [len(results), results[:2], hashlib.md5("\n".join(results).encode()).hexdigest()]


def many_in_tumbling_windows(env):
    windows = _keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(200)))
    return _digest(windows.aggregate(Total(), WithWindow()))


def many_in_sliding_windows(env):
    windows = _keyed(env, 2).window(SlidingEventTimeWindows.of(Time.milliseconds(300), Time.milliseconds(100)))
    return _digest(windows.aggregate(Total(), WithWindow()))


def many_in_sessions(env):
    windows = _keyed(env, 3).window(EventTimeSessionWindows.with_gap(Time.milliseconds(60)))
    return _digest(windows.process(WithWindow()))


def many_in_count_windows(env):
    windows = _keyed(env, 4).map(lambda event: event, EVENT).key_by(lambda event: event.key).count_window(7)
    return _digest(
        windows.reduce(lambda one, two: Row(key=one.key, at=0, amount=one.amount + two.amount)).map(lambda row: row[0])
    )


def many_timers(env):
    return _digest(_keyed(env, 5).process(TimersOfMany()))


def many_summed(env):
    return _digest(_keyed(env, 6).sum("amount").key_by(lambda event: event.key).max("amount").map(lambda row: row.key))


def many_joined(env):
    return _digest(_keyed(env, 7).connect(_keyed(env, 8)).process(Join()))
