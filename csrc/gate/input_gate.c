#include "gate/input_gate.h"

#include <stdlib.h>
#include <string.h>

#define END_OF_DATA_EVENT_BYTES 5 /* int32 type, byte mode */
#define STOP_MODE_DRAIN         0
#define RESTORED_PART_BYTES     (32u << 10) /* of what is restored, at one poll */

/* ---- the queue of channels with data ------------------------------------------------------------- */

static uint32_t queued_channel_at(const struct fb_deque* queue, uint32_t position) {
  return *(uint32_t*)fb_deque_at(queue, position, sizeof(uint32_t));
}

static void queue_remove(struct fb_deque* queue, uint32_t channel) {
  uint32_t position = 0;

  while (position < queue->count && queued_channel_at(queue, position) != channel) position++;
  if (position < queue->count) fb_deque_remove(queue, position, sizeof channel);
}

static void queue_insert(struct fb_deque* queue, uint32_t channel, bool has_priority) {
  uint32_t* place = has_priority ? fb_deque_push_priority(queue, sizeof *place) : fb_deque_push(queue, sizeof *place);
  *place = channel;
}

/* Under the lock: whether the channel stands in the front part. */
static void set_priority(struct fb_input_channel* channel, bool has_priority) {
  struct fb_input_gate_priority* count = channel->gate->priority_count;

  if (channel->has_priority == has_priority) return;
  channel->has_priority = has_priority;
  if (count == NULL) return;
  /* Relaxed, partner of fb_input_gate_priority_is_set(). */
  if (has_priority) atomic_fetch_add_explicit(&count->channels, 1, memory_order_relaxed);
  else atomic_fetch_sub_explicit(&count->channels, 1, memory_order_relaxed);
}

/* Under the lock. Queues the channel, or moves it to the front part; returns whether the queue was empty. */
static bool enqueue_channel(struct fb_input_gate* self, struct fb_input_channel* channel, bool has_priority) {
  bool was_empty = self->queue.count == 0;

  if (channel->has_ended || !self->is_open) return false;
  if (channel->is_enqueued && (!has_priority || channel->has_priority)) return false;
  if (channel->is_enqueued) queue_remove(&self->queue, channel->index);
  queue_insert(&self->queue, channel->index, has_priority);
  channel->is_enqueued = true;
  set_priority(channel, has_priority);
  return was_empty;
}

/* ---- notifications, from any thread ---------------------------------------------------------------- */

static void notify_gate(struct fb_input_channel* channel, bool has_priority) {
  struct fb_input_gate* self = channel->gate;
  bool ring;

  pthread_mutex_lock(&self->lock);
  ring = enqueue_channel(self, channel, has_priority) || has_priority;
  pthread_mutex_unlock(&self->lock);
  if (!ring) return;
  if (self->reactor != NULL) fb_reactor_ring(self->reactor, self->wakeup);
  else fb_wakeup_ring(self->wakeup);
}

static void on_channel_data(void* context, uint32_t subpartition_index) {
  (void)subpartition_index;
  notify_gate(context, false);
}

static void on_channel_priority(void* context, uint32_t subpartition_index, int32_t sequence_number) {
  (void)subpartition_index;
  (void)sequence_number;
  notify_gate(context, true);
}

/* ---- life -------------------------------------------------------------------------------------------- */

int fb_input_gate_open(struct fb_input_gate* self, uint32_t channel_count) {
  int code;

  *self = (struct fb_input_gate){0};
  if (channel_count == 0) return FB_EARGUMENT;
  self->channels = calloc(channel_count, sizeof *self->channels);
  code = self->channels == NULL ? FB_ENOMEM : fb_deque_reserve(&self->queue, channel_count, sizeof(uint32_t));
  if (code == FB_OK) code = fb_wakeup_open(&self->own_wakeup);
  if (code < 0 || pthread_mutex_init(&self->lock, NULL) != 0) {
    fb_wakeup_close(&self->own_wakeup);
    free(self->channels);
    fb_deque_close(&self->queue);
    *self = (struct fb_input_gate){0};
    return code < 0 ? code : FB_ENOMEM;
  }
  self->channel_count = channel_count;
  self->wakeup = &self->own_wakeup;
  self->is_open = true;
  for (uint32_t i = 0; i < channel_count; i++) {
    self->channels[i].gate = self;
    self->channels[i].index = i;
    fb_channel_persister_open(&self->channels[i].persister);
  }
  return FB_OK;
}

static void release_local(struct fb_input_channel* channel) {
  struct fb_subpartition_view* view = channel->view;

  if (channel->partition == NULL) return;
  channel->view = NULL;
  fb_subpartition_view_release(view);
  fb_result_partition_drop(channel->partition);
  channel->partition = NULL;
}

/* A checkpoint may still run that wants what has arrived. */
static void keep_arrived(struct fb_input_channel* channel, struct fb_remote_channel* remote) {
  channel->persister.failure = fb_remote_channel_stop_persisting(remote, &channel->persister.arrived);
}

/* Its end was read: gives its buffers back without waiting for the I/O thread. */
static void release_channel(struct fb_input_channel* channel) {
  struct fb_remote_channel* remote = channel->remote;

  release_local(channel);
  if (remote == NULL) return;
  channel->remote = NULL;
  keep_arrived(channel, remote);
  fb_partition_client_leave(channel->gate->client, remote);
  fb_remote_channel_close(remote);
}

/* All that are left at once: afterwards the I/O thread calls nothing of this gate. */
static void release_remotes(struct fb_input_gate* self) {
  struct fb_remote_channel** remotes = malloc(self->channel_count * sizeof *remotes);
  uint32_t count = 0;

  for (uint32_t i = 0; i < self->channel_count; i++) {
    struct fb_remote_channel* remote = self->channels[i].remote;
    if (remote == NULL) continue;
    self->channels[i].remote = NULL;
    if (remotes != NULL) remotes[count++] = remote;
    else fb_partition_client_cancel(self->client, &remote, 1), fb_remote_channel_close(remote);
  }
  fb_partition_client_cancel(self->client, remotes, count);
  for (uint32_t i = 0; i < count; i++) fb_remote_channel_close(remotes[i]);
  free(remotes);
}

void fb_input_gate_close(struct fb_input_gate* self) {
  if (self->channels == NULL) return;
  pthread_mutex_lock(&self->lock);
  self->is_open = false;
  self->queue.count = self->queue.priority_count = 0;
  for (uint32_t i = 0; i < self->channel_count; i++) set_priority(&self->channels[i], false);
  pthread_mutex_unlock(&self->lock);
  if (self->awaited_count > 0) fb_partition_manager_remove_wakeup(self->manager, self->wakeup);
  for (uint32_t i = 0; i < self->channel_count; i++) {
    release_local(&self->channels[i]);
    fb_buffer_slice_release(&self->channels[i].restored);
    fb_channel_persister_close(&self->channels[i].persister);
  }
  if (self->client != NULL) release_remotes(self);
  fb_local_buffer_pool_close(self->pool);
  if (self->client != NULL) fb_partition_client_drop(self->client);
  pthread_mutex_destroy(&self->lock);
  fb_wakeup_close(&self->own_wakeup);
  free(self->channels);
  fb_deque_close(&self->queue);
  *self = (struct fb_input_gate){0};
}

/* ---- channels --------------------------------------------------------------------------------------- */

/* The channel if it may still be set, else NULL and *code. */
static struct fb_input_channel* settable_channel(struct fb_input_gate* self, uint32_t index, int* code) {
  *code = FB_EARGUMENT;
  if (index >= self->channel_count) return NULL;
  *code = FB_ESTATE;
  if (self->is_requested || self->channels[index].kind != FB_UNKNOWN_CHANNEL) return NULL;
  *code = FB_OK;
  return &self->channels[index];
}

int fb_input_gate_set_local(struct fb_input_gate* self, uint32_t index, struct fb_result_partition* partition,
                            uint32_t subpartition_index) {
  int code = FB_EARGUMENT;
  struct fb_input_channel* channel = NULL;

  if (subpartition_index < partition->subpartition_count) channel = settable_channel(self, index, &code);
  if (channel == NULL) return code;
  fb_result_partition_retain(partition);
  channel->kind = FB_LOCAL_CHANNEL;
  channel->partition = partition;
  channel->subpartition_index = subpartition_index;
  return FB_OK;
}

int fb_input_gate_set_network(struct fb_input_gate* self, const struct fb_gate_network* network) {
  if (self->manager != NULL || self->is_requested || !self->is_open) {
    fb_local_buffer_pool_close(network->pool);
    return FB_ESTATE;
  }
  self->client = network->client;
  fb_partition_client_retain(self->client);
  self->reactor = fb_partition_client_reactor(network->client);
  self->manager = network->manager;
  self->network_pool = network->network_pool;
  self->pool = network->pool;
  self->patience_ms = network->patience_ms;
  return FB_OK;
}

int fb_input_gate_set_local_id(struct fb_input_gate* self, uint32_t index, const uint8_t* partition_id,
                               uint32_t subpartition_index) {
  int code;
  struct fb_input_channel* channel = settable_channel(self, index, &code);

  if (channel == NULL) return code;
  if (self->manager == NULL) return FB_ESTATE;
  channel->kind = FB_LOCAL_CHANNEL;
  memcpy(channel->partition_id, partition_id, FB_PARTITION_ID_SIZE);
  channel->subpartition_index = subpartition_index;
  return FB_OK;
}

int fb_input_gate_set_remote(struct fb_input_gate* self, uint32_t index, const struct fb_remote_source* source,
                             const uint8_t* id, uint32_t exclusive_count, int64_t timeout_ms) {
  struct fb_buffer** exclusive;
  int code;
  struct fb_input_channel* channel = settable_channel(self, index, &code);

  if (channel == NULL) return code;
  if (self->pool == NULL) return FB_ESTATE;
  exclusive = calloc(exclusive_count + (size_t)1, sizeof *exclusive);
  if (exclusive == NULL) return FB_ENOMEM;
  code = fb_network_buffer_pool_request_unpooled(self->network_pool, exclusive_count, timeout_ms, exclusive);
  if (code == FB_OK)
    code = fb_remote_channel_open(source, id, self->network_pool, self->pool, exclusive, exclusive_count,
                                  &channel->remote);
  free(exclusive);
  if (code < 0) return code;
  channel->kind = FB_REMOTE_CHANNEL;
  channel->subpartition_index = source->subpartition_index;
  memcpy(channel->partition_id, source->partition, FB_PARTITION_ID_SIZE);
  fb_remote_channel_set_listener(channel->remote, index,
                                 &(struct fb_availability_listener){on_channel_data, on_channel_priority, channel});
  return FB_OK;
}

int fb_input_gate_set_debloating(struct fb_input_gate* self, const struct fb_buffer_debloater_config* config,
                                 int64_t period_ms) {
  int code;

  if (!self->is_open || self->is_requested) return FB_ESTATE;
  if (period_ms < 1) return FB_EARGUMENT;
  code = fb_buffer_debloater_open(&self->debloater, config);
  if (code == FB_OK) self->debloat_period_ms = period_ms;
  return code;
}

void fb_input_gate_set_wakeup(struct fb_input_gate* self, struct fb_wakeup* wakeup) { self->wakeup = wakeup; }

void fb_input_gate_set_priority(struct fb_input_gate* self, struct fb_input_gate_priority* count) {
  self->priority_count = count;
}

/* ---- requests --------------------------------------------------------------------------------------- */

static int attach_channel(struct fb_input_channel* channel) {
  struct fb_view_options options = {.listener = {on_channel_data, on_channel_priority, channel}};
  int code;

  if (channel->view != NULL) return FB_OK; /* attached by an earlier call that failed further on */
  code = fb_result_partition_create_view(channel->partition, channel->subpartition_index, &options, &channel->view);
  if (code < 0) {
    channel->attach_error = code;
    return code;
  }
  if (channel->gate->announced_size > 0) /* while it was waited for */
    fb_subpartition_view_set_buffer_size(channel->view, channel->gate->announced_size);
  notify_gate(channel, false); /* what was written before the view existed told nobody */
  return FB_OK;
}

/* Attaches a channel by id if its partition is there. */
static int find_and_attach(struct fb_input_channel* channel) {
  if (channel->partition == NULL)
    channel->partition = fb_partition_manager_find(channel->gate->manager, channel->partition_id);
  return channel->partition != NULL ? attach_channel(channel) : FB_OK;
}

/* Looks for the partitions that were not there. *failed: the channel that cannot be attached, or waited in vain. */
static int attach_awaited(struct fb_input_gate* self, uint32_t* failed) {
  uint64_t registrations = fb_partition_manager_registrations(self->manager);
  bool is_late = fb_wakeup_now_ms() >= self->deadline_ms;

  if (registrations == self->registrations_seen && !is_late) return FB_OK;
  self->registrations_seen = registrations;
  for (uint32_t i = 0; i < self->channel_count; i++) {
    struct fb_input_channel* channel = &self->channels[i];
    int code;
    if (!channel->is_awaited) continue;
    *failed = i;
    code = find_and_attach(channel);
    if (code == FB_OK && channel->partition == NULL && is_late) code = FB_ENOT_FOUND;
    if (code < 0) {
      self->registrations_seen = UINT64_MAX; /* the error stays */
      return code;
    }
    if (channel->partition == NULL) continue;
    channel->is_awaited = false;
    self->awaited_count--;
  }
  if (self->awaited_count == 0) fb_partition_manager_remove_wakeup(self->manager, self->wakeup);
  return FB_OK;
}

/* Has those that found nothing wait for it. */
static int await_channel(struct fb_input_gate* self) {
  uint32_t count = 0;
  int code;

  if (self->awaited_count > 0) return FB_OK; /* since an earlier call, which failed further on */
  for (uint32_t i = 0; i < self->channel_count; i++) {
    struct fb_input_channel* channel = &self->channels[i];
    channel->is_awaited = channel->kind == FB_LOCAL_CHANNEL && channel->partition == NULL;
    count += channel->is_awaited;
  }
  if (count == 0) return FB_OK;
  code = fb_partition_manager_add_wakeup(self->manager, self->wakeup);
  if (code < 0) return code;
  self->awaited_count = count;
  self->registrations_seen = UINT64_MAX; /* what came meanwhile is found at the next poll */
  self->deadline_ms = fb_wakeup_deadline_ms(self->patience_ms);
  return FB_OK;
}

static int request_remotes(struct fb_input_gate* self) {
  struct fb_remote_channel** remotes = malloc(self->channel_count * sizeof *remotes);
  uint32_t count = 0;
  int code = FB_OK;

  if (remotes == NULL) return FB_ENOMEM;
  for (uint32_t i = 0; i < self->channel_count; i++)
    if (self->channels[i].remote != NULL) remotes[count++] = self->channels[i].remote;
  if (count > 0) code = fb_partition_client_request(self->client, remotes, count);
  free(remotes);
  return code;
}

int fb_input_gate_request_partitions(struct fb_input_gate* self, uint32_t* failed) {
  int code = FB_OK;

  if (!self->is_open) return FB_ESTATE;
  if (self->is_requested) return FB_OK;
  for (uint32_t i = 0; i < self->channel_count && code == FB_OK; i++) {
    struct fb_input_channel* channel = &self->channels[i];
    *failed = i;
    if (channel->kind == FB_UNKNOWN_CHANNEL) code = FB_ESTATE;
    else if (channel->partition != NULL) code = attach_channel(channel);
    else if (channel->kind == FB_LOCAL_CHANNEL) code = find_and_attach(channel);
  }
  if (code == FB_OK) code = await_channel(self);
  if (code == FB_OK) code = request_remotes(self);
  if (code == FB_OK) self->is_requested = true;
  return code;
}

/* ---- debloating -------------------------------------------------------------------------------------- */

/* Buffers that hold data for this gate now, or will soon: those that the sender has in its backlog are counted by
 * what the channel would like to have for them. */
static uint32_t buffers_in_use(struct fb_input_gate* self) {
  uint32_t count = 0;

  for (uint32_t i = 0; i < self->channel_count; i++) {
    struct fb_input_channel* channel = &self->channels[i];
    if (channel->remote != NULL) {
      struct fb_remote_channel_usage usage;
      fb_remote_channel_get_usage(channel->remote, &usage);
      count += usage.queued;
      if (usage.required > channel->remote->initial_credit) count += usage.required - channel->remote->initial_credit;
    } else if (channel->view != NULL) {
      struct fb_subpartition_usage usage;
      fb_subpartition_view_get_usage(channel->view, &usage);
      count += usage.queued;
    }
  }
  return count;
}

static void announce_buffer_size(struct fb_input_gate* self, int32_t size) {
  self->announced_size = size;
  for (uint32_t i = 0; i < self->channel_count; i++) {
    struct fb_input_channel* channel = &self->channels[i];
    if (channel->remote != NULL) fb_remote_channel_announce_buffer_size(channel->remote, size);
    else if (channel->view != NULL) fb_subpartition_view_set_buffer_size(channel->view, size);
  }
}

/* After each poll: `bytes` came, or nothing did. */
static void debloat_buffers(struct fb_input_gate* self, bool has_item, uint32_t bytes) {
  int64_t now_ms = fb_wakeup_now_ms();
  int32_t size;

  if (has_item) fb_buffer_debloater_receive(&self->debloater, bytes, now_ms);
  else fb_buffer_debloater_pause(&self->debloater, now_ms);
  if (now_ms < self->debloat_due_ms) return;
  if (self->debloat_due_ms > 0) {
    int64_t throughput = fb_buffer_debloater_throughput(&self->debloater, now_ms);
    size = fb_buffer_debloater_recalculate(&self->debloater, throughput, buffers_in_use(self));
    if (size > 0) announce_buffer_size(self, size);
  }
  self->debloat_due_ms = now_ms + self->debloat_period_ms; /* the first time only starts the first period */
}

/* ---- reading ----------------------------------------------------------------------------------------- */

/* The first queued channel, and whether it was queued for a priority event; of such only, if that is asked. */
static struct fb_input_channel* take_channel(struct fb_input_gate* self, bool with_priority, bool* has_priority) {
  struct fb_input_channel* channel = NULL;

  pthread_mutex_lock(&self->lock);
  if ((with_priority ? self->queue.priority_count : self->queue.count) > 0) {
    channel = &self->channels[queued_channel_at(&self->queue, 0)];
    fb_deque_pop(&self->queue);
    channel->is_enqueued = false;
    *has_priority = channel->has_priority;
    set_priority(channel, false);
  }
  pthread_mutex_unlock(&self->lock);
  return channel;
}

/* Puts the channel back if it has more; says whether the queue holds anything. */
static bool put_back(struct fb_input_gate* self, struct fb_input_channel* channel, enum fb_buffer_data_type next) {
  bool more;

  pthread_mutex_lock(&self->lock);
  if (next != FB_NONE) enqueue_channel(self, channel, fb_buffer_data_type_has_priority(next));
  more = self->queue.count > 0;
  pthread_mutex_unlock(&self->lock);
  return more;
}

static void note_end(struct fb_input_gate* self, struct fb_input_channel* channel,
                     const struct fb_buffer_slice* event) {
  if (event->data_type == FB_END_OF_DATA && !channel->has_ended_data) {
    channel->has_ended_data = true;
    self->ended_data_count++;
    if (event->size >= END_OF_DATA_EVENT_BYTES && fb_buffer_slice_data(event)[4] == STOP_MODE_DRAIN)
      self->drained_count++;
  }
  if (event->data_type != FB_END_OF_PARTITION || channel->has_ended) return;
  pthread_mutex_lock(&self->lock);
  channel->has_ended = true;
  queue_remove(&self->queue, channel->index); /* a late notification may have queued it again */
  channel->is_enqueued = false;
  set_priority(channel, false);
  pthread_mutex_unlock(&self->lock);
  self->ended_count++;
  release_channel(channel);
}

static int poll_local(struct fb_input_channel* channel, bool with_priority, struct fb_polled_buffer* polled) {
  int code = with_priority ? fb_subpartition_view_poll_priority(channel->view, polled)
                           : fb_subpartition_view_poll(channel->view, polled);

  if (code == 1) fb_channel_persister_see(&channel->persister, &polled->slice, polled->sequence_number);
  if (code == FB_ESTATE) channel->is_replaced = fb_subpartition_view_is_replaced(channel->view);
  return code == 0 && fb_result_partition_is_released(channel->partition) ? FB_ERELEASED : code;
}

/* What the channel brings; with priority only, if that is asked. */
static int poll_source(struct fb_input_channel* channel, bool with_priority, struct fb_polled_buffer* polled) {
  if (channel->remote != NULL)
    return with_priority ? fb_remote_channel_poll_priority(channel->remote, polled)
                         : fb_remote_channel_poll(channel->remote, polled);
  if (channel->view == NULL) return 0; /* a late notification of an ended channel */
  return poll_local(channel, with_priority, polled);
}

/* The next part of what was restored. Whatever the channel has brought meanwhile told the gate long ago, so the channel is
 * to be polled again after it. */
static int poll_restored(struct fb_input_channel* channel, struct fb_polled_buffer* polled) {
  struct fb_buffer_slice* left = &channel->restored;
  uint32_t size = left->size < RESTORED_PART_BYTES ? left->size : RESTORED_PART_BYTES;

  *polled = (struct fb_polled_buffer){.slice = *left, .next_data_type = FB_DATA_BUFFER};
  polled->slice.size = size;
  left->offset += size;
  left->size -= size;
  if (left->size > 0) {
    fb_buffer_slice_retain(left);
  } else {
    left->buffer = NULL; /* its reference is the caller's now */
    channel->gate->restored_count--;
  }
  return 1;
}

static int poll_channel(struct fb_input_channel* channel, bool has_priority, struct fb_polled_buffer* polled) {
  int code;

  if (channel->restored.buffer == NULL) return poll_source(channel, false, polled);
  code = has_priority ? poll_source(channel, true, polled) : 0;
  return code == 1 ? code : poll_restored(channel, polled); /* an error waits for its turn */
}

/* What was polled of the channel goes to the caller. */
static void give(struct fb_input_channel* channel, const struct fb_polled_buffer* polled, struct fb_gate_item* item) {
  struct fb_input_gate* self = channel->gate;
  enum fb_buffer_data_type next = polled->next_data_type;

  if (next == FB_NONE && channel->restored.buffer != NULL) next = FB_DATA_BUFFER;
  channel->buffer_count++;
  channel->byte_count += polled->slice.size;
  item->slice = polled->slice;
  item->channel_index = channel->index;
  item->sequence_number = polled->sequence_number;
  note_end(self, channel, &polled->slice);
  item->more_available = put_back(self, channel, next);
  if (self->debloat_period_ms > 0) debloat_buffers(self, true, item->slice.size);
}

int fb_input_gate_poll(struct fb_input_gate* self, struct fb_gate_item* item) {
  struct fb_input_channel* channel;
  bool has_priority = false;
  int code = FB_OK;

  if (!self->is_open) return FB_ESTATE;
  if (self->awaited_count > 0) code = attach_awaited(self, &item->channel_index);
  if (code < 0) return code;
  while ((channel = take_channel(self, false, &has_priority)) != NULL) {
    struct fb_polled_buffer polled;

    code = poll_channel(channel, has_priority, &polled);
    if (code == 0) continue;
    if (code < 0) {
      item->channel_index = channel->index;
      put_back(self, channel, FB_DATA_BUFFER); /* who asks again is told again, and does not wait for ever */
      return code;
    }
    give(channel, &polled, item);
    return 1;
  }
  if (self->debloat_period_ms > 0) debloat_buffers(self, false, 0);
  return 0;
}

int fb_input_gate_poll_priority(struct fb_input_gate* self, struct fb_gate_item* item) {
  struct fb_input_channel* channel;
  bool has_priority;

  if (!self->is_open) return 0;
  while ((channel = take_channel(self, true, &has_priority)) != NULL) {
    struct fb_polled_buffer polled;

    if (poll_source(channel, true, &polled) != 1) {
      put_back(self, channel, FB_DATA_BUFFER); /* it may have something else, or an error */
      continue;
    }
    give(channel, &polled, item);
    return 1;
  }
  return 0;
}

/* ---- unaligned checkpoints ----------------------------------------------------------------------------- */

int fb_input_gate_restore(struct fb_input_gate* self, uint32_t channel_index, const uint8_t* data, size_t size) {
  struct fb_input_channel* channel;
  int code;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  channel = &self->channels[channel_index];
  if (!self->is_open || channel->buffer_count > 0 || channel->restored.buffer != NULL) return FB_ESTATE;
  if (size == 0) return FB_OK;
  code = fb_buffer_new_unpooled(data, size, FB_DATA_BUFFER, &channel->restored);
  if (code < 0) return code;
  self->restored_count++;
  notify_gate(channel, false);
  return FB_OK;
}

void fb_input_gate_set_persisting_budget(struct fb_input_gate* self, int64_t bytes) {
  /* Relaxed: whoever takes from it was started after this, under a lock. */
  atomic_store_explicit(&self->persisting_budget.left, bytes, memory_order_relaxed);
}

int fb_input_gate_start_persisting(struct fb_input_gate* self, uint32_t channel_index, int64_t checkpoint_id,
                                   struct fb_slice_list* overtaken) {
  struct fb_input_channel* channel;
  int code = FB_OK;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  channel = &self->channels[channel_index];
  if (channel->restored.buffer != NULL) code = fb_slice_list_add(overtaken, &channel->restored);
  if (code < 0) return code;
  if (channel->remote != NULL)
    return fb_remote_channel_start_persisting(channel->remote, checkpoint_id, &self->persisting_budget, overtaken);
  if (!channel->has_ended)
    return fb_channel_persister_start(&channel->persister, checkpoint_id, &self->persisting_budget);
  fb_slice_list_close(&channel->persister.arrived); /* of an older checkpoint */
  channel->persister.failure = FB_OK;
  return FB_OK;
}

int fb_input_gate_stop_persisting(struct fb_input_gate* self, uint32_t channel_index, struct fb_slice_list* arrived) {
  struct fb_input_channel* channel;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  channel = &self->channels[channel_index];
  if (channel->remote != NULL) return fb_remote_channel_stop_persisting(channel->remote, arrived);
  return fb_channel_persister_stop(&channel->persister, arrived);
}

int fb_input_gate_convert_to_priority(struct fb_input_gate* self, uint32_t channel_index, int32_t sequence_number) {
  struct fb_remote_channel* remote;
  int code;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  remote = self->channels[channel_index].remote;
  if (remote == NULL) return 0;
  code = fb_remote_channel_convert_to_priority(remote, sequence_number);
  if (code < 0) return code == FB_ESTATE ? 0 : code;
  /* The sender stopped behind it, as it was aligned when it left, and nobody resumes what no barrier blocks. */
  code = fb_remote_channel_resume(remote);
  return code == FB_ERELEASED || code == FB_OK ? 1 : code;
}

/* ---- figures, waiting ---------------------------------------------------------------------------------- */

const char* fb_input_gate_failure(struct fb_input_gate* self, uint32_t index) {
  struct fb_input_channel* channel = &self->channels[index];
  const char* failure;

  if (channel->remote != NULL) return fb_remote_channel_failure(channel->remote);
  if (channel->is_replaced) return "another reader has taken its place";
  if (channel->view != NULL) return fb_result_partition_view_failure(channel->view);
  if (channel->partition == NULL) return NULL;
  failure = fb_result_partition_failure(channel->partition);
  if (failure != NULL || (channel->attach_error != FB_EUNFINISHED && channel->attach_error != FB_ENOT_FOUND))
    return failure;
  return fb_result_partition_view_error(channel->partition, channel->attach_error);
}

uint32_t fb_input_gate_queued_channels(struct fb_input_gate* self) {
  uint32_t count;

  pthread_mutex_lock(&self->lock);
  count = self->queue.count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

bool fb_input_gate_has_data(struct fb_input_gate* self, bool* has_priority) {
  bool has_data;

  *has_priority = false;
  if (!self->is_open) return false;
  pthread_mutex_lock(&self->lock);
  has_data = self->queue.count > 0;
  *has_priority = self->queue.priority_count > 0;
  pthread_mutex_unlock(&self->lock);
  return has_data;
}

bool fb_input_gate_wait(struct fb_input_gate* self, int64_t timeout_ms) {
  uint64_t seen = fb_wakeup_seen(self->wakeup);
  int64_t since_ms;

  if (fb_input_gate_queued_channels(self) > 0) return true;
  since_ms = fb_wakeup_now_ms();
  fb_wakeup_wait(self->wakeup, seen, timeout_ms);
  atomic_fetch_add_explicit(&self->idle_ms, (uint64_t)(fb_wakeup_now_ms() - since_ms), memory_order_relaxed);
  return fb_input_gate_queued_channels(self) > 0;
}

void fb_input_gate_ring(struct fb_input_gate* self) {
  if (self->wakeup != NULL) fb_wakeup_ring(self->wakeup);
}

int fb_input_gate_resume(struct fb_input_gate* self, uint32_t channel_index) {
  struct fb_input_channel* channel;
  int code;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  channel = &self->channels[channel_index];
  if (channel->remote != NULL) return fb_remote_channel_resume(channel->remote);
  if (channel->view == NULL) return FB_ESTATE;
  code = fb_subpartition_view_resume(channel->view);
  if (code == FB_OK) notify_gate(channel, false);
  return code;
}

int fb_input_gate_acknowledge(struct fb_input_gate* self, uint32_t channel_index) {
  struct fb_input_channel* channel;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  channel = &self->channels[channel_index];
  if (channel->remote != NULL) fb_remote_channel_acknowledge(channel->remote);
  else if (channel->partition != NULL) fb_result_partition_acknowledge(channel->partition, channel->subpartition_index);
  return FB_OK;
}

void fb_input_gate_get_channel_usage(struct fb_input_gate* self, uint32_t index, struct fb_channel_usage* usage) {
  struct fb_input_channel* channel = &self->channels[index];

  *usage = (struct fb_channel_usage){.buffers = channel->buffer_count, .bytes = channel->byte_count, .credit = -1};
  if (channel->remote != NULL) {
    struct fb_remote_channel_usage of_remote;
    fb_remote_channel_get_usage(channel->remote, &of_remote);
    usage->queued = of_remote.queued;
    usage->credit = (int32_t)of_remote.credit;
    usage->oldest_ms = of_remote.oldest_ms;
    usage->backlog = atomic_load_explicit(&channel->remote->backlog, memory_order_relaxed);
  } else if (channel->view != NULL) {
    struct fb_subpartition_usage of_local;
    fb_subpartition_view_get_usage(channel->view, &of_local);
    usage->queued = of_local.queued;
    usage->backlog = of_local.backlog;
    usage->oldest_ms = of_local.oldest_ms;
  }
}
