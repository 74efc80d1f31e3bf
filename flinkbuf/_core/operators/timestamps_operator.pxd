from libc.stdint cimport int64_t

from flinkbuf._core.operators.stream_operator cimport Output, StreamOperator
from flinkbuf._core.operators.watermark_generator cimport WatermarkGenerator, WatermarkOutput


cdef class WatermarkEmitter(WatermarkOutput):
    cdef Output output
    cdef int64_t last_watermark
    cdef bint is_idle


cdef class TimestampsAndWatermarksOperator(StreamOperator):
    cdef object strategy
    cdef object extract_timestamp   # of the user's assigner; None: records keep what they have
    cdef object extract             # what is called for it
    cdef WatermarkGenerator generator
    cdef bint is_users_generator
    cdef WatermarkEmitter emitter
    cdef object timer
    cdef int64_t interval_ms

    cdef int64_t timestamp_of(self, object value, int64_t previous) except? -1
