"""The public names of flinkbuf.network, as type checkers read them; `__init__.py` brings each at its first use."""

from flinkbuf._core.memory.local_buffer_pool import LocalBufferPool
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf.config import TlsConfig
from flinkbuf.network.buffer import Buffer, BufferBuilder, BufferConsumer, DataType
from flinkbuf.network.compression import BufferCompressor, BufferDecompressor
from flinkbuf.network.environment import LocalChannel, RemoteChannel
from flinkbuf.network.input_gate import UnionInputGate
from flinkbuf.network.io_manager import IOManager
from flinkbuf.network.metrics import NetworkMetrics
from flinkbuf.network.partition import ResultPartitionID
from flinkbuf.network.partition_file import PartitionFile

__all__ = [
    "Buffer",
    "BufferBuilder",
    "BufferCompressor",
    "BufferConsumer",
    "BufferDecompressor",
    "DataType",
    "IOManager",
    "LocalBufferPool",
    "LocalChannel",
    "NetworkMetrics",
    "PartitionFile",
    "ReadBufferPool",
    "RemoteChannel",
    "ResultPartitionID",
    "TlsConfig",
    "UnionInputGate",
]
