"""What does a DataFrame cost whose rows Python looks at by key, beside what most people write for it?

Rows (bigint, string, double) of a cached DataFrame are brought together by key in local[2], 8 partitions. Where a
Python function sees each of them, that is by hand `df.repartition(8, key).mapInArrow(function)`; beside it `exchange`
of its rows, which takes the way over `df.rdd`, and `async_map` over the repartitioned DataFrame, whose function is a
coroutine that never waits: what the operator itself costs. Where the function looks at columns, `exchange` of the
DataFrame moves Arrow batches: with the function behind it, in the same pass, and pipelined; and all of that where Spark
does not ask after every row how many bytes its batch has, which it does by default since 4.1. The same columns as a
stream of records and of batches, from a DataFrame and back to one, beside `mapInArrow`; and a stream of columns that
counts and adds up each key and minute, from a DataFrame and back, beside `groupBy(window(…), key)` of Spark's own SQL,
which never leaves the JVM. In the last work each call waits 5 ms, 100 at a time in each task; by hand that is a
`Semaphore` and `gather` over each Arrow batch. No counterpart in flink-benchmarks.
"""

import asyncio
import functools
import sys

import pytest
from bench_spark_exchange import source
from measure import SMOKE, measure, scaled

import flinkbuf as fb

ROW_COUNT = scaled(500_000)
BATCH_ROW_COUNT = scaled(5_000_000)
STREAM_ROW_COUNT = scaled(2_000_000)
WINDOW_ROW_COUNT = scaled(5_000_000)
WINDOW_S = 60
WAIT_COUNT = scaled(40_000)
PARTITIONS = 8
CALLS_AT_ONCE = 100
WAIT_S = 0.005


def score(key, name, value):
    """Do a little work on one record, as a user's function would."""
    return value * len(name) if key % 3 else -value


def score_batches(batches):
    """Score every row of the Arrow batches by hand: columns to Python lists, a loop, a column back."""
    import pyarrow as pa

    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        yield pa.record_batch([pa.array([score(*row) for row in rows], pa.float64())], ["score"])


def wait_batches(batches):
    """Make a call for every row by hand: a semaphore, and gather over each Arrow batch."""
    import pyarrow as pa

    async def call(semaphore, value):
        async with semaphore:
            await asyncio.sleep(WAIT_S)
            return value + 1.0

    async def call_all(values):
        semaphore = asyncio.Semaphore(CALLS_AT_ONCE)
        return await asyncio.gather(*(call(semaphore, value) for value in values))

    for batch in batches:
        found = asyncio.run(call_all(batch.column("value").to_pylist()))
        yield pa.record_batch([pa.array(found, pa.float64())], ["found"])


def score_records(records):
    yield sum(score(*record) for record in records)


async def score_row(row):
    return score(*row)


async def wait_row(row):
    await asyncio.sleep(WAIT_S)
    return row.value + 1.0


def by_map_in_arrow(rows):
    return total(rows.repartition(PARTITIONS, "key").mapInArrow(score_batches, "score double"), "score")


def by_exchange(rows):
    moved = fb.exchange(rows.rdd, "key", type=rows.schema, num_partitions=PARTITIONS)
    return sum(moved.mapPartitions(score_records).collect())


def by_rdd(rows):
    return sum(rows.repartition(PARTITIONS, "key").rdd.mapPartitions(score_records).collect())


def by_async_map(rows):
    return total(fb.async_map(rows.repartition(PARTITIONS, "key"), score_row, schema="score double"), "score")


SUMS = "count long, total double"


def sum_batches(batches):
    """Look at the columns of each batch, and give one row for it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        total = pc.sum(pc.add(batch.column("value"), pc.utf8_length(batch.column("name")))).as_py()
        yield pa.record_batch({"count": [batch.num_rows], "total": [total or 0.0]})


def exchanged(rows, **options):
    return fb.exchange(rows, "key", num_partitions=PARTITIONS, **options)


def by_repartition(rows):
    return total(rows.repartition(PARTITIONS, "key").mapInArrow(sum_batches, SUMS), "total")


def by_frame_exchange(rows):
    return total(exchanged(rows).mapInArrow(sum_batches, SUMS), "total")


def by_frame_exchange_in_one_pass(rows):
    return total(exchanged(rows, after=sum_batches, schema=SUMS), "total")


def by_pipelined_frame_exchange(rows):
    moved = fb.exchange(rows, "key", num_partitions=2, mode="pipelined", after=sum_batches, schema=SUMS)
    return total(moved, "total")


def without_byte_limit(work):
    """Return the work done where a batch ends after so many rows, and nobody counts its bytes."""

    def run(rows):
        name = "spark.sql.execution.arrow.maxBytesPerBatch"
        session().conf.set(name, 2**31 - 1)
        try:
            return work(rows)
        finally:
            session().conf.unset(name)

    return run


def score_columns(batch):
    """Score all rows of a batch at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    length = pc.utf8_length(batch.column("name"))
    return pa.record_batch({"score": pc.multiply(batch.column("value"), length)})


def by_columns(rows):
    return total(rows.mapInArrow(lambda batches: map(score_columns, batches), "score double"), "score")


def stream_of(rows):
    from flinkbuf.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    return env.from_data_frame(rows)


def by_stream_of_records(rows):
    scores = stream_of(rows).map(lambda row: (row.value * len(row.name),), fb.as_type("score double"))
    return total(scores.to_data_frame(), "score")


def by_stream_of_batches(rows):
    scores = stream_of(rows).map_batches(score_columns, "score double", timestamps="latest")
    return total(scores.to_data_frame(), "score")


def by_windows(rows):
    """Count and add up each key and minute as a stream of columns."""
    from flinkbuf.common import Time
    from flinkbuf.datastream.columns import count, sum_, window_end
    from flinkbuf.datastream.window import TumblingEventTimeWindows

    keyed = stream_of(rows).as_columns().assign_timestamps_and_watermarks("at").key_by("key")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(WINDOW_S)))
    found = windows.aggregate(end=window_end(), rows=count(), total=sum_("value")).to_data_frame()
    return total(found, "total")


def by_windows_in_sql(rows):
    """Do the same as Spark's own query, with a task for each core behind its shuffle."""
    from pyspark.sql import functions as F

    session().conf.set("spark.sql.shuffle.partitions", "2")
    groups = rows.groupBy(F.window("at", f"{WINDOW_S} seconds"), "key")
    return total(groups.agg(F.count("*").alias("rows"), F.sum("value").alias("total")), "total")


def total(frame, column):
    return frame.agg({column: "sum"}).first()[0]


CASES = {
    "frame_records.map_in_arrow": (by_map_in_arrow, ROW_COUNT),
    "frame_records.flinkbuf_exchange": (by_exchange, ROW_COUNT),
    "frame_records.repartition_rdd": (by_rdd, ROW_COUNT),
    "frame_records.flinkbuf_async_map": (by_async_map, ROW_COUNT),
    "frame_batches.repartition_map_in_arrow": (by_repartition, BATCH_ROW_COUNT),
    "frame_batches.flinkbuf_exchange": (by_frame_exchange, BATCH_ROW_COUNT),
    "frame_batches.flinkbuf_exchange_after": (by_frame_exchange_in_one_pass, BATCH_ROW_COUNT),
    "frame_batches.flinkbuf_exchange_pipelined": (by_pipelined_frame_exchange, BATCH_ROW_COUNT),
    "frame_batches_of_any_bytes.repartition_map_in_arrow": (without_byte_limit(by_repartition), BATCH_ROW_COUNT),
    "frame_batches_of_any_bytes.flinkbuf_exchange_after": (
        without_byte_limit(by_frame_exchange_in_one_pass),
        BATCH_ROW_COUNT,
    ),
    "frame_batches_of_any_bytes.flinkbuf_exchange_pipelined": (
        without_byte_limit(by_pipelined_frame_exchange),
        BATCH_ROW_COUNT,
    ),
    "frame_stream.map_in_arrow": (by_columns, STREAM_ROW_COUNT),
    "frame_stream.flinkbuf_map_batches": (by_stream_of_batches, STREAM_ROW_COUNT),
    "frame_stream.flinkbuf_map": (by_stream_of_records, STREAM_ROW_COUNT),
    "frame_windows.spark_sql": (by_windows_in_sql, WINDOW_ROW_COUNT),
    "frame_windows.flinkbuf_columns": (by_windows, WINDOW_ROW_COUNT),
    "frame_wait.map_in_arrow_gather": (
        lambda rows: total(rows.mapInArrow(wait_batches, "found double"), "found"),
        WAIT_COUNT,
    ),
    "frame_wait.flinkbuf_async_map": (
        lambda rows: total(
            fb.async_map(
                rows,
                wait_row,
                schema="found double",
                capacity=2 * CALLS_AT_ONCE,
                options=fb.async_io.AsyncMapOptions(concurrency=CALLS_AT_ONCE),
            ),
            "found",
        ),
        WAIT_COUNT,
    ),
}


@functools.cache
def session():
    """One Spark context serves all benchmarks of a process."""
    from pyspark.sql import SparkSession

    spark = SparkSession(source().context)
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # it would join small partitions: the work is one over 8
    return spark


@functools.cache
def rows_of(count):
    """Make the rows in the JVM, in 2 partitions, and keep them there: the question is the way to Python."""
    columns = ("id AS key", "format_string('%012d', id % 1000) AS name", "id / 4D AS value")
    rows = session().range(0, count, 1, 2).selectExpr(*columns).cache()
    assert rows.count() == count
    return rows


@functools.cache
def events_of(count):
    """Make rows of 1,000 keys, one each millisecond, likewise."""
    columns = ("id % 1000 AS key", "timestamp_millis(id) AS at", "id / 4D AS value")
    rows = session().range(0, count, 1, 2).selectExpr(*columns).cache()
    assert rows.count() == count
    return rows


def expected_of(name):
    """Say what comes out, so that nobody is fast by leaving something out."""
    if name.startswith("frame_batches"):
        return sum(number / 4 + 12 for number in range(BATCH_ROW_COUNT))
    if name.startswith("frame_stream"):
        return sum(number / 4 * 12 for number in range(STREAM_ROW_COUNT))
    if name.startswith("frame_windows"):
        return sum(number / 4 for number in range(WINDOW_ROW_COUNT))
    if name.startswith("frame_wait"):
        return sum(number / 4 + 1.0 for number in range(WAIT_COUNT))
    return sum(score(number, "0" * 12, number / 4) for number in range(ROW_COUNT))


def measure_case(name, benchmark=None):
    work, count = CASES[name]
    rows = events_of(count) if name.startswith("frame_windows") else rows_of(count)
    expected = expected_of(name)

    def run():
        found = work(rows)
        assert found == pytest.approx(expected, rel=1e-9), f"{name} came to {found}, not {expected}"

    measure(name, run, count, "records", benchmark=benchmark, repeats=1 if SMOKE else 3)


@pytest.mark.parametrize("name", CASES)
def test_case(benchmark, name):
    measure_case(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        if all(word in name for word in sys.argv[1:]):
            measure_case(name)
    session().stop()
