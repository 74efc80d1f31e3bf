"""Programs drawn at random give the records that a plain model of them gives, whatever runs where."""

import random
from collections import Counter

import pytest

from flinkbuf.datastream import (
    CoMapFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.state import ValueStateDescriptor

STEPS_UP_TO = 10
MOST_RECORDS = 20_000


class Split(ProcessFunction):
    def __init__(self, tag):
        self.tag = tag

    def process_element(self, value, ctx):
        yield (self.tag, value + 1) if value % 3 == 0 else value


class Number(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield count * 100 + ctx.get_current_key()


class Sum(KeyedProcessFunction):
    """One record for each key, when event time ends."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", None))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(10**15)

    def on_timer(self, timestamp, ctx):
        yield self.sum.value()


class Interleave(CoMapFunction):
    def map1(self, value):
        return value * 2

    def map2(self, value):
        return value * 2 + 1


class Program:
    """Streams, each with the records that it should have."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.env = StreamExecutionEnvironment.get_execution_environment()
        self.env.set_parallelism(self.random.randint(1, 4)).set_buffer_timeout(self.random.choice([0, 1, 100, -1]))
        if self.random.random() < 0.2:
            self.env.disable_operator_chaining()
        self.streams = []
        for _ in range(self.random.randint(1, 3)):
            values = [self.random.randint(0, 1000) for _ in range(self.random.choice([0, 1, 5, 300, 3000]))]
            self.streams.append((self.env.from_collection(values), Counter(values)))
        steps = [self.map, self.flat_map, self.split, self.number, self.sum, self.union, self.connect, self.broadcast]
        for _ in range(self.random.randint(1, STEPS_UP_TO)):
            self.random.choice(steps)(*self.random.choice(self.streams))

    def add(self, stream, values, is_operator=True):
        if is_operator and self.random.random() < 0.5:
            stream.set_parallelism(self.random.randint(1, 4))
        if values.total() <= MOST_RECORDS:
            self.streams.append((stream, values))
        return stream

    def sent(self, stream):
        way = self.random.choice(["", "rebalance", "rescale", "shuffle", "custom"])
        if way == "custom":
            return stream.partition_custom(lambda key, count: key % count, lambda value: value // 3)
        return getattr(stream, way)() if way else stream

    def map(self, stream, values):
        made = self.sent(stream).map(lambda value: value + 1)
        self.add(made, Counter({value + 1: count for value, count in values.items()}))

    def flat_map(self, stream, values):
        made = self.sent(stream).flat_map(lambda value: [value] * (value % 3))
        self.add(made, +Counter({value: count * (value % 3) for value, count in values.items()}))

    def split(self, stream, values):
        tag = OutputTag("threes")
        made = self.add(
            self.sent(stream).process(Split(tag)),
            Counter({value: count for value, count in values.items() if value % 3}),
        )
        side = Counter({value + 1: count for value, count in values.items() if value % 3 == 0})
        self.add(made.get_side_output(tag), side, is_operator=False)

    def number(self, stream, values):
        counts = Counter()
        for value, count in values.items():
            counts[value % 13] += count
        made = stream.key_by(lambda value: value % 13).process(Number())
        self.add(made, Counter(n * 100 + key for key, count in counts.items() for n in range(1, count + 1)))

    def sum(self, stream, values):
        sums = Counter()
        for value, count in values.items():
            sums[value % 11] += value * count
        self.add(stream.key_by(lambda value: value % 11).process(Sum()), Counter(sums.values()))

    def union(self, stream, values):
        other, other_values = self.random.choice(self.streams)
        self.add(self.sent(stream).union(other), values + other_values, is_operator=False)

    def connect(self, stream, values):
        other, other_values = self.random.choice(self.streams)
        expected = Counter({value * 2: count for value, count in values.items()})
        expected.update({value * 2 + 1: count for value, count in other_values.items()})
        self.add(self.sent(stream).connect(other).map(Interleave()), expected)

    def broadcast(self, stream, values):
        parallelism = self.random.randint(1, 4)
        made = stream.broadcast().map(lambda value: value).set_parallelism(parallelism)
        self.add(made, Counter({value: count * parallelism for value, count in values.items()}), is_operator=False)

    def run(self):
        """Return what came of each stream, and what should have."""
        found = []
        for stream, values in self.streams:
            found.append(([], values))
            stream.add_sink(found[-1][0].append)
        self.env.execute()
        return [(Counter(out), values) for out, values in found]


@pytest.mark.parametrize("seed", range(150))
def test_no_record_is_lost_or_doubled(seed):
    for found, expected in Program(seed).run():
        assert found == expected
