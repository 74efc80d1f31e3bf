"""What a job master is told besides the messages of task managers, and what it wants done.

None of this travels: the shell around the job master (jobs/job_runner.py) makes the one and performs the other, in
order, each list to its end before the next message is handled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from flinkbuf.checkpoints.options import CheckpointOptions, SnapshotKind
from flinkbuf.jobs.deployment import AttemptId
from flinkbuf.jobs.failure import Failure
from flinkbuf.jobs.job_status import JobStatus

# ---- what it is told


@dataclass(frozen=True)
class StartJob:
    """Begin."""


@dataclass(frozen=True)
class ManagerSaid:
    """A task manager's message (messages.py: from a task manager); `RegisterManager` is its first."""

    manager_id: str
    message: object


@dataclass(frozen=True)
class ManagerLost:
    """The connection to a task manager has ended, or its process has: nothing comes from it any more."""

    manager_id: str
    reason: str


@dataclass(frozen=True)
class RunFailed:
    """The task managers of a run cannot be started, or ended as a whole, such as a stage of Spark's."""

    run: int
    failure: Failure


@dataclass(frozen=True)
class CoordinatorFailed:
    """A source's coordinator raised: the whole job is concerned."""

    failure: Failure


@dataclass(frozen=True)
class CancelJob:
    """The user wants it to end."""


@dataclass(frozen=True)
class SuspendJob:
    """Somebody else leads the job now: its tasks end here, nothing of it is deleted, and nobody is told of success."""


@dataclass(frozen=True)
class TriggerSavepoint:
    """The user wants a savepoint, or a checkpoint; what becomes of it is said by `RequestAnswered` with its number."""

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


# ---- what it wants


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
    """Have a task manager's process ended, if it does not end by itself, and its connection closed."""

    manager_id: str
    reason: str


@dataclass(frozen=True)
class ResetSources:
    """Subtasks of sources begin anew: their coordinators forget what they gave them. Before they are deployed."""

    subtasks: tuple[tuple[str, int], ...]  # vertex id, subtask
    is_global: bool  # all of them: coordinators are made anew
    checkpoint_id: int | None = None  # the one that they go back to; None: to the beginning
    states: dict[str, StateHandle] = field(default_factory=dict)  # of coordinators made anew, by operator id


@dataclass(frozen=True)
class TellCoordinator:
    """A source operator's event for its coordinator."""

    attempt: AttemptId
    operator_id: str
    payload: bytes


@dataclass(frozen=True)
class SubtaskGone:
    """An attempt has ended, however: a coordinator sends it nothing more."""

    attempt: AttemptId


@dataclass(frozen=True)
class SnapshotCoordinators:
    """Ask the coordinators of all sources for their state: `CoordinatorsSnapshotted` answers."""

    checkpoint_id: int


@dataclass(frozen=True)
class NotifyCoordinators:
    """Tell the coordinators of all sources that a checkpoint counts."""

    checkpoint_id: int


@dataclass(frozen=True)
class StoreCheckpoint:
    """Write the metadata of a checkpoint, and note that it is the latest one: `CheckpointStored` answers."""

    metadata: CheckpointMetadata
    options: CheckpointOptions


@dataclass(frozen=True)
class WithdrawCheckpoint:
    """A checkpoint takes too long to be stored: give it up if the next job master cannot find it yet.

    `CheckpointStored` answers as if nothing had been asked: perhaps it counts all the same.
    """

    checkpoint_id: int


@dataclass(frozen=True)
class DiscardState:
    """Nobody needs this state any more: delete its files; late, and without an answer.

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
    """What became of one checkpoint, for a line in the log."""

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
    """A checkpoint counts, or never will: nothing has to be done, but it can be said."""

    record: CheckpointRecord


@dataclass(frozen=True)
class RequestAnswered:
    """A savepoint or checkpoint that the user asked for is there, or will not be."""

    request: int
    path: str = ""
    checkpoint_id: int = 0
    failure: Failure | None = None


@dataclass(frozen=True)
class StatusChanged:
    """The job has another status."""

    status: JobStatus


@dataclass(frozen=True)
class EndJob:
    """All is over and nothing is held any more; the last action of a job."""

    status: JobStatus
    failure: Failure | None  # why, if it FAILED
