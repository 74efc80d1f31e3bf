#include "columns/session_slots.h"

#include <string.h>

#include "check.h"

#define KEYS  3
#define ROWS  16
#define MOST  4096 /* slots and sessions of a model */
#define GAP   5
#define LATER 7

/* A session of the model, which looks at all of them with each row. */
struct session {
  uint32_t key;
  int64_t start, end, rows, latest; /* the number of the row that came last */
  bool is_open, is_given, is_new;
};

struct model {
  struct session sessions[MOST];
  uint32_t count;
  int64_t watermark, lateness;
};

/* What accumulators have under each slot. */
struct held {
  int64_t rows[MOST], latest[MOST];
};

static uint32_t random_below(uint32_t limit) {
  static uint64_t state = 88172645463325252u;

  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 33) % limit;
}

/* Whether the row was taken. */
static bool add_to_model(struct model* self, uint32_t key, int64_t time, int64_t number) {
  struct session row = {.key = key, .start = time, .end = time + GAP, .rows = 1, .latest = number, .is_open = true};
  bool is_joined = false;

  for (uint32_t i = 0; i < self->count; i++) {
    struct session* each = &self->sessions[i];
    if (!each->is_open || each->key != key || each->start > time + GAP || time > each->end) continue;
    row.start = each->start < row.start ? each->start : row.start;
    row.end = each->end > row.end ? each->end : row.end;
    row.rows += each->rows;
    each->is_open = false;
    is_joined = true;
  }
  if (!is_joined && row.end - 1 + self->lateness <= self->watermark) return false;
  row.is_given = row.end - 1 <= self->watermark;
  row.is_new = row.is_given;
  CHECK(self->count < MOST);
  self->sessions[self->count++] = row;
  return true;
}

static struct session* of_span(struct model* self, uint32_t key, int64_t start, int64_t end) {
  for (uint32_t i = 0; i < self->count; i++) {
    struct session* each = &self->sessions[i];
    if (each->is_open && each->key == key && each->start == start && each->end == end) return each;
  }
  return NULL;
}

static struct session* of_slot(struct model* model, const struct fb_session_slots* table, int64_t slot) {
  int64_t key, start, end;
  uint8_t given;

  fb_session_slots_describe(table, &slot, 1, &(struct fb_session_spans){&key, &start, &end, &given});
  return of_span(model, (uint32_t)key, start, end);
}

static void compare(struct model* model, const struct fb_session_slots* table, const struct held* held) {
  int64_t slots[MOST];
  uint32_t open = 0;

  for (uint32_t i = 0; i < model->count; i++) open += model->sessions[i].is_open;
  CHECK(open == table->open_count);
  fb_session_slots_all(table, slots);
  for (uint32_t i = 0; i < open; i++) {
    struct session* wanted = of_slot(model, table, slots[i]);
    CHECK(wanted != NULL);
    CHECK(wanted->rows == held->rows[slots[i]] && wanted->latest == held->latest[slots[i]]);
  }
}

static void add_rows(struct model* model, struct fb_session_slots* table, struct held* held, int64_t number) {
  uint32_t keys[ROWS], slots[ROWS], into[2 * ROWS];
  int64_t times[ROWS], parts[2 * ROWS], changed[ROWS], count;
  uint32_t late = 0, parts_count, wanted = 0;

  for (uint32_t i = 0; i < ROWS; i++) {
    keys[i] = random_below(KEYS);
    times[i] = (number > 40 ? number - 40 : 0) + random_below(60);
  }
  CHECK(fb_session_slots_add(table, keys, times, ROWS, KEYS, slots) == FB_OK);
  for (uint32_t i = 0; i < ROWS; i++) {
    bool is_taken = add_to_model(model, keys[i], times[i], number * ROWS + i);
    CHECK(is_taken == (slots[i] != FB_NO_SLOT));
    late += !is_taken;
    if (!is_taken) continue;
    held->rows[slots[i]]++;
    held->latest[slots[i]] = number * ROWS + i;
  }
  CHECK(late == table->late_count && table->part_count <= 2 * ROWS && table->count <= MOST);
  parts_count = table->part_count;
  fb_session_slots_take_parts(table, parts, into);
  CHECK(table->part_count == 0);
  for (uint32_t i = 0; i < parts_count; i++) {
    held->rows[into[i]] += held->rows[parts[i]];
    held->latest[into[i]] = held->latest[parts[i]]; /* the last part has the row that came last */
  }
  compare(model, table, held);
  CHECK(fb_session_slots_changed_room(table) <= ROWS);
  count = fb_session_slots_take_changed(table, changed);
  for (int64_t i = 0; i < count; i++) {
    struct session* each = of_slot(model, table, changed[i]);
    CHECK(each != NULL && each->is_new);
    each->is_new = false;
  }
  for (uint32_t i = 0; i < model->count; i++) wanted += model->sessions[i].is_open && model->sessions[i].is_new;
  CHECK(wanted == 0);
}

static void advance(struct model* model, struct fb_session_slots* table, const struct held* held, int64_t watermark) {
  int64_t slots[MOST], count, before = INT64_MIN;
  struct session* each;

  model->watermark = watermark;
  count = fb_session_slots_advance(table, watermark, slots);
  for (int64_t i = 0; i < count; i++) {
    each = of_slot(model, table, slots[i]);
    CHECK(each != NULL && !each->is_given && each->end - 1 <= watermark && each->end >= before);
    each->is_given = true;
    before = each->end;
  }
  for (uint32_t i = 0; i < model->count; i++) {
    each = &model->sessions[i];
    CHECK(!each->is_open || each->is_given == (each->end - 1 <= watermark));
    if (each->end - 1 + model->lateness <= watermark) each->is_open = false;
  }
  compare(model, table, held);
}

static void sessions_are_those_of_a_model_that_looks_at_all_of_them(void) {
  static struct model model;
  static struct held held;
  struct fb_session_slots table;
  int64_t watermark;

  for (uint32_t round = 0; round < 200; round++) {
    memset(&model, 0, sizeof model);
    memset(&held, 0, sizeof held);
    model.watermark = watermark = INT64_MIN / 2;
    model.lateness = round % 2 == 0 ? 0 : LATER;
    fb_session_slots_open(&table, GAP, model.lateness);
    for (int64_t number = 0; number < 100; number++) {
      add_rows(&model, &table, &held, number);
      if (random_below(3) == 0) continue;
      watermark = watermark < 0 ? 0 : watermark + random_below(5);
      advance(&model, &table, &held, watermark);
    }
    advance(&model, &table, &held, 1000);
    CHECK(table.open_count == 0 && fb_session_slots_bytes(&table) > 0);
    fb_session_slots_clear(&table);
    fb_session_slots_clear(&table);
    CHECK(table.count == 0 && fb_session_slots_bytes(&table) == 0);
  }
}

static void many_sessions_of_a_key_are_found_among_each_other(void) {
  static uint32_t keys[4 * MOST], slots[4 * MOST], into[8 * MOST];
  static int64_t times[4 * MOST], parts[8 * MOST];
  struct fb_session_slots table;

  fb_session_slots_open(&table, GAP, 0);
  for (int64_t i = 0; i < MOST; i++) times[i] = (GAP + 1) * 2 * (i * 1237 % MOST); /* in any order */
  CHECK(fb_session_slots_add(&table, keys, times, MOST, 1, slots) == FB_OK && table.open_count == MOST);
  for (int64_t i = 0; i < MOST; i++) times[i] += GAP;
  CHECK(fb_session_slots_add(&table, keys, times, MOST, 1, slots) == FB_OK && table.open_count == MOST);
  for (uint32_t i = 0; i < MOST; i++) CHECK(slots[i] == i);
  for (int64_t i = 0; i < MOST; i++) times[i] += GAP; /* which touches the next one */
  CHECK(fb_session_slots_add(&table, keys, times, MOST, 1, slots) == FB_OK && table.open_count == 1);
  CHECK(table.part_count == 2 * (MOST - 1));
  fb_session_slots_take_parts(&table, parts, into);
  for (uint32_t i = 0; i < 2 * (MOST - 1); i++) CHECK(into[i] == 0);
  fb_session_slots_clear(&table);
}

static void sessions_are_opened_again(void) {
  int64_t keys[] = {2, 0, 2}, starts[] = {10, 11, 30}, ends[] = {15, 16, 35}, slots[3];
  uint8_t given[] = {1, 0, 0};
  struct fb_session_spans spans = {keys, starts, ends, given};
  uint32_t found[3], row, key = 2;
  int64_t time = 15;
  struct fb_session_slots table;

  fb_session_slots_open(&table, GAP, LATER);
  CHECK(fb_session_slots_restore(&table, &spans, 3, 2, found) == FB_EARGUMENT && table.count == 0);
  CHECK(fb_session_slots_restore(&table, &spans, 3, 3, found) == FB_OK && found[2] == 2 && table.open_count == 3);
  CHECK(fb_session_slots_advance(&table, 20, slots) == 1 && slots[0] == 1); /* the other was given before */
  CHECK(fb_session_slots_add(&table, &key, &time, 1, 3, &row) == FB_OK && row == 0);
  CHECK(fb_session_slots_take_changed(&table, slots) == 1 && slots[0] == 0);
  CHECK(fb_session_slots_advance(&table, 34, slots) == 1 && slots[0] == 2 && table.open_count == 1);
  fb_session_slots_clear(&table);
}

/* As only a damaged snapshot has them: between them there would be no order. */
static void sessions_that_touch_are_not_opened(void) {
  int64_t keys[] = {1, 1}, starts[] = {10, 0}, ends[] = {20, 0};
  uint8_t given[] = {0, 0};
  struct fb_session_spans spans = {keys, starts, ends, given};
  uint32_t found[2];
  struct {
    int64_t start, end;
    int code;
  } others[] = {{0, 9, FB_OK},         {21, 30, FB_OK},        {0, 10, FB_EARGUMENT}, {20, 30, FB_EARGUMENT},
                {0, 30, FB_EARGUMENT}, {12, 13, FB_EARGUMENT}, {10, 20, FB_EARGUMENT}};

  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    struct fb_session_slots table;
    fb_session_slots_open(&table, GAP, 0);
    starts[1] = others[i].start;
    ends[1] = others[i].end;
    CHECK(fb_session_slots_restore(&table, &spans, 2, 2, found) == others[i].code);
    CHECK(table.open_count == (others[i].code == FB_OK ? 2 : 1));
    fb_session_slots_clear(&table);
  }
}

static void what_does_not_fit_is_refused(void) {
  uint32_t keys[] = {0, 1}, slots[2];
  int64_t times[] = {0, INT64_MAX - GAP}, ended[2];
  struct fb_session_slots table;

  fb_session_slots_open(&table, GAP, INT64_MAX);
  CHECK(fb_session_slots_add(&table, keys, times, 2, 1, slots) == FB_EARGUMENT);
  CHECK(fb_session_slots_add(&table, keys, times, 2, 2, slots) == FB_OK && table.open_count == 2);
  times[1]++;
  CHECK(fb_session_slots_add(&table, keys, times, 2, 2, slots) == FB_EARGUMENT && table.open_count == 2);
  CHECK(fb_session_slots_advance(&table, INT64_MAX, ended) == 2 && table.open_count == 0);
  fb_session_slots_clear(&table);
}

int main(void) {
  sessions_are_those_of_a_model_that_looks_at_all_of_them();
  many_sessions_of_a_key_are_found_among_each_other();
  sessions_are_opened_again();
  sessions_that_touch_are_not_opened();
  what_does_not_fit_is_refused();
  return 0;
}
