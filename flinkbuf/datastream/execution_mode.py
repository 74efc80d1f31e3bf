"""Streams without end, or data of which all is there. Flink: RuntimeExecutionMode."""

from enum import Enum


class RuntimeExecutionMode(Enum):
    """Which of the two a program is run as."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
