from libc.stdint cimport int64_t

cdef extern from "value/calendar.h" nogil:
    int64_t FB_CALENDAR_DAY_MILLIS
    int64_t fb_calendar_floor_div(int64_t value, int64_t divisor)
    int64_t fb_calendar_days(int64_t year, int month, int day)
    bint fb_calendar_date(int64_t days, int* year, int* month, int* day)
