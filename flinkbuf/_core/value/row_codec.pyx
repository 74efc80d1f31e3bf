"""Tuples and rows: fields of different types, one after the other."""

from flinkbuf._core.value.codec cimport Codec, add_step, corrupt, make_room, refuse
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETRUNCATED
from flinkbuf._core.value.inline_codec cimport get, inline_get, inline_put, put
from flinkbuf._core.value.python_object cimport (
    FB_NONE, FB_TUPLE_ITEMS, FB_TYPE_OF, PyDict_Check, PyList_Check, PyObject_GC_Track, PyTuple_Check,
    PyTuple_CheckExact, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM, Py_DECREF, Py_None,
)
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

cdef extern from "_core/value/row_codec.h":
    bint fb_row_codec_is_plain_tuple(PyObject* type_)
    void fb_row_codec_quicken(PyObject* type_)
    PyObject* fb_row_codec_new_row(PyObject* type_, Py_ssize_t size) except NULL
    object fb_row_codec_make_named_fields()


NamedFields = fb_row_codec_make_named_fields()


cdef int check_row_class(object type_) except -1:
    """A row is made without calling its class, so nothing may belong to it but the fields; and freed likewise."""
    if not (isinstance(type_, type) and issubclass(type_, tuple) and fb_row_codec_is_plain_tuple(<PyObject*>type_)):
        raise TypeError(f"the classes of a ROW must be subclasses of tuple without attributes, got {type_!r}")
    if issubclass(type_, NamedFields):
        fb_row_codec_quicken(<PyObject*>type_)
    return 0


def prepare_row_class(class_):
    """Before the first row of a class of rows: all such classes free theirs alike, so that a row can change its class.

    Raises
    ------
    TypeError
        If rows of the class have more than their fields.
    """
    check_row_class(class_)


cdef PyObject* new_row(PyObject* type_, Py_ssize_t size) except NULL:
    """A row whose fields are still NULL and which the garbage collector does not see yet."""
    return fb_row_codec_new_row(type_, size)


# --- encode -------------------------------------------------------------------------------------------


cdef uint8_t* put_fields(const codec_node* n, PyObject* fields, uint8_t* pos, fb_data_output* out) except NULL:
    """The fields of a plain tuple one after the other. `fields` is held by the caller."""
    cdef PyObject** items = FB_TUPLE_ITEMS(fields)
    cdef uint32_t i
    for i in range(n.child_count):
        pos = (<inline_put>put)(&n.children[i], items[i], pos, out)
        if pos == NULL:
            add_step(n, i)
            return NULL
    return pos


cdef uint8_t* put_tuple(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef object held
    if not PyTuple_CheckExact(value):
        if not PyTuple_Check(value) and not PyList_Check(value):
            refuse(n, value, TypeError)
        if row_kind_of(value) != 0:
            refuse(n, value, ValueError, "a TUPLE cannot hold the kind of a Row; declare a ROW, or make a tuple of it")
        held = tuple(<object>value)
        return put_tuple_checked(n, value, <PyObject*>held, pos, out)
    return put_tuple_checked(n, value, value, pos, out)


cdef uint8_t* put_tuple_checked(const codec_node* n, PyObject* value, PyObject* fields, uint8_t* pos,
                                fb_data_output* out) except NULL:
    if PyTuple_GET_SIZE(fields) != n.child_count:
        refuse(n, value, ValueError, f"it has {PyTuple_GET_SIZE(fields)} fields instead of {n.child_count}")
    return put_fields(n, fields, pos, out)


cdef uint8_t* put_row_fields(const codec_node* n, PyObject* fields, unsigned kind, uint8_t* pos,
                             fb_data_output* out) except NULL:
    """The mask (2 bits of RowKind, low bit first, then the null bits), then the fields that are not null."""
    cdef PyObject** items = FB_TUPLE_ITEMS(fields)
    cdef size_t mask_at
    cdef size_t mask_size = n.mask_size
    cdef uint32_t i
    cdef unsigned bits = (kind & 1) << 7 | (kind & 2) << 5
    cdef unsigned bit = 0x20
    if <size_t>(out.end - pos) < mask_size:
        pos = make_room(out, pos, mask_size)
    mask_at = pos - out.start
    pos += mask_size
    for i in range(n.child_count):
        if items[i] == Py_None:
            bits |= bit
        else:
            pos = (<inline_put>put)(&n.children[i], items[i], pos, out)
            if pos == NULL:
                add_step(n, i)
                return NULL
        bit >>= 1
        if bit == 0:  # `start` moves when the record does
            out.start[mask_at] = <uint8_t>bits
            mask_at += 1
            bits = 0
            bit = 0x80
    if bit != 0x80:
        out.start[mask_at] = <uint8_t>bits
    return pos


cdef uint8_t* put_row(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef unsigned i
    cdef object held
    if PyTuple_CheckExact(value):
        if PyTuple_GET_SIZE(value) == n.child_count:
            return put_row_fields(n, value, 0, pos, out)
    else:
        for i in range(4):
            if kind == n.classes[i] and PyTuple_GET_SIZE(value) == n.child_count:
                return put_row_fields(n, value, i, pos, out)
    held = row_fields(n, value)
    return put_row_fields(n, <PyObject*>held, row_kind_of(value), pos, out)


# What is known of the class of tuples that came last: a class that is asked for what it has not takes long to say so.
cdef object known_class = None
cdef object known_names = None      # of its fields; None: it has none
cdef bint names_are_own = False     # each of its rows may have names, as pyspark's have
cdef bint kinds_are_own = False     # each of its rows may have a kind
cdef unsigned known_kind = 0


cdef int know_class(PyObject* value) except -1:
    global known_class, known_names, names_are_own, kinds_are_own, known_kind
    cdef object cls = <object>FB_TYPE_OF(value)
    if cls is known_class:
        return 0
    names = getattr(cls, "_fields", None)  # a row of ours, a namedtuple
    if not isinstance(names, tuple):
        names = None
    kind = getattr(cls, "row_kind", None)
    is_row = issubclass(cls, NamedFields)
    is_field = names is not None and "row_kind" in names
    known_class = None  # until all is known
    known_names = names
    names_are_own = names is None and not is_row
    if is_row or is_field or cls.__module__ == "pyspark.sql.types":  # attributes of pyspark's rows are fields
        kinds_are_own = False
    else:
        kinds_are_own = kind is not None or cls.__dictoffset__ != 0
    known_kind = <unsigned>kind if is_row else 0
    known_class = cls
    return 0


cdef unsigned row_kind_of(PyObject* value) except? 9:
    """Mostly that of the value's class; a field of a pyspark Row or of a namedtuple that is called so is none."""
    know_class(value)
    if not kinds_are_own:
        return known_kind
    kind = int(getattr(<object>value, "row_kind", 0))
    if not 0 <= kind <= 3:
        raise ValueError(f"row_kind is one of 0 to 3, got {kind}")
    return kind


cdef tuple row_fields(const codec_node* n, PyObject* value):
    """The fields, in the order of the type, of what is given for a ROW and is not simply a tuple of its size."""
    cdef object v = <object>value
    cdef Codec codec = <Codec>n.codec
    if PyDict_Check(value):
        own = tuple(v)
    elif PyTuple_Check(value):
        know_class(value)
        own = getattr(v, "__fields__", None) if names_are_own else known_names
    elif PyList_Check(value):
        own = None
    else:
        refuse(n, value, TypeError, "a Row, tuple, list or dict is needed")
    if PyDict_Check(value) or (own is not None and codec.names is not None and tuple(own) != codec.names):
        return fields_by_name(n, v, own)
    if len(v) != n.child_count:
        refuse(n, value, ValueError, f"it has {len(v)} fields instead of {n.child_count}")
    return tuple(v)


cdef tuple fields_by_name(const codec_node* n, v, own):
    cdef Codec codec = <Codec>n.codec
    names = codec.names if codec.names is not None else tuple([f"f{i}" for i in range(n.child_count)])
    for name in names:
        if name not in own:
            refuse(n, <PyObject*>v, ValueError, f"field {name!r} is missing")
    if len(own) > len(names):
        unknown = ", ".join([repr(name) for name in own if name not in names])
        refuse(n, <PyObject*>v, ValueError, f"the type has no field {unknown}")
    if PyDict_Check(<PyObject*>v):
        return tuple([v[name] for name in names])
    places = {name: i for i, name in enumerate(own)}
    return tuple([v[places[name]] for name in names])


# --- decode -------------------------------------------------------------------------------------------


cdef PyObject* get_tuple(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = source.pos
    cdef PyObject* fields = PyTuple_New(n.child_count)
    cdef PyObject* item
    cdef uint32_t i
    for i in range(n.child_count):
        item = (<inline_get>get)(&n.children[i], &pos, source)
        if item == NULL:
            Py_DECREF(fields)
            return NULL
        PyTuple_SET_ITEM(fields, i, item)
    source.pos = pos
    return fields


cdef PyObject* get_row(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* mask = source.pos
    cdef const uint8_t* pos = mask + n.mask_size
    cdef uint32_t i
    cdef PyObject* row
    cdef PyObject* item
    cdef unsigned bits, kind
    cdef unsigned bit = 0x20
    if fb_data_input_left(source) < n.mask_size:
        corrupt(n, source, FB_ETRUNCATED)
    bits = mask[0]
    kind = bits >> 7 | (bits >> 5 & 2)
    i = n.child_count + 2 & 7
    if i != 0 and ((pos - 1)[0] & (0xff >> i)) != 0:
        source.pos = pos - 1
        corrupt(n, source, FB_ECORRUPT, "a bit is set behind the null mask")
    row = fb_row_codec_new_row(n.classes[kind], n.child_count)
    for i in range(n.child_count):
        if bit == 0:
            mask += 1
            bits = mask[0]
            bit = 0x80
        if bits & bit:
            item = FB_NONE()
        else:
            item = (<inline_get>get)(&n.children[i], &pos, source)
            if item == NULL:
                Py_DECREF(row)
                return NULL
        PyTuple_SET_ITEM(row, i, item)
        bit >>= 1
    source.pos = pos
    if not n.acyclic:
        PyObject_GC_Track(row)
    return row
