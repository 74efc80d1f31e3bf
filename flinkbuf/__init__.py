"""Apache Flink's data plane for people who write Python on Spark.

Typed records ↔ buffers (`write_buffers`, `read_buffers`), pooled memory and result partitions inside one process
(`NetworkBufferPool`, `ResultPartition`, `RecordWriter`, `InputGate`, `RecordReader`), and a Spark repartition that moves
buffers instead of pickled records (`exchange`), and asynchronous calls for many records at a time (`async_map`). Importing this module starts nothing and imports neither pyspark nor pyarrow.
"""

from flinkbuf._version import __version__
from flinkbuf.async_function import CallContext, ResultFuture
from flinkbuf.async_retry import ExponentialRetry, FixedDelayRetry
from flinkbuf.async_stats import AsyncStats
from flinkbuf.buffer import Buffer, BufferBuilder, BufferConsumer, DataType
from flinkbuf._core.buffer_pool import LocalBufferPool, NetworkBufferPool
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import AsyncCallError, AsyncTimeoutError, CancelTaskError, CorruptDataError, FlinkbufError, InsufficientBuffersError
from flinkbuf.input_gate import InputGate
from flinkbuf._core.memory_segment import MemorySegment
from flinkbuf.partition import ResultPartition
from flinkbuf.partitioner import by_key
from flinkbuf.record_buffers import read_buffers, write_buffers
from flinkbuf.record_reader import RecordReader
from flinkbuf.record_writer import RecordWriter
from flinkbuf.spark.async_map import async_map
from flinkbuf.spark.exchange import exchange
from flinkbuf.types import TypeInformation, Types, as_type
from flinkbuf.values import (
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
    Row,
    RowKind,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StreamRecord,
    Watermark,
    WatermarkStatus,
)

__all__ = [
    "Buffer", "BufferBuilder", "BufferConsumer", "CancelTaskError", "CorruptDataError", "DataType", "FlinkbufError",
    "InputGate", "Instant", "InsufficientBuffersError", "InternalWatermark", "JavaDate", "LatencyMarker", "Left",
    "LocalBufferPool", "LocalDate", "LocalDateTime", "LocalTime", "MemorySegment", "NetworkBufferPool", "NetworkConfig",
    "RecordAttributes", "RecordReader", "RecordWriter", "ResultPartition", "Right", "Row", "RowKind", "SqlDate", "SqlTime",
    "SqlTimestamp", "StreamRecord", "TypeInformation", "Types", "Watermark", "WatermarkStatus", "__version__", "as_type",
    "by_key", "exchange", "read_buffers", "write_buffers",
]  # fmt: skip
