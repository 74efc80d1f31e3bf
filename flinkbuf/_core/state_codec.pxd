from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.key_group cimport KeyHasher
from flinkbuf._core.type_codec cimport TypeCodec


cdef class KeyGrouper:
    cdef KeyHasher hasher
    cdef uint32_t max_parallelism
    cdef readonly uint32_t first, last

    cdef int64_t group(self, object key) except -1


cdef class StateWriter:
    cdef fb_data_output output
    cdef object where   # what is being written, for errors

    cdef int put(self, TypeCodec codec, object value) except -1
    cdef int put_number(self, int64_t number) except -1


cdef class StateReader:
    cdef fb_data_input input
    cdef object view

    cdef object get(self, TypeCodec codec)
    cdef int64_t get_number(self) except? -1
