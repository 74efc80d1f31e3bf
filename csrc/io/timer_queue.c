#include "io/timer_queue.h"

#include <stdlib.h>

#include "ground/errors.h"

static void put_timer(struct fb_timer_queue* self, struct fb_timer* timer, uint32_t place) {
  self->heap[place] = timer;
  timer->place = place;
}

static void move_up(struct fb_timer_queue* self, struct fb_timer* timer, uint32_t place) {
  while (place > 1 && timer->due_ms < self->heap[place / 2]->due_ms) {
    put_timer(self, self->heap[place / 2], place);
    place /= 2;
  }
  put_timer(self, timer, place);
}

static void move_down(struct fb_timer_queue* self, struct fb_timer* timer, uint32_t place) {
  for (;;) {
    uint32_t child = 2 * place;
    if (child > self->count) break;
    if (child < self->count && self->heap[child + 1]->due_ms < self->heap[child]->due_ms) child++;
    if (timer->due_ms <= self->heap[child]->due_ms) break;
    put_timer(self, self->heap[child], place);
    place = child;
  }
  put_timer(self, timer, place);
}

static void settle_timer(struct fb_timer_queue* self, struct fb_timer* timer, uint32_t place) {
  if (place > 1 && timer->due_ms < self->heap[place / 2]->due_ms) move_up(self, timer, place);
  else move_down(self, timer, place);
}

void fb_timer_queue_close(struct fb_timer_queue* self) {
  for (uint32_t place = 1; place <= self->count; place++) self->heap[place]->place = 0;
  free(self->heap);
  *self = (struct fb_timer_queue){0};
}

static int reserve_timer(struct fb_timer_queue* self) {
  uint32_t capacity = self->capacity > 0 ? 2 * self->capacity : 32;
  struct fb_timer** heap;

  if (self->count + 1 < self->capacity) return FB_OK;
  heap = realloc(self->heap, capacity * sizeof *heap);
  if (heap == NULL) return FB_ENOMEM;
  self->heap = heap;
  self->capacity = capacity;
  return FB_OK;
}

int fb_timer_queue_set(struct fb_timer_queue* self, struct fb_timer* timer, int64_t due_ms) {
  if (timer->place == 0) {
    if (reserve_timer(self) < 0) return FB_ENOMEM;
    timer->due_ms = due_ms;
    move_up(self, timer, ++self->count);
    return FB_OK;
  }
  timer->due_ms = due_ms;
  settle_timer(self, timer, timer->place);
  return FB_OK;
}

void fb_timer_queue_cancel(struct fb_timer_queue* self, struct fb_timer* timer) {
  uint32_t place = timer->place;
  struct fb_timer* last;

  if (place == 0) return;
  timer->place = 0;
  last = self->heap[self->count--];
  if (last != timer) settle_timer(self, last, place);
}

int64_t fb_timer_queue_next_ms(const struct fb_timer_queue* self) {
  return self->count == 0 ? INT64_MAX : self->heap[1]->due_ms;
}

uint32_t fb_timer_queue_run(struct fb_timer_queue* self, int64_t now_ms, uint32_t limit) {
  uint32_t ran = 0;

  while (ran < limit && self->count > 0 && self->heap[1]->due_ms <= now_ms) {
    struct fb_timer* timer = self->heap[1];
    fb_timer_queue_cancel(self, timer);
    timer->on_due(timer);
    ran++;
  }
  return ran;
}
