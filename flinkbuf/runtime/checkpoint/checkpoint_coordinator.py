"""Takes the checkpoints of a job: when one begins, which tasks have answered, when it is complete, and what is kept.

A part of the job master: what it wants done goes into the job master's outbox. Flink: CheckpointCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Final, Protocol

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig, RestoredCheckpoint
from flinkbuf.runtime.checkpoint.checkpoint_failures import CheckpointFailures
from flinkbuf.runtime.checkpoint.checkpoint_notices import CheckpointNotices
from flinkbuf.runtime.checkpoint.checkpoint_plan import CheckpointPlanner, PlanRefusedError
from flinkbuf.runtime.checkpoint.checkpoint_requests import NEVER_MS, CheckpointRequest, CheckpointRequests
from flinkbuf.runtime.checkpoint.checkpoint_restores import CheckpointRestores
from flinkbuf.runtime.checkpoint.checkpoint_statistics import CheckpointTracker
from flinkbuf.runtime.checkpoint.completed_checkpoints import CompletedCheckpoint, CompletedCheckpoints
from flinkbuf.runtime.checkpoint.ends_of_data import EndsOfData
from flinkbuf.runtime.checkpoint.pending_checkpoint import PendingCheckpoint, Stage, UnionStateError
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import (
    CheckpointAcknowledgement,
    CheckpointRefusal,
    EndOfDataReport,
)
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionVertex
from flinkbuf.runtime.scheduler.master_actions import (
    CheckpointEnded,
    CheckpointStored,
    CoordinatorsSnapshotted,
    DiscardState,
    NotifyCoordinators,
    RequestAnswered,
    SnapshotCoordinators,
    StoreCheckpoint,
    TriggerSavepoint,
    WithdrawCheckpoint,
)
from flinkbuf.runtime.scheduler.task_control import TaskControl

RETRY_AT_END_MS: Final = 1_000  # after the last checkpoint of a job that is at its end has failed
_Reason = CheckpointFailureReason
Fail = Callable[[Failure, str | None, int], None]


class DelayChance(Protocol):
    """Draws lots, as `random.Random` does."""

    def randint(self, a: int, b: int) -> int:
        """Return a number from `a` to `b`."""
        ...


class CheckpointCoordinator:
    """The checkpoints of one job.

    Parameters
    ----------
    tasks : TaskControl
    config : CheckpointCoordinatorConfig
    fail : callable
        ``fail(failure, task_name, now_ms)``: the job has to begin again over it.
    initial : RestoredCheckpoint or None
    chance : DelayChance or None
        How long after the start of all tasks the first one begins; None: as soon as it may.

    Attributes
    ----------
    pending : dict
        Those under way, by id, oldest first.
    store : CompletedCheckpoints
    tracker : CheckpointTracker

    Raises
    ------
    ValueError
        `initial` does not fit the job.
    """

    def __init__(
        self,
        tasks: TaskControl,
        config: CheckpointCoordinatorConfig,
        fail: Fail,
        *,
        initial: RestoredCheckpoint | None = None,
        chance: DelayChance | None = None,
    ) -> None:
        self.config = config
        self.pending: dict[int, PendingCheckpoint] = {}
        self.store = CompletedCheckpoints(config.retained, config.retention)
        self.tracker = CheckpointTracker(config)
        self._tasks = tasks
        self._graph = tasks.graph
        self._outbox = tasks.outbox
        self._fail = fail
        self._chance = chance
        self._planner = CheckpointPlanner(tasks.graph, after_tasks_finish=config.after_tasks_finish)
        self._requests = CheckpointRequests(config.concurrency, config.min_pause_ms)
        self._failures = CheckpointFailures(config.tolerable_failures)
        self._next_id = 1
        self._request_count = 0
        self._last_completion_ms = NEVER_MS
        self._periodic_ms: int | None = None  # when the next periodic checkpoint is due; None: never
        self._savepoints: set[int] = set()  # complete ones: never deleted
        self._ends = EndsOfData(tasks.graph)
        self._is_done = False  # a checkpoint that is complete has all that any task will ever do
        self._stop: CheckpointRequest | None = None  # the savepoint that the job is to stop with
        self._stopped_with: CompletedCheckpoint | None = None
        self._has_coordinators = any(
            each.has_coordinator for vertex in self._plan.vertices for each in vertex.operators
        )
        self._notices = CheckpointNotices(tasks)
        self._restores = CheckpointRestores(tasks, self.store, self.tracker, initial)
        if initial is not None:
            self._next_id = max(self._next_id, initial.metadata.checkpoint_id + 1)

    @property
    def _plan(self) -> JobPlan:
        return self._graph.plan

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """Return the checkpoint that the job would begin again from."""
        return self.store.latest

    @property
    def is_storing(self) -> bool:
        """Return whether a checkpoint's metadata is being stored: until the answer the restart point is not known."""
        return any(each.stage is Stage.STORING for each in self.pending.values())

    @property
    def is_stopped(self) -> bool:
        """Return whether the savepoint that stops the job is stored: then no task begins again."""
        return self._stopped_with is not None

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when a periodic checkpoint is due, or a pending one times out."""
        deadlines = [each.due_ms for each in self.pending.values() if each.due_ms is not None]
        if self._periodic_ms is not None:
            deadlines.append(self._periodic_ms)
        return min(deadlines, default=None)

    # ---- what is asked for

    def trigger_savepoint(self, stimulus: TriggerSavepoint, is_running: bool, now_ms: int) -> None:
        """Take a savepoint for a user, perhaps to stop the job with it; or a checkpoint outside of the interval."""
        kind = stimulus.kind
        directory = (stimulus.directory or self.config.savepoint_directory) if kind.is_savepoint else ""
        if kind.is_savepoint and not directory:
            refusal = "no savepoint directory is set: give a directory, or set execution.checkpointing.savepoint-dir"
        elif not is_running:
            refusal = "the job does not run"
        elif self._stop is not None:
            refusal = "the job is being stopped with a savepoint"
        else:
            request = CheckpointRequest(
                self._next_request(),
                now_ms,
                kind=kind,
                is_forced=kind.is_savepoint and not self.config.is_unaligned,
                user_request=stimulus.request,
                directory=directory,
            )
            if kind.is_synchronous:
                self._begin_stop(request, now_ms)
            self._submit(request)
            return
        self._answer(stimulus.request, f"no {kind.noun} was taken: {refusal}")

    def _begin_stop(self, request: CheckpointRequest, now_ms: int) -> None:
        """Drop all other requests and pending checkpoints before the savepoint that stops the job."""
        self._stop = request
        self._periodic_ms = None
        self._drop_checkpoints(_Reason.CHECKPOINT_COORDINATOR_SUSPEND)
        for pending in list(self.pending.values()):
            if not pending.kind.is_savepoint and pending.stage is not Stage.STORING:
                self._abort(pending, _Reason.CHECKPOINT_COORDINATOR_SUSPEND, now_ms)

    def _next_request(self) -> int:
        self._request_count += 1
        return self._request_count

    def _submit(self, request: CheckpointRequest) -> None:
        dropped = self._requests.add(request)
        if dropped is not None and not dropped.is_periodic:
            self._refused(dropped, _Reason.TOO_MANY_CHECKPOINT_REQUESTS)

    def end_of_data(self, message: EndOfDataReport, now_ms: int) -> None:
        """Note that a task's operators are finished. When all tasks' are, a last checkpoint is due."""
        if self._ends.add(message.attempt):
            self._last_checkpoint(now_ms)

    def _last_checkpoint(self, now_ms: int) -> None:
        if self._ends.is_all and self._periodic_ms is not None:
            self._submit(CheckpointRequest(self._next_request(), now_ms))

    def task_finished(self, execution: Execution, now_ms: int) -> None:
        """Note that a task has ended: checkpoints that wait for its answer are aborted."""
        for pending in list(self.pending.values()):
            if execution.attempt in pending.missing:
                self._abort(pending, _Reason.CHECKPOINT_DECLINED_TASK_CLOSING, now_ms, task=execution.vertex)
        if execution.attempt not in self._ends:  # else the last checkpoint is under way, or was taken
            self._last_checkpoint(now_ms)

    # ---- what time brings

    def pass_time(self, now_ms: int) -> None:
        """Begin the checkpoints that are due, and abort those that have timed out."""
        for pending in list(self.pending.values()):
            if pending.due_ms is not None and pending.due_ms <= now_ms and pending.id in self.pending:
                self._expired(pending, now_ms)
        due_ms = self._periodic_ms
        if due_ms is not None and due_ms <= now_ms:
            next_ms = due_ms + self.config.period_ms
            self._periodic_ms = next_ms if next_ms > now_ms else now_ms + self.config.period_ms
            self._submit(CheckpointRequest(self._next_request(), now_ms, is_periodic=True))

    def _expired(self, pending: PendingCheckpoint, now_ms: int) -> None:
        """Abort a checkpoint that takes too long; of one that is being stored the storage decides whether it counts."""
        if pending.stage is Stage.STORING:
            pending.due_ms = None
            self._outbox.do(WithdrawCheckpoint(pending.id))
            return
        task = next(iter(pending.missing.values()), None)
        self._abort(pending, _Reason.CHECKPOINT_EXPIRED, now_ms, task=None if task is None else task.vertex)

    def go_on(self, is_running: bool, now_ms: int) -> None:
        """Begin what can begin now, the first periodic checkpoint a random while after all tasks run."""
        if not is_running or self._stopped_with is not None:
            return
        if self._is_done:  # all tasks are about to end
            self._periodic_ms = None
            self._drop_checkpoints(_Reason.CHECKPOINT_COORDINATOR_SHUTDOWN)
            return
        if self._periodic_ms is None and self.config.interval_ms and self._stop is None and self._all_run:
            least = min(self.config.min_pause_ms, self.config.period_ms)
            self._periodic_ms = now_ms + (self._chance.randint(least, self.config.period_ms) if self._chance else least)
        while not any(each.stage is Stage.COORDINATORS for each in self.pending.values()):
            choice = self._requests.choose(
                now_ms, pending_count=len(self.pending), last_completion_ms=self._last_completion_ms
            )
            if choice.too_early is not None and self._periodic_ms is not None:
                self._periodic_ms = now_ms + choice.ask_again_in_ms
            if choice.begin is None:
                return
            self._begin(choice.begin, now_ms)

    @property
    def _all_run(self) -> bool:
        graph = self._graph
        return graph.running_count > 0 and graph.running_count + graph.finished_count == graph.subtask_count

    # ---- the beginning of one

    def _begin(self, request: CheckpointRequest, now_ms: int) -> None:
        try:
            plan = self._planner.plan()
        except PlanRefusedError as refusal:
            self._refused(request, _Reason.NOT_ALL_REQUIRED_TASKS_RUNNING, str(refusal))
            return
        kind = request.kind
        if kind is SnapshotKind.CHECKPOINT and self.store.needs_full:
            kind = SnapshotKind.FULL_CHECKPOINT
        id, self._next_id = self._next_id, self._next_id + 1
        drawn = blake2b(f"{self._tasks.session_id}:{id}".encode(), digest_size=6).hexdigest()  # a session's id is drawn
        options = self.config.options(self._plan.job_id, id, kind, request.directory, drawn)
        pending = PendingCheckpoint(id, request, options, plan, now_ms, now_ms + self.config.timeout_ms)
        self.pending[id] = pending
        self.tracker.began(pending)
        if self._has_coordinators:
            self._outbox.do(SnapshotCoordinators(id))
        else:
            self._trigger(pending, now_ms)

    def _trigger(self, pending: PendingCheckpoint, now_ms: int) -> None:
        pending.stage = Stage.TASKS
        self._notices.trigger(pending)
        self._store_if_complete(pending, now_ms)

    def coordinators_snapshotted(self, stimulus: CoordinatorsSnapshotted, now_ms: int) -> None:
        """Take the state of the sources' coordinators: now the tasks are triggered."""
        pending = self.pending.get(stimulus.checkpoint_id)
        if pending is None or pending.stage is not Stage.COORDINATORS:
            return
        if stimulus.failure is not None:
            self._abort(pending, _Reason.TRIGGER_CHECKPOINT_FAILURE, now_ms, failure=stimulus.failure)
        else:
            pending.coordinator_states = dict(stimulus.states)
            self._trigger(pending, now_ms)

    # ---- answers

    def acknowledged(self, message: CheckpointAcknowledgement, now_ms: int) -> None:
        """Take a task's part of a checkpoint."""
        id, state = message.checkpoint_id, message.state
        pending = self.pending.get(id)
        execution = None if pending is None else pending.missing.get(message.attempt)
        if pending is not None and execution is not None and (path := self.store.shared.gone(state.shared_files())):
            failure = Failure(
                "builtins.FileNotFoundError",
                f"its state refers to {path}, which was deleted when a later checkpoint was complete",
            )
            self.store.shared.use(id, state.shared_files())
            self._abort(pending, _Reason.FINALIZE_CHECKPOINT_FAILURE, now_ms, failure=failure, task=execution.vertex)
        elif pending is not None and execution is not None:
            pending.acknowledge(message.attempt, state)
            self.store.shared.use(id, state.shared_files())
            self.tracker.answered(id, execution, state, message.metrics, now_ms)
            self._store_if_complete(pending, now_ms)
        elif not (pending is not None and message.attempt in pending.plan.to_wait_for) and not self._is_kept(id):
            # Of an aborted checkpoint, or of a task not asked. Files that other checkpoints use are left alone.
            handles = (
                *(each for each in state.handles() if each.path),
                *self.store.shared.unused(state.shared_files()),
            )
            if handles:
                self._outbox.do(DiscardState(None, "", handles))

    def _is_kept(self, id: int) -> bool:
        return id in self.store.ids or id in self._savepoints

    def refused(self, message: CheckpointRefusal, now_ms: int) -> None:
        """Abort a checkpoint of which a task cannot give its part."""
        pending = self.pending.get(message.checkpoint_id)
        execution = None if pending is None else pending.plan.to_wait_for.get(message.attempt)
        if pending is not None and execution is not None and pending.stage is not Stage.STORING:
            reason = _Reason.named(message.reason)
            self._abort(pending, reason, now_ms, failure=message.failure, task=execution.vertex)

    def _store_if_complete(self, pending: PendingCheckpoint, now_ms: int) -> None:
        if not pending.is_complete:
            return
        try:
            metadata = pending.metadata(self._graph)
        except UnionStateError as error:
            failure = Failure("builtins.RuntimeError", str(error))
            self._abort(pending, _Reason.FINALIZE_CHECKPOINT_FAILURE, now_ms, failure=failure)
            return
        pending.stage = Stage.STORING
        pending.states.clear()  # small state lies in the handles themselves: the metadata has it now
        pending.completed = CompletedCheckpoint(metadata, pending.options.location)
        self._outbox.do(StoreCheckpoint(metadata, pending.options))

    def stored(self, stimulus: CheckpointStored, now_ms: int) -> None:
        """Complete a checkpoint whose metadata was stored, or abort it; of one aborted meanwhile: nothing."""
        pending = self.pending.get(stimulus.checkpoint_id)
        if pending is None or pending.stage is not Stage.STORING:
            return
        if stimulus.failure is not None:
            is_late = pending.due_ms is None
            reason = _Reason.CHECKPOINT_EXPIRED if is_late else _Reason.FINALIZE_CHECKPOINT_FAILURE
            self._abort(pending, reason, now_ms, failure=stimulus.failure)
        else:
            self._complete(pending, stimulus, now_ms)

    # ---- how one ends

    def _complete(self, pending: PendingCheckpoint, stored: CheckpointStored, now_ms: int) -> None:
        assert pending.completed is not None
        del self.pending[pending.id]
        completed = replace(pending.completed, path=stored.path)
        self._last_completion_ms = now_ms
        self._failures.succeeded(pending.id)
        record = self.tracker.completed(pending.id, stored.path, stored.size, now_ms)
        kind, discards = pending.kind, []
        if kind.is_savepoint:
            self._savepoints.add(pending.id)
            self.store.shared.keep(each for subtask in completed.metadata.subtasks() for each in subtask.shared_files())
        else:
            discards = self.store.add(completed)
        if kind.is_synchronous:
            self._stopped_with = completed
        elif pending.request.user_request is not None:
            number = pending.request.user_request
            self._outbox.do(RequestAnswered(number, path=stored.path, checkpoint_id=pending.id))
        if not kind.is_savepoint or kind.is_synchronous:
            self._notices.complete(pending)
            if self._has_coordinators:
                self._outbox.do(NotifyCoordinators(pending.id))
            for other in list(self.pending.values()):
                if other.id < pending.id and other.can_be_subsumed:
                    self._abort(other, _Reason.CHECKPOINT_SUBSUMED, now_ms)
            self._is_done = pending.is_last
        self._discard(discards)
        self._outbox.do(CheckpointEnded(record))

    def _discard(self, discards: list[DiscardState]) -> None:
        for discard in discards:
            if discard.checkpoint_id is not None:
                self.tracker.discarded(discard.checkpoint_id)
            self._outbox.do(discard)

    def _abort(
        self,
        pending: PendingCheckpoint,
        reason: CheckpointFailureReason,
        now_ms: int,
        *,
        failure: Failure | None = None,
        task: ExecutionVertex | None = None,
    ) -> None:
        """Abort a checkpoint: tasks are notified, and its files are deleted."""
        del self.pending[pending.id]
        self._notices.aborted(pending, self.store.latest_own_id)
        self._outbox.do(DiscardState(pending.id, pending.options.location, self.store.shared.release(pending.id)))
        text = _why(reason, failure, task)
        self._outbox.do(CheckpointEnded(self.tracker.failed(pending, reason.name, text, now_ms)))
        self._answer_failed(pending.request, text)
        if self._ends.is_all and self._periodic_ms is not None:  # tasks wait for it to end
            self._periodic_ms = min(self._periodic_ms, now_ms + RETRY_AT_END_MS)
        verdict = self._failures.verdict(pending, reason, text, is_of_a_task=task is not None)
        if verdict is not None:
            self._fail(verdict, None if task is None else str(task), now_ms)

    def _refused(self, request: CheckpointRequest, reason: CheckpointFailureReason, detail: str = "") -> None:
        """Fail a request whose checkpoint could not begin."""
        self.tracker.refused()
        self._answer_failed(request, f"{reason.value}: {detail}" if detail else reason.value)

    def _answer_failed(self, request: CheckpointRequest, text: str) -> None:
        if request is self._stop:
            self._stop = None
        if request.user_request is not None:
            self._answer(request.user_request, f"no {request.kind.noun} was taken: {text}")

    def _answer(self, number: int, text: str) -> None:
        self._outbox.do(RequestAnswered(number, failure=Failure("builtins.RuntimeError", text)))

    # ---- the job stops, begins, begins again

    def suspend(self, reason: CheckpointFailureReason, now_ms: int) -> None:
        """Abort what is under way because tasks end, but for checkpoints that all tasks have answered.

        A checkpoint that is being stored may count already for another reader of the storage: it is waited for.
        """
        self._periodic_ms = None
        self._drop_requests(reason)
        for pending in list(self.pending.values()):
            if pending.stage is not Stage.STORING:
                self._abort(pending, reason, now_ms)

    def _drop_requests(self, reason: CheckpointFailureReason) -> None:
        for request in self._requests.clear():
            if request.user_request is not None:
                self._refused(request, reason)

    def _drop_checkpoints(self, reason: CheckpointFailureReason) -> None:
        for request in self._requests.drop_checkpoints():
            self._refused(request, reason)

    def abandon(self, now_ms: int) -> None:
        """Give up all checkpoints without deleting any: another job master leads the job and decides what counts."""
        self._periodic_ms = None
        self._drop_requests(_Reason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        for pending in list(self.pending.values()):
            del self.pending[pending.id]
            self._answer_failed(pending.request, _Reason.CHECKPOINT_COORDINATOR_SHUTDOWN.value)

    def final_failure(self, failure: Failure) -> Failure:
        """Return what a failure comes to: after the savepoint that it stopped with, a job does not begin again.

        Its transactions may be committed already, and an earlier checkpoint knows nothing of them.
        """
        if self._stopped_with is None:
            return self._restores.judged(failure)
        text = (
            f"the job was stopped with savepoint {self._stopped_with.path}, which is whole, but a task failed "
            f"before all had ended: {failure.message}; begin again from that savepoint, so that what waits to be "
            "committed is"
        )
        # Without the exception itself, which is raised where its task was a thread, and knows nothing of the savepoint.
        return replace(failure, message=text, can_restart=False, exception=None)

    def restore(self, subtasks: list[ExecutionVertex], sources: set[str], is_global: bool, now_ms: int) -> None:
        """Give new attempts the state of the latest checkpoint, and reset the coordinators of sources to it."""
        self._ends.forget_old()
        self._is_done = False
        self._restores.restore(subtasks, sources, is_global, now_ms)

    def end(self, status: JobStatus, now_ms: int) -> None:
        """Answer all requests at the end of the job, and delete checkpoints that are not to be kept."""
        stop, stopped = self._stop, self._stopped_with
        if stop is not None and stop.user_request is not None and stopped is not None:
            if status is JobStatus.FINISHED:
                self._outbox.do(RequestAnswered(stop.user_request, path=stopped.path, checkpoint_id=stopped.id))
            else:
                text = f"the job was stopped with savepoint {stopped.path}, which is whole, but it is {status.name}"
                self._answer(stop.user_request, text)
            self._stop = None
        self.suspend(_Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, now_ms)
        if status.is_globally_terminal_state():
            for pending in list(self.pending.values()):
                self._abort(pending, _Reason.CHECKPOINT_COORDINATOR_SHUTDOWN, now_ms)
        self._discard(self.store.end(status))

    def details(self, now_ms: int) -> dict[str, object]:
        """Return what there is to see of checkpoints."""
        return self.tracker.as_json(now_ms)


def _why(reason: CheckpointFailureReason, failure: Failure | None, task: ExecutionVertex | None) -> str:
    text = reason.value if task is None else f"{reason.value}: {task}"
    return text if failure is None else f"{text}: {failure.message}"
