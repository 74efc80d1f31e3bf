"""The demo's stream: the year's flights as they leave, in event time, on whatever runs the job.

    flights ── timestamps and watermarks ─┬─ by airport ── an hour's window ── departures and their mean delay
                                          └─ by aircraft ── FollowAircraft ─┬─ how long it was away, when it was parked
                                                                            └─ side output: impossible flights

A flight is a tuple of `FLIGHT`; its time is when it really left, so that late flights come out of order. Watermarks
leave a day for that: the latest flight of the year left 21.7 hours after its time. `hours_of` finds the hours once more
over columns, where no flight is an object of Python; `follow` is all of it in plain Python, for a comparison.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from flinkbuf.common import Duration, Types, WatermarkStrategy
from flinkbuf.common.time import Time
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
)
from flinkbuf.datastream.columns import ColumnStream, count, mean, window_start
from flinkbuf.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.demo.analysis import Flight

# left_at: when it left, in minutes since 1970 in UTC; air_time may be missing.
FLIGHT = (
    "left_at bigint, delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int"
)
LEFT_AT, DELAY, CARRIER, NUMBER, TAILNUM, ORIGIN, DEST, AIR_TIME = range(8)

MS_PER_MINUTE = 60_000
HOUR_MS = 60 * MS_PER_MINUTE
DISORDER = Duration.of_days(1)
PARKED_MINUTES = 7 * 24 * 60  # an aircraft that does not leave New York for so long counts as away for good
BACK_AND_FORTH = 1.6  # of the time in the air on the way out: no aircraft is back in less, not with any wind

HOUR, TRIP, PARKED, IMPOSSIBLE = "hour", "trip", "parked", "impossible"  # what a result is about
RESULT = Types.ROW_NAMED(
    ["kind", "name", "at", "number", "value", "text"],
    [Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.STRING()],
)
impossible_flights = OutputTag("impossible flights", RESULT)


Result = tuple[str, str, int, float, float, str]


class LeftAt(TimestampAssigner):
    """Event time is when a flight left."""

    def extract_timestamp(self, value: Flight, record_timestamp: int) -> int:
        """Return it in milliseconds."""
        milliseconds: int = value[LEFT_AT] * MS_PER_MINUTE
        return milliseconds


class MeanDelay(AggregateFunction):
    """Departures, and the minutes that they were late, never less than 0."""

    def create_accumulator(self) -> tuple[int, int]:
        """Return the sums of nothing."""
        return 0, 0

    def add(self, value: Flight, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Add a flight."""
        return accumulator[0] + 1, accumulator[1] + max(0, value[DELAY])

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, float]:
        """Return how many there were, and their mean delay."""
        count, minutes = accumulator
        return count, minutes / count

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        """Add two sums."""
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class NameHour(ProcessWindowFunction):
    """Says of which airport and which hour a mean delay is."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[tuple[int, float]]
    ) -> Iterator[object]:
        """Give the hour's result."""
        for departures, delay in elements:
            yield HOUR, key, context.window().start, departures, delay, ""


class FollowAircraft(KeyedProcessFunction):
    """One aircraft's departures from New York, in the order in which it made them, whatever order they arrived in.

    A departure is kept until the watermark says that no earlier one can come, and is then looked at by a timer. Each
    departure also sets a timer for a week later, which the next departure takes back.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state of an aircraft: departures that wait for their time, the last one, and its other timer."""
        self.waiting = runtime_context.get_map_state(
            MapStateDescriptor("waiting", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        )
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))
        self.parked_at = runtime_context.get_state(ValueStateDescriptor("parked at", Types.LONG()))

    def process_element(self, value: Flight, ctx: KeyedProcessFunction.Context) -> Iterator[object]:
        """Keep a departure until its time has come."""
        at = value[LEFT_AT] * MS_PER_MINUTE
        self.waiting.put(at, [*(self.waiting.get(at) or ()), value])
        ctx.timer_service().register_event_time_timer(at)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[object]:
        """Look at the departures of this minute, or at an aircraft that has not come back."""
        if timestamp == self.parked_at.value():
            self.parked_at.clear()
            yield parked(self.last.value())
        flights = self.waiting.get(timestamp)
        if flights is None:
            return
        self.waiting.remove(timestamp)
        for flight in sorted(flights, key=in_order):
            yield from self._left(flight, ctx)

    def _left(self, flight: Flight, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[object]:
        """It leaves New York: how long was it away, and can that be?"""
        last = self.last.value()
        self.last.update(flight)
        timers = ctx.timer_service()
        if self.parked_at.value() is not None:
            timers.delete_event_time_timer(self.parked_at.value())
        # A millisecond beside all departures: a key has one timer of a time, and to take this one back must not take
        # the timer of a flight that waits.
        parked_at = (flight[LEFT_AT] + PARKED_MINUTES) * MS_PER_MINUTE + 1
        self.parked_at.update(parked_at)
        timers.register_event_time_timer(parked_at)
        if last is not None:
            result = trip(last, flight)
            yield (impossible_flights, result) if result[0] == IMPOSSIBLE else result


def parked(last: Flight) -> tuple[str, str, int, int, float, str]:
    """Return that an aircraft has not left New York again for a week."""
    return PARKED, last[TAILNUM], (last[LEFT_AT] + PARKED_MINUTES) * MS_PER_MINUTE, last[LEFT_AT], 0.0, last[DEST]


def trip(last: Flight, flight: Flight) -> tuple[str, str, int, int, float, str]:
    """Return what two departures of an aircraft in a row say: how long it was away, or that this cannot be."""
    away = flight[LEFT_AT] - last[LEFT_AT]
    at = flight[LEFT_AT] * MS_PER_MINUTE
    if last[AIR_TIME] is not None and away < BACK_AND_FORTH * last[AIR_TIME]:
        text = f"{last[ORIGIN]}-{last[DEST]} {last[CARRIER]} {last[NUMBER]}, then {flight[ORIGIN]}-{flight[DEST]}"
        text += f" {flight[CARRIER]} {flight[NUMBER]}"
        return IMPOSSIBLE, flight[TAILNUM], at, away, BACK_AND_FORTH * last[AIR_TIME], text
    return TRIP, flight[TAILNUM], at, away, 0.0, last[DEST]


def in_order(flight: Flight) -> tuple[object, ...]:
    """Return what flights are sorted by; in the same minute, when no aircraft leaves twice, the same in every run."""
    return flight[LEFT_AT], flight[NUMBER], flight[ORIGIN], flight[DEST]


def _origin(flight: Flight) -> str:
    origin: str = flight[ORIGIN]
    return origin


def _tailnum(flight: Flight) -> str:
    tailnum: str = flight[TAILNUM]
    return tailnum


def results_of(flights: DataStream) -> DataStream:
    """Return all that is found out of a stream of flights, as one stream of `RESULT`."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER).with_timestamp_assigner(LeftAt())
    timed = flights.assign_timestamps_and_watermarks(strategy).name("event time")
    hours = (
        timed.key_by(_origin, Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .aggregate(MeanDelay(), NameHour(), output_type=RESULT)
        .name("hours by airport")
    )
    aircraft = timed.key_by(_tailnum, Types.STRING()).process(FollowAircraft(), RESULT).name("follow aircraft")
    return hours.union(aircraft, aircraft.get_side_output(impossible_flights))


def hours_of(flights: ColumnStream) -> ColumnStream:
    """Return departures and mean delay by airport and hour, as `results_of` gives them, of flights as columns."""
    import pyarrow.compute as pc

    timed = flights.select(
        "origin",
        at=lambda batch: pc.multiply(batch["left_at"], MS_PER_MINUTE),
        late=lambda batch: pc.max_element_wise(batch["delay"], 0),
    ).assign_timestamps_and_watermarks("at", WatermarkStrategy.for_bounded_out_of_orderness(DISORDER))
    hours = timed.key_by("origin").window(TumblingEventTimeWindows.of(Time.hours(1)))
    return hours.aggregate(start=window_start(), departures=count(), delay=mean("late"))


def follow(flights: Iterable[Flight]) -> Iterator[tuple[str, str, int, int, float, str]]:
    """Find the same in plain Python, all flights in memory."""
    hours: dict[tuple[str, int], list[int]] = defaultdict(list)
    aircraft: dict[str, list[Flight]] = defaultdict(list)
    for flight in flights:
        at = flight[LEFT_AT] * MS_PER_MINUTE
        hours[flight[ORIGIN], at - at % HOUR_MS].append(max(0, flight[DELAY]))
        aircraft[flight[TAILNUM]].append(flight)
    for (origin, start), delays in hours.items():
        yield HOUR, origin, start, len(delays), sum(delays) / len(delays), ""
    for departures in aircraft.values():
        departures.sort(key=in_order)
        following: list[Flight | None] = [*departures[1:], None]
        for last, after in zip(departures, following, strict=True):
            if after is None or after[LEFT_AT] - last[LEFT_AT] > PARKED_MINUTES:
                yield parked(last)
            if after is not None:
                yield trip(last, after)
