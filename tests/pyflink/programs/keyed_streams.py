"""key_by, and what KeyedStream does by itself."""

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, KeySelector, MapFunction, ReduceFunction
from pyflink.datastream.state import ValueStateDescriptor

PEOPLE = [(1, 5, "x"), (1, 3, "y"), (1, 3, "z"), (1, 7, "w"), (2, 1, "v"), (1, 7, "u")]
PERSON = Types.ROW_NAMED(["k", "n", "s"], [Types.INT(), Types.INT(), Types.STRING()])
PAIR = Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()])


class CountByKey(KeyedProcessFunction):
    """Each record with its key and how often the key has come."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value!r} {ctx.get_current_key()!r} {count}"


class FirstField(KeySelector):
    def get_key(self, value):
        return value[0]


class Largest(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if value1[1] >= value2[1] else value2


class RunningNumber(MapFunction):
    def open(self, runtime_context):
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.INT()))

    def map(self, value):
        self.number.update((self.number.value() or 0) + 1)
        return value, self.number.value()


def _counts(env, keys, key_type=None, parallelism=1):
    env.set_parallelism(parallelism)
    stream = env.from_collection(list(range(len(keys))))
    keyed = stream.key_by(lambda index: keys[index], key_type) if key_type else stream.key_by(lambda index: keys[index])
    return list(keyed.process(CountByKey()).execute_and_collect())


def keys_that_are_equal(env):
    return _counts(env, [1, "1", 1, 0, "", 1, "1", b"1", 10**20, 10**20])


def keys_of_every_kind(env):
    return _counts(env, [(1, 2), None, b"x", "x", (1, 2), None, b"x", "x", frozenset([1]), 1.5, frozenset([1]), 1.5])


def keys_that_cannot_be_hashed(env):
    return _counts(env, [[1, 2], {"a": 1}, Row(1, 2), [1, 2], {"a": 1}, Row(1, 2)])


def keys_with_declared_types(env):
    results = _counts(env, ["a", "b", "a"], Types.STRING())
    results += _counts(env, [1, 2, 1, 1], Types.INT())
    results += _counts(env, [Row("a", 1), Row("b", 1), Row("a", 1)], PAIR)
    return results + _counts(env, [("a", 1), ("b", 1), ("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))


def keys_in_parallel(env):
    return sorted(_counts(env, [number % 7 for number in range(40)], parallelism=2))


def typed_keys_in_parallel(env):
    return sorted(_counts(env, [str(number % 7) for number in range(40)], Types.STRING(), parallelism=2))


def sums_of_tuples(env):
    return list(env.from_collection(PEOPLE).key_by(FirstField()).sum(1).execute_and_collect())


def smallest_and_largest_fields(env):
    keyed = env.from_collection(PEOPLE).key_by(FirstField())
    return [list(keyed.min(1).execute_and_collect()), list(keyed.max(1).execute_and_collect())]


def smallest_and_largest_records(env):
    keyed = env.from_collection(PEOPLE).key_by(FirstField())
    return [list(keyed.min_by(1).execute_and_collect()), list(keyed.max_by(1).execute_and_collect())]


def aggregations_of_rows_by_name(env):
    keyed = env.from_collection([Row(*person) for person in PEOPLE], PERSON).key_by(lambda row: row.k)
    streams = [keyed.sum("n"), keyed.min("n"), keyed.max("n"), keyed.min_by("n"), keyed.max_by("s")]
    return [list(stream.execute_and_collect()) for stream in streams]


def aggregations_of_plain_values(env):
    keyed = env.from_collection([1, 2, 3, 4, 1], Types.INT()).key_by(lambda value: value % 2)
    return [list(stream.execute_and_collect()) for stream in (keyed.sum(), keyed.min(), keyed.max_by())]


def aggregations_of_texts_and_lists(env):
    lists = env.from_collection([list(person) for person in PEOPLE]).key_by(FirstField())
    texts = env.from_collection(PEOPLE).key_by(FirstField())
    return [list(lists.sum(1).execute_and_collect()), list(texts.sum(2).execute_and_collect())]


def reductions(env):
    keyed = env.from_collection(PEOPLE).key_by(FirstField())
    joined = keyed.reduce(lambda one, two: (one[0], one[1] + two[1], one[2] + two[2]))
    return [list(joined.execute_and_collect()), list(keyed.reduce(Largest()).execute_and_collect())]


def reduction_in_parallel(env):
    env.set_parallelism(2)
    keyed = env.from_collection(range(20)).key_by(lambda value: value % 3)
    return sorted(keyed.reduce(lambda one, two: one + two).execute_and_collect())


def keyed_map_filter_and_flat_map(env):
    keyed = env.from_collection("abcab").key_by(lambda value: value)
    numbered = keyed.map(RunningNumber())
    kept = keyed.filter(lambda value: value != "b")
    doubled = keyed.flat_map(lambda value: [value, value + value])
    return [list(stream.execute_and_collect()) for stream in (numbered, kept, doubled)]


def keyed_again_by_another_key(env):
    pairs = [(number % 2, number % 3) for number in range(12)]
    first = env.from_collection(pairs).key_by(lambda pair: pair[0]).map(RunningNumber())
    return list(first.key_by(lambda result: result[0][1]).process(CountByKey()).execute_and_collect())
