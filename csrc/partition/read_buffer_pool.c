#include "partition/read_buffer_pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "ground/schedule_point.h"
#include "ground/wakeup.h"

#define CLASS_COUNT       8                    /* 4 KiB, 8 KiB ... 512 KiB */
#define WORTH_WAITING_FOR ((uint32_t)64 << 10) /* bytes: who holds some waits for a chunk of this size */
_Static_assert(FB_READ_CHUNK_MIN << (CLASS_COUNT - 1) == FB_READ_CHUNK_MAX, "one class for each power of two");

/* One piece of memory that is lent; its bytes follow. */
struct read_chunk {
  struct fb_buffer buffer; /* the first member */
  struct fb_read_consumer* consumer;
  uint32_t size;
  struct read_chunk* next; /* while it is cached */
};

struct fb_read_consumer {
  struct fb_read_buffer_pool* pool; /* a reference */
  struct fb_io_executor* executor;
  struct fb_io_request* request;
  uint32_t references; /* its owner's, and one for each chunk */
  bool is_closed;
  bool is_over_share; /* it was refused, since it holds its share: told when it holds less */
  bool is_in_line;
  bool is_called;                           /* it was told to ask again, and has not asked since */
  int64_t refused_since_ms;                 /* 0: it was not refused since it was granted something */
  uint64_t held;                            /* bytes */
  struct fb_read_consumer *previous, *next; /* in line */
};

struct fb_read_buffer_pool {
  pthread_mutex_t lock;
  struct fb_wakeup movement; /* rung when something comes home */
  uint32_t references;
  uint64_t budget;
  int64_t timeout_ms;
  uint64_t used, cached, peak, overdrafts;
  uint32_t consumers;
  uint32_t empty_handed; /* consumers that hold nothing */
  uint32_t waiting;      /* in line */
  int64_t moved_ms;      /* when something was granted or came home last */
  struct read_chunk* free_chunks[CLASS_COUNT];
  struct fb_read_consumer *first, *last; /* the line: who waited longest is first */
};

/* ---- life ---------------------------------------------------------------------------------------- */

int fb_read_buffer_pool_open(uint64_t budget, int64_t timeout_ms, struct fb_read_buffer_pool** self) {
  struct fb_read_buffer_pool* opened;

  *self = NULL;
  if (budget < FB_READ_CHUNK_MIN || timeout_ms < 0) return FB_EARGUMENT;
  opened = calloc(1, sizeof *opened);
  if (opened == NULL) return FB_ENOMEM;
  if (fb_wakeup_open(&opened->movement) < 0 || pthread_mutex_init(&opened->lock, NULL) != 0) {
    fb_wakeup_close(&opened->movement);
    free(opened);
    return FB_ENOMEM;
  }
  opened->references = 1;
  opened->budget = budget;
  opened->timeout_ms = timeout_ms;
  opened->moved_ms = fb_wakeup_now_ms();
  *self = opened;
  return FB_OK;
}

void fb_read_buffer_pool_retain(struct fb_read_buffer_pool* self) {
  pthread_mutex_lock(&self->lock);
  self->references++;
  pthread_mutex_unlock(&self->lock);
}

static void free_chunks(struct read_chunk* chunks) {
  while (chunks != NULL) {
    struct read_chunk* next = chunks->next;
    free(chunks);
    chunks = next;
  }
}

/* Gives the lock back and a reference with it. */
static void unlock_and_drop(struct fb_read_buffer_pool* self) {
  bool is_last = --self->references == 0;

  pthread_mutex_unlock(&self->lock);
  if (!is_last) return;
  for (uint32_t i = 0; i < CLASS_COUNT; i++) free_chunks(self->free_chunks[i]);
  fb_wakeup_close(&self->movement);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

void fb_read_buffer_pool_drop(struct fb_read_buffer_pool* self) {
  if (self == NULL) return;
  pthread_mutex_lock(&self->lock);
  unlock_and_drop(self);
}

/* ---- the line ------------------------------------------------------------------------------------ */

static void leave_line(struct fb_read_consumer* consumer) {
  struct fb_read_buffer_pool* self = consumer->pool;

  if (!consumer->is_in_line) return;
  if (consumer->previous != NULL) consumer->previous->next = consumer->next;
  else self->first = consumer->next;
  if (consumer->next != NULL) consumer->next->previous = consumer->previous;
  else self->last = consumer->previous;
  consumer->previous = consumer->next = NULL;
  consumer->is_in_line = consumer->is_called = false;
  self->waiting--;
}

/* Behind those who wait longer; nearly always at the end. */
static void enter_line(struct fb_read_consumer* consumer) {
  struct fb_read_buffer_pool* self = consumer->pool;
  struct fb_read_consumer* before = self->last;

  if (consumer->is_in_line) return;
  while (before != NULL && before->refused_since_ms > consumer->refused_since_ms) before = before->previous;
  consumer->previous = before;
  consumer->next = before != NULL ? before->next : self->first;
  if (before != NULL) before->next = consumer;
  else self->first = consumer;
  if (consumer->next != NULL) consumer->next->previous = consumer;
  else self->last = consumer;
  consumer->is_in_line = true;
  self->waiting++;
}

/* Returns whether it will ask. A thread that is closed tells its readers itself: they ask no more, and are in nobody's way. */
static bool call_consumer(struct fb_read_consumer* consumer) {
  if (!consumer->is_called && fb_io_executor_post(consumer->executor, consumer->request) != FB_OK) {
    leave_line(consumer);
    return false;
  }
  return consumer->is_called = true;
}

static uint64_t fair_share(const struct fb_read_buffer_pool* self) {
  uint64_t share = self->budget / (self->consumers > 0 ? self->consumers : 1);
  return share > FB_READ_CHUNK_MIN ? share : FB_READ_CHUNK_MIN;
}

/* What can be lent without taking from others what they are sure of. */
static uint64_t spare_bytes(const struct fb_read_buffer_pool* self, const struct fb_read_consumer* consumer) {
  uint32_t others = self->empty_handed - (consumer->held == 0 && !consumer->is_closed);
  uint64_t kept = (uint64_t)others * FB_READ_CHUNK_MIN;

  if (kept > self->budget / 2) kept = self->budget / 2;
  return self->budget > self->used + kept ? self->budget - self->used - kept : 0;
}

/* Tells those in line, as many as there is memory for, that it is worth asking again; one that holds nothing in any case. They
 * keep their places until they ask. */
static void call_line(struct fb_read_buffer_pool* self) {
  uint64_t share = fair_share(self);
  uint64_t chunk = share < FB_READ_CHUNK_MAX ? share : FB_READ_CHUNK_MAX;
  uint64_t left = self->first != NULL ? spare_bytes(self, self->first) : 0;
  struct fb_read_consumer *consumer, *next;

  for (consumer = self->first; consumer != NULL && (left > 0 || consumer->held == 0); consumer = next) {
    next = consumer->next;
    if (call_consumer(consumer)) left = left > chunk ? left - chunk : 0;
    if (FB_PLANTED("who is called loses its place")) leave_line(consumer);
  }
}

/* ---- memory -------------------------------------------------------------------------------------- */

static uint32_t class_of(uint32_t size) {
  uint32_t class = 0;
  while (class < CLASS_COUNT && (FB_READ_CHUNK_MIN << class) < size) class++;
  return class;
}

/* Takes cached chunks, the largest first, until `size` more bytes are within the budget; the caller frees them. */
static struct read_chunk* make_budget_room(struct fb_read_buffer_pool* self, uint64_t size) {
  struct read_chunk* dropped = NULL;

  for (uint32_t i = CLASS_COUNT; i-- > 0;)
    while (self->free_chunks[i] != NULL && self->used + self->cached + size > self->budget) {
      struct read_chunk* chunk = self->free_chunks[i];
      self->free_chunks[i] = chunk->next;
      self->cached -= chunk->size;
      chunk->next = dropped;
      dropped = chunk;
    }
  return dropped;
}

static struct read_chunk* take_cached(struct fb_read_buffer_pool* self, uint32_t class) {
  struct read_chunk* chunk = class < CLASS_COUNT ? self->free_chunks[class] : NULL;

  if (chunk == NULL) return NULL;
  self->free_chunks[class] = chunk->next;
  self->cached -= chunk->size;
  return chunk;
}

/* Keeps it for the next one who asks, or gives it to the caller to free. */
static struct read_chunk* put_away(struct fb_read_buffer_pool* self, struct read_chunk* chunk) {
  uint32_t class = class_of(chunk->size);

  chunk->next = NULL;
  if (self->consumers == 0 || class == CLASS_COUNT || self->used + self->cached + chunk->size > self->budget)
    return chunk;
  chunk->next = self->free_chunks[class];
  self->free_chunks[class] = chunk;
  self->cached += chunk->size;
  return NULL;
}

static struct read_chunk* take_all_cached(struct fb_read_buffer_pool* self) {
  uint64_t budget = self->budget;
  struct read_chunk* all;

  self->budget = 0;
  all = make_budget_room(self, 1);
  self->budget = budget;
  return all;
}

/* Drops one reference of the consumer; the caller unlocks the pool with the reference that it leaves, if it was the last. */
static bool drop_consumer(struct fb_read_consumer* consumer) {
  if (--consumer->references > 0) return false;
  free(consumer);
  return true;
}

static void recycle_chunk(struct fb_buffer* buffer) {
  struct read_chunk* chunk = (struct read_chunk*)buffer;
  struct fb_read_consumer* consumer = chunk->consumer;
  struct fb_read_buffer_pool* self = consumer->pool;
  struct read_chunk* unwanted;
  bool is_consumer_gone;

  pthread_mutex_lock(&self->lock);
  self->used -= chunk->size;
  consumer->held -= chunk->size;
  self->moved_ms = fb_wakeup_now_ms();
  if (consumer->held == 0 && !consumer->is_closed) self->empty_handed++;
  unwanted = put_away(self, chunk);
  /* What waits for its own memory is called each time, and what is in line at the latest when it holds nothing more: then it
   * is granted what it needs, whoever is before it. */
  if (consumer->is_over_share ||
      (consumer->is_in_line && consumer->held == 0 && !FB_PLANTED("who is called loses its place")))
    call_consumer(consumer);
  call_line(self);
  is_consumer_gone = drop_consumer(consumer);
  fb_wakeup_ring(&self->movement);
  if (is_consumer_gone) unlock_and_drop(self);
  else pthread_mutex_unlock(&self->lock);
  free_chunks(unwanted);
}

/* ---- consumers ------------------------------------------------------------------------------------ */

int fb_read_buffer_pool_open_consumer(struct fb_read_buffer_pool* pool, struct fb_io_executor* executor,
                                      struct fb_io_request* request, struct fb_read_consumer** self) {
  struct fb_read_consumer* opened = calloc(1, sizeof *opened);

  *self = opened;
  if (opened == NULL) return FB_ENOMEM;
  *opened = (struct fb_read_consumer){.pool = pool, .executor = executor, .request = request, .references = 1};
  pthread_mutex_lock(&pool->lock);
  pool->references++;
  pool->consumers++;
  pool->empty_handed++;
  pthread_mutex_unlock(&pool->lock);
  return FB_OK;
}

void fb_read_buffer_pool_close_consumer(struct fb_read_consumer* self) {
  struct fb_read_buffer_pool* pool;
  struct read_chunk* unwanted = NULL;

  if (self == NULL) return;
  pool = self->pool;
  pthread_mutex_lock(&pool->lock);
  leave_line(self);
  self->is_over_share = false;
  if (self->held == 0) pool->empty_handed--;
  self->is_closed = true;
  if (--pool->consumers == 0) unwanted = take_all_cached(pool);
  call_line(pool); /* the shares of the others have grown */
  if (drop_consumer(self)) unlock_and_drop(pool);
  else pthread_mutex_unlock(&pool->lock);
  free_chunks(unwanted);
}

/* Whether there is memory for it that is not meant for others: nobody is before it, or it was called with those who are. */
static bool is_next(const struct fb_read_consumer* self, bool was_called) {
  const struct fb_read_buffer_pool* pool = self->pool;
  return pool->first == NULL || pool->first == self || (was_called && self->is_in_line);
}

/* How many bytes it may have now; 0: none. */
static uint32_t grant_to(struct fb_read_consumer* self, uint32_t least, uint32_t wanted, bool was_called) {
  struct fb_read_buffer_pool* pool = self->pool;
  uint64_t share = fair_share(pool);
  uint64_t spare = spare_bytes(pool, self);
  uint64_t room = share > self->held ? share - self->held : 0;
  uint64_t most = wanted < spare ? wanted : spare;
  uint64_t worth = least;

  if (self->held == 0) {
    if (room < least) room = least;
    if (most > room) most = room;
    if (most >= least) return (uint32_t)most;
    /* It cannot go on, and others may wait for it to. Only for blocks of unusual size twice the budget is the end. */
    return least <= FB_READ_CHUNK_SURE || pool->used == 0 || pool->used + least <= 2 * pool->budget ? least : 0;
  }
  if (most > room) most = room;
  if (worth < WORTH_WAITING_FOR) worth = WORTH_WAITING_FOR < wanted ? WORTH_WAITING_FOR : wanted;
  if (worth > share / 2) worth = share / 2 > least ? share / 2 : least;
  if (room < worth) {
    self->is_over_share = true;
    return 0;
  }
  return most >= worth && is_next(self, was_called) ? (uint32_t)most : 0;
}

/* Refuses: the consumer is in line from now on, unless it waits for its own. FB_ETIMEOUT. */
static int refuse(struct fb_read_consumer* self) {
  struct fb_read_buffer_pool* pool = self->pool;
  int64_t now_ms = fb_wakeup_now_ms(), since_ms;

  if (self->is_over_share) {
    leave_line(self);
    call_line(pool);
    return FB_OK;
  }
  if (self->refused_since_ms == 0) self->refused_since_ms = now_ms;
  since_ms = self->refused_since_ms > pool->moved_ms ? self->refused_since_ms : pool->moved_ms;
  if (self->held == 0 && now_ms - since_ms >= pool->timeout_ms && self->is_in_line) return FB_ETIMEOUT;
  enter_line(self);
  return FB_OK;
}

static void count_grant(struct fb_read_consumer* self, uint32_t size) {
  struct fb_read_buffer_pool* pool = self->pool;

  leave_line(self);
  self->refused_since_ms = 0;
  if (self->held == 0) pool->empty_handed--;
  self->held += size;
  self->references++;
  pool->used += size;
  pool->moved_ms = fb_wakeup_now_ms();
  if (pool->used > pool->budget) pool->overdrafts++;
  if (pool->used > pool->peak) pool->peak = pool->used;
  call_line(pool);
}

/* The memory was not to be had from the system. */
static void take_grant_back(struct fb_read_consumer* self, uint32_t size) {
  struct fb_read_buffer_pool* pool = self->pool;

  pthread_mutex_lock(&pool->lock);
  self->held -= size;
  pool->used -= size;
  if (self->held == 0) pool->empty_handed++;
  self->references--;
  pthread_mutex_unlock(&pool->lock);
}

static void lend_chunk(struct read_chunk* chunk, struct fb_read_consumer* consumer, uint32_t size) {
  chunk->consumer = consumer;
  chunk->size = size;
  fb_memory_segment_wrap(&chunk->buffer.segment, (uint8_t*)(chunk + 1), size);
  fb_buffer_reset(&chunk->buffer, recycle_chunk, NULL);
}

/* A grant as a size of which chunks can be used again. */
static uint32_t round_grant(uint32_t granted, uint32_t least) {
  uint32_t class = class_of(granted);

  if (class == CLASS_COUNT) return granted;
  if (FB_READ_CHUNK_MIN << class > granted && class > 0 && FB_READ_CHUNK_MIN << (class - 1) >= least) class--;
  return FB_READ_CHUNK_MIN << class;
}

int fb_read_buffer_pool_request(struct fb_read_consumer* self, uint32_t least, uint32_t wanted,
                                struct fb_buffer** chunk) {
  struct fb_read_buffer_pool* pool = self->pool;
  struct read_chunk *taken, *unwanted = NULL;
  bool was_called;
  uint32_t size;
  int code = FB_OK;

  *chunk = NULL;
  if (wanted < least) wanted = least;
  if (wanted < FB_READ_CHUNK_MAX) wanted = FB_READ_CHUNK_MIN << class_of(wanted);
  pthread_mutex_lock(&pool->lock);
  was_called = self->is_called;
  self->is_called = self->is_over_share = false;
  size = grant_to(self, least, wanted, was_called);
  if (size == 0) {
    code = refuse(self);
    pthread_mutex_unlock(&pool->lock);
    return code;
  }
  size = round_grant(size, least);
  taken = take_cached(pool, class_of(size));
  count_grant(self, size);
  if (taken == NULL) unwanted = make_budget_room(pool, 0);
  pthread_mutex_unlock(&pool->lock);
  free_chunks(unwanted);
  if (taken == NULL) taken = malloc(sizeof *taken + size);
  if (taken == NULL) {
    take_grant_back(self, size);
    return FB_ENOMEM;
  }
  lend_chunk(taken, self, size);
  *chunk = &taken->buffer;
  return FB_OK;
}

bool fb_read_buffer_pool_holds_nothing(struct fb_read_consumer* self) {
  bool holds_nothing;

  pthread_mutex_lock(&self->pool->lock);
  holds_nothing = self->held == 0;
  pthread_mutex_unlock(&self->pool->lock);
  return holds_nothing;
}

void fb_read_buffer_pool_wait(struct fb_read_buffer_pool* self, int64_t timeout_ms) {
  fb_wakeup_wait(&self->movement, fb_wakeup_seen(&self->movement), timeout_ms);
}

void fb_read_buffer_pool_get_usage(struct fb_read_buffer_pool* self, struct fb_read_pool_usage* usage) {
  pthread_mutex_lock(&self->lock);
  *usage = (struct fb_read_pool_usage){.budget = self->budget,
                                       .used = self->used,
                                       .cached = self->cached,
                                       .peak = self->peak,
                                       .consumers = self->consumers,
                                       .waiting = self->waiting,
                                       .overdrafts = self->overdrafts};
  pthread_mutex_unlock(&self->lock);
}
