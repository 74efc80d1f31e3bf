"""What a job promises after a failure. Flink: CheckpointingMode."""

from enum import Enum


class CheckpointingMode(Enum):
    """How often a record may count in state."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
