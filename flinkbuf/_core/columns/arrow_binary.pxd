from libc.stdint cimport int64_t

from flinkbuf._core.columns.arrow_builder cimport fb_arrow_builder
from flinkbuf._core.columns.arrow_column cimport fb_arrow_column, fb_arrow_fault
from flinkbuf._core.columns.arrow_records cimport fb_arrow_reading
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows

cdef extern from "columns/arrow_binary.h" nogil:
    int fb_arrow_binary_write(fb_arrow_rows* rows, fb_arrow_builder* to, fb_arrow_fault* fault)
    bint fb_arrow_binary_is(const fb_arrow_column* column)
    int64_t fb_arrow_binary_read(const fb_arrow_column* values, fb_arrow_builder* to, bint is_permissive,
                                 fb_arrow_reading* reading)
