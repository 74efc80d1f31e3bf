"""Values without parts whose type nobody declared: numbers and text of any size, bytes, dates and times, decimals.

The short ones, which records are mostly made of, are inlined into the walk (object_codec.pyx).
"""

import decimal

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    PyDate_CheckExact, PyDateTime_CheckExact, PyDelta_CheckExact, PyTime_CheckExact, date_day, date_month, date_new,
    date_year, datetime_fold, datetime_hour, datetime_microsecond, datetime_minute, datetime_new, datetime_second,
    datetime_tzinfo, get_utc, import_datetime, time_fold, time_hour, time_microsecond, time_minute, time_new,
    time_second, time_tzinfo, timedelta_days, timedelta_microseconds, timedelta_new, timedelta_seconds,
)
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport (
    fb_load_le16, fb_load_le32, fb_load_le64, fb_store_le16, fb_store_le32, fb_store_le64,
)
from flinkbuf._core.value.codec cimport corrupt, make_room, refuse
from flinkbuf._core.ground.data_view cimport fb_data_input_left
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETRUNCATED
from flinkbuf._core.value.object cimport (
    FB_OBJECT_ASCII, FB_OBJECT_BIG_INT, FB_OBJECT_BYTEARRAY, FB_OBJECT_BYTES, FB_OBJECT_DATE, FB_OBJECT_DATETIME,
    FB_OBJECT_DECIMAL, FB_OBJECT_FALSE, FB_OBJECT_FLOAT, FB_OBJECT_INT, FB_OBJECT_LATIN1, FB_OBJECT_MAX_SHORT_TEXT,
    FB_OBJECT_NONE, FB_OBJECT_TIME, FB_OBJECT_TIMEDELTA, FB_OBJECT_TRUE, FB_OBJECT_UCS2, FB_OBJECT_UCS4,
    fb_object_int, fb_object_is_date, fb_object_is_time, fb_object_is_timedelta, fb_object_is_ucs4, fb_object_put_int,
)
from flinkbuf._core.value.python_object cimport (
    FB_TYPE_OF, PyFloat_AS_DOUBLE, PyLong_AsLongLongAndOverflow, PyUnicode_DATA, PyUnicode_FromKindAndData,
    PyUnicode_GET_LENGTH, PyUnicode_IS_ASCII, PyUnicode_KIND, Py_None, Py_True,
)
from flinkbuf._core.value.text cimport fb_text_is_ascii

import_datetime()

cdef object Decimal = decimal.Decimal
cdef object EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[decimal.InvalidOperation])


# --- encode -------------------------------------------------------------------------------------------


cdef uint8_t* put_leaf(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except? NULL:
    """There is room for LEAF_ROOM bytes. NULL without an exception: no leaf of ours."""
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef object v = <object>value
    if kind == <PyObject*>int:
        return put_int(n, value, pos, out)
    if kind == <PyObject*>str:
        return put_text(n, value, pos, out)
    if kind == <PyObject*>float:
        pos[0] = FB_OBJECT_FLOAT
        fb_store_le64(pos + 1, float_bits(PyFloat_AS_DOUBLE(value), n.is_key))
        return pos + 9
    if value == Py_None or kind == <PyObject*>bool:
        pos[0] = FB_OBJECT_NONE if value == Py_None else FB_OBJECT_TRUE if value == Py_True else FB_OBJECT_FALSE
        return pos + 1
    if kind == <PyObject*>bytes:
        return put_bytes(n, value, FB_OBJECT_BYTES, PyBytes_AS_STRING(v), PyBytes_GET_SIZE(v), pos, out)
    if kind == <PyObject*>bytearray:
        return put_bytes(n, value, FB_OBJECT_BYTEARRAY, PyByteArray_AS_STRING(v), PyByteArray_GET_SIZE(v), pos, out)
    if kind == <PyObject*>Decimal:
        return put_decimal(n, value, pos, out)
    return put_time(v, pos)


cdef inline uint64_t float_bits(double number, bint is_key) noexcept:
    """All bits, as in a pickle; but one NaN in a key, which is to equal itself."""
    cdef uint64_t bits
    memcpy(&bits, &number, 8)
    return 0x7ff8000000000000u if is_key and number != number else bits


cdef uint8_t* put_bytes(const codec_node* n, PyObject* value, uint8_t tag, const void* data, Py_ssize_t size,
                        uint8_t* pos, fb_data_output* out) except NULL:
    if size > INT32_MAX:
        refuse(n, value, OverflowError, "the length must fit 31 bits")
    pos = make_room(out, pos, 5 + size)
    pos[0] = tag
    fb_store_le32(pos + 1, <uint32_t>size)
    memcpy(pos + 5, data, size)
    return pos + 5 + size


cdef uint8_t* put_int(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int overflow = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
    cdef bytes data
    if overflow == 0:
        return fb_object_put_int(pos, number)
    data = (<object>value).to_bytes((<object>value).bit_length() // 8 + 1, "little", signed=True)
    return put_bytes(n, value, FB_OBJECT_BIG_INT, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), pos, out)


cdef uint8_t* put_text(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """As Python holds it, so that any text, lone surrogates too, comes back as it was."""
    cdef Py_ssize_t i
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(value)
    cdef int width = PyUnicode_KIND(value)
    cdef const void* points = PyUnicode_DATA(value)
    if PyUnicode_IS_ASCII(value):
        if length > FB_OBJECT_MAX_SHORT_TEXT:
            return put_bytes(n, value, FB_OBJECT_ASCII, points, length, pos, out)
        pos = make_room(out, pos, 1 + length)
        pos[0] = <uint8_t>length
        memcpy(pos + 1, points, length)
        return pos + 1 + length
    if width == 1:
        return put_bytes(n, value, FB_OBJECT_LATIN1, points, length, pos, out)
    if length > INT32_MAX // width:
        refuse(n, value, OverflowError, "the length must fit 31 bits")
    pos = make_room(out, pos, 5 + length * width)
    pos[0] = FB_OBJECT_UCS2 if width == 2 else FB_OBJECT_UCS4
    fb_store_le32(pos + 1, <uint32_t>length)
    pos += 5
    if width == 2:
        for i in range(length):
            fb_store_le16(pos + 2 * i, (<const uint16_t*>points)[i])
    else:
        for i in range(length):
            fb_store_le32(pos + 4 * i, (<const uint32_t*>points)[i])
    return pos + length * width


cdef uint8_t* put_decimal(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """Its text has all of it: every digit, the scale, signs of zeros, kinds of NaN."""
    cdef bytes text = str(<object>value).encode("ascii")
    return put_bytes(n, value, FB_OBJECT_DECIMAL, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), pos, out)


cdef uint8_t* put_time(object v, uint8_t* pos) except? NULL:
    """Dates, times and durations; those in a time zone other than UTC are left to pickle."""
    cdef int flags = 0
    if PyDelta_CheckExact(v):
        pos[0] = FB_OBJECT_TIMEDELTA
        fb_store_le32(pos + 1, <uint32_t>timedelta_days(v))
        fb_store_le32(pos + 5, <uint32_t>timedelta_seconds(v))
        fb_store_le32(pos + 9, <uint32_t>timedelta_microseconds(v))
        return pos + 13
    if PyDate_CheckExact(v):
        pos[0] = FB_OBJECT_DATE
        return put_date_parts(v, pos + 1)
    if PyDateTime_CheckExact(v):
        zone = datetime_tzinfo(v)
        if zone is not None and zone is not get_utc():
            return NULL
        flags = datetime_fold(v) | (0 if zone is None else 2)
        pos[0] = FB_OBJECT_DATETIME
        pos = put_date_parts(v, pos + 1)
        return put_time_parts(datetime_hour(v), datetime_minute(v), datetime_second(v), flags, datetime_microsecond(v),
                              pos)
    if PyTime_CheckExact(v):
        zone = time_tzinfo(v)
        if zone is not None and zone is not get_utc():
            return NULL
        flags = time_fold(v) | (0 if zone is None else 2)
        pos[0] = FB_OBJECT_TIME
        return put_time_parts(time_hour(v), time_minute(v), time_second(v), flags, time_microsecond(v), pos + 1)
    return NULL


cdef uint8_t* put_date_parts(object v, uint8_t* pos) noexcept:
    fb_store_le16(pos, <uint16_t>date_year(v))
    pos[2] = <uint8_t>date_month(v)
    pos[3] = <uint8_t>date_day(v)
    return pos + 4


cdef uint8_t* put_time_parts(int hour, int minute, int second, int flags, int micro, uint8_t* pos) noexcept:
    pos[0] = <uint8_t>hour
    pos[1] = <uint8_t>minute
    pos[2] = <uint8_t>second
    pos[3] = <uint8_t>flags
    fb_store_le32(pos + 4, <uint32_t>micro)
    return pos + 8


# --- decode -------------------------------------------------------------------------------------------


cdef size_t get_size(const codec_node* n, fb_data_input* source, size_t least) except? 0xffffffff:
    """A count of things of at least `least` bytes each, checked against what is left before anything is allocated."""
    cdef uint32_t count
    if fb_data_input_left(source) < 4:
        corrupt(n, source, FB_ETRUNCATED)
    count = fb_load_le32(source.pos)
    if count > <uint32_t>INT32_MAX:
        corrupt(n, source, FB_ECORRUPT, f"a count of {<int32_t>count}")
    if count > (fb_data_input_left(source) - 4) // least:
        corrupt(n, source, FB_ETRUNCATED, f"a count of {count}, but only {fb_data_input_left(source) - 4} bytes are "
                f"left for things of at least {least}")
    source.pos += 4
    return count


cdef const uint8_t* fixed(const codec_node* n, fb_data_input* source, size_t size) except NULL:
    """Where `size` bytes begin; moves past them."""
    if fb_data_input_left(source) < size:
        corrupt(n, source, FB_ETRUNCATED)
    source.pos += size
    return source.pos - size


cdef object get_leaf(const codec_node* n, uint8_t tag, fb_data_input* source):
    """The value whose `tag` has been read; one that is no leaf is refused."""
    cdef const uint8_t* from_
    cdef uint64_t bits
    cdef double number
    cdef size_t size
    if tag <= FB_OBJECT_MAX_SHORT_TEXT:
        return get_ascii(n, source, tag)
    if FB_OBJECT_INT < tag < FB_OBJECT_BIG_INT:
        size = fb_data_input_left(source)
        return fb_object_int(fixed(n, source, tag - FB_OBJECT_INT), tag - FB_OBJECT_INT, size)
    if tag == FB_OBJECT_NONE:
        return None
    if tag == FB_OBJECT_TRUE or tag == FB_OBJECT_FALSE:
        return tag == FB_OBJECT_TRUE
    if tag == FB_OBJECT_FLOAT:
        bits = fb_load_le64(fixed(n, source, 8))
        memcpy(&number, &bits, 8)
        return number
    if FB_OBJECT_ASCII <= tag <= FB_OBJECT_UCS4:
        return get_text(n, tag, source)
    if tag == FB_OBJECT_DATE or tag == FB_OBJECT_TIME or tag == FB_OBJECT_DATETIME or tag == FB_OBJECT_TIMEDELTA:
        return get_time(n, tag, source)
    if tag != FB_OBJECT_BYTES and tag != FB_OBJECT_BYTEARRAY and tag != FB_OBJECT_BIG_INT and tag != FB_OBJECT_DECIMAL:
        source.pos -= 1
        corrupt(n, source, FB_ECORRUPT, f"no value begins with {tag:#04x}")
    size = get_size(n, source, 1)
    from_ = fixed(n, source, size)
    if tag == FB_OBJECT_BYTES:
        return PyBytes_FromStringAndSize(<const char*>from_, size)
    if tag == FB_OBJECT_BYTEARRAY:
        return PyByteArray_FromStringAndSize(<const char*>from_, size)
    if tag == FB_OBJECT_BIG_INT:
        return int.from_bytes((<const char*>from_)[:size], "little", signed=True)
    return get_decimal(n, from_, size, source)


cdef object get_ascii(const codec_node* n, fb_data_input* source, size_t size):
    cdef const uint8_t* from_ = fixed(n, source, size)
    if not fb_text_is_ascii(from_, size):
        source.pos = from_
        corrupt(n, source, FB_ECORRUPT, "a byte of an ASCII text is above 127")
    return PyUnicode_FromKindAndData(1, from_, size)


cdef object get_text(const codec_node* n, uint8_t tag, fb_data_input* source):
    cdef size_t i
    cdef size_t width = 4 if tag == FB_OBJECT_UCS4 else 2 if tag == FB_OBJECT_UCS2 else 1
    cdef size_t count = get_size(n, source, width)
    cdef const uint8_t* from_
    cdef void* points
    if tag == FB_OBJECT_ASCII:
        return get_ascii(n, source, count)
    from_ = fixed(n, source, count * width)
    if width == 1:
        return PyUnicode_FromKindAndData(1, from_, count)
    if width == 4 and not fb_object_is_ucs4(from_, count):
        source.pos = from_
        corrupt(n, source, FB_ECORRUPT, "a character is above U+10FFFF")
    points = PyMem_Malloc(count * width + 1)  # in the host's byte order, and where such numbers may lie
    if points == NULL:
        raise MemoryError
    try:
        for i in range(count):
            if width == 2:
                (<uint16_t*>points)[i] = fb_load_le16(from_ + 2 * i)
            else:
                (<uint32_t*>points)[i] = fb_load_le32(from_ + 4 * i)
        return PyUnicode_FromKindAndData(<int>width, points, count)
    finally:
        PyMem_Free(points)


cdef object get_decimal(const codec_node* n, const uint8_t* from_, size_t size, fb_data_input* source):
    try:
        return Decimal((<const char*>from_)[:size].decode("ascii"), EXACT)
    except (decimal.InvalidOperation, UnicodeDecodeError):
        source.pos = from_
        corrupt(n, source, FB_ECORRUPT, "no text of a Decimal")


cdef object get_time(const codec_node* n, uint8_t tag, fb_data_input* source):
    cdef const uint8_t* p = fixed(n, source, 4 if tag == FB_OBJECT_DATE else 8 if tag == FB_OBJECT_TIME else 12)
    cdef const uint8_t* t = p + 4 if tag == FB_OBJECT_DATETIME else p
    cdef bint has_time = tag == FB_OBJECT_TIME or tag == FB_OBJECT_DATETIME
    if tag == FB_OBJECT_TIMEDELTA:
        if fb_object_is_timedelta(p):
            return timedelta_new(<int32_t>fb_load_le32(p), <int>fb_load_le32(p + 4), <int>fb_load_le32(p + 8))
    elif (tag == FB_OBJECT_TIME or fb_object_is_date(p)) and (not has_time or fb_object_is_time(t)):
        if tag == FB_OBJECT_DATE:
            return date_new(fb_load_le16(p), p[2], p[3])
        zone = get_utc() if t[3] & 2 else None
        if tag == FB_OBJECT_TIME:
            return time_new(t[0], t[1], t[2], <int>fb_load_le32(t + 4), zone, t[3] & 1)
        return datetime_new(fb_load_le16(p), p[2], p[3], t[0], t[1], t[2], <int>fb_load_le32(t + 4), zone, t[3] & 1)
    source.pos = p
    corrupt(n, source, FB_ECORRUPT, "no date or time of Python's")
