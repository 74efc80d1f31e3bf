"""All that a job master and its task managers tell each other. Frozen; one codec writes them as JSON.

Each message to a task manager carries the job master's session: a receiver drops those of an older one (Flink: fencing
token). A number of `KINDS` is never used again for another message.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointMetrics, CheckpointOptions
from flinkbuf.control.message_codec import Json
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.places import Places

PROGRAM_MANAGER: Final = "program"  # the id of the one in the program's own process; it has no slots
NO_SESSION: Final = ""  # of a task's report that its task manager has not sent yet


# ---- from a task manager


@dataclass(frozen=True)
class RegisterManager:
    """A task manager has come up; its first message. Flink: TaskExecutorRegistration and slot offers in one."""

    manager_id: str
    run: int  # which call for task managers it answers
    index: int  # its place in that run: the number of the Spark partition, or of the local process
    host: str
    data_port: int  # 0: no other process can read from it
    slot_count: int
    process_id: int


@dataclass(frozen=True)
class TaskStateReport:
    """A task is in another state. A final one is repeated until it is acknowledged."""

    session_id: str
    attempt: AttemptId
    state: str  # a TaskState by name
    failure: Failure | None = None
    accumulators: Json = field(default_factory=dict)
    metrics: Json = field(default_factory=dict)


@dataclass(frozen=True)
class HeartbeatReport:
    """The answer to a heartbeat: what runs here, and how it goes."""

    session_id: str
    sequence: int
    attempts: tuple[AttemptId, ...]  # all that the manager still has: the job master compares
    metrics: dict[str, Json] = field(default_factory=dict)  # by str(attempt)
    accumulators: dict[str, Json] = field(default_factory=dict)  # by str(attempt)
    manager_metrics: Json = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorEventReport:
    """A source operator sends an event to its coordinator."""

    session_id: str
    attempt: AttemptId
    operator_id: str
    payload: bytes


@dataclass(frozen=True)
class PartitionsReleased:
    """The answer to `ReleasePartitions`: the partitions are gone, or were not there."""

    session_id: str
    partition_ids: tuple[str, ...]


@dataclass(frozen=True)
class ManagerLeaving:
    """A task manager goes on its own, with the reason; a connection that ends without it was lost."""

    reason: str


@dataclass(frozen=True)
class CheckpointAcknowledgement:
    """A task's part of a checkpoint is written. Flink: AcknowledgeCheckpoint."""

    session_id: str
    attempt: AttemptId
    checkpoint_id: int
    state: SubtaskState
    metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)


@dataclass(frozen=True)
class CheckpointRefusal:
    """A task cannot give its part of a checkpoint. Flink: DeclineCheckpoint."""

    session_id: str
    attempt: AttemptId
    checkpoint_id: int
    reason: str  # a CheckpointFailureReason by name
    failure: Failure | None = None


@dataclass(frozen=True)
class EndOfDataReport:
    """All operators of a task are finished: a last checkpoint may be taken. Flink: notifyEndOfData."""

    session_id: str
    attempt: AttemptId


@dataclass(frozen=True)
class TasksSampled:
    """What threads of tasks were doing: calls as a tree, see flame_tree.py. Flink: TaskThreadInfoResponse."""

    session_id: str
    request: int
    tree: Json


@dataclass(frozen=True)
class ManagerInspected:
    """The answer to `InspectManager`."""

    session_id: str
    request: int
    answer: Json = field(default_factory=dict)


# ---- to a task manager


@dataclass(frozen=True)
class RegistrationAccepted:
    """The manager belongs to this job master now."""

    session_id: str
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int  # how long the job master may be silent; 0: for ever


@dataclass(frozen=True)
class RegistrationRefused:
    """The job master does not need this manager: it ends."""

    reason: str


@dataclass(frozen=True)
class DeployTasks:
    """Start attempts, in this order: all that are deployed together on one task manager. Flink: submitTask, for each.

    Attributes
    ----------
    session_id : str
    tasks : tuple of TaskDeploymentDescriptor
        Producers before those that read from them. Read them by `descriptors`.
    places : bytes
        The tables that their gates name: the same bytes for all task managers.
    """

    session_id: str
    tasks: tuple[TaskDeploymentDescriptor, ...]
    places: bytes = field(default=b"", repr=False, metadata={"attached": True})

    @property
    def descriptors(self) -> tuple[TaskDeploymentDescriptor, ...]:
        """Return the tasks, whose gates know where their partitions are.

        Raises
        ------
        CorruptDataError
            A gate names a table that is not there.
        """
        gates = [gate for task in self.tasks for gate in task.gates if gate.table is not None]
        if all(gate.places is not None for gate in gates):  # made in this process
            return self.tasks
        places = Places.from_bytes(self.session_id, self.places)
        for gate in gates:
            places.check(gate.table)
        return tuple(
            replace(task, gates=tuple(replace(gate, places=places) for gate in task.gates)) for task in self.tasks
        )


@dataclass(frozen=True)
class CancelTask:
    """End one attempt as soon as its thread comes out; one that is unknown counts as ended."""

    session_id: str
    attempt: AttemptId


@dataclass(frozen=True)
class HeartbeatRequest:
    """Asks for a `HeartbeatReport`."""

    session_id: str
    sequence: int


@dataclass(frozen=True)
class AcknowledgeReport:
    """The final report of an attempt was heard: forget it."""

    session_id: str
    attempt: AttemptId


@dataclass(frozen=True)
class OperatorEventMessage:
    """A coordinator sends an event to a source operator."""

    session_id: str
    attempt: AttemptId
    operator_id: str
    payload: bytes


@dataclass(frozen=True)
class ReleaseManager:
    """End all tasks, then the manager: the job has ended, or begins again elsewhere."""

    session_id: str
    reason: str
    is_finished: bool = False  # the job is finished: all its tasks, wherever they ran, have done their work


@dataclass(frozen=True)
class ReleasePartitions:
    """Delete these partitions and confirm: all their readers have finished. Flink: releasePartitions."""

    session_id: str
    partition_ids: tuple[str, ...]


@dataclass(frozen=True)
class TriggerCheckpoint:
    """Take a checkpoint, beginning with this task."""

    session_id: str
    attempt: AttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True)
class NotifyCheckpointComplete:
    """A checkpoint is complete. Flink: confirmCheckpoint."""

    session_id: str
    attempt: AttemptId
    checkpoint_id: int


@dataclass(frozen=True)
class NotifyCheckpointAborted:
    """A checkpoint was aborted. Flink: abortCheckpoint."""

    session_id: str
    attempt: AttemptId
    checkpoint_id: int
    latest_completed_id: int = 0


@dataclass(frozen=True)
class SampleTasks:
    """Look at what the threads of these tasks do; `TasksSampled` answers. Flink: requestThreadInfoSamples."""

    session_id: str
    request: int
    attempts: tuple[AttemptId, ...]
    sample_count: int
    interval_ms: int


@dataclass(frozen=True)
class InspectManager:
    """Asks for the log or a thread dump of the process. Flink: requestFileUploadByType, requestThreadDump."""

    session_id: str
    request: int
    subject: str  # "log" or "thread-dump"


KINDS: Final = {
    1: RegisterManager,
    2: TaskStateReport,
    3: HeartbeatReport,
    4: OperatorEventReport,
    5: ManagerLeaving,
    6: CheckpointAcknowledgement,
    7: CheckpointRefusal,
    8: EndOfDataReport,
    9: PartitionsReleased,
    16: TasksSampled,
    17: ManagerInspected,
    33: RegistrationAccepted,
    34: RegistrationRefused,
    36: CancelTask,
    37: HeartbeatRequest,
    38: AcknowledgeReport,
    39: OperatorEventMessage,
    40: ReleaseManager,
    41: TriggerCheckpoint,
    42: NotifyCheckpointComplete,
    43: NotifyCheckpointAborted,
    44: ReleasePartitions,
    45: DeployTasks,
    48: SampleTasks,
    49: InspectManager,
}
