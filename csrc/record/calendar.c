#include "record/calendar.h"

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
