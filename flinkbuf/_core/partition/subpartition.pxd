from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer cimport fb_buffer_slice
from flinkbuf._core.ground.wakeup cimport fb_wakeup

cdef extern from "partition/subpartition_view.h" nogil:
    struct fb_result_partition
    struct fb_availability_listener:
        void (*on_data_available)(void* context, uint32_t subpartition_index) noexcept nogil
        void (*on_priority_event)(void* context, uint32_t subpartition_index, int32_t sequence_number) noexcept nogil
        void* context
    struct fb_view_options:
        fb_availability_listener listener
        bint sends_empty_buffers
        bint takes_file_regions
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
    struct fb_subpartition_view:
        fb_result_partition* partition
        uint32_t index
    int fb_subpartition_view_poll(fb_subpartition_view* self, fb_polled_buffer* polled)
    bint fb_subpartition_view_is_available(fb_subpartition_view* self, bint has_credit, uint32_t* backlog)
    int fb_subpartition_view_resume(fb_subpartition_view* self)
    int fb_subpartition_view_set_buffer_size(fb_subpartition_view* self, int32_t size)
    bint fb_subpartition_view_is_released(fb_subpartition_view* self)
    bint fb_subpartition_view_is_replaced(fb_subpartition_view* self)
    void fb_subpartition_view_get_usage(fb_subpartition_view* self, fb_subpartition_usage* usage)
    void fb_subpartition_view_release(fb_subpartition_view* self)

cdef extern from "partition/result_partition.h" nogil:
    int fb_result_partition_create_view(fb_result_partition* self, uint32_t index, const fb_view_options* options,
                                        fb_subpartition_view** view)
    const char* fb_result_partition_view_error(const fb_result_partition* self, int code)
    const char* fb_result_partition_view_failure(fb_subpartition_view* view)


cdef class AvailabilityListener:
    cdef fb_wakeup wakeup
    cdef bint is_open
    cdef uint64_t seen  # rings before the last wait() returned

cdef class SubpartitionView:
    cdef fb_subpartition_view* c  # NULL: released
    cdef readonly object partition
    cdef readonly AvailabilityListener listener

    cdef int check_attached(self) except -1
    cdef fb_subpartition_usage usage(self) except *
    cdef int fail_poll(self, int code) except -1

# A view of a subpartition of `partition`, whose C half is `c`; a listener of its own if None is given.
cdef SubpartitionView attach_view(object partition, fb_result_partition* c, uint32_t index,
                                  AvailabilityListener listener)
