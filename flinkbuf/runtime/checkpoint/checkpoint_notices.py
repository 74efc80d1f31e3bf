"""What the job master tells tasks about a checkpoint: that it begins, is complete, or is aborted."""

from __future__ import annotations

from collections.abc import Callable

from flinkbuf.runtime.checkpoint.pending_checkpoint import PendingCheckpoint, Stage
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.messages import NotifyCheckpointAborted, NotifyCheckpointComplete, TriggerCheckpoint
from flinkbuf.runtime.scheduler.execution_graph import Execution
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.task_control import TaskControl


class CheckpointNotices:
    """Messages to the tasks of a checkpoint, as far as they still run. Flink: TaskManagerGateway.

    Parameters
    ----------
    tasks : TaskControl
    """

    def __init__(self, tasks: TaskControl) -> None:
        self._tasks = tasks
        self._session_id = tasks.session_id

    def trigger(self, pending: PendingCheckpoint) -> None:
        """Trigger the checkpoint at the tasks that have no running producers."""
        for execution in pending.plan.to_trigger:
            self._tell(
                execution,
                lambda attempt: TriggerCheckpoint(
                    self._session_id, attempt, pending.id, pending.timestamp_ms, pending.options
                ),
            )

    def complete(self, pending: PendingCheckpoint) -> None:
        """Notify tasks: checkpoint complete."""
        for execution in pending.plan.to_wait_for.values():
            self._tell(execution, lambda attempt: NotifyCheckpointComplete(self._session_id, attempt, pending.id))

    def aborted(self, pending: PendingCheckpoint, latest_id: int) -> None:
        """Notify tasks: checkpoint aborted; with the latest complete one, for tasks that missed its notice."""
        if pending.stage is Stage.COORDINATORS:
            return  # no task knows of this checkpoint, either
        for execution in pending.plan.to_wait_for.values():
            self._tell(
                execution, lambda attempt: NotifyCheckpointAborted(self._session_id, attempt, pending.id, latest_id)
            )

    def _tell(self, execution: Execution, message: Callable[[AttemptId], object]) -> None:
        manager = execution.manager
        if execution.state is not ExecutionState.RUNNING or manager is None:
            return
        if self._tasks.managers.registered.get(manager.id) is manager:
            self._tasks.outbox.send(manager.id, message(execution.attempt))
