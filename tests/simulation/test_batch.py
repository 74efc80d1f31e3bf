"""Batch jobs, whatever breaks: regions read what is complete, nothing is left, and only what is needed runs again."""

from collections import Counter

import pytest

from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from simulation.batch import planted_batch
from simulation.batch.batch_world import BatchWorld
from simulation.replay import run_batch
from simulation.test_planted_bugs import look_for_it


def test_every_seed_holds_what_must_hold(seeds):
    ends, counts = Counter(), Counter()
    for seed in seeds:
        world = run_batch(seed)
        ends[world.end.status] += 1
        counts["restarts"] += world.master.restart_count
        counts["let go"] += len(world.invariants.released)
        counts["lost"] += sum(bool(failure.lost_partition) for failure in world.failures)
        counts["again"] += sum(
            attempt.state is ExecutionState.FINISHED
            for subtask in world.master.graph.subtasks()
            for attempt in subtask.history
        )
    if len(seeds) >= 200:  # the world is neither too kind nor too cruel
        least = min(ends[status] for status in (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED))
        assert least > len(seeds) // 20
        assert counts["restarts"] > len(seeds) // 2 and counts["let go"] > len(seeds)
        assert counts["again"] > len(seeds) // 10 and counts["lost"] > len(seeds) // 50


@pytest.mark.parametrize("seed", [5, 40])
def test_a_seed_tells_the_same_story_twice(seed):
    stories = [list(BatchWorld(seed, keeps_story=True).run().lines()) for _ in range(2)]
    assert stories[0] == stories[1]


@pytest.mark.parametrize("name", planted_batch.BUGS)
def test_planted_bug_is_found(name, monkeypatch):
    planted_batch.BUGS[name](monkeypatch)
    look_for_it(name, run_batch, monkeypatch)
