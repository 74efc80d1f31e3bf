from libc.stdint cimport int64_t

from flinkbuf._core.io.tcp cimport fb_tcp_address

cdef extern from "io/carrier.h" nogil:
    struct fb_carrier:
        pass
    fb_carrier* fb_carrier_new()
    void fb_carrier_retain(fb_carrier* self)
    void fb_carrier_drop(fb_carrier* self)
    void fb_carrier_fail(fb_carrier* self, int code, const char* reason)

cdef extern from "io/connection.h" nogil:
    struct fb_carried:
        int fd
        fb_carrier* carrier

cdef extern from "io/dialer.h" nogil:
    struct fb_dialer:
        pass
    struct fb_call:
        fb_carried carried
        fb_tcp_address peer
        int64_t timeout_ms
    int fb_dialer_open(fb_dialer** self)
    void fb_dialer_close(fb_dialer* self)
    int fb_dialer_fd(const fb_dialer* self)
    bint fb_dialer_take(fb_dialer* self, fb_call* call)


cdef class Carrier:
    cdef fb_carrier* c


cdef class Dialer:
    cdef fb_dialer* c
