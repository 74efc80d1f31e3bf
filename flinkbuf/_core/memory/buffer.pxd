from libc.stdint cimport int32_t, uint8_t, uint32_t

from flinkbuf._core.memory.memory_segment cimport fb_memory_segment

cdef extern from "memory/buffer.h" nogil:
    enum fb_buffer_data_type:
        FB_NONE
        FB_DATA_BUFFER
        FB_EVENT_BUFFER
        FB_PRIORITIZED_EVENT_BUFFER
        FB_ALIGNED_CHECKPOINT_BARRIER
        FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
        FB_RECOVERY_COMPLETION
        FB_END_OF_SEGMENT
        FB_DATA_BUFFER_WITH_CLEAR_END
        FB_END_OF_DATA
        FB_END_OF_PARTITION
        FB_RECOVERY_METADATA
        FB_ALIGNED_WATERMARK_EVENT
        FB_UNALIGNED_WATERMARK_EVENT
        FB_DATA_TYPE_COUNT
    enum:
        FB_NO_CHANNEL
    bint fb_buffer_data_type_is_buffer(fb_buffer_data_type type)
    bint fb_buffer_data_type_is_event(fb_buffer_data_type type)
    bint fb_buffer_data_type_has_priority(fb_buffer_data_type type)
    bint fb_buffer_data_type_blocks_upstream(fb_buffer_data_type type)
    bint fb_buffer_data_type_requires_announcement(fb_buffer_data_type type)
    struct fb_buffer:
        fb_memory_segment segment
        uint32_t channel
    struct fb_buffer_slice:
        fb_buffer* buffer
        uint32_t offset
        uint32_t size
        uint8_t data_type
        bint is_compressed
    void fb_buffer_retain(fb_buffer* self)
    void fb_buffer_release(fb_buffer* self)
    const uint8_t* fb_buffer_slice_data(const fb_buffer_slice* self)
    void fb_buffer_slice_retain(const fb_buffer_slice* self)
    void fb_buffer_slice_release(fb_buffer_slice* self)
    int fb_buffer_slice_part(const fb_buffer_slice* self, uint32_t offset, uint32_t size, fb_buffer_slice* part)
    int fb_buffer_new_unpooled(const uint8_t* data, size_t size, fb_buffer_data_type type, fb_buffer_slice* event)

cdef class Buffer:
    cdef fb_buffer_slice c
    cdef Py_ssize_t view_count  # memoryviews that look at the bytes: the reference stays while there are any
    cdef bint is_released
    cdef int check_held(self) except -1
    @staticmethod
    cdef Buffer adopt(fb_buffer_slice slice)  # takes over the slice's reference, also when it fails
