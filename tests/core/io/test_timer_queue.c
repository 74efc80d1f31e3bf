/* Timers run in the order of their times, however they are set, moved and cancelled. */
#include "io/timer_queue.h"

#include <stddef.h>
#include <stdlib.h>

#include "check.h"
#include "ground/errors.h"

#define COUNT 3000

struct numbered {
  struct fb_timer timer;
  int64_t wanted_ms; /* -1: cancelled */
  uint32_t runs;
};

static int64_t last_ms; /* of the timer that ran last */

static void on_due(struct fb_timer* timer) {
  struct numbered* self = (struct numbered*)((char*)timer - offsetof(struct numbered, timer));

  CHECK(!fb_timer_queue_is_set(timer));
  CHECK(timer->due_ms == self->wanted_ms && timer->due_ms >= last_ms);
  last_ms = timer->due_ms;
  self->runs++;
}

static void thousands_of_timers_run_in_order(void) {
  static struct numbered timers[COUNT];
  struct fb_timer_queue queue = {0};
  uint32_t expected = 0;

  srand(7);
  for (int i = 0; i < COUNT; i++) timers[i].timer.on_due = on_due;
  for (int round = 0; round < 4 * COUNT; round++) {
    struct numbered* timer = &timers[rand() % COUNT];
    if (rand() % 4 == 0) {
      fb_timer_queue_cancel(&queue, &timer->timer);
      timer->wanted_ms = -1;
    } else {
      timer->wanted_ms = rand() % 5000;
      CHECK(fb_timer_queue_set(&queue, &timer->timer, timer->wanted_ms) == FB_OK);
    }
  }
  for (int i = 0; i < COUNT; i++) expected += fb_timer_queue_is_set(&timers[i].timer);
  CHECK(queue.count == expected && expected > COUNT / 4);
  last_ms = 0;
  for (int64_t now_ms = 0; now_ms < 5000; now_ms += 250) {
    fb_timer_queue_run(&queue, now_ms, UINT32_MAX);
    CHECK(fb_timer_queue_next_ms(&queue) > now_ms);
  }
  fb_timer_queue_run(&queue, 5000, UINT32_MAX);
  CHECK(queue.count == 0 && fb_timer_queue_next_ms(&queue) == INT64_MAX);
  for (int i = 0; i < COUNT; i++) expected -= timers[i].runs;
  CHECK(expected == 0);
  fb_timer_queue_close(&queue);
}

static void one_run_is_bounded(void) {
  struct numbered timers[10] = {0};
  struct fb_timer_queue queue = {0};

  last_ms = 0;
  for (int i = 0; i < 10; i++) {
    timers[i].timer.on_due = on_due;
    timers[i].wanted_ms = i;
    CHECK(fb_timer_queue_set(&queue, &timers[i].timer, i) == FB_OK);
  }
  CHECK(fb_timer_queue_run(&queue, 100, 4) == 4 && timers[3].runs == 1 && timers[4].runs == 0);
  CHECK(fb_timer_queue_run(&queue, 100, 400) == 6);
  fb_timer_queue_close(&queue);
}

static struct fb_timer_queue again;
static uint32_t again_runs;

static void set_again(struct fb_timer* timer) {
  again_runs++;
  CHECK(fb_timer_queue_set(&again, timer, timer->due_ms + 10) == FB_OK);
}

static void a_timer_may_set_itself_again(void) {
  struct fb_timer timer = {.on_due = set_again};

  CHECK(fb_timer_queue_set(&again, &timer, 10) == FB_OK);
  CHECK(fb_timer_queue_run(&again, 35, 100) == 3 && again_runs == 3 && timer.due_ms == 40);
  fb_timer_queue_close(&again);
  CHECK(!fb_timer_queue_is_set(&timer)); /* closing forgets it */
  fb_timer_queue_cancel(&again, &timer);
  CHECK(fb_timer_queue_run(&again, 1000, 100) == 0);
}

int main(void) {
  thousands_of_timers_run_in_order();
  one_run_is_bounded();
  a_timer_may_set_itself_again();
  return 0;
}
