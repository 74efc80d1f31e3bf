"""Runs queries on flinkbuf, over records and over columns, and as Flink SQL, in turn, over the same events.

What each takes is printed, and kept.

python -m nexmark.compare q0 q5 --seconds 6 --rounds 2

Flink runs in one JVM with an embedded cluster, warm when the clock starts; flinkbuf's functions are Python. All make
the events while the clock runs. Before that, the results of all are compared with the oracle's.
"""

import argparse
import csv
import hashlib
import itertools
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

from nexmark import rules
from nexmark.generator import Generator
from nexmark.running import (
    AS_COLUMNS,
    NAMES,
    blocks_of,
    digest,
    environment,
    events_of,
    final,
    read_files,
    results_of,
    side_input,
)

ROOT = Path(__file__).resolve().parents[2]
FLINK = Path(__file__).with_name("flink")
FLINK_OPTIONS = {
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
}
OPENED = ["lang", "lang.reflect", "io", "net", "nio", "text", "time", "util", "util.concurrent"]
NOT_IN_SQL = {"q6": "Flink's SQL has no OVER of rows that change"}
NOT_DETERMINED = {"q12": "windows by the clock on the wall"}
CHECK_RATE = 100  # events a second of event time: many windows, and hardly two bids in one millisecond
MEMORY_STEP_S = 0.1
FIRST_TRIAL, LAST_TRIAL, TRIAL_S = 400_000, 6_400_000, 0.7
FEWEST_EVENTS, MOST_EVENTS = 400_000, 20_000_000
RATES = {"events_per_s": "a second", "events_per_cpu_s": "a CPU second"}
CONTENDERS = {"flinkbuf": "flinkbuf", "columns": "flinkbuf columns", "flink": "Flink"}


def parsed(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m nexmark.compare", description=__doc__)
    parser.add_argument("queries", nargs="+", metavar="query", help="q0 to q23, src for the events alone, or all")
    parser.add_argument("--seconds", type=float, default=5, help="what flinkbuf's larger run is to take, about")
    parser.add_argument(
        "--events", type=int, help="the larger size, for all queries, instead; the smaller is a quarter"
    )
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time: 10000 or 10000000")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="all in turn, so often; medians are printed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=["embedded", "local"], default="local", help="where flinkbuf runs")
    parser.add_argument("--check", type=int, default=60_000, help="events whose results are compared before; 0: none")
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=CONTENDERS,
        default=list(CONTENDERS),
        help="flinkbuf and others; columns are of the queries that are column programs, too; flink needs its jars",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of Flink's")
    parser.add_argument("--java-options", default="-Xms4g -Xmx4g -XX:+UseParallelGC", help="those of Flink's JVM")
    parser.add_argument("--flink", default=ROOT / "build" / "interop" / "flink", help="folder with Flink's jars")
    parser.add_argument("--classes", default=ROOT / "build" / "nexmark" / "classes", help="folder of ours in Java")
    parser.add_argument("--output", default=ROOT / "bench-output" / "nexmark.json")
    return parser.parse_args(arguments)


# --- Flink


def java_command(options, **arguments):
    """Return the command that runs the Java program with these arguments."""
    from flinkbuf.spark.java import find_java

    jars = {path.name: path for path in Path(options.flink).rglob("flink-*.jar") if path.parent.name == "lib"}
    if not jars or not (Path(options.classes) / "flinkbuf").is_dir():
        raise SystemExit(
            f"no jars of Flink in {options.flink} or no classes in {options.classes}: make nexmark has both"
        )
    libraries = [*jars.values(), *next(iter(jars.values())).parent.glob("log4j-*.jar")]
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]
    classpath = os.pathsep.join(map(str, [options.classes, *libraries]))
    given = [f"{key}={value}" for key, value in arguments.items()]
    java = str(find_java() / "bin" / "java")
    return [java, *options.java_options.split(), *opened, "-cp", classpath, "flinkbuf.nexmark.Nexmark", *given]


def flink_command(options, names, sizes, folder, **arguments):
    """Return the command that runs queries of Flink's over so many events each, one after the other."""
    command = java_command(
        options,
        tables=FLINK / "tables.sql",
        query=",".join(str(FLINK / f"{name}.sql") for name in names),
        events=",".join(map(str, sizes)),
        folder=folder,
        parallelism=options.parallelism,
        seed=options.seed,
        **{"rate": options.rate, **arguments},
    )
    flink_options = FLINK_OPTIONS | dict(each.split("=", 1) for each in options.set)
    return command + [f"flink.{key}={value}" for key, value in flink_options.items()]


def as_value(field):
    return Decimal(field["decimal"]) if isinstance(field, dict) else field


def rows_left(changes):
    """Return what is left when all changes were made: each its kind, then its fields."""
    rows = Counter()
    for kind, *fields in changes:
        rows[tuple(map(as_value, fields))] += 1 if kind in ("+I", "+U") else -1
    return list(rows.elements())


def comparable(name, rows):
    """Return results such that equal ones have an equal digest, whoever made them."""
    if name == "q10":
        return sorted(map(line_of_file, rows))
    return [tuple(f"{field:.3f}" if isinstance(field, Decimal) else field for field in row) for row in rows]


def line_of_file(row):
    """Return the directory of a line and its fields; Flink writes times as text, and colons of directories as %3A."""
    directory, line = row
    (fields,) = csv.reader([line])
    if "-" in fields[3]:
        fields[3] = milliseconds_of(fields[3])
    return unquote(directory), *fields


def milliseconds_of(text):
    seconds, _, fraction = text.replace("T", " ").partition(".")
    moment = datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return str(int(moment.timestamp()) * 1000 + int(fraction.ljust(3, "0") or 0))


# --- results


def check_events(options, count=100_000):
    """Say whether Java makes the same events as Python."""
    command = java_command(options, digest=count, parallelism=options.parallelism, rate=options.rate, seed=options.seed)
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    ours = hashlib.sha256()
    for split in rules.splits_of(count, options.parallelism, options.rate, options.seed):
        for event in Generator(split):
            ours.update(("|".join(map(str, event)) + "\n").encode())
    if theirs != ours.hexdigest():
        raise SystemExit(f"the first {count:,} events of both are not the same")
    print(f"{count:,} events of both: equal, digest {theirs[:16]}", flush=True)


def expected(options):
    """Return what the oracle says of each query."""
    sys.path.append(str(ROOT / "tests" / "nexmark"))
    from oracle import ORACLES, Events

    splits = rules.splits_of(options.check, options.parallelism, CHECK_RATE, options.seed)
    events = Events(itertools.chain.from_iterable(map(Generator, splits)))
    return {name: oracle(events) for name, oracle in ORACLES.items()}


def flink_results(options, names):
    """Return what is left of the results of Flink, by query; all run in one JVM."""
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
        side_input(Path(folder))
        run_to_end(flink_command(options, names, [options.check], folder, rate=CHECK_RATE, results=folder))
        found = {}
        for name in names:
            if name == "q10":
                found[name] = read_files(Path(folder))
            else:
                with open(Path(folder, f"{name}.sql")) as file:
                    found[name] = rows_left(map(json.loads, file))
        return found


def our_results(options, name, who):
    """Return what is left of flinkbuf's results."""
    env = environment(options.target, options.parallelism)
    of, form = (blocks_of, "columns") if who == "columns" else (events_of, "queries")
    return final(name, results_of(name, of(env, options.check, rate=CHECK_RATE, seed=options.seed), form))


def contenders_of(options, name):
    """Return who runs a query, in order."""
    runs_it = {"flinkbuf": True, "columns": name in ("src", *AS_COLUMNS), "flink": name not in NOT_IN_SQL}
    return [who for who in CONTENDERS if who in options.contenders and runs_it[who]]


def check(options, names):
    """Say whether all give what the oracle says; returns the queries where they do not."""
    oracles, wrong = expected(options), []
    of_flink = [name for name in names if "flink" in contenders_of(options, name) and name not in NOT_DETERMINED]
    flinks = flink_results(options, of_flink) if of_flink else {}
    for name in names:
        rows = {"the oracle": sorted(oracles[name])}
        for who in contenders_of(options, name):
            if who != "flink":
                rows[CONTENDERS[who]] = our_results(options, name, who)
        if name in flinks:
            rows["Flink"] = sorted(flinks[name])
        digests = {who: digest(comparable(name, found)) for who, found in rows.items()}
        is_equal = len(set(digests.values())) == 1
        said = f"{next(iter(digests.values()))} of {', '.join(digests)}" if is_equal else f"differs: {digests}"
        print(f"{name}: {len(oracles[name]):,} results, digest {said}", flush=True)
        if not is_equal:
            wrong.append(name)
    return wrong


# --- measuring


class Memory(threading.Thread):
    """Watches how much memory a process and those below it hold, in bytes, until it has ended."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.ended = pid, 0, threading.Event()

    def run(self):
        while not self.ended.wait(MEMORY_STEP_S):
            self.peak = max(self.peak, resident_below(self.pid))

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak


def resident_below(pid):
    """Return the resident bytes of a process and its children's; what they share counts for each."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = [
            child for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()
        ]
    except OSError:  # it has ended
        return 0
    return pages * resource.getpagesize() + sum(map(resident_below, children))


def run_to_end(command):
    """Run a command in bench/; returns its lines of JSON, the CPU seconds of all its processes and its peak memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, cwd=ROOT / "bench", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    memory = Memory(process.pid)
    memory.start()
    output, errors = process.communicate()
    peak = memory.stop()
    if process.returncode:
        raise SystemExit(f"{Path(command[0]).name} failed with {process.returncode}:\n{errors or output}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")], cpu_s, peak


def run_ours(options, name, sizes, form="queries"):
    """Each size is a process of its own, which has others below it."""
    runs = []
    for events in sizes:
        command = [sys.executable, "-m", "nexmark", name, "--events", str(events), "--once", "time", "--form", form]
        for option in ("rate", "target", "parallelism", "seed"):
            command += [f"--{option}", str(getattr(options, option))]
        (line,), cpu_s, peak = run_to_end(command)
        runs.append({**line, "events": events, "cpu_s": cpu_s, "peak_bytes": peak})
    return runs


def run_columns(options, name, sizes):
    """As records: a process for each size."""
    return run_ours(options, name, sizes, "columns")


def run_flinks(options, name, sizes):
    """One JVM, which the smaller size has warmed up: a first run takes longer than any later one.

    To warm it up by the larger size took half of Flink's time. What that changes was lost in the noise of the machine:
    q0 took 1.97 million events a CPU second after the smaller size and 1.68 after the larger, q5 0.55 and 0.60.
    """
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
        side_input(Path(folder))
        warm_up = sizes[:1]
        lines, _, peak = run_to_end(flink_command(options, [name], [*warm_up, *sizes], folder))
    return [{**run, "peak_bytes": peak} for run in lines[len(warm_up) :]]


def summarized(rounds):
    """Return rates between the two sizes, of the medians of all rounds, and peak memory.

    A rate that noise has turned round is no number.
    """
    short, long = (
        {key: statistics.median(each[place][key] for each in rounds) for key in rounds[0][place]} for place in (0, 1)
    )
    events = long["events"] - short["events"]
    rates = {}
    for kind in ("wall_s", "cpu_s"):
        seconds = long[kind] - short[kind]
        rates[kind] = events / seconds if seconds > 0 else math.nan
    return {"events_per_s": rates["wall_s"], "events_per_cpu_s": rates["cpu_s"], "peak_bytes": long["peak_bytes"]}


def sizes_of(options, name):
    """Return the two numbers of events for a query, the larger four times the smaller.

    Queries differ twentyfold: a size that one takes a minute for is over before the other is warm. Flink compiles the
    classes of a query in each run, which then takes two seconds to be fast: a smaller size within them makes a rate
    that is several times too high.
    """
    if options.events:
        return [options.events // 4, options.events]
    short, long = run_ours(options, name, [FIRST_TRIAL // 4, FIRST_TRIAL])
    while long["wall_s"] - short["wall_s"] < TRIAL_S and long["events"] < LAST_TRIAL:
        short, (long,) = long, run_ours(options, name, [4 * long["events"]])
    seconds = max(long["wall_s"] - short["wall_s"], TRIAL_S)
    wanted = (long["events"] - short["events"]) / seconds * options.seconds
    quarter = round(min(max(wanted, FEWEST_EVENTS), MOST_EVENTS) / 400_000) * 100_000
    return [quarter, 4 * quarter]


def measured(options, name):
    """Return what a query takes on each, and all runs it was made of."""
    sizes = sizes_of(options, name)
    run = {"flinkbuf": run_ours, "columns": run_columns, "flink": run_flinks}
    runs = {who: [] for who in contenders_of(options, name)}
    for _ in range(options.rounds):
        for who, rounds in runs.items():
            rounds.append(run[who](options, name, sizes))
    result = {who: {**summarized(rounds), "rounds": rounds} for who, rounds in runs.items()}
    result["events"] = sizes[1]
    return {**result, **ratios_of(result)}


def ratios_of(result):
    """Return what flinkbuf's rates are of Flink's, and those of its columns."""
    if "flink" not in result:
        return {}
    ours = [who for who in ("flinkbuf", "columns") if who in result]
    return {ratio_of(who, key): result[who][key] / result["flink"][key] for who in ours for key in RATES}


def ratio_of(who, rate):
    """Return what the ratio of a contender's rate is called."""
    return f"{rate}_ratio" if who == "flinkbuf" else f"{who}_{rate}_ratio"


# --- what is printed

SIDES = [("flinkbuf", 9), ("ratio", 6), ("columns", 9), ("ratio", 6), ("Flink", 9)]
HEAD = f"{'':4} {'':>8} {'thousand events/s':>43} {'thousand events/CPU s':>43} {'peak MB':>23}\n" + (
    f"{'':4} {'M events':>8} {' '.join(f'{side:>{width}}' for _ in RATES for side, width in SIDES)} "
    f"{'flinkbuf':>8} {'columns':>7} {'Flink':>6}  most by CPU"
)


def line_of(name, result):
    """Return the line of a query in the table; a ratio stands behind what it is of, and is of Flink's."""
    text = f"{name:4} {result['events'] / 1e6:8.1f}"
    for rate in RATES:
        for who in CONTENDERS:
            text += f" {result[who][rate] / 1e3:9,.0f}" if who in result else f" {'':9}"
            if who != "flink":
                ratio = result.get(ratio_of(who, rate))
                text += f" {'':6}" if ratio is None else f" {ratio:6.2f}"
    for who, width in zip(CONTENDERS, (8, 7, 6), strict=True):
        text += f" {result[who]['peak_bytes'] / 1e6:{width},.0f}" if who in result else f" {'':{width}}"
    rates = {who: result[who]["events_per_cpu_s"] for who in CONTENDERS if who in result}
    most = "?" if any(map(math.isnan, rates.values())) else CONTENDERS[max(rates, key=rates.get)]
    return f"{text}  {most}" + (f" ({NOT_IN_SQL[name]})" if name in NOT_IN_SQL else "")


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def compared(results, rate, who="flinkbuf"):
    """Return the ratios of a rate by query, the source and what is not known left out, and where flinkbuf is ahead."""
    of_queries = {name: result for name, result in results.items() if name != "src" and {who, "flink"} <= set(result)}
    ratios = {name: result[ratio_of(who, rate)] for name, result in of_queries.items()}
    known = {name: ratio for name, ratio in ratios.items() if not math.isnan(ratio)}
    return known, [name for name, ratio in known.items() if ratio > 1]


def summary_of(results):
    """Return the lines under the table."""
    lines = []
    for who in ("flinkbuf", "columns"):
        for rate, what in RATES.items():
            ratios, ahead = compared(results, rate, who)
            if ratios:
                lines.append(
                    f"{CONTENDERS[who]}, events {what}: {geometric_mean(ratios.values()):.2f} times Flink's in the "
                    f"geometric mean, ahead in {len(ahead)} of {len(ratios)}"
                )
    for rate, what in RATES.items():
        gains = gains_of(results, rate)
        if gains:
            lines.append(
                f"flinkbuf columns, events {what}: {geometric_mean(gains.values()):.1f} times those of its records in "
                f"the geometric mean, {min(gains.values()):.1f} to {max(gains.values()):.1f}"
            )
    return lines


def gains_of(results, rate):
    """Return what the rate of columns is of that of records, by query."""
    both = {
        name: result for name, result in results.items() if name != "src" and {"flinkbuf", "columns"} <= set(result)
    }
    gains = {name: result["columns"][rate] / result["flinkbuf"][rate] for name, result in both.items()}
    return {name: gain for name, gain in gains.items() if not math.isnan(gain)}


def machine():
    """Return what the figures depend on."""
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }


def main():
    options = parsed()
    names = [each for query in options.queries for each in (["src", *NAMES] if query == "all" else [query])]
    if unknown := set(names) - {"src", *NAMES}:
        raise SystemExit(f"no such query: {', '.join(sorted(unknown))}; there are src, q0 to q23, and all")
    settings = FLINK_OPTIONS | dict(each.split("=", 1) for each in options.set)
    if "flink" in options.contenders:
        said = ", ".join(f"{key}={value}" for key, value in settings.items())
        print(f"Flink's options: {said}; {options.java_options}")
        check_events(options)
    if options.check:
        wrong = check(options, [name for name in names if name != "src"])
        if wrong:
            raise SystemExit(f"results of {', '.join(wrong)} differ, so nothing is measured")
    before = machine()
    print(
        f"so many events and a quarter of them, at {options.rate:,} a second of event time, parallelism "
        f"{options.parallelism}, {options.target}, {options.rounds} rounds; load {before['load'][0]:.1f} "
        f"on {before['cpus']} CPUs\n{HEAD}"
    )
    results = {}
    for name in names:
        results[name] = measured(options, name)
        print(line_of(name, results[name]), flush=True)
    print("\n".join(summary_of(results)))
    output = Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    given = {
        key: getattr(options, key)
        for key in ("events", "seconds", "rate", "parallelism", "rounds", "seed", "target", "contenders")
    }
    kept = {
        **given,
        "flink_options": settings,
        "java_options": options.java_options,
        "machine_before": before,
        "machine_after": machine(),
        "queries": results,
    }
    output.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
