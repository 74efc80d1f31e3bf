from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "ground/xxh64.h" nogil:
    struct fb_xxh64:
        uint64_t size
    void fb_xxh64_start(fb_xxh64* self)
    void fb_xxh64_add(fb_xxh64* self, const uint8_t* data, size_t size)
    uint64_t fb_xxh64_value(const fb_xxh64* self)
    uint64_t fb_xxh64_last_word(const fb_xxh64* self, uint64_t wanted)
