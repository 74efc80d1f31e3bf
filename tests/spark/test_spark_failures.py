"""Exchanges under Spark's failures: each record once, or an error that says so at once.

Each door is tried with two disturbances; ``make test-kills KILLS=20`` kills so many executors for each.
"""

import asyncio
import os

import pytest
from support.faults.spark_failures import COUNT, KEYS, ROWS, FailureDriver, expected

import flinkbuf as fb

pytestmark = [pytest.mark.spark, pytest.mark.long]
KILLS = int(os.environ.get("KILLS", "0"))
DISTURBANCES = ["kill"] * KILLS or ["kill", "delete"]
SOON_S = 30.0  # a machine that does nothing else says it within 10


@pytest.fixture(scope="module")
def driver():
    started = FailureDriver()
    yield started
    started.close()


class Turns:
    """A partitioner that looks at no record, but at how many there were before."""

    def __init__(self):
        self.turn = 0

    def __call__(self, record, count):
        self.turn += 1
        return self.turn % count


def check(outcome, *, may_fail=False, error="indeterminate output was failed and retried"):
    """Refuse records that are lost or doubled; and errors, but for one that is to be expected, and soon."""
    assert outcome.rows is not None or may_fail, outcome.error
    if outcome.rows is None:
        assert error in outcome.error
        assert outcome.seconds < SOON_S
    else:
        assert outcome.rows == expected()


def of_records(failures, disturbance, key=None, partitioner=None, **options):
    moved = fb.exchange(failures.records(), key, type=ROWS, partitioner=partitioner, num_partitions=6, **options)
    return failures.run(lambda signs: moved.mapPartitions(signs.results).collect(), disturbance)


def by_key(failures, disturbance):
    return of_records(failures, disturbance, 0)


def by_range(failures, disturbance):
    return of_records(failures, disturbance, partitioner=fb.by_range(1))


def by_function(failures, disturbance):
    return of_records(failures, disturbance, partitioner=lambda record, count: record[1] % count)


def without_key(failures, disturbance):
    return of_records(failures, disturbance)


def at_random(failures, disturbance):
    return of_records(failures, disturbance, partitioner="shuffle")


def by_turns(failures, disturbance):
    return of_records(failures, disturbance, partitioner=Turns())


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("door", [by_key, by_range, by_function])
def test_records_whose_channel_they_decide_alone_survive(driver, door, disturbance):
    check(driver.call(door, disturbance=disturbance))


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("door", [without_key, at_random, by_turns])
def test_no_record_is_lost_or_doubled_where_the_order_decides(driver, door, disturbance):
    check(driver.call(door, disturbance=disturbance), may_fail=True)


def results_as_they_come(failures, disturbance):
    """Async calls of which every other one takes longer: the even ones before the disturbance, the odd ones after."""
    signs = failures.signs

    async def call(record):
        await asyncio.sleep(0.001 * ((record[1] + signs.has_happened) % 2))
        return record

    numbers = failures.sc.parallelize(range(COUNT), 4).map(lambda number: (number % KEYS, number))
    called = fb.async_map(numbers, call, ordered=False, capacity=1000)
    return failures.run(lambda signs: called.repartition(6).mapPartitions(signs.results).collect(), disturbance)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_repartition_loses_and_doubles_no_result_of_async_calls(driver, disturbance):
    check(driver.call(results_as_they_come, disturbance=disturbance), may_fail=True)


def of_rows(failures, disturbance, key=None, partitioner=None, **options):
    moved = fb.exchange(failures.rows(), key, partitioner=partitioner, num_partitions=6, **options)
    return failures.run(lambda signs: moved.mapInArrow(signs.result_batches, ROWS).collect(), disturbance)


def rows_by_key(failures, disturbance):
    return of_rows(failures, disturbance, "key")


def rows_by_range(failures, disturbance):
    return of_rows(failures, disturbance, partitioner=fb.by_range("number"))


def rows_without_key(failures, disturbance):
    return of_rows(failures, disturbance)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("door", [rows_by_key, rows_by_range, rows_without_key])
def test_rows_survive(driver, door, disturbance):
    check(driver.call(door, disturbance=disturbance))


def pipelined(failures, disturbance):
    moved = fb.exchange(failures.records(2), 0, type=ROWS, mode="pipelined")
    return failures.run(lambda signs: moved.mapPartitions(signs.results).collect(), disturbance, after=0)


def pipelined_rows(failures, disturbance):
    moved = fb.exchange(failures.rows(2), "key", num_partitions=2, mode="pipelined")
    return failures.run(lambda signs: moved.mapInArrow(signs.result_batches, ROWS).collect(), disturbance, after=0)


def pipelined_before_a_shuffle(failures, disturbance):
    moved = fb.exchange(failures.records(2), 0, type=ROWS, mode="pipelined").mapPartitions(failures.signs.results)
    return failures.run(lambda signs: moved.map(tuple).partitionBy(3).collect(), disturbance, after=0)


@pytest.mark.parametrize("door", [pipelined, pipelined_rows])
@pytest.mark.parametrize("disturbance", ["kill"] * max(1, KILLS))
def test_a_pipelined_exchange_fails_with_an_executor_at_once(driver, door, disturbance):
    check(driver.call(door, disturbance=disturbance), may_fail=True, error="failed barrier ResultStage")


@pytest.mark.parametrize("disturbance", ["kill"] * max(1, KILLS))
def test_a_pipelined_exchange_before_a_shuffle_survives(driver, disturbance):
    check(driver.call(pipelined_before_a_shuffle, disturbance=disturbance))


@pytest.fixture(scope="module")
def odd_driver():
    """Spark with what users turn on, or off."""
    started = FailureDriver(
        spark_python_worker_reuse="false",
        spark_speculation="true",
        spark_dynamicAllocation_enabled="true",
        spark_sql_adaptive_enabled="false",
    )
    yield started
    started.close()


@pytest.mark.parametrize("door", [by_key, rows_by_key, rows_without_key])
def test_blocking_exchanges_survive_under_other_settings_of_spark(odd_driver, door):
    check(odd_driver.call(door, disturbance="kill"))
