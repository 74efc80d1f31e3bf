from flinkbuf._core.operators.aligned_window_operator cimport AlignedWindowOperator


cdef class CombinedWindowOperator(AlignedWindowOperator):
    cdef object merge       # of AGGREGATE
    cdef str merge_name     # as errors have it
