"""Numbers: bools, ints of 8 to 64 bits, floats, and ints and decimals of any length.

A number is taken from what is that number exactly: nothing is rounded or wrapped silently but float64 to FLOAT, as in
Java.
"""

import decimal

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport (
    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t,
)

from flinkbuf._core.ground.byte_order cimport (
    fb_load_be16, fb_load_be32, fb_load_be64, fb_store_be16, fb_store_be32, fb_store_be64,
)
from flinkbuf._core.value.codec cimport (
    corrupt, get_flag, is_array, is_numpy, make_room, measured, put_count, put_sized, refuse,
)
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ETRUNCATED
from flinkbuf._core.value.number cimport fb_number_double, fb_number_double_bits, fb_number_float, fb_number_float_bits
from flinkbuf._core.value.python_object cimport (
    FB_BOOL, PyBool_Check, PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_FromDouble, PyIndex_Check,
    PyLong_AsLongLongAndOverflow, PyLong_Check, PyLong_FromLong, PyNumber_Index, Py_None, Py_True,
)
from flinkbuf._core.value.type cimport FB_TYPE_FLOAT

cdef object Decimal = decimal.Decimal
cdef object EXACT = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


# --- encode -------------------------------------------------------------------------------------------


cdef int refuse_array(const codec_node* n, PyObject* value) except -1:
    """Arrays of one element pass for numbers in numpy, sometimes; here a number is no array."""
    if is_array(<object>value):
        refuse(n, value, TypeError, "an array is not taken for a number; .item() gives the one that it holds")
    return 0


cdef int as_integer(const codec_node* n, PyObject* value, int64_t low, int64_t high, int64_t* number) except -1:
    """Any int, or what says by __index__ that it is one; no bool, as pyspark has it."""
    cdef int overflow = 0
    if PyBool_Check(value):
        refuse(n, value, TypeError, "a bool is not taken for a number")
    if not PyLong_Check(value):
        refuse_array(n, value)
        if not PyIndex_Check(value) or is_numpy(<object>value, "bool"):
            refuse(n, value, TypeError)
        number[0] = PyLong_AsLongLongAndOverflow(PyNumber_Index(<object>value), &overflow)
    else:
        number[0] = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
    if overflow != 0 or number[0] < low or number[0] > high:
        refuse(n, value, OverflowError, f"it must be within {low}..{high}")
    return 0


cdef int as_double(const codec_node* n, PyObject* value, double* number) except -1:
    """A float, or what equals one exactly: an int, a numpy float."""
    if PyFloat_Check(value):
        number[0] = PyFloat_AS_DOUBLE(value)
        return 0
    v = <object>value
    refuse_array(n, value)
    if PyLong_Check(value) and not PyBool_Check(value) or PyIndex_Check(value) and not PyLong_Check(value) \
            and not is_numpy(v, "bool"):
        whole = PyNumber_Index(v)
        try:
            number[0] = <double>float(whole)
        except OverflowError:
            refuse(n, value, OverflowError, "no float is that large")
        if number[0] != whole or (n.kind == FB_TYPE_FLOAT
                                  and fb_number_float(fb_number_float_bits(number[0])) != number[0]):
            refuse(n, value, ValueError, "this int would be rounded; convert it to float first if that is meant")
    elif is_numpy(v, "floating"):
        number[0] = <double>float(v)
        if number[0] != v and number[0] == number[0]:
            refuse(n, value, ValueError, "it would be rounded; convert it to float first if that is meant")
    else:
        refuse(n, value, TypeError)
    return 0


cdef uint8_t* put_boolean(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef bint truth = value == Py_True
    if not PyBool_Check(value):
        if not is_numpy(<object>value, "bool"):
            refuse(n, value, TypeError)
        truth = bool(<object>value)
    pos = make_room(out, pos, 1)
    pos[0] = truth
    return pos + 1


cdef uint8_t* put_byte(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int64_t number = 0
    as_integer(n, value, -128, 127, &number)
    pos = make_room(out, pos, 1)
    pos[0] = <uint8_t>number
    return pos + 1


cdef uint8_t* put_short(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int64_t number = 0
    as_integer(n, value, -32768, 32767, &number)
    pos = make_room(out, pos, 2)
    fb_store_be16(pos, <uint16_t>number)
    return pos + 2


cdef uint8_t* put_int(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int64_t number = 0
    as_integer(n, value, INT32_MIN, INT32_MAX, &number)
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, <uint32_t>number)
    return pos + 4


cdef uint8_t* put_long(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int64_t number = 0
    as_integer(n, value, INT64_MIN, INT64_MAX, &number)
    pos = make_room(out, pos, 8)
    fb_store_be64(pos, <uint64_t>number)
    return pos + 8


cdef uint8_t* put_float(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """Rounded to the nearest float32, as Java's (float) does; what would become infinite is refused."""
    cdef double number = 0
    cdef uint32_t bits
    as_double(n, value, &number)
    bits = fb_number_float_bits(number)
    if (bits & 0x7fffffff) == 0x7f800000 and number - number == 0:
        refuse(n, value, OverflowError, "a FLOAT holds at most 3.4028235e+38")
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, bits)
    return pos + 4


cdef uint8_t* put_double(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef double number = 0
    as_double(n, value, &number)
    pos = make_room(out, pos, 8)
    fb_store_be64(pos, fb_number_double_bits(number))
    return pos + 8


cdef uint8_t* put_unscaled(const codec_node* n, PyObject* value, object number, uint8_t* pos,
                           fb_data_output* out) except NULL:
    """Flink's BigInteger: 0, 1 and 10 have short forms (Flink compares references, so it writes others too)."""
    cdef bytes data
    if number == 0 or number == 1 or number == 10:
        pos = make_room(out, pos, 4)
        fb_store_be32(pos, 1 if number == 0 else 2 if number == 1 else 3)
        return pos + 4
    data = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    if PyBytes_GET_SIZE(data) > INT32_MAX - 4:
        refuse(n, value, OverflowError, "it is too long")
    pos = put_sized(n, value, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), pos, out)
    fb_store_be32(pos - PyBytes_GET_SIZE(data) - 4, <uint32_t>PyBytes_GET_SIZE(data) + 4)
    return pos


cdef uint8_t* put_big_int(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    if value == Py_None:
        return put_count(n, value, 0, 0, pos, out)
    if PyBool_Check(value):
        refuse(n, value, TypeError, "a bool is not taken for a number")
    refuse_array(n, value)
    if not PyLong_Check(value) and (not PyIndex_Check(value) or is_numpy(<object>value, "bool")):
        refuse(n, value, TypeError)
    return put_unscaled(n, value, int(PyNumber_Index(<object>value)), pos, out)


cdef uint8_t* put_big_dec(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    if value == Py_None:
        return put_count(n, value, 0, 0, pos, out)
    v = <object>value
    if not isinstance(v, Decimal):
        refuse(n, value, TypeError)
    if not v.is_finite():
        refuse(n, value, ValueError, "a BigDecimal is finite")
    sign, _, exponent = v.as_tuple()
    unscaled = int(v.copy_abs().scaleb(-exponent, EXACT))
    if sign and unscaled == 0:
        refuse(n, value, ValueError, "a BigDecimal has no negative zero; abs(value) is what it can hold")
    if not INT32_MIN <= -exponent <= INT32_MAX:
        refuse(n, value, OverflowError, "the scale of a BigDecimal must fit 32 bits")
    pos = put_unscaled(n, value, -unscaled if sign else unscaled, pos, out)
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, <uint32_t><int32_t>(-exponent))
    return pos + 4


# --- decode -------------------------------------------------------------------------------------------


cdef const uint8_t* fixed(const codec_node* n, fb_data_input* source, size_t size) except NULL:
    """Where a value of `size` bytes begins; moves past it."""
    cdef const uint8_t* pos = source.pos
    if fb_data_input_left(source) < size:
        corrupt(n, source, FB_ETRUNCATED)
    source.pos = pos + size
    return pos


cdef PyObject* get_boolean(const codec_node* n, fb_data_input* source) except NULL:
    return FB_BOOL(get_flag(n, source))


cdef PyObject* get_byte(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = fixed(n, source, 1)
    return PyLong_FromLong(<signed char>pos[0])


cdef PyObject* get_short(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = fixed(n, source, 2)
    return fb_number_codec_int(kept_ints, <int16_t>fb_load_be16(pos))


cdef PyObject* get_int(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = fixed(n, source, 4)
    return fb_number_codec_int(kept_ints, <int32_t>fb_load_be32(pos))


cdef PyObject* get_long(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = fixed(n, source, 8)
    return fb_number_codec_int(kept_ints, <int64_t>fb_load_be64(pos))


cdef PyObject* get_float(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = fixed(n, source, 4)
    return PyFloat_FromDouble(fb_number_float(fb_load_be32(pos)))


cdef PyObject* get_double(const codec_node* n, fb_data_input* source) except NULL:
    cdef const uint8_t* pos = fixed(n, source, 8)
    return PyFloat_FromDouble(fb_number_double(fb_load_be64(pos)))


cdef object get_unscaled(fb_data_input* source):
    """None, or an int; the whole value has been measured."""
    cdef uint32_t length = fb_load_be32(source.pos)
    source.pos += 4
    if length < 4:
        return (None, 0, 1, 10)[length]
    source.pos += length - 4
    return int.from_bytes(source.pos[4 - <int64_t>length:0], "big", signed=True)


cdef object get_big_int(const codec_node* n, fb_data_input* source):
    source.pos = measured(n, source)
    return get_unscaled(source)


cdef object get_big_dec(const codec_node* n, fb_data_input* source):
    source.pos = measured(n, source)
    unscaled = get_unscaled(source)
    if unscaled is None:
        return None
    source.pos += 4
    return Decimal(unscaled).scaleb(-<int64_t><int32_t>fb_load_be32(source.pos - 4), EXACT)
