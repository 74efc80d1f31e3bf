/* A chunk of rows of an Arrow batch as records of ROW_DATA, a column after the other: what arrow_rows does in this format.
 *
 * A record is 4 bytes of its length, 4 of the row's, and the row: so each row lies at a multiple of 8 bytes where the
 * first does, and most columns are one store of 8 bytes a row.
 *
 * Owner:   borrows the bound columns. Threads: one at a time. */
#ifndef FB_ARROW_ROW_DATA_H
#define FB_ARROW_ROW_DATA_H

#include "columns/arrow_data_value.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "slots are copied as they lie in columns: this needs a little-endian machine"
#endif

/* Fills in the sizes of *count records from row `first` on. With a fault, *count are the rows before it. */
void fb_arrow_row_data_measure(const struct fb_arrow_column* row, int64_t first, uint32_t* count, uint32_t* sizes,
                               struct fb_arrow_fault* fault);

/* Writes `count` measured records from row `first` on, each where ends[i] says, which is behind the record's length;
 * moves that behind it, and leaves in heads[i] where the row begins. */
void fb_arrow_row_data_put(const struct fb_arrow_column* row, int64_t first, uint32_t count, const uint32_t* sizes,
                           uint8_t** heads, uint8_t** ends);

/* BinaryRowData.hashCode of the row of these columns' values in slots `i` of theirs; `to` has room for its bytes, which
 * key_size() tells: negative is a fault. */
int64_t fb_arrow_row_data_key_size(const struct fb_arrow_column* const* columns, uint32_t column_count, int64_t i,
                                   struct fb_arrow_fault* fault);
int32_t fb_arrow_row_data_key_hash(const struct fb_arrow_column* const* columns, uint32_t column_count, int64_t i,
                                   uint8_t* to);

#endif
