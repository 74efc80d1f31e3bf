#include "sort/slot_ranks.h"

#include <string.h>

#include "check.h"

#define SLOTS   5
#define BATCHES 40
#define ROWS    30
#define ALL     (BATCHES * ROWS)

/* All rows that came, by number of arrival; what is among the first of a slot is found by looking at each. */
struct model {
  int64_t orders[ALL];
  uint32_t slots[ALL];
  int64_t count;
};

static bool stands_before(const struct model* self, bool is_newest_first, int64_t one, int64_t other) {
  if (self->orders[one] != self->orders[other]) return self->orders[one] < self->orders[other];
  return is_newest_first ? one > other : one < other;
}

/* The rows of a slot, best first; returned is how many, up to `limit`. */
static int64_t first_of(const struct model* self, bool is_newest_first, uint32_t slot, int64_t limit, int64_t* to) {
  int64_t count = 0;

  for (int64_t row = 0; row < self->count; row++) {
    int64_t place = count;
    if (self->slots[row] != slot) continue;
    while (place > 0 && stands_before(self, is_newest_first, row, to[place - 1])) place--;
    if (place >= limit) continue;
    if (count < limit) count++;
    memmove(to + place + 1, to + place, (size_t)(count - place - 1) * sizeof *to);
    to[place] = row;
  }
  return count;
}

static uint32_t next_random(uint32_t* seed) { return (*seed = *seed * 1664525 + 1013904223) >> 16; }

/* Numbers of the store, as places in the model: rows that are kept are noted behind those before them. */
static void ranks_are_those_of_all_rows(uint32_t limit, bool is_newest_first, bool is_text, uint32_t seed) {
  static struct model model;
  static int64_t places_in_model[ALL], before[SLOTS][ALL + 1], now[ALL + 1];
  static char texts[ALL][4];
  struct fb_slot_ranks ranks = {
      .limit = limit, .words = is_text ? 2 : 1, .texts = is_text ? 1 : 0, .is_newest_first = is_newest_first};
  int64_t kept_count = 0, before_counts[SLOTS] = {0};

  model.count = 0;
  CHECK(fb_slot_ranks_grow(&ranks, SLOTS) == FB_OK);
  for (int64_t batch = 0; batch < BATCHES; batch++) {
    uint32_t slots[ROWS];
    int64_t orders[2 * ROWS], places[ROWS], first = model.count;
    uint8_t kept[ROWS];
    struct fb_slot_rank_rows rows = {slots, orders, next_random(&seed) % (ROWS + 1), kept_count, kept, places, 0};
    for (int64_t row = 0; row < rows.count; row++) {
      int64_t value = next_random(&seed) % 20, at = model.count++;
      slots[row] = model.slots[at] = next_random(&seed) % SLOTS;
      model.orders[at] = value;
      if (is_text) { /* "", "a", "aa" and so on up to three letters stand as these numbers do */
        int64_t length = model.orders[at] = value % 4;
        memset(texts[at], 'a', sizeof texts[at]);
        orders[2 * row] = (int64_t)(uintptr_t)texts[at];
        orders[2 * row + 1] = length;
      } else {
        orders[row] = value;
      }
    }
    CHECK(fb_slot_ranks_add(&ranks, &rows) == FB_OK);
    for (int64_t row = 0; row < rows.count; row++)
      if (kept[row]) places_in_model[kept_count + places[row]] = first + row;
    for (int64_t row = 0; row < rows.count; row++) kept_count += kept[row];

    for (int by_rank = 0; by_rank < 2; by_rank++) {
      static uint32_t changed[2 * ALL];
      static int64_t ranks_of[2 * ALL], numbers[2 * ALL];
      static uint8_t kinds[2 * ALL];
      static int64_t seen[SLOTS][ALL + 1];
      struct fb_slot_rank_changes changes = {changed, ranks_of, numbers, kinds, 0};
      CHECK(fb_slot_ranks_changes_room(&ranks) <= 2 * ALL);
      fb_slot_ranks_changes(&ranks, by_rank, &changes);
      memcpy(seen, before, sizeof seen);
      for (int64_t i = 0; i < changes.count && by_rank; i++) {
        bool is_new = ranks_of[i] > before_counts[changed[i]];
        CHECK(kinds[i] == (is_new ? FB_SLOT_RANK_INSERT : FB_SLOT_RANK_UPDATE));
        CHECK(is_new || seen[changed[i]][ranks_of[i] - 1] != places_in_model[numbers[i]]);
        seen[changed[i]][ranks_of[i] - 1] = places_in_model[numbers[i]];
      }
      for (uint32_t slot = 0; slot < SLOTS; slot++) {
        int64_t count = first_of(&model, is_newest_first, slot, limit, now), inserted = 0, deleted = 0;
        if (by_rank) {
          CHECK(memcmp(seen[slot], now, (size_t)count * sizeof *now) == 0);
          continue;
        }
        for (int64_t i = 0; i < changes.count; i++) {
          bool was = false, is = false;
          if (changed[i] != slot) continue;
          for (int64_t k = 0; k < before_counts[slot]; k++) was |= before[slot][k] == places_in_model[numbers[i]];
          for (int64_t k = 0; k < count; k++) is |= now[k] == places_in_model[numbers[i]];
          CHECK(kinds[i] == (is ? FB_SLOT_RANK_INSERT : FB_SLOT_RANK_DELETE) && was != is);
          inserted += is;
          deleted += was;
        }
        CHECK(count == before_counts[slot] + inserted - deleted);
      }
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
      int64_t chosen = slot, count, numbers[ALL];
      struct fb_slot_choice choice = {&chosen, 1};
      before_counts[slot] = first_of(&model, is_newest_first, slot, limit, before[slot]);
      fb_slot_ranks_counts(&ranks, &choice, &count);
      CHECK(count == before_counts[slot]);
      fb_slot_ranks_numbers(&ranks, &choice, numbers);
      for (int64_t i = 0; i < count; i++) CHECK(places_in_model[numbers[i]] == before[slot][i]);
    }
  }
  CHECK(fb_slot_ranks_bytes(&ranks) > 0);
  fb_slot_ranks_clear(&ranks);
  CHECK(fb_slot_ranks_bytes(&ranks) == 0);
}

static void the_newest_row_without_an_order_is_the_last(void) {
  static const uint32_t slots[] = {1, 0, 1, 1};
  uint8_t kept[4];
  int64_t places[4], numbers[2], order = 0;
  struct fb_slot_ranks ranks = {.limit = 1, .is_newest_first = true};
  struct fb_slot_rank_rows rows = {slots, &order, 4, 7, kept, places, 0};
  struct fb_slot_choice choice = {.count = 2};

  CHECK(fb_slot_ranks_grow(&ranks, 2) == FB_OK);
  CHECK(fb_slot_ranks_add(&ranks, &rows) == FB_OK);
  fb_slot_ranks_numbers(&ranks, &choice, numbers);
  CHECK(memcmp(kept, "\0\1\0\1", 4) == 0 && numbers[0] == 7 && numbers[1] == 8 && rows.lost == 0);
  rows.base = 9;
  CHECK(fb_slot_ranks_add(&ranks, &rows) == FB_OK);
  CHECK(rows.lost == 2);
  fb_slot_ranks_clear(&ranks);
}

static void texts_that_nobody_has_are_taken_out(void) {
  static char text[4096];
  uint32_t slot = 0;
  uint8_t kept;
  int64_t place, order[2] = {(int64_t)(uintptr_t)text, sizeof text};
  struct fb_slot_ranks ranks = {.limit = 2, .words = 2, .texts = 1, .descending = 1, .is_newest_first = true};
  struct fb_slot_rank_rows rows = {&slot, order, 1, 0, &kept, &place, 0};

  CHECK(fb_slot_ranks_grow(&ranks, 1) == FB_OK);
  for (rows.base = 0; rows.base < 200; rows.base++) {
    text[4095] = (char)(rows.base / 2);
    CHECK(fb_slot_ranks_add(&ranks, &rows) == FB_OK);
    CHECK(kept == 1 && ranks.text_size <= 2 * sizeof text);
  }
  CHECK(fb_slot_ranks_bytes(&ranks) < 300 * 1024);
  fb_slot_ranks_clear(&ranks);
}

int main(void) {
  for (uint32_t limit = 1; limit < 10; limit += 1 + limit / 4) {
    ranks_are_those_of_all_rows(limit, false, false, limit);
    ranks_are_those_of_all_rows(limit, true, false, limit);
    ranks_are_those_of_all_rows(limit, false, true, limit);
  }
  ranks_are_those_of_all_rows(ALL, true, true, 5);
  the_newest_row_without_an_order_is_the_last();
  texts_that_nobody_has_are_taken_out();
  return 0;
}
