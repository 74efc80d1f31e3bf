# One value of any kind, with what records are mostly made of (numbers, ASCII text) inlined into the loop over fields;
# the rest, and all that is refused, is left to the pair of its kind.

from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.ground.byte_order cimport fb_load_be32, fb_load_be64, fb_store_be32, fb_store_be64
from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.value.number cimport fb_number_double, fb_number_double_bits
from flinkbuf._core.value.number_codec cimport fb_number_codec_int, fb_number_codec_small_int, kept_ints
from flinkbuf._core.value.python_object cimport (
    PyFloat_AS_DOUBLE, PyFloat_CheckExact, PyFloat_FromDouble, PyLong_CheckExact, PyUnicode_CheckExact,
    PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, Py_DECREF, Py_INCREF,
)
from flinkbuf._core.value.text cimport fb_text_copy, fb_text_is_ascii
from flinkbuf._core.value.text_codec cimport fb_kept_text, fb_text_codec_kept_ascii
from flinkbuf._core.value.type cimport FB_TYPE_DOUBLE, FB_TYPE_INT, FB_TYPE_LONG, FB_TYPE_STRING


# `put` and `get` for callers that have more to do with a failure than to pass it on; NULL with an exception set.
ctypedef uint8_t* (*inline_put)(const codec_node*, PyObject*, uint8_t*, fb_data_output*) noexcept
ctypedef PyObject* (*inline_get)(const codec_node*, const uint8_t**, fb_data_input*) noexcept


cdef inline uint8_t* put(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """Writes one value at `pos` and returns the position after it; `out.pos` is not kept up to date."""
    cdef int64_t number = 0
    cdef Py_ssize_t length
    if n.kind == FB_TYPE_LONG:
        if PyLong_CheckExact(value) and fb_number_codec_small_int(value, &number) and out.end - pos >= 8:
            fb_store_be64(pos, <uint64_t>number)
            return pos + 8
    elif n.kind == FB_TYPE_STRING:
        if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
            length = PyUnicode_GET_LENGTH(value)
            if length < 127 and out.end - pos > length:
                pos[0] = <uint8_t>(length + 1)
                fb_text_copy(pos + 1, <const uint8_t*>PyUnicode_DATA(value), length)
                return pos + 1 + length
    elif n.kind == FB_TYPE_DOUBLE:
        if PyFloat_CheckExact(value) and out.end - pos >= 8:
            fb_store_be64(pos, fb_number_double_bits(PyFloat_AS_DOUBLE(value)))
            return pos + 8
    elif n.kind == FB_TYPE_INT:
        if PyLong_CheckExact(value) and fb_number_codec_small_int(value, &number) and out.end - pos >= 4:
            if number == <int32_t>number:
                fb_store_be32(pos, <uint32_t><int32_t>number)
                return pos + 4
    return n.put(n, value, pos, out)


cdef inline uint8_t* put_held(const codec_node* child, PyObject* value, uint8_t* pos, fb_data_output* out) noexcept:
    """As put, for a value whose container may lose it while user code runs; NULL with an exception set."""
    Py_INCREF(value)
    pos = (<inline_put>put)(child, value, pos, out)
    Py_DECREF(value)
    return pos


cdef inline PyObject* get(const codec_node* n, const uint8_t** at, fb_data_input* source) except NULL:
    """Reads one value at `at` and moves that past it; a new reference. `source.pos` is not kept up to date."""
    cdef const uint8_t* pos = at[0]
    cdef PyObject* value
    cdef size_t left = source.end - pos
    cdef size_t size
    if n.kind == FB_TYPE_LONG:
        if left >= 8:
            at[0] = pos + 8
            return fb_number_codec_int(kept_ints, <int64_t>fb_load_be64(pos))
    elif n.kind == FB_TYPE_STRING:
        if left > 0:
            size = pos[0]  # one more than the units; 0 is null
            if 0 < size < 128 and size <= left and fb_text_is_ascii(pos + 1, size - 1):
                at[0] = pos + size
                return fb_text_codec_kept_ascii(<fb_kept_text*>n.texts, pos + 1, size - 1)
    elif n.kind == FB_TYPE_DOUBLE:
        if left >= 8:
            at[0] = pos + 8
            return PyFloat_FromDouble(fb_number_double(fb_load_be64(pos)))
    elif n.kind == FB_TYPE_INT:
        if left >= 4:
            at[0] = pos + 4
            return fb_number_codec_int(kept_ints, <int32_t>fb_load_be32(pos))
    source.pos = pos
    value = n.get(n, source)
    at[0] = source.pos
    return value
