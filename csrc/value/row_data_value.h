/* Values of the table runtime and the same values as the ordinary serializers write them: how a slot comes from what the
 * codec of a decimal, date or time has written, and back.
 *
 * Owner:   nothing to free. Threads: no state; any thread may call anything. */
#ifndef FB_ROW_DATA_VALUE_H
#define FB_ROW_DATA_VALUE_H

#include "value/binary_row.h"
#include "value/type.h"

#define FB_ROW_DATA_VALUE_MAX_PLAIN 32 /* bytes that put_decimal() and put_moment() write at most */

/* The bytes of a BIG_DEC, checked, as a number of the type's scale; false: it would be rounded, or has too many digits. */
bool fb_row_data_value_decimal(const struct fb_type* type, const uint8_t* plain, fb_wide_int* unscaled);
uint8_t* fb_row_data_value_put_decimal(const struct fb_type* type, fb_wide_int unscaled, uint8_t* plain);

/* What the slot of a date or time holds, from the bytes of child 0: of DATE_DATA days, of the others milliseconds; and of
 * timestamps the nanoseconds of the last one. False: the type is not as fine, or cannot reach so far. */
bool fb_row_data_value_moment(const struct fb_type* type, const uint8_t* plain, int64_t* value, uint32_t* nanos);
uint8_t* fb_row_data_value_put_moment(const struct fb_type* type, int64_t value, uint32_t nanos, uint8_t* plain);

#endif
