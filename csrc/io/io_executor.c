#define _GNU_SOURCE /* pthread_setname_np */
#include "io/io_executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ground/wakeup.h"

struct fb_io_executor {
  _Atomic uint32_t references;
  pid_t process; /* a child that was forked has neither the thread nor, perhaps, a free lock */
  char name[16];
  pthread_mutex_t lock;
  pthread_cond_t posted; /* there is something to do, or it is closed */
  pthread_cond_t quiet;  /* a request has returned */
  pthread_t thread;
  bool has_thread;  /* somebody has to join it */
  bool has_started; /* `thread` is valid, also while it is joined */
  bool is_closed;
  bool is_orphan; /* the last reference was given up on its own thread, which frees it */
  struct fb_io_request* first;
  struct fb_io_request** last_link;
  struct fb_io_request* at_end;  /* what runs when it is closed */
  struct fb_io_request* running; /* an address to compare: who runs may free it */
  uint32_t queued_count;
  uint64_t run_count;
};

static bool is_child(const struct fb_io_executor* self) { return getpid() != self->process; }

int fb_io_executor_open(const char* name, struct fb_io_executor** self) {
  struct fb_io_executor* opened = calloc(1, sizeof *opened);

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  if (pthread_mutex_init(&opened->lock, NULL) != 0 || pthread_cond_init(&opened->posted, NULL) != 0 ||
      pthread_cond_init(&opened->quiet, NULL) != 0) {
    free(opened);
    return FB_ENOMEM;
  }
  atomic_init(&opened->references, 1);
  opened->process = getpid();
  opened->last_link = &opened->first;
  snprintf(opened->name, sizeof opened->name, "%s", name);
  *self = opened;
  return FB_OK;
}

void fb_io_executor_retain(struct fb_io_executor* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

static void free_executor(struct fb_io_executor* self) {
  pthread_cond_destroy(&self->quiet);
  pthread_cond_destroy(&self->posted);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

/* Whether this is its thread, which cannot wait for itself. The lock is held. */
static bool is_own_thread(const struct fb_io_executor* self) {
  return self->has_started && pthread_equal(self->thread, pthread_self());
}

static bool leave_to_own_thread(struct fb_io_executor* self) {
  bool is_left;

  pthread_mutex_lock(&self->lock);
  is_left = self->has_thread && is_own_thread(self);
  if (is_left) {
    self->is_closed = self->is_orphan = true;
    pthread_detach(self->thread);
  }
  pthread_mutex_unlock(&self->lock);
  return is_left;
}

void fb_io_executor_drop(struct fb_io_executor* self) {
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  if (is_child(self)) return; /* its lock may be held for ever; the child is rid of it when it ends */
  if (leave_to_own_thread(self)) return;
  fb_io_executor_close(self);
  free_executor(self);
}

/* ---- the queue; the lock is held --------------------------------------------------------------------- */

static void append_request(struct fb_io_executor* self, struct fb_io_request* request) {
  request->next = NULL;
  request->link = self->last_link;
  *self->last_link = request;
  self->last_link = &request->next;
  request->is_queued = true;
  self->queued_count++;
}

static void unlink_request(struct fb_io_executor* self, struct fb_io_request* request) {
  *request->link = request->next;
  if (request->next != NULL) request->next->link = request->link;
  else if (self->last_link == &request->next) self->last_link = request->link;
  request->is_queued = false;
  if (!request->is_for_end) self->queued_count--;
  request->is_for_end = false;
}

static void keep_for_end(struct fb_io_executor* self, struct fb_io_request* request) {
  request->next = self->at_end;
  request->link = &self->at_end;
  if (request->next != NULL) request->next->link = &request->next;
  self->at_end = request;
  request->is_queued = request->is_for_end = true;
}

static void queue_one_for_end(struct fb_io_executor* self) {
  struct fb_io_request* request = self->at_end;

  unlink_request(self, request);
  append_request(self, request);
}

/* ---- the thread -------------------------------------------------------------------------------------- */

static void run_first(struct fb_io_executor* self) {
  struct fb_io_request* request = self->first;

  unlink_request(self, request);
  self->running = request;
  pthread_mutex_unlock(&self->lock);
  request->run(request);
  pthread_mutex_lock(&self->lock);
  self->running = NULL;
  self->run_count++;
  pthread_cond_broadcast(&self->quiet);
}

static void* run_executor(void* argument) {
  struct fb_io_executor* self = argument;
  bool is_orphan;

#ifdef __linux__
  pthread_setname_np(pthread_self(), self->name);
#endif
  pthread_mutex_lock(&self->lock);
  for (;;) {
    if (self->first != NULL) run_first(self);
    else if (self->is_closed && self->at_end != NULL) queue_one_for_end(self);
    else if (self->is_closed) break;
    else pthread_cond_wait(&self->posted, &self->lock);
  }
  is_orphan = self->is_orphan;
  pthread_mutex_unlock(&self->lock);
  if (is_orphan) free_executor(self);
  return NULL;
}

int fb_io_executor_post(struct fb_io_executor* self, struct fb_io_request* request) {
  int code = FB_OK;

  if (is_child(self)) return FB_ESTATE;
  pthread_mutex_lock(&self->lock);
  if (self->is_closed) code = FB_ESTATE;
  else if (!self->has_thread) {
    code = fb_wakeup_start_thread(&self->thread, run_executor, self);
    self->has_thread = self->has_started = code == FB_OK;
  }
  if (code == FB_OK && !request->is_queued && !request->is_cancelled) {
    append_request(self, request);
    pthread_cond_signal(&self->posted);
  }
  pthread_mutex_unlock(&self->lock);
  return code;
}

int fb_io_executor_post_at_end(struct fb_io_executor* self, struct fb_io_request* request) {
  int code = FB_OK;

  if (is_child(self)) return FB_ESTATE;
  pthread_mutex_lock(&self->lock);
  if (self->is_closed) code = FB_ESTATE;
  else if (!request->is_queued && !request->is_cancelled) keep_for_end(self, request);
  pthread_mutex_unlock(&self->lock);
  return code;
}

bool fb_io_executor_cancel(struct fb_io_executor* self, struct fb_io_request* request) {
  bool was_queued;

  if (is_child(self)) return false;
  pthread_mutex_lock(&self->lock);
  was_queued = request->is_queued;
  if (was_queued) unlink_request(self, request);
  if (self->running == request && !is_own_thread(self)) {
    request->is_cancelled = true; /* one that posts itself would never be at rest */
    while (self->running == request) pthread_cond_wait(&self->quiet, &self->lock);
    request->is_cancelled = false;
  }
  pthread_mutex_unlock(&self->lock);
  return was_queued;
}

void fb_io_executor_close(struct fb_io_executor* self) {
  pthread_t thread;
  bool has_thread;

  if (is_child(self)) return;
  pthread_mutex_lock(&self->lock);
  self->is_closed = true;
  has_thread = self->has_thread && !is_own_thread(self);
  thread = self->thread;
  if (has_thread) self->has_thread = false; /* one closer joins it */
  pthread_cond_broadcast(&self->posted);
  pthread_mutex_unlock(&self->lock);
  if (has_thread) pthread_join(thread, NULL);
}

uint64_t fb_io_executor_run_count(struct fb_io_executor* self) {
  uint64_t count;

  pthread_mutex_lock(&self->lock);
  count = self->run_count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

uint32_t fb_io_executor_pending_count(struct fb_io_executor* self) {
  uint32_t count;

  pthread_mutex_lock(&self->lock);
  count = self->queued_count + (self->running != NULL);
  pthread_mutex_unlock(&self->lock);
  return count;
}
