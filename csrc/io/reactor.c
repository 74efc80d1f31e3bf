#include "io/reactor.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/errors.h"
#include "ground/owner.h"
#include "ground/wakeup.h"

#ifndef FB_USE_POLL
#include <sys/eventfd.h>
#else
#include <fcntl.h>
#endif

enum {
  READY_PER_TURN = 64,
  RINGS_KEPT = 8,
  TIMERS_PER_TURN = 256,
};

struct fb_reactor {
  _Atomic uint32_t references;
  pthread_t thread;
  _Atomic bool has_ended; /* the thread; changes under the lock */
  pthread_mutex_t lock;   /* of `done` */
  pthread_cond_t done;    /* some call() has returned, or the thread has ended */
  struct fb_source waker;
  int wake_fd;
  _Atomic(struct fb_task*) tasks; /* newest first; &closed_tasks: no more */
  struct fb_task closed_tasks;
  _Atomic bool is_awake;
  _Atomic bool is_stopping;
  /* The I/O thread's. */
  struct fb_poller poller;
  struct fb_timer_queue timers;
  struct fb_source* sources;
  struct fb_chore* first_chore;
  struct fb_chore** last_link; /* where the next chore is chained */
  bool is_serving;             /* a socket */
  uint32_t ring_count;
  struct fb_wakeup* rings[RINGS_KEPT]; /* to be rung after it */
  uint8_t* received;
  struct fb_io_executor* disk; /* NULL: nobody has asked for it */
  char failure[200];           /* empty: none */
  struct fb_tcp_patience tcp_patience;
  _Atomic uint64_t turns, wakeups, bytes_read, bytes_written, writes;
  _Atomic uint32_t source_count;
};

/* Relaxed: the I/O thread alone counts, others only look. */
static void count_up(_Atomic uint64_t* counter, uint64_t by) {
  uint64_t counted = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, counted + by, memory_order_relaxed);
}

static bool is_stopping(struct fb_reactor* self) {
  /* Partner of the store in close(). */
  return atomic_load_explicit(&self->is_stopping, memory_order_seq_cst);
}

/* ---- waking ---------------------------------------------------------------------------------------- */

static int open_waker(struct fb_reactor* self) {
  int code;
#ifndef FB_USE_POLL
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return FB_EIO;
  self->wake_fd = fd;
#else
  int fds[2], fd;
  if (pipe(fds) < 0) return FB_EIO;
  for (int i = 0; i < 2; i++) {
    fcntl(fds[i], F_SETFL, O_NONBLOCK);
    fcntl(fds[i], F_SETFD, FD_CLOEXEC);
  }
  fd = fds[0];
  self->wake_fd = fds[1];
#endif
  code = fb_poller_add(&self->poller, &self->waker.watch, fd, FB_READABLE);
  if (code < 0 && fd != self->wake_fd) close(fd);
  return code;
}

static void close_waker(struct fb_reactor* self) {
  int fd = self->waker.watch.fd;
  fb_poller_remove(&self->poller, &self->waker.watch);
  if (fd >= 0) close(fd);
  if (self->wake_fd >= 0 && self->wake_fd != fd) close(self->wake_fd);
}

static void wake_reactor(struct fb_reactor* self) {
  uint64_t one = 1;

  /* A cheap load first: while it is awake, or somebody has rung already, there is nothing to do. Partner
   * of prepare_sleep(): it clears the flag before it looks for work, we left work before we look at it. */
  if (atomic_load_explicit(&self->is_awake, memory_order_seq_cst)) return;
  if (atomic_exchange_explicit(&self->is_awake, true, memory_order_seq_cst)) return;
  while (write(self->wake_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static void on_wake(struct fb_source* source, uint8_t events) {
  struct fb_reactor* self = FB_OWNER(fb_reactor, waker, source);
  uint64_t bytes[8];

  (void)events;
  while (read(source->watch.fd, bytes, sizeof bytes) == sizeof bytes) continue;
  count_up(&self->wakeups, 1);
}

/* ---- tasks ----------------------------------------------------------------------------------------- */

int fb_reactor_post(struct fb_reactor* self, struct fb_task* task) {
  struct fb_task* newest;

  /* Partner of run_tasks(), which clears the mark before the task runs: what the poster did before is seen
   * by a run that starts after. */
  if (atomic_exchange_explicit(&task->is_posted, true, memory_order_seq_cst)) return FB_OK;
  newest = atomic_load_explicit(&self->tasks, memory_order_relaxed);
  do {
    if (newest == &self->closed_tasks) {
      atomic_store_explicit(&task->is_posted, false, memory_order_relaxed);
      return FB_ESTATE;
    }
    task->next = newest;
    /* Release half: the task's fields, partner of the exchange in run_tasks(). */
  } while (
      !atomic_compare_exchange_weak_explicit(&self->tasks, &newest, task, memory_order_seq_cst, memory_order_relaxed));
  wake_reactor(self);
  return FB_OK;
}

/* Runs what was posted so far, oldest first; `rest` is what posters find from now on. */
static void run_tasks(struct fb_reactor* self, struct fb_task* rest) {
  struct fb_task* task = atomic_exchange_explicit(&self->tasks, rest, memory_order_seq_cst);
  struct fb_task* oldest = NULL;

  while (task != NULL) {
    struct fb_task* next = task->next;
    task->next = oldest;
    oldest = task;
    task = next;
  }
  while (oldest != NULL) {
    task = oldest;
    oldest = task->next;
    atomic_store_explicit(&task->is_posted, false, memory_order_seq_cst);
    task->run(task);
  }
}

struct call {
  struct fb_task task;
  struct fb_reactor* reactor;
  void (*function)(void* context);
  void* context;
  bool is_done; /* under the reactor's lock */
};

static void run_call(struct fb_task* task) {
  struct call* self = (struct call*)task;
  struct fb_reactor* reactor = self->reactor;

  self->function(self->context);
  pthread_mutex_lock(&reactor->lock);
  self->is_done = true;
  pthread_cond_broadcast(&reactor->done);
  pthread_mutex_unlock(&reactor->lock);
}

int fb_reactor_call(struct fb_reactor* self, void (*function)(void* context), void* context) {
  struct call call = {.task = {.run = run_call}, .reactor = self, .function = function, .context = context};
  bool is_posted;

  if (fb_reactor_is_inside(self)) {
    function(context);
    return FB_OK;
  }
  is_posted = fb_reactor_post(self, &call.task) == FB_OK;
  pthread_mutex_lock(&self->lock);
  while (is_posted ? !call.is_done : !atomic_load_explicit(&self->has_ended, memory_order_relaxed))
    pthread_cond_wait(&self->done, &self->lock);
  pthread_mutex_unlock(&self->lock);
  return is_posted ? FB_OK : FB_ESTATE;
}

bool fb_reactor_is_inside(struct fb_reactor* self) {
  /* Relaxed: only the thread itself must see its own store in time. Another one may get its name later. */
  return pthread_equal(self->thread, pthread_self()) && !atomic_load_explicit(&self->has_ended, memory_order_relaxed);
}

void fb_reactor_ring(struct fb_reactor* self, struct fb_wakeup* wakeup) {
  bool is_kept = fb_reactor_is_inside(self) && self->is_serving;

  for (uint32_t i = 0; is_kept && i < self->ring_count; i++)
    if (self->rings[i] == wakeup) return;
  if (is_kept && self->ring_count < RINGS_KEPT) self->rings[self->ring_count++] = wakeup;
  else fb_wakeup_ring(wakeup);
}

int fb_reactor_set_timer(struct fb_reactor* self, struct fb_timer* timer, int64_t delay_ms) {
  return fb_timer_queue_set(&self->timers, timer, fb_wakeup_now_ms() + (delay_ms > 0 ? delay_ms : 0));
}

void fb_reactor_cancel_timer(struct fb_reactor* self, struct fb_timer* timer) {
  fb_timer_queue_cancel(&self->timers, timer);
}

/* ---- sources and chores ---------------------------------------------------------------------------- */

int fb_reactor_add(struct fb_reactor* self, struct fb_source* source, int fd, uint8_t interest) {
  int code = is_stopping(self) ? FB_ESTATE : fb_poller_add(&self->poller, &source->watch, fd, interest);

  if (code < 0) return code;
  source->previous = NULL;
  source->next = self->sources;
  if (source->next != NULL) source->next->previous = source;
  self->sources = source;
  atomic_fetch_add_explicit(&self->source_count, 1, memory_order_relaxed);
  return FB_OK;
}

void fb_reactor_set_interest(struct fb_reactor* self, struct fb_source* source, uint8_t interest) {
  fb_poller_change(&self->poller, &source->watch, interest);
}

void fb_reactor_remove(struct fb_reactor* self, struct fb_source* source) {
  if (source->watch.fd < 0) return;
  fb_poller_remove(&self->poller, &source->watch);
  if (source->previous != NULL) source->previous->next = source->next;
  else self->sources = source->next;
  if (source->next != NULL) source->next->previous = source->previous;
  atomic_fetch_sub_explicit(&self->source_count, 1, memory_order_relaxed);
}

void fb_reactor_leave(struct fb_reactor* self, struct fb_chore* chore) {
  if (chore->is_left) return;
  chore->is_left = true;
  chore->next = NULL;
  *self->last_link = chore;
  self->last_link = &chore->next;
}

/* Runs the chores left so far; what they leave waits for the next turn. */
static void run_chores(struct fb_reactor* self) {
  struct fb_chore* chore = self->first_chore;

  self->first_chore = NULL;
  self->last_link = &self->first_chore;
  while (chore != NULL) {
    struct fb_chore* next = chore->next;
    chore->is_left = false;
    chore->run(chore);
    chore = next;
  }
}

const char* fb_reactor_failure(const struct fb_reactor* self) { return self->failure[0] != 0 ? self->failure : NULL; }

uint8_t* fb_reactor_receive_buffer(struct fb_reactor* self) { return self->received; }

void fb_reactor_count_read(struct fb_reactor* self, size_t size) { count_up(&self->bytes_read, size); }

void fb_reactor_count_written(struct fb_reactor* self, size_t size) {
  count_up(&self->bytes_written, size);
  count_up(&self->writes, 1);
}

/* ---- the thread ------------------------------------------------------------------------------------ */

/* How long the poller may wait; 0 if there is work. Says that we sleep before it looks: partner of wake_reactor(). */
static int64_t prepare_sleep(struct fb_reactor* self) {
  int64_t next_ms = fb_timer_queue_next_ms(&self->timers);
  int64_t wait_ms = next_ms == INT64_MAX ? -1 : next_ms - fb_wakeup_now_ms();

  atomic_store_explicit(&self->is_awake, false, memory_order_seq_cst);
  if (self->first_chore != NULL || is_stopping(self) ||
      atomic_load_explicit(&self->tasks, memory_order_seq_cst) != NULL)
    return 0;
  return next_ms != INT64_MAX && wait_ms < 0 ? 0 : wait_ms;
}

/* Nothing that may be rung goes away meanwhile: that takes a task, which runs later. */
static void serve_ready(struct fb_reactor* self, const struct fb_ready* ready) {
  struct fb_source* source = (struct fb_source*)ready->watch;

  if (source->watch.fd < 0) return; /* removed in this turn */
  self->is_serving = true;
  source->on_ready(source, ready->events);
  self->is_serving = false;
  for (uint32_t i = 0; i < self->ring_count; i++) fb_wakeup_ring(self->rings[i]);
  self->ring_count = 0;
}

/* Waiting failed, and would fail again at once: the thread ends, and with it everything it serves. */
static int give_up(struct fb_reactor* self, int error) {
  char text[96] = "";

  if (strerror_r(error, text, sizeof text) != 0) snprintf(text, sizeof text, "error %d", error);
  snprintf(self->failure, sizeof self->failure,
           "the I/O thread of this process cannot wait for its sockets any more: %s", text);
  atomic_store_explicit(&self->is_stopping, true, memory_order_seq_cst);
  return FB_EIO;
}

static int run_turn(struct fb_reactor* self) {
  struct fb_ready ready[READY_PER_TURN];
  int ready_count = fb_poller_wait(&self->poller, prepare_sleep(self), ready, READY_PER_TURN);

  atomic_store_explicit(&self->is_awake, true, memory_order_seq_cst);
  if (ready_count < 0) return give_up(self, errno);
  count_up(&self->turns, 1);
  for (int i = 0; i < ready_count; i++) serve_ready(self, &ready[i]);
  run_tasks(self, NULL);
  fb_timer_queue_run(&self->timers, fb_wakeup_now_ms(), TIMERS_PER_TURN);
  run_chores(self);
  return FB_OK;
}

static void stop_reactor(struct fb_reactor* self) {
  /* What was posted before close() runs, what is posted from now on is refused. */
  run_tasks(self, &self->closed_tasks);
  run_chores(self);
  while (self->sources != NULL) self->sources->on_stop(self->sources);
  while (self->first_chore != NULL) run_chores(self);
}

static void* run_reactor(void* argument) {
  struct fb_reactor* self = argument;

  /* open() holds the lock until it has stored the thread. */
  pthread_mutex_lock(&self->lock);
  pthread_mutex_unlock(&self->lock);
  while (!is_stopping(self) && run_turn(self) == FB_OK) continue;
  stop_reactor(self);
  pthread_mutex_lock(&self->lock);
  atomic_store_explicit(&self->has_ended, true, memory_order_relaxed);
  pthread_cond_broadcast(&self->done);
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

static int start_thread(struct fb_reactor* self) {
  int code;

  pthread_mutex_lock(&self->lock);
  code = fb_wakeup_start_thread(&self->thread, run_reactor, self);
  pthread_mutex_unlock(&self->lock);
  return code;
}

static void free_reactor(struct fb_reactor* self) {
  close_waker(self);
  fb_poller_close(&self->poller);
  fb_timer_queue_close(&self->timers);
  pthread_cond_destroy(&self->done);
  pthread_mutex_destroy(&self->lock);
  free(self->received);
  free(self);
}

int fb_reactor_open(struct fb_reactor** self) {
  struct fb_reactor* opened = calloc(1, sizeof(*opened));
  int code;

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  atomic_init(&opened->references, 1);
  opened->waker.watch.fd = opened->wake_fd = -1;
  opened->waker.on_ready = on_wake;
  opened->last_link = &opened->first_chore;
  opened->received = malloc(FB_RECEIVE_SIZE);
  if (pthread_mutex_init(&opened->lock, NULL) != 0 || pthread_cond_init(&opened->done, NULL) != 0) {
    free(opened->received);
    free(opened);
    return FB_ENOMEM;
  }
  code = opened->received == NULL ? FB_ENOMEM : fb_poller_open(&opened->poller);
  if (code == FB_OK) code = open_waker(opened);
  if (code == FB_OK) code = start_thread(opened);
  if (code < 0) free_reactor(opened);
  else *self = opened;
  return code;
}

void fb_reactor_close(struct fb_reactor* self) {
  if (self == NULL) return;
  atomic_store_explicit(&self->is_stopping, true, memory_order_seq_cst);
  wake_reactor(self);
  pthread_join(self->thread, NULL);
  if (self->disk != NULL) {
    fb_io_executor_close(self->disk);
    fb_io_executor_drop(self->disk);
    self->disk = NULL;
  }
  fb_reactor_drop(self);
}

struct fb_io_executor* fb_reactor_disk(struct fb_reactor* self) {
  if (self->disk == NULL && fb_io_executor_open("flinkbuf-disk", &self->disk) < 0) self->disk = NULL;
  return self->disk;
}

void fb_reactor_retain(struct fb_reactor* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_reactor_drop(struct fb_reactor* self) {
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1) free_reactor(self);
}

void fb_reactor_set_tcp_patience(struct fb_reactor* self, const struct fb_tcp_patience* patience) {
  self->tcp_patience = *patience;
}

const struct fb_tcp_patience* fb_reactor_tcp_patience(const struct fb_reactor* self) { return &self->tcp_patience; }

void fb_reactor_get_counters(struct fb_reactor* self, struct fb_reactor_counters* counters) {
  counters->turns = atomic_load_explicit(&self->turns, memory_order_relaxed);
  counters->wakeups = atomic_load_explicit(&self->wakeups, memory_order_relaxed);
  counters->bytes_read = atomic_load_explicit(&self->bytes_read, memory_order_relaxed);
  counters->bytes_written = atomic_load_explicit(&self->bytes_written, memory_order_relaxed);
  counters->writes = atomic_load_explicit(&self->writes, memory_order_relaxed);
  counters->sources = atomic_load_explicit(&self->source_count, memory_order_relaxed);
}
