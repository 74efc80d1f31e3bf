"""Checkpoints that are complete, and how long each is kept. Flink: CompletedCheckpointStore, CheckpointProperties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.checkpoint.shared_files import SharedFiles
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.master_actions import DiscardState

# How a job may end so that its checkpoints are deleted.
_DELETED_AFTER: Final = {
    "NO_EXTERNALIZED_CHECKPOINTS": (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED),
    "DELETE_ON_CANCELLATION": (JobStatus.FINISHED, JobStatus.CANCELED),
    "RETAIN_ON_CANCELLATION": (JobStatus.FINISHED,),
}


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint that a job can begin from.

    Attributes
    ----------
    location : str
        Its directory, as the storage knows it.
    path : str
        As its user names it.
    is_ours : bool
        The job may delete it.
    """

    metadata: CheckpointMetadata
    location: str = ""
    path: str = ""
    is_ours: bool = True

    @property
    def id(self) -> int:
        """Return the checkpoint's number."""
        return self.metadata.checkpoint_id


class CompletedCheckpoints:
    """The newest complete checkpoints of a job; savepoints are their owner's, and not among them.

    Parameters
    ----------
    retained : int
        How many are kept.
    retention : str
        What becomes of them at the end, see `CheckpointCoordinatorConfig`.

    Attributes
    ----------
    shared : SharedFiles
    """

    def __init__(self, retained: int, retention: str) -> None:
        self.shared = SharedFiles()
        self._retained = retained
        self._retention = retention
        self._kept: list[CompletedCheckpoint] = []  # oldest first
        self._initial: CompletedCheckpoint | None = None  # another run's, until the job has one of its own

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """Return the checkpoint to begin from."""
        return self._kept[-1] if self._kept else self._initial

    @property
    def older(self) -> tuple[CompletedCheckpoint, ...]:
        """Return the checkpoints kept beside the latest, oldest first."""
        return tuple(self._kept[:-1])

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the numbers of the kept checkpoints, oldest first."""
        return tuple(each.id for each in self._kept)

    @property
    def latest_own_id(self) -> int:
        """Return the newest checkpoint that tasks of this job may know; 0: none."""
        return self._kept[-1].id if self._kept else 0

    @property
    def needs_full(self) -> bool:
        """Return whether the next checkpoint must be full: all earlier files have another owner."""
        return self._initial is not None

    def begin_with(self, restored: RestoredCheckpoint) -> None:
        """Begin from a checkpoint of another run."""
        metadata = restored.metadata
        files = [file for subtask in metadata.subtasks() for file in subtask.shared_files()]
        completed = CompletedCheckpoint(metadata, restored.location, restored.location, restored.is_claimed)
        if restored.is_claimed:
            self._kept.append(completed)
            self.shared.use(metadata.checkpoint_id, files)
        else:
            self._initial = completed
            self.shared.keep(files)

    def add(self, completed: CompletedCheckpoint) -> list[DiscardState]:
        """Add a complete checkpoint; return the ones no longer needed."""
        self._initial = None
        self._kept.append(completed)
        self._kept.sort(key=lambda each: each.id)
        surplus = self._kept[: -self._retained]
        del self._kept[: -self._retained]
        return [self._discard(each) for each in surplus]

    def end(self, status: JobStatus) -> list[DiscardState]:
        """Return the checkpoints to delete at the end of the job."""
        kept, self._kept = self._kept, []
        if status not in _DELETED_AFTER[self._retention]:
            return []
        return [self._discard(each) for each in kept]

    def _discard(self, completed: CompletedCheckpoint) -> DiscardState:
        return DiscardState(completed.id, completed.location, self.shared.release(completed.id))
