from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.codec cimport Codec
from flinkbuf._core.data_view cimport fb_input, fb_output

cdef class TypeCodec(Codec):
    cdef int check_arguments(self, padding) except -1
    cdef int encode(self, object value, fb_output* output) except -1
    cdef object decode(self, fb_input* input)
