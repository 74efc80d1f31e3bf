"""How many checkpoints may fail in a row before the job does. Flink: CheckpointFailureManager."""

from __future__ import annotations

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.jobs.master.checkpoint_config import UNLIMITED


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
        """One has failed; return whether that is more than the job puts up with: it counts anew then."""
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
        """One is complete; only a newer one than the last changes anything."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._counted.clear()
