/* One value of a row or array of the table runtime into the column that is being made of it.
 *
 * Owner:   the builder. Threads: one at a time. */
#ifndef FB_ARROW_DATA_CELL_H
#define FB_ARROW_DATA_CELL_H

#include "columns/arrow_cell.h"

/* Appends value `i` of a row or array. What the type cannot be, or the column cannot hold, gives an error: then
 * *refusal->at is the column, *refusal->reason why (NULL: what the code says), and the builder has to be truncated. */
int fb_arrow_data_cell_read(struct fb_arrow_builder* self, struct fb_binary_section* section, uint32_t i,
                            const struct fb_arrow_refusal* refusal);

#endif
