"""Dates, times and points in time: Python's own classes, and ours for what those cannot hold."""

from cpython.datetime cimport (
    PyDate_Check, PyDateTime_Check, PyDateTime_CheckExact, PyTime_Check, date_day, date_month, date_new, date_year,
    datetime_hour, datetime_microsecond, datetime_minute, datetime_new, datetime_second, datetime_tzinfo, get_utc,
    import_datetime, time_hour, time_microsecond, time_minute, time_new, time_second, time_tzinfo, timedelta_days,
    timedelta_microseconds, timedelta_seconds,
)
from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport fb_load_be32, fb_load_be64, fb_store_be32, fb_store_be64
from flinkbuf._core.value.calendar cimport (
    FB_CALENDAR_DAY_MILLIS, fb_calendar_date, fb_calendar_days, fb_calendar_floor_div,
)
from flinkbuf._core.value.codec cimport Codec, make_room, measured, refuse
from flinkbuf._core.value.python_object cimport FB_TYPE_OF, Py_None
from flinkbuf._core.value.type cimport (
    FB_TYPE_DATE, FB_TYPE_INSTANT, FB_TYPE_LOCAL_DATE, FB_TYPE_LOCAL_DATE_TIME, FB_TYPE_LOCAL_TIME,
    FB_TYPE_SQL_DATE,
)

import_datetime()


# --- encode -------------------------------------------------------------------------------------------


cdef int64_t sub_micro(object value) except -1:
    """The nanoseconds that a datetime of another class, such as pandas.Timestamp, has beside its microseconds."""
    return 0 if PyDateTime_CheckExact(value) else getattr(value, "nanosecond", 0)


cdef uint8_t* put_date_parts(int64_t year, int month, int day, uint8_t* pos):
    fb_store_be32(pos, <uint32_t><int32_t>year)
    pos[4] = <uint8_t>month
    pos[5] = <uint8_t>day
    return pos + 6


cdef uint8_t* put_time_parts(int hour, int minute, int second, int64_t nano, uint8_t* pos):
    pos[0] = <uint8_t>hour
    pos[1] = <uint8_t>minute
    pos[2] = <uint8_t>second
    fb_store_be32(pos + 3, <uint32_t>nano)
    return pos + 7


cdef bint is_not_a_time(object value):
    """pandas.NaT is a datetime by class only."""
    return not PyDateTime_CheckExact(value) and value != value


cdef uint8_t* put_local(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """LOCAL_DATE, LOCAL_TIME, LOCAL_DATE_TIME."""
    cdef object v = <object>value
    cdef object exact = (<Codec>n.codec).classes[0]
    pos = make_room(out, pos, 13)
    if v is None:
        memcpy(pos, b"\x80\0\0\0\x80\0\x80\x80\0\x80\0\0\0", 13)
        if n.kind == FB_TYPE_LOCAL_DATE:
            return pos + 6
        if n.kind == FB_TYPE_LOCAL_DATE_TIME:
            return pos + 13
        memcpy(pos, b"\x80\x80\0\x80\0\0\0", 7)
        return pos + 7
    if n.kind == FB_TYPE_LOCAL_DATE:
        if PyDateTime_Check(v):
            refuse(n, value, TypeError, "a datetime would lose its time; use .date()")
        if PyDate_Check(v):
            return put_date_parts(date_year(v), date_month(v), date_day(v), pos)
        if type(v) is not exact:
            refuse(n, value, TypeError)
        return put_date_parts(v.year, v.month, v.day, pos)
    if type(v) is exact:
        if n.kind == FB_TYPE_LOCAL_DATE_TIME:
            pos = put_date_parts(v.year, v.month, v.day, pos)
        return put_time_parts(v.hour, v.minute, v.second, v.nano, pos)
    if not (PyDateTime_Check(v) if n.kind == FB_TYPE_LOCAL_DATE_TIME else PyTime_Check(v)):
        refuse(n, value, TypeError)
    if n.kind == FB_TYPE_LOCAL_TIME:
        if time_tzinfo(v) is not None:
            refuse(n, value, ValueError, "its time zone would be lost; use .replace(tzinfo=None)")
        return put_time_parts(time_hour(v), time_minute(v), time_second(v), time_microsecond(v) * 1000, pos)
    if is_not_a_time(v):
        refuse(n, value, ValueError, "it is no time; None is the null of this type")
    if datetime_tzinfo(v) is not None:
        refuse(n, value, ValueError, "its time zone would be lost; use .replace(tzinfo=None), or TIMESTAMP_LTZ")
    pos = put_date_parts(date_year(v), date_month(v), date_day(v), pos)
    return put_time_parts(datetime_hour(v), datetime_minute(v), datetime_second(v),
                          datetime_microsecond(v) * 1000 + sub_micro(v), pos)


cdef int epoch_of(const codec_node* n, PyObject* value, bint aware, int64_t* second, int64_t* nano) except -1:
    """Seconds since 1970 in UTC and the nanoseconds after them, of a datetime with or without a time zone."""
    cdef object v = <object>value
    cdef int64_t micros
    if not PyDateTime_Check(v):
        refuse(n, value, TypeError)
    if is_not_a_time(v):
        refuse(n, value, ValueError, "it is no time; None is the null of this type")
    zone = datetime_tzinfo(v)
    offset = None if zone is None or zone is get_utc() else v.utcoffset()
    if aware and offset is None and zone is not get_utc():
        refuse(n, value, ValueError, "it has no time zone; use .astimezone() or .replace(tzinfo=...)")
    if not aware and zone is not None:
        refuse(n, value, ValueError, "its time zone would be lost; use TIMESTAMP_LTZ, or .replace(tzinfo=None)")
    second[0] = fb_calendar_days(date_year(v), date_month(v), date_day(v)) * 86400
    second[0] += datetime_hour(v) * 3600 + datetime_minute(v) * 60 + datetime_second(v)
    micros = datetime_microsecond(v)
    if offset is not None:
        second[0] -= <int64_t>timedelta_days(offset) * 86400 + timedelta_seconds(offset)
        micros -= timedelta_microseconds(offset)
        if micros < 0:
            micros += 1_000_000
            second[0] -= 1
    nano[0] = micros * 1000 + sub_micro(v)
    return 0


cdef uint8_t* put_second_and_nano(int64_t second, uint32_t nano, uint8_t* pos):
    fb_store_be64(pos, <uint64_t>second)
    fb_store_be32(pos + 8, nano)
    return pos + 12


cdef uint8_t* put_instant(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int64_t second = 0
    cdef int64_t nano = 0
    pos = make_room(out, pos, 12)
    if value == Py_None:
        return put_second_and_nano(INT64_MIN, 0x80000000u, pos)
    if FB_TYPE_OF(value) == n.classes[0]:
        second, nano = (<object>value).seconds, (<object>value).nanos
    else:
        epoch_of(n, value, True, &second, &nano)
    return put_second_and_nano(second, <uint32_t>nano, pos)


cdef uint8_t* put_own_instant(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """INSTANT: the class itself, as in PyFlink, which refuses a datetime."""
    if value != Py_None and FB_TYPE_OF(value) != n.classes[0]:
        if PyDateTime_Check(<object>value):
            refuse(n, value, TypeError, "make an Instant of it with Instant.from_datetime, or declare TIMESTAMP_LTZ, "
                                        "which has datetimes")
        refuse(n, value, TypeError)
    return put_instant(n, value, pos, out)


cdef uint8_t* put_timestamp(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    """java.sql.Timestamp: a naive datetime, read as UTC, or milliseconds with all nanoseconds of the second."""
    cdef int64_t second = 0
    cdef int64_t nano = 0
    pos = make_room(out, pos, 12)
    if value == Py_None:
        return put_second_and_nano(INT64_MIN, 0, pos)
    if FB_TYPE_OF(value) == n.classes[0]:
        if (<object>value).millis == INT64_MIN:
            refuse(n, value, ValueError, "Flink writes this number for null")
        return put_second_and_nano((<object>value).millis, (<object>value).nanos, pos)
    epoch_of(n, value, False, &second, &nano)
    return put_second_and_nano(second * 1000 + nano // 1_000_000, <uint32_t>nano, pos)


cdef int millis_of(const codec_node* n, PyObject* value, int64_t* millis) except -1:
    """DATE: an aware datetime; SQL_DATE: a date at midnight UTC; SQL_TIME: a time on 1970-01-01 UTC."""
    cdef object v = <object>value
    cdef int64_t second = 0
    cdef int64_t nano = 0
    if n.kind == FB_TYPE_DATE:
        epoch_of(n, value, True, &second, &nano)
    elif n.kind == FB_TYPE_SQL_DATE:
        if PyDateTime_Check(v):
            refuse(n, value, TypeError, "a datetime would lose its time; use .date()")
        if not PyDate_Check(v):
            refuse(n, value, TypeError)
        second = fb_calendar_days(date_year(v), date_month(v), date_day(v)) * 86400
    else:
        if not PyTime_Check(v):
            refuse(n, value, TypeError)
        if time_tzinfo(v) is not None:
            refuse(n, value, ValueError, "its time zone would be lost; use .replace(tzinfo=None)")
        second = time_hour(v) * 3600 + time_minute(v) * 60 + time_second(v)
        nano = <int64_t>time_microsecond(v) * 1000
    if nano % 1_000_000 != 0:
        refuse(n, value, ValueError, "it is more exact than milliseconds")
    millis[0] = second * 1000 + nano // 1_000_000
    return 0


cdef uint8_t* put_millis(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL:
    cdef int64_t millis = INT64_MIN
    pos = make_room(out, pos, 8)
    if FB_TYPE_OF(value) == n.classes[0]:
        millis = (<object>value).millis
        if millis == INT64_MIN:
            refuse(n, value, ValueError, "Flink writes this number for null")
    elif value != Py_None:
        millis_of(n, value, &millis)
    fb_store_be64(pos, <uint64_t>millis)
    return pos + 8


# --- decode -------------------------------------------------------------------------------------------


cdef object datetime_of(int64_t second, int64_t micro, object zone):
    """A datetime, or None where its year is not one of Python's."""
    cdef int year = 0
    cdef int month = 0
    cdef int day = 0
    cdef int64_t days = fb_calendar_floor_div(second, 86400)
    cdef int rest = <int>(second - days * 86400)
    if not fb_calendar_date(days, &year, &month, &day):
        return None
    return datetime_new(year, month, day, rest // 3600, rest // 60 % 60, rest % 60, <int>micro, zone)


cdef object get_local(const codec_node* n, fb_data_input* source):
    cdef const uint8_t* p = measured(n, source)
    cdef const uint8_t* t = p if n.kind == FB_TYPE_LOCAL_TIME else p + 6
    cdef object exact = <object>n.classes[0]
    cdef int32_t year
    cdef uint32_t nano
    if n.kind != FB_TYPE_LOCAL_TIME:
        year = <int32_t>fb_load_be32(p)
        if year == INT32_MIN:
            return None
        if n.kind == FB_TYPE_LOCAL_DATE:
            return date_new(year, p[4], p[5]) if 1 <= year <= 9999 else exact(year, p[4], p[5])
        nano = fb_load_be32(t + 3)
        if 1 <= year <= 9999 and nano % 1000 == 0:
            return datetime_new(year, p[4], p[5], t[0], t[1], t[2], nano // 1000, None)
        return exact(year, p[4], p[5], t[0], t[1], t[2], nano)
    if p[0] == 0x80:
        return None
    nano = fb_load_be32(t + 3)
    return time_new(t[0], t[1], t[2], nano // 1000, None) if nano % 1000 == 0 else exact(t[0], t[1], t[2], nano)


cdef object get_instant(const codec_node* n, fb_data_input* source):
    """TIMESTAMP_LTZ and SQL_TIMESTAMP: what Python's datetime cannot hold is given as the class that can."""
    cdef const uint8_t* p = measured(n, source)
    cdef int64_t number = <int64_t>fb_load_be64(p)
    cdef uint32_t nano = fb_load_be32(p + 8)
    if number == INT64_MIN:
        return None
    if nano % 1000 == 0:
        if n.kind == FB_TYPE_INSTANT:
            found = datetime_of(number, nano // 1000, get_utc())
        else:
            found = datetime_of(fb_calendar_floor_div(number, 1000), nano // 1000, None)
        if found is not None:
            return found
    return (<object>n.classes[0])(number, nano)


cdef object get_own_instant(const codec_node* n, fb_data_input* source):
    cdef const uint8_t* p = measured(n, source)
    cdef int64_t second = <int64_t>fb_load_be64(p)
    return None if second == INT64_MIN else (<object>n.classes[0])(second, fb_load_be32(p + 8))


cdef object get_millis(const codec_node* n, fb_data_input* source):
    cdef int year = 0
    cdef int month = 0
    cdef int day = 0
    cdef int64_t millis = <int64_t>fb_load_be64(measured(n, source))
    if millis == INT64_MIN:
        return None
    cdef int64_t second = fb_calendar_floor_div(millis, 1000)
    if n.kind == FB_TYPE_DATE:
        found = datetime_of(second, (millis - second * 1000) * 1000, get_utc())
        if found is not None:
            return found
    elif n.kind == FB_TYPE_SQL_DATE:
        if millis % FB_CALENDAR_DAY_MILLIS == 0 \
                and fb_calendar_date(millis // FB_CALENDAR_DAY_MILLIS, &year, &month, &day):
            return date_new(year, month, day)
    elif 0 <= millis < FB_CALENDAR_DAY_MILLIS:
        return time_new(second // 3600, second // 60 % 60, second % 60, millis % 1000 * 1000, None)
    return (<object>n.classes[0])(millis)
