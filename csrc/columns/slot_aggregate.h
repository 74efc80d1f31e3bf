/* Accumulators of aggregates over dense slots: loops that take a column of values into the accumulators of its rows.
 *
 * An accumulator is some 8-byte words, at cells[slot * words]; what they mean is up to the loops that are called, each of
 * which is told its first word. Nulls are passed over. The loops look at no slot twice: the caller has asked has() first.
 *
 * Owner:   the aggregate owns its memory until clear(); columns and slots are borrowed for one call.
 * Threads: one at a time. */
#ifndef FB_SLOT_AGGREGATE_H
#define FB_SLOT_AGGREGATE_H

#include "columns/arrow_column.h"
#include "columns/arrow_memory.h"

struct fb_slot_aggregate {
  uint32_t words; /* of an accumulator */
  uint32_t count; /* slots */
  size_t capacity;
  uint64_t* cells;
  uint8_t* seen;                /* of each slot: 1 once it has had a value */
  struct fb_arrow_memory texts; /* of the words offset and size */
  size_t text_bytes;            /* of `texts`, those that a word points to */
};

/* Rows whose values are kept by others, under numbers that rise: `base` + k is row rows[k] of this batch. The number that a
 * slot has is in word 0. */
struct fb_slot_winners {
  int64_t base;
  int64_t* rows; /* room for every row of the batch */
  int64_t count;
  int64_t lost; /* numbers below `base` that no slot has any more */
};

/* How the values of a column are compared. */
enum fb_slot_order {
  FB_SLOT_NUMBERS, /* one word; all numbers of up to 8 bytes: NaN is the greatest, -0.0 is below 0.0 */
  FB_SLOT_WIDE,    /* two words: decimals of up to 16 bytes */
  FB_SLOT_TEXTS    /* two words, offset and size: by their bytes */
};

struct fb_slot_extreme {
  enum fb_slot_order order;
  bool is_max; /* numbers are then kept with every bit the other way */
  uint32_t word;
};

/* At least `count` slots; new ones are zero. FB_ENOMEM. */
int fb_slot_aggregate_grow(struct fb_slot_aggregate* self, uint32_t count);

/* No slots, and no memory. */
void fb_slot_aggregate_clear(struct fb_slot_aggregate* self);
size_t fb_slot_aggregate_bytes(const struct fb_slot_aggregate* self);

/* Whether all slots are below the count. */
bool fb_slot_aggregate_has(const struct fb_slot_aggregate* self, const uint32_t* slots, int64_t rows);

/* Counts the rows; those that are `valid`, a byte each, if that is not NULL. */
void fb_slot_aggregate_count(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, const uint8_t* valid,
                             int64_t rows);

/* Sums: of signed integers, of unsigned ones, of floating-point numbers, each in a word; of decimals and integers, in two.
 * Returned is how many rows were taken: fewer than there are if the sum of the next row's slot has no room for it, which for
 * a wide one is 38 digits. */
int64_t fb_slot_aggregate_sum_signed(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                     const struct fb_arrow_column* column);
int64_t fb_slot_aggregate_sum_unsigned(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                       const struct fb_arrow_column* column);
int64_t fb_slot_aggregate_sum_floats(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                     const struct fb_arrow_column* column);
int64_t fb_slot_aggregate_sum_wide(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                   const struct fb_arrow_column* column);

/* Words 0 to 2: how many, their mean, and the sum of squares of differences from it (Welford). */
void fb_slot_aggregate_deviate(struct fb_slot_aggregate* self, const uint32_t* slots,
                               const struct fb_arrow_column* column);
/* The same of such words, each a column (Chan). */
void fb_slot_aggregate_merge_deviations(struct fb_slot_aggregate* self, const uint32_t* slots,
                                        const struct fb_arrow_column* columns);

/* The least or the greatest values; of equal ones, the first. With `winners`, their rows, too. FB_ENOMEM: some rows were
 * taken. */
int fb_slot_aggregate_extreme(struct fb_slot_aggregate* self, const struct fb_slot_extreme* how, const uint32_t* slots,
                              const struct fb_arrow_column* column, struct fb_slot_winners* winners);

/* The first `valid` row of each slot that has none, or the last one. */
void fb_slot_aggregate_first(struct fb_slot_aggregate* self, const uint32_t* slots, const uint8_t* valid, int64_t rows,
                             struct fb_slot_winners* winners);
void fb_slot_aggregate_last(struct fb_slot_aggregate* self, const uint32_t* slots, const uint8_t* valid, int64_t rows,
                            struct fb_slot_winners* winners);

/* Which accumulators are copied out: those of some slots, or of the first `count`. */
struct fb_slot_choice {
  const int64_t* slots; /* NULL: 0, 1, 2 and so on */
  int64_t count;
};

/* `words` words of each, from `word` on. */
void fb_slot_aggregate_take(const struct fb_slot_aggregate* self, uint32_t word, uint32_t words,
                            const struct fb_slot_choice* choice, uint64_t* to);
void fb_slot_aggregate_take_seen(const struct fb_slot_aggregate* self, const struct fb_slot_choice* choice,
                                 uint8_t* to);
/* The text at words `word` and `word` + 1 of the i-th goes to offsets[i], where there is room for it. */
void fb_slot_aggregate_take_texts(const struct fb_slot_aggregate* self, uint32_t word,
                                  const struct fb_slot_choice* choice, const int64_t* offsets, uint8_t* to);
/* Wide sums as floating-point numbers. */
void fb_slot_aggregate_take_wide(const struct fb_slot_aggregate* self, uint32_t word,
                                 const struct fb_slot_choice* choice, double* to);

/* Lists of values that are kept by others, under numbers that rise. `previous` has, for each value, the number of the value
 * of the same slot before it, and word `word` of a slot that of its last one; both are 1 more, and 0 where there is none. */

/* Puts values under the numbers from `base` on behind those that their slots have. */
void fb_slot_aggregate_link(struct fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, int64_t rows,
                            int64_t base, int64_t* previous);
/* The numbers of the values of each chosen slot, which rise: those of the i-th end before numbers[ends[i]]. */
void fb_slot_aggregate_follow(const struct fb_slot_aggregate* self, uint32_t word, const struct fb_slot_choice* choice,
                              const int64_t* previous, const int64_t* ends, int64_t* numbers);

#endif
