from libc.stdint cimport int64_t

from flinkbuf._core.operators.aggregate_operator cimport FieldReduce
from flinkbuf._core.operators.delayed_operator cimport DelayedOperator
from flinkbuf._core.operators.incremental_window_operator cimport AGGREGATE, REDUCE, gathering
from flinkbuf._core.state.key_context cimport KeyContext
from flinkbuf._core.state.keyed_state cimport KeyedState


cdef class Combined:
    cdef object value
    cdef int64_t timestamp      # the latest of its records; INT64_MIN: none has one


cdef class Panes:
    cdef int64_t length_ms, offset_ms
    cdef int64_t min_time, max_time     # of records whose windows fit into 64 bits
    cdef object assigner

    cdef int64_t start_of(self, object value, int64_t timestamp) except? -1


cdef class CombiningOperator(DelayedOperator):
    cdef object selector, make_state
    cdef object reduce                          # of a reduction
    cdef FieldReduce field_reduce               # `reduce`, if it is one
    cdef object create_accumulator, add_value   # of an aggregation
    cdef Panes panes            # None: what a key has is not told apart by time
    cdef KeyContext keys
    cdef KeyedState state       # holds nothing: says what is kept of a value
    cdef gathering how
    cdef dict gathered          # start of a pane -> {token: Combined}
    cdef dict recent            # that of the pane of the record before
    cdef int64_t recent_start
    cdef readonly Py_ssize_t count  # of what is combined now

    cdef dict of_pane(self, int64_t start)
    cdef object combined(self, object before, object value)
    cdef int flush(self, int64_t watermark) except -1
    cdef int flush_pane(self, object start, dict entries) except -1
