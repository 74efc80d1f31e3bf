from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from flinkbuf._core.ground.data_view cimport fb_data_input

cdef extern from "value/type.h" nogil:
    enum fb_type_kind:
        FB_TYPE_BOOLEAN
        FB_TYPE_BYTE
        FB_TYPE_SHORT
        FB_TYPE_CHAR
        FB_TYPE_INT
        FB_TYPE_LONG
        FB_TYPE_FLOAT
        FB_TYPE_DOUBLE
        FB_TYPE_STRING
        FB_TYPE_STRING_VALUE
        FB_TYPE_VOID
        FB_TYPE_NULL_VALUE
        FB_TYPE_BIG_INT
        FB_TYPE_BIG_DEC
        FB_TYPE_INSTANT
        FB_TYPE_LOCAL_DATE
        FB_TYPE_LOCAL_TIME
        FB_TYPE_LOCAL_DATE_TIME
        FB_TYPE_DATE
        FB_TYPE_SQL_DATE
        FB_TYPE_SQL_TIME
        FB_TYPE_SQL_TIMESTAMP
        FB_TYPE_ENUM
        FB_TYPE_PICKLED_BYTES
        FB_TYPE_OBJECT
        FB_TYPE_PRIMITIVE_ARRAY
        FB_TYPE_STRING_ARRAY
        FB_TYPE_OBJECT_ARRAY
        FB_TYPE_LIST
        FB_TYPE_SET
        FB_TYPE_MAP
        FB_TYPE_TUPLE
        FB_TYPE_ROW
        FB_TYPE_EITHER
        FB_TYPE_NULLABLE
        FB_TYPE_STREAM_ELEMENT
        FB_TYPE_STRING_DATA
        FB_TYPE_DECIMAL_DATA
        FB_TYPE_DATE_DATA
        FB_TYPE_TIME_DATA
        FB_TYPE_TIMESTAMP_DATA
        FB_TYPE_TIMESTAMP_LTZ_DATA
        FB_TYPE_ARRAY_DATA
        FB_TYPE_MAP_DATA
        FB_TYPE_ROW_DATA
        FB_TYPE_KIND_COUNT
    enum fb_element_tag:
        FB_ELEMENT_RECORD_WITH_TIMESTAMP
        FB_ELEMENT_RECORD
        FB_ELEMENT_WATERMARK
        FB_ELEMENT_LATENCY_MARKER
        FB_ELEMENT_WATERMARK_STATUS
        FB_ELEMENT_RECORD_ATTRIBUTES
        FB_ELEMENT_INTERNAL_WATERMARK
    enum:
        FB_TYPE_MAX_EMPTY_ELEMENTS
    struct fb_type:
        fb_type_kind kind
        uint32_t child_count
        const fb_type* const* children
        uint32_t symbol_count
        uint32_t padding
        uint32_t precision
        uint32_t scale
        uint32_t min_size
    void fb_type_measure(fb_type* self)
    bint fb_type_fits(uint32_t count, uint32_t min_size, size_t left)
    int fb_type_skip(const fb_type* self, fb_data_input* input)
    uint32_t fb_type_slot_width(const fb_type* self)
    bint fb_type_is_compact(const fb_type* self)
