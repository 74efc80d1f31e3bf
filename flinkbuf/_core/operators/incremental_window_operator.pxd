from libc.stdint cimport int64_t

from flinkbuf._core.operators.time_window cimport TimeWindow
from flinkbuf._core.operators.window_operator cimport WindowOperator


cdef enum gathering:
    LIST
    REDUCE
    AGGREGATE


cdef class IncrementalWindowOperator(WindowOperator):
    cdef bint may_lack_timers   # what has contents may have been evaluated before the restore
    cdef gathering how
    cdef object reduce                                      # of REDUCE
    cdef object create_accumulator, add_value, get_result   # of AGGREGATE

    cdef object add_contents(self, object before, object value)
    cdef object gathered(self, object before, object value)
    cdef int emit_value(self, TimeWindow window, object value, bint is_last) except -1
