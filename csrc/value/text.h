/* Text as Flink writes it, between its bytes and code points; and the short ASCII text that most of it is.
 *
 * On the wire: a varint for the count of UTF-16 units, then a varint for each unit (7 bits a byte, low bits first). A
 * surrogate pair is one code point for us, a lone surrogate is one of its own.
 *
 * Threads: no state; any thread may call anything. */
#ifndef FB_TEXT_H
#define FB_TEXT_H

#include "ground/byte_order.h"
#include "ground/data_view.h"

struct fb_text {
  size_t size;        /* bytes of the units */
  uint32_t units;     /* UTF-16 */
  uint32_t length;    /* code points */
  uint32_t max_point; /* no code point is greater */
};

/* Reads a varint of at most 31 bits, as short as can be. FB_ETRUNCATED, FB_ECORRUPT. */
int fb_text_read_varint(struct fb_data_input* input, uint32_t* value);

/* Measures `units` UTF-16 units at input->pos and moves past them. FB_ETRUNCATED, FB_ECORRUPT as for skip. */
int fb_text_measure(struct fb_data_input* input, uint32_t units, struct fb_text* text);

/* Writes the code points of measured text as an array of `width` (1, 2 or 4) byte numbers in native order. */
void fb_text_decode(const uint8_t* from, const struct fb_text* text, int width, void* points);

/* Fills in `size`, `units` and `length` of `length` < 2^31 code points of `width` bytes each. False if a high
 * surrogate stands right before a low one: the two would come back as one character. */
bool fb_text_plan(const void* points, size_t length, int width, struct fb_text* text);

/* Writes the units of `length` code points; returns the byte after them. The caller has made room. */
uint8_t* fb_text_encode(const void* points, size_t length, int width, uint8_t* to);

/* Bytes that the varint of `value` takes. */
static inline uint32_t fb_text_varint_size(uint64_t value) {
  return 1u + (value >= 1u << 7) + (value >= 1u << 14) + (value >= 1u << 21) + (value >= 1u << 28);
}

/* Writes `value` as a varint of 1 to 5 bytes; returns the byte after it. */
static inline uint8_t* fb_text_write_varint(uint32_t value, uint8_t* to) {
  for (; value >= 0x80; value >>= 7) *to++ = (uint8_t)(value | 0x80);
  *to++ = (uint8_t)value;
  return to;
}

/* Whether all `size` bytes are below 0x80. */
static inline bool fb_text_is_ascii(const uint8_t* from, size_t size) {
  uint64_t seen = 0, word;

  if (size < 8) {
    for (size_t i = 0; i < size; i++) seen |= from[i];
    return (seen & 0x80) == 0;
  }
  for (size_t i = 0; i < size - 8; i += 8) {
    memcpy(&word, from + i, 8);
    seen |= word;
  }
  memcpy(&word, from + size - 8, 8); /* the last 8 bytes, some of them twice */
  return ((seen | word) & 0x8080808080808080u) == 0;
}

/* Whether the bytes are UTF-8 as Unicode has it: no surrogates, nothing longer than it has to be. */
bool fb_text_is_utf8(const uint8_t* from, size_t size);

/* memcpy for text, which is mostly short: no call for up to 16 bytes, and no byte outside of either side. */
static inline void fb_text_copy(uint8_t* to, const uint8_t* from, size_t size) {
  if (size > 16) {
    memcpy(to, from, size);
  } else if (size >= 8) {
    uint64_t head, tail;
    memcpy(&head, from, 8);
    memcpy(&tail, from + size - 8, 8);
    memcpy(to, &head, 8);
    memcpy(to + size - 8, &tail, 8);
  } else if (size >= 4) {
    uint32_t head, tail;
    memcpy(&head, from, 4);
    memcpy(&tail, from + size - 4, 4);
    memcpy(to, &head, 4);
    memcpy(to + size - 4, &tail, 4);
  } else if (size > 0) {
    to[0] = from[0];
    to[size - 1] = from[size - 1];
    to[size / 2] = from[size / 2];
  }
}

/* 2 to 8 bytes as one number, the first byte in its lowest bits on every host: where the two loads overlap, a byte falls
 * on itself, and so two texts of one length have the same word only if they are the same. */
static inline uint64_t fb_text_word(const uint8_t* from, size_t size) {
  if (size < 4) return (uint64_t)from[0] | (uint64_t)from[1] << 8 | (uint64_t)from[size - 1] << (8 * (size - 1));
  return (uint64_t)fb_load_le32(from) | (uint64_t)fb_load_le32(from + size - 4) << (8 * (size - 4));
}

#endif
