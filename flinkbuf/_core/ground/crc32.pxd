from libc.stdint cimport uint32_t

cdef extern from "ground/crc32.h" nogil:
    uint32_t fb_crc32(uint32_t crc, const void* data, size_t size)
