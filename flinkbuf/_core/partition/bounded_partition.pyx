"""Where a hash-style blocking partition keeps what is written: a file for each subpartition."""

import os

from cpython.bytes cimport PyBytes_AS_STRING

from flinkbuf._core.partition.bounded_data cimport FB_BOUNDED_FILE, FB_BOUNDED_FILE_MMAP, FB_BOUNDED_MMAP
from flinkbuf._core.io.file_channel cimport raise_file_failure

cdef dict STORAGES = {"file": FB_BOUNDED_FILE, "mmap": FB_BOUNDED_MMAP, "file-mmap": FB_BOUNDED_FILE_MMAP}


cdef class BoundedStorage(PartitionStorage):
    """Files named ``<path>.<subpartition>.data``, which any number of readers read when they are finished.

    Parameters
    ----------
    path : path-like
        What all files begin with; none of them exists.
    storage : {"file", "mmap", "file-mmap"}
        Readers have two buffers each; or look into memory that is written through a mapping; or through the file.
    executor : IOExecutor
        Reads for those who may not wait for the disk.
    codec : BufferCodec, optional
        Compresses data buffers that get smaller by it.
    region_limit : int, optional
        Bytes of the largest mapped part; by default as large as can be.

    References
    ----------
    Flink ``BoundedBlockingSubpartition``, ``BoundedData``.
    """

    def __cinit__(self, path, str storage not None, IOExecutor executor not None, BufferCodec codec=None,
                  uint64_t region_limit=0):
        if storage not in STORAGES:
            raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
        self.path = os.fsdecode(path)
        self.encoded_path = os.fsencode(path)
        self.storage, self.executor, self.codec = storage, executor, codec
        self.c.storage = STORAGES[storage]
        self.c.path = PyBytes_AS_STRING(self.encoded_path)
        self.c.region_limit = region_limit
        self.c.executor = executor.c
        self.c.codec = NULL if codec is None else codec.c

    cdef int open(self, int type, uint32_t subpartition_count, fb_local_buffer_pool* pool,
                  fb_result_partition** partition) except? -100:
        cdef fb_file_failure failure
        cdef int code
        with nogil:
            code = fb_bounded_partition_open(<fb_result_partition_type>type, subpartition_count, pool, &self.c,
                                             partition, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)
        return code
