#include "columns/slot_aggregate.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK_ROWS      1024
#define FIRST_CAPACITY  1024
#define MIN_TEXTS_BYTES (64u << 10) /* where fewer are, nobody looks for those that are no longer wanted */
#define SIGN_BIT        (UINT64_C(1) << 63)

typedef __int128 wide_sum;

/* Some rows of a column, and their values in the array of one type. */
struct value_chunk {
  int64_t first;
  uint32_t count;
  const uint8_t* valid; /* NULL: all are */
  uint8_t valid_bytes[CHUNK_ROWS];
  int64_t numbers[CHUNK_ROWS];
  double floats[CHUNK_ROWS];
  wide_sum wides[CHUNK_ROWS];
};

/* ---- memory ----------------------------------------------------------------------------------------- */

int fb_slot_aggregate_grow(struct fb_slot_aggregate* self, uint32_t count) {
  size_t capacity = self->capacity == 0 ? FIRST_CAPACITY : self->capacity, width = self->words * sizeof *self->cells;
  uint64_t* cells;
  uint8_t* seen;

  if (count > self->capacity) {
    while (capacity < count) capacity *= 2;
    cells = realloc(self->cells, capacity * width);
    if (cells == NULL) return FB_ENOMEM;
    self->cells = cells;
    seen = realloc(self->seen, capacity);
    if (seen == NULL) return FB_ENOMEM;
    self->seen = seen;
    self->capacity = capacity;
  }
  if (count > self->count) {
    /* Not all of a new block at once, whose pages the system makes when they are first touched. */
    memset((uint8_t*)self->cells + self->count * width, 0, (count - self->count) * width);
    memset(self->seen + self->count, 0, count - self->count);
    self->count = count;
  }
  return FB_OK;
}

void fb_slot_aggregate_clear(struct fb_slot_aggregate* self) {
  free(self->cells);
  free(self->seen);
  fb_arrow_memory_free(&self->texts);
  *self = (struct fb_slot_aggregate){.words = self->words};
}

size_t fb_slot_aggregate_bytes(const struct fb_slot_aggregate* self) {
  return self->capacity * (self->words * sizeof *self->cells + 1) + self->texts.capacity;
}

bool fb_slot_aggregate_has(const struct fb_slot_aggregate* self, const uint32_t* slots, int64_t rows) {
  uint32_t greatest = 0;

  for (int64_t i = 0; i < rows; i++) greatest = slots[i] > greatest ? slots[i] : greatest;
  return rows == 0 || greatest < self->count;
}

static inline uint64_t* cell_of(const struct fb_slot_aggregate* self, uint32_t slot, uint32_t word) {
  return self->cells + (size_t)slot * self->words + word;
}

/* ---- chunks of values ------------------------------------------------------------------------------- */

/* The rows behind those of the chunk; false: there are none. */
static bool next_chunk(struct value_chunk* self, const struct fb_arrow_column* column) {
  int64_t left = column->length - (self->first += self->count);

  self->count = left < CHUNK_ROWS ? (uint32_t)left : CHUNK_ROWS;
  self->valid = column->validity == NULL ? NULL : self->valid_bytes;
  for (uint32_t i = 0; column->validity != NULL && i < self->count; i++)
    self->valid_bytes[i] = fb_arrow_column_bit(column->validity, column->offset + self->first + i);
  return left > 0;
}

static inline bool is_valid(const struct value_chunk* self, uint32_t i) {
  return self->valid == NULL || self->valid[i] != 0;
}

#define FB_DEFINE_READ(name, type, result)                                            \
  static void read_##name(const uint8_t* from, uint32_t count, result* restrict to) { \
    for (uint32_t i = 0; i < count; i++) {                                            \
      type value;                                                                     \
      memcpy(&value, from + sizeof value * i, sizeof value);                          \
      to[i] = (result)value;                                                          \
    }                                                                                 \
  }
FB_DEFINE_READ(int8, int8_t, int64_t)
FB_DEFINE_READ(int16, int16_t, int64_t)
FB_DEFINE_READ(int32, int32_t, int64_t)
FB_DEFINE_READ(int64, int64_t, int64_t)
FB_DEFINE_READ(uint8, uint8_t, int64_t)
FB_DEFINE_READ(uint16, uint16_t, int64_t)
FB_DEFINE_READ(uint32, uint32_t, int64_t)
FB_DEFINE_READ(float, float, double)
FB_DEFINE_READ(double, double, double)
FB_DEFINE_READ(int128, wide_sum, wide_sum)

static const uint8_t* start_of_chunk(const struct value_chunk* self, const struct fb_arrow_column* column) {
  return column->values + (column->offset + self->first) * (int64_t)column->arrow.width;
}

static bool is_unsigned(const struct fb_arrow_column* column) {
  return column->arrow.kind == FB_ARROW_INTEGER && !column->arrow.is_signed;
}

/* Numbers of up to 8 bytes that are no floating-point ones; the bits of those of 8 that have no sign. */
static void read_numbers(struct value_chunk* self, const struct fb_arrow_column* column) {
  const uint8_t* from = start_of_chunk(self, column);
  bool is_positive = is_unsigned(column);
  int64_t* to = self->numbers;

  switch (column->arrow.width) {
    case 1: (is_positive ? read_uint8 : read_int8)(from, self->count, to); break;
    case 2: (is_positive ? read_uint16 : read_int16)(from, self->count, to); break;
    case 4: (is_positive ? read_uint32 : read_int32)(from, self->count, to); break;
    case 8: read_int64(from, self->count, to); break;
    default:
      for (uint32_t i = 0; i < self->count; i++)
        to[i] = fb_arrow_column_bit(column->values, column->offset + self->first + i);
  }
}

/* Decimals and integers. */
static void read_wides(struct value_chunk* self, const struct fb_arrow_column* column) {
  if (column->arrow.width == 16) {
    read_int128(start_of_chunk(self, column), self->count, self->wides);
    return;
  }
  read_numbers(self, column);
  for (uint32_t i = 0; i < self->count; i++)
    self->wides[i] = is_unsigned(column) ? (wide_sum)(uint64_t)self->numbers[i] : (wide_sum)self->numbers[i];
}

/* 10 to the power of a decimal's scale, which is below zero where its digits stand for more than ones. */
static double power_of_ten(int32_t scale) {
  double power = 1;

  for (int32_t i = scale < 0 ? -scale : scale; i > 0; i--) power *= 10;
  return scale < 0 ? 1 / power : power;
}

/* Numbers of any kind. */
static void read_floats(struct value_chunk* self, const struct fb_arrow_column* column) {
  double unit = 1;

  if (column->arrow.kind == FB_ARROW_FLOAT) {
    if (column->arrow.width == 4) read_float(start_of_chunk(self, column), self->count, self->floats);
    else read_double(start_of_chunk(self, column), self->count, self->floats);
    return;
  }
  read_wides(self, column);
  if (column->arrow.kind == FB_ARROW_DECIMAL) unit = power_of_ten(column->arrow.scale);
  for (uint32_t i = 0; i < self->count; i++) self->floats[i] = (double)self->wides[i] / unit;
}

/* Numbers that compare as the values do. */
static void read_orders(struct value_chunk* self, const struct fb_arrow_column* column, bool is_max) {
  uint64_t flipped = is_max ? UINT64_MAX : 0;
  int64_t* to = self->numbers;

  if (column->arrow.kind == FB_ARROW_FLOAT) {
    read_floats(self, column);
    for (uint32_t i = 0; i < self->count; i++) {
      double value = isnan(self->floats[i]) ? (double)NAN : self->floats[i];
      uint64_t bits;
      memcpy(&bits, &value, sizeof bits);
      if (isnan(value)) bits &= ~SIGN_BIT;
      to[i] = (int64_t)(bits ^ (bits >> 63) * (SIGN_BIT - 1));
    }
  } else {
    read_numbers(self, column);
    if (is_unsigned(column)) flipped ^= column->arrow.width == 8 ? SIGN_BIT : 0;
  }
  for (uint32_t i = 0; i < self->count; i++) to[i] = (int64_t)((uint64_t)to[i] ^ flipped);
}

/* ---- counts and sums -------------------------------------------------------------------------------- */

void fb_slot_aggregate_count(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, const uint8_t* valid,
                             int64_t rows) {
  if (valid == NULL)
    for (int64_t i = 0; i < rows; i++) ++*cell_of(self, slots[i], word);
  else
    for (int64_t i = 0; i < rows; i++) *cell_of(self, slots[i], word) += valid[i];
}

static inline bool add_floats(double one, double other, double* sum) {
  *sum = one + other;
  return false;
}

static inline bool add_wides(wide_sum one, wide_sum other, wide_sum* sum) {
  const wide_sum limit = (wide_sum)UINT64_C(10000000000000000000) * UINT64_C(10000000000000000000); /* 38 digits */

  return __builtin_add_overflow(one, other, sum) || *sum >= limit || *sum <= -limit;
}

#define FB_DEFINE_SUM(name, type, values, read, add)                                                         \
  int64_t fb_slot_aggregate_sum_##name(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, \
                                       const struct fb_arrow_column* column) {                               \
    struct value_chunk chunk;                                                                                \
    chunk.first = chunk.count = 0;                                                                           \
    while (next_chunk(&chunk, column)) {                                                                     \
      read(&chunk, column);                                                                                  \
      for (uint32_t i = 0; i < chunk.count; i++) {                                                           \
        uint32_t slot = slots[chunk.first + i];                                                              \
        uint64_t* cell = cell_of(self, slot, word);                                                          \
        type sum;                                                                                            \
        if (!is_valid(&chunk, i)) continue;                                                                  \
        memcpy(&sum, cell, sizeof sum);                                                                      \
        if (add(sum, (type)chunk.values[i], &sum)) return chunk.first + i;                                   \
        memcpy(cell, &sum, sizeof sum);                                                                      \
        self->seen[slot] = 1;                                                                                \
      }                                                                                                      \
    }                                                                                                        \
    return column->length;                                                                                   \
  }
FB_DEFINE_SUM(signed, int64_t, numbers, read_numbers, __builtin_add_overflow)
FB_DEFINE_SUM(unsigned, uint64_t, numbers, read_numbers, __builtin_add_overflow)
FB_DEFINE_SUM(floats, double, floats, read_floats, add_floats)
FB_DEFINE_SUM(wide, wide_sum, wides, read_wides, add_wides)

/* ---- deviations ------------------------------------------------------------------------------------- */

struct deviation {
  int64_t count;
  double mean;
  double squares;
};

static void merge_deviation(struct fb_slot_aggregate* self, uint32_t slot, struct deviation other) {
  uint64_t* cell = cell_of(self, slot, 0);
  double difference, count;
  struct deviation own;

  memcpy(&own, cell, sizeof own);
  count = (double)own.count + (double)other.count;
  difference = other.mean - own.mean;
  if (own.count == 0) own.mean = other.mean;
  else own.mean += difference * ((double)other.count / count);
  own.squares += other.squares;
  if (own.count > 0) own.squares += difference * difference * ((double)own.count * (double)other.count / count);
  own.count += other.count;
  memcpy(cell, &own, sizeof own);
  self->seen[slot] = 1;
}

void fb_slot_aggregate_deviate(struct fb_slot_aggregate* self, const uint32_t* slots,
                               const struct fb_arrow_column* column) {
  struct value_chunk chunk;

  chunk.first = chunk.count = 0;
  while (next_chunk(&chunk, column)) {
    read_floats(&chunk, column);
    for (uint32_t i = 0; i < chunk.count; i++)
      if (is_valid(&chunk, i)) merge_deviation(self, slots[chunk.first + i], (struct deviation){1, chunk.floats[i], 0});
  }
}

void fb_slot_aggregate_merge_deviations(struct fb_slot_aggregate* self, const uint32_t* slots,
                                        const struct fb_arrow_column* columns) {
  for (int64_t i = 0; i < columns[0].length; i++) {
    struct deviation other;
    memcpy(&other.count, columns[0].values + 8 * (columns[0].offset + i), 8);
    if (fb_arrow_column_is_marked_null(&columns[0], i) || other.count <= 0) continue;
    memcpy(&other.mean, columns[1].values + 8 * (columns[1].offset + i), 8);
    memcpy(&other.squares, columns[2].values + 8 * (columns[2].offset + i), 8);
    merge_deviation(self, slots[i], other);
  }
}

/* ---- winners ---------------------------------------------------------------------------------------- */

/* Called before the slot is marked as seen. */
static inline void note_winner(struct fb_slot_aggregate* self, struct fb_slot_winners* winners, uint32_t slot,
                               int64_t row) {
  uint64_t* number = cell_of(self, slot, 0);

  if (winners == NULL) return;
  if (self->seen[slot] && (int64_t)*number >= winners->base) {
    winners->rows[(int64_t)*number - winners->base] = row;
    return;
  }
  winners->lost += self->seen[slot];
  *number = (uint64_t)(winners->base + winners->count);
  winners->rows[winners->count++] = row;
}

void fb_slot_aggregate_first(struct fb_slot_aggregate* self, const uint32_t* slots, const uint8_t* valid, int64_t rows,
                             struct fb_slot_winners* winners) {
  for (int64_t i = 0; i < rows; i++) {
    if (self->seen[slots[i]] || (valid != NULL && !valid[i])) continue;
    note_winner(self, winners, slots[i], i);
    self->seen[slots[i]] = 1;
  }
}

void fb_slot_aggregate_last(struct fb_slot_aggregate* self, const uint32_t* slots, const uint8_t* valid, int64_t rows,
                            struct fb_slot_winners* winners) {
  for (int64_t i = 0; i < rows; i++) {
    if (valid != NULL && !valid[i]) continue;
    note_winner(self, winners, slots[i], i);
    self->seen[slots[i]] = 1;
  }
}

/* ---- extremes --------------------------------------------------------------------------------------- */

static void find_extreme_numbers(struct fb_slot_aggregate* self, const struct fb_slot_extreme* how,
                                 const uint32_t* slots, const struct fb_arrow_column* column,
                                 struct fb_slot_winners* winners) {
  struct value_chunk chunk;

  chunk.first = chunk.count = 0;
  while (next_chunk(&chunk, column)) {
    read_orders(&chunk, column, how->is_max);
    for (uint32_t i = 0; i < chunk.count; i++) {
      uint32_t slot = slots[chunk.first + i];
      uint64_t* cell = cell_of(self, slot, how->word);
      if (!is_valid(&chunk, i) || (self->seen[slot] && chunk.numbers[i] >= (int64_t)*cell)) continue;
      *cell = (uint64_t)chunk.numbers[i];
      note_winner(self, winners, slot, chunk.first + i);
      self->seen[slot] = 1;
    }
  }
}

static void find_extreme_wides(struct fb_slot_aggregate* self, const struct fb_slot_extreme* how, const uint32_t* slots,
                               const struct fb_arrow_column* column, struct fb_slot_winners* winners) {
  wide_sum flipped = how->is_max ? -1 : 0;
  struct value_chunk chunk;

  chunk.first = chunk.count = 0;
  while (next_chunk(&chunk, column)) {
    read_wides(&chunk, column);
    for (uint32_t i = 0; i < chunk.count; i++) {
      uint32_t slot = slots[chunk.first + i];
      uint64_t* cell = cell_of(self, slot, how->word);
      wide_sum value = chunk.wides[i] ^ flipped, best;
      memcpy(&best, cell, sizeof best);
      if (!is_valid(&chunk, i) || (self->seen[slot] && value >= best)) continue;
      memcpy(cell, &value, sizeof value);
      note_winner(self, winners, slot, chunk.first + i);
      self->seen[slot] = 1;
    }
  }
}

/* Below zero, zero, above: as the bytes compare, a text before those that it begins. */
static int compare_texts(const uint8_t* one, size_t size, const uint8_t* other, size_t other_size) {
  size_t both = size < other_size ? size : other_size;
  int found = both > 0 ? memcmp(one, other, both) : 0;

  return found != 0 ? found : (size > other_size) - (size < other_size);
}

/* In the place of the text before it, if it fits there. */
static int keep_text(struct fb_slot_aggregate* self, uint64_t* cell, const uint8_t* text, size_t size) {
  if (size > cell[1]) {
    int code = fb_arrow_memory_reserve(&self->texts, size);
    if (code < 0) return code;
    cell[0] = self->texts.size;
    self->texts.size += size;
  }
  if (size > 0) memcpy(self->texts.data + cell[0], text, size);
  self->text_bytes = self->text_bytes - (size_t)cell[1] + size;
  cell[1] = size;
  return FB_OK;
}

/* Takes out the bytes that no slot points to, once they are more than half. */
static int compact_texts(struct fb_slot_aggregate* self, uint32_t word) {
  struct fb_arrow_memory kept = {0};
  int code;

  if (self->texts.size < MIN_TEXTS_BYTES || self->texts.size / 2 <= self->text_bytes) return FB_OK;
  code = fb_arrow_memory_reserve(&kept, self->text_bytes);
  if (code < 0) return code;
  for (uint32_t slot = 0; slot < self->count; slot++) {
    uint64_t* cell = cell_of(self, slot, word);
    if (cell[1] > 0) memcpy(kept.data + kept.size, self->texts.data + cell[0], (size_t)cell[1]);
    cell[0] = kept.size;
    kept.size += (size_t)cell[1];
  }
  fb_arrow_memory_free(&self->texts);
  self->texts = kept;
  return FB_OK;
}

static int find_extreme_texts(struct fb_slot_aggregate* self, const struct fb_slot_extreme* how, const uint32_t* slots,
                              const struct fb_arrow_column* column, struct fb_slot_winners* winners) {
  for (int64_t row = 0; row < column->length; row++) {
    uint64_t* cell = cell_of(self, slots[row], how->word);
    const uint8_t* text;
    size_t size;
    int code;
    if (fb_arrow_column_is_marked_null(column, row)) continue;
    text = fb_arrow_column_bytes(column, row, &size);
    if (self->seen[slots[row]]) {
      const uint8_t* kept = cell[1] > 0 ? self->texts.data + cell[0] : NULL; /* there may be no texts yet */
      int order = compare_texts(text, size, kept, (size_t)cell[1]);
      if (how->is_max ? order <= 0 : order >= 0) continue;
    }
    code = keep_text(self, cell, text, size);
    if (code < 0) return code;
    note_winner(self, winners, slots[row], row);
    self->seen[slots[row]] = 1;
  }
  return compact_texts(self, how->word);
}

int fb_slot_aggregate_extreme(struct fb_slot_aggregate* self, const struct fb_slot_extreme* how, const uint32_t* slots,
                              const struct fb_arrow_column* column, struct fb_slot_winners* winners) {
  switch (how->order) {
    case FB_SLOT_NUMBERS: find_extreme_numbers(self, how, slots, column, winners); return FB_OK;
    case FB_SLOT_WIDE: find_extreme_wides(self, how, slots, column, winners); return FB_OK;
    default: return find_extreme_texts(self, how, slots, column, winners);
  }
}

/* ---- what is copied out ----------------------------------------------------------------------------- */

static inline uint32_t chosen_slot(const struct fb_slot_choice* self, int64_t i) {
  return (uint32_t)(self->slots == NULL ? i : self->slots[i]);
}

void fb_slot_aggregate_take(const struct fb_slot_aggregate* self, uint32_t word, uint32_t words,
                            const struct fb_slot_choice* choice, uint64_t* to) {
  for (int64_t i = 0; i < choice->count; i++) {
    const uint64_t* cell = cell_of(self, chosen_slot(choice, i), word);
    for (uint32_t k = 0; k < words; k++) *to++ = cell[k];
  }
}

void fb_slot_aggregate_take_seen(const struct fb_slot_aggregate* self, const struct fb_slot_choice* choice,
                                 uint8_t* to) {
  for (int64_t i = 0; i < choice->count; i++) to[i] = self->seen[chosen_slot(choice, i)];
}

void fb_slot_aggregate_take_texts(const struct fb_slot_aggregate* self, uint32_t word,
                                  const struct fb_slot_choice* choice, const int64_t* offsets, uint8_t* to) {
  for (int64_t i = 0; i < choice->count; i++) {
    const uint64_t* cell = cell_of(self, chosen_slot(choice, i), word);
    if (cell[1] > 0) memcpy(to + offsets[i], self->texts.data + cell[0], (size_t)cell[1]);
  }
}

void fb_slot_aggregate_take_wide(const struct fb_slot_aggregate* self, uint32_t word,
                                 const struct fb_slot_choice* choice, double* to) {
  for (int64_t i = 0; i < choice->count; i++) {
    wide_sum sum;
    memcpy(&sum, cell_of(self, chosen_slot(choice, i), word), sizeof sum);
    to[i] = (double)sum;
  }
}

void fb_slot_aggregate_link(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, int64_t rows,
                            int64_t base, int64_t* previous) {
  for (int64_t i = 0; i < rows; i++) {
    uint64_t* last = cell_of(self, slots[i], word);
    previous[base + i] = (int64_t)*last;
    *last = (uint64_t)(base + i + 1);
  }
}

void fb_slot_aggregate_follow(const struct fb_slot_aggregate* self, uint32_t word, const struct fb_slot_choice* choice,
                              const int64_t* previous, const int64_t* ends, int64_t* numbers) {
  for (int64_t i = 0; i < choice->count; i++) {
    uint32_t slot = (uint32_t)(choice->slots == NULL ? i : choice->slots[i]);
    int64_t at = ends[i];
    for (int64_t next = (int64_t)*cell_of(self, slot, word); next != 0; next = previous[next - 1])
      numbers[--at] = next - 1;
  }
}
