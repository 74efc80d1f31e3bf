/* Numbers as Java writes them: big-endian, and one pattern of bits for every NaN.
 *
 * Threads: no state; any thread may call anything. */
#ifndef FB_NUMBER_H
#define FB_NUMBER_H

#include "ground/byte_order.h"
#include "value/type.h"

/* Java's floatToIntBits and doubleToLongBits: one NaN stands for all. */
static inline uint32_t fb_number_java_float(uint32_t bits) {
  return (bits & INT32_MAX) > 0x7f800000u ? 0x7fc00000u : bits;
}

static inline uint64_t fb_number_java_double(uint64_t bits) {
  return (bits & INT64_MAX) > 0x7ff0000000000000u ? 0x7ff8000000000000u : bits;
}

/* The bits of a number as Java writes them. A FLOAT is the nearest to the
 * number, infinite if that is too large. */
static inline uint64_t fb_number_double_bits(double value) {
  uint64_t bits;

  memcpy(&bits, &value, 8);
  return fb_number_java_double(bits);
}

static inline uint32_t fb_number_float_bits(double value) {
  float narrow = (float)value;
  uint32_t bits;

  memcpy(&bits, &narrow, 4);
  return fb_number_java_float(bits);
}

static inline double fb_number_double(uint64_t bits) {
  double value;

  memcpy(&value, &bits, 8);
  return value;
}

static inline double fb_number_float(uint32_t bits) {
  float value;

  memcpy(&value, &bits, 4);
  return (double)value;
}

/* Between native numbers, at any address, and the elements of a PRIMITIVE_ARRAY. Storing gives every NaN the
 * one pattern of Java. */
void fb_number_store_array(enum fb_type_kind kind, const void* from, size_t count, uint8_t* to);
void fb_number_load_array(enum fb_type_kind kind, const uint8_t* from, size_t count, void* to);

#endif
