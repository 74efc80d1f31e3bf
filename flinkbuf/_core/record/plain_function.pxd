from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef enum node_kind:
    ARGUMENT    # the function's
    CONSTANT
    ATTRIBUTE   # of `left`, called `constant`
    ITEM        # of `left`, at `constant`
    TUPLE       # of `parts`
    COMPARE     # `left` and `right`, by `operation` of Python
    BINARY      # `left` and `right`, by `binary`
    TYPE_IS     # of `left`: the class that `constant` names


cdef enum:
    KNOWN_CLASSES = 4


cdef struct known_class:
    PyObject* class_        # borrowed: a class that comes later to its place has another version
    unsigned int version
    Py_ssize_t index        # -1: the name is no item, or something else, too


cdef class Node:
    cdef node_kind kind
    cdef Node left, right
    cdef tuple parts
    cdef object constant
    cdef int operation
    cdef object (*binary)(object, object)
    # ATTRIBUTE: classes that were met, and which item of a tuple the name is of each
    cdef known_class[KNOWN_CLASSES] known
    cdef int next_known, learn_count
    # ITEM: of ints, and of slices
    cdef Py_ssize_t start, stop
    # TYPE_IS: what names meant, while the dicts that they were found in have these versions
    cdef dict globals_, builtins_
    cdef uint64_t globals_version, builtins_version
    cdef object named


cdef class PlainFunction:
    cdef readonly object function   # the user's
    cdef object plain               # itself, or what stands behind a method
    cdef object code                # that was read
    cdef Node node
    cdef Py_ssize_t miss_count      # calls that were left to it since the last that was not
    cdef bint is_off                # too many were

    cdef PyObject* evaluated(self, PyObject* value) noexcept
