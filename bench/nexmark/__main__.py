"""Runs queries, and prints how fast they are and a digest of their results.

python -m nexmark q5 --events 1000000 --target local --parallelism 2
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time

from nexmark.running import (
    AS_COLUMNS,
    NAMES,
    blocks_of,
    digest,
    environment,
    events_of,
    final,
    results_of,
    run_without_results,
)


def parsed():
    parser = argparse.ArgumentParser(prog="python -m nexmark", description=__doc__)
    parser.add_argument("queries", nargs="+", metavar="query", help="q0 to q23, src for the events alone, or all")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="how many; the rate is measured by a quarter, too"
    )
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time: 10000 or 10000000")
    parser.add_argument("--form", choices=["queries", "columns"], default="queries", help="of records, or of columns")
    parser.add_argument("--target", choices=["embedded", "local", "spark"], default="local")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--mode", choices=["streaming", "batch"], default="streaming")
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="how often the clock is started; medians are printed")
    parser.add_argument("--no-digest", action="store_true", help="leave out the run that collects the results")
    parser.add_argument("--once", choices=["time", "digest"], help=argparse.SUPPRESS)
    return parser.parse_args()


def stream_of(options):
    env = environment(options.target, options.parallelism, options.mode, options.backend)
    of = blocks_of if options.form == "columns" else events_of
    return of(env, options.events, rate=options.rate, seed=options.seed)


def run_once(options):
    """In a process of its own: what it takes, or what comes of it, as JSON."""
    name = options.queries[0]
    if options.target == "spark":
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master(f"local[{options.parallelism}]").config("spark.ui.enabled", "false")
        session.getOrCreate().sparkContext.setLogLevel("ERROR")
    begun = time.perf_counter()
    if options.once == "digest":
        rows = final(name, results_of(name, stream_of(options), options.form))
        print(json.dumps({"rows": len(rows), "digest": digest(rows)}))
    else:
        run_without_results(name, stream_of(options), options.form)
        print(json.dumps({"wall_s": time.perf_counter() - begun}))


def in_process(options, name, events, once):
    """Run the query in a process of its own; its CPU time has all of its children in it."""
    passed = ["rate", "form", "target", "parallelism", "mode", "backend", "seed"]
    command = [sys.executable, "-m", "nexmark", name, "--events", str(events), "--once", once]
    for option in passed:
        command += [f"--{option}", str(getattr(options, option))]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{name} failed:\n{run.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(run.stdout.splitlines()[-1]), "cpu_s": cpu_s}


def measured(options, name):
    """Seconds of wall and CPU for the events beyond the first quarter: starts and ends drop out."""
    few = options.events // 4
    short, long = in_process(options, name, few, "time"), in_process(options, name, options.events, "time")
    differences = [long[kind] - short[kind] for kind in ("wall_s", "cpu_s")]
    return [(options.events - few) / seconds if seconds > 0 else math.nan for seconds in differences]


def main():
    options = parsed()
    if options.once:
        return run_once(options)
    print(
        f"{options.events:,} events at {options.rate:,} a second, {options.target}, parallelism {options.parallelism}"
    )
    names = AS_COLUMNS if options.form == "columns" else NAMES
    for name in [each for query in options.queries for each in (names if query == "all" else [query])]:
        rates = sorted(measured(options, name) for _ in range(options.rounds))
        wall, cpu = rates[len(rates) // 2]
        line = f"{name:4} {wall / 1e3:8,.0f} thousand events/s {cpu / 1e3:8,.0f} thousand events/CPU s"
        if not options.no_digest and name != "src":
            found = in_process(options, name, options.events, "digest")
            line += f"  {found['rows']:9,} results, digest {found['digest']}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
