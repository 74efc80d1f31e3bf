/* One value of an Arrow column as the bytes that Flink's TypeSerializers write.
 *
 * First size(), which also finds what cannot be written; put() then cannot fail. Both walk into lists, maps and rows.
 *
 * Owner:   nothing to free. Threads: no state; any thread may call anything. */
#ifndef FB_ARROW_VALUE_H
#define FB_ARROW_VALUE_H

#include "columns/arrow_column.h"
#include "value/text.h"

/* Bytes of the value in slot `i`, counted without the array's offset; where it is null, of the null that the type has
 * in itself. Negative: it cannot be written; then fault->reason says why, and fault->column where. */
int64_t fb_arrow_value_size(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault);
uint8_t* fb_arrow_value_put(const struct fb_arrow_column* column, int64_t i, uint8_t* to);

/* Bytes of one row, mask included: the fields are slots `i` of the children. A TUPLE has no mask. */
int64_t fb_arrow_value_row_size(const struct fb_arrow_column* row, int64_t i, struct fb_arrow_fault* fault);
uint8_t* fb_arrow_value_put_row(const struct fb_arrow_column* row, int64_t i, uint8_t* to);

/* Java's hash code of valid UTF-8. */
int32_t fb_arrow_value_text_hash(const uint8_t* text, size_t size);

static inline uint8_t* fb_arrow_value_put_ascii(const uint8_t* text, size_t size, uint8_t* to) {
  to = fb_text_write_varint((uint32_t)size + 1, to);
  fb_text_copy(to, text, size);
  return to + size;
}

/* IEEE 754 numbers of 16 bits as those of 32. */
float fb_arrow_value_half(uint16_t bits);

/* Slot `i` of a FLOAT of any width, counted without the array's offset. */
double fb_arrow_value_float(const struct fb_arrow_column* column, int64_t i);

#endif
