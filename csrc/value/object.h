/* Values of Python whose type nobody declared: one byte that says what follows, then that.
 *
 * What has no tag of its own travels as one pickle, the whole value. The same bytes, in a canonical order and with the
 * parts of objects in place of pickles, stand for a value where it is a key: then equal bytes mean the same key in
 * every process.
 *
 * Owner:   nothing to free. Threads: no state; any thread may call anything.
 * Bytes:   ours, not Flink's; numbers are little-endian. A size or count takes 4 bytes. */
#ifndef FB_OBJECT_H
#define FB_OBJECT_H

#include "ground/byte_order.h"
#include "ground/data_view.h"

enum fb_object_tag {
  FB_OBJECT_SHORT_TEXT = 0x00,  /* to 0x3f: so many ASCII characters */
  FB_OBJECT_SHORT_TUPLE = 0x40, /* to 0x4f: so many values */
  FB_OBJECT_SHORT_LIST = 0x50,  /* to 0x5f: so many values */
  FB_OBJECT_NONE = 0x60,
  FB_OBJECT_FALSE,
  FB_OBJECT_TRUE,
  FB_OBJECT_FLOAT,          /* 8 bytes */
  FB_OBJECT_INT = 0x67,     /* 0x68 to 0x6f: two's complement in 1 to 8 bytes */
  FB_OBJECT_BIG_INT = 0x70, /* size, two's complement */
  FB_OBJECT_ASCII,          /* size, characters; likewise the next three, in 1, 2 and 4 bytes a character */
  FB_OBJECT_LATIN1,
  FB_OBJECT_UCS2,
  FB_OBJECT_UCS4,
  FB_OBJECT_BYTES, /* size, bytes */
  FB_OBJECT_BYTEARRAY,
  FB_OBJECT_TUPLE, /* count, values */
  FB_OBJECT_LIST,
  FB_OBJECT_SET,
  FB_OBJECT_FROZENSET,
  FB_OBJECT_DICT,      /* count, keys and values by turns */
  FB_OBJECT_DATE,      /* year in 2 bytes, month, day */
  FB_OBJECT_TIME,      /* hour, minute, second, flags (1: fold, 2: UTC), microsecond in 4 bytes */
  FB_OBJECT_DATETIME,  /* a DATE and a TIME */
  FB_OBJECT_TIMEDELTA, /* days, seconds, microseconds, 4 bytes each */
  FB_OBJECT_DECIMAL,   /* size, characters */
  FB_OBJECT_ROW,       /* kind of change, is it named, count, (size, names: each a size and UTF-8), values */
  FB_OBJECT_PICKLED,   /* size, pickle; stands for a whole value only */
  FB_OBJECT_GLOBAL,    /* keys only: the name of a class or function, a tuple of two texts */
  FB_OBJECT_REDUCED,   /* keys only: what an object pickles to, a tuple */
};

#define FB_OBJECT_MAX_SHORT_TEXT 0x3f
#define FB_OBJECT_MAX_SHORT      0x0f /* values in a short tuple or list */

/* Containers in containers: no value nests deeper, so that no bytes can exhaust the stack. */
#define FB_OBJECT_MAX_DEPTH 128

/* Measures and checks one value at input->pos and moves past it, as fb_type_skip does; `is_key` says which of the two
 * forms it is. What is inside of pickles, texts of decimals, and names of rows is not looked into, nor are the elements
 * of sets and the keys of dicts compared with each other or asked whether they can be one. */
int fb_object_skip(struct fb_data_input* input, bool is_key);

/* Writes `number` in as few bytes as it needs, without a branch, at `to`, where there is room for 9 bytes; returns the
 * byte after it. */
static inline uint8_t* fb_object_put_int(uint8_t* to, int64_t number) {
  uint64_t magnitude = (uint64_t)(number ^ number >> 63);
  unsigned size = (72u - (unsigned)__builtin_clzll(magnitude | 1)) / 8; /* its bits, and one for the sign */

  to[0] = (uint8_t)(FB_OBJECT_INT + size);
  fb_store_le64(to + 1, (uint64_t)number);
  return to + 1 + size;
}

/* The number in the lowest `size` bytes (1 to 8) of a word. */
static inline int64_t fb_object_int_of(uint64_t word, unsigned size) {
  unsigned shift = 64 - 8 * size;
  return (int64_t)(word << shift) >> shift;
}

/* The number in the `size` bytes (1 to 8) at `from`, of which `left` are there. */
static inline int64_t fb_object_int(const uint8_t* from, unsigned size, size_t left) {
  uint64_t word;

  if (left >= 8) return fb_object_int_of(fb_load_le64(from), size);
  /* The last value of a record. Where the loads overlap, a byte falls on itself. */
  if (size < 4)
    word = from[0] | (uint64_t)from[size / 2] << 8 * (size / 2) | (uint64_t)from[size - 1] << 8 * (size - 1);
  else word = fb_load_le32(from) | (uint64_t)fb_load_le32(from + size - 4) << 8 * (size - 4);
  return fb_object_int_of(word, size);
}

/* Whether these are a date and a time of Python's. */
bool fb_object_is_date(const uint8_t* from);
bool fb_object_is_time(const uint8_t* from);
bool fb_object_is_timedelta(const uint8_t* from);

/* Whether `count` numbers of 4 bytes are all code points. */
bool fb_object_is_ucs4(const uint8_t* from, size_t count);

#endif
