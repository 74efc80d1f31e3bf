"""A job from its start to its end, as its job master decides it. Restarts are in test_failover.py."""

import pytest
from support.worlds.master_world import JOB, SESSION, MasterWorld, echo, edge, error, pipeline, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import (
    AcknowledgeReport,
    CancelTask,
    HeartbeatRequest,
    ManagerLeaving,
    OperatorEventReport,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseManager,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.manager import PROGRAM_MANAGER
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CoordinatorFailed,
    EndJob,
    RunFailed,
    SendTo,
    StartJob,
    StartManagers,
    StatusChanged,
    StopManager,
    SubtaskGone,
    TellCoordinator,
)


def running(plan=None, restart=None, **config):
    """A world whose tasks all run."""
    world = MasterWorld(plan or pipeline(), restart, **config).start().register_all()
    return world.all_report("INITIALIZING", "RUNNING")


# ---- the good day


def test_a_job_that_finishes():
    world = MasterWorld(pipeline()).start()
    assert world.last == [StatusChanged(JobStatus.RUNNING), StartManagers(1, (0, 1))]
    world.register(0)
    assert world.of(RegistrationAccepted) == [RegistrationAccepted(SESSION, 10_000, 50_000)]
    assert world.deployed() == [], "nobody is deployed before all have come"
    world.register(1)
    assert len(world.deployed()) == 4
    assert world.states() == ["DEPLOYING"] * 4
    world.all_report("INITIALIZING", "RUNNING")
    assert world.states() == ["RUNNING"] * 4
    for subtask in range(2):
        world.report(world.attempt(0, subtask), "FINISHED")
    assert world.job.status is JobStatus.RUNNING
    world.all_report("FINISHED")
    assert world.end == ("FINISHED", None)
    assert [type(action).__name__ for action in world.last[-6:]] == [
        "SendTo", "StopManager", "SendTo", "StopManager", "StatusChanged", "EndJob",
    ]  # fmt: skip
    assert {(each.reason, each.is_finished) for each in world.of(ReleaseManager)} == {("the job is FINISHED", True)}
    assert world.stopped() == ["m1-0", "m1-1"]
    assert world.job.next_deadline_ms is None


def test_a_finish_that_overtakes_the_other_reports():
    world = MasterWorld(pipeline()).start().register_all()
    world.all_report("FINISHED")
    assert world.end == ("FINISHED", None)


def test_one_manager_with_all_slots():
    world = MasterWorld(pipeline(4)).start()
    world.register(0, slot_count=4)
    assert len(world.deployed()) == 8


def test_a_job_that_starts_twice_starts_once():
    world = MasterWorld(pipeline()).start()
    assert world.tell(StartJob()) == []


def test_times_of_the_job():
    world = MasterWorld(pipeline())
    world.now_ms = 5
    world.start().register_all()
    world.now_ms = 9
    world.all_report("FINISHED")
    assert world.job.timestamps == {JobStatus.CREATED: 0, JobStatus.RUNNING: 5, JobStatus.FINISHED: 9}


def test_what_it_cannot_be_told():
    with pytest.raises(TypeError, match="master_actions.py lists, got 'hello'"):
        MasterWorld(pipeline()).tell("hello")


# ---- task managers


def test_a_registration_that_comes_twice_is_answered_twice():
    world = MasterWorld(pipeline()).start()
    world.register(0)
    world.register(0)
    assert world.of(RegistrationAccepted)
    assert world.of(StopManager) == []


@pytest.mark.parametrize(
    "index, run, manager_id, slot_count, text",
    [
        (0, 0, "late", 1, "the job does not wait for slots 0 to 0 of run 0"),
        (0, 1, "other", 1, "the job does not wait for slots 0 to 0 of run 1"),  # somebody holds it
        (2, 1, "wide", 1, "the job does not wait for slots 2 to 2"),
        (1, 1, "wide", 2, "the job does not wait for slots 1 to 2"),
        (1, 1, "m1-0", 1, "registered already, with other slots"),
        (1, 1, "none", 0, "the job does not wait for slots"),
    ],
)
def test_who_is_not_wanted_is_told_so_and_ended(index, run, manager_id, slot_count, text):
    world = MasterWorld(pipeline()).start()
    world.register(0)
    world.register(index, run=run, manager_id=manager_id, slot_count=slot_count)
    (refusal,) = world.of(RegistrationRefused)
    assert text in refusal.reason
    assert world.stopped() == [manager_id]
    assert list(world.job.managers.registered) == ["m1-0"]


def test_who_comes_after_the_end_is_refused():
    world = MasterWorld(pipeline()).start()
    world.tell(CancelJob())
    world.register(0)
    assert (world.of(RegistrationRefused)[0].reason, world.stopped()) == ("the job is over", ["m1-0"])
    assert world.tell(TimePassed()) == []


def test_who_comes_while_it_ends_is_refused():
    world = MasterWorld(pipeline(3)).start()
    for index in range(3):
        world.register(index)
    world.tell(CancelJob())
    world.register(0, manager_id="new")
    assert world.of(RegistrationRefused)[0].reason == "the job is CANCELLING"


def test_a_job_that_does_not_get_its_slots_says_how_many_and_what_to_do():
    world = MasterWorld(pipeline(5), heartbeat_timeout_ms=10**9, slot_request_timeout_ms=60_000).start()
    world.register(1)
    world.wait(59_999)
    assert world.end is None
    world.wait(1)
    status, text = world.end
    assert status == "FAILED"
    assert text == (
        "job 'pipeline' needs 5 slots, but after 60 s 1 are there and 4 missing (0, 2-4): no task manager has come up "
        "for them; give the job more slots, lower its parallelism, or raise slot.request.timeout if they only need "
        "longer"
    )
    assert world.stopped() == ["m1-1"]


def test_a_run_that_cannot_be_started_fails_the_job_with_its_cause():
    world = MasterWorld(pipeline()).start()
    world.register(0)
    world.tell(RunFailed(1, error("no python3 there")))
    assert world.end == ("FAILED", "no python3 there")
    assert world.stopped() == ["m1-0"]


# ---- the program's own task manager


def in_program_plan():
    sink = vertex("sink", 1, is_in_program=True)
    return JobPlan(JOB, "collects", (vertex("source", 2), sink), (edge(0, 1),))


def test_vertices_in_the_program_wait_for_its_task_manager_and_take_no_slot():
    world = MasterWorld(in_program_plan()).start()
    assert world.of(StartManagers) == [StartManagers(1, (0, 1))]
    world.register_all()
    assert world.deployed() == []
    world.register(-1, run=0, manager_id=PROGRAM_MANAGER, slot_count=0)
    assert world.place[world.attempt(1, 0)] == PROGRAM_MANAGER
    channels = world.deployed()[-1].gates[0].channels
    assert [channel.host for channel in channels] == ["host0", "host1"]


def test_only_the_programs_own_task_manager_lets_the_job_master_be_silent():
    for name in ("a", "z"):
        world = MasterWorld(in_program_plan()).start()
        world.register(0, manager_id=name)
        assert [each.heartbeat_timeout_ms for each in world.of(RegistrationAccepted)] == [50_000]


def test_the_programs_own_task_manager_may_be_silent_but_not_lost():
    world = MasterWorld(in_program_plan()).start()
    world.register(-1, run=0, manager_id=PROGRAM_MANAGER, slot_count=0)
    assert world.of(RegistrationAccepted)[-1].heartbeat_timeout_ms == 0, "nor may the job master be to it"
    world.register_all()
    for _ in range(10):
        world.wait(10_000)
        for index in range(2):
            world.heartbeat(f"m1-{index}")
    assert world.end is None
    world.lose(PROGRAM_MANAGER, "its thread raised")
    world.confirm_cancels()
    assert world.end == ("FAILED", "task manager program is gone: its thread raised")


def test_a_program_alone_needs_no_other_process():
    world = MasterWorld(JobPlan(JOB, "alone", (vertex("all", 2, is_in_program=True),))).start()
    assert world.of(StartManagers) == []
    world.register(-1, run=0, manager_id=PROGRAM_MANAGER, slot_count=0)
    world.all_report("FINISHED")
    assert world.end == ("FINISHED", None)


def test_a_program_whose_own_task_manager_never_comes():
    world = MasterWorld(in_program_plan(), heartbeat_timeout_ms=10**9).start().register_all()
    world.wait(300_000)
    assert world.end == ("FAILED", "the task manager of the program itself has not come up within 300 s")


# ---- reports


def test_final_reports_are_acknowledged_whoever_sends_them():
    world = running()
    unknown = AttemptId("f" * 32, 0, 0)
    for attempt, manager_id in ((world.attempt(0, 0, 7), "m1-0"), (unknown, "m1-0"), (world.attempt(0, 0), "stranger")):
        world.report(attempt, "FAILED", error(), manager_id=manager_id)
        assert world.last == [SendTo(manager_id, AcknowledgeReport(SESSION, attempt))]
    assert world.states() == ["RUNNING"] * 4
    world.report(world.attempt(0, 0), "FINISHED")
    world.report(world.attempt(0, 0), "FAILED", error(), manager_id="m1-0")  # repeated, with another end
    assert world.last == [SendTo("m1-0", AcknowledgeReport(SESSION, world.attempt(0, 0)))]
    assert world.states() == ["FINISHED", "RUNNING", "RUNNING", "RUNNING"]


def test_messages_of_another_session_are_not_heard():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error(), session_id="0" * 32)
    assert world.last == []


def test_a_report_of_somebody_else_about_our_task_is_not_heard():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error(), manager_id="m1-1")
    assert world.states() == ["RUNNING"] * 4


def test_every_deployed_attempt_is_gone_once():
    world = running()
    world.all_report("FINISHED")
    gone = [each.attempt for each in world.of(SubtaskGone, all_time=True)]
    assert sorted(gone) == sorted(world.place)


def test_events_of_sources_reach_their_coordinator_while_they_live():
    world = running()
    event = OperatorEventReport(SESSION, world.attempt(0, 1), "source", b"split, please")
    world.say("m1-1", event)
    assert world.last == [TellCoordinator(world.attempt(0, 1), "source", b"split, please")]
    world.say("m1-0", event)
    assert world.last == [], "it is not there"
    world.report(world.attempt(0, 1), "FINISHED")
    world.say("m1-1", event)
    assert world.last == []


def test_a_task_that_gives_up_uncalled_has_not_done_its_work():
    world = running()
    world.report(world.attempt(0, 0), "CANCELED")
    world.confirm_cancels()
    assert world.end == ("FAILED", "source (1/2) ended early, and did not say why")


def test_metrics_and_accumulators_are_those_of_the_last_report():
    world = running()
    attempt = world.attempt(0, 0)
    world.wait(10_000)
    world.heartbeat("m1-0", metrics={str(attempt): {"records_in": 5}}, manager_metrics={"rss": 7})
    execution = world.job.graph.vertices[0].subtasks[0].current
    assert (execution.metrics, world.job.managers.registered["m1-0"].metrics) == ({"records_in": 5}, {"rss": 7})
    world.report(attempt, "FINISHED", metrics={"records_in": 9}, accumulators={"n": {"type": "IntCounter", "value": 1}})
    assert (execution.metrics, list(execution.accumulators)) == ({"records_in": 9}, ["n"])


# ---- failures without a restart


def test_the_first_failure_fails_the_job_when_all_others_have_ended():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error("boom"))
    assert world.job.status is JobStatus.FAILING
    assert world.job.failure.message == "boom"
    assert len(world.of(CancelTask)) == 3
    world.report(world.attempt(0, 1), "CANCELED")
    world.report(world.attempt(1, 0), "FINISHED")  # it was through
    assert world.end is None
    world.report(world.attempt(1, 1), "FAILED", error("another"))
    assert world.end == ("FAILED", "boom")
    released = {(each.reason, each.is_finished) for each in world.of(ReleaseManager)}
    assert released == {("the job is FAILED: boom", False)}


def test_a_cause_wins_against_the_echo_that_came_before_it():
    world = running()
    world.report(world.attempt(1, 1), "FAILED", echo())
    world.report(world.attempt(0, 0), "FAILED", error("boom"))
    world.confirm_cancels()
    assert world.end == ("FAILED", "boom")
    (outage,) = world.job.history.outages
    assert [each.failure.is_echo for each in outage.concurrent] == [True]


def test_a_lost_process_wins_against_an_echo_and_loses_against_a_cause():
    world = running()
    world.report(world.attempt(1, 1), "FAILED", echo())
    world.lose("m1-0", "killed by signal 9")
    world.confirm_cancels()
    assert world.end == ("FAILED", "task manager m1-0 is gone: killed by signal 9")
    world = running()
    world.lose("m1-0")
    world.tell(RunFailed(1, error("the container used too much memory")))
    assert world.end == ("FAILED", "the container used too much memory")


def test_what_a_cancelled_task_raises_wins_against_an_echo_and_loses_against_a_lost_process():
    world = running()
    world.report(world.attempt(1, 1), "FAILED", echo())
    world.report(world.attempt(0, 0), "CANCELED", error("it had failed before"))
    world.confirm_cancels()
    assert world.end == ("FAILED", "it had failed before")
    world = running()
    world.lose("m1-0", "killed by signal 9")
    world.report(world.attempt(0, 1), "CANCELED", error("cancel() has closed its socket"))
    world.confirm_cancels()
    assert world.end == ("FAILED", "task manager m1-0 is gone: killed by signal 9")


def test_a_coordinator_that_raises_fails_the_job():
    world = running()
    world.tell(CoordinatorFailed(error("no such directory")))
    world.confirm_cancels()
    assert world.end == ("FAILED", "no such directory")


def test_a_coordinator_that_raises_before_the_start():
    world = MasterWorld(pipeline())
    world.tell(CoordinatorFailed(error("no such directory")))
    assert world.end == ("FAILED", "no such directory")
    assert world.states() == ["CANCELED"] * 4


# ---- cancel


def test_cancel_before_the_start():
    world = MasterWorld(pipeline())
    world.tell(CancelJob())
    assert world.last == [StatusChanged(JobStatus.CANCELED), EndJob(JobStatus.CANCELED, None)]


def test_cancel_while_it_waits_for_slots():
    world = MasterWorld(pipeline()).start()
    world.register(0)
    world.tell(CancelJob())
    assert (world.end, world.states(), world.stopped()) == (("CANCELED", None), ["CANCELED"] * 4, ["m1-0"])
    assert world.of(CancelTask) == []


@pytest.mark.parametrize("reached", [[], ["INITIALIZING"], ["INITIALIZING", "RUNNING"]])
def test_cancel_of_deployed_tasks(reached):
    world = MasterWorld(pipeline()).start().register_all().all_report(*reached)
    world.tell(CancelJob())
    assert world.states() == ["CANCELING"] * 4
    assert len(world.of(CancelTask)) == 4
    world.tell(CancelJob())
    assert world.last == []
    world.confirm_cancels()
    assert world.end == ("CANCELED", None)


def test_a_failure_while_it_is_canceled_is_none():
    world = running()
    world.tell(CancelJob())
    world.all_report("FAILED")
    assert world.end == ("CANCELED", None)


def test_cancel_of_a_failing_job():
    world = running()
    world.report(world.attempt(0, 0), "FAILED", error())
    world.tell(CancelJob())
    assert world.job.status is JobStatus.CANCELLING
    world.confirm_cancels()
    assert world.end == ("CANCELED", None)


def test_a_late_report_makes_the_cancel_go_out_again():
    world = MasterWorld(pipeline()).start().register_all()
    world.tell(CancelJob())
    for state in ("INITIALIZING", "RUNNING"):
        world.report(world.attempt(0, 0), state)
        assert world.of(CancelTask) == [CancelTask(SESSION, world.attempt(0, 0))]
    assert world.states()[0] == "CANCELING"


def test_a_cancel_that_nobody_answers_goes_out_three_times_then_the_manager_counts_as_lost():
    world = running(pipeline(1), heartbeat_interval_ms=10**6)
    world.tell(CancelJob())
    world.wait(9_999)
    assert len(world.of(CancelTask, all_time=True)) == 2
    world.wait(1)
    assert len(world.of(CancelTask, all_time=True)) == 4
    world.wait(10_000)
    assert len(world.of(CancelTask, all_time=True)) == 6
    assert world.end is None
    world.wait(10_000)
    assert world.end == ("CANCELED", None)
    assert len(world.of(CancelTask, all_time=True)) == 6
    assert world.stopped() == ["m1-0"]


def test_a_cancel_that_was_heard_may_take_its_time():
    world = running(pipeline(1), heartbeat_interval_ms=5_000)
    world.tell(CancelJob())
    for vertex_index in range(2):
        world.report(world.attempt(vertex_index, 0), "CANCELING")
    for _ in range(40):
        world.wait(5_000)
        world.heartbeat("m1-0")
    assert len(world.of(CancelTask, all_time=True)) == 2
    assert world.end is None
    world.confirm_cancels()
    assert world.end == ("CANCELED", None)


def test_a_heartbeat_that_names_what_should_end_shows_that_the_cancel_was_lost():
    world = running(pipeline(1), heartbeat_interval_ms=5_000)
    world.tell(CancelJob())
    world.wait(5_000)
    world.heartbeat("m1-0")
    assert len(world.of(CancelTask, all_time=True)) == 4


# ---- heartbeats


def test_a_manager_that_is_silent_counts_as_lost_and_is_ended():
    world = running(heartbeat_timeout_ms=30_000)
    for _ in range(5):
        world.wait(10_000)
        world.heartbeat("m1-0")
    world.confirm_cancels()
    assert world.end == ("FAILED", "task manager m1-1 is gone: nothing was heard of it for 30 s")
    assert world.stopped()[0] == "m1-1"
    assert [each.sequence for each in world.of(HeartbeatRequest, all_time=True)][:4] == [1, 1, 2, 2]


def test_tasks_that_a_manager_has_and_we_do_not_are_canceled():
    world = running()
    world.wait(10_000)
    stray = world.attempt(0, 0, 3)
    world.heartbeat("m1-0", [world.attempt(0, 0), world.attempt(1, 0), stray])
    assert world.of(CancelTask) == [CancelTask(SESSION, stray)]


def test_what_a_finished_task_wrote_stays_while_others_read_it():
    world = running()
    world.report(world.attempt(0, 0), "FINISHED")
    world.wait(10_000)
    world.heartbeat("m1-0", [world.attempt(0, 0), world.attempt(1, 0)])  # the acknowledgement is on its way
    assert world.of(CancelTask) == []


def test_tasks_that_a_manager_does_not_know_have_failed():
    world = running()
    world.wait(10_000)
    world.heartbeat("m1-0", [world.attempt(1, 0)])
    assert world.states()[0] == "FAILED"
    world.confirm_cancels()
    assert world.end == ("FAILED", "its task manager has lost source (1/2)")


def test_a_deployment_that_is_on_its_way_is_not_missed():
    """Flink: testDeploymentPendingExecutions; the answer is to a question from before the deployment."""
    world = MasterWorld(pipeline()).start()
    world.register(0)
    world.wait(10_000)
    world.register(1)
    world.heartbeat("m1-0", [])
    assert world.states() == ["DEPLOYING"] * 4
    world.wait(10_000)
    world.heartbeat("m1-0", [])
    assert world.states()[0] == "FAILED"


def test_a_manager_that_leaves_says_why():
    world = running()
    world.say("m1-1", ManagerLeaving("a function did not return for 180 s"))
    world.confirm_cancels()
    assert world.end == ("FAILED", "task manager m1-1 is gone: a function did not return for 180 s")
    world.lose("m1-1", "and now it is gone")  # harmless


def test_a_job_ends_when_the_managers_of_its_last_tasks_are_gone():
    world = running()
    world.tell(CancelJob())
    world.lose("m1-0")
    assert world.end is None
    world.lose("m1-1")
    assert world.end == ("CANCELED", None)


def test_time_alone_changes_nothing_before_a_deadline():
    world = running()
    world.now_ms = world.job.next_deadline_ms - 1
    assert world.tell(TimePassed()) == []


def test_master_made_without_a_config_has_flinks_times():
    world = MasterWorld(pipeline())
    assert world.job.config.slot_request_timeout_ms == 300_000
    assert isinstance(world.job, JobMaster)
