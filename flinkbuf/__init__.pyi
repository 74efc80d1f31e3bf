"""The public names of flinkbuf, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf import async_io as async_io
from flinkbuf import config as config
from flinkbuf import errors as errors
from flinkbuf import events as events
from flinkbuf import network as network
from flinkbuf import spark as spark
from flinkbuf import types as types
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.memory.memory_segment import MemorySegment
from flinkbuf._core.record.record_deserializer import RecordDeserializer
from flinkbuf._core.record.record_serializer import RecordSerializer
from flinkbuf._version import __version__
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import FlinkbufError
from flinkbuf.network.environment import NetworkEnvironment
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition
from flinkbuf.records.binary_column import deserialize_array, deserialize_batch, serialize_batch
from flinkbuf.records.partitioner import by_key
from flinkbuf.records.range_partitioner import by_range
from flinkbuf.records.record_buffers import read_batches, read_buffers, write_buffers
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.spark.async_map.async_map import async_map
from flinkbuf.spark.data_source.registration import register_data_source
from flinkbuf.spark.exchange.exchange import exchange
from flinkbuf.spark.frames.column_functions import from_flink, to_flink
from flinkbuf.spark.groups.apply_in_arrow import apply_in_arrow
from flinkbuf.spark.streams.transform_with_state import transform_with_state
from flinkbuf.types.types import Types, as_type
from flinkbuf.types.values import Row

__all__ = [
    "FlinkbufError",
    "InputGate",
    "MemorySegment",
    "NetworkBufferPool",
    "NetworkConfig",
    "NetworkEnvironment",
    "RecordDeserializer",
    "RecordReader",
    "RecordSerializer",
    "RecordWriter",
    "ResultPartition",
    "Row",
    "Types",
    "__version__",
    "apply_in_arrow",
    "as_type",
    "async_map",
    "by_key",
    "by_range",
    "deserialize_array",
    "deserialize_batch",
    "exchange",
    "from_flink",
    "read_batches",
    "read_buffers",
    "register_data_source",
    "serialize_batch",
    "to_flink",
    "transform_with_state",
    "write_buffers",
]
