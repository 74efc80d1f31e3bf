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

from nexmark.compare import NOT_IN_SQL, RATES, ROOT, compared, geometric_mean, ratios_of

FIGURES = ROOT / "bench" / "nexmark" / "figures.json"
PAGE, CHART, README = ROOT / "docs" / "nexmark.md", ROOT / "docs" / "assets" / "nexmark.svg", ROOT / "README.md"
MARKS = "<!-- figures of make nexmark -->\n", "<!-- end of the figures of make nexmark -->\n"

NO_FIGURES = "There are no figures here yet: they want a machine that does nothing else for half an hour.\n"

KEPT = (*RATES, "peak_bytes")
INK, OURS, FLINKS = "#7d8894", "#e8833a", "#8fb4d9"
BAR, STEP, LEFT, WIDTH, TOP = 7, 22, 46, 760, 40


def kept_of(measured):
    """Return what the pages need of what was measured: three digits of each figure."""
    queries = {}
    for name, result in measured["queries"].items():
        queries[name] = {"events": result["events"]}
        for who in ("flinkbuf", "flink"):
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
                 for who in ("flinkbuf", "flink") if who in result}  # fmt: skip
        queries[name] = {"events": result["events"], **known, **ratios_of(known)}
    return queries


def number(value):
    return "?" if math.isnan(value) else f"{value:,.0f}"


def table_of(figures):
    """Return the table in Markdown."""
    lines = [
        "| | events | thousand events/s | Flink | ratio | thousand events/CPU s | Flink | ratio | peak MB | Flink |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, result in with_ratios(figures).items():
        ours, flinks = result["flinkbuf"], result.get("flink")
        cells = ["events alone" if name == "src" else name, f"{result['events'] / 1e6:.1f} M"]
        for rate in RATES:
            cells.append(number(ours[rate] / 1e3))
            cells += [number(flinks[rate] / 1e3), f"{result[f'{rate}_ratio']:.2f}"] if flinks else ["", ""]
        cells += [number(ours["peak_bytes"] / 1e6), number(flinks["peak_bytes"] / 1e6) if flinks else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def means_of(figures):
    """Return how many queries there are; of each rate the geometric mean of the ratios, and where flinkbuf is ahead."""
    queries = with_ratios(figures)
    count = sum(name != "src" and "flink" in result for name, result in queries.items())
    found = (compared(queries, rate) for rate in RATES)
    return count, *((geometric_mean(ratios.values()), ahead) for ratios, ahead in found)


def sentence_of(figures):
    """Return what README says."""
    count, (wall, ahead), (cpu, _) = means_of(figures)
    return wrapped(
        f"[Nexmark](docs/nexmark.md), {count} queries as plain Python functions beside Flink's own SQL, compiled to "
        f"Java and warm, over the same events on the same {figures['cpus']} cores: {wall:.2f} times its events a "
        f"second in the geometric mean ({cpu:.2f} times a CPU second), ahead on {', '.join(ahead)}."
    )


def summary_of(figures):
    """Return what stands above the table."""
    count, (wall, ahead), (cpu, cpu_ahead) = means_of(figures)
    return "![Events a CPU second of each query, flinkbuf beside Flink](assets/nexmark.svg)\n\n" + wrapped(
        f"Of {count} queries flinkbuf takes {wall:.2f} times Flink's events a second in the geometric mean, and is "
        f"ahead in {len(ahead)} ({', '.join(ahead)}); {cpu:.2f} times its events a CPU second, ahead in "
        f"{len(cpu_ahead)} ({', '.join(cpu_ahead)}). {figures['rounds']} rounds, `{figures['target']}`, parallelism "
        f"{figures['parallelism']}, {figures['rate']:,} events a second of event time, {figures['cpus']} cores, Python "
        f"{figures['python']}. Flink's JVM has `{figures['java_options']}`. {NOT_IN_SQL['q6']} (q6)."
    ) + "\n"  # fmt: skip


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def chart_of(figures):
    """Return the chart: a pair of bars for each query, as long as its events a CPU second."""
    queries = figures["queries"]
    most = max(each[who]["events_per_cpu_s"] or 0 for each in queries.values() for who in each if who != "events")
    height = TOP + STEP * len(queries) + 8
    scale = (WIDTH - LEFT - 70) / most
    title = "Thousand events a CPU second"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="11.5" fill="{INK}">',
        f"<title>{escape(title)} of each query of Nexmark</title>",
        f'<text x="{LEFT}" y="20" font-weight="600">{title}</text>',
        f'<rect x="{LEFT + 210}" y="12" width="10" height="9" fill="{OURS}"/><text x="{LEFT + 225}" y="20">flinkbuf, '
        f"Python functions</text>",
        f'<rect x="{LEFT + 380}" y="12" width="10" height="9" fill="{FLINKS}"/><text x="{LEFT + 395}" y="20">Flink, '
        f"SQL in Java</text>",
    ]
    for row, (name, result) in enumerate(queries.items()):
        top = TOP + STEP * row
        parts.append(f'<text x="{LEFT - 8}" y="{top + BAR + 4}" text-anchor="end">{name}</text>')
        for place, (who, colour) in enumerate((("flinkbuf", OURS), ("flink", FLINKS))):
            rate = result.get(who, {}).get("events_per_cpu_s")
            if rate is not None:
                y, length = top + place * (BAR + 1), max(1, rate * scale)
                parts.append(
                    f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
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
