from libc.stdint cimport uint8_t, uint32_t

from flinkbuf._core.buffer_builder cimport fb_buffer_builder
from flinkbuf._core.record_deserializer cimport fb_record_deserializer

cdef extern from "record/record_batch.h" nogil:
    size_t fb_record_batch_write(fb_buffer_builder* builder, const uint8_t* values, uint32_t width, size_t count)
    size_t fb_record_batch_read(fb_record_deserializer* deserializer, uint8_t* values, uint32_t width, size_t count)
