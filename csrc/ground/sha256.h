/* SHA-256 and HMAC-SHA256, and what belongs to a proof: random bytes, a comparison that takes the same time
 * wherever two values differ, and memory that is wiped. FIPS 180-4, RFC 2104.
 *
 * For the few hundred bytes that open a connection: plain C, 3 microseconds for a proof.
 *
 * Owner:   nothing is allocated. What was fed with a secret holds traces of it until finish(), which wipes them.
 * Threads: none of their own. */
#ifndef FB_SHA256_H
#define FB_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FB_SHA256_SIZE 32 /* bytes of a digest */

struct fb_sha256 {
  uint32_t state[8];
  uint64_t size; /* bytes so far */
  uint8_t block[64];
};

void fb_sha256_open(struct fb_sha256* self);
void fb_sha256_add(struct fb_sha256* self, const void* data, size_t size);
/* Writes FB_SHA256_SIZE bytes and wipes `self`. */
void fb_sha256_finish(struct fb_sha256* self, uint8_t* digest);

struct fb_sha256_hmac {
  struct fb_sha256 inner, outer;
};

/* The key is not needed after this. */
void fb_sha256_hmac_open(struct fb_sha256_hmac* self, const void* key, size_t size);
void fb_sha256_hmac_add(struct fb_sha256_hmac* self, const void* data, size_t size);
void fb_sha256_hmac_finish(struct fb_sha256_hmac* self, uint8_t* digest);

/* Whether both hold the same bytes, in a time that depends on `size` alone. */
bool fb_sha256_is_equal(const void* left, const void* right, size_t size);
/* At most 256 bytes that nobody can foretell, from the system. FB_EIO with errno; FB_EARGUMENT. */
int fb_sha256_random(void* to, size_t size);
/* Zeros, also where the compiler sees that nobody reads them. */
void fb_sha256_wipe(void* memory, size_t size);

#endif
