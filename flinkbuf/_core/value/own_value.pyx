"""A value of which nobody else holds any part that can change.

What can never change has as many holders as like: numbers, texts, bytes, dates, enum members, and tuples, rows,
frozensets and frozen dataclasses of such. All else is copied where it would get a second holder: state keeps what it
was given and gives what it keeps, a record goes several ways. A tree of lists, dicts, sets and plain objects is copied
part by part. What stands at two places of a value, holds itself, or says itself how it is copied, goes through the
bytes of undeclared values, and so comes out as after a restore. Arrow's arrays and batches do not change, but the
memory of numpy or pandas may do that they were made over.
"""

import collections
import copyreg
import datetime
import decimal
import enum
import fractions
import sys
import types
import uuid
import zoneinfo

from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject

from flinkbuf._core.value.conversion cimport convert_value, round_trip
from flinkbuf._core.value.python_object cimport (
    FB_TUPLE_ITEMS, FB_TYPE_OF, PyList_GET_ITEM, PyList_GET_SIZE, PyTuple_GET_SIZE, Py_REFCNT,
)
from flinkbuf._core.value.type cimport FB_TYPE_OBJECT

cdef enum kind:
    FIXED = 1       # no value of that class can change
    A_TUPLE         # can change if one of its items can
    A_FROZENSET
    FROZEN          # a frozen dataclass: if one of its fields can
    A_LIST
    A_DICT
    A_SET
    A_BYTEARRAY
    COPIES_ITSELF   # by its method copy(), if none of its items can change
    PLAIN           # an object that is its attributes and nothing else
    OF_ARROW        # can change if its memory can
    OTHER

cdef enum:
    MAX_DEPTH = 64      # deeper values go through bytes
    MAX_CLASSES = 4096  # so many are known at once
    HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

cdef TypeCodec OBJECT = TypeCodec("OBJECT")
cdef object NO_TREE = object()
cdef tuple BASES = (
    str, int, float, bytes, complex, decimal.Decimal, datetime.date, datetime.datetime, datetime.time,
    datetime.timedelta, fractions.Fraction, uuid.UUID,
)
cdef set FIXED_CLASSES = {
    type(None), bool, range, slice, type(Ellipsis), type(NotImplemented), datetime.timezone, zoneinfo.ZoneInfo,
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, *BASES,
}
cdef tuple ARROW_DATA = ("Array", "ChunkedArray", "RecordBatch", "Table")
cdef tuple ARROW_CLASSES = ("Scalar", "Schema", "Field", "DataType")
cdef dict known_kinds = {}
cdef dict field_names = {}  # of frozen dataclasses


def is_fixed_value(value):
    """Whether nothing of a value can change.

    Examples
    --------
    >>> is_fixed_value((1, "a", None)), is_fixed_value((1, []))
    (True, False)
    """
    return is_fixed(<PyObject*>value)


def copied(value):
    """The value itself if nothing of it can change, else a copy of all that can.

    Raises
    ------
    TypeError
        If it is not made of builtin values and does not pickle.

    Examples
    --------
    >>> record = {"tags": ["a"]}
    >>> own = copied(record)
    >>> record["tags"].append("b")
    >>> own
    {'tags': ['a']}
    """
    return own_copy(value)


def copied_if_it_can(value):
    """As `copied`, or the value itself where it cannot be copied, such as a lock."""
    return own_if_it_can(value)


def declare_fixed(*classes):
    """Objects of these classes are never changed by anybody."""
    FIXED_CLASSES.update(classes)


cdef bint is_of_fixed_class(object value):
    """Whether the value is of a class of which nothing ever changes, whatever its attributes are."""
    return type(value) in FIXED_CLASSES


cdef bint is_fixed(PyObject* value) except -1:
    return True if fb_own_value_is_atom(value) else is_fixed_at(value, 0)


cdef bint is_fixed_at(PyObject* value, int depth) except -1:
    cdef PyObject** items
    cdef Py_ssize_t i
    cdef int its_kind
    if fb_own_value_is_atom(value):
        return True
    its_kind = kind_at(FB_TYPE_OF(value))
    if its_kind == FIXED:
        return True
    if its_kind == OF_ARROW:
        return has_fixed_memory(<object>value)
    if its_kind > FROZEN or depth > MAX_DEPTH:
        return False
    if its_kind == A_TUPLE:
        items = FB_TUPLE_ITEMS(value)
        for i in range(PyTuple_GET_SIZE(value)):
            if not fb_own_value_is_atom(items[i]) and not is_fixed_at(items[i], depth + 1):
                return False
        return True
    parts = <object>value if its_kind == A_FROZENSET else fields_of(<object>value)
    for part in parts:
        if not is_fixed_at(<PyObject*>part, depth + 1):
            return False
    return True


cdef object fields_of(object value):
    """The fields of a frozen dataclass; one that was never set is None."""
    return [getattr(value, name, None) for name in field_names[type(value)]]


cdef object last_class = None   # that kind_of was asked for
cdef int last_kind = FIXED


cdef inline int kind_at(PyObject* class_) except -1:
    """The most frequent ones without a look into a dict."""
    if class_ == <PyObject*>tuple:
        return A_TUPLE
    if class_ == <PyObject*>last_class:
        return last_kind
    if class_ == <PyObject*>dict:
        return A_DICT
    return A_LIST if class_ == <PyObject*>list else kind_of(<object>class_)


cdef int kind_of(object class_) except -1:
    global last_class, last_kind
    found = known_kinds.get(class_)
    if found is None:
        if len(known_kinds) >= MAX_CLASSES:
            known_kinds.clear()
            field_names.clear()
        found = known_kinds[class_] = classified(class_)
    last_class, last_kind = class_, found
    return found


cdef int classified(object class_) except -1:
    if class_ in FIXED_CLASSES or issubclass(class_, (type, enum.Enum)):
        return FIXED
    if class_ in BUILTIN_KINDS:
        return BUILTIN_KINDS[class_]
    if issubclass(class_, tuple):  # a row, a named tuple; rows of pyspark have attributes that are never set anew
        return A_TUPLE if adds_nothing(class_, tuple) or class_.__module__ == "pyspark.sql.types" else OTHER
    if class_ in COPYING or is_array_class(class_):
        return COPIES_ITSELF
    if is_arrow_class(class_, ARROW_DATA):
        return OF_ARROW
    if any([issubclass(class_, base) and adds_nothing(class_, base) for base in BASES]) or is_of_library(class_):
        return FIXED
    if is_frozen_dataclass(class_):
        field_names[class_] = tuple(class_.__dataclass_fields__)
        return FROZEN
    return PLAIN if is_plain(class_) else OTHER


cdef dict BUILTIN_KINDS = {
    tuple: A_TUPLE, frozenset: A_FROZENSET, list: A_LIST, dict: A_DICT, set: A_SET, bytearray: A_BYTEARRAY,
}


cdef frozenset COPYING = frozenset([collections.defaultdict, collections.OrderedDict, collections.Counter,
                                    collections.deque])


cdef bint is_array_class(object class_) except -1:
    return class_ is getattr(sys.modules.get("numpy"), "ndarray", None)


cdef bint adds_nothing(object class_, object base) except -1:
    """Whether objects of a class below a builtin one have no attributes of their own."""
    return class_.__dictoffset__ == 0 and class_.__basicsize__ == base.__basicsize__


cdef bint is_of_library(object class_) except -1:
    """Scalars of numpy, and what pyarrow has beside arrays. While another thread imports these, they have no such names
    yet.
    """
    numpy = sys.modules.get("numpy")
    if issubclass(class_, getattr(numpy, "generic", ())):
        return not issubclass(class_, (numpy.void, numpy.object_))
    return is_arrow_class(class_, ARROW_CLASSES)


cdef bint is_arrow_class(object class_, tuple names) except -1:
    arrow = sys.modules.get("pyarrow")
    return issubclass(class_, tuple([getattr(arrow, name) for name in names if hasattr(arrow, name)]))


cdef bint is_frozen_dataclass(object class_) except -1:
    parameters = class_.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        return False
    return all([each in (class_, object) or is_frozen_dataclass(each) for each in class_.__mro__])


cdef bint is_plain(object class_) except -1:
    """Whether a new object with the same attributes is what pickle would make."""
    for base in class_.__mro__:
        if base is object:
            continue
        if not base.__flags__ & HEAP_TYPE or "__slots__" in base.__dict__:
            return False
    if class_.__dictoffset__ == 0 or class_.__new__ is not object.__new__:
        return False
    if class_.__reduce__ is not object.__reduce__ or class_.__reduce_ex__ is not object.__reduce_ex__:
        return False
    if getattr(class_, "__getstate__", None) is not getattr(object, "__getstate__", None):
        return False
    return class_ not in copyreg.dispatch_table and not any(
        [hasattr(class_, name) for name in ("__setstate__", "__getnewargs__", "__getnewargs_ex__", "__copy__",
                                            "__deepcopy__")])


# ---- copies


cdef object own_copy(object value):
    """`value` itself if nothing of it can change, else a copy of all that can."""
    if is_fixed(<PyObject*>value):
        return value
    made = tree_of(<PyObject*>value, 0)
    return round_trip(OBJECT, value) if made is NO_TREE else made


cdef object own_if_it_can(object value):
    """`own_copy` of a value, or the value itself where it cannot be copied, such as a lock."""
    try:
        return own_copy(value)
    except (TypeError, ValueError):
        return value


cdef object own_value(TypeCodec codec, object value):
    """What comes out of the bytes of a value of a declared type; it has no other holder if it can change."""
    return own_copy(value) if codec.node.kind == FB_TYPE_OBJECT else convert_value(codec, value)


cdef object part_of(PyObject* part, Py_ssize_t holders, int depth):
    """A copy of a part of a tree, which so many hold that are the tree's own; others stand at two places of it."""
    return NO_TREE if Py_REFCNT(part) > holders or depth > MAX_DEPTH else tree_of(part, depth)


cdef object tree_of(PyObject* value, int depth):
    """A copy of a value that can change; NO_TREE if it is no tree of builtin values and plain objects."""
    cdef int its_kind = kind_at(FB_TYPE_OF(value))
    if its_kind == A_LIST:
        return list_of(list(<object>value), depth)
    if its_kind == A_DICT:
        return dict_of(<dict>value, depth)
    if its_kind == A_TUPLE:
        return tuple_of(<object>value, depth)
    if its_kind == PLAIN:
        return object_of(<object>value, depth)
    if its_kind == A_BYTEARRAY:
        return bytearray(<object>value)
    if its_kind == A_SET and are_fixed(<object>value):
        return set(<object>value)
    if its_kind == COPIES_ITSELF and holds_fixed_items(<object>value):
        return (<object>value).copy()
    if its_kind == OF_ARROW:
        return value_of_arrow(<object>value)
    return NO_TREE


cdef bint are_fixed(object items) except -1:
    for item in items:
        if not is_fixed(<PyObject*>item):
            return False
    return True


cdef bint holds_fixed_items(object value) except -1:
    if isinstance(value, dict):
        return are_fixed((<dict>value).values()) and are_fixed(value)
    return not value.dtype.hasobject if hasattr(value, "dtype") else are_fixed(value)


cdef object list_of(list made, int depth):
    """The list, which has the items of another one, with copies in their places."""
    cdef PyObject* item
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(<PyObject*>made)):
        item = PyList_GET_ITEM(<PyObject*>made, i)
        if fb_own_value_is_atom(item) or is_fixed_at(item, 0):
            continue
        own = part_of(item, 2, depth + 1)
        if own is NO_TREE:
            return NO_TREE
        made[i] = own
    return made


cdef object dict_of(dict value, int depth):
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t position = 0
    cdef dict made = dict(value)  # nobody else changes it meanwhile
    while PyDict_Next(made, &position, &key, &item):
        if not fb_own_value_is_atom(key) and not is_fixed_at(key, 0):
            return NO_TREE
        if fb_own_value_is_atom(item) or is_fixed_at(item, 0):
            continue
        own = part_of(item, 2, depth + 1)
        if own is NO_TREE:
            return NO_TREE
        made[<object>key] = own
    return made


cdef object tuple_of(object value, int depth):
    cdef PyObject** items = FB_TUPLE_ITEMS(<PyObject*>value)
    cdef list made = []
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(<PyObject*>value)):
        if is_fixed(items[i]):
            made.append(<object>items[i])
            continue
        own = part_of(items[i], 1, depth + 1)
        if own is NO_TREE:
            return NO_TREE
        made.append(own)
    if type(value) is tuple:
        return tuple(made)
    own = tuple.__new__(type(value), made)
    if type(value).__dictoffset__:  # a row of pyspark, which has the names of its fields there
        own.__dict__.update(value.__dict__)
    return own


cdef object object_of(object value, int depth):
    attributes = dict_of(value.__dict__, depth)
    if attributes is NO_TREE:
        return NO_TREE
    made = object.__new__(type(value))
    made.__dict__.update(attributes)
    return made


# ---- what pyarrow has


cdef bint has_fixed_memory(object value) except -1:
    """Whether nobody can write into the memory of an array, a batch or a table. Arrow's own counts as memory that can
    be written into, too, until it was copied once: nothing tells it from numpy's.
    """
    cdef bint is_array = hasattr(value, "buffers")
    if not is_array:
        for part in value.chunks if hasattr(value, "chunks") else value.columns:
            if not has_fixed_memory(part):
                return False
        return True
    for buffer in value.buffers():
        if buffer is not None and buffer.is_mutable and buffer.size:
            return False
    return all([has_fixed_memory(part) for part in parts_with_dictionaries(value)])


cdef object parts_with_dictionaries(object array):
    """The parts of an array whose memory is not among its buffers: a dictionary, or parts that have one below them."""
    of = array.type
    if hasattr(array, "dictionary"):
        return [array.dictionary]
    if hasattr(of, "storage_type"):
        return parts_with_dictionaries(array.storage)
    if of.num_fields == 0 or not has_dictionary(of):
        return []
    if hasattr(array, "keys"):  # a map
        return [array.keys, array.items]
    return [array.values] if hasattr(array, "values") else [array.field(i) for i in range(of.num_fields)]


cdef object value_of_arrow(object value):
    """A copy over memory that nobody can write into."""
    import pyarrow

    if isinstance(value, pyarrow.RecordBatch):
        return batch_of_arrow(pyarrow, value)
    if isinstance(value, pyarrow.Table):
        batches = [batch_of_arrow(pyarrow, each) for each in value.to_batches()]
        return pyarrow.Table.from_batches(batches, value.schema)
    if isinstance(value, pyarrow.ChunkedArray):
        return pyarrow.chunked_array([value_of_arrow(each) for each in value.chunks], value.type)
    return batch_of_arrow(pyarrow, pyarrow.record_batch([value], [""])).column(0)


cdef object batch_of_arrow(object pyarrow, object batch):
    if not has_dictionary(batch.schema):
        return pyarrow.ipc.read_record_batch(batch.serialize(), batch.schema)
    file = pyarrow.BufferOutputStream()  # dictionaries come before their batch there
    with pyarrow.ipc.new_stream(file, batch.schema) as stream:
        stream.write_batch(batch)
    return pyarrow.ipc.open_stream(file.getvalue()).read_next_batch()


cdef bint has_dictionary(object type_) except -1:
    """Whether a part of a type, or of a schema, is a dictionary."""
    if hasattr(type_, "dictionary") or hasattr(type_, "index_type"):
        return True
    if hasattr(type_, "storage_type"):
        return has_dictionary(type_.storage_type)
    parts = type_ if hasattr(type_, "names") else [type_.field(i) for i in range(type_.num_fields)]
    return any([has_dictionary(part.type) for part in parts])


# ---- types


cdef frozenset FIXED_KINDS = frozenset([
    "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "STRING", "STRING_VALUE", "VOID",
    "NULL_VALUE", "BIG_INT", "BIG_DEC", "STRING_DATA", "DECIMAL_DATA", "ENUM", "LOCAL_DATE", "LOCAL_TIME",
    "LOCAL_DATE_TIME", "DATE", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT",
])


cdef bint gives_fixed(TypeCodec codec):
    """Whether nothing that comes out of the bytes of a type can change."""
    if codec.kind in ("TUPLE", "ROW", "NULLABLE"):
        return all([gives_fixed(child) for child in codec.children])
    return codec.kind in FIXED_KINDS
