"""Deploys and cancels attempts: all that goes from the job master to tasks.

Flink: DefaultExecutionOperations, Execution.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import CancelTask, ReleaseManager, ReleasePartitions
from flinkbuf.runtime.scheduler.cancellations import Cancellations
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from flinkbuf.runtime.scheduler.execution_state import ExecutionState, ExecutionStep
from flinkbuf.runtime.scheduler.job_life import MasterOutbox
from flinkbuf.runtime.scheduler.manager_table import ManagerTable
from flinkbuf.runtime.scheduler.master_actions import StartManagers, StopManager, SubtaskGone
from flinkbuf.runtime.scheduler.partition_tracker import PartitionTracker, by_manager
from flinkbuf.runtime.scheduler.regions import PipelinedRegions
from flinkbuf.runtime.scheduler.restarts import Restarts
from flinkbuf.runtime.scheduler.scheduler import Scheduler


class TaskControl:
    """The tasks of a job.

    Parameters
    ----------
    graph : ExecutionGraph
    managers : ManagerTable
    session_id : str
    outbox : MasterOutbox

    Attributes
    ----------
    regions : PipelinedRegions
    partitions : PartitionTracker
        What subtasks have written to its end.
    scheduler, restarts, cancellations
        Attempts that wait for slots; subtasks that wait for a restart; attempts that have not heard that they are to
        end.
    """

    def __init__(
        self, graph: ExecutionGraph, managers: ManagerTable, session_id: str, epoch: int, outbox: MasterOutbox
    ) -> None:
        self.graph = graph
        self.managers = managers
        self.session_id = session_id
        self.outbox = outbox
        self.regions = PipelinedRegions(graph.plan)
        self.partitions = PartitionTracker(self.regions)
        self.scheduler = Scheduler(graph, managers, session_id, epoch, self.regions, self.partitions)
        self.restarts = Restarts()
        self.cancellations = Cancellations(managers.config)

    def schedule(self, subtasks: Iterable[ExecutionVertex], now_ms: int) -> None:
        """Let subtasks wait for their slots, and ask for missing slots."""
        self._ask(self.scheduler.schedule(subtasks, now_ms))

    def _ask(self, asked: tuple[int, ...]) -> None:
        if asked:
            self.outbox.do(StartManagers(self.managers.run, asked))

    def deploy(self, now_ms: int) -> None:
        """Deploy subtasks that have all their slots, and ask for the slots of those that became ready."""
        self._ask(self.scheduler.begin(now_ms))
        for manager_id, message in self.scheduler.deploy(now_ms):
            self.outbox.send(manager_id, message)

    def cancel_all(self, now_ms: int) -> None:
        """Cancel all attempts."""
        self.restarts.clear()
        self.scheduler.clear()
        for execution in self.graph.executions():
            self.cancel(execution, now_ms)

    def cancel(self, execution: Execution, now_ms: int) -> None:
        """Cancel an attempt; a finished one gives up its partitions."""
        before = execution.state
        if before is ExecutionState.FINISHED:
            self.partitions.begins_again(execution.vertex.key)
            self.send_cancel(execution)
        elif before.is_deployed and before is not ExecutionState.CANCELING:
            self.graph.step(execution, ExecutionStep.CANCEL, now_ms)
            self.send_cancel(execution)
            self.cancellations.sent(execution, now_ms)
        elif not before.is_deployed and not before.is_terminal:
            self.end(execution, ExecutionStep.CANCEL, now_ms)

    def send_cancel(self, execution: Execution) -> None:
        """Send a cancel to the attempt's task manager, if that is still there."""
        manager = execution.manager
        if manager is not None and self.managers.registered.get(manager.id) is manager:
            execution.canceled_after = self.managers.heartbeats.sequence
            self.outbox.send(manager.id, CancelTask(self.session_id, execution.attempt))

    def end(
        self, execution: Execution, step: ExecutionStep, now_ms: int, failure: Failure | None = None
    ) -> ExecutionState:
        """Note the end of an attempt; return its final state."""
        after = self.graph.step(execution, step, now_ms)
        if after is not ExecutionState.FINISHED:
            execution.failure = failure
        if execution.manager is not None:
            self.outbox.do(SubtaskGone(execution.attempt))
        self.restarts.ended(execution.vertex.key)
        self.scheduler.ended(execution.vertex)
        if after is ExecutionState.FINISHED and self.regions.groups:
            self._keep(execution)
        return after

    def _keep(self, execution: Execution) -> None:
        """Note the partitions of a finished subtask; release those whose readers have all finished."""
        assert execution.manager is not None, f"{execution!r} has finished nowhere"
        ids = self.scheduler.builder.partition_ids(execution)
        freed = self.partitions.finished(execution.vertex.key, execution.manager.id, ids)
        for manager_id, names in by_manager(freed).items():
            self._let_go(manager_id, names)

    def _let_go(self, manager_id: str, names: tuple[str, ...]) -> None:
        self.partitions.let_go(manager_id, names, self.managers.heartbeats.sequence)
        self.outbox.send(manager_id, ReleasePartitions(self.session_id, names))

    def let_go_again(self, manager_id: str, sequence: int) -> None:
        """Send releases again that a heartbeat's answer shows as not heard."""
        names = self.partitions.unheard(manager_id, sequence)
        if names:
            self._let_go(manager_id, names)

    def release(self, manager_id: str, reason: str, now_ms: int, *, is_finished: bool = False) -> None:
        """End a task manager with all its tasks; the message says whether the job has finished."""
        self.outbox.send(manager_id, ReleaseManager(self.session_id, reason, is_finished))
        self.outbox.do(StopManager(manager_id, reason))
        self.managers.wait_for_end(manager_id, now_ms)
