/* The growing buffers of an Arrow array that is being made.
 *
 * Owner:   the memory owns `data` until it is freed, or handed over. Threads: one at a time. */
#ifndef FB_ARROW_MEMORY_H
#define FB_ARROW_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/errors.h"

#define FB_ARROW_SLACK 64 /* bytes behind every buffer's end that may be written, too */

struct fb_arrow_memory {
  uint8_t* data;
  size_t size;
  size_t capacity;
  size_t expected; /* bytes that the first growth makes room for */
};

/* Blocks of arrays that were released, on their way to the next batch of the same reader: so a stream of batches, each of
 * which is let go before long, goes through the same memory, and pages of the system are not asked for again and again.
 *
 * Owner:   counted: the builder holds one reference, each array that is handed over another. It keeps no more blocks
 *          than FB_ARROW_MEMORY_KEPT_BLOCKS and FB_ARROW_MEMORY_KEPT_BYTES, the last that came, and none once the
 *          builder is closed.
 * Threads: any thread may release an array. */
struct fb_arrow_memory_pool;

#define FB_ARROW_MEMORY_KEPT_BLOCKS 64
#define FB_ARROW_MEMORY_KEPT_BYTES  ((size_t)256 << 20)
#define FB_ARROW_MEMORY_MIN_KEPT    (16u << 10) /* bytes; smaller blocks cost less than they would here */

/* NULL: no memory. */
struct fb_arrow_memory_pool* fb_arrow_memory_pool_open(void);
struct fb_arrow_memory_pool* fb_arrow_memory_pool_retain(struct fb_arrow_memory_pool* self);
void fb_arrow_memory_pool_release(struct fb_arrow_memory_pool* self);
/* Frees what is kept and keeps nothing more. */
void fb_arrow_memory_pool_stop(struct fb_arrow_memory_pool* self);
/* Takes over a block of `capacity` bytes and the slack, or frees it. */
void fb_arrow_memory_pool_give(struct fb_arrow_memory_pool* self, uint8_t* data, size_t capacity);
/* A memory that begins anew and will probably be as large as `expected`: on a block that fits, if there is one. */
void fb_arrow_memory_pool_begin(struct fb_arrow_memory_pool* self, size_t expected, struct fb_arrow_memory* memory);

void fb_arrow_memory_free(struct fb_arrow_memory* self);

/* The slow half of fb_arrow_memory_reserve. */
int fb_arrow_memory_grow(struct fb_arrow_memory* self, size_t more);

/* Room for `more` bytes, and the slack. FB_ENOMEM. */
static inline int fb_arrow_memory_reserve(struct fb_arrow_memory* self, size_t more) {
  if (self->data != NULL && self->capacity - self->size >= more) return FB_OK;
  return fb_arrow_memory_grow(self, more);
}

static inline void fb_arrow_memory_set_bit(uint8_t* bits, int64_t i, bool value) {
  uint8_t mask = (uint8_t)(1u << (i % 8));

  bits[i / 8] = (uint8_t)(value ? bits[i / 8] | mask : bits[i / 8] & ~mask);
}

/* Room for bits up to `count`. */
static inline int fb_arrow_memory_reserve_bits(struct fb_arrow_memory* self, int64_t count) {
  size_t size = ((size_t)count + 7) / 8;
  int code = FB_OK;

  if (size > self->size) {
    code = fb_arrow_memory_reserve(self, size - self->size);
    if (code == FB_OK) self->size = size;
  }
  return code;
}

#endif
