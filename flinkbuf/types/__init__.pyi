"""The public names of flinkbuf.types, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf.types.types import TypeInformation, row_data_type
from flinkbuf.types.values import (
    Instant,
    InternalWatermark,
    JavaDate,
    LatencyMarker,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    RecordAttributes,
    Right,
    RowKind,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StreamRecord,
    Watermark,
    WatermarkStatus,
)

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
    "RowKind",
    "SqlDate",
    "SqlTime",
    "SqlTimestamp",
    "StreamRecord",
    "TypeInformation",
    "Watermark",
    "WatermarkStatus",
    "row_data_type",
]
