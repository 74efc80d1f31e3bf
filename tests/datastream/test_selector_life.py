"""A key selector and a partitioner with a life of their own are opened and closed in every task that calls them."""

import threading

from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.functions import KeySelector, Partitioner

CALLS = []
threading.test_selector_calls = CALLS  # functions are copied into the tasks, modules are not


def note(what, runtime_context):
    place = None if runtime_context is None else runtime_context.get_index_of_this_subtask()
    threading.test_selector_calls.append((what, place))


class Remainder(KeySelector):
    def open(self, runtime_context):
        note("open key", runtime_context)

    def close(self):
        threading.test_selector_calls.append(("close key", None))

    def get_key(self, value):
        return value % 3


class ByKey(Partitioner):
    def open(self, runtime_context):
        note("open partitioner", runtime_context)

    def close(self):
        threading.test_selector_calls.append(("close partitioner", None))

    def partition(self, key, num_partitions):
        return key % num_partitions


def test_a_key_selector_is_opened_with_a_context_and_closed_at_both_ends_of_its_edge():
    CALLS.clear()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection(range(9)).key_by(Remainder()).reduce(lambda a, b: a + b)
    assert sum(1 for _ in numbers.execute_and_collect()) == 9
    assert sorted(CALLS, key=str) == [("close key", None)] * 2 + [("open key", 0)] * 2


def test_a_partitioner_is_opened_with_a_context_and_closed():
    CALLS.clear()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    stream = env.from_collection(range(9)).partition_custom(ByKey(), Remainder()).map(lambda value: value)
    assert sorted(stream.execute_and_collect()) == list(range(9))
    assert sorted(CALLS, key=str) == [
        ("close key", None),
        ("close partitioner", None),
        ("open key", 0),
        ("open partitioner", 0),
    ]
