/* Records back to Arrow columns: all that lie whole in one buffer at a time, a column after the other.
 *
 * A record that is not right, or that the batch has no room for, leaves no trace: what was read before it stays.
 *
 * Owner:   nothing to free. Threads: one at a time. */
#ifndef FB_ARROW_RECORDS_H
#define FB_ARROW_RECORDS_H

#include "columns/arrow_cell.h"
#include "record/record_deserializer.h"

#define FB_ARROW_RECORDS       512
#define FB_ARROW_RECORDS_BYTES (16u << 20) /* behind the record that reaches this, no more is taken at once */

struct fb_arrow_records {
  uint32_t count;
  const uint8_t* heads[FB_ARROW_RECORDS];
  const uint8_t* ends[FB_ARROW_RECORDS];
  const uint8_t* next[FB_ARROW_RECORDS]; /* for read() */
};

/* Takes up to `limit` records that lie whole in the deserializer's buffer, at most FB_ARROW_RECORDS. */
void fb_arrow_records_collect(struct fb_record_deserializer* deserializer, uint32_t limit,
                              struct fb_arrow_records* records);
/* Forgets the first `count`. */
void fb_arrow_records_skip(struct fb_arrow_records* records, uint32_t count);

/* Appends the rows, and returns how many: where it is fewer than there are, reading->code says why. FB_ENOMEM. */
int64_t fb_arrow_records_read(struct fb_arrow_builder* builder, struct fb_arrow_records* records,
                              struct fb_arrow_reading* reading);

#endif
