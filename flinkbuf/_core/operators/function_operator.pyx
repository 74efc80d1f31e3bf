"""Operators that call one function of the user for each record of an input, and know nothing of time.

On a keyed stream they set the key before, so that the function finds its state. Flink: StreamMap, StreamFilter,
StreamFlatMap, CoStreamMap, CoStreamFlatMap; PyFlink: its stateless chain (fn_execution/datastream/operations).
"""

cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from flinkbuf._core.operators.stream_operator cimport MultipleInputOperator, StreamOperator
from flinkbuf._core.record.plain_function cimport PlainFunction, call_one, called
from flinkbuf._core.value.python_object cimport FB_IDENTITY


cdef class FunctionOperator(StreamOperator):
    """Calls `function` with the value of each record.

    `lifecycle` has open(runtime_context) and close(), or is None. `key_selector` gives the key of a record; None: the
    function has no state.
    """

    def __init__(self, function, lifecycle=None, key_selector=None):
        self.function = function
        self.lifecycle = lifecycle
        self.key_selector = key_selector

    def open(self):
        if self.lifecycle is not None:
            self.lifecycle.open(self.context.runtime_context)

    def close(self):
        if self.lifecycle is not None:
            self.lifecycle.close()

    @cython.final
    cdef int select_key(self, object value) except -1:
        self.is_in_function = True
        self.key_context.set_key(called(self.key_selector, value))
        self.is_in_function = False
        return 0

    @cython.final
    cdef object call(self, object value):
        """The function's result; after an error `value_in_hand` is what it was called with."""
        cdef PyObject* result
        self.value_in_hand = value
        if self.key_selector is not None:
            self.select_key(value)
        result = call_one(<PyObject*>self.function, <PyObject*>value)
        if result is NULL:
            self.fail_in_function()
        return FB_IDENTITY(result)

    @cython.final
    cdef int fail_in_function(self) except -1:
        """The function has raised. Not before that is it noted, since most calls return."""
        self.is_in_function = True
        return -1


@cython.final
cdef class MapOperator(FunctionOperator):
    """One result for each record."""

    cpdef process_element(self, object value, int64_t timestamp):
        self.output.collect(self.call(value), timestamp)


@cython.final
cdef class FilterOperator(FunctionOperator):
    """The records for which the function gives something true."""

    def __init__(self, function, lifecycle=None, key_selector=None):
        FunctionOperator.__init__(self, function, lifecycle, key_selector)
        maker = getattr(function, "__self__", None)
        if type(maker) is PlainFunction and key_selector is None:
            self.plain = maker

    cdef bint drops(self, object value) except -1:
        """Whether a look at a record is enough to say that it is not let through; nothing of it changes."""
        cdef PyObject* result
        if self.plain is None:
            return False
        result = self.plain.evaluated(<PyObject*>value, NULL)
        if result is NULL:
            return -1 if PyErr_Occurred() is not NULL else False
        return FB_IDENTITY(result) is False

    cpdef process_element(self, object value, int64_t timestamp):
        if self.call(value):
            self.output.collect(value, timestamp)


@cython.final
cdef class FlatMapOperator(FunctionOperator):
    """Any number of results for each record: what the function yields, or the elements of what it returns."""

    cpdef process_element(self, object value, int64_t timestamp):
        self.value_in_hand = value
        if self.key_selector is not None:
            self.select_key(value)
        self.is_in_function = True
        for result in self.function(value):
            self.is_in_function = False
            self.output.collect(result, timestamp)
            self.is_in_function = True
        self.is_in_function = False


cdef class CoFunctionOperator(MultipleInputOperator):
    """Calls the function of the input that a record came by.

    `combined` is the CombinedWatermark of the two inputs; `lifecycle` has open(runtime_context) and close(), or is
    None; `key_selectors` has one for each input, or is None.
    """

    def __init__(self, functions, combined, lifecycle=None, key_selectors=None):
        super().__init__(len(functions), combined)
        self.functions = tuple(functions)
        self.lifecycle = lifecycle
        self.key_selectors = None if key_selectors is None else tuple(key_selectors)

    def open(self):
        if self.lifecycle is not None:
            self.lifecycle.open(self.context.runtime_context)

    def close(self):
        if self.lifecycle is not None:
            self.lifecycle.close()

    cdef object call(self, Py_ssize_t index, object value):
        """The function's result, with `is_in_function` still set."""
        self.value_in_hand = value
        self.is_in_function = True
        if self.key_selectors is not None:
            self.key_context.set_key(called(self.key_selectors[index], value))
        return self.functions[index](value)


cdef class CoMapOperator(CoFunctionOperator):
    """At most one result for each record: None is none."""

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        result = self.call(index, value)
        self.is_in_function = False
        if result is not None:
            self.output.collect(result, timestamp)


cdef class CoFlatMapOperator(CoFunctionOperator):
    """Any number of results for each record; None is none."""

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        results = self.call(index, value)
        if results is not None:
            for result in results:
                self.is_in_function = False
                self.output.collect(result, timestamp)
                self.is_in_function = True
        self.is_in_function = False
