/* Records of ROW_DATA to Arrow columns: what arrow_records does, in this format.
 *
 * Owner:   nothing to free. Threads: one at a time. */
#ifndef FB_ARROW_DATA_RECORDS_H
#define FB_ARROW_DATA_RECORDS_H

#include "columns/arrow_cell.h"

#define FB_ARROW_DATA_RECORDS 512 /* at most so many at once */

/* Appends the rows in the records heads[i] .. ends[i], and returns how many: where it is fewer than `count`,
 * reading->code says why. FB_ENOMEM. */
int64_t fb_arrow_data_records_read(struct fb_arrow_builder* builder, const uint8_t* const* heads,
                                   const uint8_t* const* ends, uint32_t count, struct fb_arrow_reading* reading);

#endif
