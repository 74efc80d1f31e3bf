/* XXH64 with seed 0, of bytes that come in pieces; and what to append so that a wanted hash comes out.
 *
 * Not cryptographic: whoever can choose 8 bytes can have any hash. Yann Collet, "xxHash fast digest algorithm".
 *
 * Owner:   nothing is allocated.
 * Threads: one at a time. */
#ifndef FB_XXH64_H
#define FB_XXH64_H

#include <stddef.h>
#include <stdint.h>

#define FB_XXH64_STRIPE 32 /* bytes that are taken in at a time */

struct fb_xxh64 {
  uint64_t lanes[4];
  uint8_t rest[FB_XXH64_STRIPE]; /* the first size % 32 bytes wait for the others of their stripe */
  uint64_t size;
};

void fb_xxh64_start(struct fb_xxh64* self);
void fb_xxh64_add(struct fb_xxh64* self, const uint8_t* data, size_t size);

/* The hash of what was added so far. */
uint64_t fb_xxh64_value(const struct fb_xxh64* self);

/* The same for bytes that are all there. */
uint64_t fb_xxh64(const uint8_t* data, size_t size);

/* The number that, appended as 8 little-endian bytes, makes the hash `wanted`. What was added has 8 * n bytes, and
 * these 8 must not complete a stripe: size % 32 is 0, 8 or 16. */
uint64_t fb_xxh64_last_word(const struct fb_xxh64* self, uint64_t wanted);

#endif
