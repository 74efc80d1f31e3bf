"""Programs that fail so many times, and what came of them. Functions are copied, this module is not."""

import functools
import threading
from collections import Counter

from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.runtime.graph.transformation import (
    ChainingStrategy,
    KeyedExchange,
    OperatorTransformation,
    PartitionTransformation,
)
from flinkbuf.streaming.sinks.sink_factories import CallableSinkFactory
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory

lock = threading.Lock()
left = Counter()  # how often each name still fails
calls = Counter()  # what happened, by name
may_go_on = threading.Event()


def reset(**failures):
    """Begin a test: these names fail so many times."""
    left.clear()
    calls.clear()
    may_go_on.clear()
    left.update(failures)


def note(*names):
    with lock:
        calls.update(names)


def fail(name, text="not now"):
    """Raise, if this name has failures left."""
    with lock:
        if left[name] <= 0:
            return
        left[name] -= 1
    raise ValueError(text)


def add_one(value):
    return value + 1


def fail_at_30(value):
    if value == 30:
        fail("function", "thirty")
    return value


class InPipeline:
    """Keeps which subtask saw what; subtask 1 fails at the last record but one of its part, as often as it may."""

    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        note(f"open {self.index}")

    def close(self):
        pass

    def __call__(self, value):
        note((self.index, value))
        if self.index == 1 and calls[1, value - 1]:
            fail("pipeline", "subtask 1")
        return value


def operator_of(function):
    """A map, with the function's open and close if it has them."""
    lifecycle = function if hasattr(function, "open") else None
    return functools.partial(MapOperator, function, lifecycle)


def job_of(source, function, sink, parallelism=1, source_parallelism=1, **options):
    """source -> map(function) -> by key -> sink."""
    numbers = OperatorTransformation(
        "numbers", None, [], factory=source, is_source=True, parallelism=source_parallelism
    )
    first = OperatorTransformation("first", None, [numbers], factory=operator_of(function))
    keyed = PartitionTransformation(
        "key", None, [first], partitioner=KeyedExchange(lambda value: value % 7), ship_strategy="HASH"
    )
    end = OperatorTransformation("sink", None, [keyed], factory=sink_of(sink), is_sink=True, parallelism=1)
    return RunningJob(graph_of(end, parallelism, options.get("target")), **options)


def pipelines_of(function, sink, parallelism, count=20, **options):
    """numbers | map(function) | sink, each subtask on a task of its own, and nobody between the subtasks."""
    source = SourceOperatorFactory(NumberSequenceSource(1, count), None)
    numbers = OperatorTransformation("numbers", None, [], factory=source, is_source=True)
    first = OperatorTransformation(
        "first",
        None,
        [numbers],
        factory=operator_of(function),
        chaining_strategy=ChainingStrategy.NEVER,
    )
    end = OperatorTransformation(
        "sink", None, [first], factory=sink_of(sink), is_sink=True, chaining_strategy=ChainingStrategy.NEVER
    )
    return RunningJob(graph_of(end, parallelism, options.get("target")), **options)


def sink_of(sink):
    return sink if hasattr(sink, "why_not_again") else CallableSinkFactory(sink)


def graph_of(end, parallelism=1, target=None):
    is_in_program = target is None or target.is_in_process
    settings = GraphSettings("restarts", parallelism=parallelism, runs_in_program=is_in_program)
    return build_job_graph(build_stream_graph([end], settings))


def run(job, timeout_s=60):
    job.start()
    job.wait(timeout_s)
