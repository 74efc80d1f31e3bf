#include "value/row_data_value.h"

#include "value/calendar.h"

#define DAY_MILLIS FB_CALENDAR_DAY_MILLIS

bool fb_row_data_value_decimal(const struct fb_type* type, const uint8_t* plain, fb_wide_int* unscaled) {
  static const uint8_t SHORT_FORMS[] = {0, 0, 1, 10}; /* 0 is null, which is not asked for */
  uint32_t length = fb_load_be32(plain);

  plain += 4;
  if (length < 4) {
    *unscaled = SHORT_FORMS[length];
  } else {
    length -= 4;
    if (length > 16) return false;
    *unscaled = fb_binary_row_load_digits(plain, length);
    plain += length;
  }
  return fb_binary_row_rescale(unscaled, (int32_t)fb_load_be32(plain), type->scale) &&
         fb_binary_row_has_digits(*unscaled, type->precision);
}

uint8_t* fb_row_data_value_put_decimal(const struct fb_type* type, fb_wide_int unscaled, uint8_t* plain) {
  uint32_t size;

  if (unscaled == 0 || unscaled == 1 || unscaled == 10) {
    fb_store_be32(plain, unscaled == 0 ? 1 : unscaled == 1 ? 2 : 3);
    plain += 4;
  } else {
    size = fb_binary_row_put_digits(unscaled, plain + 4);
    fb_store_be32(plain, size + 4);
    plain += 4 + size;
  }
  fb_store_be32(plain, type->scale);
  return plain + 4;
}

static int64_t load_second_of_time(const uint8_t* plain) { return plain[0] * 3600 + plain[1] * 60 + plain[2]; }

static uint8_t* put_time_of_millis(int64_t millis, uint32_t nanos, uint8_t* plain) {
  uint32_t second = (uint32_t)(millis / 1000);

  plain[0] = (uint8_t)(second / 3600);
  plain[1] = (uint8_t)(second / 60 % 60);
  plain[2] = (uint8_t)(second % 60);
  fb_store_be32(plain + 3, (uint32_t)(millis % 1000) * 1000000u + nanos);
  return plain + 7;
}

bool fb_row_data_value_moment(const struct fb_type* type, const uint8_t* plain, int64_t* value, uint32_t* nanos) {
  int64_t second;
  uint32_t nano;

  *nanos = 0;
  switch (type->kind) {
    case FB_TYPE_DATE_DATA: *value = fb_calendar_load_date(plain); return *value >= INT32_MIN && *value <= INT32_MAX;
    case FB_TYPE_TIME_DATA:
      second = load_second_of_time(plain);
      nano = fb_load_be32(plain + 3);
      break;
    case FB_TYPE_TIMESTAMP_DATA:
      second = fb_calendar_load_date(plain) * 86400 + load_second_of_time(plain + 6);
      nano = fb_load_be32(plain + 9);
      break;
    default: second = (int64_t)fb_load_be64(plain); nano = fb_load_be32(plain + 8);
  }
  *nanos = nano % 1000000;
  if (__builtin_mul_overflow(second, (int64_t)1000, value) ||
      __builtin_add_overflow(*value, (int64_t)(nano / 1000000), value))
    return false;
  return *nanos == 0 || (type->kind != FB_TYPE_TIME_DATA && !fb_type_is_compact(type));
}

uint8_t* fb_row_data_value_put_moment(const struct fb_type* type, int64_t value, uint32_t nanos, uint8_t* plain) {
  int64_t days, second;

  switch (type->kind) {
    case FB_TYPE_DATE_DATA: return fb_calendar_put_date(value, plain);
    case FB_TYPE_TIME_DATA: return put_time_of_millis(value, 0, plain);
    case FB_TYPE_TIMESTAMP_DATA:
      days = fb_calendar_floor_div(value, DAY_MILLIS);
      return put_time_of_millis(fb_calendar_floor_mod(value, DAY_MILLIS), nanos, fb_calendar_put_date(days, plain));
    default:
      second = fb_calendar_floor_div(value, 1000);
      fb_store_be64(plain, (uint64_t)second);
      fb_store_be32(plain + 8, (uint32_t)fb_calendar_floor_mod(value, 1000) * 1000000u + nanos);
      return plain + 12;
  }
}
