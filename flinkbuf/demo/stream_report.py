"""What the demo's stream found: a table in the terminal, and its picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from rich.console import Console
from rich.table import Table

from flinkbuf.demo.report import DELAY_COLORS, GRID, MUTED, OURS, STYLE, duration
from flinkbuf.demo.stream import HOUR, IMPOSSIBLE, PARKED, TRIP, Result
from flinkbuf.demo.stream_kill import CHECKPOINT_EVERY_MS, KillOutcome

NEW_YORK = ZoneInfo("America/New_York")
FEWEST_DEPARTURES = 5  # an hour with less has no mean worth showing
WORST_SHOWN = 6
MS_PER_DAY = 86_400_000


@dataclass
class ColumnOutcome:
    """What the hours took over columns, and whether they are those of the records."""

    seconds: float
    is_equal: bool


@dataclass
class QueryOutcome:
    """What the query of Structured Streaming took.

    Attributes
    ----------
    seconds : float
        Of both halves, from their start until their end.
    batches : int
    trips : int
        Rows in its files.
    is_equal : bool
        Whether these are the trips of the stream.
    """

    seconds: float
    batches: int
    trips: int
    is_equal: bool


@dataclass
class StreamOutcome:
    """The results of the stream, and what they took.

    Attributes
    ----------
    results : list
        Tuples of `flinkbuf.demo.stream.RESULT`.
    flights : int
    seconds : float
        From the first record asked of Spark to the last result.
    is_equal : bool
        Whether plain Python found the same.
    columns : ColumnOutcome
        What came of the hours over columns.
    kill : KillOutcome
        What came of another run, in which a worker was killed.
    query : QueryOutcome
        What came of the query of Structured Streaming.
    """

    results: list[Result]
    flights: int
    seconds: float
    is_equal: bool
    columns: ColumnOutcome
    kill: KillOutcome
    query: QueryOutcome

    def of_kind(self, kind: str) -> list[Result]:
        """Return the results of one kind."""
        return [result for result in self.results if result[0] == kind]


def local_time(milliseconds: int) -> datetime:
    """Return a moment as a clock in New York shows it."""
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).astimezone(NEW_YORK)


def print_stream_report(console: Console, outcome: StreamOutcome) -> None:
    """Print what the stream found."""
    console.print(
        f"[bold]The same year as a stream[/]: {outcome.flights:,} departures in event time, by airport and by aircraft,"
        f" in {outcome.seconds:.1f} s ({outcome.flights / outcome.seconds / 1000:,.0f} thousand a second)\n"
    )
    _print_hours(console, outcome.of_kind(HOUR))
    _print_columns(console, outcome.columns, outcome.flights)
    _print_impossible(console, outcome.of_kind(IMPOSSIBLE))
    counts = Counter(result[0] for result in outcome.results)
    if outcome.is_equal:
        console.print(
            f"A plain loop over all flights found the same: [green]{counts[HOUR]:,} hours, {counts[TRIP]:,} trips, "
            f"{counts[PARKED]:,} aircraft away for a week, {counts[IMPOSSIBLE]:,} impossible flights are equal[/].\n"
        )
    else:
        console.print("[bold red]A plain loop found something else: this is a bug in flinkbuf.[/]\n")
    _print_kill(console, outcome.kill, len(outcome.results))
    _print_query(console, outcome.query, outcome.flights)


def _print_columns(console: Console, columns: ColumnOutcome, flights: int) -> None:
    rate = (
        f"{columns.seconds:.1f} s, {flights / columns.seconds / 1000:,.0f} thousand flights a second with Spark's stage"
    )
    if columns.is_equal:
        console.print(f"Over [bold]columns[/], without an object for a flight: [green]the same hours[/] in {rate}.\n")
    else:
        console.print(f"[bold red]Over columns other hours came out ({rate}): this is a bug in flinkbuf.[/]\n")


def _print_kill(console: Console, kill: KillOutcome, results: int) -> None:
    console.print(f"[bold]Once more, and killed[/]: a checkpoint every {CHECKPOINT_EVERY_MS} ms, results into files")
    if kill.process_id:
        again = f"from checkpoint {kill.checkpoint}" if kill.checkpoint else "from the beginning"
        console.print(
            f"After {kill.after:.1f} s worker {kill.process_id} got a SIGKILL; {kill.recovery:.1f} s later all tasks "
            f"ran again, {again}. The job took {kill.seconds:.1f} s and {kill.checkpoints:,} checkpoints."
        )
    else:
        console.print(f"It was done before a worker could be killed, after {kill.checkpoints:,} checkpoints.")
    if kill.is_equal:
        console.print(f"Its files hold the same: [green]{results:,} results, each of them once, are equal[/].\n")
    else:
        console.print("[bold red]Its files hold something else: this is a bug in flinkbuf.[/]\n")


def _print_query(console: Console, query: QueryOutcome, flights: int) -> None:
    console.print(
        "[bold]As a query of Structured Streaming[/]: fb.transform_with_state follows the aircraft, Spark's own sink "
        f"writes Parquet. {query.batches} batches in {query.seconds:.1f} s ({flights / query.seconds / 1000:,.0f} "
        "thousand flights a second), stopped in the middle and started again."
    )
    if query.is_equal:
        console.print(f"Its files hold the same: [green]{query.trips:,} trips, each of them once, are equal[/].\n")
    else:
        console.print("[bold red]Its files hold other trips: this is a bug in flinkbuf.[/]\n")


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head, no_wrap=True, justify="right" if head in ("departures", "delay", "away") else "left")
    return table


def _print_hours(console: Console, hours: list[Result]) -> None:
    worst = sorted((hour for hour in hours if hour[3] >= FEWEST_DEPARTURES), key=lambda hour: -hour[4])
    table = _table("airport", "hour", "departures", "delay")
    for _, airport, start, count, delay, _ in worst[:WORST_SHOWN]:
        table.add_row(airport, f"{local_time(start):%d %b %H:00}", str(count), f"[red]{delay:.0f} min[/]")
    console.print("[bold]The worst hours[/]: a window of an hour by airport")
    console.print(table)
    console.print()


def _print_impossible(console: Console, flights: list[Result]) -> None:
    table = _table("aircraft", "at", "away", "flights")
    for _, tailnum, at, away, _, text in sorted(flights, key=lambda flight: flight[3] / flight[4])[:WORST_SHOWN]:
        table.add_row(tailnum, f"{local_time(at):%d %b %H:%M}", duration(round(away)), text)
    console.print(
        "[bold]Impossible flights[/]: the aircraft left New York again before it can have been back (side output)"
    )
    console.print(table)
    console.print()


def draw_stream(outcome: StreamOutcome, path: Path) -> Path:
    """Draw the year into a PNG file and return its path."""
    with pyplot.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, hspace=0.04, wspace=0.04)
        figure = pyplot.figure(figsize=(14, 9), dpi=130, layout=layout)
        grid = figure.add_gridspec(2, 2, height_ratios=(1.1, 1))
        _draw_year(figure.add_subplot(grid[0, :]), outcome.of_kind(HOUR))
        _draw_impossible(figure.add_subplot(grid[1, 0]), outcome)
        _draw_parked(figure.add_subplot(grid[1, 1]), outcome.of_kind(PARKED))
        title = f"A year of {outcome.flights:,} departures as a stream: windows, timers, a side output"
        figure.suptitle(title, x=0.012, ha="left", fontsize=17, fontweight="bold")
        figure.savefig(path, facecolor="white")
        pyplot.close(figure)
    return path


def mean_delays(hours: Iterable[Result]) -> np.ndarray:
    """Return mean delays by hour of the day (24 rows) and day of the year (365 columns), all airports together."""
    minutes, departures = np.zeros((24, 365)), np.zeros((24, 365))
    for _, _, start, count, delay, _ in hours:
        at = local_time(start)
        if at.year == 2013:
            place = at.hour, at.timetuple().tm_yday - 1
            minutes[place] += count * delay
            departures[place] += count
    with np.errstate(invalid="ignore"):
        return np.where(departures >= FEWEST_DEPARTURES, minutes / departures, np.nan)


def _draw_year(axes: Axes, hours: list[Result]) -> None:
    image = axes.imshow(mean_delays(hours), aspect="auto", origin="lower", cmap=DELAY_COLORS, vmin=0, vmax=120)
    months = [datetime(2013, month, 1) for month in range(1, 13)]
    axes.set_xticks([month.timetuple().tm_yday - 1 for month in months], [f"{month:%b}" for month in months])
    axes.set_yticks(range(0, 24, 4), [f"{hour:02d}:00" for hour in range(0, 24, 4)])
    axes.set_title("Every hour of the year: mean delay at departure")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01, extend="max")
    bar.outline.set_visible(False)
    bar.set_label("minutes")


def _draw_impossible(axes: Axes, outcome: StreamOutcome) -> None:
    flights = outcome.of_kind(IMPOSSIBLE)
    axes.scatter([flight[4] / 60 for flight in flights], [flight[3] / 60 for flight in flights], s=22, color=OURS)
    most = max((flight[4] / 60 for flight in flights), default=1)
    axes.plot([0, most], [0, most], color=MUTED, linewidth=1)
    axes.text(most, most, "just possible ", ha="right", va="bottom", color=MUTED)
    axes.set_title(f"{len(flights):,} impossible flights: back before they can be (side output)")
    axes.set_xlabel("hours that it takes at least, there and back")
    axes.set_ylabel("hours until the aircraft left New York again", color=MUTED)
    _clean(axes)


def _draw_parked(axes: Axes, parked: list[Result]) -> None:
    places = Counter(result[5] for result in parked).most_common(12)[::-1]
    bars = axes.barh([place for place, _ in places], [count for _, count in places], color=OURS, height=0.68)
    axes.bar_label(bars, fmt="{:,.0f}", padding=5, color=MUTED, fontsize=9)
    axes.set_title("Gone for a week or more: where to (a timer each)")
    axes.set_xlabel("departures")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _clean(axes)


def _clean(axes: Axes) -> None:
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
