from libc.stdint cimport int32_t, uint8_t, uint32_t

from flinkbuf._core.memory.buffer cimport fb_buffer, fb_buffer_slice

cdef extern from "memory/buffer_builder.h" nogil:
    struct fb_buffer_builder:
        fb_buffer* buffer
        uint8_t* data
        uint32_t position
        uint32_t capacity
        bint is_finished
        bint has_consumer
        uint8_t data_type
    struct fb_buffer_consumer:
        fb_buffer* buffer
        uint32_t reader_position
        int32_t cached_marker
        uint8_t data_type
        bint is_compressed
        bint is_whole
    void fb_buffer_builder_open(fb_buffer_builder* self, fb_buffer* buffer)
    void fb_buffer_builder_close(fb_buffer_builder* self)
    uint32_t fb_buffer_builder_writable(const fb_buffer_builder* self)
    bint fb_buffer_builder_is_committed(const fb_buffer_builder* self)
    bint fb_buffer_builder_is_full(const fb_buffer_builder* self)
    void fb_buffer_builder_commit(fb_buffer_builder* self)
    size_t fb_buffer_builder_append(fb_buffer_builder* self, const uint8_t* data, size_t size)
    uint32_t fb_buffer_builder_finish(fb_buffer_builder* self)
    void fb_buffer_builder_trim(fb_buffer_builder* self, uint32_t size)
    int fb_buffer_builder_consumer(fb_buffer_builder* self, bint from_beginning, fb_buffer_consumer* consumer)
    void fb_buffer_consumer_open(fb_buffer_consumer* self, fb_buffer_slice* slice)
    void fb_buffer_consumer_close(fb_buffer_consumer* self)
    void fb_buffer_consumer_copy(const fb_buffer_consumer* self, fb_buffer_consumer* copy)
    int fb_buffer_consumer_copy_at(const fb_buffer_consumer* self, uint32_t reader_position,
                                   fb_buffer_consumer* copy)
    void fb_buffer_consumer_build(fb_buffer_consumer* self, fb_buffer_slice* slice)
    int fb_buffer_consumer_skip(fb_buffer_consumer* self, uint32_t size)
    bint fb_buffer_consumer_is_finished(const fb_buffer_consumer* self)
    bint fb_buffer_consumer_is_data_available(const fb_buffer_consumer* self)
    uint32_t fb_buffer_consumer_committed(const fb_buffer_consumer* self)

cdef class BufferConsumer

cdef class BufferBuilder:
    cdef fb_buffer_builder c
    @staticmethod
    cdef BufferBuilder adopt(fb_buffer* buffer)  # takes over the reference, also when it fails
    cdef int check_writable(self) except -1
    cdef BufferConsumer consumer(self, bint from_beginning)

cdef class BufferConsumer:
    cdef fb_buffer_consumer c
    cdef int check_open(self) except -1
