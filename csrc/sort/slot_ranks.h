/* The first rows of each slot by an order, up to a limit; the rows themselves are kept by others, under numbers.
 *
 * Numbers rise as rows come: `base` + k is the k-th row of a batch that is still among the first when the batch is over.
 * An order is some words, which compare as they stand, the first that differs counting; of equal rows the one that came
 * first is before the other, or behind it. A word may be where a text begins, and the next one its size.
 *
 * The entries of a slot lie side by side, best first, in a block of 2^bits of them; a slot that needs more moves to a
 * block of twice as many, and its old one waits for the next slot of that size.
 *
 * Owner:   the ranks own their memory until clear(); what a batch points to is borrowed for one call.
 * Threads: one at a time. */
#ifndef FB_SLOT_RANKS_H
#define FB_SLOT_RANKS_H

#include "columns/arrow_memory.h"
#include "columns/slot_aggregate.h"

#define FB_SLOT_RANKS_MAX_WORDS 32 /* of an order */
#define FB_SLOT_RANKS_SIZES     33

struct fb_slot_rank_list {
  uint64_t start; /* of its block, in words */
  uint32_t count; /* entries */
  uint32_t bits;  /* of its block; with a count of 0 it has none */
  uint32_t change;
};

struct fb_slot_ranks {
  uint32_t limit;       /* rows of a slot, at most; 1 or more */
  uint32_t words;       /* of an order */
  uint32_t texts;       /* bit w: word w is where a text begins */
  uint32_t descending;  /* bit w: such texts stand in the order from the greatest down */
  bool is_newest_first; /* of rows that are equal in the order */
  uint32_t count;       /* slots */
  size_t capacity;      /* of `lists` */
  struct fb_slot_rank_list* lists;
  struct fb_arrow_memory blocks;      /* entries: the words of the order, then the number */
  uint64_t free[FB_SLOT_RANKS_SIZES]; /* of each size: 1 + where a block is that nobody has; it begins with the next */
  struct fb_arrow_memory text_bytes;
  size_t text_size;               /* of `text_bytes`, those that an entry points to */
  struct fb_arrow_memory changes; /* of the latest batch: which slots it has changed */
  struct fb_arrow_memory before;  /* the numbers that these had */
};

/* Rows on their way in. */
struct fb_slot_rank_rows {
  const uint32_t* slots;
  const int64_t* orders; /* of each row its words; texts are where they lie in memory */
  int64_t count;
  int64_t base;
  uint8_t* kept;   /* for each row: 1 if it is among the first of its slot now */
  int64_t* places; /* for each row that is kept: how many before it are */
  int64_t lost;    /* numbers below `base` that no slot has any more */
};

enum fb_slot_rank_kind { FB_SLOT_RANK_INSERT = 0, FB_SLOT_RANK_UPDATE = 2, FB_SLOT_RANK_DELETE = 3 };

/* What a batch has changed: rows by slot and rank, each with a kind. */
struct fb_slot_rank_changes {
  uint32_t* slots;
  int64_t* ranks; /* from 1 on; 0 of rows that fell out */
  int64_t* numbers;
  uint8_t* kinds;
  int64_t count;
};

/* At least `count` slots; new ones are empty. FB_ENOMEM. */
int fb_slot_ranks_grow(struct fb_slot_ranks* self, uint32_t count);

/* No slots, and no memory. */
void fb_slot_ranks_clear(struct fb_slot_ranks* self);
size_t fb_slot_ranks_bytes(const struct fb_slot_ranks* self);

/* Takes rows of slots that there are. FB_ENOMEM: some rows were taken, and the ranks must be cleared. */
int fb_slot_ranks_add(struct fb_slot_ranks* self, struct fb_slot_rank_rows* rows);

/* How many changes there are at most. */
int64_t fb_slot_ranks_changes_room(const struct fb_slot_ranks* self);

/* What the latest batch has changed, by slot in the order of first change. With `by_rank` each rank that has another row:
 * INSERT if it had none, else UPDATE. Otherwise the rows that fell out, as DELETE, and those that came in, as INSERT. */
void fb_slot_ranks_changes(const struct fb_slot_ranks* self, bool by_rank, struct fb_slot_rank_changes* changes);

/* How many rows each slot has. */
void fb_slot_ranks_counts(const struct fb_slot_ranks* self, const struct fb_slot_choice* choice, int64_t* to);
/* Their numbers, best first, one slot behind the other. */
void fb_slot_ranks_numbers(const struct fb_slot_ranks* self, const struct fb_slot_choice* choice, int64_t* to);

#endif
