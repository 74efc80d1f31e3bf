"""The values that records are made of, where Python has none of its own or its own would lose something.

`Row` is a tuple with a kind of change and, if it was given some, field names. The date and time classes hold what
Java's hold. Here are the two sides of an `EITHER` and the elements of a stream. All are immutable and picklable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flinkbuf.types.date_time import (
    LONG_MAX,
    LONG_MIN,
    Instant,
    JavaDate,
    LocalDate,
    LocalDateTime,
    LocalTime,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    check_range,
)
from flinkbuf.types.row import Row, RowKind, row_class, row_classes

__all__ = [
    "Instant",
    "InternalWatermark",
    "JavaDate",
    "LatencyMarker",
    "Left",
    "LocalDate",
    "LocalDateTime",
    "LocalTime",
    "RecordAttributes",
    "Right",
    "Row",
    "RowKind",
    "SqlDate",
    "SqlTime",
    "SqlTimestamp",
    "StreamRecord",
    "Watermark",
    "WatermarkStatus",
    "row_class",
    "row_classes",
]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True)
class Left:
    """The first alternative of ``Types.EITHER``. Flink's ``Either.Left``.

    Examples
    --------
    >>> Left(5), Left(5) == Right(5)
    (Left(value=5), False)
    """

    value: object


@dataclass(frozen=True, slots=True)
class Right:
    """The second alternative of ``Types.EITHER``. Flink's ``Either.Right``."""

    value: object


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record on its way between operators, with its event time if it has one. Flink's ``StreamRecord``.

    Parameters
    ----------
    value : object
        The record.
    timestamp : int, optional
        Event time in milliseconds since 1970-01-01T00:00:00Z, any 64-bit number; None: it has none.

    Examples
    --------
    >>> StreamRecord("x"), StreamRecord("x", 5).timestamp
    (StreamRecord(value='x', timestamp=None), 5)
    """

    value: object
    timestamp: int | None = None

    def __post_init__(self) -> None:
        if self.timestamp is not None:
            check_range("timestamp", self.timestamp, LONG_MIN, LONG_MAX)


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """No record with an event time up to this one will follow. Flink's ``Watermark``.

    Parameters
    ----------
    timestamp : int
        Milliseconds since 1970-01-01T00:00:00Z; ``2**63 - 1`` is the end of all event time.
    """

    timestamp: int

    def __post_init__(self) -> None:
        check_range("timestamp", self.timestamp, LONG_MIN, LONG_MAX)


@dataclass(frozen=True, slots=True, order=True)
class InternalWatermark:
    """A watermark that says which subpartition it came from. Flink's ``InternalWatermark``.

    Parameters
    ----------
    timestamp : int
        As for `Watermark`.
    subpartition_index : int
        A 32-bit number.
    """

    timestamp: int
    subpartition_index: int

    def __post_init__(self) -> None:
        check_range("timestamp", self.timestamp, LONG_MIN, LONG_MAX)
        check_range("subpartition_index", self.subpartition_index, INT_MIN, INT_MAX)


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """A time stamp sent along with the records to see how long they take. Flink's ``LatencyMarker``.

    Parameters
    ----------
    marked_time : int
        When it was sent, milliseconds since 1970-01-01T00:00:00Z.
    operator_id : bytes
        The 16 bytes of the operator that sent it.
    subtask_index : int
        Its subtask, a 32-bit number.
    """

    marked_time: int
    operator_id: bytes
    subtask_index: int

    def __post_init__(self) -> None:
        check_range("marked_time", self.marked_time, LONG_MIN, LONG_MAX)
        check_range("subtask_index", self.subtask_index, INT_MIN, INT_MAX)
        if not isinstance(self.operator_id, bytes) or len(self.operator_id) != 16:
            raise ValueError(f"operator_id must be 16 bytes, got {self.operator_id!r}")


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Whether watermarks of a channel count at present. Flink's ``WatermarkStatus``.

    Parameters
    ----------
    status : int
        −1 idle, 0 active; or take `WatermarkStatus.IDLE` and `WatermarkStatus.ACTIVE`.

    Examples
    --------
    >>> WatermarkStatus.IDLE, WatermarkStatus.ACTIVE.is_idle
    (WatermarkStatus(status=-1), False)
    """

    status: int
    IDLE: ClassVar[WatermarkStatus]
    ACTIVE: ClassVar[WatermarkStatus]

    def __post_init__(self) -> None:
        check_range("status", self.status, -1, 0)

    @property
    def is_idle(self) -> bool:
        """True if the channel sends nothing for now and must not hold event time back."""
        return self.status == -1


WatermarkStatus.IDLE = WatermarkStatus(-1)
WatermarkStatus.ACTIVE = WatermarkStatus(0)


@dataclass(frozen=True, slots=True)
class RecordAttributes:
    """Attributes of the records that follow. Flink's ``RecordAttributes``.

    Parameters
    ----------
    is_backlog : bool
        True while the source catches up with old data, so that latency does not matter.
    """

    is_backlog: bool

    def __post_init__(self) -> None:
        if not isinstance(self.is_backlog, bool):
            raise TypeError(f"is_backlog must be a bool, got {self.is_backlog!r}")
