from libc.stdint cimport uint16_t

cdef extern from "io/tcp.h" nogil:
    enum:
        FB_ADDRESS_TEXT_SIZE
    struct fb_tcp_address:
        pass
    int fb_tcp_address_resolve(fb_tcp_address* self, const char* host, uint16_t port)
    uint16_t fb_tcp_address_port(const fb_tcp_address* self)
    void fb_tcp_address_text(const fb_tcp_address* self, char* text)
