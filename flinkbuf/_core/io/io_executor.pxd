from libc.stdint cimport uint32_t, uint64_t

cdef extern from "io/io_executor.h" nogil:
    struct fb_io_executor:
        pass
    int fb_io_executor_open(const char* name, fb_io_executor** self)
    void fb_io_executor_retain(fb_io_executor* self)
    void fb_io_executor_drop(fb_io_executor* self)
    void fb_io_executor_close(fb_io_executor* self)
    uint64_t fb_io_executor_run_count(fb_io_executor* self)
    uint32_t fb_io_executor_pending_count(fb_io_executor* self)

cdef class IOExecutor:
    cdef fb_io_executor* c  # whoever gives it to something that outlives this object retains it
