#include "record/record_batch.h"

#include <string.h>

#include "ground/byte_order.h"

#define LENGTH_BYTES 4

/* How far ahead a builder is brought near, and after it the end of what it has written. With a thousand of them each
 * record would wait for memory twice. */
enum { BUILDER_AHEAD = 16, BYTES_AHEAD = 8 };

static inline void fetch_ahead(const struct fb_buffer_builder* builders, uint32_t builder_count,
                               const struct fb_record_batch* batch, size_t i) {
  uint32_t far, near;

  if (batch->count - i <= BUILDER_AHEAD) return;
  far = batch->channels[i + BUILDER_AHEAD];
  near = batch->channels[i + BYTES_AHEAD];
  if (far >= builder_count || near >= builder_count) return;
  __builtin_prefetch(&builders[far], 1);
  if (builders[near].data != NULL) __builtin_prefetch(builders[near].data + builders[near].position, 1);
}

/* Loops for each width, so that the compiler sees constant sizes. scatter() takes the batch by value: of what lies in
 * memory it must fear that each record it writes has changed it. */
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
  }                                                                                           \
  static size_t scatter_##bits(struct fb_buffer_builder* builders, uint32_t builder_count,    \
                               struct fb_record_batch batch, uint64_t* counts) {              \
    for (size_t i = 0; i < batch.count; i++) {                                                \
      uint32_t channel = batch.channels[i];                                                   \
      struct fb_buffer_builder* builder;                                                      \
                                                                                              \
      if (channel >= builder_count) return i;                                                 \
      builder = &builders[channel];                                                           \
      /* A closed one has no room. */                                                         \
      if (fb_buffer_builder_writable(builder) <= LENGTH_BYTES + bits / 8) return i;           \
      fetch_ahead(builders, builder_count, &batch, i);                                        \
      write_##bits(builder->data + builder->position, batch.values + i * (bits / 8), 1);      \
      builder->position += LENGTH_BYTES + bits / 8;                                           \
      counts[channel]++;                                                                      \
    }                                                                                         \
    return batch.count;                                                                       \
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

size_t fb_record_batch_scatter(struct fb_buffer_builder* builders, uint32_t builder_count,
                               const struct fb_record_batch* batch, uint64_t* counts) {
  switch (batch->width) {
    case 1: return scatter_8(builders, builder_count, *batch, counts);
    case 2: return scatter_16(builders, builder_count, *batch, counts);
    case 4: return scatter_32(builders, builder_count, *batch, counts);
    case 8: return scatter_64(builders, builder_count, *batch, counts);
    default: return 0;
  }
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
