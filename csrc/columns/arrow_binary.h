/* Rows as the values of one binary column, a record each without its length, and back: what a column function of Spark
 * does.
 *
 * A row that is null is a value that is null, and the other way round: the form of a null that a type may have in itself
 * is read, and never written.
 *
 * Owner:   the builders; what is bound is borrowed. Threads: one at a time. */
#ifndef FB_ARROW_BINARY_H
#define FB_ARROW_BINARY_H

#include "columns/arrow_records.h"
#include "columns/arrow_rows.h"

/* Appends all rows of the bound batch to `to`, a builder of BINARY. fault->column != NULL: a row cannot be written, or `to`
 * has no room for it; those before it may be there. FB_ENOMEM. */
int fb_arrow_binary_write(struct fb_arrow_rows* rows, struct fb_arrow_builder* to, struct fb_arrow_fault* fault);

/* Whether the column's values are bytes, perhaps behind dictionaries and run ends. */
bool fb_arrow_binary_is(const struct fb_arrow_column* column);

/* Appends the rows in all values of a bound column of bytes, and returns how many: where it is fewer than there are,
 * reading->code says why. `is_permissive`: a value that is no record is a row that is null. FB_ENOMEM. */
int64_t fb_arrow_binary_read(const struct fb_arrow_column* values, struct fb_arrow_builder* to, bool is_permissive,
                             struct fb_arrow_reading* reading);

#endif
