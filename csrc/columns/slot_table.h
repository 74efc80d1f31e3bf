/* From the key columns of a batch to dense slots: each key, when it is first seen, gets the next number from 0 on.
 *
 * A key of one column with numbers of up to 8 bytes is kept as that number, every other one as bytes that are equal where
 * the keys are: of each column whether there is a value, and the value, behind its length if it has one of its own. Null
 * is a key like any other; -0.0 and 0.0 are two keys, and every NaN is the same one (Java's Double.equals).
 *
 * The index is a table of open addressing that doubles without a pause: the one before it stays until its entries have
 * moved, some with each chunk of rows. The hashes take in secret seeds at every step, so that whoever
 * chooses keys cannot choose where they fall.
 *
 * Owner:   the table owns its memory until clear(), and borrows the columns.
 * Threads: one at a time. */
#ifndef FB_SLOT_TABLE_H
#define FB_SLOT_TABLE_H

#include "columns/arrow_column.h"
#include "columns/arrow_memory.h"

#define FB_SLOT_TABLE_SEEDS 4
#define FB_SLOT_TABLE_CHUNK 1024 /* rows that are looked at together */

struct fb_slot_index {
  uint64_t* entries; /* 32 bits of the hash, and below them slot + 1; 0: free. NULL: there is no index */
  uint32_t bits;     /* there are 2^bits */
};

struct fb_slot_table {
  const struct fb_arrow_column* row; /* a struct of the key columns */
  uint64_t seeds[FB_SLOT_TABLE_SEEDS];
  bool is_number; /* the key is one number of up to 8 bytes */
  bool has_null;  /* of numbers: null was seen, and has null_slot */
  uint32_t null_slot;
  uint32_t count; /* keys */
  struct fb_slot_index index;
  struct fb_slot_index older;     /* what the index was before it doubled */
  size_t moved;                   /* keys whose home in `older` is before this entry of it are in `index` */
  struct fb_arrow_memory numbers; /* of each slot, 8 bytes */
  struct fb_arrow_memory bytes;   /* the keys that are no numbers, slot behind slot */
  struct fb_arrow_memory ends;    /* of each slot: where its bytes end, 8 bytes */
  struct fb_arrow_memory scratch;
};

/* Whether values of a column have a place in a key. */
bool fb_slot_table_takes(const struct fb_arrow_type* type);

/* An empty table over columns that fb_slot_table_takes(). */
void fb_slot_table_open(struct fb_slot_table* self, const struct fb_arrow_column* row, const uint64_t* seeds);

/* Forgets all keys and gives their memory back; the next key has slot 0. */
void fb_slot_table_clear(struct fb_slot_table* self);

/* The bytes of memory that the table has. */
size_t fb_slot_table_bytes(const struct fb_slot_table* self);

/* Finds the slots of all rows of the batch that the columns are bound to; of keys that are new, `new_rows` gets the rows,
 * in the order of their slots, and `new_count` how many. Both arrays have room for every row. FB_ENOMEM, or FB_ETOO_LARGE
 * for a text of 4 GiB or for more than 2.6 billion keys: the keys of some rows are in the table. */
int fb_slot_table_find_or_add(struct fb_slot_table* self, uint32_t* slots, int64_t* new_rows, int64_t* new_count);

#endif
