"""Runs queries on flinkbuf and on PyFlink, by the same files but for the import, and prints what both take.

python -m nexmark.compare_pyflink all --events 200000

PyFlink is set in two ways, and the faster one counts: in processes, with bundles and a cache of state that hold all,
and in threads of the JVM. Results of both are compared with the oracle's before. A rate is that between a quarter of
the events and all of them; flinkbuf has eight times as many, since it is over too soon otherwise.
"""

import argparse
import json
import math
import os
import tempfile
from pathlib import Path

from nexmark import compare
from nexmark.on_pyflink import QUERIES
from nexmark.running import digest, final

PROGRAM = Path(__file__).with_name("on_pyflink.py")
REUSE = "pipeline.object-reuse=true"
SETTINGS = {
    "processes": [
        "python.fn-execution.bundle.size=200000",
        "python.fn-execution.bundle.time=5000",
        "python.state.cache-size=200000",
        REUSE,
    ],
    "threads": ["python.execution-mode=thread", REUSE],
}
PYFLINK = Path(os.environ.get("FLINKBUF_PYFLINK", compare.ROOT / "build" / "pyflink"))
MORE = 8


def parsed(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m nexmark.compare_pyflink", description=__doc__)
    parser.add_argument("queries", nargs="+", choices=["all", *QUERIES], metavar="query", help=f"all, {QUERIES}")
    parser.add_argument("--events", type=int, default=200_000, help="the larger size for PyFlink")
    parser.add_argument("--check", type=int, default=20_000, help="events whose results are compared before; 0: none")
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=["embedded", "local"], default="local", help="where flinkbuf runs")
    parser.add_argument("--modes", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="of PyFlink")
    return parser.parse_args(arguments)


def command_of(options, name, events, mode, **more):
    """Return what runs a query on PyFlink."""
    given = {"events": events, "rate": options.rate, "parallelism": options.parallelism, "seed": options.seed, **more}
    command = [str(PYFLINK / "bin" / "python"), str(PROGRAM), name]
    command += [f"--{key}={value}" for key, value in given.items()]
    return command + [f"--set={each}" for each in SETTINGS[mode]]


def pyflink_results(options, name, mode):
    """Return what is left of PyFlink's results."""
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
        path = Path(folder, "results")
        compare.run_to_end(command_of(options, name, options.check, mode, rate=compare.CHECK_RATE, results=path))
        return final(name, [tuple(map(compare.as_value, row)) for row in json.loads(path.read_text())])


def check(options, name, expected):
    """Stop unless both have the oracle's results."""
    found = {"flinkbuf": compare.our_results(options, name, "flinkbuf")}
    found |= {f"PyFlink in {mode}": pyflink_results(options, name, mode) for mode in options.modes}
    of_oracle = digest(compare.comparable(name, sorted(expected)))
    for who, rows in found.items():
        if digest(compare.comparable(name, rows)) != of_oracle:
            raise SystemExit(f"{name}: the results of {who} are not the oracle's, so nothing is measured")
    print(f"{name}: {len(expected):,} results, digest {of_oracle} of the oracle, {', '.join(found)}", flush=True)


def pyflink_rates(options, name, mode):
    """Return events a second, by the clock and by processors."""
    runs = []
    for events in (options.events // 4, options.events):
        (line,), cpu_s, peak = compare.run_to_end(command_of(options, name, events, mode))
        runs.append({**line, "events": events, "cpu_s": cpu_s, "peak_bytes": peak})
    return compare.summarized([runs])


def known(rates, key):
    """Return a rate; one that noise has turned round counts as none."""
    return 0.0 if math.isnan(rates[key]) else rates[key]


def measured(options, name):
    """Return the rates of flinkbuf, of PyFlink's faster mode, and which that is."""
    sizes = [MORE * options.events // 4, MORE * options.events]
    ours = compare.summarized([compare.run_ours(options, name, sizes)])
    theirs = {mode: pyflink_rates(options, name, mode) for mode in options.modes}
    fastest = max(theirs, key=lambda mode: known(theirs[mode], "events_per_s"))
    return ours, theirs[fastest], fastest


def line_of(name, ours, theirs, mode):
    """Return the line of a query."""
    cells = [name]
    for key in compare.RATES:
        ratio = ours[key] / theirs[key]
        cells += [f"{ours[key] / 1e3:,.0f}", f"{theirs[key] / 1e3:,.1f}", f"{ratio:.0f}"]
    return f"| {' | '.join([*cells, mode])} |"


def main():
    options = parsed()
    names = QUERIES if "all" in options.queries else options.queries
    if not (PYFLINK / ".ready").exists():
        raise SystemExit(
            f"PyFlink is not in {PYFLINK}: make build/pyflink/.ready installs it, FLINKBUF_PYFLINK names it"
        )
    if options.check:
        expected = compare.expected(options)
        for name in names:
            check(options, name, expected[name])
    print("| | thousand events/s | PyFlink | ratio | thousand events/CPU s | PyFlink | ratio | PyFlink in |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    for name in names:
        print(line_of(name, *measured(options, name)), flush=True)


if __name__ == "__main__":
    main()
