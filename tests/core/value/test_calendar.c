#include "value/calendar.h"

#include "check.h"

static bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

static int length_of(int year, int month) {
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return lengths[month - 1] + (month == 2 && is_leap(year));
}

/* Counts through the whole calendar by hand. */
static void every_day_of_ten_thousand_years_has_its_date(void) {
  int64_t days = -719162;

  for (int year = 1; year <= 9999; year++)
    for (int month = 1; month <= 12; month++)
      for (int day = 1; day <= length_of(year, month); day++, days++) {
        int found_year = 0, found_month = 0, found_day = 0;

        CHECK(fb_calendar_days(year, month, day) == days);
        CHECK(fb_calendar_date(days, &found_year, &found_month, &found_day));
        CHECK(found_year == year && found_month == month && found_day == day);
      }
  CHECK(days == 2932897 && fb_calendar_days(1970, 1, 1) == 0);
}

static void days_outside_of_pythons_years_are_no_date(void) {
  int year = -1, month = -1, day = -1;

  CHECK(!fb_calendar_date(-719163, &year, &month, &day) && !fb_calendar_date(2932897, &year, &month, &day));
  CHECK(!fb_calendar_date(INT64_MIN, &year, &month, &day) && !fb_calendar_date(INT64_MAX, &year, &month, &day));
  CHECK(year == -1 && month == -1 && day == -1);
}

static void division_rounds_down(void) {
  CHECK(fb_calendar_floor_div(7, 2) == 3 && fb_calendar_floor_div(-7, 2) == -4);
  CHECK(fb_calendar_floor_div(-8, 2) == -4 && fb_calendar_floor_div(0, 2) == 0);
  CHECK(fb_calendar_floor_div(INT64_MIN, 1) == INT64_MIN);
}

int main(void) {
  every_day_of_ten_thousand_years_has_its_date();
  days_outside_of_pythons_years_are_no_date();
  division_rounds_down();
  return 0;
}
