import os

from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf._core.memory.buffer_codec import BufferCodec
from flinkbuf._core.partition.partition_file import PartitionFile
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf._core.partition.result_partition import PartitionStorage, ResultPartition

class SortMergeStorage(PartitionStorage):
    path: str
    read_pool: ReadBufferPool
    executor: IOExecutor
    codec: BufferCodec | None
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_pool: ReadBufferPool,
        executor: IOExecutor,
        codec: BufferCodec | None = None,
        first_subpartition: int | None = None,
        merges_regions: bool = True,
        log_segments: int = 0,
    ) -> None: ...

def open_partition_file(file: PartitionFile, *, read_pool: ReadBufferPool, executor: IOExecutor) -> ResultPartition: ...
def written_file(partition: ResultPartition) -> PartitionFile | None: ...
