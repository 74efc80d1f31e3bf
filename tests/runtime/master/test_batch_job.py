"""A batch job, region by region: who begins when and where, what is kept how long, and who begins again.

Flink: PipelinedRegionSchedulingStrategyTest, DefaultSchedulerBatchSchedulingTest.
"""

from dataclasses import replace

import pytest
from support.worlds.master_world import JOB, SESSION, MasterWorld, edge, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.picture.job_details import job_details
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import PartitionsReleased, ReleasePartitions
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CoordinatorFailed,
    EndJob,
    ManagerLost,
    RequestAnswered,
    RunFailed,
    StartManagers,
)
from flinkbuf.runtime.scheduler.master_actions import TriggerSavepoint as Trigger
from flinkbuf.runtime.scheduler.slots import slot_count

AGAIN = FixedDelayRestart(attempts=10, delay_ms=0)
BROKEN = Failure("builtins.OSError", "the disk", "Traceback ...")


def blocking(source, target, **fields):
    return edge(source, target, partition_type="BLOCKING", **fields)


def batch(widths, *edges, limit=None, **fields):
    """Vertices a, b, c ... each with slots of its own, as the graph of a batch job has them."""
    vertices = tuple(
        vertex(chr(97 + number), width, slot_sharing_group=f"default:{number}", **fields.get(chr(97 + number), {}))
        for number, width in enumerate(widths)
    )
    return JobPlan(JOB, "batch", vertices, edges, is_batch=True, slot_limit=limit)


def world_of(plan, restart=None, **config):
    world = MasterWorld(plan, restart, **config).start()
    return world.register_all()


def deployed(world):
    """(vertex, subtask, attempt) of what the last call has deployed."""
    names = {each.id: each.name for each in world.plan.vertices}
    attempts = [each.attempt for each in world.deployed()]
    return [(names[each.vertex_id], each.subtask_index, each.attempt_number) for each in attempts]


def run_all(world):
    """All tasks that are there finish; returns what began after that, in all."""
    begun = []
    for attempt in list(world.tasks):
        world.report(attempt, "RUNNING")
        world.report(attempt, "FINISHED")
        begun += deployed(world)
    return begun


def states(world):
    return ["".join(each.current.state.name[0] for each in job.subtasks) for job in world.job.graph.vertices]


TWO = batch([2, 2], blocking(0, 1))


def test_readers_begin_when_all_is_written():
    world = world_of(TWO)
    assert world.of(StartManagers, all_time=True)[0].indexes == (0, 1), "those of its widest region"
    assert states(world) == ["DD", "CC"]
    first, second = list(world.tasks)
    world.report(first, "FINISHED")
    assert deployed(world) == [] and states(world) == ["FD", "CC"]
    world.report(second, "FINISHED")
    assert deployed(world) == [("b", 0, 0), ("b", 1, 0)]
    channels = world.deployed()[0].gates[0].channels
    assert [each.host for each in channels] == ["host0", "host1"]
    assert world.deployed()[0].partitions == ()
    assert world.place[world.attempt(1, 1)] == "m1-1", "where it was written: the slot of its own index"


def test_partitions_go_when_all_readers_have_finished():
    world = world_of(TWO)
    run_all(world)
    first, second = list(world.tasks)
    world.report(first, "FINISHED")
    assert world.of(ReleasePartitions) == []
    world.report(second, "FINISHED")
    assert [len(each.partition_ids) for each in world.of(ReleasePartitions)] == [1, 1]
    assert world.of(EndJob)[0].status is JobStatus.FINISHED


def test_partitions_are_let_go_until_they_are_said_to_be_gone():
    world = world_of(batch([1, 1, 1], blocking(0, 1), blocking(1, 2)))
    for _ in range(2):
        (attempt,) = world.tasks
        world.report(attempt, "RUNNING")
        world.report(attempt, "FINISHED")
    (told,) = world.of(ReleasePartitions)
    manager_id = world.place[attempt]
    for _ in range(2):
        world.wait(10_000)
        world.heartbeat(manager_id)
        assert world.of(ReleasePartitions) == [told]
    world.say(manager_id, PartitionsReleased(SESSION, told.partition_ids))
    world.wait(10_000)
    world.heartbeat(manager_id)
    assert world.of(ReleasePartitions) == []


def test_with_fewer_slots_regions_run_one_after_the_other():
    plan = batch([3, 2], blocking(0, 1), limit=1)
    assert slot_count(plan) == 1
    world = world_of(plan)
    order = deployed(world)
    while world.tasks:
        assert len(world.tasks) == 1
        order += run_all(world)
    assert order == [("a", 0, 0), ("a", 1, 0), ("a", 2, 0), ("b", 0, 0), ("b", 1, 0)]
    assert world.of(EndJob)[0].status is JobStatus.FINISHED


def test_a_finished_region_gives_its_slot_to_one_that_waits():
    world = world_of(batch([2, 1], limit=2))
    assert states(world) == ["DD", "S"], "SCHEDULED: it waits for a slot, CREATED: for its input"
    world.report(world.attempt(0, 1), "FINISHED")
    assert deployed(world) == [("b", 0, 0)] and world.place[world.attempt(1, 0)] == "m1-1"


def test_who_waits_for_a_busy_slot_waits_as_long_as_it_takes():
    world = world_of(batch([2, 1], limit=2), slot_request_timeout_ms=1_000, heartbeat_timeout_ms=10**9)
    world.wait(100_000)
    assert states(world) == ["DD", "S"] and world.job.status is JobStatus.RUNNING


def test_a_region_that_streams_needs_all_of_its_slots_at_once():
    plan = batch([2, 2], edge(0, 1), limit=None)
    assert slot_count(plan) == 4
    with pytest.raises(ValueError, match="needs 4 slots at the same time, but slotmanager.number-of-slots.max is 3"):
        MasterWorld(replace(plan, slot_limit=3))
    pairs = batch([2, 2], edge(0, 1, is_pointwise=True), limit=2)
    world = world_of(pairs)
    assert states(world) == ["DS", "DS"]


def test_slots_of_a_streaming_job_are_limited_too():
    plan = replace(batch([2, 2], edge(0, 1)), is_batch=False, slot_limit=3)
    with pytest.raises(ValueError, match="needs 4 slots at the same time"):
        MasterWorld(plan)


def test_only_the_region_that_failed_begins_again():
    world = world_of(TWO, AGAIN)
    run_all(world)
    world.report(world.attempt(1, 0), "FAILED", BROKEN)
    assert deployed(world) == [("b", 0, 1)]
    assert states(world) == ["FF", "DD"], "neither who wrote what it reads, nor who reads beside it"
    run_all(world)
    assert world.of(EndJob)[0].status is JobStatus.FINISHED and world.job.restart_count == 1


def test_readers_of_a_writer_that_begins_again_do_too():
    world = world_of(batch([2, 2, 2], blocking(0, 1, is_pointwise=True), blocking(1, 2, is_pointwise=True)), AGAIN)
    world.report(world.attempt(0, 0), "FINISHED")
    world.report(world.attempt(1, 0), "FINISHED")
    assert deployed(world) == [("c", 0, 0)]
    world.report(world.attempt(0, 1), "FAILED", BROKEN)
    assert deployed(world) == [("a", 1, 1)]
    assert states(world)[2][0] == "D", "the others have nothing to do with it"


def lost(world, attempt, index=0):
    """The failure of who could not read what an attempt wrote."""
    execution = world.job.graph.execution_of(attempt)
    partition_id = world.job._tasks.scheduler.builder.partition_id(execution, index)
    return Failure("flinkbuf.errors.PartitionNotFoundError", "gone", is_echo=True, lost_partition=partition_id)


def test_what_cannot_be_read_is_written_again():
    world = world_of(TWO, AGAIN)
    run_all(world)
    world.report(world.attempt(1, 0), "FAILED", lost(world, world.attempt(0, 1)))
    world.confirm_cancels()
    assert deployed(world) == [("a", 1, 1)]
    assert run_all(world) == [("b", 0, 1), ("b", 1, 1)], "with all who read it"


def test_a_lost_manager_s_results_are_written_again_if_somebody_waits_for_them():
    world = world_of(TWO, AGAIN)
    world.report(world.attempt(0, 0), "FINISHED")
    world.lose("m1-0")
    world.register(0)
    assert deployed(world) == [("a", 0, 1)] and states(world) == ["DD", "CC"]


def test_a_lost_manager_s_results_are_not_written_again_for_nobody():
    world = world_of(batch([2, 1], blocking(0, 1)), AGAIN)
    run_all(world)  # b runs at m1-0
    run_all(world)
    assert world.job.is_over and world.job.restart_count == 0
    world = world_of(batch([1, 1, 2], blocking(0, 1), blocking(1, 2)), AGAIN)
    run_all(world)
    run_all(world)
    (holder,) = {world.place[world.attempt(1, 0)]}
    (other,) = {"m1-0", "m1-1"} - {holder}
    world.lose(other)
    assert "a" not in {name for name, _, _ in deployed(world)}, "its result was let go"
    assert states(world)[:2] == ["F", "F"]


def test_who_reads_from_a_lost_manager_goes_on_until_it_fails():
    world = world_of(batch([2, 1], blocking(0, 1)), AGAIN)
    run_all(world)
    reader = world.attempt(1, 0)
    world.report(reader, "RUNNING")
    assert world.place[reader] == "m1-0"
    world.lose("m1-1")
    assert states(world) == ["FF", "R"], "it may have read all that it needs"
    world.report(reader, "FAILED", Failure("flinkbuf.errors.RemoteTransportError", "reset", is_echo=True))
    assert deployed(world) == [("a", 1, 1)] and states(world) == ["FD", "C"]


GANG = {"managers_come_together": True}


def test_a_lost_run_costs_what_is_still_needed():
    """As on Spark, where a lost executor ends the stage: what its tasks kept is gone with all of them."""
    plan = batch([1, 2, 2, 2], blocking(0, 1), blocking(1, 2, is_pointwise=True), blocking(2, 3, is_pointwise=True))
    world = world_of(plan, AGAIN, **GANG)
    run_all(world)
    world.report(world.attempt(1, 0), "FINISHED")
    world.report(world.attempt(2, 0), "FINISHED")
    world.report(world.attempt(3, 0), "FINISHED")  # one way through the job is done
    world.tell(RunFailed(1, Failure("builtins.RuntimeError", "the stage ended")))
    for manager in ("m1-0", "m1-1"):
        world.tell(ManagerLost(manager, "gone"))
    world.tasks.clear()
    asked = world.of(StartManagers, all_time=True)[-1]
    assert (asked.run, asked.indexes) == (2, (0, 1)), "all of a run, though one would do"
    world.register(0)
    assert deployed(world) == [("a", 0, 1)], "b 1 has not finished, and what it reads went with the run"
    world.register(1)
    begun = run_all(world)
    assert sorted(begun) == [("b", 0, 1), ("b", 1, 1)], "who reads what is written again begins again"


def test_what_reads_its_slot_stays_in_it_and_begins_again_in_other_processes():
    plan = batch([2, 2], blocking(0, 1), a={"is_slot_fixed": True})
    world = world_of(plan, AGAIN, can_restart_in_place=False, **GANG)
    assert [world.place[world.attempt(0, number)] for number in range(2)] == ["m1-0", "m1-1"]
    run_all(world)
    world.report(world.attempt(1, 1), "FAILED", BROKEN)
    assert deployed(world) == [("b", 1, 1)], "what it reads is kept: nothing of the slot is needed again"
    world.report(world.attempt(1, 1, 1), "FAILED", lost(world, world.attempt(0, 0)))
    world.confirm_cancels()
    assert sorted(world.stopped()) == ["m1-0", "m1-1"], "input of the slots came with their processes, once"


def test_the_first_failure_ends_a_job_that_says_nothing():
    world = world_of(TWO)
    world.report(world.attempt(0, 0), "FAILED", BROKEN)
    world.confirm_cancels()
    assert world.of(EndJob)[0].status is JobStatus.FAILED


def test_a_batch_job_gives_no_savepoint():
    world = world_of(TWO)
    world.tell(Trigger(7))
    (answer,) = world.of(RequestAnswered)
    assert answer.request == 7 and "a batch job keeps no state" in answer.failure.message


def test_a_job_shows_who_waits_for_what():
    world = world_of(batch([2, 1, 1], blocking(1, 2), limit=2))
    details = job_details(world.job, 0)
    assert (details["job-type"], details["plan"]["type"]) == ("BATCH", "BATCH")
    assert [each["status"] for each in details["vertices"]] == ["DEPLOYING", "SCHEDULED", "CREATED"]
    assert details["plan"]["nodes"][2]["inputs"][0]["exchange"] == "blocking"


def test_a_cancelled_job_ends_whoever_waits():
    world = world_of(TWO)
    world.report(world.attempt(0, 0), "FINISHED")
    world.tell(CancelJob())
    world.confirm_cancels()
    assert world.of(EndJob)[0].status is JobStatus.CANCELED
    assert world.job.graph.vertices[1].state_counts[ExecutionState.CANCELED] == 2


@pytest.mark.parametrize("how", ["the whole job", "what d reads"])
def test_a_sink_that_is_complete_is_not_written_again(how):
    """a feeds the sink, b and its committer c, and d, which has not finished."""
    edges = blocking(0, 1), blocking(1, 2, is_pointwise=True), blocking(0, 3, partition_index=1)
    world = world_of(batch([1, 2, 2, 1], *edges, c={"is_committer": True}), AGAIN)
    for key in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]:
        world.report(world.attempt(*key), "RUNNING")
        world.report(world.attempt(*key), "FINISHED")
    assert states(world)[:3] == ["F", "FF", "FF"]
    if how == "the whole job":
        world.tell(CoordinatorFailed(BROKEN))
        world.confirm_cancels()
    else:
        world.report(world.attempt(3, 0), "FAILED", lost(world, world.attempt(0, 0), 1))
        world.confirm_cancels()
    assert deployed(world) == [("a", 0, 1)]
    assert run_all(world) == [("d", 0, 1)] and states(world)[1:3] == ["FF", "FF"]
    run_all(world)
    assert world.of(EndJob)[0].status is JobStatus.FINISHED
