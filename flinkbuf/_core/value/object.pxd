from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t

from flinkbuf._core.ground.data_view cimport fb_data_input

cdef extern from "value/object.h" nogil:
    enum fb_object_tag:
        FB_OBJECT_SHORT_TEXT
        FB_OBJECT_SHORT_TUPLE
        FB_OBJECT_SHORT_LIST
        FB_OBJECT_NONE
        FB_OBJECT_FALSE
        FB_OBJECT_TRUE
        FB_OBJECT_FLOAT
        FB_OBJECT_INT
        FB_OBJECT_BIG_INT
        FB_OBJECT_ASCII
        FB_OBJECT_LATIN1
        FB_OBJECT_UCS2
        FB_OBJECT_UCS4
        FB_OBJECT_BYTES
        FB_OBJECT_BYTEARRAY
        FB_OBJECT_TUPLE
        FB_OBJECT_LIST
        FB_OBJECT_SET
        FB_OBJECT_FROZENSET
        FB_OBJECT_DICT
        FB_OBJECT_DATE
        FB_OBJECT_TIME
        FB_OBJECT_DATETIME
        FB_OBJECT_TIMEDELTA
        FB_OBJECT_DECIMAL
        FB_OBJECT_ROW
        FB_OBJECT_PICKLED
        FB_OBJECT_GLOBAL
        FB_OBJECT_REDUCED
    enum:
        FB_OBJECT_MAX_SHORT_TEXT
        FB_OBJECT_MAX_SHORT
        FB_OBJECT_MAX_DEPTH
    int fb_object_skip(fb_data_input* input, bint is_key)
    uint8_t* fb_object_put_int(uint8_t* to, int64_t number)
    int64_t fb_object_int(const uint8_t* from_, unsigned size, size_t left)
    bint fb_object_is_date(const uint8_t* from_)
    bint fb_object_is_time(const uint8_t* from_)
    bint fb_object_is_timedelta(const uint8_t* from_)
    bint fb_object_is_ucs4(const uint8_t* from_, size_t count)
