from libc.stdint cimport uint64_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "io/file_channel.h" nogil:
    struct fb_file_failure:
        int code
        int error
        uint64_t offset
        char* text
    enum fb_file_mode:
        FB_FILE_READ
        FB_FILE_CREATE
        FB_FILE_EXTEND
    struct fb_file_channel:
        char* path
        uint64_t position
    int fb_file_channel_open(fb_file_channel* self, const char* path, fb_file_mode mode, fb_file_failure* failure)
    bint fb_file_channel_is_open(const fb_file_channel* self)
    int fb_file_channel_write_all(fb_file_channel* self, iovec* parts, size_t part_count, fb_file_failure* failure)
    int fb_file_channel_read_exactly(const fb_file_channel* self, uint64_t offset, void* to, size_t size,
                                     fb_file_failure* failure)
    int fb_file_channel_sync(fb_file_channel* self, fb_file_failure* failure)
    int fb_file_channel_get_size(const fb_file_channel* self, uint64_t* size, fb_file_failure* failure)
    int fb_file_channel_close(fb_file_channel* self, fb_file_failure* failure)
    void fb_file_channel_close_and_delete(fb_file_channel* self)
    const char* fb_file_failure_text(const fb_file_failure* failure)

cdef int raise_file_failure(const fb_file_failure* failure, object path) except -1  # what open files end in

cdef class FileChannel:
    cdef fb_file_channel c
    cdef readonly str path
