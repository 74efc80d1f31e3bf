#include "ground/xxh64.h"

#include <string.h>

#include "ground/byte_order.h"

/* The primes of the algorithm, and what undoes a multiplication by them modulo 2^64. */
#define P1 0x9e3779b185ebca87u
#define P2 0xc2b2ae3d27d4eb4fu
#define P3 0x165667b19e3779f9u
#define P4 0x85ebca77c2b2ae63u
#define P5 0x27d4eb2f165667c5u

static inline uint64_t rotated(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

static inline uint64_t lane_with(uint64_t lane, uint64_t word) { return rotated(lane + word * P2, 31) * P1; }

/* 1 / prime modulo 2^64: each step doubles the bits that are right. */
static uint64_t inverse_of(uint64_t prime) {
  uint64_t inverse = prime; /* right in 3 bits */

  for (int i = 0; i < 5; i++) inverse *= 2 - prime * inverse;
  return inverse;
}

static inline void take_stripe(uint64_t* lanes, const uint8_t* data) {
  for (int i = 0; i < 4; i++) lanes[i] = lane_with(lanes[i], fb_load_le64(data + 8 * i));
}

/* All stripes and the size; what is left of the bytes comes behind. */
static uint64_t begin_value(const uint64_t* lanes, uint64_t size) {
  uint64_t hash = P5;

  if (size >= FB_XXH64_STRIPE) {
    hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
    for (int i = 0; i < 4; i++) hash = (hash ^ lane_with(0, lanes[i])) * P1 + P4;
  }
  return hash + size;
}

static inline uint64_t with_word(uint64_t hash, uint64_t word) {
  return rotated(hash ^ lane_with(0, word), 27) * P1 + P4;
}

static uint64_t end_value(uint64_t hash, const uint8_t* rest, size_t size) {
  for (; size >= 8; size -= 8, rest += 8) hash = with_word(hash, fb_load_le64(rest));
  if (size >= 4) {
    hash = rotated(hash ^ fb_load_le32(rest) * P1, 23) * P2 + P3;
    size -= 4;
    rest += 4;
  }
  for (; size > 0; size--, rest++) hash = rotated(hash ^ *rest * P5, 11) * P1;
  hash = (hash ^ (hash >> 33)) * P2;
  hash = (hash ^ (hash >> 29)) * P3;
  return hash ^ (hash >> 32);
}

void fb_xxh64_start(struct fb_xxh64* self) {
  self->lanes[0] = P1 + P2;
  self->lanes[1] = P2;
  self->lanes[2] = 0;
  self->lanes[3] = 0 - P1;
  self->size = 0;
}

void fb_xxh64_add(struct fb_xxh64* self, const uint8_t* data, size_t size) {
  size_t waiting = self->size % FB_XXH64_STRIPE;

  if (size == 0) return;
  self->size += size;
  if (waiting > 0 && waiting + size >= FB_XXH64_STRIPE) {
    size_t part = FB_XXH64_STRIPE - waiting;

    memcpy(self->rest + waiting, data, part);
    take_stripe(self->lanes, self->rest);
    data += part;
    size -= part;
    waiting = 0;
  }
  if (waiting == 0) {
    for (; size >= FB_XXH64_STRIPE; size -= FB_XXH64_STRIPE, data += FB_XXH64_STRIPE) take_stripe(self->lanes, data);
  }
  memcpy(self->rest + waiting, data, size);
}

uint64_t fb_xxh64_value(const struct fb_xxh64* self) {
  return end_value(begin_value(self->lanes, self->size), self->rest, self->size % FB_XXH64_STRIPE);
}

uint64_t fb_xxh64(const uint8_t* data, size_t size) {
  struct fb_xxh64 state;
  size_t left = size;

  fb_xxh64_start(&state);
  for (; left >= FB_XXH64_STRIPE; left -= FB_XXH64_STRIPE, data += FB_XXH64_STRIPE) take_stripe(state.lanes, data);
  return end_value(begin_value(state.lanes, size), data, left);
}

uint64_t fb_xxh64_last_word(const struct fb_xxh64* self, uint64_t wanted) {
  const uint8_t* rest = self->rest;
  uint64_t hash = begin_value(self->lanes, self->size + 8);
  uint64_t word = wanted;

  for (size_t left = self->size % FB_XXH64_STRIPE; left > 0; left -= 8, rest += 8) {
    hash = with_word(hash, fb_load_le64(rest));
  }
  /* end_value and with_word backwards. */
  word = (word ^ (word >> 32)) * inverse_of(P3);
  word = (word ^ (word >> 29) ^ (word >> 58)) * inverse_of(P2);
  word ^= word >> 33;
  word = rotated((word - P4) * inverse_of(P1), 64 - 27) ^ hash;
  return rotated(word * inverse_of(P1), 64 - 31) * inverse_of(P2);
}
