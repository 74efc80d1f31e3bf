"""The demo's query of Structured Streaming: aircraft are followed by a processor with state, and the query is stopped.

    files of flights ── readStream ── groupBy(tailnum) ── fb.transform_with_state ── Parquet, by Spark's own sink

Each file is a part of the year and a batch of the query. The query is stopped when half of the files are read, and is
started again from its checkpoint for the others: what it knows of an aircraft by then it has from there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.java_gateway import JVMView
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import flinkbuf as fb
from flinkbuf.demo.analysis import Flight
from flinkbuf.demo.stream import FLIGHT, IMPOSSIBLE, RESULT, TRIP, Result, in_order, trip
from flinkbuf.demo.stream_report import QueryOutcome

OUTPUT = "kind string, name string, at bigint, number bigint, value double, text string"
TRIPS = Row(*RESULT.get_field_names())
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BATCHES = 4


class FollowTrips(StatefulProcessor):
    """What two departures of an aircraft in a row say; the last one is kept from batch to batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the state of an aircraft."""
        self.last = handle.getValueState("last", FLIGHT)

    def handleInputRows(self, key: object, rows: Iterable[Flight], timerValues: object) -> Iterator[Row]:
        """Look at the departures of this batch."""
        last: Flight | None = self.last.get()
        for flight in sorted(rows, key=in_order):
            if last is not None:
                yield TRIPS(*trip(last, flight))
            last = flight
        if last is not None:
            self.last.update(tuple(last))

    def close(self) -> None:
        """Do nothing: there is nothing open."""


@contextmanager
def silent_driver(session: SparkSession) -> Iterator[None]:
    """Have the JVM print nothing: Spark's worker for such a query in the driver tells of each of its steps there."""
    jvm: JVMView = session.sparkContext._jvm
    before = jvm.java.lang.System.err
    jvm.java.lang.System.setErr(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
    try:
        yield
    finally:
        jvm.java.lang.System.setErr(before)


def run_query(flights: DataFrame, cores: int, results: list[Result]) -> QueryOutcome:
    """Run the query in two halves, and compare what its files hold with the trips of the stream."""
    session = flights.sparkSession.newSession()  # settings of its own
    session.conf.set("spark.sql.shuffle.partitions", cores)
    session.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    first, last = flights.agg(f.min("left_at"), f.max("left_at")).first() or (0, 0)
    part = f.floor((flights.left_at - first) * BATCHES / (last - first + 1))
    with TemporaryDirectory() as folder:
        source, sink, state = (str(Path(folder, name)) for name in ("flights", "trips", "state"))
        Path(source).mkdir()
        parts = session.readStream.schema(FLIGHT).option("maxFilesPerTrigger", 1).parquet(source)
        trips = fb.transform_with_state(parts.groupBy("tailnum"), FollowTrips(), OUTPUT)
        seconds, batches = 0.0, 0
        for half in (range(BATCHES // 2), range(BATCHES // 2, BATCHES)):
            for number in half:
                flights.where(part == number).coalesce(1).write.mode("append").parquet(source)
            started = time.perf_counter()
            query = trips.writeStream.format("parquet").option("checkpointLocation", state)
            with silent_driver(session):
                run = query.trigger(availableNow=True).start(sink)
                run.awaitTermination()
            seconds += time.perf_counter() - started
            batches = (run.lastProgress or {"batchId": -1})["batchId"] + 1
        found = [tuple(row) for row in session.read.schema(OUTPUT).parquet(sink).collect()]
    expected = [result for result in results if result[0] in (TRIP, IMPOSSIBLE)]
    return QueryOutcome(seconds, batches, len(found), sorted(found) == sorted(expected))
