"""Values that are one of several things: nothing at all, a symbol, left or right, null or not, a stream element."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from flinkbuf._core.ground.byte_order cimport fb_load_be32, fb_load_be64, fb_store_be32, fb_store_be64
from flinkbuf._core.value.codec cimport Codec, add_step, corrupt, get_child, get_flag, make_room, measured, refuse
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ETRUNCATED
from flinkbuf._core.value.inline_codec cimport put, put_held
from flinkbuf._core.value.python_object cimport FB_NONE, FB_TYPE_OF, PyBool_Check, Py_None
from flinkbuf._core.value.type cimport (
    FB_ELEMENT_INTERNAL_WATERMARK, FB_ELEMENT_LATENCY_MARKER, FB_ELEMENT_RECORD, FB_ELEMENT_RECORD_ATTRIBUTES,
    FB_ELEMENT_RECORD_WITH_TIMESTAMP, FB_ELEMENT_WATERMARK, FB_ELEMENT_WATERMARK_STATUS,
)


# --- encode -------------------------------------------------------------------------------------------


cdef uint8_t* put_void(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    if value != Py_None:
        refuse(n, value, TypeError)
    pos = make_room(out, pos, 1)
    pos[0] = 0
    return pos + 1


cdef uint8_t* put_null_value(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    if value != Py_None:
        refuse(n, value, TypeError)
    return make_room(out, pos, 1)


cdef uint8_t* put_enum(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef Codec codec = <Codec>n.codec
    cdef object v = <object>value
    try:
        ordinal = codec.ordinals.get(v)
    except TypeError:
        ordinal = None  # unhashable
    if PyBool_Check(value) and ordinal is not None and not isinstance(codec.symbols[ordinal], bool):
        refuse(n, value, TypeError, "a bool is not taken for a number")
    if ordinal is None or not isinstance(v, type(codec.symbols[ordinal])):
        names = ", ".join(str(getattr(symbol, "name", symbol)) for symbol in codec.symbols[:20])
        refuse(n, value, TypeError if ordinal is None and not isinstance(v, type(codec.symbols[0])) else ValueError,
               f"it must be one of {names}")
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, <uint32_t>ordinal)
    return pos + 4


cdef uint8_t* put_either(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef bint left = kind == n.classes[0]
    if not left and kind != n.classes[1]:
        refuse(n, value, TypeError, "a Left or a Right is needed")
    pos = make_room(out, pos, 1)
    pos[0] = left
    inner = (<object>value).value
    pos = put_held(n.children + (0 if left else 1), <PyObject*>inner, pos + 1, out)
    if pos == NULL:
        add_step(n, ".left" if left else ".right")
    return pos


cdef uint8_t* put_nullable(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef size_t padding = (<Codec>n.codec).type.padding
    pos = make_room(out, pos, 1 + padding)
    pos[0] = value == Py_None
    pos += 1
    if value != Py_None:
        return put(n.children, value, pos, out)
    memset(pos, 0, padding)
    return pos + padding


cdef uint8_t* put_element(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """A tag and what belongs to it. The classes have checked their numbers when they were made."""
    cdef tuple classes = (<Codec>n.codec).classes
    cdef object v = <object>value
    cdef object kind = type(v)
    pos = make_room(out, pos, 32)
    if kind is classes[0]:
        timestamp = v.timestamp
        pos[0] = FB_ELEMENT_RECORD if timestamp is None else FB_ELEMENT_RECORD_WITH_TIMESTAMP
        if timestamp is not None:
            fb_store_be64(pos + 1, <uint64_t><int64_t>timestamp)
        inner = v.value
        pos = put_held(n.children, <PyObject*>inner, pos + (1 if timestamp is None else 9), out)
        if pos == NULL:
            add_step(n, ".value")
        return pos
    if kind is classes[1]:
        pos[0] = FB_ELEMENT_WATERMARK
        fb_store_be64(pos + 1, <uint64_t><int64_t>v.timestamp)
        return pos + 9
    if kind is classes[2]:
        pos[0] = FB_ELEMENT_INTERNAL_WATERMARK
        fb_store_be32(pos + 1, <uint32_t><int32_t>v.subpartition_index)
        fb_store_be64(pos + 5, <uint64_t><int64_t>v.timestamp)
        return pos + 13
    if kind is classes[3]:
        pos[0] = FB_ELEMENT_LATENCY_MARKER
        fb_store_be64(pos + 1, <uint64_t><int64_t>v.marked_time)
        memcpy(pos + 9, <const char*>v.operator_id, 16)
        fb_store_be32(pos + 25, <uint32_t><int32_t>v.subtask_index)
        return pos + 29
    if kind is classes[4]:
        pos[0] = FB_ELEMENT_WATERMARK_STATUS
        fb_store_be32(pos + 1, <uint32_t><int32_t>v.status)
        return pos + 5
    if kind is not classes[5]:
        refuse(n, value, TypeError, "a StreamRecord, a Watermark or another stream element is needed")
    pos[0] = FB_ELEMENT_RECORD_ATTRIBUTES
    pos[1] = bool(v.is_backlog)
    return pos + 2


# --- decode -------------------------------------------------------------------------------------------


cdef PyObject* get_void(const codec_node* n, fb_data_input* source) except NULL:
    measured(n, source)
    return FB_NONE()


cdef PyObject* get_null_value(const codec_node* n, fb_data_input* source) except NULL:
    return FB_NONE()


cdef object get_enum(const codec_node* n, fb_data_input* source):
    return (<Codec>n.codec).symbols[fb_load_be32(measured(n, source))]


cdef object get_either(const codec_node* n, fb_data_input* source):
    if get_flag(n, source):
        return (<object>n.classes[0])(get_child(n.children, source))
    return (<object>n.classes[1])(get_child(n.children + 1, source))


cdef object get_nullable(const codec_node* n, fb_data_input* source):
    if not get_flag(n, source):
        return get_child(n.children, source)
    source.pos -= 1
    measured(n, source)
    return None


cdef object get_element(const codec_node* n, fb_data_input* source):
    cdef tuple classes = (<Codec>n.codec).classes
    cdef const uint8_t* p = source.pos
    if source.pos == source.end:
        corrupt(n, source, FB_ETRUNCATED)
    if p[0] == FB_ELEMENT_RECORD:
        source.pos += 1
        return classes[0](get_child(n.children, source), None)
    if p[0] == FB_ELEMENT_RECORD_WITH_TIMESTAMP:
        source.pos += 1
        if fb_data_input_left(source) < 8:
            corrupt(n, source, FB_ETRUNCATED)
        source.pos += 8
        return classes[0](get_child(n.children, source), <int64_t>fb_load_be64(p + 1))
    measured(n, source)
    if p[0] == FB_ELEMENT_WATERMARK:
        return classes[1](<int64_t>fb_load_be64(p + 1))
    if p[0] == FB_ELEMENT_INTERNAL_WATERMARK:
        return classes[2](<int64_t>fb_load_be64(p + 5), <int32_t>fb_load_be32(p + 1))
    if p[0] == FB_ELEMENT_LATENCY_MARKER:
        return classes[3](<int64_t>fb_load_be64(p + 1), (<const char*>p)[9:25], <int32_t>fb_load_be32(p + 25))
    if p[0] == FB_ELEMENT_WATERMARK_STATUS:
        return classes[4](<int32_t>fb_load_be32(p + 1))
    return classes[5](p[1] == 1)
