"""What a keyed backend leaves in files, and what a subtask of any parallelism finds there again."""

from support.worlds.plain_storage import PlainStorage

from flinkbuf.checkpoints.handles import OperatorRestore, StateHandle, TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.checkpoint.snapshot_reader import read_restore
from flinkbuf.streaming.checkpoint.snapshot_writer import write_snapshot
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.state.snapshot import OperatorSnapshot

ID = "0" * 32


def info_of(subtask=0, parallelism=1):
    return TaskInfo("job", "job", "vertex", "task", subtask, parallelism)


def restore_of(states, old_parallelism):
    """As the job master makes it where the parallelism changes."""
    found = [state.operators[0] for state in states]
    operator = tuple(each.operator or StateHandle(0) for each in found)
    return TaskRestore(
        3, (OperatorRestore(ID, old_parallelism, operator, tuple(k for each in found for k in each.keyed)),)
    )


def save(backend, location, kind="CHECKPOINT", checkpoint_id=1, storage=None, **arguments):
    return write_snapshot(
        TaskStateSnapshot(checkpoint_id, {ID: OperatorSnapshot((backend.snapshot(),))}),
        storage=storage or PlainStorage(),
        options=CheckpointOptions(kind, str(location)),
        settings=ExecutionSettings(checkpoint_memory_threshold=0),
        **arguments,
    )


def restored(states, old, subtask, new):
    return read_restore(restore_of(states, old), info_of(subtask, new), PlainStorage()).operators[ID]
