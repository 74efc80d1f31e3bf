#include "ground/wakeup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "ground/errors.h"

#if defined(__linux__) && !defined(FB_USE_POLL)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { LOOK_NS = 3000 }; /* before it sleeps */

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t fb_wakeup_now_ms(void) { return now_ns() / 1000000; }

/* ---- sleep: as long as the count is `seen` ---------------------------------------------------------- */

#if defined(__linux__) && !defined(FB_USE_POLL)

/* A condition variable takes two system calls more for each sleep: its mutex passes for contended. The system compares
 * the lower half of the count. It could not be `is_awaited`: a second sleeper that has seen a ring sets that again, and
 * a first one on its way to sleep would sleep through the same ring. */
static long call_futex(struct fb_wakeup* self, int operation, uint32_t value, const struct timespec* until) {
  _Atomic uint32_t* lower = (_Atomic uint32_t*)(void*)&self->count;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  lower++;
#endif
  return syscall(SYS_futex, lower, operation | FUTEX_PRIVATE_FLAG, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static int open_sleep(struct fb_wakeup* self) {
  (void)self;
  return FB_OK;
}

static void close_sleep(struct fb_wakeup* self) { (void)self; }

static void wake_all(struct fb_wakeup* self) { call_futex(self, FUTEX_WAKE, INT_MAX, NULL); }

/* Returns when somebody has rung, or for no reason; false: at the deadline. */
static bool sleep_until_rung(struct fb_wakeup* self, uint64_t seen, int64_t deadline_ms) {
  struct timespec until = {.tv_sec = deadline_ms / 1000, .tv_nsec = (deadline_ms % 1000) * 1000000};
  const struct timespec* limit = deadline_ms == FB_NO_DEADLINE ? NULL : &until;

  return call_futex(self, FUTEX_WAIT_BITSET, (uint32_t)seen, limit) == 0 || errno != ETIMEDOUT;
}

#else

static int open_sleep(struct fb_wakeup* self) {
  pthread_condattr_t attributes;
  int failed;

  if (pthread_mutex_init(&self->mutex, NULL) != 0) return FB_ENOMEM;
  pthread_condattr_init(&attributes);
#ifndef __APPLE__
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
  failed = pthread_cond_init(&self->rung, &attributes);
  pthread_condattr_destroy(&attributes);
  if (failed) pthread_mutex_destroy(&self->mutex);
  return failed ? FB_ENOMEM : FB_OK;
}

static void close_sleep(struct fb_wakeup* self) {
  pthread_cond_destroy(&self->rung);
  pthread_mutex_destroy(&self->mutex);
}

static void wake_all(struct fb_wakeup* self) {
  /* A sleeper that has compared, but does not sleep yet, holds the mutex; one that wakes finds it free. */
  pthread_mutex_lock(&self->mutex);
  pthread_mutex_unlock(&self->mutex);
  pthread_cond_broadcast(&self->rung);
}

static int wait_once(struct fb_wakeup* self, int64_t deadline_ms) {
  struct timespec until;

  if (deadline_ms == FB_NO_DEADLINE) return pthread_cond_wait(&self->rung, &self->mutex);
#ifdef __APPLE__
  int64_t left = deadline_ms - fb_wakeup_now_ms();
  if (left <= 0) return ETIMEDOUT;
  until.tv_sec = left / 1000;
  until.tv_nsec = (left % 1000) * 1000000;
  return pthread_cond_timedwait_relative_np(&self->rung, &self->mutex, &until);
#else
  until.tv_sec = deadline_ms / 1000;
  until.tv_nsec = (deadline_ms % 1000) * 1000000;
  return pthread_cond_timedwait(&self->rung, &self->mutex, &until);
#endif
}

static bool sleep_until_rung(struct fb_wakeup* self, uint64_t seen, int64_t deadline_ms) {
  int code = 0;

  pthread_mutex_lock(&self->mutex);
  if (fb_wakeup_seen(self) == seen) code = wait_once(self, deadline_ms);
  pthread_mutex_unlock(&self->mutex);
  return code != ETIMEDOUT;
}

#endif

/* ---- one bell --------------------------------------------------------------------------------------- */

int fb_wakeup_open(struct fb_wakeup* self) {
  atomic_init(&self->count, 0);
  atomic_init(&self->is_awaited, 0);
  self->is_open = open_sleep(self) == FB_OK;
  return self->is_open ? FB_OK : FB_ENOMEM;
}

void fb_wakeup_close(struct fb_wakeup* self) {
  if (!self->is_open) return;
  self->is_open = false;
  close_sleep(self);
}

void fb_wakeup_ring(struct fb_wakeup* self) {
  /* Partner of wait(): it says that it sleeps before it compares the count, we raise the count before we look for
   * sleepers, all in one total order; so one of the two sees the other. Who rings while a sleeper is on its way
   * back from sleep has nothing to do. */
  atomic_fetch_add_explicit(&self->count, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&self->is_awaited, memory_order_seq_cst) == 0) return;
  if (atomic_exchange_explicit(&self->is_awaited, 0, memory_order_seq_cst) == 1) wake_all(self);
}

int64_t fb_wakeup_deadline_ms(int64_t timeout_ms) {
  int64_t now_ms = fb_wakeup_now_ms();
  return timeout_ms < 0 || timeout_ms > INT64_MAX - now_ms ? FB_NO_DEADLINE : now_ms + timeout_ms;
}

/* To sleep and be woken takes longer than most of what is waited for under load. It does not yield: on a busy machine
 * the core would be away for milliseconds. */
static bool is_rung_soon(struct fb_wakeup* self, uint64_t seen) {
  int64_t until = now_ns() + LOOK_NS;

  do {
    if (fb_wakeup_seen(self) != seen) return true;
    for (int i = 0; i < 10; i++) fb_wakeup_relax();
  } while (now_ns() < until);
  return false;
}

bool fb_wakeup_wait(struct fb_wakeup* self, uint64_t seen, int64_t timeout_ms) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(timeout_ms);

  if (timeout_ms == 0) return fb_wakeup_seen(self) != seen;
  if (is_rung_soon(self, seen)) return true;
  do {
    atomic_store_explicit(&self->is_awaited, 1, memory_order_seq_cst);
  } while (fb_wakeup_seen(self) == seen && sleep_until_rung(self, seen, deadline_ms));
  return fb_wakeup_seen(self) != seen;
}

int fb_wakeup_wait_until(struct fb_wakeup* self, uint64_t seen, int64_t deadline_ms) {
  int64_t left = deadline_ms == FB_NO_DEADLINE ? -1 : deadline_ms - fb_wakeup_now_ms();

  if (deadline_ms != FB_NO_DEADLINE && left <= 0) return FB_ETIMEOUT;
  fb_wakeup_wait(self, seen, left);
  return FB_OK;
}

int fb_wakeup_list_open(struct fb_wakeup_list* self) {
  *self = (struct fb_wakeup_list){0};
  if (pthread_mutex_init(&self->mutex, NULL) != 0) return FB_ENOMEM;
  self->is_open = true;
  return FB_OK;
}

void fb_wakeup_list_close(struct fb_wakeup_list* self) {
  if (!self->is_open) return;
  pthread_mutex_destroy(&self->mutex);
  free(self->items);
  *self = (struct fb_wakeup_list){0};
}

int fb_wakeup_list_add(struct fb_wakeup_list* self, struct fb_wakeup* wakeup) {
  int code = FB_OK;
  uint32_t count;

  pthread_mutex_lock(&self->mutex);
  /* Relaxed: only written under the mutex. */
  count = atomic_load_explicit(&self->count, memory_order_relaxed);
  if (count == self->capacity) {
    uint32_t capacity = count > 0 ? 2 * count : 4;
    struct fb_wakeup** items = realloc(self->items, capacity * sizeof *items);
    if (items == NULL) {
      code = FB_ENOMEM;
    } else {
      self->items = items;
      self->capacity = capacity;
    }
  }
  if (code == FB_OK) {
    self->items[count] = wakeup;
    /* Partner of is_empty(): a ringer that still sees 0 made its change before the adder looks for it. */
    atomic_store_explicit(&self->count, count + 1, memory_order_seq_cst);
  }
  pthread_mutex_unlock(&self->mutex);
  return code;
}

bool fb_wakeup_list_remove(struct fb_wakeup_list* self, struct fb_wakeup* wakeup) {
  bool was_there = false;
  uint32_t count;

  pthread_mutex_lock(&self->mutex);
  count = atomic_load_explicit(&self->count, memory_order_relaxed);
  for (uint32_t i = 0; i < count && !was_there; i++) {
    if (self->items[i] != wakeup) continue;
    self->items[i] = self->items[count - 1];
    atomic_store_explicit(&self->count, count - 1, memory_order_seq_cst);
    was_there = true;
  }
  pthread_mutex_unlock(&self->mutex);
  return was_there;
}

void fb_wakeup_list_ring(struct fb_wakeup_list* self) {
  if (fb_wakeup_list_is_empty(self)) return;
  pthread_mutex_lock(&self->mutex);
  /* Relaxed: only written under the mutex. */
  for (uint32_t i = 0, count = atomic_load_explicit(&self->count, memory_order_relaxed); i < count; i++) {
    fb_wakeup_ring(self->items[i]);
  }
  pthread_mutex_unlock(&self->mutex);
}

/* ---- one that outlives its owner --------------------------------------------------------------------- */

int fb_wakeup_shared_open(struct fb_wakeup_shared** self) {
  struct fb_wakeup_shared* opened = calloc(1, sizeof *opened);

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  if (fb_wakeup_open(&opened->wakeup) < 0) {
    free(opened);
    return FB_ENOMEM;
  }
  atomic_init(&opened->references, 1);
  *self = opened;
  return FB_OK;
}

void fb_wakeup_shared_retain(struct fb_wakeup_shared* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_wakeup_shared_drop(struct fb_wakeup_shared* self) {
  /* Both halves: the last one sees that the others have rung it for the last time. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  fb_wakeup_close(&self->wakeup);
  free(self);
}

int fb_wakeup_start_thread(pthread_t* thread, void* (*run)(void* argument), void* argument) {
  static const int CRASHES[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t blocked, before;
  int failed;

  /* The new thread inherits the mask. What it crashes of is its own, and somebody may want to see where. */
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof CRASHES / sizeof CRASHES[0]; i++) sigdelset(&blocked, CRASHES[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  failed = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed != 0 ? FB_ETHREAD : FB_OK;
}
