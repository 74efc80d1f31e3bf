"""A query of Structured Streaming with state in Python: flights from another airport than the one before to a place.

    pip install 'flinkbuf[spark]'
    python examples/stateful_query.py [--batches 4]

Flights come as files, as they would from any source of Spark, a file in a micro-batch. For each place the query keeps
where the last flight to it left from, and how many there were. What it finds goes to Parquet by Spark's own sink. In
the middle the query is stopped and started again: it goes on from its checkpoint, and each flight counts once. Beside
it stands the same in plain Python.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # a tree that is built in place

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

import flinkbuf as fb
from flinkbuf.demo import FLIGHTS
from flinkbuf.spark.java import use_java

COLUMNS = ["departed", "origin", "dest", "carrier", "flight", "tailnum", "delay"]
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Changes(StatefulProcessor):
    """Spark's interface: the same class runs in df.groupBy(...).transformWithState(...)."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "origin string, flights bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in sorted(rows):
            origin, flights = self.last.get() or (row.origin, 0)
            self.last.update((row.origin, flights + 1))
            if origin != row.origin:
                yield Row(dest=key[0], before=origin, now=row.origin, flights=flights + 1)

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=4)
    batches = parser.parse_args().batches
    with open(FLIGHTS, newline="") as file:
        flights = sorted(list(csv.reader(file))[1:])
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    with tempfile.TemporaryDirectory() as folder:
        found = run(spark, flights, batches, Path(folder))
    spark.stop()
    expected = in_plain_python(flights)
    assert found == expected, (found, expected)
    for dest, before, now, count in found[:5]:
        print(f"{dest}: flight {count} leaves from {now}, and the one before from {before}")
    print(f"{len(found)} changes in {len(flights)} flights; plain Python says the same")


def run(spark: SparkSession, flights: list[list[str]], batches: int, folder: Path) -> list[tuple[Any, ...]]:
    """Run the query twice, the second time over what came meanwhile; return what it found."""
    schema = ", ".join(f"{column} string" for column in COLUMNS)
    (folder / "in").mkdir()
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(folder / "in"))
    size = -(-len(flights) // batches)
    for some in (range(batches // 2), range(batches // 2, batches)):
        for number in some:
            with open(folder / "in" / f"{number:03}.csv", "w", newline="") as file:
                csv.writer(file).writerows(flights[number * size : (number + 1) * size])
            os.utime(file.name, (1e9 + number, 1e9 + number))  # files are read in the order of their times
        schema_of_output = "dest string, before string, now string, flights bigint"
        changes = fb.transform_with_state(stream.groupBy("dest"), Changes(), schema_of_output)
        query = changes.writeStream.format("parquet").option("checkpointLocation", str(folder / "state"))
        query.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return sorted(map(tuple, spark.read.parquet(str(folder / "out")).collect()))


def in_plain_python(flights: list[list[str]]) -> list[tuple[Any, ...]]:
    """Return the same, with a dict."""
    last: dict[str, tuple[str, int]] = {}
    found = []
    for _, origin, dest, *_ in flights:
        before, count = last.get(dest, (origin, 0))
        last[dest] = origin, count + 1
        if before != origin:
            found.append((dest, before, origin, count + 1))
    return sorted(found)


if __name__ == "__main__":
    main()
