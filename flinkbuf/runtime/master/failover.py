"""What follows from a failure: which subtasks begin again, when and where, or the end of the job.

Flink: DefaultScheduler.handleTaskFailure, restartTasksWithDelay.
"""

from __future__ import annotations

from dataclasses import replace

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from flinkbuf.runtime.master.failure_history import FailureEntry, FailureHistory
from flinkbuf.runtime.master.restart_strategy import RestartStrategy
from flinkbuf.runtime.protocol.job_status import JobStatus, JobStep
from flinkbuf.runtime.protocol.messages import PROGRAM_MANAGER
from flinkbuf.runtime.scheduler.execution_graph import ExecutionVertex
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.job_life import JobLife
from flinkbuf.runtime.scheduler.regions import BlockingInput, Subtask
from flinkbuf.runtime.scheduler.restarts import Restart
from flinkbuf.runtime.scheduler.task_control import TaskControl


class Failover:
    """Answers the failures of a job.

    Parameters
    ----------
    tasks : TaskControl
    life : JobLife
    strategy : RestartStrategy
    checkpoints : CheckpointCoordinator

    Attributes
    ----------
    history : FailureHistory
    restart_count : int
        How often subtasks began again.
    sources : set
        Ids of the vertices that have a coordinator.
    """

    def __init__(
        self, tasks: TaskControl, life: JobLife, strategy: RestartStrategy, checkpoints: CheckpointCoordinator
    ) -> None:
        self.tasks = tasks
        self._checkpoints = checkpoints
        self.life = life
        self.history = FailureHistory(strategy)
        self.restart_count = 0
        plan = tasks.graph.plan
        self._graph, self._managers = tasks.graph, tasks.managers
        self._config = tasks.managers.config
        self._regions = tasks.regions
        self._plan = plan
        self.sources = {
            vertex.id for vertex in plan.vertices if any(operator.has_coordinator for operator in vertex.operators)
        }

    # ---- something has failed

    def of_tasks(self, entry: FailureEntry, victims: list[ExecutionVertex], now_ms: int) -> None:
        """Handle the failure of subtasks that ran, or were to."""
        self._answer(entry, victims, now_ms, needs_new_run=False)

    def of_job(self, entry: FailureEntry, now_ms: int) -> None:
        """Handle a failure of the whole job."""
        self._answer(entry, None, now_ms, needs_new_run=False)

    def of_managers(self, entry: FailureEntry, victims: list[ExecutionVertex], now_ms: int) -> None:
        """Handle the loss of task managers, or that they have not come, with the subtasks that needed them."""
        together, waiting = self._config.managers_come_together, self.tasks.restarts.waiting
        if victims or (together and not waiting):
            self._answer(entry, victims, now_ms, needs_new_run=together)
        else:
            self.noted(entry, now_ms)
            # Subtasks that were to begin again in the running processes need others now.
            if (
                together
                and self.life.status is JobStatus.RESTARTING
                and not any(each.needs_new_run for each in waiting)
            ):
                due_ms = max(each.due_ms for each in waiting)
                self._begin_restart(self._in_new_run(), due_ms, now_ms, needs_new_run=True)

    def of_program(self, entry: FailureEntry, now_ms: int) -> None:
        """Handle the loss of the manager in the program: without it no subtask can begin again."""
        if self.life.is_active:
            self.history.restart_delay_ms(entry)
            self._fail(now_ms)
        else:
            self.noted(entry, now_ms)

    def noted(self, entry: FailureEntry, now_ms: int) -> None:
        """Note a failure of a task that was to end anyway; it may be the cause."""
        if self.life.status in (JobStatus.FAILING, JobStatus.RESTARTING):
            self.history.add(entry)
            cause = self.history.cause
            if self.life.status is JobStatus.RESTARTING and cause is not None and not cause.can_restart:
                self._fail(now_ms)

    def _answer(
        self, entry: FailureEntry, victims: list[ExecutionVertex] | None, now_ms: int, *, needs_new_run: bool
    ) -> None:
        if self.life.status in (JobStatus.CANCELLING, JobStatus.SUSPENDED):
            return
        entry = replace(entry, failure=self._checkpoints.final_failure(entry.failure))
        if self.life.status is JobStatus.FAILING:
            self.history.add(entry)
            return
        delay_ms = self.history.restart_delay_ms(entry)
        if delay_ms is None or self.life.status is JobStatus.CREATED:
            self._fail(now_ms)
            return
        keys = None
        if victims is not None and not needs_new_run:
            keys = self._regions.to_restart([each.key for each in victims], self._is_readable, self._settled())
        if needs_new_run or not self._can_restart_in_place(keys):
            needs_new_run, keys = True, None if victims is None else self._in_new_run()
        self._begin_restart(keys, now_ms + delay_ms, now_ms, needs_new_run=needs_new_run)

    def _can_restart_in_place(self, keys: list[Subtask] | None) -> bool:
        """Return whether subtasks can restart in the running processes; in batch those whose input is kept."""
        if self._config.can_restart_in_place:
            return True
        is_kept = self._plan.is_batch and keys is not None
        return is_kept and not any(self._plan.vertices[index].is_slot_fixed for index, _ in keys or ())

    def _in_new_run(self) -> list[Subtask] | None:
        """Return what begins again when all processes but the program go; None: the whole job.

        What the tasks of a batch job have written goes with them: but what has finished, and is read by no task any
        more, stays finished.
        """
        if not self._plan.is_batch:
            return None
        kept = {each.key for each in self.tasks.partitions.kept if each.manager_id == PROGRAM_MANAGER}
        unfinished = (each.key for each in self._graph.subtasks() if not self._is_finished(each.key))
        return self._regions.to_restart(
            unfinished,
            lambda each: not self._is_finished(each.producer) or (each.producer, each.partition_index) in kept,
            self._settled(),
        )

    def _settled(self) -> set[int]:
        return self._regions.settled(self._is_finished)

    def _is_finished(self, key: Subtask) -> bool:
        return self._graph.subtask(key).current.state is ExecutionState.FINISHED

    def stopped(self, now_ms: int) -> None:
        """Handle that the job's last savepoint is stored: tasks that failed meanwhile do not begin again."""
        cause = self.history.cause
        if cause is not None and self.life.status in (JobStatus.RESTARTING, JobStatus.FAILING):
            self.history.explain(self._checkpoints.final_failure(cause))
            if self.life.status is JobStatus.RESTARTING:
                self._fail(now_ms)

    def _fail(self, now_ms: int) -> None:
        self.life.step(JobStep.FAIL, now_ms)
        open_now = (str(each.vertex) for each in self._graph.executions() if not each.state.is_terminal)
        self.history.took_down(self._graph.open_count, open_now)
        self._checkpoints.suspend(CheckpointFailureReason.JOB_FAILURE, now_ms)
        self.tasks.cancel_all(now_ms)

    # ---- beginning again

    def _begin_restart(self, keys: list[Subtask] | None, due_ms: int, now_ms: int, *, needs_new_run: bool) -> None:
        """Cancel what is to begin again; the rest follows when all has ended. None: the whole job but what is settled.

        Flink begins that again, too.
        """
        subtasks = keys
        if subtasks is None:
            settled, region_of = self._settled(), self._regions.region_of
            subtasks = [each.key for each in self._graph.subtasks() if region_of[each.key] not in settled]
        self.life.step(JobStep.RESTART, now_ms)
        self._checkpoints.suspend(CheckpointFailureReason.JOB_FAILOVER_REGION, now_ms)
        restart = self.tasks.restarts.begin(
            subtasks, due_ms, self._is_open, is_global=keys is None, needs_new_run=needs_new_run
        )
        self.history.took_down(
            len(restart.subtasks), (str(self._graph.subtask(key)) for key in sorted(restart.subtasks))
        )
        self.tasks.scheduler.drop(restart.subtasks)
        for key in sorted(restart.subtasks):
            self.tasks.cancel(self._graph.subtask(key).current, now_ms)

    def _is_open(self, key: Subtask) -> bool:
        return not self._graph.subtask(key).current.state.is_terminal

    def _is_readable(self, partition: BlockingInput) -> bool:
        """Return whether the finished partition of an attempt is still there, or will be."""
        is_there = self.tasks.partitions.is_there((partition.producer, partition.partition_index))
        return is_there or not self._is_finished(partition.producer)

    def go_on(self, now_ms: int) -> None:
        """Begin again with the subtasks that have ended, in other processes where that is needed."""
        restarts = self.tasks.restarts
        for restart in restarts.to_release():
            restart.is_released = True
            for manager in list(self._managers.registered.values()):
                if not manager.is_program:
                    self._managers.remove(manager.id)
                    self.tasks.partitions.lose_manager(manager.id)
                    self.tasks.release(manager.id, "the job begins again in other processes", now_ms)
            self._managers.slots.asked.clear()  # managers that come now belong to the new run
        for restart in restarts.ready(now_ms):
            if (
                not (restart.needs_new_run and self._managers.still_leaving(now_ms))
                and not self._checkpoints.is_storing
            ):
                self._begin_again(restart, now_ms)

    def _begin_again(self, restart: Restart, now_ms: int) -> None:
        self.tasks.restarts.done(restart)
        self.restart_count += 1
        subtasks = [self._graph.subtask(key) for key in sorted(restart.subtasks)]
        for subtask in subtasks:
            self._graph.reset(subtask, now_ms)
        self._checkpoints.restore(subtasks, self.sources, restart.is_global, now_ms)
        self.tasks.schedule(subtasks, now_ms)
        if not self.tasks.restarts.waiting:
            self.life.step(JobStep.RESTARTED, now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when a waiting restart can go on."""
        if self._checkpoints.is_storing:  # the answer of the storage, or its deadline, comes first
            return None
        gone_ms = max(self._managers.leaving.values(), default=0)
        ended = (each for each in self.tasks.restarts.waiting if not each.open)
        return min((max(each.due_ms, gone_ms) if each.needs_new_run else each.due_ms for each in ended), default=None)
