#include "wire/remote_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/byte_order.h"
#include "ground/owner.h"

enum {
  /* Credit is told in few frames while the sender has enough of it; one that runs out is told at once. */
  CREDIT_BATCH = 4,
  ENOUGH_CREDIT = 2,
  /* Events come without credit. Millions of them that nobody reads are no checkpoints, but an attack or a fault. */
  MAX_EVENT_BYTES = 64 << 20,
  EVENT_OVERHEAD = 256, /* of memory, for an event of no bytes */
  /* Of a serialized event. */
  ANNOUNCEMENT_TYPE = 6,
  ANNOUNCEMENT_HEAD = 8, /* type, sequence number; then the announced event */
};

/* ---- the queue, under the lock ---------------------------------------------------------------------- */

static struct fb_received_buffer* received_at(const struct fb_received_queue* self, uint32_t position) {
  return fb_deque_at(&self->deque, position, sizeof(struct fb_received_buffer));
}

static size_t event_bytes(const struct fb_received_buffer* item) {
  return fb_buffer_data_type_is_event(item->slice.data_type) ? EVENT_OVERHEAD + (size_t)item->slice.size : 0;
}

/* Room was reserved. */
static void put_received(struct fb_received_queue* self, const struct fb_received_buffer* item, bool has_priority) {
  struct fb_received_buffer* place =
      has_priority ? fb_deque_push_priority(&self->deque, sizeof *place) : fb_deque_push(&self->deque, sizeof *place);

  *place = *item;
  self->event_bytes += event_bytes(item);
}

static struct fb_received_buffer take_received(struct fb_received_queue* self) {
  struct fb_received_buffer item = *received_at(self, 0);

  fb_deque_pop(&self->deque);
  self->event_bytes -= event_bytes(&item);
  return item;
}

static struct fb_received_buffer take_at(struct fb_received_queue* self, uint32_t position) {
  struct fb_received_buffer item = *received_at(self, position);

  fb_deque_remove(&self->deque, position, sizeof item);
  self->event_bytes -= event_bytes(&item);
  return item;
}

/* ---- what the client is to send --------------------------------------------------------------------- */

static void tell_client(struct fb_remote_channel* self) {
  pthread_mutex_lock(&self->lock);
  /* Under the lock, so that nobody posts after close(). Refused: the reactor is closed, and with it everything. */
  if (!self->is_released && self->reactor != NULL) fb_reactor_post(self->reactor, &self->task);
  pthread_mutex_unlock(&self->lock);
}

static void on_credit_gained(struct fb_buffer_manager* manager, uint32_t count) {
  struct fb_remote_channel* self = FB_OWNER(fb_remote_channel, buffers, manager);

  uint32_t before = atomic_fetch_add_explicit(&self->unannounced_credit, count, memory_order_seq_cst);

  /* Partner of use_credit(): it lowers the sender's credit before it looks for some to announce, we add some before we
   * look at the sender's, in one total order; so one of the two announces it. */
  if (atomic_load_explicit(&self->sender_credit, memory_order_seq_cst) <= ENOUGH_CREDIT
          ? before == 0
          : before < CREDIT_BATCH && before + count >= CREDIT_BATCH)
    tell_client(self);
}

/* The sender has used one. */
static void use_credit(struct fb_remote_channel* self) {
  int32_t left = atomic_fetch_sub_explicit(&self->sender_credit, 1, memory_order_seq_cst) - 1;

  if (left <= ENOUGH_CREDIT && atomic_load_explicit(&self->unannounced_credit, memory_order_seq_cst) > 0)
    tell_client(self);
}

uint32_t fb_remote_channel_take_credit(struct fb_remote_channel* self) {
  /* Partner of on_credit_gained() by whoever recycled. */
  uint32_t credit = atomic_exchange_explicit(&self->unannounced_credit, 0, memory_order_seq_cst);

  atomic_fetch_add_explicit(&self->sender_credit, (int32_t)credit, memory_order_seq_cst);
  return credit;
}

bool fb_remote_channel_take_resume(struct fb_remote_channel* self) {
  if (!atomic_exchange_explicit(&self->wants_resume, false, memory_order_acq_rel)) return false;
  /* The sender forgets its credit, too: the floating buffers behind it went back when it was blocked. Here and not where
   * the task resumes: what is being sent at that moment would count as the sender's afterwards. */
  if (self->initial_credit == 0) {
    atomic_store_explicit(&self->unannounced_credit, 0, memory_order_seq_cst);
    atomic_store_explicit(&self->sender_credit, 0, memory_order_seq_cst);
  }
  return true;
}

bool fb_remote_channel_take_acknowledgement(struct fb_remote_channel* self) {
  return atomic_exchange_explicit(&self->wants_acknowledgement, false, memory_order_acq_rel);
}

int32_t fb_remote_channel_take_buffer_size(struct fb_remote_channel* self) {
  return atomic_exchange_explicit(&self->announced_buffer_size, 0, memory_order_acq_rel);
}

void fb_remote_channel_restore_buffer_size(struct fb_remote_channel* self, int32_t size) {
  int32_t none = 0;

  /* Relaxed: the size is all there is to it. */
  atomic_compare_exchange_strong_explicit(&self->announced_buffer_size, &none, size, memory_order_relaxed,
                                          memory_order_relaxed);
}

static bool is_released(struct fb_remote_channel* self) {
  bool released;

  pthread_mutex_lock(&self->lock);
  released = self->is_released;
  pthread_mutex_unlock(&self->lock);
  return released;
}

int fb_remote_channel_resume(struct fb_remote_channel* self) {
  if (is_released(self)) return FB_ERELEASED;
  atomic_store_explicit(&self->wants_resume, true, memory_order_release);
  tell_client(self);
  return FB_OK;
}

int fb_remote_channel_announce_buffer_size(struct fb_remote_channel* self, int32_t size) {
  if (is_released(self)) return FB_ERELEASED;
  if (size <= 0) return FB_EARGUMENT;
  atomic_store_explicit(&self->announced_buffer_size, size, memory_order_release);
  tell_client(self);
  return FB_OK;
}

int fb_remote_channel_acknowledge(struct fb_remote_channel* self) {
  if (is_released(self)) return FB_ERELEASED;
  atomic_store_explicit(&self->wants_acknowledgement, true, memory_order_release);
  tell_client(self);
  return FB_OK;
}

/* ---- life ------------------------------------------------------------------------------------------- */

void fb_remote_channel_retain(struct fb_remote_channel* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
}

void fb_remote_channel_drop(struct fb_remote_channel* self) {
  /* Acquire-release: who frees has seen what every other holder did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  fb_buffer_manager_close(&self->buffers);
  pthread_mutex_destroy(&self->lock);
  fb_deque_close(&self->queue.deque);
  fb_channel_persister_close(&self->persister);
  free(self->failure);
  free(self);
}

static void retain_owner(struct fb_buffer_manager* manager) {
  fb_remote_channel_retain(FB_OWNER(fb_remote_channel, buffers, manager));
}

static void drop_owner(struct fb_buffer_manager* manager) {
  fb_remote_channel_drop(FB_OWNER(fb_remote_channel, buffers, manager));
}

static const struct fb_buffer_manager_owner MANAGER_OWNER = {on_credit_gained, retain_owner, drop_owner};

int fb_remote_channel_open(const struct fb_remote_source* source, const uint8_t* id,
                           struct fb_network_buffer_pool* network_pool, struct fb_local_buffer_pool* pool,
                           struct fb_buffer** exclusive, uint32_t exclusive_count, struct fb_remote_channel** self) {
  struct fb_remote_channel* opened = calloc(1, sizeof(*opened));
  int code = opened == NULL ? FB_ENOMEM : fb_buffer_manager_open(&opened->buffers, &MANAGER_OWNER, network_pool, pool);

  *self = NULL;
  if (code == FB_OK && pthread_mutex_init(&opened->lock, NULL) != 0) {
    fb_buffer_manager_close(&opened->buffers);
    code = FB_ENOMEM;
  }
  if (code < 0) {
    fb_network_buffer_pool_recycle_unpooled(network_pool, exclusive, exclusive_count);
    free(opened);
    return code;
  }
  opened->source = *source;
  memcpy(opened->id, id, FB_CHANNEL_ID_SIZE);
  opened->initial_credit = exclusive_count;
  atomic_store_explicit(&opened->sender_credit, (int32_t)exclusive_count, memory_order_relaxed);
  atomic_store_explicit(&opened->references, 1, memory_order_relaxed);
  fb_channel_persister_open(&opened->persister);
  fb_buffer_manager_add_exclusive(&opened->buffers, exclusive, exclusive_count);
  *self = opened;
  return FB_OK;
}

void fb_remote_channel_set_listener(struct fb_remote_channel* self, uint32_t index,
                                    const struct fb_availability_listener* listener) {
  self->index = index;
  self->listener = *listener;
}

void fb_remote_channel_set_sender(struct fb_remote_channel* self, struct fb_reactor* reactor,
                                  void (*run)(struct fb_task* task)) {
  pthread_mutex_lock(&self->lock);
  self->task.run = run;
  self->reactor = reactor;
  pthread_mutex_unlock(&self->lock);
}

void fb_remote_channel_end(struct fb_remote_channel* self) {
  pthread_mutex_lock(&self->lock);
  self->is_released = true;
  pthread_mutex_unlock(&self->lock);
}

void fb_remote_channel_close(struct fb_remote_channel* self) {
  struct fb_received_queue queue;

  pthread_mutex_lock(&self->lock);
  self->is_released = true;
  queue = self->queue;
  self->queue = (struct fb_received_queue){0};
  pthread_mutex_unlock(&self->lock);
  while (queue.deque.count > 0) {
    struct fb_received_buffer item = take_received(&queue);
    fb_buffer_slice_release(&item.slice);
  }
  fb_deque_close(&queue.deque);
  fb_buffer_manager_release(&self->buffers);
  fb_remote_channel_drop(self);
}

/* ---- the consuming task ----------------------------------------------------------------------------- */

/* The first item, or the first that has priority. */
static int poll_received(struct fb_remote_channel* self, bool with_priority, struct fb_polled_buffer* polled) {
  struct fb_received_buffer item;
  int code = 1;

  pthread_mutex_lock(&self->lock);
  if (self->failure_code < 0) {
    code = self->failure_code;
  } else if (self->is_released) {
    code = FB_ERELEASED;
  } else if ((with_priority ? self->queue.deque.priority_count : self->queue.deque.count) == 0) {
    code = 0;
  } else {
    item = take_received(&self->queue);
    polled->slice = item.slice;
    polled->sequence_number = item.sequence_number;
    polled->backlog = self->queue.deque.count;
    polled->next_data_type = self->queue.deque.count > 0 ? received_at(&self->queue, 0)->slice.data_type : FB_NONE;
  }
  pthread_mutex_unlock(&self->lock);
  return code;
}

int fb_remote_channel_poll(struct fb_remote_channel* self, struct fb_polled_buffer* polled) {
  return poll_received(self, false, polled);
}

int fb_remote_channel_poll_priority(struct fb_remote_channel* self, struct fb_polled_buffer* polled) {
  return poll_received(self, true, polled);
}

const char* fb_remote_channel_failure(struct fb_remote_channel* self) {
  const char* failure;

  pthread_mutex_lock(&self->lock);
  failure = self->failure;
  pthread_mutex_unlock(&self->lock);
  return failure;
}

void fb_remote_channel_get_usage(struct fb_remote_channel* self, struct fb_remote_channel_usage* usage) {
  pthread_mutex_lock(&self->lock);
  usage->queued = self->queue.deque.count;
  usage->oldest_ms = self->queue.deque.count > 0 ? fb_wakeup_now_ms() - received_at(&self->queue, 0)->received_ms : 0;
  pthread_mutex_unlock(&self->lock);
  usage->credit = fb_buffer_manager_available(&self->buffers);
  usage->required = fb_buffer_manager_required(&self->buffers);
}

/* Under the lock: the data in the queue that the checkpoint's barrier has overtaken, or will. */
static int add_received(struct fb_remote_channel* self, int64_t checkpoint_id, struct fb_slice_list* overtaken) {
  int code = FB_OK;

  for (uint32_t i = self->queue.deque.priority_count; i < self->queue.deque.count && code == FB_OK; i++) {
    const struct fb_received_buffer* item = received_at(&self->queue, i);
    if (!fb_buffer_data_type_is_event(item->slice.data_type) &&
        fb_channel_persister_is_overtaken(&self->persister, checkpoint_id, item->sequence_number))
      code = fb_slice_list_add(overtaken, &item->slice);
  }
  return code;
}

int fb_remote_channel_start_persisting(struct fb_remote_channel* self, int64_t checkpoint_id,
                                       struct fb_persisting_budget* budget, struct fb_slice_list* overtaken) {
  int code;

  pthread_mutex_lock(&self->lock);
  code = fb_channel_persister_start(&self->persister, checkpoint_id, budget);
  if (code == FB_OK) code = add_received(self, checkpoint_id, overtaken);
  pthread_mutex_unlock(&self->lock);
  return code;
}

int fb_remote_channel_stop_persisting(struct fb_remote_channel* self, struct fb_slice_list* arrived) {
  int code;

  pthread_mutex_lock(&self->lock);
  code = fb_channel_persister_stop(&self->persister, arrived);
  pthread_mutex_unlock(&self->lock);
  return code;
}

int fb_remote_channel_convert_to_priority(struct fb_remote_channel* self, int32_t sequence_number) {
  struct fb_received_queue* queue = &self->queue;
  struct fb_received_buffer item = {0};
  struct fb_buffer_slice copy = {0};
  int code = FB_ESTATE;

  pthread_mutex_lock(&self->lock);
  for (uint32_t i = queue->deque.priority_count; i < queue->deque.count; i++) {
    struct fb_received_buffer* found = received_at(queue, i);
    if (found->sequence_number != sequence_number || !fb_buffer_data_type_requires_announcement(found->slice.data_type))
      continue;
    code = fb_checkpoint_barrier_as_unaligned(&found->slice, &copy);
    if (code == FB_OK) {
      item = take_at(queue, i);
      struct fb_buffer_slice old = item.slice;
      item.slice = copy;
      put_received(queue, &item, true);
      item.slice = old;
    }
    break;
  }
  pthread_mutex_unlock(&self->lock);
  fb_buffer_slice_release(&item.slice);
  /* Also if the gate has heard of this number before, with the announcement. */
  if (code == FB_OK) self->listener.on_priority_event(self->listener.context, self->index, sequence_number);
  return code;
}

/* ---- the I/O thread --------------------------------------------------------------------------------- */

struct fb_buffer* fb_remote_channel_request_buffer(struct fb_remote_channel* self) {
  struct fb_buffer* buffer = fb_buffer_manager_take(&self->buffers);

  if (buffer != NULL) use_credit(self);
  return buffer;
}

void fb_remote_channel_fail(struct fb_remote_channel* self, int code, const char* failure) {
  char* copy = strdup(failure); /* without memory the code alone must do */
  bool is_first;

  pthread_mutex_lock(&self->lock);
  is_first = self->failure_code == FB_OK;
  if (is_first) {
    self->failure_code = code;
    self->failure = copy;
  }
  pthread_mutex_unlock(&self->lock);
  if (!is_first) free(copy);
  else self->listener.on_data_available(self->listener.context, self->index);
}

/* Whether this is the buffer that comes next; counts it if so, fails the channel otherwise. */
static bool is_expected(struct fb_remote_channel* self, int32_t sequence_number) {
  char text[120];
  int32_t expected = self->expected_sequence_number; /* the I/O thread alone changes it */

  if (sequence_number != expected) {
    snprintf(text, sizeof text,
             "a buffer with sequence number %d came where %d was expected: data were lost or "
             "reordered on the way",
             sequence_number, expected);
    fb_remote_channel_fail(self, FB_ECORRUPT, text);
    return false;
  }
  self->expected_sequence_number = expected == INT32_MAX ? INT32_MIN : expected + 1;
  return true;
}

/* A priority event that tells of a barrier before its turn: the same number, the barrier's bytes. */
static int announce_barrier(const struct fb_received_buffer* barrier, struct fb_received_buffer* announcement) {
  struct fb_buffer_slice event;
  uint8_t* bytes = malloc(ANNOUNCEMENT_HEAD + (size_t)barrier->slice.size);
  int code;

  if (bytes == NULL) return FB_ENOMEM;
  fb_store_be32(bytes, ANNOUNCEMENT_TYPE);
  fb_store_be32(bytes + 4, (uint32_t)barrier->sequence_number);
  memcpy(bytes + ANNOUNCEMENT_HEAD, fb_buffer_slice_data(&barrier->slice), barrier->slice.size);
  code = fb_buffer_new_unpooled(bytes, ANNOUNCEMENT_HEAD + (size_t)barrier->slice.size, FB_PRIORITIZED_EVENT_BUFFER,
                                &event);
  free(bytes);
  if (code < 0) return code;
  *announcement = *barrier;
  announcement->slice = event;
  return FB_OK;
}

/* Queues what arrived, the announcement (if any) in front. FB_ERELEASED, FB_ENOMEM, FB_ETOO_LARGE: nothing was
 * queued. */
static int enqueue(struct fb_remote_channel* self, const struct fb_received_buffer* item,
                   const struct fb_received_buffer* announcement, bool* was_empty) {
  int code;

  pthread_mutex_lock(&self->lock);
  code = self->is_released ? FB_ERELEASED : fb_deque_reserve(&self->queue.deque, 2, sizeof *item);
  if (code == FB_OK && event_bytes(item) > 0 && self->queue.event_bytes > MAX_EVENT_BYTES) code = FB_ETOO_LARGE;
  if (code == FB_OK) {
    *was_empty = self->queue.deque.count == 0;
    fb_channel_persister_see(&self->persister, &item->slice, item->sequence_number);
    put_received(&self->queue, item, fb_buffer_data_type_has_priority(item->slice.data_type));
    if (announcement != NULL) put_received(&self->queue, announcement, true);
  }
  pthread_mutex_unlock(&self->lock);
  return code;
}

void fb_remote_channel_on_buffer(struct fb_remote_channel* self, struct fb_buffer_slice* slice, int32_t sequence_number,
                                 int32_t backlog) {
  struct fb_received_buffer item = {*slice, sequence_number, fb_wakeup_now_ms()};
  struct fb_received_buffer announcement = {0};
  enum fb_buffer_data_type type = slice->data_type;
  bool was_empty = false;
  int code = FB_OK;

  slice->buffer = NULL;
  if (!is_expected(self, sequence_number)) {
    fb_buffer_slice_release(&item.slice);
    return;
  }
  atomic_fetch_add_explicit(&self->buffer_count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&self->byte_count, item.slice.size, memory_order_relaxed);
  if (fb_buffer_data_type_blocks_upstream(type)) {
    /* They could not be used while the sender is blocked, and other channels may need them. New ones would have no
     * credit after the resume, so nothing is believed to be behind it. */
    if (self->initial_credit == 0) fb_buffer_manager_release_floating(&self->buffers);
    backlog = 0;
  }
  if (fb_buffer_data_type_requires_announcement(type)) code = announce_barrier(&item, &announcement);
  if (code == FB_OK) code = enqueue(self, &item, announcement.slice.buffer != NULL ? &announcement : NULL, &was_empty);
  if (code < 0) {
    fb_buffer_slice_release(&announcement.slice);
    fb_buffer_slice_release(&item.slice);
    if (code == FB_ETOO_LARGE)
      fb_remote_channel_fail(self, FB_ECORRUPT,
                             "events of 64 MiB wait to be read, and more came: the sender floods "
                             "it");
    else if (code != FB_ERELEASED) fb_remote_channel_fail(self, code, "no memory to queue a buffer that arrived");
    return;
  }
  if (fb_buffer_data_type_has_priority(type) || announcement.slice.buffer != NULL)
    self->listener.on_priority_event(self->listener.context, self->index, sequence_number);
  else if (was_empty) self->listener.on_data_available(self->listener.context, self->index);
  if (backlog >= 0) fb_remote_channel_on_backlog(self, backlog);
}

void fb_remote_channel_on_empty_buffer(struct fb_remote_channel* self, int32_t sequence_number, int32_t backlog) {
  if (is_expected(self, sequence_number) && backlog >= 0) fb_remote_channel_on_backlog(self, backlog);
}

void fb_remote_channel_on_backlog(struct fb_remote_channel* self, int32_t backlog) {
  atomic_store_explicit(&self->backlog, (uint32_t)backlog, memory_order_relaxed);
  fb_buffer_manager_require(&self->buffers, (uint32_t)backlog + self->initial_credit);
}
