"""What moves: buffers, partitions, gates, events, compression, and the network of a process."""

from flinkbuf.lazy_names import lazy_names

_MODULE_OF, __all__, __getattr__, __dir__ = lazy_names(  # __init__.pyi has the types
    globals(),
    {
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
    },
)
