#include "input_gate.h"

#include <stdlib.h>

#define END_OF_DATA_EVENT_BYTES 5 /* int32 type, byte mode */
#define STOP_MODE_DRAIN 0

/* ---- the queue of channels with data ------------------------------------------------------------- */

static uint32_t queue_slot(const struct fb_channel_queue* queue, uint32_t position) {
  return (queue->head + position) % queue->capacity;
}

static void queue_remove(struct fb_channel_queue* queue, uint32_t channel) {
  uint32_t position = 0;

  while (position < queue->count && queue->items[queue_slot(queue, position)] != channel) position++;
  if (position == queue->count) return;
  if (position < queue->priority_count) queue->priority_count--;
  for (; position + 1 < queue->count; position++)
    queue->items[queue_slot(queue, position)] = queue->items[queue_slot(queue, position + 1)];
  queue->count--;
}

static void queue_insert(struct fb_channel_queue* queue, uint32_t channel, bool has_priority) {
  uint32_t position = queue->count++;
  uint32_t target = has_priority ? queue->priority_count++ : position;

  for (; position > target; position--)
    queue->items[queue_slot(queue, position)] = queue->items[queue_slot(queue, position - 1)];
  queue->items[queue_slot(queue, target)] = channel;
}

/* Under the lock. Queues the channel, or moves it to the front part; returns whether the queue was empty. */
static bool enqueue(struct fb_input_gate* self, struct fb_input_channel* channel, bool has_priority) {
  bool was_empty = self->queue.count == 0;

  if (channel->has_ended || !self->is_open) return false;
  if (channel->is_enqueued && (!has_priority || channel->has_priority)) return false;
  if (channel->is_enqueued) queue_remove(&self->queue, channel->index);
  queue_insert(&self->queue, channel->index, has_priority);
  channel->is_enqueued = true;
  channel->has_priority = has_priority;
  return was_empty;
}

/* ---- notifications, from any thread ---------------------------------------------------------------- */

static void notify(struct fb_input_channel* channel, bool has_priority) {
  struct fb_input_gate* self = channel->gate;
  bool ring;

  pthread_mutex_lock(&self->lock);
  ring = enqueue(self, channel, has_priority) || has_priority;
  pthread_mutex_unlock(&self->lock);
  if (ring) fb_wakeup_ring(self->wakeup);
}

static void on_data_available(void* context, uint32_t subpartition_index) {
  (void)subpartition_index;
  notify(context, false);
}

static void on_priority_event(void* context, uint32_t subpartition_index, int32_t sequence_number) {
  (void)subpartition_index;
  (void)sequence_number;
  notify(context, true);
}

/* ---- life -------------------------------------------------------------------------------------------- */

int fb_input_gate_open(struct fb_input_gate* self, uint32_t channel_count) {
  int code;

  *self = (struct fb_input_gate){0};
  if (channel_count == 0) return FB_EARGUMENT;
  self->channels = calloc(channel_count, sizeof *self->channels);
  self->queue.items = calloc(channel_count, sizeof *self->queue.items);
  code = self->channels == NULL || self->queue.items == NULL ? FB_ENOMEM : fb_wakeup_open(&self->own_wakeup);
  if (code < 0 || pthread_mutex_init(&self->lock, NULL) != 0) {
    fb_wakeup_close(&self->own_wakeup);
    free(self->channels);
    free(self->queue.items);
    *self = (struct fb_input_gate){0};
    return code < 0 ? code : FB_ENOMEM;
  }
  self->channel_count = self->queue.capacity = channel_count;
  self->wakeup = &self->own_wakeup;
  self->is_open = true;
  for (uint32_t i = 0; i < channel_count; i++) {
    self->channels[i].gate = self;
    self->channels[i].index = i;
  }
  return FB_OK;
}

static void release_channel(struct fb_input_channel* channel) {
  if (channel->partition == NULL) return;
  if (channel->has_view)
    fb_subpartition_release_view_of(&channel->partition->subpartitions[channel->subpartition_index], channel);
  channel->has_view = false;
  fb_result_partition_drop(channel->partition);
  channel->partition = NULL;
}

void fb_input_gate_close(struct fb_input_gate* self) {
  if (self->channels == NULL) return;
  pthread_mutex_lock(&self->lock);
  self->is_open = false;
  self->queue.count = self->queue.priority_count = 0;
  pthread_mutex_unlock(&self->lock);
  for (uint32_t i = 0; i < self->channel_count; i++) release_channel(&self->channels[i]);
  pthread_mutex_destroy(&self->lock);
  fb_wakeup_close(&self->own_wakeup);
  free(self->channels);
  free(self->queue.items);
  *self = (struct fb_input_gate){0};
}

int fb_input_gate_set_local(struct fb_input_gate* self, uint32_t index, struct fb_result_partition* partition,
                            uint32_t subpartition_index) {
  struct fb_input_channel* channel;

  if (index >= self->channel_count || subpartition_index >= partition->subpartition_count) return FB_EARGUMENT;
  channel = &self->channels[index];
  if (self->is_requested || channel->partition != NULL) return FB_ESTATE;
  fb_result_partition_retain(partition);
  channel->partition = partition;
  channel->subpartition_index = subpartition_index;
  return FB_OK;
}

void fb_input_gate_set_wakeup(struct fb_input_gate* self, struct fb_wakeup* wakeup) { self->wakeup = wakeup; }

int fb_input_gate_request_partitions(struct fb_input_gate* self, uint32_t* failed) {
  if (!self->is_open) return FB_ESTATE;
  if (self->is_requested) return FB_OK;
  for (uint32_t i = 0; i < self->channel_count; i++) {
    struct fb_input_channel* channel = &self->channels[i];
    struct fb_availability_listener listener = {on_data_available, on_priority_event, channel};
    int code;

    *failed = i;
    if (channel->partition == NULL) return FB_ESTATE;
    if (channel->has_view) continue; /* attached by an earlier call that failed further on */
    code = fb_subpartition_create_view(&channel->partition->subpartitions[channel->subpartition_index], &listener);
    if (code < 0) return code;
    channel->has_view = true;
    notify(channel, false); /* what was written before the view existed told nobody */
  }
  self->is_requested = true;
  return FB_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------- */

static struct fb_input_channel* take_channel(struct fb_input_gate* self) {
  struct fb_input_channel* channel = NULL;

  pthread_mutex_lock(&self->lock);
  if (self->queue.count > 0) {
    channel = &self->channels[self->queue.items[self->queue.head]];
    self->queue.head = (self->queue.head + 1) % self->queue.capacity;
    self->queue.count--;
    if (self->queue.priority_count > 0) self->queue.priority_count--;
    channel->is_enqueued = channel->has_priority = false;
  }
  pthread_mutex_unlock(&self->lock);
  return channel;
}

/* Puts the channel back if it has more; says whether the queue holds anything. */
static bool put_back(struct fb_input_gate* self, struct fb_input_channel* channel, enum fb_data_type next) {
  bool more;

  pthread_mutex_lock(&self->lock);
  if (next != FB_NONE) enqueue(self, channel, fb_data_type_has_priority(next));
  more = self->queue.count > 0;
  pthread_mutex_unlock(&self->lock);
  return more;
}

static void note_end(struct fb_input_gate* self, struct fb_input_channel* channel, const struct fb_slice* event) {
  if (event->data_type == FB_END_OF_DATA && !channel->has_ended_data) {
    channel->has_ended_data = true;
    self->ended_data_count++;
    if (event->size >= END_OF_DATA_EVENT_BYTES && fb_slice_data(event)[4] == STOP_MODE_DRAIN) self->drained_count++;
  }
  if (event->data_type != FB_END_OF_PARTITION || channel->has_ended) return;
  pthread_mutex_lock(&self->lock);
  channel->has_ended = true;
  queue_remove(&self->queue, channel->index); /* a late notification may have queued it again */
  channel->is_enqueued = channel->has_priority = false;
  pthread_mutex_unlock(&self->lock);
  self->ended_count++;
  release_channel(channel);
}

int fb_input_gate_poll(struct fb_input_gate* self, struct fb_gate_item* item) {
  struct fb_input_channel* channel;

  if (!self->is_open) return FB_ESTATE;
  while ((channel = take_channel(self)) != NULL) {
    struct fb_polled_buffer polled;
    int code;

    item->channel_index = channel->index;
    if (channel->partition == NULL) continue; /* a late notification of an ended channel */
    code = fb_subpartition_poll(&channel->partition->subpartitions[channel->subpartition_index], &polled);
    if (code == 0 && fb_result_partition_is_released(channel->partition)) code = FB_ERELEASED;
    if (code == 0) continue;
    if (code < 0) {
      put_back(self, channel, FB_DATA_BUFFER); /* who asks again is told again, and does not wait for ever */
      return code;
    }
    channel->buffer_count++;
    channel->byte_count += polled.slice.size;
    item->slice = polled.slice;
    item->sequence_number = polled.sequence_number;
    note_end(self, channel, &polled.slice);
    item->more_available = put_back(self, channel, (enum fb_data_type)polled.next_data_type);
    return 1;
  }
  return 0;
}

uint32_t fb_input_gate_queued_channels(struct fb_input_gate* self) {
  uint32_t count;

  pthread_mutex_lock(&self->lock);
  count = self->queue.count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

bool fb_input_gate_wait(struct fb_input_gate* self, int64_t timeout_ms) {
  uint64_t seen = fb_wakeup_seen(self->wakeup);

  if (fb_input_gate_queued_channels(self) > 0) return true;
  fb_wakeup_wait(self->wakeup, seen, timeout_ms);
  return fb_input_gate_queued_channels(self) > 0;
}

int fb_input_gate_resume(struct fb_input_gate* self, uint32_t channel_index) {
  struct fb_input_channel* channel;
  int code;

  if (channel_index >= self->channel_count) return FB_EARGUMENT;
  channel = &self->channels[channel_index];
  if (channel->partition == NULL) return FB_ESTATE;
  code = fb_subpartition_resume(&channel->partition->subpartitions[channel->subpartition_index]);
  if (code == FB_OK) notify(channel, false);
  return code;
}
