#include "value/number.h"

/* Element `i` of numbers that may lie at any address: a view of somebody's bytes need not be aligned. */
static inline uint16_t load_16(const void* from, size_t i) {
  uint16_t value;
  memcpy(&value, (const uint8_t*)from + 2 * i, 2);
  return value;
}

static inline uint32_t load_32(const void* from, size_t i) {
  uint32_t value;
  memcpy(&value, (const uint8_t*)from + 4 * i, 4);
  return value;
}

static inline uint64_t load_64(const void* from, size_t i) {
  uint64_t value;
  memcpy(&value, (const uint8_t*)from + 8 * i, 8);
  return value;
}

void fb_number_store_array(enum fb_type_kind kind, const void* from, size_t count, uint8_t* to) {
  size_t width = fb_type_fixed_size(kind);

  if (width == 1) {
    if (count > 0) memcpy(to, from, count);
  } else if (width == 2) {
    for (size_t i = 0; i < count; i++) fb_store_be16(to + 2 * i, load_16(from, i));
  } else if (kind == FB_TYPE_FLOAT) {
    for (size_t i = 0; i < count; i++) fb_store_be32(to + 4 * i, fb_number_java_float(load_32(from, i)));
  } else if (width == 4) {
    for (size_t i = 0; i < count; i++) fb_store_be32(to + 4 * i, load_32(from, i));
  } else if (kind == FB_TYPE_DOUBLE) {
    for (size_t i = 0; i < count; i++) fb_store_be64(to + 8 * i, fb_number_java_double(load_64(from, i)));
  } else {
    for (size_t i = 0; i < count; i++) fb_store_be64(to + 8 * i, load_64(from, i));
  }
}

void fb_number_load_array(enum fb_type_kind kind, const uint8_t* from, size_t count, void* to) {
  size_t width = fb_type_fixed_size(kind);
  uint8_t* out = to;

  if (width == 1) {
    if (count > 0) memcpy(out, from, count);
  } else if (width == 2) {
    for (size_t i = 0; i < count; i++) memcpy(out + 2 * i, &(uint16_t){fb_load_be16(from + 2 * i)}, 2);
  } else if (width == 4) {
    for (size_t i = 0; i < count; i++) memcpy(out + 4 * i, &(uint32_t){fb_load_be32(from + 4 * i)}, 4);
  } else {
    for (size_t i = 0; i < count; i++) memcpy(out + 8 * i, &(uint64_t){fb_load_be64(from + 8 * i)}, 8);
  }
}
