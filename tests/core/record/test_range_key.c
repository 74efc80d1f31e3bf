/* Keys that compare with memcmp as their values do, and bytes that are none. */
#include "record/range_key.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "ground/byte_order.h"

static const struct fb_range_order UP = {false, true}, DOWN = {true, false};
static const struct fb_type TEXT = {.kind = FB_TYPE_STRING, .min_size = 1};
static const struct fb_type LONG = {.kind = FB_TYPE_LONG, .min_size = 8};

static struct fb_data_output key_of(const struct fb_type* type, struct fb_range_order order, const uint8_t* bytes,
                                    size_t size, int code) {
  struct fb_data_output key = {0};
  struct fb_data_input input = {.start = bytes, .pos = bytes, .end = bytes + size};

  fb_data_output_start_scratch(&key);
  CHECK(fb_range_key_put_encoded(type, order, &input, &key) == code);
  CHECK(code < 0 || input.pos == input.end);
  return key;
}

/* The sign of memcmp over two keys, of which neither begins the other unless they are the same. */
static int compare(struct fb_data_output* one, struct fb_data_output* other) {
  size_t first = fb_data_output_size(one), second = fb_data_output_size(other);
  int order = memcmp(one->start, other->start, first < second ? first : second);

  CHECK(order != 0 || first == second);
  fb_data_output_close(one);
  fb_data_output_close(other);
  return (order > 0) - (order < 0);
}

static int compare_longs(int64_t one, int64_t other, struct fb_range_order order) {
  uint8_t bytes[2][8];
  struct fb_data_output keys[2];

  fb_store_be64(bytes[0], (uint64_t)one);
  fb_store_be64(bytes[1], (uint64_t)other);
  for (int i = 0; i < 2; i++) keys[i] = key_of(&LONG, order, bytes[i], 8, FB_OK);
  return compare(&keys[0], &keys[1]);
}

static void test_numbers_compare_with_their_sign(void) {
  const int64_t numbers[] = {INT64_MIN, -2, -1, 0, 1, INT64_MAX};

  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 6; j++) {
      CHECK(compare_longs(numbers[i], numbers[j], UP) == (i > j) - (i < j));
      CHECK(compare_longs(numbers[i], numbers[j], DOWN) == (i < j) - (i > j));
    }
}

static void test_doubles_have_one_zero_and_one_nan(void) {
  const double numbers[] = {-INFINITY, -1.5, -0.0, 0.0, 1e-300, INFINITY, NAN};
  const int places[] = {0, 1, 2, 2, 3, 4, 5};

  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 7; j++) {
      struct fb_data_output one = {0}, other = {0};
      fb_data_output_start_scratch(&one);
      fb_data_output_start_scratch(&other);
      CHECK(fb_range_key_put_double(&one, numbers[i]) == FB_OK);
      CHECK(fb_range_key_put_double(&other, numbers[j]) == FB_OK);
      CHECK(compare(&one, &other) == (places[i] > places[j]) - (places[i] < places[j]));
    }
}

static struct fb_data_output decimal(int8_t number, int32_t scale) {
  struct fb_data_output key = {0};

  fb_data_output_start_scratch(&key);
  CHECK(fb_range_key_put_decimal(&key, (const uint8_t*)&number, 1, scale) == FB_OK);
  return key;
}

static void test_decimals_compare_by_value_whatever_their_scale(void) {
  for (int one = -128; one < 128; one++)
    for (int32_t scale = 0; scale < 3; scale++)
      for (int other = -128; other < 128; other += 7) {
        struct fb_data_output keys[2] = {decimal((int8_t)one, scale), decimal((int8_t)other, 1)};
        int left = one * (scale == 0 ? 100 : scale == 1 ? 10 : 1), right = other * 10;
        CHECK(compare(&keys[0], &keys[1]) == (left > right) - (left < right));
      }
}

static void test_nulls_are_one_byte(void) {
  const uint8_t null_text[] = {0};
  struct fb_data_output first = key_of(&TEXT, UP, null_text, 1, FB_OK), last = key_of(&TEXT, DOWN, null_text, 1, FB_OK);

  CHECK(fb_data_output_size(&first) == 1 && first.start[0] == 0);
  CHECK(fb_data_output_size(&last) == 1 && last.start[0] == 2);
  CHECK(compare(&first, &last) < 0);
}

static void test_bytes_that_end_early_leave_no_trace(void) {
  const uint8_t text[] = {5, 'a', 'b'}, list[] = {0, 0, 0, 9, 1};
  const struct fb_type* const child[] = {&LONG};
  const struct fb_type longs = {.kind = FB_TYPE_LIST, .child_count = 1, .children = child};
  struct fb_data_output keys[3] = {key_of(&TEXT, UP, text, 3, FB_ETRUNCATED), key_of(&LONG, UP, text, 3, FB_ETRUNCATED),
                                   key_of(&longs, UP, list, 5, FB_ETRUNCATED)};

  for (int i = 0; i < 3; i++) {
    CHECK(fb_data_output_size(&keys[i]) == 0);
    fb_data_output_close(&keys[i]);
  }
}

static void test_maps_have_no_order(void) {
  const struct fb_type* const children[] = {&LONG, &TEXT};
  const struct fb_type map = {.kind = FB_TYPE_MAP, .child_count = 2, .children = children};
  const struct fb_type* const only[] = {&map};
  const struct fb_type list = {.kind = FB_TYPE_LIST, .child_count = 1, .children = only};

  CHECK(fb_range_key_check(&map) == FB_EARGUMENT && fb_range_key_check(&list) == FB_EARGUMENT);
  CHECK(fb_range_key_check(&TEXT) == FB_OK);
}

int main(void) {
  test_numbers_compare_with_their_sign();
  test_doubles_have_one_zero_and_one_nan();
  test_decimals_compare_by_value_whatever_their_scale();
  test_nulls_are_one_byte();
  test_bytes_that_end_early_leave_no_trace();
  test_maps_have_no_order();
  return 0;
}
