"""How many checkpoints may fail in a row before the job does. Flink: CheckpointFailureManager."""

from __future__ import annotations

from typing import Final

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.runtime.checkpoint.checkpoint_config import UNLIMITED
from flinkbuf.runtime.checkpoint.pending_checkpoint import PendingCheckpoint, Stage
from flinkbuf.runtime.protocol.failure import Failure

# What happens to the whole job is no fault of a checkpoint.
_OF_THE_JOB: Final = (
    CheckpointFailureReason.CHECKPOINT_SUBSUMED,
    CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
    CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
    CheckpointFailureReason.JOB_FAILURE,
    CheckpointFailureReason.JOB_FAILOVER_REGION,
)


class CheckpointFailures:
    """Counts failures that follow each other; a checkpoint that fails in several places counts once.

    Parameters
    ----------
    tolerable : int
        How many the job puts up with; -1: any number.

    Examples
    --------
    >>> failures = CheckpointFailures(tolerable=1)
    >>> expired = CheckpointFailureReason.CHECKPOINT_EXPIRED
    >>> failures.failed(1, expired), failures.failed(1, expired), failures.failed(2, expired)
    (False, False, True)
    """

    def __init__(self, tolerable: int) -> None:
        self.tolerable = tolerable
        self.count = 0
        self._counted: set[int] = set()
        self._last_success = 0

    def failed(self, checkpoint_id: int, reason: CheckpointFailureReason) -> bool:
        """Count a failed checkpoint; return whether that is more than the job tolerates: then counting starts anew."""
        if self.tolerable == UNLIMITED or not reason.counts:
            return False
        if checkpoint_id <= self._last_success or checkpoint_id in self._counted:
            return False
        self._counted.add(checkpoint_id)
        self.count += 1
        if self.count <= self.tolerable:
            return False
        self._clear()
        return True

    def succeeded(self, checkpoint_id: int) -> None:
        """Note a complete checkpoint; only a newer one than the last changes anything."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._clear()

    def verdict(
        self, pending: PendingCheckpoint, reason: CheckpointFailureReason, text: str, *, is_of_a_task: bool
    ) -> Failure | None:
        """Return why the job cannot go on after a failed checkpoint, or None if it can.

        A savepoint is no job's fault, unless a task could not take it. One that the job stops with has stopped its
        sources: only beginning again moves them.
        """
        if reason in _OF_THE_JOB:
            return None
        if pending.kind.is_synchronous:
            if pending.stage is Stage.COORDINATORS:  # no task knows of the checkpoint
                return None
            return Failure("builtins.RuntimeError", f"the job could not be stopped with savepoint {pending.id}: {text}")
        is_a_tasks_fault = is_of_a_task and reason is not CheckpointFailureReason.CHECKPOINT_EXPIRED
        if (pending.kind.is_savepoint and not is_a_tasks_fault) or not self.failed(pending.id, reason):
            return None
        return Failure(
            "builtins.RuntimeError",
            f"checkpoint {pending.id} failed: {text}; {self.tolerable} failed checkpoints in a row are put up with "
            "(execution.checkpointing.tolerable-failed-checkpoints)",
        )

    def _clear(self) -> None:
        self.count = 0
        self._counted.clear()
