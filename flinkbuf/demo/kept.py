"""The demo's result, kept in partition files by Spark's data source ``flinkbuf``, and read back from them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flinkbuf.demo.analysis import AircraftYear, Departure
from flinkbuf.partition_files.data_set import PartitionDataSet
from flinkbuf.spark.data_source.registration import register_data_source

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from rich.console import Console

# An AircraftYear; tuples of any length are arrays.
DEPARTURE_COLUMNS = (
    "`at` bigint, `month` int, `day` int, `scheduled` int, `delay` int, `carrier` string, `origin` string, "
    "`dest` string"
)
YEAR_COLUMNS = (
    "tailnum string, carrier string, departures int, cancelled int, gaps array<struct<hours: bigint, count: int>>, "
    "follow_ups int, delay int, carried int, "
    f"chains array<struct<minutes: int, departures: array<struct<{DEPARTURE_COLUMNS}>>>>"
)
SUBPARTITIONS = 16


@dataclass
class KeptOutcome:
    """What came of keeping the result.

    Attributes
    ----------
    path : Path
        The data set's directory.
    records, size : int
        What it holds, `size` in bytes.
    write_seconds, read_seconds : float
    is_equal : bool
        Whether all that was read back is what was written, and the one aircraft its part of it.
    tailnum : str
        The aircraft with most departures, which was read alone.
    departures : int
        How many it has, as read.
    subpartition_size : int
        Bytes of the one subpartition that this took.
    """

    path: Path
    records: int
    size: int
    write_seconds: float
    read_seconds: float
    is_equal: bool
    tailnum: str
    departures: int
    subpartition_size: int


def keep(spark: SparkSession, years: Iterable[AircraftYear], path: Path) -> KeptOutcome:
    """Write the years of all aircraft to `path`, in place of what an earlier run kept there, and read them back.

    Parameters
    ----------
    spark : SparkSession
    years : iterable of AircraftYear
        At least one with a departure.
    path : Path
        A directory, which may be there already.
    """
    expected = sorted(years)
    location = str(path.resolve())
    register_data_source(spark)  # PySpark does not find it where flinkbuf is installed for work on it
    started = time.perf_counter()
    frame = spark.createDataFrame(expected, YEAR_COLUMNS)
    writer = frame.write.format("flinkbuf").option("key", "tailnum").option("num_partitions", SUBPARTITIONS)
    writer.option("compression", "lz4").mode("overwrite").save(location)
    written = time.perf_counter()
    found = sorted(map(year_of, spark.read.format("flinkbuf").load(location).collect()))
    read = time.perf_counter()
    busiest = max(expected, key=lambda year: year.departures).tailnum
    # The filter is for the other aircraft of the same subpartition.
    one = spark.read.format("flinkbuf").option("keys", json.dumps([busiest])).load(location)
    alone = sorted(map(year_of, one.where(one.tailnum == busiest).collect()))
    manifest = PartitionDataSet(location).manifest()
    index = _subpartition_of(busiest, manifest.layout.max_parallelism)
    return KeptOutcome(
        path,
        manifest.record_count,
        manifest.data_size,
        written - started,
        read - written,
        found == expected and alone == [year for year in expected if year.tailnum == busiest],
        busiest,
        sum(year.departures for year in alone),
        sum(file.sizes[index] for file in manifest.files),
    )


def _subpartition_of(tailnum: str, max_parallelism: int) -> int:
    import flinkbuf as fb

    partitioner = fb.by_key("tailnum", max_parallelism=max_parallelism)
    return partitioner.selector(fb.as_type("tailnum string"), SUBPARTITIONS).select_channel((tailnum,))


def year_of(row: Row) -> AircraftYear:
    """Make an AircraftYear of a row of `YEAR_COLUMNS`."""
    values = row.asDict()
    values["gaps"] = tuple(map(tuple, row.gaps))
    values["chains"] = tuple(
        (chain.minutes, tuple(Departure(*each) for each in chain.departures)) for chain in row.chains
    )
    return AircraftYear(**values)


def print_kept(console: Console, outcome: KeptOutcome) -> None:
    """Print where the result lies, and what reading it back gave."""
    console.print(
        f"[bold]Kept[/]: {outcome.records:,} aircraft-years in {outcome.path}, {SUBPARTITIONS} subpartitions by tail "
        f"number, {outcome.size // 1024:,} KiB, written in {outcome.write_seconds:.1f} s; spark.read gave all of them "
        f"in {outcome.read_seconds:.1f} s, and the {outcome.departures:,} departures of {outcome.tailnum} out of one "
        f"subpartition of {outcome.subpartition_size // 1024:,} KiB."
    )
    if outcome.is_equal:
        console.print("What was read [green]is equal[/] to what was written.")
    else:
        console.print("[bold red]What was read differs from what was written: this is a bug in flinkbuf.[/]")
    console.print(f"[dim]python -m flinkbuf inspect {outcome.path} shows what is in it.[/]\n")
