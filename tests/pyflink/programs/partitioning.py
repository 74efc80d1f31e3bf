"""Which subtask gets a record, where that is promised; and parallelism."""

from collections import Counter

from pyflink.common import Types
from pyflink.datastream import MapFunction, Partitioner


class WithSubtask(MapFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return self.subtask, value


class ByNumber(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


def _counts(stream):
    return sorted(Counter(subtask for subtask, _ in stream.execute_and_collect()).values())


def rebalanced(env):
    env.set_parallelism(2)
    return _counts(env.from_collection(range(20)).rebalance().map(WithSubtask()))


def rescaled(env):
    env.set_parallelism(2)
    return _counts(env.from_collection(range(20)).rescale().map(WithSubtask()))


def from_one_to_two_without_a_word(env):
    env.set_parallelism(2)
    return _counts(env.from_collection(range(20)).map(WithSubtask()))


def shuffled(env):
    env.set_parallelism(2)
    return sorted(
        value for _, value in env.from_collection(range(30)).shuffle().map(WithSubtask()).execute_and_collect()
    )


def broadcast_to_all(env):
    env.set_parallelism(2)
    return sorted(env.from_collection([1, 2, 3]).broadcast().map(WithSubtask()).execute_and_collect())


def forwarded(env):
    env.set_parallelism(2)
    stream = env.from_collection(range(10)).map(WithSubtask()).forward().map(WithSubtask())
    return sorted((value, first == second) for second, (first, value) in stream.execute_and_collect())


def custom_partitions(env):
    env.set_parallelism(2)
    stream = env.from_collection([(number, str(number)) for number in range(10)])
    by_class = stream.partition_custom(ByNumber(), lambda pair: pair[0]).map(WithSubtask())
    by_class.map(lambda result: f"{result[0] == result[1][0] % 2} {result[1]}", Types.STRING()).print("partition")
    env.execute()


def keys_stay_together(env):
    env.set_parallelism(2)
    stream = env.from_collection([number % 10 for number in range(100)], Types.INT())
    keyed = stream.key_by(lambda value: value, Types.INT()).map(WithSubtask())
    return len(set(keyed.execute_and_collect()))


def operators_of_their_own_parallelism(env):
    env.set_parallelism(2)
    stream = env.from_collection(range(9)).map(lambda value: value + 1).set_parallelism(1)
    stream = stream.map(lambda value: value * 2).map(lambda value: value).force_non_parallel()
    return sorted(stream.execute_and_collect())


def rebalance_both_ways(env):
    env.set_parallelism(2)
    stream = env.from_collection(range(40)).rebalance().map(lambda value: value).rescale().map(lambda value: value)
    stream = stream.shuffle().filter(lambda value: value % 2 == 0).key_by(lambda value: value % 5)
    return sorted(stream.reduce(lambda one, two: max(one, two)).map(lambda value: value % 5).execute_and_collect())
