from libc.stdint cimport uint32_t, uint64_t

from flinkbuf._core.memory.buffer_codec cimport BufferCodec, fb_buffer_codec
from flinkbuf._core.io.file_channel cimport fb_file_failure
from flinkbuf._core.io.io_executor cimport IOExecutor, fb_io_executor
from flinkbuf._core.memory.local_buffer_pool cimport fb_local_buffer_pool
from flinkbuf._core.partition.partition_file cimport PartitionFile, adopt_file, fb_partition_file
from flinkbuf._core.partition.read_buffer_pool cimport ReadBufferPool, fb_read_buffer_pool
from flinkbuf._core.partition.result_partition cimport (
    PartitionStorage, ResultPartition, fb_result_partition, fb_result_partition_type,
)

cdef extern from "stdbool.h" nogil:
    ctypedef bint c_bool "bool"

cdef extern from "partition/sort_merge_partition.h" nogil:
    enum:
        FB_RANDOM_SUBPARTITION
    struct fb_sort_merge_options:
        fb_result_partition_type type
        uint32_t subpartition_count
        const char* base_path
        uint32_t first_subpartition
        uint32_t log_segments
        c_bool keeps_small_regions
        fb_buffer_codec* codec
        fb_read_buffer_pool* read_pool
        fb_io_executor* executor
    int fb_sort_merge_partition_open(const fb_sort_merge_options* options, fb_local_buffer_pool* pool,
                                     fb_result_partition** self, fb_file_failure* failure)
    int fb_sort_merge_partition_open_file(fb_partition_file* file, fb_read_buffer_pool* read_pool,
                                          fb_io_executor* executor, fb_result_partition** self)

    fb_partition_file* fb_sort_merge_partition_take_file(fb_result_partition* self)

cdef class SortMergeStorage(PartitionStorage):
    cdef readonly str path
    cdef bytes encoded_path
    cdef readonly ReadBufferPool read_pool
    cdef readonly IOExecutor executor
    cdef readonly BufferCodec codec
    cdef fb_sort_merge_options c

cdef class PartitionFileStorage(PartitionStorage):
    cdef PartitionFile file
    cdef ReadBufferPool read_pool
    cdef IOExecutor executor
