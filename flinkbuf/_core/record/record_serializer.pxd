from libc.stdint cimport uint8_t, uint32_t

from flinkbuf._core.memory.buffer cimport fb_buffer_slice
from flinkbuf._core.memory.buffer_builder cimport fb_buffer_builder
from flinkbuf._core.ground.data_view cimport fb_data_output

cdef extern from "record/record_serializer.h" nogil:
    enum:
        FB_LENGTH_BYTES
        FB_SCRATCH_KEEP_BYTES
    struct fb_record_serializer:
        fb_data_output output
    void fb_record_serializer_close(fb_record_serializer* self)
    int fb_record_serializer_begin_at(fb_record_serializer* self, uint8_t* start, uint8_t* end)
    size_t fb_record_serializer_frame(fb_record_serializer* self)
    int fb_record_serializer_begin(fb_record_serializer* self, const fb_buffer_builder* builder)
    int fb_record_serializer_end(fb_record_serializer* self, fb_buffer_builder* builder)


cdef class RecordSerializer:
    cdef fb_record_serializer c
    cdef fb_buffer_slice segment            # the one buffer that is filled again and again
    cdef fb_buffer_builder builder   # closed between a full buffer and the next record
    cdef int open_builder(self) except -1
    cdef bytes take_buffer(self)
    cdef int cut(self, list filled) except -1
