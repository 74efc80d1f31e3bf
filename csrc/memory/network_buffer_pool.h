/* All memory segments of a process, in one allocation, and how they are shared among local pools.
 *
 * A local pool (local_buffer_pool.h) registers as a member, with a guaranteed minimum and a maximum; what nobody is
 * guaranteed is shared out by weight, again with each member that comes or goes. Flink: NetworkBufferPool.
 *
 * Owner:   a buffer belongs to its requester until its last release, which brings it home from any thread.
 *          The memory lives until the pool is closed AND its last buffer came home: late releases are always
 *          safe. Handles are counted: open() gives one, close() drops it, each member holds one.
 * Threads: any, for everything. No lock is held over a ring or a call that leaves the pools. Order of the
 *          locks inside: registry -> latch of a member -> who waits for the free list. Requests and returns
 *          take none.
 * Waiting: blocking calls sleep on fb_wakeup in slices given by the caller. */
#ifndef FB_NETWORK_BUFFER_POOL_H
#define FB_NETWORK_BUFFER_POOL_H

#include "ground/wakeup.h"
#include "memory/buffer.h"

struct fb_network_buffer_pool; /* opaque */

#define FB_UNBOUNDED UINT32_MAX

/* Allocates `segment_count` segments of `segment_size` bytes at once. FB_EARGUMENT for 0 or more than
 * 2^31-1 bytes a segment; FB_ENOMEM leaves *self NULL and allocates nothing. */
int fb_network_buffer_pool_open(uint32_t segment_count, uint32_t segment_size, struct fb_network_buffer_pool** self);
/* Flink's destroy(): nobody can request any more, totals report 0; segments out may still come home. */
void fb_network_buffer_pool_destroy(struct fb_network_buffer_pool* self);
bool fb_network_buffer_pool_is_destroyed(struct fb_network_buffer_pool* self);
/* Destroys every local pool that is registered; this one goes on. */
void fb_network_buffer_pool_destroy_pools(struct fb_network_buffer_pool* self);
/* Drops the caller's reference (and destroys). The memory goes when the last buffer is home. */
void fb_network_buffer_pool_close(struct fb_network_buffer_pool* self);

uint32_t fb_network_buffer_pool_segment_size(const struct fb_network_buffer_pool* self);
/* Segments; 0 once destroyed. */
uint32_t fb_network_buffer_pool_total(struct fb_network_buffer_pool* self);
/* In the free list now; 0 once destroyed. Exact unless others request and return meanwhile. */
uint32_t fb_network_buffer_pool_available(struct fb_network_buffer_pool* self);
/* The sum of the members' minimums, and unpooled segments out. */
uint32_t fb_network_buffer_pool_required(struct fb_network_buffer_pool* self);
/* Registered local pools. */
uint32_t fb_network_buffer_pool_pool_count(struct fb_network_buffer_pool* self);
/* 100 * estimated demand / total; 0 for an empty pool (Flink's usage warning). */
uint32_t fb_network_buffer_pool_usage_percent(struct fb_network_buffer_pool* self);

/* `count` unpooled segments, counted as required until they are recycled, best in one batch. Waits up to
 * timeout_ms. FB_EBUFFERS when the guarantee cannot be given, FB_ETIMEOUT, FB_EDESTROYED; on error nothing is
 * lost. */
int fb_network_buffer_pool_request_unpooled(struct fb_network_buffer_pool* self, uint32_t count, int64_t timeout_ms,
                                            struct fb_buffer** buffers);
void fb_network_buffer_pool_recycle_unpooled(struct fb_network_buffer_pool* self, struct fb_buffer** buffers,
                                             uint32_t count);

/* ---- for local pools ----------------------------------------------------------------------------------- */

struct fb_pool_member;

/* What a member can do. All but resize() are called without any lock. */
struct fb_pool_member_type {
  void (*pin)(struct fb_pool_member* self); /* keeps the member's memory until unpin() */
  void (*unpin)(struct fb_pool_member* self);
  void (*tell)(struct fb_pool_member* self);    /* it profited from a change: ring, serve listeners */
  void (*refill)(struct fb_pool_member* self);  /* there may be a free segment */
  void (*destroy)(struct fb_pool_member* self); /* must end in unregister() */
  /* Under the registry lock: takes its new size, chains what it must let go to *homecoming. Returns whether
   * tell() is due. */
  bool (*resize)(struct fb_pool_member* self, uint32_t size, struct fb_buffer** homecoming);
};

/* A local pool as the global one sees it; embedded in it. The first four are set before register(). */
struct fb_pool_member {
  const struct fb_pool_member_type* type;
  uint32_t min;
  uint32_t expected; /* its weight */
  uint32_t max;

  /* Under the registry lock. */
  uint32_t share; /* in the redistribution that is going on */
  bool is_registered;
  bool has_news; /* tell() is due */
  struct fb_pool_member *previous, *next;

  /* Under the waiting lock. */
  atomic_bool is_waiting; /* may be peeked at without */
  struct fb_pool_member *waiting_previous, *waiting_next;
};

/* Adds the member, with a handle on the pool, and redistributes. FB_EDESTROYED, FB_EBUFFERS. */
int fb_network_buffer_pool_register(struct fb_network_buffer_pool* self, struct fb_pool_member* member);
/* Takes it away again and redistributes; idempotent. The handle stays. */
void fb_network_buffer_pool_unregister(struct fb_network_buffer_pool* self, struct fb_pool_member* member);
/* Calls resize() under the registry lock and does what has to follow. */
void fb_network_buffer_pool_resize(struct fb_network_buffer_pool* self, struct fb_pool_member* member, uint32_t size);
/* Drops a member's handle. */
void fb_network_buffer_pool_drop_handle(struct fb_network_buffer_pool* self);

/* A segment from the free list, bytes as they are, NULL if there is none; the caller resets the buffer. */
struct fb_buffer* fb_network_buffer_pool_take(struct fb_network_buffer_pool* self);
/* Puts one back. The caller holds no lock. */
void fb_network_buffer_pool_give(struct fb_network_buffer_pool* self, struct fb_buffer* buffer);

/* Has refill() called when the free list stops being empty, once. Call take() again after it. */
void fb_network_buffer_pool_start_waiting(struct fb_network_buffer_pool* self, struct fb_pool_member* member);
void fb_network_buffer_pool_stop_waiting(struct fb_network_buffer_pool* self, struct fb_pool_member* member);
/* Between these, freed() is rung when the list stops being empty or the pool is destroyed. */
void fb_network_buffer_pool_want(struct fb_network_buffer_pool* self);
void fb_network_buffer_pool_unwant(struct fb_network_buffer_pool* self);
struct fb_wakeup* fb_network_buffer_pool_freed(struct fb_network_buffer_pool* self);

#endif
