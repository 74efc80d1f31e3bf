"""What a task reports to its runner. Frozen; called on the thread where it happens."""

from __future__ import annotations

from dataclasses import dataclass

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointMetrics
from flinkbuf.streaming.chain.operator_config import TaskInfo
from flinkbuf.streaming.task.task_state import TaskState


@dataclass(frozen=True)
class TaskEvent:
    """A report of a task."""

    info: TaskInfo


@dataclass(frozen=True)
class TaskStateChanged(TaskEvent):
    """The task is in another state; `error` says why, if it FAILED, or was stopped by another's failure."""

    state: TaskState
    error: BaseException | None = None


@dataclass(frozen=True)
class EndOfDataReached(TaskEvent):
    """All operators are finished; with checkpoints, a last one can be taken."""


@dataclass(frozen=True)
class CheckpointAcknowledged(TaskEvent):
    """The task's part of a checkpoint is written; on the thread that has written it."""

    checkpoint_id: int
    state: SubtaskState
    metrics: CheckpointMetrics


@dataclass(frozen=True)
class CheckpointDeclined(TaskEvent):
    """The task cannot take part in a checkpoint; `error` says what went wrong, if anything did."""

    checkpoint_id: int
    reason: str  # a CheckpointFailureReason by name
    error: BaseException | None = None
