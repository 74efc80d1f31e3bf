"""One task executor, told anything in any order: what it starts, stops and reports stays true."""

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import booleans, integers, sampled_from

from flinkbuf.runtime.manager import task_actions as tm
from flinkbuf.runtime.manager.task_executor import TaskExecutor, TaskExecutorConfig
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    NO_SESSION,
    AcknowledgeReport,
    CancelTask,
    DeployTasks,
    HeartbeatRequest,
    ManagerLeaving,
    OperatorEventMessage,
    OperatorEventReport,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.streaming.task.task_state import NEXT, TaskState, TaskStep

SESSION, OTHER = "5" * 32, "0" * 32
SUBTASKS = [("a" * 32, 0), ("a" * 32, 1), ("b" * 32, 0)]
FINAL = ("FINISHED", "CANCELED", "FAILED")
INTERVAL_MS, TIMEOUT_MS, REPEAT_MS, HEARTBEAT_MS = 500, 3_000, 700, 5_000


class AnyOrder(RuleBasedStateMachine):
    """Tasks are their states; whatever they do is told to the executor at once, or later."""

    @initialize(can_kill=booleans())
    def begin(self, can_kill):
        config = TaskExecutorConfig(INTERVAL_MS, TIMEOUT_MS, REPEAT_MS, 10_000, can_kill)
        self.executor = TaskExecutor(config)
        self.executor.start(0)
        self.now_ms = 0
        self.tasks = {}  # state of each that was started
        self.untold = []  # what tasks have still to say
        self.stopped_ms = {}
        self.open_reports = {}  # final, not acknowledged
        self.last_report_ms = {}
        self.deployed = set()
        self.end = None
        self.is_cut = False
        self.is_accepted = False
        self.silent_ms = 10_000  # when it has heard nothing for too long

    # ---- what it is told

    def give(self, message):
        session_id = getattr(message, "session_id", SESSION)
        if isinstance(message, TimePassed):
            self.is_cut = self.is_cut or self.now_ms >= self.silent_ms
        elif self.is_accepted and session_id == SESSION and hasattr(message, "session_id"):
            self.silent_ms = self.now_ms + HEARTBEAT_MS
        actions = self.executor.handle(message, self.now_ms)
        assert not (actions and self.end), f"{actions} after {self.end}"
        assert session_id in (SESSION, NO_SESSION) or not actions, f"{message} of another session: {actions}"
        for action in actions:
            getattr(self, f"on_{type(action).__name__}")(action)

    @rule(session_id=sampled_from([SESSION, SESSION, OTHER]))
    def accept(self, session_id):
        if not self.is_accepted and session_id == OTHER:
            return  # it would belong to that one
        self.is_accepted = True
        self.give(RegistrationAccepted(session_id, 1_000, HEARTBEAT_MS))

    @rule()
    @precondition(lambda self: not self.is_accepted)
    def refuse(self):
        self.is_cut = True
        self.give(RegistrationRefused("too many"))

    @rule(subtask=sampled_from(SUBTASKS), number=integers(0, 3), session_id=sampled_from([SESSION] * 4 + [OTHER]))
    def deploy(self, subtask, number, session_id):
        attempt = AttemptId(*subtask, number)
        self.give(DeployTasks(session_id, (TaskDeploymentDescriptor(attempt, "task", 2, 128, 0, (), ()),)))

    @rule(subtask=sampled_from(SUBTASKS), number=integers(0, 3), session_id=sampled_from([SESSION] * 4 + [OTHER]))
    def cancel(self, subtask, number, session_id):
        attempt = AttemptId(*subtask, number)
        self.answers = []
        self.give(CancelTask(session_id, attempt))
        if session_id == SESSION and self.is_accepted and not self.is_cut and self.end is None:
            assert [each.attempt for each in self.answers] == [attempt], "a cancel is answered, whatever it finds"

    @rule(subtask=sampled_from(SUBTASKS), number=integers(0, 3))
    def acknowledge(self, subtask, number):
        if self.is_accepted and not self.is_cut:
            self.open_reports.pop(AttemptId(*subtask, number), None)
        self.give(AcknowledgeReport(SESSION, AttemptId(*subtask, number)))

    @rule(session_id=sampled_from([SESSION, OTHER]))
    def ask(self, session_id):
        self.give(HeartbeatRequest(session_id, 7))

    @rule(subtask=sampled_from(SUBTASKS), number=integers(0, 3))
    def say(self, subtask, number):
        attempt = AttemptId(*subtask, number)
        self.give(OperatorEventMessage(SESSION, attempt, "o" * 32, b"an event"))
        self.give(OperatorEventReport(NO_SESSION, attempt, "o" * 32, b"hello"))

    @rule(session_id=sampled_from([SESSION, OTHER, OTHER, OTHER]))
    def release(self, session_id):
        self.give(ReleaseManager(session_id, "the job has ended"))

    @rule()
    @precondition(lambda self: self.now_ms > 8_000)  # else nothing else ever happens
    def cut(self):
        self.is_cut = True
        self.give(tm.LinkLost("reset"))

    @rule(delay_ms=sampled_from([0, 1, 100, 499, 700, 3_000, 6_000]))
    def pass_time(self, delay_ms):
        self.now_ms += delay_ms
        if self.now_ms >= (self.executor.next_deadline_ms or self.now_ms + 1):
            self.give(TimePassed())
            deadline_ms = self.executor.next_deadline_ms
            assert deadline_ms is None or deadline_ms > self.now_ms
        else:
            self.give(TimePassed())

    # ---- what tasks do

    @rule(index=integers(0, 9), step=sampled_from([step for step in TaskStep if step is not TaskStep.CANCEL]))
    @precondition(lambda self: self.tasks)
    def move(self, index, step):
        attempt = list(self.tasks)[index % len(self.tasks)]
        state = self.tasks[attempt]
        if step in NEXT[state]:
            self.tasks[attempt] = NEXT[state][step]
            if self.tasks[attempt] is not state:
                failure = (
                    Failure("builtins.ValueError", "it failed") if self.tasks[attempt] is TaskState.FAILED else None
                )
                self.untold.append(TaskStateReport(NO_SESSION, attempt, self.tasks[attempt].value, failure))

    @rule(count=integers(1, 9))
    def tell(self, count):
        for _ in range(min(count, len(self.untold))):
            self.give(self.untold.pop(0))

    # ---- what it wants

    def on_StartTask(self, action):
        attempt = action.descriptor.attempt
        assert attempt not in self.deployed, "started twice"
        self.deployed.add(attempt)
        self.tasks[attempt] = TaskState.CREATED

    def on_StopTask(self, action):
        assert action.attempt not in self.stopped_ms, "stopped twice"
        self.stopped_ms[action.attempt] = self.now_ms
        state = self.tasks[action.attempt]
        self.tasks[action.attempt] = NEXT[state].get(TaskStep.CANCEL, state)
        if self.tasks[action.attempt] is not state:
            self.untold.append(TaskStateReport(NO_SESSION, action.attempt, self.tasks[action.attempt].value))

    def on_InterruptTask(self, action):
        assert self.now_ms - self.stopped_ms[action.attempt] >= INTERVAL_MS

    def on_ForgetTask(self, action):
        assert self.tasks[action.attempt] is TaskState.FINISHED, "nobody else has left anything"

    def on_DeliverOperatorEvent(self, action):
        assert action.attempt in self.tasks

    def on_Warn(self, action):
        assert action.text

    def on_AskMetrics(self, action):
        missing = {each for each, state in self.tasks.items() if not state.is_terminal} - set(action.report.attempts)
        assert not missing, "a task that is not over is not in the report"
        assert set(self.open_reports) <= set(action.report.attempts)

    def on_SendMessage(self, action):
        assert (not self.is_cut and self.is_accepted) or isinstance(action.message, ManagerLeaving)
        report = action.message
        if isinstance(report, TaskStateReport):
            assert report.session_id == SESSION
            self.answers = [*getattr(self, "answers", []), report]
            if report.state in FINAL:
                self.on_final(report)
            else:
                assert report.attempt not in self.open_reports, "alive again after its end"

    def on_final(self, report):
        state = self.tasks.get(report.attempt)
        assert state is None or state.is_terminal, "its end is told while it runs"
        if report.state == "FINISHED":
            assert state is TaskState.FINISHED
        assert self.open_reports.setdefault(report.attempt, report) == report, "two ends"
        self.last_report_ms[report.attempt] = self.now_ms

    def untold_ends(self):
        return {each.attempt for each in self.untold if TaskState(each.state).is_terminal}

    def on_LeaveProcess(self, action):
        alive = {each for each, state in self.tasks.items() if not state.is_terminal}
        left = set(action.left_behind) - self.untold_ends()  # it cannot know of these yet
        assert alive == left, "it leaves while tasks run"
        if alive:  # in the process of a program, which goes on without them
            assert not self.executor.config.can_kill_process
            assert any(self.now_ms - self.stopped_ms[each] >= TIMEOUT_MS for each in alive), "nobody is late"
        self.end = action

    def on_KillProcess(self, action):
        assert self.executor.config.can_kill_process
        late = [each for each, since_ms in self.stopped_ms.items() if self.now_ms - since_ms >= TIMEOUT_MS]
        assert late, "nobody is late"
        self.end = action

    # ---- what always holds

    @invariant()
    def open_reports_are_repeated(self):
        if not hasattr(self, "executor") or self.end or self.is_cut:
            return
        for attempt in self.open_reports:
            deadline_ms = self.executor.next_deadline_ms
            assert attempt in self.executor.attempts
            assert deadline_ms is not None and deadline_ms <= self.last_report_ms[attempt] + REPEAT_MS

    @invariant()
    def who_was_stopped_is_watched(self):
        if not hasattr(self, "executor") or self.end:
            return
        told = self.untold_ends()
        for attempt in self.stopped_ms:
            if not self.tasks[attempt].is_terminal and attempt not in told:
                assert self.executor.next_deadline_ms <= self.now_ms + INTERVAL_MS

    @invariant()
    def it_says_when_it_is_over(self):
        if hasattr(self, "executor"):
            assert self.executor.is_over == (self.end is not None)

    def teardown(self):
        """Whatever came before: cut off, it leaves as soon as its last task has come out."""
        if not hasattr(self, "executor"):
            return
        self.is_cut = True
        self.give(tm.LinkLost("the end"))
        for attempt, state in list(self.tasks.items()):
            if not state.is_terminal:
                self.tasks[attempt] = NEXT[state].get(TaskStep.CONFIRM_CANCEL, TaskState.CANCELED)
                self.untold.append(TaskStateReport(NO_SESSION, attempt, self.tasks[attempt].value))
        while self.untold:
            self.give(self.untold.pop(0))
        assert self.executor.is_over


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
