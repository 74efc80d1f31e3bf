from libc.stdint cimport int64_t, uint64_t

from flinkbuf._core.columns.arrow_column cimport ArrowArray, fb_arrow_column

cdef extern from "columns/arrow_builder.h" nogil:
    struct fb_arrow_builder:
        int64_t length
    int fb_arrow_builder_open(fb_arrow_builder* self, const fb_arrow_column* column)
    void fb_arrow_builder_close(fb_arrow_builder* self)
    uint64_t fb_arrow_builder_bytes(const fb_arrow_builder* self)
    int fb_arrow_builder_finish(fb_arrow_builder* self, ArrowArray* array)
