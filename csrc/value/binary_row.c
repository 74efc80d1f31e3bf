#include "value/binary_row.h"

#define HASH_SEED 42u

/* Murmur 3 over words, as Flink's MurmurHashUtils has it. */
int32_t fb_binary_row_hash(const uint8_t* row, size_t size) {
  uint32_t hash = HASH_SEED;

  for (size_t i = 0; i + 4 <= size; i += 4) {
    uint32_t word = fb_load_le32(row + i) * 0xcc9e2d51u;
    word = (word << 15 | word >> 17) * 0x1b873593u;
    hash ^= word;
    hash = (hash << 13 | hash >> 19) * 5u + 0xe6546b64u;
  }
  hash ^= (uint32_t)size;
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return (int32_t)(hash ^ hash >> 16);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

/* Whether bits from `count` up to `end` are all zero. */
static bool are_spare_bits_clear(const uint8_t* bits, uint64_t count, uint64_t end) {
  for (; count < end && count % 8 != 0; count++)
    if ((bits[count / 8] >> (count % 8) & 1) != 0) return false;
  for (; count < end; count += 8)
    if (bits[count / 8] != 0) return false;
  return true;
}

int fb_binary_row_open(const uint8_t* start, uint64_t size, uint32_t field_count, struct fb_binary_section* row) {
  uint64_t nulls = fb_binary_row_null_size(field_count), fixed = fb_binary_row_fixed_size(field_count);

  if (size < fixed) return FB_ETRUNCATED;
  if (size > INT32_MAX || size % 8 != 0 || start[0] > 3) return FB_ECORRUPT;
  if (field_count < 56 ? fb_load_le64(start) >> (8 + field_count) != 0
                       : !are_spare_bits_clear(start + 1, field_count, 8 * (nulls - 1)))
    return FB_ECORRUPT;
  *row = (struct fb_binary_section){
      .start = start,
      .null_bits = start + 1,
      .slots = start + nulls,
      .size = size,
      .budget = size - fixed,
      .count = field_count,
      .width = 8,
  };
  return FB_OK;
}

int fb_binary_row_open_array(const uint8_t* start, uint64_t size, uint32_t width, struct fb_binary_section* array) {
  uint64_t count, head, fixed;

  if (size < 4) return FB_ETRUNCATED;
  if (size > INT32_MAX) return FB_ECORRUPT;
  count = fb_load_le32(start);
  if (count > INT32_MAX) return FB_ECORRUPT;
  head = fb_binary_row_array_head(count);
  fixed = fb_binary_row_array_fixed_size(count, width);
  if (size < fixed) return FB_ETRUNCATED;
  if (size % 8 != 0 || !are_spare_bits_clear(start + 4, count, 8 * (head - 4))) return FB_ECORRUPT;
  *array = (struct fb_binary_section){
      .start = start,
      .null_bits = start + 4,
      .slots = start + head,
      .size = size,
      .budget = size - fixed,
      .count = (uint32_t)count,
      .width = width,
  };
  return FB_OK;
}

int fb_binary_row_open_map(const uint8_t* start, uint64_t size, uint32_t key_width, uint32_t value_width,
                           struct fb_binary_section* keys, struct fb_binary_section* values) {
  uint64_t key_size;
  int code;

  if (size < 4) return FB_ETRUNCATED;
  key_size = fb_load_le32(start);
  if (key_size > size - 4) return FB_ETRUNCATED;
  code = fb_binary_row_open_array(start + 4, key_size, key_width, keys);
  if (code == FB_OK) code = fb_binary_row_open_array(start + 4 + key_size, size - 4 - key_size, value_width, values);
  return code == FB_OK && keys->count != values->count ? FB_ECORRUPT : code;
}

int fb_binary_row_take(struct fb_binary_section* self, uint64_t offset, uint64_t size, const uint8_t** part) {
  uint64_t first = (uint64_t)(self->slots - self->start) + (uint64_t)self->count * self->width;

  if (size > self->budget || offset < first || offset > self->size || size > self->size - offset) return FB_ECORRUPT;
  self->budget -= size;
  *part = self->start + offset;
  return FB_OK;
}

int fb_binary_row_take_bytes(struct fb_binary_section* self, uint32_t i, const uint8_t** bytes, uint64_t* size) {
  const uint8_t* slot = self->slots + 8 * (uint64_t)i;

  if (slot[7] < 0x80) return fb_binary_row_take_part(self, i, bytes, size);
  *size = slot[7] & 0x7fu;
  *bytes = slot;
  return *size <= FB_BINARY_ROW_MAX_INLINE ? FB_OK : FB_ECORRUPT;
}

int fb_binary_row_take_decimal(struct fb_binary_section* self, uint32_t i, uint32_t precision, fb_wide_int* unscaled) {
  const uint8_t* part;
  uint64_t slot = fb_binary_row_load_slot(self, i), size = (uint32_t)slot;
  int code = fb_binary_row_take(self, slot >> 32, 16, &part);

  if (code != FB_OK) return code;
  if (size < 1 || size > 16) return FB_ECORRUPT;
  *unscaled = fb_binary_row_load_digits(part, (uint32_t)size);
  return fb_binary_row_has_digits(*unscaled, precision) ? FB_OK : FB_ECORRUPT;
}

int fb_binary_row_take_timestamp(struct fb_binary_section* self, uint32_t i, int64_t* millis, uint32_t* nanos) {
  const uint8_t* part;
  uint64_t slot = fb_binary_row_load_slot(self, i);
  int code = fb_binary_row_take(self, slot >> 32, 8, &part);

  if (code != FB_OK) return code;
  *millis = (int64_t)fb_load_le64(part);
  *nanos = (uint32_t)slot;
  return *nanos <= FB_BINARY_ROW_MAX_NANOS ? FB_OK : FB_ECORRUPT;
}

/* ---- values ----------------------------------------------------------------------------------------- */

static fb_wide_uint ten_to_the(uint64_t exponent) {
  fb_wide_uint power = 1;

  for (; exponent > 0; exponent--) power *= 10;
  return power;
}

bool fb_binary_row_has_digits(fb_wide_int unscaled, uint32_t precision) {
  fb_wide_uint size = unscaled < 0 ? 0 - (fb_wide_uint)unscaled : (fb_wide_uint)unscaled;

  return precision > FB_BINARY_ROW_MAX_DIGITS || size < ten_to_the(precision);
}

bool fb_binary_row_rescale(fb_wide_int* unscaled, int64_t from, int64_t to) {
  fb_wide_int power;

  if (*unscaled == 0 || from == to) return true;
  if (to - from > FB_BINARY_ROW_MAX_DIGITS || from - to > FB_BINARY_ROW_MAX_DIGITS) return false;
  if (to > from) return !__builtin_mul_overflow(*unscaled, (fb_wide_int)ten_to_the((uint64_t)(to - from)), unscaled);
  power = (fb_wide_int)ten_to_the((uint64_t)(from - to));
  if (*unscaled % power != 0) return false;
  *unscaled /= power;
  return true;
}

uint32_t fb_binary_row_put_digits(fb_wide_int unscaled, uint8_t* to) {
  uint32_t size = 1;

  while (size < 16 && (unscaled >> (8 * size - 1)) != 0 && (unscaled >> (8 * size - 1)) != -1) size++;
  for (uint32_t i = 0; i < size; i++) to[i] = (uint8_t)((fb_wide_uint)unscaled >> (8 * (size - 1 - i)));
  return size;
}

fb_wide_int fb_binary_row_load_digits(const uint8_t* from, uint32_t size) {
  fb_wide_uint value = (from[0] & 0x80) != 0 ? ~(fb_wide_uint)0 : 0;

  for (uint32_t i = 0; i < size; i++) value = value << 8 | from[i];
  return (fb_wide_int)value;
}
