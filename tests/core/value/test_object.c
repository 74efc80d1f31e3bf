#include "value/object.h"

#include "check.h"

static int skip(const void* bytes, size_t size, bool is_key, size_t* used) {
  struct fb_data_input input = {bytes, bytes, (const uint8_t*)bytes + size, -1, -1};
  int code = fb_object_skip(&input, is_key);

  *used = (size_t)(input.pos - input.start);
  return code;
}

#define SKIP(text, is_key) skip(text, sizeof(text) - 1, is_key, &used)

static void ints_take_as_few_bytes_as_they_need(void) {
  static const int64_t numbers[] = {0,
                                    1,
                                    -1,
                                    127,
                                    -128,
                                    128,
                                    -129,
                                    32767,
                                    -32768,
                                    32768,
                                    INT32_MAX,
                                    INT32_MIN,
                                    1LL << 31,
                                    1LL << 54,
                                    1LL << 55,
                                    -(1LL << 55),
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX - 1,
                                    INT64_MIN + 1};
  static const unsigned sizes[] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 4, 5, 7, 8, 7, 8, 8, 8, 8};
  uint8_t bytes[9];

  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK(fb_object_put_int(bytes, numbers[i]) == bytes + 1 + sizes[i]);
    CHECK(bytes[0] == FB_OBJECT_INT + sizes[i]);
    CHECK(fb_object_int(bytes + 1, sizes[i], 8) == numbers[i]);
    CHECK(fb_object_int(bytes + 1, sizes[i], sizes[i]) == numbers[i]); /* not a byte more is there */
  }
}

static void values_end_where_they_end(void) {
  size_t used;

  CHECK(SKIP("\x60 and more", false) == FB_OK && used == 1);
  CHECK(SKIP("\x03"
             "abc",
             false) == FB_OK &&
        used == 4);
  CHECK(SKIP("\x42\x68\5\x52\x61\x62", false) == FB_OK && used == 6); /* (5, [False, True]) */
  CHECK(SKIP("\x7b\1\0\0\0\x01k\x60", false) == FB_OK && used == 8);
  CHECK(SKIP("\x81\2\1\1\0\0\0\5\0\0\0\1\0\0\0a\x60", false) == FB_OK && used == 17);
  CHECK(SKIP("\x82\3\0\0\0xyz", false) == FB_OK && used == 8);
}

static void bytes_that_nobody_writes_are_corrupt(void) {
  size_t used;

  CHECK(SKIP("\xff", false) == FB_ECORRUPT && used == 0);
  CHECK(SKIP("\x67", false) == FB_ECORRUPT);                                   /* an int of no bytes */
  CHECK(SKIP("\x02\x61\x80", false) == FB_ECORRUPT && used == 1);              /* no ASCII */
  CHECK(SKIP("\x74\1\0\0\0\0\0\x11\0", false) == FB_ECORRUPT);                 /* U+110000 */
  CHECK(SKIP("\x7c\xe7\7\2\x1e", false) == FB_ECORRUPT);                       /* 30 February */
  CHECK(SKIP("\x7d\x18\0\0\0\0\0\0\0", false) == FB_ECORRUPT);                 /* 24:00 */
  CHECK(SKIP("\x7f\0\0\0\0\x80\x51\1\0\0\0\0\0", false) == FB_ECORRUPT);       /* a day of seconds */
  CHECK(SKIP("\x81\4\0\0\0\0\0", false) == FB_ECORRUPT);                       /* a fifth kind of row */
  CHECK(SKIP("\x81\0\1\1\0\0\0\6\0\0\0\1\0\0\0ab\x60", false) == FB_ECORRUPT); /* more than the names */
}

static void counts_are_checked_against_what_is_left(void) {
  size_t used;

  CHECK(SKIP("\x78\3\0\0\0\x60\x60", false) == FB_ETRUNCATED && used == 1);
  CHECK(SKIP("\x7b\2\0\0\0\x60\x60\x60", false) == FB_ETRUNCATED);
  CHECK(SKIP("\x74\2\0\0\0\0\0\0\0\0\0\0", false) == FB_ETRUNCATED);
  CHECK(SKIP("\x78\xff\xff\xff\xff", false) == FB_ECORRUPT);
  CHECK(SKIP("", false) == FB_ETRUNCATED);
}

static void pickles_stand_alone_and_never_in_keys(void) {
  size_t used;

  CHECK(SKIP("\x41\x82\0\0\0\0", false) == FB_ECORRUPT && used == 1);
  CHECK(SKIP("\x82\0\0\0\0", true) == FB_ECORRUPT);
  CHECK(SKIP("\x84\x41\x83\x42\x01m\x01n", true) == FB_OK && used == 8);
  CHECK(SKIP("\x84\x41\x60", false) == FB_ECORRUPT && used == 0);
}

static void what_nests_too_deep_is_refused(void) {
  uint8_t bytes[FB_OBJECT_MAX_DEPTH + 2];
  size_t used;

  memset(bytes, FB_OBJECT_SHORT_LIST + 1, sizeof bytes);
  bytes[FB_OBJECT_MAX_DEPTH] = bytes[FB_OBJECT_MAX_DEPTH + 1] = FB_OBJECT_NONE;
  CHECK(skip(bytes, FB_OBJECT_MAX_DEPTH + 1, false, &used) == FB_OK);
  bytes[FB_OBJECT_MAX_DEPTH] = FB_OBJECT_SHORT_LIST + 1;
  CHECK(skip(bytes, sizeof bytes, false, &used) == FB_ETOO_LARGE);
}

int main(void) {
  ints_take_as_few_bytes_as_they_need();
  values_end_where_they_end();
  bytes_that_nobody_writes_are_corrupt();
  counts_are_checked_against_what_is_left();
  pickles_stand_alone_and_never_in_keys();
  what_nests_too_deep_is_refused();
  return 0;
}
