"""Savepoints, and jobs that stop with one. Flink: CheckpointCoordinatorTest, StopWithSavepointTest."""

import pytest
from support.worlds.checkpoint_world import CheckpointWorld
from support.worlds.master_world import error

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import TriggerCheckpoint
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    EndJob,
    NotifyCoordinators,
    RequestAnswered,
    TriggerSavepoint,
    WithdrawCheckpoint,
)

STOPS = [SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE]


def running(**checkpointing):
    """A job that takes checkpoints only when somebody asks."""
    checkpointing.setdefault("interval_ms", 0)
    return CheckpointWorld(**checkpointing).begin()


def finish(world):
    for attempt in list(world.tasks):
        world.report(attempt, "FINISHED")
    return world


def refusal(world, *arguments, **fields):
    request = world.savepoint(*arguments, **fields)
    return world.answers[request]


def test_its_path_is_told_when_it_is_stored():
    world = running()
    request = world.savepoint()
    checkpoint_id = world.trigger()
    options = world.of(TriggerCheckpoint)[0].options
    assert options.location.startswith("/savepoints/savepoint-0b0b0b-")
    world.acknowledge_all(checkpoint_id)
    assert world.answers == {}
    world.stored(checkpoint_id)
    assert world.answers == {request: options.location}


def test_nobody_is_told_that_it_counts_and_nothing_is_deleted_for_it():
    """Else sinks would commit what no checkpoint of the job knows."""
    world = running(interval_ms=1_000)
    world.complete()
    world.savepoint()
    world.complete()
    assert (world.notified(), world.of(NotifyCoordinators)) == ([], [])
    assert world.checkpoints.latest.id == 1
    assert world.discarded(all_time=True) == []


def test_it_waits_for_no_other_and_no_other_makes_it_needless():
    world = running(interval_ms=1_000, max_concurrent=2)
    world.trigger()
    world.savepoint()
    assert world.trigger() == 2
    world.acknowledge_all(1).stored(1)
    assert list(world.checkpoints.pending) == [2]
    world.trigger(1_000)
    world.acknowledge_all(3).stored(3)
    assert 2 in world.checkpoints.pending


def test_where_barriers_overtake_it_waits_its_turn_and_is_aligned():
    world = running(interval_ms=1_000, is_unaligned=True)
    world.trigger()
    world.savepoint()
    assert list(world.checkpoints.pending) == [1]
    world.acknowledge_all(1).stored(1)
    world.coordinators(2)
    options = world.of(TriggerCheckpoint)[0].options
    assert (options.kind, options.is_unaligned, options.aligned_timeout_ms) == ("SAVEPOINT", False, -1)


def test_one_that_a_task_declines_is_answered_and_the_job_goes_on():
    world = running(tolerable_failures=1)
    request = world.savepoint()
    world.decline(world.trigger(), world.attempt(0, 0), failure=error("disk full"))
    assert "disk full" in world.answers[request]
    assert "source (1/2)" in world.answers[request]
    assert world.job.status is JobStatus.RUNNING


def test_one_that_expires_or_cannot_be_stored_never_fails_the_job():
    world = running(timeout_ms=5_000)
    first = world.savepoint()
    world.trigger()
    world.wait(5_000)
    second = world.savepoint()
    checkpoint_id = world.trigger()
    world.acknowledge_all(checkpoint_id).stored(checkpoint_id, failure=error("no space"))
    assert "in time" in world.answers[first]
    assert "no space" in world.answers[second]
    assert world.job.status is JobStatus.RUNNING


def test_what_is_refused_at_once_says_why():
    world = running()
    assert "give a directory" in refusal(world, directory="")
    early = CheckpointWorld()
    assert "does not run" in refusal(early)
    early.start().register_all()
    assert "source (1/2) is DEPLOYING" in refusal(early)
    finish(world)
    assert "has ended" in refusal(world)


@pytest.mark.parametrize("kind", [SnapshotKind.CHECKPOINT, SnapshotKind.FULL_CHECKPOINT])
def test_a_checkpoint_is_taken_when_a_user_asks_and_counts_as_any_other(kind):
    world = running()
    request = world.savepoint(kind, directory="")
    checkpoint_id = world.trigger()
    options = world.of(TriggerCheckpoint)[0].options
    assert options.snapshot_kind is kind
    world.acknowledge_all(checkpoint_id).stored(checkpoint_id)
    (answer,) = world.of(RequestAnswered)
    assert (answer.request, answer.checkpoint_id, answer.path) == (request, checkpoint_id, options.location)
    assert world.notified() == [(each, checkpoint_id) for each in world.tasks]
    assert world.checkpoints.latest.id == checkpoint_id


def test_a_checkpoint_that_a_user_asked_for_waits_its_turn_and_is_given_up_for_a_stop():
    world = running()
    first = world.savepoint(SnapshotKind.CHECKPOINT)
    world.trigger()
    second = world.savepoint(SnapshotKind.CHECKPOINT)
    assert list(world.checkpoints.pending) == [1] and world.answers == {}
    world.savepoint(STOPS[0])
    assert {first, second} <= world.answers.keys()
    assert all(text.startswith("no checkpoint was taken: ") for text in world.answers.values())
    assert "being stopped with a savepoint" in refusal(world, SnapshotKind.CHECKPOINT)


def test_a_checkpoint_that_a_user_asked_for_is_answered_when_a_task_fails():
    world = running()
    request = world.savepoint(SnapshotKind.CHECKPOINT)
    world.trigger()
    world.report(next(iter(world.tasks)), "FAILED", error())
    assert world.answers[request].startswith("no checkpoint was taken: ")
    assert "the job does not run" in refusal(world, SnapshotKind.CHECKPOINT)


def test_the_configured_directory_is_used_where_nobody_names_one():
    world = running(savepoint_directory="s3://bucket/saved?region=x")
    world.savepoint(directory="")
    world.trigger()
    location = world.of(TriggerCheckpoint)[0].options.location
    assert location.startswith("s3://bucket/saved/savepoint-")
    assert location.endswith("?region=x")


def test_too_many_that_wait_are_refused():
    world = running(is_unaligned=True)
    requests = [world.savepoint() for _ in range(1_003)]
    assert sorted(world.answers) == requests[-2:], "one is under way, a thousand wait"


def test_a_failure_answers_all_that_are_under_way_or_wait():
    world = running(is_unaligned=True)
    requests = [world.savepoint() for _ in range(3)]
    world.trigger()
    world.report(world.attempt(0, 0), "FAILED", error())
    assert sorted(world.answers) == requests


@pytest.mark.parametrize("stage", ["coordinators", "tasks", "storing"])
def test_a_cancel_answers_what_is_under_way(stage):
    world = running()
    request = world.savepoint()
    if stage != "coordinators":
        checkpoint_id = world.trigger()
    if stage == "storing":
        world.acknowledge_all(checkpoint_id)
    world.tell(CancelJob())
    world.confirm_cancels()
    assert "the job ends" in world.answers[request]
    assert world.end == ("CANCELED", None)
    kinds = [type(each) for each in world.actions]
    assert kinds.index(RequestAnswered) < kinds.index(EndJob)


# ---- stop with a savepoint


@pytest.mark.parametrize("kind", STOPS)
def test_a_job_stops_with_a_savepoint_and_is_answered_when_it_has_finished(kind):
    world = running()
    request = world.savepoint(kind)
    checkpoint_id = world.trigger()
    assert {each.options.kind for each in world.of(TriggerCheckpoint)} == {kind.value}
    world.acknowledge_all(checkpoint_id).stored(checkpoint_id)
    assert [attempt for attempt, _ in world.notified()] == list(world.tasks), "sinks commit, and tasks end"
    assert world.of(NotifyCoordinators) == [NotifyCoordinators(checkpoint_id)]
    assert world.answers == {}
    finish(world)
    assert world.answers[request].startswith("/savepoints/")
    assert world.end == ("FINISHED", None)


def test_nothing_else_begins_while_a_job_stops_and_what_was_under_way_is_given_up():
    world = running(interval_ms=1_000)
    world.trigger()
    world.savepoint(STOPS[0])
    assert world.records == [(1, "FAILED", "CHECKPOINT_COORDINATOR_SUSPEND")]
    world.trigger()
    world.wait(5_000)
    assert list(world.checkpoints.pending) == [2]
    assert "being stopped with a savepoint" in refusal(world, STOPS[1])
    world.acknowledge_all(2).stored(2)
    world.wait(5_000)
    assert world.checkpoints.pending == {}


def test_a_stop_that_a_task_declines_makes_the_job_begin_again_from_its_checkpoint():
    world = running(interval_ms=1_000)
    world.complete()
    request = world.savepoint(STOPS[0])
    world.decline(world.trigger(), world.attempt(1, 0), "CHECKPOINT_DECLINED_TASK_NOT_READY")
    assert "no savepoint" in world.answers[request]
    assert world.job.status is JobStatus.RESTARTING
    world.confirm_cancels().wait(1_000)
    world.all_report("INITIALIZING", "RUNNING").wait(0)
    assert world.trigger() == 3, "and takes checkpoints again"


def test_a_stop_whose_savepoint_cannot_be_stored_makes_the_job_begin_again():
    world = running()
    request = world.savepoint(STOPS[0])
    checkpoint_id = world.trigger()
    world.acknowledge_all(checkpoint_id).stored(checkpoint_id, failure=error("no space"))
    assert "no space" in world.answers[request]
    assert world.job.status is JobStatus.RESTARTING


def test_a_stop_that_cannot_even_begin_leaves_the_job_as_it_is():
    world = CheckpointWorld(interval_ms=1_000).start().register_all()
    request = world.savepoint(STOPS[0])
    assert "DEPLOYING" in world.answers[request]
    world.all_report("INITIALIZING", "RUNNING").wait(0)
    assert world.trigger() == 1
    request = world.savepoint(STOPS[0])
    world.coordinators(2, failure=error("enumerator"))
    assert "enumerator" in world.answers[request]
    assert world.job.status is JobStatus.RUNNING
    assert world.trigger(1_000) == 3


def test_a_task_that_fails_after_the_savepoint_fails_the_job_which_names_it():
    """Its transactions may be committed: going on from an earlier checkpoint would commit them again."""
    world = running(interval_ms=1_000)
    world.complete()
    request = world.savepoint(STOPS[0])
    checkpoint_id = world.trigger()
    world.acknowledge_all(checkpoint_id).stored(checkpoint_id)
    world.report(world.attempt(1, 0), "FAILED", error("too late", exception=ValueError("too late")))
    world.confirm_cancels()
    status, message = world.end
    (end,) = world.of(EndJob, all_time=True)
    assert str(end.failure.to_exception()) == message  # not that of the task, where it ran in the program
    assert status == "FAILED"
    assert "/savepoints/savepoint-" in message
    assert "too late" in message
    assert "which is whole" in world.answers[request]


def failed_while_stored(restart=None):
    """A job that is to stop with a savepoint, one task of which fails while that is stored."""
    world = running(interval_ms=1_000, restart=restart)
    world.complete()
    request = world.savepoint(STOPS[0])
    checkpoint_id = world.trigger()
    world.acknowledge_all(checkpoint_id)
    world.report(world.attempt(1, 0), "FAILED", error("too early"))
    return world, request, checkpoint_id


@pytest.mark.parametrize("restart", [None, NoRestart()])
def test_a_task_that_fails_while_the_savepoint_is_stored_fails_the_job_once_it_is(restart):
    """The savepoint is whole, and what it holds may be committed: the job cannot begin again from the one before."""
    world, request, checkpoint_id = failed_while_stored(restart)
    world.stored(checkpoint_id)
    assert world.job.status is JobStatus.FAILING
    world.confirm_cancels().wait(10_000)
    status, message = world.end
    assert status == "FAILED"
    assert "/savepoints/savepoint-" in message
    assert "too early" in message
    assert message.count("which is whole") == 1
    assert "which is whole" in world.answers[request]
    assert checkpoint_id not in dict(world.discarded(all_time=True))


@pytest.mark.parametrize("is_late", [False, True])
def test_a_task_that_fails_while_a_savepoint_is_stored_that_then_is_not_begins_again(is_late):
    world, request, checkpoint_id = failed_while_stored()
    world.confirm_cancels().wait(10_000)
    assert world.job.status is JobStatus.RESTARTING, "where from is not known yet"
    if is_late:
        world.wait(600_000)
        assert world.of(WithdrawCheckpoint) == [WithdrawCheckpoint(checkpoint_id)]
        assert world.job.status is JobStatus.RESTARTING, "the storage has not said what becomes of it"
        world.stored(checkpoint_id, failure=error("its storage did not answer"))
    else:
        world.stored(checkpoint_id, failure=error("no space"))
    assert "no savepoint" in world.answers[request]
    assert world.job.status is JobStatus.RUNNING
    if not is_late:
        world.all_report("INITIALIZING", "RUNNING").wait(0)
        assert world.trigger() == 3, "and takes checkpoints again"


def test_a_job_that_comes_to_its_end_by_itself_answers_a_stop_that_was_not_complete():
    world = running()
    request = world.savepoint(STOPS[0])
    world.trigger()
    finish(world)
    assert "no savepoint" in world.answers[request]


def test_savepoints_of_two_jobs_and_of_one_have_names_of_their_own():
    names = set()
    world = running()
    for _ in range(3):
        world.tell(TriggerSavepoint(world.requests + 1, directory="/savepoints"))
        world.requests += 1
        world.trigger()
        names.add(world.of(TriggerCheckpoint)[0].options.location)
    assert len(names) == 3


@pytest.mark.parametrize("is_declined", [True, False], ids=["declined", "expired"])
def test_only_a_savepoint_that_a_task_cannot_take_is_the_jobs_fault(is_declined):
    world = running(timeout_ms=700, tolerable_failures=0)
    request = world.savepoint()
    checkpoint_id = world.trigger()
    if is_declined:
        world.decline(checkpoint_id, world.attempt(0, 0), "CHECKPOINT_ASYNC_EXCEPTION", error("disk full"))
    else:
        world.wait(700)
    assert "no savepoint was taken" in world.answers[request]
    assert world.job.status is (JobStatus.RESTARTING if is_declined else JobStatus.RUNNING)
