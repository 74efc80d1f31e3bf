from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from flinkbuf._core.memory.buffer cimport fb_buffer_slice, fb_buffer_slice_data

cdef extern from "memory/slice_list.h" nogil:
    struct fb_slice_list:
        fb_buffer_slice* items
        uint32_t count
        size_t size
    void fb_slice_list_close(fb_slice_list* self)


cdef inline bytes join_slices(const fb_slice_list* self):
    """All bytes, one after the other."""
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>self.size)
    cdef char* to = PyBytes_AS_STRING(joined)
    cdef uint32_t i
    for i in range(self.count):
        memcpy(to, fb_buffer_slice_data(&self.items[i]), self.items[i].size)
        to += self.items[i].size
    return joined
