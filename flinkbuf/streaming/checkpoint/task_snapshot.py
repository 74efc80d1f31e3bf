"""What a task leaves behind at a checkpoint, and starts from. Flink: TaskStateSnapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot


@dataclass(frozen=True)
class TaskStateSnapshot:
    """The state of all operators of one subtask.

    Attributes
    ----------
    checkpoint_id : int
    operators : Mapping
        From operator id (32 hex digits) to its `OperatorSnapshot`.
    input_channels, output_channels : sequence of (int, int, bytes)
        Buffers that were under way at an unaligned checkpoint: index of the gate or partition, channel, and bytes.
    is_finished : bool
        All operators had been finished: a task that starts from this has nothing to do but to say so.
    """

    checkpoint_id: int
    operators: Mapping[str, OperatorSnapshot] = field(default_factory=dict)
    is_finished: bool = False
    input_channels: Sequence[tuple[int, int, bytes]] = ()
    output_channels: Sequence[tuple[int, int, bytes]] = ()

    def release(self) -> None:
        """Release the state once written, or given up: operators may write into their tables again. Any thread."""
        for snapshot in self.operators.values():
            snapshot.release()
