from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.value.binary_row cimport fb_wide_int
from flinkbuf._core.value.type cimport fb_type

cdef extern from "value/row_data_value.h" nogil:
    enum:
        FB_ROW_DATA_VALUE_MAX_PLAIN
    bint fb_row_data_value_decimal(const fb_type* type, const uint8_t* plain, fb_wide_int* unscaled)
    uint8_t* fb_row_data_value_put_decimal(const fb_type* type, fb_wide_int unscaled, uint8_t* plain)
    bint fb_row_data_value_moment(const fb_type* type, const uint8_t* plain, int64_t* value, uint32_t* nanos)
    uint8_t* fb_row_data_value_put_moment(const fb_type* type, int64_t value, uint32_t nanos, uint8_t* plain)
