from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from flinkbuf._core.value.type cimport fb_type_kind

cdef extern from "value/number.h" nogil:
    uint64_t fb_number_double_bits(double value)
    uint32_t fb_number_float_bits(double value)
    double fb_number_double(uint64_t bits)
    double fb_number_float(uint32_t bits)
    void fb_number_store_array(fb_type_kind kind, const void* from_, size_t count, uint8_t* to)
    void fb_number_load_array(fb_type_kind kind, const uint8_t* from_, size_t count, void* to)
