"""What a task begins with, out of a checkpoint. Flink: StreamTaskStateInitializer, TaskStateManager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkbuf.checkpoints.handles import ChannelState, KeyedStateHandle, OperatorRestore, StateHandle, TaskRestore
from flinkbuf.checkpoints.state_file import KEYED, OpenInput, Region
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.chain.operator_config import TaskInfo
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.state.rocksdb_snapshot import RocksDbSnapshot
from flinkbuf.streaming.state.snapshot import KeyedPart, KeyedSnapshot, OperatorSnapshot, redistribute

if TYPE_CHECKING:
    from flinkbuf.checkpoints.storage import CheckpointStorage


def read_restore(restore: TaskRestore, info: TaskInfo, storage: CheckpointStorage | None) -> TaskStateSnapshot:
    """Return the state of all operators of a subtask: what belongs to keys is read when they ask for it.

    Parameters
    ----------
    restore : TaskRestore
        Where the state lies.
    info : TaskInfo
        Which subtask it is now.
    storage : CheckpointStorage or None
        Reads the files; None: the bytes are in the handles.

    Raises
    ------
    CorruptDataError
        If the state is damaged; the message names file and byte.
    OSError
        From the storage.
    """
    open_input = None if storage is None else storage.open_input
    return TaskStateSnapshot(
        restore.checkpoint_id,
        {each.operator_id: _read_operator(each, info, open_input) for each in restore.operators},
        restore.is_finished,
        [_read_channel(each, storage) for each in restore.input_channels],
        [_read_channel(each, storage) for each in restore.output_channels],
    )


def _read_operator(restore: OperatorRestore, info: TaskInfo, open_input: OpenInput | None) -> OperatorSnapshot:
    """A subtask that had no state stands as a handle of no bytes."""
    old = [
        OperatorSnapshot.read_operator(_checked(handle, open_input), open_input) if handle.size else OperatorSnapshot()
        for handle in restore.operator
    ]
    if len(old) == 1 and restore.old_parallelism == info.parallelism:
        own = old[0]
    else:
        own = redistribute(old, info.parallelism, info.subtask_index)
    keyed: tuple[KeyedPart, ...] = tuple(_read_keyed(handle, open_input) for handle in restore.keyed)
    return OperatorSnapshot(keyed, own.lists, own.union_lists, own.broadcasts)


def _read_keyed(handle: KeyedStateHandle, open_input: OpenInput | None) -> KeyedPart:
    _checked(handle.handle, open_input)
    if handle.backend == "rocksdb":
        return RocksDbSnapshot(handle, open_input)
    return KeyedSnapshot(Region(handle.handle, open_input, KEYED))


def _read_channel(state: ChannelState, storage: CheckpointStorage | None) -> tuple[int, int, bytes]:
    handle = state.handle
    if storage is not None:
        return state.index, state.channel, storage.read(handle)
    _checked(handle, None)
    if len(handle.data) != handle.size:
        raise CorruptDataError(f"the state of channel {state.channel} has {len(handle.data)} bytes, not {handle.size}")
    return state.index, state.channel, handle.data


def _checked(handle: StateHandle, open_input: OpenInput | None) -> StateHandle:
    if handle.path and open_input is None:
        raise ValueError(
            f"the state lies in {handle.path}, but this job has no checkpoint directory to read it through: set "
            f"execution.checkpointing.dir"
        )
    return handle
