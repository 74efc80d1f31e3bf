#define _GNU_SOURCE
#include "buffer_pool.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__)
#define FB_WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FB_WITH_ASAN 1
#endif
#endif
#ifdef FB_WITH_ASAN
#include <sanitizer/asan_interface.h>
#define HIDE_BYTES(segment) ASAN_POISON_MEMORY_REGION((segment).data, (segment).size)
#define SHOW_BYTES(segment) ASAN_UNPOISON_MEMORY_REGION((segment).data, (segment).size)
#else
#define HIDE_BYTES(segment) ((void)0)
#define SHOW_BYTES(segment) ((void)0)
#endif

/* The free list is a stack of buffer indexes whose whole state is one 64-bit word, `head`:
 *
 *   bit 63      WANTED: somebody wants to hear when the list stops being empty
 *   bits 62-32  a tag that every removal raises, so that a slow remover cannot mistake a top that went and
 *               came back for one that stayed (the ABA problem)
 *   bits 31-0   index of the top, or EMPTY, or CLOSED once nobody can request any more
 *
 * links[i] holds what lies under i and, above it, how many lie there with it: so the number of free
 * segments costs nothing to keep. */
#define WANTED (UINT64_C(1) << 63)
#define TAG_STEP (UINT64_C(1) << 32)
#define TAG_BITS (WANTED - TAG_STEP)
#define EMPTY UINT32_MAX
#define CLOSED (UINT32_MAX - 1)
#define MAX_SEGMENTS ((uint32_t)INT32_MAX)

/* `outstanding` stays above this until the last handle is dropped; only then can it reach zero. */
#define STILL_OPEN (INT64_C(1) << 40)

struct fb_network_buffer_pool {
  _Alignas(64) _Atomic uint64_t head;
  _Atomic uint64_t* links;
  struct fb_buffer* buffers;
  atomic_bool is_destroyed;

  _Alignas(64) _Atomic int64_t outstanding; /* after the last handle: buffers not home, and pins */
  _Atomic uint32_t handles;                 /* the user's, and one for each local pool */
  uint32_t count;
  uint32_t segment_size;
  uint8_t* memory;
  size_t memory_bytes;

  pthread_mutex_t registry_lock; /* the following; taken before any local latch */
  struct fb_local_buffer_pool* pools;
  uint32_t pool_count;
  uint32_t required;
  struct fb_buffer* homecoming; /* idle segments of shrunk pools, given back after the lock is left */
  bool has_news;                /* some pool has `has_news` */

  pthread_mutex_t waiting_lock; /* the following; a leaf: nothing else is taken under it */
  struct fb_local_buffer_pool *waiting_first, *waiting_last;
  uint32_t wanted; /* waiting pools + bells + blocked requests */

  struct fb_wakeup freed;      /* blocked requests sleep here */
  struct fb_wakeup_list bells; /* rung when the free list stops being empty */
};

struct fb_local_buffer_pool {
  /* One cache line: all that request and recycle touch as long as there is stock. */
  _Alignas(64) atomic_bool latch; /* guards what follows, up to `handles` */
  atomic_bool is_available;       /* written under the latch, read anywhere */
  bool is_destroyed;
  bool had_stock; /* at the last update() */
  uint32_t stock_count;
  uint32_t requested; /* segments attributed here: idle, in use or reserved */
  uint32_t size;
  uint32_t channel_count;
  uint32_t quota;
  struct fb_buffer* stock;
  struct fb_buffer_listener* first_listener;
  uint32_t* per_channel; /* buffers out, by channel */
  uint64_t granted;

  struct fb_buffer_listener* last_listener;
  struct fb_network_buffer_pool* global;
  uint32_t full_channels; /* channels that have reached their quota */
  uint32_t blocked;       /* requests that sleep on `changed` */
  struct fb_buffer_pool_usage usage; /* only the counters that have no other home */

  struct fb_buffer_pool_options options; /* never changes */
  _Atomic uint32_t handles;              /* the user's and pins; lowered only under the latch */
  struct fb_wakeup changed;
  struct fb_wakeup_list bells;

  /* Under the global pool's registry lock. */
  struct fb_local_buffer_pool *previous, *next;
  uint32_t share; /* of the redistribution that is going on */
  bool is_registered;
  bool has_news; /* told after the registry lock is left */

  /* Under the global pool's waiting lock. */
  struct fb_local_buffer_pool *waiting_previous, *waiting_next;
  atomic_bool is_waiting; /* peeked at without the lock */
};

static void tell(struct fb_local_buffer_pool* self);
static void unpin(struct fb_local_buffer_pool* self);
static void refill(struct fb_local_buffer_pool* self);
static void resize(struct fb_local_buffer_pool* self, uint32_t size);
static void recycle_local(struct fb_buffer* buffer);

static void pin(struct fb_local_buffer_pool* self) {
  atomic_fetch_add_explicit(&self->handles, 1, memory_order_relaxed);
}

/* ---- free list --------------------------------------------------------------------------------------- */

static struct fb_buffer* take(struct fb_network_buffer_pool* self) {
  /* Acquire: pairs with the release in push(), so the link is the one of this head. */
  uint64_t head = atomic_load_explicit(&self->head, memory_order_acquire);
  uint64_t rest;
  struct fb_buffer* buffer;

  if (atomic_load_explicit(&self->is_destroyed, memory_order_relaxed)) return NULL;
  do {
    if ((uint32_t)head >= CLOSED) return NULL;
    /* Relaxed: may be of a later head, but then the exchange fails. */
    rest = atomic_load_explicit(&self->links[(uint32_t)head], memory_order_relaxed);
    rest = (head & WANTED) | ((head + TAG_STEP) & TAG_BITS) | (uint32_t)rest;
    buffer = &self->buffers[(uint32_t)head];
  } while (!atomic_compare_exchange_weak_explicit(&self->head, &head, rest, memory_order_acquire,
                                                  memory_order_acquire));
  SHOW_BYTES(buffer->segment);
  return buffer;
}

static uint32_t depth(struct fb_network_buffer_pool* self, uint64_t head) {
  uint32_t top = (uint32_t)head;

  if (top >= CLOSED) return 0;
  return (uint32_t)(atomic_load_explicit(&self->links[top], memory_order_relaxed) >> 32);
}

/* Puts `buffer` on top unless the list is CLOSED, or wanted and empty while !may_wake. *head is the last
 * seen state: on success the one before. */
static bool push(struct fb_network_buffer_pool* self, struct fb_buffer* buffer, bool may_wake, uint64_t* head) {
  uint32_t index = (uint32_t)(buffer - self->buffers);

  /* Acquire: depth() reads the link that the pusher of this top has stored before its release. */
  *head = atomic_load_explicit(&self->head, memory_order_acquire);
  do {
    if ((uint32_t)*head == CLOSED) return false;
    if (!may_wake && (uint32_t)*head == EMPTY && (*head & WANTED)) return false;
    atomic_store_explicit(&self->links[index], ((uint64_t)depth(self, *head) + 1) << 32 | (uint32_t)*head,
                          memory_order_relaxed);
    /* Release: pairs with the acquires in take() and here; link and bytes are done. */
  } while (!atomic_compare_exchange_weak_explicit(&self->head, head, (*head & ~(uint64_t)UINT32_MAX) | index,
                                                  memory_order_release, memory_order_acquire));
  return true;
}

static void free_global(struct fb_network_buffer_pool* self) {
  for (uint32_t i = 0; i < self->count; i++) SHOW_BYTES(self->buffers[i].segment);
  if (self->memory != NULL) munmap(self->memory, self->memory_bytes);
  fb_wakeup_list_close(&self->bells);
  fb_wakeup_close(&self->freed);
  pthread_mutex_destroy(&self->waiting_lock);
  pthread_mutex_destroy(&self->registry_lock);
  free((void*)self->links);
  free(self->buffers);
  free(self);
}

static void lower_outstanding(struct fb_network_buffer_pool* self, int64_t by) {
  /* Acquire and release: whoever frees sees all that the others did before they let go. */
  if (atomic_fetch_sub_explicit(&self->outstanding, by, memory_order_acq_rel) == by) free_global(self);
}

static struct fb_local_buffer_pool* next_waiting(struct fb_network_buffer_pool* self);

static bool is_empty(struct fb_network_buffer_pool* self) {
  return (uint32_t)atomic_load_explicit(&self->head, memory_order_acquire) >= CLOSED;
}

static void tell_waiting(struct fb_network_buffer_pool* self) {
  struct fb_local_buffer_pool* pool;

  fb_wakeup_ring(&self->freed);
  fb_wakeup_list_ring(&self->bells);
  /* A pool that comes too late registers again, and the next segment is another "no longer empty". */
  while (!is_empty(self) && (pool = next_waiting(self)) != NULL) {
    refill(pool);
    unpin(pool);
  }
}

/* The caller holds no lock. Once the buffer is on the list, the pool's memory may go at any moment (the
 * last handle was closed and this was the last buffer), so after a plain push nothing is touched. Where
 * somebody has to be told, or the list is closed, a pin on `outstanding` comes first. */
static void give(struct fb_network_buffer_pool* self, struct fb_buffer* buffer) {
  uint64_t head;

  HIDE_BYTES(buffer->segment);
  if (push(self, buffer, false, &head)) return;

  /* Relaxed: this buffer is still out, so nobody is freeing. */
  atomic_fetch_add_explicit(&self->outstanding, 1, memory_order_relaxed);
  if (!push(self, buffer, true, &head)) {
    lower_outstanding(self, 1); /* the buffer itself: it counts since the list was closed */
  } else if ((uint32_t)head == EMPTY) {
    tell_waiting(self);
  }
  lower_outstanding(self, 1);
}

/* ---- who waits for the free list --------------------------------------------------------------------- */

/* Call want() before the look at the list that decides to wait: head is one word, so whoever makes the list
 * non-empty after that look finds the mark. */
static void want_locked(struct fb_network_buffer_pool* self) {
  if (self->wanted++ == 0) atomic_fetch_or_explicit(&self->head, WANTED, memory_order_acq_rel);
}
static void unwant_locked(struct fb_network_buffer_pool* self) {
  if (--self->wanted == 0) atomic_fetch_and_explicit(&self->head, ~WANTED, memory_order_acq_rel);
}
static void want(struct fb_network_buffer_pool* self) {
  pthread_mutex_lock(&self->waiting_lock);
  want_locked(self);
  pthread_mutex_unlock(&self->waiting_lock);
}
static void unwant(struct fb_network_buffer_pool* self) {
  pthread_mutex_lock(&self->waiting_lock);
  unwant_locked(self);
  pthread_mutex_unlock(&self->waiting_lock);
}

static void start_waiting(struct fb_local_buffer_pool* pool) {
  struct fb_network_buffer_pool* self = pool->global;

  pthread_mutex_lock(&self->waiting_lock);
  /* Relaxed, here and below: written only under the waiting lock. */
  if (!atomic_load_explicit(&pool->is_waiting, memory_order_relaxed)) {
    atomic_store_explicit(&pool->is_waiting, true, memory_order_relaxed);
    pool->waiting_next = NULL;
    pool->waiting_previous = self->waiting_last;
    if (self->waiting_last != NULL) self->waiting_last->waiting_next = pool;
    if (self->waiting_first == NULL) self->waiting_first = pool;
    self->waiting_last = pool;
    want_locked(self);
  }
  pthread_mutex_unlock(&self->waiting_lock);
}

static void leave_waiting_locked(struct fb_network_buffer_pool* self, struct fb_local_buffer_pool* pool) {
  atomic_store_explicit(&pool->is_waiting, false, memory_order_relaxed);
  if (pool->waiting_previous != NULL) pool->waiting_previous->waiting_next = pool->waiting_next;
  if (pool->waiting_next != NULL) pool->waiting_next->waiting_previous = pool->waiting_previous;
  if (self->waiting_first == pool) self->waiting_first = pool->waiting_next;
  if (self->waiting_last == pool) self->waiting_last = pool->waiting_previous;
  unwant_locked(self);
}

static void stop_waiting(struct fb_local_buffer_pool* pool) {
  struct fb_network_buffer_pool* self = pool->global;

  pthread_mutex_lock(&self->waiting_lock);
  if (atomic_load_explicit(&pool->is_waiting, memory_order_relaxed)) leave_waiting_locked(self, pool);
  pthread_mutex_unlock(&self->waiting_lock);
}

/* The pool that waits longest, pinned, no longer waiting. NULL: none does. */
static struct fb_local_buffer_pool* next_waiting(struct fb_network_buffer_pool* self) {
  struct fb_local_buffer_pool* pool;

  pthread_mutex_lock(&self->waiting_lock);
  pool = self->waiting_first;
  if (pool != NULL) {
    leave_waiting_locked(self, pool);
    pin(pool); /* a pool that waits is not destroyed yet, so its user's handle is there */
  }
  pthread_mutex_unlock(&self->waiting_lock);
  return pool;
}

/* ---- global: life ------------------------------------------------------------------------------------ */

static void fill(struct fb_network_buffer_pool* self) {
  for (uint32_t i = 0; i < self->count; i++) {
    struct fb_buffer* buffer = &self->buffers[i];
    fb_memory_segment_wrap(&buffer->segment, self->memory + (size_t)i * self->segment_size, self->segment_size);
    buffer->channel = FB_NO_CHANNEL;
    atomic_init(&self->links[i], (uint64_t)(i + 1) << 32 | (i > 0 ? i - 1 : EMPTY));
    HIDE_BYTES(buffer->segment);
  }
  atomic_init(&self->head, self->count > 0 ? self->count - 1 : EMPTY);
}

static int allocate(struct fb_network_buffer_pool* self) {
  size_t count = self->count > 0 ? self->count : 1;

  if (self->count > SIZE_MAX / self->segment_size) return FB_ENOMEM;
  self->memory_bytes = (size_t)self->count * self->segment_size;
  if (self->memory_bytes > 0) {
    /* Page-aligned and zeroed; the system gives each page when it is first touched. */
    void* memory = mmap(NULL, self->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return FB_ENOMEM;
    self->memory = memory;
  }
  self->buffers = calloc(count, sizeof *self->buffers);
  self->links = calloc(count, sizeof *self->links);
  if (self->buffers == NULL || self->links == NULL) return FB_ENOMEM;
  if (fb_wakeup_open(&self->freed) != FB_OK) return FB_ENOMEM;
  return fb_wakeup_list_open(&self->bells);
}

int fb_network_buffer_pool_open(uint32_t segment_count, uint32_t segment_size,
                                struct fb_network_buffer_pool** self) {
  struct fb_network_buffer_pool* pool;

  *self = NULL;
  if (segment_size == 0 || segment_size > INT32_MAX || segment_count > MAX_SEGMENTS) return FB_EARGUMENT;
  pool = aligned_alloc(64, sizeof *pool);
  if (pool == NULL) return FB_ENOMEM;
  memset(pool, 0, sizeof *pool);
  pool->count = segment_count;
  pool->segment_size = segment_size;
  atomic_init(&pool->outstanding, STILL_OPEN);
  atomic_init(&pool->handles, 1);
  pthread_mutex_init(&pool->registry_lock, NULL);
  pthread_mutex_init(&pool->waiting_lock, NULL);
  if (allocate(pool) != FB_OK) {
    pool->count = 0;
    free_global(pool);
    return FB_ENOMEM;
  }
  fill(pool);
  *self = pool;
  return FB_OK;
}

static void drop_handle(struct fb_network_buffer_pool* self) {
  uint64_t head;

  /* Acquire and release: the last one sees what the others did. */
  if (atomic_fetch_sub_explicit(&self->handles, 1, memory_order_acq_rel) != 1) return;
  /* From here on nothing is pushed; what is not home now counts itself down in give(). */
  head = atomic_exchange_explicit(&self->head, CLOSED, memory_order_acq_rel);
  lower_outstanding(self, STILL_OPEN - (int64_t)(self->count - depth(self, head)));
}

void fb_network_buffer_pool_close(struct fb_network_buffer_pool* self) {
  if (self == NULL) return;
  fb_network_buffer_pool_destroy(self);
  drop_handle(self);
}

bool fb_network_buffer_pool_is_destroyed(struct fb_network_buffer_pool* self) {
  /* Pairs with the release in destroy(). */
  return atomic_load_explicit(&self->is_destroyed, memory_order_acquire);
}

/* ---- global: sharing out ----------------------------------------------------------------------------- */

static bool is_resizable(const struct fb_local_buffer_pool* pool) { return pool->options.min < pool->options.max; }

/* One round over the pools that can still take (delta > 0) or give (delta < 0). Returns what is left. */
static int64_t spread(struct fb_network_buffer_pool* self, int64_t delta) {
  bool grow = delta > 0;
  uint64_t amount = (uint64_t)(grow ? delta : -delta), left = amount, weight = 0;
  struct fb_local_buffer_pool* pool;

  for (pool = self->pools; pool != NULL; pool = pool->next) {
    if (!is_resizable(pool)) continue;
    if (grow ? pool->share < pool->options.max : pool->share > pool->options.min) weight += pool->options.expected;
  }
  for (pool = self->pools; pool != NULL && left > 0 && weight > 0; pool = pool->next) {
    uint64_t room, part;
    if (!is_resizable(pool)) continue;
    room = grow ? pool->options.max - pool->share : pool->share - pool->options.min;
    part = (amount * pool->options.expected + weight - 1) / weight;
    if (part > room) part = room;
    if (part > left) part = left;
    pool->share = (uint32_t)(grow ? pool->share + part : pool->share - part);
    left -= part;
  }
  return grow ? (int64_t)left : -(int64_t)left;
}

/* Gives each resizable pool its guaranteed minimum and a part of what nobody is guaranteed, by weight.
 * Under the registry lock, which leave_registry() must leave: it tells whoever profited. */
static void redistribute(struct fb_network_buffer_pool* self) {
  uint64_t spare = self->count - self->required, budget = spare, weight = 0, shared = 0;
  int64_t delta, before;
  struct fb_local_buffer_pool* pool;

  for (pool = self->pools; pool != NULL; pool = pool->next) {
    if (!is_resizable(pool)) continue;
    budget += pool->options.min;
    weight += pool->options.expected;
  }
  if (weight == 0) return;
  for (pool = self->pools; pool != NULL; pool = pool->next) {
    uint64_t share = pool->options.min;
    if (!is_resizable(pool)) continue;
    if (spare > 0) share = pool->options.expected * budget / weight;
    if (share < pool->options.min) share = pool->options.min;
    if (share > pool->options.max) share = pool->options.max;
    pool->share = (uint32_t)share;
    shared += share;
  }
  delta = spare > 0 ? (int64_t)budget - (int64_t)shared : 0;
  do {
    before = delta;
    if (delta != 0) delta = spread(self, delta);
  } while (delta != before);
  for (pool = self->pools; pool != NULL; pool = pool->next) {
    if (is_resizable(pool)) resize(pool, pool->share);
  }
}

/* A pool that has news, pinned, its news taken; NULL when all is told. */
static struct fb_local_buffer_pool* next_with_news(struct fb_network_buffer_pool* self) {
  struct fb_local_buffer_pool* pool;

  pthread_mutex_lock(&self->registry_lock);
  for (pool = self->pools; pool != NULL && !pool->has_news; pool = pool->next) {
  }
  if (pool != NULL) {
    pool->has_news = false;
    pin(pool); /* registered, so its user's handle is there */
  }
  pthread_mutex_unlock(&self->registry_lock);
  return pool;
}

/* Leaves the registry lock; then brings home what shrunk pools gave up and tells those that grew. */
static void leave_registry(struct fb_network_buffer_pool* self) {
  struct fb_buffer* home = self->homecoming;
  struct fb_local_buffer_pool* pool;
  bool has_news = self->has_news;

  self->homecoming = NULL;
  self->has_news = false;
  pthread_mutex_unlock(&self->registry_lock);

  while (home != NULL) {
    struct fb_buffer* buffer = home;
    home = home->next;
    give(self, buffer);
  }
  while (has_news && (pool = next_with_news(self)) != NULL) {
    tell(pool);
    unpin(pool);
  }
}

void fb_network_buffer_pool_destroy(struct fb_network_buffer_pool* self) {
  struct fb_local_buffer_pool* pool;

  pthread_mutex_lock(&self->registry_lock);
  if (!atomic_load_explicit(&self->is_destroyed, memory_order_relaxed)) {
    /* Release: pairs with is_destroyed(). */
    atomic_store_explicit(&self->is_destroyed, true, memory_order_release);
    for (pool = self->pools; pool != NULL; pool = pool->next) pool->has_news = self->has_news = true;
  }
  leave_registry(self);
  fb_wakeup_ring(&self->freed);
}

void fb_network_buffer_pool_destroy_pools(struct fb_network_buffer_pool* self) {
  struct fb_local_buffer_pool* pool;

  for (;;) {
    pthread_mutex_lock(&self->registry_lock);
    pool = self->pools;
    if (pool != NULL) pin(pool);
    pthread_mutex_unlock(&self->registry_lock);
    if (pool == NULL) return;
    fb_local_buffer_pool_destroy(pool);
    unpin(pool);
  }
}

/* ---- global: figures --------------------------------------------------------------------------------- */

uint32_t fb_network_buffer_pool_segment_size(const struct fb_network_buffer_pool* self) { return self->segment_size; }

uint32_t fb_network_buffer_pool_total(struct fb_network_buffer_pool* self) {
  return fb_network_buffer_pool_is_destroyed(self) ? 0 : self->count;
}

uint32_t fb_network_buffer_pool_available(struct fb_network_buffer_pool* self) {
  uint64_t head, again = atomic_load_explicit(&self->head, memory_order_acquire);
  uint32_t count;

  if (fb_network_buffer_pool_is_destroyed(self)) return 0;
  /* The link belongs to the head only if the head is still the same afterwards. */
  do {
    head = again;
    count = depth(self, head);
    again = atomic_load_explicit(&self->head, memory_order_acquire);
  } while (head != again);
  return count;
}

uint32_t fb_network_buffer_pool_required(struct fb_network_buffer_pool* self) {
  uint32_t required;

  pthread_mutex_lock(&self->registry_lock);
  required = self->required;
  pthread_mutex_unlock(&self->registry_lock);
  return required;
}

uint32_t fb_network_buffer_pool_pool_count(struct fb_network_buffer_pool* self) {
  uint32_t count;

  pthread_mutex_lock(&self->registry_lock);
  count = self->pool_count;
  pthread_mutex_unlock(&self->registry_lock);
  return count;
}

uint32_t fb_network_buffer_pool_usage_percent(struct fb_network_buffer_pool* self) {
  uint64_t estimated = 0, percent;

  if (self->count == 0) return 0;
  pthread_mutex_lock(&self->registry_lock);
  for (struct fb_local_buffer_pool* pool = self->pools; pool != NULL; pool = pool->next) {
    estimated += pool->options.max == FB_UNBOUNDED ? pool->options.expected : pool->options.max;
  }
  pthread_mutex_unlock(&self->registry_lock);
  percent = 100 * estimated / self->count;
  return percent < UINT32_MAX ? (uint32_t)percent : UINT32_MAX;
}

/* ---- global: requests -------------------------------------------------------------------------------- */

static void recycle_global(struct fb_buffer* buffer) { give(buffer->owner, buffer); }

static void lower_required(struct fb_network_buffer_pool* self, uint32_t count) {
  pthread_mutex_lock(&self->registry_lock);
  self->required -= count;
  redistribute(self);
  leave_registry(self);
}

/* An unpooled buffer that was released by itself, not in a batch. */
static void recycle_unpooled(struct fb_buffer* buffer) {
  struct fb_network_buffer_pool* self = buffer->owner;

  atomic_fetch_add_explicit(&self->outstanding, 1, memory_order_relaxed); /* a pin, as in give() */
  give(self, buffer);
  lower_required(self, 1);
  lower_outstanding(self, 1);
}

static void prepare(struct fb_buffer* buffer, void (*recycle)(struct fb_buffer*), void* owner) {
  buffer->recycle = recycle;
  buffer->owner = owner;
  buffer->channel = FB_NO_CHANNEL;
  /* Relaxed: whoever else gets this buffer gets it from us, later. */
  atomic_store_explicit(&buffer->references, 1, memory_order_relaxed);
  atomic_store_explicit(&buffer->position_marker, 0, memory_order_relaxed);
}

int fb_network_buffer_pool_request(struct fb_network_buffer_pool* self, struct fb_buffer** buffer) {
  struct fb_buffer* taken = take(self);

  *buffer = taken;
  if (taken != NULL) prepare(taken, recycle_global, self);
  else if (fb_network_buffer_pool_is_destroyed(self)) return FB_EDESTROYED;
  return FB_OK;
}

static int64_t deadline_of(int64_t timeout_ms) {
  int64_t now_ms = fb_now_ms();
  return timeout_ms < 0 || timeout_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + timeout_ms;
}

/* Sleeps until `wakeup` is rung or the deadline is there. FB_ETIMEOUT if it was there before. */
static int sleep_until(struct fb_wakeup* wakeup, uint64_t seen, int64_t deadline_ms) {
  int64_t left = deadline_ms == INT64_MAX ? -1 : deadline_ms - fb_now_ms();

  if (left <= 0 && deadline_ms != INT64_MAX) return FB_ETIMEOUT;
  fb_wakeup_wait(wakeup, seen, left);
  return FB_OK;
}

static int take_all(struct fb_network_buffer_pool* self, uint32_t count, int64_t timeout_ms,
                    struct fb_buffer** buffers) {
  int64_t deadline_ms = deadline_of(timeout_ms);
  uint32_t taken = 0;
  int code = FB_OK;

  want(self);
  while (taken < count && code == FB_OK) {
    uint64_t seen = fb_wakeup_seen(&self->freed);
    if (fb_network_buffer_pool_is_destroyed(self)) {
      code = FB_EDESTROYED;
    } else if ((buffers[taken] = take(self)) == NULL) {
      code = sleep_until(&self->freed, seen, deadline_ms);
    } else {
      prepare(buffers[taken++], recycle_unpooled, self);
    }
  }
  unwant(self);
  while (code != FB_OK && taken > 0) {
    give(self, buffers[--taken]);
    buffers[taken] = NULL;
  }
  return code;
}

int fb_network_buffer_pool_request_unpooled(struct fb_network_buffer_pool* self, uint32_t count, int64_t timeout_ms,
                                            struct fb_buffer** buffers) {
  int code = FB_OK;

  pthread_mutex_lock(&self->registry_lock);
  if (fb_network_buffer_pool_is_destroyed(self)) code = FB_EDESTROYED;
  else if (count > self->count - self->required) code = FB_EBUFFERS;
  if (code == FB_OK && count > 0) {
    self->required += count;
    redistribute(self);
  }
  leave_registry(self);
  if (code != FB_OK || count == 0) return code;

  code = take_all(self, count, timeout_ms, buffers);
  if (code != FB_OK) lower_required(self, count);
  return code;
}

void fb_network_buffer_pool_recycle_unpooled(struct fb_network_buffer_pool* self, struct fb_buffer** buffers,
                                             uint32_t count) {
  if (count == 0) return;
  for (uint32_t i = 0; i < count; i++) {
    /* Should others still hold it, it comes home by itself; required is lowered once, below. */
    buffers[i]->recycle = recycle_global;
    fb_buffer_release(buffers[i]);
    buffers[i] = NULL;
  }
  lower_required(self, count);
}

int fb_network_buffer_pool_add_wakeup(struct fb_network_buffer_pool* self, struct fb_wakeup* wakeup) {
  int code = fb_wakeup_list_add(&self->bells, wakeup);

  if (code == FB_OK) want(self);
  return code;
}

void fb_network_buffer_pool_remove_wakeup(struct fb_network_buffer_pool* self, struct fb_wakeup* wakeup) {
  if (fb_wakeup_list_remove(&self->bells, wakeup)) unwant(self);
}

/* ---- local: the latch and what it guards ------------------------------------------------------------- */

static void pause_for(uint32_t round) {
  struct timespec nap = {.tv_nsec = 50000};

  if (round < 64) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  } else if (round < 128) {
    sched_yield();
  } else {
    nanosleep(&nap, NULL); /* the holder lost its processor */
  }
}

static void lock_slowly(struct fb_local_buffer_pool* self) {
  uint32_t round = 0;

  do {
    while (atomic_load_explicit(&self->latch, memory_order_relaxed)) pause_for(round++);
  } while (atomic_exchange_explicit(&self->latch, true, memory_order_acquire));
}

/* A latch and not a mutex: it is held for a few instructions only, and to leave it costs a plain store, which
 * makes request and recycle about a third cheaper. Acquire here pairs with the release in unlock(). */
static inline void lock(struct fb_local_buffer_pool* self) {
  if (atomic_exchange_explicit(&self->latch, true, memory_order_acquire)) lock_slowly(self);
}

static bool should_be_available(const struct fb_local_buffer_pool* self) {
  return self->stock != NULL && self->full_channels == 0 && !self->is_destroyed;
}

static inline void unlock(struct fb_local_buffer_pool* self) {
#ifdef FB_DEBUG
  if (atomic_load_explicit(&self->is_available, memory_order_relaxed) != should_be_available(self)) abort();
  if (self->stock_count > self->requested || (self->stock == NULL) != (self->stock_count == 0)) abort();
  if (self->is_destroyed && self->stock != NULL) abort();
#endif
  atomic_store_explicit(&self->latch, false, memory_order_release);
}

static inline void put_in_stock(struct fb_local_buffer_pool* self, struct fb_buffer* buffer) {
  buffer->next = self->stock;
  self->stock = buffer;
  self->stock_count++;
}

static inline struct fb_buffer* take_from_stock(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer = self->stock;

  if (buffer != NULL) {
    self->stock = buffer->next;
    self->stock_count--;
  }
  return buffer;
}

/* One segment from the global pool, attributed to this one. */
static struct fb_buffer* fetch(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer = take(self->global);

  if (buffer == NULL) return NULL;
  prepare(buffer, recycle_local, self);
  self->requested++;
  if (self->requested > self->usage.peak) self->usage.peak = self->requested;
  return buffer;
}

/* Keeps one segment in stock while the size allows; else has itself told when the global pool has one. */
static void keep_stock(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer = fetch(self);

  if (buffer == NULL) {
    start_waiting(self);
    buffer = fetch(self); /* again: it may have come between the look and the registration */
  }
  if (buffer == NULL) return;
  put_in_stock(self, buffer);
  /* Relaxed: a stale value costs a needless call of refill(), which finds nothing to do. */
  if (atomic_load_explicit(&self->is_waiting, memory_order_relaxed)) stop_waiting(self);
}

/* Brings stock and availability in line with the rest, after every change and before unlock(). Returns
 * whether somebody who found nothing before may find something now. */
static inline bool update(struct fb_local_buffer_pool* self) {
  bool had_stock = self->had_stock;
  bool was_available = atomic_load_explicit(&self->is_available, memory_order_relaxed);
  bool is_available;

  if (self->stock == NULL && self->requested < self->size && !self->is_destroyed) keep_stock(self);
  is_available = should_be_available(self);
  self->had_stock = self->stock != NULL;
  /* Release: pairs with the acquire in is_available(). */
  if (is_available != was_available) {
    atomic_store_explicit(&self->is_available, is_available, memory_order_release);
  }
  return (self->had_stock && !had_stock) || (is_available && !was_available);
}

/* Lowers the count of handles and pins; the last one to leave, with every segment back home, frees. */
static void unpin(struct fb_local_buffer_pool* self) {
  struct fb_network_buffer_pool* global = self->global;
  bool is_last;

  lock(self);
  /* Relaxed: all decrements are under the latch. */
  is_last = atomic_fetch_sub_explicit(&self->handles, 1, memory_order_relaxed) == 1 && self->requested == 0;
  unlock(self);
  if (!is_last) return;
  fb_wakeup_list_close(&self->bells);
  fb_wakeup_close(&self->changed);
  free(self->per_channel);
  free(self);
  drop_handle(global);
}

/* Leaves the latch, and rings and serves listeners if there is `news` and anybody to hear it. The bells are
 * counted under the latch, which add_wakeup() passes through too: so either it sees our change or we see it. */
static inline void unlock_and_tell(struct fb_local_buffer_pool* self, bool news) {
  if (!news || (self->blocked == 0 && self->first_listener == NULL && fb_wakeup_list_is_empty(&self->bells))) {
    unlock(self);
    return;
  }
  pin(self);
  unlock(self);
  tell(self);
  unpin(self);
}

/* ---- local: the way back ----------------------------------------------------------------------------- */

static struct fb_buffer_listener* next_listener(struct fb_local_buffer_pool* self) {
  struct fb_buffer_listener* listener = self->first_listener;

  if (listener != NULL) {
    self->first_listener = listener->next;
    if (listener->next == NULL) self->last_listener = NULL;
    listener->next = NULL;
  }
  return listener;
}

/* Finds a place for a buffer that nobody holds: the global pool if this one has too many or is destroyed,
 * else the first listener that wants it, else the stock. Enters under the latch and leaves it. */
static void settle(struct fb_local_buffer_pool* self, struct fb_buffer* buffer) {
  struct fb_network_buffer_pool* global = self->global;
  struct fb_buffer_listener* listener;
  bool news;

  for (;;) {
    if (self->is_destroyed || self->requested > self->size) {
      self->requested--;
      /* A request that may overdraw can find this segment in the global pool. */
      news = update(self) || self->options.max_overdraft > 0;
      pin(self);
      unlock(self);
      give(global, buffer);
      if (news) tell(self);
      unpin(self);
      return;
    }
    listener = next_listener(self);
    if (listener == NULL) {
      put_in_stock(self, buffer);
      unlock_and_tell(self, update(self));
      return;
    }
    news = update(self);
    pin(self);
    unlock(self);
    prepare(buffer, recycle_local, self);
    if (listener->on_buffer_available(listener, buffer)) {
      if (news) tell(self);
      unpin(self);
      return;
    }
    if (news) tell(self);
    lock(self);
    atomic_fetch_sub_explicit(&self->handles, 1, memory_order_relaxed); /* `buffer` holds the pool again */
  }
}

static void recycle_local(struct fb_buffer* buffer) {
  struct fb_local_buffer_pool* self = buffer->owner;
  bool was_full = false;

  lock(self);
  if (buffer->channel < self->channel_count) {
    was_full = self->per_channel[buffer->channel]-- == self->quota;
    if (was_full) self->full_channels--;
    buffer->channel = FB_NO_CHANNEL;
  }
  if (self->stock != NULL && !was_full && self->requested <= self->size && self->first_listener == NULL) {
    /* The usual case: there was stock before, so nothing becomes possible that was not. */
    put_in_stock(self, buffer);
    unlock(self);
    return;
  }
  settle(self, buffer);
}

/* Tells everybody who waits that something may have become possible. The caller has a pin and no lock. */
static void tell(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer;

  fb_wakeup_ring(&self->changed);
  fb_wakeup_list_ring(&self->bells);
  for (;;) {
    lock(self);
    buffer = self->first_listener != NULL ? take_from_stock(self) : NULL;
    if (buffer == NULL) {
      unlock(self);
      return;
    }
    settle(self, buffer);
  }
}

static void refill(struct fb_local_buffer_pool* self) {
  lock(self);
  unlock_and_tell(self, update(self));
}

/* Under the registry lock: what leaves and whom to tell waits until that is left. */
static void resize(struct fb_local_buffer_pool* self, uint32_t size) {
  struct fb_network_buffer_pool* global = self->global;

  lock(self);
  self->size = size < self->options.max ? size : self->options.max;
  while (self->requested > self->size && self->stock != NULL) {
    struct fb_buffer* buffer = take_from_stock(self);
    self->requested--;
    buffer->next = global->homecoming;
    global->homecoming = buffer;
  }
  if (update(self)) self->has_news = global->has_news = true;
  unlock(self);
}

int fb_local_buffer_pool_set_size(struct fb_local_buffer_pool* self, uint32_t size) {
  if (size < self->options.min) return FB_EARGUMENT;
  pthread_mutex_lock(&self->global->registry_lock);
  resize(self, size);
  leave_registry(self->global);
  return FB_OK;
}

/* ---- local: life ------------------------------------------------------------------------------------- */

static bool are_valid(const struct fb_buffer_pool_options* options) {
  return options->min > 0 && options->min <= options->expected && options->expected <= options->max;
}

static struct fb_local_buffer_pool* new_local(struct fb_network_buffer_pool* global,
                                              const struct fb_buffer_pool_options* options) {
  struct fb_local_buffer_pool* self = aligned_alloc(64, sizeof *self);

  if (self == NULL) return NULL;
  memset(self, 0, sizeof *self);
  self->options = *options;
  self->channel_count = options->channel_count;
  self->quota = options->max_buffers_per_channel;
  self->size = options->min;
  self->global = global;
  atomic_init(&self->handles, 1);
  if (options->channel_count > 0) self->per_channel = calloc(options->channel_count, sizeof *self->per_channel);
  if ((options->channel_count > 0 && self->per_channel == NULL) || fb_wakeup_open(&self->changed) != FB_OK ||
      fb_wakeup_list_open(&self->bells) != FB_OK) {
    fb_wakeup_close(&self->changed);
    free(self->per_channel);
    free(self);
    return NULL;
  }
  return self;
}

static int register_locked(struct fb_network_buffer_pool* global, struct fb_local_buffer_pool* self) {
  if (fb_network_buffer_pool_is_destroyed(global)) return FB_EDESTROYED;
  if (self->options.min > global->count - global->required) return FB_EBUFFERS;
  /* Relaxed: the caller has a handle, so there is one to add to. */
  atomic_fetch_add_explicit(&global->handles, 1, memory_order_relaxed);
  global->required += self->options.min;
  global->pool_count++;
  self->next = global->pools;
  if (global->pools != NULL) global->pools->previous = self;
  global->pools = self;
  self->is_registered = true;
  redistribute(global);
  return FB_OK;
}

int fb_local_buffer_pool_open(struct fb_network_buffer_pool* global, const struct fb_buffer_pool_options* options,
                              struct fb_local_buffer_pool** self) {
  struct fb_buffer_pool_options filled = *options;
  struct fb_local_buffer_pool* pool;
  int code;

  *self = NULL;
  if (filled.expected == 0) filled.expected = filled.min;
  if (filled.max_buffers_per_channel == 0) filled.channel_count = 0;
  if (!are_valid(&filled)) return FB_EARGUMENT;
  pool = new_local(global, &filled);
  if (pool == NULL) return FB_ENOMEM;

  pthread_mutex_lock(&global->registry_lock);
  code = register_locked(global, pool);
  leave_registry(global);
  if (code != FB_OK) {
    fb_wakeup_list_close(&pool->bells);
    fb_wakeup_close(&pool->changed);
    free(pool->per_channel);
    free(pool);
    return code;
  }
  refill(pool);
  *self = pool;
  return FB_OK;
}

static void unregister(struct fb_local_buffer_pool* self) {
  struct fb_network_buffer_pool* global = self->global;

  pthread_mutex_lock(&global->registry_lock);
  if (self->is_registered) {
    self->is_registered = false;
    if (self->previous != NULL) self->previous->next = self->next;
    else global->pools = self->next;
    if (self->next != NULL) self->next->previous = self->previous;
    global->pool_count--;
    global->required -= self->options.min;
    redistribute(global);
  }
  leave_registry(global);
}

/* Marks the pool, and takes away what it must let go: its idle segments and its listeners. */
static struct fb_buffer* mark_destroyed(struct fb_local_buffer_pool* self, struct fb_buffer_listener** listeners) {
  struct fb_buffer* idle;

  lock(self);
  self->is_destroyed = true;
  idle = self->stock;
  self->requested -= self->stock_count;
  self->stock_count = 0;
  self->stock = NULL;
  *listeners = self->first_listener;
  self->first_listener = self->last_listener = NULL;
  stop_waiting(self); /* for good: keep_stock() is not called for a destroyed pool */
  update(self);
  pin(self);
  unlock(self);
  return idle;
}

void fb_local_buffer_pool_destroy(struct fb_local_buffer_pool* self) {
  struct fb_network_buffer_pool* global = self->global;
  struct fb_buffer_listener* listeners;
  struct fb_buffer* idle = mark_destroyed(self, &listeners);

  while (idle != NULL) {
    struct fb_buffer* buffer = idle;
    idle = idle->next;
    give(global, buffer);
  }
  while (listeners != NULL) {
    struct fb_buffer_listener* listener = listeners;
    listeners = listener->next;
    listener->next = NULL;
    listener->on_pool_destroyed(listener);
  }
  tell(self);
  fb_wakeup_ring(&global->freed); /* reserve() sleeps there */
  unregister(self);
  unpin(self);
}

bool fb_local_buffer_pool_is_destroyed(struct fb_local_buffer_pool* self) {
  bool is_destroyed;

  lock(self);
  is_destroyed = self->is_destroyed;
  unlock(self);
  return is_destroyed;
}

void fb_local_buffer_pool_close(struct fb_local_buffer_pool* self) {
  if (self == NULL) return;
  fb_local_buffer_pool_destroy(self);
  unpin(self);
}

/* ---- local: requests --------------------------------------------------------------------------------- */

/* Counts `buffer` for its channel. Returns whether the channel has reached its quota with it. */
static inline bool hand_out(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer* buffer) {
  atomic_store_explicit(&buffer->references, 1, memory_order_relaxed); /* relaxed, as in prepare() */
  atomic_store_explicit(&buffer->position_marker, 0, memory_order_relaxed);
  buffer->channel = channel;
  self->granted++;
  return channel < self->channel_count && ++self->per_channel[channel] == self->quota;
}

static int request_locked(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer** buffer) {
  struct fb_buffer* taken;

  *buffer = NULL;
  if (self->is_destroyed) return FB_EDESTROYED;
  taken = take_from_stock(self);
  if (taken == NULL) {
    bool may_fetch = self->requested < self->size || self->requested - self->size < self->options.max_overdraft;
    if (may_fetch) taken = fetch(self);
    if (taken == NULL) return fb_network_buffer_pool_is_destroyed(self->global) ? FB_EDESTROYED : FB_OK;
    if (self->requested > self->size) self->usage.overdrafts++;
  }
  if (hand_out(self, channel, taken)) self->full_channels++;
  *buffer = taken;
  return FB_OK;
}

/* When stock runs out or a channel reaches its quota. Enters under the latch and leaves it. */
static int request_slowly(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer** buffer) {
  int code = request_locked(self, channel, buffer);

  if (*buffer == NULL) self->usage.refused++;
  unlock_and_tell(self, update(self));
  return code;
}

int fb_local_buffer_pool_request(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer** buffer) {
  struct fb_buffer* taken;

  lock(self);
  taken = self->stock;
  if (taken == NULL || taken->next == NULL) return request_slowly(self, channel, buffer);
  /* The usual case: there is stock and will be. */
  take_from_stock(self);
  *buffer = taken;
  if (hand_out(self, channel, taken)) {
    self->full_channels++;
    update(self);
  }
  unlock(self);
  return FB_OK;
}

/* Sleeps once, for a request that found nothing. Enters under the latch and comes back under it. */
static void wait_for_change(struct fb_local_buffer_pool* self, int64_t deadline_ms) {
  /* Looked at and counted under the latch: whoever changes something afterwards rings. */
  uint64_t seen = fb_wakeup_seen(&self->changed);

  self->blocked++;
  unlock_and_tell(self, update(self));
  sleep_until(&self->changed, seen, deadline_ms);
  lock(self);
  self->blocked--;
}

int fb_local_buffer_pool_request_blocking(struct fb_local_buffer_pool* self, uint32_t channel, int64_t timeout_ms,
                                          struct fb_buffer** buffer) {
  int64_t start_ms, deadline_ms;
  int code;

  lock(self);
  code = request_locked(self, channel, buffer);
  if (*buffer != NULL || code != FB_OK) {
    unlock_and_tell(self, update(self));
    return code;
  }
  pin(self); /* it may be closed while we sleep */
  start_ms = fb_now_ms();
  deadline_ms = deadline_of(timeout_ms);
  self->usage.waits++;
  do {
    bool is_late = fb_now_ms() >= deadline_ms;
    if (!is_late) wait_for_change(self, deadline_ms);
    code = request_locked(self, channel, buffer);
    if (is_late && code == FB_OK && *buffer == NULL) code = FB_ETIMEOUT;
  } while (code == FB_OK && *buffer == NULL);
  self->usage.waited_ms += fb_now_ms() - start_ms;
  unlock_and_tell(self, update(self));
  unpin(self);
  return code;
}

/* One look for reserve(): whether the pool holds `count` segments now. */
static int fetch_until(struct fb_local_buffer_pool* self, uint32_t count, bool* is_done) {
  struct fb_buffer* buffer;
  int code;

  lock(self);
  while (!self->is_destroyed && self->requested < count && (buffer = fetch(self)) != NULL) {
    put_in_stock(self, buffer);
  }
  code = self->is_destroyed || fb_network_buffer_pool_is_destroyed(self->global) ? FB_EDESTROYED : FB_OK;
  *is_done = self->requested >= count;
  unlock_and_tell(self, update(self));
  return code;
}

int fb_local_buffer_pool_reserve(struct fb_local_buffer_pool* self, uint32_t count, int64_t timeout_ms) {
  struct fb_network_buffer_pool* global = self->global;
  int64_t deadline_ms = deadline_of(timeout_ms);
  bool is_done = false;
  int code = FB_OK;

  if (count > self->options.min) return FB_EARGUMENT;
  pin(self);
  want(global);
  while (code == FB_OK && !is_done) {
    uint64_t seen = fb_wakeup_seen(&global->freed);
    code = fetch_until(self, count, &is_done);
    if (code == FB_OK && !is_done) code = sleep_until(&global->freed, seen, deadline_ms);
  }
  unwant(global);
  unpin(self);
  return code;
}

bool fb_local_buffer_pool_is_available(struct fb_local_buffer_pool* self) {
  /* Acquire: pairs with the release in update(). */
  return atomic_load_explicit(&self->is_available, memory_order_acquire);
}

int fb_local_buffer_pool_add_wakeup(struct fb_local_buffer_pool* self, struct fb_wakeup* wakeup) {
  int code = fb_wakeup_list_add(&self->bells, wakeup);

  /* Through the latch once: a change either comes later and sees the bell, or came before and is seen by
   * the caller, who looks before sleeping. */
  lock(self);
  unlock(self);
  return code;
}

void fb_local_buffer_pool_remove_wakeup(struct fb_local_buffer_pool* self, struct fb_wakeup* wakeup) {
  fb_wakeup_list_remove(&self->bells, wakeup);
}

bool fb_local_buffer_pool_add_listener(struct fb_local_buffer_pool* self, struct fb_buffer_listener* listener) {
  bool is_taken;

  lock(self);
  is_taken = self->stock == NULL && !self->is_destroyed;
  if (is_taken) {
    listener->next = NULL;
    if (self->last_listener != NULL) self->last_listener->next = listener;
    else self->first_listener = listener;
    self->last_listener = listener;
  }
  unlock(self);
  return is_taken;
}

bool fb_local_buffer_pool_remove_listener(struct fb_local_buffer_pool* self, struct fb_buffer_listener* listener) {
  struct fb_buffer_listener *item, *before = NULL;

  lock(self);
  for (item = self->first_listener; item != NULL && item != listener; item = item->next) before = item;
  if (item != NULL) {
    if (before != NULL) before->next = item->next;
    else self->first_listener = item->next;
    if (self->last_listener == item) self->last_listener = before;
    item->next = NULL;
  }
  unlock(self);
  return item != NULL;
}

/* ---- local: figures ---------------------------------------------------------------------------------- */

void fb_local_buffer_pool_get_usage(struct fb_local_buffer_pool* self, struct fb_buffer_pool_usage* usage) {
  lock(self);
  *usage = self->usage;
  usage->granted = self->granted;
  usage->size = self->size;
  usage->stock = self->stock_count;
  usage->requested = self->requested;
  usage->full_channels = self->full_channels;
  usage->blocked = self->blocked;
  unlock(self);
}

uint32_t fb_local_buffer_pool_segment_size(const struct fb_local_buffer_pool* self) {
  return self->global->segment_size;
}
uint32_t fb_local_buffer_pool_min(const struct fb_local_buffer_pool* self) { return self->options.min; }
uint32_t fb_local_buffer_pool_max(const struct fb_local_buffer_pool* self) { return self->options.max; }

uint32_t fb_local_buffer_pool_size(struct fb_local_buffer_pool* self) {
  struct fb_buffer_pool_usage usage;
  fb_local_buffer_pool_get_usage(self, &usage);
  return usage.size;
}

uint32_t fb_local_buffer_pool_stock(struct fb_local_buffer_pool* self) {
  struct fb_buffer_pool_usage usage;
  fb_local_buffer_pool_get_usage(self, &usage);
  return usage.stock;
}

uint32_t fb_local_buffer_pool_requested(struct fb_local_buffer_pool* self) {
  struct fb_buffer_pool_usage usage;
  fb_local_buffer_pool_get_usage(self, &usage);
  return usage.requested;
}

uint32_t fb_local_buffer_pool_used(struct fb_local_buffer_pool* self) {
  struct fb_buffer_pool_usage usage;
  fb_local_buffer_pool_get_usage(self, &usage);
  return usage.requested - usage.stock;
}
