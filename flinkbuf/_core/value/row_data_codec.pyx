"""The values of Flink's table runtime: rows, arrays and maps in the binary format, and what stands in them.

A row begins with slots of a fixed width, so a value is first turned into its slot; what does not fit there is appended
behind the slots. Decimals, dates and times go through the codec of their plain type (child 0), so that one place knows
their Python values. Flink's RowDataSerializer, ArrayDataSerializer, MapDataSerializer, StringDataSerializer,
DecimalDataSerializer and TimestampDataSerializer.
"""

from decimal import Decimal

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from flinkbuf._core.value.binary_row cimport (
    FB_BINARY_ROW_MAX_INLINE, fb_binary_row_array_fixed_size, fb_binary_row_array_head, fb_binary_row_fixed_size,
    fb_binary_row_has_digits, fb_binary_row_inline_slot, fb_binary_row_is_null, fb_binary_row_load_digits,
    fb_binary_row_load_slot, fb_binary_row_null_size, fb_binary_row_open, fb_binary_row_open_array,
    fb_binary_row_open_map, fb_binary_row_put_digits, fb_binary_row_put_slot, fb_binary_row_round, fb_binary_row_slot,
    fb_binary_row_take_bytes, fb_binary_row_take_decimal, fb_binary_row_take_part, fb_binary_row_take_timestamp,
    fb_binary_section, fb_wide_int,
)
from flinkbuf._core.ground.byte_order cimport (
    fb_load_be16, fb_load_be32, fb_load_be64, fb_store_be16, fb_store_be32, fb_store_be64, fb_store_le32, fb_store_le64,
)
from flinkbuf._core.value.codec cimport Codec, add_step, corrupt, is_array, make_room, measured, refuse, refuse_step
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETRUNCATED, FB_OK
from flinkbuf._core.value.inline_codec cimport inline_put, put
from flinkbuf._core.value.python_object cimport (
    FB_IDENTITY, FB_NONE, FB_TUPLE_ITEMS, FB_TYPE_OF, PyBool_Check, PyLong_Check, PyObject_GC_Track, PyTuple_CheckExact,
    PyTuple_GET_SIZE, PyTuple_SET_ITEM, PyUnicode_Check, Py_DECREF, Py_INCREF, Py_None,
)
from flinkbuf._core.value.row_codec cimport new_row, row_fields, row_kind_of
from flinkbuf._core.value.row_data_value cimport (
    FB_ROW_DATA_VALUE_MAX_PLAIN, fb_row_data_value_decimal, fb_row_data_value_moment, fb_row_data_value_put_decimal,
    fb_row_data_value_put_moment,
)
from flinkbuf._core.value.type cimport (
    FB_TYPE_ARRAY_DATA, FB_TYPE_BOOLEAN, FB_TYPE_BYTE, FB_TYPE_DATE_DATA, FB_TYPE_DECIMAL_DATA, FB_TYPE_DOUBLE,
    FB_TYPE_FLOAT, FB_TYPE_INT, FB_TYPE_LONG, FB_TYPE_MAP_DATA, FB_TYPE_PRIMITIVE_ARRAY, FB_TYPE_ROW_DATA,
    FB_TYPE_SHORT, FB_TYPE_STRING_DATA, FB_TYPE_TIME_DATA, FB_TYPE_TIMESTAMP_DATA, FB_TYPE_TIMESTAMP_LTZ_DATA,
    fb_type, fb_type_is_compact, fb_type_kind, fb_type_slot_width,
)

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    object PyUnicode_DecodeUTF8(const char* text, Py_ssize_t size, const char* errors)


cdef inline const fb_type* type_of(const codec_node* n) noexcept:
    return &(<Codec>n.codec).type


# --- leaves -------------------------------------------------------------------------------------------


cdef int decimal_of(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out,
                    fb_wide_int* unscaled) except -1:
    """What a decimal's slot is made of. The plain bytes are written at `pos` and forgotten; out.start may move."""
    cdef size_t at = pos - out.start
    cdef object held
    if value == Py_None:
        refuse(n, value, TypeError)
    if PyLong_Check(value) and not PyBool_Check(value):
        held = Decimal(<object>value)
        pos = (<inline_put>put)(&n.children[0], <PyObject*>held, pos, out)
    else:
        pos = (<inline_put>put)(&n.children[0], value, pos, out)
    if pos == NULL:
        return -1
    if not fb_row_data_value_decimal(type_of(n), out.start + at, unscaled):
        refuse(n, value, ValueError, f"it has more than {type_of(n).scale} digits behind the point, or more than "
                                     f"{type_of(n).precision} in all")
    return 0


cdef int moment_of(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out, int64_t* found,
                   uint32_t* nanos) except -1:
    cdef size_t at = pos - out.start
    if value == Py_None:
        refuse(n, value, TypeError)
    pos = (<inline_put>put)(&n.children[0], value, pos, out)
    if pos == NULL:
        return -1
    if not fb_row_data_value_moment(type_of(n), out.start + at, found, nanos):
        refuse(n, value, ValueError, "its days do not fit 32 bits" if n.kind == FB_TYPE_DATE_DATA else
               "the type has milliseconds, in 64 bits; what is finer would be lost")
    return 0


cdef const char* text_of(const codec_node* n, PyObject* value, Py_ssize_t* size) except NULL:
    if not PyUnicode_Check(value):
        refuse(n, value, TypeError)
    try:
        return PyUnicode_AsUTF8AndSize(<object>value, size)
    except UnicodeEncodeError:
        refuse(n, value, ValueError, "a surrogate that is not half of a pair has no UTF-8")


cdef object value_of_decimal(const codec_node* n, fb_wide_int unscaled):
    cdef uint8_t plain[FB_ROW_DATA_VALUE_MAX_PLAIN]
    cdef fb_data_input input
    input.start = input.pos = plain
    input.end = fb_row_data_value_put_decimal(type_of(n), unscaled, plain)
    input.record_number = input.channel = -1
    return FB_IDENTITY(n.children[0].get(&n.children[0], &input))


cdef object value_of_moment(const codec_node* n, int64_t value, uint32_t nanos):
    cdef uint8_t plain[FB_ROW_DATA_VALUE_MAX_PLAIN]
    cdef fb_data_input input
    input.start = input.pos = plain
    input.end = fb_row_data_value_put_moment(type_of(n), value, nanos, plain)
    input.record_number = input.channel = -1
    return FB_IDENTITY(n.children[0].get(&n.children[0], &input))


cdef uint8_t* put_leaf_data(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """STRING_DATA, DECIMAL_DATA, dates and times by themselves."""
    cdef Py_ssize_t length = 0
    cdef const char* text
    cdef fb_wide_int unscaled = 0
    cdef int64_t number = 0
    cdef uint32_t nanos = 0
    cdef uint32_t size
    cdef size_t at = pos - out.start
    if n.kind == FB_TYPE_STRING_DATA:
        text = text_of(n, value, &length)
        pos = make_room(out, pos, 4 + length)
        fb_store_be32(pos, <uint32_t>length)
        memcpy(pos + 4, text, length)
        return pos + 4 + length
    if n.kind == FB_TYPE_DECIMAL_DATA:
        decimal_of(n, value, pos, out, &unscaled)
        pos = make_room(out, out.start + at, 20)
        if fb_type_is_compact(type_of(n)):
            fb_store_be64(pos, <uint64_t>unscaled)
            return pos + 8
        size = fb_binary_row_put_digits(unscaled, pos + 4)
        fb_store_be32(pos, size)
        return pos + 4 + size
    moment_of(n, value, pos, out, &number, &nanos)
    pos = make_room(out, out.start + at, 12)
    if n.kind == FB_TYPE_DATE_DATA or n.kind == FB_TYPE_TIME_DATA:
        fb_store_be32(pos, <uint32_t>number)
        return pos + 4
    fb_store_be64(pos, <uint64_t>number)
    if fb_type_is_compact(type_of(n)):
        return pos + 8
    fb_store_be32(pos + 8, nanos)
    return pos + 12


cdef object get_leaf_data(const codec_node* n, fb_data_input* source):
    cdef const uint8_t* pos = measured(n, source)
    cdef uint32_t size
    if n.kind == FB_TYPE_STRING_DATA:
        return PyUnicode_DecodeUTF8(<const char*>pos + 4, fb_load_be32(pos), NULL)
    if n.kind == FB_TYPE_DECIMAL_DATA:
        if fb_type_is_compact(type_of(n)):
            return value_of_decimal(n, <int64_t>fb_load_be64(pos))
        size = fb_load_be32(pos)
        return value_of_decimal(n, fb_binary_row_load_digits(pos + 4, size))
    if n.kind == FB_TYPE_DATE_DATA or n.kind == FB_TYPE_TIME_DATA:
        return value_of_moment(n, <int32_t>fb_load_be32(pos), 0)
    return value_of_moment(n, <int64_t>fb_load_be64(pos),
                           0 if fb_type_is_compact(type_of(n)) else fb_load_be32(pos + 8))


# --- slots: writing -----------------------------------------------------------------------------------


cdef uint8_t* put_bytes_part(const uint8_t* data, size_t size, size_t base, uint64_t* slot, uint8_t* pos,
                             fb_data_output* out) except NULL:
    """Text or bytes that lie elsewhere."""
    cdef size_t rounded
    if size <= FB_BINARY_ROW_MAX_INLINE:
        slot[0] = fb_binary_row_inline_slot(data, size)
        return pos
    rounded = fb_binary_row_round(size)
    pos = make_room(out, pos, rounded)
    slot[0] = fb_binary_row_slot(pos - out.start - base, size)
    fb_store_le64(pos + rounded - 8, 0)
    memcpy(pos, data, size)
    return pos + rounded


cdef uint8_t* put_byte_array(const codec_node* n, PyObject* value, size_t base, uint64_t* slot, uint8_t* pos,
                             fb_data_output* out) except NULL:
    """As put_bytes_part, of what the codec of byte arrays takes: it has written them behind 4 bytes too many."""
    cdef size_t at = pos - out.start
    cdef size_t size, rounded
    if value == Py_None:
        refuse(n, value, TypeError)
    pos = n.put(n, value, pos, out)
    size = pos - out.start - at - 4
    if size <= FB_BINARY_ROW_MAX_INLINE:
        slot[0] = fb_binary_row_inline_slot(out.start + at + 4, size)
        return out.start + at
    rounded = fb_binary_row_round(size)
    make_room(out, pos, 8)
    pos = out.start + at
    memmove(pos, pos + 4, size)
    memset(pos + size, 0, rounded - size)
    slot[0] = fb_binary_row_slot(at - base, size)
    return pos + rounded


cdef uint8_t* put_nested(const codec_node* n, PyObject* value, size_t base, uint64_t* slot, uint8_t* pos,
                         fb_data_output* out) except NULL:
    cdef size_t at = pos - out.start
    cdef size_t size, rounded
    pos = put_body(n, value, pos, out)
    size = pos - out.start - at
    rounded = fb_binary_row_round(size)
    pos = make_room(out, pos, rounded - size)
    memset(pos, 0, rounded - size)
    slot[0] = fb_binary_row_slot(at - base, size)
    return out.start + at + rounded


cdef uint8_t* put_decimal_part(const codec_node* n, PyObject* value, size_t base, uint64_t* slot, uint8_t* pos,
                               fb_data_output* out) except NULL:
    cdef size_t at = pos - out.start
    cdef fb_wide_int unscaled = 0
    decimal_of(n, value, pos, out, &unscaled)
    if fb_type_is_compact(type_of(n)):
        slot[0] = <uint64_t>unscaled
        return out.start + at
    pos = make_room(out, out.start + at, 16)
    memset(pos, 0, 16)
    slot[0] = fb_binary_row_slot(at - base, fb_binary_row_put_digits(unscaled, pos))
    return pos + 16


cdef uint8_t* put_moment_part(const codec_node* n, PyObject* value, size_t base, uint64_t* slot, uint8_t* pos,
                              fb_data_output* out) except NULL:
    cdef size_t at = pos - out.start
    cdef int64_t number = 0
    cdef uint32_t nanos = 0
    moment_of(n, value, pos, out, &number, &nanos)
    if n.kind == FB_TYPE_DATE_DATA or n.kind == FB_TYPE_TIME_DATA:
        slot[0] = <uint32_t>number
        return out.start + at
    if fb_type_is_compact(type_of(n)):
        slot[0] = <uint64_t>number
        return out.start + at
    pos = make_room(out, out.start + at, 8)
    fb_store_le64(pos, <uint64_t>number)
    slot[0] = fb_binary_row_slot(at - base, nanos)
    return pos + 8


cdef uint8_t* put_part(const codec_node* n, PyObject* value, size_t base, uint64_t* slot, uint8_t* pos,
                       fb_data_output* out) except NULL:
    """The slot of a value that is not None; what does not fit there goes to `pos`. The row begins at `base`."""
    cdef fb_type_kind kind = n.kind
    cdef const char* text
    cdef Py_ssize_t length = 0
    cdef uint8_t* end
    if kind == FB_TYPE_STRING_DATA:
        text = text_of(n, value, &length)
        return put_bytes_part(<const uint8_t*>text, length, base, slot, pos, out)
    if kind == FB_TYPE_LONG or kind == FB_TYPE_DOUBLE:
        end = (<inline_put>put)(n, value, pos, out)
        if end == NULL:
            return NULL
        slot[0] = fb_load_be64(end - 8)
        return end - 8
    if kind == FB_TYPE_INT or kind == FB_TYPE_FLOAT:
        end = (<inline_put>put)(n, value, pos, out)
        if end == NULL:
            return NULL
        slot[0] = fb_load_be32(end - 4)
        return end - 4
    if kind == FB_TYPE_BOOLEAN or kind == FB_TYPE_BYTE:
        end = n.put(n, value, pos, out)
        slot[0] = (end - 1)[0]
        return end - 1
    if kind == FB_TYPE_SHORT:
        end = n.put(n, value, pos, out)
        slot[0] = fb_load_be16(end - 2)
        return end - 2
    if kind == FB_TYPE_PRIMITIVE_ARRAY:
        return put_byte_array(n, value, base, slot, pos, out)
    if kind == FB_TYPE_DECIMAL_DATA:
        return put_decimal_part(n, value, base, slot, pos, out)
    if kind == FB_TYPE_ROW_DATA or kind == FB_TYPE_ARRAY_DATA or kind == FB_TYPE_MAP_DATA:
        return put_nested(n, value, base, slot, pos, out)
    if n.child_count == 1:
        return put_moment_part(n, value, base, slot, pos, out)
    refuse(n, value, TypeError)  # VOID


cdef uint8_t* put_row_body(const codec_node* n, PyObject* fields, unsigned kind, uint8_t* pos,
                           fb_data_output* out) except NULL:
    """A row without a length. `fields`, a plain tuple, is held by the caller."""
    cdef PyObject** items = FB_TUPLE_ITEMS(fields)
    cdef size_t base = pos - out.start
    cdef size_t nulls = fb_binary_row_null_size(n.child_count)
    cdef size_t fixed = fb_binary_row_fixed_size(n.child_count)
    cdef uint64_t slot
    cdef uint32_t i
    pos = make_room(out, pos, fixed)
    memset(pos, 0, fixed)
    pos[0] = <uint8_t>kind
    pos += fixed
    for i in range(n.child_count):
        slot = 0
        if items[i] == Py_None:
            if (<Codec>n.codec).required is not None and (<Codec>n.codec).required[i]:
                refuse_step(&n.children[i], None, TypeError, "the field is declared NOT NULL", (<Codec>n.codec).step(i))
            out.start[base + 1 + i // 8] |= <uint8_t>(1 << (i % 8))
            continue
        pos = (<part_putter>put_part)(&n.children[i], items[i], base, &slot, pos, out)
        if pos == NULL:
            add_step(n, i)
            return NULL
        fb_store_le64(out.start + base + nulls + 8 * i, slot)
    return pos


ctypedef uint8_t* (*part_putter)(const codec_node*, PyObject*, size_t, uint64_t*, uint8_t*, fb_data_output*) noexcept


cdef uint8_t* put_row_of(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef unsigned i
    cdef object held
    if PyTuple_CheckExact(value):
        if PyTuple_GET_SIZE(value) == n.child_count:
            return put_row_body(n, value, 0, pos, out)
    else:
        for i in range(4):
            if kind == n.classes[i] and PyTuple_GET_SIZE(value) == n.child_count:
                return put_row_body(n, value, i, pos, out)
    held = row_fields(n, value)
    return put_row_body(n, <PyObject*>held, row_kind_of(value), pos, out)


cdef uint8_t* put_elements(const codec_node* element, PyObject* items, uint8_t* pos, fb_data_output* out) except NULL:
    """An array without a length. `items`, a plain tuple, is held by the caller."""
    cdef PyObject** values = FB_TUPLE_ITEMS(items)
    cdef uint32_t count = <uint32_t>PyTuple_GET_SIZE(items)
    cdef uint32_t width = fb_type_slot_width(type_of(element))
    cdef size_t base = pos - out.start
    cdef size_t head = fb_binary_row_array_head(count)
    cdef size_t fixed = fb_binary_row_array_fixed_size(count, width)
    cdef uint64_t slot
    cdef uint32_t i
    pos = make_room(out, pos, fixed)
    memset(pos, 0, fixed)
    fb_store_le32(pos, count)
    pos += fixed
    for i in range(count):
        slot = 0
        if values[i] == Py_None:
            out.start[base + 4 + i // 8] |= <uint8_t>(1 << (i % 8))
            continue
        pos = (<part_putter>put_part)(element, values[i], base, &slot, pos, out)
        if pos == NULL:
            add_step(element, f"[{i}]")
            return NULL
        fb_binary_row_put_slot(out.start + base + head + <size_t>i * width, width, slot)
    return pos


cdef uint8_t* put_map_of(const codec_node* n, dict value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef tuple keys = tuple(value)
    cdef tuple values = tuple(value.values())
    cdef size_t base = pos - out.start
    cdef size_t size = 0
    pos = make_room(out, pos, 4)
    pos = put_elements(&n.children[0], <PyObject*>keys, pos + 4, out)
    size = pos - out.start - base - 4
    fb_store_le32(out.start + base, <uint32_t>size)
    return put_elements(&n.children[1], <PyObject*>values, pos, out)


cdef uint8_t* put_body(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """ROW_DATA, ARRAY_DATA or MAP_DATA without a length in front."""
    cdef object v = <object>value
    cdef tuple items
    if n.kind == FB_TYPE_ROW_DATA:
        return put_row_of(n, value, pos, out)
    if n.kind == FB_TYPE_MAP_DATA:
        if not isinstance(v, dict):
            refuse(n, value, TypeError, "a dict is needed")
        return put_map_of(n, v if type(v) is dict else dict(v), pos, out)
    if isinstance(v, (str, bytes, bytearray, dict, set, frozenset)) or (is_array(v) and v.ndim != 1) or not (
            hasattr(v, "__len__") and hasattr(v, "__getitem__")):
        refuse(n, value, TypeError, "a list is needed")
    items = tuple(v.tolist()) if is_array(v) else tuple(v)
    return put_elements(&n.children[0], <PyObject*>items, pos, out)


cdef uint8_t* put_sized_data(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """ROW_DATA, ARRAY_DATA or MAP_DATA: its size, then itself."""
    cdef size_t at = pos - out.start
    if value == Py_None:
        refuse(n, value, TypeError)
    pos = make_room(out, pos, 4)
    pos = put_body(n, value, pos + 4, out)
    fb_store_be32(out.start + at, <uint32_t>(pos - out.start - at - 4))
    return pos


# --- slots: reading -----------------------------------------------------------------------------------


cdef int refuse_slot(const codec_node* n, fb_data_input* source, str why="") except -1:
    corrupt(n, source, FB_ECORRUPT, why)


cdef object get_plain_slot(const codec_node* n, uint64_t slot, fb_data_input* source):
    """A number of the ordinary types."""
    cdef uint8_t plain[8]
    cdef fb_data_input input
    cdef size_t size = 0
    if n.kind == FB_TYPE_LONG or n.kind == FB_TYPE_DOUBLE:
        fb_store_be64(plain, slot)
        size = 8
    elif n.kind == FB_TYPE_INT or n.kind == FB_TYPE_FLOAT:
        fb_store_be32(plain, <uint32_t>slot)
        size = 4
    elif n.kind == FB_TYPE_SHORT:
        fb_store_be16(plain, <uint32_t>slot)
        size = 2
    elif n.kind == FB_TYPE_BYTE or (n.kind == FB_TYPE_BOOLEAN and <uint8_t>slot <= 1):
        plain[0] = <uint8_t>slot
        size = 1
    else:
        refuse_slot(n, source, "a value where there is none" if n.kind != FB_TYPE_BOOLEAN else "")
    input.start = input.pos = plain
    input.end = plain + size
    input.record_number = input.channel = -1
    return FB_IDENTITY(n.get(n, &input))


cdef object get_slot(const codec_node* n, fb_binary_section* section, uint32_t i, fb_data_input* source):
    """Value `i` of a row or array, which is not null. `source.pos` is where the whole value begins."""
    cdef fb_type_kind kind = n.kind
    cdef const uint8_t* part = NULL
    cdef uint64_t size = 0
    cdef uint64_t slot
    cdef fb_wide_int unscaled = 0
    cdef int64_t millis = 0
    cdef uint32_t nanos = 0
    if kind == FB_TYPE_STRING_DATA or kind == FB_TYPE_PRIMITIVE_ARRAY:
        if fb_binary_row_take_bytes(section, i, &part, &size) != FB_OK:
            refuse_slot(n, source)
        if kind == FB_TYPE_PRIMITIVE_ARRAY:
            return (<const char*>part)[:size]
        try:
            return PyUnicode_DecodeUTF8(<const char*>part, size, NULL)
        except UnicodeDecodeError:
            refuse_slot(n, source, "text that is no UTF-8")
    if kind == FB_TYPE_ROW_DATA or kind == FB_TYPE_ARRAY_DATA or kind == FB_TYPE_MAP_DATA:
        if fb_binary_row_take_part(section, i, &part, &size) != FB_OK:
            refuse_slot(n, source)
        return get_body(n, part, size, source)
    slot = fb_binary_row_load_slot(section, i)
    if kind == FB_TYPE_DECIMAL_DATA:
        if fb_type_is_compact(type_of(n)):
            unscaled = <int64_t>slot
            if not fb_binary_row_has_digits(unscaled, type_of(n).precision):
                refuse_slot(n, source, "more digits than it may have")
        elif fb_binary_row_take_decimal(section, i, type_of(n).precision, &unscaled) != FB_OK:
            refuse_slot(n, source)
        return value_of_decimal(n, unscaled)
    if kind == FB_TYPE_TIMESTAMP_DATA or kind == FB_TYPE_TIMESTAMP_LTZ_DATA:
        millis = <int64_t>slot
        if not fb_type_is_compact(type_of(n)) and fb_binary_row_take_timestamp(section, i, &millis, &nanos) != FB_OK:
            refuse_slot(n, source)
        return value_of_moment(n, millis, nanos)
    if kind == FB_TYPE_DATE_DATA:
        return value_of_moment(n, <int32_t>slot, 0)
    if kind == FB_TYPE_TIME_DATA:
        if <uint32_t>slot >= 86400000u:
            refuse_slot(n, source, "a time that is not within one day")
        return value_of_moment(n, <uint32_t>slot, 0)
    return get_plain_slot(n, slot, source)


cdef object get_row_body(const codec_node* n, const uint8_t* start, uint64_t size, fb_data_input* source):
    cdef fb_binary_section section
    cdef uint32_t i
    cdef PyObject* row
    cdef PyObject* item
    cdef int code = fb_binary_row_open(start, size, n.child_count, &section)
    if code != FB_OK:
        corrupt(n, source, code)
    row = new_row(n.classes[start[0]], n.child_count)
    try:
        for i in range(n.child_count):
            if fb_binary_row_is_null(&section, i):
                item = FB_NONE()
            else:
                value = get_slot(&n.children[i], &section, i, source)
                item = <PyObject*>value
                Py_INCREF(item)
            PyTuple_SET_ITEM(row, i, item)
    except BaseException:
        Py_DECREF(row)
        raise
    if not n.acyclic:
        PyObject_GC_Track(row)
    return FB_IDENTITY(row)


cdef list get_elements(const codec_node* element, fb_binary_section* array, fb_data_input* source):
    cdef list values = []
    cdef uint32_t i
    for i in range(array.count):
        values.append(None if fb_binary_row_is_null(array, i) else get_slot(element, array, i, source))
    return values


cdef object get_body(const codec_node* n, const uint8_t* start, uint64_t size, fb_data_input* source):
    cdef fb_binary_section section
    cdef fb_binary_section values
    cdef int code
    if n.kind == FB_TYPE_ROW_DATA:
        return get_row_body(n, start, size, source)
    if n.kind == FB_TYPE_ARRAY_DATA:
        code = fb_binary_row_open_array(start, size, fb_type_slot_width(type_of(&n.children[0])), &section)
        if code != FB_OK:
            corrupt(n, source, code)
        return get_elements(&n.children[0], &section, source)
    code = fb_binary_row_open_map(start, size, fb_type_slot_width(type_of(&n.children[0])),
                                  fb_type_slot_width(type_of(&n.children[1])), &section, &values)
    if code != FB_OK:
        corrupt(n, source, code)
    found = dict(zip(get_elements(&n.children[0], &section, source), get_elements(&n.children[1], &values, source)))
    if len(found) != section.count:
        refuse_slot(n, source, "two keys that are equal in Python")
    return found


cdef object get_sized_data(const codec_node* n, fb_data_input* source):
    cdef const uint8_t* start = source.pos
    cdef uint32_t size
    if source.end - start < 4:
        corrupt(n, source, FB_ETRUNCATED)
    size = fb_load_be32(start)
    if size > <uint64_t>(source.end - start - 4):
        corrupt(n, source, FB_ETRUNCATED)
    value = get_body(n, start + 4, size, source)
    source.pos = start + 4 + size
    return value
