"""What a task leaves behind at a checkpoint, and starts from. Flink: TaskStateSnapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TaskStateSnapshot:
    """The state of all operators of one subtask.

    Attributes
    ----------
    checkpoint_id : int
    operators : Mapping
        From operator id (32 hex digits) to its `OperatorSnapshot`.
    is_finished : bool
        All operators had been finished: a task that starts from this has nothing to do but to say so.
    """

    checkpoint_id: int
    operators: Mapping[str, Any] = field(default_factory=dict)
    is_finished: bool = False
