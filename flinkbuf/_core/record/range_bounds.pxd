from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "record/range_bounds.h" nogil:
    struct fb_range_bounds:
        uint32_t count
    void fb_range_bounds_close(fb_range_bounds* self)
    int fb_range_bounds_add(fb_range_bounds* self, const uint8_t* key, size_t size)
    uint32_t fb_range_bounds_find(const fb_range_bounds* self, const uint8_t* key, size_t size)
