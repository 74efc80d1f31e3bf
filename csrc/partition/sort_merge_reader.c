#include "partition/sort_merge_reader.h"

#include <stdlib.h>
#include <string.h>

#include "partition/result_partition.h"

static struct fb_sort_merge_reader* merge_reader_of(struct fb_subpartition_view* view) {
  return (struct fb_sort_merge_reader*)view;
}

static struct fb_buffer_slice* queued_slice(const struct fb_sort_merge_reader* self, uint32_t position) {
  return fb_deque_at(&self->queue, position, sizeof(struct fb_buffer_slice));
}

static bool is_data(const struct fb_buffer_slice* slice) { return fb_buffer_data_type_is_buffer(slice->data_type); }

/* Whether there is more to be read, and time to; under the lock. */
static bool is_running_low(const struct fb_sort_merge_reader* self) {
  return !self->is_complete && self->code == FB_OK && !self->is_given_up && self->queued_bytes <= self->low_bytes;
}

/* ---- the listener --------------------------------------------------------------------------------------- */

/* Leaves the lock and calls the listener. */
static void unlock_and_notify(struct fb_sort_merge_reader* self, bool is_news) {
  bool is_told = is_news && !self->is_given_up && self->listener.on_data_available != NULL;

  if (is_told) self->notifying++;
  pthread_mutex_unlock(&self->lock);
  if (!is_told) return;
  self->listener.on_data_available(self->listener.context, self->view.index);
  pthread_mutex_lock(&self->lock);
  if (--self->notifying == 0) pthread_cond_broadcast(&self->quiet);
  pthread_mutex_unlock(&self->lock);
}

/* ---- what the source does ------------------------------------------------------------------------------- */

static int push_slices(struct fb_sort_merge_reader* self, struct fb_buffer_slice* slices, uint32_t count) {
  int code = fb_deque_reserve(&self->queue, count, sizeof *slices);

  if (code != FB_OK) return code;
  for (uint32_t i = 0; i < count; i++) {
    *(struct fb_buffer_slice*)fb_deque_push(&self->queue, sizeof *slices) = slices[i];
    self->queued_bytes += slices[i].size;
    self->backlog += is_data(&slices[i]);
  }
  self->buffers += count;
  return FB_OK;
}

static void release_slices(struct fb_buffer_slice* slices, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) fb_buffer_slice_release(&slices[i]);
}

int fb_sort_merge_reader_fill(struct fb_sort_merge_reader* self, struct fb_buffer_slice* slices, uint32_t count,
                              uint32_t low_bytes) {
  int code = FB_OK;
  bool was_empty, is_wanted;

  pthread_mutex_lock(&self->lock);
  is_wanted = self->code == FB_OK && !self->is_given_up;
  was_empty = self->queue.count == 0;
  if (is_wanted) code = push_slices(self, slices, count);
  if (is_wanted) self->low_bytes = low_bytes;
  unlock_and_notify(self, is_wanted && code == FB_OK && was_empty && count > 0);
  if (!is_wanted || code != FB_OK) release_slices(slices, count);
  if (code != FB_OK) fb_sort_merge_reader_fail(self, code, NULL);
  return code;
}

void fb_sort_merge_reader_complete(struct fb_sort_merge_reader* self) {
  pthread_mutex_lock(&self->lock);
  self->is_complete = true;
  pthread_mutex_unlock(&self->lock);
}

/* Empties the queue into `taken`; the caller releases it without the lock. */
static void take_queue(struct fb_sort_merge_reader* self, struct fb_deque* taken) {
  *taken = self->queue;
  self->queue = (struct fb_deque){0};
  self->queued_bytes = 0;
  self->backlog = 0;
}

static void release_queue(struct fb_deque* taken) {
  for (uint32_t i = 0; i < taken->count; i++)
    fb_buffer_slice_release(fb_deque_at(taken, i, sizeof(struct fb_buffer_slice)));
  fb_deque_close(taken);
}

void fb_sort_merge_reader_fail(struct fb_sort_merge_reader* self, int code, const char* cause) {
  struct fb_deque dropped = {0};
  bool is_news;

  pthread_mutex_lock(&self->lock);
  is_news = self->code == FB_OK && !self->is_at_end;
  if (is_news) {
    self->code = code;
    if (cause != NULL) self->failure = strdup(cause);
  }
  if (code == FB_ERELEASED) take_queue(self, &dropped);
  unlock_and_notify(self, is_news);
  release_queue(&dropped);
}

bool fb_sort_merge_reader_is_wanted(struct fb_sort_merge_reader* self) {
  bool is_wanted;

  pthread_mutex_lock(&self->lock);
  is_wanted = !self->is_complete && self->code == FB_OK && !self->is_given_up;
  pthread_mutex_unlock(&self->lock);
  return is_wanted;
}

bool fb_sort_merge_reader_rest(struct fb_sort_merge_reader* self) {
  bool is_low;

  pthread_mutex_lock(&self->lock);
  is_low = is_running_low(self);
  self->has_asked = is_low;
  pthread_mutex_unlock(&self->lock);
  return is_low;
}

/* ---- life ----------------------------------------------------------------------------------------------- */

void fb_sort_merge_reader_retain(struct fb_sort_merge_reader* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_sort_merge_reader_drop(struct fb_sort_merge_reader* self) {
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  release_queue(&self->queue);
  fb_read_buffer_pool_close_consumer(self->consumer);
  fb_io_executor_cancel(self->source->executor, &self->request);
  fb_partition_file_reader_close(&self->file_reader);
  self->source->kind->drop(self->source);
  pthread_cond_destroy(&self->quiet);
  pthread_mutex_destroy(&self->lock);
  free(self->failure);
  free(self);
}

static void ask(struct fb_sort_merge_reader* self) {
  int code = self->source->kind->ask(self->source, self);

  if (code != FB_OK)
    fb_sort_merge_reader_fail(self, code, "the thread that reads partition files is closed, or cannot be started");
}

/* ---- the view ------------------------------------------------------------------------------------------- */

/* An error behind the last buffer needs no credit: it is announced like an
 * event. */
static uint8_t next_type(const struct fb_sort_merge_reader* self) {
  if (self->queue.count > 0) return queued_slice(self, 0)->data_type;
  return self->code != FB_OK ? FB_EVENT_BUFFER : FB_NONE;
}

static void take_first(struct fb_sort_merge_reader* self, struct fb_polled_buffer* polled) {
  *polled = (struct fb_polled_buffer){.slice = *queued_slice(self, 0)};
  fb_deque_pop(&self->queue);
  self->queued_bytes -= polled->slice.size;
  self->bytes += polled->slice.size;
  self->backlog -= is_data(&polled->slice);
  self->is_at_end = polled->slice.data_type == FB_END_OF_PARTITION;
  polled->backlog = self->backlog;
  polled->next_data_type = next_type(self);
  polled->sequence_number = self->sequence_number++;
}

static int poll_reader(struct fb_subpartition_view* view, struct fb_polled_buffer* polled) {
  struct fb_sort_merge_reader* self = merge_reader_of(view);
  bool is_asking = false;
  int code;

  pthread_mutex_lock(&self->lock);
  code = self->queue.count > 0 ? 1 : self->code;
  if (code == 1) {
    take_first(self, polled);
    if (!self->has_asked && is_running_low(self)) is_asking = self->has_asked = true;
  }
  pthread_mutex_unlock(&self->lock);
  if (is_asking) ask(self);
  return code;
}

static bool is_reader_available(struct fb_subpartition_view* view, bool has_credit, uint32_t* backlog) {
  struct fb_sort_merge_reader* self = merge_reader_of(view);
  bool is_available;

  pthread_mutex_lock(&self->lock);
  if (self->queue.count == 0) is_available = self->code != FB_OK;
  else is_available = has_credit || !is_data(queued_slice(self, 0));
  if (backlog != NULL) *backlog = self->backlog;
  pthread_mutex_unlock(&self->lock);
  return is_available;
}

static bool is_reader_released(struct fb_subpartition_view* view) {
  struct fb_sort_merge_reader* self = merge_reader_of(view);
  bool is_released;

  pthread_mutex_lock(&self->lock);
  is_released = self->code == FB_ERELEASED;
  pthread_mutex_unlock(&self->lock);
  return is_released;
}

static void set_reader_credit(struct fb_subpartition_view* view, int64_t credit) {
  /* Relaxed: a figure to look at. */
  atomic_store_explicit(&merge_reader_of(view)->credit, (int32_t)credit, memory_order_relaxed);
}

static void get_reader_usage(struct fb_subpartition_view* view, struct fb_subpartition_usage* usage) {
  struct fb_sort_merge_reader* self = merge_reader_of(view);

  pthread_mutex_lock(&self->lock);
  *usage = (struct fb_subpartition_usage){
      .buffers = self->buffers,
      .bytes = self->bytes,
      .queued = self->queue.count,
      .backlog = self->backlog,
      .credit = atomic_load_explicit(&self->credit, memory_order_relaxed),
  };
  pthread_mutex_unlock(&self->lock);
}

static const char* reader_failure(struct fb_subpartition_view* view) {
  struct fb_sort_merge_reader* self = merge_reader_of(view);
  const char* failure;

  pthread_mutex_lock(&self->lock);
  failure = self->failure; /* stays as long as the view */
  pthread_mutex_unlock(&self->lock);
  return failure;
}

static void release_reader(struct fb_subpartition_view* view) {
  struct fb_sort_merge_reader* self = merge_reader_of(view);
  struct fb_deque dropped = {0};

  self->source->kind->remove(self->source, self);
  pthread_mutex_lock(&self->lock);
  self->is_given_up = true;
  while (self->notifying > 0) pthread_cond_wait(&self->quiet, &self->lock);
  take_queue(self, &dropped);
  pthread_mutex_unlock(&self->lock);
  release_queue(&dropped);
  fb_result_partition_close_view(view);
  fb_sort_merge_reader_drop(self);
}

static const struct fb_subpartition_view_kind SORT_MERGE_VIEW = {
    .poll = poll_reader,
    .is_available = is_reader_available,
    .set_credit = set_reader_credit,
    .is_released = is_reader_released,
    .get_usage = get_reader_usage,
    .failure = reader_failure,
    .release = release_reader,
};

/* The pool may have memory for it now. While the view is not given up its
 * reference is there, and another can be taken. */
static void ask_again(struct fb_io_request* request) {
  struct fb_sort_merge_reader* self =
      (struct fb_sort_merge_reader*)((uint8_t*)request - offsetof(struct fb_sort_merge_reader, request));
  bool is_given_up;

  pthread_mutex_lock(&self->lock);
  is_given_up = self->is_given_up;
  if (!is_given_up) fb_sort_merge_reader_retain(self);
  pthread_mutex_unlock(&self->lock);
  if (is_given_up) return;
  ask(self);
  fb_sort_merge_reader_drop(self);
}

static struct fb_sort_merge_reader* new_reader(const struct fb_view_options* options) {
  struct fb_sort_merge_reader* self = calloc(1, sizeof *self);

  if (self == NULL) return NULL;
  if (pthread_mutex_init(&self->lock, NULL) != 0) {
    free(self);
    return NULL;
  }
  if (pthread_cond_init(&self->quiet, NULL) != 0) {
    pthread_mutex_destroy(&self->lock);
    free(self);
    return NULL;
  }
  self->listener = options->listener;
  self->request.run = ask_again;
  self->has_asked = true;
  atomic_init(&self->references, 1);
  atomic_init(&self->credit, -1);
  return self;
}

int fb_sort_merge_reader_open(struct fb_sort_merge_source* source, struct fb_result_partition* partition,
                              uint32_t index, const struct fb_view_options* options,
                              struct fb_subpartition_view** view) {
  struct fb_sort_merge_reader* opened = new_reader(options);
  int code;

  *view = NULL;
  if (opened == NULL) return FB_ENOMEM;
  source->kind->retain(source);
  opened->source = source;
  fb_result_partition_open_view(partition, &SORT_MERGE_VIEW, index, &opened->view);
  code = source->kind->add(source, opened);
  if (code == FB_OK) code = source->kind->ask(source, opened);
  if (code != FB_OK) release_reader(&opened->view);
  else *view = &opened->view;
  return code;
}
