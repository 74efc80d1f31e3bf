from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from flinkbuf._core.ground.data_view cimport fb_data_input

cdef extern from "value/text.h" nogil:
    struct fb_text:
        size_t size
        uint32_t units
        uint32_t length
        uint32_t max_point
    int fb_text_read_varint(fb_data_input* input, uint32_t* value)
    uint8_t* fb_text_write_varint(uint32_t value, uint8_t* to)
    int fb_text_measure(fb_data_input* input, uint32_t units, fb_text* text)
    void fb_text_decode(const uint8_t* from_, const fb_text* text, int width, void* points)
    bint fb_text_plan(const void* points, size_t length, int width, fb_text* text)
    uint8_t* fb_text_encode(const void* points, size_t length, int width, uint8_t* to)
    bint fb_text_is_ascii(const uint8_t* from_, size_t size)
    void fb_text_copy(uint8_t* to, const uint8_t* from_, size_t size)
