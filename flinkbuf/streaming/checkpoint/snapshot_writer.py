"""The second part of a snapshot: what a task has taken references to becomes bytes on their way. Any thread.

Flink: AsyncCheckpointRunnable, CheckpointStreamWithResultProvider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from flinkbuf._core.ground.crc32 import crc32
from flinkbuf.checkpoints.handles import ChannelState, OperatorSubtaskState, SubtaskState
from flinkbuf.checkpoints.locations import SHARED, child, parent
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.state_file import SnapshotOutput
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, SnapshotTarget, never

if TYPE_CHECKING:
    from flinkbuf.checkpoints.storage import CheckpointStorage

MAX_INLINE_SIZE = 5 << 20  # of a subtask, where there is no directory: Flink's JobManagerCheckpointStorage


class SnapshotCancelledError(Exception):
    """The snapshot was cancelled while it was written."""


def write_snapshot(
    snapshot: TaskStateSnapshot,
    *,
    storage: CheckpointStorage | None,
    options: CheckpointOptions,
    settings: ExecutionSettings,
    is_cancelled: Callable[[], bool] = never,
) -> SubtaskState:
    """Write all state of a subtask and release it; whatever fails, nothing is left behind.

    Parameters
    ----------
    snapshot : TaskStateSnapshot
        What the task took references to.
    storage : CheckpointStorage or None
        Where files go; None: the job master keeps all state.
    options : CheckpointOptions
        Of the checkpoint.
    settings : ExecutionSettings
        Of the job.
    is_cancelled : callable
        Asked every few milliseconds.

    Raises
    ------
    SnapshotCancelledError
        If `is_cancelled` says so.
    OSError
        From the storage.
    TypeError, ValueError, OverflowError
        If a value cannot be written, or if there is more state than the job master keeps.
    """

    def check() -> None:
        if is_cancelled():
            raise SnapshotCancelledError(f"checkpoint {snapshot.checkpoint_id} is not wanted any more")

    files = storage if options.location else None
    output = SnapshotOutput(
        None if files is None else partial(files.open_output, options.location),
        settings.checkpoint_memory_threshold,
        limit=None if storage is not None else MAX_INLINE_SIZE,
        check=check,
    )
    open_shared = None
    if files is not None and not options.snapshot_kind.is_savepoint:
        open_shared = partial(files.open_output, child(parent(options.location), SHARED))
    target = SnapshotTarget(
        output,
        settings.checkpoint_compression,
        options.snapshot_kind,
        snapshot.checkpoint_id,
        open_shared,
        is_cancelled,
    )
    try:
        state = _write(snapshot, target)
        check()  # from here on only handles know of the files, and not which of the shared ones are new
        return state
    except InterruptedError as error:
        _abort(target)
        check()
        raise SnapshotCancelledError(str(error)) from error
    except BaseException:
        _abort(target)
        raise
    finally:
        snapshot.release()


def _abort(target: SnapshotTarget) -> None:
    target.output.abort()
    for shared in target.shared:  # most of them are whole already, and known only here
        shared.discard()


def _write(snapshot: TaskStateSnapshot, target: SnapshotTarget) -> SubtaskState:
    written = [_write_operator(operator_id, each, target) for operator_id, each in snapshot.operators.items()]
    inputs = _write_channels(snapshot.input_channels, target.output)
    outputs = _write_channels(snapshot.output_channels, target.output)
    target.output.finish()
    operators = tuple(state for state in (each() for each in written) if state is not None)
    return SubtaskState(operators, inputs(), outputs(), snapshot.is_finished)


def _write_operator(
    operator_id: str, snapshot: OperatorSnapshot, target: SnapshotTarget
) -> Callable[[], OperatorSubtaskState | None]:
    """Write one operator; the returned function is called once the output is finished."""
    try:
        place = snapshot.write_operator(target)
        keyed = [part.write(target) for part in snapshot.keyed]
    except (TypeError, ValueError, OverflowError) as error:
        error.operator_id = operator_id  # type: ignore[union-attr]  # so that the task can name it
        raise

    def state() -> OperatorSubtaskState | None:
        if place is None and not keyed:
            return None
        return OperatorSubtaskState(
            operator_id,
            None if place is None else target.output.handle(*place),
            has_lists=bool(snapshot.lists),
            has_union_lists=bool(snapshot.union_lists),
            keyed=tuple(each() for each in keyed),
            has_alike_unions=snapshot.has_alike_unions,
        )

    return state


def _write_channels(
    channels: Iterable[tuple[int, int, bytes]], output: SnapshotOutput
) -> Callable[[], tuple[ChannelState, ...]]:
    places: list[tuple[int, int, int, int, int]] = []
    for index, channel, data in channels:
        places.append((index, channel, output.position, memoryview(data).nbytes, crc32(data)))
        output.write(data)
    return lambda: tuple(ChannelState(index, channel, output.handle(*place)) for index, channel, *place in places)
