#include "value/number.h"

#include <math.h>
#include <string.h>

#include "check.h"

static void arrays_of_numbers_are_stored_big_endian(void) {
  const uint64_t longs[] = {1, UINT64_MAX};
  const uint64_t doubles[] = {0x8000000000000000u, 0xfff8000000000001u, 0x7ff0000000000000u};
  const uint32_t floats[] = {0xffc00001u, 0xff800000u};
  uint64_t back[2];
  uint8_t bytes[24];

  fb_number_store_array(FB_TYPE_LONG, longs, 2, bytes);
  CHECK(memcmp(bytes, "\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff", 16) == 0);
  fb_number_load_array(FB_TYPE_LONG, bytes, 2, back);
  CHECK(memcmp(back, longs, 16) == 0);
  fb_number_store_array(FB_TYPE_DOUBLE, doubles, 3, bytes);
  CHECK(memcmp(bytes, "\x80\0\0\0\0\0\0\0\x7f\xf8\0\0\0\0\0\0\x7f\xf0\0\0\0\0\0\0", 24) == 0);
  fb_number_store_array(FB_TYPE_FLOAT, floats, 2, bytes);
  CHECK(memcmp(bytes, "\x7f\xc0\0\0\xff\x80\0\0", 8) == 0);
}

static void arrays_of_numbers_may_lie_at_any_address(void) {
  static const enum fb_type_kind kinds[] = {FB_TYPE_SHORT, FB_TYPE_FLOAT, FB_TYPE_INT, FB_TYPE_DOUBLE, FB_TYPE_LONG};
  _Alignas(8) uint8_t numbers[32], back[32];
  uint8_t bytes[16];

  for (size_t i = 0; i < sizeof numbers; i++) numbers[i] = (uint8_t)i;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t count = i == 0 ? 8 : i < 3 ? 4 : 2;
    fb_number_store_array(kinds[i], numbers + 1, count, bytes);
    fb_number_load_array(kinds[i], bytes, count, back + 3);
    CHECK(memcmp(back + 3, numbers + 1, 16) == 0);
  }
  fb_number_store_array(FB_TYPE_BYTE, NULL, 0, bytes);
}

static void single_numbers_have_the_bits_that_java_writes(void) {
  CHECK(fb_number_double_bits(-0.0) == 0x8000000000000000u && fb_number_double_bits(1.5) == 0x3ff8000000000000u);
  CHECK(fb_number_double_bits((double)NAN) == 0x7ff8000000000000u);
  CHECK(fb_number_double_bits(fb_number_double(0xfff0000000000001u)) == 0x7ff8000000000000u);
  CHECK(fb_number_float_bits(1e-50) == 0 && fb_number_float_bits(1e300) == 0x7f800000u);
  CHECK(fb_number_float_bits(0.1) == 0x3dcccccdu && fb_number_float_bits((double)-NAN) == 0x7fc00000u);
  CHECK(fb_number_double(0x3ff8000000000000u) == 1.5 && fb_number_float(0x3fc00000u) == 1.5);
}

int main(void) {
  arrays_of_numbers_are_stored_big_endian();
  arrays_of_numbers_may_lie_at_any_address();
  single_numbers_have_the_bits_that_java_writes();
  return 0;
}
