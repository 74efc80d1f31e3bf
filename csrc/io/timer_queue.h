/* Timers of one thread: a heap of what is due when.
 *
 * Owner:   timers belong to the caller and stay where they are while they are set.
 * Threads: one. Times are those of fb_wakeup_now_ms(). */
#ifndef FB_TIMER_QUEUE_H
#define FB_TIMER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* All-zero is a timer that is not set. */
struct fb_timer {
  int64_t due_ms;
  uint32_t place;                        /* in the heap, from 1; 0: not set */
  void (*on_due)(struct fb_timer* self); /* may set or cancel any timer, this one too */
};

struct fb_timer_queue {
  struct fb_timer** heap; /* heap[1] is due first */
  uint32_t count;
  uint32_t capacity;
};

static inline bool fb_timer_queue_is_set(const struct fb_timer* self) { return self->place != 0; }

/* Forgets all timers, which count as not set. All-zero is closed and empty. */
void fb_timer_queue_close(struct fb_timer_queue* self);
/* Sets `timer`, or moves it if it is set. FB_ENOMEM changes nothing. */
int fb_timer_queue_set(struct fb_timer_queue* self, struct fb_timer* timer, int64_t due_ms);
/* One that is not set is left alone. */
void fb_timer_queue_cancel(struct fb_timer_queue* self, struct fb_timer* timer);
/* When the first one is due; INT64_MAX: none is set. */
int64_t fb_timer_queue_next_ms(const struct fb_timer_queue* self);
/* Runs at most `limit` timers that are due, earliest first; each counts as not set when it is called. A timer
 * that is set to a time due already runs in the same call only if the limit allows. Returns how many ran. */
uint32_t fb_timer_queue_run(struct fb_timer_queue* self, int64_t now_ms, uint32_t limit);

#endif
