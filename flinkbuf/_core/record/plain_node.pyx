"""What functions say that only look at their arguments, part by part, done in C.

A part is evaluated if its arguments are of builtin types, named tuples or rows, so that no code of others can run, and
nothing changes but counts of references. Otherwise the whole function is left to Python, which begins anew.
"""

from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches
from cpython.object cimport PyObject, PyObject_IsTrue

import collections
import decimal
import types

from flinkbuf._core.value.python_object cimport (
    FB_BOOL, FB_TUPLE_ITEMS, FB_TYPE_OF, PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE, PyTuple_Check,
    PyTuple_CheckExact, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM, Py_DECREF, Py_False, Py_INCREF, Py_None,
    Py_True,
)

cdef extern from "Python.h":
    PyObject* PyTuple_GetSlice(PyObject* value, Py_ssize_t start, Py_ssize_t stop)
    PyObject* PyObject_RichCompare(PyObject* one, PyObject* other, int operation)
    PyObject* PyCell_GET(PyObject* cell)
    int PySequence_Contains(PyObject* items, PyObject* item)

cdef extern from "_core/record/plain_node.h":
    uint64_t fb_plain_node_dict_version(PyObject* dict_)
    unsigned int fb_plain_node_class_version(PyObject* class_)
    bint fb_plain_node_has_items_of_tuple(PyObject* value)
    bint fb_plain_node_iterates_as_tuple(PyObject* value)

cdef enum:
    MAX_LEARNED = 64    # classes that are looked at for a name, which takes long

# What operators raise of themselves.
cdef tuple OF_OPERATORS = (ArithmeticError, TypeError, ValueError, MemoryError)
# The class of decimals where it is that of C, whose operators run no code of others; else one that no value has.
cdef type DECIMAL = decimal.Decimal if type(decimal.Decimal.__mul__) is types.WrapperDescriptorType else Node
# What makes an item of a named tuple an attribute.
cdef type ITEM_GETTER = type(collections.namedtuple("made", "first").first)
# Of a class, whatever its own class has under these names.
cdef object CLASSES_OF = type.__dict__["__mro__"].__get__
cdef object NAMES_OF = type.__dict__["__dict__"].__get__


cdef class Node:
    """A part of what a function says."""

    def __cinit__(self):
        self.place = -1


cdef inline bint is_plain(PyObject* value) noexcept:
    """Whether operators of a value run no code of others."""
    cdef PyObject* class_ = FB_TYPE_OF(value)
    return (class_ == <PyObject*>int or class_ == <PyObject*>str or class_ == <PyObject*>float
            or class_ == <PyObject*>DECIMAL)


# ---- a new reference to what a part is; NULL: it is left to the function, unless there is an error


cdef int forget_error() noexcept:
    """The function is going to raise it again; but not what the handler of a signal has raised in between.

    Operators of large numbers look for signals.
    """
    if PyErr_ExceptionMatches(OF_OPERATORS):
        PyErr_Clear()
    return 0


cdef PyObject* evaluate(Node n, plain_call* call) noexcept:
    cdef PyObject* made
    if n.is_field:
        made = field_of(n, call)
        if made is not NULL:
            Py_INCREF(made)
            return made
    if n.place < 0:
        return evaluated(n, call)
    made = call.kept[n.place]
    if made is NULL:
        made = evaluated(n, call)
        if made is NULL:
            return NULL
        call.kept[n.place] = made
    Py_INCREF(made)
    return made


cdef inline PyObject* field_of(Node n, plain_call* call) noexcept:
    """Borrowed: an item of an argument that is a tuple, or of the class that was met first; NULL: it is another one."""
    cdef PyObject* value = call.arguments[n.left.start]
    cdef PyObject* class_ = FB_TYPE_OF(value)
    cdef Py_ssize_t index = n.start
    if n.kind == ATTRIBUTE:
        if n.known[0].class_ != class_ or n.known[0].version != fb_plain_node_class_version(class_):
            return NULL
        index = n.known[0].index
    elif class_ != <PyObject*>tuple or n.kind == UNPACKED and PyTuple_GET_SIZE(value) != n.stop:
        return NULL
    return FB_TUPLE_ITEMS(value)[index] if 0 <= index < PyTuple_GET_SIZE(value) else NULL


cdef PyObject* evaluated(Node n, plain_call* call) noexcept:
    cdef PyObject* left
    cdef PyObject* made
    if n.kind == ARGUMENT:
        made = call.arguments[n.start]
        Py_INCREF(made)
        return made
    if n.kind == CONSTANT:
        Py_INCREF(<PyObject*>n.constant)
        return <PyObject*>n.constant
    if n.kind == TUPLE:
        return tuple_of(n, call)
    if n.kind == GLOBAL:
        return global_of(n)
    if n.kind == CELL:
        return content_of(n)
    if n.left.kind == ARGUMENT:
        return of_left(n, call.arguments[n.left.start], call)
    left = evaluate(n.left, call)
    if left is NULL:
        return NULL
    made = of_left(n, left, call)
    Py_DECREF(left)
    return made


cdef PyObject* of_left(Node n, PyObject* left, plain_call* call) noexcept:
    if n.kind == ATTRIBUTE:
        return attribute_of(n, left)
    if n.kind == ITEM:
        return item_of(n, left)
    if n.kind == UNPACKED:
        return unpacked(n, left)
    if n.kind == TYPE_IS:
        return type_is(n, left)
    if n.kind == IS:
        return FB_BOOL(left == <PyObject*>n.constant)
    if n.kind == IN:
        return is_in(n, left)
    if n.kind == NOT or n.kind == BRANCH:
        return by_truth(n, truth_of(left), call)
    return operated(n, left, call)


cdef PyObject* tuple_of(Node n, plain_call* call) noexcept:
    cdef PyObject** parts = FB_TUPLE_ITEMS(<PyObject*>n.parts)
    cdef Py_ssize_t i, size = PyTuple_GET_SIZE(<PyObject*>n.parts)
    cdef PyObject* made = (<PyObject* (*)(Py_ssize_t) noexcept>PyTuple_New)(size)
    cdef PyObject* part
    if made is NULL:
        PyErr_Clear()
        return NULL
    for i in range(size):
        part = field_of(<Node>parts[i], call) if (<Node>parts[i]).is_field else NULL
        if part is not NULL:  # as in most
            Py_INCREF(part)
        else:
            part = evaluate(<Node>parts[i], call)
            if part is NULL:
                Py_DECREF(made)
                return NULL
        PyTuple_SET_ITEM(made, i, part)
    return made


# ---- names


cdef PyObject* global_of(Node n) noexcept:
    look_up(n)
    if n.named is None:
        return NULL
    Py_INCREF(<PyObject*>n.named)
    return <PyObject*>n.named


cdef PyObject* type_is(Node n, PyObject* value) noexcept:
    look_up(n)
    if n.named is None:
        return NULL
    return FB_BOOL(FB_TYPE_OF(value) == <PyObject*>n.named)


cdef int look_up(Node n) noexcept:
    """Find what the name of a part means now; None: nothing, or `type` is not that of Python."""
    cdef uint64_t globals_version = fb_plain_node_dict_version(<PyObject*>n.globals_)
    cdef uint64_t builtins_version = fb_plain_node_dict_version(<PyObject*>n.builtins_)
    if globals_version == 0 or globals_version != n.globals_version or builtins_version != n.builtins_version:
        n.named = None
        if n.kind == GLOBAL or "type" not in n.globals_ and n.builtins_.get("type") is type:
            n.named = (n.globals_ if n.constant in n.globals_ else n.builtins_).get(n.constant)
        n.globals_version, n.builtins_version = globals_version, builtins_version
    return 0


cdef PyObject* content_of(Node n) noexcept:
    cdef PyObject* content = PyCell_GET(<PyObject*>n.constant)
    if content is not NULL:
        Py_INCREF(content)
    return content


# ---- parts of values


cdef PyObject* attribute_of(Node n, PyObject* value) noexcept:
    cdef PyObject* class_ = FB_TYPE_OF(value)
    cdef PyObject* item
    cdef int i
    for i in range(KNOWN_CLASSES):
        if n.known[i].class_ == class_ and n.known[i].version == fb_plain_node_class_version(class_):
            break
    else:
        if not PyTuple_Check(value) or n.learn_count >= MAX_LEARNED:
            return NULL
        i = learn(n, <object>value)
    if n.known[i].index < 0 or n.known[i].index >= PyTuple_GET_SIZE(value):
        return NULL
    item = FB_TUPLE_ITEMS(value)[n.known[i].index]
    Py_INCREF(item)
    return item


cdef int learn(Node n, object value) noexcept:
    """Note which item the name is in tuples of the value's class; returns where."""
    cdef int i = n.next_known
    n.next_known = (i + 1) % KNOWN_CLASSES
    n.learn_count += 1
    n.known[i].class_ = NULL
    n.known[i].index = -1
    try:
        n.known[i].index = index_of(value, n.constant)
        n.known[i].version = fb_plain_node_class_version(FB_TYPE_OF(<PyObject*>value))
        if n.known[i].version:
            n.known[i].class_ = FB_TYPE_OF(<PyObject*>value)
        else:
            n.known[i].index = -1
    except Exception:
        n.known[i].index = -1
    return i


cdef Py_ssize_t index_of(object value, str name) except -2:
    """That of an attribute which is an item and nothing else; -1: it is not. No code of the class runs."""
    class_ = type(value)
    type.__getattribute__(class_, "__getattribute__")  # so that the class has a version
    if found_in(class_, "__getattribute__") not in (object.__getattribute__, tuple.__getattribute__):
        return -1
    found = found_in(class_, name)
    return found.__reduce__()[1][0] if type(found) is ITEM_GETTER else -1


cdef object found_in(object class_, str name):
    """What a class, or the first one above it that has the name, has under it."""
    for each in CLASSES_OF(class_):
        names = NAMES_OF(each)
        if name in names:
            return names[name]
    return None


cdef PyObject* item_of(Node n, PyObject* value) noexcept:
    cdef PyObject* item = NULL
    cdef Py_ssize_t size, at
    if type(n.constant) is int:
        at = n.start
        if fb_plain_node_has_items_of_tuple(value):
            size = PyTuple_GET_SIZE(value)
            at = at + size if at < 0 else at
            if 0 <= at < size:
                item = FB_TUPLE_ITEMS(value)[at]
        elif PyList_CheckExact(value):
            size = PyList_GET_SIZE(value)
            at = at + size if at < 0 else at
            if 0 <= at < size:
                item = PyList_GET_ITEM(value, at)
    elif type(n.constant) is slice:
        if not fb_plain_node_has_items_of_tuple(value):
            return NULL
        size = PyTuple_GET_SIZE(value)
        item = PyTuple_GetSlice(value, max(n.start + size, 0) if n.start < 0 else n.start,
                                max(n.stop + size, 0) if n.stop < 0 else n.stop)
        if item is NULL:
            PyErr_Clear()
        return item
    elif PyDict_CheckExact(<object>value):
        item = (<PyObject* (*)(object, object) noexcept>PyDict_GetItemWithError)(<object>value, n.constant)
        if item is NULL:
            PyErr_Clear()
    if item is not NULL:
        Py_INCREF(item)
    return item


cdef PyObject* unpacked(Node n, PyObject* value) noexcept:
    cdef PyObject* item = NULL
    if fb_plain_node_iterates_as_tuple(value):
        if PyTuple_GET_SIZE(value) == n.stop:
            item = FB_TUPLE_ITEMS(value)[n.start]
    elif PyList_CheckExact(value) and PyList_GET_SIZE(value) == n.stop:
        item = PyList_GET_ITEM(value, n.start)
    if item is not NULL:
        Py_INCREF(item)
    return item


# ---- what is true, and operators


cdef int truth_of(PyObject* value) noexcept:
    """Whether a value is true; -1: that is left to it."""
    if value == Py_True:
        return True
    if value == Py_False or value == Py_None:
        return False
    if is_plain(value) or PyTuple_CheckExact(value) or PyList_CheckExact(value) or PyDict_CheckExact(<object>value):
        return PyObject_IsTrue(<object>value)
    return -1


cdef PyObject* by_truth(Node n, int is_true, plain_call* call) noexcept:
    if is_true < 0:
        return NULL
    if n.kind == NOT:
        return FB_BOOL(not is_true)
    return evaluate(n.right, call) if is_true else evaluate(n.other, call)


cdef PyObject* is_in(Node n, PyObject* value) noexcept:
    cdef int found
    if not is_plain(value) and value != Py_None:
        return NULL
    found = PySequence_Contains(<PyObject*>n.constant, value)
    if found < 0:
        PyErr_Clear()
        return NULL
    return FB_BOOL(found)


cdef PyObject* operated(Node n, PyObject* left, plain_call* call) noexcept:
    cdef PyObject* right
    cdef PyObject* made = NULL
    if not is_plain(left):
        return NULL
    right = evaluate(n.right, call)
    if right is NULL:
        return NULL
    if is_plain(right):
        if n.kind == COMPARE:
            made = PyObject_RichCompare(left, right, n.operation)
        else:
            made = (<PyObject* (*)(PyObject*, PyObject*) noexcept>n.binary)(left, right)
        if made is NULL:
            forget_error()
    Py_DECREF(right)
    return made
