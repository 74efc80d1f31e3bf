"""What a task manager is told about one task: its attempt, what it writes and where from it reads.

The user's functions are not in it: they came with the process, by vertex id. Flink: TaskDeploymentDescriptor,
ResultPartitionDeploymentDescriptor, InputGateDeploymentDescriptor, ShuffleDescriptor, ExecutionAttemptID.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkbuf.checkpoints.handles import TaskRestore


@dataclass(frozen=True, order=True)
class AttemptId:
    """One try at running one subtask; a restarted subtask has the next number."""

    vertex_id: str  # 32 hex digits
    subtask_index: int
    attempt_number: int

    def __str__(self) -> str:
        return f"{self.vertex_id}_{self.subtask_index}_{self.attempt_number}"


@dataclass(frozen=True)
class PartitionDescriptor:
    """A result partition that the task writes."""

    partition_id: str  # 120 hex digits; another one in each attempt, so no reader gets an old attempt's data
    subpartition_count: int
    type: str = "PIPELINED_BOUNDED"


@dataclass(frozen=True)
class ChannelDescriptor:
    """Where one channel of a gate reads: a subpartition, and the task manager that has it."""

    partition_id: str
    subpartition_index: int
    manager_id: str  # the reader's own: the channel is local
    host: str
    port: int


@dataclass(frozen=True)
class PartitionLocation:
    """A result partition, and the task manager that has it. Flink: ShuffleDescriptor."""

    partition_id: str
    manager_id: str
    host: str
    port: int


@dataclass(frozen=True)
class GateDescriptor:
    """What the task reads through one gate, by channel index.

    A thousand subtasks that all read from each other have a quarter of a million channels: those that read the same
    partitions share one tuple of locations.
    """

    locations: tuple[PartitionLocation, ...]
    subpartition_indexes: tuple[int, ...]

    @classmethod
    def of(cls, channels: Iterable[ChannelDescriptor]) -> GateDescriptor:
        """Return the gate with these channels."""
        known = tuple(channels)
        locations = (PartitionLocation(each.partition_id, each.manager_id, each.host, each.port) for each in known)
        return cls(tuple(locations), tuple(each.subpartition_index for each in known))

    @property
    def channels(self) -> tuple[ChannelDescriptor, ...]:
        """Return the channels of the gate."""
        return tuple(
            ChannelDescriptor(where.partition_id, index, where.manager_id, where.host, where.port)
            for where, index in zip(self.locations, self.subpartition_indexes, strict=True)
        )


@dataclass(frozen=True)
class TaskDeploymentDescriptor:
    """All that a task manager needs to start one attempt of one subtask."""

    attempt: AttemptId
    task_name: str
    parallelism: int
    max_parallelism: int
    slot_index: int  # of its task manager
    partitions: tuple[PartitionDescriptor, ...]  # by partition index
    gates: tuple[GateDescriptor, ...]  # by gate index
    restore: TaskRestore | None = None  # what it begins with; None: with nothing
    epoch: int = 1  # epoch of the job master that deploys the task: counts takeovers of the job
