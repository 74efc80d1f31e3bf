#include "record/record_batch.h"

#include <string.h>

#include "ground/byte_order.h"

#define LENGTH_BYTES 4

/* One loop for each width, so that the compiler sees constant sizes. */
#define FB_DEFINE_LOOPS(bits, swap)                                                           \
  static void write_##bits(uint8_t* to, const uint8_t* values, size_t count) {                \
    for (size_t i = 0; i < count; i++, to += LENGTH_BYTES + bits / 8, values += bits / 8) {   \
      uint##bits##_t value;                                                                   \
      memcpy(&value, values, sizeof value);                                                   \
      value = (uint##bits##_t)swap(value);                                                    \
      fb_store_be32(to, bits / 8);                                                            \
      memcpy(to + LENGTH_BYTES, &value, sizeof value);                                        \
    }                                                                                         \
  }                                                                                           \
  static size_t read_##bits(const uint8_t* from, uint8_t* values, size_t count) {             \
    const uint32_t length = FB_BE32((uint32_t)(bits / 8));                                    \
    for (size_t i = 0; i < count; i++, from += LENGTH_BYTES + bits / 8, values += bits / 8) { \
      uint##bits##_t value;                                                                   \
      uint32_t found;                                                                         \
      memcpy(&found, from, sizeof found);                                                     \
      if (found != length) return i;                                                          \
      memcpy(&value, from + LENGTH_BYTES, sizeof value);                                      \
      value = (uint##bits##_t)swap(value);                                                    \
      memcpy(values, &value, sizeof value);                                                   \
    }                                                                                         \
    return count;                                                                             \
  }

#define FB_SAME(x) (x)
FB_DEFINE_LOOPS(8, FB_SAME)
FB_DEFINE_LOOPS(16, FB_BE16)
FB_DEFINE_LOOPS(32, FB_BE32)
FB_DEFINE_LOOPS(64, FB_BE64)

size_t fb_record_batch_write(struct fb_buffer_builder* builder, const uint8_t* values, uint32_t width, size_t count) {
  uint8_t* to = builder->data + builder->position;
  size_t room = fb_buffer_builder_writable(builder) / (LENGTH_BYTES + width);

  if (count > room) count = room;
  switch (width) {
    case 1: write_8(to, values, count); break;
    case 2: write_16(to, values, count); break;
    case 4: write_32(to, values, count); break;
    case 8: write_64(to, values, count); break;
    default: return 0;
  }
  builder->position += (uint32_t)(count * (LENGTH_BYTES + width));
  return count;
}

size_t fb_record_batch_read(struct fb_record_deserializer* deserializer, uint8_t* values, uint32_t width,
                            size_t count) {
  size_t whole = (size_t)(deserializer->end - deserializer->pos) / (LENGTH_BYTES + width);

  if (deserializer->length_count != 0 || deserializer->pos == NULL) return 0;
  if (count > whole) count = whole;
  switch (width) {
    case 1: count = read_8(deserializer->pos, values, count); break;
    case 2: count = read_16(deserializer->pos, values, count); break;
    case 4: count = read_32(deserializer->pos, values, count); break;
    case 8: count = read_64(deserializer->pos, values, count); break;
    default: return 0;
  }
  if (count > 0) deserializer->pos += count * (LENGTH_BYTES + width);
  deserializer->record_count += count;
  return count;
}
