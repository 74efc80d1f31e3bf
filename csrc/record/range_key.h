/* Keys of records as bytes that compare, with memcmp, as the values do.
 *
 * One part a column, one behind the other; no part begins another, so that columns further behind count only where those
 * before are equal. A part is a flag, which says whether the value is null, and the value: numbers big-endian with their
 * sign turned (-0.0 is 0.0, and NaN, the same for all, is above all numbers), text and bytes with an end that is below
 * every byte, decimals by their digits whatever their scale, arrays element by element and rows field by field, in which
 * null is below all values. A descending column has all bits of its value turned. Spark: SortOrder, RangePartitioner.
 *
 * A value makes the same key from its encoded bytes and from a column of Arrow.
 *
 * Owner:   the caller's, the output. Threads: no state; any thread may call anything. */
#ifndef FB_RANGE_KEY_H
#define FB_RANGE_KEY_H

#include "ground/data_view.h"
#include "value/type.h"

struct fb_range_order {
  bool is_descending;
  bool has_nulls_first;
};

/* Whether values of a type have an order: FB_OK or FB_EARGUMENT. Maps, sets and what is pickled have none. */
int fb_range_key_check(const struct fb_type* type);

/* Appends the part of a null. FB_ENOMEM. */
int fb_range_key_put_null(struct fb_range_order order, struct fb_data_output* key);

/* Appends the part of the encoded value at input->pos, and moves past it. FB_ENOMEM, FB_ETOO_LARGE, FB_ETRUNCATED,
 * FB_ECORRUPT, FB_EARGUMENT: what was appended before is still there. */
int fb_range_key_put_encoded(const struct fb_type* type, struct fb_range_order order, struct fb_data_input* input,
                             struct fb_data_output* key);

/* ---- for this way and that of arrow_range. FB_ENOMEM, FB_ETOO_LARGE ------------------------------------ */

enum { FB_RANGE_END = 0, FB_RANGE_NULL = 1, FB_RANGE_VALUE = 2 }; /* in front of elements and fields */

/* What a value that is null gives instead of FB_OK: its flag stands for it. */
#define FB_RANGE_IS_NULL 1

/* Begins a part, or an element with the flag FB_RANGE_VALUE; the value follows. */
int fb_range_key_begin(struct fb_data_output* key, size_t* mark);
int fb_range_key_begin_element(struct fb_data_output* key, size_t* mark);
/* Ends it; `code` is what the value gave: FB_OK, FB_RANGE_IS_NULL, or an error, which leaves no trace of the part. */
int fb_range_key_end(struct fb_data_output* key, size_t mark, int code, struct fb_range_order order);
int fb_range_key_end_element(struct fb_data_output* key, size_t mark, int code);

int fb_range_key_put_byte(struct fb_data_output* key, uint8_t byte);
int fb_range_key_put_long(struct fb_data_output* key, int64_t value);
int fb_range_key_put_double(struct fb_data_output* key, double value);
int fb_range_key_put_time(struct fb_data_output* key, int64_t seconds, uint32_t nanos);
int fb_range_key_put_bytes(struct fb_data_output* key, const uint8_t* from, size_t size);
/* A number in two's complement, big-endian, of which the last `scale` digits are behind the point. */
int fb_range_key_put_decimal(struct fb_data_output* key, const uint8_t* number, size_t size, int32_t scale);

#endif
