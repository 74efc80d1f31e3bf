"""Apache Flink's data plane for people who write Python on Spark.

Typed records ↔ buffers (`write_buffers`, `read_buffers`), pooled memory and result partitions inside one process
(`NetworkBufferPool`, `ResultPartition`, `RecordWriter`, `InputGate`, `RecordReader`), and a Spark repartition that moves
buffers instead of pickled records (`exchange`), and asynchronous calls for many records at a time (`async_map`). Importing this module starts nothing and imports neither pyspark nor pyarrow.
"""

from flinkbuf._core.buffer_pool import LocalBufferPool, NetworkBufferPool
from flinkbuf._core.memory_segment import MemorySegment
from flinkbuf._version import __version__
from flinkbuf.async_function import CallContext, ResultFuture
from flinkbuf.async_retry import ExponentialRetry, FixedDelayRetry
from flinkbuf.async_stats import AsyncStats
from flinkbuf.buffer import Buffer, BufferBuilder, BufferConsumer, DataType
from flinkbuf.compression import BufferCompressor, BufferDecompressor
from flinkbuf.config import NetworkConfig, TlsConfig
from flinkbuf.errors import (
    AsyncCallError,
    AsyncTimeoutError,
    CancelTaskError,
    CorruptDataError,
    FlinkbufError,
    InsufficientBuffersError,
    PartitionNotFoundError,
    PeerFailedError,
    RemoteTransportError,
)
from flinkbuf.input_gate import InputGate, UnionInputGate
from flinkbuf.network import LocalChannel, NetworkEnvironment, RemoteChannel
from flinkbuf.network_metrics import NetworkMetrics
from flinkbuf.partition import ResultPartition, ResultPartitionID
from flinkbuf.partitioner import by_key
from flinkbuf.record_buffers import read_buffers, write_buffers
from flinkbuf.record_reader import RecordReader
from flinkbuf.record_writer import RecordWriter
from flinkbuf.spark.async_map import async_map
from flinkbuf.spark.exchange import exchange
from flinkbuf.spark.exchange_summary import ExchangeSummary
from flinkbuf.spark.pipelined import exchange_summaries
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
    "Buffer",
    "BufferBuilder",
    "BufferCompressor",
    "BufferConsumer",
    "BufferDecompressor",
    "CancelTaskError",
    "CorruptDataError",
    "DataType",
    "ExchangeSummary",
    "FlinkbufError",
    "InputGate",
    "Instant",
    "InsufficientBuffersError",
    "InternalWatermark",
    "JavaDate",
    "LatencyMarker",
    "Left",
    "LocalBufferPool",
    "LocalChannel",
    "LocalDate",
    "LocalDateTime",
    "LocalTime",
    "MemorySegment",
    "NetworkBufferPool",
    "NetworkConfig",
    "NetworkEnvironment",
    "NetworkMetrics",
    "PartitionNotFoundError",
    "PeerFailedError",
    "RecordAttributes",
    "RecordReader",
    "RecordWriter",
    "RemoteChannel",
    "RemoteTransportError",
    "ResultPartition",
    "ResultPartitionID",
    "Right",
    "Row",
    "RowKind",
    "SqlDate",
    "SqlTime",
    "SqlTimestamp",
    "StreamRecord",
    "TlsConfig",
    "TypeInformation",
    "Types",
    "UnionInputGate",
    "Watermark",
    "WatermarkStatus",
    "__version__",
    "as_type",
    "by_key",
    "exchange",
    "exchange_summaries",
    "read_buffers",
    "write_buffers",
]
