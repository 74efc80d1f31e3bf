"""Two inputs: connect, keyed and not, and broadcast state."""

import time

from pyflink.common import Types
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapFunction,
)
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Sides(CoMapFunction):
    def map1(self, value):
        return "first", value

    def map2(self, value):
        return "second", value


class Halves(CoFlatMapFunction):
    def flat_map1(self, value):
        yield value
        yield value + 0.5

    def flat_map2(self, value):
        if value != "skip":
            yield value


class Shout(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield f"one {value} {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        if value > 0:
            yield f"two {value}"


class SumOfBoth(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element1(self, value, ctx):
        return self.add(ctx, value[1])

    def process_element2(self, value, ctx):
        return self.add(ctx, value)

    def add(self, ctx, number):
        self.sum.update((self.sum.value() or 0) + number)
        ctx.timer_service().register_event_time_timer(10)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.value(), timestamp, ctx.time_domain().name


class Late(MapFunction):
    """Lets the other input of what follows go first."""

    def open(self, runtime_context):
        self.is_first = True

    def map(self, value):
        if self.is_first:
            time.sleep(1.5)
        self.is_first = False
        return value


class ApplyRules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        yield value, rules.get(value), rules.contains(value), sorted(rules.items())

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        if value == "clear":
            rules.clear()
        elif value.startswith("-"):
            rules.remove(value[1:])
        else:
            rules.put(value[0], int(value[1:]))
        yield "rule", value, sorted(rules.keys())


class WriteWhereReading(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        try:
            state.put("x", 1)
        except Exception:
            yield "not allowed"
        else:
            yield "allowed"

    def process_broadcast_element(self, value, ctx):
        return []


class CountByRule(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        limit = ctx.get_broadcast_state(RULES).get(ctx.get_current_key())
        ctx.timer_service().register_event_time_timer(5)
        yield ctx.get_current_key(), self.count.value(), limit

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value, len(value))

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), self.count.value(), timestamp, ctx.time_domain().name


def connected_map(env):
    connected = env.from_collection([1, 2]).connect(env.from_collection(["a"]))
    return sorted(connected.map(Sides()).execute_and_collect())


def connected_flat_map(env):
    connected = env.from_collection([1, 2]).connect(env.from_collection(["a", "skip"]))
    return sorted(connected.flat_map(Halves()).map(str).execute_and_collect())


def connected_process(env):
    connected = env.from_collection(["a", "b"]).connect(env.from_collection([-1, 1]))
    return sorted(connected.process(Shout()).execute_and_collect())


def connected_by_key(env):
    left = env.from_collection([("odd", 1), ("even", 2), ("odd", 3)]).key_by(lambda pair: pair[0])
    right = env.from_collection([10, 11, 13]).key_by(lambda number: "odd" if number % 2 else "even")
    return sorted(left.connect(right).process(SumOfBoth()).execute_and_collect())


def connected_then_keyed(env):
    connected = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()])).connect(
        env.from_collection([5, 6, 7], Types.INT())
    )
    keyed = connected.key_by(lambda pair: pair[0], lambda number: "b", Types.STRING())
    return sorted(keyed.process(SumOfBoth()).execute_and_collect())


def connected_by_key_map(env):
    left = env.from_collection([1, 2, 3]).key_by(lambda value: value % 2)
    return sorted(left.connect(env.from_collection([4]).key_by(lambda value: 0)).map(Sides()).execute_and_collect())


def connected_in_parallel(env):
    env.set_parallelism(2)
    left = env.from_collection([("odd", n) for n in range(10)]).key_by(lambda pair: pair[0])
    right = env.from_collection([10, 11, 13]).key_by(lambda number: "odd" if number % 2 else "even")
    return sorted(left.connect(right).process(SumOfBoth()).execute_and_collect())


def rules_broadcast(env):
    env.set_parallelism(2)
    rules = env.from_collection(["a1", "b2", "a3", "c4", "-b"]).broadcast(RULES)
    records = env.from_collection(["a", "b", "z"]).map(Late()).set_parallelism(1)
    return sorted(map(repr, records.connect(rules).process(ApplyRules()).execute_and_collect()))


def rules_cleared(env):
    rules = env.from_collection(["a1", "clear", "b2"]).broadcast(RULES)
    return sorted(map(repr, env.from_collection([]).connect(rules).process(ApplyRules()).execute_and_collect()))


def rules_read_only(env):
    rules = env.from_collection([]).broadcast(RULES)
    return list(env.from_collection([1]).connect(rules).process(WriteWhereReading()).execute_and_collect())


def rules_for_keyed_records(env):
    rules = env.from_collection(["a", "bb"], Types.STRING()).broadcast(RULES)
    records = env.from_collection(["a", "bb", "a", "c"], Types.STRING()).map(Late(), Types.STRING())
    keyed = records.key_by(lambda value: value, Types.STRING())
    return sorted(map(repr, keyed.connect(rules).process(CountByRule()).execute_and_collect()))
