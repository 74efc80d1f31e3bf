"""Lists, arrays, sets and maps: a count, and values of one type after the other."""

import sys

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, uint32_t
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport fb_load_be32
from flinkbuf._core.value.codec cimport (
    Codec, add_key_step, add_step, corrupt, get_count, get_flag, is_array, make_room, measured,
    put_count, put_sized, refuse, refuse_step,
)
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ECORRUPT
from flinkbuf._core.value.inline_codec cimport get, inline_get, put_held
from flinkbuf._core.value.number cimport fb_number_load_array, fb_number_store_array
from flinkbuf._core.value.python_object cimport (
    FB_BYTES, FB_IDENTITY, FB_NONE, PyDict_Check, PyDict_CheckExact, PyList_Check, PyList_GET_ITEM, PyList_New,
    PyList_SET_ITEM, PyObject_CheckBuffer, PyTuple_CheckExact, Py_DECREF, Py_None,
)
from flinkbuf._core.value.type cimport (
    FB_TYPE_BYTE, FB_TYPE_MAX_EMPTY_ELEMENTS, FB_TYPE_OBJECT_ARRAY, fb_type_kind,
)


# --- encode -------------------------------------------------------------------------------------------


cdef bint is_sequence(object value):
    """What an array or list is taken from: no text, no bytes, no set or generator, no numpy array of one value."""
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)) or (is_array(value) and value.ndim == 0):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


cdef str array_advice(object value):
    if not is_array(value):
        return ""
    if value.ndim == 0:
        return "an array without dimensions holds one value, not a list of them; .item() gives it"
    return "use .tolist(), or declare a PRIMITIVE_ARRAY, which takes arrays as they are"


cdef uint8_t* put_buffer(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except? NULL:
    """An array of just the right numbers, at once; NULL without an exception: it must go one by one."""
    cdef Py_buffer view
    cdef str wanted = (<Codec>n.codec).array_formats
    cdef const char* format_
    cdef fb_type_kind kind = n.children[0].kind
    try:
        PyObject_GetBuffer(<object>value, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    except (BufferError, ValueError):  # not contiguous, or numbers that the protocol has no format for
        return NULL
    try:
        format_ = <const char*>"B" if view.format == NULL else view.format
        if format_[0] == c"@" or format_[0] == c"=" or (format_[0] == c"<" and sys.byteorder == "little"):
            format_ += 1
        if view.ndim != 1 or view.itemsize != n.children[0].min_size or format_[0] == 0 or format_[1] != 0 \
                or chr(format_[0]) not in wanted:
            return NULL
        pos = put_count(n, value, view.len // view.itemsize, view.len, pos, out)
        fb_number_store_array(kind, view.buf, view.len // view.itemsize, pos)
        return pos + view.len
    finally:
        PyBuffer_Release(&view)


cdef object contiguous(object value, str dtype):
    """A copy of an array that holds the right numbers with gaps or in another byte order; else the array itself."""
    if hasattr(value, "dtype"):
        import numpy
        native = value.dtype.newbyteorder("=")
        if value.ndim == 1 and (native == dtype or (dtype == "int8" and native == "uint8")):
            return numpy.array(value, native)
    elif isinstance(value, memoryview) and value.ndim == 1 and value.itemsize == 1 and dtype == "int8":
        return value.tobytes()
    return value


cdef uint8_t* put_array(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef uint8_t* end
    cdef object v = <object>value
    if PyBytes_CheckExact(v) and n.children[0].kind == FB_TYPE_BYTE:
        return put_sized(n, value, PyBytes_AS_STRING(v), PyBytes_GET_SIZE(v), pos, out)
    if PyObject_CheckBuffer(v):
        end = put_buffer(n, value, pos, out)
        if end != NULL:
            return end
        v = contiguous(v, (<Codec>n.codec).array_dtype)
        if v is not <object>value:
            end = put_buffer(n, <PyObject*>v, pos, out)
            if end != NULL:
                return end
        if getattr(v, "ndim", 1) != 1:
            refuse(n, value, TypeError, f"an array of one dimension is needed, it has {v.ndim}")
    if n.children[0].kind == FB_TYPE_BYTE:
        refuse(n, value, TypeError, "bytes, or an array of bytes, is needed")
    if not is_sequence(v):
        refuse(n, value, TypeError)
    # A numpy array of another kind gives its numbers as Python's, which are then checked like any others.
    return put_items(n, value, v.tolist() if hasattr(v, "tolist") else v, pos, out)


cdef uint8_t* put_bytes(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """An array of BYTE that Python has as bytes."""
    cdef object v = <object>value
    if PyBytes_CheckExact(v):
        return put_sized(n, value, PyBytes_AS_STRING(v), PyBytes_GET_SIZE(v), pos, out)
    return put_array(n, value, pos, out)


cdef inline uint8_t* put_flag(fb_data_output* out, uint8_t* pos, bint flag) except NULL:
    if pos == out.end:
        pos = make_room(out, pos, 1)
    pos[0] = flag
    return pos + 1


cdef uint8_t* put_items(
        const codec_node* n, PyObject* value, object items, uint8_t* pos, fb_data_output* out) except NULL:
    """LIST, arrays: a count and the elements; OBJECT_ARRAY has a flag before each, 0 for null."""
    cdef Py_ssize_t i, count
    cdef bint flagged = n.kind == FB_TYPE_OBJECT_ARRAY
    cdef const codec_node* child = n.children
    cdef PyObject* item
    cdef list values = items if isinstance(items, list) else list(items)
    # A list may be changed by user code (an __index__) that encoding calls: so its size is asked each time.
    count = len(values)
    if count > FB_TYPE_MAX_EMPTY_ELEMENTS and child.min_size == 0:
        refuse(n, value, OverflowError, f"at most {FB_TYPE_MAX_EMPTY_ELEMENTS} values that take no bytes are allowed")
    pos = put_count(n, value, count, 0, pos, out)
    for i in range(count):
        if i >= len(values):
            raise RuntimeError("a list changed its size while it was encoded")
        item = PyList_GET_ITEM(<PyObject*>values, i)
        if flagged:
            pos = put_flag(out, pos, item != Py_None)
            if item == Py_None:
                continue
        pos = put_held(child, item, pos, out)
        if pos == NULL:
            add_step(n, i)
            return NULL
    if len(values) != count:
        raise RuntimeError("a list changed its size while it was encoded")
    return pos


cdef uint8_t* put_list(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    if not PyList_Check(value) and not PyTuple_CheckExact(value):
        refuse(n, value, TypeError, array_advice(<object>value))
    return put_items(n, value, <object>value, pos, out)


cdef uint8_t* put_any_list(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """Arrays of objects, which any sequence may hold."""
    if not is_sequence(<object>value):
        refuse(n, value, TypeError, array_advice(<object>value))
    return put_items(n, value, <object>value, pos, out)


cdef int check_key(const codec_node* key_node, object key, const uint8_t* start, Py_ssize_t size, str step,
                   set seen) except -1:
    """Refuses a key that differs from another in Python only: of the two, one would be lost. NaN is no loss of ours."""
    cdef bytes data = PyBytes_FromStringAndSize(<const char*>start, size)
    if data in seen and key == key:
        refuse_step(key_node, key, ValueError, "another one has the same bytes, so that one of the two would be lost",
                    step)
    seen.add(data)
    return 0


cdef uint8_t* put_set(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """A flag before each element: 1 for null."""
    if not isinstance(<object>value, (set, frozenset)):
        refuse(n, value, TypeError)
    cdef set seen = set() if n.children.merges else None
    cdef list starts = [] if n.is_key else None
    cdef size_t start
    pos = put_count(n, value, len(<object>value), 0, pos, out)
    for item in tuple(<object>value):
        if starts is not None:
            starts.append(pos - out.start)
        pos = put_flag(out, pos, item is None)
        if item is not None:
            start = pos - out.start  # which moves when the record does
            pos = put_held(n.children, <PyObject*>item, pos, out)
            if pos == NULL:
                add_step(n, "{element}")
                return NULL
            if seen is not None:
                check_key(n.children, item, out.start + start, pos - out.start - start, "{element}", seen)
    if starts is not None:
        sort_parts(out.start, starts, pos)
    return pos


cdef uint8_t* put_map(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """The key, a flag (1: the value is null), the value."""
    if not PyDict_Check(value):
        refuse(n, value, TypeError)
    cdef dict items = <object>value if PyDict_CheckExact(value) else dict(<object>value)
    cdef set seen = set() if n.children.merges else None
    cdef list starts = [] if n.is_key else None
    cdef size_t start
    pos = put_count(n, value, len(items), 0, pos, out)
    for key, item in items.items():  # raises by itself if user code changes the size
        start = pos - out.start
        if starts is not None:
            starts.append(start)
        pos = put_held(n.children, <PyObject*>key, pos, out)
        if pos == NULL:
            add_step(n, "{key}")
            return NULL
        if seen is not None:
            check_key(n.children, key, out.start + start, pos - out.start - start, "{key}", seen)
        pos = put_flag(out, pos, item is None)
        if item is not None:
            pos = put_held(n.children + 1, <PyObject*>item, pos, out)
            if pos == NULL:
                add_key_step(n, key)
                return NULL
    if starts is not None:
        sort_parts(out.start, starts, pos)
    return pos


cdef int sort_parts(uint8_t* begin, list starts, uint8_t* end) except -1:
    """Puts what stands from each start to the next, and from the last one to `end`, in the order of its bytes: what
    was inserted in another order has the same bytes then.
    """
    cdef list parts = []
    cdef bytes data
    starts.append(end - begin)
    for i in range(len(starts) - 1):
        parts.append(PyBytes_FromStringAndSize(<const char*>begin + <size_t>starts[i], starts[i + 1] - starts[i]))
    parts.sort()
    data = b"".join(parts)
    memcpy(begin + <size_t>starts[0], PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return 0


# --- decode -------------------------------------------------------------------------------------------


cdef PyObject* get_list(const codec_node* n, fb_data_input* source) except NULL:
    """LIST, arrays of text and primitives; OBJECT_ARRAY has a flag before each element, 0 for null."""
    cdef bint flagged = n.kind == FB_TYPE_OBJECT_ARRAY
    cdef const codec_node* child = n.children
    cdef Py_ssize_t i
    cdef Py_ssize_t count = get_count(n, source, 1 if flagged else child.min_size)
    cdef PyObject* items = PyList_New(count)
    cdef PyObject* item
    cdef const uint8_t* pos = source.pos
    cdef int flag
    for i in range(count):
        if flagged:
            if pos != source.end and pos[0] <= 1:
                flag = pos[0]
                pos += 1
            else:  # says what is wrong
                source.pos = pos
                flag = (<int (*)(const codec_node*, fb_data_input*) noexcept>get_flag)(n, source)
            if flag < 0:
                Py_DECREF(items)
                return NULL
            if flag == 0:
                PyList_SET_ITEM(items, i, FB_NONE())
                continue
        item = (<inline_get>get)(child, &pos, source)
        if item == NULL:
            Py_DECREF(items)
            return NULL
        PyList_SET_ITEM(items, i, item)
    source.pos = pos
    return items


cdef object get_array(const codec_node* n, fb_data_input* source):
    """bytes for BYTE, a numpy array if the type says so, else a list."""
    cdef Codec codec = <Codec>n.codec
    cdef const uint8_t* start = source.pos
    cdef uint32_t width = n.children[0].min_size
    cdef Py_buffer view
    cdef Py_ssize_t count
    if n.children[0].kind != FB_TYPE_BYTE and not codec.numpy:
        return FB_IDENTITY(get_list(n, source))
    start = measured(n, source) + 4
    count = (source.pos - start) // width
    if not codec.numpy:
        return PyBytes_FromStringAndSize(<const char*>start, count)
    import numpy
    array = numpy.empty(count, codec.array_dtype)
    PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)
    fb_number_load_array(n.children[0].kind, start, count, view.buf)
    PyBuffer_Release(&view)
    return array


cdef PyObject* get_bytes(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = source.pos
    cdef size_t left = fb_data_input_left(source)
    cdef uint32_t size
    if left >= 4:
        size = fb_load_be32(pos)
        if size <= left - 4 and size <= <uint32_t>INT32_MAX:
            source.pos = pos + 4 + size
            return FB_BYTES(<const char*>pos + 4, size)
    pos = measured(n, source) + 4  # says what is wrong
    return FB_BYTES(<const char*>pos, source.pos - pos)


cdef inline object get_here(const codec_node* child, fb_data_input* source):
    """As get, for loops that read flags between the values."""
    cdef const uint8_t* pos = source.pos
    cdef PyObject* value = get(child, &pos, source)
    source.pos = pos
    return FB_IDENTITY(value)


cdef object get_set(const codec_node* n, fb_data_input* source):
    cdef Py_ssize_t _
    cdef Py_ssize_t count = get_count(n, source, 1)
    cdef set found = set()
    for _ in range(count):
        found.add(None if get_flag(n, source) else get_here(n.children, source))
    if len(found) != count:
        corrupt(n, source, FB_ECORRUPT, f"{count - len(found)} of {count} elements are equal to others in Python",
                "elements that differ in Java but are equal in Python cannot be in one set")
    return found


cdef object get_map(const codec_node* n, fb_data_input* source):
    cdef Py_ssize_t _
    cdef Py_ssize_t count = get_count(n, source, n.children[0].min_size + 1)
    cdef dict found = {}
    for _ in range(count):
        key = get_here(n.children, source)
        found[key] = None if get_flag(n, source) else get_here(n.children + 1, source)
    if len(found) != count:
        corrupt(n, source, FB_ECORRUPT, f"{count - len(found)} of {count} keys are equal to others in Python",
                "keys that differ in Java but are equal in Python cannot be in one dict")
    return found
