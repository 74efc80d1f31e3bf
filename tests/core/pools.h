/* Looks into pools, and segments past all local ones, for the tests that need them. */
#ifndef FB_POOLS_H
#define FB_POOLS_H

#include "memory/local_buffer_pool.h"

static inline uint32_t requested_of(struct fb_local_buffer_pool* pool) {
  struct fb_buffer_pool_usage usage;

  fb_local_buffer_pool_get_usage(pool, &usage);
  return usage.requested;
}

/* Segments that somebody holds. */
static inline uint32_t used_of(struct fb_local_buffer_pool* pool) {
  struct fb_buffer_pool_usage usage;

  fb_local_buffer_pool_get_usage(pool, &usage);
  return usage.requested - usage.stock;
}

static inline void give_segment(struct fb_buffer* buffer) { fb_network_buffer_pool_give(buffer->owner, buffer); }

/* A segment as a local pool takes it, with nobody who counts it; NULL: there is none. */
static inline struct fb_buffer* take_segment(struct fb_network_buffer_pool* global) {
  struct fb_buffer* taken = fb_network_buffer_pool_take(global);

  if (taken != NULL) fb_buffer_reset(taken, give_segment, global);
  return taken;
}

#endif
