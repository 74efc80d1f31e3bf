"""Why a checkpoint fails: the reasons that tasks and the job master send each other, by name.

Flink: CheckpointFailureReason, CheckpointFailureManager.checkFailureAgainstCounter.
"""

from __future__ import annotations

from enum import Enum


class CheckpointFailureReason(Enum):
    """The reason of a failure; its value is the text for people.

    Examples
    --------
    >>> CheckpointFailureReason["CHECKPOINT_EXPIRED"].value
    'it was not complete in time'
    >>> CheckpointFailureReason.CHECKPOINT_EXPIRED.counts, CheckpointFailureReason.CHECKPOINT_SUBSUMED.counts
    (True, False)
    """

    # before it begins
    PERIODIC_SCHEDULER_SHUTDOWN = "no checkpoints are triggered any more"
    TOO_MANY_CHECKPOINT_REQUESTS = "too many checkpoints are asked for"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "the last one ended less than the minimum pause ago"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "not all tasks that take part are running"
    TRIGGER_CHECKPOINT_FAILURE = "it could not be triggered"
    BLOCKING_OUTPUT_EXIST = "a task has a blocking output"
    # what tasks decline with
    CHECKPOINT_DECLINED = "a task declined it"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "a task was not running"
    CHECKPOINT_DECLINED_TASK_CLOSING = "a task was about to end"
    CHECKPOINT_DECLINED_SUBSUMED = "a task saw the barrier of a newer one before it had all of its own"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "a task before this one gave it up"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "an input of a task ended"
    CHECKPOINT_ASYNC_EXCEPTION = "the state of a task could not be written"
    # at the job master
    IO_EXCEPTION = "reading or writing failed"
    CHECKPOINT_EXPIRED = "it was not complete in time"
    CHECKPOINT_SUBSUMED = "a newer one was complete first"
    CHECKPOINT_COORDINATOR_SHUTDOWN = "the job ends"
    CHECKPOINT_COORDINATOR_SUSPEND = "the job takes none for now"
    JOB_FAILURE = "the job failed"
    JOB_FAILOVER_REGION = "a part of the job is restarted"
    TASK_FAILURE = "a task failed"
    TASK_CHECKPOINT_FAILURE = "a task failed while it took it"
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = "a task could not be told of it"
    FINALIZE_CHECKPOINT_FAILURE = "its metadata could not be written"

    @classmethod
    def named(cls, name: str) -> CheckpointFailureReason:
        """Return the reason of this name; an unknown name becomes the reason that a task declined."""
        return cls.__members__.get(name, cls.CHECKPOINT_DECLINED)

    @property
    def counts(self) -> bool:
        """Return whether the failure counts towards those a job tolerates; the others have causes elsewhere."""
        return self in _COUNTED


_COUNTED = frozenset(
    {
        CheckpointFailureReason.CHECKPOINT_DECLINED,
        CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        CheckpointFailureReason.CHECKPOINT_EXPIRED,
        CheckpointFailureReason.IO_EXCEPTION,
    }
)
