#include "sort/record_order.h"

#include <string.h>

enum {
  PREFIX_BYTES = 7,
  LONG_KEY = PREFIX_BYTES + 1, /* the prefix does not say all of it */
  SIGN = 0x80,                 /* of a byte */
  SMALL_PART = 16,             /* is sorted by insertion */
  FEW_REFERENCES = 512,        /* are merged; more are distributed by the bytes of their prefixes */
};

uint64_t fb_record_order_prefix(const uint8_t* key, size_t size) {
  size_t count = size < PREFIX_BYTES ? size : PREFIX_BYTES;
  uint64_t prefix = 0;

  for (size_t i = 0; i < count; i++) prefix |= (uint64_t)(key[i] ^ SIGN) << (56 - 8 * i);
  return prefix | (size < LONG_KEY ? size : LONG_KEY);
}

int fb_record_order_compare_keys(const uint8_t* one, uint32_t one_size, const uint8_t* other, uint32_t other_size) {
  uint32_t size = one_size < other_size ? one_size : other_size;

  if (size > 0 && memcmp(one, other, size) != 0) {
    uint32_t i = 0;

    while (one[i] == other[i]) i++;
    return (one[i] ^ SIGN) - (other[i] ^ SIGN);
  }
  return (one_size > other_size) - (one_size < other_size);
}

int fb_record_order_compare(const struct fb_sorted_record* one, const struct fb_sorted_record* other) {
  int order = fb_record_order_compare_keys(one->key, one->key_size, other->key, other->key_size);

  return order != 0 ? order : (one->timestamp > other->timestamp) - (one->timestamp < other->timestamp);
}

void fb_record_order_read(const uint8_t* at, struct fb_sorted_record* to) {
  memcpy(&to->key_size, at, 4);
  memcpy(&to->record_size, at + 4, 4);
  memcpy(&to->timestamp, at + 8, 8);
  to->key = at + FB_RECORD_RUN_HEAD;
  to->record = to->key + to->key_size;
}

/* Whether `other`, which stands behind `one`, comes before it. */
static inline bool is_before(const struct fb_record_reference* other, const struct fb_record_reference* one,
                             bool by_time) {
  struct fb_sorted_record earlier, later;

  if (other->prefix != one->prefix) return other->prefix < one->prefix;
  if (!by_time && (one->prefix & 0xff) != LONG_KEY) return false;
  fb_record_order_read(other->at, &earlier);
  fb_record_order_read(one->at, &later);
  if (!by_time) {
    return fb_record_order_compare_keys(earlier.key, earlier.key_size, later.key, later.key_size) < 0;
  }
  return fb_record_order_compare(&earlier, &later) < 0;
}

static void insert_in_order(struct fb_record_reference* references, size_t count, bool by_time) {
  for (size_t i = 1; i < count; i++) {
    struct fb_record_reference moved = references[i];
    size_t place = i;

    while (place > 0 && is_before(&moved, &references[place - 1], by_time)) {
      references[place] = references[place - 1];
      place--;
    }
    references[place] = moved;
  }
}

/* Merges [0, middle) and [middle, count) of `from` into `to`. */
static void merge_parts(const struct fb_record_reference* from, struct fb_record_reference* to, size_t middle,
                        size_t count, bool by_time) {
  size_t left = 0, right = middle, place = 0;

  while (left < middle && right < count) {
    to[place++] = is_before(&from[right], &from[left], by_time) ? from[right++] : from[left++];
  }
  memcpy(to + place, from + left, (middle - left) * sizeof(*to));
  memcpy(to + place + (middle - left), from + right, (count - right) * sizeof(*to));
}

static void merge_sort(struct fb_record_reference* references, struct fb_record_reference* scratch, size_t count,
                       bool by_time) {
  struct fb_record_reference *from = references, *to = scratch;

  for (size_t i = 0; i < count; i += SMALL_PART) {
    insert_in_order(references + i, count - i < SMALL_PART ? count - i : SMALL_PART, by_time);
  }
  for (size_t part = SMALL_PART; part < count; part *= 2) {
    struct fb_record_reference* swapped = from;

    for (size_t i = 0; i < count; i += 2 * part) {
      size_t size = count - i < 2 * part ? count - i : 2 * part;

      merge_parts(from + i, to + i, size < part ? size : part, size, by_time);
    }
    from = to;
    to = swapped;
  }
  if (from != references) memcpy(references, from, count * sizeof(*references));
}

/* One pass: by the byte of the prefix at `shift`. `counts` says how many references have which value there. */
static void distribute_by_byte(const struct fb_record_reference* from, struct fb_record_reference* to, size_t count,
                               int shift, const size_t* counts) {
  size_t places[256], place = 0;

  for (int value = 0; value < 256; value++) {
    places[value] = place;
    place += counts[value];
  }
  for (size_t i = 0; i < count; i++) to[places[(from[i].prefix >> shift) & 0xff]++] = from[i];
}

static void distribute(struct fb_record_reference* references, struct fb_record_reference* scratch, size_t count) {
  struct fb_record_reference *from = references, *to = scratch;
  size_t counts[8][256];

  memset(counts, 0, sizeof(counts));
  for (size_t i = 0; i < count; i++) {
    for (int byte = 0; byte < 8; byte++) counts[byte][(references[i].prefix >> (8 * byte)) & 0xff]++;
  }
  for (int byte = 0; byte < 8; byte++) {
    struct fb_record_reference* swapped = from;

    if (counts[byte][(references[0].prefix >> (8 * byte)) & 0xff] == count) continue; /* the same everywhere */
    distribute_by_byte(from, to, count, 8 * byte, counts[byte]);
    from = to;
    to = swapped;
  }
  if (from != references) memcpy(references, from, count * sizeof(*references));
}

void fb_record_order_sort(struct fb_record_reference* references, struct fb_record_reference* scratch, size_t count,
                          bool by_time) {
  if (count <= FEW_REFERENCES) {
    merge_sort(references, scratch, count, by_time);
    return;
  }
  distribute(references, scratch, count);
  for (size_t start = 0, end; start < count; start = end) {
    for (end = start + 1; end < count && references[end].prefix == references[start].prefix; end++) {}
    if (end - start > 1 && (by_time || (references[start].prefix & 0xff) == LONG_KEY)) {
      merge_sort(references + start, scratch + start, end - start, by_time);
    }
  }
}
