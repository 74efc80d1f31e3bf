"""When a task of a batch job may start. Flink: InputDependencyConstraint, which newer versions do without."""

from enum import Enum


class InputDependencyConstraint(Enum):
    """How many of a task's inputs must be there before it starts."""

    ANY = 0
    ALL = 1
