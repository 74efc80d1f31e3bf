"""Apache Flink's data plane for people who write Python on Spark.

Typed records ↔ buffers (`write_buffers`, `read_buffers`), pooled memory and result partitions inside one process
(`NetworkBufferPool`, `ResultPartition`, `RecordWriter`, `InputGate`, `RecordReader`), a Spark repartition that moves
buffers instead of pickled records (`exchange`), and asynchronous calls for many records at a time (`async_map`).

Importing this module starts nothing and imports nothing else: a public name brings its module when it is first used.
"""

import os
import sys
import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES

from flinkbuf._version import __version__ as __version__
from flinkbuf.lazy_names import bring
from flinkbuf.moved_modules import MovedModules

_folder = os.path.dirname(os.path.abspath(__file__))
if not any(
    os.path.exists(os.path.join(_folder, "_core", "memory", f"buffer{suffix}")) for suffix in EXTENSION_SUFFIXES
):
    raise ImportError(
        f"{_folder} is flinkbuf's source, which is not built for this Python: start Python in another directory to use "
        f"an installed flinkbuf, or build this one with: pip install -e {os.path.dirname(_folder)}"
    )
del _folder

sys.meta_path.append(MovedModules)

# Where each public name lives. `__init__.pyi` says the same to type checkers; a test compares the two.
_NAMES = {
    "flinkbuf._core.memory.local_buffer_pool": "NetworkBufferPool",
    "flinkbuf._core.memory.memory_segment": "MemorySegment",
    "flinkbuf._core.record.record_deserializer": "RecordDeserializer",
    "flinkbuf._core.record.record_serializer": "RecordSerializer",
    "flinkbuf.config": "NetworkConfig",
    "flinkbuf.errors": "FlinkbufError",
    "flinkbuf.network.environment": "NetworkEnvironment",
    "flinkbuf.network.input_gate": "InputGate",
    "flinkbuf.network.partition": "ResultPartition",
    "flinkbuf.records.binary_column": "deserialize_array deserialize_batch serialize_batch",
    "flinkbuf.records.partitioner": "by_key",
    "flinkbuf.records.range_partitioner": "by_range",
    "flinkbuf.records.record_buffers": "read_batches read_buffers write_buffers",
    "flinkbuf.records.record_reader": "RecordReader",
    "flinkbuf.records.record_writer": "RecordWriter",
    "flinkbuf.spark.async_map.async_map": "async_map",
    "flinkbuf.spark.data_source.registration": "register_data_source",
    "flinkbuf.spark.exchange.exchange": "exchange",
    "flinkbuf.spark.frames.column_functions": "from_flink to_flink",
    "flinkbuf.spark.groups.apply_in_arrow": "apply_in_arrow",
    "flinkbuf.spark.streams.transform_with_state": "transform_with_state",
    "flinkbuf.types.types": "Types as_type",
    "flinkbuf.types.values": "Row",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

# What is brought whole: the rest of the public names, by subject.
_SUBJECTS = ("async_io", "config", "errors", "events", "network", "spark", "types")

# Names that stood here once, by the subject that has them.
_MOVED = {
    "async_io": (
        "AsyncStats CallContext CompletedTwiceError ExponentialRetry FixedDelayRetry ResultFuture SkippedRecord"
    ),
    "errors": (
        "AsyncCallError AsyncTimeoutError CancelTaskError CorruptDataError InsufficientBuffersError "
        "PartitionNotFoundError PeerFailedError RemoteTransportError"
    ),
    "events": (
        "AlignmentType CancelCheckpointMarker CheckpointBarrier EndOfData EndOfInputChannelState "
        "EndOfOutputChannelState EndOfPartition EndOfSegment EndOfSuperstep Event EventAnnouncement EventRegistry "
        "RecoveryMetadata SnapshotType StopMode SubtaskConnectionDescriptor UserEvent WatermarkEvent"
    ),
    "network": (
        "Buffer BufferBuilder BufferCompressor BufferConsumer BufferDecompressor DataType IOManager LocalBufferPool "
        "LocalChannel NetworkMetrics PartitionFile ReadBufferPool RemoteChannel ResultPartitionID TlsConfig "
        "UnionInputGate"
    ),
    "spark": "ExchangeSummary exchange_summaries",
    "types": (
        "Instant InternalWatermark JavaDate LatencyMarker Left LocalDate LocalDateTime LocalTime RecordAttributes "
        "Right RowKind SqlDate SqlTime SqlTimestamp StreamRecord TypeInformation Watermark WatermarkStatus "
        "row_data_type"
    ),
}
_SUBJECT_OF = {name: subject for subject, names in _MOVED.items() for name in names.split()}

__all__ = sorted(["__version__", *_MODULE_OF])


def __getattr__(name: str) -> object:  # __init__.pyi has the types
    """Bring a public name at its first use (PEP 562); from then on it is an attribute like any other."""
    if name in _SUBJECTS:
        return import_module(f"flinkbuf.{name}")  # which makes it an attribute
    if subject := _SUBJECT_OF.get(name):
        message = f"flinkbuf.{name} is flinkbuf.{subject}.{name}: write that, the short name will go"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(import_module(f"flinkbuf.{subject}"), name)
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """What is there, and what would come."""
    return sorted({*globals(), *__all__, *_SUBJECTS})
