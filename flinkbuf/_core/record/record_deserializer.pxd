from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "record/record_deserializer.h" nogil:
    enum:
        FB_SPILL_THRESHOLD_BYTES
    struct fb_record_deserializer_options:
        size_t spill_threshold
        size_t max_record_size
        const char** spill_dirs
    struct fb_record_deserializer:
        const uint8_t* pos
        const uint8_t* end
        uint8_t[4] length_bytes
        uint32_t length_count
        size_t spanning_capacity
        bint is_spilling
        int io_errno
        int64_t record_length
        size_t accumulated
        uint64_t record_count
        fb_record_deserializer_options options
    void fb_record_deserializer_open(fb_record_deserializer* self, const fb_record_deserializer_options* options)
    void fb_record_deserializer_close(fb_record_deserializer* self)
    void fb_record_deserializer_clear(fb_record_deserializer* self)
    int fb_record_deserializer_set_next_buffer(fb_record_deserializer* self, const uint8_t* data, size_t size)
    bint fb_record_deserializer_take(fb_record_deserializer* self, const uint8_t** record, size_t* size)
    int fb_record_deserializer_next_spanning(fb_record_deserializer* self, const uint8_t** record, size_t* size)
    size_t fb_record_deserializer_pending(const fb_record_deserializer* self)
    uint64_t fb_record_deserializer_offset(const fb_record_deserializer* self)
    int64_t fb_record_deserializer_unconsumed(
        fb_record_deserializer* self, uint64_t start, uint8_t* to, size_t capacity)

# Raises what `code` means for the bytes of `channel` (-1: unknown) that `self` was reading: a negative code of
# fb_record_deserializer_next_spanning, or FB_ETRUNCATED where the channel ended with bytes pending.
cdef int fail_record(const fb_record_deserializer* self, int code, int64_t channel) except -1


cdef class SpillPaths:
    cdef list encoded
    cdef const char** c  # NULL: the usual ones


cdef class RecordDeserializer:
    cdef fb_record_deserializer c
    cdef readonly int64_t channel_index
    cdef Py_buffer view             # the buffer being read
    cdef bint has_view
    cdef SpillPaths spill_paths
    cdef bint is_busy               # other code may run in the middle of a call
    cdef int enter(self) except -1
    cdef int release_buffer(self) except -1
