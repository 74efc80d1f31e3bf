/* The buffers that wait for what a sender may send: the credit of one remote channel, seen from its reader.
 *
 * Exclusive buffers belong to the channel until it is released; floating ones are borrowed from the gate's pool as
 * the sender's backlog asks for them, and go back when too many are there. Every buffer that comes to wait
 * here is one credit, which is told to the owner. Flink: BufferManager.
 *
 * Owner:   embedded in the channel, which is counted: retain() and drop() of it are called for each exclusive buffer
 *          and while the manager is registered with the pool. The pools outlive release().
 * Threads: any, for everything. The lock guards counts and lists only: pool, buffers and owner are called
 *          without it. */
#ifndef FB_BUFFER_MANAGER_H
#define FB_BUFFER_MANAGER_H

#include <pthread.h>

#include "memory/local_buffer_pool.h"

struct fb_buffer_manager;

/* What the owner does. */
struct fb_buffer_manager_owner {
  void (*on_credit)(struct fb_buffer_manager* self, uint32_t count); /* so many buffers more are waiting */
  void (*retain)(struct fb_buffer_manager* self);
  void (*drop)(struct fb_buffer_manager* self);
};

struct fb_buffer_manager {
  struct fb_buffer_listener listener; /* the first member */
  const struct fb_buffer_manager_owner* owner;
  struct fb_network_buffer_pool* network_pool; /* where exclusive buffers go in the end */
  struct fb_local_buffer_pool* pool;           /* where floating ones come from */
  pthread_mutex_t lock;
  struct fb_buffer* exclusive; /* waiting; chained by `next` */
  struct fb_buffer* floating;
  uint32_t exclusive_count;
  uint32_t floating_count;
  uint32_t required; /* how many should be waiting */
  bool is_waiting;   /* registered with the pool, or about to be */
  bool is_released;
  bool is_open;
};

int fb_buffer_manager_open(struct fb_buffer_manager* self, const struct fb_buffer_manager_owner* owner,
                           struct fb_network_buffer_pool* network_pool, struct fb_local_buffer_pool* pool);
/* After the last drop(). */
void fb_buffer_manager_close(struct fb_buffer_manager* self);

/* Takes over unpooled buffers of the network pool as exclusive ones. Once, before credit is given. Nobody is told:
 * they are the initial credit. */
void fb_buffer_manager_add_exclusive(struct fb_buffer_manager* self, struct fb_buffer** buffers, uint32_t count);
/* Takes a buffer for data that arrives, floating ones first; NULL if none waits. Its recycling brings it back. */
struct fb_buffer* fb_buffer_manager_take(struct fb_buffer_manager* self);
/* The sender has something for `required` buffers in all: borrows what is missing, now or when the pool has it.
 * What came at once is told like everything else. */
void fb_buffer_manager_require(struct fb_buffer_manager* self, uint32_t required);
/* Gives all floating buffers back, for a channel that is blocked. */
void fb_buffer_manager_release_floating(struct fb_buffer_manager* self);
/* Gives everything back; what is still out follows when it is recycled. Idempotent. */
void fb_buffer_manager_release(struct fb_buffer_manager* self);

uint32_t fb_buffer_manager_available(struct fb_buffer_manager* self); /* waiting now */
uint32_t fb_buffer_manager_required(struct fb_buffer_manager* self);

#endif
