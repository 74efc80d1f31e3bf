from libc.stdint cimport int64_t

from flinkbuf._core.state.key_context cimport KeyContext
from flinkbuf._core.operators.stream_operator cimport MultipleInputOperator, StreamOperator
from flinkbuf._core.state.timer_service cimport InternalTimerService


cdef class UserTimers:
    cdef object clock
    cdef int64_t watermark
    cdef InternalTimerService service

    cdef InternalTimerService keyed(self)


cdef class FiringTimer:
    cdef readonly int64_t timestamp
    cdef readonly object key, time_domain


cdef class CallContext:
    cdef bint is_valid

    cdef int check(self) except -1


cdef class ProcessContext(CallContext):
    cdef UserTimers timers
    cdef KeyContext keys
    cdef int64_t element_timestamp
    cdef object domain


cdef class KeyedProcessContext(ProcessContext):
    pass


cdef class OnTimerContext(KeyedProcessContext):
    pass


cdef int call_on_timer(StreamOperator operator, object on_timer, ProcessContext context, FiringTimer firing,
                       object domain, int64_t timestamp, object key) except -1


cdef class ProcessOperator(StreamOperator):
    cdef readonly object function
    cdef object process
    cdef ProcessContext process_context
    cdef UserTimers user_timers


cdef class KeyedProcessOperator(ProcessOperator):
    cdef object selector, on_timer, event_time, processing_time
    cdef ProcessContext timer_context
    cdef FiringTimer firing


cdef class CoProcessOperator(MultipleInputOperator):
    cdef readonly object function
    cdef object process1, process2
    cdef ProcessContext process_context
    cdef UserTimers user_timers

    cdef int call_function(self, Py_ssize_t index, object value, int64_t timestamp) except -1


cdef class KeyedCoProcessOperator(CoProcessOperator):
    cdef object selector1, selector2, on_timer, event_time, processing_time
    cdef ProcessContext timer_context
    cdef FiringTimer firing
