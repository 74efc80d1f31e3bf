"""How fast do records change their Spark partition by exchange(), next to partitionBy and repartition?

(int, tuple) records are made in the map tasks of local[2], moved to 8 partitions and counted there. A pipelined
exchange runs all of its tasks at once, which are 2 here, so it and the blocking one meet over 2 partitions; and how
much longer it takes to start is measured with no records at all, next to a barrier stage that does nothing. In
flink-benchmarks: KeyByBenchmarks.
"""

import functools

import pytest
from local_spark import session
from measure import SMOKE, measure, scaled

import flinkbuf as fb

RECORD_COUNT = scaled(2_000_000)
MAP_TASKS = 2
CHANNELS = 8
TYPE = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING(), fb.Types.DOUBLE()])])


def make_records(task, _):
    """Yield this task's share of the records, made as cheaply as Python can: the question is the move."""
    names = [f"{name:012d}" for name in range(1000)]
    share = RECORD_COUNT // MAP_TASKS
    return ((number, (number, names[number % 1000], 0.5)) for number in range(task * share, (task + 1) * share))


def count(records):
    yield sum(1 for _ in records)


CASES = {
    "exchange.flinkbuf": lambda data: fb.exchange(data, 0, type=TYPE, num_partitions=CHANNELS),
    "exchange.flinkbuf_type_left_out": lambda data: fb.exchange(data, 0, num_partitions=CHANNELS),
    "exchange.partition_by": lambda data: data.partitionBy(CHANNELS),
    "exchange.repartition": lambda data: data.repartition(CHANNELS),
    "exchange_2.flinkbuf_pipelined": lambda data: fb.exchange(data, 0, type=TYPE, mode="pipelined"),
    "exchange_2.blocking": lambda data: fb.exchange(data, 0, type=TYPE),
    "exchange_2.partition_by": lambda data: data.partitionBy(MAP_TASKS),
}
STARTS = {
    "exchange_start.flinkbuf_pipelined": lambda nothing: fb.exchange(nothing, 0, type=TYPE, mode="pipelined"),
    "exchange_start.barrier_stage": lambda nothing: nothing.barrier().mapPartitions(iter),
}


@functools.cache
def source():
    context = session().sparkContext
    return context.parallelize(range(MAP_TASKS), MAP_TASKS).mapPartitionsWithIndex(make_records)


def measure_move(name, benchmark=None):
    data = source()
    expected = RECORD_COUNT // MAP_TASKS * MAP_TASKS

    def move():
        moved = sum(CASES[name](data).mapPartitions(count).collect())
        assert moved == expected, f"{name} moved {moved} records, not {expected}"

    measure(name, move, expected, "records", benchmark=benchmark, repeats=1 if SMOKE else 3)


def measure_start(name, benchmark=None):
    nothing = source().context.parallelize([], MAP_TASKS)
    measure(name, lambda: STARTS[name](nothing).count(), 1, "jobs", benchmark=benchmark, repeats=1 if SMOKE else 9)


@pytest.mark.parametrize("name", CASES)
def test_move(benchmark, name):
    measure_move(name, benchmark)


@pytest.mark.parametrize("name", STARTS)
def test_start(benchmark, name):
    measure_start(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure_move(name)
    for name in STARTS:
        measure_start(name)
    source().context.stop()
