from libc.stdint cimport int64_t, uint64_t

cdef extern from "ground/wakeup.h" nogil:
    struct fb_wakeup:
        pass
    int fb_wakeup_open(fb_wakeup* self)
    void fb_wakeup_close(fb_wakeup* self)
    uint64_t fb_wakeup_seen(fb_wakeup* self)
    void fb_wakeup_ring(fb_wakeup* self)
    bint fb_wakeup_wait(fb_wakeup* self, uint64_t seen, int64_t timeout_ms)
    struct fb_wakeup_shared:
        fb_wakeup wakeup
    int fb_wakeup_shared_open(fb_wakeup_shared** self)
    void fb_wakeup_shared_drop(fb_wakeup_shared* self)


cdef class TaskBell:
    cdef fb_wakeup_shared* c

    cpdef uint64_t seen(self) noexcept
    cpdef bint wait(self, uint64_t seen, int64_t timeout_ms) except? -1
    cpdef void ring(self) noexcept
