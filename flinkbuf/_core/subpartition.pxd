from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.buffer cimport fb_buffer_slice
from flinkbuf._core.wakeup cimport fb_wakeup

cdef extern from "partition/subpartition.h" nogil:
    struct fb_availability_listener:
        void (*on_data_available)(void* context, uint32_t subpartition_index) noexcept nogil
        void (*on_priority_event)(void* context, uint32_t subpartition_index, int32_t sequence_number) noexcept nogil
        void* context
    struct fb_subpartition:
        uint32_t index
        bint is_approximate
        bint sends_empty_buffers
    struct fb_polled_buffer:
        fb_buffer_slice slice
        uint32_t backlog
        uint8_t next_data_type
        int32_t sequence_number
    struct fb_subpartition_usage:
        uint64_t buffers
        uint64_t bytes
        uint32_t queued
        uint32_t backlog
        int32_t credit
        int64_t oldest_ms
    int fb_subpartition_poll_of(fb_subpartition* self, const void* context, fb_polled_buffer* polled)
    bint fb_subpartition_is_viewed_by(fb_subpartition* self, const void* context)
    int fb_subpartition_create_view(fb_subpartition* self, const fb_availability_listener* listener)
    void fb_subpartition_release_view(fb_subpartition* self)
    void fb_subpartition_release_view_of(fb_subpartition* self, const void* context)
    int fb_subpartition_resume_of(fb_subpartition* self, const void* context)
    bint fb_subpartition_is_available(fb_subpartition* self, bint has_credit, uint32_t* backlog)
    bint fb_subpartition_is_released(fb_subpartition* self)
    int fb_subpartition_set_buffer_size(fb_subpartition* self, int32_t size)
    uint32_t fb_subpartition_queued_buffers(fb_subpartition* self)
    uint32_t fb_subpartition_backlog(fb_subpartition* self)
    uint64_t fb_subpartition_total_buffers(fb_subpartition* self)
    uint64_t fb_subpartition_total_bytes(fb_subpartition* self)
    void fb_subpartition_get_usage(fb_subpartition* self, fb_subpartition_usage* usage)


cdef class AvailabilityListener:
    cdef fb_wakeup wakeup
    cdef bint is_open
    cdef uint64_t seen  # rings before the last wait() returned

cdef class SubpartitionView:
    cdef fb_subpartition* c  # NULL: released
    cdef readonly object partition
    cdef readonly AvailabilityListener listener

    cdef int check_attached(self) except -1

# A view of a subpartition that `partition` owns; a listener of its own if None is given.
cdef SubpartitionView attach_view(object partition, fb_subpartition* c, AvailabilityListener listener)
