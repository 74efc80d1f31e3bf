from libc.stdint cimport int32_t, uint32_t

from flinkbuf._core.columns.arrow_column cimport fb_arrow_column, fb_arrow_fault
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows
from flinkbuf._core.ground.data_view cimport fb_data_output

cdef extern from "columns/arrow_key.h" nogil:
    struct fb_arrow_key:
        const fb_arrow_column** columns
        uint32_t column_count
        fb_data_output scratch
    void fb_arrow_key_close(fb_arrow_key* self)
    int fb_arrow_key_hash(fb_arrow_key* self, fb_arrow_rows* rows, int32_t* hashes, fb_arrow_fault* fault)
