#include "sort/slot_ranks.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY  1024
#define FETCH_LISTS     16 /* rows ahead */
#define FETCH_ENTRIES   8
#define FETCH_BYTES     512
#define MIN_TEXTS_BYTES (64u << 10) /* where fewer are, nobody looks for those that are no longer wanted */

struct slot_change {
  uint32_t slot;
  uint32_t count; /* of the numbers that it had */
  uint64_t start; /* of these, in `before` */
};

/* ---- memory ----------------------------------------------------------------------------------------- */

int fb_slot_ranks_grow(struct fb_slot_ranks* self, uint32_t count) {
  size_t capacity = self->capacity == 0 ? FIRST_CAPACITY : self->capacity;

  if (count > self->capacity) {
    struct fb_slot_rank_list* lists;
    while (capacity < count) capacity *= 2;
    lists = realloc(self->lists, capacity * sizeof *lists);
    if (lists == NULL) return FB_ENOMEM;
    self->lists = lists;
    self->capacity = capacity;
  }
  if (count > self->count) {
    memset(self->lists + self->count, 0, (count - self->count) * sizeof *self->lists);
    self->count = count;
  }
  return FB_OK;
}

void fb_slot_ranks_clear(struct fb_slot_ranks* self) {
  free(self->lists);
  fb_arrow_memory_free(&self->blocks);
  fb_arrow_memory_free(&self->text_bytes);
  fb_arrow_memory_free(&self->changes);
  fb_arrow_memory_free(&self->before);
  *self = (struct fb_slot_ranks){.limit = self->limit,
                                 .words = self->words,
                                 .texts = self->texts,
                                 .descending = self->descending,
                                 .is_newest_first = self->is_newest_first};
}

size_t fb_slot_ranks_bytes(const struct fb_slot_ranks* self) {
  return self->capacity * sizeof *self->lists + self->blocks.capacity + self->text_bytes.capacity +
         self->changes.capacity + self->before.capacity;
}

static inline size_t entry_width(const struct fb_slot_ranks* self) { return self->words + 1; }

static inline int64_t* rank_entry_at(const struct fb_slot_ranks* self, const struct fb_slot_rank_list* list,
                                     uint32_t i) {
  return (int64_t*)(void*)self->blocks.data + list->start + i * entry_width(self);
}

static inline int64_t* rank_number_at(const struct fb_slot_ranks* self, const struct fb_slot_rank_list* list,
                                      uint32_t i) {
  return rank_entry_at(self, list, i) + self->words;
}

/* A block of 2^bits entries. */
static int take_rank_block(struct fb_slot_ranks* self, uint32_t bits, uint64_t* start) {
  size_t size = (entry_width(self) << bits) * sizeof(int64_t);
  int code;

  if (self->free[bits] != 0) {
    *start = self->free[bits] - 1;
    memcpy(&self->free[bits], self->blocks.data + *start * sizeof(int64_t), sizeof self->free[bits]);
    return FB_OK;
  }
  code = fb_arrow_memory_reserve(&self->blocks, size);
  if (code < 0) return code;
  *start = self->blocks.size / sizeof(int64_t);
  self->blocks.size += size;
  return FB_OK;
}

/* Room for one entry more. */
static int make_rank_room(struct fb_slot_ranks* self, struct fb_slot_rank_list* list) {
  uint64_t start;
  int code;

  if (list->count == 0) {
    code = take_rank_block(self, 0, &list->start);
    list->bits = 0;
    return code;
  }
  if (list->count >> list->bits == 0) return FB_OK;
  code = take_rank_block(self, list->bits + 1, &start);
  if (code < 0) return code;
  memcpy(self->blocks.data + start * sizeof(int64_t), rank_entry_at(self, list, 0),
         list->count * entry_width(self) * sizeof(int64_t));
  memcpy(rank_entry_at(self, list, 0), &self->free[list->bits], sizeof self->free[list->bits]);
  self->free[list->bits] = list->start + 1;
  list->start = start;
  list->bits++;
  return FB_OK;
}

/* ---- texts ------------------------------------------------------------------------------------------ */

static inline bool is_order_text(const struct fb_slot_ranks* self, uint32_t word) { return self->texts >> word & 1; }

/* Copies the texts that an entry of a batch points to. */
static int keep_order_texts(struct fb_slot_ranks* self, int64_t* entry) {
  for (uint32_t word = 0; word < self->words; word++) {
    size_t size;
    int code;
    if (!is_order_text(self, word)) continue;
    size = (size_t)entry[word + 1];
    code = fb_arrow_memory_reserve(&self->text_bytes, size);
    if (code < 0) return code;
    if (size > 0) memcpy(self->text_bytes.data + self->text_bytes.size, (const uint8_t*)(uintptr_t)entry[word], size);
    entry[word] = (int64_t)self->text_bytes.size;
    self->text_bytes.size += size;
    self->text_size += size;
  }
  return FB_OK;
}

static void drop_order_texts(struct fb_slot_ranks* self, const int64_t* entry) {
  for (uint32_t word = 0; word < self->words; word++)
    if (is_order_text(self, word)) self->text_size -= (size_t)entry[word + 1];
}

/* Takes out the bytes that no entry points to, once they are more than half. */
static int compact_order_texts(struct fb_slot_ranks* self) {
  struct fb_arrow_memory kept = {0};
  int code;

  if (self->text_bytes.size < MIN_TEXTS_BYTES || self->text_bytes.size / 2 <= self->text_size) return FB_OK;
  code = fb_arrow_memory_reserve(&kept, self->text_size);
  if (code < 0) return code;
  for (uint32_t slot = 0; slot < self->count; slot++) {
    for (uint32_t i = 0; i < self->lists[slot].count; i++) {
      int64_t* entry = rank_entry_at(self, &self->lists[slot], i);
      for (uint32_t word = 0; word < self->words; word++) {
        if (!is_order_text(self, word)) continue;
        size_t size = (size_t)entry[word + 1];
        if (size > 0) memcpy(kept.data + kept.size, self->text_bytes.data + entry[word], size);
        entry[word] = (int64_t)kept.size;
        kept.size += size;
      }
    }
  }
  fb_arrow_memory_free(&self->text_bytes);
  self->text_bytes = kept;
  return FB_OK;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

/* Below zero, zero, above: how an order of a batch stands to that of an entry. */
static int compare_orders(const struct fb_slot_ranks* self, const int64_t* order, const int64_t* entry) {
  for (uint32_t word = 0; word < self->words; word++) {
    if (is_order_text(self, word)) {
      const uint8_t* text = (const uint8_t*)(uintptr_t)order[word];
      size_t size = (size_t)order[word + 1], other_size = (size_t)entry[word + 1];
      size_t both = size < other_size ? size : other_size;
      int found = both > 0 ? memcmp(text, self->text_bytes.data + entry[word], both) : 0;
      if (found == 0) found = (size > other_size) - (size < other_size);
      if (found != 0) return self->descending >> word & 1 ? -found : found;
      word++; /* past the size */
    } else if (order[word] != entry[word]) {
      return order[word] < entry[word] ? -1 : 1;
    }
  }
  return 0;
}

/* Whether a row that comes now stands before an entry. */
static inline bool is_order_before(const struct fb_slot_ranks* self, const int64_t* order, const int64_t* entry) {
  int found = compare_orders(self, order, entry);

  return found < 0 || (found == 0 && self->is_newest_first);
}

static inline struct slot_change* slot_changes_of(const struct fb_slot_ranks* self) {
  return (struct slot_change*)(void*)self->changes.data;
}

static inline size_t slot_change_count(const struct fb_slot_ranks* self) {
  return self->changes.size / sizeof(struct slot_change);
}

/* Notes what a slot has before its first change by this batch. */
static int note_slot_change(struct fb_slot_ranks* self, uint32_t slot) {
  struct fb_slot_rank_list* list = &self->lists[slot];
  size_t size = list->count * sizeof(int64_t);
  struct slot_change* change;
  int code;

  if (list->change < slot_change_count(self) && slot_changes_of(self)[list->change].slot == slot) return FB_OK;
  code = fb_arrow_memory_reserve(&self->changes, sizeof *change);
  if (code < 0) return code;
  code = fb_arrow_memory_reserve(&self->before, size);
  if (code < 0) return code;
  list->change = (uint32_t)slot_change_count(self);
  change = slot_changes_of(self) + list->change;
  *change = (struct slot_change){slot, list->count, self->before.size / sizeof(int64_t)};
  for (uint32_t i = 0; i < list->count; i++)
    memcpy(self->before.data + self->before.size + i * sizeof(int64_t), rank_number_at(self, list, i), sizeof(int64_t));
  self->changes.size += sizeof *change;
  self->before.size += size;
  return FB_OK;
}

static void drop_last_rank(struct fb_slot_ranks* self, struct fb_slot_rank_list* list, struct fb_slot_rank_rows* rows) {
  int64_t number = *rank_number_at(self, list, --list->count);

  if (self->texts != 0) drop_order_texts(self, rank_entry_at(self, list, list->count));
  if (number < rows->base) rows->lost++;
  else rows->kept[number - rows->base] = 0;
}

/* Where in its slot a row has its place. */
static uint32_t rank_place_of(const struct fb_slot_ranks* self, const struct fb_slot_rank_list* list,
                              const int64_t* order) {
  uint32_t low = 0, high = list->count;

  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (is_order_before(self, order, rank_entry_at(self, list, middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}

static int add_ranked_row(struct fb_slot_ranks* self, struct fb_slot_rank_rows* rows, int64_t row) {
  const int64_t* order = rows->orders + (size_t)row * self->words;
  struct fb_slot_rank_list* list = &self->lists[rows->slots[row]];
  int64_t* entry;
  uint32_t place;
  int code;

  rows->kept[row] = 0;
  if (list->count == self->limit && !is_order_before(self, order, rank_entry_at(self, list, list->count - 1)))
    return FB_OK;
  code = note_slot_change(self, rows->slots[row]);
  if (code < 0) return code;
  place = rank_place_of(self, list, order);
  if (list->count == self->limit) drop_last_rank(self, list, rows);
  else code = make_rank_room(self, list);
  if (code < 0) return code;
  entry = rank_entry_at(self, list, place);
  memmove(entry + entry_width(self), entry, (list->count - place) * entry_width(self) * sizeof *entry);
  if (self->words > 0) memcpy(entry, order, self->words * sizeof *entry);
  entry[self->words] = rows->base + row;
  list->count++;
  rows->kept[row] = 1;
  return self->texts == 0 ? FB_OK : keep_order_texts(self, entry);
}

/* Has the memory fetched of rows that come soon: of many slots, each lies somewhere else. */
static inline void fetch_ranks_ahead(const struct fb_slot_ranks* self, const struct fb_slot_rank_rows* rows,
                                     int64_t row) {
  if (row + FETCH_LISTS < rows->count) __builtin_prefetch(&self->lists[rows->slots[row + FETCH_LISTS]], 1);
  if (row + FETCH_ENTRIES < rows->count) {
    const struct fb_slot_rank_list* list = &self->lists[rows->slots[row + FETCH_ENTRIES]];
    size_t start = list->start * sizeof(int64_t), size = list->count * entry_width(self) * sizeof(int64_t);
    for (size_t at = 0; at < size && at < FETCH_BYTES; at += 64) __builtin_prefetch(self->blocks.data + start + at, 1);
  }
}

int fb_slot_ranks_add(struct fb_slot_ranks* self, struct fb_slot_rank_rows* rows) {
  const struct slot_change* change;
  int64_t place = 0;

  self->changes.size = self->before.size = 0;
  rows->lost = 0;
  for (int64_t row = 0; row < rows->count; row++) {
    int code;
    fetch_ranks_ahead(self, rows, row);
    code = add_ranked_row(self, rows, row);
    if (code < 0) return code;
  }
  for (int64_t row = 0; row < rows->count; row++) {
    rows->places[row] = place;
    place += rows->kept[row];
  }
  change = slot_changes_of(self);
  for (const struct slot_change* end = change + slot_change_count(self); change < end; change++) {
    for (uint32_t i = 0; i < self->lists[change->slot].count; i++) {
      int64_t* number = rank_number_at(self, &self->lists[change->slot], i);
      if (*number >= rows->base) *number = rows->base + rows->places[*number - rows->base];
    }
  }
  return compact_order_texts(self);
}

/* ---- changes ---------------------------------------------------------------------------------------- */

int64_t fb_slot_ranks_changes_room(const struct fb_slot_ranks* self) {
  const struct slot_change* change = slot_changes_of(self);
  int64_t room = 0;

  for (const struct slot_change* end = change + slot_change_count(self); change < end; change++)
    room += (int64_t)change->count + self->lists[change->slot].count;
  return room;
}

static void note_rank_change(struct fb_slot_rank_changes* self, uint32_t slot, uint32_t rank, int64_t number,
                             enum fb_slot_rank_kind kind) {
  self->slots[self->count] = slot;
  self->ranks[self->count] = rank;
  self->numbers[self->count] = number;
  self->kinds[self->count++] = (uint8_t)kind;
}

static void note_changed_ranks(const struct fb_slot_ranks* self, const struct slot_change* change,
                               const int64_t* before, struct fb_slot_rank_changes* changes) {
  const struct fb_slot_rank_list* list = &self->lists[change->slot];

  for (uint32_t i = 0; i < list->count; i++) {
    int64_t number = *rank_number_at(self, list, i);
    if (i >= change->count) note_rank_change(changes, change->slot, i + 1, number, FB_SLOT_RANK_INSERT);
    else if (before[i] != number) note_rank_change(changes, change->slot, i + 1, number, FB_SLOT_RANK_UPDATE);
  }
}

/* Rows that were there before stand in the same order now, so those that fell out are the last of them. */
static void note_changed_rows(const struct fb_slot_ranks* self, const struct slot_change* change, const int64_t* before,
                              struct fb_slot_rank_changes* changes) {
  const struct fb_slot_rank_list* list = &self->lists[change->slot];
  uint32_t stayed = 0;

  for (uint32_t i = 0; i < list->count; i++)
    if (stayed < change->count && before[stayed] == *rank_number_at(self, list, i)) stayed++;
  for (uint32_t i = stayed; i < change->count; i++)
    note_rank_change(changes, change->slot, 0, before[i], FB_SLOT_RANK_DELETE);
  stayed = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    int64_t number = *rank_number_at(self, list, i);
    if (stayed < change->count && before[stayed] == number) stayed++;
    else note_rank_change(changes, change->slot, i + 1, number, FB_SLOT_RANK_INSERT);
  }
}

void fb_slot_ranks_changes(const struct fb_slot_ranks* self, bool by_rank, struct fb_slot_rank_changes* changes) {
  const struct slot_change* change = slot_changes_of(self);

  changes->count = 0;
  for (const struct slot_change* end = change + slot_change_count(self); change < end; change++) {
    const int64_t* before = (const int64_t*)(const void*)self->before.data + change->start;
    (by_rank ? note_changed_ranks : note_changed_rows)(self, change, before, changes);
  }
}

/* ---- what is copied out ----------------------------------------------------------------------------- */

static inline const struct fb_slot_rank_list* chosen_rank_list(const struct fb_slot_ranks* self,
                                                               const struct fb_slot_choice* choice, int64_t i) {
  return &self->lists[choice->slots == NULL ? i : choice->slots[i]];
}

void fb_slot_ranks_counts(const struct fb_slot_ranks* self, const struct fb_slot_choice* choice, int64_t* to) {
  for (int64_t i = 0; i < choice->count; i++) to[i] = chosen_rank_list(self, choice, i)->count;
}

void fb_slot_ranks_numbers(const struct fb_slot_ranks* self, const struct fb_slot_choice* choice, int64_t* to) {
  for (int64_t i = 0; i < choice->count; i++) {
    const struct fb_slot_rank_list* list = chosen_rank_list(self, choice, i);
    for (uint32_t k = 0; k < list->count; k++) *to++ = *rank_number_at(self, list, k);
  }
}
