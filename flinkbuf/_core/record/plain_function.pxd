from cpython.object cimport PyObject

from flinkbuf._core.record.plain_node cimport Node


cdef class PlainFunction:
    cdef readonly object function   # the user's
    cdef object plain               # itself, or what stands behind a method
    cdef object code                # that was read
    cdef Py_ssize_t count           # of its arguments
    cdef Node node
    cdef int kept_count             # parts that are used more than once
    cdef Py_ssize_t miss_count      # calls that were left to it since the last that was not
    cdef bint is_off                # too many were

    cdef PyObject* evaluated(self, PyObject* first, PyObject* second) noexcept


cdef PyObject* call_one(PyObject* function, PyObject* value) noexcept
cdef object called(object function, object value)
cdef object called_with_two(object function, object one, object other)
