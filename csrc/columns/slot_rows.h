/* The rows that one side of a join keeps, by slot: of each row its time and a number, by which whoever has the columns
 * finds it.
 *
 * The rows of a slot lie in one array in the order of their times, equal ones as they came, so that those of a range of time
 * are found by halves and what is over lies in front. What comes in order goes behind it; what does not is put in
 * order once a batch, so that a batch moves a slot's array once, whatever its times are. Over the slots stands a tree of the
 * earliest time of each sixteen, then of each sixteen of those: what is over is found without a look at a slot that has
 * nothing to give.
 *
 * Owner:   the rows own their memory until clear(); slots and times are borrowed for one call.
 * Threads: one at a time. */
#ifndef FB_SLOT_ROWS_H
#define FB_SLOT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/errors.h"

#define FB_SLOT_ROWS_LEVELS 9 /* sixteens of sixteens: enough for 2^32 slots */

struct fb_slot_row {
  int64_t time;
  uint64_t mark; /* twice its number, and 1 more once it has had a partner */
};

struct fb_slot_row_list {
  union {
    struct fb_slot_row one; /* where there was never a second */
    struct fb_slot_row* rows;
  };
  uint32_t first;
  uint32_t count;
  uint32_t capacity; /* of `rows`; 0: there is at most the one row */
};

struct fb_slot_rows {
  struct fb_slot_row_list* lists; /* of each slot */
  uint32_t count;                 /* slots */
  size_t capacity;                /* slots that there is memory for */
  uint32_t levels;
  int64_t* earliest[FB_SLOT_ROWS_LEVELS]; /* of each slot, of each sixteen of them, and so on; INT64_MAX: none */
  size_t row_count;
  size_t row_bytes;
  struct fb_slot_row* spare; /* arrays that nobody has; the mark of each one's first row is where the next is */
  size_t spare_count;
};

/* Rows that are given out: arrays of the caller with room for `capacity`. Of those that are NULL nobody wants to know. */
struct fb_slot_rows_taken {
  int64_t capacity;
  int64_t count;
  int64_t* rows; /* of the probe */
  int64_t* numbers;
  int64_t* times;
  uint8_t* had_partner;
  uint32_t* slots;
};

/* Rows that look for partners: row i among those of slots[i] from times[i] + lower to times[i] + upper, both included. What
 * is beyond the ends of time is at the ends. */
struct fb_slot_rows_probe {
  const uint32_t* slots;
  const int64_t* times;
  int64_t count;
  int64_t lower;
  int64_t upper;
  uint8_t* had_partner; /* of each row: set to 1 where there is one; NULL: nobody wants to know, nor do the partners */
  int64_t row;          /* where to go on; at `count` all is done */
  uint32_t given;       /* partners of that row that were given */
};

/* At least `count` slots; new ones are empty. FB_ENOMEM. */
int fb_slot_rows_grow(struct fb_slot_rows* self, uint32_t count);

/* No slots, and no memory. */
void fb_slot_rows_clear(struct fb_slot_rows* self);
size_t fb_slot_rows_bytes(const struct fb_slot_rows* self);

/* Whether all slots are below the count. */
bool fb_slot_rows_has(const struct fb_slot_rows* self, const uint32_t* slots, int64_t rows);

/* Adds rows under the numbers from `number` on; `had_partner` NULL: none has had one. FB_ENOMEM, or FB_ETOO_LARGE for more
 * than a billion rows of a slot: some rows may be in. */
int fb_slot_rows_insert(struct fb_slot_rows* self, const uint32_t* slots, const int64_t* times,
                        const uint8_t* had_partner, int64_t rows, int64_t number);

/* Gives the pairs of a row of the probe and a partner, as many as there is room for. */
void fb_slot_rows_pairs(struct fb_slot_rows* self, struct fb_slot_rows_probe* probe, struct fb_slot_rows_taken* taken);

/* Gives such pairs, each partner once, and removes the partners. */
void fb_slot_rows_withdraw(struct fb_slot_rows* self, struct fb_slot_rows_probe* probe,
                           struct fb_slot_rows_taken* taken);

/* For each row of the probe, the number of its earliest partner; -1: it has none. */
void fb_slot_rows_find(const struct fb_slot_rows* self, const struct fb_slot_rows_probe* probe, int64_t* numbers);

/* Gives rows up to the time `limit`, as many as there is room for, and removes them. Fewer than that: there are no more. */
void fb_slot_rows_expire(struct fb_slot_rows* self, int64_t limit, struct fb_slot_rows_taken* taken);

/* Where a walk through the slots goes on. */
struct fb_slot_rows_cursor {
  uint32_t slot;
  uint32_t given; /* rows of that slot */
};

/* Gives rows from `lower` to `upper`, slot by slot, as many as there is room for. Fewer than that: there are no more. */
void fb_slot_rows_between(const struct fb_slot_rows* self, int64_t lower, int64_t upper,
                          struct fb_slot_rows_cursor* cursor, struct fb_slot_rows_taken* taken);

/* The number of the earliest row of each slot; -1: it has none. */
void fb_slot_rows_first(const struct fb_slot_rows* self, int64_t* numbers);

/* The earliest time of all; INT64_MAX: there is no row. */
int64_t fb_slot_rows_earliest(const struct fb_slot_rows* self);

/* Keeps some slots, each named once, which get the numbers 0, 1 and so on; the rows of all others are gone. FB_ENOMEM leaves
 * all as it was. */
int fb_slot_rows_keep(struct fb_slot_rows* self, const uint32_t* slots, uint32_t count);

#endif
