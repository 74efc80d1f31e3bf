from libc.stdint cimport uint32_t, uint64_t

cdef extern from "io/reactor.h" nogil:
    struct fb_reactor:
        pass
    struct fb_reactor_counters:
        uint64_t turns
        uint64_t wakeups
        uint64_t bytes_read
        uint64_t bytes_written
        uint64_t writes
        uint32_t sources
    struct fb_tcp_patience:
        uint32_t keep_idle_s
        uint32_t keep_interval_s
        uint32_t keep_count
        uint32_t dead_ms
    const fb_tcp_patience* fb_reactor_tcp_patience(const fb_reactor* self)
    void fb_reactor_set_tcp_patience(fb_reactor* self, const fb_tcp_patience* patience)
    int fb_reactor_open(fb_reactor** self)
    void fb_reactor_close(fb_reactor* self)
    int fb_reactor_call(fb_reactor* self, void (*function)(void* context) noexcept nogil, void* context)
    void fb_reactor_get_counters(fb_reactor* self, fb_reactor_counters* counters)

cdef extern from "io/tcp.h" nogil:
    void fb_tcp_set_patience(int fd, const fb_tcp_patience* patience)
    void fb_tcp_set_user_timeout(int fd, uint32_t timeout_ms)


cdef class Reactor:
    cdef fb_reactor* c
    cdef object process_id
    cdef object users  # what is closed before the thread ends; held weakly
    cdef int check_open(self) except -1
