"""Where a blocking partition keeps what is written: files beside a base path, and what reads and writes them.

Flink: ResultPartitionFactory, as far as blocking partitions go.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from flinkbuf._core.memory.local_buffer_pool import LocalBufferPool, NetworkBufferPool
from flinkbuf._core.partition.bounded_partition import BoundedStorage
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf._core.partition.result_partition import PartitionStorage
from flinkbuf._core.partition.sort_merge_partition import SortMergeStorage
from flinkbuf.errors import InsufficientBuffersError
from flinkbuf.network.compression import buffer_codec
from flinkbuf.network.io_manager import IOManager, default_io_manager

BLOCKING_TYPES = ("BLOCKING", "BLOCKING_PERSISTENT")
STORAGES = ("sort-merge", "file", "mmap", "auto")
SORT_BUFFERS = 512  # network.sort-shuffle.min-buffers
READ_SIZE = 64 * 1024**2  # bytes; memory.framework.off-heap.batch-shuffle.size

_GUARANTEED = 64  # buffers that a sort-merge partition insists on where there are enough; it can do with 2
_read_pool: tuple[int, ReadBufferPool] | None = None  # process, and its pool


def default_read_pool() -> ReadBufferPool:
    """The memory into which this process reads partition files, unless another pool is named; made at first use."""
    global _read_pool
    if _read_pool is None or _read_pool[0] != os.getpid():
        _read_pool = os.getpid(), ReadBufferPool(READ_SIZE)
    return _read_pool[1]


def create_pool(pool: NetworkBufferPool, subpartition_count: int, storage: str, sort_buffers: int) -> LocalBufferPool:
    """The buffers in which a blocking partition collects what it writes.

    One with a file for each subpartition has at least a buffer for each, too. A sort-merge one can do with two, and
    works better the more it has: it gets what can be guaranteed, and up to `sort_buffers` while nobody else wants them.
    """
    # Not more than there are: what it would like to have is no reason to warn of too small a pool.
    limit = max(2, min(sort_buffers, pool.total_segment_count - 1))
    if storage != "sort-merge":
        minimum = subpartition_count + 1
        return pool.create_buffer_pool(minimum, max(minimum, limit), channel_count=subpartition_count)
    minimum = min(_GUARANTEED, limit)
    while minimum > 2:
        with suppress(InsufficientBuffersError):
            return pool.create_buffer_pool(minimum, limit, channel_count=subpartition_count)
        minimum = max(2, minimum // 4)
    return pool.create_buffer_pool(2, limit, channel_count=subpartition_count)


def open_storage(
    storage: str, path: str, *, io_manager: IOManager | None, read_pool: ReadBufferPool | None, compression: str | None
) -> PartitionStorage:
    """What opens a partition whose files begin with `path`."""
    manager = io_manager or default_io_manager()
    codec = None if compression is None else buffer_codec(compression)
    executor = manager.reader_executor(path)
    if storage == "sort-merge":
        return SortMergeStorage(path, read_pool=read_pool or default_read_pool(), executor=executor, codec=codec)
    kind = storage if storage != "auto" else "file-mmap" if sys.maxsize > 2**32 else "file"
    return BoundedStorage(path, kind, executor, codec)


def base_path(path: str | os.PathLike[str] | None, io_manager: IOManager | None) -> str:
    """The base path that was given, or a new one among temporary files."""
    if path is None:
        return (io_manager or default_io_manager()).partition_path()
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path must be text or a path of text, got {path!r}")
    if not text or text.endswith(os.sep) or "\0" in text:
        raise ValueError(f"path must be the beginning of a file's name, such as '/data/result', got {text!r}")
    return text
