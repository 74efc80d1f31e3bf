import os

from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf._core.memory.buffer_codec import BufferCodec
from flinkbuf._core.partition.result_partition import PartitionStorage

class BoundedStorage(PartitionStorage):
    path: str
    storage: str
    executor: IOExecutor
    codec: BufferCodec | None
    def __init__(
        self,
        path: str | os.PathLike[str],
        storage: str,
        executor: IOExecutor,
        codec: BufferCodec | None = None,
        region_limit: int = 0,
    ) -> None: ...
