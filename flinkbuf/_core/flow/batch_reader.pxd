cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from flinkbuf._core.columns.arrow_builder cimport fb_arrow_builder
from flinkbuf._core.columns.arrow_column cimport ArrowPlan
from flinkbuf._core.columns.arrow_records cimport fb_arrow_reading, fb_arrow_records
from flinkbuf._core.record.record_deserializer cimport fb_record_deserializer


cdef class BatchBuilder:
    cdef ArrowPlan plan
    cdef object make                # called with an object that has __arrow_c_array__: gives the batch
    cdef object schema
    cdef fb_arrow_builder builder
    cdef fb_arrow_records records
    cdef fb_arrow_reading reading
    cdef int64_t max_rows
    cdef uint64_t max_bytes
    cdef bint is_full
    cdef bint has_left              # `records` are for the next batch
    cdef object failure             # raised once what was read before it has been given

    @cython.final
    cdef int read(self, fb_record_deserializer* deserializer, int64_t channel, object located) except -1
    @cython.final
    cdef int read_one(self, fb_record_deserializer* deserializer, const uint8_t* record, size_t size, int64_t channel,
                      object located) except -1
    @cython.final
    cdef int read_records(self, fb_record_deserializer* deserializer, int64_t channel, object located) except -1
    @cython.final
    cdef object error(self, str place, str full_advice)
    @cython.final
    cdef object finish(self)
    @cython.final
    cdef object hand_over(self)
