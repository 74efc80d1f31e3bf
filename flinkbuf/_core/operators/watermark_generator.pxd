# Timestamps and watermarks are milliseconds; INT64_MIN is "none yet".

from libc.stdint cimport int64_t


cdef class WatermarkOutput:
    cpdef emit_watermark(self, int64_t timestamp)
    cpdef mark_idle(self)
    cpdef mark_active(self)


cdef class WatermarkGenerator:
    cdef bint looks_at_events   # not only at their timestamps

    cpdef on_event(self, object event, int64_t event_timestamp, object output)
    cpdef on_periodic_emit(self, object output)


cdef class NoWatermarksGenerator(WatermarkGenerator):
    pass


cdef class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t max_out_of_orderness_ms


cdef class WatermarksWithIdleness(WatermarkGenerator):
    cdef WatermarkGenerator generator
    cdef object clock
    cdef int64_t idle_timeout_ms
    cdef int64_t idle_since         # when no event was first missed; INT64_MIN: there was one since the last look
    cdef bint had_event
    cdef bint is_idle

    cdef bint is_over(self) except -1
