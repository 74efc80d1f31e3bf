"""Where a sort-merge partition keeps what is written: one data file and one index for all subpartitions."""

import os

from cpython.bytes cimport PyBytes_AS_STRING

from flinkbuf._core.memory.buffer_codec cimport pointer_of
from flinkbuf._core.io.file_channel cimport raise_file_failure
from flinkbuf._core.memory.local_buffer_pool cimport fb_local_buffer_pool_close

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool

cdef enum:
    BLOCKING_PERSISTENT = 4


cdef class SortMergeStorage(PartitionStorage):
    """Two files, ``<path>.shuffle.data`` and ``<path>.shuffle.index``.

    Parameters
    ----------
    path : path-like
        What the names of both begin with; neither exists.
    read_pool : ReadBufferPool
        The memory that readers read into.
    executor : IOExecutor
        Reads for them.
    codec : BufferCodec, optional
        Compresses data buffers that get smaller by it.
    first_subpartition : int, optional
        Which is first in every region; by default drawn, so that readers of many partitions begin at many places.
    merges_regions : bool, default True
        Whether small regions are merged when the partition is finished; Flink leaves them.
    log_segments : int, default 0
        Buffers of the log of records; 0: as many as the pool gives.

    References
    ----------
    Flink ``SortMergeResultPartition``.
    """

    def __cinit__(self, path, *, ReadBufferPool read_pool not None, IOExecutor executor not None,
                  BufferCodec codec=None, first_subpartition=None, bint merges_regions=True,
                  uint32_t log_segments=0):
        self.path = os.fsdecode(path)
        self.encoded_path = os.fsencode(path)
        self.read_pool, self.executor, self.codec = read_pool, executor, codec
        self.c.base_path = PyBytes_AS_STRING(self.encoded_path)
        self.c.first_subpartition = FB_RANDOM_SUBPARTITION if first_subpartition is None else first_subpartition
        self.c.log_segments = log_segments
        self.c.keeps_small_regions = not merges_regions
        self.c.codec = pointer_of(codec)
        self.c.read_pool = read_pool.c
        self.c.executor = executor.c

    cdef int open(self, int type, uint32_t subpartition_count, fb_local_buffer_pool* pool,
                  fb_result_partition** partition) except? -100:
        cdef fb_file_failure failure
        cdef int code
        self.c.type = <fb_result_partition_type>type
        self.c.subpartition_count = subpartition_count
        with nogil:
            code = fb_sort_merge_partition_open(&self.c, pool, partition, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)
        return code


def written_file(ResultPartition partition not None):
    """The file of a finished partition, with the sums of its subpartitions if it is persistent; None: there is none."""
    cdef fb_partition_file* file
    if not isinstance(partition.storage, SortMergeStorage):
        raise TypeError(f"only a sort-merge partition has such a file, not one of {type(partition.storage).__name__}")
    file = fb_sort_merge_partition_take_file(partition.c)
    return None if file is NULL else adopt_file(file, partition.storage.path)


cdef class PartitionFileStorage(PartitionStorage):
    """What is there already."""

    def __cinit__(self, PartitionFile file not None, ReadBufferPool read_pool not None, IOExecutor executor not None):
        self.file, self.read_pool, self.executor = file, read_pool, executor

    @property
    def path(self):
        """What the names of its files begin with."""
        return self.file.path

    cdef int open(self, int type, uint32_t subpartition_count, fb_local_buffer_pool* pool,
                  fb_result_partition** partition) except? -100:
        fb_local_buffer_pool_close(pool)  # nothing is written
        return fb_sort_merge_partition_open_file(self.file.c, self.read_pool.c, self.executor.c, partition)


def open_partition_file(PartitionFile file not None, *, ReadBufferPool read_pool not None,
                        IOExecutor executor not None):
    """A finished file as a result partition that is read like any other; the file stays."""
    pool = NetworkBufferPool(2, 4096)
    return ResultPartition(pool.create_buffer_pool(1), BLOCKING_PERSISTENT, file.subpartition_count,
                           PartitionFileStorage(file, read_pool, executor))
