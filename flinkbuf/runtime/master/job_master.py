"""Decides for one job: which task is deployed where and when, what a failure leads to, and when the job is over.

It owns no socket, thread, file or clock. What happened goes in, with its time; what is to be done comes out, in order
(master_actions.py). Flink: JobMaster, DefaultScheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig, RestoredCheckpoint
from flinkbuf.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator, DelayChance
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.failover import Failover
from flinkbuf.runtime.master.failure_history import AFTER_CANCEL, CAUSE, LOSS, FailureEntry, FailureHistory
from flinkbuf.runtime.master.restart_strategy import RestartStrategy
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus, JobStep, next_status
from flinkbuf.runtime.protocol.messages import (
    PROGRAM_MANAGER,
    AcknowledgeReport,
    CancelTask,
    CheckpointAcknowledgement,
    CheckpointRefusal,
    EndOfDataReport,
    HeartbeatReport,
    HeartbeatRequest,
    ManagerLeaving,
    OperatorEventReport,
    PartitionsReleased,
    RegisterManager,
    RegistrationAccepted,
    RegistrationRefused,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.cancellations import is_unheard
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from flinkbuf.runtime.scheduler.execution_state import FINAL_REPORTS, STEP_OF_REPORT, ExecutionState, ExecutionStep
from flinkbuf.runtime.scheduler.job_life import Action, JobLife, MasterOutbox
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.runtime.scheduler.manager import Manager
from flinkbuf.runtime.scheduler.manager_table import ManagerTable
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CheckpointStored,
    CoordinatorFailed,
    CoordinatorsSnapshotted,
    EndJob,
    ManagerLost,
    ManagerSaid,
    RequestAnswered,
    RunFailed,
    SendTo,
    StartJob,
    StopManager,
    SuspendJob,
    TellCoordinator,
    TriggerSavepoint,
)
from flinkbuf.runtime.scheduler.slots import slot_count
from flinkbuf.runtime.scheduler.task_control import TaskControl
from flinkbuf.streaming.chain.accumulators import conflict_text


class JobMaster:
    """Decides for one job.

    Parameters
    ----------
    plan : JobPlan
    config : JobMasterConfig
    session_id : str
        32 hex digits, other ones for each job master: messages that carry others are not heard.
    restart_strategy : RestartStrategy
    now_ms : int
        When it is made.
    checkpointing : CheckpointCoordinatorConfig, optional
        How checkpoints are taken; by default only savepoints are, when a user asks for them.
    initial : RestoredCheckpoint, optional
        What the job begins with.
    chance : random.Random, optional
        Draws when the first checkpoint begins, of all jobs that start together each at its own time.

    Attributes
    ----------
    is_over : bool
        `EndJob` was given.
    graph : ExecutionGraph
    managers : ManagerTable
    checkpoints : CheckpointCoordinator
        To be read only, as the other properties.

    Raises
    ------
    ValueError
        `initial` does not fit the plan.

    Examples
    --------
    >>> from random import Random
    >>> from flinkbuf.runtime.graph.job_plan import VertexPlan
    >>> from flinkbuf.runtime.master.restart_strategy import NoRestart
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
        checkpointing: CheckpointCoordinatorConfig | None = None,
        initial: RestoredCheckpoint | None = None,
        chance: DelayChance | None = None,
    ) -> None:
        self.plan = plan
        self.config = config or JobMasterConfig()
        self.session_id = session_id
        self.graph = ExecutionGraph(plan, now_ms)
        self.managers = ManagerTable(slot_count(plan), self.config)
        self.is_over = False
        self._accumulator_kinds: dict[str, tuple[str, str]] = {}  # by name: the kind, and a task that has it
        self._outbox = MasterOutbox()
        self._life = JobLife(self._outbox, now_ms)
        checkpointing = checkpointing or CheckpointCoordinatorConfig()
        self._tasks = TaskControl(self.graph, self.managers, session_id, checkpointing.epoch, self._outbox)
        self.checkpoints = CheckpointCoordinator(
            self._tasks,
            checkpointing,
            self._checkpoint_failed,
            initial=initial,
            chance=chance,
        )
        self._failover = Failover(self._tasks, self._life, restart_strategy, self.checkpoints)

    @property
    def status(self) -> JobStatus:
        """Return the status of the job."""
        return self._life.status

    @property
    def timestamps(self) -> dict[JobStatus, int]:
        """Return when the job came into each status it has been in, in milliseconds."""
        return self._life.timestamps

    @property
    def failure(self) -> Failure | None:
        """Return why the job FAILED, or is about to."""
        return self.history.cause if self.status in (JobStatus.FAILING, JobStatus.FAILED) else None

    @property
    def history(self) -> FailureHistory:
        """Return all failures, those that the job got over included."""
        return self._failover.history

    @property
    def restart_count(self) -> int:
        """Return how often subtasks began again."""
        return self._failover.restart_count

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when to call `handle` at the latest; None if nothing is due by itself."""
        if self.is_over:
            return None
        deadlines = (
            self.managers.heartbeats.next_deadline_ms,
            self._tasks.scheduler.next_deadline_ms,
            self._tasks.cancellations.next_deadline_ms,
            self._failover.next_deadline_ms,
            self.checkpoints.next_deadline_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def handle(self, stimulus: object, now_ms: int) -> list[Action]:
        """Handle a stimulus; return the actions to perform, in this order.

        Parameters
        ----------
        stimulus : object
            One of master_actions.py.
        now_ms : int
            Milliseconds since 1970, of a clock that does not go back.
        """
        if self.is_over:
            if isinstance(stimulus, TriggerSavepoint):
                failure = Failure("builtins.RuntimeError", f"no {stimulus.kind.noun} was taken: the job has ended")
                self._outbox.do(RequestAnswered(stimulus.request, failure=failure))
            elif isinstance(stimulus, ManagerSaid) and isinstance(stimulus.message, RegisterManager):
                self._refuse(stimulus.manager_id, "the job is over")
        else:
            answer = self._ANSWERS.get(type(stimulus))
            if answer is None:
                raise TypeError(f"a job master is told what master_actions.py lists, got {stimulus!r:.200}")
            answer(self, stimulus, now_ms)
            self._pass_time(now_ms)
            self._go_on(now_ms)
        return self._outbox.take()

    # ---- the program

    def _start(self, _: StartJob, now_ms: int) -> None:
        if self.status is JobStatus.CREATED:
            self._life.step(JobStep.START, now_ms)
            if self.checkpoints.latest is not None:
                self.checkpoints.restore(list(self.graph.subtasks()), self._failover.sources, True, now_ms)
            self._tasks.schedule(self.graph.subtasks(), now_ms)

    def _cancel_job(self, _: CancelJob, now_ms: int) -> None:
        self._life.step(JobStep.CANCEL, now_ms)
        self.checkpoints.suspend(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, now_ms)
        self._tasks.cancel_all(now_ms)

    def _suspend_job(self, _: SuspendJob, now_ms: int) -> None:
        self._life.step(JobStep.SUSPEND, now_ms)
        self.checkpoints.abandon(now_ms)
        self._tasks.cancel_all(now_ms)

    def _coordinator_failed(self, stimulus: CoordinatorFailed, now_ms: int) -> None:
        self._failover.of_job(FailureEntry(stimulus.failure, now_ms), now_ms)

    # ---- checkpoints

    def _trigger_savepoint(self, stimulus: TriggerSavepoint, now_ms: int) -> None:
        if self.plan.is_batch:
            noun = stimulus.kind.noun
            text = f"no {noun} was taken: a batch job keeps no state that another run could go on with"
            self._outbox.do(RequestAnswered(stimulus.request, failure=Failure("builtins.RuntimeError", text)))
            return
        self.checkpoints.trigger_savepoint(stimulus, self.status is JobStatus.RUNNING, now_ms)

    def _coordinators_snapshotted(self, stimulus: CoordinatorsSnapshotted, now_ms: int) -> None:
        self.checkpoints.coordinators_snapshotted(stimulus, now_ms)

    def _checkpoint_stored(self, stimulus: CheckpointStored, now_ms: int) -> None:
        was_stopped = self.checkpoints.is_stopped
        self.checkpoints.stored(stimulus, now_ms)
        if self.checkpoints.is_stopped and not was_stopped:
            self._failover.stopped(now_ms)

    def _checkpoint_failed(self, failure: Failure, task_name: str | None, now_ms: int) -> None:
        has_work = self.graph.finished_count < self.graph.subtask_count
        if self.status is JobStatus.RUNNING and has_work:  # else the whole job begins again, or ends, anyway
            self._failover.of_job(FailureEntry(failure, now_ms, task_name), now_ms)

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
            elif isinstance(message, PartitionsReleased):
                self._tasks.partitions.gone(stimulus.manager_id, message.partition_ids)
            elif isinstance(message, OperatorEventReport):
                self._operator_event(stimulus.manager_id, message)
            elif isinstance(message, CheckpointAcknowledgement):
                self.checkpoints.acknowledged(message, now_ms)
            elif isinstance(message, CheckpointRefusal):
                self.checkpoints.refused(message, now_ms)
            elif isinstance(message, EndOfDataReport):
                self.checkpoints.end_of_data(message, now_ms)

    def _register(self, manager_id: str, message: RegisterManager, now_ms: int) -> None:
        # A repeated first message is of a known manager, in whatever status the job is.
        is_wanted = self._life.is_active or manager_id == PROGRAM_MANAGER or manager_id in self.managers.registered
        refusal = self.managers.refusal(manager_id, message) if is_wanted else f"the job is {self.status.name}"
        if refusal is not None:
            self._refuse(manager_id, refusal)
            return
        if manager_id not in self.managers.registered:
            self.managers.add(manager_id, message, now_ms)
        # A manager in this process needs no heartbeat to show that it lives; both may stand still for long.
        timeout_ms = 0 if manager_id == PROGRAM_MANAGER else self.config.heartbeat_timeout_ms
        accepted = RegistrationAccepted(self.session_id, self.config.heartbeat_interval_ms, timeout_ms)
        self._outbox.do(SendTo(manager_id, accepted))

    def _refuse(self, manager_id: str, reason: str) -> None:
        self._outbox.do(SendTo(manager_id, RegistrationRefused(reason)), StopManager(manager_id, reason))

    def _manager_lost(self, stimulus: ManagerLost, now_ms: int) -> None:
        self.managers.leaving.pop(stimulus.manager_id, None)
        if stimulus.manager_id in self.managers.registered:
            self._gone([stimulus.manager_id], _loss(stimulus.manager_id, stimulus.reason), now_ms)

    def _give_up(self, manager: Manager | None, reason: str, now_ms: int) -> None:
        """Treat a manager as lost, though it may still be there."""
        if manager is not None and manager.id in self.managers.registered:
            self._tasks.release(manager.id, reason, now_ms)
            self._gone([manager.id], _loss(manager.id, reason), now_ms)

    def _run_failed(self, stimulus: RunFailed, now_ms: int) -> None:
        """Treat all managers of a run as lost, those that have come and those that were to."""
        managers = [each for each in self.managers.registered.values() if not each.is_program]
        ids = [each.id for each in managers if each.registration.run == stimulus.run]
        slots = self.managers.slots.give_up(stimulus.run)
        if not ids and not slots:  # of a run that is over; but the failure may be the cause
            self._failover.noted(FailureEntry(stimulus.failure, now_ms), now_ms)
            return
        for manager_id in ids:
            self._tasks.release(manager_id, stimulus.failure.message, now_ms)
        self._gone(ids, stimulus.failure, now_ms, slots, is_loss=False)

    def _gone(
        self, ids: list[str], failure: Failure, now_ms: int, slots: Iterable[int] = (), *, is_loss: bool = True
    ) -> None:
        """Handle task managers that are gone, or will not come, all for one reason: their subtasks have failed."""
        lost_slots = list(slots)
        victims: list[ExecutionVertex] = []
        host: str | None = None
        for manager_id in ids:
            for execution in list(self.graph.open_on(manager_id).values()):
                if self._tasks.end(execution, ExecutionStep.FAIL, now_ms, failure) is ExecutionState.FAILED:
                    victims.append(execution.vertex)
            manager = self.managers.remove(manager_id)
            assert manager is not None
            lost_slots += manager.slots
            host = manager.host
        victims += self._tasks.scheduler.waiting_for(lost_slots)
        victims += self._partitions_lost(ids)
        if PROGRAM_MANAGER in ids:
            self._failover.of_program(FailureEntry(failure, now_ms, None, PROGRAM_MANAGER, host), now_ms)
            return
        weight = LOSS if is_loss else CAUSE
        entry = FailureEntry(
            failure, now_ms, str(victims[0]) if victims else None, ids[0] if ids else None, host, weight
        )
        self._failover.of_managers(entry, victims, now_ms)

    def _partitions_lost(self, manager_ids: list[str]) -> list[ExecutionVertex]:
        """Drop the partitions of lost managers; return the subtasks whose results a task still needs."""
        if not self._tasks.regions.groups:
            return []
        for manager_id in manager_ids:
            self._tasks.partitions.lose_manager(manager_id)
        return self._wanted_again()

    def _wanted_again(self) -> list[ExecutionVertex]:
        """Return the finished subtasks whose results are gone though a task waits for them."""
        return [self.graph.subtask(key) for key in self._tasks.partitions.wanted_again(self._is_reading)]

    def _is_reading(self, region: int) -> bool:
        """Return whether all subtasks of a region run, or have finished."""
        states = (self.graph.subtask(key).current.state for key in self._tasks.regions.members[region])
        return all(state in (ExecutionState.RUNNING, ExecutionState.FINISHED) for state in states)

    # ---- what they report

    def _reported(self, manager_id: str, report: TaskStateReport, now_ms: int) -> None:
        is_final = report.state in FINAL_REPORTS
        if is_final:  # a message, whatever it says, counts as a sign of life
            self._outbox.send(manager_id, AcknowledgeReport(self.session_id, report.attempt))
        execution = self.graph.open_on(manager_id).get(report.attempt)
        if execution is None:
            return
        execution.keep(report.metrics, report.accumulators, now_ms)
        self._check_accumulators(execution, now_ms)
        before, step = execution.state, STEP_OF_REPORT.get(report.state)
        if step is None:
            execution.is_cancel_heard |= report.state == "CANCELING" and before is ExecutionState.CANCELING
        elif not is_final:
            self.graph.step(execution, step, now_ms)
            if before is ExecutionState.CANCELING:  # it was on its way when the cancel was sent
                self._tasks.send_cancel(execution)
        else:
            self._ended(execution, step, report.failure, now_ms)

    def _ended(self, execution: Execution, step: ExecutionStep, failure: Failure | None, now_ms: int) -> None:
        """Handle a task's report that it has ended, perhaps with a failure."""
        was_told = execution.state is ExecutionState.CANCELING
        after = self._tasks.end(execution, step, now_ms, failure if was_told else failure or _gave_up(execution))
        if after is ExecutionState.FINISHED:
            self.checkpoints.task_finished(execution, now_ms)
        if after is ExecutionState.FINISHED or execution.failure is None:
            return
        entry = FailureEntry.of(execution, execution.failure, now_ms)
        is_lost = self._tasks.partitions.lose(execution.failure.lost_partition)
        victims = self._wanted_again() if is_lost else []
        if not was_told:
            self._failover.of_tasks(entry, [execution.vertex, *victims], now_ms)
        elif victims:  # a restarted task would meet the same error
            self._failover.of_tasks(entry, victims, now_ms)
        else:
            self._failover.noted(replace(entry, weight=AFTER_CANCEL), now_ms)

    def _heartbeat(self, manager: Manager, report: HeartbeatReport, now_ms: int) -> None:
        """Compare a task manager's report with the tasks that it should have."""
        manager.metrics = report.manager_metrics or manager.metrics
        reported = set(report.attempts)
        missing = []
        for attempt, execution in list(self.graph.open_on(manager.id).items()):
            execution.keep(report.metrics.get(str(attempt)), report.accumulators.get(str(attempt)), now_ms)
            self._check_accumulators(execution, now_ms)
            # Ignore tasks deployed after this heartbeat request.
            if attempt in reported:
                if execution.canceled_after < report.sequence and is_unheard(execution):
                    self._tasks.send_cancel(execution)  # the last cancel was lost, or its answer would be here
            elif execution.deployed_after < report.sequence:
                missing.append(execution)
        for attempt in report.attempts:
            known = self.graph.execution_of(attempt)
            is_ours = known is not None and known.manager is manager
            # A finished attempt keeps its partitions until all readers are done.
            if known is None or not is_ours or known.state in (ExecutionState.FAILED, ExecutionState.CANCELED):
                self._outbox.send(manager.id, CancelTask(self.session_id, attempt))
        self._tasks.let_go_again(manager.id, report.sequence)
        self._vanished([each for each in missing if not each.state.is_terminal], now_ms)

    def _check_accumulators(self, execution: Execution, now_ms: int) -> None:
        """Fail the job if one name has two kinds: the values are one result, and a restart changes nothing."""
        for name, data in execution.accumulators.items():
            kind, task = self._accumulator_kinds.setdefault(name, (data["type"], str(execution.vertex)))
            if kind != data["type"] and self._life.is_active:
                text = conflict_text(name, kind, data["type"], task, str(execution.vertex))
                failure = Failure("builtins.ValueError", text, can_restart=False)
                self._failover.of_job(FailureEntry(failure, now_ms, str(execution.vertex)), now_ms)

    def _vanished(self, executions: list[Execution], now_ms: int) -> None:
        """Handle attempts that their task manager does not know any more."""
        failures = {
            each: Failure("builtins.RuntimeError", f"its task manager has lost {each.vertex}") for each in executions
        }
        for execution, failure in failures.items():
            self._tasks.end(execution, ExecutionStep.FAIL, now_ms, failure)
            self._tasks.send_cancel(execution)  # in case the task is there all the same
        victims = [each for each in executions if each.state is ExecutionState.FAILED]
        if victims:
            entry = FailureEntry.of(victims[0], failures[victims[0]], now_ms)
            self._failover.of_tasks(entry, [each.vertex for each in victims], now_ms)

    def _operator_event(self, manager_id: str, report: OperatorEventReport) -> None:
        if report.attempt in self.graph.open_on(manager_id):
            self._outbox.do(TellCoordinator(report.attempt, report.operator_id, report.payload))

    # ---- what time brings, and what follows from all of it

    def _pass_time(self, now_ms: int) -> None:
        self.checkpoints.pass_time(now_ms)
        heartbeats = self.managers.heartbeats
        for manager_id in heartbeats.ask(now_ms):
            self._outbox.send(manager_id, HeartbeatRequest(self.session_id, heartbeats.sequence))
        for manager_id in heartbeats.silent(now_ms):
            reason = f"nothing was heard of it for {self.config.heartbeat_timeout_ms / 1000:g} s"
            self._give_up(self.managers.registered.get(manager_id), reason, now_ms)
        again, in_vain = self._tasks.cancellations.due(now_ms)
        for execution in again:
            self._tasks.send_cancel(execution)
        for execution in in_vain:
            reason = f"it did not answer when it was told {self.config.cancel_attempts} times to end {execution.vertex}"
            self._give_up(execution.manager, reason, now_ms)
        for batch in self._tasks.scheduler.overdue(now_ms):
            if batch.subtasks:  # an earlier timeout already failed them
                failure = Failure("builtins.TimeoutError", self._tasks.scheduler.what_is_missing(batch))
                self.managers.slots.forget(batch.slots)  # managers that come now are too late
                self._failover.of_managers(FailureEntry(failure, now_ms), list(batch.subtasks.values()), now_ms)

    def _go_on(self, now_ms: int) -> None:
        """Do what has become possible."""
        self._failover.go_on(now_ms)
        self._tasks.deploy(now_ms)
        self.checkpoints.go_on(self.status is JobStatus.RUNNING, now_ms)
        if self.status is JobStatus.RUNNING:  # a checkpoint with all answers is stored before the end
            is_done = self.graph.finished_count == self.graph.subtask_count and not self.checkpoints.is_storing
        else:
            is_done = self.graph.open_count == 0 and self.status not in (JobStatus.CREATED, JobStatus.RESTARTING)
        if is_done:
            self._end(now_ms)

    def _end(self, now_ms: int) -> None:
        """Give back what the job holds, when all tasks have ended."""
        end = next_status(self.status, JobStep.END)
        self.checkpoints.end(end, now_ms)
        reason = f"the job is {end.name}"
        if self.failure is not None:
            reason = f"{reason}: {self.failure.message}"
        for manager_id in list(self.managers.registered):
            self.managers.remove(manager_id)
            self._tasks.release(manager_id, reason, now_ms, is_finished=end is JobStatus.FINISHED)
        self._life.step(JobStep.END, now_ms)
        self.is_over = True
        self._outbox.do(EndJob(self.status, self.failure))

    _ANSWERS: Final[dict[type, Callable[..., None]]] = {
        StartJob: _start,
        ManagerSaid: _manager_said,
        ManagerLost: _manager_lost,
        RunFailed: _run_failed,
        CoordinatorFailed: _coordinator_failed,
        CancelJob: _cancel_job,
        SuspendJob: _suspend_job,
        TriggerSavepoint: _trigger_savepoint,
        CoordinatorsSnapshotted: _coordinators_snapshotted,
        CheckpointStored: _checkpoint_stored,
        TimePassed: lambda self, stimulus, now_ms: None,
    }


def _loss(manager_id: str, reason: str) -> Failure:
    text = f"task manager {manager_id} is gone: {reason}"
    return Failure("builtins.ConnectionError", text, can_restart=manager_id != PROGRAM_MANAGER)


def _gave_up(execution: Execution) -> Failure:
    """Return the failure of a task that ended early without a reason: the other end of a channel had gone."""
    text = f"{execution.vertex} ended early, and did not say why"
    return Failure("flinkbuf.errors.CancelTaskError", text, is_echo=True)
