/* Any columns, slots and nulls: what an aggregate has of each slot is what a loop over single values finds.
 *
 * Input: 1 byte that says what is aggregated, then steps of 3 bytes and 2 bytes a row: how many rows, how often they come
 * one behind the other, where the column begins and whether it has nulls; then each row's slot and value. */
#include "check.h"
#include "columns/slot_aggregate.h"
#include "fuzz_replay.h"

#include <math.h>

#define SLOTS    7
#define ROWS     (15 * 80) /* of a step: more than a chunk */
#define STEPS    16
#define MAX_TEXT 300
#define OFFSETS  8

enum what { COUNT, SIGNED, UNSIGNED, FLOATS, WIDE, DEVIATIONS, NUMBERS, WIDES, TEXTS, FIRST, LAST, LISTS };

static const struct aggregate {
  enum what what;
  const char* format;
} AGGREGATES[] = {
    {COUNT, "l"},
    {SIGNED, "c"},
    {SIGNED, "s"},
    {SIGNED, "i"},
    {SIGNED, "l"},
    {UNSIGNED, "C"},
    {UNSIGNED, "S"},
    {UNSIGNED, "I"},
    {UNSIGNED, "L"},
    {FLOATS, "f"},
    {FLOATS, "g"},
    {WIDE, "c"},
    {WIDE, "l"},
    {WIDE, "L"},
    {WIDE, "d:38,2"},
    {WIDE, "d:9,2,32"},
    {NUMBERS, "b"},
    {NUMBERS, "c"},
    {NUMBERS, "s"},
    {NUMBERS, "i"},
    {NUMBERS, "l"},
    {NUMBERS, "C"},
    {NUMBERS, "S"},
    {NUMBERS, "I"},
    {NUMBERS, "L"},
    {NUMBERS, "f"},
    {NUMBERS, "g"},
    {NUMBERS, "tdD"},
    {NUMBERS, "ttu"},
    {WIDES, "d:38,2"},
    {TEXTS, "u"},
    {TEXTS, "U"},
    {TEXTS, "z"},
    {TEXTS, "w:5"},
    {FIRST, "l"},
    {LAST, "l"},
    {LISTS, "l"},
    {DEVIATIONS, "c"},
    {DEVIATIONS, "L"},
    {DEVIATIONS, "g"},
    {DEVIATIONS, "d:38,-3"},
};

/* A value as the model has it. */
struct value {
  __int128 number;
  double real;
  const uint8_t* text;
  size_t size;
};

static struct {
  bool seen, is_new;
  int64_t count;
  __int128 sum;
  double real_sum;
  struct value best;
  uint8_t text[MAX_TEXT];
  int64_t number, row; /* of the winner: under which it is kept, and which row of its step it was */
} model[SLOTS];

static struct fb_arrow_column column;
static struct value values[ROWS];
static uint8_t bytes[16 * (ROWS + OFFSETS)], texts[MAX_TEXT * 16], validity[(ROWS + OFFSETS) / 8 + 1], valid[ROWS];
static int64_t ends[ROWS + OFFSETS + 1], winner_rows[ROWS];
static int32_t short_ends[ROWS + OFFSETS + 1];
static uint32_t slots[ROWS];
static int64_t previous[STEPS * ROWS], listed[STEPS * ROWS], numbers[STEPS * ROWS];
static uint32_t listed_slots[STEPS * ROWS];
static int64_t listed_count;

/* ---- columns ---------------------------------------------------------------------------------------- */

static __int128 number_of(uint8_t byte) {
  static const uint64_t ENDS[] = {INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX, UINT64_C(10000000000000000000)};

  if (byte < 200) return byte - 100;
  if (byte < 228) return (__int128)ENDS[byte % 4] * (byte & 8 ? 1 : -1);
  return ((__int128)ENDS[3] * ENDS[3] - byte % 4) * (byte & 8 ? 1 : -1); /* 10 to the 38th, and less */
}

static double real_of(uint8_t byte) {
  static const double ODD[] = {-0.0, (double)NAN, -(double)NAN, (double)INFINITY, -(double)INFINITY, 1e308, 5e-324};

  return byte < 200 ? (byte - 100) / 4.0 : ODD[byte % 7];
}

/* Puts a value where the column has its row `at`, and gives it as it can be read there. */
static struct value put_value(int64_t at, uint8_t byte) {
  struct value value = {.number = number_of(byte), .real = real_of(byte)};
  uint32_t width = column.arrow.width;
  uint8_t* to = bytes + at * (int64_t)width;
  float narrow = (float)value.real;

  if (column.arrow.kind == FB_ARROW_BOOLEAN) {
    value.number = byte & 1;
    bytes[at / 8] = (uint8_t)((bytes[at / 8] & ~(1 << at % 8)) | (byte & 1) << at % 8);
  } else if (column.arrow.kind == FB_ARROW_FLOAT && width == 4) {
    memcpy(to, &narrow, 4);
    value.real = (double)narrow;
  } else if (column.arrow.kind == FB_ARROW_FLOAT) {
    memcpy(to, &value.real, 8);
  } else {
    memcpy(to, &value.number, width); /* the low bytes come first */
    if (width < 16) {
      uint64_t low = 0;
      memcpy(&low, to, width);
      if (column.arrow.kind == FB_ARROW_INTEGER && !column.arrow.is_signed) value.number = low;
      else value.number = (int64_t)(low << (64 - 8 * width)) >> (64 - 8 * width);
    }
  }
  return value;
}

static struct value put_text(int64_t row, uint8_t byte) {
  bool is_fixed = column.arrow.kind == FB_ARROW_FIXED_BINARY;
  size_t size = is_fixed ? column.arrow.width : byte % 3 == 0 ? byte : (size_t)byte % 5;
  const uint8_t* text = texts + byte % 16 * MAX_TEXT;

  if (is_fixed) memcpy(bytes + (column.offset + row) * (int64_t)size, text, size);
  return (struct value){.text = text, .size = size};
}

/* Texts that differ in their last bytes, and those that begin others. */
static void make_texts(void) {
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < MAX_TEXT; k++) texts[i * MAX_TEXT + k] = (uint8_t)(k < 2 ? 'a' : k < 4 ? i : k * i);
}

static void lay_texts(int64_t rows) {
  static uint8_t laid[ROWS * MAX_TEXT];
  int64_t end = 0;

  if (column.arrow.kind == FB_ARROW_FIXED_BINARY) return;
  memset(ends, 0, sizeof ends);
  memset(short_ends, 0, sizeof short_ends);
  for (int64_t i = 0; i < rows; i++) {
    memcpy(laid + end, values[i].text, values[i].size);
    end += (int64_t)values[i].size;
    ends[column.offset + i + 1] = end;
    short_ends[column.offset + i + 1] = (int32_t)end;
  }
  column.values = laid;
  column.offsets = column.arrow.kind == FB_ARROW_LARGE_TEXT ? (const uint8_t*)ends : (const uint8_t*)short_ends;
}

/* The rows of a step, which begins with these 3 bytes. */
static int64_t lay_rows(const uint8_t* data, bool is_text) {
  int64_t count = data[0] % 16, rows = count * (1 + data[1] % 80);

  column.offset = data[2] % OFFSETS;
  column.length = rows;
  column.values = bytes;
  column.validity = data[2] & 8 ? validity : NULL;
  for (int64_t i = 0; i < rows; i++) {
    const uint8_t* of_row = data + 3 + 2 * (i % count);
    int64_t at = column.offset + i;
    slots[i] = of_row[0] % SLOTS;
    valid[i] = column.validity == NULL || of_row[0] < 200;
    validity[at / 8] = (uint8_t)((validity[at / 8] & ~(1 << at % 8)) | valid[i] << at % 8);
    values[i] = is_text ? put_text(i, of_row[1]) : put_value(at, of_row[1]);
  }
  if (is_text) lay_texts(rows);
  return rows;
}

/* ---- the model -------------------------------------------------------------------------------------- */

/* NaN is the greatest, -0.0 is below 0.0. */
static int compare_reals(double one, double other) {
  if (isnan(one) || isnan(other)) return !!isnan(one) - !!isnan(other);
  if (one != other) return one < other ? -1 : 1;
  return !!signbit(other) - !!signbit(one);
}

static int compare(enum what what, const struct value* one, const struct value* other) {
  size_t both = one->size < other->size ? one->size : other->size;
  int order;

  if (what == TEXTS) {
    order = both > 0 ? memcmp(one->text, other->text, both) : 0;
    return order != 0 ? order : (one->size > other->size) - (one->size < other->size);
  }
  if (column.arrow.kind == FB_ARROW_FLOAT) return compare_reals(one->real, other->real);
  return (one->number > other->number) - (one->number < other->number);
}

/* Whether the row takes the place of what its slot has. */
static bool wins(enum what what, bool is_max, int64_t i) {
  int order;

  if (!valid[i]) return false;
  if (!model[slots[i]].seen || what == LAST) return true;
  if (what == FIRST) return false;
  order = compare(what, &values[i], &model[slots[i]].best);
  return is_max ? order > 0 : order < 0;
}

static void model_winners(enum what what, bool is_max, int64_t rows) {
  for (int i = 0; i < SLOTS; i++) model[i].is_new = false;
  for (int64_t i = 0; i < rows; i++) {
    if (!wins(what, is_max, i)) continue;
    model[slots[i]].best = values[i];
    if (what == TEXTS) { /* the texts of this step are gone with it */
      memcpy(model[slots[i]].text, values[i].text, values[i].size);
      model[slots[i]].best.text = model[slots[i]].text;
    }
    model[slots[i]].row = i;
    model[slots[i]].seen = model[slots[i]].is_new = true;
  }
}

/* How many rows are taken before a sum has no room. */
static int64_t model_sums(enum what what, int64_t rows) {
  const __int128 wide = (__int128)UINT64_C(10000000000000000000) * UINT64_C(10000000000000000000) - 1;
  const __int128 most = what == SIGNED ? INT64_MAX : what == UNSIGNED ? (__int128)UINT64_MAX : wide;
  const __int128 least = what == SIGNED ? INT64_MIN : what == UNSIGNED ? 0 : -wide;

  for (int64_t i = 0; i < rows; i++) {
    __int128 sum = model[slots[i]].sum, number = values[i].number;
    if (!valid[i]) continue;
    if (what == FLOATS) {
      model[slots[i]].real_sum += values[i].real;
    } else {
      if (__builtin_add_overflow(sum, number, &sum) || sum > most || sum < least) return i;
      model[slots[i]].sum = sum;
    }
    model[slots[i]].seen = true;
  }
  return rows;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static bool same_reals(double one, double other) {
  return memcmp(&one, &other, sizeof one) == 0 || (isnan(one) && isnan(other));
}

static void step_sums(struct fb_slot_aggregate* self, enum what what, int64_t rows) {
  static int64_t (*const SUMS[])(struct fb_slot_aggregate*, uint32_t, const uint32_t*,
                                 const struct fb_arrow_column*) = {
      [SIGNED] = fb_slot_aggregate_sum_signed,
      [UNSIGNED] = fb_slot_aggregate_sum_unsigned,
      [FLOATS] = fb_slot_aggregate_sum_floats,
      [WIDE] = fb_slot_aggregate_sum_wide,
  };
  int64_t taken = model_sums(what, rows);

  CHECK(SUMS[what](self, 1, slots, &column) == taken);
  for (uint32_t i = 0; i < SLOTS; i++) {
    const uint64_t* cell = self->cells + (size_t)i * self->words + 1;
    double real;
    memcpy(&real, cell, sizeof real);
    CHECK(self->seen[i] == model[i].seen && cell[-1] == 0);
    if (what == FLOATS) CHECK(same_reals(real, model[i].real_sum));
    else CHECK(memcmp(cell, &model[i].sum, what == WIDE ? 16 : 8) == 0);
  }
}

static void step_counts(struct fb_slot_aggregate* self, int64_t rows) {
  fb_slot_aggregate_count(self, 1, slots, column.validity == NULL ? NULL : valid, rows);
  for (int64_t i = 0; i < rows; i++) model[slots[i]].count += valid[i];
  for (uint32_t i = 0; i < SLOTS; i++) CHECK((int64_t)self->cells[i * self->words + 1] == model[i].count);
}

/* The words of all slots are states that make the same ones in an aggregate that has none. */
static void step_deviations(struct fb_slot_aggregate* self, int64_t rows) {
  static const uint32_t OWN[SLOTS] = {0, 1, 2, 3, 4, 5, 6};
  struct fb_slot_choice all = {.count = SLOTS};
  struct fb_arrow_column states[3] = {{.length = SLOTS}, {.length = SLOTS}, {.length = SLOTS}};
  struct fb_slot_aggregate merged = {.words = 3};
  uint64_t words[3][SLOTS];

  fb_slot_aggregate_deviate(self, slots, &column);
  for (int64_t i = 0; i < rows; i++) model[slots[i]].count += valid[i];
  for (uint32_t word = 0; word < 3; word++) {
    fb_slot_aggregate_take(self, word, 1, &all, words[word]);
    states[word].values = (const uint8_t*)words[word];
  }
  CHECK(fb_slot_aggregate_grow(&merged, SLOTS) == FB_OK);
  fb_slot_aggregate_merge_deviations(&merged, OWN, states);
  for (uint32_t i = 0; i < SLOTS; i++) {
    double one, other;
    CHECK((int64_t)self->cells[3 * i] == model[i].count && merged.cells[3 * i] == self->cells[3 * i]);
    CHECK(self->seen[i] == (model[i].count > 0) && merged.seen[i] == self->seen[i]);
    for (uint32_t word = 1; word < 3; word++) {
      memcpy(&one, self->cells + 3 * i + word, 8);
      memcpy(&other, merged.cells + 3 * i + word, 8);
      CHECK(same_reals(one, other));
      CHECK(word == 1 || !(one < 0));
    }
  }
  fb_slot_aggregate_clear(&merged);
}

static void check_texts(const struct fb_slot_aggregate* self) {
  static const int64_t BACKWARDS[SLOTS] = {6, 5, 4, 3, 2, 1, 0};
  struct fb_slot_choice choice = {.slots = BACKWARDS, .count = SLOTS};
  int64_t starts[SLOTS], end = 0;
  uint8_t taken[SLOTS * MAX_TEXT];

  for (int i = 0; i < SLOTS; i++) {
    starts[i] = end;
    end += (int64_t)self->cells[(size_t)BACKWARDS[i] * self->words + 2];
  }
  CHECK((size_t)end == self->text_bytes && end <= (int64_t)sizeof taken);
  fb_slot_aggregate_take_texts(self, 1, &choice, starts, taken);
  for (int i = 0; i < SLOTS; i++) {
    int64_t slot = BACKWARDS[i];
    CHECK(self->cells[(size_t)slot * self->words + 2] == model[slot].best.size);
    CHECK(model[slot].best.size == 0 || memcmp(taken + starts[i], model[slot].text, model[slot].best.size) == 0);
  }
}

static void step_winners(struct fb_slot_aggregate* self, enum what what, bool is_max, int64_t rows, int64_t* base) {
  static const enum fb_slot_order ORDERS[] = {
      [NUMBERS] = FB_SLOT_NUMBERS, [WIDES] = FB_SLOT_WIDE, [TEXTS] = FB_SLOT_TEXTS};
  struct fb_slot_winners winners = {.base = *base, .rows = winner_rows};
  const uint8_t* valid_or_all = column.validity == NULL ? NULL : valid;
  int64_t lost = 0, count = 0;
  bool had[SLOTS];

  for (int i = 0; i < SLOTS; i++) had[i] = model[i].seen;
  model_winners(what, is_max, rows);
  if (what == FIRST) fb_slot_aggregate_first(self, slots, valid_or_all, rows, &winners);
  else if (what == LAST) fb_slot_aggregate_last(self, slots, valid_or_all, rows, &winners);
  else {
    struct fb_slot_extreme how = {.order = ORDERS[what], .is_max = is_max, .word = 1};
    CHECK(fb_slot_aggregate_extreme(self, &how, slots, &column, &winners) == FB_OK);
  }
  for (int i = 0; i < SLOTS; i++) {
    int64_t number = (int64_t)self->cells[(size_t)i * self->words];
    CHECK(self->seen[i] == model[i].seen);
    if (!model[i].is_new) {
      CHECK(number == model[i].number);
      continue;
    }
    CHECK(number >= *base && number < *base + winners.count && winner_rows[number - *base] == model[i].row);
    model[i].number = number;
    lost += had[i];
    count++;
  }
  CHECK(winners.count == count && winners.lost == lost);
  *base += count;
  if (what == TEXTS) check_texts(self);
}

static void step_lists(struct fb_slot_aggregate* self, int64_t rows) {
  struct fb_slot_choice all = {.count = SLOTS};
  int64_t list_ends[SLOTS] = {0}, end = 0;

  fb_slot_aggregate_link(self, 1, slots, rows, listed_count, previous);
  for (int64_t i = 0; i < rows; i++) listed_slots[listed_count++] = slots[i];
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    for (int64_t i = 0; i < listed_count; i++)
      if (listed_slots[i] == slot) listed[end++] = i;
    list_ends[slot] = end;
  }
  fb_slot_aggregate_follow(self, 1, &all, previous, list_ends, numbers);
  CHECK(memcmp(numbers, listed, (size_t)end * sizeof *numbers) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const size_t COUNT_OF_ALL = sizeof AGGREGATES / sizeof *AGGREGATES;
  const struct aggregate* aggregate;
  struct fb_slot_aggregate self = {.words = 3};
  int64_t base = 0;
  bool is_max;

  if (size < 1) return 0;
  aggregate = &AGGREGATES[data[0] % COUNT_OF_ALL];
  is_max = data[0] / COUNT_OF_ALL % 2 == 1;
  memset(model, 0, sizeof model);
  memset(bytes, 0, sizeof bytes);
  listed_count = 0;
  make_texts();
  column = (struct fb_arrow_column){.path = ""};
  CHECK(fb_arrow_type_parse(aggregate->format, &column.arrow) == FB_OK);
  CHECK(fb_slot_aggregate_grow(&self, 1) == FB_OK && fb_slot_aggregate_grow(&self, SLOTS) == FB_OK);
  data++;
  size--;
  for (int step = 0; step < STEPS && size >= 3; step++) {
    size_t step_size = 3 + 2 * (size_t)(data[0] % 16);
    int64_t rows;
    if (size < step_size) break;
    rows = lay_rows(data, aggregate->what == TEXTS);
    CHECK(fb_slot_aggregate_has(&self, slots, rows));
    switch (aggregate->what) {
      case COUNT: step_counts(&self, rows); break;
      case DEVIATIONS: step_deviations(&self, rows); break;
      case LISTS: step_lists(&self, rows); break;
      case SIGNED:
      case UNSIGNED:
      case FLOATS:
      case WIDE: step_sums(&self, aggregate->what, rows); break;
      default: step_winners(&self, aggregate->what, is_max, rows, &base);
    }
    data += step_size;
    size -= step_size;
  }
  fb_slot_aggregate_clear(&self);
  CHECK(fb_slot_aggregate_bytes(&self) == 0);
  return 0;
}
