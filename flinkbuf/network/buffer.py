"""Face of the stems buffer and buffer_builder: what the bytes of a buffer are."""

from __future__ import annotations

from enum import IntEnum

from flinkbuf._core.memory.buffer import Buffer
from flinkbuf._core.memory.buffer_builder import BufferBuilder, BufferConsumer

__all__ = ["Buffer", "BufferBuilder", "BufferConsumer", "DataType"]


class DataType(IntEnum):
    """What the bytes of a buffer are. The numbers are Flink's ``Buffer.DataType``, a byte on the wire.

    Examples
    --------
    >>> DataType(2)
    <DataType.EVENT_BUFFER: 2>
    >>> DataType.ALIGNED_CHECKPOINT_BARRIER.is_blocking_upstream
    True
    """

    NONE = 0
    DATA_BUFFER = 1
    EVENT_BUFFER = 2
    PRIORITIZED_EVENT_BUFFER = 3
    ALIGNED_CHECKPOINT_BARRIER = 4
    TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5
    RECOVERY_COMPLETION = 6
    END_OF_SEGMENT = 7
    DATA_BUFFER_WITH_CLEAR_END = 8
    END_OF_DATA = 9
    END_OF_PARTITION = 10
    RECOVERY_METADATA = 11
    ALIGNED_WATERMARK_EVENT = 12
    UNALIGNED_WATERMARK_EVENT = 13

    @property
    def is_buffer(self) -> bool:
        """Whether it holds data of records."""
        return self in (DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END)

    @property
    def is_event(self) -> bool:
        """Whether it holds an event."""
        return self is not DataType.NONE and not self.is_buffer

    @property
    def has_priority(self) -> bool:
        """Whether it overtakes what is queued."""
        return self is DataType.PRIORITIZED_EVENT_BUFFER

    @property
    def is_blocking_upstream(self) -> bool:
        """Whether the sender stops after it until consumption is resumed."""
        return self in (
            DataType.ALIGNED_CHECKPOINT_BARRIER,
            DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
            DataType.RECOVERY_COMPLETION,
            DataType.ALIGNED_WATERMARK_EVENT,
        )

    @property
    def requires_announcement(self) -> bool:
        """Whether the receiver is told of it before it can be read."""
        return self is DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
