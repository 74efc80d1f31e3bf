"""What begins again after a failure, when, where, and in which order. Flink: DefaultSchedulerTest."""

import pytest
from support.worlds.master_world import SESSION, MasterWorld, echo, error, pipeline

from flinkbuf.runtime.master.restart_strategy import ExponentialDelayRestart, FixedDelayRestart
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import CancelTask, DeployTasks, RegistrationRefused, ReleaseManager
from flinkbuf.runtime.scheduler.manager import PROGRAM_MANAGER
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CoordinatorFailed,
    ResetSources,
    RunFailed,
    StartManagers,
    StatusChanged,
    SubtaskGone,
)

ONCE = FixedDelayRestart(1, 1000)
OFTEN = FixedDelayRestart(100, 1000)


def running(plan=None, restart=ONCE, **config):
    world = MasterWorld(plan or pipeline(), restart, **config).start().register_all()
    return world.all_report("INITIALIZING", "RUNNING")


def numbers(world):
    """Attempt number of each subtask."""
    return [execution.attempt.attempt_number for execution in world.job.graph.executions()]


# ---- in place


def test_a_region_begins_again_after_the_delay_in_the_processes_that_are_there():
    world = running()
    world.report(world.attempt(0, 1), "FAILED", error())
    assert (world.job.status, world.states()) == (JobStatus.RESTARTING, ["CANCELING", "FAILED", *["CANCELING"] * 2])
    world.confirm_cancels()
    assert (world.job.status, numbers(world)) == (JobStatus.RESTARTING, [0] * 4)
    world.wait(999)
    assert numbers(world) == [0] * 4
    world.wait(1)
    assert (world.job.status, numbers(world), world.states()) == (JobStatus.RUNNING, [1] * 4, ["DEPLOYING"] * 4)
    assert world.of(StartManagers) == [], "their slots are still there"
    source = world.plan.vertices[0].id
    assert world.last[0] == ResetSources(((source, 0), (source, 1)), is_global=False)
    assert len(world.deployed()) == 4
    world.all_report("RUNNING", "FINISHED")
    assert world.end == ("FINISHED", None)
    assert [len(each.history) for each in world.job.graph.subtasks()] == [1] * 4


def test_the_delay_and_the_cancel_run_at_the_same_time():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.wait(5_000)
    assert numbers(world) == [0] * 4, "not before all have ended"
    world.confirm_cancels()
    assert numbers(world) == [1] * 4, "and then at once"


def test_only_the_region_that_failed():
    world = running(pipeline(3, is_pointwise=True))
    world.report(world.attempt(1, 1), "FAILED", error())
    assert [each.attempt for each in world.of(CancelTask)] == [world.attempt(0, 1)]
    world.confirm_cancels().wait(1000)
    assert numbers(world) == [0, 1, 0, 0, 1, 0]
    assert world.of(ResetSources) == [ResetSources(((world.plan.vertices[0].id, 1),), is_global=False)]


def test_a_subtask_that_had_finished_begins_again_with_its_region_and_gives_up_what_it_wrote():
    world = running()
    world.report(world.attempt(0, 0), "FINISHED")
    world.report(world.attempt(1, 1), "FAILED", error())
    assert world.attempt(0, 0) in [each.attempt for each in world.of(CancelTask)]
    world.confirm_cancels().wait(1000)
    assert numbers(world) == [1] * 4
    world.all_report("RUNNING", "FINISHED")
    assert world.end == ("FINISHED", None)


def test_failures_of_two_regions_at_the_same_time():
    world = running(pipeline(2, is_pointwise=True), OFTEN)
    world.report(world.attempt(0, 0), "FAILED", error())
    world.now_ms = 500
    world.report(world.attempt(0, 1), "FAILED", error())
    world.confirm_cancels().wait(500)
    assert (numbers(world), world.job.status) == ([1, 0, 1, 0], JobStatus.RESTARTING)
    world.wait(500)
    assert (numbers(world), world.job.status) == ([1, 1, 1, 1], JobStatus.RUNNING)


def test_a_failure_of_the_whole_job_takes_over_the_restart_of_a_region():
    """Vertex versions: the older restart must not begin what the newer one waits with."""
    world = running(pipeline(2, is_pointwise=True), OFTEN)
    world.report(world.attempt(0, 0), "FAILED", error())
    world.now_ms = 800
    world.tell(CoordinatorFailed(error()))
    world.confirm_cancels().wait(200)
    assert numbers(world) == [0] * 4, "the older one was due"
    world.wait(800)
    assert numbers(world) == [1] * 4
    assert world.of(ResetSources)[0].is_global


def test_a_region_that_fails_again_while_it_is_deployed():
    world = running(restart=OFTEN)
    for number in range(3):
        world.report(world.attempt(0, 0, number), "FAILED", error())
        world.confirm_cancels().wait(1000)
    assert (numbers(world), world.job.restart_count) == ([3] * 4, 3)


def test_reports_of_the_attempt_before_are_not_heard():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.confirm_cancels().wait(1000)
    for state in ("RUNNING", "FINISHED", "FAILED"):
        world.report(world.attempt(1, 1), state, manager_id="m1-1")
    assert world.states() == ["DEPLOYING"] * 4


def test_sources_are_reset_before_they_are_deployed_and_after_the_old_ones_have_gone():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.confirm_cancels().wait(1000)
    kinds = [type(action) for action in world.actions]
    reset = kinds.index(ResetSources)
    assert max(index for index, kind in enumerate(kinds) if kind is SubtaskGone) < reset
    messages = [getattr(action, "message", None) for action in world.actions]
    again = [message for message in messages[:reset] if isinstance(message, DeployTasks)]
    assert all(task.attempt.attempt_number == 0 for message in again for task in message.tasks)


# ---- when it is enough


def test_the_strategy_says_when_it_is_enough():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error("first"))
    world.confirm_cancels().wait(1000)
    world.report(world.attempt(0, 0, 1), "FAILED", error("second"))
    assert world.job.status is JobStatus.FAILING
    world.confirm_cancels()
    assert world.end == ("FAILED", "second")
    assert [outage.root.failure.message for outage in world.job.history.outages] == ["first", "second"]


def test_a_failure_that_no_restart_heals_is_the_last():
    world = running(restart=OFTEN)
    world.report(world.attempt(0, 0), "FAILED", error("wrong type", can_restart=False))
    world.confirm_cancels()
    assert world.end == ("FAILED", "wrong type")


def test_a_cause_that_no_restart_heals_ends_a_restart_that_has_begun():
    world = running(restart=OFTEN)
    world.report(world.attempt(1, 1), "FAILED", echo())
    assert world.job.status is JobStatus.RESTARTING
    world.report(world.attempt(0, 0), "FAILED", error("wrong type", can_restart=False))
    assert world.job.status is JobStatus.FAILING
    world.confirm_cancels()
    assert world.end == ("FAILED", "wrong type")


def test_what_ended_the_job_stays_its_failure_though_a_process_is_lost_then():
    world = running(restart=OFTEN)
    world.report(world.attempt(1, 1), "FAILED", echo())
    world.report(world.attempt(0, 0), "FAILED", error("wrong type", can_restart=False))
    assert world.job.status is JobStatus.FAILING
    world.lose("m1-1")
    world.confirm_cancels()
    assert world.end == ("FAILED", "wrong type")


def test_failures_of_one_moment_are_one_for_the_exponential_strategy():
    """One lost process makes many regions fail: one attempt is counted."""
    world = running(pipeline(3, is_pointwise=True), ExponentialDelayRestart(jitter_factor=0, attempts_before_reset=1))
    for subtask in range(3):
        world.now_ms += 10
        world.report(world.attempt(0, subtask), "FAILED", error(f"boom {subtask}"))
    world.confirm_cancels().wait(1000)
    assert numbers(world) == [1] * 6
    (outage,) = world.job.history.outages
    assert [each.failure.message for each in outage.concurrent] == ["boom 1", "boom 2"]


def test_cancel_while_it_waits_for_the_restart():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.confirm_cancels()
    world.tell(CancelJob())
    assert world.end == ("CANCELED", None)
    assert StatusChanged(JobStatus.CANCELLING) in world.last


def test_cancel_while_it_ends_what_is_to_begin_again():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.tell(CancelJob())
    assert world.end is None
    world.confirm_cancels()
    assert world.end == ("CANCELED", None)
    assert numbers(world) == [0] * 4


# ---- a process is gone


def test_the_slot_of_a_lost_process_is_asked_for_again():
    world = running()
    world.lose("m1-0")
    world.confirm_cancels().wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0,))]
    assert (world.job.status, world.states()) == (JobStatus.RUNNING, ["SCHEDULED"] * 4)
    world.register(0, run=1, manager_id="of old")
    assert world.of(RegistrationRefused)
    world.register(0)
    assert (world.states(), numbers(world)) == (["DEPLOYING"] * 4, [1] * 4)
    world.all_report("RUNNING", "FINISHED")
    assert world.end == ("FINISHED", None)


def test_one_lost_process_counts_once_however_many_regions_it_held():
    world = MasterWorld(pipeline(4, is_pointwise=True), ONCE).start()
    world.register(0, slot_count=3)
    world.register(3)
    world.all_report("RUNNING")
    world.lose("m1-0")
    world.confirm_cancels().wait(1000)
    assert numbers(world) == [1, 1, 1, 0, 1, 1, 1, 0]
    assert world.of(StartManagers) == [StartManagers(2, (0, 1, 2))]


def test_a_process_that_is_lost_while_others_still_come_up():
    world = MasterWorld(pipeline(), ONCE).start()
    world.register(0)
    world.lose("m1-0")
    assert (world.job.status, world.states()) == (JobStatus.RESTARTING, ["CANCELED"] * 4)
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0,))], "the other one is still expected"
    world.register(1, run=1)
    world.register(0)
    assert world.states() == ["DEPLOYING"] * 4


def test_processes_that_always_die_at_once_are_not_started_for_ever():
    world = MasterWorld(pipeline(), FixedDelayRestart(3, 0)).start()
    for run in range(1, 5):
        assert world.end is None
        world.tell(RunFailed(run, error("cannot import numpy")))
        world.wait(0)
    assert world.end == ("FAILED", "cannot import numpy")
    assert len(world.of(StartManagers, all_time=True)) == 4


def test_a_process_that_held_only_what_had_finished():
    world = running(pipeline(2, is_pointwise=True))
    world.report(world.attempt(0, 0), "FINISHED")
    world.report(world.attempt(1, 0), "FINISHED")
    world.lose("m1-0")
    assert world.job.status is JobStatus.RUNNING
    world.all_report("FINISHED")
    assert world.end == ("FINISHED", None)


def test_slots_that_do_not_come_count_as_a_failure_and_are_asked_for_anew():
    world = MasterWorld(pipeline(), ONCE, heartbeat_timeout_ms=10**9).start()
    world.register(0)
    world.wait(300_000)
    assert world.job.status is JobStatus.RESTARTING
    world.wait(1000)
    assert world.of(StartManagers, all_time=True)[-1] == StartManagers(2, (1,))
    world.register(1, run=1, manager_id="too late")
    assert world.of(RegistrationRefused)
    world.register(1)
    assert world.states() == ["DEPLOYING"] * 4


# ---- managers that come and go together


TOGETHER = {"managers_come_together": True}


def test_a_lost_process_ends_the_whole_run_and_a_new_one_begins_when_the_old_is_gone():
    world = running(pipeline(3), **TOGETHER)
    world.lose("m1-1", "executor lost")
    assert len(world.of(CancelTask)) == 4
    world.confirm_cancels()
    assert world.stopped() == ["m1-0", "m1-2"]
    assert {each.is_finished for each in world.of(ReleaseManager)} == {False}, "the job goes on"
    world.wait(1000)
    assert world.of(StartManagers, all_time=True) == [StartManagers(1, (0, 1, 2))]
    world.lose("m1-0")
    assert world.job.status is JobStatus.RESTARTING
    world.lose("m1-2")
    assert world.of(StartManagers) == [StartManagers(2, (0, 1, 2))]
    assert world.of(ResetSources)[0].is_global
    world.tell(RunFailed(1, error("stage failed")))  # an echo of the run before
    world.register_all().all_report("RUNNING", "FINISHED")
    assert world.end == ("FINISHED", None)
    assert len(world.job.history.outages) == 1


def test_who_comes_late_from_the_run_before_is_refused():
    world = MasterWorld(pipeline(), ONCE, **TOGETHER).start()
    world.register(0)
    world.lose("m1-0")
    world.register(1, run=1)
    assert world.of(RegistrationRefused)
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0, 1))]


def test_a_new_run_does_not_wait_for_ever_for_the_end_of_the_old_one():
    world = running(**TOGETHER)
    world.lose("m1-1")
    world.confirm_cancels().wait(29_999)
    assert len(world.of(StartManagers, all_time=True)) == 1
    world.wait(1)
    assert len(world.of(StartManagers, all_time=True)) == 2


def test_a_task_that_fails_begins_again_in_place_also_there():
    world = running(**TOGETHER)
    world.report(world.attempt(0, 0), "FAILED", error())
    world.confirm_cancels().wait(1000)
    assert (numbers(world), world.stopped(), world.states()) == ([1] * 4, [], ["DEPLOYING"] * 4)


def test_a_process_that_is_lost_while_tasks_wait_to_begin_again_in_place():
    world = running(restart=ONCE, **TOGETHER)
    world.report(world.attempt(0, 0), "FAILED", error("boom"))
    world.confirm_cancels()
    world.lose("m1-1")
    assert world.stopped() == ["m1-0"]
    world.lose("m1-0")
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0, 1))]
    assert [outage.root.failure.message for outage in world.job.history.outages] == ["boom"], "one failure, one attempt"


def test_the_run_says_better_why_it_ended_than_its_connections():
    world = running(**TOGETHER)
    world.lose("m1-0", "the connection ended")
    world.lose("m1-1", "the connection ended")
    world.tell(RunFailed(1, error("ExecutorLostFailure: exceeded memory")))
    (outage,) = world.job.history.outages
    assert outage.root.failure.message == "ExecutorLostFailure: exceeded memory"
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0, 1))]


def test_a_run_that_fails_as_a_whole():
    world = running(**TOGETHER)
    world.tell(RunFailed(1, error("stage failed")))
    assert world.stopped() == ["m1-0", "m1-1"]
    world.lose("m1-0")
    world.lose("m1-1")
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0, 1))]
    world.register(0, run=1, manager_id="of old")
    assert world.of(RegistrationRefused)


def test_input_that_cannot_be_read_twice_in_place_means_a_new_run_for_any_failure():
    world = running(can_restart_in_place=False, **TOGETHER)
    world.report(world.attempt(1, 0), "FAILED", error())
    world.confirm_cancels()
    assert world.stopped() == ["m1-0", "m1-1"]
    world.lose("m1-0")
    world.lose("m1-1")
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0, 1))]
    world.register_all().all_report("RUNNING", "FINISHED")
    assert world.end == ("FINISHED", None)


def test_a_coordinator_that_fails_while_the_old_run_goes():
    world = running(restart=OFTEN, **TOGETHER)
    world.lose("m1-0")
    world.confirm_cancels()
    world.tell(CoordinatorFailed(error("no such directory")))
    world.lose("m1-1")
    world.wait(1000)
    assert world.of(StartManagers) == [StartManagers(2, (0, 1))]
    assert len(world.of(StartManagers, all_time=True)) == 2


def test_a_process_that_holds_the_programs_vertices_stays_when_the_run_goes():
    from test_job_master import in_program_plan

    world = MasterWorld(in_program_plan(), ONCE, **TOGETHER).start()
    world.register(-1, run=0, manager_id=PROGRAM_MANAGER, slot_count=0)
    world.register_all().all_report("RUNNING")
    world.lose("m1-0")
    assert world.attempt(1, 0) in [each.attempt for each in world.of(CancelTask)]
    world.confirm_cancels()
    world.lose("m1-1")
    world.wait(1000)
    world.register_all()
    assert world.place[world.attempt(1, 0, 1)] == PROGRAM_MANAGER
    assert world.stopped() == ["m1-1"]


@pytest.mark.parametrize("silent", [0, 1])
def test_a_manager_that_was_given_up_and_lives_on_is_not_heard(silent):
    world = running(restart=OFTEN, heartbeat_timeout_ms=30_000)
    for _ in range(3):
        world.wait(10_000)
        world.heartbeat(f"m1-{1 - silent}")
    world.wait(10_000)
    old = f"m1-{silent}"
    assert world.stopped() == [old]
    world.confirm_cancels()
    world.wait(1000)
    world.register(silent)
    before = world.states()
    assert before == ["DEPLOYING"] * 4
    world.report(world.attempt(0, silent, 1), "FAILED", error(), manager_id=old)
    world.report(world.attempt(0, silent, 0), "FAILED", error(), manager_id=old)
    world.say(old, type(world.of(CancelTask, all_time=True)[0])(SESSION, world.attempt(0, 0)))
    assert world.states() == before
