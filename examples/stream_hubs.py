"""One stream program, run twice: on processes of this machine, and on Spark from a DataFrame into a DataFrame.

    pip install 'flinkbuf[demo]'
    python examples/stream_hubs.py [--flights 50000] [--parallelism 2] [--without-spark]

Where a flight goes is the key, and a day is the window: how many flights left New York for an airport on that day, and
how late they were in the mean. `days_of` says that, and does not know where it runs. Without Spark the flights come
from a function and the results go to a list of the program; with Spark they come from a DataFrame, whose partitions the
stream's subtasks read, and go on as a DataFrame to Spark's SQL. Both give the same.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # a tree that is built in place

from flinkbuf.common import Configuration, Duration, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    DataStream,
    FilterFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.demo.analysis import data_folder

COLUMNS = ("time_hour", "dest", "dep_delay")  # all of them texts, as in the file
TIME_HOUR, DEST, DELAY = range(3)
FEWEST = 20  # departures of a day that is worth telling
NEW_YORK = Time.hours(5)  # a day there begins at 5:00 UTC, in winter
DAY = Types.ROW_NAMED(
    ["day", "dest", "departures", "mean_delay"], [Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()]
)


class Left(FilterFunction):
    """Only flights that were not cancelled; an accumulator counts the others, over all subtasks."""

    def open(self, runtime_context: Any) -> None:
        self.cancelled = runtime_context.get_int_counter("cancelled")

    def filter(self, flight: Any) -> bool:
        if flight[DELAY] == "NA":
            self.cancelled.add(1)
            return False
        return True


class Scheduled(TimestampAssigner):
    """Event time is the hour in which a flight was to leave."""

    def extract_timestamp(self, flight: Any, record_timestamp: int) -> int:
        return int(datetime.fromisoformat(flight[TIME_HOUR].replace("Z", "+00:00")).timestamp() * 1000)


class Mean(AggregateFunction):
    """Counts flights, and adds up their delays."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, flight: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + int(flight[DELAY])

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, float]:
        return accumulator[0], accumulator[1] / accumulator[0]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class WithDay(ProcessWindowFunction):
    """Says of which airport and which day a mean is."""

    def process(self, dest: str, context: Any, means: Iterable[tuple[int, float]]) -> Iterator[Any]:
        day = datetime.fromtimestamp(context.window().start / 1000, timezone.utc).date()
        for count, mean in means:
            yield str(day), dest, count, mean


def days_of(flights: DataStream) -> DataStream:
    """The program: the same wherever it runs."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).with_timestamp_assigner(Scheduled())
    return (
        flights.filter(Left())
        .name("left")
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda flight: flight[DEST], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.days(1), NEW_YORK))
        .aggregate(Mean(), WithDay(), output_type=DAY)
        .name("days")
    )


def reader_of(path: str) -> Callable[[], Iterator[tuple[str, ...]]]:
    """Return a function that reads the flights, wherever it is called."""

    def read() -> Iterator[tuple[str, ...]]:
        with open(path, newline="") as file:
            rows = csv.reader(file)
            next(rows)
            yield from map(tuple, rows)

    return read


def on_processes(path: str, parallelism: int) -> list[tuple[Any, ...]]:
    """Run it beside this process."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("execution.target", "local"))
    env.set_parallelism(parallelism)
    days: list[Any] = []
    days_of(env.add_source(reader_of(path), "flights")).add_sink(days.append)  # this very list, in this process
    result = env.execute("days of destinations")
    print(f"cancelled flights: {result.get_accumulator_result('cancelled'):,}")
    return [tuple(day) for day in days]


def on_spark(path: str, parallelism: int) -> list[tuple[Any, ...]]:
    """Run it between two DataFrames; Spark runs it when it computes the second."""
    spark = start_spark(parallelism)
    flights = spark.read.csv(path, header=True).repartitionByRange(parallelism, "time_hour")
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("execution.target", "spark"))
    env.set_parallelism(parallelism)
    days = days_of(env.from_data_frame(flights.sortWithinPartitions("time_hour"))).to_data_frame().cache()
    worst = days.where(f"departures >= {FEWEST}").orderBy("mean_delay", ascending=False).limit(5)
    print("day         to   departures  minutes late, in the mean")
    for row in worst.collect():
        print(f"{row.day}  {row.dest} {row.departures:11,} {row.mean_delay:14.1f}")
    return [tuple(row) for row in days.collect()]


def start_spark(cores: int) -> Any:
    """Start Spark on this machine, with the Python that runs this program."""
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.host", "127.0.0.1")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def write_flights(path: str, count: int | None) -> None:
    """Write the flights, day by day, with the columns that are needed; the data set has October after January."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        take = itemgetter(*map(next(rows).index, COLUMNS))
        flights = sorted(map(take, rows), key=itemgetter(TIME_HOUR))
    with open(path, "w", newline="") as out:
        csv.writer(out).writerows([COLUMNS, *islice(flights, count)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, metavar="N", help="only the first N (default: all 336,776)")
    parser.add_argument("--parallelism", type=int, default=2, metavar="N", help="subtasks, and processes (default: 2)")
    parser.add_argument("--without-spark", action="store_true", help="only on processes of this machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "flights.csv"))
        write_flights(path, options.flights)
        started = time.perf_counter()
        local = on_processes(path, options.parallelism)
        print(f"local processes: {len(local):,} days of airports, {time.perf_counter() - started:.1f} s")
        if options.without_spark:
            return
        spark = on_spark(path, options.parallelism)
        print(f"Spark: {len(spark):,} days of airports, {'the same' if sorted(spark) == sorted(local) else 'OTHERS'}")


if __name__ == "__main__":
    main()
