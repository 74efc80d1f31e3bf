"""What a task manager decides: every message in every state of a task, and any order of them."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointMetrics, CheckpointOptions
from flinkbuf.runtime.manager.task_actions import (
    AskMetrics,
    DeliverOperatorEvent,
    ForgetTask,
    InterruptTask,
    KillProcess,
    LeaveAsked,
    LeaveProcess,
    LinkLost,
    NotifyTask,
    SendMessage,
    StartTask,
    StopTask,
    TriggerTask,
    Warn,
)
from flinkbuf.runtime.manager.task_executor import TaskExecutor, TaskExecutorConfig
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    NO_SESSION,
    AcknowledgeReport,
    CancelTask,
    CheckpointAcknowledgement,
    CheckpointRefusal,
    DeployTasks,
    EndOfDataReport,
    HeartbeatRequest,
    ManagerLeaving,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventMessage,
    OperatorEventReport,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseManager,
    TaskStateReport,
    TriggerCheckpoint,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.streaming.task.task_state import TaskState

S, OLD = "5" * 32, "0" * 32
A = AttemptId("a" * 32, 0, 0)
FINAL = {"FINISHED", "CANCELED", "FAILED"}


def deploy(attempt=A, session=S):
    return DeployTasks(session, (TaskDeploymentDescriptor(attempt, "map", 1, 128, 0, (), ()),))


def registered(**config):
    executor = TaskExecutor(TaskExecutorConfig(**config))
    executor.start(0)
    assert executor.handle(RegistrationAccepted(S, 10_000, 50_000), 0) == []
    return executor


def sent(actions):
    return [action.message for action in actions if isinstance(action, SendMessage)]


def task_changed(attempt, state, failure=None, **figures):
    """What a task reports; its task manager gives it the session."""
    return TaskStateReport(NO_SESSION, attempt, state.value, failure, **figures)


def report(state, attempt=A, failure=None):
    return TaskStateReport(S, attempt, state, failure)


# ---- belonging to a job master -------------------------------------------------------------------------


def test_before_it_is_accepted_nothing_of_a_job_master_is_heard():
    executor = TaskExecutor()
    for message in (deploy(), CancelTask(S, A), HeartbeatRequest(S, 1), ReleaseManager(S, "over")):
        assert executor.handle(message, 0) == []
    assert executor.attempts == ()


def test_a_message_of_another_session_dies_at_the_door():
    executor = registered()
    for message in (
        deploy(session=OLD),
        CancelTask(OLD, A),
        HeartbeatRequest(OLD, 1),
        ReleaseManager(OLD, "over"),
        AcknowledgeReport(OLD, A),
        RegistrationAccepted(OLD, 1, 1),
        RegistrationRefused("late"),
        TaskStateReport(S, A, "FAILED"),  # no report of a task of this process
        TaskStateReport(OLD, A, "FAILED"),
    ):
        assert executor.handle(message, 40_000) == []
    assert executor.session_id == S
    assert executor.next_deadline_ms == 50_000  # none of them counts as a sign of life


def test_who_is_refused_leaves():
    executor = TaskExecutor()
    (action,) = executor.handle(RegistrationRefused("the job is over"), 0)
    assert isinstance(action, LeaveProcess)
    assert "the job is over" in action.reason
    assert executor.is_over


def test_who_is_never_answered_leaves():
    executor = TaskExecutor(TaskExecutorConfig(registration_timeout_ms=1000))
    executor.start(500)
    assert executor.next_deadline_ms == 1500
    assert executor.handle(TimePassed(), 1499) == []
    assert isinstance(executor.handle(TimePassed(), 1500)[0], LeaveProcess)


def test_a_doubled_registration_only_renews():
    executor = registered()
    executor.handle(deploy(), 10)
    assert executor.handle(RegistrationAccepted(S, 10_000, 50_000), 20) == []
    assert executor.attempts == (A,)


def test_a_heartbeat_is_answered_with_all_attempts():
    executor = registered()
    other = AttemptId("b" * 32, 3, 1)
    executor.handle(deploy(), 0)
    executor.handle(deploy(other), 0)
    executor.handle(task_changed(other, TaskState.FINISHED), 0)  # not acknowledged: still here
    (action,) = executor.handle(HeartbeatRequest(S, 7), 10)
    assert isinstance(action, AskMetrics)
    assert (action.report.sequence, set(action.report.attempts)) == (7, {A, other})


def test_a_silent_job_master_is_left_once_its_tasks_have_ended():
    executor = registered()
    executor.handle(deploy(), 10_000)
    assert executor.handle(TimePassed(), 59_999) == []
    assert executor.handle(TimePassed(), 60_000) == [StopTask(A)]
    assert executor.handle(HeartbeatRequest(S, 1), 60_001) == []  # too late: its tasks may be elsewhere
    (action,) = executor.handle(task_changed(A, TaskState.CANCELED), 60_002)
    assert action == LeaveProcess("the job master has been silent for 50 s")


def test_every_message_of_the_job_master_is_a_sign_of_life():
    executor = registered()
    executor.handle(AcknowledgeReport(S, A), 30_000)
    assert executor.handle(TimePassed(), 79_999) == []


def test_a_lost_link_ends_all_tasks_and_nothing_is_said_any_more():
    executor = registered()
    other = AttemptId("b" * 32, 0, 0)
    executor.handle(deploy(), 0)
    executor.handle(deploy(other), 0)
    executor.handle(task_changed(other, TaskState.FINISHED), 0)
    assert executor.handle(LinkLost("reset by peer"), 5) == [StopTask(A)]
    assert executor.handle(LinkLost("again"), 6) == []
    assert executor.handle(task_changed(A, TaskState.CANCELED), 7) == [LeaveProcess("reset by peer")]


def test_told_to_end_it_says_so_at_once_and_leaves_after_its_last_task():
    executor = registered()
    executor.handle(deploy(), 0)
    assert executor.handle(LeaveAsked("SIGTERM"), 5) == [SendMessage(ManagerLeaving("SIGTERM")), StopTask(A)]
    assert executor.handle(LeaveAsked("again"), 6) == []
    assert executor.handle(task_changed(A, TaskState.CANCELED), 7) == [LeaveProcess("SIGTERM")]
    idle = registered()
    assert idle.handle(LeaveAsked("SIGTERM"), 5) == [SendMessage(ManagerLeaving("SIGTERM")), LeaveProcess("SIGTERM")]


def test_released_it_says_good_bye_after_its_last_task():
    executor = registered()
    executor.handle(deploy(), 0)
    assert executor.handle(ReleaseManager(S, "the job has ended"), 1) == [StopTask(A)]
    actions = executor.handle(task_changed(A, TaskState.CANCELED), 2)
    assert sent(actions) == [report("CANCELED"), ManagerLeaving("the job has ended")]
    assert actions[-1] == LeaveProcess("the job has ended")
    assert executor.handle(deploy(), 3) == []


def test_a_task_that_is_deployed_while_it_leaves_is_reported_failed():
    executor = registered()
    executor.handle(deploy(), 0)
    executor.handle(ReleaseManager(S, "over"), 1)
    (message,) = sent(executor.handle(deploy(AttemptId("b" * 32, 0, 0)), 2))
    assert message.state == "FAILED"
    assert message.failure.is_echo


# ---- a task's life -------------------------------------------------------------------------------------


def test_a_task_is_started_and_all_its_states_are_told():
    executor = registered()
    assert executor.handle(deploy(), 0) == [StartTask(deploy().tasks[0])]
    for state in (TaskState.DEPLOYING, TaskState.INITIALIZING, TaskState.RUNNING):
        assert sent(executor.handle(task_changed(A, state), 1)) == [report(state.value)]
    change = task_changed(A, TaskState.FINISHED, accumulators={"n": {}}, metrics={"records_in": 3})
    assert sent(executor.handle(change, 2)) == [TaskStateReport(S, A, "FINISHED", None, {"n": {}}, {"records_in": 3})]


def test_a_final_report_is_repeated_until_it_is_acknowledged():
    executor = registered(report_interval_ms=100)
    executor.handle(deploy(), 0)
    failure = Failure("builtins.ValueError", "no")
    final = sent(executor.handle(task_changed(A, TaskState.FAILED, failure), 10))
    assert final == [report("FAILED", failure=failure)]
    assert executor.next_deadline_ms == 110
    assert sent(executor.handle(TimePassed(), 110)) == final
    assert sent(executor.handle(TimePassed(), 150)) == []
    assert sent(executor.handle(TimePassed(), 210)) == final
    assert executor.handle(AcknowledgeReport(S, A), 220) == []
    assert executor.attempts == ()
    assert executor.handle(TimePassed(), 1000) == []


def test_a_running_task_cannot_be_acknowledged_away():
    executor = registered()
    executor.handle(deploy(), 0)
    executor.handle(AcknowledgeReport(S, A), 1)
    assert executor.attempts == (A,)


def test_giving_up_unasked_is_a_failure_that_is_an_echo():
    executor = registered()
    executor.handle(deploy(), 0)
    (message,) = sent(executor.handle(task_changed(A, TaskState.CANCELED), 1))
    assert (message.state, message.failure.is_echo) == ("FAILED", True)


def test_giving_up_unasked_keeps_what_was_said():
    executor = registered()
    executor.handle(deploy(), 0)
    gone = Failure("flinkbuf.errors.CancelTaskError", "the producer is gone")
    (message,) = sent(executor.handle(task_changed(A, TaskState.CANCELED, gone), 1))
    assert (message.failure.message, message.failure.is_echo) == ("the producer is gone", True)


def test_a_canceled_task_has_no_failure():
    executor = registered()
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 0)
    change = task_changed(A, TaskState.CANCELED, Failure("flinkbuf.errors.CancelTaskError", "cancelled", is_echo=True))
    assert sent(executor.handle(change, 1)) == [report("CANCELED")]


def test_a_failure_keeps_its_reason_though_the_task_was_cancelled_meanwhile():
    executor = registered()
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 0)
    echo = Failure("flinkbuf.errors.PartitionNotFoundError", "gone", is_echo=True)
    assert sent(executor.handle(task_changed(A, TaskState.FAILED, echo), 1)) == [report("FAILED", failure=echo)]


def test_the_cause_of_a_failure_is_told_though_its_echo_came_first_and_cancelled_the_task():
    """A neighbour sees that what this task writes is gone, and reports it, before this task has freed all it has."""
    executor = registered()
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 0)
    cause = Failure("builtins.ValueError", "no")
    assert sent(executor.handle(task_changed(A, TaskState.CANCELED, cause), 1)) == [report("CANCELED", failure=cause)]


def test_events_pass_while_the_task_runs():
    executor = registered()
    told, said = OperatorEventMessage(S, A, "o", b"1"), OperatorEventReport(NO_SESSION, A, "o", b"2")
    assert executor.handle(told, 0) == executor.handle(said, 0) == []
    executor.handle(deploy(), 0)
    assert executor.handle(told, 1) == [DeliverOperatorEvent(A, "o", b"1")]
    assert sent(executor.handle(said, 1)) == [OperatorEventReport(S, A, "o", b"2")]
    executor.handle(task_changed(A, TaskState.FINISHED), 2)
    assert executor.handle(told, 3) == executor.handle(said, 3) == []


# ---- doubled, late and unknown -------------------------------------------------------------------------


# ---- checkpoints ---------------------------------------------------------------------------------------


def running(executor):
    executor.handle(deploy(), 0)
    executor.handle(task_changed(A, TaskState.RUNNING), 0)


def test_a_running_task_is_triggered_and_its_part_is_told():
    executor, options, state = registered(), CheckpointOptions(location="/c/chk-3"), SubtaskState()
    running(executor)
    assert executor.handle(TriggerCheckpoint(S, A, 3, 1000, options), 0) == [TriggerTask(A, 3, 1000, options)]
    metrics = CheckpointMetrics(sync_ms=2)
    (done,) = sent(executor.handle(CheckpointAcknowledgement(NO_SESSION, A, 3, state, metrics), 0))
    assert done == CheckpointAcknowledgement(S, A, 3, state, metrics)
    (refused,) = sent(
        executor.handle(CheckpointRefusal(NO_SESSION, A, 4, "CHECKPOINT_DECLINED", Failure("E", "no")), 0)
    )
    assert refused == CheckpointRefusal(S, A, 4, "CHECKPOINT_DECLINED", Failure("E", "no"))
    assert sent(executor.handle(EndOfDataReport(NO_SESSION, A), 0)) == [EndOfDataReport(S, A)]


@pytest.mark.parametrize("steps", [[], ["deploy"], ["deploy", "run", "cancel"], ["deploy", "run", "finish"]])
def test_a_task_that_does_not_run_refuses_at_once(steps):
    executor = registered()
    messages = {
        "deploy": deploy(),
        "run": task_changed(A, TaskState.RUNNING),
        "cancel": CancelTask(S, A),
        "finish": task_changed(A, TaskState.FINISHED),
    }
    for step in steps:
        executor.handle(messages[step], 0)
    assert sent(executor.handle(TriggerCheckpoint(S, A, 3, 1000, CheckpointOptions()), 0)) == [
        CheckpointRefusal(S, A, 3, "CHECKPOINT_DECLINED_TASK_NOT_READY")
    ]


def test_a_task_is_told_what_became_of_checkpoints_as_long_as_it_goes_on():
    executor = registered()
    running(executor)
    assert executor.handle(NotifyCheckpointComplete(S, A, 3), 0) == [NotifyTask(A, 3, True)]
    assert executor.handle(NotifyCheckpointAborted(S, A, 4, 3), 0) == [NotifyTask(A, 4, False, 3)]
    executor.handle(CancelTask(S, A), 0)
    for message in (
        NotifyCheckpointComplete(S, A, 5),
        CheckpointAcknowledgement(NO_SESSION, A, 5, SubtaskState()),
        EndOfDataReport(NO_SESSION, A),
    ):
        assert executor.handle(message, 0) == []


@pytest.mark.parametrize(
    "message",
    [TriggerCheckpoint(OLD, A, 3, 1, CheckpointOptions()), NotifyCheckpointComplete(OLD, A, 3)],
)
def test_an_old_job_master_takes_no_checkpoint_here(message):
    executor = registered()
    running(executor)
    assert executor.handle(message, 0) == []


def test_a_doubled_deployment_does_no_harm():
    executor = registered()
    executor.handle(deploy(), 0)
    executor.handle(task_changed(A, TaskState.RUNNING), 1)
    actions = executor.handle(deploy(), 2)
    assert [type(action) for action in actions] == [Warn, SendMessage]
    assert sent(actions) == [report("RUNNING")]
    executor.handle(task_changed(A, TaskState.FINISHED), 3)
    assert sent(executor.handle(deploy(), 4)) == [report("FINISHED")]


@pytest.mark.parametrize("number", [0, 1])
def test_a_deployment_of_what_was_here_starts_nothing(number):
    executor = registered()
    newer = AttemptId(A.vertex_id, 0, 1)
    executor.handle(deploy(newer), 0)
    executor.handle(task_changed(newer, TaskState.FAILED, Failure("x", "y")), 1)
    executor.handle(AcknowledgeReport(S, newer), 2)
    (message,) = sent(executor.handle(deploy(AttemptId(A.vertex_id, 0, number)), 3))
    assert (message.state, message.failure.is_echo) == ("FAILED", True)


def test_cancelling_what_is_unknown_is_answered_and_fences_it():
    executor = registered(report_interval_ms=100)
    assert sent(executor.handle(CancelTask(S, A), 0)) == [report("CANCELED")]
    assert sent(executor.handle(TimePassed(), 100)) == [report("CANCELED")]
    actions = executor.handle(deploy(), 150)  # it comes after all
    assert sent(actions) == [report("CANCELED")]
    assert not any(isinstance(action, StartTask) for action in actions)
    executor.handle(AcknowledgeReport(S, A), 160)
    assert sent(executor.handle(deploy(), 170))[0].state == "FAILED"


def test_each_cancel_is_answered_and_stops_once():
    executor = registered()
    executor.handle(deploy(), 0)
    assert executor.handle(CancelTask(S, A), 1) == [StopTask(A), SendMessage(report("CANCELING"))]
    assert executor.handle(CancelTask(S, A), 2) == [SendMessage(report("CANCELING"))]
    assert executor.handle(task_changed(A, TaskState.RUNNING), 3) == []  # it was on its way
    assert sent(executor.handle(task_changed(A, TaskState.FINISHED), 4))[0].state == "FINISHED"
    assert sent(executor.handle(CancelTask(S, A), 5)) == [report("FINISHED")]


def test_what_a_finished_attempt_wrote_goes_when_it_is_cancelled_or_a_newer_one_comes():
    executor = registered()
    for number in range(3):
        attempt = AttemptId(A.vertex_id, 0, number)
        executor.handle(deploy(attempt), 0)
        executor.handle(task_changed(attempt, TaskState.FINISHED), 1)
        executor.handle(AcknowledgeReport(S, attempt), 2)
        newer = AttemptId(A.vertex_id, 0, number + 1)
        if number == 0:
            assert ForgetTask(attempt) in executor.handle(CancelTask(S, attempt), 3)
        elif number == 1:
            assert ForgetTask(attempt) not in executor.handle(deploy(AttemptId("b" * 32, 0, 0)), 3)
    assert ForgetTask(AttemptId(A.vertex_id, 0, 2)) in executor.handle(deploy(newer), 4)


# ---- the watchdog --------------------------------------------------------------------------------------


def test_a_task_that_ignores_its_cancel_is_interrupted_and_then_the_process_ends():
    executor = registered(cancellation_interval_ms=30, cancellation_timeout_ms=100)
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 1000)
    seen = []
    for now_ms in range(1000, 1200):
        if executor.next_deadline_ms is not None and executor.next_deadline_ms <= now_ms:
            seen += [(now_ms, action) for action in executor.handle(TimePassed(), now_ms)]
    assert [(at, action) for at, action in seen if isinstance(action, InterruptTask)] == [
        (1030, InterruptTask(A)),
        (1060, InterruptTask(A)),
        (1090, InterruptTask(A)),
    ]
    assert isinstance(seen[-2][1].message, ManagerLeaving)
    assert seen[-1][0] == 1100
    assert isinstance(seen[-1][1], KillProcess)
    assert "task.cancellation.timeout" in seen[-1][1].reason
    assert executor.is_over


def test_the_programs_own_process_leaves_the_task_behind_instead():
    executor = registered(cancellation_interval_ms=30, cancellation_timeout_ms=50, can_kill_process=False)
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 0)
    actions = [action for now_ms in range(0, 200, 10) for action in executor.handle(TimePassed(), now_ms)]
    assert [type(action) for action in actions] == [InterruptTask, SendMessage, LeaveProcess]
    assert isinstance(actions[1].message, ManagerLeaving)
    assert actions[2].left_behind == (A,)
    assert "task.cancellation.timeout" in actions[2].reason
    assert executor.is_over


def test_zero_means_never():
    executor = registered(cancellation_interval_ms=0, cancellation_timeout_ms=0)
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 0)
    assert executor.next_deadline_ms == 50_000
    assert executor.handle(TimePassed(), 49_999) == []


def test_what_has_ended_is_watched_no_more():
    executor = registered(cancellation_timeout_ms=100)
    executor.handle(deploy(), 0)
    executor.handle(CancelTask(S, A), 0)
    executor.handle(task_changed(A, TaskState.CANCELED), 50)
    executor.handle(AcknowledgeReport(S, A), 51)
    assert executor.handle(TimePassed(), 1000) == []
    assert not executor.is_over


# ---- every message in every state ----------------------------------------------------------------------

STEPS = {
    "deploy": deploy(),
    "cancel": CancelTask(S, A),
    "acknowledge": AcknowledgeReport(S, A),
    "heartbeat": HeartbeatRequest(S, 1),
    "told": OperatorEventMessage(S, A, "o", b""),
    "said": OperatorEventReport(NO_SESSION, A, "o", b""),
    "release": ReleaseManager(S, "over"),
    "lost": LinkLost("lost"),
    "time": TimePassed(),
    **{state.value: task_changed(A, state) for state in TaskState},
}
WAYS = {
    "unknown": [],
    "deployed": ["deploy"],
    "running": ["deploy", "RUNNING"],
    "cancelling": ["deploy", "RUNNING", "cancel"],
    "finished": ["deploy", "RUNNING", "FINISHED"],
    "failed": ["deploy", "FAILED"],
    "canceled": ["deploy", "cancel", "CANCELED"],
    "acknowledged": ["deploy", "FINISHED", "acknowledge"],
    "cancelled unseen": ["cancel"],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("way", WAYS)
def test_every_step_in_every_state_leaves_the_table_in_order(way, step):
    executor = registered()
    for each in WAYS[way]:
        executor.handle(STEPS[each], 1)
    before = executor.state_of(A)
    actions = executor.handle(STEPS[step], 2)
    after = executor.state_of(A)
    if before is not None and before.is_terminal and after is not None:
        assert after is before
    starts = [action for action in actions if isinstance(action, StartTask)]
    assert bool(starts) == (way == "unknown" and step == "deploy")
    if step == "cancel":
        assert [message.attempt for message in sent(actions) if isinstance(message, TaskStateReport)] == [A]
    if isinstance(STEPS[step], TaskStateReport) and way in (
        "unknown",
        "finished",
        "failed",
        "canceled",
        "acknowledged",
    ):
        assert actions == []  # nobody is told of a task that is not here, or twice of an end


class AnyOrder(RuleBasedStateMachine):
    """Any message at any time, with tasks that end sooner or later: nothing starts twice or ends twice."""

    attempts = st.builds(AttemptId, st.sampled_from(["a" * 32, "b" * 32]), st.integers(0, 1), st.integers(0, 2))

    @initialize()
    def begin(self):
        self.now_ms = 0
        self.executor = registered(cancellation_interval_ms=20, cancellation_timeout_ms=500, report_interval_ms=30)
        self.started, self.ended, self.stopped, self.ends_told = [], set(), set(), {}
        self.is_cut = self.has_left = False

    def give(self, message):
        was_over = self.executor.is_over
        actions = self.executor.handle(message, self.now_ms)
        assert not (was_over and actions)
        for action in actions:
            self.see(action)

    def see(self, action):
        assert not self.has_left  # the last action was the last
        if isinstance(action, StartTask):
            self.started.append(action.descriptor.attempt)
        elif isinstance(action, StopTask):
            assert action.attempt in self.running
            assert action.attempt not in self.stopped
            self.stopped.add(action.attempt)
        elif isinstance(action, InterruptTask):
            assert action.attempt in self.stopped & set(self.running)
        elif isinstance(action, SendMessage):
            assert not self.is_cut
            self.hear(action.message)
        elif isinstance(action, (LeaveProcess, KillProcess)):
            self.has_left = True
            assert isinstance(action, KillProcess) or not self.running

    def hear(self, message):
        if isinstance(message, TaskStateReport) and message.state in FINAL:
            before = self.ends_told.setdefault(message.attempt, message.state)
            # A task that was here and is deployed again after it was forgotten is refused, whatever it ended as.
            assert before == message.state or message.failure is not None or message.state == "CANCELED"
            assert message.attempt not in self.running

    @property
    def running(self):
        return [attempt for attempt in self.started if attempt not in self.ended]

    @rule(attempt=attempts)
    def deploy(self, attempt):
        self.give(deploy(attempt))

    @rule(attempt=attempts)
    def cancel(self, attempt):
        self.give(CancelTask(S, attempt))

    @rule(attempt=attempts)
    def acknowledge(self, attempt):
        self.give(AcknowledgeReport(S, attempt))

    @rule()
    def heartbeat(self):
        self.give(HeartbeatRequest(S, 1))

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        state=st.sampled_from([TaskState.RUNNING, TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED]),
    )
    def change(self, data, state):
        attempt = data.draw(st.sampled_from(self.running))
        if state.is_terminal:
            self.ended.add(attempt)
        self.give(task_changed(attempt, state, Failure("x", "y") if state is TaskState.FAILED else None))

    @rule(by_ms=st.integers(1, 200))
    def pass_time(self, by_ms):
        until_ms = self.now_ms + by_ms
        while (due_ms := self.executor.next_deadline_ms) is not None and due_ms <= until_ms:
            assert due_ms >= self.now_ms - 200
            self.now_ms = max(self.now_ms, due_ms)
            self.give(TimePassed())
        self.now_ms = until_ms

    @precondition(lambda self: self.now_ms > 300)
    @rule()
    def lose_link(self):
        self.is_cut = True
        self.give(LinkLost("lost"))

    @precondition(lambda self: self.now_ms > 300)
    @rule()
    def release(self):
        self.give(ReleaseManager(S, "over"))

    @invariant()
    def nothing_starts_twice(self):
        assert len(self.started) == len(set(self.started))

    @invariant()
    def all_that_runs_is_in_the_table(self):
        if not self.has_left:
            assert set(self.running) <= set(self.executor.attempts)

    @invariant()
    def who_leaves_has_left_when_nothing_runs(self):
        if self.is_cut and not self.running:
            assert self.has_left
        if self.has_left:
            assert self.executor.is_over
            assert self.executor.next_deadline_ms is None


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
