/* What a hash is made of: both halves of a product of 128 bits.
 *
 * Owner:   nothing is allocated.
 * Threads: any. */
#ifndef FB_ENTRY_CACHE_H
#define FB_ENTRY_CACHE_H

#include <stdint.h>

typedef unsigned __int128 fb_entry_cache_product;

static inline uint64_t fb_entry_cache_fold(uint64_t one, uint64_t other) {
  fb_entry_cache_product product = (fb_entry_cache_product)one * other;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
