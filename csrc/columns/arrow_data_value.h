/* One value of an Arrow column in the binary format of Flink's table runtime: a slot, and the part that does not fit there.
 *
 * First size(), which also finds what cannot be written; put() then cannot fail. Both walk into lists, maps and rows.
 *
 * Owner:   nothing to free. Threads: no state; any thread may call anything. */
#ifndef FB_ARROW_DATA_VALUE_H
#define FB_ARROW_DATA_VALUE_H

#include "columns/arrow_column.h"
#include "value/binary_row.h"

/* Bytes behind the slots that value `i` of a column takes, a multiple of 8; where it is null, none. Negative: it cannot be
 * written; then fault->reason says why, and fault->column where. */
int64_t fb_arrow_data_value_size(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault);

/* The slot of value `i`, whose part goes to *end; `base` is where the row or array begins. False: it is null. */
bool fb_arrow_data_value_put(const struct fb_arrow_column* column, int64_t i, const uint8_t* base, uint8_t** end,
                             uint64_t* slot);

/* Bytes of one row of a STRUCT over ROW_DATA, and itself; the fields are slots `i` of the children. */
int64_t fb_arrow_data_value_row_size(const struct fb_arrow_column* row, int64_t i, struct fb_arrow_fault* fault);
uint8_t* fb_arrow_data_value_put_row(const struct fb_arrow_column* row, int64_t i, uint8_t* to);

#endif
