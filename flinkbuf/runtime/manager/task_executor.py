"""Decides for one task manager: which tasks run, what the job master is told, when a task or the process must go.

Pure: takes a message and the time, returns actions; runtime/manager/task_manager.py performs them. Flink:
TaskExecutor, TaskSlotTable, Task's cancellation watchdog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, TypeVar, get_args

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.runtime.manager.task_actions import (
    AskMetrics,
    DeliverOperatorEvent,
    DropPartitions,
    ForgetTask,
    InspectProcess,
    InterruptTask,
    KillProcess,
    LeaveAsked,
    LeaveProcess,
    LinkLost,
    NotifyTask,
    SampleThreads,
    SendMessage,
    StartTask,
    StopTask,
    ThreadsSampled,
    TriggerTask,
    Warn,
)
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
    HeartbeatReport,
    HeartbeatRequest,
    InspectManager,
    ManagerInspected,
    ManagerLeaving,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventMessage,
    OperatorEventReport,
    PartitionsReleased,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseManager,
    ReleasePartitions,
    SampleTasks,
    TasksSampled,
    TaskStateReport,
    TriggerCheckpoint,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.streaming.task.task_state import TaskState

NOT_READY: Final = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY.name
TaskReport: TypeAlias = (  # of the tasks here, as the job master will read it; they have no session yet
    TaskStateReport | OperatorEventReport | CheckpointAcknowledgement | CheckpointRefusal | EndOfDataReport
)
TASK_REPORTS: Final = get_args(TaskReport)
CANCELED_UNASKED = "flinkbuf.errors.CancelTaskError"


@dataclass(frozen=True)
class TaskExecutorConfig:
    """How patient a task manager is. 0 milliseconds: never.

    Attributes
    ----------
    cancellation_interval_ms : int
        How often a task that does not come out is interrupted; ``task.cancellation.interval``.
    cancellation_timeout_ms : int
        How long it may take before the process is ended instead; ``task.cancellation.timeout``.
    report_interval_ms : int
        How often a final report is repeated until the job master has acknowledged it.
    registration_timeout_ms : int
        How long it waits to be accepted; ``taskmanager.registration.timeout``.
    can_kill_process : bool
        False where the process is the program's own: the thread of such a task is left behind instead.
    """

    cancellation_interval_ms: int = 30_000
    cancellation_timeout_ms: int = 180_000
    report_interval_ms: int = 5_000
    registration_timeout_ms: int = 300_000
    can_kill_process: bool = True


K = TypeVar("K")


class Deadlines(Generic[K]):
    """Deadlines that all lie equally far ahead, so that the first one set is the first one due.

    Examples
    --------
    >>> deadlines = Deadlines(10)
    >>> deadlines.set("a", now_ms=0); deadlines.set("b", now_ms=5)
    >>> deadlines.next_ms, deadlines.take_due(10), deadlines.next_ms
    (10, ['a'], 15)
    """

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self._due_ms: dict[K, int] = {}

    def set(self, key: K, now_ms: int) -> None:
        """Set a deadline from now on, in place of an earlier one; a delay of 0 sets none."""
        self._due_ms.pop(key, None)
        if self._delay_ms > 0:
            self._due_ms[key] = now_ms + self._delay_ms

    def clear(self, key: K) -> None:
        """Remove a deadline."""
        self._due_ms.pop(key, None)

    @property
    def next_ms(self) -> int | None:
        """Return when the first deadline is due; None: no deadline is set."""
        return next(iter(self._due_ms.values()), None)

    def take_due(self, now_ms: int) -> list[K]:
        """Remove and return the keys whose time has come."""
        due = []
        for key, due_ms in self._due_ms.items():
            if due_ms > now_ms:
                break
            due.append(key)
        for key in due:
            del self._due_ms[key]
        return due


@dataclass
class _Entry:
    """One attempt that the job master believes to be here."""

    state: TaskState = TaskState.CREATED
    is_stopped: bool = False  # a cancel was asked for
    final_report: TaskStateReport | None = None  # the final report, until it is acknowledged


class TaskExecutor:
    """The table of a task manager's tasks, and the rules for it.

    Parameters
    ----------
    config : TaskExecutorConfig, optional

    Attributes
    ----------
    is_over : bool
        Whether the manager was told to leave or to be killed: nothing is decided after that.
    session_id : str or None
        Of the job master it belongs to.

    Examples
    --------
    >>> executor = TaskExecutor()
    >>> executor.handle(RegistrationAccepted("5e55", 10_000, 50_000), now_ms=0)
    []
    >>> executor.handle(HeartbeatRequest("5e55", sequence=1), now_ms=10_000)[0].report.attempts
    ()
    """

    def __init__(self, config: TaskExecutorConfig | None = None) -> None:
        self.config = config or TaskExecutorConfig()
        self.is_over = False
        self.session_id: str | None = None
        self._tasks: dict[AttemptId, _Entry] = {}
        self._running_count = 0
        self._newest: dict[tuple[str, int], int] = {}  # number of the newest attempt of a subtask that was ever here
        self._finished: dict[tuple[str, int], list[AttemptId]] = {}  # whose partitions may still be read
        self._interrupts: Deadlines[AttemptId] = Deadlines(self.config.cancellation_interval_ms)
        self._kills: Deadlines[AttemptId] = Deadlines(self.config.cancellation_timeout_ms)
        self._repeats: Deadlines[AttemptId] = Deadlines(self.config.report_interval_ms)
        self._heartbeat_timeout_ms = 0
        self._silent_at_ms: int | None = None  # when the job master has been silent for too long
        self._register_until_ms: int | None = None
        self._is_cut = False  # nothing reaches the job master
        self._leave_reason: str | None = None
        self._actions: list[object] = []

    # ---- from outside -----------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Note that registration was sent: from now on a job master should answer."""
        if self.config.registration_timeout_ms > 0:
            self._register_until_ms = now_ms + self.config.registration_timeout_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when to call `handle` with the time, at the latest; None: only a message brings work."""
        if self.is_over:
            return None
        deadlines = (
            self._interrupts.next_ms,
            self._kills.next_ms,
            self._repeats.next_ms,
            self._silent_at_ms,
            self._register_until_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    @property
    def attempts(self) -> tuple[AttemptId, ...]:
        """Return the attempts that have not ended, or whose end the job master has not acknowledged."""
        return tuple(self._tasks)

    def state_of(self, attempt: AttemptId) -> TaskState | None:
        """Return the state of a task; None: it is not here."""
        entry = self._tasks.get(attempt)
        return None if entry is None else entry.state

    def handle(self, message: object, now_ms: int) -> list[object]:
        """Return the actions that a message, or the time, leads to; see task_actions.py."""
        if self.is_over or not self._is_heard(message, now_ms):
            return []
        self._actions = []
        _HANDLERS[type(message)](self, message, now_ms)
        actions, self._actions = self._actions, []
        return actions

    def _is_heard(self, message: object, now_ms: int) -> bool:
        """Return whether a message comes from this process, or from the manager's own job master."""
        if isinstance(message, _LOCAL):
            return getattr(message, "session_id", NO_SESSION) == NO_SESSION
        if self._is_cut:
            return False
        if isinstance(message, RegistrationRefused):
            return self.session_id is None
        if isinstance(message, RegistrationAccepted):
            return self.session_id in (None, message.session_id)
        if self.session_id is None or getattr(message, "session_id", None) != self.session_id:
            return False
        self._heard(now_ms)
        return True

    def _heard(self, now_ms: int) -> None:
        if self._heartbeat_timeout_ms > 0:
            self._silent_at_ms = now_ms + self._heartbeat_timeout_ms

    def _do(self, action: object) -> None:
        self._actions.append(action)

    def _send(self, message: object) -> None:
        if not self._is_cut:
            self._do(SendMessage(message))

    # ---- belonging to a job master ----------------------------------------------------------------------

    def _accepted(self, message: RegistrationAccepted, now_ms: int) -> None:
        self.session_id = message.session_id
        self._heartbeat_timeout_ms = message.heartbeat_timeout_ms
        self._heard(now_ms)
        self._register_until_ms = None

    def _refused(self, message: RegistrationRefused, now_ms: int) -> None:
        self._cut_off(f"the job master does not need this task manager: {message.reason}", now_ms)

    def _released(self, message: ReleaseManager, now_ms: int) -> None:
        self._leave(message.reason, now_ms)

    def _link_lost(self, message: LinkLost, now_ms: int) -> None:
        self._cut_off(message.reason, now_ms)

    def _leave_asked(self, message: LeaveAsked, now_ms: int) -> None:
        """Tell the job master first, so that the tasks begin elsewhere at once."""
        self._send(ManagerLeaving(message.reason))
        self._cut_off(message.reason, now_ms)

    def _cut_off(self, reason: str, now_ms: int) -> None:
        """Cancel all tasks: their job master cannot reach them any more, and may have replaced them."""
        self._is_cut = True
        self._silent_at_ms = self._register_until_ms = None
        for attempt, entry in list(self._tasks.items()):
            if entry.final_report is not None:
                self._drop(attempt)
        self._leave(reason, now_ms)

    def _leave(self, reason: str, now_ms: int) -> None:
        if self._leave_reason is None:
            self._leave_reason = reason
        for attempt in list(self._tasks):
            self._stop(attempt, now_ms)
        self._leave_if_empty()

    def _leave_if_empty(self) -> None:
        if self._leave_reason is None or self._running_count > 0:
            return
        self._send(ManagerLeaving(self._leave_reason))
        self._do(LeaveProcess(self._leave_reason))
        self.is_over = True

    def _asked_for_heartbeat(self, message: HeartbeatRequest, now_ms: int) -> None:
        self._do(AskMetrics(HeartbeatReport(message.session_id, message.sequence, self.attempts)))

    def _sample(self, message: SampleTasks, now_ms: int) -> None:
        here = tuple(attempt for attempt in message.attempts if attempt in self._tasks)
        self._do(SampleThreads(message.request, here, message.sample_count, message.interval_ms))

    def _sampled(self, message: ThreadsSampled, now_ms: int) -> None:
        self._send(TasksSampled(self.session_id or "", message.request, message.tree))

    def _inspect(self, message: InspectManager, now_ms: int) -> None:
        self._do(InspectProcess(ManagerInspected(message.session_id, message.request), message.subject))

    # ---- tasks come -------------------------------------------------------------------------------------

    def _deploy_all(self, message: DeployTasks, now_ms: int) -> None:
        for descriptor in message.descriptors:
            self._deploy(descriptor, now_ms)

    def _deploy(self, descriptor: TaskDeploymentDescriptor, now_ms: int) -> None:
        attempt, subtask = descriptor.attempt, _subtask_of(descriptor.attempt)
        if attempt in self._tasks:
            self._do(Warn(f"{descriptor.task_name}, attempt {attempt} was deployed again: it is here, and goes on"))
            self._report_again(attempt, now_ms)
        elif attempt.attempt_number <= self._newest.get(subtask, -1):
            self._end_unseen(attempt, TaskState.FAILED, "it was here before, or a newer one was", now_ms)
        elif self._leave_reason is not None:
            self._end_unseen(attempt, TaskState.FAILED, f"the task manager leaves: {self._leave_reason}", now_ms)
        else:
            self._newest[subtask] = attempt.attempt_number
            for finished in self._finished.pop(subtask, ()):
                self._do(ForgetTask(finished))
            self._tasks[attempt] = _Entry()
            self._running_count += 1
            self._do(StartTask(descriptor))

    def _report_again(self, attempt: AttemptId, now_ms: int) -> None:
        entry = self._tasks[attempt]
        if entry.final_report is not None:
            self._send_final(attempt, entry.final_report, now_ms)
        elif entry.state is not TaskState.CREATED:
            self._send(TaskStateReport(self._session, attempt, entry.state.value))

    def _end_unseen(self, attempt: AttemptId, state: TaskState, why: str, now_ms: int) -> None:
        """Report the end of an attempt that never runs here, again until the job master acknowledges it."""
        failure = None
        if state is TaskState.FAILED:
            failure = Failure("builtins.RuntimeError", f"attempt {attempt} was not started: {why}", is_echo=True)
        report = TaskStateReport(self._session, attempt, state.value, failure)
        self._tasks[attempt] = _Entry(state, True, report)
        subtask = _subtask_of(attempt)
        self._newest[subtask] = max(self._newest.get(subtask, -1), attempt.attempt_number)
        self._send_final(attempt, report, now_ms)

    @property
    def _session(self) -> str:
        return self.session_id or ""

    # ---- tasks go ---------------------------------------------------------------------------------------

    def _cancel(self, message: CancelTask, now_ms: int) -> None:
        entry = self._tasks.get(message.attempt)
        if entry is not None and entry.final_report is None:
            self._stop(message.attempt, now_ms)
            # In answer to each call, also a repeated one: it was heard, and its end will be told.
            self._send(TaskStateReport(self._session, message.attempt, TaskState.CANCELING.value))
            return
        self._forget(message.attempt)
        if entry is None:
            self._end_unseen(message.attempt, TaskState.CANCELED, "", now_ms)
        else:
            self._report_again(message.attempt, now_ms)

    def _forget(self, attempt: AttemptId) -> None:
        """Drop what an attempt wrote here, if it wrote anything: no task will read it."""
        finished = self._finished.get(_subtask_of(attempt), [])
        if attempt in finished:
            finished.remove(attempt)
            self._do(ForgetTask(attempt))

    def _release_partitions(self, message: ReleasePartitions, now_ms: int) -> None:
        self._do(DropPartitions(message.partition_ids))
        self._send(PartitionsReleased(self._session, message.partition_ids))

    def _stop(self, attempt: AttemptId, now_ms: int) -> None:
        entry = self._tasks[attempt]
        if entry.is_stopped or entry.state.is_terminal:
            return
        entry.is_stopped, entry.state = True, TaskState.CANCELING
        self._interrupts.set(attempt, now_ms)
        self._kills.set(attempt, now_ms)
        self._do(StopTask(attempt))

    def _acknowledged(self, message: AcknowledgeReport, now_ms: int) -> None:
        entry = self._tasks.get(message.attempt)
        if entry is not None and entry.final_report is not None:
            self._drop(message.attempt)

    def _drop(self, attempt: AttemptId) -> None:
        del self._tasks[attempt]
        self._repeats.clear(attempt)

    # ---- what tasks tell --------------------------------------------------------------------------------

    def _task_changed(self, message: TaskStateReport, now_ms: int) -> None:
        attempt, state = message.attempt, TaskState(message.state)
        entry = self._tasks.get(attempt)
        if entry is None or entry.state.is_terminal:
            return
        if not state.is_terminal:
            if not entry.is_stopped:  # its result is of no use any more
                entry.state = state
                self._pass_on(message)
            return
        entry.state = state
        self._running_count -= 1
        self._interrupts.clear(attempt)
        self._kills.clear(attempt)
        self._end(attempt, entry, message, now_ms)
        self._leave_if_empty()

    def _end(self, attempt: AttemptId, entry: _Entry, message: TaskStateReport, now_ms: int) -> None:
        state, failure = entry.state, message.failure
        if state is TaskState.CANCELED and not entry.is_stopped:
            state, failure = TaskState.FAILED, _echo_of(attempt, failure)
        elif state is TaskState.CANCELED and failure is not None and failure.is_echo:
            failure = None  # as it was told to
        if state is TaskState.FINISHED:
            self._finished.setdefault(_subtask_of(attempt), []).append(attempt)
        if self._is_cut:
            self._drop(attempt)
            return
        entry.state = state
        entry.final_report = replace(message, session_id=self._session, state=state.value, failure=failure)
        self._send_final(attempt, entry.final_report, now_ms)

    def _send_final(self, attempt: AttemptId, report: TaskStateReport, now_ms: int) -> None:
        self._send(report)
        self._repeats.set(attempt, now_ms)

    def _task_said(self, message: OperatorEventReport, now_ms: int) -> None:
        if self._is_running(message.attempt):
            self._pass_on(message)

    def _coordinator_said(self, message: OperatorEventMessage, now_ms: int) -> None:
        if self._is_running(message.attempt):
            self._do(DeliverOperatorEvent(message.attempt, message.operator_id, message.payload))

    def _is_running(self, attempt: AttemptId) -> bool:
        state = self.state_of(attempt)
        return state is not None and not state.is_terminal

    # ---- checkpoints ------------------------------------------------------------------------------------

    def _triggered(self, message: TriggerCheckpoint, now_ms: int) -> None:
        if self.state_of(message.attempt) is TaskState.RUNNING:
            self._do(TriggerTask(message.attempt, message.checkpoint_id, message.timestamp_ms, message.options))
        else:  # the task never gets to it: refuse now, or the checkpoint would have to time out
            self._send(CheckpointRefusal(self._session, message.attempt, message.checkpoint_id, NOT_READY))

    def _completed(self, message: NotifyCheckpointComplete, now_ms: int) -> None:
        if self._goes_on(message.attempt):
            self._do(NotifyTask(message.attempt, message.checkpoint_id, is_complete=True))

    def _aborted(self, message: NotifyCheckpointAborted, now_ms: int) -> None:
        if self._goes_on(message.attempt):
            self._do(NotifyTask(message.attempt, message.checkpoint_id, False, message.latest_completed_id))

    def _task_reported(
        self, message: CheckpointAcknowledgement | CheckpointRefusal | EndOfDataReport, now_ms: int
    ) -> None:
        if self._goes_on(message.attempt):
            self._pass_on(message)

    def _pass_on(self, report: TaskReport) -> None:
        """Send a task's report to the job master, in its session."""
        self._send(replace(report, session_id=self._session))

    def _goes_on(self, attempt: AttemptId) -> bool:
        """Return whether an attempt runs here and was not cancelled."""
        entry = self._tasks.get(attempt)
        return entry is not None and not entry.is_stopped and not entry.state.is_terminal

    # ---- time -------------------------------------------------------------------------------------------

    def _time_passed(self, message: TimePassed, now_ms: int) -> None:
        if self._register_until_ms is not None and now_ms >= self._register_until_ms:
            waited_s = self.config.registration_timeout_ms // 1000
            self._cut_off(f"no job master has accepted this task manager in {waited_s} s", now_ms)
        elif self._silent_at_ms is not None and now_ms >= self._silent_at_ms:
            self._cut_off(f"the job master has been silent for {self._heartbeat_timeout_ms // 1000} s", now_ms)
        for attempt in self._repeats.take_due(now_ms):
            self._report_again(attempt, now_ms)
        for attempt in self._kills.take_due(now_ms):
            self._give_up(attempt)
            return
        for attempt in self._interrupts.take_due(now_ms):
            self._interrupts.set(attempt, now_ms)
            self._do(InterruptTask(attempt))

    def _give_up(self, attempt: AttemptId) -> None:
        """End the process of a task that has not ended in time; in the program's own, leave its thread behind."""
        text = (
            f"attempt {attempt} has not ended {self.config.cancellation_timeout_ms // 1000} s after it was cancelled "
            "(task.cancellation.timeout): a function does not return"
        )
        self._send(ManagerLeaving(text))
        if self.config.can_kill_process:
            self._do(KillProcess(text))
        else:
            left = tuple(each for each, entry in self._tasks.items() if not entry.state.is_terminal)
            self._do(LeaveProcess(text, left_behind=left))
        self.is_over = True


def _subtask_of(attempt: AttemptId) -> tuple[str, int]:
    return attempt.vertex_id, attempt.subtask_index


def _echo_of(attempt: AttemptId, failure: Failure | None) -> Failure:
    """Return a failure as an echo: uncancelled, a function raised CancelTaskError, or its input has gone."""
    if failure is None:
        return Failure(CANCELED_UNASKED, f"attempt {attempt} gave up without being told to", is_echo=True)
    return replace(failure, is_echo=True)


_LOCAL: Final = (*TASK_REPORTS, ThreadsSampled, LinkLost, LeaveAsked, TimePassed)
_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    RegistrationAccepted: TaskExecutor._accepted,
    RegistrationRefused: TaskExecutor._refused,
    DeployTasks: TaskExecutor._deploy_all,
    CancelTask: TaskExecutor._cancel,
    HeartbeatRequest: TaskExecutor._asked_for_heartbeat,
    SampleTasks: TaskExecutor._sample,
    InspectManager: TaskExecutor._inspect,
    ThreadsSampled: TaskExecutor._sampled,
    AcknowledgeReport: TaskExecutor._acknowledged,
    OperatorEventMessage: TaskExecutor._coordinator_said,
    ReleaseManager: TaskExecutor._released,
    ReleasePartitions: TaskExecutor._release_partitions,
    TriggerCheckpoint: TaskExecutor._triggered,
    NotifyCheckpointComplete: TaskExecutor._completed,
    NotifyCheckpointAborted: TaskExecutor._aborted,
    TaskStateReport: TaskExecutor._task_changed,
    OperatorEventReport: TaskExecutor._task_said,
    CheckpointAcknowledgement: TaskExecutor._task_reported,
    CheckpointRefusal: TaskExecutor._task_reported,
    EndOfDataReport: TaskExecutor._task_reported,
    LinkLost: TaskExecutor._link_lost,
    LeaveAsked: TaskExecutor._leave_asked,
    TimePassed: TaskExecutor._time_passed,
}
