#include "value/type.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static struct fb_type make(enum fb_type_kind kind, uint32_t count, const struct fb_type* const* children) {
  struct fb_type type = {.kind = kind, .child_count = count, .children = children};

  if (kind == FB_TYPE_ENUM) type.symbol_count = 3;
  fb_type_measure(&type);
  return type;
}

/* Skips in a block of exactly `size` bytes; `used` is where it stopped. */
static int skip(const struct fb_type* type, const void* bytes, size_t size, size_t* used) {
  uint8_t* copy = malloc(size > 0 ? size : 1);
  struct fb_data_input input = {copy, copy, copy + size, -1, -1};
  int code;

  CHECK(copy != NULL);
  memcpy(copy, bytes, size);
  code = fb_type_skip(type, &input);
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

  padded = (struct fb_type){.kind = FB_TYPE_NULLABLE, .child_count = 1, .children = pair, .padding = 4};
  fb_type_measure(&padded);
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

int main(void) {
  scalars_of_a_fixed_size_take_that_size();
  text_is_measured_unit_by_unit();
  lengths_are_checked_against_what_is_left();
  big_integers_are_never_longer_than_they_must_be();
  dates_and_times_must_exist();
  rows_have_a_mask_and_the_fields_that_are_not_null();
  wrappers_and_containers_take_what_is_inside();
  return 0;
}
