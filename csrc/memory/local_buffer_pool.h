/* The share of one result partition or input gate in the global pool.
 *
 * A local pool borrows segments from the global one (network_buffer_pool.h), with a guaranteed minimum, a
 * maximum and a current size that the global pool redistributes. It keeps one segment in stock, so that "is
 * available" promises that a request is granted. Flink: LocalBufferPool.
 *
 * Owner:   a buffer belongs to its requester until its last release; then recycle() brings it home, also when
 *          the local pool was destroyed meanwhile, and from any thread. Buffers in use hold their local pool,
 *          which holds the global one. Handles are counted: open() gives one, close() drops it.
 * Threads: any, for everything. No lock is held over a callback or a ring. */
#ifndef FB_BUFFER_POOL_H
#define FB_BUFFER_POOL_H

#include "memory/network_buffer_pool.h"

struct fb_local_buffer_pool; /* opaque */

struct fb_buffer_pool_options {
  uint32_t min;                     /* guaranteed segments, > 0 */
  uint32_t expected;                /* weight in redistribution; 0 = min */
  uint32_t max;                     /* FB_UNBOUNDED or >= min */
  uint32_t channel_count;           /* 0: no per-channel accounting */
  uint32_t max_buffers_per_channel; /* soft quota; 0 = unlimited */
  uint32_t max_overdraft;           /* extra segments at full size */
};

/* A listener is told about one buffer, then it has to register again. */
struct fb_buffer_listener {
  /* Offers one buffer (with its reference). false: not wanted, the reference stays with the pool, which
   * offers it to the next listener. Called without any lock. */
  bool (*on_buffer_available)(struct fb_buffer_listener* self, struct fb_buffer* buffer);
  /* Once, while registered. Called without any lock. */
  void (*on_pool_destroyed)(struct fb_buffer_listener* self);
  struct fb_buffer_listener* next; /* for the pool, while registered */
};

/* Registers a pool and redistributes. FB_EARGUMENT, FB_EDESTROYED, FB_EBUFFERS (required + min > total). */
int fb_local_buffer_pool_open(struct fb_network_buffer_pool* global, const struct fb_buffer_pool_options* options,
                              struct fb_local_buffer_pool** self);
/* Flink's lazyDestroy(): idempotent; idle segments go home now, those in use when they are released;
 * wakes everybody who waits. */
void fb_local_buffer_pool_destroy(struct fb_local_buffer_pool* self);
bool fb_local_buffer_pool_is_destroyed(struct fb_local_buffer_pool* self);
/* Drops the caller's reference (and destroys). */
void fb_local_buffer_pool_close(struct fb_local_buffer_pool* self);

/* Takes one buffer for `channel` (FB_NO_CHANNEL: nobody's quota) without waiting; *buffer = NULL if there is
 * none now. FB_EDESTROYED. The buffer has one reference and an empty position marker. */
int fb_local_buffer_pool_request(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer** buffer);
/* The same, waiting up to timeout_ms (< 0: for ever): FB_ETIMEOUT. */
int fb_local_buffer_pool_request_blocking(struct fb_local_buffer_pool* self, uint32_t channel, int64_t timeout_ms,
                                          struct fb_buffer** buffer);
/* Holds at least `count` (<= min) segments, waiting up to timeout_ms. */
int fb_local_buffer_pool_reserve(struct fb_local_buffer_pool* self, uint32_t count, int64_t timeout_ms);

/* Stock is not empty and no channel has reached its quota: what a task checks before each record. Cheap. */
bool fb_local_buffer_pool_is_available(struct fb_local_buffer_pool* self);
/* Rings `wakeup` whenever the pool becomes available, has stock again or is destroyed, until removed. The
 * caller looks at the pool after this and before it sleeps. FB_ENOMEM. */
int fb_local_buffer_pool_add_wakeup(struct fb_local_buffer_pool* self, struct fb_wakeup* wakeup);
void fb_local_buffer_pool_remove_wakeup(struct fb_local_buffer_pool* self, struct fb_wakeup* wakeup);

/* false: refused, because stock is not empty or the pool is destroyed. */
bool fb_local_buffer_pool_add_listener(struct fb_local_buffer_pool* self, struct fb_buffer_listener* listener);
/* false: it was not registered (any more): it has been, or is being, told. */
bool fb_local_buffer_pool_remove_listener(struct fb_local_buffer_pool* self, struct fb_buffer_listener* listener);

/* For tests and tools; the next redistribution decides anew. FB_EARGUMENT below the minimum. */
int fb_local_buffer_pool_set_size(struct fb_local_buffer_pool* self, uint32_t size);

uint32_t fb_local_buffer_pool_segment_size(const struct fb_local_buffer_pool* self);
uint32_t fb_local_buffer_pool_size(struct fb_local_buffer_pool* self); /* current size */
uint32_t fb_local_buffer_pool_min(const struct fb_local_buffer_pool* self);
uint32_t fb_local_buffer_pool_max(const struct fb_local_buffer_pool* self);
uint32_t fb_local_buffer_pool_stock(struct fb_local_buffer_pool* self); /* idle segments held */

/* All of it at one moment. Counters run since open(). */
struct fb_buffer_pool_usage {
  uint32_t size;
  uint32_t stock;
  uint32_t requested; /* all segments attributed here */
  uint32_t peak;      /* highest `requested` */
  uint32_t full_channels;
  uint32_t blocked; /* requests that wait now */
  uint64_t granted; /* requests that got a buffer, overdrafts included */
  uint64_t refused; /* requests without waiting that got none */
  uint64_t overdrafts;
  uint64_t waits; /* requests that had to wait */
  int64_t waited_ms;
};
void fb_local_buffer_pool_get_usage(struct fb_local_buffer_pool* self, struct fb_buffer_pool_usage* usage);

#endif
