"""Writes the figures of docs/nexmark.md, its chart and a sentence of README.md, so that none is typed by hand.

python -m nexmark.page           from bench-output/nexmark.json, what the last `make nexmark` measured
python -m nexmark.page --check   fails unless the pages are what bench/nexmark/figures.json says
"""

import argparse
import json
import math
import sys
import textwrap
from html import escape

from readme import between_marks

from nexmark.compare import CONTENDERS, NOT_IN_SQL, RATES, ROOT, compared, gains_of, geometric_mean, ratio_of, ratios_of

FIGURES = ROOT / "bench" / "nexmark" / "figures.json"
PAGE, CHART, README = ROOT / "docs" / "nexmark.md", ROOT / "docs" / "assets" / "nexmark.svg", ROOT / "README.md"
MARKS = "<!-- figures of make nexmark -->\n", "<!-- end of the figures of make nexmark -->\n"

NO_FIGURES = "There are no figures here yet: they want a machine that does nothing else for half an hour.\n"

KEPT = (*RATES, "peak_bytes")
INK = "#7d8894"
COLOURS = {"flinkbuf": "#e8833a", "columns": "#b3501a", "flink": "#8fb4d9"}
LEGEND = {"flinkbuf": "flinkbuf, Python functions", "columns": "flinkbuf, columns", "flink": "Flink, SQL in Java"}
BAR, LEFT, WIDTH, TOP = 7, 46, 760, 40


def kept_of(measured):
    """Return what the pages need of what was measured: three digits of each figure."""
    queries = {}
    for name, result in measured["queries"].items():
        queries[name] = {"events": result["events"]}
        for who in CONTENDERS:
            if who in result:
                queries[name][who] = {key: three_digits(result[who][key]) for key in KEPT}
    settings = {key: measured[key] for key in ("rate", "parallelism", "rounds", "target", "java_options")}
    return {**settings, **{key: measured["machine_before"][key] for key in ("cpus", "python")}, "queries": queries}


def three_digits(number):
    return None if math.isnan(number) else int(float(f"{number:.3g}"))


def with_ratios(figures):
    """Return the queries as `compare` has them, with what flinkbuf's figures are of Flink's."""
    queries = {}
    for name, result in figures["queries"].items():
        known = {who: {key: math.nan if value is None else value for key, value in result[who].items()}
                 for who in CONTENDERS if who in result}  # fmt: skip
        queries[name] = {"events": result["events"], **known, **ratios_of(known)}
    return queries


def number(value):
    return "?" if math.isnan(value) else f"{value:,.0f}"


def sides_of(figures):
    """Return who was measured: flinkbuf, its columns if they were, and Flink."""
    there = {who for result in figures["queries"].values() for who in result}
    return [who for who in CONTENDERS if who in there or who != "columns"]


def table_of(figures):
    """Return the table in Markdown; each ratio is of Flink's."""
    sides = sides_of(figures)
    columns = "columns | ratio | " if "columns" in sides else ""
    order = f"ratio | {columns}Flink" if columns else "Flink | ratio"
    rates = " | ".join(f"thousand events/{unit} | {order}" for unit in ("s", "CPU s"))
    head = f"| | events | {rates} | peak MB | {'columns | ' if columns else ''}Flink |"
    lines = [head, f"|---|{'--:|' * (head.count('|') - 2)}"]
    for name, result in with_ratios(figures).items():
        cells = ["events alone" if name == "src" else name, f"{result['events'] / 1e6:.1f} M"]
        for rate in RATES:
            rates_of = {who: number(result[who][rate] / 1e3) if who in result else "" for who in sides}
            ratios = {
                who: f"{result[ratio_of(who, rate)]:.2f}" if who in result and "flink" in result else ""
                for who in sides
                if who != "flink"
            }
            if columns:
                for who in ratios:
                    cells += [rates_of[who], ratios[who]]
                cells.append(rates_of["flink"])
            else:
                cells += [rates_of["flinkbuf"], rates_of["flink"], ratios["flinkbuf"]]
        cells += [number(result[who]["peak_bytes"] / 1e6) if who in result else "" for who in sides]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def means_of(figures, who="flinkbuf"):
    """Return how many queries there are; of each rate the geometric mean of the ratios, and where flinkbuf is ahead."""
    queries = with_ratios(figures)
    count = sum(name != "src" and {who, "flink"} <= set(result) for name, result in queries.items())
    found = (compared(queries, rate, who) for rate in RATES)
    return count, *((geometric_mean(ratios.values()), ahead) for ratios, ahead in found)


def some_of(names, figures, who):
    """Return which queries these are, or which are missing where that is shorter."""
    queries = [name for name, result in figures["queries"].items() if name != "src" and {who, "flink"} <= set(result)]
    others = [name for name in queries if name not in names]
    if not others:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(names) else ", ".join(names)


def sentence_of(figures):
    """Return what README says."""
    count, (wall, ahead), (cpu, _) = means_of(figures)
    text = (
        f"[Nexmark](docs/nexmark.md), {count} queries as plain Python functions beside Flink's own SQL, compiled to "
        f"Java and warm, over the same events on the same {figures['cpus']} cores: {wall:.2f} times its events a "
        f"second in the geometric mean ({cpu:.2f} times a CPU second), ahead on {some_of(ahead, figures, 'flinkbuf')}."
    )
    if "columns" in sides_of(figures):
        count, (wall, ahead), (cpu, _) = means_of(figures, "columns")
        text += (
            f" {count} of them as programs over columns: {wall:.2f} times its events a second ({cpu:.2f} times a CPU "
            f"second), ahead on {some_of(ahead, figures, 'columns')}."
        )
    return wrapped(text)


def summary_of(figures):
    """Return what stands above the table."""
    count, (wall, ahead), (cpu, cpu_ahead) = means_of(figures)
    text = (
        f"Of {count} queries flinkbuf takes {wall:.2f} times Flink's events a second in the geometric mean, and is "
        f"ahead in {len(ahead)} ({', '.join(ahead)}); {cpu:.2f} times its events a CPU second, ahead in "
        f"{len(cpu_ahead)} ({', '.join(cpu_ahead)}). "
    )
    if "columns" in sides_of(figures):
        count, (wall, ahead), (cpu, cpu_ahead) = means_of(figures, "columns")
        gain = geometric_mean(gains_of(with_ratios(figures), "events_per_cpu_s").values())
        text += (
            f"{count} are programs over columns, too: these take {wall:.2f} times Flink's events a second, ahead in "
            f"{len(ahead)}, and {cpu:.2f} times its events a CPU second, ahead in {len(cpu_ahead)}, which is "
            f"{gain:.1f} times those of flinkbuf's records. "
        )
    text += (
        f"{figures['rounds']} round{'s' * (figures['rounds'] > 1)}, `{figures['target']}`, parallelism "
        f"{figures['parallelism']}, {figures['rate']:,} events a second of event time, {figures['cpus']} cores, Python "
        f"{figures['python']}. Flink's JVM has `{figures['java_options']}`. {NOT_IN_SQL['q6']} (q6)."
    )
    return "![Events a CPU second of each query, flinkbuf beside Flink](assets/nexmark.svg)\n\n" + wrapped(text) + "\n"


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def chart_of(figures):
    """Return the chart: bars for each query, as long as its events a CPU second."""
    queries, sides = figures["queries"], sides_of(figures)
    most = max(each[who]["events_per_cpu_s"] or 0 for each in queries.values() for who in each if who != "events")
    step = (BAR + 1) * len(sides) + 6
    height = TOP + step * len(queries) + 8
    scale = (WIDTH - LEFT - 70) / most
    title = "Thousand events a CPU second"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="11.5" fill="{INK}">',
        f"<title>{escape(title)} of each query of Nexmark</title>",
        f'<text x="{LEFT}" y="20" font-weight="600">{title}</text>',
    ]
    for place, who in enumerate(sides):
        x = LEFT + 210 + 170 * place
        parts.append(
            f'<rect x="{x}" y="12" width="10" height="9" fill="{COLOURS[who]}"/><text x="{x + 15}" y="20">'
            f"{LEGEND[who]}</text>"
        )
    for row, (name, result) in enumerate(queries.items()):
        top = TOP + step * row
        parts.append(f'<text x="{LEFT - 8}" y="{top + BAR + 4}" text-anchor="end">{name}</text>')
        for place, who in enumerate(sides):
            rate = result.get(who, {}).get("events_per_cpu_s")
            if rate is not None:
                y, length = top + place * (BAR + 1), max(1, rate * scale)
                parts.append(
                    f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[who]}"/>'
                    f'<text x="{LEFT + length + 5:.1f}" y="{y + BAR}" font-size="9">{rate / 1e3:,.0f}</text>'
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


def pages_of(figures):
    """Return what each file is to hold; without figures the pages say so."""
    page, sentence = (summary_of(figures) + table_of(figures), sentence_of(figures)) if figures else (NO_FIGURES, "")
    pages = {
        path: between_marks(path, path.read_text(), MARKS, what) for path, what in ((PAGE, page), (README, sentence))
    }
    return {**pages, CHART: chart_of(figures)} if figures else pages


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m nexmark.page", description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    if not options.check:
        measured = json.loads((ROOT / "bench-output" / "nexmark.json").read_text())
        FIGURES.write_text(json.dumps(kept_of(measured), indent=1) + "\n")
    pages = pages_of(json.loads(FIGURES.read_text()) if FIGURES.exists() else None)
    if options.check:
        return int(any(not path.exists() or path.read_text() != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
