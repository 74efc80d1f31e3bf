cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.operators.function_operator cimport FilterOperator
from flinkbuf._core.operators.stream_operator cimport Input, Output


cdef class OperatorCounters:
    cdef readonly int64_t records_in
    cdef readonly int64_t records_out
    cdef readonly int64_t input_watermark
    cdef readonly int64_t output_watermark


cdef class EdgeOutput(Output):
    cdef OperatorCounters counters      # of the operator that emits
    cdef readonly str tag               # of the side output it carries; None: the main output
    cdef bint is_idle                   # as announced downstream
    cdef readonly object value_in_hand
    cdef readonly bint is_writing       # `value_in_hand` has not been taken yet

    cdef int push(self, object value, int64_t timestamp) except -1
    cdef int push_watermark(self, int64_t timestamp) except -1
    cdef int push_status(self, bint is_idle) except -1
    cdef int push_marker(self, object marker) except -1
    cpdef send_waiting(self)
    cdef bint is_network(self) noexcept


@cython.final
cdef class ChainingOutput(EdgeOutput):
    cdef Input target
    cdef OperatorCounters target_counters
    cdef readonly bint copies           # the record goes other ways, too
    cdef FilterOperator filter          # the target, if it is one; else None

    # A record of the main output, where it is known that this is an edge of it.
    cdef inline int give(self, object value, int64_t timestamp) except -1:
        self.counters.records_out += 1
        self.target_counters.records_in += 1
        if self.copies:
            return self.give_copy(value, timestamp)
        self.target.process_element(value, timestamp)
        return 0

    cdef int give_copy(self, object value, int64_t timestamp) except -1
    cdef object copy_of(self, object value)


@cython.final
cdef class BroadcastingOutput(Output):
    cdef OperatorCounters counters
    cdef OperatorCounters task_counters
    cdef readonly list edges            # all, in order
    cdef list main_edges
    cdef EdgeOutput only_main           # if there is exactly one main edge
    cdef dict side_edges                # tag -> edges
    cdef bint is_main_network

    cdef int push_main(self, object value, int64_t timestamp) except -1
