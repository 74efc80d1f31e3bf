"""Decides for one job: who is deployed where and when, what a failure leads to, and when all is over.

It owns no socket, thread, file or clock. What happened goes in, with its time; what is to be done comes out, in order
(master_actions.py). Flink: JobMaster, DefaultScheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from flinkbuf.jobs.cancellations import Cancellations, is_unheard
from flinkbuf.jobs.deployment import AttemptId
from flinkbuf.jobs.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from flinkbuf.jobs.execution_state import FINAL_REPORTS, STEP_OF_REPORT, ExecutionState, ExecutionStep
from flinkbuf.jobs.failure import Failure
from flinkbuf.jobs.failure_history import CAUSE, LOSS, FailureEntry, FailureHistory
from flinkbuf.jobs.job_master_config import JobMasterConfig
from flinkbuf.jobs.job_plan import JobPlan
from flinkbuf.jobs.job_status import JobStatus, JobStep, next_status
from flinkbuf.jobs.manager import PROGRAM_MANAGER, Manager
from flinkbuf.jobs.manager_table import ManagerTable
from flinkbuf.jobs.master_actions import (
    CancelJob,
    CoordinatorFailed,
    EndJob,
    ManagerLost,
    ManagerSaid,
    ResetSources,
    RunFailed,
    SendTo,
    StartJob,
    StartManagers,
    StatusChanged,
    StopManager,
    SubtaskGone,
    TellCoordinator,
    TimePassed,
)
from flinkbuf.jobs.messages import (
    AcknowledgeReport,
    CancelTask,
    DeployTask,
    HeartbeatReport,
    HeartbeatRequest,
    ManagerLeaving,
    OperatorEventReport,
    RegisterManager,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.jobs.regions import BlockingInput, PipelinedRegions, Subtask
from flinkbuf.jobs.restart_strategy import RestartStrategy
from flinkbuf.jobs.restarts import Restart, Restarts
from flinkbuf.jobs.scheduler import Scheduler
from flinkbuf.jobs.slots import slot_count

Action = Any  # one of master_actions.py
_ENDING: Final = (JobStatus.FAILING, JobStatus.CANCELLING)


class JobMaster:
    """Decides for one job.

    Parameters
    ----------
    plan : JobPlan
    config : JobMasterConfig
    session_id : str
        32 hex digits, other ones for each job master: messages that carry others are not heard.
    restart_strategy : RestartStrategy

    Attributes
    ----------
    status : JobStatus
    is_over : bool
        `EndJob` was given.
    failure : Failure or None
        Why it FAILED, or is about to.
    timestamps : dict
        When it came into each status it has been in, in milliseconds.
    restart_count : int
        How often subtasks began again.
    graph, managers, history
        Subtasks with their attempts; task managers; failures. To be read only.

    Examples
    --------
    >>> from random import Random
    >>> from flinkbuf.jobs.job_plan import VertexPlan
    >>> from flinkbuf.jobs.restart_strategy import NoRestart
    >>> plan = JobPlan("c" * 32, "both", (VertexPlan("a" * 32, "source", 2, 128),))
    >>> job = JobMaster(plan, session_id="d" * 32, restart_strategy=NoRestart().create(Random(1)))
    >>> job.handle(StartJob(), now_ms=0)
    [StatusChanged(status=<JobStatus.RUNNING: 1>), StartManagers(run=1, indexes=(0, 1))]
    >>> job.next_deadline_ms
    300000
    """

    def __init__(
        self,
        plan: JobPlan,
        config: JobMasterConfig | None = None,
        *,
        session_id: str,
        restart_strategy: RestartStrategy,
        now_ms: int = 0,
    ) -> None:
        self.plan = plan
        self.config = config or JobMasterConfig()
        self.session_id = session_id
        self.graph = ExecutionGraph(plan, now_ms)
        self.managers = ManagerTable(slot_count(plan), self.config)
        self.history = FailureHistory(restart_strategy)
        self.status = JobStatus.CREATED
        self.timestamps = {JobStatus.CREATED: now_ms}
        self.is_over = False
        self.restart_count = 0
        self._regions = PipelinedRegions(plan)
        self._scheduler = Scheduler(self.graph, self.managers, session_id)
        self._restarts = Restarts()
        self._cancellations = Cancellations(self.config)
        self._sources = {
            vertex.id for vertex in plan.vertices if any(operator.has_coordinator for operator in vertex.operators)
        }
        self._actions: list[Action] = []

    @property
    def failure(self) -> Failure | None:
        """Why it FAILED, or is about to."""
        return self.history.cause if self.status in (JobStatus.FAILING, JobStatus.FAILED) else None

    @property
    def next_deadline_ms(self) -> int | None:
        """When `handle` wants to be called, whatever comes; None if nothing is due by itself."""
        if self.is_over:
            return None
        deadlines = [
            self.managers.heartbeats.next_deadline_ms,
            self._scheduler.next_deadline_ms,
            self._cancellations.next_deadline_ms,
            self._restarts.next_deadline_ms(self.managers.left_ms),
        ]
        return min((each for each in deadlines if each is not None), default=None)

    def handle(self, stimulus: object, now_ms: int) -> list[Action]:
        """Take in what happened; return what is to be done about it, in this order.

        Parameters
        ----------
        stimulus : object
            One of master_actions.py.
        now_ms : int
            Milliseconds since 1970, of a clock that does not go back.
        """
        self._actions = []
        if self.is_over:
            self._refuse_late(stimulus)
        else:
            answer = self._ANSWERS.get(type(stimulus))
            if answer is None:
                raise TypeError(f"a job master is told what master_actions.py lists, got {stimulus!r:.200}")
            answer(self, stimulus, now_ms)
            self._pass_time(now_ms)
            self._go_on(now_ms)
        return self._actions

    # ---- the program

    def _start(self, _: StartJob, now_ms: int) -> None:
        if self.status is JobStatus.CREATED:
            self._step(JobStep.START, now_ms)
            self._schedule(self.graph.subtasks(), now_ms)

    def _cancel_job(self, _: CancelJob, now_ms: int) -> None:
        self._step(JobStep.CANCEL, now_ms)
        self._cancel_all(now_ms)

    def _coordinator_failed(self, stimulus: CoordinatorFailed, now_ms: int) -> None:
        self._failed(FailureEntry(stimulus.failure, now_ms), None, now_ms)

    # ---- task managers come and go

    def _manager_said(self, stimulus: ManagerSaid, now_ms: int) -> None:
        message, manager = stimulus.message, self.managers.registered.get(stimulus.manager_id)
        if isinstance(message, RegisterManager):
            self._register(stimulus.manager_id, message, now_ms)
        elif isinstance(message, ManagerLeaving):
            self._give_up(manager, message.reason, now_ms)
        elif getattr(message, "session_id", None) == self.session_id:
            if manager is not None:
                self.managers.heard(manager, now_ms)
            if isinstance(message, TaskStateReport):
                self._reported(stimulus.manager_id, message, now_ms)
            elif isinstance(message, HeartbeatReport) and manager is not None:
                self._heartbeat(manager, message, now_ms)
            elif isinstance(message, OperatorEventReport):
                self._operator_event(stimulus.manager_id, message)

    def _register(self, manager_id: str, message: RegisterManager, now_ms: int) -> None:
        is_known = manager_id == PROGRAM_MANAGER or manager_id in self.managers.registered
        is_wanted = is_known or self.status in (JobStatus.RUNNING, JobStatus.RESTARTING)
        refusal = self.managers.refusal(manager_id, message) if is_wanted else f"the job is {self.status.name}"
        if refusal is not None:
            self._refuse(manager_id, refusal)
            return
        if manager_id not in self.managers.registered:
            self.managers.add(manager_id, message, now_ms)
        # Whoever lives in this process needs no heartbeat to know that it lives; both may stand still for long.
        timeout_ms = 0 if manager_id == PROGRAM_MANAGER else self.config.heartbeat_timeout_ms
        accepted = RegistrationAccepted(self.session_id, self.config.heartbeat_interval_ms, timeout_ms)
        self._do(SendTo(manager_id, accepted))

    def _refuse(self, manager_id: str, reason: str) -> None:
        self._do(SendTo(manager_id, RegistrationRefused(reason)), StopManager(manager_id, reason))

    def _refuse_late(self, stimulus: object) -> None:
        if isinstance(stimulus, ManagerSaid) and isinstance(stimulus.message, RegisterManager):
            self._refuse(stimulus.manager_id, "the job is over")

    def _manager_lost(self, stimulus: ManagerLost, now_ms: int) -> None:
        self.managers.leaving.pop(stimulus.manager_id, None)
        if stimulus.manager_id in self.managers.registered:
            self._gone([stimulus.manager_id], _loss(stimulus.manager_id, stimulus.reason), now_ms)

    def _give_up(self, manager: Manager | None, reason: str, now_ms: int) -> None:
        """It may still be there, but counts as lost."""
        if manager is not None and manager.id in self.managers.registered:
            self._release(manager.id, reason, now_ms)
            self._gone([manager.id], _loss(manager.id, reason), now_ms)

    def _run_failed(self, stimulus: RunFailed, now_ms: int) -> None:
        """All of a run, those that have come and those that were to."""
        ids = [each.id for each in self.managers.registered.values() if _is_of_run(each, stimulus.run)]
        slots = self.managers.slots.give_up(stimulus.run)
        if not ids and not slots:  # of a run that is over; but it may say why
            self._noted(FailureEntry(stimulus.failure, now_ms), now_ms)
            return
        for manager_id in ids:
            self._release(manager_id, stimulus.failure.message, now_ms)
        self._gone(ids, stimulus.failure, now_ms, slots, is_loss=False)

    def _gone(
        self, ids: list[str], failure: Failure, now_ms: int, slots: Iterable[int] = (), *, is_loss: bool = True
    ) -> None:
        """Task managers are gone, or will not come, all for one reason: what they had has failed."""
        lost_slots: list[int | None] = [*slots, *([None] if PROGRAM_MANAGER in ids else [])]
        victims: list[ExecutionVertex] = []
        host: str | None = None
        for manager_id in ids:
            for execution in list(self.graph.open_on(manager_id).values()):
                if self._end_execution(execution, ExecutionStep.FAIL, failure, now_ms) is ExecutionState.FAILED:
                    victims.append(execution.vertex)
            manager = self.managers.remove(manager_id)
            assert manager is not None
            lost_slots += manager.slots
            host = manager.host
        victims += self._scheduler.waiting_for(lost_slots)
        weight = LOSS if is_loss and PROGRAM_MANAGER not in ids else CAUSE
        entry = FailureEntry(failure, now_ms, _names(victims), ids[0] if ids else None, host, weight)
        together = self.config.managers_come_together
        if PROGRAM_MANAGER in ids and self.status in (JobStatus.RUNNING, JobStatus.RESTARTING):
            self.history.restart_delay_ms(entry)  # even if nothing runs in it: nobody can begin again without it
            self._fail(now_ms)
        elif victims or (together and not self._restarts.waiting):
            self._failed(entry, None if together else victims, now_ms, needs_new_run=together)
        else:
            self._noted(entry, now_ms)
            if together and self.status is JobStatus.RESTARTING:
                self._widen(now_ms)

    def _release(self, manager_id: str, reason: str, now_ms: int) -> None:
        self._send(manager_id, ReleaseManager(self.session_id, reason))
        self._do(StopManager(manager_id, reason))
        self.managers.wait_for_end(manager_id, now_ms)

    # ---- what they report

    def _reported(self, manager_id: str, report: TaskStateReport, now_ms: int) -> None:
        is_final = report.state in FINAL_REPORTS
        if is_final:  # whatever we make of it, it was heard
            self._send(manager_id, AcknowledgeReport(self.session_id, report.attempt))
        execution = self._open_execution(manager_id, report.attempt)
        if execution is None:
            return
        _keep(execution, report.metrics, report.accumulators)
        before, step = execution.state, STEP_OF_REPORT.get(report.state)
        if step is None:
            execution.is_cancel_heard |= report.state == "CANCELING" and before is ExecutionState.CANCELING
        elif not is_final:
            self.graph.step(execution, step, now_ms)
            if before is ExecutionState.CANCELING:  # it was on its way when the cancel was sent
                self._send_cancel(execution)
        else:
            self._ended(execution, step, report.failure, now_ms)

    def _ended(self, execution: Execution, step: ExecutionStep, failure: Failure | None, now_ms: int) -> None:
        """A task says that it has ended, and perhaps why."""
        before, after = execution.state, self._end_execution(execution, step, failure, now_ms)
        if after is ExecutionState.FINISHED:
            return
        if before is not ExecutionState.CANCELING:
            self._failed(_entry(execution, failure or _gave_up(execution), now_ms), [execution.vertex], now_ms)
        elif failure is not None:
            self._noted(_entry(execution, failure, now_ms), now_ms)

    def _heartbeat(self, manager: Manager, report: HeartbeatReport, now_ms: int) -> None:
        """Lay what a task manager has beside what it should have."""
        manager.metrics = report.manager_metrics or manager.metrics
        reported = set(report.attempts)
        missing = []
        for attempt, execution in list(self.graph.open_on(manager.id).items()):
            _keep(execution, report.metrics.get(str(attempt)), report.accumulators.get(str(attempt)))
            # What was sent after the question was on its way when the answer was.
            if attempt in reported:
                # Had it heard the cancel, it had said so before this.
                if execution.canceled_after < report.sequence and is_unheard(execution):
                    self._send_cancel(execution)
            elif execution.deployed_after < report.sequence:
                missing.append(execution)
        for attempt in report.attempts:
            known = self.graph.execution_of(attempt)
            is_ours = known is not None and known.manager is manager
            # A finished one keeps what it wrote until all have read it.
            if known is None or not is_ours or known.state in (ExecutionState.FAILED, ExecutionState.CANCELED):
                self._send(manager.id, CancelTask(self.session_id, attempt))
        victims = [each for each in missing if self._vanished(each, now_ms) is ExecutionState.FAILED]
        if victims:
            failure = victims[0].failure
            assert failure is not None
            self._failed(_entry(victims[0], failure, now_ms), [each.vertex for each in victims], now_ms)

    def _vanished(self, execution: Execution, now_ms: int) -> ExecutionState:
        assert execution.manager is not None
        text = f"{execution.vertex} is not known any more to its task manager {execution.manager.id}"
        after = self._end_execution(execution, ExecutionStep.FAIL, Failure("builtins.RuntimeError", text), now_ms)
        self._send_cancel(execution)  # if it should be there all the same
        return after

    def _operator_event(self, manager_id: str, report: OperatorEventReport) -> None:
        if self._open_execution(manager_id, report.attempt) is not None:
            self._do(TellCoordinator(report.attempt, report.operator_id, report.payload))

    def _open_execution(self, manager_id: str, attempt: AttemptId) -> Execution | None:
        """An attempt that is not at its end; none that is of old, or somebody else's."""
        return self.graph.open_on(manager_id).get(attempt)

    # ---- failures, and beginning again

    def _failed(
        self,
        entry: FailureEntry,
        victims: list[ExecutionVertex] | None,
        now_ms: int,
        *,
        needs_new_run: bool = False,
    ) -> None:
        """Something failed that ran, or was to: begin again with all that is concerned, or end. None: the whole job."""
        if self.status is JobStatus.CANCELLING:
            return
        if self.status is JobStatus.FAILING:
            self.history.add(entry)
            return
        delay_ms = self.history.restart_delay_ms(entry)
        if delay_ms is None or self.status is JobStatus.CREATED:
            self._fail(now_ms)
            return
        needs_new_run = needs_new_run or not self.config.can_restart_in_place
        if victims is None or needs_new_run:
            self._begin_restart(None, now_ms + delay_ms, now_ms, needs_new_run)
        else:
            keys = self._regions.to_restart([each.key for each in victims], self._is_readable)
            self._begin_restart(keys, now_ms + delay_ms, now_ms, needs_new_run)

    def _noted(self, entry: FailureEntry, now_ms: int) -> None:
        """Something failed that was to end anyway; perhaps it is why."""
        if self.status is JobStatus.FAILING or (self.status is JobStatus.RESTARTING and self.history.outages):
            self.history.add(entry)
            cause = self.history.cause
            if self.status is JobStatus.RESTARTING and cause is not None and not cause.can_restart:
                self._fail(now_ms)

    def _begin_restart(self, keys: list[Subtask] | None, due_ms: int, now_ms: int, needs_new_run: bool) -> None:
        """Cancel what is to begin again; the rest follows when all has ended. None: the whole job."""
        subtasks = [each.key for each in self.graph.subtasks()] if keys is None else keys
        self._step(JobStep.RESTART, now_ms)
        restart = self._restarts.begin(
            subtasks, due_ms, self._is_open, is_global=keys is None, needs_new_run=needs_new_run
        )
        self._scheduler.drop(restart.subtasks)
        for key in sorted(restart.subtasks):
            self._cancel(self.graph.subtask(key).current, now_ms)

    def _widen(self, now_ms: int) -> None:
        """What was to begin again in the processes that are there has to in others."""
        due_ms = max(each.due_ms for each in self._restarts.waiting)
        if not any(each.needs_new_run for each in self._restarts.waiting):
            self._begin_restart(None, due_ms, now_ms, needs_new_run=True)

    def _is_open(self, key: Subtask) -> bool:
        return not self.graph.subtask(key).current.state.is_terminal

    def _is_readable(self, partition: BlockingInput) -> bool:
        """Whether what an attempt wrote to its end is still there."""
        execution = self.graph.subtask(partition.producer).current
        manager = execution.manager
        is_there = manager is not None and self.managers.registered.get(manager.id) is manager
        return is_there and execution.state is ExecutionState.FINISHED

    def _begin_again(self, restart: Restart, now_ms: int) -> None:
        self._restarts.done(restart)
        self.restart_count += 1
        subtasks = [self.graph.subtask(key) for key in sorted(restart.subtasks)]
        for subtask in subtasks:
            self.graph.reset(subtask, now_ms)
        sources = tuple((each.plan.id, each.index) for each in subtasks if each.plan.id in self._sources)
        if sources:
            self._do(ResetSources(sources, restart.is_global))
        self._schedule(subtasks, now_ms)
        if not self._restarts.waiting:
            self._step(JobStep.RESTARTED, now_ms)

    def _fail(self, now_ms: int) -> None:
        self._step(JobStep.FAIL, now_ms)
        self._cancel_all(now_ms)

    # ---- attempts

    def _schedule(self, subtasks: Iterable[ExecutionVertex], now_ms: int) -> None:
        asked = self._scheduler.schedule(subtasks, now_ms)
        if asked:
            self._do(StartManagers(self.managers.run, asked))

    def _cancel_all(self, now_ms: int) -> None:
        self._restarts.clear()
        self._scheduler.clear()
        for execution in self.graph.executions():
            self._cancel(execution, now_ms)

    def _cancel(self, execution: Execution, now_ms: int) -> None:
        """Have an attempt ended; one that has finished gives up what it wrote."""
        before = execution.state
        if before is ExecutionState.FINISHED:
            self._send_cancel(execution)
        elif before.is_deployed:
            self.graph.step(execution, ExecutionStep.CANCEL, now_ms)
            if before is not ExecutionState.CANCELING:
                self._send_cancel(execution)
                self._cancellations.sent(execution, now_ms)
        elif not before.is_terminal:
            self._end_execution(execution, ExecutionStep.CANCEL, None, now_ms)

    def _send_cancel(self, execution: Execution) -> None:
        manager = execution.manager
        if manager is not None and self.managers.registered.get(manager.id) is manager:
            execution.canceled_after = self.managers.heartbeats.sequence
            self._send(manager.id, CancelTask(self.session_id, execution.attempt))

    def _end_execution(
        self, execution: Execution, step: ExecutionStep, failure: Failure | None, now_ms: int
    ) -> ExecutionState:
        """An attempt is at its end; return how."""
        after = self.graph.step(execution, step, now_ms)
        if after is ExecutionState.FAILED:
            execution.failure = failure or _gave_up(execution)
        if execution.manager is not None:
            self._do(SubtaskGone(execution.attempt))
        self._restarts.ended(execution.vertex.key)
        return after

    # ---- what time brings, and what follows from all of it

    def _pass_time(self, now_ms: int) -> None:
        heartbeats = self.managers.heartbeats
        for manager_id in heartbeats.ask(now_ms):
            self._send(manager_id, HeartbeatRequest(self.session_id, heartbeats.sequence))
        for manager_id in heartbeats.silent(now_ms):
            reason = f"nothing was heard of it for {self.config.heartbeat_timeout_ms / 1000:g} s"
            self._give_up(self.managers.registered.get(manager_id), reason, now_ms)
        again, in_vain = self._cancellations.due(now_ms)
        for execution in again:
            self._send_cancel(execution)
        for execution in in_vain:
            reason = f"it did not answer when it was told {self.config.cancel_attempts} times to end {execution.vertex}"
            self._give_up(execution.manager, reason, now_ms)
        for batch in self._scheduler.overdue(now_ms):
            if not batch.subtasks:  # the one before took them along
                continue
            failure = Failure("builtins.TimeoutError", self._scheduler.what_is_missing(batch))
            self.managers.slots.forget(self.managers.slots.missing(batch.slots))  # whoever comes now is too late
            together = self.config.managers_come_together
            victims = list(batch.subtasks.values())
            self._failed(FailureEntry(failure, now_ms), victims, now_ms, needs_new_run=together)

    def _go_on(self, now_ms: int) -> None:
        """Do whatever has become possible."""
        for restart in self._restarts.to_release():
            restart.is_released = True
            for manager in list(self.managers.registered.values()):
                if not manager.is_program:
                    self.managers.remove(manager.id)
                    self._release(manager.id, "the job begins again in other processes", now_ms)
            self.managers.slots.asked.clear()
        for restart in self._restarts.ready(now_ms):
            if not (restart.needs_new_run and self.managers.still_leaving(now_ms)):
                self._begin_again(restart, now_ms)
        for execution, descriptor in self._scheduler.deploy(now_ms):
            assert execution.manager is not None
            self._send(execution.manager.id, DeployTask(self.session_id, descriptor))
        if self.status in _ENDING or self.status.is_terminal_state():
            if self.graph.open_count == 0:
                self._end(now_ms)
        elif self.status is JobStatus.RUNNING and self.graph.finished_count == self.graph.subtask_count:
            self._end(now_ms)

    def _end(self, now_ms: int) -> None:
        """All tasks have ended: give back what the job holds."""
        for manager_id in list(self.managers.registered):
            self.managers.remove(manager_id)
            self._release(manager_id, "the job is over", now_ms)
        self._step(JobStep.END, now_ms)
        self.is_over = True
        self._do(EndJob(self.status, self.failure))

    def _step(self, step: JobStep, now_ms: int) -> None:
        before, self.status = self.status, next_status(self.status, step)
        if self.status is not before:
            self.timestamps[self.status] = now_ms
            self._do(StatusChanged(self.status))

    def _send(self, manager_id: str, message: object) -> None:
        self._do(SendTo(manager_id, message))

    def _do(self, *actions: Action) -> None:
        self._actions.extend(actions)

    _ANSWERS: Final[dict[type, Callable[[Any, Any, int], None]]] = {
        StartJob: _start,
        ManagerSaid: _manager_said,
        ManagerLost: _manager_lost,
        RunFailed: _run_failed,
        CoordinatorFailed: _coordinator_failed,
        CancelJob: _cancel_job,
        TimePassed: lambda self, stimulus, now_ms: None,
    }


def _keep(execution: Execution, metrics: dict[str, Any] | None, accumulators: dict[str, Any] | None) -> None:
    """The newest of each; a report without them changes nothing."""
    execution.metrics = metrics or execution.metrics
    execution.accumulators = accumulators or execution.accumulators


def _is_of_run(manager: Manager, run: int) -> bool:
    return not manager.is_program and manager.registration.run == run


def _names(victims: list[ExecutionVertex]) -> str | None:
    return str(victims[0]) if victims else None


def _entry(execution: Execution, failure: Failure, now_ms: int) -> FailureEntry:
    manager = execution.manager
    where = (None, None) if manager is None else (manager.id, manager.host)
    return FailureEntry(failure, now_ms, str(execution.vertex), *where)


def _loss(manager_id: str, reason: str) -> Failure:
    text = f"task manager {manager_id} is gone: {reason}"
    return Failure("builtins.ConnectionError", text, can_restart=manager_id != PROGRAM_MANAGER)


def _gave_up(execution: Execution) -> Failure:
    """A task that ended without its work done or an error has met nobody at the other end of a channel."""
    text = f"{execution.vertex} ended early, and did not say why"
    return Failure("flinkbuf.errors.CancelTaskError", text, is_echo=True)
