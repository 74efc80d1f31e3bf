from libc.stdint cimport int64_t

from flinkbuf._core.operators.stream_operator cimport StreamOperator


cdef class DelayedOperator(StreamOperator):
    cdef int64_t max_delay_ms   # how long a record may wait for others; -1: as long as event time stands still
    cdef object lifecycle
    cdef object timer           # of what waits now, or of what waited earlier; None: none is set
    cdef int64_t began_ms       # when the first record came of what waits now

    cdef bint has_waiting(self) noexcept
    cdef int flush_all(self) except -1
    cdef int begin_delay(self) except -1
