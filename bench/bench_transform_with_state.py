"""Processors with state inside a query of Structured Streaming, and Spark's own operator for the same ones.

The program is `job_timers` of bench_jobs.py: a value read and written and a timer set for each record, in event time,
at local[2], from Parquet files of one micro-batch each. `tws_steady` is the rate of the batches after the first, in
which Python workers start and code is read; `tws_query` counts all, from start() to the end. The rival is
``groupBy.transformWithState`` with the same class, over fewer records. `map_in_arrow` gives each batch of these files
back: what a query costs without state. `tws_latency` is how long a micro-batch of a hundred records takes, the median.
"""

import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pytest
from local_spark import session
from measure import report, scaled
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import flinkbuf as fb

BATCHES = 5
COUNT = scaled(2_000_000)  # records, over all batches
RIVAL_COUNT = scaled(20_000)
LATENCY_BATCHES = 12
KEYS = 1000
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Timers(StatefulProcessor):
    """One value and one timer a record."""

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            count = self.count.get()[0] if self.count.exists() else 0
            self.count.update((count + 1,))
            self.handle.registerTimer(int(row["at"].timestamp() * 1000) + 10)
        yield from ()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(n=self.count.get()[0])

    def close(self):
        pass


def by_flinkbuf(stream):
    grouped = stream.withWatermark("at", "100 milliseconds").groupBy("key")
    return fb.transform_with_state(grouped, Timers(), "n bigint", "append", "eventTime")


def by_spark(stream):
    grouped = stream.withWatermark("at", "100 milliseconds").groupBy("key")
    return grouped.transformWithState(Timers(), "n bigint", "Append", "EventTime")


def stateless(stream):
    return stream.mapInArrow(lambda batches: batches, stream.schema)


def batch_seconds(make, count, batches=BATCHES):
    """Run a query; return how long each batch took that had records, and the seconds of the whole."""
    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    folder = Path(tempfile.mkdtemp(prefix="flinkbuf-bench-"))
    try:
        columns = (f"concat('key', id * 7919 % {KEYS}) as key", "id % 100 as value", "timestamp_millis(id) as at")
        for number in range(batches):
            rows = spark.range(count // batches * number, count // batches * (number + 1)).selectExpr(*columns)
            rows.coalesce(1).write.mode("append").parquet(str(folder / f"in-{number}"))
        (folder / "in").mkdir()
        for number in range(batches):
            (file,) = (folder / f"in-{number}").glob("*.parquet")
            file.rename(folder / "in" / f"{number:03}.parquet")
        stream = spark.readStream.schema("key string, value bigint, at timestamp").option("maxFilesPerTrigger", 1)
        query = make(stream.parquet(str(folder / "in"))).writeStream.format("noop")
        query = query.option("checkpointLocation", str(folder / "state")).outputMode("append")
        started = time.perf_counter()
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        seconds = time.perf_counter() - started
        progress = [each for each in running.recentProgress if each["numInputRows"]]
        return [each["batchDuration"] / 1000 for each in progress], seconds
    finally:
        shutil.rmtree(folder)


MAKERS = {
    "flinkbuf": (by_flinkbuf, COUNT),
    "transform_with_state": (by_spark, RIVAL_COUNT),
    "map_in_arrow": (stateless, COUNT),
}


def measure_rate(name, benchmark=None):
    make, count = MAKERS[name]
    batches, seconds = batch_seconds(make, count)
    per_batch = count // BATCHES
    report(f"tws_steady.{name}", batches[1:], per_batch, "records", benchmark=benchmark)
    report(f"tws_query.{name}", [seconds], count, "records")


def measure_latency(name, benchmark=None):
    make, _ = MAKERS[name]
    batches, _ = batch_seconds(make, 100 * LATENCY_BATCHES, LATENCY_BATCHES)
    report(f"tws_latency.{name}", [statistics.median(batches[2:])], 1, "batch", benchmark=benchmark)


@pytest.mark.parametrize("name", MAKERS)
def test_rate(benchmark, name):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_rate(name, benchmark)


@pytest.mark.parametrize("name", MAKERS)
def test_latency(benchmark, name):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_latency(name, benchmark)


if __name__ == "__main__":
    for each in MAKERS:
        measure_rate(each)
    for each in MAKERS:
        measure_latency(each)
