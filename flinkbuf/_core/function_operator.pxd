from flinkbuf._core.stream_operator cimport StreamOperator


cdef class FunctionOperator(StreamOperator):
    cdef readonly object function
    cdef object lifecycle

    cdef object call(self, object value)


cdef class MapOperator(FunctionOperator):
    pass


cdef class FilterOperator(FunctionOperator):
    pass


cdef class FlatMapOperator(FunctionOperator):
    pass
