"""Keyed state of the five kinds, and its time to live."""

import time

from pyflink.common import Row, Types
from pyflink.common.time import Time
from pyflink.datastream import AggregateFunction, FlatMapFunction, KeyedProcessFunction, MapFunction, ReduceFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Product(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 * value2


class Values(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))

    def process_element(self, value, ctx):
        before = self.state.value()
        if value[1] is None:
            self.state.clear()
        else:
            self.state.update(value[1])
        yield value[0], before, self.state.value()


class Lists(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))

    def process_element(self, value, ctx):
        action = value[1]
        if action == "clear":
            self.state.clear()
        elif isinstance(action, list):
            self.state.update(action)
        elif isinstance(action, tuple):
            self.state.add_all(list(action))
        elif action is not None:
            self.state.add(action)
        yield value[0], list(self.state.get() or [])


class Maps(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        state = self.state
        yield "before", state.get("a"), state.contains("a"), state.is_empty()
        state.put("a", value)
        state.put("b", value * 2)
        state["c"] = value * 3
        yield sorted(state.keys()), sorted(state.values()), sorted(state.items()), sorted(state), state.is_empty()
        state.remove("b")
        yield state.get("b"), state.contains("b"), "c" in state, state["c"], sorted(state.items())
        if value == 2:
            state.clear()
            yield sorted(state.items()), state.get("a"), state.contains("a")


class ReducingAndAggregating(KeyedProcessFunction):
    def open(self, runtime_context):
        self.product = runtime_context.get_reducing_state(ReducingStateDescriptor("product", Product(), Types.LONG()))
        mean_type = Types.PICKLED_BYTE_ARRAY()
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), mean_type))

    def process_element(self, value, ctx):
        if value[1] is None:
            self.product.clear()
            self.mean.clear()
        else:
            self.product.add(value[1])
            self.mean.add(value[1])
        yield value[0], self.product.get(), self.mean.get()


class StatesOfEveryType(KeyedProcessFunction):
    def open(self, runtime_context):
        types = {
            "text": (Types.STRING(), "ä"),
            "number": (Types.DOUBLE(), 0.5),
            "pickled": (Types.PICKLED_BYTE_ARRAY(), {"k": [1, None]}),
            "row": (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), Row(a=1, b="x")),
            "tuple": (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "x")),
            "list": (Types.LIST(Types.INT()), [1, 2]),
            "map": (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
        }
        self.values = {name: value for name, (_, value) in types.items()}
        self.states = {
            name: runtime_context.get_state(ValueStateDescriptor(name, type_info))
            for name, (type_info, _) in types.items()
        }

    def process_element(self, value, ctx):
        yield [(name, state.value()) for name, state in self.states.items()]
        for name, state in self.states.items():
            state.update(self.values[name])


class Deduplicate(FlatMapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def flat_map(self, value):
        if not self.seen.value():
            self.seen.update(True)
            yield value


class Expiring(MapFunction):
    """State of 1 ms and of an hour, read in the next record, which comes later."""

    def open(self, runtime_context):
        def state(name, milliseconds):
            descriptor = ValueStateDescriptor(name, Types.INT())
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(milliseconds)).build())
            return runtime_context.get_state(descriptor)

        self.long = state("long", 3_600_000)

    def map(self, value):
        before = self.long.value()
        self.long.update(value)
        time.sleep(0.01)
        return before, self.long.value()


def value_state(env):
    records = [("a", 1), ("b", 2), ("a", 3), ("a", None), ("a", 4), ("b", None)]
    return list(env.from_collection(records).key_by(lambda value: value[0]).process(Values()).execute_and_collect())


def list_state(env):
    actions = [None, 1, 2, (3, 4), [7], 8, "clear", None, (9,), []]
    records = [(key, action) for action in actions for key in ("a", "b") if key == "a" or action != 2]
    return list(env.from_collection(records).key_by(lambda value: value[0]).process(Lists()).execute_and_collect())


def map_state(env):
    return list(env.from_collection([1, 2, 2]).key_by(lambda value: 0).process(Maps()).execute_and_collect())


def reducing_and_aggregating_state(env):
    records = [("a", 2), ("a", 3), ("b", 5), ("a", 4), ("a", None), ("a", 7)]
    keyed = env.from_collection(records).key_by(lambda value: value[0])
    return list(keyed.process(ReducingAndAggregating()).execute_and_collect())


def states_of_every_type(env):
    return list(env.from_collection([1, 2]).key_by(lambda value: 0).process(StatesOfEveryType()).execute_and_collect())


def deduplication(env):
    keyed = env.from_collection([3, 1, 3, 2, 1, 3], Types.INT()).key_by(lambda value: value, Types.INT())
    return list(keyed.flat_map(Deduplicate(), Types.INT()).execute_and_collect())


def many_keys(env):
    env.set_parallelism(2)
    records = [(number % 501, number) for number in range(3000)]
    keyed = env.from_collection(records).key_by(lambda value: value[0])
    results = list(keyed.process(Values()).execute_and_collect())
    return [len(results), sum(1 for _, before, _ in results if before is None), sum(after for _, _, after in results)]


def time_to_live_not_reached(env):
    return list(env.from_collection([1, 2, 3]).key_by(lambda value: 0).map(Expiring()).execute_and_collect())


def time_to_live_as_text(env):
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    first = builder.build()
    second = builder.update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().cleanup_full_snapshot().build()
    return [
        StateTtlConfig.new_builder(Time.minutes(2)).build().get_ttl().to_milliseconds(),
        first.get_ttl().to_milliseconds(),
        first.is_enabled(),
        second.get_ttl().to_milliseconds(),
        second.get_update_type(),
        second.get_state_visibility(),
        second.get_ttl_time_characteristic(),
        second.get_cleanup_strategies().in_full_snapshot(),
        second.get_cleanup_strategies().is_cleanup_in_background(),
    ]
