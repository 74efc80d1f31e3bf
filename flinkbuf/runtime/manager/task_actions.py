"""Events of a task executor besides what the job master and the tasks say, and the actions that it returns.

None of this travels: the shell around it (runtime/manager/task_manager.py) makes the one and performs the other, in
order, each list to its end before the next message is handled.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.messages import HeartbeatReport, Json, ManagerInspected
from flinkbuf.runtime.protocol.time_passed import TimePassed

__all__ = [
    "AskMetrics",
    "DeliverOperatorEvent",
    "DropPartitions",
    "ForgetTask",
    "InspectProcess",
    "InterruptTask",
    "KillProcess",
    "LeaveAsked",
    "LeaveProcess",
    "LinkLost",
    "NotifyTask",
    "SampleThreads",
    "SendMessage",
    "StartTask",
    "StopTask",
    "ThreadsSampled",
    "TimePassed",  # when no message of the job master waits
    "TriggerTask",
    "Warn",
]

# ---- events


@dataclass(frozen=True)
class LinkLost:
    """The connection to the job master has ended, in both directions."""

    reason: str


@dataclass(frozen=True)
class LeaveAsked:
    """The process was told to end, by the system or by a user."""

    reason: str


@dataclass(frozen=True)
class ThreadsSampled:
    """Samples of the stacks of task threads."""

    request: int
    tree: Json


# ---- actions


@dataclass(frozen=True)
class SendMessage:
    """Send a message to the job master."""

    message: object


@dataclass(frozen=True)
class AskMetrics:
    """Put the figures of all tasks into this report and send it."""

    report: HeartbeatReport


@dataclass(frozen=True)
class StartTask:
    """Start an attempt on a thread of its own."""

    descriptor: TaskDeploymentDescriptor


@dataclass(frozen=True)
class StopTask:
    """Cancel an attempt; its end is told by a `TaskStateReport`."""

    attempt: AttemptId


@dataclass(frozen=True)
class InterruptTask:
    """Raise an exception in the thread of an attempt that does not end by itself."""

    attempt: AttemptId


@dataclass(frozen=True)
class ForgetTask:
    """Free the partitions of a finished attempt: no task will read them."""

    attempt: AttemptId


@dataclass(frozen=True)
class DropPartitions:
    """Free these partitions of finished attempts: no task will read them."""

    partition_ids: tuple[str, ...]


@dataclass(frozen=True)
class DeliverOperatorEvent:
    """Give a coordinator's event to a source operator."""

    attempt: AttemptId
    operator_id: str
    payload: bytes


@dataclass(frozen=True)
class TriggerTask:
    """Take a checkpoint that begins with this task."""

    attempt: AttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True)
class NotifyTask:
    """Notify a task: checkpoint complete, or aborted."""

    attempt: AttemptId
    checkpoint_id: int
    is_complete: bool
    latest_completed_id: int = 0  # of an aborted checkpoint: the last complete one


@dataclass(frozen=True)
class SampleThreads:
    """Look at the threads of these tasks for a while; `ThreadsSampled` answers."""

    request: int
    attempts: tuple[AttemptId, ...]
    count: int
    interval_ms: int


@dataclass(frozen=True)
class InspectProcess:
    """Put into this answer what the process says of a subject, and send it."""

    answer: ManagerInspected
    subject: str


@dataclass(frozen=True)
class KillProcess:
    """Kill the process at once, since a task in it cannot be ended. The last action."""

    reason: str


@dataclass(frozen=True)
class LeaveProcess:
    """End the manager: no task is left but those that do not end, which are left behind. The last action."""

    reason: str
    left_behind: tuple[AttemptId, ...] = ()


@dataclass(frozen=True)
class Warn:
    """Log a warning that a person should read."""

    text: str
