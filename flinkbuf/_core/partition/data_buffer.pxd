from libc.stdint cimport uint8_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer cimport fb_buffer_data_type

cdef extern from "partition/data_buffer.h" nogil:
    struct fb_data_buffer:
        uint64_t record_count
    int fb_data_buffer_open(fb_data_buffer* self, uint32_t subpartition_count, uint8_t** segments,
                            uint32_t segment_count, uint32_t segment_size)
    void fb_data_buffer_close(fb_data_buffer* self)
    int fb_data_buffer_append(fb_data_buffer* self, uint32_t subpartition, fb_buffer_data_type type,
                              const uint8_t* data, size_t size)
    void fb_data_buffer_finish(fb_data_buffer* self, const uint32_t* order)
    uint32_t fb_data_buffer_read(fb_data_buffer* self, uint8_t* to, uint32_t capacity, uint32_t* subpartition,
                                 fb_buffer_data_type* type)
    void fb_data_buffer_reset(fb_data_buffer* self)
