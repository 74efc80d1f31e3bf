"""Functions that only look at their arguments, such as key selectors, done in C where that is the same.

``lambda bid: bid.auction``, ``lambda pair: pair[0]``, ``lambda event: type(event) is Bid`` and tuples of such are most
of what programs give to map, filter and key_by, and calling one takes ten times as long as what it says. Here it is
read off its bytecode once. A call is answered in C if its arguments are of builtin types, named tuples or rows, so that
no code of others could run; else, and whenever anything else stands in the way, the function itself is called, with
whatever it raises. So nobody can tell, but by the time; a debugger or profiler that watches the thread sees each call.
"""

cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.object cimport PyObject

import types

from flinkbuf._core.record.plain_code cimport read_code
from flinkbuf._core.record.plain_node cimport evaluate, plain_call
from flinkbuf._core.value.python_object cimport FB_IDENTITY, FB_TYPE_OF, Py_DECREF, fb_call_one

cdef extern from "_core/record/plain_function.h":
    bint fb_plain_function_is_watched()
    PyObject* fb_plain_function_code(PyObject* function)
    PyObject* fb_plain_function_self(PyObject* function)

cdef enum:
    MAX_MISSES = 32     # in a row, after which the function is called at once
    OTHER_KINDS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # of code: *args, **kwargs, generators and coroutines


cdef class PlainFunction:
    """A function of one argument, or of two."""

    cdef PyObject* evaluated(self, PyObject* first, PyObject* second) noexcept:
        """A new reference; NULL: the function has to be called, unless the handler of a signal has raised."""
        cdef plain_call call
        cdef PyObject* made
        cdef int i
        if self.is_off or fb_plain_function_is_watched():
            return NULL
        if fb_plain_function_code(<PyObject*>self.plain) != <PyObject*>self.code:
            return NULL  # somebody has given it another
        call.arguments[0], call.arguments[1] = first, second
        for i in range(self.kept_count):
            call.kept[i] = NULL
        made = evaluate(self.node, &call)
        for i in range(self.kept_count):
            if call.kept[i] is not NULL:
                Py_DECREF(call.kept[i])
        if made is not NULL:
            self.miss_count = 0
            return made
        self.miss_count += 1
        self.is_off = self.miss_count >= MAX_MISSES
        return NULL

    @cython.binding(False)
    def of(self, value):
        """What the function gives for a value."""
        cdef PyObject* made = self.evaluated(<PyObject*>value, NULL)
        if made is NULL and PyErr_Occurred() is NULL:
            return self.function(value)
        return FB_IDENTITY(made)

    @cython.binding(False)
    def of_two(self, one, other):
        """What the function gives for two values."""
        cdef PyObject* made = self.evaluated(<PyObject*>one, <PyObject*>other)
        if made is NULL and PyErr_Occurred() is NULL:
            return self.function(one, other)
        return FB_IDENTITY(made)


cdef PyObject* call_one(PyObject* function, PyObject* value) noexcept:
    """function(value), for what is mostly `quickened`; NULL: it has raised."""
    cdef PyObject* plain = fb_plain_function_self(function)
    cdef PyObject* made
    if plain is not NULL and FB_TYPE_OF(plain) == <PyObject*>PlainFunction and (<PlainFunction>plain).count == 1:
        made = (<PlainFunction>plain).evaluated(value, NULL)
        if made is not NULL or PyErr_Occurred() is not NULL:
            return made
        function = <PyObject*>(<PlainFunction>plain).function
    return fb_call_one(function, value)


cdef object called(object function, object value):
    """function(value), likewise."""
    return FB_IDENTITY(call_one(<PyObject*>function, <PyObject*>value))


cdef object called_with_two(object function, object one, object other):
    """function(one, other), likewise."""
    cdef PyObject* plain = fb_plain_function_self(<PyObject*>function)
    cdef PyObject* made
    if plain is not NULL and FB_TYPE_OF(plain) == <PyObject*>PlainFunction and (<PlainFunction>plain).count == 2:
        made = (<PlainFunction>plain).evaluated(<PyObject*>one, <PyObject*>other)
        if made is not NULL or PyErr_Occurred() is not NULL:
            return FB_IDENTITY(made)
        function = (<PlainFunction>plain).function
    return function(one, other)


# ---- what a function says


def quickened(function, Py_ssize_t argument_count=1):
    """Something to call that gives what a function gives, in less time if that only looks at its arguments.

    Parameters
    ----------
    function : callable
        Is called with so many arguments.
    argument_count : int, default 1
        One or two.

    Examples
    --------
    >>> first = quickened(lambda pair: pair[0])
    >>> first((1, 2)), first({0: "zero"})
    (1, 'zero')
    >>> quickened(len) is len
    True
    """
    import sys

    cdef PlainFunction made
    plain = function.__func__ if type(function) is types.MethodType else function
    if type(plain) is not types.FunctionType or is_monitored(sys):
        return function
    code = plain.__code__
    first = 0 if plain is function else 1
    if code.co_argcount - first != argument_count or code.co_kwonlyargcount or plain.__defaults__:
        return function
    if code.co_flags & OTHER_KINDS:
        return function
    made = PlainFunction.__new__(PlainFunction)
    made.node = read_code(plain, code, code.co_varnames[first:code.co_argcount], &made.kept_count)
    if made.node is None:
        return function
    made.function, made.plain, made.code, made.count = function, plain, code, argument_count
    return made.of if argument_count == 1 else made.of_two


cdef bint is_monitored(object sys) except -1:
    """Whether a tool has said that it wants to see what Python runs."""
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any([monitoring.get_tool(each) is not None for each in range(6)])
