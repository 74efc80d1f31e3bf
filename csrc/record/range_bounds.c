#include "record/range_bounds.h"

#include <stdlib.h>
#include <string.h>

#include "ground/byte_order.h"

void fb_range_bounds_close(struct fb_range_bounds* self) {
  free(self->prefixes);
  free(self->flags);
  free(self->ends);
  free(self->bytes);
  *self = (struct fb_range_bounds){0};
}

static uint64_t prefix_of(const uint8_t* key, size_t size) {
  uint8_t first[8] = {0};

  if (size >= 9) return fb_load_be64(key + 1);
  memcpy(first, key + 1, size - 1);
  return fb_load_be64(first);
}

static size_t start_of(const struct fb_range_bounds* self, uint32_t i) { return i == 0 ? 0 : self->ends[i - 1]; }

/* Below 0, 0, above 0: bound `i` against a key. */
static int compare_bound(const struct fb_range_bounds* self, uint32_t i, const uint8_t* key, size_t size) {
  size_t start = start_of(self, i), length = self->ends[i] - start;
  int order = memcmp(self->bytes + start, key, length < size ? length : size);

  return order != 0 ? order : (length > size) - (length < size);
}

static int grow_bounds(struct fb_range_bounds* self) {
  uint32_t room = self->room == 0 ? 16 : 2 * self->room;
  uint64_t* prefixes = realloc(self->prefixes, room * sizeof *prefixes);
  uint8_t* flags;
  size_t* ends;

  if (prefixes == NULL) return FB_ENOMEM;
  self->prefixes = prefixes;
  flags = realloc(self->flags, room);
  if (flags == NULL) return FB_ENOMEM;
  self->flags = flags;
  ends = realloc(self->ends, room * sizeof *ends);
  if (ends == NULL) return FB_ENOMEM;
  self->ends = ends;
  self->room = room;
  return FB_OK;
}

static int grow_bytes(struct fb_range_bounds* self, size_t size) {
  size_t used = start_of(self, self->count), room = self->bytes_room == 0 ? 256 : self->bytes_room;
  uint8_t* bytes;

  if (self->bytes_room - used >= size) return FB_OK;
  while (room - used < size) {
    if (room > SIZE_MAX / 2) return FB_ENOMEM;
    room *= 2;
  }
  bytes = realloc(self->bytes, room);
  if (bytes == NULL) return FB_ENOMEM;
  self->bytes = bytes;
  self->bytes_room = room;
  return FB_OK;
}

int fb_range_bounds_add(struct fb_range_bounds* self, const uint8_t* key, size_t size) {
  uint32_t i = self->count;

  if (size == 0 || (i > 0 && compare_bound(self, i - 1, key, size) >= 0)) return FB_EARGUMENT;
  if (i == self->room && (i > INT32_MAX / 2 || grow_bounds(self) < 0)) return FB_ENOMEM;
  if (grow_bytes(self, size) < 0) return FB_ENOMEM;
  memcpy(self->bytes + start_of(self, i), key, size);
  self->prefixes[i] = prefix_of(key, size);
  self->flags[i] = key[0];
  self->ends[i] = start_of(self, i) + size;
  self->are_words = (i == 0 || self->are_words) && (size == 9 || size == 1); /* a null is its flag alone */
  self->count++;
  return FB_OK;
}

/* The first of the bounds from `base` on that is not below (flag, word), or, if `is_past`, that is above it. No branch
 * that could be guessed wrong. */
static uint32_t search_words(const struct fb_range_bounds* self, uint32_t base, uint8_t flag, uint64_t word,
                             bool is_past) {
  uint32_t left = self->count - base;

  while (left > 0) {
    uint32_t half = left / 2, middle = base + half;
    bool is_same = self->flags[middle] == flag;
    bool is_below = self->flags[middle] < flag || (is_same && self->prefixes[middle] < word) ||
                    (is_past && is_same && self->prefixes[middle] == word);
    base = is_below ? middle + 1 : base;
    left = is_below ? left - half - 1 : half;
  }
  return base;
}

uint32_t fb_range_bounds_find_word(const struct fb_range_bounds* self, uint8_t flag, uint64_t word) {
  return search_words(self, 0, flag, word, false);
}

uint32_t fb_range_bounds_find(const struct fb_range_bounds* self, const uint8_t* key, size_t size) {
  uint64_t prefix;
  uint32_t base, end;

  if (size == 0 || self->count == 0) return 0;
  prefix = prefix_of(key, size);
  base = search_words(self, 0, key[0], prefix, false);
  if (self->are_words && size <= 9) return base;
  if (base == self->count || self->flags[base] != key[0] || self->prefixes[base] != prefix) return base;
  end = search_words(self, base, key[0], prefix, true); /* up to here they begin alike */
  while (base < end) {
    uint32_t middle = base + (end - base) / 2;
    if (compare_bound(self, middle, key, size) < 0) base = middle + 1;
    else end = middle;
  }
  return base;
}
