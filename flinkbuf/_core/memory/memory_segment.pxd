from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "stdbool.h" nogil:
    ctypedef bint c_bool "bool"

cdef extern from "memory/memory_segment.h" nogil:
    struct fb_memory_segment:
        uint8_t* data
        size_t size
    struct fb_segment_range:
        const fb_memory_segment* segment
        size_t offset
        size_t size
    int fb_memory_segment_open(fb_memory_segment* self, size_t size)
    void fb_memory_segment_close(fb_memory_segment* self)
    bint fb_memory_segment_is_freed(const fb_memory_segment* self)
    int fb_memory_segment_check(const fb_memory_segment* self, size_t offset, size_t width)
    int fb_memory_segment_get_u8(const fb_memory_segment* self, size_t offset, uint8_t* value)
    int fb_memory_segment_put_u8(fb_memory_segment* self, size_t offset, uint8_t value)
    int fb_memory_segment_get_u16(const fb_memory_segment* self, size_t offset, uint16_t* value)
    int fb_memory_segment_put_u16(fb_memory_segment* self, size_t offset, uint16_t value)
    int fb_memory_segment_get_u16_le(const fb_memory_segment* self, size_t offset, uint16_t* value)
    int fb_memory_segment_put_u16_le(fb_memory_segment* self, size_t offset, uint16_t value)
    int fb_memory_segment_get_u16_be(const fb_memory_segment* self, size_t offset, uint16_t* value)
    int fb_memory_segment_put_u16_be(fb_memory_segment* self, size_t offset, uint16_t value)
    int fb_memory_segment_get_u32(const fb_memory_segment* self, size_t offset, uint32_t* value)
    int fb_memory_segment_put_u32(fb_memory_segment* self, size_t offset, uint32_t value)
    int fb_memory_segment_get_u32_le(const fb_memory_segment* self, size_t offset, uint32_t* value)
    int fb_memory_segment_put_u32_le(fb_memory_segment* self, size_t offset, uint32_t value)
    int fb_memory_segment_get_u32_be(const fb_memory_segment* self, size_t offset, uint32_t* value)
    int fb_memory_segment_put_u32_be(fb_memory_segment* self, size_t offset, uint32_t value)
    int fb_memory_segment_get_u64(const fb_memory_segment* self, size_t offset, uint64_t* value)
    int fb_memory_segment_put_u64(fb_memory_segment* self, size_t offset, uint64_t value)
    int fb_memory_segment_get_u64_le(const fb_memory_segment* self, size_t offset, uint64_t* value)
    int fb_memory_segment_put_u64_le(fb_memory_segment* self, size_t offset, uint64_t value)
    int fb_memory_segment_get_u64_be(const fb_memory_segment* self, size_t offset, uint64_t* value)
    int fb_memory_segment_put_u64_be(fb_memory_segment* self, size_t offset, uint64_t value)
    int fb_memory_segment_copy_to(const fb_memory_segment* self, size_t offset, fb_memory_segment* target,
                                  size_t target_offset, size_t size)
    int fb_memory_segment_swap_bytes(fb_memory_segment* self, size_t offset, fb_memory_segment* other,
                                     size_t other_offset, size_t size)
    int fb_memory_segment_compare(const fb_segment_range* left, const fb_segment_range* right, int32_t* order)
    int fb_memory_segment_equal_to(const fb_segment_range* left, const fb_segment_range* right, c_bool* is_equal)

cdef class MemorySegment:
    cdef fb_memory_segment c
    cdef Py_ssize_t view_count  # memoryviews that look at the bytes: no free() while there are any
    cdef int refuse(self, int code, Py_ssize_t offset, Py_ssize_t size) except -1
