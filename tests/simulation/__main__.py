"""Runs of the simulation by hand, in the folder tests.

``python -m simulation SEED`` tells the whole story of a seed, ``FIRST-LAST`` runs many, ``--hours N`` runs new seeds
for so long. With ``--of checkpoints`` the jobs take checkpoints; without it they have no state. With ``--of batch``
their regions run one after the other.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from simulation.batch.batch_world import BatchWorld
from simulation.checkpoints.checkpoint_run import CheckpointRun
from simulation.replay import FailedRun, explain, run, run_batch, run_checkpoints
from simulation.world.world import World

FIRST_OF_LONG_RUNS = 1_000_000  # seeds that no test has run


def tell(seed: int, of: str) -> int:
    """Print every line of one run."""
    story = {"jobs": World, "checkpoints": CheckpointRun, "batch": BatchWorld}[of](seed, keeps_story=True)
    try:
        story.run()
    except Exception as error:
        print(explain(story, error))
        return 1
    print(explain(story, AssertionError("none: all went well")))
    return 0


def run_many(seeds: Iterable[int], of: str, until_s: float = float("inf")) -> int:
    """Print what is wrong with each seed, in short, and how fast it went."""
    count, wrong, steps, started = 0, 0, 0, time.perf_counter()
    for seed in seeds:
        if time.perf_counter() - started > until_s:
            break
        count += 1
        try:
            steps += {"jobs": run, "checkpoints": run_checkpoints, "batch": run_batch}[of](seed).agenda.step_count
        except FailedRun as error:
            wrong += 1
            print(str(error).split("\n", 1)[0][:300], flush=True)
    took_s = time.perf_counter() - started
    print(f"{count} runs in {took_s:.1f} s, {steps} steps, {wrong} of them wrong")
    return wrong


def main() -> int:
    """As the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("seeds", nargs="?", default="", help="SEED, or FIRST-LAST")
    parser.add_argument("--of", choices=("jobs", "checkpoints", "batch"), default="jobs")
    parser.add_argument("--hours", type=float, help="run new seeds for so long, from FIRST on if there is one")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    if options.hours is not None:
        seeds = range(int(first or FIRST_OF_LONG_RUNS), sys.maxsize)
        return run_many(seeds, options.of, options.hours * 3_600)
    if not first:
        parser.error("give a seed, FIRST-LAST or --hours")
    return run_many(range(int(first), int(last) + 1), options.of) if last else tell(int(first), options.of)


if __name__ == "__main__":
    sys.exit(bool(main()))
