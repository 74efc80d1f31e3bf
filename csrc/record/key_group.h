/* From a key to its key group: Java's hash codes, Flink's murmur step, and who owns which key groups.
 *
 * A key must go to the same subtask from every producer, whatever its language; so the hash of a key is what
 * Java's hashCode() says of the same value, for every type whose Java hash depends on the value alone.
 * Flink: KeyGroupRangeAssignment, MathUtils.murmurHash.
 *
 * All arithmetic is 32 bits wide and wraps. Nothing here keeps state: any thread may call anything. */
#ifndef FB_KEY_GROUP_H
#define FB_KEY_GROUP_H

#include <string.h>

#include "value/type.h"

#define FB_MAX_PARALLELISM             32768u /* Flink: UPPER_BOUND_MAX_PARALLELISM */
#define FB_DEFAULT_MIN_MAX_PARALLELISM 128u   /* Flink: DEFAULT_LOWER_BOUND_MAX_PARALLELISM */

static inline uint32_t fb_key_group_rotate(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

/* Mixes a hash code; never negative. Flink: MathUtils.murmurHash. */
static inline uint32_t fb_key_group_murmur(int32_t hash) {
  uint32_t k = (uint32_t)hash * 0xcc9e2d51u;

  k = fb_key_group_rotate(k, 15) * 0x1b873593u;
  k = fb_key_group_rotate(k, 13) * 5u + 0xe6546b64u;
  k ^= 4u;
  k = (k ^ k >> 16) * 0x85ebca6bu;
  k = (k ^ k >> 13) * 0xc2b2ae35u;
  k ^= k >> 16;
  if (k <= (uint32_t)INT32_MAX) return k;
  return k == 0x80000000u ? 0 : 0u - k;
}

/* The key group of a hash code; `max_parallelism` is at least 1. */
static inline uint32_t fb_key_group_of(int32_t hash, uint32_t max_parallelism) {
  return fb_key_group_murmur(hash) % max_parallelism;
}

/* The subtask, of `parallelism`, that owns a key group. Flink: computeOperatorIndexForKeyGroup. */
static inline uint32_t fb_key_group_operator(uint32_t key_group, uint32_t max_parallelism, uint32_t parallelism) {
  return key_group * parallelism / max_parallelism;
}

/* FB_EARGUMENT unless 1 <= parallelism <= max_parallelism <= FB_MAX_PARALLELISM. */
int fb_key_group_check(uint32_t max_parallelism, uint32_t parallelism);

/* The key groups of one subtask, both ends included. FB_EARGUMENT as above, or no such subtask. */
int fb_key_group_range(uint32_t max_parallelism, uint32_t parallelism, uint32_t operator_index, uint32_t* first,
                       uint32_t* last);

/* What Flink takes when the user says nothing: 1.5 times the parallelism, up to a power of two, within
 * 128 .. 32768. FB_EARGUMENT for a parallelism outside 1 .. 32768. */
int fb_key_group_default_max_parallelism(uint32_t parallelism);

/* ---- Java hash codes of single values --------------------------------------------------------------- */

static inline int32_t fb_key_group_hash_bool(bool value) { return value ? 1231 : 1237; }

static inline int32_t fb_key_group_hash_long(int64_t value) {
  return (int32_t)(uint32_t)((uint64_t)value ^ (uint64_t)value >> 32);
}

/* Bits of a float; every NaN hashes as the one canonical NaN, and -0.0 is not 0.0. */
static inline int32_t fb_key_group_hash_float_bits(uint32_t bits) {
  return (int32_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits);
}

static inline int32_t fb_key_group_hash_double_bits(uint64_t bits) {
  bool is_nan = (bits & (uint64_t)INT64_MAX) > 0x7ff0000000000000u;
  return fb_key_group_hash_long((int64_t)(is_nan ? 0x7ff8000000000000u : bits));
}

static inline int32_t fb_key_group_hash_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return fb_key_group_hash_float_bits(bits);
}

static inline int32_t fb_key_group_hash_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return fb_key_group_hash_double_bits(bits);
}

/* String.hashCode of a string held as one byte (ASCII or Latin-1), two bytes (UCS-2, surrogates as they
 * are) or four bytes (UCS-4, hashed as UTF-16) a character: Python's three kinds. `length` counts
 * characters. */
int32_t fb_key_group_hash_latin1(const uint8_t* characters, size_t length);
int32_t fb_key_group_hash_ucs2(const uint16_t* characters, size_t length);
int32_t fb_key_group_hash_ucs4(const uint32_t* characters, size_t length);

/* ---- Java hash codes of many values ----------------------------------------------------------------- */

/* hashes[i] is the hash code of keys[i] as a Long, Float or Double. `hashes` may not overlap `keys`. */
void fb_key_group_hash_longs(const int64_t* keys, size_t count, int32_t* hashes);
void fb_key_group_hash_floats(const float* keys, size_t count, int32_t* hashes);
void fb_key_group_hash_doubles(const double* keys, size_t count, int32_t* hashes);

/* ---- Java hash codes of encoded values -------------------------------------------------------------- */

/* FB_EARGUMENT if values of `type` have no hash by value: arrays (Java hashes their identity, but their
 * content where they are a field of a ROW, also in a list, map or object array there), ENUM (identity
 * again), PICKLED_BYTES (equal objects may pickle to different bytes) and STREAM_ELEMENT, at the top or
 * inside. */
int fb_key_group_hash_check(const struct fb_type* type);

/* Hashes the encoded value at input->pos and moves past it; `*hash` is what Java's hashCode() gives for
 * the object that Flink's serializer makes of those bytes. A null inside a tuple, row, list, set or map
 * hashes to 0. FB_EARGUMENT: fb_key_group_hash_check refuses the type. FB_ESTATE: the value itself is null, and
 * a key may not be. FB_ETRUNCATED, FB_ECORRUPT, FB_ETOO_LARGE: as fb_type_skip. After an error
 * `*hash` is not written.
 *
 * A set or map that holds an element twice, which no Java set does, counts it twice. An OBJECT must be in the form that
 * it has as a key. */
int fb_key_group_hash_encoded(const struct fb_type* type, struct fb_data_input* input, int32_t* hash);

#endif
