"""What Spark is told of the order of the records of an exchange, and of those of async calls."""

import itertools
import random
import zlib
from math import floor

import pytest

import flinkbuf as fb
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.spark.exchange.pure_function import is_pure

TYPE = "key bigint, number bigint"
called = 0


def by_checksum(record, count):
    return zlib.crc32(repr(record).encode()) % count


def by_global_count(record, count):
    global called
    called += 1
    return called % count


def by_two_functions(record, count, *, modulus=7):
    return floor(by_checksum(record, modulus)) % count


def by_local_import(record, count):
    from random import randrange

    return randrange(count)


class Turns:
    def __init__(self):
        self.turn = 0

    def __call__(self, record, count):
        self.turn += 1
        return self.turn % count


def by_nonlocal_count():
    turn = 0

    def choose(record, count):
        nonlocal turn
        turn += 1
        return turn % count

    return choose


PURE = [by_checksum, by_two_functions, lambda record, count: record[0] % count, lambda record, count: hash(record) % 2]
numbers, table = itertools.count(), {1: 0}
IMPURE = [
    by_global_count,
    by_local_import,
    by_nonlocal_count(),
    Turns(),
    Turns().__call__,
    lambda record, count: next(numbers) % count,
    lambda record, count: table.setdefault(record[0], len(table)) % count,
    lambda record, count: random.randrange(count),
    lambda record, count: id(record) % count,
    lambda record, count, turns=[0]: turns.append(0) or len(turns) % count,
    lambda record, count: (lambda: next(numbers))() % count,
]


@pytest.mark.parametrize("function", PURE)
def test_a_function_of_the_record_alone_is_seen_to_be_one(function):
    assert is_pure(function)


@pytest.mark.parametrize("function", IMPURE)
def test_a_function_that_may_remember_is_not_trusted(function):
    assert not is_pure(function)


def level_of(rdd):
    return rdd._jrdd.rdd().outputDeterministicLevel().toString()


@pytest.fixture(scope="module")
def in_order(sc):
    return sc.parallelize([(number % 7, number) for number in range(100)], 2)


@pytest.fixture(scope="module")
def shuffled(in_order):
    return in_order.partitionBy(2)


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["blocking", "pipelined"])
@pytest.mark.parametrize(
    ("options", "behind_a_shuffle"),
    [
        ({"key": 0}, "UNORDERED"),
        ({"partitioner": fb.by_range(0)}, "UNORDERED"),
        ({"partitioner": "global"}, "UNORDERED"),
        ({"partitioner": by_checksum}, "UNORDERED"),
        ({}, "INDETERMINATE"),
        ({"partitioner": "shuffle"}, "INDETERMINATE"),
        ({"partitioner": "rescale"}, "UNORDERED"),  # to one partition each, which leaves no choice
    ],
)
def test_spark_knows_whether_the_order_decides(in_order, shuffled, mode, options, behind_a_shuffle):
    first = fb.exchange(in_order, type=TYPE, mode=mode, **options)
    again = fb.exchange(shuffled, type=TYPE, mode=mode, **options)
    # Without a key it goes by turns, from a channel on that is the same again: with the same order, to the same places.
    assert level_of(first) == "UNORDERED"
    assert level_of(again) == behind_a_shuffle
    assert level_of(again.map(len)) == behind_a_shuffle  # one step in Python together with the exchange's
    assert sorted(map(tuple, again.collect())) == sorted(in_order.collect())


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["blocking", "pipelined"])
def test_what_a_function_that_remembers_chooses_is_never_taken_for_the_same(in_order, mode):
    moved = fb.exchange(in_order, type=TYPE, partitioner=Turns(), mode=mode)
    assert level_of(moved) == "INDETERMINATE"
    assert sorted(map(tuple, moved.collect())) == sorted(in_order.collect())
    assert level_of(in_order) == "DETERMINATE"


async def call(record):
    return record


@pytest.mark.spark
def test_spark_knows_that_results_as_they_come_are_in_no_certain_order(in_order, shuffled):
    assert level_of(fb.async_map(in_order, call)) == "DETERMINATE"
    unordered = fb.async_map(in_order, call, ordered=False)
    assert level_of(unordered) == level_of(unordered.map(len)) == "UNORDERED"
    assert level_of(fb.async_map(in_order.map(tuple), call, ordered=False)) == "UNORDERED"
    assert (
        level_of(fb.async_map(shuffled, call)) == level_of(fb.async_map(shuffled, call, ordered=False)) == "UNORDERED"
    )
    assert level_of(unordered.repartition(2)) == "INDETERMINATE"
    assert level_of(in_order) == "DETERMINATE"
    assert sorted(unordered.collect()) == sorted(in_order.collect())


def stream_of(data):
    configuration = Configuration.from_dict({"execution.target": "spark", "pipeline.progress": "false"})
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2).from_rdd(data)


@pytest.mark.spark
def test_spark_knows_that_a_job_may_give_other_records_another_time(sc, in_order, shuffled):
    mapped = stream_of(in_order).map(tuple).to_rdd()
    assert level_of(mapped) == level_of(mapped.map(len)) == "UNORDERED"
    assert level_of(stream_of(shuffled).map(tuple).to_rdd()) == "UNORDERED"
    assert level_of(mapped.repartition(2)) == "INDETERMINATE"
    summed = stream_of(in_order).key_by(lambda record: record[0]).sum(1).to_rdd()
    assert level_of(summed) == level_of(summed.map(len)) == "INDETERMINATE"
    rows = stream_of(in_order).rebalance().map(tuple).to_data_frame("key bigint, number bigint")
    assert level_of(rows.rdd) == "INDETERMINATE"
    assert sorted(mapped.collect()) == sorted(map(tuple, rows.collect())) == sorted(in_order.collect())
    assert level_of(in_order) == "DETERMINATE"
