"""Operators that call one function of the user for each record and know nothing of keys, state or time.

Flink: StreamMap, StreamFilter, StreamFlatMap; PyFlink: its stateless chain (fn_execution/datastream/operations).
"""

from libc.stdint cimport int64_t

from flinkbuf._core.stream_operator cimport StreamOperator


cdef class FunctionOperator(StreamOperator):
    """Calls `function` with the value of each record. `lifecycle` has open(runtime_context) and close(), or is None."""

    def __init__(self, function, lifecycle=None):
        self.function = function
        self.lifecycle = lifecycle

    def open(self):
        if self.lifecycle is not None:
            self.lifecycle.open(self.context.runtime_context)

    def close(self):
        if self.lifecycle is not None:
            self.lifecycle.close()

    cdef object call(self, object value):
        """The function's result; after an error `value_in_hand` is what it was called with."""
        self.value_in_hand = value
        self.is_in_function = True
        result = self.function(value)
        self.is_in_function = False
        return result


cdef class MapOperator(FunctionOperator):
    """One result for each record."""

    cpdef process_element(self, object value, int64_t timestamp):
        self.output.collect(self.call(value), timestamp)


cdef class FilterOperator(FunctionOperator):
    """The records for which the function gives something true."""

    cpdef process_element(self, object value, int64_t timestamp):
        if self.call(value):
            self.output.collect(value, timestamp)


cdef class FlatMapOperator(FunctionOperator):
    """Any number of results for each record: what the function yields, or the elements of what it returns."""

    cpdef process_element(self, object value, int64_t timestamp):
        self.value_in_hand = value
        self.is_in_function = True
        results = self.function(value)
        for result in results:
            self.is_in_function = False
            self.output.collect(result, timestamp)
            self.is_in_function = True
        self.is_in_function = False
