from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef enum node_kind:
    ARGUMENT    # the function's, at `start`
    CONSTANT
    GLOBAL      # what `constant` names
    CELL        # what a function around has put into `constant`
    ATTRIBUTE   # of `left`, called `constant`
    ITEM        # of `left`, at `constant`
    UNPACKED    # of `left`, which has `stop` items: that at `start`
    TUPLE       # of `parts`
    COMPARE     # `left` and `right`, by `operation` of Python
    BINARY      # `left` and `right`, by `binary`
    TYPE_IS     # of `left`: the class that `constant` names
    IS          # `left` is `constant`
    IN          # `left` is one of `constant`
    NOT         # the opposite of `left`
    BRANCH      # `right` if `left` is true, else `other`


cdef enum:
    KNOWN_CLASSES = 4
    MAX_KEPT = 8


cdef struct known_class:
    PyObject* class_        # borrowed: a class that comes later to its place has another version
    unsigned int version
    Py_ssize_t index        # -1: the name is no item, or something else, too


cdef struct plain_call:
    PyObject* arguments[2]
    PyObject* kept[MAX_KEPT]    # what parts that are used more than once were; NULL: they were not evaluated yet


cdef class Node:
    cdef node_kind kind
    cdef bint is_field          # an attribute of an argument
    cdef int place              # in `kept`; -1: it is used once, or as easily found again
    cdef Node left, right, other
    cdef tuple parts
    cdef object constant
    cdef int operation
    cdef object (*binary)(object, object)
    # ATTRIBUTE: classes that were met, and which item of a tuple the name is of each
    cdef known_class[KNOWN_CLASSES] known
    cdef int next_known, learn_count
    # ARGUMENT, UNPACKED; ITEM: of ints, and of slices
    cdef Py_ssize_t start, stop
    # GLOBAL, TYPE_IS: what names meant, while the dicts that they were found in have these versions
    cdef dict globals_, builtins_
    cdef uint64_t globals_version, builtins_version
    cdef object named


cdef PyObject* evaluate(Node n, plain_call* call) noexcept
