"""Which inputs are sorted in batch execution. Flink: StreamGraphGeneratorBatchExecutionTest."""

import dataclasses

import pytest

from flinkbuf.common import Time, Types
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
)
from flinkbuf.datastream.state import MapStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.runtime.graph.batch_inputs import sort_key_of
from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.streaming.chain.operator_config import SortKey

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
ENV = StreamExecutionEnvironment.get_execution_environment()


def stream():
    return ENV.from_collection([("a", 1)])


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        """Nothing."""


class Both(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        """Nothing."""

    def process_element2(self, value, ctx):
        """Nothing."""


class Plain(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        """Nothing."""

    def process_broadcast_element(self, value, ctx):
        """Nothing."""


class KeyedPlain(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        """Nothing."""

    def process_broadcast_element(self, value, ctx):
        """Nothing."""


class Counting(MapFunction):
    def map(self, value):
        return value


def first(value):
    return value[0]


def keyed():
    return stream().key_by(first, Types.STRING())


def sort_keys(made, is_batch=True):
    """Of the task whose head is the last operator."""
    settings = dataclasses.replace(GraphSettings(parallelism=2), is_batch=is_batch)
    graph = build_job_graph(build_stream_graph([made._transformation], settings))
    return [each.sort_key for each in graph.vertices[-1].chain.inputs]


BY_FIRST = SortKey(first, Types.STRING())
WINDOW = TumblingEventTimeWindows.of(Time.milliseconds(1))
PROGRAMS = {
    "reduce": (lambda: keyed().reduce(max), [BY_FIRST]),
    "process": (lambda: keyed().process(Keyed()), [BY_FIRST]),
    "map": (lambda: keyed().map(Counting()), [BY_FIRST]),
    "window": (lambda: keyed().window(WINDOW).reduce(max), [BY_FIRST]),
    "two keyed": (lambda: keyed().connect(keyed()).process(Both()), [BY_FIRST, BY_FIRST]),
    "keyed and broadcast": (
        lambda: keyed().connect(stream().broadcast(RULES)).process(KeyedPlain()),
        [BY_FIRST, None],
    ),
    "broadcast": (
        lambda: stream().rebalance().connect(stream().broadcast(RULES)).process(Plain()),
        [None, None],
    ),
    "union": (lambda: stream().union(stream()).key_by(first, Types.STRING()).reduce(max), [BY_FIRST]),
    "rebalanced": (lambda: stream().rebalance().map(str), [None]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_inputs_of_keyed_operators_are_sorted(name):
    make, wanted = PROGRAMS[name]
    assert sort_keys(make()) == wanted


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_sorted_in_a_stream(name):
    make, wanted = PROGRAMS[name]
    assert sort_keys(make(), is_batch=False) == [None] * len(wanted)


def test_windows_over_all_are_those_of_one_key():
    key = sort_keys(stream().window_all(WINDOW).reduce(max))[0]
    assert key.selector(("a", 1)) == key.selector(("b", 2))


def test_a_keyed_operator_whose_input_has_no_keys_has_one():
    assert sort_key_of(True, "global") == SortKey()
    assert sort_key_of(False, "global") is None
