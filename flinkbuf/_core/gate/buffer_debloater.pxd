from libc.stdint cimport int32_t, int64_t, uint32_t

cdef extern from "gate/buffer_debloater.h" nogil:
    struct fb_buffer_debloater_config:
        int64_t target_ms
        int32_t max_size
        int32_t min_size
        int32_t threshold_percent
        int32_t samples
    struct fb_buffer_debloater:
        int32_t announced_size
    int fb_buffer_debloater_open(fb_buffer_debloater* self, const fb_buffer_debloater_config* config)
    void fb_buffer_debloater_receive(fb_buffer_debloater* self, uint32_t bytes, int64_t now_ms)
    void fb_buffer_debloater_pause(fb_buffer_debloater* self, int64_t now_ms)
    int64_t fb_buffer_debloater_throughput(fb_buffer_debloater* self, int64_t now_ms)
    int32_t fb_buffer_debloater_average(fb_buffer_debloater* self, int64_t total_bytes, uint32_t buffer_count)
    bint fb_buffer_debloater_is_negligible(const fb_buffer_debloater* self, int32_t size)
    int32_t fb_buffer_debloater_recalculate(fb_buffer_debloater* self, int64_t throughput, uint32_t buffers_in_use)


cdef class BufferDebloater:
    cdef fb_buffer_debloater c
