"""What moves: buffers, partitions, gates, events, compression, and the network of a process."""

from flinkbuf.lazy_names import bring

_NAMES = {
    "flinkbuf._core.memory.local_buffer_pool": "LocalBufferPool",
    "flinkbuf._core.partition.read_buffer_pool": "ReadBufferPool",
    "flinkbuf.config": "TlsConfig",
    "flinkbuf.network.buffer": "Buffer BufferBuilder BufferConsumer DataType",
    "flinkbuf.network.compression": "BufferCompressor BufferDecompressor",
    "flinkbuf.network.environment": "LocalChannel RemoteChannel",
    "flinkbuf.network.input_gate": "UnionInputGate",
    "flinkbuf.network.io_manager": "IOManager",
    "flinkbuf.network.metrics": "NetworkMetrics",
    "flinkbuf.network.partition": "ResultPartitionID",
    "flinkbuf.network.partition_file": "PartitionFile",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:  # __init__.pyi has the types
    """Bring a public name at its first use (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """Return what is there, and what would come."""
    return sorted({*globals(), *__all__})
