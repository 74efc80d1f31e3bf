"""How fast do records go through tasks: a chain of operators, and two tasks with a partition between them?

The rival of the chain is a plain `for` loop that calls the same three functions, where Python calls them without
leaving its interpreter; the builtins `map` and `filter` call them from C, as a chain has to. Two tasks are measured
beside the same numbers written and read by hand, so what is left is what tasks add to the codec. Counterpart in
flink-benchmarks: InputBenchmark, MultipleInputBenchmark.
"""

import threading
from collections import deque

import pytest
from measure import measure, scaled

import flinkbuf as fb
from flinkbuf._core.function_operator import FilterOperator, MapOperator
from flinkbuf._core.source_operator import IteratorSourceOperator
from flinkbuf.streaming.clock import SystemClock
from flinkbuf.streaming.operator_config import (
    ChainConfig,
    ChainedEdge,
    ExecutionSettings,
    InputConfig,
    NetworkEdge,
    OperatorConfig,
    TaskInfo,
)
from flinkbuf.streaming.task import Task
from flinkbuf.streaming.task_state import TaskState

COUNT = scaled(500_000)
LONG = fb.Types.LONG()
ELEMENT = fb.Types.STREAM_ELEMENT(LONG)


def add_one(value):
    return value + 1


def is_odd(value):
    return value & 1


def double(value):
    return value * 2


def numbers(context=None):
    return range(COUNT)


def operator(index, factory, **options):
    return OperatorConfig(f"{index:032x}", f"operator {index}", factory, **options)


def chain_of(*factories, inputs=(), network_edges=()):
    """Operators one behind the other; without inputs the first is a source."""
    last = len(factories) - 1
    operators = [
        operator(
            index,
            factory,
            is_source=index == 0 and not inputs,
            chained_edges=() if index == last else (ChainedEdge(index + 1),),
            network_edges=network_edges if index == last else (),
        )
        for index, factory in enumerate(factories)
    ]
    return ChainConfig(tuple(operators), inputs, len(network_edges))


def task_of(config, gates=(), partitions=()):
    info = TaskInfo("job", "job", "vertex", "task")
    return Task(info, config, gates, partitions, ExecutionSettings(), SystemClock())


def source():
    return IteratorSourceOperator(numbers)


def plain_loop():
    for value in numbers():
        value = add_one(value)
        if is_odd(value):
            double(value)


def builtins():
    deque(map(double, filter(is_odd, map(add_one, numbers()))), maxlen=0)


def chain():
    task = task_of(
        chain_of(source, lambda: MapOperator(add_one), lambda: FilterOperator(is_odd), lambda: MapOperator(double))
    )
    task.run()
    assert task.state is TaskState.FINISHED, task.error


def connect():
    pool = fb.NetworkBufferPool(32)
    partition = fb.ResultPartition(pool, 1)
    return partition, fb.InputGate([(partition, 0)])


def two_tasks():
    partition, gate = connect()
    config = chain_of(source, network_edges=(NetworkEdge(0, LONG, "forward"),))
    producer = task_of(config, [], [partition])
    consumer = task_of(chain_of(lambda: MapOperator(double), inputs=(InputConfig(LONG, (0,)),)), [gate])
    thread = threading.Thread(target=producer.run)
    thread.start()
    consumer.run()
    thread.join()
    assert consumer.state is TaskState.FINISHED, consumer.error


def by_hand():
    partition, gate = connect()

    def write():
        with fb.RecordWriter(partition, ELEMENT, "forward") as writer:
            writer.emit_all(numbers())
        partition.close()

    thread = threading.Thread(target=write)
    thread.start()
    for value in fb.RecordReader(gate, ELEMENT):
        double(value)
    thread.join()
    gate.close()


CASES = {f"streaming.{function.__name__}": function for function in (plain_loop, builtins, chain, two_tasks, by_hand)}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, CASES[name], COUNT, "records", benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, CASES[name], COUNT, "records")
