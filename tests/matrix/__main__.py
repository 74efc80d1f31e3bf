"""New generated programs for some time: ``python -m matrix --hours 1 [--seed 7] [--targets embedded,local]``.

Prints a script for each program that fails, and at the end how many programs were run in which ways, and what failed.
"""

import argparse
import sys
import time

from matrix.exploring import explore
from matrix.runner import Runner
from matrix.ways import CALM, KILL, MOVE, RAISE

PROGRAMS_OF_A_SEED = 50
FIRST_SEED = 1_000_000  # of those that no test has run


def summary(runner, failures, seeds):
    """What was run, and how long it took."""
    lines = [f"{runner.programs} programs of {seeds} seeds, {runner.runs.total()} runs, {failures} failures"]
    lines += [
        f"  {target:9} {fault:6} {count:7} runs, {runner.seconds[target, fault] / count:.3f} s each"
        for (target, fault), count in sorted(runner.runs.items())
    ]
    return "\n".join([*lines, f"what the workers said: {runner.log_path}"])


def main():
    """Return 1 if a program failed."""
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=FIRST_SEED + time.time_ns() % FIRST_SEED)
    parser.add_argument("--targets", default="embedded,embedded,embedded,local")
    options = parser.parse_args()
    end, failures, seed = time.monotonic() + 3600 * options.hours, 0, options.seed
    faults = (CALM, CALM, RAISE, MOVE, KILL) if "local" in options.targets else (CALM, CALM, RAISE, MOVE)
    with Runner() as runner:
        try:
            while time.monotonic() < end:
                choice = {"targets": tuple(options.targets.split(",")), "faults": faults}
                found = explore(runner, seed, PROGRAMS_OF_A_SEED, **choice)
                if found is not None:
                    failures += 1
                    print(f"# ---- seed {seed}\n{found}", flush=True)
                seed += 1
        except KeyboardInterrupt:
            print("ended before its time", flush=True)
        print(summary(runner, failures, seed - options.seed), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
