/* Loads and stores of numbers in a stated byte order, at any alignment.
 *
 * Flink's records, events and frames are big-endian, its files little-endian. Compilers turn each of
 * these into one or two instructions. No bounds are checked: the caller has made room. */
#ifndef FB_BYTE_ORDER_H
#define FB_BYTE_ORDER_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FB_BE16(x) (x)
#define FB_BE32(x) (x)
#define FB_BE64(x) (x)
#define FB_LE16(x) __builtin_bswap16(x)
#define FB_LE32(x) __builtin_bswap32(x)
#define FB_LE64(x) __builtin_bswap64(x)
#else
#define FB_BE16(x) __builtin_bswap16(x)
#define FB_BE32(x) __builtin_bswap32(x)
#define FB_BE64(x) __builtin_bswap64(x)
#define FB_LE16(x) (x)
#define FB_LE32(x) (x)
#define FB_LE64(x) (x)
#endif

#define FB_DEFINE_ACCESS(order, ORDER, bits)                                     \
  static inline uint##bits##_t fb_load_##order##bits(const uint8_t* from) {      \
    uint##bits##_t value;                                                        \
    memcpy(&value, from, sizeof value);                                          \
    return FB_##ORDER##bits(value);                                              \
  }                                                                              \
  static inline void fb_store_##order##bits(uint8_t* to, uint##bits##_t value) { \
    value = FB_##ORDER##bits(value);                                             \
    memcpy(to, &value, sizeof value);                                            \
  }

FB_DEFINE_ACCESS(be, BE, 16)
FB_DEFINE_ACCESS(be, BE, 32)
FB_DEFINE_ACCESS(be, BE, 64)
FB_DEFINE_ACCESS(le, LE, 16)
FB_DEFINE_ACCESS(le, LE, 32)
FB_DEFINE_ACCESS(le, LE, 64)

#undef FB_DEFINE_ACCESS

#endif
