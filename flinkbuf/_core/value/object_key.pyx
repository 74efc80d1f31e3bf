"""Keys whose type nobody declared and which are no builtin values: what they are made of.

A pickle of such a key would do, were it always the same: it tells whether two equal parts are one object, in what order
a set was filled, and cloudpickle writes whole classes. So a key is taken apart as pickle does it, and the parts are
written like any other key: equal parts, equal key, in every process.
"""

import copyreg
import types
from collections import OrderedDict

from cpython.object cimport PyObject

from flinkbuf._core.value.codec cimport refuse
from flinkbuf._core.value.object cimport FB_OBJECT_GLOBAL, FB_OBJECT_REDUCED

cdef tuple parts_of(const codec_node* n, object value, int* tag):
    """What stands for `value`, and its `tag`: a module and a name in it, or function, arguments, state and items."""
    tag[0] = FB_OBJECT_GLOBAL
    if has_name(value):
        return name_of(n, value)
    parts = reduced(n, value)
    if isinstance(parts, str):
        return (type(value).__module__, parts)
    tag[0] = FB_OBJECT_REDUCED
    return (*parts[:3], *[items_of(value, part, i) for i, part in enumerate(parts[3:])])


cdef bint has_name(object value):
    """Classes and functions; methods are made of their object."""
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    return isinstance(value, (type, types.FunctionType))


cdef tuple name_of(const codec_node* n, object value):
    if "<" in value.__qualname__ and not isinstance(value, type):
        refuse(n, <PyObject*>value, TypeError, "a lambda or local function cannot be a key: its name is not its own")
    return (str(value.__module__), value.__qualname__)


cdef object reduced(const codec_node* n, object value):
    reducer = copyreg.dispatch_table.get(type(value))
    try:
        return value.__reduce_ex__(4) if reducer is None else reducer(value)  # 5 takes arrays out of the parts
    except (TypeError, AttributeError) as error:
        refuse(n, <PyObject*>value, TypeError, f"it cannot be a key, as it does not pickle: {error}")


cdef object items_of(object value, object part, int place):
    """Of subclasses of list and dict: their items, in an order of their own only where that makes a difference."""
    if place == 0 and part is not None:
        return tuple(part)
    if place == 1 and part is not None:
        return tuple(part) if isinstance(value, OrderedDict) else dict(part)
    return part
