from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.columns.arrow_column cimport fb_arrow_column
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows
from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.record.range_bounds cimport fb_range_bounds
from flinkbuf._core.record.range_key cimport fb_range_order

cdef extern from "columns/arrow_range.h" nogil:
    struct fb_arrow_range:
        const fb_arrow_column** columns
        const fb_range_order* orders
        uint32_t column_count
        const fb_range_bounds* bounds
        fb_data_output scratch
    void fb_arrow_range_close(fb_arrow_range* self)
    int fb_arrow_range_check(const fb_arrow_column* column)
    int fb_arrow_range_key(fb_arrow_range* self, const fb_arrow_column* row, int64_t i)
    int fb_arrow_range_channels(fb_arrow_range* self, const fb_arrow_rows* rows, uint32_t* channels)
