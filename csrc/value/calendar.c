#include "value/calendar.h"

#include "ground/byte_order.h"

/* Years begin in March here, so that a leap day ends its year, and eras of 400 years on 1 March of the year 0. */
#define DAYS_BEFORE_EPOCH 719468 /* from 0000-03-01 to 1970-01-01 */
#define DAYS_OF_ERA       146097
#define FIRST_DAY         (-719162) /* 0001-01-01 */
#define LAST_DAY          2932896   /* 9999-12-31 */

int64_t fb_calendar_days(int64_t year, int month, int day) {
  int64_t shifted = year - (month <= 2);
  int64_t day_of_year = (153 * (month + (month <= 2 ? 9 : -3)) + 2) / 5 + day - 1;

  return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - DAYS_BEFORE_EPOCH;
}

bool fb_calendar_date(int64_t days, int* year, int* month, int* day) {
  int64_t era, day_of_era, year_of_era, day_of_year, shifted_month;

  if (days < FIRST_DAY || days > LAST_DAY) return false;
  days += DAYS_BEFORE_EPOCH;
  era = days / DAYS_OF_ERA;
  day_of_era = days - era * DAYS_OF_ERA;
  year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  shifted_month = (5 * day_of_year + 2) / 153;
  *day = (int)(day_of_year - (153 * shifted_month + 2) / 5 + 1);
  *month = (int)(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  *year = (int)(year_of_era + era * 400 + (*month <= 2));
  return true;
}

int64_t fb_calendar_load_date(const uint8_t* from) {
  int64_t year = (int32_t)fb_load_be32(from), month = from[4], day = from[5], era, year_of_era;

  year -= month <= 2;
  era = fb_calendar_floor_div(year, 400);
  year_of_era = year - era * 400;
  return era * DAYS_OF_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
         (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1 - DAYS_BEFORE_EPOCH;
}

uint8_t* fb_calendar_put_date(int64_t days, uint8_t* to) {
  int64_t shifted = days + DAYS_BEFORE_EPOCH, era = fb_calendar_floor_div(shifted, DAYS_OF_ERA);
  uint32_t day = (uint32_t)(shifted - era * DAYS_OF_ERA);
  uint32_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
  uint32_t day_of_year = day - (365 * year + year / 4 - year / 100), month = (5 * day_of_year + 2) / 153;

  fb_store_be32(to, (uint32_t)(int32_t)((int64_t)year + era * 400 + (month >= 10)));
  to[4] = (uint8_t)(month < 10 ? month + 3 : month - 9);
  to[5] = (uint8_t)(day_of_year - (153 * month + 2) / 5 + 1);
  return to + 6;
}
