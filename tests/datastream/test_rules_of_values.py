"""What a record or state value is depends on no backend, on no chaining, on no parallelism and on no failure."""

from collections import Counter

import pytest

from flinkbuf.common import Configuration, Types
from flinkbuf.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.datastream.state import ValueStateDescriptor

pytest.importorskip("rocksdict")

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
PARALLELISM = pytest.mark.parametrize("parallelism", [1, 2])


def environment(backend="hashmap", parallelism=1, **options):
    config = Configuration()
    config.set_string("state.backend.type", backend)
    config.set_string("state.backend.rocksdb.cache.entries", "1")
    for name, value in options.items():
        config.set_string(name.replace("_", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(parallelism)
    return env


def collected(stream):
    with stream.execute_and_collect() as records:
        return list(records)


class CountByKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value, number


@BACKENDS
@PARALLELISM
def test_pairs_in_either_order_are_counted_together(backend, parallelism):
    names = [f"name {number}" for number in range(40)]
    pairs = [(a, b) for a in names for b in names if a != b]
    stream = environment(backend, parallelism).from_collection(pairs)
    counted = stream.key_by(lambda pair: frozenset(pair)).process(CountByKey())
    highest = Counter()
    for pair, number in collected(counted):
        highest[frozenset(pair)] = max(highest[frozenset(pair)], number)
    assert highest == {frozenset(pair): 2 for pair in pairs}


@BACKENDS
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_equal_maps_are_one_declared_key(backend, mode):
    maps = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}] * 3
    env = environment(backend)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    keyed = env.from_collection(maps).key_by(lambda each: each, key_type=Types.MAP(Types.STRING(), Types.LONG()))
    found = collected(keyed.process(CountByKey()))
    assert sorted(number for each, number in found if len(each) == 2) == [1, 2, 3, 4, 5, 6]
    assert sorted(number for each, number in found if len(each) == 1) == [1, 2, 3]
