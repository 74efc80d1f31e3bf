"""Why a checkpoint came to nothing. Flink: CheckpointFailureReason, and the rule of CheckpointFailureManager."""

from __future__ import annotations

from enum import Enum


class CheckpointFailureReason(Enum):
    """What kept a checkpoint from being made.

    Attributes
    ----------
    message : str
    is_pre_flight : bool
        No task had been told of it.
    counts : bool
        It counts against the number of failures that a job puts up with.

    Examples
    --------
    >>> reason = CheckpointFailureReason.named("CHECKPOINT_EXPIRED")
    >>> reason.message, reason.is_pre_flight, reason.counts
    ('it was not complete in time', False, True)
    >>> CheckpointFailureReason.named("SOMETHING_NEW").name
    'CHECKPOINT_DECLINED'
    """

    PERIODIC_SCHEDULER_SHUTDOWN = ("periodic checkpoints have been stopped", True)
    TOO_MANY_CONCURRENT_CHECKPOINTS = ("as many checkpoints are under way as are allowed", True)
    TOO_MANY_CHECKPOINT_REQUESTS = ("too many checkpoints have been asked for and wait", True)
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = ("the last checkpoint is too young", True)
    NOT_ALL_REQUIRED_TASKS_RUNNING = ("not all tasks run that it needs", True)
    IO_EXCEPTION = ("its files could not be written", True, True)
    BLOCKING_OUTPUT_EXIST = ("a task writes for readers that begin when it has ended", True)
    CHECKPOINT_COORDINATOR_SHUTDOWN = ("the job has come to its end", True)
    CHECKPOINT_COORDINATOR_SUSPEND = ("the job takes no checkpoints for now", False)
    CHECKPOINT_ASYNC_EXCEPTION = ("a task could not write its state", False, True)
    CHECKPOINT_EXPIRED = ("it was not complete in time", False, True)
    CHECKPOINT_SUBSUMED = ("a later one was complete first", False)
    CHECKPOINT_DECLINED = ("a task declined it", False, True)
    CHECKPOINT_DECLINED_TASK_NOT_READY = ("a task did not run", False)
    CHECKPOINT_DECLINED_TASK_CLOSING = ("a task had come to its end", False)
    CHECKPOINT_DECLINED_TASK_NOT_CHECKPOINTING = ("a task cannot take checkpoints", False)
    CHECKPOINT_DECLINED_SUBSUMED = ("a task heard of a later one first", False)
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = ("a task before this one gave it up", False)
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = ("an input of a task had come to its end", False)
    JOB_FAILURE = ("the job has failed", False)
    JOB_FAILOVER_REGION = ("tasks begin again", False)
    TASK_CHECKPOINT_FAILURE = ("a task failed over it", False)
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = ("a task could not be told of it", False)
    FINALIZE_CHECKPOINT_FAILURE = ("its metadata could not be written", False)
    TRIGGER_CHECKPOINT_FAILURE = ("it could not be begun", False)

    def __init__(self, message: str, is_pre_flight: bool, counts: bool = False) -> None:
        self.message = message
        self.is_pre_flight = is_pre_flight
        self.counts = counts

    @classmethod
    def named(cls, name: str) -> CheckpointFailureReason:
        """Return the one with this name; a name that nobody knows says only that a task declined."""
        return cls.__members__.get(name, cls.CHECKPOINT_DECLINED)
