#include "partition/result_partition.h"

/* The producer's side of a result partition: builders, records and events. */

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

void fb_result_partition_count_written(struct fb_result_partition* self, uint64_t buffers, uint64_t bytes) {
  count_more(&self->total_buffers, buffers);
  count_more(&self->total_written_bytes, bytes);
}

/* The producer alone sets it. */
static bool has_finished(struct fb_result_partition* self) {
  return atomic_load_explicit(&self->is_finished, memory_order_relaxed);
}

static void finish_builder(struct fb_result_partition* self, uint32_t target) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  uint32_t copies = is_broadcast(self, target) ? self->subpartition_count : 1;
  uint32_t bytes;

  if (builder->buffer == NULL) return;
  bytes = fb_buffer_builder_finish(builder);
  fb_result_partition_count_written(self, copies, (uint64_t)bytes * copies);
  fb_buffer_builder_close(builder);
  if (!is_broadcast(self, target)) self->open_unicast_count--;
}

static void finish_unicast_builders(struct fb_result_partition* self) {
  if (self->open_unicast_count == 0) return;
  for (uint32_t i = 0; i < self->subpartition_count; i++) finish_builder(self, i);
}

void fb_result_partition_finish_builders(struct fb_result_partition* self) {
  finish_builder(self, self->subpartition_count);
  finish_unicast_builders(self);
}

/* What a producer is told that writes for nobody: nothing, if those readers took leave. All subpartitions of the target
 * take nothing more then, not even their end; only therefore may something be dropped without a word. */
static int code_of_gone(struct fb_result_partition* self) { return fb_result_partition_verdict(self); }

static int reserve_builder(struct fb_result_partition* self, uint32_t target) {
  return self->kind->reserve != NULL ? self->kind->reserve(self, target) : FB_OK;
}

/* Opens a builder over a buffer of the pool. Room for its consumer is made first: then there is nothing to undo. */
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

/* Makes the open builder's buffer known to its readers, and gives it the size they want (0: no wish). */
static int register_builder(struct fb_result_partition* self, uint32_t target, int32_t partial_record_length) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  struct fb_buffer_consumer consumer;
  int32_t size = INT32_MAX;
  int code;

  code = fb_buffer_builder_consumer(builder, true, &consumer);
  if (code == FB_OK) code = self->kind->add(self, target, &consumer, partial_record_length, &size);
  if (code < 0) return code;
  if (size > 0 && size != INT32_MAX) fb_buffer_builder_trim(builder, (uint32_t)size);
  return FB_OK;
}

static int open_builder(struct fb_result_partition* self, uint32_t target) {
  int code;

  if (has_finished(self)) return FB_EFINISHED;
  if (self->continued != FB_NO_CHANNEL) return FB_ESTATE;
  if (fb_result_partition_is_gone(self, target)) {
    finish_builder(self, target);
    return code_of_gone(self);
  }
  if (self->takes_records || slot_of(self, target)->buffer != NULL) return FB_OK;
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

/* The kind has no builders now, and takes the bytes itself. */
static int give_record(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size) {
  size_t before = *size;
  int code;

  if (fb_result_partition_is_gone(self, target)) return drop_rest(self, target, data, size);
  code = self->kind->emit(self, target, data, size);
  if (code == FB_OK) self->continued = FB_NO_CHANNEL;
  else if (code == FB_NEEDS_BUFFER && *size < before) self->continued = target;
  return code;
}

static int emit_record(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size) {
  struct fb_buffer_builder* builder = slot_of(self, target);
  int code = FB_OK;

  if (has_finished(self)) return FB_EFINISHED;
  if (self->continued != FB_NO_CHANNEL && self->continued != target) return FB_ESTATE;
  if (self->takes_records) return give_record(self, target, data, size);
  if (self->continued == FB_NO_CHANNEL) code = start_record(self, target, data, size);
  while (code == FB_OK && *size > 0 && !fb_result_partition_is_gone(self, target))
    code = continue_record(self, target, data, size);
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

/* ---- room ------------------------------------------------------------------------------------------- */

/* A stock helps even while another channel's quota makes the pool as a whole unavailable. */
static bool has_pool_room(struct fb_result_partition* self) {
  return fb_local_buffer_pool_is_available(self->pool) || fb_local_buffer_pool_stock(self->pool) > 0 ||
         fb_result_partition_is_released(self);
}

bool fb_result_partition_has_room(struct fb_result_partition* self) {
  return self->kind->make_room != NULL || fb_local_buffer_pool_is_available(self->pool) ||
         fb_result_partition_is_released(self);
}

bool fb_result_partition_wait(struct fb_result_partition* self, int64_t timeout_ms) {
  struct fb_wakeup* bell = fb_result_partition_bell(self);
  uint64_t seen = fb_wakeup_seen(bell);
  int64_t since_ms;

  /* An error is in the verdict, and the partition released. */
  if (self->kind->make_room != NULL && self->kind->make_room(self) != FB_NEEDS_BUFFER) return true;
  if (has_pool_room(self)) return true;
  since_ms = fb_wakeup_now_ms();
  fb_wakeup_wait(bell, seen, timeout_ms);
  count_more(&self->hard_back_pressured_ms, (uint64_t)(fb_wakeup_now_ms() - since_ms));
  return has_pool_room(self);
}

bool fb_result_partition_wait_available(struct fb_result_partition* self, uint32_t subpartition, int64_t timeout_ms) {
  struct fb_buffer_builder* builder = slot_of(self, subpartition);
  struct fb_wakeup* bell = fb_result_partition_bell(self);
  uint64_t seen = fb_wakeup_seen(bell);
  int64_t since_ms;

  if (builder->buffer == NULL || builder->capacity == builder->buffer->segment.size) return true;
  if (self->kind->make_room != NULL || has_pool_room(self)) return true;
  if (fb_result_partition_is_gone(self, subpartition)) return true;
  since_ms = fb_wakeup_now_ms();
  fb_wakeup_wait(bell, seen, timeout_ms);
  count_more(&self->soft_back_pressured_ms, (uint64_t)(fb_wakeup_now_ms() - since_ms));
  return has_pool_room(self) || fb_result_partition_is_gone(self, subpartition);
}

/* ---- events -------------------------------------------------------------------------------------- */

static int check_event(struct fb_result_partition* self, enum fb_buffer_data_type type) {
  if ((unsigned)type >= FB_DATA_TYPE_COUNT || !fb_buffer_data_type_is_event(type)) return FB_EARGUMENT;
  if (has_finished(self)) return FB_EFINISHED;
  return self->continued == FB_NO_CHANNEL || fb_buffer_data_type_has_priority(type) ? FB_OK : FB_ESTATE;
}

static int add_event(struct fb_result_partition* self, uint32_t target, const uint8_t* data, size_t size,
                     enum fb_buffer_data_type type) {
  struct fb_buffer_consumer consumer;
  struct fb_buffer_slice event;
  int32_t size_wanted = INT32_MAX; /* nobody asks */
  int code;

  code = check_event(self, type);
  if (code < 0) return code;
  if (fb_result_partition_is_gone(self, target)) return code_of_gone(self);
  code = reserve_builder(self, target);
  if (code < 0) return code;
  code = fb_buffer_new_unpooled(data, size, type, &event);
  if (code < 0) return code;

  if (is_broadcast(self, target)) finish_unicast_builders(self);
  finish_builder(self, target);
  finish_builder(self, self->subpartition_count);
  fb_buffer_consumer_open(&consumer, &event);
  return self->kind->add(self, target, &consumer, 0, &size_wanted);
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

int fb_result_partition_broadcast_barrier(struct fb_result_partition* self, const uint8_t* data, size_t size,
                                          struct fb_slice_list* overtaken) {
  struct fb_buffer_slice event;
  struct fb_buffer_consumer barrier;
  int code = check_event(self, FB_PRIORITIZED_EVENT_BUFFER);

  if (code == FB_OK && (self->continued != FB_NO_CHANNEL || self->kind->broadcast_barrier == NULL)) code = FB_ESTATE;
  if (code < 0) return code;
  if (fb_result_partition_is_gone(self, self->subpartition_count)) return code_of_gone(self);
  code = reserve_builder(self, self->subpartition_count);
  if (code == FB_OK) code = self->kind->reserve_overtaken(self, overtaken);
  if (code == FB_OK) code = fb_buffer_new_unpooled(data, size, FB_PRIORITIZED_EVENT_BUFFER, &event);
  if (code < 0) return code;

  fb_result_partition_finish_builders(self);
  fb_buffer_consumer_open(&barrier, &event);
  return self->kind->broadcast_barrier(self, &barrier, overtaken);
}

int fb_result_partition_convert_barrier(struct fb_result_partition* self, int64_t checkpoint_id,
                                        struct fb_slice_list* overtaken) {
  int code;

  if (self->kind->convert_barrier == NULL) return 0;
  code = self->kind->reserve_overtaken(self, overtaken);
  return code < 0 ? code : self->kind->convert_barrier(self, checkpoint_id, overtaken);
}

bool fb_result_partition_has_barrier(struct fb_result_partition* self, int64_t checkpoint_id) {
  return self->kind->has_barrier != NULL && self->kind->has_barrier(self, checkpoint_id);
}

int fb_result_partition_restore(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                size_t size) {
  if (subpartition >= self->subpartition_count) return FB_EARGUMENT;
  if (has_finished(self) || self->kind->restore == NULL) return FB_ESTATE;
  return self->kind->restore(self, subpartition, data, size);
}

/* ---- flush, end ---------------------------------------------------------------------------------- */

void fb_result_partition_flush(struct fb_result_partition* self, uint32_t subpartition) {
  if (self->kind->flush != NULL) self->kind->flush(self, subpartition);
}

void fb_result_partition_flush_all(struct fb_result_partition* self) {
  fb_result_partition_flush(self, self->subpartition_count);
}

int fb_result_partition_finish(struct fb_result_partition* self) {
  int code;

  if (has_finished(self)) return FB_EFINISHED;
  if (self->continued != FB_NO_CHANNEL) return FB_ESTATE;
  if (fb_result_partition_verdict(self) < 0) return fb_result_partition_verdict(self);
  /* All memory first: no channel may end and then be written to, because another one could not end. */
  code = reserve_builder(self, self->subpartition_count);
  if (code < 0) return code;
  fb_result_partition_finish_builders(self);
  code = self->kind->finish(self);
  /* Release, partner of fb_result_partition_is_finished(). */
  if (code == FB_OK) atomic_store_explicit(&self->is_finished, true, memory_order_release);
  /* What is in its files needs no memory, however long it stays there. */
  if (code == FB_OK && self->kind->is_blocking) fb_local_buffer_pool_destroy(self->pool);
  /* Success is not told of what nobody will be able to read. */
  return code == FB_OK ? fb_result_partition_verdict(self) : code;
}
