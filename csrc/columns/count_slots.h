/* Windows of so many rows of a key each: a row gets the slot under which accumulators have what its window comes to.
 *
 * Slots are given out one after the other and never again, as those of session_slots.
 *
 * Owner:   the table owns its memory until clear(); arrays are borrowed for one call.
 * Threads: one at a time. */
#ifndef FB_COUNT_SLOTS_H
#define FB_COUNT_SLOTS_H

#include "columns/arrow_memory.h"

struct fb_count_slots {
  int64_t size;                   /* rows of a window */
  uint32_t count;                 /* slots given out */
  uint32_t open_count;            /* windows that have rows and are not full */
  struct fb_arrow_memory windows; /* of each key */
};

/* Of some windows, a value each. */
struct fb_count_windows {
  int64_t* keys;
  int64_t* slots;
  int64_t* rows;
};

/* A table without windows. */
void fb_count_slots_open(struct fb_count_slots* self, int64_t size);
/* Forgets all windows, and gives the memory back. */
void fb_count_slots_clear(struct fb_count_slots* self);
size_t fb_count_slots_bytes(const struct fb_count_slots* self);

/* Puts rows into the windows of their keys, which are below `key_count`. `full` gets the windows that they fill, in this
 * order, and has room for every row; `full_count` is how many. Nothing has changed after FB_EARGUMENT, for a key,
 * FB_ETOO_LARGE, for more than 2^32 - 2 slots, or FB_ENOMEM. */
int fb_count_slots_add(struct fb_count_slots* self, const uint32_t* keys, int64_t rows, uint32_t key_count,
                       uint32_t* slots, const struct fb_count_windows* full, int64_t* full_count);

/* The windows that are not full; there is room for `open_count`. */
void fb_count_slots_all(const struct fb_count_slots* self, const struct fb_count_windows* to);

/* Opens windows again that fb_count_slots_all() gave, of keys that have none, with new slots. Errors as of
 * fb_count_slots_add(). */
int fb_count_slots_restore(struct fb_count_slots* self, const struct fb_count_windows* windows, int64_t count,
                           uint32_t key_count);

#endif
