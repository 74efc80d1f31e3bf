/* The keys that part the channels of a range partitioner: which channel a key goes to.
 *
 * Channel i has the keys above bound i - 1 and up to bound i; the last has all above the last bound.
 * Spark: RangePartitioner.getPartition.
 *
 * Owner:   the bounds own a copy of the keys, until close(). Threads: any may ask; one opens and closes. */
#ifndef FB_RANGE_BOUNDS_H
#define FB_RANGE_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/errors.h"

struct fb_range_bounds {
  uint32_t count;
  uint32_t room;
  uint64_t* prefixes; /* the first 8 bytes behind the flag of each key, as a number */
  uint8_t* flags;     /* the first byte */
  size_t* ends;       /* of the keys in `bytes` */
  uint8_t* bytes;
  size_t bytes_room;
  bool are_words; /* each key is a flag and 8 bytes: nothing but those has to be compared */
};

void fb_range_bounds_close(struct fb_range_bounds* self);

/* Adds a key; they come in rising order. FB_ENOMEM; FB_EARGUMENT: it is not above the last one, or empty. */
int fb_range_bounds_add(struct fb_range_bounds* self, const uint8_t* key, size_t size);

/* How many bounds are below the key. */
uint32_t fb_range_bounds_find(const struct fb_range_bounds* self, const uint8_t* key, size_t size);

/* The same for a key of a flag and 8 bytes, which are given as a number; only where are_words. */
uint32_t fb_range_bounds_find_word(const struct fb_range_bounds* self, uint8_t flag, uint64_t word);

#endif
