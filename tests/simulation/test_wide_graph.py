"""A thousand subtasks: scheduled, deployed, run and ended."""

import gc
import time

from flinkbuf.runtime.protocol.job_status import JobStatus
from simulation.settings import calm_settings
from simulation.world.odds import calm_odds
from simulation.world.plans import wide_plan
from simulation.world.world import START_MS, World


def test_a_thousand_subtasks_are_deployed_and_finish(record_property):
    plan = wide_plan(vertex_count=10, parallelism=100)
    gc.collect()
    started = time.perf_counter()
    world = World(0, plan=plan, settings=calm_settings(), odds=calm_odds(START_MS))
    while len(world.invariants.truth) < 1_000:
        assert world.step()
    deployed_s = time.perf_counter() - started
    world.run()
    print(
        f"\n1,000 subtasks on 100 managers deployed in {deployed_s:.2f} s, run in {time.perf_counter() - started:.2f} s"
    )
    record_property("deployed_s", deployed_s)
    assert world.end.status is JobStatus.FINISHED
    assert len(world.provider.managers) == 100
    assert world.master.restart_count == 0
