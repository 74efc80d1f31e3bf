from libc.stdint cimport uint8_t, uint32_t, uint64_t

from flinkbuf._core.io.file_channel cimport fb_file_failure

cdef extern from "stdbool.h" nogil:
    ctypedef bint c_bool "bool"

cdef extern from "partition/partition_file.h" nogil:
    enum:
        FB_INDEX_CACHE_SIZE
    struct fb_index_entry:
        uint64_t offset
        uint64_t size
    struct fb_data_sum:
        uint64_t size
        uint32_t crc32
    struct fb_partition_file:
        uint32_t subpartition_count
        uint64_t region_count
        uint64_t data_size
        uint64_t index_size
        uint32_t index_crc32
        fb_data_sum* sums
        char* data_path
        char* index_path
    int fb_partition_file_open(const char* base_path, uint32_t subpartition_count, size_t cache_size,
                               fb_partition_file** self, fb_file_failure* failure)
    void fb_partition_file_retain(fb_partition_file* self)
    void fb_partition_file_drop(fb_partition_file* self)
    int fb_partition_file_start_reading(fb_partition_file* self, fb_file_failure* failure)
    void fb_partition_file_stop_reading(fb_partition_file* self)
    int fb_partition_file_get_entry(fb_partition_file* self, uint64_t region, uint32_t subpartition,
                                    fb_index_entry* entry, fb_file_failure* failure)

cdef extern from "partition/partition_file_reader.h" nogil:
    struct fb_file_block:
        uint32_t offset
        uint32_t size
        uint64_t position
        uint8_t data_type
        c_bool is_compressed
    struct fb_partition_file_reader:
        fb_partition_file* file
        uint32_t least
        c_bool is_summing
        fb_data_sum sum
    ctypedef int (*fb_take_block)(void* context, const fb_file_block* block) noexcept nogil
    int fb_partition_file_reader_open(fb_partition_file_reader* self, fb_partition_file* file, uint32_t subpartition,
                                      fb_file_failure* failure)
    void fb_partition_file_reader_close(fb_partition_file_reader* self)
    int fb_partition_file_reader_read(fb_partition_file_reader* self, uint8_t* memory, uint32_t capacity,
                                      fb_take_block take, void* context, fb_file_failure* failure)
    int fb_partition_file_reader_skip(fb_partition_file_reader* self, fb_file_block* block, fb_file_failure* failure)

cdef class PartitionFile:
    cdef fb_partition_file* c
    cdef readonly str path

cdef PartitionFile adopt_file(fb_partition_file* file, str path)  # takes the reference over
