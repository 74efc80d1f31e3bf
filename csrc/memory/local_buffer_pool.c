#include "memory/local_buffer_pool.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fb_local_buffer_pool {
  /* One cache line: all that request and recycle touch as long as there is stock. */
  _Alignas(64) atomic_bool latch; /* guards what follows, up to `handles` */
  atomic_bool is_available;       /* written under the latch, read anywhere */
  bool is_destroyed;
  bool had_stock; /* at the last update_availability() */
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
  uint32_t full_channels;            /* channels that have reached their quota */
  uint32_t blocked;                  /* requests that sleep on `changed` */
  struct fb_buffer_pool_usage usage; /* only the counters that have no other home */

  struct fb_buffer_pool_options options; /* never changes */
  _Atomic uint32_t handles;              /* the user's and pins; lowered only under the latch */
  struct fb_wakeup changed;
  struct fb_wakeup_list bells;
  struct fb_pool_member member;
};

static void tell_listener(struct fb_local_buffer_pool* self);
static void unpin_pool(struct fb_local_buffer_pool* self);
static void refill_pool(struct fb_local_buffer_pool* self);
static void recycle_local(struct fb_buffer* buffer);

static void pin_pool(struct fb_local_buffer_pool* self) {
  atomic_fetch_add_explicit(&self->handles, 1, memory_order_relaxed);
}

/* ---- the latch and what it guards ------------------------------------------------------------------ */

/* Each time twice as long, and without a look in between: a look takes the cache line from the holder. Where threads
 * looked all the time, two cores needed 170 ns for what one does in 24, since the line moved with every request; those
 * who stay away let the others do many in a row. */
static void pause_for(uint32_t round) {
  struct timespec nap = {.tv_nsec = 50000};

  if (round < 6) {
    for (uint32_t i = 0; i < 4u << round; i++) fb_wakeup_relax();
  } else if (round < 16) {
    sched_yield();
  } else {
    nanosleep(&nap, NULL); /* the holder lost its processor */
  }
}

static void lock_slowly(struct fb_local_buffer_pool* self) {
  uint32_t round = 0;

  do {
    do {
      pause_for(round++);
    } while (atomic_load_explicit(&self->latch, memory_order_relaxed));
  } while (atomic_exchange_explicit(&self->latch, true, memory_order_acquire));
}

/* A latch and not a mutex: it is held for a few instructions only, and to leave it costs a plain store, which
 * makes it half as dear as a mutex (8 against 16 ns where it was measured). Acquire here pairs with the release in
 * unlock_pool(). */
static inline void lock_pool(struct fb_local_buffer_pool* self) {
  if (atomic_exchange_explicit(&self->latch, true, memory_order_acquire)) lock_slowly(self);
}

static bool should_be_available(const struct fb_local_buffer_pool* self) {
  return self->stock != NULL && self->full_channels == 0 && !self->is_destroyed;
}

static inline void unlock_pool(struct fb_local_buffer_pool* self) {
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
static struct fb_buffer* fetch_buffer(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer = fb_network_buffer_pool_take(self->global);

  if (buffer == NULL) return NULL;
  fb_buffer_reset(buffer, recycle_local, self);
  self->requested++;
  if (self->requested > self->usage.peak) self->usage.peak = self->requested;
  return buffer;
}

/* Keeps one segment in stock while the size allows; else has itself told when the global pool has one. */
static void keep_stock(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer = fetch_buffer(self);

  if (buffer == NULL) {
    fb_network_buffer_pool_start_waiting(self->global, &self->member);
    buffer = fetch_buffer(self); /* again: it may have come between the look and the registration */
  }
  if (buffer == NULL) return;
  put_in_stock(self, buffer);
  /* Relaxed: a stale value costs a needless call of refill_pool(), which finds nothing to do. */
  if (atomic_load_explicit(&self->member.is_waiting, memory_order_relaxed)) {
    fb_network_buffer_pool_stop_waiting(self->global, &self->member);
  }
}

/* Brings stock and availability in line with the rest, after every change and before unlock_pool(). Returns
 * whether somebody who found nothing before may find something now. */
static inline bool update_availability(struct fb_local_buffer_pool* self) {
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

static void free_local(struct fb_local_buffer_pool* self) {
  fb_wakeup_list_close(&self->bells);
  fb_wakeup_close(&self->changed);
  free(self->per_channel);
  free(self);
}

/* Lowers the count of handles and pins; the last one to leave, with every segment back home, frees. */
static void unpin_pool(struct fb_local_buffer_pool* self) {
  struct fb_network_buffer_pool* global = self->global;
  bool is_last;

  lock_pool(self);
  /* Relaxed: all decrements are under the latch. */
  is_last = atomic_fetch_sub_explicit(&self->handles, 1, memory_order_relaxed) == 1 && self->requested == 0;
  unlock_pool(self);
  if (!is_last) return;
  free_local(self);
  fb_network_buffer_pool_drop_handle(global);
}

/* Leaves the latch, and rings and serves listeners if there is `news` and anybody to hear it. The bells are
 * counted under the latch, which add_wakeup() passes through too: either it sees our change or we see it. */
static inline void unlock_and_tell(struct fb_local_buffer_pool* self, bool news) {
  bool is_heard = self->blocked > 0 || self->first_listener != NULL || !fb_wakeup_list_is_empty(&self->bells);

  if (!news || !is_heard) {
    unlock_pool(self);
    return;
  }
  pin_pool(self);
  unlock_pool(self);
  tell_listener(self);
  unpin_pool(self);
}

/* ---- the way back ---------------------------------------------------------------------------------- */

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
static void settle_buffer(struct fb_local_buffer_pool* self, struct fb_buffer* buffer) {
  struct fb_network_buffer_pool* global = self->global;
  struct fb_buffer_listener* listener;
  bool news;

  for (;;) {
    if (self->is_destroyed || self->requested > self->size) {
      self->requested--;
      /* A request that may overdraw can find this segment in the global pool. */
      news = update_availability(self) || self->options.max_overdraft > 0;
      pin_pool(self);
      unlock_pool(self);
      fb_network_buffer_pool_give(global, buffer);
      if (news) tell_listener(self);
      unpin_pool(self);
      return;
    }
    listener = next_listener(self);
    if (listener == NULL) {
      put_in_stock(self, buffer);
      unlock_and_tell(self, update_availability(self));
      return;
    }
    news = update_availability(self);
    pin_pool(self);
    unlock_pool(self);
    fb_buffer_reset(buffer, recycle_local, self);
    if (listener->on_buffer_available(listener, buffer)) {
      if (news) tell_listener(self);
      unpin_pool(self);
      return;
    }
    if (news) tell_listener(self);
    lock_pool(self);
    atomic_fetch_sub_explicit(&self->handles, 1, memory_order_relaxed); /* `buffer` holds the pool again */
  }
}

static void recycle_local(struct fb_buffer* buffer) {
  struct fb_local_buffer_pool* self = buffer->owner;
  bool was_full = false;

  lock_pool(self);
  if (buffer->channel < self->channel_count) {
    was_full = self->per_channel[buffer->channel]-- == self->quota;
    if (was_full) self->full_channels--;
    buffer->channel = FB_NO_CHANNEL;
  }
  if (self->stock != NULL && !was_full && self->requested <= self->size && self->first_listener == NULL) {
    /* The usual case: there was stock before, so nothing becomes possible that was not. */
    put_in_stock(self, buffer);
    unlock_pool(self);
    return;
  }
  settle_buffer(self, buffer);
}

/* Tells everybody who waits that something may have become possible. The caller has a pin and no lock. */
static void tell_listener(struct fb_local_buffer_pool* self) {
  struct fb_buffer* buffer;

  fb_wakeup_ring(&self->changed);
  fb_wakeup_list_ring(&self->bells);
  for (;;) {
    lock_pool(self);
    buffer = self->first_listener != NULL ? take_from_stock(self) : NULL;
    if (buffer == NULL) {
      unlock_pool(self);
      return;
    }
    settle_buffer(self, buffer);
  }
}

static void refill_pool(struct fb_local_buffer_pool* self) {
  lock_pool(self);
  unlock_and_tell(self, update_availability(self));
}

/* Under the registry lock. */
static bool resize_pool(struct fb_local_buffer_pool* self, uint32_t size, struct fb_buffer** homecoming) {
  bool news;

  lock_pool(self);
  self->size = size < self->options.max ? size : self->options.max;
  while (self->requested > self->size && self->stock != NULL) {
    struct fb_buffer* buffer = take_from_stock(self);
    self->requested--;
    buffer->next = *homecoming;
    *homecoming = buffer;
  }
  news = update_availability(self);
  unlock_pool(self);
  return news;
}

int fb_local_buffer_pool_set_size(struct fb_local_buffer_pool* self, uint32_t size) {
  if (size < self->options.min) return FB_EARGUMENT;
  fb_network_buffer_pool_resize(self->global, &self->member, size);
  return FB_OK;
}

/* ---- as a member of the global pool ---------------------------------------------------------------- */

static struct fb_local_buffer_pool* pool_of(struct fb_pool_member* member) {
  return (struct fb_local_buffer_pool*)((char*)member - offsetof(struct fb_local_buffer_pool, member));
}
static void pin_member(struct fb_pool_member* member) { pin_pool(pool_of(member)); }
static void unpin_member(struct fb_pool_member* member) { unpin_pool(pool_of(member)); }
static void tell_member(struct fb_pool_member* member) { tell_listener(pool_of(member)); }
static void refill_member(struct fb_pool_member* member) { refill_pool(pool_of(member)); }
static void destroy_member(struct fb_pool_member* member) { fb_local_buffer_pool_destroy(pool_of(member)); }
static bool resize_member(struct fb_pool_member* member, uint32_t size, struct fb_buffer** homecoming) {
  return resize_pool(pool_of(member), size, homecoming);
}

static const struct fb_pool_member_type member_type = {
    .pin = pin_member,
    .unpin = unpin_member,
    .tell = tell_member,
    .refill = refill_member,
    .destroy = destroy_member,
    .resize = resize_member,
};

/* ---- life ------------------------------------------------------------------------------------------ */

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
  self->member = (struct fb_pool_member){
      .type = &member_type, .min = options->min, .expected = options->expected, .max = options->max};
  atomic_init(&self->handles, 1);
  self->per_channel = calloc((size_t)options->channel_count + 1, sizeof *self->per_channel);
  if (self->per_channel == NULL || fb_wakeup_open(&self->changed) != FB_OK ||
      fb_wakeup_list_open(&self->bells) != FB_OK) {
    free_local(self);
    return NULL;
  }
  return self;
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

  code = fb_network_buffer_pool_register(global, &pool->member);
  if (code != FB_OK) {
    free_local(pool);
    return code;
  }
  refill_pool(pool);
  *self = pool;
  return FB_OK;
}

/* Marks the pool, and takes away what it must let go: its idle segments and its listeners. */
static struct fb_buffer* mark_destroyed(struct fb_local_buffer_pool* self, struct fb_buffer_listener** listeners) {
  struct fb_buffer* idle;

  lock_pool(self);
  self->is_destroyed = true;
  idle = self->stock;
  self->requested -= self->stock_count;
  self->stock_count = 0;
  self->stock = NULL;
  *listeners = self->first_listener;
  self->first_listener = self->last_listener = NULL;
  /* For good: keep_stock() is not called for a destroyed pool. */
  fb_network_buffer_pool_stop_waiting(self->global, &self->member);
  update_availability(self);
  pin_pool(self);
  unlock_pool(self);
  return idle;
}

void fb_local_buffer_pool_destroy(struct fb_local_buffer_pool* self) {
  struct fb_network_buffer_pool* global = self->global;
  struct fb_buffer_listener* listeners;
  struct fb_buffer* idle = mark_destroyed(self, &listeners);

  while (idle != NULL) {
    struct fb_buffer* buffer = idle;
    idle = idle->next;
    fb_network_buffer_pool_give(global, buffer);
  }
  while (listeners != NULL) {
    struct fb_buffer_listener* listener = listeners;
    listeners = listener->next;
    listener->next = NULL;
    listener->on_pool_destroyed(listener);
  }
  tell_listener(self);
  fb_wakeup_ring(fb_network_buffer_pool_freed(global)); /* reserve() sleeps there */
  fb_network_buffer_pool_unregister(global, &self->member);
  unpin_pool(self);
}

bool fb_local_buffer_pool_is_destroyed(struct fb_local_buffer_pool* self) {
  bool is_destroyed;

  lock_pool(self);
  is_destroyed = self->is_destroyed;
  unlock_pool(self);
  return is_destroyed;
}

void fb_local_buffer_pool_close(struct fb_local_buffer_pool* self) {
  if (self == NULL) return;
  fb_local_buffer_pool_destroy(self);
  unpin_pool(self);
}

/* ---- requests -------------------------------------------------------------------------------------- */

/* Counts `buffer` for its channel. Returns whether the channel has reached its quota with it. */
static inline bool hand_out_buffer(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer* buffer) {
  atomic_store_explicit(&buffer->references, 1, memory_order_relaxed); /* relaxed, as in fb_buffer_reset() */
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
    bool is_full = self->requested >= self->size;
    if (!is_full || self->requested - self->size < self->options.max_overdraft) taken = fetch_buffer(self);
    if (taken == NULL) return fb_network_buffer_pool_is_destroyed(self->global) ? FB_EDESTROYED : FB_OK;
    if (self->requested > self->size) self->usage.overdrafts++;
  }
  if (hand_out_buffer(self, channel, taken)) self->full_channels++;
  *buffer = taken;
  return FB_OK;
}

/* When stock runs out or a channel reaches its quota. Enters under the latch and leaves it. */
static int request_slowly(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer** buffer) {
  int code = request_locked(self, channel, buffer);

  if (*buffer == NULL) self->usage.refused++;
  unlock_and_tell(self, update_availability(self));
  return code;
}

int fb_local_buffer_pool_request(struct fb_local_buffer_pool* self, uint32_t channel, struct fb_buffer** buffer) {
  struct fb_buffer* taken;

  lock_pool(self);
  taken = self->stock;
  if (taken == NULL || taken->next == NULL) return request_slowly(self, channel, buffer);
  /* The usual case: there is stock and will be. */
  take_from_stock(self);
  *buffer = taken;
  if (hand_out_buffer(self, channel, taken)) {
    self->full_channels++;
    update_availability(self);
  }
  unlock_pool(self);
  return FB_OK;
}

/* Sleeps once, for a request that found nothing. Enters under the latch and comes back under it. */
static void wait_for_change(struct fb_local_buffer_pool* self, int64_t deadline_ms) {
  /* Looked at and counted under the latch: whoever changes something afterwards rings. */
  uint64_t seen = fb_wakeup_seen(&self->changed);

  self->blocked++;
  unlock_and_tell(self, update_availability(self));
  fb_wakeup_wait_until(&self->changed, seen, deadline_ms);
  lock_pool(self);
  self->blocked--;
}

int fb_local_buffer_pool_request_blocking(struct fb_local_buffer_pool* self, uint32_t channel, int64_t timeout_ms,
                                          struct fb_buffer** buffer) {
  int64_t start_ms, deadline_ms;
  int code;

  lock_pool(self);
  code = request_locked(self, channel, buffer);
  if (*buffer != NULL || code != FB_OK) {
    unlock_and_tell(self, update_availability(self));
    return code;
  }
  pin_pool(self); /* it may be closed while we sleep */
  start_ms = fb_wakeup_now_ms();
  deadline_ms = fb_wakeup_deadline_ms(timeout_ms);
  self->usage.waits++;
  do {
    bool is_late = fb_wakeup_now_ms() >= deadline_ms;
    if (!is_late) wait_for_change(self, deadline_ms);
    code = request_locked(self, channel, buffer);
    if (is_late && code == FB_OK && *buffer == NULL) code = FB_ETIMEOUT;
  } while (code == FB_OK && *buffer == NULL);
  self->usage.waited_ms += fb_wakeup_now_ms() - start_ms;
  unlock_and_tell(self, update_availability(self));
  unpin_pool(self);
  return code;
}

/* One look for reserve(): whether the pool holds `count` segments now. */
static int fetch_until(struct fb_local_buffer_pool* self, uint32_t count, bool* is_done) {
  struct fb_buffer* buffer;
  int code;

  lock_pool(self);
  while (!self->is_destroyed && self->requested < count && (buffer = fetch_buffer(self)) != NULL) {
    put_in_stock(self, buffer);
  }
  code = self->is_destroyed || fb_network_buffer_pool_is_destroyed(self->global) ? FB_EDESTROYED : FB_OK;
  *is_done = self->requested >= count;
  unlock_and_tell(self, update_availability(self));
  return code;
}

int fb_local_buffer_pool_reserve(struct fb_local_buffer_pool* self, uint32_t count, int64_t timeout_ms) {
  struct fb_network_buffer_pool* global = self->global;
  struct fb_wakeup* freed = fb_network_buffer_pool_freed(global);
  int64_t deadline_ms = fb_wakeup_deadline_ms(timeout_ms);
  bool is_done = false;
  int code = FB_OK;

  if (count > self->options.min) return FB_EARGUMENT;
  pin_pool(self);
  fb_network_buffer_pool_want(global);
  while (code == FB_OK && !is_done) {
    uint64_t seen = fb_wakeup_seen(freed);
    code = fetch_until(self, count, &is_done);
    if (code == FB_OK && !is_done) code = fb_wakeup_wait_until(freed, seen, deadline_ms);
  }
  fb_network_buffer_pool_unwant(global);
  unpin_pool(self);
  return code;
}

bool fb_local_buffer_pool_is_available(struct fb_local_buffer_pool* self) {
  /* Acquire: pairs with the release in update_availability(). */
  return atomic_load_explicit(&self->is_available, memory_order_acquire);
}

int fb_local_buffer_pool_add_wakeup(struct fb_local_buffer_pool* self, struct fb_wakeup* wakeup) {
  int code = fb_wakeup_list_add(&self->bells, wakeup);

  /* Through the latch once: a change either comes later and sees the bell, or came before and is seen by
   * the caller, who looks before sleeping. */
  lock_pool(self);
  unlock_pool(self);
  return code;
}

void fb_local_buffer_pool_remove_wakeup(struct fb_local_buffer_pool* self, struct fb_wakeup* wakeup) {
  fb_wakeup_list_remove(&self->bells, wakeup);
}

bool fb_local_buffer_pool_add_listener(struct fb_local_buffer_pool* self, struct fb_buffer_listener* listener) {
  bool is_taken;

  lock_pool(self);
  is_taken = self->stock == NULL && !self->is_destroyed;
  if (is_taken) {
    listener->next = NULL;
    if (self->last_listener != NULL) self->last_listener->next = listener;
    else self->first_listener = listener;
    self->last_listener = listener;
  }
  unlock_pool(self);
  return is_taken;
}

bool fb_local_buffer_pool_remove_listener(struct fb_local_buffer_pool* self, struct fb_buffer_listener* listener) {
  struct fb_buffer_listener *item, *before = NULL;

  lock_pool(self);
  for (item = self->first_listener; item != NULL && item != listener; item = item->next) before = item;
  if (item != NULL) {
    if (before != NULL) before->next = item->next;
    else self->first_listener = item->next;
    if (self->last_listener == item) self->last_listener = before;
    item->next = NULL;
  }
  unlock_pool(self);
  return item != NULL;
}

/* ---- figures --------------------------------------------------------------------------------------- */

void fb_local_buffer_pool_get_usage(struct fb_local_buffer_pool* self, struct fb_buffer_pool_usage* usage) {
  lock_pool(self);
  *usage = self->usage;
  usage->granted = self->granted;
  usage->size = self->size;
  usage->stock = self->stock_count;
  usage->requested = self->requested;
  usage->full_channels = self->full_channels;
  usage->blocked = self->blocked;
  unlock_pool(self);
}

uint32_t fb_local_buffer_pool_segment_size(const struct fb_local_buffer_pool* self) {
  return fb_network_buffer_pool_segment_size(self->global);
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
