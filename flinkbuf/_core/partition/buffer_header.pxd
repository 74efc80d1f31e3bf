from libc.stdint cimport uint8_t, uint32_t

from flinkbuf._core.memory.buffer cimport fb_buffer_slice

cdef extern from "partition/buffer_header.h" nogil:
    enum:
        FB_BUFFER_HEADER_SIZE
    struct fb_buffer_header:
        uint32_t size
        uint8_t data_type
        bint is_compressed
    int fb_buffer_header_write(uint8_t* to, const fb_buffer_slice* buffer)
    int fb_buffer_header_read(const uint8_t* from_, fb_buffer_header* header)
