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

/* What fb_calendar_floor_div leaves, from 0 on; of any value, which floor_div times `divisor` may not reach. */
static inline int64_t fb_calendar_floor_mod(int64_t value, int64_t divisor) {
  int64_t rest = value % divisor;
  return rest < 0 ? rest + divisor : rest;
}

/* Days since 1970-01-01 of a date from the year 1 on. */
int64_t fb_calendar_days(int64_t year, int month, int day);

/* The date of days since 1970-01-01; false, and nothing set, outside the years 1 to 9999 of Python's dates. */
bool fb_calendar_date(int64_t days, int* year, int* month, int* day);

/* Days since 1970-01-01 of any date of java.time in the 6 bytes that Flink's LocalDateSerializer writes, and back; put
 * returns the byte behind them. */
int64_t fb_calendar_load_date(const uint8_t* from);
uint8_t* fb_calendar_put_date(int64_t days, uint8_t* to);

#endif
