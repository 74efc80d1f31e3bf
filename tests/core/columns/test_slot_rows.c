#include "columns/slot_rows.h"

#include <stdlib.h>

#include "check.h"

#define MANY ((int64_t)40000)

static struct fb_slot_rows_taken room_for(int64_t capacity) {
  struct fb_slot_rows_taken taken = {.capacity = capacity};

  taken.rows = calloc((size_t)capacity, sizeof *taken.rows);
  taken.numbers = calloc((size_t)capacity, sizeof *taken.numbers);
  taken.times = calloc((size_t)capacity, sizeof *taken.times);
  taken.had_partner = calloc((size_t)capacity, 1);
  taken.slots = calloc((size_t)capacity, sizeof *taken.slots);
  CHECK(taken.rows && taken.numbers && taken.times && taken.had_partner && taken.slots);
  return taken;
}

static void free_room(struct fb_slot_rows_taken* taken) {
  free(taken->rows);
  free(taken->numbers);
  free(taken->times);
  free(taken->had_partner);
  free(taken->slots);
}

static void rows_lie_by_time_and_equal_ones_as_they_came(void) {
  static const uint32_t slots[] = {1, 1, 1, 0, 1, 1}, more[] = {1, 1, 0, 1};
  static const int64_t times[] = {30, 10, 20, 5, 10, 30}, later[] = {10, 40, 1, 25};
  static const int64_t expected[] = {8, 3, 1, 4, 6, 2, 9, 0, 5, 7};
  struct fb_slot_rows rows = {0};
  struct fb_slot_rows_taken taken = room_for(10);
  struct fb_slot_rows_cursor cursor = {0};

  CHECK(fb_slot_rows_earliest(&rows) == INT64_MAX);
  CHECK(fb_slot_rows_grow(&rows, 2) == FB_OK && fb_slot_rows_has(&rows, slots, 6));
  CHECK(fb_slot_rows_insert(&rows, slots, times, NULL, 6, 0) == FB_OK && fb_slot_rows_earliest(&rows) == 5);
  CHECK(fb_slot_rows_insert(&rows, more, later, NULL, 4, 6) == FB_OK && fb_slot_rows_earliest(&rows) == 1);
  fb_slot_rows_between(&rows, INT64_MIN, INT64_MAX, &cursor, &taken);
  CHECK(taken.count == 10 && rows.row_count == 10);
  for (int64_t i = 0; i < 10; i++) CHECK(taken.numbers[i] == expected[i] && taken.slots[i] == (i > 1));
  free_room(&taken);
  fb_slot_rows_clear(&rows);
  CHECK(fb_slot_rows_bytes(&rows) == 0);
}

static void pairs_go_on_where_there_was_no_more_room(void) {
  static const uint32_t slots[] = {0, 0, 0, 1}, asked[] = {0, 1, 0};
  static const int64_t times[] = {10, 20, 30, 20}, at[] = {20, 5, INT64_MAX};
  struct fb_slot_rows rows = {0};
  struct fb_slot_rows_taken taken = room_for(2);
  uint8_t had_partner[3] = {0};
  int64_t found[3], first[2];
  struct fb_slot_rows_probe probe = {
      .slots = asked, .times = at, .count = 3, .lower = -10, .upper = 10, .had_partner = had_partner};

  CHECK(fb_slot_rows_grow(&rows, 2) == FB_OK);
  CHECK(fb_slot_rows_insert(&rows, slots, times, NULL, 4, 100) == FB_OK);
  fb_slot_rows_find(&rows, &probe, found);
  CHECK(found[0] == 100 && found[1] == -1 && found[2] == -1);
  fb_slot_rows_pairs(&rows, &probe, &taken);
  CHECK(taken.count == 2 && taken.numbers[0] == 100 && taken.numbers[1] == 101 && probe.row == 0);
  taken.count = 0;
  fb_slot_rows_pairs(&rows, &probe, &taken);
  CHECK(taken.count == 1 && taken.numbers[0] == 102 && taken.rows[0] == 0 && probe.row == 3);
  CHECK(had_partner[0] && !had_partner[1] && !had_partner[2]);
  fb_slot_rows_first(&rows, first);
  CHECK(first[0] == 100 && first[1] == 103);
  taken.count = 0;
  fb_slot_rows_expire(&rows, 20, &taken); /* of each, whether it had a partner */
  CHECK(taken.count == 2 && taken.had_partner[0] && taken.had_partner[1]);
  taken.count = 0;
  fb_slot_rows_expire(&rows, 20, &taken);
  CHECK(taken.count == 1 && taken.numbers[0] == 103 && !taken.had_partner[0] && rows.row_count == 1);
  free_room(&taken);
  fb_slot_rows_clear(&rows);
}

static void partners_are_withdrawn_once(void) {
  static const uint32_t slots[] = {0, 0, 0, 0}, asked[] = {0, 0};
  static const int64_t times[] = {10, 20, 30, 40}, at[] = {25, 30};
  struct fb_slot_rows rows = {0};
  struct fb_slot_rows_taken taken = room_for(1);
  struct fb_slot_rows_probe probe = {.slots = asked, .times = at, .count = 2, .lower = -5, .upper = 5};
  int64_t expected[] = {1, 2}, given = 0;

  CHECK(fb_slot_rows_grow(&rows, 1) == FB_OK && fb_slot_rows_insert(&rows, slots, times, NULL, 4, 0) == FB_OK);
  while (probe.row < probe.count) {
    taken.count = 0;
    fb_slot_rows_withdraw(&rows, &probe, &taken);
    if (taken.count > 0) CHECK(given < 2 && taken.numbers[0] == expected[given++] && taken.rows[0] == 0);
  }
  CHECK(given == 2 && rows.row_count == 2 && fb_slot_rows_earliest(&rows) == 10);
  free_room(&taken);
  fb_slot_rows_clear(&rows);
}

/* Over several levels of the tree, and with rows of one slot behind each other and before each other. */
static void what_is_over_goes_and_gives_its_memory_back(void) {
  uint32_t* slots = malloc((size_t)MANY * sizeof *slots);
  int64_t* times = malloc((size_t)MANY * sizeof *times);
  struct fb_slot_rows rows = {0};
  struct fb_slot_rows_taken taken = room_for(1000);
  size_t bytes;

  CHECK(slots != NULL && times != NULL && fb_slot_rows_grow(&rows, (uint32_t)MANY) == FB_OK);
  bytes = fb_slot_rows_bytes(&rows);
  for (int round = 0; round < 3; round++) {
    int64_t limit = 0, given = 0;
    for (int64_t i = 0; i < MANY; i++) {
      slots[i] = round == 0 ? (uint32_t)(i * 7919 % MANY) : round == 1 ? 77 : (uint32_t)(i % 5 * 9000);
      times[i] = round == 2 ? MANY - i : i * 31 % MANY;
    }
    CHECK(fb_slot_rows_insert(&rows, slots, times, NULL, MANY, 0) == FB_OK && rows.row_count == (size_t)MANY);
    while (rows.row_count > 0) {
      int64_t before = given;
      limit += 3000;
      do {
        taken.count = 0;
        fb_slot_rows_expire(&rows, limit, &taken);
        for (int64_t i = 0; i < taken.count; i++)
          CHECK(taken.times[i] <= limit && taken.times[i] > limit - 3000 - (limit == 3000) &&
                times[taken.numbers[i]] == taken.times[i]);
        given += taken.count;
      } while (taken.count == taken.capacity);
      CHECK(given > before && (rows.row_count == 0 || fb_slot_rows_earliest(&rows) > limit));
    }
    CHECK(given == MANY && fb_slot_rows_bytes(&rows) <= bytes + 128 * 1024 &&
          fb_slot_rows_earliest(&rows) == INT64_MAX);
  }
  free_room(&taken);
  free(slots);
  free(times);
  fb_slot_rows_clear(&rows);
}

/* A slot through which rows pass for ever has memory for those that are there. */
static void a_hot_slot_stays_small(void) {
  static const uint32_t slots[64] = {0};
  struct fb_slot_rows rows = {0};
  struct fb_slot_rows_taken taken = room_for(4096);
  int64_t times[64];

  CHECK(fb_slot_rows_grow(&rows, 1) == FB_OK);
  for (int64_t round = 0; round < 2000; round++) {
    for (int64_t i = 0; i < 64; i++) times[i] = round * 64 + (i * 37) % 64;
    CHECK(fb_slot_rows_insert(&rows, slots, times, NULL, 64, round * 64) == FB_OK);
    taken.count = 0;
    fb_slot_rows_expire(&rows, round == 500 ? INT64_MIN : (round - 4) * 64, &taken);
    CHECK(fb_slot_rows_bytes(&rows) < 64 * 1024);
  }
  CHECK(rows.row_count == 64 * 5 - 1);
  free_room(&taken);
  fb_slot_rows_clear(&rows);
}

static void slots_are_kept_in_another_order(void) {
  static const uint32_t slots[] = {0, 1, 2, 1500}, kept[] = {1500, 1};
  static const int64_t times[] = {10, 20, 30, 40};
  static const uint8_t had_partner[] = {0, 1, 0, 1};
  struct fb_slot_rows rows = {0};
  struct fb_slot_rows_taken taken = room_for(4);
  struct fb_slot_rows_cursor cursor = {0};

  CHECK(fb_slot_rows_grow(&rows, 2000) == FB_OK);
  CHECK(fb_slot_rows_insert(&rows, slots, times, had_partner, 4, 7) == FB_OK);
  CHECK(fb_slot_rows_keep(&rows, kept, 2) == FB_OK && rows.count == 2 && rows.row_count == 2);
  fb_slot_rows_between(&rows, 0, 100, &cursor, &taken);
  CHECK(taken.count == 2 && taken.numbers[0] == 10 && taken.numbers[1] == 8 && taken.had_partner[1]);
  CHECK(fb_slot_rows_earliest(&rows) == 20);
  CHECK(fb_slot_rows_keep(&rows, kept, 0) == FB_OK && rows.count == 0 && fb_slot_rows_bytes(&rows) == 0);
  free_room(&taken);
}

int main(void) {
  rows_lie_by_time_and_equal_ones_as_they_came();
  pairs_go_on_where_there_was_no_more_room();
  partners_are_withdrawn_once();
  what_is_over_goes_and_gives_its_memory_back();
  a_hot_slot_stays_small();
  slots_are_kept_in_another_order();
  return 0;
}
