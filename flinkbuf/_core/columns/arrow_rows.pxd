from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.columns.arrow_column cimport fb_arrow_column, fb_arrow_fault
from flinkbuf._core.memory.buffer_builder cimport fb_buffer_builder

cdef extern from "columns/arrow_rows.h" nogil:
    enum:
        FB_ARROW_CHUNK
        FB_ARROW_ROWS_SLACK
    struct fb_arrow_rows:
        const fb_arrow_column* row
        int64_t first
        uint32_t count
        uint32_t[512] sizes
        uint32_t[512] channels
    int fb_arrow_rows_open(fb_arrow_rows* self, const fb_arrow_column* row)
    void fb_arrow_rows_close(fb_arrow_rows* self)
    void fb_arrow_rows_measure(fb_arrow_rows* self, int64_t first, fb_arrow_fault* fault)
    uint32_t fb_arrow_rows_scatter(fb_arrow_rows* self, uint32_t start, fb_buffer_builder* builders,
                                   uint32_t builder_count, uint64_t* counts)
    void fb_arrow_rows_pack(fb_arrow_rows* self, uint32_t start, uint32_t count, uint8_t* to)
