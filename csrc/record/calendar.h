/* Days since 1970-01-01 and the dates that they are, in the calendar of java.time and of Python.
 *
 * Threads: no state; any thread may call anything. */
#ifndef FB_CALENDAR_H
#define FB_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#define FB_CALENDAR_DAY_MILLIS 86400000LL

/* Rounds down, unlike C. `divisor` is above zero. */
static inline int64_t fb_calendar_floor_div(int64_t value, int64_t divisor) {
  return value / divisor - (value % divisor < 0);
}

/* Days since 1970-01-01 of a date from the year 1 on. */
int64_t fb_calendar_days(int64_t year, int month, int day);

/* The date of days since 1970-01-01; false, and nothing set, outside the years 1 to 9999 of Python's dates. */
bool fb_calendar_date(int64_t days, int* year, int* month, int* day);

#endif
