/* How rows, arrays and maps lie in the binary format of Flink's table runtime: slots of a fixed width, then what varies.
 *
 * A row is 8 bytes of row kind and null bits (more for more than 56 fields), a slot of 8 bytes for each field, and the
 * parts of those that do not fit: each begins at a multiple of 8 bytes, and its slot has its offset from the row's
 * beginning in the upper 4 bytes and its size in the lower. Up to 7 bytes of text or binary stand in the slot itself. An
 * array is a count, null bits in words of 4 bytes, slots as wide as its elements, parts; a map is the size of an array
 * of keys, that array, and one of values. Flink: BinaryRowData, BinaryArrayData, BinaryMapData, BinarySegmentUtils.
 *
 * Owner:   a section borrows the bytes. Threads: no state; any thread may call anything.
 * Bytes:   little-endian, unlike all else of Flink's; `tests/golden/types` has what Flink 2.2.1 writes. */
#ifndef FB_BINARY_ROW_H
#define FB_BINARY_ROW_H

#include <stdbool.h>
#include <string.h>

#include "ground/byte_order.h"
#include "ground/errors.h"

#define FB_BINARY_ROW_MAX_INLINE  7  /* bytes of text or binary in a slot */
#define FB_BINARY_ROW_MAX_COMPACT 18 /* digits of a decimal in a slot */
#define FB_BINARY_ROW_MAX_DIGITS  38
#define FB_BINARY_ROW_MILLIS      3 /* digits of a second up to which a timestamp is in its slot */
#define FB_BINARY_ROW_MAX_NANOS   999999

typedef __int128 fb_wide_int;
typedef unsigned __int128 fb_wide_uint;

static inline uint64_t fb_binary_row_round(uint64_t size) { return (size + 7) / 8 * 8; }

/* ---- layout, in bytes ----------------------------------------------------------------------------- */

static inline uint64_t fb_binary_row_null_size(uint32_t field_count) { return ((uint64_t)field_count + 71) / 64 * 8; }

static inline uint64_t fb_binary_row_fixed_size(uint32_t field_count) {
  return fb_binary_row_null_size(field_count) + 8 * (uint64_t)field_count;
}

static inline uint64_t fb_binary_row_array_head(uint64_t count) { return 4 + (count + 31) / 32 * 4; }

/* Before the parts. */
static inline uint64_t fb_binary_row_array_fixed_size(uint64_t count, uint32_t width) {
  return fb_binary_row_round(fb_binary_row_array_head(count) + count * width);
}

/* Bytes of the part that `size` bytes of text or binary have; none where they stand in the slot. */
static inline uint64_t fb_binary_row_bytes_part(uint64_t size) {
  return size <= FB_BINARY_ROW_MAX_INLINE ? 0 : fb_binary_row_round(size);
}

static inline uint64_t fb_binary_row_slot(uint64_t offset, uint64_t size) { return offset << 32 | size; }

/* The slot of up to 7 bytes; none but these are read. */
static inline uint64_t fb_binary_row_inline_slot(const uint8_t* bytes, size_t size) {
  uint64_t slot = (uint64_t)(0x80 | size) << 56;

  for (size_t i = 0; i < size; i++) slot |= (uint64_t)bytes[i] << (8 * i);
  return slot;
}

/* Copies `size` > 0 bytes and fills the last 8 up with zeros; returns the byte behind those. */
static inline uint8_t* fb_binary_row_put_part(const uint8_t* from, size_t size, uint8_t* to) {
  uint8_t* end = to + fb_binary_row_round(size);

  fb_store_le64(end - 8, 0);
  memcpy(to, from, size);
  return end;
}

static inline void fb_binary_row_put_slot(uint8_t* to, uint32_t width, uint64_t slot) {
  uint8_t bytes[8];

  fb_store_le64(bytes, slot);
  switch (width) {
    case 1: *to = bytes[0]; break;
    case 2: memcpy(to, bytes, 2); break;
    case 4: memcpy(to, bytes, 4); break;
    default: memcpy(to, bytes, 8);
  }
}

/* BinaryRowData.hashCode, of a whole number of 4-byte words. */
int32_t fb_binary_row_hash(const uint8_t* row, size_t size);

/* ---- reading -------------------------------------------------------------------------------------- */

/* A row or an array whose head was checked: every slot lies inside. */
struct fb_binary_section {
  const uint8_t* start;
  const uint8_t* null_bits; /* bit i, the lowest of a byte first */
  const uint8_t* slots;
  uint64_t size;
  uint64_t
      budget; /* bytes that the parts may still take: no byte of them counts for two, or little would become much */
  uint32_t count;
  uint32_t width; /* of a slot */
};

/* FB_ETRUNCATED, FB_ECORRUPT. */
int fb_binary_row_open(const uint8_t* start, uint64_t size, uint32_t field_count, struct fb_binary_section* row);
int fb_binary_row_open_array(const uint8_t* start, uint64_t size, uint32_t width, struct fb_binary_section* array);
/* Both arrays of a map. FB_ECORRUPT also where there are not as many values as keys. */
int fb_binary_row_open_map(const uint8_t* start, uint64_t size, uint32_t key_width, uint32_t value_width,
                           struct fb_binary_section* keys, struct fb_binary_section* values);

static inline bool fb_binary_row_is_null(const struct fb_binary_section* self, uint32_t i) {
  return (self->null_bits[i / 8] >> (i % 8) & 1) != 0;
}

static inline uint64_t fb_binary_row_load_slot(const struct fb_binary_section* self, uint32_t i) {
  const uint8_t* from = self->slots + (uint64_t)i * self->width;

  switch (self->width) {
    case 1: return *from;
    case 2: return (uint64_t)from[0] | (uint64_t)from[1] << 8;
    case 4: return fb_load_le32(from);
    default: return fb_load_le64(from);
  }
}

/* `size` bytes of a part, at an offset. FB_ECORRUPT: they do not lie among the parts, or those take too much in all. */
int fb_binary_row_take(struct fb_binary_section* self, uint64_t offset, uint64_t size, const uint8_t** part);

/* What slot `i` points to. */
static inline int fb_binary_row_take_part(struct fb_binary_section* self, uint32_t i, const uint8_t** part,
                                          uint64_t* size) {
  uint64_t slot = fb_binary_row_load_slot(self, i);

  *size = (uint32_t)slot;
  return fb_binary_row_take(self, slot >> 32, *size, part);
}

/* Text or binary, which may stand in the slot itself. */
int fb_binary_row_take_bytes(struct fb_binary_section* self, uint32_t i, const uint8_t** bytes, uint64_t* size);

/* A decimal of more than 18 digits; FB_ECORRUPT also for more than its precision. */
int fb_binary_row_take_decimal(struct fb_binary_section* self, uint32_t i, uint32_t precision, fb_wide_int* unscaled);

/* A timestamp of more than 3 digits; FB_ECORRUPT also for a million nanoseconds. */
int fb_binary_row_take_timestamp(struct fb_binary_section* self, uint32_t i, int64_t* millis, uint32_t* nanos);

/* ---- values --------------------------------------------------------------------------------------- */

/* Whether a number has no more than `precision` digits. */
bool fb_binary_row_has_digits(fb_wide_int unscaled, uint32_t precision);

/* Brings a number from one scale to another; false: it would be rounded, or get too large. */
bool fb_binary_row_rescale(fb_wide_int* unscaled, int64_t from, int64_t to);

/* The two's complement of a number, as short as can be, the highest byte first; returns how many. */
uint32_t fb_binary_row_put_digits(fb_wide_int unscaled, uint8_t* to);
/* Of 1 to 16 bytes. */
fb_wide_int fb_binary_row_load_digits(const uint8_t* from, uint32_t size);

#endif
