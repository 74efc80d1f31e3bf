"""The whole story of a seed: ``python -m simulation SEED``, in the folder tests; ``FIRST-LAST`` runs many."""

import sys
import time

from simulation.replay import explain, run
from simulation.world import World


def tell(seed: int) -> int:
    """Print every line of one run."""
    world = World(seed, keeps_story=True)
    try:
        world.run()
    except Exception as error:
        print(explain(world, error))
        return 1
    print(explain(world, AssertionError("none: all went well")))
    return 0


def run_many(first: int, last: int) -> int:
    """Print what is wrong with each seed, in short, and how fast it went."""
    wrong, steps, started = 0, 0, time.perf_counter()
    for seed in range(first, last + 1):
        try:
            steps += run(seed).agenda.step_count
        except AssertionError as error:
            wrong += 1
            print(str(error).split("\n", 1)[0][:300])
    took_s = time.perf_counter() - started
    print(f"{last - first + 1} runs in {took_s:.1f} s, {steps} steps, {wrong} of them wrong")
    return wrong


if __name__ == "__main__":
    first, _, last = sys.argv[1].partition("-")
    sys.exit(bool(run_many(int(first), int(last)) if last else tell(int(first))))
