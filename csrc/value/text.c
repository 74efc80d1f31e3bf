#include "value/text.h"

int fb_text_read_varint(struct fb_data_input* input, uint32_t* value) {
  const uint8_t* pos = input->pos;
  uint32_t bits = 0;

  for (unsigned shift = 0;; shift += 7, pos++) {
    if (pos == input->end) return input->pos = pos, FB_ETRUNCATED;
    /* A fifth byte holds bits 28 to 30; a last byte of zero would have been left out. */
    if ((shift == 28 && *pos > 0x07) || (shift > 0 && *pos == 0)) return input->pos = pos, FB_ECORRUPT;
    bits |= (uint32_t)(*pos & 0x7f) << shift;
    if (*pos < 0x80) break;
  }
  input->pos = pos + 1;
  *value = bits;
  return FB_OK;
}

/* Reads one UTF-16 unit of 1 to 3 bytes. */
static inline int read_unit(const uint8_t** from, const uint8_t* end, uint32_t* unit) {
  const uint8_t* pos = *from;

  if (pos == end) return FB_ETRUNCATED;
  *unit = *pos & 0x7fu;
  if (*pos++ >= 0x80) {
    if (pos == end) return FB_ETRUNCATED;
    if (*pos == 0) return FB_ECORRUPT;
    *unit |= (uint32_t)(*pos & 0x7f) << 7;
    if (*pos++ >= 0x80) {
      if (pos == end) return FB_ETRUNCATED;
      if (*pos == 0 || *pos > 0x03) return FB_ECORRUPT; /* 16 bits in all */
      *unit |= (uint32_t)*pos++ << 14;
    }
  }
  *from = pos;
  return FB_OK;
}

static inline bool is_high_surrogate(uint32_t point) { return point >> 10 == 0xd800u >> 10; }
static inline bool is_low_surrogate(uint32_t point) { return point >> 10 == 0xdc00u >> 10; }
static inline uint32_t join_surrogates(uint32_t high, uint32_t low) {
  return 0x10000u + ((high & 0x3ffu) << 10) + (low & 0x3ffu);
}

int fb_text_measure(struct fb_data_input* input, uint32_t units, struct fb_text* text) {
  const uint8_t *pos = input->pos, *end = input->end;
  uint32_t previous = 0, unit = 0, points = 0, max_point = 0;

  for (uint32_t i = 0; i < units; i++) {
    int code = read_unit(&pos, end, &unit);
    if (code != FB_OK) return input->pos = pos, code;
    if (is_low_surrogate(unit) && is_high_surrogate(previous)) {
      uint32_t point = join_surrogates(previous, unit);
      if (point > max_point) max_point = point;
      unit = 0; /* a low one after this stands alone */
    } else {
      points++;
      if (unit > max_point) max_point = unit;
    }
    previous = unit;
  }
  *text = (struct fb_text){(size_t)(pos - input->pos), units, points, max_point};
  input->pos = pos;
  return FB_OK;
}

static inline void store_point(void* points, size_t index, int width, uint32_t point) {
  if (width == 1) ((uint8_t*)points)[index] = (uint8_t)point;
  else if (width == 2) ((uint16_t*)points)[index] = (uint16_t)point;
  else ((uint32_t*)points)[index] = point;
}

static inline uint32_t load_point(const void* points, size_t index, int width) {
  if (width == 1) return ((const uint8_t*)points)[index];
  if (width == 2) return ((const uint16_t*)points)[index];
  return ((const uint32_t*)points)[index];
}

void fb_text_decode(const uint8_t* from, const struct fb_text* text, int width, void* points) {
  const uint8_t* end = from + text->size;
  size_t index = 0;
  uint32_t unit = 0, previous = 0;

  while (from < end && read_unit(&from, end, &unit) == FB_OK) {
    if (is_low_surrogate(unit) && is_high_surrogate(previous)) {
      store_point(points, index - 1, width, join_surrogates(previous, unit));
      unit = 0;
    } else {
      store_point(points, index++, width, unit);
    }
    previous = unit;
  }
}

static bool has_surrogate_pair(const void* points, size_t length, int width) {
  for (size_t i = 1; i < length; i++)
    if (is_low_surrogate(load_point(points, i, width)) && is_high_surrogate(load_point(points, i - 1, width)))
      return true;
  return false;
}

/* A loop for each width, in which nothing depends on the last character: the compiler takes many at once. */
static inline bool plan_text(const void* points, size_t length, int width, struct fb_text* text) {
  uint32_t above_7_bits = 0, above_14_bits = 0, pairs = 0, low_surrogates = 0;

  for (size_t i = 0; i < length; i++) {
    uint32_t point = load_point(points, i, width);
    /* Both halves of a surrogate pair are above 0x3fff. */
    above_7_bits += point >= 0x80;
    above_14_bits += point >= 0x4000;
    pairs += point > 0xffff;
    low_surrogates |= is_low_surrogate(point);
  }
  text->size = length + above_7_bits + above_14_bits + 3 * (size_t)pairs;
  text->units = (uint32_t)length + pairs;
  text->length = (uint32_t)length;
  return low_surrogates == 0 || !has_surrogate_pair(points, length, width);
}

bool fb_text_plan(const void* points, size_t length, int width, struct fb_text* text) {
  if (width == 1) return plan_text(points, length, 1, text);
  return width == 2 ? plan_text(points, length, 2, text) : plan_text(points, length, 4, text);
}

uint8_t* fb_text_encode(const void* points, size_t length, int width, uint8_t* to) {
  for (size_t i = 0; i < length; i++) {
    uint32_t point = load_point(points, i, width);
    if (point > 0xffff) {
      point -= 0x10000u;
      to = fb_text_write_varint(0xd800u | point >> 10, to);
      point = 0xdc00u | (point & 0x3ffu);
    }
    to = fb_text_write_varint(point, to);
  }
  return to;
}

/* The bytes after the first of a character, of which the second has bounds of its own; 0: no character begins so. */
static unsigned utf8_rest(uint8_t first, uint8_t* low, uint8_t* high) {
  *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (first >= 0xc2 && first < 0xe0) return 1;
  if (first >= 0xe0 && first < 0xf0) return 2;
  return first >= 0xf0 && first < 0xf5 ? 3 : 0;
}

bool fb_text_is_utf8(const uint8_t* from, size_t size) {
  const uint8_t* end = from + size;
  uint8_t low, high;

  if (fb_text_is_ascii(from, size)) return true;
  while (from < end) {
    unsigned rest;
    if (*from < 0x80) {
      from++;
      continue;
    }
    rest = utf8_rest(*from, &low, &high);
    if (rest == 0 || (size_t)(end - from) <= rest || from[1] < low || from[1] > high) return false;
    for (unsigned i = 2; i <= rest; i++)
      if ((from[i] & 0xc0) != 0x80) return false;
    from += rest + 1;
  }
  return true;
}
