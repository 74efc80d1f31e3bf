"""Data sets, async maps and streams under Spark's failures: each record once, or an error that says so at once.

``make test-kills KILLS=20`` kills so many executors for each door.
"""

import os

import pytest
from support.faults.spark_failures import ROWS, FailureDriver, expected

import flinkbuf as fb
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, pytest.mark.long]
KILLS = int(os.environ.get("KILLS", "0"))
DISTURBANCES = ["kill"] * KILLS or ["kill", "delete"]
SOON_S = 30.0  # a machine that does nothing else says it within 10
OLD = [[-1, -1], [-2, -2]]  # rows that a data set has before


@pytest.fixture(scope="module")
def driver():
    started = FailureDriver()
    yield started
    started.close()


@pytest.fixture(scope="module")
def other_driver():
    """Spark with its settings the other way round."""
    started = FailureDriver(
        spark_speculation="true", spark_sql_adaptive_enabled="false", spark_python_worker_reuse="false"
    )
    yield started
    started.close()


# ---- data sets


def data_set(failures, disturbance, mode):
    """Write over a data set, or append to it; its rows afterwards, whatever became of the job."""
    path = os.path.join(failures.signs.folder, "set")
    spark = failures.spark
    spark.createDataFrame(OLD, ROWS).write.format("flinkbuf").option("key", "key").mode("append").save(path)
    loaded = spark.read.format("flinkbuf").load(path)

    def write(signs):
        slow = failures.rows().mapInArrow(signs.result_batches, ROWS)
        slow.write.format("flinkbuf").option("key", "key").mode(mode).save(path)
        return spark.read.format("flinkbuf").load(path).collect()

    outcome = failures.run(write, disturbance)
    assert sorted(map(list, loaded.collect())) == sorted(OLD), "who began to read before sees other rows"
    if outcome.rows is None:
        left = spark.read.format("flinkbuf").load(path).collect()
        assert sorted(map(list, left)) == sorted(OLD), f"a job that failed has changed the data set: {outcome.error}"
    return outcome


def check_data_set(outcome, mode):
    assert outcome.rows is not None, outcome.error
    assert outcome.rows == sorted([*expected(), *(OLD if mode == "append" else [])])


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_data_set_gets_each_row_once(driver, mode, disturbance):
    check_data_set(driver.call(data_set, disturbance=disturbance, mode=mode), mode)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_data_set_gets_each_row_once_from_speculative_tasks(other_driver, mode):
    check_data_set(other_driver.call(data_set, disturbance="kill", mode=mode), mode)


# ---- async maps


async def same(record):
    return record


async def number_of(row):
    return row.number


def map_of_records(failures, disturbance):
    mapped = fb.async_map(failures.records(), same, capacity=10)
    return failures.run(lambda signs: mapped.mapPartitions(signs.results).collect(), disturbance)


def map_of_rows(failures, disturbance):
    mapped = fb.async_map(failures.rows(), number_of, schema="number bigint", ordered=False)
    return failures.run(lambda signs: mapped.mapInArrow(signs.result_batches, ROWS).collect(), disturbance)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("door", [map_of_records, map_of_rows])
def test_an_async_map_gives_each_record_once(driver, door, disturbance):
    outcome = driver.call(door, disturbance=disturbance)
    assert outcome.rows == expected(), outcome.error


# ---- streams


def environment():
    configuration = Configuration.from_dict({"execution.target": "spark", "pipeline.progress": "false"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def stream_to_rdd(failures, disturbance):
    stream = environment().from_rdd(failures.records(2)).map(lambda record: record)
    given = stream.to_rdd().mapPartitions(failures.signs.results)
    return failures.run(lambda signs: given.collect(), disturbance, after=0)


def stream_to_rows(failures, disturbance):
    stream = environment().from_data_frame(failures.rows(2)).filter(lambda row: row.number >= 0)
    given = stream.to_data_frame().mapInArrow(failures.signs.result_batches, ROWS)
    return failures.run(lambda signs: given.collect(), disturbance, after=0)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("door", [stream_to_rdd, stream_to_rows])
def test_a_stream_gives_spark_each_record_once_or_fails_at_once(driver, door, disturbance):
    outcome = driver.call(door, disturbance=disturbance)
    if outcome.rows is None:
        assert outcome.seconds < SOON_S
    else:
        assert outcome.rows == expected()


def stream_dealt_out(failures, disturbance):
    """Spark's repartition goes by the order of the records, and what tasks sent each other comes in another one."""
    records = failures.sc.parallelize([tuple(row) for row in expected()], 2)
    stream = environment().from_rdd(records).rebalance().map(lambda record: record)
    dealt_out = stream.to_rdd().repartition(6).mapPartitions(failures.signs.results)
    return failures.run(lambda signs: dealt_out.collect(), disturbance, after=2)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_what_spark_deals_out_behind_a_stream_comes_once_or_not_at_all(driver, disturbance):
    outcome = driver.call(stream_dealt_out, disturbance=disturbance)
    if outcome.rows is None:
        assert "indeterminate" in outcome.error.lower(), outcome.error
    else:
        assert outcome.rows == expected()
