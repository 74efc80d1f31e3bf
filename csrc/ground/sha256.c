#define _GNU_SOURCE /* getentropy */
#include "ground/sha256.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "ground/byte_order.h"
#include "ground/errors.h"

#define BLOCK 64 /* bytes */

/* Fraction bits of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t value, unsigned by) { return value >> by | value << (32 - by); }

static void mix_block(uint32_t* state, const uint8_t* block) {
  uint32_t w[64], s[8];

  for (int i = 0; i < 16; i++) w[i] = fb_load_be32(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t low = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t high = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t e = rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25);
    uint32_t a = rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22);
    uint32_t first = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
    uint32_t second = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
  fb_sha256_wipe(w, sizeof w);
  fb_sha256_wipe(s, sizeof s);
}

void fb_sha256_open(struct fb_sha256* self) {
  /* Fraction bits of the square roots of the first 8 primes. */
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(self->state, start, sizeof start);
  self->size = 0;
}

void fb_sha256_add(struct fb_sha256* self, const void* data, size_t size) {
  const uint8_t* from = data;

  while (size > 0) {
    size_t filled = (size_t)(self->size % BLOCK);
    size_t taken = size < BLOCK - filled ? size : BLOCK - filled;

    memcpy(self->block + filled, from, taken);
    self->size += taken;
    from += taken;
    size -= taken;
    if (filled + taken == BLOCK) mix_block(self->state, self->block);
  }
}

void fb_sha256_finish(struct fb_sha256* self, uint8_t* digest) {
  static const uint8_t end[BLOCK] = {0x80};
  uint64_t bits = self->size * 8;
  size_t filled = (size_t)(self->size % BLOCK);
  uint8_t length[8];

  /* 0x80 and zeros until 8 bytes are left in a block. */
  fb_sha256_add(self, end, (filled < BLOCK - 8 ? BLOCK - 8 : 2 * BLOCK - 8) - filled);
  fb_store_be64(length, bits);
  fb_sha256_add(self, length, sizeof length);
  for (int i = 0; i < 8; i++) fb_store_be32(digest + 4 * i, self->state[i]);
  fb_sha256_wipe(self, sizeof(*self));
}

void fb_sha256_hmac_open(struct fb_sha256_hmac* self, const void* key, size_t size) {
  uint8_t pad[BLOCK] = {0};

  if (size > BLOCK) {
    fb_sha256_open(&self->inner);
    fb_sha256_add(&self->inner, key, size);
    fb_sha256_finish(&self->inner, pad);
  } else if (size > 0) {
    memcpy(pad, key, size);
  }
  for (int i = 0; i < BLOCK; i++) pad[i] ^= 0x36;
  fb_sha256_open(&self->inner);
  fb_sha256_add(&self->inner, pad, BLOCK);
  for (int i = 0; i < BLOCK; i++) pad[i] ^= 0x36 ^ 0x5c;
  fb_sha256_open(&self->outer);
  fb_sha256_add(&self->outer, pad, BLOCK);
  fb_sha256_wipe(pad, sizeof pad);
}

void fb_sha256_hmac_add(struct fb_sha256_hmac* self, const void* data, size_t size) {
  fb_sha256_add(&self->inner, data, size);
}

void fb_sha256_hmac_finish(struct fb_sha256_hmac* self, uint8_t* digest) {
  uint8_t inner[FB_SHA256_SIZE];

  fb_sha256_finish(&self->inner, inner);
  fb_sha256_add(&self->outer, inner, sizeof inner);
  fb_sha256_finish(&self->outer, digest);
}

bool fb_sha256_is_equal(const void* left, const void* right, size_t size) {
  /* volatile: no compiler may stop at the first difference. */
  const volatile uint8_t *a = left, *b = right;
  uint8_t difference = 0;

  for (size_t i = 0; i < size; i++) difference = (uint8_t)(difference | (a[i] ^ b[i]));
  return difference == 0;
}

int fb_sha256_random(void* to, size_t size) {
  if (size > 256) return FB_EARGUMENT;
  return getentropy(to, size) == 0 ? FB_OK : FB_EIO;
}

void fb_sha256_wipe(void* memory, size_t size) {
  memset(memory, 0, size);
  __asm__ volatile("" : : "r"(memory) : "memory"); /* says that somebody reads it */
}
