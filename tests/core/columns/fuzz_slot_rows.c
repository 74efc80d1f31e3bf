/* Any rows, probes and limits: what a slot gives is what an array that is searched from end to end gives, in the same order.
 *
 * Input: steps of 5 bytes: what is done, a slot, 2 bytes of a time, and a length: of a batch, a range or an array. */
#include "check.h"
#include "columns/slot_rows.h"
#include "fuzz_replay.h"

#include <string.h>

#define SLOTS 40 /* some sixteens of them */
#define STEPS 256
#define BATCH 8
#define MOST  (STEPS * BATCH)

struct model_row {
  int64_t time;
  int64_t number;
  uint32_t slot;
  uint8_t had_partner;
};

/* The rows in the order in which they are given: by slot, time and number. */
struct model {
  struct model_row rows[MOST];
  int64_t count;
};

struct given_rows {
  int64_t rows[MOST], numbers[MOST], times[MOST];
  uint8_t had_partner[MOST];
  uint32_t slots[MOST];
};

static struct model model;
static struct given_rows given;

static struct fb_slot_rows_taken room_for(int64_t capacity) {
  return (struct fb_slot_rows_taken){
      .capacity = capacity,
      .rows = given.rows,
      .numbers = given.numbers,
      .times = given.times,
      .had_partner = given.had_partner,
      .slots = given.slots,
  };
}

/* A time near 0, or at the ends of time. */
static int64_t time_of(const uint8_t* data) {
  if (data[1] == 0x7f) return INT64_MAX - data[0];
  if (data[1] == 0x80) return INT64_MIN + data[0];
  return (int8_t)data[0];
}

static int64_t within_time(int64_t time, int64_t distance) {
  int64_t sum;

  if (!__builtin_add_overflow(time, distance, &sum)) return sum;
  return distance > 0 ? INT64_MAX : INT64_MIN;
}

static bool is_behind(const struct model_row* row, const struct model_row* other) {
  if (row->slot != other->slot) return row->slot > other->slot;
  return row->time != other->time ? row->time > other->time : row->number > other->number;
}

static void model_insert(struct model_row row) {
  int64_t at = model.count++;

  for (; at > 0 && is_behind(&model.rows[at - 1], &row); at--) model.rows[at] = model.rows[at - 1];
  model.rows[at] = row;
}

static void model_remove(int64_t at) {
  memmove(model.rows + at, model.rows + at + 1, (size_t)(--model.count - at) * sizeof *model.rows);
}

static void check_given(const struct fb_slot_rows_taken* taken, int64_t i, const struct model_row* row) {
  CHECK(i < taken->count);
  CHECK(taken->numbers[i] == row->number && taken->times[i] == row->time && taken->slots[i] == row->slot);
  CHECK((taken->had_partner[i] != 0) == (row->had_partner != 0));
}

static bool is_partner(const struct fb_slot_rows_probe* probe, int64_t i, const struct model_row* row) {
  return row->slot == probe->slots[i] && row->time >= within_time(probe->times[i], probe->lower) &&
         row->time <= within_time(probe->times[i], probe->upper);
}

static void insert(struct fb_slot_rows* rows, const uint8_t* data, int64_t* number) {
  uint32_t slots[BATCH];
  int64_t times[BATCH];
  uint8_t had_partner[BATCH];
  int64_t count = data[4] % (BATCH + 1);

  for (int64_t i = 0; i < count; i++) {
    slots[i] = (uint32_t)(data[1] + (data[4] & 64 ? 0 : i)) % SLOTS;
    times[i] = within_time(time_of(data + 2), data[4] & 128 ? i : -i);
    had_partner[i] = i & 1;
    model_insert((struct model_row){times[i], *number + i, slots[i], data[4] & 32 ? had_partner[i] : 0});
  }
  CHECK(fb_slot_rows_insert(rows, slots, times, data[4] & 32 ? had_partner : NULL, count, *number) == FB_OK);
  *number += count;
}

/* Pairs, or what is withdrawn, in arrays that are full again and again. */
static void probe_rows(struct fb_slot_rows* rows, const uint8_t* data, bool withdraws) {
  uint32_t slots[] = {data[1] % SLOTS, (data[1] + 1u) % SLOTS, data[1] % SLOTS};
  int64_t times[] = {time_of(data + 2), 0, within_time(time_of(data + 2), 3)};
  uint8_t had_partner[3] = {0}, wanted[3] = {0};
  bool marks = !withdraws && (data[4] & 128);
  struct fb_slot_rows_probe probe = {
      .slots = slots,
      .times = times,
      .count = 3,
      .lower = -(data[4] & 7),
      .upper = data[4] & 64 ? INT64_MAX : data[4] >> 3 & 7,
      .had_partner = marks ? had_partner : NULL,
  };
  int64_t numbers[3], capacity = 1 + data[4] % 5, at = 0;
  struct fb_slot_rows_taken taken = room_for(capacity);

  fb_slot_rows_find(rows, &probe, numbers);
  for (int64_t i = 0; i < 3; i++) {
    int64_t first = -1;
    for (int64_t j = model.count; j-- > 0;)
      if (is_partner(&probe, i, &model.rows[j])) first = model.rows[j].number;
    CHECK(numbers[i] == first);
  }
  for (int64_t i = 0; i < 3; i++) {
    for (int64_t j = 0; j < model.count; j++) {
      if (!is_partner(&probe, i, &model.rows[j])) continue;
      if (at == taken.count) {
        CHECK(at == 0 || at == capacity);
        taken.count = at = 0;
        if (withdraws) fb_slot_rows_withdraw(rows, &probe, &taken);
        else fb_slot_rows_pairs(rows, &probe, &taken);
      }
      if (marks) model.rows[j].had_partner = wanted[i] = 1;
      check_given(&taken, at, &model.rows[j]);
      CHECK(taken.rows[at] == i);
      at++;
      if (withdraws) model_remove(j--);
    }
  }
  CHECK(at == taken.count);
  taken.count = 0;
  if (withdraws) fb_slot_rows_withdraw(rows, &probe, &taken);
  else fb_slot_rows_pairs(rows, &probe, &taken);
  CHECK(taken.count == 0 && probe.row == probe.count);
  CHECK(memcmp(had_partner, wanted, sizeof wanted) == 0);
}

static void expire(struct fb_slot_rows* rows, const uint8_t* data) {
  int64_t limit = time_of(data + 2), capacity = 1 + data[4] % 9;

  for (;;) {
    struct fb_slot_rows_taken taken = room_for(capacity);
    int64_t at = 0;
    fb_slot_rows_expire(rows, limit, &taken);
    for (int64_t j = 0; j < model.count && at < taken.count; j++) {
      if (model.rows[j].time > limit) continue;
      check_given(&taken, at++, &model.rows[j]);
      model_remove(j--);
    }
    CHECK(at == taken.count);
    if (at < capacity) break;
  }
  for (int64_t j = 0; j < model.count; j++) CHECK(model.rows[j].time > limit);
}

static void walk_between(const struct fb_slot_rows* rows, const uint8_t* data) {
  int64_t lower = time_of(data + 2), upper = within_time(lower, data[4] >> 3), capacity = 1 + data[4] % 8, at = 0;
  struct fb_slot_rows_cursor cursor = {0};
  struct fb_slot_rows_taken taken = room_for(capacity);

  fb_slot_rows_between(rows, lower, upper, &cursor, &taken);
  for (int64_t j = 0; j < model.count; j++) {
    if (model.rows[j].time < lower || model.rows[j].time > upper) continue;
    if (at == capacity) {
      taken.count = at = 0;
      fb_slot_rows_between(rows, lower, upper, &cursor, &taken);
    }
    check_given(&taken, at++, &model.rows[j]);
  }
  CHECK(at == taken.count);
}

/* Every second or third slot stays, the last one first. */
static void keep(struct fb_slot_rows* rows, const uint8_t* data) {
  static struct model before;
  uint32_t kept[SLOTS], count = 0, step = 1 + data[4] % 3;

  for (uint32_t slot = SLOTS; slot-- > 0;)
    if (slot % step == 0) kept[count++] = slot;
  CHECK(fb_slot_rows_keep(rows, kept, count) == FB_OK);
  before = model;
  model.count = 0;
  for (int64_t j = 0; j < before.count; j++)
    for (uint32_t i = 0; i < count; i++)
      if (before.rows[j].slot == kept[i]) {
        struct model_row row = before.rows[j];
        row.slot = i;
        model_insert(row);
      }
  CHECK(fb_slot_rows_grow(rows, SLOTS) == FB_OK);
}

static void check_whole(const struct fb_slot_rows* rows) {
  int64_t first[SLOTS], earliest = INT64_MAX;

  CHECK(rows->row_count == (size_t)model.count);
  fb_slot_rows_first(rows, first);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    int64_t wanted = -1;
    for (int64_t j = model.count; j-- > 0;) {
      if (model.rows[j].slot == slot) wanted = model.rows[j].number;
      if (model.rows[j].time < earliest) earliest = model.rows[j].time;
    }
    CHECK(first[slot] == wanted);
  }
  CHECK(fb_slot_rows_earliest(rows) == earliest);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct fb_slot_rows rows = {0};
  int64_t number = 0;

  model.count = 0;
  CHECK(fb_slot_rows_grow(&rows, SLOTS) == FB_OK);
  for (int step = 0; step < STEPS && size >= 5; step++, data += 5, size -= 5) {
    switch (data[0] % 8) {
      case 3: probe_rows(&rows, data, false); break;
      case 4: probe_rows(&rows, data, true); break;
      case 5: expire(&rows, data); break;
      case 6: walk_between(&rows, data); break;
      case 7: keep(&rows, data); break;
      default: insert(&rows, data, &number);
    }
    check_whole(&rows);
  }
  fb_slot_rows_clear(&rows);
  CHECK(fb_slot_rows_bytes(&rows) == 0);
  return 0;
}
