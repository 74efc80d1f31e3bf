#include "partition/subpartition.h"

#include "ground/wakeup.h"
#include "memory/checkpoint_barrier.h"

#define SKIPPED 2 /* a step of poll(): the head was finished and empty, look at the next */

static const uint8_t END_OF_PARTITION_EVENT[4] = {0, 0, 0, 0};

/* ---- the queue ----------------------------------------------------------------------------------- */

static struct fb_queued_consumer* queued_consumer_at(const struct fb_deque* self, uint32_t position) {
  return fb_deque_at(self, position, sizeof(struct fb_queued_consumer));
}

static int queue_reserve(struct fb_deque* self) { return fb_deque_reserve(self, 1, sizeof(struct fb_queued_consumer)); }

static void queue_add(struct fb_deque* self, const struct fb_queued_consumer* item, bool has_priority) {
  struct fb_queued_consumer* place =
      has_priority ? fb_deque_push_priority(self, sizeof *place) : fb_deque_push(self, sizeof *place);
  *place = *item;
}

static struct fb_buffer_consumer queue_take(struct fb_deque* self) {
  struct fb_buffer_consumer consumer = queued_consumer_at(self, 0)->consumer;

  fb_deque_pop(self);
  return consumer;
}

static void queue_close(struct fb_deque* self) {
  while (self->count > 0) {
    struct fb_buffer_consumer consumer = queue_take(self);
    fb_buffer_consumer_close(&consumer);
  }
  fb_deque_close(self);
}

/* ---- what follows from the state; all under the lock --------------------------------------------- */

static bool is_buffer(const struct fb_buffer_consumer* consumer) {
  return fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)consumer->data_type);
}

/* Every buffer but the last is finished. Of a single one only the cached fact is asked: it may lag by one
 * flush, and the edges of notification rest on that. */
static uint32_t finished_buffers(const struct fb_subpartition* self) {
  if (self->queue.count == 1) return fb_buffer_consumer_is_finished(&queued_consumer_at(&self->queue, 0)->consumer);
  return self->queue.count == 0 ? 0 : self->queue.count - 1;
}

static bool is_data_available(const struct fb_subpartition* self) {
  return !self->is_blocked && (self->is_flush_requested || finished_buffers(self) > 0);
}

static bool should_notify(const struct fb_subpartition* self) {
  return !self->is_flush_requested && !self->is_blocked && finished_buffers(self) == 1;
}

/* The open last buffer is not announced unless somebody asked for it. */
static uint32_t reported_backlog(const struct fb_subpartition* self) {
  const struct fb_queued_consumer* last;

  if (self->is_blocked || self->queue.count == 0) return 0;
  last = queued_consumer_at(&self->queue, self->queue.count - 1);
  if (self->is_flush_requested || self->is_finished || !is_buffer(&last->consumer)) return self->backlog;
  return self->backlog > 0 ? self->backlog - 1 : 0;
}

static enum fb_buffer_data_type next_data_type(const struct fb_subpartition* self) {
  if (!is_data_available(self)) return FB_NONE;
  return (enum fb_buffer_data_type)queued_consumer_at(&self->queue, 0)->consumer.data_type;
}

/* ---- notification -------------------------------------------------------------------------------- */

/* A call that was decided under the lock and is made after it. */
struct notification {
  bool of_data;
  bool of_priority;
  int32_t sequence_number;
  struct fb_availability_listener listener;
};

static void plan_notification(struct fb_subpartition* self, struct notification* notification) {
  if (!self->has_view || !(notification->of_data || notification->of_priority)) {
    *notification = (struct notification){0};
    return;
  }
  notification->sequence_number = self->sequence_number;
  notification->listener = self->options.listener;
  self->notifying++;
}

static void deliver_notification(struct fb_subpartition* self, const struct notification* notification) {
  const struct fb_availability_listener* listener = &notification->listener;
  bool is_last;

  if (!(notification->of_data || notification->of_priority)) return;
  if (notification->of_priority)
    listener->on_priority_event(listener->context, self->index, notification->sequence_number);
  if (notification->of_data) listener->on_data_available(listener->context, self->index);

  /* The signal is given inside the lock: once detach() has seen zero, the partition may be freed. */
  pthread_mutex_lock(&self->lock);
  is_last = --self->notifying == 0;
  if (is_last) pthread_cond_broadcast(&self->quiet);
  pthread_mutex_unlock(&self->lock);
}

/* ---- the producer's side ------------------------------------------------------------------------- */

int fb_subpartition_open(struct fb_subpartition* self, uint32_t index, bool is_approximate) {
  *self = (struct fb_subpartition){
      .index = index, .is_approximate = is_approximate, .buffer_size = INT32_MAX, .credit = -1};
  if (pthread_mutex_init(&self->lock, NULL) != 0) return FB_ENOMEM;
  if (pthread_cond_init(&self->quiet, NULL) != 0) {
    pthread_mutex_destroy(&self->lock);
    return FB_ENOMEM;
  }
  self->is_open = true;
  return FB_OK;
}

void fb_subpartition_close(struct fb_subpartition* self) {
  if (!self->is_open) return;
  self->is_open = false;
  queue_close(&self->queue);
  pthread_cond_destroy(&self->quiet);
  pthread_mutex_destroy(&self->lock);
}

/* The unread bytes of each data buffer before `end` that has no priority. Room was reserved. */
static void add_overtaken(const struct fb_subpartition* self, uint32_t end, struct fb_slice_list* overtaken) {
  for (uint32_t i = self->queue.priority_count; i < end; i++) {
    struct fb_buffer_consumer reader = queued_consumer_at(&self->queue, i)->consumer; /* whose position stays */
    struct fb_buffer_slice unread;
    if (!is_buffer(&reader)) continue;
    fb_buffer_consumer_build(&reader, &unread);
    if (unread.size > 0) fb_slice_list_push(overtaken, &unread);
    else fb_buffer_slice_release(&unread); /* not the last reference: the queue has one */
  }
}

/* Queues the consumer, or says why not. `overtaken` is NULL for all but unaligned barriers. */
static int add_locked(struct fb_subpartition* self, const struct fb_queued_consumer* item, bool is_end,
                      struct fb_slice_list* overtaken, struct notification* notification) {
  bool has_priority = fb_buffer_data_type_has_priority((enum fb_buffer_data_type)item->consumer.data_type);
  int code;

  if (fb_subpartition_is_released(self)) return FB_ERELEASED;
  if (self->is_finished) return FB_EFINISHED;
  code = queue_reserve(&self->queue);
  if (code < 0) return code;

  if (overtaken != NULL) add_overtaken(self, self->queue.count, overtaken);
  queue_add(&self->queue, item, has_priority);
  self->total_buffers++;
  if (is_buffer(&item->consumer)) self->backlog++;
  self->is_finished = is_end;
  /* A second priority event needs no call: the reader was told of the first. A blocked one expects none. */
  notification->of_priority = has_priority && self->queue.priority_count == 1 && !self->is_blocked;
  notification->of_data = is_end || should_notify(self);
  plan_notification(self, notification);
  return FB_OK;
}

static int queue_consumer(struct fb_subpartition* self, struct fb_buffer_consumer* consumer,
                          int32_t partial_record_length, bool is_end, struct fb_slice_list* overtaken,
                          int32_t* desired_size) {
  struct fb_queued_consumer item = {*consumer, partial_record_length, fb_wakeup_now_ms()};
  struct notification notification = {0};
  int code;

  *consumer = (struct fb_buffer_consumer){0};
  pthread_mutex_lock(&self->lock);
  code = add_locked(self, &item, is_end, overtaken, &notification);
  *desired_size = self->buffer_size;
  pthread_mutex_unlock(&self->lock);

  if (code < 0) fb_buffer_consumer_close(&item.consumer);
  deliver_notification(self, &notification);
  return code;
}

int fb_subpartition_add(struct fb_subpartition* self, struct fb_buffer_consumer* consumer,
                        int32_t partial_record_length, int32_t* desired_size) {
  return queue_consumer(self, consumer, partial_record_length, false, NULL, desired_size);
}

int fb_subpartition_reserve_overtaken(struct fb_subpartition* self, struct fb_slice_list* overtaken) {
  return fb_slice_list_reserve(overtaken, fb_subpartition_queued_buffers(self));
}

int fb_subpartition_add_overtaking(struct fb_subpartition* self, struct fb_buffer_consumer* barrier,
                                   struct fb_slice_list* overtaken) {
  int32_t desired_size;
  return queue_consumer(self, barrier, 0, false, overtaken, &desired_size);
}

/* Where the barrier stands that may be converted; the number of items if it does not. */
static uint32_t find_barrier(const struct fb_subpartition* self, int64_t checkpoint_id) {
  uint32_t i;

  for (i = self->queue.priority_count; i < self->queue.count; i++) {
    const struct fb_buffer_consumer* consumer = &queued_consumer_at(&self->queue, i)->consumer;
    struct fb_buffer_slice event = {consumer->buffer, consumer->reader_position,
                                    fb_buffer_consumer_committed(consumer) - consumer->reader_position,
                                    consumer->data_type, false};
    int64_t id;
    if (consumer->data_type == FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER && fb_checkpoint_barrier_read(&event, &id) &&
        id == checkpoint_id)
      break;
  }
  return i;
}

bool fb_subpartition_has_barrier(struct fb_subpartition* self, int64_t checkpoint_id) {
  bool is_there;

  pthread_mutex_lock(&self->lock);
  is_there = find_barrier(self, checkpoint_id) < self->queue.count;
  pthread_mutex_unlock(&self->lock);
  return is_there;
}

/* Puts the barrier at `position` in front, as an unaligned one; *old is what it was. */
static int convert_at(struct fb_subpartition* self, uint32_t position, struct fb_slice_list* overtaken,
                      struct fb_buffer_consumer* old) {
  struct fb_queued_consumer item = *queued_consumer_at(&self->queue, position);
  struct fb_buffer_slice aligned, unaligned;
  int code;

  fb_buffer_consumer_build(&item.consumer, &aligned);
  code = fb_checkpoint_barrier_as_unaligned(&aligned, &unaligned);
  fb_buffer_slice_release(&aligned); /* the queue has a reference still */
  if (code < 0) return code;
  add_overtaken(self, position, overtaken);
  *old = item.consumer;
  fb_deque_remove(&self->queue, position, sizeof item);
  fb_buffer_consumer_open(&item.consumer, &unaligned);
  queue_add(&self->queue, &item, true);
  return 1;
}

int fb_subpartition_convert_barrier(struct fb_subpartition* self, int64_t checkpoint_id,
                                    struct fb_slice_list* overtaken) {
  struct notification notification = {0};
  struct fb_buffer_consumer old = {0};
  uint32_t position;
  int code = 0;

  pthread_mutex_lock(&self->lock);
  position = find_barrier(self, checkpoint_id);
  if (position < self->queue.count) code = convert_at(self, position, overtaken, &old);
  if (code == 1) {
    notification.of_priority = self->queue.priority_count == 1 && !self->is_blocked;
    plan_notification(self, &notification);
  }
  pthread_mutex_unlock(&self->lock);
  fb_buffer_consumer_close(&old);
  deliver_notification(self, &notification);
  return code;
}

int fb_subpartition_reserve(struct fb_subpartition* self) {
  int code;

  pthread_mutex_lock(&self->lock);
  code = fb_subpartition_is_released(self) ? FB_OK : queue_reserve(&self->queue);
  pthread_mutex_unlock(&self->lock);
  return code;
}

int fb_subpartition_new_end(struct fb_buffer_consumer* end) {
  struct fb_buffer_slice event;
  int code =
      fb_buffer_new_unpooled(END_OF_PARTITION_EVENT, sizeof(END_OF_PARTITION_EVENT), FB_END_OF_PARTITION, &event);

  if (code == FB_OK) fb_buffer_consumer_open(end, &event);
  return code;
}

int fb_subpartition_add_end(struct fb_subpartition* self, struct fb_buffer_consumer* end) {
  int32_t desired_size;
  return queue_consumer(self, end, 0, true, NULL, &desired_size);
}

void fb_subpartition_flush(struct fb_subpartition* self) {
  struct notification notification = {0};

  pthread_mutex_lock(&self->lock);
  if (self->queue.count > 0 && !self->is_flush_requested) {
    bool is_one =
        self->queue.count == 1 && fb_buffer_consumer_is_data_available(&queued_consumer_at(&self->queue, 0)->consumer);
    /* With more than one the reader was told already; the flag makes the open last one count as available. */
    self->is_flush_requested = self->queue.count > 1 || is_one;
    notification.of_data = is_one && !self->is_blocked;
    plan_notification(self, &notification);
  }
  pthread_mutex_unlock(&self->lock);
  deliver_notification(self, &notification);
}

void fb_subpartition_release(struct fb_subpartition* self) {
  struct notification notification = {.of_data = true};
  struct fb_deque dropped;

  pthread_mutex_lock(&self->lock);
  if (fb_subpartition_is_released(self)) {
    pthread_mutex_unlock(&self->lock);
    return;
  }
  /* Release, partner of fb_subpartition_is_released() outside the lock. */
  atomic_store_explicit(&self->is_released, true, memory_order_release);
  dropped = self->queue;
  self->queue = (struct fb_deque){0};
  self->backlog = 0;
  self->is_flush_requested = false;
  plan_notification(self, &notification);
  pthread_mutex_unlock(&self->lock);

  queue_close(&dropped);
  deliver_notification(self, &notification);
}

/* ---- the reader's side --------------------------------------------------------------------------- */

/* A new reader must not see the end of a record whose beginning went to the one before it. Writers commit
 * inside a buffer at ends of records only, so whatever is left to read once the partial record at the front
 * was passed over starts a record. A buffer that has nothing left proves nothing: it may end inside one. */
static int skip_partial_record(struct fb_subpartition* self, struct fb_queued_consumer* head) {
  int code;

  if (!is_buffer(&head->consumer)) return FB_OK;
  if (head->partial_record_length < 0) return FB_ESTATE; /* a restored buffer does not know its record */
  if (head->consumer.reader_position == 0 && head->partial_record_length > 0) {
    code = fb_buffer_consumer_skip(&head->consumer, (uint32_t)head->partial_record_length);
    if (code < 0) return code;
  }
  self->is_cleanup_required = !fb_buffer_consumer_is_data_available(&head->consumer);
  return FB_OK;
}

/* Looks at the head. Whatever it leaves in *taken and, unless it returns 1, in polled->slice is to be given
 * back outside the lock: it may be the last reference. */
static int poll_head(struct fb_subpartition* self, struct fb_polled_buffer* polled, struct fb_buffer_consumer* taken) {
  struct fb_queued_consumer* head;
  bool is_finished;
  int code;

  if (fb_subpartition_is_released(self)) return FB_ERELEASED;
  if (self->is_blocked) return 0;
  if (self->queue.count == 0) {
    self->is_flush_requested = false;
    return 0;
  }
  head = queued_consumer_at(&self->queue, 0);
  code = self->is_cleanup_required ? skip_partial_record(self, head) : FB_OK;
  if (code < 0) return code;
  fb_buffer_consumer_build(&head->consumer, &polled->slice);
  is_finished = fb_buffer_consumer_is_finished(&head->consumer);
  if (!is_finished && self->queue.count > 1) return FB_ESTATE;
  if (self->queue.count == 1) self->is_flush_requested = false;
  if (is_finished) {
    *taken = queue_take(&self->queue);
    if (is_buffer(taken)) self->backlog--;
  }
  if (polled->slice.size > 0 || (is_finished && self->options.sends_empty_buffers)) return 1;
  return is_finished ? SKIPPED : 0;
}

static void describe_polled(struct fb_subpartition* self, struct fb_polled_buffer* polled, bool is_taken) {
  /* What is written into the open buffer from now on is younger than what was read. */
  if (!is_taken) queued_consumer_at(&self->queue, 0)->waiting_since_ms = fb_wakeup_now_ms();
  if (fb_buffer_data_type_blocks_upstream((enum fb_buffer_data_type)polled->slice.data_type)) self->is_blocked = true;
  self->total_bytes += polled->slice.size;
  polled->backlog = reported_backlog(self);
  polled->next_data_type = (uint8_t)next_data_type(self);
  polled->sequence_number = self->sequence_number;
  /* Wraps around after 2^31 buffers as Java's int does. */
  self->sequence_number = (int32_t)((uint32_t)self->sequence_number + 1);
}

static bool is_viewer(const struct fb_subpartition* self, const void* viewer) {
  return self->has_view && (viewer == NULL || self->viewer == viewer);
}

static int poll_locked(struct fb_subpartition* self, const void* viewer, bool with_priority,
                       struct fb_polled_buffer* polled, struct fb_buffer_consumer* taken) {
  if (viewer != NULL && !is_viewer(self, viewer)) return FB_ESTATE;
  if (with_priority && self->queue.priority_count == 0) return 0;
  return poll_head(self, polled, taken);
}

static int poll_queue(struct fb_subpartition* self, const void* viewer, bool with_priority,
                      struct fb_polled_buffer* polled) {
  int step;

  do {
    struct fb_buffer_consumer taken = {0};

    *polled = (struct fb_polled_buffer){0};
    pthread_mutex_lock(&self->lock);
    step = poll_locked(self, viewer, with_priority, polled, &taken);
    if (step == 1) describe_polled(self, polled, taken.buffer != NULL);
    pthread_mutex_unlock(&self->lock);

    if (taken.buffer != NULL) fb_buffer_consumer_close(&taken);
    if (step != 1) fb_buffer_slice_release(&polled->slice);
  } while (step == SKIPPED);
  if (step == 1 && polled->slice.data_type == FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER &&
      self->on_barrier_polled != NULL)
    self->on_barrier_polled(self);
  return step;
}

int fb_subpartition_poll(struct fb_subpartition* self, const void* viewer, struct fb_polled_buffer* polled) {
  return poll_queue(self, viewer, false, polled);
}

int fb_subpartition_poll_priority(struct fb_subpartition* self, const void* viewer, struct fb_polled_buffer* polled) {
  return poll_queue(self, viewer, true, polled);
}

static void wait_until_quiet(struct fb_subpartition* self) {
  while (self->notifying > 0) pthread_cond_wait(&self->quiet, &self->lock);
}

/* The view is attached no more, and the next one begins anew: all of it in one step, as another may be attached as soon as
 * the lock is given back. */
static void leave_view(struct fb_subpartition* self) {
  self->has_view = false;
  fb_subpartition_set_credit(self, -1);
  if (!self->is_approximate) return;
  self->is_cleanup_required = true;
  self->is_blocked = false;
  self->sequence_number = 0;
}

int fb_subpartition_attach(struct fb_subpartition* self, const void* viewer, const struct fb_view_options* options) {
  struct notification farewell = {0};
  int code = FB_OK;

  pthread_mutex_lock(&self->lock);
  if (self->has_view && self->is_approximate) {
    /* Whoever sleeps until there are data would not hear that they go to another from now on. */
    farewell = (struct notification){.of_data = true, .listener = self->options.listener};
    self->notifying++;
    leave_view(self);
  }
  if (fb_subpartition_is_released(self)) {
    code = FB_ERELEASED;
  } else if (self->has_view) {
    code = FB_ESTATE;
  } else {
    self->viewer = viewer;
    self->options = *options;
    self->has_view = true;
  }
  pthread_mutex_unlock(&self->lock);
  deliver_notification(self, &farewell);
  return code;
}

void fb_subpartition_detach(struct fb_subpartition* self, const void* viewer) {
  bool was_attached;

  pthread_mutex_lock(&self->lock);
  was_attached = is_viewer(self, viewer);
  if (was_attached) leave_view(self);
  wait_until_quiet(self); /* also of one that is told just now that another has its place */
  pthread_mutex_unlock(&self->lock);
  if (!was_attached || self->is_approximate) return;

  fb_subpartition_release(self);
  if (self->on_consumed != NULL) self->on_consumed(self);
}

bool fb_subpartition_is_attached(struct fb_subpartition* self, const void* viewer) {
  bool is_attached;

  pthread_mutex_lock(&self->lock);
  is_attached = is_viewer(self, viewer);
  pthread_mutex_unlock(&self->lock);
  return is_attached;
}

int fb_subpartition_resume(struct fb_subpartition* self, const void* viewer) {
  int code = FB_ESTATE;

  pthread_mutex_lock(&self->lock);
  if (self->is_blocked && (viewer == NULL || is_viewer(self, viewer))) {
    self->is_blocked = false;
    code = FB_OK;
  }
  pthread_mutex_unlock(&self->lock);
  return code;
}

bool fb_subpartition_is_available(struct fb_subpartition* self, bool has_credit, uint32_t* backlog) {
  bool is_available;

  pthread_mutex_lock(&self->lock);
  if (has_credit) is_available = is_data_available(self);
  else
    is_available =
        !self->is_blocked && self->queue.count > 0 && !is_buffer(&queued_consumer_at(&self->queue, 0)->consumer);
  if (backlog != NULL) *backlog = reported_backlog(self);
  pthread_mutex_unlock(&self->lock);
  return is_available;
}

int fb_subpartition_set_buffer_size(struct fb_subpartition* self, int32_t size) {
  if (size < 0) return FB_EARGUMENT;
  pthread_mutex_lock(&self->lock);
  self->buffer_size = size;
  pthread_mutex_unlock(&self->lock);
  return FB_OK;
}

/* ---- figures ------------------------------------------------------------------------------------- */

uint32_t fb_subpartition_queued_buffers(struct fb_subpartition* self) {
  uint32_t count;

  pthread_mutex_lock(&self->lock);
  count = self->queue.count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

uint64_t fb_subpartition_total_buffers(struct fb_subpartition* self) {
  uint64_t total;

  pthread_mutex_lock(&self->lock);
  total = self->total_buffers;
  pthread_mutex_unlock(&self->lock);
  return total;
}

void fb_subpartition_get_usage(struct fb_subpartition* self, struct fb_subpartition_usage* usage) {
  const struct fb_queued_consumer* head;

  *usage = (struct fb_subpartition_usage){.credit = atomic_load_explicit(&self->credit, memory_order_relaxed)};
  pthread_mutex_lock(&self->lock);
  usage->buffers = self->total_buffers;
  usage->bytes = self->total_bytes;
  usage->queued = self->queue.count;
  usage->backlog = reported_backlog(self);
  if (self->queue.count > 0) {
    head = queued_consumer_at(&self->queue, 0);
    if (self->queue.count > 1 || fb_buffer_consumer_is_data_available(&head->consumer))
      usage->oldest_ms = fb_wakeup_now_ms() - head->waiting_since_ms;
  }
  pthread_mutex_unlock(&self->lock);
}
