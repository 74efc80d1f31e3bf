"""Writes the table of README.md from figures of `make bench`, so that no figure there is typed by hand.

python bench/readme.py                 from bench-output/bench.json, what the last `make bench` measured
python bench/readme.py a.json b.json   from what ``pytest bench/bench_x.py --benchmark-json=a.json`` kept, the last wins
python bench/readme.py --check         fails unless README.md is what bench/figures.json says

The figures that the table needs are kept in bench/figures.json, beside the README that they made.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import OUTPUT
from table import TARGETS, figures_of

ROOT = OUTPUT.parent
README = ROOT / "README.md"
FIGURES = ROOT / "bench" / "figures.json"
BEGIN, END = "<!-- figures of make bench -->\n", "<!-- end of the figures -->\n"


@dataclass(frozen=True)
class Line:
    """One row: the work in words, whose figure is shown, and the rivals, of which the fastest stands beside it."""

    work: str
    ours: str
    rivals: tuple[str, ...]
    rival: str
    unit: str = "/s"


PYFLINK = "PyFlink, tuned"
TUNED = "PyFlink is the fastest of three: as shipped, with bundles and cache that hold all keys, in thread mode."
NOT_MEASURED = "PyFlink was not measured in that run."


def _beside_pyflink(work: str, name: str) -> Line:
    rivals = ("pyflink_as_shipped", "pyflink_process", "pyflink_thread")
    return Line(work, f"{name}.flinkbuf", tuple(f"{name}.{rival}" for rival in rivals), PYFLINK)


LINES = [
    _beside_pyflink("a stream's keyed count, a `ValueState` each record, 100 keys", "pyflink_count_100"),
    _beside_pyflink("the same, 100,000 keys", "pyflink_count_100000"),
    _beside_pyflink("event-time windows, 1,000 keys", "pyflink_window_1000"),
    Line(
        "a DataFrame whose rows wait 5 ms each (a sleep), 100 at a time in 2 tasks",
        "frame_wait.flinkbuf_async_map",
        ("frame_wait.map_in_arrow_gather",),
        "`Semaphore` + `gather` in `mapInArrow`",
    ),
    Line("records of an RDD by key, `exchange`", "exchange.flinkbuf", ("exchange.partition_by",), "`partitionBy`"),
    Line("the same, pipelined", "exchange_2.flinkbuf_pipelined", ("exchange_2.partition_by",), "`partitionBy`"),
    Line(
        "rows of a DataFrame by key into Arrow batches, `exchange`",
        "frame_batches.flinkbuf_exchange",
        ("frame_batches.repartition_map_in_arrow",),
        "`repartition(8, key).mapInArrow`",
    ),
    Line(
        "the same, pipelined",
        "frame_batches.flinkbuf_exchange_pipelined",
        ("frame_batches.repartition_map_in_arrow",),
        "`repartition(8, key).mapInArrow`",
    ),
    Line(
        "tuple (int, str, float) into bytes and back",
        "tuple.flinkbuf_record_writer",
        ("tuple.msgspec_lists",),
        "msgspec, typed",
        unit="ns",
    ),
    Line(
        "100-byte records to another process, one connection",
        "network_bytes_100_1.flinkbuf",
        ("network_bytes_100_1.flink",),
        "Flink's own network",
    ),
]


def used_by(lines: list[Line]) -> list[str]:
    """Return the names of all figures that `lines` show."""
    return [name for line in lines for name in (line.ours, *line.rivals)]


def table_of(figures: dict[str, float]) -> str:
    """Return the table as Markdown; a line whose figures were not measured in that run is left out."""
    rows = ["| Work | flinkbuf | Rival | |", "|---|---|---|---|"]
    for line in LINES:
        measured = [figures[name] for name in line.rivals if name in figures]
        if line.ours in figures and measured:
            ours, rival = figures[line.ours], min(measured)
            shown = f"{_speed(ours, line.unit)} | {line.rival} {_speed(rival, line.unit)}"
            rows.append(f"| {line.work} | {shown} | {_verdict(line, ours, rival)} |")
    is_beside_pyflink = any(PYFLINK in row for row in rows)
    return "\n".join([*rows, "", TUNED if is_beside_pyflink else NOT_MEASURED]) + "\n"


def _speed(ns: float, unit: str) -> str:
    if unit == "ns":
        return f"{ns:.0f} ns"
    rate = 1e9 / ns
    if rate >= 1e6:
        return f"{rate / 1e6:.3g} M/s"
    return f"{round(rate, 2 - len(str(int(rate)))):,.0f}/s"


def _verdict(line: Line, ours: float, rival: float) -> str:
    ratio = rival / ours
    times = f"{ratio:.2g} ×" if ratio < 100 else f"{ratio:.0f} ×"
    if ratio < 1:
        times = f"**{times}**"
    goal = max((each.ratio for each in TARGETS if each.ours == line.ours and each.rival in line.rivals), default=0.0)
    return times + (f", goal of {goal:g} × missed" if ratio < goal else "")


def between_marks(page: Path, text: str, marks: tuple[str, str], what: str) -> str:
    """Return the `text` of a page with `what` between two marks, each a line."""
    head, begin, rest = text.partition(marks[0])
    _, end, tail = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(
            f"{page} needs the lines {marks[0].strip()!r} and {marks[1].strip()!r}, for what stands between"
        )
    return head + begin + what + end + tail


def with_table(text: str, table: str) -> str:
    """Return README's `text` with `table` between the two marks."""
    return between_marks(README, text, (BEGIN, END), f"\n{table}\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", type=Path, default=[OUTPUT / "bench.json"], help="JSON of benchmarks")
    parser.add_argument("--check", action="store_true", help="change nothing; fail where README says something else")
    options = parser.parse_args(arguments)
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    if not options.check:
        measured = figures_of(options.reports)
        figures |= {name: round(measured[name], 3) for name in used_by(LINES) if name in measured}
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    wanted = with_table(text, table_of(figures))
    if options.check:
        return 0 if wanted == text else 1
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
