from libc.stdint cimport int64_t

from flinkbuf._core.state.keyed_state cimport KeyedMapState
from flinkbuf._core.operators.process_operator cimport CallContext
from flinkbuf._core.operators.stream_operator cimport MultipleInputOperator
from flinkbuf._core.state.timer_service cimport InternalTimerService


cdef class ProcessJoinContext(CallContext):
    cdef int64_t left_timestamp, right_timestamp


cdef class IntervalJoinOperator(MultipleInputOperator):
    cdef readonly object function
    cdef object process, left_selector, right_selector
    cdef int64_t lower_ms, upper_ms         # of a right record's time less a left one's, both included
    cdef str left_late_tag, right_late_tag  # None: late records are dropped
    cdef object left_descriptor, right_descriptor
    cdef KeyedMapState left_buffer, right_buffer  # of each key: {timestamp: [records in the order in which they came]}
    cdef InternalTimerService cleanup
    cdef bint owns_records
    cdef ProcessJoinContext join_context

    cdef list matches(self, KeyedMapState other, int64_t first, int64_t last)
    cdef int join_left(self, object left, int64_t timestamp) except -1
    cdef int join_right(self, object right, int64_t timestamp) except -1
    cdef int call_function(self, object left, object right, int64_t left_time, int64_t right_time) except -1
    cdef int buffer(self, KeyedMapState own, object value, int64_t timestamp) except -1
