"""When checkpoints begin, when they count, who is told. Flink: CheckpointCoordinatorTest, ...TriggeringTest."""

import pytest
from support.worlds.checkpoint_world import DIRECTORY, CheckpointWorld, keyed, state
from support.worlds.master_world import JOB, edge, error, pipeline, vertex

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import NO_TIMEOUT
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import TriggerCheckpoint
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    DiscardState,
    EndJob,
    NotifyCoordinators,
    SnapshotCoordinators,
    StoreCheckpoint,
    WithdrawCheckpoint,
)


def running(plan=None, **checkpointing):
    return CheckpointWorld(plan, **checkpointing).begin()


def plain(parallelism=2):
    """A source without a coordinator, and a sink."""
    return JobPlan(JOB, "plain", (vertex("source", parallelism), vertex("sink", parallelism)), (edge(0, 1),))


# ---- from its beginning to its end


def test_coordinators_first_then_sources_then_all_answer_then_it_is_stored_and_counts():
    world = running()
    assert world.of(SnapshotCoordinators) == [SnapshotCoordinators(1)]
    assert world.of(TriggerCheckpoint) == []
    world.coordinators(1, source=b"splits")
    assert world.triggered() == [world.attempt(0, 0), world.attempt(0, 1)]
    triggers = world.of(TriggerCheckpoint)
    assert {each.options.location for each in triggers} == {f"{DIRECTORY}/{JOB}/chk-1"}
    for attempt in list(world.tasks)[:-1]:
        world.acknowledge(1, attempt, state())
        assert world.of(StoreCheckpoint) == []
    world.acknowledge(1, world.attempt(1, 1), state(operator=None))
    [store] = world.of(StoreCheckpoint)
    assert store.metadata.checkpoint_id == 1
    assert store.metadata.vertices[0].operators[0].coordinator.data == b"splits"
    assert world.checkpoints.latest is None, "not before it is written"
    world.stored(1)
    assert world.notified() == [(attempt, 1) for attempt in world.tasks]
    assert world.of(NotifyCoordinators) == [NotifyCoordinators(1)]
    assert world.checkpoints.latest.id == 1
    assert world.records == [(1, "COMPLETED", "")]


def test_without_coordinators_tasks_are_told_at_once():
    world = running(plain())
    assert (world.of(SnapshotCoordinators), len(world.triggered())) == ([], 2)


def test_without_an_interval_none_begins():
    world = CheckpointWorld(plain(), interval_ms=0).begin()
    assert (world.job.next_deadline_ms, world.wait(10_000_000).of(TriggerCheckpoint, all_time=True)) != (None, None)
    assert world.of(TriggerCheckpoint, all_time=True) == []


def test_none_begins_before_all_tasks_run():
    world = CheckpointWorld(plain()).start().register_all()
    for attempt in list(world.tasks)[:-1]:
        world.report(attempt, "INITIALIZING")
        world.report(attempt, "RUNNING")
    world.wait(5_000)
    assert world.of(TriggerCheckpoint, all_time=True) == []
    world.report(world.attempt(1, 1), "RUNNING")
    assert len(world.wait(0).triggered()) == 2


def test_the_next_one_begins_an_interval_after_the_last_began():
    world = running(plain())
    world.now_ms += 400
    world.acknowledge_all(1).stored(1)
    world.wait(599)
    assert world.of(TriggerCheckpoint, all_time=True)[-1].checkpoint_id == 1
    world.wait(1)
    assert [each.checkpoint_id for each in world.of(TriggerCheckpoint)] == [2, 2]
    assert world.of(TriggerCheckpoint)[0].timestamp_ms == 1_000


def test_one_that_takes_longer_than_the_interval_is_followed_by_one_not_by_all_that_were_due():
    world = running(plain())
    world.wait(3_500)
    world.acknowledge_all(1).stored(1)
    assert [each.checkpoint_id for each in world.of(TriggerCheckpoint)] == [2, 2]
    world.acknowledge_all(2).stored(2)
    assert world.of(TriggerCheckpoint) == []
    world.wait(500)
    assert world.of(TriggerCheckpoint)[0].checkpoint_id == 3


def test_an_acknowledgement_that_comes_twice_counts_once():
    world = running(plain())
    world.acknowledge(1, world.attempt(0, 0))
    world.acknowledge(1, world.attempt(0, 0))
    assert world.discarded(all_time=True) == [], "it is the same state"
    world.acknowledge_all(1)
    assert len(world.of(StoreCheckpoint, all_time=True)) == 1


def test_an_acknowledgement_of_an_unknown_attempt_is_deleted():
    from support.worlds.checkpoint_world import file

    world = running(plain())
    world.place[world.attempt(0, 0, 7)] = "m1-0"
    world.acknowledge(1, world.attempt(0, 0, 7), state(operator=file("odd")))
    assert world.of(DiscardState) == [DiscardState(None, "", (file("odd"),))]
    assert len(world.checkpoints.pending[1].missing) == 4


def test_a_message_of_another_session_is_not_heard():
    world = running(plain())
    world.acknowledge(1, world.attempt(0, 0), session_id="00" * 16)
    assert len(world.checkpoints.pending[1].missing) == 4


# ---- how one comes to nothing


def test_a_declined_one_is_forgotten_by_all_and_its_directory_deleted():
    world = running(plain(), tolerable_failures=1)
    world.acknowledge(1, world.attempt(0, 0), state())
    world.decline(1, world.attempt(1, 0), failure=error("disk full"))
    assert world.aborted() == [(attempt, 1) for attempt in world.tasks]
    assert world.discarded() == [(1, f"{DIRECTORY}/{JOB}/chk-1")]
    assert world.records == [(1, "FAILED", "CHECKPOINT_DECLINED")]
    assert world.job.status is JobStatus.RUNNING
    world.wait(1_000)
    assert world.of(TriggerCheckpoint)[0].checkpoint_id == 2, "numbers are not used again"


def test_a_late_acknowledgement_of_one_that_was_declined_is_deleted():
    from support.worlds.checkpoint_world import file

    world = running(plain(), tolerable_failures=1)
    world.decline(1, world.attempt(1, 0))
    world.acknowledge(1, world.attempt(0, 0), state(operator=file("late")))
    assert world.of(DiscardState) == [DiscardState(None, "", (file("late"),))]


def test_one_that_takes_too_long_expires():
    world = running(plain(), timeout_ms=700, tolerable_failures=5)
    world.wait(699)
    assert world.checkpoints.pending
    world.wait(1)
    assert world.records == [(1, "FAILED", "CHECKPOINT_EXPIRED")]
    assert "sink (1/2)" not in world.records[0]


def test_one_that_takes_too_long_to_store_is_told_nobody_as_aborted_before_the_storage_answers():
    world = running(plain(), timeout_ms=3_000, tolerable_failures=5)
    world.acknowledge_all(1).wait(3_000)
    assert world.of(WithdrawCheckpoint) == [WithdrawCheckpoint(1)]
    world.wait(3_000)
    assert world.of(WithdrawCheckpoint) == [], "once"
    assert (world.records, world.aborted(), world.discarded()) == ([], [], [])
    world.stored(1, failure=error("no answer"))
    assert world.records == [(1, "FAILED", "CHECKPOINT_EXPIRED")]
    assert len(world.aborted()) == 4


def test_one_that_takes_too_long_to_store_counts_if_the_storage_says_so():
    world = running(plain(), timeout_ms=3_000)
    world.acknowledge_all(1).wait(5_000)
    world.stored(1)
    assert [each[:2] for each in world.records] == [(1, "COMPLETED")]
    assert len(world.notified()) == 4


def test_one_whose_metadata_cannot_be_written_is_deleted_and_does_not_fail_the_job():
    world = running(plain())
    world.acknowledge_all(1).stored(1, failure=error("no space left"))
    assert world.records == [(1, "FAILED", "FINALIZE_CHECKPOINT_FAILURE")]
    assert (len(world.aborted()), world.discarded()) == (4, [(1, f"{DIRECTORY}/{JOB}/chk-1")])
    assert (world.job.status, world.checkpoints.latest) == (JobStatus.RUNNING, None)


def test_a_coordinator_that_cannot_give_its_state_ends_it_before_any_task_hears_of_it():
    world = running()
    world.coordinators(1, failure=error("enumerator"))
    assert (world.records, world.aborted()) == ([(1, "FAILED", "TRIGGER_CHECKPOINT_FAILURE")], [])
    world.coordinators(1, source=b"late")
    assert world.of(TriggerCheckpoint, all_time=True) == []


def test_more_failures_in_a_row_than_are_put_up_with_make_the_job_begin_again():
    world = running(plain(), tolerable_failures=1)
    world.decline(1, world.attempt(0, 0), "CHECKPOINT_ASYNC_EXCEPTION", error("disk full"))
    assert world.job.status is JobStatus.RUNNING
    world.wait(1_000)
    world.decline(2, world.attempt(0, 0), "CHECKPOINT_ASYNC_EXCEPTION", error("disk full"))
    assert world.job.status is JobStatus.RESTARTING
    assert "disk full" in world.job.history.outages[-1].root.failure.message
    assert world.job.history.outages[-1].root.task_name == "source (1/2)"


@pytest.mark.parametrize("reason", ["CHECKPOINT_DECLINED_TASK_NOT_READY", "CHECKPOINT_DECLINED_SUBSUMED"])
def test_reasons_that_are_nobodys_fault_are_not_counted(reason):
    world = running(plain())
    for number in range(1, 5):
        world.decline(number, world.attempt(0, 0), reason)
        world.wait(1_000)
    assert (world.job.status, len(world.records)) == (JobStatus.RUNNING, 4)


# ---- several at a time


def test_no_more_are_under_way_than_are_allowed():
    world = running(plain(), max_concurrent=2)
    world.wait(5_000)
    assert list(world.checkpoints.pending) == [1, 2]


def test_a_later_one_that_is_complete_first_makes_the_earlier_needless():
    world = running(plain(), max_concurrent=2)
    world.wait(1_000)
    world.acknowledge_all(2).stored(2)
    assert world.records == [(1, "FAILED", "CHECKPOINT_SUBSUMED"), (2, "COMPLETED", "")]
    assert [each for each in world.aborted() if each[1] == 1], "tasks forget it"
    assert world.job.status is JobStatus.RUNNING
    world.acknowledge_all(1)
    assert world.of(StoreCheckpoint) == []


def test_an_earlier_one_that_is_complete_later_leaves_the_later_ones_alone():
    world = running(plain(), max_concurrent=2)
    world.wait(1_000)
    world.acknowledge_all(1).stored(1)
    assert list(world.checkpoints.pending) == [2]


def test_a_part_that_refers_to_a_file_that_is_deleted_already_ends_its_checkpoint():
    """The task has not heard yet that a later checkpoint counts, and its barrier came from elsewhere."""
    world = running(plain())
    task = next(iter(world.tasks))
    world.complete({task: state(keyed=[keyed(0, 63, files=["a"])])}, 1_000)
    world.complete({task: state(keyed=[keyed(0, 63, files=["b"])])}, 1_000)
    world.wait(1_000)
    world.acknowledge(3, task, state(keyed=[keyed(0, 63, files=["a", "c"])]))
    assert world.records[-1] == (3, "FAILED", "FINALIZE_CHECKPOINT_FAILURE")
    assert world.job.status is JobStatus.RUNNING
    world.complete({task: state(keyed=[keyed(0, 63, files=["b", "d"])])}, 1_000)
    assert world.records[-1] == (4, "COMPLETED", "")


def test_the_pause_counts_from_the_end_of_the_last_one():
    world = running(plain(), min_pause_ms=800, interval_ms=1_000)
    world.wait(800)
    world.wait(700)
    world.acknowledge_all(1).stored(1)
    at_ms = world.now_ms
    world.wait(799)
    assert list(world.checkpoints.pending) == []
    world.wait(1)
    assert list(world.checkpoints.pending) == [2]
    assert world.checkpoints.pending[2].timestamp_ms == at_ms + 800


def test_one_that_failed_delays_nothing():
    world = running(plain(), min_pause_ms=800, interval_ms=1_000, tolerable_failures=-1)
    world.wait(800)
    world.decline(1, world.attempt(0, 0))
    world.wait(1_000)
    assert list(world.checkpoints.pending) == [2]


def test_the_newest_are_kept_and_the_others_deleted():
    world = running(plain(), retained=2)
    world.acknowledge_all(1).stored(1)
    for number in (2, 3):
        assert world.complete(span_ms=1_000) == number
    assert world.discarded() == [(1, f"{DIRECTORY}/{JOB}/chk-1")]
    assert world.checkpoints.store.ids == (2, 3)
    world.complete(span_ms=1_000)
    assert world.discarded() == [(2, f"{DIRECTORY}/{JOB}/chk-2")]


# ---- tasks that come to their end


def test_tasks_behind_those_that_have_ended_are_told_directly():
    world = running(plain(), tolerable_failures=-1)
    world.acknowledge_all(1).stored(1)
    for subtask in range(2):
        world.report(world.attempt(0, subtask), "FINISHED")
    world.wait(1_000)
    assert world.triggered() == [world.attempt(1, 0), world.attempt(1, 1)]
    world.acknowledge_all(2)
    [store] = world.of(StoreCheckpoint)
    assert [each.is_finished for each in store.metadata.vertices[0].subtasks] == [True, True]
    world.stored(2)
    assert [attempt for attempt, _ in world.notified()] == [world.attempt(1, 0), world.attempt(1, 1)]


def test_a_task_that_ends_without_an_answer_ends_the_checkpoint():
    world = running(plain())
    world.report(world.attempt(0, 0), "FINISHED")
    assert world.records == [(1, "FAILED", "CHECKPOINT_DECLINED_TASK_CLOSING")]


def test_when_all_tasks_are_at_the_end_of_their_data_a_last_one_begins_at_once():
    world = running(plain())
    world.acknowledge_all(1).stored(1)
    world.now_ms += 10
    world.end_of_data(*list(world.tasks)[:-1])
    assert world.of(TriggerCheckpoint) == []
    world.end_of_data(world.attempt(1, 1))
    assert [each.checkpoint_id for each in world.of(TriggerCheckpoint)] == [2, 2]


def test_after_the_one_that_holds_the_end_of_all_tasks_none_begins():
    world = running(plain())
    world.end_of_data(*world.tasks)
    world.wait(1_000)
    world.acknowledge_all(1, dict.fromkeys(world.tasks, SubtaskState(is_finished=True))).stored(1)
    world.wait(10_000)
    assert (world.checkpoints.pending, world.records) == ({}, [(1, "COMPLETED", "")])
    world.begin_again()
    assert list(world.checkpoints.pending) == [2], "it was not the end"


def test_an_answer_that_is_late_may_be_of_before_the_end():
    """A task writes its part while it goes on: it may be at its end before it answers."""
    world = running(plain())
    for attempt in list(world.tasks)[1:]:
        world.acknowledge(1, attempt, SubtaskState(is_finished=True))
    world.end_of_data(*world.tasks)
    world.acknowledge(1, world.attempt(0, 0), SubtaskState(is_finished=False))
    world.stored(1)
    assert list(world.checkpoints.pending) == [2], "which the tasks wait for"


def test_the_last_one_is_tried_again_soon_if_it_fails():
    world = running(plain(), interval_ms=600_000, tolerable_failures=-1)
    world.acknowledge_all(1).stored(1)
    world.end_of_data(*world.tasks)
    world.decline(2, world.attempt(0, 0))
    world.wait(1_000)
    assert list(world.checkpoints.pending) == [3]


def test_a_job_that_has_ended_waits_for_the_metadata_of_its_last_checkpoint():
    world = running(plain())
    world.acknowledge_all(1)
    for attempt in list(world.tasks):
        world.report(attempt, "FINISHED")
    assert world.end is None
    world.stored(1)
    assert world.end == ("FINISHED", None)


def test_a_storage_that_hangs_at_the_end_of_a_job_does_not_make_it_begin_again():
    world = running(plain(), timeout_ms=3_000)
    world.acknowledge_all(1)
    for attempt in list(world.tasks):
        world.report(attempt, "FINISHED")
    world.wait(3_000)
    assert world.of(WithdrawCheckpoint) == [WithdrawCheckpoint(1)]
    assert world.end is None
    world.stored(1, failure=error("no answer"))
    assert world.records == [(1, "FAILED", "CHECKPOINT_EXPIRED")]
    assert world.end == ("FINISHED", None)


@pytest.mark.parametrize("is_alike", [False, True])
def test_a_union_list_of_which_a_part_has_ended_is_refused_unless_each_says_all(is_alike):
    world = running(plain())
    world.acknowledge_all(1).stored(1)
    world.report(world.attempt(1, 0), "FINISHED")
    world.wait(1_000)
    for attempt in list(world.tasks):
        name = "sink" if attempt.vertex_id == world.attempt(1, 0).vertex_id else "source"
        world.acknowledge(2, attempt, state(name, has_union_lists=True, has_alike_unions=is_alike))
    if is_alike:
        world.stored(2)
        assert world.records[-1] == (2, "COMPLETED", "")
    else:
        assert world.records[-1] == (2, "FAILED", "FINALIZE_CHECKPOINT_FAILURE")


def test_without_checkpoints_after_tasks_finish_none_begins_any_more():
    world = running(plain(), after_tasks_finish=False)
    world.acknowledge_all(1).stored(1)
    world.report(world.attempt(0, 0), "FINISHED")
    world.wait(5_000)
    assert world.checkpoints.pending == {}


# ---- the end of the job


@pytest.mark.parametrize(
    ("retention", "deleted"),
    [
        ("DELETE_ON_CANCELLATION", ["FINISHED", "CANCELED"]),
        ("RETAIN_ON_CANCELLATION", ["FINISHED"]),
        ("NO_EXTERNALIZED_CHECKPOINTS", ["FINISHED", "CANCELED", "FAILED"]),
    ],
)
@pytest.mark.parametrize("status", ["FINISHED", "CANCELED", "FAILED"])
def test_what_becomes_of_the_last_one_when_the_job_ends(retention, deleted, status):
    world = running(plain(), retention=retention)
    world.acknowledge_all(1).stored(1)
    if status == "FINISHED":
        for attempt in list(world.tasks):
            world.report(attempt, "FINISHED")
    elif status == "CANCELED":
        world.tell(CancelJob())
        world.confirm_cancels()
    else:
        world.report(world.attempt(0, 0), "FAILED", error(can_restart=False))
        world.confirm_cancels()
    assert world.end[0] == status
    kinds = [type(each) for each in world.actions]
    expected = [(1, f"{DIRECTORY}/{JOB}/chk-1")] if status in deleted else []
    assert world.discarded(all_time=True) == expected
    assert not expected or kinds.index(DiscardState) < kinds.index(EndJob)


def test_what_is_under_way_when_the_job_is_cancelled_is_given_up():
    world = running(plain())
    world.tell(CancelJob())
    assert len(world.aborted()) == 4
    assert world.records == [(1, "FAILED", "CHECKPOINT_COORDINATOR_SHUTDOWN")]


def test_barriers_overtake_if_they_may_and_wait_first_if_they_should():
    for timeout_ms, expected in ((0, (True, 0)), (300, (False, 300))):
        world = running(plain(), is_unaligned=True, aligned_timeout_ms=timeout_ms)
        options = world.of(TriggerCheckpoint)[0].options
        assert (options.is_unaligned, options.aligned_timeout_ms) == expected
    options = running(plain()).of(TriggerCheckpoint)[0].options
    assert (options.is_unaligned, options.aligned_timeout_ms, options.is_exactly_once) == (False, NO_TIMEOUT, True)


def test_each_first_checkpoint_begins_at_a_time_that_is_drawn():
    from random import Random

    from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
    from flinkbuf.runtime.master.job_master import JobMaster
    from flinkbuf.runtime.master.restart_strategy import NoRestart

    firsts = set()
    for seed in range(20):
        world = CheckpointWorld(pipeline())
        world.job = JobMaster(
            world.plan,
            session_id="5e" * 16,
            restart_strategy=NoRestart().create(Random(0)),
            checkpointing=CheckpointCoordinatorConfig(interval_ms=1_000, min_pause_ms=200),
            chance=Random(seed),
        )
        world.begin()
        firsts.add(world.job.next_deadline_ms)
    assert len(firsts) > 10
    assert all(200 <= first <= 1_000 for first in firsts)
