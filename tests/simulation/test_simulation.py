"""Whatever breaks, whenever: every invariant holds, and the job ends as its history demands."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flinkbuf.runtime.protocol.job_status import JobStatus
from simulation.replay import FailedRun, run
from simulation.world.world import World

TESTS = Path(__file__).parents[1]


def test_every_seed_holds_what_must_hold(seeds):
    ends, restarts, killed = Counter(), 0, 0
    for seed in seeds:
        world = run(seed)
        ends[world.end.status] += 1
        restarts += world.master.restart_count
        killed += sum(manager.was_ill for manager in world.provider.managers.values())
    if len(seeds) >= 200:  # the world is neither too kind nor too cruel
        assert (
            min(ends[status] for status in (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED))
            > len(seeds) // 20
        )
        assert restarts > len(seeds) // 4
        assert killed > len(seeds) // 10


def story_of(seed):
    world = World(seed, keeps_story=True)
    world.run()
    return "\n".join(world.lines())


@pytest.mark.parametrize("seed", [3, 17, 58])
def test_a_seed_tells_the_same_story_twice(seed):
    assert story_of(seed) == story_of(seed)


def test_a_seed_tells_the_same_story_in_every_process():
    """No order comes from hashes, which differ between processes."""
    code = (
        "from simulation.test_simulation import story_of; import hashlib\n"
        "print(hashlib.sha256(''.join(map(story_of, range(20, 40))).encode()).hexdigest())"
    )
    stories = set()
    for hash_seed in ("1", "2"):
        surroundings = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)}
        ran = subprocess.run(
            [sys.executable, "-c", code], env=surroundings, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        stories.add(ran.stdout)
    assert len(stories) == 1


def test_a_failing_seed_says_how_to_see_it_again(monkeypatch):
    monkeypatch.setattr("simulation.world.invariants.Invariants.at_the_end", lambda self: 1 / 0)
    with pytest.raises(FailedRun, match="(?s)seed 5: .*--seed 5.*the last of its story:\n.*EndJob"):
        run(5)
