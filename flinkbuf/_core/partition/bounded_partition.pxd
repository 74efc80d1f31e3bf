from libc.stdint cimport uint32_t, uint64_t

from flinkbuf._core.partition.bounded_data cimport fb_bounded_storage
from flinkbuf._core.memory.buffer_codec cimport BufferCodec, fb_buffer_codec
from flinkbuf._core.io.file_channel cimport fb_file_failure
from flinkbuf._core.io.io_executor cimport IOExecutor, fb_io_executor
from flinkbuf._core.memory.local_buffer_pool cimport fb_local_buffer_pool
from flinkbuf._core.partition.result_partition cimport PartitionStorage, fb_result_partition, fb_result_partition_type

cdef extern from "partition/bounded_partition.h" nogil:
    struct fb_bounded_options:
        fb_bounded_storage storage
        const char* path
        uint64_t region_limit
        fb_io_executor* executor
        fb_buffer_codec* codec
    int fb_bounded_partition_open(fb_result_partition_type type, uint32_t subpartition_count,
                                  fb_local_buffer_pool* pool, const fb_bounded_options* options,
                                  fb_result_partition** self, fb_file_failure* failure)

cdef class BoundedStorage(PartitionStorage):
    cdef fb_bounded_options c
    cdef bytes encoded_path
    cdef readonly str path
    cdef readonly str storage
    cdef readonly IOExecutor executor
    cdef readonly BufferCodec codec
