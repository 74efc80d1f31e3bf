#include "value/binary_row.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "value/type.h"

/* A copy in a block of exactly `size` bytes, so that a sanitizer sees each byte read behind it. */
static uint8_t* copy_of(const void* bytes, size_t size) {
  uint8_t* copy = malloc(size > 0 ? size : 1);

  CHECK(copy != NULL);
  memcpy(copy, bytes, size);
  return copy;
}

static void sizes_are_those_of_flink(void) {
  CHECK(fb_binary_row_null_size(0) == 8 && fb_binary_row_null_size(56) == 8 && fb_binary_row_null_size(57) == 16);
  CHECK(fb_binary_row_fixed_size(7) == 64 && fb_binary_row_fixed_size(57) == 472);
  CHECK(fb_binary_row_array_head(0) == 4 && fb_binary_row_array_head(32) == 8 && fb_binary_row_array_head(33) == 12);
  CHECK(fb_binary_row_array_fixed_size(3, 4) == 24 && fb_binary_row_array_fixed_size(0, 8) == 8);
  CHECK(fb_binary_row_bytes_part(7) == 0 && fb_binary_row_bytes_part(8) == 8 && fb_binary_row_bytes_part(9) == 16);
}

/* From the golden files: an int 7 and two texts, one of them behind the slots. */
static const uint8_t ROW[] = "\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0abcdefg\x87\x0b\0\0\0\x20\0\0\0abcdefgtail\0\0\0\0";

static void a_row_is_read_and_hashed(void) {
  uint8_t* bytes = copy_of(ROW, 48);
  struct fb_binary_section row;
  const uint8_t* part;
  uint64_t size;

  CHECK(fb_binary_row_open(bytes, 48, 3, &row) == FB_OK);
  CHECK(row.budget == 16 && !fb_binary_row_is_null(&row, 0));
  CHECK(fb_binary_row_load_slot(&row, 0) == 7);
  CHECK(fb_binary_row_take_bytes(&row, 1, &part, &size) == FB_OK && size == 7 && memcmp(part, "abcdefg", 7) == 0);
  CHECK(fb_binary_row_take_bytes(&row, 2, &part, &size) == FB_OK && size == 11 && memcmp(part, "abcdefgtail", 11) == 0);
  CHECK(row.budget == 5);
  CHECK(fb_binary_row_take_bytes(&row, 2, &part, &size) == FB_ECORRUPT); /* no byte counts twice */
  CHECK(fb_binary_row_hash(bytes, 48) == 1041442099);
  free(bytes);
}

static void a_head_that_is_wrong_is_refused(void) {
  uint8_t bytes[48];
  struct fb_binary_section row;

  CHECK(fb_binary_row_open(ROW, 24, 3, &row) == FB_ETRUNCATED);
  CHECK(fb_binary_row_open(ROW, 44, 3, &row) == FB_ECORRUPT); /* no whole number of words */
  memcpy(bytes, ROW, 48);
  bytes[0] = 4; /* no kind of change */
  CHECK(fb_binary_row_open(bytes, 48, 3, &row) == FB_ECORRUPT);
  bytes[0] = 0;
  bytes[1] = 8; /* a fourth field that is null */
  CHECK(fb_binary_row_open(bytes, 48, 3, &row) == FB_ECORRUPT);
  bytes[1] = 5;
  CHECK(fb_binary_row_open(bytes, 48, 3, &row) == FB_OK);
  CHECK(fb_binary_row_is_null(&row, 0) && !fb_binary_row_is_null(&row, 1) && fb_binary_row_is_null(&row, 2));
}

static void parts_lie_behind_the_slots_and_inside(void) {
  static const struct {
    uint64_t offset, size;
    int code;
  } CASES[] = {
      {32, 16, FB_OK},      {32, 17, FB_ECORRUPT}, {31, 8, FB_ECORRUPT},         {48, 0, FB_OK},
      {49, 0, FB_ECORRUPT}, {0, 8, FB_ECORRUPT},   {UINT32_MAX, 8, FB_ECORRUPT}, {40, UINT32_MAX, FB_ECORRUPT}};

  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    struct fb_binary_section row;
    const uint8_t* part;
    CHECK(fb_binary_row_open(ROW, 48, 3, &row) == FB_OK);
    CHECK(fb_binary_row_take(&row, CASES[i].offset, CASES[i].size, &part) == CASES[i].code);
  }
}

static void arrays_and_maps_are_opened(void) {
  static const uint8_t ARRAY[] = "\3\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0";
  uint8_t map[4 + 24 + 24];
  struct fb_binary_section keys, values;

  CHECK(fb_binary_row_open_array(ARRAY, 24, 4, &keys) == FB_OK && keys.count == 3);
  CHECK(fb_binary_row_is_null(&keys, 1) && fb_binary_row_load_slot(&keys, 2) == 3);
  CHECK(fb_binary_row_open_array(ARRAY, 16, 4, &keys) == FB_ETRUNCATED);
  CHECK(fb_binary_row_open_array((const uint8_t*)"\377\377\377\177\0\0\0\0", 8, 8, &keys) == FB_ETRUNCATED);
  CHECK(fb_binary_row_open_array((const uint8_t*)"\377\377\377\377\0\0\0\0", 8, 8, &keys) == FB_ECORRUPT);
  fb_store_le32(map, 24);
  memcpy(map + 4, ARRAY, 24);
  memcpy(map + 28, ARRAY, 24);
  CHECK(fb_binary_row_open_map(map, 52, 4, 4, &keys, &values) == FB_OK && values.count == 3);
  map[28] = 2;
  CHECK(fb_binary_row_open_map(map, 52, 4, 4, &keys, &values) == FB_ECORRUPT); /* more keys than values */
  fb_store_le32(map, 49);
  CHECK(fb_binary_row_open_map(map, 52, 4, 4, &keys, &values) == FB_ETRUNCATED);
}

static void decimals_are_rescaled_exactly_or_not_at_all(void) {
  fb_wide_int value = 150, large;
  uint8_t digits[16];

  CHECK(fb_binary_row_rescale(&value, 2, 4) && value == 15000);
  CHECK(fb_binary_row_rescale(&value, 4, 1) && value == 15);
  CHECK(!fb_binary_row_rescale(&value, 1, 0));
  CHECK(!fb_binary_row_rescale(&value, 0, 39));
  CHECK(fb_binary_row_has_digits(99, 2) && !fb_binary_row_has_digits(-100, 2) && fb_binary_row_has_digits(-99, 2));
  large = 1;
  CHECK(fb_binary_row_rescale(&large, 0, 38) && !fb_binary_row_has_digits(large, 38));
  CHECK(!fb_binary_row_rescale(&large, 0, 1)); /* over 128 bits */
  for (fb_wide_int each = -70000; each <= 70000; each += 7) {
    uint32_t size = fb_binary_row_put_digits(each, digits);
    CHECK(fb_binary_row_load_digits(digits, size) == each);
  }
  CHECK(fb_binary_row_put_digits(-1, digits) == 1 && digits[0] == 0xff);
  CHECK(fb_binary_row_put_digits(128, digits) == 2 && fb_binary_row_put_digits(-128, digits) == 1);
  CHECK(fb_binary_row_put_digits(large, digits) == 16 && fb_binary_row_load_digits(digits, 16) == large);
}

/* Little would become much: an array whose elements are all the same part. */
static void elements_that_share_their_part_are_refused(void) {
  struct fb_type text = {.kind = FB_TYPE_STRING_DATA}, array = {.kind = FB_TYPE_ARRAY_DATA};
  const struct fb_type* const children[] = {&text};
  uint8_t bytes[8 + 2 * 8 + 16] = {2};

  array.child_count = 1;
  array.children = children;
  fb_store_le64(bytes + 8, fb_binary_row_slot(24, 9));
  fb_store_le64(bytes + 16, fb_binary_row_slot(24, 7));
  memset(bytes + 24, 'a', 16);
  CHECK(fb_type_check_array(&array, bytes, sizeof bytes) == FB_OK);
  fb_store_le64(bytes + 16, fb_binary_row_slot(24, 9));
  CHECK(fb_type_check_array(&array, bytes, sizeof bytes) == FB_ECORRUPT);
}

int main(void) {
  sizes_are_those_of_flink();
  a_row_is_read_and_hashed();
  a_head_that_is_wrong_is_refused();
  parts_lie_behind_the_slots_and_inside();
  arrays_and_maps_are_opened();
  decimals_are_rescaled_exactly_or_not_at_all();
  elements_that_share_their_part_are_refused();
  return 0;
}
