"""What a value becomes on its way through the bytes of a declared type, without the bytes where it stays as it is."""

from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport (
    fb_data_input, fb_data_output, fb_data_output_close, fb_data_output_size, fb_data_output_start,
)
from flinkbuf._core.value.number_codec cimport fb_number_codec_small_int
from flinkbuf._core.value.python_object cimport (
    FB_IDENTITY, FB_TUPLE_ITEMS, FB_TYPE_OF, PyTuple_GET_SIZE, PyUnicode_IS_ASCII, Py_None,
)
from flinkbuf._core.value.type cimport (
    FB_TYPE_BOOLEAN, FB_TYPE_DOUBLE, FB_TYPE_INT, FB_TYPE_LONG, FB_TYPE_NULLABLE, FB_TYPE_OBJECT, FB_TYPE_ROW,
    FB_TYPE_STRING, FB_TYPE_STRING_VALUE, FB_TYPE_TUPLE,
)
from flinkbuf._core.value.type_codec cimport decode_value, encode_value


def convert(TypeCodec codec not None, value):
    """What a reader gets when `value` is written as of that type: the value itself where nothing changes.

    An int becomes a float where a DOUBLE is declared, a tuple a Row where a ROW is, and what has parts that may change
    (a list, a dict) is made anew.

    Raises
    ------
    TypeError, OverflowError, ValueError
        If `value` is not of the type, as `TypeCodec.serialize` says it.
    """
    return convert_value(codec, value)


cdef object convert_value(TypeCodec codec, object value):
    return value if stays(&codec.node, <PyObject*>value) else round_trip(codec, value)


cdef object round_trip(TypeCodec codec, object value):
    cdef fb_data_output output
    cdef fb_data_input input
    cdef uint8_t small[512]  # most values fit, and nothing has to be allocated
    memset(&output, 0, sizeof(output))
    output.record_number = input.record_number = input.channel = -1
    fb_data_output_start(&output, small, small + sizeof(small))
    try:
        encode_value(codec, value, &output)
        input.start = input.pos = output.start
        input.end = output.start + fb_data_output_size(&output)
        return FB_IDENTITY(decode_value(codec, &input))
    finally:
        fb_data_output_close(&output)


cdef bint stays(const codec_node* n, PyObject* value) noexcept:
    """Whether a value surely comes back as it is. Runs no code of others."""
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef int64_t number = 0
    if n.kind == FB_TYPE_LONG or n.kind == FB_TYPE_INT:
        return kind == <PyObject*>int and fb_number_codec_small_int(value, &number) and (
            n.kind == FB_TYPE_LONG or INT32_MIN <= number <= INT32_MAX)
    if n.kind == FB_TYPE_STRING or n.kind == FB_TYPE_STRING_VALUE:
        return (kind == <PyObject*>str and PyUnicode_IS_ASCII(value)) or (value == Py_None and n.kind == FB_TYPE_STRING)
    if n.kind == FB_TYPE_DOUBLE:
        return kind == <PyObject*>float
    if n.kind == FB_TYPE_BOOLEAN:
        return kind == <PyObject*>bool
    if n.kind == FB_TYPE_OBJECT:
        return value == Py_None or kind == <PyObject*>str or kind == <PyObject*>int or kind == <PyObject*>float or \
            kind == <PyObject*>bool or kind == <PyObject*>bytes
    if n.kind == FB_TYPE_NULLABLE:
        return value == Py_None or stays(n.children, value)
    if n.kind == FB_TYPE_TUPLE:
        return kind == <PyObject*>tuple and fields_stay(n, value)
    if n.kind == FB_TYPE_ROW:
        return (kind == n.classes[0] or kind == n.classes[1] or kind == n.classes[2] or kind == n.classes[3]) \
            and fields_stay(n, value)
    return False


cdef bint fields_stay(const codec_node* n, PyObject* value) noexcept:
    """Of a tuple, whose fields nobody can change."""
    cdef PyObject** items = FB_TUPLE_ITEMS(value)
    cdef uint32_t i
    if PyTuple_GET_SIZE(value) != n.child_count:
        return False
    for i in range(n.child_count):
        if not (n.kind == FB_TYPE_ROW and items[i] == Py_None) and not stays(&n.children[i], items[i]):
            return False
    return True
