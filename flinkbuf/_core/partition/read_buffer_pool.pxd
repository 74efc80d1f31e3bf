from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from "partition/read_buffer_pool.h" nogil:
    struct fb_read_buffer_pool:
        pass
    struct fb_read_pool_usage:
        uint64_t budget
        uint64_t used
        uint64_t cached
        uint64_t peak
        uint32_t consumers
        uint32_t waiting
        uint64_t overdrafts
    int fb_read_buffer_pool_open(uint64_t budget, int64_t timeout_ms, fb_read_buffer_pool** self)
    void fb_read_buffer_pool_retain(fb_read_buffer_pool* self)
    void fb_read_buffer_pool_drop(fb_read_buffer_pool* self)
    void fb_read_buffer_pool_get_usage(fb_read_buffer_pool* self, fb_read_pool_usage* usage)

cdef class ReadBufferPool:
    cdef fb_read_buffer_pool* c
    cdef fb_read_pool_usage usage(self) noexcept
