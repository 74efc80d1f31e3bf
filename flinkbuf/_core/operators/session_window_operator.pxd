from libc.stdint cimport int64_t

from flinkbuf._core.operators.incremental_window_operator cimport IncrementalWindowOperator
from flinkbuf._core.operators.time_window cimport TimeWindow


cdef class SessionWindowOperator(IncrementalWindowOperator):
    cdef int64_t gap_ms     # 0: each record says its own

    cdef TimeWindow session_of(self, object value, int64_t timestamp)
    cdef dict windows_of_key(self)
    cdef TimeWindow join(self, dict windows, TimeWindow session, list joined, TimeWindow result)
    cdef int set_timers(self, TimeWindow session) except -1
    cdef int take_timers_back(self, TimeWindow session) except -1
    cdef int end_or_fire(self, int64_t timestamp, TimeWindow session) except -1
