"""What becomes of checkpoints when a job ends. Flink: ExternalizedCheckpointRetention."""

from enum import Enum


class ExternalizedCheckpointRetention(Enum):
    """When a checkpoint is deleted."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
