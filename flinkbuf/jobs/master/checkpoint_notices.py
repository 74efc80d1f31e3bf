"""What the job master tells tasks about a checkpoint: that it begins, that it counts, or that it never will."""

from __future__ import annotations

from collections.abc import Callable

from flinkbuf.jobs.deployment import AttemptId
from flinkbuf.jobs.master.execution_graph import Execution
from flinkbuf.jobs.master.execution_state import ExecutionState
from flinkbuf.jobs.master.pending_checkpoint import PendingCheckpoint, Stage
from flinkbuf.jobs.master.task_control import TaskControl
from flinkbuf.jobs.messages import NotifyCheckpointAborted, NotifyCheckpointComplete, TriggerCheckpoint


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
        """Those who have nobody before them begin."""
        for execution in pending.plan.to_trigger:
            self._tell(
                execution,
                lambda attempt: TriggerCheckpoint(
                    self._session_id, attempt, pending.id, pending.timestamp_ms, pending.options
                ),
            )

    def complete(self, pending: PendingCheckpoint) -> None:
        """It counts: whoever has something to commit does."""
        for execution in pending.plan.to_wait_for.values():
            self._tell(execution, lambda attempt: NotifyCheckpointComplete(self._session_id, attempt, pending.id))

    def aborted(self, pending: PendingCheckpoint, latest_id: int) -> None:
        """It never will; the latest one that does is told along, for those who have not heard of that."""
        if pending.stage is Stage.COORDINATORS:
            return  # nor has anybody heard of this one
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
