/* Tasks from many threads, timers by the thousand, sources and chores: all run once, on one thread. */
#include "io/reactor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ground/errors.h"
#include "ground/wakeup.h"

#define THREADS 4
#define POSTS   20000
#define TIMERS  5000

static void pause_ms(int64_t ms) {
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static struct fb_reactor_counters counters_of(struct fb_reactor* reactor) {
  struct fb_reactor_counters counters;
  fb_reactor_get_counters(reactor, &counters);
  return counters;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

struct poster {
  struct fb_task task;
  struct fb_reactor* reactor;
  _Atomic uint32_t given; /* written by the poster, read by the task: the run after a post sees it */
  uint32_t seen;          /* the I/O thread's */
  uint32_t runs;
};

static void take(struct fb_task* task) {
  struct poster* self = (struct poster*)task;

  CHECK(fb_reactor_is_inside(self->reactor));
  self->seen = atomic_load_explicit(&self->given, memory_order_relaxed);
  self->runs++;
}

static void* post_many(void* argument) {
  struct poster* self = argument;

  CHECK(!fb_reactor_is_inside(self->reactor));
  for (uint32_t i = 1; i <= POSTS; i++) {
    atomic_store_explicit(&self->given, i, memory_order_relaxed);
    CHECK(fb_reactor_post(self->reactor, &self->task) == FB_OK);
  }
  return NULL;
}

static void nothing(void* context) { (void)context; }

static void no_post_is_lost_and_many_cost_few_wake_ups(void) {
  struct fb_reactor* reactor;
  struct poster posters[THREADS];
  pthread_t threads[THREADS];

  CHECK(fb_reactor_open(&reactor) == FB_OK);
  memset(posters, 0, sizeof posters);
  for (int i = 0; i < THREADS; i++) {
    posters[i].task.run = take;
    posters[i].reactor = reactor;
    CHECK(pthread_create(&threads[i], NULL, post_many, &posters[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(fb_reactor_call(reactor, nothing, NULL) == FB_OK);
  for (int i = 0; i < THREADS; i++) {
    CHECK(posters[i].seen == POSTS);
    CHECK(posters[i].runs >= 1 && posters[i].runs <= POSTS);
  }
  CHECK(counters_of(reactor).wakeups <= counters_of(reactor).turns);
  fb_reactor_close(reactor);
}

struct order {
  struct fb_task task;
  int* next;
  int expected;
};

static void check_order(struct fb_task* task) {
  struct order* self = (struct order*)task;
  CHECK((*self->next)++ == self->expected);
}

struct call_context {
  struct fb_reactor* reactor;
  struct order* orders;
  int count;
};

static void post_in_order(void* context) {
  struct call_context* self = context;
  for (int i = 0; i < self->count; i++) CHECK(fb_reactor_post(self->reactor, &self->orders[i].task) == FB_OK);
}

static void tasks_run_in_the_order_of_their_posts(void) {
  struct fb_reactor* reactor;
  struct order orders[200];
  int next = 0;
  struct call_context context = {.orders = orders, .count = 200};

  memset(orders, 0, sizeof orders);
  for (int i = 0; i < 200; i++) orders[i] = (struct order){{.run = check_order}, &next, i};
  CHECK(fb_reactor_open(&reactor) == FB_OK);
  context.reactor = reactor;
  CHECK(fb_reactor_call(reactor, post_in_order, &context) == FB_OK); /* from inside */
  CHECK(fb_reactor_call(reactor, nothing, NULL) == FB_OK);
  CHECK(next == 200);
  next = 0;
  post_in_order(&context); /* from outside; close() runs them still */
  fb_reactor_close(reactor);
  CHECK(next == 200);
}

static void call_inside(void* context) {
  struct call_context* self = context;
  CHECK(fb_reactor_call(self->reactor, post_in_order, self) == FB_OK);
  self->count = -1;
}

static void a_call_from_inside_runs_at_once(void) {
  struct call_context context = {.count = 0};

  CHECK(fb_reactor_open(&context.reactor) == FB_OK);
  CHECK(fb_reactor_call(context.reactor, call_inside, &context) == FB_OK);
  CHECK(context.count == -1);
  fb_reactor_close(context.reactor);
}

static void an_idle_reactor_sleeps(void) {
  struct fb_reactor* reactor;
  uint64_t before;

  CHECK(fb_reactor_open(&reactor) == FB_OK);
  CHECK(fb_reactor_call(reactor, nothing, NULL) == FB_OK);
  pause_ms(5);
  before = counters_of(reactor).turns;
  pause_ms(50);
  CHECK(counters_of(reactor).turns == before);
  fb_reactor_close(reactor);
}

/* ---- timers -------------------------------------------------------------------------------------------- */

struct alarm {
  struct fb_timer timer;
  struct alarms* all;
  int64_t due_ms;
};

struct alarms {
  struct fb_reactor* reactor;
  struct alarm* items;
  uint32_t ran; /* the I/O thread's until the last; then rung */
  int64_t latest_ms;
  struct fb_wakeup done;
};

static void ring(struct fb_timer* timer) {
  struct alarm* self = (struct alarm*)timer;
  int64_t late_ms = fb_wakeup_now_ms() - self->due_ms;

  CHECK(late_ms >= 0);
  if (late_ms > self->all->latest_ms) self->all->latest_ms = late_ms;
  if (++self->all->ran == TIMERS) fb_wakeup_ring(&self->all->done);
}

static void set_all(void* context) {
  struct alarms* self = context;

  for (int i = 0; i < TIMERS; i++) {
    int64_t delay_ms = i * 37 % 200;
    self->items[i] = (struct alarm){{.on_due = ring}, self, fb_wakeup_now_ms() + delay_ms};
    CHECK(fb_reactor_set_timer(self->reactor, &self->items[i].timer, delay_ms) == FB_OK);
  }
}

static void thousands_of_timers_are_in_time(void) {
  struct alarms alarms = {0};

  alarms.items = malloc(TIMERS * sizeof *alarms.items);
  CHECK(alarms.items != NULL && fb_wakeup_open(&alarms.done) == FB_OK);
  CHECK(fb_reactor_open(&alarms.reactor) == FB_OK);
  CHECK(fb_reactor_call(alarms.reactor, set_all, &alarms) == FB_OK);
  CHECK(fb_wakeup_wait(&alarms.done, 0, 20000));
  fb_reactor_close(alarms.reactor);
  CHECK(alarms.ran == TIMERS && alarms.latest_ms < 5000);
  fb_wakeup_close(&alarms.done);
  free(alarms.items);
}

/* ---- sources and chores -------------------------------------------------------------------------------- */

struct pipe_end {
  struct fb_source source;
  struct fb_chore chore;
  struct fb_reactor* reactor;
  int fds[2];
  uint32_t got;
  uint32_t chores;
  bool is_stopped;
  struct fb_wakeup rung;
};

static void on_pipe_ready(struct fb_source* source, uint8_t events) {
  struct pipe_end* self = (struct pipe_end*)source;
  char byte;

  CHECK(events & FB_READABLE);
  CHECK(read(self->fds[0], &byte, 1) == 1); /* one a turn: the rest keeps it ready */
  self->got++;
  fb_reactor_leave(self->reactor, &self->chore);
  fb_reactor_leave(self->reactor, &self->chore);
}

static void on_pipe_stop(struct fb_source* source) {
  struct pipe_end* self = (struct pipe_end*)source;
  self->is_stopped = true;
  fb_reactor_remove(self->reactor, source);
  fb_reactor_remove(self->reactor, source);
}

static void on_chore(struct fb_chore* chore) {
  struct pipe_end* self = (struct pipe_end*)((char*)chore - offsetof(struct pipe_end, chore));
  if (++self->chores == 10) fb_wakeup_ring(&self->rung);
}

static void add_pipe(void* context) {
  struct pipe_end* self = context;
  CHECK(fb_reactor_add(self->reactor, &self->source, self->fds[0], FB_READABLE) == FB_OK);
}

static void a_source_is_told_until_it_is_stopped(void) {
  struct pipe_end end = {.chore = {.run = on_chore}};

  end.source = (struct fb_source){.on_ready = on_pipe_ready, .on_stop = on_pipe_stop};
  CHECK(pipe(end.fds) == 0 && fb_wakeup_open(&end.rung) == FB_OK && fb_reactor_open(&end.reactor) == FB_OK);
  CHECK(fb_reactor_call(end.reactor, add_pipe, &end) == FB_OK);
  CHECK(counters_of(end.reactor).sources == 1);
  CHECK(write(end.fds[1], "0123456789", 10) == 10);
  CHECK(fb_wakeup_wait(&end.rung, 0, 20000));
  fb_reactor_close(end.reactor);
  CHECK(end.got == 10 && end.chores == 10 && end.is_stopped);
  close(end.fds[0]);
  close(end.fds[1]);
  fb_wakeup_close(&end.rung);
}

static void open_and_close_many_times(void) {
  for (int i = 0; i < 100; i++) {
    struct fb_reactor* reactor;
    CHECK(fb_reactor_open(&reactor) == FB_OK);
    if (i % 2 == 0) CHECK(fb_reactor_call(reactor, nothing, NULL) == FB_OK);
    fb_reactor_close(reactor);
  }
  fb_reactor_close(NULL);
}

int main(void) {
  no_post_is_lost_and_many_cost_few_wake_ups();
  tasks_run_in_the_order_of_their_posts();
  a_call_from_inside_runs_at_once();
  an_idle_reactor_sleeps();
  thousands_of_timers_are_in_time();
  a_source_is_told_until_it_is_stopped();
  open_and_close_many_times();
  return 0;
}
