"""What a task manager is told about one task: its attempt, what it writes and where from it reads.

The user's functions are not in it: they came with the process, by vertex id. Flink: TaskDeploymentDescriptor,
ResultPartitionDeploymentDescriptor, InputGateDeploymentDescriptor, ShuffleDescriptor, ExecutionAttemptID.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkbuf.checkpoints.handles import TaskRestore
from flinkbuf.runtime.protocol.places import PartitionLocation, Places


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
    """Where one channel of a gate reads: a subpartition, and the address of the task manager that has it."""

    partition_id: str
    subpartition_index: int
    host: str
    port: int


@dataclass(frozen=True)
class GateDescriptor:
    """What the task reads through one gate: one subpartition, of the same number, of each of several partitions.

    A gate that reads all partitions of a task names their table, which all readers share: 5,000 subtasks that all read
    from each other have millions of channels. One that reads a few has their locations.
    """

    subpartition_index: int
    near: tuple[PartitionLocation, ...] = ()
    table: int | None = None  # number in `places`; None: `near` is all
    places: Places | None = field(default=None, compare=False, repr=False, metadata={"travels": False})

    @property
    def locations(self) -> tuple[PartitionLocation, ...]:
        """Return where the partitions are, by channel index."""
        if self.table is None:
            return self.near
        assert self.places is not None, "a gate whose deployment was not unpacked"
        return self.places.locations(self.table)

    @property
    def channels(self) -> tuple[ChannelDescriptor, ...]:
        """Return the channels of the gate."""
        index = self.subpartition_index
        return tuple(ChannelDescriptor(each.partition_id, index, each.host, each.port) for each in self.locations)


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
