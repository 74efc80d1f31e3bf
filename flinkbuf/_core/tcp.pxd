from libc.stdint cimport uint16_t

cdef extern from "io/tcp.h" nogil:
    enum:
        FB_ADDRESS_TEXT_SIZE
    struct fb_address:
        pass
    int fb_address_resolve(fb_address* self, const char* host, uint16_t port)
    uint16_t fb_address_port(const fb_address* self)
    void fb_address_text(const fb_address* self, char* text)
