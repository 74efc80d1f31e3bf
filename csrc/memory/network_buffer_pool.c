#define _GNU_SOURCE
#include "memory/network_buffer_pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* The free list is SHELVES stacks, so that threads need not share one cache line: with a single stack, a request and its
 * return took 30 ns in one thread and 250 ns as soon as two cores were at it, all of it spent on moving lines. A thread
 * keeps to one shelf, `own_shelf`, for both; when another meets it there, it moves on to the next, so threads part by
 * themselves, and one alone never leaves. Who finds its shelf empty takes from the others: no segment is out of reach.
 *
 * The whole state of a shelf is one 64-bit word, `head`:
 *
 *   bit 63      WANTED: somebody wants to hear when the shelf stops being empty; set on all or none
 *   bits 62-32  a tag that every removal raises, so that a slow remover cannot mistake a top that went and
 *               came back for one that stayed (the ABA problem)
 *   bits 31-0   index of the top, or EMPTY, or CLOSED once nobody can request any more
 *
 * A slot's link holds the index that lies under it and, above that, how many lie there with it: so the number of free
 * segments costs nothing to keep. */
#define WANTED       (UINT64_C(1) << 63)
#define TAG_STEP     (UINT64_C(1) << 32)
#define TAG_BITS     (WANTED - TAG_STEP)
#define EMPTY        UINT32_MAX
#define CLOSED       (UINT32_MAX - 1)
#define MAX_SEGMENTS ((uint32_t)INT32_MAX)

enum { SHELVES = 8, LINE = 64 /* bytes that a core takes from another at once */ };
enum { PARTED_SIZE = 4096 /* bytes; for segments that large or larger a line between two is worth its memory */ };

/* A hint and no state: any value is right, some are slower. */
static _Thread_local uint32_t own_shelf;

struct shelf {
  _Alignas(LINE) _Atomic uint64_t head;
};

/* One line for all that a request and a return write, shared with no other segment. */
struct slot {
  _Alignas(LINE) struct fb_buffer buffer;
  _Atomic uint64_t link;
};

/* `outstanding` stays above this until the last handle is dropped; only then can it reach zero. */
#define STILL_OPEN (INT64_C(1) << 40)

struct fb_network_buffer_pool {
  struct shelf shelves[SHELVES];

  _Alignas(LINE) struct slot* slots; /* read by every request, hardly ever written: nor is what follows */
  atomic_bool is_destroyed;

  _Alignas(LINE) _Atomic int64_t outstanding; /* after the last handle: buffers not home, and pins */
  _Atomic uint32_t handles;                   /* the user's, and one for each local pool */
  uint32_t count;
  uint32_t segment_size;
  uint8_t* memory;
  size_t memory_bytes;

  pthread_mutex_t registry_lock; /* the following; taken before any local latch */
  struct fb_pool_member* pools;
  uint32_t pool_count;
  uint32_t required;
  struct fb_buffer* homecoming; /* idle segments of shrunk pools, given back after the lock is left */
  bool has_news;                /* some pool has `has_news` */

  pthread_mutex_t waiting_lock; /* the following; a leaf: nothing else is taken under it */
  struct fb_pool_member *waiting_first, *waiting_last;
  uint32_t wanted; /* waiting pools + blocked requests */

  struct fb_wakeup freed; /* blocked requests sleep here */
};

/* ---- free list ------------------------------------------------------------------------------------- */

/* Another thread was faster on this shelf: the caller goes to the next one from now on. */
static void part_ways(uint32_t shelf) { own_shelf = (shelf + 1) % SHELVES; }

/* Takes the top of a shelf; NULL if it is empty. */
static inline struct fb_buffer* take_from(struct fb_network_buffer_pool* self, uint32_t shelf) {
  _Atomic uint64_t* top = &self->shelves[shelf].head;
  /* Acquire: pairs with the release in push_segment(), so the link is the one of this head. */
  uint64_t head = atomic_load_explicit(top, memory_order_acquire);
  bool is_contended = false;

  while ((uint32_t)head < CLOSED) {
    struct slot* slot = &self->slots[(uint32_t)head];
    /* Relaxed: may be of a later head, but then the exchange fails. */
    uint64_t rest = atomic_load_explicit(&slot->link, memory_order_relaxed);

    rest = (head & WANTED) | ((head + TAG_STEP) & TAG_BITS) | (uint32_t)rest;
    if (atomic_compare_exchange_weak_explicit(top, &head, rest, memory_order_acquire, memory_order_acquire)) {
      if (is_contended) part_ways(shelf);
      return &slot->buffer;
    }
    is_contended = true;
  }
  return NULL;
}

struct fb_buffer* fb_network_buffer_pool_take(struct fb_network_buffer_pool* self) {
  uint32_t own = own_shelf;
  struct fb_buffer* buffer;

  if (atomic_load_explicit(&self->is_destroyed, memory_order_relaxed)) return NULL;
  buffer = take_from(self, own);
  for (uint32_t i = 1; i < SHELVES && buffer == NULL; i++) buffer = take_from(self, (own + i) % SHELVES);
  if (buffer != NULL) SHOW_BYTES(buffer->segment);
  return buffer;
}

static uint32_t stack_depth(struct fb_network_buffer_pool* self, uint64_t head) {
  uint32_t top = (uint32_t)head;

  if (top >= CLOSED) return 0;
  return (uint32_t)(atomic_load_explicit(&self->slots[top].link, memory_order_relaxed) >> 32);
}

/* Puts `buffer` on top of the caller's shelf unless that is CLOSED, or wanted and empty while !may_wake. *head is its
 * last seen state: on success the one before. */
static bool push_segment(struct fb_network_buffer_pool* self, struct fb_buffer* buffer, bool may_wake, uint64_t* head) {
  struct slot* slot = (struct slot*)(void*)buffer; /* its first member */
  uint32_t index = (uint32_t)(slot - self->slots), shelf = own_shelf;
  _Atomic uint64_t* top = &self->shelves[shelf].head;
  bool is_contended = false;

  /* Acquire: stack_depth() reads the link that the pusher of this top has stored before its release. */
  *head = atomic_load_explicit(top, memory_order_acquire);
  for (;;) {
    if ((uint32_t)*head == CLOSED) return false;
    if (!may_wake && (uint32_t)*head == EMPTY && (*head & WANTED)) return false;
    atomic_store_explicit(&slot->link, ((uint64_t)stack_depth(self, *head) + 1) << 32 | (uint32_t)*head,
                          memory_order_relaxed);
    /* Release: pairs with the acquires in take_from() and here; link and bytes are done. */
    if (atomic_compare_exchange_weak_explicit(top, head, (*head & ~(uint64_t)UINT32_MAX) | index, memory_order_release,
                                              memory_order_acquire)) {
      break;
    }
    is_contended = true;
  }
  if (is_contended) part_ways(shelf);
  return true;
}

static void free_global(struct fb_network_buffer_pool* self) {
  for (uint32_t i = 0; i < self->count; i++) SHOW_BYTES(self->slots[i].buffer.segment);
  if (self->memory != NULL) munmap(self->memory, self->memory_bytes);
  fb_wakeup_close(&self->freed);
  pthread_mutex_destroy(&self->waiting_lock);
  pthread_mutex_destroy(&self->registry_lock);
  free(self->slots);
  free(self);
}

static void lower_outstanding(struct fb_network_buffer_pool* self, int64_t by) {
  /* Acquire and release: whoever frees sees all that the others did before they let go. */
  if (atomic_fetch_sub_explicit(&self->outstanding, by, memory_order_acq_rel) == by) free_global(self);
}

static struct fb_pool_member* next_waiting(struct fb_network_buffer_pool* self);

static bool is_empty(struct fb_network_buffer_pool* self) {
  bool is_empty = true;

  for (uint32_t i = 0; i < SHELVES && is_empty; i++) {
    is_empty = (uint32_t)atomic_load_explicit(&self->shelves[i].head, memory_order_acquire) >= CLOSED;
  }
  return is_empty;
}

static void tell_members(struct fb_network_buffer_pool* self) {
  struct fb_pool_member* pool;

  fb_wakeup_ring(&self->freed);
  /* A pool that comes too late registers again, and the next segment is another "no longer empty". */
  while (!is_empty(self) && (pool = next_waiting(self)) != NULL) {
    pool->type->refill(pool);
    pool->type->unpin(pool);
  }
}

/* The caller holds no lock. Once the buffer is on the list, the pool's memory may go at any moment (the
 * last handle was closed and this was the last buffer), so after a plain push nothing is touched. Where
 * somebody has to be told, or the list is closed, a pin on `outstanding` comes first. */
void fb_network_buffer_pool_give(struct fb_network_buffer_pool* self, struct fb_buffer* buffer) {
  uint64_t head;

  HIDE_BYTES(buffer->segment);
  if (push_segment(self, buffer, false, &head)) return;

  /* Relaxed: this buffer is still out, so nobody is freeing. */
  atomic_fetch_add_explicit(&self->outstanding, 1, memory_order_relaxed);
  if (!push_segment(self, buffer, true, &head)) {
    lower_outstanding(self, 1); /* the buffer itself: it counts since the list was closed */
  } else if ((uint32_t)head == EMPTY) {
    tell_members(self);
  }
  lower_outstanding(self, 1);
}

/* ---- who waits for the free list ------------------------------------------------------------------- */

/* Call want() before the look at the list that decides to wait: head is one word, so whoever makes a shelf
 * non-empty after it was looked at finds the mark. */
static void want_locked(struct fb_network_buffer_pool* self) {
  if (self->wanted++ > 0) return;
  for (uint32_t i = 0; i < SHELVES; i++) {
    atomic_fetch_or_explicit(&self->shelves[i].head, WANTED, memory_order_acq_rel);
  }
}
static void unwant_locked(struct fb_network_buffer_pool* self) {
  if (--self->wanted > 0) return;
  for (uint32_t i = 0; i < SHELVES; i++) {
    atomic_fetch_and_explicit(&self->shelves[i].head, ~WANTED, memory_order_acq_rel);
  }
}
void fb_network_buffer_pool_want(struct fb_network_buffer_pool* self) {
  pthread_mutex_lock(&self->waiting_lock);
  want_locked(self);
  pthread_mutex_unlock(&self->waiting_lock);
}
void fb_network_buffer_pool_unwant(struct fb_network_buffer_pool* self) {
  pthread_mutex_lock(&self->waiting_lock);
  unwant_locked(self);
  pthread_mutex_unlock(&self->waiting_lock);
}

void fb_network_buffer_pool_start_waiting(struct fb_network_buffer_pool* self, struct fb_pool_member* pool) {
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

static void leave_waiting_locked(struct fb_network_buffer_pool* self, struct fb_pool_member* pool) {
  atomic_store_explicit(&pool->is_waiting, false, memory_order_relaxed);
  if (pool->waiting_previous != NULL) pool->waiting_previous->waiting_next = pool->waiting_next;
  if (pool->waiting_next != NULL) pool->waiting_next->waiting_previous = pool->waiting_previous;
  if (self->waiting_first == pool) self->waiting_first = pool->waiting_next;
  if (self->waiting_last == pool) self->waiting_last = pool->waiting_previous;
  unwant_locked(self);
}

void fb_network_buffer_pool_stop_waiting(struct fb_network_buffer_pool* self, struct fb_pool_member* pool) {
  pthread_mutex_lock(&self->waiting_lock);
  if (atomic_load_explicit(&pool->is_waiting, memory_order_relaxed)) leave_waiting_locked(self, pool);
  pthread_mutex_unlock(&self->waiting_lock);
}

/* The pool that waits longest, pinned, no longer waiting. NULL: none does. */
static struct fb_pool_member* next_waiting(struct fb_network_buffer_pool* self) {
  struct fb_pool_member* pool;

  pthread_mutex_lock(&self->waiting_lock);
  pool = self->waiting_first;
  if (pool != NULL) {
    leave_waiting_locked(self, pool);
    pool->type->pin(pool); /* a pool that waits is not destroyed yet, so its user's handle is there */
  }
  pthread_mutex_unlock(&self->waiting_lock);
  return pool;
}

/* ---- life ------------------------------------------------------------------------------------------ */

/* Bytes from one segment to the next. With a power of two, equal places of all segments would share a few sets of the
 * caches: who writes to a thousand channels in turn would find each line pushed out by the others. An odd number of
 * lines goes round all sets. */
static size_t stride_of(uint32_t segment_size) {
  size_t lines = ((size_t)segment_size + LINE - 1) / LINE;

  return segment_size < PARTED_SIZE ? segment_size : (lines | 1) * LINE;
}

static void fill_stack(struct fb_network_buffer_pool* self) {
  size_t stride = stride_of(self->segment_size);

  for (uint32_t i = 0; i < self->count; i++) {
    struct fb_buffer* buffer = &self->slots[i].buffer;
    uint8_t* data = self->memory + i * stride;
    fb_memory_segment_wrap(&buffer->segment, data, self->segment_size);
    buffer->channel = FB_NO_CHANNEL;
    atomic_init(&self->slots[i].link, (uint64_t)(i + 1) << 32 | (i > 0 ? i - 1 : EMPTY));
    HIDE_BYTES(buffer->segment);
  }
  /* All on the first shelf: whoever uses another brings segments there in time. */
  for (uint32_t i = 0; i < SHELVES; i++) atomic_init(&self->shelves[i].head, EMPTY);
  if (self->count > 0) atomic_init(&self->shelves[0].head, self->count - 1);
}

static int allocate_segments(struct fb_network_buffer_pool* self) {
  size_t count = self->count > 0 ? self->count : 1;

  if (self->count > SIZE_MAX / stride_of(self->segment_size)) return FB_ENOMEM;
  self->memory_bytes = self->count * stride_of(self->segment_size);
  if (self->memory_bytes > 0) {
    /* Page-aligned and zeroed; the system gives each page when it is first touched. */
    void* memory = mmap(NULL, self->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return FB_ENOMEM;
    self->memory = memory;
  }
  if (count > SIZE_MAX / sizeof *self->slots) return FB_ENOMEM;
  self->slots = aligned_alloc(LINE, count * sizeof *self->slots);
  if (self->slots == NULL) return FB_ENOMEM;
  memset(self->slots, 0, count * sizeof *self->slots);
  return fb_wakeup_open(&self->freed) == FB_OK ? FB_OK : FB_ENOMEM;
}

int fb_network_buffer_pool_open(uint32_t segment_count, uint32_t segment_size, struct fb_network_buffer_pool** self) {
  struct fb_network_buffer_pool* pool;

  *self = NULL;
  if (segment_size == 0 || segment_size > INT32_MAX || segment_count > MAX_SEGMENTS) return FB_EARGUMENT;
  pool = aligned_alloc(LINE, sizeof *pool);
  if (pool == NULL) return FB_ENOMEM;
  memset(pool, 0, sizeof *pool);
  pool->count = segment_count;
  pool->segment_size = segment_size;
  atomic_init(&pool->outstanding, STILL_OPEN);
  atomic_init(&pool->handles, 1);
  pthread_mutex_init(&pool->registry_lock, NULL);
  pthread_mutex_init(&pool->waiting_lock, NULL);
  if (allocate_segments(pool) != FB_OK) {
    pool->count = 0;
    free_global(pool);
    return FB_ENOMEM;
  }
  fill_stack(pool);
  *self = pool;
  return FB_OK;
}

void fb_network_buffer_pool_drop_handle(struct fb_network_buffer_pool* self) {
  uint32_t home = 0;

  /* Acquire and release: the last one sees what the others did. */
  if (atomic_fetch_sub_explicit(&self->handles, 1, memory_order_acq_rel) != 1) return;
  /* Nothing is pushed on a closed shelf; what is on none of them now counts itself down in give(). */
  for (uint32_t i = 0; i < SHELVES; i++) {
    home += stack_depth(self, atomic_exchange_explicit(&self->shelves[i].head, CLOSED, memory_order_acq_rel));
  }
  lower_outstanding(self, STILL_OPEN - (int64_t)(self->count - home));
}

void fb_network_buffer_pool_close(struct fb_network_buffer_pool* self) {
  if (self == NULL) return;
  fb_network_buffer_pool_destroy(self);
  fb_network_buffer_pool_drop_handle(self);
}

bool fb_network_buffer_pool_is_destroyed(struct fb_network_buffer_pool* self) {
  /* Pairs with the release in destroy(). */
  return atomic_load_explicit(&self->is_destroyed, memory_order_acquire);
}

/* ---- sharing out ----------------------------------------------------------------------------------- */

static bool is_resizable(const struct fb_pool_member* pool) { return pool->min < pool->max; }

/* One round over the pools that can still take (delta > 0) or give (delta < 0). Returns what is left. */
static int64_t spread_buffers(struct fb_network_buffer_pool* self, int64_t delta) {
  bool grow = delta > 0;
  uint64_t amount = (uint64_t)(grow ? delta : -delta), left = amount, weight = 0;
  struct fb_pool_member* pool;

  for (pool = self->pools; pool != NULL; pool = pool->next) {
    if (!is_resizable(pool)) continue;
    if (grow ? pool->share < pool->max : pool->share > pool->min) weight += pool->expected;
  }
  for (pool = self->pools; pool != NULL && left > 0 && weight > 0; pool = pool->next) {
    uint64_t room, part;
    if (!is_resizable(pool)) continue;
    room = grow ? pool->max - pool->share : pool->share - pool->min;
    part = (amount * pool->expected + weight - 1) / weight;
    if (part > room) part = room;
    if (part > left) part = left;
    pool->share = (uint32_t)(grow ? pool->share + part : pool->share - part);
    left -= part;
  }
  return grow ? (int64_t)left : -(int64_t)left;
}

/* What leaves and whom to tell waits until leave_registry(). */
static void set_member_size(struct fb_network_buffer_pool* self, struct fb_pool_member* pool, uint32_t size) {
  if (pool->type->resize(pool, size, &self->homecoming)) pool->has_news = self->has_news = true;
}

/* Gives each resizable pool its guaranteed minimum and a part of what nobody is guaranteed, by weight.
 * Under the registry lock, which leave_registry() must leave: it tells whoever profited. */
static void redistribute_buffers(struct fb_network_buffer_pool* self) {
  uint64_t spare = self->count - self->required, budget = spare, weight = 0, shared = 0;
  int64_t delta, before;
  struct fb_pool_member* pool;

  for (pool = self->pools; pool != NULL; pool = pool->next) {
    if (!is_resizable(pool)) continue;
    budget += pool->min;
    weight += pool->expected;
  }
  if (weight == 0) return;
  for (pool = self->pools; pool != NULL; pool = pool->next) {
    uint64_t share = pool->min;
    if (!is_resizable(pool)) continue;
    if (spare > 0) share = pool->expected * budget / weight;
    if (share < pool->min) share = pool->min;
    if (share > pool->max) share = pool->max;
    pool->share = (uint32_t)share;
    shared += share;
  }
  delta = spare > 0 ? (int64_t)budget - (int64_t)shared : 0;
  do {
    before = delta;
    if (delta != 0) delta = spread_buffers(self, delta);
  } while (delta != before);
  for (pool = self->pools; pool != NULL; pool = pool->next) {
    if (is_resizable(pool)) set_member_size(self, pool, pool->share);
  }
}

/* A pool that has news, pinned, its news taken; NULL when all is told. */
static struct fb_pool_member* next_with_news(struct fb_network_buffer_pool* self) {
  struct fb_pool_member* pool;

  pthread_mutex_lock(&self->registry_lock);
  for (pool = self->pools; pool != NULL && !pool->has_news; pool = pool->next) {}
  if (pool != NULL) {
    pool->has_news = false;
    pool->type->pin(pool); /* registered, so its user's handle is there */
  }
  pthread_mutex_unlock(&self->registry_lock);
  return pool;
}

/* Leaves the registry lock; then brings home what shrunk pools gave up and tells those that grew. */
static void leave_registry(struct fb_network_buffer_pool* self) {
  struct fb_buffer* home = self->homecoming;
  struct fb_pool_member* pool;
  bool has_news = self->has_news;

  self->homecoming = NULL;
  self->has_news = false;
  pthread_mutex_unlock(&self->registry_lock);

  while (home != NULL) {
    struct fb_buffer* buffer = home;
    home = home->next;
    fb_network_buffer_pool_give(self, buffer);
  }
  while (has_news && (pool = next_with_news(self)) != NULL) {
    pool->type->tell(pool);
    pool->type->unpin(pool);
  }
}

void fb_network_buffer_pool_resize(struct fb_network_buffer_pool* self, struct fb_pool_member* member, uint32_t size) {
  pthread_mutex_lock(&self->registry_lock);
  set_member_size(self, member, size);
  leave_registry(self);
}

int fb_network_buffer_pool_register(struct fb_network_buffer_pool* self, struct fb_pool_member* member) {
  int code = FB_OK;

  pthread_mutex_lock(&self->registry_lock);
  if (fb_network_buffer_pool_is_destroyed(self)) code = FB_EDESTROYED;
  else if (member->min > self->count - self->required) code = FB_EBUFFERS;
  if (code == FB_OK) {
    /* Relaxed: the caller has a handle, so there is one to add to. */
    atomic_fetch_add_explicit(&self->handles, 1, memory_order_relaxed);
    self->required += member->min;
    self->pool_count++;
    member->next = self->pools;
    if (self->pools != NULL) self->pools->previous = member;
    self->pools = member;
    member->is_registered = true;
    redistribute_buffers(self);
  }
  leave_registry(self);
  return code;
}

void fb_network_buffer_pool_unregister(struct fb_network_buffer_pool* self, struct fb_pool_member* member) {
  pthread_mutex_lock(&self->registry_lock);
  if (member->is_registered) {
    member->is_registered = false;
    if (member->previous != NULL) member->previous->next = member->next;
    else self->pools = member->next;
    if (member->next != NULL) member->next->previous = member->previous;
    self->pool_count--;
    self->required -= member->min;
    redistribute_buffers(self);
  }
  leave_registry(self);
}

void fb_network_buffer_pool_destroy(struct fb_network_buffer_pool* self) {
  struct fb_pool_member* pool;

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
  struct fb_pool_member* pool;

  for (;;) {
    pthread_mutex_lock(&self->registry_lock);
    pool = self->pools;
    if (pool != NULL) pool->type->pin(pool);
    pthread_mutex_unlock(&self->registry_lock);
    if (pool == NULL) return;
    pool->type->destroy(pool);
    pool->type->unpin(pool);
  }
}

/* ---- figures --------------------------------------------------------------------------------------- */

uint32_t fb_network_buffer_pool_segment_size(const struct fb_network_buffer_pool* self) { return self->segment_size; }

uint32_t fb_network_buffer_pool_total(struct fb_network_buffer_pool* self) {
  return fb_network_buffer_pool_is_destroyed(self) ? 0 : self->count;
}

static uint32_t count_on(struct fb_network_buffer_pool* self, struct shelf* shelf) {
  uint64_t head, again = atomic_load_explicit(&shelf->head, memory_order_acquire);
  uint32_t count;

  /* The link belongs to the head only if the head is still the same afterwards. */
  do {
    head = again;
    count = stack_depth(self, head);
    again = atomic_load_explicit(&shelf->head, memory_order_acquire);
  } while (head != again);
  return count;
}

uint32_t fb_network_buffer_pool_available(struct fb_network_buffer_pool* self) {
  uint32_t count = 0;

  if (fb_network_buffer_pool_is_destroyed(self)) return 0;
  for (uint32_t i = 0; i < SHELVES; i++) count += count_on(self, &self->shelves[i]);
  /* A segment that changes shelves meanwhile may be met twice. */
  return count < self->count ? count : self->count;
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
  for (struct fb_pool_member* pool = self->pools; pool != NULL; pool = pool->next) {
    estimated += pool->max == FB_UNBOUNDED ? pool->expected : pool->max;
  }
  pthread_mutex_unlock(&self->registry_lock);
  percent = 100 * estimated / self->count;
  return percent < UINT32_MAX ? (uint32_t)percent : UINT32_MAX;
}

/* ---- requests -------------------------------------------------------------------------------------- */

static void recycle_global(struct fb_buffer* buffer) { fb_network_buffer_pool_give(buffer->owner, buffer); }

static void lower_required(struct fb_network_buffer_pool* self, uint32_t count) {
  pthread_mutex_lock(&self->registry_lock);
  self->required -= count;
  redistribute_buffers(self);
  leave_registry(self);
}

/* An unpooled buffer that was released by itself, not in a batch. */
static void recycle_unpooled(struct fb_buffer* buffer) {
  struct fb_network_buffer_pool* self = buffer->owner;

  atomic_fetch_add_explicit(&self->outstanding, 1, memory_order_relaxed); /* a pin, as in give() */
  fb_network_buffer_pool_give(self, buffer);
  lower_required(self, 1);
  lower_outstanding(self, 1);
}

static int take_all(struct fb_network_buffer_pool* self, uint32_t count, int64_t timeout_ms,
                    struct fb_buffer** buffers) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(timeout_ms);
  uint32_t taken = 0;
  int code = FB_OK;

  fb_network_buffer_pool_want(self);
  while (taken < count && code == FB_OK) {
    uint64_t seen = fb_wakeup_seen(&self->freed);
    if (fb_network_buffer_pool_is_destroyed(self)) {
      code = FB_EDESTROYED;
    } else if ((buffers[taken] = fb_network_buffer_pool_take(self)) == NULL) {
      code = fb_wakeup_wait_until(&self->freed, seen, deadline_ms);
    } else {
      fb_buffer_reset(buffers[taken++], recycle_unpooled, self);
    }
  }
  fb_network_buffer_pool_unwant(self);
  while (code != FB_OK && taken > 0) {
    fb_network_buffer_pool_give(self, buffers[--taken]);
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
    redistribute_buffers(self);
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
  /* A pin, as in give(): these may be the last buffers of a pool that nobody has a handle on. */
  atomic_fetch_add_explicit(&self->outstanding, 1, memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    /* Should others still hold it, it comes home by itself; required is lowered once, below. */
    buffers[i]->recycle = recycle_global;
    fb_buffer_release(buffers[i]);
    buffers[i] = NULL;
  }
  lower_required(self, count);
  lower_outstanding(self, 1);
}

struct fb_wakeup* fb_network_buffer_pool_freed(struct fb_network_buffer_pool* self) { return &self->freed; }
