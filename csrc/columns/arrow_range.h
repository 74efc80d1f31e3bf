/* The channels of rows of Arrow columns under a range partitioner; the keys are those of range_key.
 *
 * Owner:   the scratch is its own, until close(); it borrows the bound columns, their orders and the bounds.
 * Threads: one at a time. */
#ifndef FB_ARROW_RANGE_H
#define FB_ARROW_RANGE_H

#include "columns/arrow_rows.h"
#include "record/range_bounds.h"
#include "record/range_key.h"

struct fb_arrow_range {
  const struct fb_arrow_column** columns;
  const struct fb_range_order* orders; /* one a column */
  uint32_t column_count;
  const struct fb_range_bounds* bounds;
  struct fb_data_output scratch;
};

void fb_arrow_range_close(struct fb_arrow_range* self);

/* Whether values of a column have an order: FB_OK; FB_EARGUMENT: maps and intervals of several numbers have none. */
int fb_arrow_range_check(const struct fb_arrow_column* column);

/* Puts the key of row `i` of the batch at the scratch's start. FB_ENOMEM, FB_ETOO_LARGE. */
int fb_arrow_range_key(struct fb_arrow_range* self, const struct fb_arrow_column* row, int64_t i);

/* channels[i] is the channel of row i of the chunk, which was measured. FB_ENOMEM, FB_ETOO_LARGE. */
int fb_arrow_range_channels(struct fb_arrow_range* self, const struct fb_arrow_rows* rows, uint32_t* channels);

#endif
