"""The public names of flinkbuf, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf._core.memory.local_buffer_pool import LocalBufferPool, NetworkBufferPool
from flinkbuf._core.memory.memory_segment import MemorySegment
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf._version import __version__
from flinkbuf.async_io.function import CallContext, CompletedTwiceError, ResultFuture
from flinkbuf.async_io.retry import ExponentialRetry, FixedDelayRetry
from flinkbuf.async_io.stats import AsyncStats, SkippedRecord
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
from flinkbuf.network.buffer import Buffer, BufferBuilder, BufferConsumer, DataType
from flinkbuf.network.compression import BufferCompressor, BufferDecompressor
from flinkbuf.network.environment import LocalChannel, NetworkEnvironment, RemoteChannel
from flinkbuf.network.events import (
    AlignmentType,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    EndOfPartition,
    EndOfSegment,
    EndOfSuperstep,
    Event,
    EventAnnouncement,
    EventRegistry,
    RecoveryMetadata,
    SnapshotType,
    StopMode,
    SubtaskConnectionDescriptor,
    UserEvent,
    WatermarkEvent,
)
from flinkbuf.network.input_gate import InputGate, UnionInputGate
from flinkbuf.network.io_manager import IOManager
from flinkbuf.network.metrics import NetworkMetrics
from flinkbuf.network.partition import ResultPartition, ResultPartitionID
from flinkbuf.network.partition_file import PartitionFile
from flinkbuf.records.binary_column import deserialize_array, deserialize_batch, serialize_batch
from flinkbuf.records.partitioner import by_key
from flinkbuf.records.range_partitioner import by_range
from flinkbuf.records.record_buffers import read_batches, read_buffers, write_buffers
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.spark.async_map.async_map import async_map
from flinkbuf.spark.data_source.registration import register_data_source
from flinkbuf.spark.exchange.exchange import exchange
from flinkbuf.spark.exchange.pipelined import exchange_summaries
from flinkbuf.spark.exchange.summary import ExchangeSummary
from flinkbuf.spark.frames.column_functions import from_flink, to_flink
from flinkbuf.types.types import TypeInformation, Types, as_type, row_data_type
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
    "AlignmentType",
    "AsyncCallError",
    "AsyncStats",
    "AsyncTimeoutError",
    "Buffer",
    "BufferBuilder",
    "BufferCompressor",
    "BufferConsumer",
    "BufferDecompressor",
    "CallContext",
    "CancelCheckpointMarker",
    "CancelTaskError",
    "CheckpointBarrier",
    "CompletedTwiceError",
    "CorruptDataError",
    "DataType",
    "EndOfData",
    "EndOfInputChannelState",
    "EndOfOutputChannelState",
    "EndOfPartition",
    "EndOfSegment",
    "EndOfSuperstep",
    "Event",
    "EventAnnouncement",
    "EventRegistry",
    "ExchangeSummary",
    "ExponentialRetry",
    "FixedDelayRetry",
    "FlinkbufError",
    "IOManager",
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
    "PartitionFile",
    "PartitionNotFoundError",
    "PeerFailedError",
    "ReadBufferPool",
    "RecordAttributes",
    "RecordReader",
    "RecordWriter",
    "RecoveryMetadata",
    "RemoteChannel",
    "RemoteTransportError",
    "ResultFuture",
    "ResultPartition",
    "ResultPartitionID",
    "Right",
    "Row",
    "RowKind",
    "SkippedRecord",
    "SnapshotType",
    "SqlDate",
    "SqlTime",
    "SqlTimestamp",
    "StopMode",
    "StreamRecord",
    "SubtaskConnectionDescriptor",
    "TlsConfig",
    "TypeInformation",
    "Types",
    "UnionInputGate",
    "UserEvent",
    "Watermark",
    "WatermarkEvent",
    "WatermarkStatus",
    "__version__",
    "as_type",
    "async_map",
    "by_key",
    "by_range",
    "deserialize_array",
    "deserialize_batch",
    "exchange",
    "exchange_summaries",
    "from_flink",
    "read_batches",
    "read_buffers",
    "register_data_source",
    "row_data_type",
    "serialize_batch",
    "to_flink",
    "write_buffers",
]
