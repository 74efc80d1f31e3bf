cimport cython

from flinkbuf._core.operators.stream_operator cimport MultipleInputOperator, StreamOperator
from flinkbuf._core.record.plain_function cimport PlainFunction


cdef class FunctionOperator(StreamOperator):
    cdef readonly object function
    cdef object lifecycle
    cdef object key_selector    # None: the function is called without a current key

    @cython.final
    cdef object call(self, object value)
    @cython.final
    cdef int fail_in_function(self) except -1
    @cython.final
    cdef int select_key(self, object value) except -1


@cython.final
cdef class MapOperator(FunctionOperator):
    pass


@cython.final
cdef class FilterOperator(FunctionOperator):
    cdef PlainFunction plain    # what `function` is made of, if it only looks at a record; else None

    cdef bint drops(self, object value) except -1


@cython.final
cdef class FlatMapOperator(FunctionOperator):
    pass


cdef class CoFunctionOperator(MultipleInputOperator):
    cdef readonly tuple functions
    cdef tuple key_selectors    # None: the functions are called without a current key
    cdef object lifecycle

    cdef object call(self, Py_ssize_t index, object value)


cdef class CoMapOperator(CoFunctionOperator):
    pass


cdef class CoFlatMapOperator(CoFunctionOperator):
    pass
