#include "partition/result_partition.h"

#include <stdlib.h>
#include <string.h>

#include "ground/schedule_point.h"

/* ---- the bell ----------------------------------------------------------------------------------------- */

int fb_result_partition_share_wakeup(struct fb_result_partition* self, struct fb_wakeup_shared* wakeup) {
  int code;

  if (self->task_wakeup != NULL || atomic_load_explicit(&self->is_closed, memory_order_relaxed)) return FB_ESTATE;
  code = fb_local_buffer_pool_add_wakeup(self->pool, &wakeup->wakeup);
  if (code < 0) return code;
  fb_wakeup_shared_retain(wakeup);
  self->task_wakeup = wakeup;
  /* Release, partner of fb_result_partition_bell(). Its own stays open: somebody may just have looked up who is to be rung. */
  atomic_store_explicit(&self->wakeup, &wakeup->wakeup, memory_order_release);
  fb_local_buffer_pool_remove_wakeup(self->pool, &self->own_wakeup);
  return FB_OK;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* Whether it is released, or about to be. */
static bool is_going(struct fb_result_partition* self) {
  return atomic_load_explicit(&self->is_going, memory_order_relaxed);
}

void fb_result_partition_drop_user(struct fb_result_partition* self) {
  /* Both halves: whoever is last sees what the others did before. */
  if (atomic_fetch_sub_explicit(&self->users, 1, memory_order_acq_rel) != 1) return;
  fb_result_partition_release(self);
  if (self->on_consumed != NULL) self->on_consumed(self, self->on_consumed_context);
}

/* What open_common() made, or the part of it that it made before it failed. */
static void close_common(struct fb_result_partition* self) {
  fb_local_buffer_pool_close(self->pool);
  fb_wakeup_close(&self->own_wakeup);
  if (self->task_wakeup != NULL) fb_wakeup_shared_drop(self->task_wakeup);
  free(self->unicast);
  free((void*)self->dirty);
  free((void*)self->acknowledged);
  free(self->record_counts);
  free(atomic_load_explicit(&self->failure, memory_order_relaxed)); /* nobody else is left */
}

static int open_common(struct fb_result_partition* self) {
  uint32_t n = self->subpartition_count;
  int code;

  self->unicast = calloc(n, sizeof(*self->unicast));
  self->dirty = calloc((size_t)n + 1, sizeof(*self->dirty));
  self->acknowledged = calloc(n, sizeof(*self->acknowledged));
  self->record_counts = calloc((size_t)n + 1, sizeof(*self->record_counts));
  if (self->unicast == NULL || self->dirty == NULL) return FB_ENOMEM;
  if (self->acknowledged == NULL || self->record_counts == NULL) return FB_ENOMEM;
  atomic_init(&self->wakeup, &self->own_wakeup);
  code = fb_wakeup_open(&self->own_wakeup);
  return code < 0 ? code : fb_local_buffer_pool_add_wakeup(self->pool, &self->own_wakeup);
}

int fb_result_partition_open_base(struct fb_result_partition* self, const struct fb_result_partition_kind* kind,
                                  enum fb_result_partition_type type, uint32_t subpartition_count,
                                  struct fb_local_buffer_pool* pool) {
  int code;

  if (subpartition_count == 0 || subpartition_count > INT32_MAX) {
    fb_local_buffer_pool_close(pool);
    return FB_EARGUMENT;
  }
  self->kind = kind;
  self->type = type;
  self->subpartition_count = subpartition_count;
  self->continued = FB_NO_CHANNEL;
  self->pool = pool;
  atomic_init(&self->references, 1);
  atomic_init(&self->users, kind->is_blocking ? 1 : subpartition_count + 1);
  atomic_init(&self->unacknowledged_count, kind->is_blocking ? 0 : subpartition_count);
  code = open_common(self);
  if (code < 0) close_common(self);
  return code;
}

void fb_result_partition_retain(struct fb_result_partition* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_result_partition_drop(struct fb_result_partition* self) {
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  fb_result_partition_close(self);
  self->kind->close(self);
  close_common(self);
  free(self);
}

void fb_result_partition_close(struct fb_result_partition* self) {
  /* Both halves: two may come at once, and the second sees what was written before. */
  if (atomic_exchange_explicit(&self->is_closed, true, memory_order_acq_rel)) return;
  fb_result_partition_finish_builders(self);
  fb_local_buffer_pool_remove_wakeup(self->pool, fb_result_partition_bell(self));
  fb_local_buffer_pool_destroy(self->pool);
  /* Readers would wait for an end that nobody is left to write. */
  if (!fb_result_partition_is_finished(self) && !is_going(self))
    fb_result_partition_fail(self, "its producer closed it before its end");
  if (self->kind->leave != NULL) self->kind->leave(self);
  if (!self->kind->is_blocking) fb_result_partition_drop_user(self);
}

/* Release, partner of fb_result_partition_verdict(). The first one stays. */
static void set_verdict(struct fb_result_partition* self, int verdict) {
  int none = FB_OK;

  atomic_compare_exchange_strong_explicit(&self->verdict, &none, verdict, memory_order_release, memory_order_relaxed);
}

void fb_result_partition_release(struct fb_result_partition* self) {
  if (fb_result_partition_is_released(self)) return;
  /* Relaxed: the stores below hand it on to whoever sees a subpartition released. Partner of is_going(). */
  atomic_store_explicit(&self->is_going, true, memory_order_relaxed);
  /* The parts before the whole: a producer that drops a record because the partition is released must find no
   * subpartition that still takes the end of its channel. A second caller goes the same way and returns no sooner. */
  if (self->kind->is_blocking && !fb_result_partition_is_finished(self)) set_verdict(self, FB_ERELEASED);
  if (FB_PLANTED("the whole is released before its parts"))
    atomic_store_explicit(&self->is_released, true, memory_order_release);
  self->kind->release(self);
  /* Release, partner of fb_result_partition_is_released(). */
  atomic_store_explicit(&self->is_released, true, memory_order_release);
  fb_wakeup_ring(fb_result_partition_bell(self));
}

static void keep_failure(struct fb_result_partition* self, const char* cause) {
  char* none = NULL;
  char* copy = strdup(cause);

  /* Without memory for its text it is a release like any other. The store's release half is the partner of
   * fb_result_partition_failure(). */
  if (copy != NULL &&
      !atomic_compare_exchange_strong_explicit(&self->failure, &none, copy, memory_order_release, memory_order_relaxed))
    free(copy);
}

void fb_result_partition_fail(struct fb_result_partition* self, const char* cause) {
  keep_failure(self, cause);
  fb_result_partition_release(self);
}

static void stop_producer(struct fb_result_partition* self, int verdict, const char* cause) {
  keep_failure(self, cause);
  set_verdict(self, verdict);
  fb_result_partition_release(self);
}

void fb_result_partition_fail_output(struct fb_result_partition* self, int code, int error, const char* cause) {
  self->failure_errno = error;
  stop_producer(self, code, cause);
}

void fb_result_partition_lose_reader(struct fb_result_partition* self, const char* cause) {
  if (self->kind->outlives_readers || is_going(self)) return;
  stop_producer(self, FB_ELOST, cause);
}

void fb_result_partition_abort(struct fb_result_partition* self, const char* cause) {
  stop_producer(self, FB_ERELEASED, cause);
  if (FB_PLANTED("an abort closes under the producer")) fb_result_partition_close(self);
}

const char* fb_result_partition_failure(struct fb_result_partition* self) {
  /* Acquire, partner of the exchange in fb_result_partition_fail(): the text is complete. */
  return atomic_load_explicit(&self->failure, memory_order_acquire);
}

/* ---- views ----------------------------------------------------------------------------------------- */

int fb_result_partition_create_view(struct fb_result_partition* self, uint32_t index,
                                    const struct fb_view_options* options, struct fb_subpartition_view** view) {
  *view = NULL;
  if (index >= self->subpartition_count) return FB_EARGUMENT;
  if (self->kind->is_blocking && fb_result_partition_is_released(self)) return FB_ERELEASED;
  if (self->kind->is_blocking && !fb_result_partition_is_finished(self)) return FB_EUNFINISHED;
  return self->kind->create_view(self, index, options, view);
}

const char* fb_result_partition_view_error(const struct fb_result_partition* self, int code) {
  if (code == FB_EARGUMENT) return "there is no such subpartition";
  if (code == FB_ESTATE) return "it is read already, and can be read only once";
  if (code == FB_EUNFINISHED) return "it is still being written: a blocking partition can be read once it is finished";
  if (code == FB_ERELEASED)
    return self->kind->is_blocking ? "the partition was released"
                                   : "it was released, or its only reader has consumed it";
  if (code == FB_ENOT_FOUND) return "its files are gone";
  return fb_strerror(code);
}

const char* fb_result_partition_view_failure(struct fb_subpartition_view* view) {
  const char* own = view->kind->failure != NULL ? view->kind->failure(view) : NULL;
  return own != NULL ? own : fb_result_partition_failure(view->partition);
}

void fb_result_partition_open_view(struct fb_result_partition* self, const struct fb_subpartition_view_kind* kind,
                                   uint32_t index, struct fb_subpartition_view* view) {
  fb_result_partition_retain(self);
  *view = (struct fb_subpartition_view){kind, self, index};
}

void fb_result_partition_close_view(struct fb_subpartition_view* view) { fb_result_partition_drop(view->partition); }

/* ---- acknowledgements ------------------------------------------------------------------------------ */

void fb_result_partition_acknowledge(struct fb_result_partition* self, uint32_t subpartition) {
  if (self->kind->is_blocking) return;
  /* Relaxed: only who sets the mark counts, and the count orders. Its release half is the partner of
   * fb_result_partition_is_acknowledged(); its acquire half hands the other readers' part on. */
  if (atomic_exchange_explicit(&self->acknowledged[subpartition], true, memory_order_relaxed)) return;
  if (atomic_fetch_sub_explicit(&self->unacknowledged_count, 1, memory_order_acq_rel) == 1)
    fb_wakeup_ring(fb_result_partition_bell(self));
}

/* A reader is gone that has not acknowledged, and never will. */
static bool is_acknowledgement_lost(struct fb_result_partition* self) {
  for (uint32_t i = 0; i < self->subpartition_count; i++)
    /* In this order: a reader acknowledges first and goes then. */
    if (fb_result_partition_is_gone(self, i) && !atomic_load_explicit(&self->acknowledged[i], memory_order_relaxed))
      return true;
  return false;
}

bool fb_result_partition_is_answered(struct fb_result_partition* self) {
  return fb_result_partition_is_acknowledged(self) || is_acknowledgement_lost(self);
}

bool fb_result_partition_wait_acknowledged(struct fb_result_partition* self, int64_t timeout_ms) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(timeout_ms);
  struct fb_wakeup* bell = fb_result_partition_bell(self);
  uint64_t seen;

  do {
    seen = fb_wakeup_seen(bell);
    if (fb_result_partition_is_answered(self)) return true;
  } while (fb_wakeup_wait_until(bell, seen, deadline_ms) == FB_OK);
  return false;
}
