"""How a task's state goes to storage, and comes back.

Flink: CheckpointStreamFactory of a task, TaskStateManagerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from flinkbuf.checkpoints.handles import StateHandle, SubtaskState, TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot

if TYPE_CHECKING:
    from flinkbuf.checkpoints.storage import CheckpointStorage


class WriteSnapshot(Protocol):
    """Makes handles of a snapshot; on the snapshot thread. Releases the snapshot, whatever happens."""

    def __call__(
        self,
        snapshot: TaskStateSnapshot,
        *,
        storage: CheckpointStorage | None,
        options: CheckpointOptions,
        settings: ExecutionSettings,
        is_cancelled: Callable[[], bool],
    ) -> SubtaskState:
        """Return where the state lies now; raises, having deleted what it wrote, soon after it was cancelled."""


class ReadRestore(Protocol):
    """Makes a snapshot of handles; on the task's thread."""

    def __call__(self, restore: TaskRestore, info: TaskInfo, storage: CheckpointStorage | None) -> TaskStateSnapshot:
        """Return what the task's operators begin with."""


class TaskStorage:
    """The storage of one task.

    Parameters
    ----------
    info : TaskInfo
    settings : ExecutionSettings
    storage : CheckpointStorage or None
        None: the job master keeps the state.
    write_snapshot, read_restore : callable
    """

    def __init__(
        self,
        info: TaskInfo,
        settings: ExecutionSettings,
        storage: CheckpointStorage | None,
        write_snapshot: WriteSnapshot,
        read_restore: ReadRestore,
    ) -> None:
        self._info = info
        self._settings = settings
        self._storage = storage
        self._write_snapshot = write_snapshot
        self._read_restore = read_restore

    def read(self, restore: TaskRestore | TaskStateSnapshot | None) -> TaskStateSnapshot | None:
        """Return what the task's operators begin with; None: with nothing."""
        if restore is None or isinstance(restore, TaskStateSnapshot):
            return restore
        paths = [handle.path for handle in _handles(restore) if handle.path]
        return self._read_restore(restore, self._info, self._storage_for(paths[0] if paths else ""))

    def _storage_for(self, location: str) -> CheckpointStorage | None:
        """Return the job's storage; where the job has none, that of the savepoint's directory."""
        return storage_of(location) if self._storage is None and location else self._storage

    def write(
        self, snapshot: TaskStateSnapshot, options: CheckpointOptions, is_cancelled: Callable[[], bool]
    ) -> SubtaskState:
        """Write a snapshot and release it; on the snapshot thread."""
        storage = self._storage_for(options.location) if options.location else None
        return self._write_snapshot(
            snapshot, storage=storage, options=options, settings=self._settings, is_cancelled=is_cancelled
        )

    def discard(self, state: SubtaskState) -> None:
        """Delete state of which no handle was passed on; on the snapshot thread."""
        handles = [handle for handle in state.handles() if handle.path]
        if handles:
            storage = self._storage_for(handles[0].path)
            assert storage is not None, "it wrote the files"
            storage.delete(handles)


def _handles(restore: TaskRestore) -> Iterator[StateHandle]:
    for operator in restore.operators:
        yield from operator.operator
        for keyed in operator.keyed:
            yield keyed.handle
            yield from (shared.handle for shared in keyed.shared_files)
    yield from (channel.handle for channel in (*restore.input_channels, *restore.output_channels))
