from libc.stdint cimport int64_t, uint32_t, uint64_t

from flinkbuf._core.io.file_channel cimport fb_file_channel, fb_file_failure, fb_file_mode, iovec
from flinkbuf._core.io.io_executor cimport IOExecutor, fb_io_executor

cdef extern from "io/io_channel.h" nogil:
    enum:
        FB_IO_SEQUENTIAL
    enum fb_io_operation_kind:
        FB_IO_WRITE
        FB_IO_READ
        FB_IO_READ_UP
    struct fb_io_operation:
        fb_io_operation_kind kind
        iovec[2] parts
        uint64_t offset
        size_t done_size
        int code
        void* owner
    struct fb_io_channel:
        fb_file_channel file
        fb_file_failure failure
        bint is_open
    int fb_io_channel_open(fb_io_channel* self, const char* path, fb_file_mode mode, fb_io_executor* executor,
                           fb_file_failure* failure)
    int fb_io_channel_submit(fb_io_channel* self, fb_io_operation* operation)
    fb_io_operation* fb_io_channel_take(fb_io_channel* self, int64_t timeout_ms)
    uint32_t fb_io_channel_outstanding(fb_io_channel* self)
    int fb_io_channel_close(fb_io_channel* self, bint deletes, fb_file_failure* failure)
    void fb_io_channel_discard(fb_io_channel* self)

cdef class IOOperation:
    cdef fb_io_operation c
    cdef Py_buffer[2] views
    cdef int view_count
    cdef readonly object item

cdef class IOChannel:
    cdef fb_io_channel c
    cdef object pending  # operations that are under way, which hold their bytes
    cdef readonly str path
    cdef submit(self, IOOperation operation)
    cdef IOOperation adopt(self, fb_io_operation* done)
