/* A bell that one thread sleeps on and any thread may ring.
 *
 * A ring is never lost: the sleeper reads the count first, looks whether there is work, and sleeps only
 * while the count is still the same. Pools, partitions and gates ring it when something became possible,
 * so a task that both reads and writes sleeps on one object (and two tasks that send to each other
 * cannot lock up).
 *
 * Owner:   whoever opened it; it must outlive everybody who may ring.
 * Threads: any; ring() never blocks for longer than a few instructions of the sleeper. */
#ifndef FB_WAKEUP_H
#define FB_WAKEUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fb_wakeup {
  _Atomic uint64_t count;      /* rings so far */
  _Atomic uint32_t is_awaited; /* 1: somebody sleeps, and nobody has rung since */
  bool is_open;
#if !defined(__linux__) || defined(FB_USE_POLL) /* no futex */
  pthread_mutex_t mutex;
  pthread_cond_t rung;
#endif
};

int fb_wakeup_open(struct fb_wakeup* self);
void fb_wakeup_close(struct fb_wakeup* self);

/* Call before looking for work; give the result to wait(). */
static inline uint64_t fb_wakeup_seen(struct fb_wakeup* self) {
  return atomic_load_explicit(&self->count, memory_order_seq_cst);
}

void fb_wakeup_ring(struct fb_wakeup* self);

/* A moment of a loop that waits without sleeping: leaves the core's other work its share. */
static inline void fb_wakeup_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Sleeps until the count differs from `seen` or `timeout_ms` (< 0: no limit) has passed.
 * Returns whether it was rung. */
bool fb_wakeup_wait(struct fb_wakeup* self, uint64_t seen, int64_t timeout_ms);

#define FB_NO_DEADLINE INT64_MAX
/* The time of fb_wakeup_now_ms() in `timeout_ms` from now; < 0: FB_NO_DEADLINE. */
int64_t fb_wakeup_deadline_ms(int64_t timeout_ms);
/* Sleeps until it is rung or the deadline is there. FB_ETIMEOUT, without sleeping, if it was there before. */
int fb_wakeup_wait_until(struct fb_wakeup* self, uint64_t seen, int64_t deadline_ms);

/* ---- several at once ------------------------------------------------------------------------------- */

/* Bells that one event rings together: those who wait for a pool, a partition or a gate.
 *
 * Owner:   borrows the wakeups; each stays valid until it was removed.
 * Threads: any. The list's lock is held while it rings, so that nobody rings a bell after its removal; the
 *          bells are the only thing touched under it, and they call nobody. */
struct fb_wakeup_list {
  pthread_mutex_t mutex;
  struct fb_wakeup** items;
  uint32_t capacity;
  _Atomic uint32_t count;
  bool is_open;
};

int fb_wakeup_list_open(struct fb_wakeup_list* self);
void fb_wakeup_list_close(struct fb_wakeup_list* self);
/* The adder looks for work after this, before it sleeps: what happened earlier rings nothing. FB_ENOMEM. */
int fb_wakeup_list_add(struct fb_wakeup_list* self, struct fb_wakeup* wakeup);
/* Afterwards this list does not ring `wakeup` again. Returns whether it was in the list. */
bool fb_wakeup_list_remove(struct fb_wakeup_list* self, struct fb_wakeup* wakeup);
void fb_wakeup_list_ring(struct fb_wakeup_list* self);

/* Whether there is anybody to ring. Pairs with the store of add(). */
static inline bool fb_wakeup_list_is_empty(struct fb_wakeup_list* self) {
  return atomic_load_explicit(&self->count, memory_order_seq_cst) == 0;
}

/* ---- one that outlives its owner --------------------------------------------------------------------- */

/* A bell with a count of those who hold it: a task's, which its partitions still ring after it has gone.
 *
 * Owner:   counted. open() gives one reference; who keeps it to ring it later holds another one.
 * Threads: any. */
struct fb_wakeup_shared {
  struct fb_wakeup wakeup;
  _Atomic uint32_t references;
};

/* FB_ENOMEM. */
int fb_wakeup_shared_open(struct fb_wakeup_shared** self);
void fb_wakeup_shared_retain(struct fb_wakeup_shared* self);
void fb_wakeup_shared_drop(struct fb_wakeup_shared* self);

/* Milliseconds of a clock that never jumps. */
int64_t fb_wakeup_now_ms(void);

/* Starts a thread of the core's own. Signals are for the threads of the program: it blocks them all. FB_ETHREAD. */
int fb_wakeup_start_thread(pthread_t* thread, void* (*run)(void* argument), void* argument);

#endif
