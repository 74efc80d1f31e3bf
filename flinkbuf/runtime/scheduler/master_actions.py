"""Stimuli of a job master besides the messages of task managers, and the actions it returns.

None of this travels: the shell around the job master (runtime/driver/running_job.py) makes the one and performs the
other, in order, each list to its end before the next message is handled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from flinkbuf.checkpoints.options import CheckpointOptions, SnapshotKind
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus

# ---- stimuli


@dataclass(frozen=True)
class StartJob:
    """The job is to begin."""


@dataclass(frozen=True)
class ManagerSaid:
    """A task manager's message (messages.py: from a task manager); `RegisterManager` is its first."""

    manager_id: str
    message: object


@dataclass(frozen=True)
class ManagerLost:
    """The connection to a task manager has ended, or its process has."""

    manager_id: str
    reason: str


@dataclass(frozen=True)
class RunFailed:
    """The task managers of a run cannot be started, or ended as a whole, such as a stage of Spark's."""

    run: int
    failure: Failure


@dataclass(frozen=True)
class CoordinatorFailed:
    """A source's coordinator raised: the whole job fails."""

    failure: Failure


@dataclass(frozen=True)
class CancelJob:
    """The user cancels the job."""


@dataclass(frozen=True)
class SuspendJob:
    """Another program leads the job now: all tasks end here, no file is deleted, and no user is told of success."""


@dataclass(frozen=True)
class TriggerSavepoint:
    """The user asks for a savepoint, or a checkpoint; `RequestAnswered` with its number gives the result."""

    request: int
    kind: SnapshotKind = SnapshotKind.SAVEPOINT
    directory: str = ""  # above the savepoint's own; empty: the configured one


@dataclass(frozen=True)
class CoordinatorsSnapshotted:
    """The coordinators of all sources have given their state for a checkpoint; or one could not."""

    checkpoint_id: int
    states: dict[str, bytes]  # by operator id
    failure: Failure | None = None


@dataclass(frozen=True)
class CheckpointStored:
    """The metadata of a checkpoint is written and the checkpoint can be found again; or it is not."""

    checkpoint_id: int
    path: str = ""  # of the checkpoint, as its user names it
    size: int = 0  # of the metadata, in bytes
    failure: Failure | None = None


# ---- actions


@dataclass(frozen=True)
class StartManagers:
    """Start task managers for these slots; they register with this run's number, and as index with their first slot."""

    run: int
    indexes: tuple[int, ...]  # slot numbers


@dataclass(frozen=True)
class SendTo:
    """Send a message to a task manager that is registered."""

    manager_id: str
    message: object


@dataclass(frozen=True)
class StopManager:
    """Close a task manager's connection, and end its process if it does not end by itself."""

    manager_id: str
    reason: str


@dataclass(frozen=True)
class ResetSources:
    """Reset coordinators, before subtasks of their sources are deployed anew: splits are taken back."""

    subtasks: tuple[tuple[str, int], ...]  # vertex id, subtask
    is_global: bool  # all of them: coordinators are made anew
    checkpoint_id: int | None = None  # the checkpoint to go back to; None: to the beginning
    states: dict[str, StateHandle] = field(default_factory=dict)  # of coordinators made anew, by operator id


@dataclass(frozen=True)
class TellCoordinator:
    """A source operator's event for its coordinator."""

    attempt: AttemptId
    operator_id: str
    payload: bytes


@dataclass(frozen=True)
class SubtaskGone:
    """Send no event to this attempt any more: it has ended, in whatever way."""

    attempt: AttemptId


@dataclass(frozen=True)
class SnapshotCoordinators:
    """Ask the coordinators of all sources for their state: `CoordinatorsSnapshotted` answers."""

    checkpoint_id: int


@dataclass(frozen=True)
class NotifyCoordinators:
    """Notify the coordinators of all sources: checkpoint complete."""

    checkpoint_id: int


@dataclass(frozen=True)
class StoreCheckpoint:
    """Write the metadata of a checkpoint, and note that it is the latest one: `CheckpointStored` answers."""

    metadata: CheckpointMetadata
    options: CheckpointOptions


@dataclass(frozen=True)
class WithdrawCheckpoint:
    """Give up a checkpoint that takes too long to be stored, if the next job master cannot find it yet.

    `CheckpointStored` answers as if nothing had been asked: perhaps it counts all the same.
    """

    checkpoint_id: int


@dataclass(frozen=True)
class DiscardState:
    """Delete the files of state that no task needs any more; late, and without an answer.

    Attributes
    ----------
    checkpoint_id : int or None
        Delete the directory of this checkpoint with its metadata, too.
    location : str
        That directory.
    handles : tuple of StateHandle
        Files of it, and shared ones that no checkpoint uses any more.
    """

    checkpoint_id: int | None
    location: str
    handles: tuple[StateHandle, ...]


@dataclass(frozen=True)
class CheckpointRecord:
    """The result of one checkpoint, for a line in the log."""

    checkpoint_id: int
    kind: str  # a SnapshotKind by name
    status: str  # "COMPLETED" or "FAILED"
    trigger_ms: int
    duration_ms: int
    size: int = 0  # of all state, in bytes
    metadata_size: int = 0
    path: str = ""
    reason: str = ""  # a CheckpointFailureReason by name
    failure: str = ""
    slowest: str = ""  # the subtask that acknowledged last, or one that did not
    alignment_ms: int = 0  # the longest
    sync_ms: int = 0  # the longest
    is_unaligned: bool = False


@dataclass(frozen=True)
class CheckpointEnded:
    """A checkpoint is complete, or was aborted: for the log."""

    record: CheckpointRecord


@dataclass(frozen=True)
class RequestAnswered:
    """Answer a user's request: the savepoint or checkpoint is there, or will not be."""

    request: int
    path: str = ""
    checkpoint_id: int = 0
    failure: Failure | None = None


@dataclass(frozen=True)
class StatusChanged:
    """Report the new status of the job."""

    status: JobStatus


@dataclass(frozen=True)
class EndJob:
    """The job is over and holds nothing any more; its last action."""

    status: JobStatus
    failure: Failure | None  # why, if it FAILED
