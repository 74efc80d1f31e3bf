/* Sorts references to records in memory: by the bytes of their keys, then by timestamp, stable.
 *
 * A reference holds the first 7 bytes of the key and its length, as far as that is less than 8: most keys are told
 * apart without a look at the record. Bytes count as signed, as Java's do, so that keys come in the order in which Flink
 * has them; a key that another begins with comes first. Flink: FixedLengthByteKeyComparator,
 * VariableLengthByteKeyComparator.
 *
 * Threads: one at a time. */
#ifndef FB_RECORD_ORDER_H
#define FB_RECORD_ORDER_H

#include <stdbool.h>

#include "sort/record_run.h"

struct fb_record_reference {
  uint64_t prefix;   /* fb_record_order_prefix */
  const uint8_t* at; /* as a record stands in a run: lengths, timestamp, key, bytes */
};

/* The first 7 bytes of a key, each with its sign turned, filled up with zeros, and below them its length, 8 for all that
 * are longer than 7: a number that is smaller for a smaller key, as far as it says. */
uint64_t fb_record_order_prefix(const uint8_t* key, size_t size);

/* Below 0, 0, above 0. */
int fb_record_order_compare(const struct fb_sorted_record* one, const struct fb_sorted_record* other);
/* The same for the keys alone. */
int fb_record_order_compare_keys(const uint8_t* one, uint32_t one_size, const uint8_t* other, uint32_t other_size);

void fb_record_order_read(const uint8_t* at, struct fb_sorted_record* to);

/* Sorts `count` references; `scratch` has room for as many. `by_time`: timestamps do not rise in the order as given. */
void fb_record_order_sort(struct fb_record_reference* references, struct fb_record_reference* scratch, size_t count,
                          bool by_time);

#endif
