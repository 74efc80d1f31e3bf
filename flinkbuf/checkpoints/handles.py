"""Where state lies: the handles that tasks report to the job master, and get back when they begin from them.

Frozen, and plain enough to travel in messages and to stand in ``_metadata``; the state itself stays in files unless it
is small. Flink: StateObject, KeyGroupsStateHandle, OperatorSubtaskState, TaskStateSnapshot, OperatorState.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class StateHandle:
    """Bytes of state: a stretch of a file, or the bytes themselves. Flink: StreamStateHandle.

    Attributes
    ----------
    size : int
        Bytes.
    checksum : int
        CRC 32 of them; 0 where each section of what they hold has its own.
    path : str
        Of the file, as `CheckpointStorage` knows it: below the checkpoint directory of the job, or absolute. Empty:
        the bytes are `data`.
    offset : int
        Where they begin in the file.
    data : bytes
    """

    size: int
    checksum: int = 0
    path: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass(frozen=True)
class SharedFile:
    """A file of a state backend that several checkpoints may use; deleted when no checkpoint uses it any more."""

    name: str  # the backend's name of the file
    handle: StateHandle


@dataclass(frozen=True)
class KeyedStateHandle:
    """The keyed state and timers of one operator of one subtask. Flink: KeyedStateHandle."""

    first_key_group: int
    last_key_group: int
    max_parallelism: int
    handle: StateHandle  # has an index of its key groups, so that some can be read alone
    backend: str = "hashmap"  # whose own form it has; "hashmap" is that of savepoints, too, and every backend reads it
    shared_files: tuple[SharedFile, ...] = ()


@dataclass(frozen=True)
class OperatorSubtaskState:
    """All state of one operator of one subtask. Flink: OperatorSubtaskState."""

    operator_id: str  # 32 hex digits
    operator: StateHandle | None = None  # lists, union lists and broadcast states
    has_lists: bool = False  # of the kind that is dealt out anew at another parallelism
    has_union_lists: bool = False
    keyed: tuple[KeyedStateHandle, ...] = ()
    has_alike_unions: bool = False  # of its union lists each subtask's part says all: none is missed that has gone


@dataclass(frozen=True)
class ChannelState:
    """Buffers that were under way in one channel at an unaligned checkpoint, in their order."""

    index: int  # of the gate or of the partition of the task
    channel: int  # of the gate, or subpartition
    handle: StateHandle


@dataclass(frozen=True)
class SubtaskState:
    """What a subtask leaves behind at a checkpoint. Flink: TaskStateSnapshot."""

    operators: tuple[OperatorSubtaskState, ...] = ()
    input_channels: tuple[ChannelState, ...] = ()
    output_channels: tuple[ChannelState, ...] = ()
    is_finished: bool = False  # all its operators had been finished

    def handles(self) -> Iterator[StateHandle]:
        """Yield all handles of the subtask itself; those of shared files are not among them."""
        for operator in self.operators:
            if operator.operator is not None:
                yield operator.operator
            yield from (keyed.handle for keyed in operator.keyed)
        yield from (channel.handle for channel in (*self.input_channels, *self.output_channels))

    def shared_files(self) -> Iterator[SharedFile]:
        """Yield the files that other checkpoints may use, too."""
        for operator in self.operators:
            for keyed in operator.keyed:
                yield from keyed.shared_files

    @property
    def size(self) -> int:
        """Return the bytes of all state, shared files included."""
        return sum(each.size for each in self.handles()) + sum(each.handle.size for each in self.shared_files())


@dataclass(frozen=True)
class OperatorRestore:
    """What one operator of one subtask begins with: parts of several old subtasks after a rescale."""

    operator_id: str
    old_parallelism: int
    operator: tuple[
        StateHandle, ...
    ] = ()  # of old subtasks in their order; if there is one alone, it is this subtask's
    keyed: tuple[KeyedStateHandle, ...] = ()  # each has some of the subtask's key groups


@dataclass(frozen=True)
class TaskRestore:
    """What a subtask begins with. Flink: JobManagerTaskRestore."""

    checkpoint_id: int
    operators: tuple[OperatorRestore, ...] = ()
    input_channels: tuple[ChannelState, ...] = ()
    output_channels: tuple[ChannelState, ...] = ()
    is_finished: bool = False  # the subtask only has to report its end


# ---- a whole checkpoint: what `_metadata` holds


@dataclass(frozen=True)
class OperatorInCheckpoint:
    """One operator of the job that took the checkpoint."""

    operator_id: str
    name: str
    uid: str | None = None
    coordinator: StateHandle | None = None  # the state of its source's enumerator


@dataclass(frozen=True)
class VertexInCheckpoint:
    """One vertex of the job that took the checkpoint, and the state of its subtasks. Flink: OperatorState."""

    vertex_id: str
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorInCheckpoint, ...]  # head first
    subtasks: tuple[SubtaskState | None, ...]  # by index; None: the subtask had none


@dataclass(frozen=True)
class CheckpointMetadata:
    """All that a job can begin from. Flink: CheckpointMetadata, CompletedCheckpoint."""

    checkpoint_id: int
    timestamp_ms: int  # when it was triggered
    job_id: str
    job_name: str
    is_savepoint: bool
    vertices: tuple[VertexInCheckpoint, ...]

    def subtasks(self) -> Iterator[SubtaskState]:
        """Yield the state of all subtasks that have any."""
        for vertex in self.vertices:
            yield from (each for each in vertex.subtasks if each is not None)
