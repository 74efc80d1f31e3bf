"""Functions that only look at their argument, such as key selectors, done in C where that is the same.

``lambda bid: bid.auction``, ``lambda pair: pair[0]``, ``lambda event: type(event) is Bid`` and tuples of such are most
of what programs give to map, filter and key_by, and calling one takes ten times as long as what it says. Here it is
read off its bytecode once. A call is answered in C if its argument is of builtin types, a named tuple or a row, so that
no code of others could run; else, and whenever anything else stands in the way, the function itself is called, with
whatever it raises. So nobody can tell, but by the time; a debugger or profiler that watches the thread sees each call.
"""

cimport cython
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError
from cpython.exc cimport PyErr_Clear
from cpython.number cimport (
    PyNumber_Add, PyNumber_FloorDivide, PyNumber_Multiply, PyNumber_Remainder, PyNumber_Subtract,
)
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE, PyObject

import types

from flinkbuf._core.value.python_object cimport (
    FB_BOOL, FB_IDENTITY, FB_TUPLE_ITEMS, FB_TYPE_OF, PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE,
    PyTuple_Check, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM, Py_DECREF, Py_INCREF,
)

cdef extern from "Python.h":
    PyObject* PyTuple_GetSlice(PyObject* value, Py_ssize_t start, Py_ssize_t stop)
    PyObject* PyObject_RichCompare(PyObject* one, PyObject* other, int operation)

cdef extern from "_core/record/plain_function.h":
    uint64_t fb_plain_function_dict_version(PyObject* dict_)
    unsigned int fb_plain_function_class_version(PyObject* class_)
    bint fb_plain_function_is_watched()
    PyObject* fb_plain_function_code(PyObject* function)
    bint fb_plain_function_is_tuple(PyObject* value)

cdef enum:
    MAX_MISSES = 32     # in a row, after which the function is called at once
    MAX_LEARNED = 64    # classes that are looked at for a name, which takes long
    WHOLE = 1 << 30     # the end of a slice that has none
    OTHER_KINDS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # of code: *args, **kwargs, generators and coroutines

cdef dict COMPARISONS = {"<": Py_LT, "<=": Py_LE, "==": Py_EQ, "!=": Py_NE, ">": Py_GT, ">=": Py_GE}
cdef object NULL_MARK = object()    # what CALL finds beside a function


cdef class Node:
    """A part of what a function says."""


cdef inline bint is_plain(PyObject* value) noexcept:
    """Whether operators of a value run no code of others."""
    cdef PyObject* class_ = FB_TYPE_OF(value)
    return class_ == <PyObject*>int or class_ == <PyObject*>str or class_ == <PyObject*>float


# ---- a call; NULL: it is left to the function, and no exception is set


cdef PyObject* evaluate(Node n, PyObject* value) noexcept:
    """A new reference to what a part is for this argument."""
    cdef PyObject* left
    cdef PyObject* made
    if n.kind == ARGUMENT:
        Py_INCREF(value)
        return value
    if n.kind == CONSTANT:
        Py_INCREF(<PyObject*>n.constant)
        return <PyObject*>n.constant
    if n.kind == TUPLE:
        return tuple_of(n, value)
    if n.left.kind == ARGUMENT:
        return of_left(n, value, value)
    left = evaluate(n.left, value)
    if left is NULL:
        return NULL
    made = of_left(n, left, value)
    Py_DECREF(left)
    return made


cdef PyObject* of_left(Node n, PyObject* left, PyObject* value) noexcept:
    if n.kind == ATTRIBUTE:
        return attribute_of(n, left)
    if n.kind == ITEM:
        return item_of(n, left)
    if n.kind == TYPE_IS:
        return type_is(n, left)
    return operated(n, left, value)


cdef PyObject* tuple_of(Node n, PyObject* value) noexcept:
    cdef PyObject** parts = FB_TUPLE_ITEMS(<PyObject*>n.parts)
    cdef Py_ssize_t i, size = PyTuple_GET_SIZE(<PyObject*>n.parts)
    cdef PyObject* made = (<PyObject* (*)(Py_ssize_t) noexcept>PyTuple_New)(size)
    cdef PyObject* part
    if made is NULL:
        PyErr_Clear()
        return NULL
    for i in range(size):
        part = evaluate(<Node>parts[i], value)
        if part is NULL:
            Py_DECREF(made)
            return NULL
        PyTuple_SET_ITEM(made, i, part)
    return made


cdef PyObject* attribute_of(Node n, PyObject* value) noexcept:
    cdef PyObject* class_ = FB_TYPE_OF(value)
    cdef PyObject* item
    cdef int i
    for i in range(KNOWN_CLASSES):
        if n.known[i].class_ == class_ and n.known[i].version == fb_plain_function_class_version(class_):
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
        n.known[i].version = fb_plain_function_class_version(FB_TYPE_OF(<PyObject*>value))
        if n.known[i].version:
            n.known[i].class_ = FB_TYPE_OF(<PyObject*>value)
        else:
            n.known[i].index = -1
    except Exception:
        n.known[i].index = -1
    return i


cdef Py_ssize_t index_of(object value, str name) except -2:
    """That of an attribute which is an item and nothing else; -1: it is not."""
    import inspect

    class_ = type(value)
    getattr(class_, name, None)  # so that the class has a version
    if inspect.getattr_static(class_, "__getattribute__") not in (object.__getattribute__, tuple.__getattribute__):
        return -1
    found = inspect.getattr_static(class_, name, None)
    return found.__reduce__()[1][0] if type(found).__name__ == "_tuplegetter" else -1


cdef PyObject* item_of(Node n, PyObject* value) noexcept:
    cdef PyObject* item = NULL
    cdef Py_ssize_t size, at
    if type(n.constant) is int:
        at = n.start
        if fb_plain_function_is_tuple(value):
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
        if not fb_plain_function_is_tuple(value):
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


cdef PyObject* type_is(Node n, PyObject* value) noexcept:
    cdef uint64_t globals_version = fb_plain_function_dict_version(<PyObject*>n.globals_)
    cdef uint64_t builtins_version = fb_plain_function_dict_version(<PyObject*>n.builtins_)
    if globals_version == 0 or globals_version != n.globals_version or builtins_version != n.builtins_version:
        n.named = None
        if "type" not in n.globals_ and n.builtins_.get("type") is type:
            n.named = (n.globals_ if n.constant in n.globals_ else n.builtins_).get(n.constant)
        n.globals_version, n.builtins_version = globals_version, builtins_version
    if n.named is None:
        return NULL
    return FB_BOOL(FB_TYPE_OF(value) == <PyObject*>n.named)


cdef PyObject* operated(Node n, PyObject* left, PyObject* value) noexcept:
    cdef PyObject* right
    cdef PyObject* made = NULL
    if not is_plain(left):
        return NULL
    right = evaluate(n.right, value)
    if right is NULL:
        return NULL
    if is_plain(right):
        if n.kind == COMPARE:
            made = PyObject_RichCompare(left, right, n.operation)
            if made is NULL:
                PyErr_Clear()
        else:
            made = binary_of(n, <object>left, <object>right)
    Py_DECREF(right)
    return made


cdef PyObject* binary_of(Node n, object left, object right) noexcept:
    try:
        made = n.binary(left, right)
    except Exception:
        return NULL
    Py_INCREF(<PyObject*>made)
    return <PyObject*>made


cdef class PlainFunction:
    """A function of one argument, or of one and another that it does not look at."""

    cdef PyObject* evaluated(self, PyObject* value) noexcept:
        cdef PyObject* made
        if self.is_off or fb_plain_function_is_watched():
            return NULL
        if fb_plain_function_code(<PyObject*>self.plain) != <PyObject*>self.code:
            return NULL  # somebody has given it another
        made = evaluate(self.node, value)
        if made is not NULL:
            self.miss_count = 0
            return made
        self.miss_count += 1
        self.is_off = self.miss_count >= MAX_MISSES
        return NULL

    @cython.binding(False)
    def of(self, value):
        """What the function gives for a value."""
        cdef PyObject* made = self.evaluated(<PyObject*>value)
        if made is NULL:
            return self.function(value)
        return FB_IDENTITY(made)

    @cython.binding(False)
    def of_first(self, value, other):
        """What the function gives for two values, of which it looks at the first."""
        cdef PyObject* made = self.evaluated(<PyObject*>value)
        if made is NULL:
            return self.function(value, other)
        return FB_IDENTITY(made)


# ---- what a function says


def quickened(function, Py_ssize_t argument_count=1):
    """Something to call that gives what a function gives, in less time if that only looks at its argument.

    Parameters
    ----------
    function : callable
        Is called with so many arguments.
    argument_count : int, default 1
        Of two arguments it may look at the first.

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
    node = node_of(plain, code, code.co_varnames[first])
    if node is None:
        return function
    made = PlainFunction.__new__(PlainFunction)
    made.function, made.node = function, node
    made.plain, made.code = plain, code
    return made.of if argument_count == 1 else made.of_first


cdef bint is_monitored(object sys) except -1:
    """Whether a tool has said that it wants to see what Python runs."""
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any([monitoring.get_tool(each) is not None for each in range(6)])


cdef Node node_of(object function, object code, str argument):
    """What the bytecode says; None: something else than can be done here."""
    import dis

    cdef list stack = []
    cdef Node node
    cdef Py_ssize_t count
    for each in dis.get_instructions(code):
        name, value = each.opname, each.argval
        if name in ("RESUME", "PRECALL", "CACHE", "NOP", "EXTENDED_ARG"):
            continue
        if name in ("LOAD_FAST", "LOAD_FAST_BORROW"):
            if value != argument:
                return None
            stack.append(made(ARGUMENT))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            stack.append(made(CONSTANT, value))
        elif name == "PUSH_NULL":
            stack.append(NULL_MARK)
        elif name == "LOAD_GLOBAL":
            if "NULL + " in each.argrepr:
                stack.append(NULL_MARK)
            stack.append(value)
            if " + NULL" in each.argrepr:
                stack.append(NULL_MARK)
        elif name == "LOAD_ATTR" and stack and isinstance(stack[len(stack) - 1], Node):
            if "NULL" in each.argrepr:
                return None
            stack.append(made(ATTRIBUTE, value, stack.pop()))
        elif name in ("CALL", "CALL_FUNCTION"):
            if each.arg != 1 or len(stack) < 2 or not isinstance(stack[len(stack) - 1], Node):
                return None
            node = stack.pop()
            called = [stack.pop()]
            if stack and (called[0] is NULL_MARK or stack[len(stack) - 1] is NULL_MARK):
                called.append(stack.pop())
            if "type" not in called:
                return None
            stack.append(("type", node))
        elif name == "IS_OP":
            right, left = stack.pop(), stack.pop()
            if type(left) is not tuple or not isinstance(right, str) or each.arg != 0:
                return None
            if type(function.__globals__) is not dict or type(function.__builtins__) is not dict:
                return None  # whose items are looked up otherwise
            node = made(TYPE_IS, right, left[1])
            node.globals_, node.builtins_ = function.__globals__, function.__builtins__
            stack.append(node)
        elif name == "BUILD_TUPLE":
            count = each.arg
            parts = stack[len(stack) - count:]
            if count == 0 or not all([isinstance(part, Node) for part in parts]):
                return None
            del stack[len(stack) - count:]
            node = made(TUPLE)
            node.parts = tuple(parts)
            stack.append(node)
        elif name == "BUILD_SLICE" and each.arg == 2 or name == "BINARY_SLICE":
            right, left = stack.pop(), stack.pop()
            if not isinstance(left, Node) or not isinstance(right, Node):
                return None
            if (<Node>left).kind != CONSTANT or (<Node>right).kind != CONSTANT:
                return None
            stack.append(made(CONSTANT, slice((<Node>left).constant, (<Node>right).constant)))
            if name == "BINARY_SLICE" and not put_item(stack):
                return None
        elif name == "BINARY_SUBSCR" or name == "BINARY_OP" and each.argrepr == "[]":
            if not put_item(stack):
                return None
        elif name == "COMPARE_OP" or name == "BINARY_OP" or name in OLD_OPERATORS:
            sign = OLD_OPERATORS.get(name) or each.argrepr.removeprefix("bool(").removesuffix(")")
            if not put_operation(stack, name, sign):
                return None
        elif name == "RETURN_VALUE":
            node = stack.pop() if len(stack) == 1 and isinstance(stack[0], Node) else None
            return None if node is None or node.kind == CONSTANT else node
        else:
            return None
    return None


cdef dict OLD_OPERATORS = {
    "BINARY_ADD": "+", "BINARY_SUBTRACT": "-", "BINARY_MULTIPLY": "*", "BINARY_FLOOR_DIVIDE": "//",
    "BINARY_MODULO": "%",
}


cdef Node made(node_kind kind, constant=None, Node left=None):
    cdef Node node = Node.__new__(Node)
    node.kind, node.constant, node.left = kind, constant, left
    return node


cdef bint put_item(list stack) except -1:
    """left[constant] in place of both; False: it is something else."""
    cdef Node node
    right, left = stack.pop(), stack.pop()
    if not isinstance(left, Node) or not isinstance(right, Node) or (<Node>right).kind != CONSTANT:
        return False
    constant = (<Node>right).constant
    node = made(ITEM, constant, left)
    if type(constant) is int and -WHOLE < constant < WHOLE:
        node.start = constant
    elif type(constant) is slice and constant.step is None:
        for each in (constant.start, constant.stop):
            if each is not None and (type(each) is not int or not -WHOLE < each < WHOLE):
                return False
        node.start = 0 if constant.start is None else constant.start
        node.stop = WHOLE if constant.stop is None else constant.stop
    elif type(constant) is not str:
        return False
    stack.append(node)
    return True


cdef bint put_operation(list stack, str name, str sign) except -1:
    """left sign right in place of both; False: it is something else."""
    cdef Node node
    right, left = stack.pop(), stack.pop()
    if not isinstance(left, Node) or not isinstance(right, Node):
        return False
    node = made(COMPARE if name == "COMPARE_OP" else BINARY, sign, left)
    node.right = right
    if node.kind == COMPARE:
        if sign not in COMPARISONS:
            return False
        node.operation = COMPARISONS[sign]
    elif sign == "+":
        node.binary = PyNumber_Add
    elif sign == "-":
        node.binary = PyNumber_Subtract
    elif sign == "*":
        node.binary = PyNumber_Multiply
    elif sign == "//":
        node.binary = PyNumber_FloorDivide
    elif sign == "%":
        node.binary = PyNumber_Remainder
    else:
        return False
    stack.append(node)
    return True
