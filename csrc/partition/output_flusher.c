#include "partition/output_flusher.h"

#include <stdlib.h>

#define NEVER INT64_MAX

/* What the flusher knows of one partition; under the flusher's lock except `batch`, the thread's own. */
struct fb_flushed_partition {
  struct fb_output_flusher* flusher;
  struct fb_result_partition* partition;
  int64_t interval_ms;
  int64_t due_ms;   /* when the list is looked at; NEVER while it is empty */
  uint32_t* listed; /* subpartitions on the dirty list; room for subpartition_count + 1 */
  uint32_t list_count;
  bool* is_listed; /* by subpartition */
  uint32_t* batch; /* what is being flushed, outside the lock */
  struct fb_flushed_partition* next;
};

struct fb_output_flusher {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t idle; /* signalled when `busy` became NULL */
  struct fb_wakeup wakeup;
  struct fb_flushed_partition* partitions;
  struct fb_flushed_partition* busy; /* being flushed now; not freed meanwhile */
  int64_t planned_ms;                /* when the thread will wake up by itself */
  uint64_t turn_count;
  bool is_closing;
};

/* ---- the dirty list ------------------------------------------------------------------------------ */

/* Marks and lists a subpartition. Returns whether the thread has to wake up earlier than it planned. */
static bool list_subpartition(struct fb_output_flusher* self, struct fb_flushed_partition* entry,
                              uint32_t subpartition) {
  /* Relaxed: the mark orders nothing; see fb_result_partition_mark_written() for the race that this leaves open. */
  atomic_store_explicit(&entry->partition->dirty[subpartition], 1, memory_order_relaxed);
  if (entry->is_listed[subpartition]) return false;
  entry->is_listed[subpartition] = true;
  entry->listed[entry->list_count++] = subpartition;
  if (entry->due_ms != NEVER) return false;
  entry->due_ms = fb_wakeup_deadline_ms(entry->interval_ms);
  return entry->due_ms < self->planned_ms;
}

static void on_written(struct fb_result_partition* partition, uint32_t subpartition) {
  struct fb_output_flusher* self = partition->flush_entry->flusher;
  bool is_earlier;

  pthread_mutex_lock(&self->lock);
  is_earlier = list_subpartition(self, partition->flush_entry, subpartition);
  pthread_mutex_unlock(&self->lock);
  if (is_earlier) fb_wakeup_ring(&self->wakeup);
}

/* Moves the list into the batch and keeps on it only what was marked since the last turn: that is looked at
 * once more after another interval. */
static uint32_t take_batch(struct fb_flushed_partition* entry, int64_t now_ms) {
  uint32_t batch_count = entry->list_count;
  uint32_t kept = 0;

  for (uint32_t i = 0; i < batch_count; i++) {
    uint32_t subpartition = entry->listed[i];
    _Atomic uint8_t* mark = &entry->partition->dirty[subpartition];

    entry->batch[i] = subpartition;
    /* Relaxed: partner of the load in fb_result_partition_mark_written(), which orders nothing either. */
    entry->is_listed[subpartition] = atomic_load_explicit(mark, memory_order_relaxed) != 0;
    atomic_store_explicit(mark, 0, memory_order_relaxed);
    if (entry->is_listed[subpartition]) entry->listed[kept++] = subpartition;
  }
  entry->list_count = kept;
  entry->due_ms = kept > 0 ? now_ms + entry->interval_ms : NEVER;
  return batch_count;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static void flush_batch(const struct fb_flushed_partition* entry, uint32_t batch_count) {
  for (uint32_t i = 0; i < batch_count; i++) {
    if (entry->batch[i] == entry->partition->subpartition_count) fb_result_partition_flush_all(entry->partition);
    else fb_result_partition_flush(entry->partition, entry->batch[i]);
  }
}

static struct fb_flushed_partition* first_due(struct fb_output_flusher* self) {
  struct fb_flushed_partition* first = self->partitions;

  for (struct fb_flushed_partition* entry = first; entry != NULL; entry = entry->next)
    if (entry->due_ms < first->due_ms) first = entry;
  return first;
}

/* Flushes every partition whose time has come; the lock is held before and after, not during a flush. */
static void flush_due(struct fb_output_flusher* self) {
  int64_t now_ms = fb_wakeup_now_ms();
  struct fb_flushed_partition* entry;

  while (!self->is_closing && (entry = first_due(self)) != NULL && entry->due_ms <= now_ms) {
    uint32_t batch_count = take_batch(entry, now_ms);

    self->busy = entry;
    pthread_mutex_unlock(&self->lock);
    flush_batch(entry, batch_count);
    pthread_mutex_lock(&self->lock);
    self->busy = NULL;
    pthread_cond_broadcast(&self->idle);
  }
}

static void* run_flusher(void* argument) {
  struct fb_output_flusher* self = argument;

  pthread_mutex_lock(&self->lock);
  while (!self->is_closing) {
    uint64_t seen = fb_wakeup_seen(&self->wakeup);
    struct fb_flushed_partition* first;
    int64_t wait_ms = -1;

    flush_due(self);
    first = first_due(self);
    self->planned_ms = first == NULL ? NEVER : first->due_ms;
    if (self->planned_ms != NEVER) {
      wait_ms = self->planned_ms - fb_wakeup_now_ms();
      if (wait_ms < 0) wait_ms = 0;
    }
    if (self->is_closing) break;
    pthread_mutex_unlock(&self->lock);
    fb_wakeup_wait(&self->wakeup, seen, wait_ms);
    pthread_mutex_lock(&self->lock);
    self->turn_count++;
  }
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

/* ---- partitions ---------------------------------------------------------------------------------- */

static void free_flushed(struct fb_flushed_partition* entry) {
  free(entry->listed);
  free(entry->is_listed);
  free(entry->batch);
  free(entry);
}

static struct fb_flushed_partition* new_entry(struct fb_output_flusher* self, struct fb_result_partition* partition,
                                              int64_t interval_ms) {
  size_t n = (size_t)partition->subpartition_count + 1;
  struct fb_flushed_partition* entry = calloc(1, sizeof(*entry));

  if (entry == NULL) return NULL;
  entry->flusher = self;
  entry->partition = partition;
  entry->interval_ms = interval_ms;
  entry->due_ms = NEVER;
  entry->listed = malloc(n * sizeof(*entry->listed));
  entry->is_listed = calloc(n, sizeof(*entry->is_listed));
  entry->batch = malloc(n * sizeof(*entry->batch));
  if (entry->listed != NULL && entry->is_listed != NULL && entry->batch != NULL) return entry;
  free_flushed(entry);
  return NULL;
}

int fb_output_flusher_add(struct fb_output_flusher* self, struct fb_result_partition* partition, int64_t interval_ms) {
  struct fb_flushed_partition* entry;

  if (interval_ms <= 0) return FB_EARGUMENT;
  if (partition->flush_entry != NULL) return FB_ESTATE;
  entry = new_entry(self, partition, interval_ms);
  if (entry == NULL) return FB_ENOMEM;
  fb_result_partition_retain(partition);
  pthread_mutex_lock(&self->lock);
  entry->next = self->partitions;
  self->partitions = entry;
  pthread_mutex_unlock(&self->lock);
  /* Marks of an earlier flusher would keep this one from being told. Relaxed: only the producer reads them now. */
  for (uint32_t i = 0; i <= partition->subpartition_count; i++)
    atomic_store_explicit(&partition->dirty[i], 0, memory_order_relaxed);
  partition->flush_entry = entry;
  partition->on_written = on_written;
  return FB_OK;
}

void fb_output_flusher_remove(struct fb_output_flusher* self, struct fb_result_partition* partition) {
  struct fb_flushed_partition* entry = partition->flush_entry;
  struct fb_flushed_partition** link = &self->partitions;

  if (entry == NULL || entry->flusher != self) return;
  partition->on_written = NULL;
  partition->flush_entry = NULL;
  pthread_mutex_lock(&self->lock);
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  while (self->busy == entry) pthread_cond_wait(&self->idle, &self->lock);
  pthread_mutex_unlock(&self->lock);
  free_flushed(entry);
  fb_result_partition_drop(partition);
}

uint32_t fb_output_flusher_partition_count(struct fb_output_flusher* self) {
  uint32_t count = 0;

  pthread_mutex_lock(&self->lock);
  for (struct fb_flushed_partition* entry = self->partitions; entry != NULL; entry = entry->next) count++;
  pthread_mutex_unlock(&self->lock);
  return count;
}

uint64_t fb_output_flusher_turn_count(struct fb_output_flusher* self) {
  uint64_t count;

  pthread_mutex_lock(&self->lock);
  count = self->turn_count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

/* ---- life ---------------------------------------------------------------------------------------- */

int fb_output_flusher_open(struct fb_output_flusher** self) {
  struct fb_output_flusher* opened = calloc(1, sizeof(*opened));
  int code = FB_ENOMEM;

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  opened->planned_ms = NEVER;
  if (pthread_mutex_init(&opened->lock, NULL) != 0) goto no_lock;
  if (pthread_cond_init(&opened->idle, NULL) != 0) goto no_condition;
  if (fb_wakeup_open(&opened->wakeup) < 0) goto no_wakeup;
  code = fb_wakeup_start_thread(&opened->thread, run_flusher, opened);
  if (code < 0) goto no_thread;
  *self = opened;
  return FB_OK;

no_thread:
  fb_wakeup_close(&opened->wakeup);
no_wakeup:
  pthread_cond_destroy(&opened->idle);
no_condition:
  pthread_mutex_destroy(&opened->lock);
no_lock:
  free(opened);
  return code;
}

void fb_output_flusher_close(struct fb_output_flusher* self) {
  if (self == NULL) return;
  pthread_mutex_lock(&self->lock);
  self->is_closing = true;
  pthread_mutex_unlock(&self->lock);
  fb_wakeup_ring(&self->wakeup);
  pthread_join(self->thread, NULL);

  while (self->partitions != NULL) fb_output_flusher_remove(self, self->partitions->partition);
  fb_wakeup_close(&self->wakeup);
  pthread_cond_destroy(&self->idle);
  pthread_mutex_destroy(&self->lock);
  free(self);
}
