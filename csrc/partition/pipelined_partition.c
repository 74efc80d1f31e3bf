#include "partition/pipelined_partition.h"

#include <stdlib.h>

#include "ground/schedule_point.h"
#include "ground/wakeup.h"

#define RESTORED INT32_MIN /* in place of the length of a partial record: it is not known */

struct pipelined_partition {
  struct fb_result_partition base; /* the first member */
  struct fb_subpartition* queues;  /* NULL: not opened yet */
};

struct pipelined_view {
  struct fb_subpartition_view base; /* the first member */
  struct fb_subpartition* queue;
};

struct fb_subpartition* fb_pipelined_partition_queue(struct fb_result_partition* self, uint32_t index) {
  return &((struct pipelined_partition*)self)->queues[index];
}

#define queue_of fb_pipelined_partition_queue

/* ---- the producer's side ------------------------------------------------------------------------------ */

static int reserve_places(struct fb_result_partition* self, uint32_t target) {
  int code = FB_OK;

  if (target < self->subpartition_count) return fb_subpartition_reserve(queue_of(self, target));
  for (uint32_t i = 0; i < self->subpartition_count && code == FB_OK; i++)
    code = fb_subpartition_reserve(queue_of(self, i));
  return code;
}

/* A reader that is gone has no wish, and gets nothing. Of several the smallest wish counts. */
static int add_to_queues(struct fb_result_partition* self, uint32_t target, struct fb_buffer_consumer* consumer,
                         int32_t partial_record_length, int32_t* desired_size) {
  int32_t size;

  if (target < self->subpartition_count) {
    int code = fb_subpartition_add(queue_of(self, target), consumer, partial_record_length, &size);
    if (code == FB_OK) *desired_size = size;
    return FB_OK;
  }
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    struct fb_buffer_consumer copy;

    fb_buffer_consumer_copy(consumer, &copy);
    if (fb_subpartition_add(queue_of(self, i), &copy, partial_record_length, &size) < 0) continue;
    if (size < *desired_size) *desired_size = size;
  }
  fb_buffer_consumer_close(consumer);
  return FB_OK;
}

static void flush_queues(struct fb_result_partition* self, uint32_t target) {
  if (target < self->subpartition_count) {
    fb_subpartition_flush(queue_of(self, target));
    return;
  }
  for (uint32_t i = 0; i < self->subpartition_count; i++) fb_subpartition_flush(queue_of(self, i));
}

static int end_queues(struct fb_result_partition* self) {
  struct fb_buffer_consumer end;
  int code = fb_subpartition_new_end(&end);

  if (code < 0) return code;
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    struct fb_buffer_consumer copy;
    fb_buffer_consumer_copy(&end, &copy);
    fb_subpartition_add_end(queue_of(self, i), &copy); /* one that is gone needs none */
  }
  fb_buffer_consumer_close(&end);
  return FB_OK;
}

/* Nobody will read what is written to the target: all of its queues take nothing more, not even their end. */
static bool is_target_gone(struct fb_result_partition* self, uint32_t target) {
  if (target == self->subpartition_count || FB_PLANTED("the whole is released before its parts"))
    return fb_result_partition_is_released(self);
  return fb_subpartition_is_released(queue_of(self, target));
}

/* ---- checkpoints --------------------------------------------------------------------------------------- */

static int reserve_overtaken(struct fb_result_partition* self, struct fb_slice_list* overtaken) {
  int code = FB_OK;

  for (uint32_t i = 0; i < self->subpartition_count && code == FB_OK; i++)
    code = fb_subpartition_reserve_overtaken(queue_of(self, i), &overtaken[i]);
  return code;
}

static int overtake_queues(struct fb_result_partition* self, struct fb_buffer_consumer* barrier,
                           struct fb_slice_list* overtaken) {
  for (uint32_t i = 0; i < self->subpartition_count; i++) {
    struct fb_buffer_consumer copy;
    fb_buffer_consumer_copy(barrier, &copy);
    fb_subpartition_add_overtaking(queue_of(self, i), &copy, &overtaken[i]); /* one that is gone needs none */
  }
  fb_buffer_consumer_close(barrier);
  return FB_OK;
}

static int convert_barriers(struct fb_result_partition* self, int64_t checkpoint_id, struct fb_slice_list* overtaken) {
  int code = FB_OK, is_anywhere = 0;

  for (uint32_t i = 0; i < self->subpartition_count && code >= 0; i++) {
    code = fb_subpartition_convert_barrier(queue_of(self, i), checkpoint_id, &overtaken[i]);
    is_anywhere |= code == 1;
  }
  return code < 0 ? code : is_anywhere;
}

static bool has_barrier_anywhere(struct fb_result_partition* self, int64_t checkpoint_id) {
  for (uint32_t i = 0; i < self->subpartition_count; i++)
    if (fb_subpartition_has_barrier(queue_of(self, i), checkpoint_id)) return true;
  return false;
}

static void on_barrier_polled(struct fb_subpartition* queue) { fb_wakeup_ring(fb_result_partition_bell(queue->owner)); }

/* One buffer's worth of what is restored; the reader has room for no more at once. */
static int restore_part(struct fb_result_partition* self, struct fb_subpartition* queue, const uint8_t* data,
                        uint32_t size) {
  struct fb_buffer_slice slice;
  struct fb_buffer_consumer consumer;
  int32_t desired_size;
  int code = fb_subpartition_reserve(queue);

  if (code == FB_OK) code = fb_buffer_new_unpooled(data, size, FB_DATA_BUFFER, &slice);
  if (code < 0) return code;
  fb_buffer_consumer_open(&consumer, &slice);
  fb_subpartition_add(queue, &consumer, RESTORED, &desired_size); /* one that is gone needs none */
  fb_result_partition_count_written(self, 1, size);
  return FB_OK;
}

static int restore_queue(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data, size_t size) {
  uint32_t part = fb_local_buffer_pool_segment_size(self->pool);
  struct fb_subpartition* queue = queue_of(self, subpartition);
  int code = FB_OK;

  if (fb_subpartition_total_buffers(queue) > 0) return FB_ESTATE;
  while (size > 0 && code == FB_OK && !fb_subpartition_is_released(queue)) {
    uint32_t taken = size < part ? (uint32_t)size : part;
    code = restore_part(self, queue, data, taken);
    data += taken;
    size -= taken;
  }
  return code;
}

/* ---- views --------------------------------------------------------------------------------------------- */

static struct fb_subpartition* viewed_queue(struct fb_subpartition_view* view) {
  return ((struct pipelined_view*)view)->queue;
}

static int poll_view(struct fb_subpartition_view* view, struct fb_polled_buffer* polled) {
  return fb_subpartition_poll(viewed_queue(view), view, polled);
}

static int poll_view_priority(struct fb_subpartition_view* view, struct fb_polled_buffer* polled) {
  return fb_subpartition_poll_priority(viewed_queue(view), view, polled);
}

static bool is_view_available(struct fb_subpartition_view* view, bool has_credit, uint32_t* backlog) {
  return fb_subpartition_is_available(viewed_queue(view), has_credit, backlog);
}

static int resume_view(struct fb_subpartition_view* view) { return fb_subpartition_resume(viewed_queue(view), view); }

static int set_view_buffer_size(struct fb_subpartition_view* view, int32_t size) {
  return fb_subpartition_set_buffer_size(viewed_queue(view), size);
}

static void set_view_credit(struct fb_subpartition_view* view, int64_t credit) {
  fb_subpartition_set_credit(viewed_queue(view), credit);
}

static bool is_view_released(struct fb_subpartition_view* view) {
  return fb_subpartition_is_released(viewed_queue(view));
}

/* Only of an approximate subpartition, so that the others need no lock to say so. */
static bool is_view_replaced(struct fb_subpartition_view* view) {
  struct fb_subpartition* queue = viewed_queue(view);
  return queue->is_approximate && !fb_subpartition_is_attached(queue, view);
}

static void get_view_usage(struct fb_subpartition_view* view, struct fb_subpartition_usage* usage) {
  fb_subpartition_get_usage(viewed_queue(view), usage);
}

static void release_view(struct fb_subpartition_view* view) {
  struct fb_subpartition* queue = viewed_queue(view);

  fb_subpartition_detach(queue, view);
  fb_result_partition_close_view(view);
  free(view);
}

static const struct fb_subpartition_view_kind PIPELINED_VIEW = {
    .poll = poll_view,
    .poll_priority = poll_view_priority,
    .is_available = is_view_available,
    .resume = resume_view,
    .set_buffer_size = set_view_buffer_size,
    .set_credit = set_view_credit,
    .is_released = is_view_released,
    .is_replaced = is_view_replaced,
    .get_usage = get_view_usage,
    .release = release_view,
};

static int create_pipelined_view(struct fb_result_partition* self, uint32_t index,
                                 const struct fb_view_options* options, struct fb_subpartition_view** view) {
  struct pipelined_view* created = malloc(sizeof *created);
  int code;

  if (created == NULL) return FB_ENOMEM;
  created->queue = queue_of(self, index);
  fb_result_partition_open_view(self, &PIPELINED_VIEW, index, &created->base);
  /* Complete before it is attached: the listener may be called from then on. */
  *view = &created->base;
  code = fb_subpartition_attach(created->queue, *view, options);
  if (code == FB_OK) return FB_OK;
  *view = NULL;
  fb_result_partition_close_view(&created->base);
  free(created);
  return code;
}

/* ---- life ------------------------------------------------------------------------------------------------ */

static void on_queue_consumed(struct fb_subpartition* queue) {
  struct fb_result_partition* self = queue->owner;

  fb_wakeup_ring(fb_result_partition_bell(self)); /* who waits for its acknowledgement waits in vain */
  fb_result_partition_drop_user(self);
}

static void release_queues(struct fb_result_partition* self) {
  struct fb_subpartition* queues = ((struct pipelined_partition*)self)->queues;

  /* Without some of them it never was open. */
  for (uint32_t i = 0; queues != NULL && i < self->subpartition_count; i++)
    if (queues[i].is_open) fb_subpartition_release(&queues[i]);
}

static void get_queue_usage(struct fb_result_partition* self, uint32_t index, struct fb_subpartition_usage* usage) {
  fb_subpartition_get_usage(queue_of(self, index), usage);
}

static void close_queues(struct pipelined_partition* self) {
  for (uint32_t i = 0; self->queues != NULL && i < self->base.subpartition_count; i++)
    fb_subpartition_close(&self->queues[i]);
  free(self->queues);
}

static void close_pipelined(struct fb_result_partition* self) { close_queues((struct pipelined_partition*)self); }

#define PIPELINED(is_approximate)                          \
  {.name = (is_approximate) ? "approximate" : "pipelined", \
   .outlives_readers = (is_approximate),                   \
   .reserve = reserve_places,                              \
   .add = add_to_queues,                                   \
   .flush = flush_queues,                                  \
   .finish = end_queues,                                   \
   .broadcast_barrier = overtake_queues,                   \
   .reserve_overtaken = reserve_overtaken,                 \
   .convert_barrier = convert_barriers,                    \
   .has_barrier = has_barrier_anywhere,                    \
   .restore = restore_queue,                               \
   .is_gone = is_target_gone,                              \
   .create_view = create_pipelined_view,                   \
   .release = release_queues,                              \
   .get_usage = get_queue_usage,                           \
   .close = close_pipelined}

static const struct fb_result_partition_kind PIPELINED_KIND = PIPELINED(false);
static const struct fb_result_partition_kind APPROXIMATE_KIND = PIPELINED(true);

static int open_queues(struct pipelined_partition* self) {
  uint32_t n = self->base.subpartition_count;

  self->queues = calloc(n, sizeof(*self->queues));
  if (self->queues == NULL) return FB_ENOMEM;
  for (uint32_t i = 0; i < n; i++) {
    int code = fb_subpartition_open(&self->queues[i], i, self->base.kind == &APPROXIMATE_KIND);
    if (code < 0) return code;
    self->queues[i].owner = &self->base;
    self->queues[i].on_consumed = on_queue_consumed;
    self->queues[i].on_barrier_polled = on_barrier_polled;
  }
  return FB_OK;
}

int fb_pipelined_partition_open(enum fb_result_partition_type type, uint32_t subpartition_count,
                                struct fb_local_buffer_pool* pool, struct fb_result_partition** self) {
  struct pipelined_partition* opened = NULL;
  int code = FB_EARGUMENT;

  *self = NULL;
  if (type <= FB_PIPELINED_APPROXIMATE) {
    opened = calloc(1, sizeof(*opened));
    code = FB_ENOMEM;
  }
  if (opened == NULL) {
    fb_local_buffer_pool_close(pool);
    return code;
  }
  code = fb_result_partition_open_base(&opened->base,
                                       type == FB_PIPELINED_APPROXIMATE ? &APPROXIMATE_KIND : &PIPELINED_KIND, type,
                                       subpartition_count, pool);
  if (code < 0) {
    free(opened);
    return code;
  }
  code = open_queues(opened);
  if (code == FB_OK) *self = &opened->base;
  else fb_result_partition_drop(&opened->base);
  return code;
}
