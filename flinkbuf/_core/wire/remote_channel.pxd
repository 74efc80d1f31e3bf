from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.io.tcp cimport fb_tcp_address

cdef extern from "wire/remote_channel.h" nogil:
    struct fb_remote_source:
        fb_tcp_address address
        uint32_t connection_index
        uint32_t subpartition_index
        uint8_t[60] partition
    struct fb_remote_channel:
        uint32_t initial_credit
        uint64_t buffer_count
        uint64_t byte_count
        uint32_t backlog
    struct fb_remote_channel_usage:
        uint32_t queued
        uint32_t credit
        uint32_t required
        int64_t oldest_ms
    void fb_remote_channel_get_usage(fb_remote_channel* self, fb_remote_channel_usage* usage)
