from libc.stdint cimport uint8_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer_builder cimport fb_buffer_builder
from flinkbuf._core.record.record_deserializer cimport fb_record_deserializer

cdef extern from "record/record_batch.h" nogil:
    size_t fb_record_batch_write(fb_buffer_builder* builder, const uint8_t* values, uint32_t width, size_t count)
    struct fb_record_batch:
        const uint8_t* values
        const uint32_t* channels
        size_t count
        uint32_t width
    size_t fb_record_batch_scatter(fb_buffer_builder* builders, uint32_t builder_count, const fb_record_batch* batch,
                                   uint64_t* counts)
    size_t fb_record_batch_read(fb_record_deserializer* deserializer, uint8_t* values, uint32_t width, size_t count)
