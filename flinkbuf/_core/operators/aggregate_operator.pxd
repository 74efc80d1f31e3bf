from libc.stdint cimport int64_t

from flinkbuf._core.state.keyed_state cimport KeyedState
from flinkbuf._core.operators.stream_operator cimport StreamOperator


cdef enum aggregation:
    SUM
    MIN
    MAX
    MIN_BY
    MAX_BY


cdef class FieldReduce:
    cdef aggregation kind
    cdef readonly object position

    cdef object combine(self, object value1, object value2)
    cdef object combine_fields(self, object value1, object value2)
    cdef Py_ssize_t index_in(self, object value) except -1


cdef object combined_result(object value)


cdef class ReduceOperator(StreamOperator):
    cdef object selector, reduce, descriptor, lifecycle
    cdef FieldReduce field_reduce   # `reduce`, if it is one
    cdef bint is_batch, is_combined
    cdef KeyedState state
    cdef object timer_service

    cdef object reduced(self, object before, object value)
