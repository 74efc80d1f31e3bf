"""Text, single characters, and the pickles of what has no other type."""

import sys

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, uint16_t, uint32_t
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport fb_load_be16, fb_store_be16
from flinkbuf._core.value.codec cimport corrupt, make_room, measured, put_sized, refuse
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ETRUNCATED, FB_OK
from flinkbuf._core.value.python_object cimport (
    FB_NONE, PyUnicode_Check, PyUnicode_DATA, PyUnicode_FromOrdinal, PyUnicode_GET_LENGTH, PyUnicode_KIND,
    PyUnicode_New, PyUnicode_READ_CHAR, Py_None,
)
from flinkbuf._core.value.text cimport (
    fb_text, fb_text_decode, fb_text_encode, fb_text_is_ascii, fb_text_measure, fb_text_plan, fb_text_read_varint,
    fb_text_write_varint,
)
from flinkbuf._core.value.type cimport FB_TYPE_STRING, FB_TYPE_STRING_VALUE


cdef uint8_t* put_text(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """STRING counts one more than the units, so that 0 is null; STRING_VALUE has no null."""
    cdef fb_text text
    cdef Py_ssize_t length
    cdef int shift = n.kind != FB_TYPE_STRING_VALUE
    if value == Py_None and shift == 1:
        pos = make_room(out, pos, 1)
        pos[0] = 0
        return pos + 1
    if not PyUnicode_Check(value):
        refuse(n, value, TypeError)
    length = PyUnicode_GET_LENGTH(value)
    if length > INT32_MAX // 2:
        refuse(n, value, OverflowError, "a text must have fewer than 2**30 characters")
    if not fb_text_plan(PyUnicode_DATA(value), length, PyUnicode_KIND(value), &text):
        refuse(n, value, ValueError, "it has the two halves (surrogates) of a character side by side, which would come "
               "back as that one; .encode('utf-16', 'surrogatepass').decode('utf-16', 'surrogatepass') joins them")
    pos = make_room(out, pos, 5 + text.size)
    pos = fb_text_write_varint(text.units + shift, pos)
    if text.size == <size_t>length:
        memcpy(pos, PyUnicode_DATA(value), length)  # ASCII
        return pos + length
    return fb_text_encode(PyUnicode_DATA(value), length, PyUnicode_KIND(value), pos)


cdef uint8_t* put_char(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    if not PyUnicode_Check(value):
        refuse(n, value, TypeError, "a CHAR is a str of one character")
    if PyUnicode_GET_LENGTH(value) != 1 or PyUnicode_READ_CHAR(value, 0) > 0xffff:
        refuse(n, value, ValueError, "a CHAR is one UTF-16 unit")
    pos = make_room(out, pos, 2)
    fb_store_be16(pos, <uint16_t>PyUnicode_READ_CHAR(value, 0))
    return pos + 2


cdef bytes pickled(const codec_node* n, PyObject* value, bint always=False):
    """A pickle; one of cloudpickle's for what only that can write, if it or pyspark is there anyway; or `always`.

    Those are lambdas, classes of functions, and classes of `__main__` that came here from another process.
    """
    import pickle
    try:
        return pickle.dumps(<object>value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        why = str(error)
    if always:
        import cloudpickle
    else:
        cloudpickle = sys.modules.get("pyspark.cloudpickle") or sys.modules.get("cloudpickle")
    if cloudpickle is None:
        why += "; if cloudpickle is imported, it is used for lambdas and local classes"
    else:
        try:
            return cloudpickle.dumps(<object>value, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            why = str(error)
    refuse(n, value, TypeError, f"it does not pickle: {why}")


cdef uint8_t* put_pickled(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef bytes data = pickled(n, value)
    return put_sized(n, value, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), pos, out)


cdef PyObject* get_text(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* start = source.pos
    cdef const uint8_t* units_at
    cdef PyObject* text
    cdef fb_text plan
    cdef uint32_t units = 0
    cdef int code = fb_text_read_varint(source, &units)
    if code != FB_OK:
        corrupt(n, source, code)
    if n.kind == FB_TYPE_STRING:
        if units == 0:
            return FB_NONE()
        units -= 1
    units_at = source.pos
    if units > fb_data_input_left(source):
        source.pos = start
        corrupt(n, source, FB_ETRUNCATED,
                f"a text of {units} characters, but only {source.end - units_at} bytes are left")
    if fb_text_is_ascii(units_at, units):
        source.pos += units
        return fb_text_codec_ascii(units_at, units)
    code = fb_text_measure(source, units, &plan)
    if code != FB_OK:
        corrupt(n, source, code)
    if plan.length == 1:  # PyUnicode_New must not be filled where Python keeps the text of Latin-1 characters
        if plan.max_point < 256:
            return PyUnicode_FromOrdinal(plan.max_point)
    text = PyUnicode_New(plan.length, plan.max_point)
    fb_text_decode(units_at, &plan, PyUnicode_KIND(text), PyUnicode_DATA(text))
    return text


cdef PyObject* get_char(const codec_node* n, fb_data_input* source) except NULL:
    if fb_data_input_left(source) < 2:
        corrupt(n, source, FB_ETRUNCATED)
    source.pos += 2
    return PyUnicode_FromOrdinal(fb_load_be16(source.pos - 2))


cdef object get_pickled(const codec_node* n, fb_data_input* source):
    import pickle
    cdef const uint8_t* start = measured(n, source) + 4
    return pickle.loads((<const char*>start)[:source.pos - start])
