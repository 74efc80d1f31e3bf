#include "columns/slot_aggregate.h"

#include <math.h>

#include "check.h"

#define ROWS 2500 /* more than two chunks */

static const uint32_t SLOTS[] = {0, 1, 0, 2, 1, 0};
static const uint8_t ALL_BUT_2[] = {0xfb};

static struct fb_arrow_column column_of(const char* format, const void* values, int64_t offset, int64_t length) {
  struct fb_arrow_column column = {.path = "", .offset = offset, .length = length, .values = values};

  CHECK(fb_arrow_type_parse(format, &column.arrow) == FB_OK);
  return column;
}

static void open_aggregate(struct fb_slot_aggregate* self, uint32_t words, uint32_t slots) {
  *self = (struct fb_slot_aggregate){.words = words};
  CHECK(fb_slot_aggregate_grow(self, slots) == FB_OK);
}

static void sums_pass_over_nulls_and_stop_at_the_row_that_has_no_room(void) {
  static const int8_t small[] = {99, 1, 2, 100, 4, 5, -6};
  static const int64_t large[] = {INT64_MAX, 1, 0, INT64_MIN, -2, 1};
  struct fb_arrow_column column = column_of("c", small, 1, 6);
  struct fb_slot_aggregate sums;

  open_aggregate(&sums, 1, 4);
  CHECK(fb_slot_aggregate_has(&sums, SLOTS, 6));
  column.validity = (const uint8_t*)"\xf7"; /* the third of the six is null */
  CHECK(fb_slot_aggregate_sum_signed(&sums, 0, SLOTS, &column) == 6);
  CHECK(sums.cells[0] == (uint64_t)(1 - 6) && sums.cells[1] == 7 && sums.cells[2] == 4 && sums.seen[2] &&
        !sums.seen[3]);
  fb_slot_aggregate_clear(&sums);
  open_aggregate(&sums, 1, 3);
  column = column_of("l", large, 0, 6);
  CHECK(fb_slot_aggregate_sum_signed(&sums, 0, SLOTS, &column) == 5 && sums.cells[0] == INT64_MAX);
  fb_slot_aggregate_clear(&sums);
  CHECK(fb_slot_aggregate_bytes(&sums) == 0);
}

static void chunks_of_every_width_are_summed(void) {
  static const char* const FORMATS[] = {"c", "s", "i", "l", "C", "S", "I", "L"};
  static uint8_t bytes[8 * ROWS];
  static uint32_t slots[ROWS];

  for (size_t k = 0; k < 8; k++) {
    uint32_t width = 1u << k % 4;
    struct fb_arrow_column column = column_of(FORMATS[k], bytes, 0, ROWS);
    struct fb_slot_aggregate sums;
    open_aggregate(&sums, 2, 1);
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < ROWS; i++) bytes[i * width] = 3;
    CHECK(fb_slot_aggregate_sum_wide(&sums, 0, slots, &column) == ROWS && sums.cells[0] == 3 * ROWS);
    CHECK(fb_slot_aggregate_sum_unsigned(&sums, 1, slots, &column) == ROWS && sums.cells[1] == 3 * ROWS);
    fb_slot_aggregate_clear(&sums);
  }
}

static void the_rows_of_extremes_are_noted_once_a_batch(void) {
  static const double values[] = {1.0, NAN, -0.0, 3.0, 7.0, 0.0};
  struct fb_arrow_column column = column_of("g", values, 0, 6);
  struct fb_slot_extreme least = {.order = FB_SLOT_NUMBERS, .word = 1};
  struct fb_slot_winners winners = {.base = 10};
  struct fb_slot_aggregate found;
  int64_t rows[6];

  winners.rows = rows;
  open_aggregate(&found, 2, 3);
  CHECK(fb_slot_aggregate_extreme(&found, &least, SLOTS, &column, &winners) == FB_OK);
  CHECK(winners.count == 3 && winners.lost == 0 && rows[0] == 2 && rows[1] == 4 && rows[2] == 3);
  CHECK(found.cells[0] == 10 && found.cells[2] == 11 && found.cells[4] == 12);
  winners = (struct fb_slot_winners){.base = 13, .rows = rows};
  fb_slot_aggregate_last(&found, SLOTS, ALL_BUT_2, 1, &winners);
  CHECK(winners.count == 1 && winners.lost == 1 && found.cells[0] == 13);
  fb_slot_aggregate_clear(&found);
}

static void texts_are_kept_without_those_before_them(void) {
  static uint8_t text[4096];
  static const struct fb_slot_extreme greatest = {.order = FB_SLOT_TEXTS, .is_max = true};
  int32_t ends[] = {0, 0};
  struct fb_slot_choice choice = {.count = 1};
  struct fb_slot_aggregate found;
  uint8_t result[4096];
  int64_t start = 0;

  open_aggregate(&found, 2, 1);
  memset(text, 'x', sizeof text);
  for (int32_t size = 0; size <= 4096; size++) {
    struct fb_arrow_column column = column_of("u", text, 0, 1);
    ends[1] = size;
    column.offsets = (const uint8_t*)ends;
    CHECK(fb_slot_aggregate_extreme(&found, &greatest, SLOTS, &column, NULL) == FB_OK);
    CHECK(found.cells[1] == (uint64_t)size && found.text_bytes == (size_t)size);
  }
  CHECK(found.texts.size < (64u << 10) + 4096);
  fb_slot_aggregate_take_texts(&found, 0, &choice, &start, result);
  CHECK(memcmp(result, text, sizeof result) == 0);
  fb_slot_aggregate_clear(&found);
}

static void values_are_linked_to_those_before_them(void) {
  static const int64_t expected[] = {0, 2, 5, 6, 8, 11, 1, 4, 7, 10, 3, 9}, ends[] = {6, 10, 12, 12};
  static const int64_t few[] = {2, 1}, few_ends[] = {2, 6}, expected_few[] = {3, 9, 1, 4, 7, 10};
  struct fb_slot_choice all = {.count = 4}, some = {.slots = few, .count = 2};
  struct fb_slot_aggregate lists;
  int64_t previous[12], numbers[12];

  open_aggregate(&lists, 2, 4);
  fb_slot_aggregate_link(&lists, 1, SLOTS, 6, 0, previous);
  fb_slot_aggregate_link(&lists, 1, SLOTS, 6, 6, previous);
  fb_slot_aggregate_follow(&lists, 1, &some, previous, few_ends, numbers);
  CHECK(memcmp(numbers, expected_few, sizeof expected_few) == 0);
  fb_slot_aggregate_follow(&lists, 1, &all, previous, ends, numbers);
  CHECK(memcmp(numbers, expected, sizeof expected) == 0);
  fb_slot_aggregate_clear(&lists);
}

static void deviations_are_those_of_all_rows_however_they_are_split(void) {
  static const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
  static const uint32_t zeros[8], both[] = {0, 0};
  struct fb_arrow_column column = column_of("g", values, 0, 8), parts[3];
  struct fb_slot_choice choice = {.count = 1};
  struct fb_slot_aggregate whole;
  uint64_t state[2][3], halves[3][2];

  open_aggregate(&whole, 3, 1);
  for (size_t half = 0; half < 2; half++) {
    fb_slot_aggregate_clear(&whole);
    CHECK(fb_slot_aggregate_grow(&whole, 1) == FB_OK);
    column.offset = 4 * (int64_t)half;
    column.length = 4;
    fb_slot_aggregate_deviate(&whole, zeros, &column);
    fb_slot_aggregate_take(&whole, 0, 3, &choice, state[half]);
    for (size_t k = 0; k < 3; k++) halves[k][half] = state[half][k];
  }
  for (size_t k = 0; k < 3; k++) parts[k] = column_of(k == 0 ? "l" : "g", halves[k], 0, 2);
  fb_slot_aggregate_clear(&whole);
  CHECK(fb_slot_aggregate_grow(&whole, 1) == FB_OK);
  fb_slot_aggregate_merge_deviations(&whole, both, parts);
  memcpy(halves, whole.cells, 24);
  CHECK(whole.cells[0] == 8 && fabs(((const double*)(const void*)whole.cells)[1] - 5) < 1e-12);
  CHECK(fabs(((const double*)(const void*)whole.cells)[2] - 32) < 1e-12);
  fb_slot_aggregate_clear(&whole);
}

int main(void) {
  sums_pass_over_nulls_and_stop_at_the_row_that_has_no_room();
  chunks_of_every_width_are_summed();
  the_rows_of_extremes_are_noted_once_a_batch();
  texts_are_kept_without_those_before_them();
  values_are_linked_to_those_before_them();
  deviations_are_those_of_all_rows_however_they_are_split();
  return 0;
}
