#include "record/type_codec.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static struct fb_type make(enum fb_type_kind kind, uint32_t count, const struct fb_type* const* children) {
  struct fb_type type = {kind, count, children, 0, 0, 0};

  if (kind == FB_TYPE_ENUM) type.symbol_count = 3;
  fb_type_codec_measure(&type);
  return type;
}

/* Skips in a block of exactly `size` bytes; `used` is where it stopped. */
static int skip(const struct fb_type* type, const void* bytes, size_t size, size_t* used) {
  uint8_t* copy = malloc(size > 0 ? size : 1);
  struct fb_input input = {copy, copy, copy + size, -1, -1};
  int code;

  CHECK(copy != NULL);
  memcpy(copy, bytes, size);
  code = fb_type_codec_skip(type, &input);
  *used = (size_t)(input.pos - copy);
  free(copy);
  return code;
}

/* A value of exactly these bytes: it is accepted whole, and each shorter piece is too short. */
static void check_value(const struct fb_type* type, const void* bytes, size_t size) {
  size_t used;

  CHECK(skip(type, bytes, size, &used) == FB_OK && used == size);
  CHECK(size >= type->min_size);
  for (size_t cut = 0; cut < size; cut++) CHECK(skip(type, bytes, cut, &used) == FB_ETRUNCATED);
}

static void check_code(const struct fb_type* type, const void* bytes, size_t size, int code, size_t at) {
  size_t used;

  CHECK(skip(type, bytes, size, &used) == code);
  CHECK(used == at);
}

#define VALUE(type, bytes)       check_value(&type, bytes, sizeof bytes - 1)
#define CORRUPT(type, bytes, at) check_code(&type, bytes, sizeof bytes - 1, FB_ECORRUPT, at)

static void scalars_of_a_fixed_size_take_that_size(void) {
  static const uint8_t sizes[] = {
#define X(name, size) size,
      FB_TYPE_KINDS(X)
#undef X
  };
  static const uint8_t zeros[16];
  size_t used;

  for (int kind = 0; kind < FB_TYPE_KIND_COUNT; kind++) {
    struct fb_type type;
    if (sizes[kind] == 0) continue;
    type = make((enum fb_type_kind)kind, 0, NULL);
    if (kind == FB_TYPE_ENUM) type.symbol_count = 1;
    CHECK(type.min_size == sizes[kind]);
    CHECK(skip(&type, zeros, sizes[kind] - 1u, &used) == FB_ETRUNCATED);
    if (kind == FB_TYPE_LOCAL_DATE || kind == FB_TYPE_LOCAL_DATE_TIME) continue; /* there is no month 0 */
    CHECK(skip(&type, zeros, 16, &used) == FB_OK && used == sizes[kind]);
  }
}

static void text_is_measured_unit_by_unit(void) {
  struct fb_type string = make(FB_TYPE_STRING, 0, NULL), value = make(FB_TYPE_STRING_VALUE, 0, NULL);

  VALUE(string, "\0");
  VALUE(string, "\1");
  VALUE(string, "\2a");
  VALUE(string, "\3\xbd\xb0\3\x80\xbc\3");
  VALUE(value, "\0");
  VALUE(value, "\2ab");
  CORRUPT(string, "\2\x80\0", 1);             /* a unit in two bytes that needs one */
  CORRUPT(string, "\2\xff\xff\4", 1);         /* a unit of 17 bits */
  CORRUPT(string, "\x82\0a", 1);              /* a length in two bytes that needs one */
  CORRUPT(string, "\xff\xff\xff\xff\x08", 4); /* a length of 32 bits */
}

static void lengths_are_checked_against_what_is_left(void) {
  struct fb_type number = make(FB_TYPE_LONG, 0, NULL), nothing = make(FB_TYPE_NULL_VALUE, 0, NULL);
  struct fb_type longs = make(FB_TYPE_LIST, 1, (const struct fb_type*[]){&number});
  struct fb_type nothings = make(FB_TYPE_LIST, 1, (const struct fb_type*[]){&nothing});
  struct fb_type string = make(FB_TYPE_STRING, 0, NULL), pickled = make(FB_TYPE_PICKLED_BYTES, 0, NULL);

  check_code(&longs, "\x7f\xff\xff\xff________", 12, FB_ETRUNCATED, 0);
  check_code(&longs, "\0\0\0\2_______________", 19, FB_ETRUNCATED, 0);
  CORRUPT(longs, "\x80\0\0\0________", 0);
  CORRUPT(pickled, "\xff\xff\xff\xff", 0);
  check_code(&pickled, "\0\0\0\2_", 5, FB_ETRUNCATED, 0);
  check_code(&string, "\xff\xff\xff\xff\7abc", 8, FB_ETRUNCATED, 0);
  VALUE(nothings, "\0\0\4\0");
  check_code(&nothings, "\0\0\4\1", 4, FB_ETOO_LARGE, 0);
}

static void big_integers_are_never_longer_than_they_must_be(void) {
  struct fb_type big = make(FB_TYPE_BIG_INT, 0, NULL), decimal = make(FB_TYPE_BIG_DEC, 0, NULL);

  VALUE(big, "\0\0\0\0");
  VALUE(big, "\0\0\0\3");
  VALUE(big, "\0\0\0\5\0");
  VALUE(big, "\0\0\0\6\0\x80");
  VALUE(decimal, "\0\0\0\0");
  VALUE(decimal, "\0\0\0\2\0\0\0\5");
  CORRUPT(big, "\0\0\0\4", 0);
  CORRUPT(big, "\0\0\0\6\0\x7f", 0);
  CORRUPT(big, "\0\0\0\6\xff\x80", 0);
  CORRUPT(big, "\x80\0\0\6\xff\x80", 0);
}

static void dates_and_times_must_exist(void) {
  struct fb_type date = make(FB_TYPE_LOCAL_DATE, 0, NULL), both = make(FB_TYPE_LOCAL_DATE_TIME, 0, NULL);
  struct fb_type time = make(FB_TYPE_LOCAL_TIME, 0, NULL), instant = make(FB_TYPE_INSTANT, 0, NULL);
  struct fb_type timestamp = make(FB_TYPE_SQL_TIMESTAMP, 0, NULL);

  VALUE(date, "\0\0\7\xe8\2\x1d");
  CORRUPT(date, "\0\0\7\xe7\2\x1d", 0); /* 29 February 2023 */
  VALUE(date, "\x80\0\0\0\x80\0");
  CORRUPT(date, "\x80\0\0\0\x80\1", 0);
  CORRUPT(time, "\x18\0\0\0\0\0\0", 0);
  CORRUPT(time, "\0\0\0\x3b\x9a\xca\0", 0);
  VALUE(time, "\x80\x80\0\x80\0\0\0");
  VALUE(both, "\x80\0\0\0\x80\0\x80\x80\0\x80\0\0\0");
  CORRUPT(instant, "\0\0\0\0\0\0\0\0\x3b\x9a\xca\0", 0);
  CORRUPT(instant, "\x80\0\0\0\0\0\0\0\0\0\0\0", 0);
  VALUE(timestamp, "\xff\xff\xff\xff\xff\xff\xff\xff\x3b\x8b\x87\xc0");
  CORRUPT(timestamp, "\0\0\0\0\0\0\0\1\0\0\0\0", 0); /* two answers to which millisecond it is */
}

static void rows_have_a_mask_and_the_fields_that_are_not_null(void) {
  struct fb_type number = make(FB_TYPE_INT, 0, NULL), string = make(FB_TYPE_STRING, 0, NULL);
  const struct fb_type* seven[7];
  struct fb_type row = make(FB_TYPE_ROW, 2, (const struct fb_type*[]){&number, &string});
  struct fb_type empty = make(FB_TYPE_ROW, 0, NULL), wide;

  for (int i = 0; i < 7; i++) seven[i] = &number;
  wide = make(FB_TYPE_ROW, 7, seven);
  CHECK(empty.min_size == 1 && row.min_size == 1 && wide.min_size == 2);
  VALUE(row, "\0\0\0\0\1\2a");
  VALUE(row, "\xb0");
  VALUE(empty, "\xc0");
  VALUE(wide, "\x3f\0\0\0\0\1");
  CORRUPT(empty, "\x20", 0);
  CORRUPT(row, "\1\0\0\0\1\2a", 0);
  CORRUPT(wide, "\x3f\1\0\0\0\1", 1);
}

static void wrappers_and_containers_take_what_is_inside(void) {
  struct fb_type number = make(FB_TYPE_INT, 0, NULL), string = make(FB_TYPE_STRING, 0, NULL);
  struct fb_type symbol = make(FB_TYPE_ENUM, 0, NULL), padded, flag = make(FB_TYPE_BOOLEAN, 0, NULL);
  const struct fb_type* pair[] = {&number, &string};
  struct fb_type either = make(FB_TYPE_EITHER, 2, pair), map = make(FB_TYPE_MAP, 2, pair);
  struct fb_type set = make(FB_TYPE_SET, 1, pair), array = make(FB_TYPE_OBJECT_ARRAY, 1, pair);
  struct fb_type element = make(FB_TYPE_STREAM_ELEMENT, 1, pair);
  struct fb_type flags = make(FB_TYPE_PRIMITIVE_ARRAY, 1, (const struct fb_type*[]){&flag});

  padded = (struct fb_type){FB_TYPE_NULLABLE, 1, pair, 0, 4, 0};
  fb_type_codec_measure(&padded);
  CHECK(padded.min_size == 5 && either.min_size == 2 && element.min_size == 1);
  VALUE(padded, "\1\0\0\0\0");
  CORRUPT(padded, "\1\0\1\0\0", 2);
  CORRUPT(padded, "\2\0\0\0\0", 0);
  VALUE(either, "\1\0\0\0\5");
  VALUE(either, "\0\2r");
  VALUE(map, "\0\0\0\2\0\0\0\1\1\0\0\0\2\0\1");
  VALUE(set, "\0\0\0\2\0\0\0\0\7\1");
  VALUE(array, "\0\0\0\2\1\0\0\0\7\0");
  CORRUPT(flags, "\0\0\0\2\1\2", 5);
  CORRUPT(symbol, "\0\0\0\3", 0);
  VALUE(element, "\4\xff\xff\xff\xff");
  CORRUPT(element, "\4\0\0\0\1", 1);
  CORRUPT(element, "\7\0\0\0\1", 0);
}

static void text_survives_decoding_and_encoding(void) {
  static const uint32_t points[] = {0, 0x7f, 0x80, 0x3fff, 0x4000, 0xdc00, 0xd800, 0xffff, 0x10000, 0x10ffff, 0xd801};
  enum { COUNT = sizeof points / sizeof *points };
  uint32_t decoded[COUNT];
  uint8_t bytes[6 * COUNT];
  struct fb_text plan, text;
  struct fb_input input;

  CHECK(fb_type_codec_plan_text(points, COUNT, 4, &plan));
  CHECK(fb_type_codec_encode_text(points, COUNT, 4, bytes) == bytes + plan.size);
  input = (struct fb_input){bytes, bytes, bytes + plan.size, -1, -1};
  CHECK(fb_type_codec_measure_text(&input, plan.units, &text) == FB_OK);
  CHECK(input.pos == input.end);
  CHECK(text.length == COUNT && text.max_point == 0x10ffff && text.size == plan.size);
  fb_type_codec_decode_text(bytes, &text, 4, decoded);
  CHECK(memcmp(decoded, points, sizeof points) == 0);
}

static void surrogates_that_would_join_are_told_from_lone_ones(void) {
  static const uint32_t joining[] = {0x10000, 0xd800, 0xdbff, 0xdfff};
  static const uint16_t narrow[] = {'x', 0xd83d, 0xde00, 'y'}, lone[] = {0xdc00, 0xd800, 'x', 0xdfff};
  static const uint32_t beyond[] = {0x1d800, 0x1dc00, 0x10d800, 0xdc00, 0xd800, 0x1dc00};
  static const uint8_t latin[] = {0xd8, 0xdc};
  struct fb_text plan;

  CHECK(!fb_type_codec_plan_text(joining, 4, 4, &plan));
  CHECK(fb_type_codec_plan_text(joining, 3, 4, &plan) && fb_type_codec_plan_text(beyond, 6, 4, &plan));
  CHECK(!fb_type_codec_plan_text(narrow, 4, 2, &plan));
  CHECK(fb_type_codec_plan_text(narrow, 2, 2, &plan) && fb_type_codec_plan_text(lone, 4, 2, &plan));
  CHECK(fb_type_codec_plan_text(latin, 2, 1, &plan) && fb_type_codec_plan_text(NULL, 0, 1, &plan));
}

static void ascii_is_told_from_the_rest_at_every_length(void) {
  uint8_t bytes[40];

  for (size_t size = 0; size <= sizeof bytes; size++) {
    memset(bytes, 'a', sizeof bytes);
    CHECK(fb_type_codec_is_ascii(bytes, size));
    for (size_t at = 0; at < sizeof bytes; at++) {
      bytes[at] = 0x80;
      CHECK(fb_type_codec_is_ascii(bytes, size) == (at >= size));
      bytes[at] = 'a';
    }
  }
}

static void arrays_of_numbers_are_stored_big_endian(void) {
  const uint64_t longs[] = {1, UINT64_MAX};
  const uint64_t doubles[] = {0x8000000000000000u, 0xfff8000000000001u, 0x7ff0000000000000u};
  const uint32_t floats[] = {0xffc00001u, 0xff800000u};
  uint64_t back[2];
  uint8_t bytes[24];

  fb_type_codec_store_array(FB_TYPE_LONG, longs, 2, bytes);
  CHECK(memcmp(bytes, "\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff", 16) == 0);
  fb_type_codec_load_array(FB_TYPE_LONG, bytes, 2, back);
  CHECK(memcmp(back, longs, 16) == 0);
  fb_type_codec_store_array(FB_TYPE_DOUBLE, doubles, 3, bytes);
  CHECK(memcmp(bytes, "\x80\0\0\0\0\0\0\0\x7f\xf8\0\0\0\0\0\0\x7f\xf0\0\0\0\0\0\0", 24) == 0);
  fb_type_codec_store_array(FB_TYPE_FLOAT, floats, 2, bytes);
  CHECK(memcmp(bytes, "\x7f\xc0\0\0\xff\x80\0\0", 8) == 0);
}

static void arrays_of_numbers_may_lie_at_any_address(void) {
  static const enum fb_type_kind kinds[] = {FB_TYPE_SHORT, FB_TYPE_FLOAT, FB_TYPE_INT, FB_TYPE_DOUBLE, FB_TYPE_LONG};
  _Alignas(8) uint8_t numbers[32], back[32];
  uint8_t bytes[16];

  for (size_t i = 0; i < sizeof numbers; i++) numbers[i] = (uint8_t)i;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t count = i == 0 ? 8 : i < 3 ? 4 : 2;
    fb_type_codec_store_array(kinds[i], numbers + 1, count, bytes);
    fb_type_codec_load_array(kinds[i], bytes, count, back + 3);
    CHECK(memcmp(back + 3, numbers + 1, 16) == 0);
  }
  fb_type_codec_store_array(FB_TYPE_BYTE, NULL, 0, bytes);
}

int main(void) {
  scalars_of_a_fixed_size_take_that_size();
  text_is_measured_unit_by_unit();
  lengths_are_checked_against_what_is_left();
  big_integers_are_never_longer_than_they_must_be();
  dates_and_times_must_exist();
  rows_have_a_mask_and_the_fields_that_are_not_null();
  wrappers_and_containers_take_what_is_inside();
  text_survives_decoding_and_encoding();
  ascii_is_told_from_the_rest_at_every_length();
  arrays_of_numbers_are_stored_big_endian();
  arrays_of_numbers_may_lie_at_any_address();
  surrogates_that_would_join_are_told_from_lone_ones();
  return 0;
}
