"""What the demo shows: its tables in the terminal and its picture."""

from argparse import Namespace
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")  # a file, no window

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from rich.console import Console
from rich.table import Table

from flinkbuf.demo.analysis import (
    LATE_MINUTES,
    CarrierYear,
    Departure,
    Outcome,
    airline_names,
    by_carrier,
    worst_chains,
)

INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e7eb"
FEWEST_FOLLOW_UPS = 100  # a carrier with less has no mean worth showing
OURS, THEIRS = "#d9480f", "#9aa5b1"
DELAY_COLORS = "YlOrRd"
STYLE: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "axes.edgecolor": GRID,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 12,
    "axes.titlepad": 12,
    "font.family": "DejaVu Sans",
}


def clock(minutes: int) -> str:
    """Return minutes since midnight as 07:05."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def duration(minutes: int) -> str:
    """Return minutes as 3 h 05."""
    return f"{minutes // 60} h {minutes % 60:02d}"


def short_names() -> dict[str, str]:
    """Return the airlines' names without what kind of company they are."""
    return {
        code: " ".join(word for word in name.split() if word not in ("Inc.", "Co.", "Corporation"))
        for code, name in airline_names().items()
    }


def print_report(console: Console, outcome: Outcome, options: Namespace) -> None:
    """Print what was found, and how long each way took."""
    aircraft = len({year.tailnum for year in outcome.years})
    console.print(f"\n[bold]{outcome.flights:,} flights of {aircraft:,} aircraft out of New York in 2013[/]\n")
    _print_carriers(console, by_carrier(outcome.years))
    _print_chains(console, outcome)
    _print_speed(console, outcome, options)
    if outcome.is_equal:
        console.print(f"All ways found the same: [green]{len(outcome.years):,} aircraft-years are equal[/].\n")
    else:
        console.print("[bold red]The ways found different results: this is a bug in flinkbuf.[/]\n")


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))


def _print_carriers(console: Console, carriers: list[CarrierYear]) -> None:
    names = short_names()
    table = _table()
    table.add_column("carrier", no_wrap=True)
    for head in ("aircraft", "flown", "cancelled", "away", "follow-ups", "delay", "carried"):
        table.add_column(head, justify="right", no_wrap=True)
    if console.width >= 100:
        table.add_column("")
    for c in carriers:
        has_enough = c.follow_ups >= FEWEST_FOLLOW_UPS
        cells = [
            names.get(c.carrier, c.carrier),
            f"{c.aircraft:,}",
            f"{c.departures:,}",
            f"{c.cancelled:,}",
            f"{c.median_gap} h" if c.gaps else "–",
            f"{c.follow_ups:,}",
            f"{c.delay / c.follow_ups:.1f} min" if has_enough else "–",
            f"{c.carried_share:.0%}" if has_enough else "–",
        ]
        if console.width >= 100:
            cells.append(f"[{OURS}]{'█' * round(20 * c.carried_share * has_enough)}[/]")
        table.add_row(*cells)
    console.print("[bold]Each aircraft's year, added up by carrier[/]")
    console.print(table)
    console.print(
        "[dim]away: median time between two departures of an aircraft from New York. follow-ups: departures with one "
        "before on the same day. delay: their mean delay. carried: the part of that delay which the aircraft already "
        "had at the departure before. Flights cancelled before an aircraft was assigned are left out.[/]\n"
    )


def _print_chains(console: Console, outcome: Outcome) -> None:
    is_narrow = console.width < 100
    names = {} if is_narrow else short_names()
    table = _table()
    for head in ("aircraft", "carrier", "day"):
        table.add_column(head, no_wrap=True)
    table.add_column("delay", justify="right", no_wrap=True)
    table.add_column("departures: scheduled, minutes late", no_wrap=True)
    per_line = 2 if is_narrow else 3
    for minutes, tailnum, chain in worst_chains(outcome.years, 8):
        first = chain[0]
        steps = [f"{d.origin}-{d.dest} {clock(d.scheduled)} [red]+{d.delay}[/]" for d in chain]
        lines = [" → ".join(steps[start : start + per_line]) for start in range(0, len(steps), per_line)]
        day = f"{date(2013, first.month, first.day):%d %b}"
        table.add_row(tailnum, names.get(first.carrier, first.carrier), day, duration(minutes), " →\n".join(lines))
    console.print(f"[bold]The worst chains: departures in a row, each {LATE_MINUTES} minutes late or more[/]")
    console.print(table)
    console.print()


def _print_speed(console: Console, outcome: Outcome, options: Namespace) -> None:
    table = _table()
    table.add_column("", no_wrap=True)
    works = (("move the flights", outcome.move_seconds), ("the whole job", outcome.job_seconds))
    for label, _ in works:
        table.add_column(label, justify="right", no_wrap=True, min_width=18)
        table.add_column("", justify="right", min_width=6)
    for name in outcome.job_seconds:
        cells = []
        for _, seconds in works:
            ratio = seconds["partitionBy"] / seconds[name]
            cells += [f"{seconds[name]:.2f} s", f"[bold]{ratio:.1f} ×[/]" if name != "partitionBy" else ""]
        table.add_row(name, *cells)
    cores = "core" if options.cores == 1 else "cores"
    console.print(f"[bold]The same job all ways[/] on {options.cores} {cores}, the best of {outcome.rounds} rounds")
    console.print(table)
    console.print()


def draw(outcome: Outcome, path: Path) -> Path:
    """Draw the four panels into a PNG file and return its path."""
    carriers = by_carrier(outcome.years)
    with pyplot.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, hspace=0.04, wspace=0.04)
        figure = pyplot.figure(figsize=(14, 10), dpi=130, layout=layout)
        axes = figure.subplots(2, 2, width_ratios=(1, 1.15), height_ratios=(1.2, 1))
        _draw_carried(axes[0, 0], carriers)
        _draw_chains(axes[0, 1], outcome)
        _draw_gaps(axes[1, 0], carriers)
        _draw_speed(axes[1, 1], outcome)
        figure.suptitle(
            f"A year of {outcome.flights:,} flights out of New York, aircraft by aircraft",
            x=0.012,
            ha="left",
            fontsize=17,
            fontweight="bold",
        )
        figure.savefig(path, facecolor="white")
        pyplot.close(figure)
    return path


def _clean(axes: Axes, grid: Literal["x", "y"]) -> None:
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_carried(axes: Axes, carriers: list[CarrierYear]) -> None:
    names = short_names()
    shown = sorted((c for c in carriers if c.follow_ups >= FEWEST_FOLLOW_UPS), key=lambda c: c.carried_share)
    shares = [100 * c.carried_share for c in shown]
    bars = axes.barh([names.get(c.carrier, c.carrier) for c in shown], shares, color=OURS, height=0.68)
    labels = [f"{share:.0f} %  of {c.delay / 60:,.0f} h" for share, c in zip(shares, shown, strict=True)]
    axes.bar_label(bars, labels, padding=5, color=MUTED, fontsize=9)
    axes.set_title("How much of its delay an aircraft brings along")
    axes.set_xlabel("delay it already had at its departure before on the same day, of all delay")
    axes.set_xlim(0, max(shares, default=1) * 1.32)
    axes.xaxis.set_major_formatter("{x:.0f} %")
    _clean(axes, "x")


def _draw_chains(axes: Axes, outcome: Outcome) -> None:
    worst = worst_chains(outcome.years, 10)[::-1]
    largest = max((d.delay for _, _, chain in worst for d in chain), default=1)
    for row, (_, _, chain) in enumerate(worst):
        hours = [d.scheduled / 60 for d in chain]
        axes.plot(hours, [row] * len(chain), color=GRID, linewidth=3, zorder=1)
        axes.scatter(
            hours,
            [row] * len(chain),
            c=[d.delay for d in chain],
            vmin=0,
            vmax=largest,
            cmap=DELAY_COLORS,
            s=430,
            edgecolor="white",
            linewidth=1,
            zorder=2,
        )
        for d in chain:
            axes.text(
                d.scheduled / 60,
                row,
                str(d.delay),
                ha="center",
                va="center",
                zorder=3,
                fontsize=7.5,
                color="white" if d.delay > 0.55 * largest else INK,
            )
            axes.text(d.scheduled / 60, row - 0.47, d.dest, ha="center", va="center", fontsize=7, color=MUTED)
    axes.set_yticks(range(len(worst)), [_chain_label(tailnum, chain[0]) for _, tailnum, chain in worst])
    axes.set_ylim(-0.8, len(worst) - 0.4)
    axes.set_title("The worst chains of late departures")
    axes.set_xlabel("scheduled departure, New York time; in the circles minutes of delay")
    axes.xaxis.set_major_formatter(lambda hour, _: clock(round(hour * 60)))
    axes.xaxis.set_major_locator(pyplot.MultipleLocator(3))
    _clean(axes, "x")


def _chain_label(tailnum: str, first: Departure) -> str:
    return f"{date(2013, first.month, first.day):%d %b}  {first.carrier} {tailnum}"


def _draw_gaps(axes: Axes, carriers: list[CarrierYear]) -> None:
    gaps: Counter[int] = sum((c.gaps for c in carriers), Counter())
    hours = range(0, 49)
    axes.bar([hour + 0.5 for hour in hours], [gaps[hour] for hour in hours], width=0.86, color=THEIRS)
    beyond = sum(count for hour, count in gaps.items() if hour not in hours)
    axes.set_title("How long an aircraft is away from New York")
    axes.set_xlabel(f"hours between two departures; {beyond:,} more are beyond two days")
    axes.set_xticks(range(0, 49, 6))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(0, 49)
    _clean(axes, "y")


def _draw_speed(axes: Axes, outcome: Outcome) -> None:
    rows = [("the whole job", outcome.job_seconds), ("move the flights", outcome.move_seconds)]
    for row, (_, seconds) in enumerate(rows):
        for offset, name, color in ((0.2, "fb.exchange", OURS), (-0.2, "partitionBy", THEIRS)):
            axes.barh(row + offset, seconds[name], height=0.36, color=color)
            axes.text(seconds[name], row + offset, f"  {name}  {seconds[name]:.2f} s", va="center", color=INK)
        ratio = seconds["partitionBy"] / seconds["fb.exchange"]
        axes.text(
            1,
            row,
            f"{ratio:.1f} ×",
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=20,
            fontweight="bold",
            color=OURS,
        )
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.set_xlim(0, max(outcome.job_seconds.values()) * 1.75)
    axes.set_title("The same job on fb.exchange and partitionBy")
    axes.set_xlabel("seconds, less is better")
    _clean(axes, "x")
    axes.grid(visible=False)
