from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "record/record_digest.h" nogil:
    struct fb_record_digest:
        uint64_t sum
    void fb_record_digest_add(fb_record_digest* self, const uint8_t* data, size_t size)

cdef class RecordDigests:
    cdef fb_record_digest* channels
    cdef readonly uint32_t channel_count
    cdef int check(self, uint32_t channel) except -1
