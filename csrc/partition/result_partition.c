#include "partition/result_partition.h"

#include <stdlib.h>
#include <string.h>

#define RESTORED INT32_MIN /* in place of the length of a partial record: it is not known */

/* ---- the bell ----------------------------------------------------------------------------------------- */

static struct fb_wakeup* bell_of(struct fb_result_partition* self) {
  /* Acquire, partner of the store in fb_result_partition_share_wakeup(): a reader rings what was made there. */
  return atomic_load_explicit(&self->wakeup, memory_order_acquire);
}

int fb_result_partition_share_wakeup(struct fb_result_partition* self, struct fb_wakeup_shared* wakeup) {
  int code;

  if (self->task_wakeup != NULL || atomic_load_explicit(&self->is_closed, memory_order_relaxed)) return FB_ESTATE;
  code = fb_local_buffer_pool_add_wakeup(self->pool, &wakeup->wakeup);
  if (code < 0) return code;
  fb_wakeup_shared_retain(wakeup);
  self->task_wakeup = wakeup;
  /* Release, partner of bell_of(). Its own stays open: somebody may just have looked up who is to be rung. */
  atomic_store_explicit(&self->wakeup, &wakeup->wakeup, memory_order_release);
  fb_local_buffer_pool_remove_wakeup(self->pool, &self->own_wakeup);
  return FB_OK;
}

/* ---- builders ---------------------------------------------------------------------------------------
 *
 * `target` is a subpartition, or subpartition_count for all of them (broadcast). */

static bool is_broadcast(const struct fb_result_partition* self, uint32_t target) {
  return target == self->subpartition_count;
}

static struct fb_buffer_builder* slot_of(struct fb_result_partition* self, uint32_t target) {
  return is_broadcast(self, target) ? &self->broadcast : &self->unicast[target];
}

/* Only the producer counts, so a load and a store do; relaxed: the figures order nothing. */
static void count_more(_Atomic uint64_t* counter, uint64_t more) {
  uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, value + more, memory_order_relaxed);
}

static void finish_builder(struct fb_result_partition* self, uint32_t target) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  uint32_t copies = is_broadcast(self, target) ? self->subpartition_count : 1;
  uint32_t bytes;

  if (builder->buffer == NULL) return;
  bytes = fb_buffer_builder_finish(builder);
  count_more(&self->total_buffers, copies);
  count_more(&self->total_written_bytes, (uint64_t)bytes * copies);
  fb_buffer_builder_close(builder);
  if (!is_broadcast(self, target)) self->open_unicast_count--;
}

static void finish_unicast_builders(struct fb_result_partition* self) {
  if (self->open_unicast_count == 0) return;
  for (uint32_t i = 0; i < self->subpartition_count; i++) finish_builder(self, i);
}

static void finish_builders(struct fb_result_partition* self) {
  finish_builder(self, self->subpartition_count);
  finish_unicast_builders(self);
}

/* Nobody will read what is written to `target`: all of its subpartitions take nothing more, not even their end. Only
 * therefore may something be dropped without a word. */
static bool is_gone(struct fb_result_partition* self, uint32_t target) {
  if (is_broadcast(self, target)) return fb_result_partition_is_released(self);
  return fb_subpartition_is_released(&self->subpartitions[target]);
}

/* What a producer is told that writes for nobody: nothing, if those readers took leave. */
static int code_of_gone(struct fb_result_partition* self) { return fb_result_partition_verdict(self); }

static int reserve_builder(struct fb_result_partition* self, uint32_t target) {
  if (!is_broadcast(self, target)) return fb_subpartition_reserve(&self->subpartitions[target]);
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    int code = fb_subpartition_reserve(&self->subpartitions[i]);
    if (code < 0) return code;
  }
  return FB_OK;
}

/* Opens a builder over a buffer of the pool. Room in the queues is made first, so that its consumer will find
 * a place: then there is nothing to undo. */
static int request_builder(struct fb_result_partition* self, uint32_t target) {
  struct fb_buffer* buffer = NULL;
  int code = reserve_builder(self, target);

  if (code < 0) return code;
  /* A broadcast buffer counts for channel 0, as in Flink. */
  code = fb_local_buffer_pool_request(self->pool, is_broadcast(self, target) ? 0 : target, &buffer);
  if (code < 0) return code;
  if (buffer == NULL) return FB_NEEDS_BUFFER;
  fb_buffer_builder_open(slot_of(self, target), buffer);
  if (!is_broadcast(self, target)) self->open_unicast_count++;
  return FB_OK;
}

/* Adds a consumer (taken over) to the target's queues. Returns the size that its readers would like buffers
 * to have: of several the smallest. A reader that is gone has no wish, and gets nothing. */
static int32_t add_consumer(struct fb_result_partition* self, uint32_t target, struct fb_buffer_consumer* consumer,
                            int32_t partial_record_length) {
  int32_t smallest = INT32_MAX;

  if (!is_broadcast(self, target)) {
    int code = fb_subpartition_add(&self->subpartitions[target], consumer, partial_record_length, &smallest);
    return code < 0 ? INT32_MAX : smallest;
  }
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    struct fb_buffer_consumer copy;
    int32_t size;

    fb_buffer_consumer_copy(consumer, &copy);
    if (fb_subpartition_add(&self->subpartitions[i], &copy, partial_record_length, &size) < 0) continue;
    if (size < smallest) smallest = size;
  }
  fb_buffer_consumer_close(consumer);
  return smallest;
}

/* Makes the open builder's buffer known to its readers, and gives it the size they want (0: no wish). */
static int register_builder(struct fb_result_partition* self, uint32_t target, int32_t partial_record_length) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  struct fb_buffer_consumer consumer;
  int32_t size;
  int code;

  code = fb_buffer_builder_consumer(builder, true, &consumer);
  if (code < 0) return code;
  size = add_consumer(self, target, &consumer, partial_record_length);
  if (size > 0 && size != INT32_MAX) fb_buffer_builder_trim(builder, (uint32_t)size);
  return FB_OK;
}

static int open_builder(struct fb_result_partition* self, uint32_t target) {
  int code;

  if (self->is_finished) return FB_EFINISHED;
  if (self->continued != FB_NO_CHANNEL) return FB_ESTATE;
  if (is_gone(self, target)) {
    finish_builder(self, target);
    return code_of_gone(self);
  }
  if (slot_of(self, target)->buffer != NULL) return FB_OK;
  if (is_broadcast(self, target)) finish_unicast_builders(self);
  else finish_builder(self, self->subpartition_count);
  code = request_builder(self, target);
  return code == FB_OK ? register_builder(self, target, 0) : code;
}

int fb_result_partition_open_unicast(struct fb_result_partition* self, uint32_t subpartition) {
  if (subpartition >= self->subpartition_count) return FB_EARGUMENT;
  return open_builder(self, subpartition);
}

int fb_result_partition_open_broadcast(struct fb_result_partition* self) {
  return open_builder(self, self->subpartition_count);
}

void fb_result_partition_finish_unicast(struct fb_result_partition* self, uint32_t subpartition) {
  finish_builder(self, subpartition);
}

void fb_result_partition_finish_broadcast(struct fb_result_partition* self) {
  finish_builder(self, self->subpartition_count);
}

/* ---- records ------------------------------------------------------------------------------------- */

/* When the record will overflow a buffer that its readers wanted small and the pool has no other, the wish is
 * ignored: better a larger buffer than a producer that is blocked. One byte more, so that it does not fill up
 * at once. */
static void widen_builder(struct fb_result_partition* self, struct fb_buffer_builder* builder, size_t size) {
  uint32_t writable = fb_buffer_builder_writable(builder);
  size_t segment_size = builder->buffer->segment.size;
  size_t missing = size - writable;

  if (builder->capacity == segment_size || fb_local_buffer_pool_is_available(self->pool)) return;
  if (missing > segment_size) missing = segment_size;
  fb_buffer_builder_trim(builder, (uint32_t)(builder->capacity + missing + 1));
}

static uint32_t append_bytes(struct fb_result_partition* self, struct fb_buffer_builder* builder, const uint8_t** data,
                             size_t* size) {
  size_t taken;

  if (*size >= fb_buffer_builder_writable(builder)) widen_builder(self, builder, *size);
  taken = fb_buffer_builder_append(builder, *data, *size);
  fb_buffer_builder_commit(builder);
  *data += taken;
  *size -= taken;
  return (uint32_t)taken;
}

static int drop_rest(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size) {
  finish_builder(self, target);
  self->continued = FB_NO_CHANNEL;
  *data += *size;
  *size = 0;
  return code_of_gone(self);
}

/* The beginning of a record: its buffer is made known first, then written. */
static int start_record(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  int code = open_builder(self, target);

  if (code != FB_OK || builder->buffer == NULL) return code;
  /* No buffer is made so small that its first record would have to be cut. */
  if (builder->position == 0 && *size > builder->capacity)
    fb_buffer_builder_trim(builder, *size < INT32_MAX ? (uint32_t)*size : INT32_MAX);
  append_bytes(self, builder, data, size);
  return FB_OK;
}

/* The next buffer of a record: written first, then made known, since the length of the partial record at its
 * front goes with it. */
static int continue_record(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size) {
  int code;

  finish_builder(self, target);
  self->continued = target;
  code = request_builder(self, target);
  if (code != FB_OK) return code;
  return register_builder(self, target, (int32_t)append_bytes(self, slot_of(self, target), data, size));
}

static int emit_record(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  int code = FB_OK;

  if (self->is_finished) return FB_EFINISHED;
  if (self->continued != FB_NO_CHANNEL && self->continued != target) return FB_ESTATE;
  if (self->continued == FB_NO_CHANNEL) code = start_record(self, target, data, size);
  while (code == FB_OK && *size > 0 && !is_gone(self, target)) code = continue_record(self, target, data, size);
  if (code != FB_OK) return code;
  if (*size > 0) return drop_rest(self, target, data, size);

  self->continued = FB_NO_CHANNEL;
  if (builder->buffer != NULL && fb_buffer_builder_is_full(builder)) finish_builder(self, target);
  return FB_OK;
}

int fb_result_partition_emit(struct fb_result_partition* self, uint32_t subpartition, const uint8_t** data,
                             size_t* size) {
  if (subpartition >= self->subpartition_count) return FB_EARGUMENT;
  return emit_record(self, subpartition, data, size);
}

int fb_result_partition_broadcast(struct fb_result_partition* self, const uint8_t** data, size_t* size) {
  return emit_record(self, self->subpartition_count, data, size);
}

/* A stock helps even while another channel's quota makes the pool as a whole unavailable. */
static bool has_pool_room(struct fb_result_partition* self) {
  return fb_local_buffer_pool_is_available(self->pool) || fb_local_buffer_pool_stock(self->pool) > 0 ||
         fb_result_partition_is_released(self);
}

bool fb_result_partition_wait(struct fb_result_partition* self, int64_t timeout_ms) {
  struct fb_wakeup* bell = bell_of(self);
  uint64_t seen = fb_wakeup_seen(bell);
  int64_t since_ms;

  if (has_pool_room(self)) return true;
  since_ms = fb_wakeup_now_ms();
  fb_wakeup_wait(bell, seen, timeout_ms);
  count_more(&self->hard_back_pressured_ms, (uint64_t)(fb_wakeup_now_ms() - since_ms));
  return has_pool_room(self);
}

bool fb_result_partition_wait_available(struct fb_result_partition* self, uint32_t subpartition, int64_t timeout_ms) {
  struct fb_buffer_builder* builder = slot_of(self, subpartition);
  struct fb_wakeup* bell = bell_of(self);
  uint64_t seen = fb_wakeup_seen(bell);
  int64_t since_ms;

  if (builder->buffer == NULL || builder->capacity == builder->buffer->segment.size) return true;
  if (has_pool_room(self) || is_gone(self, subpartition)) return true;
  since_ms = fb_wakeup_now_ms();
  fb_wakeup_wait(bell, seen, timeout_ms);
  count_more(&self->soft_back_pressured_ms, (uint64_t)(fb_wakeup_now_ms() - since_ms));
  return has_pool_room(self) || is_gone(self, subpartition);
}

/* ---- events -------------------------------------------------------------------------------------- */

static int check_event(const struct fb_result_partition* self, enum fb_buffer_data_type type) {
  if ((unsigned)type >= FB_DATA_TYPE_COUNT || !fb_buffer_data_type_is_event(type)) return FB_EARGUMENT;
  if (self->is_finished) return FB_EFINISHED;
  return self->continued == FB_NO_CHANNEL || fb_buffer_data_type_has_priority(type) ? FB_OK : FB_ESTATE;
}

static int add_event(struct fb_result_partition* self, uint32_t target, const uint8_t* data, size_t size,
                     enum fb_buffer_data_type type) {
  struct fb_buffer_consumer consumer;
  struct fb_buffer_slice event;
  int code;

  code = check_event(self, type);
  if (code < 0) return code;
  if (is_gone(self, target)) return code_of_gone(self);
  code = reserve_builder(self, target);
  if (code < 0) return code;
  code = fb_buffer_new_unpooled(data, size, type, &event);
  if (code < 0) return code;

  if (is_broadcast(self, target)) finish_unicast_builders(self);
  finish_builder(self, target);
  finish_builder(self, self->subpartition_count);
  fb_buffer_consumer_open(&consumer, &event);
  add_consumer(self, target, &consumer, 0);
  return FB_OK;
}

int fb_result_partition_broadcast_event(struct fb_result_partition* self, const uint8_t* data, size_t size,
                                        enum fb_buffer_data_type type) {
  return add_event(self, self->subpartition_count, data, size, type);
}

int fb_result_partition_emit_event(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                   size_t size, enum fb_buffer_data_type type) {
  if (subpartition >= self->subpartition_count) return FB_EARGUMENT;
  return add_event(self, subpartition, data, size, type);
}

/* ---- checkpoint barriers ------------------------------------------------------------------------- */

static int reserve_overtaken(struct fb_result_partition* self, struct fb_slice_list* overtaken) {
  int code = FB_OK;

  for (uint32_t i = 0; i < self->subpartition_count && code == FB_OK; i++)
    code = fb_subpartition_reserve_overtaken(&self->subpartitions[i], &overtaken[i]);
  return code;
}

int fb_result_partition_broadcast_barrier(struct fb_result_partition* self, const uint8_t* data, size_t size,
                                          struct fb_slice_list* overtaken) {
  struct fb_buffer_slice event;
  struct fb_buffer_consumer barrier;
  int code = check_event(self, FB_PRIORITIZED_EVENT_BUFFER);

  if (code == FB_OK && self->continued != FB_NO_CHANNEL) code = FB_ESTATE;
  if (code < 0) return code;
  if (is_gone(self, self->subpartition_count)) return code_of_gone(self);
  code = reserve_builder(self, self->subpartition_count);
  if (code == FB_OK) code = reserve_overtaken(self, overtaken);
  if (code == FB_OK) code = fb_buffer_new_unpooled(data, size, FB_PRIORITIZED_EVENT_BUFFER, &event);
  if (code < 0) return code;

  finish_builders(self);
  fb_buffer_consumer_open(&barrier, &event);
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    struct fb_buffer_consumer copy;
    fb_buffer_consumer_copy(&barrier, &copy);
    fb_subpartition_add_overtaking(&self->subpartitions[i], &copy, &overtaken[i]); /* one that is gone needs none */
  }
  fb_buffer_consumer_close(&barrier);
  return FB_OK;
}

int fb_result_partition_convert_barrier(struct fb_result_partition* self, int64_t checkpoint_id,
                                        struct fb_slice_list* overtaken) {
  int code = reserve_overtaken(self, overtaken);
  int is_anywhere = 0;

  for (uint32_t i = 0; i < self->subpartition_count && code >= 0; i++) {
    code = fb_subpartition_convert_barrier(&self->subpartitions[i], checkpoint_id, &overtaken[i]);
    is_anywhere |= code == 1;
  }
  return code < 0 ? code : is_anywhere;
}

bool fb_result_partition_has_barrier(struct fb_result_partition* self, int64_t checkpoint_id) {
  for (uint32_t i = 0; i < self->subpartition_count; i++)
    if (fb_subpartition_has_barrier(&self->subpartitions[i], checkpoint_id)) return true;
  return false;
}

static void on_barrier_polled(struct fb_subpartition* subpartition) {
  struct fb_result_partition* self = subpartition->owner;
  fb_wakeup_ring(bell_of(self));
}

/* One buffer's worth of what is restored; the reader has room for no more at once. */
static int restore_part(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data, uint32_t size) {
  struct fb_buffer_slice slice;
  struct fb_buffer_consumer consumer;
  int code = fb_subpartition_reserve(&self->subpartitions[subpartition]);

  if (code == FB_OK) code = fb_buffer_new_unpooled(data, size, FB_DATA_BUFFER, &slice);
  if (code < 0) return code;
  fb_buffer_consumer_open(&consumer, &slice);
  add_consumer(self, subpartition, &consumer, RESTORED);
  count_more(&self->total_buffers, 1);
  count_more(&self->total_written_bytes, size);
  return FB_OK;
}

int fb_result_partition_restore(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                size_t size) {
  uint32_t part = fb_local_buffer_pool_segment_size(self->pool);
  int code = FB_OK;

  if (subpartition >= self->subpartition_count) return FB_EARGUMENT;
  if (self->is_finished || fb_subpartition_total_buffers(&self->subpartitions[subpartition]) > 0) return FB_ESTATE;
  while (size > 0 && code == FB_OK && !is_gone(self, subpartition)) {
    uint32_t taken = size < part ? (uint32_t)size : part;
    code = restore_part(self, subpartition, data, taken);
    data += taken;
    size -= taken;
  }
  return code;
}

/* ---- flush, end ---------------------------------------------------------------------------------- */

void fb_result_partition_flush(struct fb_result_partition* self, uint32_t subpartition) {
  fb_subpartition_flush(&self->subpartitions[subpartition]);
}

void fb_result_partition_flush_all(struct fb_result_partition* self) {
  for (uint32_t i = 0; i < self->subpartition_count; i++) fb_subpartition_flush(&self->subpartitions[i]);
}

int fb_result_partition_finish(struct fb_result_partition* self) {
  struct fb_buffer_consumer end;
  int code;

  if (self->is_finished) return FB_EFINISHED;
  if (self->continued != FB_NO_CHANNEL) return FB_ESTATE;
  if (fb_result_partition_verdict(self) < 0) return fb_result_partition_verdict(self);
  /* All memory first: no channel may end and then be written to, because another one could not end. */
  code = reserve_builder(self, self->subpartition_count);
  if (code == FB_OK) code = fb_subpartition_new_end(&end);
  if (code < 0) return code;

  finish_builders(self);
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    struct fb_buffer_consumer copy;
    fb_buffer_consumer_copy(&end, &copy);
    fb_subpartition_add_end(&self->subpartitions[i], &copy); /* one that is gone needs none */
  }
  fb_buffer_consumer_close(&end);
  self->is_finished = true;
  return FB_OK;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* Whether it is released, or about to be. */
static bool is_going(struct fb_result_partition* self) {
  return atomic_load_explicit(&self->is_going, memory_order_relaxed);
}

/* One of the n readers, or the producer, needs the partition no longer; after the last it goes. */
static void drop_user(struct fb_result_partition* self) {
  /* Both halves: whoever is last sees what the others did before. */
  if (atomic_fetch_sub_explicit(&self->users, 1, memory_order_acq_rel) != 1) return;
  fb_result_partition_release(self);
  if (self->on_consumed != NULL) self->on_consumed(self, self->on_consumed_context);
}

static void on_subpartition_consumed(struct fb_subpartition* subpartition) {
  struct fb_result_partition* self = subpartition->owner;

  fb_wakeup_ring(bell_of(self)); /* who waits for its acknowledgement waits in vain */
  drop_user(self);
}

static void free_partition(struct fb_result_partition* self) {
  for (uint32_t i = 0; self->subpartitions != NULL && i < self->subpartition_count; i++)
    fb_subpartition_close(&self->subpartitions[i]);
  fb_local_buffer_pool_close(self->pool);
  fb_wakeup_close(&self->own_wakeup);
  if (self->task_wakeup != NULL) fb_wakeup_shared_drop(self->task_wakeup);
  free(self->subpartitions);
  free(self->unicast);
  free((void*)self->dirty);
  free((void*)self->acknowledged);
  free(self->record_counts);
  free(atomic_load_explicit(&self->failure, memory_order_relaxed)); /* nobody else is left */
  free(self);
}

static int open_partition(struct fb_result_partition* self) {
  uint32_t n = self->subpartition_count;
  int code;

  self->subpartitions = calloc(n, sizeof(*self->subpartitions));
  self->unicast = calloc(n, sizeof(*self->unicast));
  self->dirty = calloc((size_t)n + 1, sizeof(*self->dirty));
  self->acknowledged = calloc(n, sizeof(*self->acknowledged));
  self->record_counts = calloc((size_t)n + 1, sizeof(*self->record_counts));
  if (self->subpartitions == NULL || self->unicast == NULL || self->dirty == NULL) return FB_ENOMEM;
  if (self->acknowledged == NULL || self->record_counts == NULL) return FB_ENOMEM;
  for (uint32_t i = 0; i < n; i++) {
    code = fb_subpartition_open(&self->subpartitions[i], i, self->type == FB_PIPELINED_APPROXIMATE);
    if (code < 0) return code;
    self->subpartitions[i].owner = self;
    self->subpartitions[i].on_consumed = on_subpartition_consumed;
    self->subpartitions[i].on_barrier_polled = on_barrier_polled;
  }
  atomic_init(&self->wakeup, &self->own_wakeup);
  code = fb_wakeup_open(&self->own_wakeup);
  return code < 0 ? code : fb_local_buffer_pool_add_wakeup(self->pool, &self->own_wakeup);
}

int fb_result_partition_open(enum fb_result_partition_type type, uint32_t subpartition_count,
                             struct fb_local_buffer_pool* pool, struct fb_result_partition** self) {
  struct fb_result_partition* opened = NULL;
  int code = FB_EARGUMENT;

  *self = NULL;
  if (subpartition_count > 0 && subpartition_count <= INT32_MAX) {
    opened = calloc(1, sizeof(*opened));
    code = FB_ENOMEM;
  }
  if (opened == NULL) {
    fb_local_buffer_pool_close(pool);
    return code;
  }
  opened->type = type;
  opened->subpartition_count = subpartition_count;
  opened->continued = FB_NO_CHANNEL;
  opened->pool = pool;
  atomic_init(&opened->references, 1);
  atomic_init(&opened->users, subpartition_count + 1);
  atomic_init(&opened->unacknowledged_count, subpartition_count);
  code = open_partition(opened);
  if (code < 0) free_partition(opened);
  else *self = opened;
  return code;
}

void fb_result_partition_retain(struct fb_result_partition* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_result_partition_drop(struct fb_result_partition* self) {
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  fb_result_partition_close(self);
  free_partition(self);
}

void fb_result_partition_close(struct fb_result_partition* self) {
  /* Both halves: two may come at once, and the second sees what was written before. */
  if (atomic_exchange_explicit(&self->is_closed, true, memory_order_acq_rel)) return;
  finish_builders(self);
  fb_local_buffer_pool_remove_wakeup(self->pool, bell_of(self));
  fb_local_buffer_pool_destroy(self->pool);
  /* Readers would wait for an end that nobody is left to write. */
  if (!self->is_finished && !is_going(self)) fb_result_partition_fail(self, "its producer closed it before its end");
  drop_user(self);
}

void fb_result_partition_release(struct fb_result_partition* self) {
  if (fb_result_partition_is_released(self)) return;
  /* Relaxed: the stores below hand it on to whoever sees a subpartition released. Partner of is_going(). */
  atomic_store_explicit(&self->is_going, true, memory_order_relaxed);
  /* The parts before the whole: a producer that drops a record because the partition is released must find no
   * subpartition that still takes the end of its channel. A second caller goes the same way and returns no sooner. */
  for (uint32_t i = 0; i < self->subpartition_count; i++) fb_subpartition_release(&self->subpartitions[i]);
  /* Release, partner of fb_result_partition_is_released(). */
  atomic_store_explicit(&self->is_released, true, memory_order_release);
  fb_wakeup_ring(bell_of(self));
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
  int none = FB_OK;

  keep_failure(self, cause);
  /* Release, partner of fb_result_partition_verdict(). */
  atomic_compare_exchange_strong_explicit(&self->verdict, &none, verdict, memory_order_release, memory_order_relaxed);
  fb_result_partition_release(self);
}

void fb_result_partition_lose_reader(struct fb_result_partition* self, const char* cause) {
  if (self->type == FB_PIPELINED_APPROXIMATE || is_going(self)) return;
  stop_producer(self, FB_ELOST, cause);
}

void fb_result_partition_abort(struct fb_result_partition* self, const char* cause) {
  stop_producer(self, FB_ERELEASED, cause);
}

const char* fb_result_partition_failure(struct fb_result_partition* self) {
  /* Acquire, partner of the exchange in fb_result_partition_fail(): the text is complete. */
  return atomic_load_explicit(&self->failure, memory_order_acquire);
}

/* ---- acknowledgements ------------------------------------------------------------------------------ */

void fb_result_partition_acknowledge(struct fb_result_partition* self, uint32_t subpartition) {
  /* Relaxed: only who sets the mark counts, and the count orders. Its release half is the partner of
   * fb_result_partition_is_acknowledged(); its acquire half hands the other readers' part on. */
  if (atomic_exchange_explicit(&self->acknowledged[subpartition], true, memory_order_relaxed)) return;
  if (atomic_fetch_sub_explicit(&self->unacknowledged_count, 1, memory_order_acq_rel) == 1)
    fb_wakeup_ring(bell_of(self));
}

/* A reader is gone that has not acknowledged, and never will. */
static bool is_acknowledgement_lost(struct fb_result_partition* self) {
  for (uint32_t i = 0; i < self->subpartition_count; i++)
    /* In this order: a reader acknowledges first and goes then. */
    if (fb_subpartition_is_released(&self->subpartitions[i]) &&
        !atomic_load_explicit(&self->acknowledged[i], memory_order_relaxed))
      return true;
  return false;
}

bool fb_result_partition_is_answered(struct fb_result_partition* self) {
  return fb_result_partition_is_acknowledged(self) || is_acknowledgement_lost(self);
}

bool fb_result_partition_wait_acknowledged(struct fb_result_partition* self, int64_t timeout_ms) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(timeout_ms);
  struct fb_wakeup* bell = bell_of(self);
  uint64_t seen;

  do {
    seen = fb_wakeup_seen(bell);
    if (fb_result_partition_is_answered(self)) return true;
  } while (fb_wakeup_wait_until(bell, seen, deadline_ms) == FB_OK);
  return false;
}
