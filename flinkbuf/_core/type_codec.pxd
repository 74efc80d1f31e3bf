from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.data_view cimport fb_input, fb_output

cdef extern from "type_codec.h" nogil:
    enum fb_type_kind:
        FB_TYPE_BOOLEAN
    struct fb_type:
        fb_type_kind kind
        uint32_t child_count
        const fb_type** children
        uint32_t symbol_count
        uint32_t padding
    int fb_type_codec_skip(const fb_type* self, fb_input* input)

cdef class TypeCodec:
    cdef fb_type type
    cdef int encode(self, object value, fb_output* output) except -1
    cdef object decode(self, fb_input* input)
