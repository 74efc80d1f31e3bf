"""The demo's stream on Spark: a DataFrame's rows through the program of stream.py, as a barrier stage reads them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.demo import stream
from flinkbuf.demo.query import run_query
from flinkbuf.demo.stream import Result
from flinkbuf.demo.stream_kill import run_and_kill
from flinkbuf.demo.stream_report import ColumnOutcome, StreamOutcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


EPOCH, MILLISECOND = datetime(1970, 1, 1), timedelta(milliseconds=1)


def departures(spark: SparkSession, csv: Path, schema: str, cores: int, rows: int | None = None) -> DataFrame:
    """Read the flights that really left, in the order in which they were to leave; as many partitions as cores.

    Each partition holds flights of the whole year, so that the subtasks that read them come through it side by side.
    """
    from pyspark.sql import functions as f

    frame = spark.read.csv(str(csv), header=True, schema=schema, nullValue="NA")
    if rows is not None:
        frame = frame.limit(rows)
    frame = frame.dropna(subset=["tailnum", "dep_delay"])
    minute = f.floor(frame.time_hour.cast("bigint") / 60)
    ordered = frame.repartition(cores, frame.flight).sortWithinPartitions("time_hour", "minute")
    return ordered.select(
        (minute + frame.minute + frame.dep_delay).alias("left_at"),
        frame.dep_delay.alias("delay"),
        *(frame[name] for name in ("carrier", "flight", "tailnum", "origin", "dest", "air_time")),
    ).cache()


def run_stream(flights: DataFrame, cores: int) -> StreamOutcome:
    """Run the stream on Spark, its hours over columns, all with a worker that is killed, a query, and plain Python."""
    count = flights.count()  # and into Spark's cache: reading CSV is not what is measured
    on_spark = Configuration().set_string("execution.target", "spark")
    environment = StreamExecutionEnvironment.get_execution_environment(on_spark).set_parallelism(cores)
    started = time.perf_counter()
    records = stream.results_of(environment.from_data_frame(flights)).execute_and_collect("a year of flights")
    results: list[Result] = [tuple(record) for record in records]
    seconds = time.perf_counter() - started
    columns = run_columns(flights, cores, results)
    kill = run_and_kill(flights, cores, results)
    expected = list(stream.follow(tuple(row) for row in flights.collect()))
    query = run_query(flights, cores, results)
    return StreamOutcome(results, count, seconds, sorted(results) == sorted(expected), columns, kill, query)


def run_columns(flights: DataFrame, cores: int, results: list[Result]) -> ColumnOutcome:
    """Find the hours over columns, and compare them with those of the stream of records."""
    on_spark = Configuration().set_string("execution.target", "spark")
    environment = StreamExecutionEnvironment.get_execution_environment(on_spark).set_parallelism(cores)
    started = time.perf_counter()
    with stream.hours_of(environment.from_data_frame(flights).as_columns()).execute_and_collect() as rows:
        hours = [(row.origin, (row.start - EPOCH) // MILLISECOND, row.departures, row.delay) for row in rows]
    seconds = time.perf_counter() - started
    expected = [(name, at, number, value) for kind, name, at, number, value, _ in results if kind == stream.HOUR]
    return ColumnOutcome(seconds, sorted(hours) == sorted(expected))
