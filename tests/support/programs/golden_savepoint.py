"""The program whose savepoint lies in tests/golden/checkpoints: state of every kind, and a result that tells all of it.

As a script it writes the savepoint anew: ``python tests/support/programs/golden_savepoint.py DIRECTORY``.
"""

import sys
import time
from pathlib import Path

from flinkbuf.common import Configuration, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkbuf.datastream.window import TumblingEventTimeWindows

COUNT, KEYS = 600, 10
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Millis(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Slow(MapFunction):
    def __init__(self, delay_s):
        self.delay_s = delay_s

    def map(self, value):
        time.sleep(self.delay_s)
        return value


class EveryState(KeyedProcessFunction):
    """Keeps each number in a state of each kind, and tells them all when event time comes to its end."""

    def open(self, runtime_context):
        kept = ValueStateDescriptor("kept", Types.LONG())
        kept.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(24 * 365 * 1000)).build())
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.kept = runtime_context.get_state(kept)
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.by_rest = runtime_context.get_map_state(MapStateDescriptor("by rest", Types.STRING(), Types.INT()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", Sum(), Types.LONG()))
        mean = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        self.mean = runtime_context.get_aggregating_state(mean)
        self.undeclared = runtime_context.get_state(ValueStateDescriptor("undeclared", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.kept.update(value)
        self.numbers.add(value)
        rest = f"rest {value % 3}"
        self.by_rest.put(rest, (self.by_rest.get(rest) or 0) + 1)
        self.sum.add(value)
        self.mean.add(value)
        self.undeclared.update({"last": value, "odd": value % 2 == 1})
        ctx.timer_service().register_event_time_timer(10 * COUNT)

    def on_timer(self, timestamp, ctx):
        numbers = sorted(self.numbers.get())
        assert len(numbers) == self.count.value() and sum(numbers) == self.sum.get()
        assert self.mean.get() == self.sum.get() / self.count.value()
        assert self.kept.value() in numbers and self.undeclared.value()["last"] in numbers
        assert sum(self.by_rest.values()) == len(numbers)
        yield f"{ctx.get_current_key()}: {len(numbers)} numbers, sum {sum(numbers)}"


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(str(value), value)


def results():
    """What comes out at the end, whether it was interrupted or not."""
    keys = [[number for number in range(COUNT) if number % KEYS == key] for key in range(KEYS)]
    of_keys = [f"{key}: {len(numbers)} numbers, sum {sum(numbers)}" for key, numbers in enumerate(keys)]
    windows = [f"window of {COUNT // 6}" for _ in range(6)]
    return sorted(of_keys + windows)


def stream(env, delay_s=0.0):
    """The records of all results; the operators' uids are those of the savepoint."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Millis())
    numbers = env.from_source(NumberSequenceSource(0, COUNT - 1), strategy, "numbers", Types.LONG()).uid("numbers")
    numbers = numbers.map(Slow(delay_s), Types.LONG())
    rules = env.from_collection([1, 2, 3], Types.LONG()).uid("rules source").broadcast(RULES)
    ruled = numbers.key_by(lambda value: value % KEYS, Types.LONG()).connect(rules).process(Ruled(), Types.LONG())
    ruled = ruled.uid("ruled").name("ruled")
    keyed = ruled.key_by(lambda value: value % KEYS, Types.LONG())
    told = keyed.process(EveryState(), Types.STRING()).uid("every state").name("every state")
    windows = (
        ruled.map(lambda value: 1, Types.LONG())
        .window_all(TumblingEventTimeWindows.of(Time.milliseconds(COUNT // 6)))
        .reduce(lambda a, b: a + b)
        .uid("windows")
        .map(lambda count: f"window of {count}", Types.STRING())
    )
    return told.union(windows)


def environment(settings):
    configuration = Configuration()
    for key, value in {"execution.target": "embedded", **settings}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(2).set_max_parallelism(16)


def write(directory):
    """Run the program until it is about half way, and stop it with a savepoint."""
    env = environment({"execution.checkpointing.data-inline-threshold": "0 b"})
    stream(env, delay_s=0.01).print()
    client = env.execute_async("golden savepoint")
    time.sleep(1.5)
    return client.stop_with_savepoint(False, str(directory)).result()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(write(Path(sys.argv[1]).absolute()))
