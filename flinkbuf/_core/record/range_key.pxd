from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.value.type cimport fb_type

cdef extern from "record/range_key.h" nogil:
    struct fb_range_order:
        bint is_descending
        bint has_nulls_first
    int fb_range_key_check(const fb_type* type)
    int fb_range_key_put_null(fb_range_order order, fb_data_output* key)
    int fb_range_key_put_encoded(const fb_type* type, fb_range_order order, fb_data_input* input, fb_data_output* key)
