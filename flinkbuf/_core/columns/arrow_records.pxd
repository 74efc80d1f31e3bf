from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.columns.arrow_builder cimport fb_arrow_builder
from flinkbuf._core.columns.arrow_column cimport fb_arrow_column
from flinkbuf._core.record.record_deserializer cimport fb_record_deserializer

cdef extern from "columns/arrow_records.h" nogil:
    enum:
        FB_ARROW_RECORDS
    struct fb_arrow_records:
        uint32_t count
        const uint8_t* heads[512]
        const uint8_t* ends[512]
    struct fb_arrow_reading:
        int code
        const char* reason
        const fb_arrow_column* column
        uint32_t row
        size_t byte
    void fb_arrow_records_collect(fb_record_deserializer* deserializer, uint32_t limit, fb_arrow_records* records)
    int64_t fb_arrow_records_read(fb_arrow_builder* builder, fb_arrow_records* records, fb_arrow_reading* reading)
    void fb_arrow_records_skip(fb_arrow_records* records, uint32_t count)
