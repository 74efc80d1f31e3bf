from libc.stdint cimport int64_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer cimport fb_buffer
from flinkbuf._core.ground.wakeup cimport fb_wakeup

cdef extern from "memory/local_buffer_pool.h" nogil:
    struct fb_network_buffer_pool:
        pass
    struct fb_local_buffer_pool:
        pass
    enum:
        FB_UNBOUNDED
    struct fb_buffer_pool_options:
        uint32_t min
        uint32_t expected
        uint32_t max
        uint32_t channel_count
        uint32_t max_buffers_per_channel
        uint32_t max_overdraft
    struct fb_buffer_pool_usage:
        uint32_t size
        uint32_t stock
        uint32_t requested
        uint32_t peak
        uint32_t full_channels
        uint32_t blocked
        uint64_t granted
        uint64_t refused
        uint64_t overdrafts
        uint64_t waits
        int64_t waited_ms
    int fb_network_buffer_pool_open(uint32_t segment_count, uint32_t segment_size, fb_network_buffer_pool** self)
    void fb_network_buffer_pool_destroy(fb_network_buffer_pool* self)
    void fb_network_buffer_pool_destroy_pools(fb_network_buffer_pool* self)
    bint fb_network_buffer_pool_is_destroyed(fb_network_buffer_pool* self)
    void fb_network_buffer_pool_close(fb_network_buffer_pool* self)
    uint32_t fb_network_buffer_pool_segment_size(const fb_network_buffer_pool* self)
    uint32_t fb_network_buffer_pool_total(fb_network_buffer_pool* self)
    uint32_t fb_network_buffer_pool_available(fb_network_buffer_pool* self)
    uint32_t fb_network_buffer_pool_required(fb_network_buffer_pool* self)
    uint32_t fb_network_buffer_pool_pool_count(fb_network_buffer_pool* self)
    uint32_t fb_network_buffer_pool_usage_percent(fb_network_buffer_pool* self)
    int fb_network_buffer_pool_request_unpooled(fb_network_buffer_pool* self, uint32_t count, int64_t timeout_ms,
                                                fb_buffer** buffers)
    void fb_network_buffer_pool_recycle_unpooled(fb_network_buffer_pool* self, fb_buffer** buffers, uint32_t count)
    int fb_local_buffer_pool_open(fb_network_buffer_pool* pool, const fb_buffer_pool_options* options,
                                  fb_local_buffer_pool** self)
    void fb_local_buffer_pool_destroy(fb_local_buffer_pool* self)
    bint fb_local_buffer_pool_is_destroyed(fb_local_buffer_pool* self)
    void fb_local_buffer_pool_close(fb_local_buffer_pool* self)
    int fb_local_buffer_pool_request(fb_local_buffer_pool* self, uint32_t channel, fb_buffer** buffer)
    int fb_local_buffer_pool_request_blocking(fb_local_buffer_pool* self, uint32_t channel, int64_t timeout_ms,
                                              fb_buffer** buffer)
    int fb_local_buffer_pool_reserve(fb_local_buffer_pool* self, uint32_t count, int64_t timeout_ms)
    bint fb_local_buffer_pool_is_available(fb_local_buffer_pool* self)
    int fb_local_buffer_pool_add_wakeup(fb_local_buffer_pool* self, fb_wakeup* wakeup)
    void fb_local_buffer_pool_remove_wakeup(fb_local_buffer_pool* self, fb_wakeup* wakeup)
    int fb_local_buffer_pool_set_size(fb_local_buffer_pool* self, uint32_t size)
    void fb_local_buffer_pool_get_usage(fb_local_buffer_pool* self, fb_buffer_pool_usage* usage)
    uint32_t fb_local_buffer_pool_segment_size(const fb_local_buffer_pool* self)
    uint32_t fb_local_buffer_pool_min(const fb_local_buffer_pool* self)
    uint32_t fb_local_buffer_pool_max(const fb_local_buffer_pool* self)

cdef class NetworkBufferPool:
    cdef fb_network_buffer_pool* c  # a handle of its own until the object goes; whoever uses it holds the object
    cdef object warned_percent      # the last usage that was warned of
    cdef int refuse(self, wanted, what) except -1
    cdef warn_of_usage(self)

cdef class LocalBufferPool:
    cdef fb_local_buffer_pool* c    # likewise
    cdef readonly NetworkBufferPool global_pool
    cdef uint32_t channel_of(self, channel) except? 0xFFFFFFFF
