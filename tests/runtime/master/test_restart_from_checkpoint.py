"""What a job begins again with. Flink: CheckpointCoordinatorRestoringTest, SchedulerBase.restoreState."""

import pytest
from support.worlds.checkpoint_world import DIRECTORY, CheckpointWorld, error_of, file, keyed, state
from support.worlds.master_world import JOB, error, pipeline, vertex

from flinkbuf.checkpoints.handles import (
    CheckpointMetadata,
    OperatorInCheckpoint,
    StateHandle,
    SubtaskState,
    VertexInCheckpoint,
)
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import CancelTask, DeployTasks, NotifyCheckpointAborted, TriggerCheckpoint
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CoordinatorFailed,
    EndJob,
    ResetSources,
    StartManagers,
    StatusChanged,
    StoreCheckpoint,
    SuspendJob,
    WithdrawCheckpoint,
)


def running(plan=None, **fields):
    return CheckpointWorld(plan, **fields).begin()


def states_of(world, number=""):
    """A state for each task, in a file named after it."""
    return {
        attempt: state(
            bytes.fromhex(attempt.vertex_id).rstrip(b"\0").decode(), operator=file(f"{attempt.subtask_index}{number}")
        )
        for attempt in world.tasks
    }


def restores(world):
    """What was deployed last begins with, by (vertex name, subtask)."""
    found = {}
    for descriptor in world.deployed():
        found[descriptor.task_name, descriptor.attempt.subtask_index] = descriptor.restore
    return found


def paths(restore):
    return [handle.path.rsplit("/")[-1] for each in restore.operators for handle in each.operator]


# ---- a failure


def test_without_a_checkpoint_it_begins_with_nothing():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.confirm_cancels().wait(1_000)
    assert set(restores(world).values()) == {None}
    assert world.of(ResetSources)[0].checkpoint_id is None


def test_each_task_begins_with_its_state_and_sources_are_told_the_checkpoint():
    world = running()
    world.complete(states_of(world))
    world.report(world.attempt(1, 0), "FAILED", error())
    world.confirm_cancels().wait(1_000)
    found = restores(world)
    assert {where: (each.checkpoint_id, paths(each)) for where, each in found.items()} == {
        ("source", 0): (1, ["0"]),
        ("source", 1): (1, ["1"]),
        ("sink", 0): (1, ["0"]),
        ("sink", 1): (1, ["1"]),
    }
    [reset] = world.of(ResetSources)
    assert (reset.checkpoint_id, reset.is_global, reset.states) == (1, False, {})
    kinds = [type(getattr(each, "message", each)) for each in world.last]
    assert kinds.index(ResetSources) < kinds.index(DeployTasks)


def test_coordinators_that_are_made_anew_are_given_their_state():
    world = running()
    world.complete()
    world.tell(CoordinatorFailed(error()))
    world.confirm_cancels().wait(1_000)
    [reset] = world.of(ResetSources)
    assert (reset.checkpoint_id, reset.is_global) == (1, True)
    assert reset.states["source"].data == b"enumerator"


def test_only_the_region_that_failed_goes_back():
    world = running(pipeline(is_pointwise=True))
    world.complete(states_of(world))
    world.report(world.attempt(1, 1), "FAILED", error())
    world.confirm_cancels().wait(1_000)
    assert {where: paths(each) for where, each in restores(world).items()} == {("source", 1): ["1"], ("sink", 1): ["1"]}


def test_the_latest_one_counts_and_what_was_under_way_does_not():
    world = running()
    world.complete(states_of(world, "a"))
    world.complete(states_of(world, "b"), span_ms=1_000)
    checkpoint_id = world.trigger(1_000)
    world.acknowledge(checkpoint_id, world.attempt(0, 0))
    world.report(world.attempt(1, 0), "FAILED", error())
    assert {each.checkpoint_id for each in world.of(NotifyCheckpointAborted)} == {3}
    kinds = [type(getattr(each, "message", each)) for each in world.last]
    assert kinds.index(NotifyCheckpointAborted) < kinds.index(CancelTask)
    world.confirm_cancels().wait(1_000)
    assert paths(restores(world)["sink", 1]) == ["1b"]


def test_an_answer_of_the_attempt_before_counts_for_nothing():
    world = running()
    old = world.attempt(0, 0)
    world.complete()
    world.begin_again()
    checkpoint_id = world.trigger(1_000)
    world.acknowledge(checkpoint_id, old)
    assert len(world.checkpoints.pending[checkpoint_id].missing) == 4


def test_numbers_go_on_and_the_clock_begins_anew_after_all_run_again():
    world = running()
    world.complete()
    world.begin_again()
    assert world.trigger() == 2


def test_what_all_have_answered_is_waited_for_before_the_job_begins_again():
    """It may count already for whoever reads it there: a job must not go on from an earlier one."""
    world = running()
    world.complete(states_of(world, "a"))
    checkpoint_id = world.trigger(1_000)
    world.acknowledge_all(checkpoint_id, states_of(world, "b"))
    world.report(world.attempt(1, 0), "FAILED", error())
    world.confirm_cancels().wait(30_000)
    assert world.deployed() == []
    world.stored(checkpoint_id)
    assert paths(restores(world)["sink", 1]) == ["1b"]
    assert world.job.status is JobStatus.RUNNING


def test_a_storage_that_hangs_holds_the_job_up_until_it_says_what_became_of_the_checkpoint():
    """Another job master may find it already: begun without it, the job would undo what that one begins from."""
    world = running(timeout_ms=20_000)
    world.complete()
    checkpoint_id = world.trigger(1_000)
    world.acknowledge_all(checkpoint_id, states_of(world, "b"))
    world.report(world.attempt(1, 0), "FAILED", error())
    world.confirm_cancels().wait(20_000)
    assert world.of(WithdrawCheckpoint) == [WithdrawCheckpoint(checkpoint_id)]
    world.wait(15_000)
    assert world.job.status is JobStatus.RESTARTING
    world.stored(checkpoint_id)
    assert paths(restores(world)["sink", 1]) == ["1b"]
    assert world.job.status is JobStatus.RUNNING


def test_a_checkpoint_that_comes_to_nothing_late_is_not_begun_from():
    world = running(timeout_ms=20_000)
    checkpoint_id = world.trigger()
    world.acknowledge_all(checkpoint_id)
    world.report(world.attempt(1, 0), "FAILED", error())
    world.confirm_cancels().wait(20_000)
    world.stored(checkpoint_id, failure=error())
    assert world.records == [(1, "FAILED", "CHECKPOINT_EXPIRED")]
    assert world.job.status is JobStatus.RUNNING
    assert world.checkpoints.latest is None


def test_a_task_that_had_finished_alone_begins_anew_and_all_of_them_as_finished():
    world = running(tolerable_failures=-1)
    world.complete()
    world.report(world.attempt(0, 0), "FINISHED")
    world.complete(span_ms=1_000)
    world.report(world.attempt(0, 1), "FINISHED")
    world.report(world.attempt(1, 0), "FAILED", error())
    world.confirm_cancels().wait(1_000)
    assert [restores(world)["source", index].is_finished for index in range(2)] == [False, False]
    world.all_report("INITIALIZING", "RUNNING").wait(0)
    for subtask in range(2):
        world.report(world.attempt(0, subtask, 1), "FINISHED")
    world.complete(span_ms=1_000)
    world.report(world.attempt(1, 0, 1), "FAILED", error())
    world.confirm_cancels().wait(1_000)
    assert {where: each.is_finished for where, each in restores(world).items()} == {
        ("source", 0): True,
        ("source", 1): True,
        ("sink", 0): False,
        ("sink", 1): False,
    }


def test_the_ends_of_data_of_old_attempts_are_forgotten():
    world = running()
    world.complete()
    world.end_of_data(*list(world.tasks)[:3])
    world.begin_again()
    world.complete(span_ms=0)
    before = len(world.of(TriggerCheckpoint, all_time=True))
    world.end_of_data(list(world.tasks)[3])
    assert len(world.of(TriggerCheckpoint, all_time=True)) == before


# ---- a start from what another run left


def metadata(parallelism=2, *, checkpoint_id=7, operator_id="sink", is_savepoint=True, files=(), max_parallelism=128):
    """What a pipeline left whose sink has keyed state."""
    names = ("source", operator_id)
    subtasks = {
        "source": [state("source", operator=file(f"source-{index}")) for index in range(parallelism)],
        operator_id: [
            state(operator_id, keyed=[keyed(first, last, files=files, max_parallelism=max_parallelism)])
            for first, last in zip(
                range(0, max_parallelism, max_parallelism // parallelism),
                range(max_parallelism // parallelism - 1, max_parallelism, max_parallelism // parallelism),
                strict=True,
            )
        ],
    }
    vertices = tuple(
        VertexInCheckpoint(
            vertex(name).id,
            name,
            parallelism,
            max_parallelism,
            (
                OperatorInCheckpoint(
                    name, name, f"{name}-uid", StateHandle(3, data=b"old") if name == "source" else None
                ),
            ),
            tuple(subtasks[name]),
        )
        for name in names
    )
    return CheckpointMetadata(checkpoint_id, 5, "aa" * 16, "before", is_savepoint, vertices)


def from_savepoint(found=None, *, claim_mode="NO_CLAIM", allows=False, plan=None, **fields):
    initial = RestoredCheckpoint(found or metadata(), "/old/savepoint", claim_mode, allows)
    return CheckpointWorld(plan, initial=initial, **fields)


def test_a_start_resets_coordinators_first_then_deploys_with_state():
    world = from_savepoint().start()
    assert [type(each) for each in world.last] == [StatusChanged, ResetSources, StartManagers]
    [reset] = world.of(ResetSources)
    assert (reset.is_global, reset.checkpoint_id, reset.states["source"].data) == (True, 7, b"old")
    world.register(0)
    world.register(1)
    assert [restores(world)["sink", index].operators[0].keyed[0].first_key_group for index in range(2)] == [0, 64]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_at_another_parallelism(parallelism):
    world = from_savepoint(plan=pipeline(parallelism)).start()
    world.register_all()
    groups = {
        index: [each.first_key_group for each in restores(world)["sink", index].operators[0].keyed]
        for index in range(parallelism)
        if ("sink", index) in restores(world)
    }
    last = parallelism - 1
    assert groups[last] == ([0, 64] if parallelism == 1 else [64])


def test_numbers_are_higher_than_that_of_the_savepoint():
    assert from_savepoint().begin().trigger() == 8


def test_the_first_one_of_a_savepoint_that_is_not_ours_refers_to_nothing_old():
    world = from_savepoint().begin()
    world.trigger()
    assert {each.options.kind for each in world.of(TriggerCheckpoint)} == {"FULL_CHECKPOINT"}
    world.acknowledge_all(8).stored(8)
    world.trigger(1_000)
    assert {each.options.kind for each in world.of(TriggerCheckpoint)} == {"CHECKPOINT"}
    assert world.discarded(all_time=True) == []


def test_a_claimed_one_is_deleted_when_it_is_not_needed_any_more_with_its_files():
    found = metadata(files=("a", "b"), is_savepoint=False)
    world = from_savepoint(found, claim_mode="CLAIM").begin()
    world.trigger()
    assert {each.options.kind for each in world.of(TriggerCheckpoint)} == {"CHECKPOINT"}
    used = {world.attempt(1, 0): state(keyed=[keyed(0, 63, files=("a",))])}
    world.acknowledge_all(8, used).stored(8)
    assert world.discarded() == [(7, "/old/savepoint")]
    assert world.files_discarded() == [f"{DIRECTORY}/shared/b"]


def test_one_that_is_not_claimed_is_never_deleted_nor_its_files():
    world = from_savepoint(metadata(files=("a",)), retention="NO_EXTERNALIZED_CHECKPOINTS").begin()
    checkpoint_id = world.trigger()
    world.acknowledge_all(checkpoint_id, {world.attempt(1, 0): state(keyed=[keyed(0, 63, files=("a",))])})
    world.stored(checkpoint_id)
    world.complete(span_ms=1_000)
    world.tell(CancelJob())
    world.confirm_cancels()
    assert (7, "/old/savepoint") not in world.discarded(all_time=True)
    assert world.files_discarded() == []


def test_a_failure_before_the_first_checkpoint_goes_back_to_the_savepoint():
    world = from_savepoint().begin()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.confirm_cancels().wait(1_000)
    assert {each.checkpoint_id for each in restores(world).values()} == {7}


def test_state_that_has_no_operator_is_an_error_that_says_whose_it_is():
    with pytest.raises(ValueError, match=r"uid 'counts-uid'.*ignore-unclaimed-state"):
        from_savepoint(metadata(operator_id="counts"))
    from_savepoint(metadata(operator_id="counts"), allows=True).begin()


def test_another_number_of_key_groups_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match=r"64 key groups.*set_max_parallelism\(64\)"):
        from_savepoint(metadata(max_parallelism=64))


def test_details_say_what_it_began_with():
    world = from_savepoint().begin()
    restored = world.checkpoints.details(world.now_ms)["latest"]["restored"]
    assert (restored["id"], restored["is_savepoint"], restored["external_path"]) == (7, True, "/old/savepoint")


# ---- somebody else leads


def test_a_job_that_is_suspended_deletes_nothing_and_tells_nobody_of_success():
    world = running()
    world.complete()
    checkpoint_id = world.trigger(1_000)
    world.acknowledge_all(checkpoint_id, {world.attempt(0, 0): SubtaskState()})
    assert world.of(StoreCheckpoint)
    before = world.discarded(all_time=True)
    world.tell(SuspendJob())
    world.stored(checkpoint_id)
    assert world.notified() == []
    world.confirm_cancels()
    assert world.end == ("SUSPENDED", None)
    assert world.discarded(all_time=True) == before
    assert isinstance(world.last[-1], EndJob)


def test_a_failure_of_a_suspended_job_changes_nothing():
    world = running()
    world.tell(SuspendJob())
    world.report(world.attempt(0, 0), "FAILED", error_of("boom"))
    world.confirm_cancels()
    assert world.end == ("SUSPENDED", None)


def test_a_job_of_one_source_goes_back_as_well():
    world = running(JobPlan(JOB, "alone", (vertex("source", 1),)))
    world.complete({world.attempt(0, 0): state("source", operator=file("x"))})
    world.report(world.attempt(0, 0), "FAILED", error())
    world.wait(1_000)
    assert paths(restores(world)["source", 0]) == ["x"]
