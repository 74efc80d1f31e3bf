"""Runs a query, and says what of its results is to be compared."""

import csv
import hashlib
import importlib
import shutil
import tempfile
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from flinkbuf.common import Configuration, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import RuntimeExecutionMode, SinkFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import ColumnStream
from nexmark.column_events import NexmarkColumnSource
from nexmark.events import LATENESS
from nexmark.queries import q13
from nexmark.source import NexmarkSource

NAMES = [f"q{number}" for number in range(24)]
AS_COLUMNS = [name for name in NAMES if Path(__file__).with_name("columns").joinpath(f"{name}.py").exists()]


class EventTime(TimestampAssigner):
    """An event's own time."""

    def extract_timestamp(self, event, record_timestamp):
        return event.date_time


class Discarding(SinkFunction):
    """Drops what comes."""

    def invoke(self, value):
        pass


def environment(target="local", parallelism=1, mode="streaming", backend="hashmap", **options):
    """Return an environment; options are Flink's, with underscores for dots."""
    configuration = Configuration().set_string("execution.target", target).set_string("state.backend.type", backend)
    for name, value in options.items():
        configuration.set_string(name.replace("__", "-").replace("_", "."), str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    env.add_python_file(str(Path(__file__).parents[1]))  # functions find this package there, wherever they run
    return env.set_runtime_mode(RuntimeExecutionMode[mode.upper()])


def events_of(env, events, **options):
    """Return the stream of so many events, with their times; options are those of the source."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(LATENESS).with_timestamp_assigner(EventTime())
    return env.from_source(NexmarkSource(events, **options), strategy, "nexmark")


def blocks_of(env, events, **options):
    """Return the stream of so many events in blocks of column batches; options are those of the source."""
    return env.from_source(NexmarkColumnSource(events, **options), WatermarkStrategy.no_watermarks(), "nexmark")


@contextmanager
def query_of(name, events, form="queries"):
    """Make a query of the events; gives what the query returns, and where its files are (q10, else None).

    "src" is none: the events alone. The form is "queries", of records, or "columns", of blocks.
    """
    if name == "src":
        yield events.map(list) if form == "columns" else events, None  # all batches of a block, as if they were read
        return
    query = importlib.import_module(f"nexmark.{form}.{name}").query
    folder = Path(tempfile.mkdtemp(prefix="nexmark-"))
    try:
        if name == "q10":
            yield query(events, str(folder)), folder
        elif name == "q13":
            yield query(events, str(side_input(folder))), None
        else:
            yield query(events), None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def side_input(folder):
    """Write the table of q13."""
    path = folder / "side_input.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows((number, number) for number in range(q13.ROWS))
    return path


def results_of(name, stream_of_events, form="queries"):
    """Run a query and return all its results."""
    with query_of(name, stream_of_events, form) as (results, folder):
        if folder is None:
            with results.execute_and_collect(name) as rows:
                return list(rows)
        stream_of_events.get_execution_environment().execute(name)
        return read_files(folder)


def read_files(folder):
    """Return the lines of all files below a folder, each with the directory it is in."""
    parts = [part for part in folder.rglob("part-*") if part.is_file()]
    return [(str(part.parent.relative_to(folder)), line) for part in parts for line in part.read_text().splitlines()]


def run_without_results(name, stream_of_events, form="queries"):
    """Run a query whose results nobody wants; batches of columns are not made records for that."""
    with query_of(name, stream_of_events, form) as (results, folder):
        if isinstance(results, ColumnStream):
            results = results.flat_map_batches(lambda batch: None).as_records()
        if folder is None:
            results.add_sink(Discarding())
        stream_of_events.get_execution_environment().execute(name)


# By what a later result takes the place of an earlier one, where a query corrects itself.
CORRECTED_BY = {
    "q4": lambda row: row[0],  # category
    "q9": lambda row: row[0],  # auction
    "q15": lambda row: row[0],  # day
    "q16": lambda row: row[:2],  # channel and day
    "q17": lambda row: row[:2],  # auction and day
    "q18": lambda row: (row[1], row[0]),  # bidder and auction
    "q19": lambda row: (row[0], row[7]),  # auction and rank
}


def final(name, rows):
    """Return what is left of results when all corrections were made, in order; of q12 how many bids there were."""
    if name == "q12":
        return [(sum(row[1] for row in rows),)]
    rows = [tuple(map(as_in_records, row)) for row in rows]
    if name in CORRECTED_BY:
        rows = {CORRECTED_BY[name](row): row for row in rows}.values()
    return sorted(rows)


def as_in_records(field):
    """Return a field as records have it: a time of a column is milliseconds since 1970."""
    if not isinstance(field, datetime):
        return field
    return round(field.replace(tzinfo=timezone.utc).timestamp() * 1000)


def digest(rows):
    """Return a few hex digits that differ if results do."""
    return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]
