#include "columns/slot_rows.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY  1024 /* slots */
#define FAN_OUT_BITS    4
#define FAN_OUT         (1u << FAN_OUT_BITS)
#define FIRST_ROWS      4 /* of a slot that has more than one */
#define MIN_SHRUNK_ROWS 16
#define MOST_SPARE      1024 /* arrays of FIRST_ROWS, and as many more as there are in use */
#define MOST_ROWS       ((size_t)1 << 30)
#define AHEAD           8 /* rows for which memory is asked before they are looked at */

/* A row that came behind a later one of its slot. */
struct misplaced_row {
  int64_t time;
  uint64_t mark;
  uint32_t slot;
};

/* The rows that a slot has, one behind the other. */
static inline struct fb_slot_row* rows_of(struct fb_slot_row_list* list) {
  return list->capacity == 0 ? &list->one : list->rows + list->first;
}

/* ---- the tree of earliest times --------------------------------------------------------------------- */

static size_t entries_at(size_t capacity, uint32_t level) {
  size_t width = (size_t)1 << (FAN_OUT_BITS * level);

  return (capacity + width - 1) / width;
}

static int64_t least_of_group(const struct fb_slot_rows* self, uint32_t level, size_t group) {
  size_t first = group << FAN_OUT_BITS, end = entries_at(self->capacity, level);
  int64_t least = INT64_MAX;

  if (end > first + FAN_OUT) end = first + FAN_OUT;
  for (size_t i = first; i < end; i++) least = self->earliest[level][i] < least ? self->earliest[level][i] : least;
  return least;
}

static void fill_upper_levels(struct fb_slot_rows* self) {
  for (uint32_t level = 1; level < self->levels; level++)
    for (size_t i = 0; i < entries_at(self->capacity, level); i++)
      self->earliest[level][i] = least_of_group(self, level - 1, i);
}

static inline int64_t earliest_in(struct fb_slot_row_list* list) {
  return list->count == 0 ? INT64_MAX : rows_of(list)->time;
}

/* A row of this time came to a slot. */
static inline void note_earlier(struct fb_slot_rows* self, uint32_t slot, int64_t time) {
  size_t i = slot;

  for (uint32_t level = 0; level < self->levels && self->earliest[level][i] > time; level++, i >>= FAN_OUT_BITS)
    self->earliest[level][i] = time;
}

/* Rows left slots of a sixteen, whose own times are noted. */
static void note_group(struct fb_slot_rows* self, size_t group) {
  for (uint32_t level = 1; level < self->levels; level++, group >>= FAN_OUT_BITS) {
    int64_t time = least_of_group(self, level - 1, group);
    if (self->earliest[level][group] == time) return;
    self->earliest[level][group] = time;
  }
}

/* The first slot from `from` on that has a row up to the time `limit`; `count`: there is none. Up in the tree as long as
 * there is nothing beside, then down. */
static uint32_t next_due(const struct fb_slot_rows* self, uint32_t from, int64_t limit) {
  size_t i = from;

  for (uint32_t level = 0; level < self->levels; level++) {
    size_t entries = entries_at(self->capacity, level), end = (i & ~(size_t)(FAN_OUT - 1)) + FAN_OUT;
    if (i >= entries) return self->count;
    if (end > entries) end = entries;
    while (i < end && self->earliest[level][i] > limit) i++;
    if (i < end) {
      while (level-- > 0)
        for (i <<= FAN_OUT_BITS; self->earliest[level][i] > limit;) i++;
      return i < self->count ? (uint32_t)i : self->count;
    }
    i = (i + FAN_OUT - 1) >> FAN_OUT_BITS;
  }
  return self->count;
}

/* ---- arrays of rows --------------------------------------------------------------------------------- */

static inline struct fb_slot_row* next_spare(const struct fb_slot_row* rows) {
  return (struct fb_slot_row*)(uintptr_t)rows->mark;
}

/* An array of rows. The smallest ones are kept for the next slot, as most of them come and go all the time. */
static struct fb_slot_row* make_rows(struct fb_slot_rows* self, size_t capacity) {
  struct fb_slot_row* rows = self->spare;

  if (capacity == FIRST_ROWS && rows != NULL) {
    self->spare = next_spare(rows);
    self->spare_count--;
  } else {
    rows = malloc(capacity * sizeof *rows);
  }
  if (rows != NULL) self->row_bytes += capacity * sizeof *rows;
  return rows;
}

static void free_rows(struct fb_slot_rows* self, struct fb_slot_row* rows, size_t capacity) {
  self->row_bytes -= capacity * sizeof *rows;
  if (capacity == FIRST_ROWS) {
    rows->mark = (uintptr_t)self->spare;
    self->spare = rows;
    self->spare_count++;
  } else {
    free(rows);
  }
}

/* Gives back what is kept beyond what there is in use, and `most`. */
static void free_spare_rows(struct fb_slot_rows* self, size_t most) {
  size_t in_use = most == 0 ? 0 : self->row_bytes / (FIRST_ROWS * sizeof *self->spare);

  while (self->spare_count > most + in_use) {
    struct fb_slot_row* rows = self->spare;
    self->spare = next_spare(rows);
    self->spare_count--;
    free(rows);
  }
}

/* ---- slots ------------------------------------------------------------------------------------------ */

int fb_slot_rows_grow(struct fb_slot_rows* self, uint32_t count) {
  size_t capacity = self->capacity == 0 ? FIRST_CAPACITY : self->capacity;

  if (count > self->capacity) {
    struct fb_slot_row_list* lists;
    uint32_t levels = 1;
    while (capacity < count) capacity *= 2;
    while (entries_at(capacity, levels - 1) > 1) levels++;
    lists = realloc(self->lists, capacity * sizeof *lists);
    if (lists == NULL) return FB_ENOMEM;
    self->lists = lists;
    for (uint32_t level = 0; level < levels; level++) {
      int64_t* earliest = realloc(self->earliest[level], entries_at(capacity, level) * sizeof *earliest);
      if (earliest == NULL) return FB_ENOMEM;
      self->earliest[level] = earliest;
    }
    memset(lists + self->capacity, 0, (capacity - self->capacity) * sizeof *lists);
    for (size_t i = self->capacity; i < capacity; i++) self->earliest[0][i] = INT64_MAX;
    self->capacity = capacity;
    self->levels = levels;
    fill_upper_levels(self);
  }
  if (count > self->count) self->count = count;
  return FB_OK;
}

void fb_slot_rows_clear(struct fb_slot_rows* self) {
  for (uint32_t i = 0; i < self->count; i++)
    if (self->lists[i].capacity > 0) free(self->lists[i].rows);
  free_spare_rows(self, 0);
  free(self->lists);
  for (uint32_t level = 0; level < FB_SLOT_ROWS_LEVELS; level++) free(self->earliest[level]);
  *self = (struct fb_slot_rows){0};
}

size_t fb_slot_rows_bytes(const struct fb_slot_rows* self) {
  size_t spare_bytes = self->spare_count * FIRST_ROWS * sizeof *self->spare;
  size_t bytes = self->capacity * sizeof *self->lists + self->row_bytes + spare_bytes;

  for (uint32_t level = 0; level < self->levels; level++) bytes += entries_at(self->capacity, level) * sizeof(int64_t);
  return bytes;
}

bool fb_slot_rows_has(const struct fb_slot_rows* self, const uint32_t* slots, int64_t rows) {
  uint32_t greatest = 0;

  for (int64_t i = 0; i < rows; i++) greatest = slots[i] > greatest ? slots[i] : greatest;
  return rows == 0 || greatest < self->count;
}

/* ---- the rows of a slot ----------------------------------------------------------------------------- */

static inline int64_t added(int64_t time, int64_t distance) {
  int64_t sum;

  if (!__builtin_add_overflow(time, distance, &sum)) return sum;
  return distance > 0 ? INT64_MAX : INT64_MIN;
}

/* How many of `count` rows are before a time; with `with_equal`, or at it. */
static inline uint32_t rows_before(const struct fb_slot_row* rows, uint32_t count, int64_t time, bool with_equal) {
  uint32_t start = 0;

  while (count > 0) {
    uint32_t half = count / 2;
    int64_t found = rows[start + half].time;
    bool is_before = with_equal ? found <= time : found < time;
    start = is_before ? start + half + 1 : start;
    count = is_before ? count - half - 1 : half;
  }
  return start;
}

/* Moves the rows to an array of their own size. */
static int move_rows(struct fb_slot_rows* self, struct fb_slot_row_list* list, size_t capacity) {
  struct fb_slot_row* rows = make_rows(self, capacity);

  if (rows == NULL) return FB_ENOMEM;
  memcpy(rows, rows_of(list), list->count * sizeof *rows);
  if (list->capacity > 0) free_rows(self, list->rows, list->capacity);
  list->rows = rows;
  list->first = 0;
  list->capacity = (uint32_t)capacity;
  return FB_OK;
}

/* Room for `more` rows behind those that there are. The rows move to the front where at least half of the array is free
 * there, so that a slot through which rows pass costs each of them little. */
static int make_row_room(struct fb_slot_rows* self, struct fb_slot_row_list* list, size_t more) {
  size_t capacity = list->capacity == 0 ? FIRST_ROWS : list->capacity, needed = list->count + more;

  if (list->first + needed <= (list->capacity == 0 ? 1 : list->capacity)) return FB_OK;
  if (needed <= list->capacity && list->first >= list->capacity / 2) {
    memmove(list->rows, list->rows + list->first, list->count * sizeof *list->rows);
    list->first = 0;
    return FB_OK;
  }
  if (needed > MOST_ROWS) return FB_ETOO_LARGE;
  if (list->capacity > 0) capacity *= 2;
  while (capacity < needed) capacity *= 2;
  return move_rows(self, list, capacity);
}

/* Removes `count` rows from the one that is `start` behind the first, and notes the slot's time alone; what nobody needs is
 * given back. */
static void remove_rows(struct fb_slot_rows* self, uint32_t slot, uint32_t start, uint32_t count) {
  struct fb_slot_row_list* list = &self->lists[slot];
  struct fb_slot_row* rows = rows_of(list);

  if (start == 0) list->first += count;
  else memmove(rows + start, rows + start + count, (list->count - start - count) * sizeof *rows);
  list->count -= count;
  self->row_count -= count;
  if (list->count == 0) {
    if (list->capacity > 0) free_rows(self, list->rows, list->capacity);
    *list = (struct fb_slot_row_list){0};
  } else if (list->capacity >= MIN_SHRUNK_ROWS && list->count <= list->capacity / 8) {
    /* Where there is no memory for fewer, the rows stay where they are. */
    (void)move_rows(self, list, list->capacity / 4);
  }
  self->earliest[0][slot] = earliest_in(list);
}

static int compare_misplaced(const void* one, const void* other) {
  const struct misplaced_row *a = one, *b = other;

  if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return (a->mark > b->mark) - (a->mark < b->mark);
}

/* Puts rows of one slot, which rise, between those that there are, from the end: each of these moves once. */
static int merge_rows(struct fb_slot_rows* self, const struct misplaced_row* rows, size_t count) {
  struct fb_slot_row_list* list = &self->lists[rows[0].slot];
  struct fb_slot_row* found;
  uint32_t end = list->count;
  int code = make_row_room(self, list, count);

  if (code < 0) return code;
  found = rows_of(list);
  for (size_t i = count; i-- > 0;) {
    uint32_t at = rows_before(found, end, rows[i].time, true);
    memmove(found + at + i + 1, found + at, (end - at) * sizeof *found);
    found[at + i] = (struct fb_slot_row){.time = rows[i].time, .mark = rows[i].mark};
    end = at;
  }
  list->count += (uint32_t)count;
  self->row_count += count;
  note_earlier(self, rows[0].slot, rows[0].time);
  return FB_OK;
}

static int merge_misplaced(struct fb_slot_rows* self, struct misplaced_row* rows, size_t count) {
  int code = FB_OK;

  qsort(rows, count, sizeof *rows, compare_misplaced);
  for (size_t start = 0, end; start < count && code == FB_OK; start = end) {
    for (end = start + 1; end < count && rows[end].slot == rows[start].slot;) end++;
    code = merge_rows(self, rows + start, end - start);
  }
  return code;
}

/* Memory of the slots behind row i. */
static inline void prefetch_slot(const struct fb_slot_rows* self, const uint32_t* slots, int64_t i, int64_t count) {
  if (i + 2 * AHEAD < count) __builtin_prefetch(&self->lists[slots[i + 2 * AHEAD]]);
  if (i + AHEAD < count) {
    struct fb_slot_row_list* list = &self->lists[slots[i + AHEAD]];
    if (list->capacity > 0) __builtin_prefetch(list->rows + list->first);
  }
}

int fb_slot_rows_insert(struct fb_slot_rows* self, const uint32_t* slots, const int64_t* times,
                        const uint8_t* had_partner, int64_t rows, int64_t number) {
  struct misplaced_row* misplaced = NULL;
  size_t misplaced_count = 0;
  int code = FB_OK;

  for (int64_t i = 0; i < rows && code == FB_OK; i++) {
    struct fb_slot_row_list* list = &self->lists[slots[i]];
    uint64_t mark = ((uint64_t)(number + i) << 1) + (had_partner != NULL && had_partner[i] != 0);
    prefetch_slot(self, slots, i, rows);
    if (i + AHEAD < rows) __builtin_prefetch(&self->earliest[0][slots[i + AHEAD]]);
    if (list->count > 0 && rows_of(list)[list->count - 1].time > times[i]) {
      if (misplaced == NULL) misplaced = malloc((size_t)(rows - i) * sizeof *misplaced);
      if (misplaced == NULL) return FB_ENOMEM;
      misplaced[misplaced_count++] = (struct misplaced_row){.time = times[i], .mark = mark, .slot = slots[i]};
      continue;
    }
    code = make_row_room(self, list, 1);
    if (code < 0) break;
    rows_of(list)[list->count++] = (struct fb_slot_row){.time = times[i], .mark = mark};
    self->row_count++;
    if (list->count == 1) note_earlier(self, slots[i], times[i]);
  }
  if (code == FB_OK && misplaced_count > 0) code = merge_misplaced(self, misplaced, misplaced_count);
  free(misplaced);
  return code;
}

/* ---- partners --------------------------------------------------------------------------------------- */

static inline void give_row(struct fb_slot_rows_taken* taken, const struct fb_slot_row* row, uint32_t slot,
                            int64_t probe_row) {
  int64_t i = taken->count++;

  taken->numbers[i] = (int64_t)(row->mark >> 1);
  if (taken->rows != NULL) taken->rows[i] = probe_row;
  if (taken->times != NULL) taken->times[i] = row->time;
  if (taken->had_partner != NULL) taken->had_partner[i] = row->mark & 1;
  if (taken->slots != NULL) taken->slots[i] = slot;
}

/* How many rows of a slot are before the partners of a row. */
static inline uint32_t rows_before_partners(const struct fb_slot_rows_probe* probe, int64_t i,
                                            struct fb_slot_row_list* list) {
  return list->count == 0 ? 0 : rows_before(rows_of(list), list->count, added(probe->times[i], probe->lower), false);
}

void fb_slot_rows_pairs(struct fb_slot_rows* self, struct fb_slot_rows_probe* probe, struct fb_slot_rows_taken* taken) {
  for (; probe->row < probe->count; probe->row++, probe->given = 0) {
    int64_t i = probe->row, last = added(probe->times[i], probe->upper);
    struct fb_slot_row_list* list = &self->lists[probe->slots[i]];
    prefetch_slot(self, probe->slots, i, probe->count);
    for (uint32_t at = rows_before_partners(probe, i, list) + probe->given; at < list->count; at++, probe->given++) {
      struct fb_slot_row* row = &rows_of(list)[at];
      if (row->time > last) break;
      if (taken->count == taken->capacity) return;
      if (probe->had_partner != NULL) {
        probe->had_partner[i] = 1;
        row->mark |= 1;
      }
      give_row(taken, row, probe->slots[i], i);
    }
  }
}

void fb_slot_rows_withdraw(struct fb_slot_rows* self, struct fb_slot_rows_probe* probe,
                           struct fb_slot_rows_taken* taken) {
  for (; probe->row < probe->count; probe->row++) {
    int64_t i = probe->row, last = added(probe->times[i], probe->upper);
    struct fb_slot_row_list* list = &self->lists[probe->slots[i]];
    uint32_t start = rows_before_partners(probe, i, list), end = start;
    bool is_full = false;
    prefetch_slot(self, probe->slots, i, probe->count);
    for (; end < list->count && rows_of(list)[end].time <= last; end++) {
      is_full = taken->count == taken->capacity;
      if (is_full) break;
      give_row(taken, &rows_of(list)[end], probe->slots[i], i);
    }
    if (end > start) {
      remove_rows(self, probe->slots[i], start, end - start);
      if (start == 0) note_group(self, probe->slots[i] >> FAN_OUT_BITS);
    }
    if (is_full) return;
  }
}

void fb_slot_rows_find(const struct fb_slot_rows* self, const struct fb_slot_rows_probe* probe, int64_t* numbers) {
  for (int64_t i = 0; i < probe->count; i++) {
    struct fb_slot_row_list* list = &self->lists[probe->slots[i]];
    uint32_t at = rows_before_partners(probe, i, list);
    prefetch_slot(self, probe->slots, i, probe->count);
    numbers[i] = -1;
    if (at < list->count && rows_of(list)[at].time <= added(probe->times[i], probe->upper))
      numbers[i] = (int64_t)(rows_of(list)[at].mark >> 1);
  }
}

/* ---- all rows --------------------------------------------------------------------------------------- */

/* Slots that are looked at together, so that memory is asked for ahead. */
static uint32_t next_due_slots(const struct fb_slot_rows* self, uint32_t from, int64_t limit, uint32_t* slots) {
  uint32_t count = 0;

  for (; count < FAN_OUT && (from = next_due(self, from, limit)) < self->count; from++) {
    __builtin_prefetch(&self->lists[from]);
    slots[count++] = from;
  }
  for (uint32_t i = 0; i < count; i++)
    if (self->lists[slots[i]].capacity > 0) __builtin_prefetch(rows_of(&self->lists[slots[i]]));
  return count;
}

static void expire_slot(struct fb_slot_rows* self, uint32_t slot, int64_t limit, struct fb_slot_rows_taken* taken) {
  struct fb_slot_row_list* list = &self->lists[slot];
  uint32_t count = 0;

  for (; count < list->count && taken->count < taken->capacity; count++) {
    const struct fb_slot_row* row = &rows_of(list)[count];
    if (row->time > limit) break;
    give_row(taken, row, slot, 0);
  }
  if (count > 0) remove_rows(self, slot, 0, count);
}

void fb_slot_rows_expire(struct fb_slot_rows* self, int64_t limit, struct fb_slot_rows_taken* taken) {
  uint32_t slots[FAN_OUT], count, from = 0;

  while (taken->count < taken->capacity && (count = next_due_slots(self, from, limit, slots)) > 0) {
    for (uint32_t i = 0; i < count; i++) {
      expire_slot(self, slots[i], limit, taken);
      if (i + 1 == count || slots[i + 1] >> FAN_OUT_BITS != slots[i] >> FAN_OUT_BITS)
        note_group(self, slots[i] >> FAN_OUT_BITS);
    }
    from = slots[count - 1] + 1;
  }
  free_spare_rows(self, MOST_SPARE);
}

void fb_slot_rows_between(const struct fb_slot_rows* self, int64_t lower, int64_t upper,
                          struct fb_slot_rows_cursor* cursor, struct fb_slot_rows_taken* taken) {
  for (; cursor->slot < self->count; cursor->slot++, cursor->given = 0) {
    struct fb_slot_row_list* list;
    uint32_t slot = next_due(self, cursor->slot, upper);
    if (slot != cursor->slot) *cursor = (struct fb_slot_rows_cursor){.slot = slot};
    if (slot >= self->count) return;
    list = &self->lists[slot];
    if (list->count == 0) continue;
    for (uint32_t at = rows_before(rows_of(list), list->count, lower, false) + cursor->given;
         at < list->count && rows_of(list)[at].time <= upper; at++, cursor->given++) {
      if (taken->count == taken->capacity) return;
      give_row(taken, &rows_of(list)[at], slot, 0);
    }
  }
}

void fb_slot_rows_first(const struct fb_slot_rows* self, int64_t* numbers) {
  for (uint32_t i = 0; i < self->count; i++) {
    struct fb_slot_row_list* list = &self->lists[i];
    numbers[i] = list->count == 0 ? -1 : (int64_t)(rows_of(list)->mark >> 1);
  }
}

int64_t fb_slot_rows_earliest(const struct fb_slot_rows* self) {
  return self->levels == 0 ? INT64_MAX : self->earliest[self->levels - 1][0];
}

int fb_slot_rows_keep(struct fb_slot_rows* self, const uint32_t* slots, uint32_t count) {
  struct fb_slot_rows kept = {0};
  int code = fb_slot_rows_grow(&kept, count);

  if (code < 0) {
    fb_slot_rows_clear(&kept);
    return code;
  }
  for (uint32_t i = 0; i < count; i++) {
    kept.lists[i] = self->lists[slots[i]];
    self->lists[slots[i]] = (struct fb_slot_row_list){0};
    kept.earliest[0][i] = earliest_in(&kept.lists[i]);
    kept.row_count += kept.lists[i].count;
    kept.row_bytes += kept.lists[i].capacity * sizeof(struct fb_slot_row);
  }
  fill_upper_levels(&kept);
  fb_slot_rows_clear(self);
  *self = kept;
  return FB_OK;
}
