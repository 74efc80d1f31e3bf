#include "partition/bounded_partition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/deque.h"
#include "ground/owner.h"
#include "partition/bounded_view.h"

enum {
  BUFFERS_PER_BATCH = 64,
  COMPRESSED_PER_BATCH = 8, /* so many segments of scratch memory */
  FILES_KEPT_OPEN = 256,
};

struct bounded_channel {
  struct fb_bounded_data data;
  struct fb_deque pending; /* of fb_buffer_consumer, the producer's; the last one's buffer may still be filled */
  _Atomic uint64_t added;  /* buffers and events */
};

struct bounded_partition {
  struct fb_result_partition base; /* the first member */
  struct bounded_channel* channels;
  struct fb_io_executor* executor;
  struct fb_buffer_codec* codec;
  uint8_t* scratch;         /* of compressed buffers, until they are written */
  bool parks;               /* files are closed between writes */
  _Atomic bool keeps_files; /* released by others than the producer, which had finished a persistent one */
  struct fb_bounded_readers readers;
};

static struct bounded_partition* bounded_of(struct fb_result_partition* self) {
  return (struct bounded_partition*)self;
}

/* ---- what is to be written ----------------------------------------------------------------------------- */

static struct fb_buffer_consumer* pending_at(struct bounded_channel* channel, uint32_t position) {
  return fb_deque_at(&channel->pending, position, sizeof(struct fb_buffer_consumer));
}

static int reserve_pending(struct fb_result_partition* base, uint32_t target) {
  struct bounded_partition* self = bounded_of(base);
  uint32_t first = target < base->subpartition_count ? target : 0;
  uint32_t end = target < base->subpartition_count ? target + 1 : base->subpartition_count;
  int code = FB_OK;

  for (uint32_t i = first; i < end && code == FB_OK; i++)
    code = fb_deque_reserve(&self->channels[i].pending, 1, sizeof(struct fb_buffer_consumer));
  return code;
}

static void push_pending(struct bounded_channel* channel, const struct fb_buffer_consumer* consumer) {
  *(struct fb_buffer_consumer*)fb_deque_push(&channel->pending, sizeof *consumer) = *consumer;
  /* Relaxed: a figure to look at. */
  atomic_fetch_add_explicit(&channel->added, 1, memory_order_relaxed);
}

static int add_pending(struct fb_result_partition* base, uint32_t target, struct fb_buffer_consumer* consumer,
                       int32_t partial_record_length, int32_t* desired_size) {
  struct bounded_partition* self = bounded_of(base);

  (void)partial_record_length, (void)desired_size;
  if (target < base->subpartition_count) {
    push_pending(&self->channels[target], consumer);
    return FB_OK;
  }
  for (uint32_t i = 0; i < base->subpartition_count; i++) {
    struct fb_buffer_consumer copy;
    fb_buffer_consumer_copy(consumer, &copy);
    push_pending(&self->channels[i], &copy);
  }
  fb_buffer_consumer_close(consumer);
  return FB_OK;
}

/* Consumers whose buffers are complete: all but that of the builder that is open. */
static uint32_t complete_count(struct bounded_partition* self, uint32_t index) {
  uint32_t count = self->channels[index].pending.count;
  bool has_builder = self->base.unicast[index].buffer != NULL || self->base.broadcast.buffer != NULL;

  return has_builder && count > 0 ? count - 1 : count;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

/* In place of a buffer its compressed block, in the scratch memory, if that is smaller. */
static void compress_buffer(struct bounded_partition* self, struct fb_buffer* root, uint32_t place,
                            const struct fb_buffer_slice* slice, struct fb_buffer_slice* written) {
  uint32_t capacity = fb_local_buffer_pool_segment_size(self->base.pool);
  uint32_t size = 0;

  *written = *slice;
  if (self->codec == NULL || slice->is_compressed || slice->size == 0 || slice->size > capacity ||
      !fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)slice->data_type))
    return;
  if (self->codec->compress(self->codec, fb_buffer_slice_data(slice), slice->size, self->scratch + place * capacity,
                            slice->size, &size) != FB_OK)
    return;
  *written = (struct fb_buffer_slice){
      .buffer = root, .offset = place * capacity, .size = size, .data_type = slice->data_type, .is_compressed = true};
}

static int write_slices(struct bounded_partition* self, uint32_t index, struct fb_buffer_slice* slices, uint32_t count,
                        struct fb_file_failure* failure) {
  uint32_t step = self->codec != NULL ? COMPRESSED_PER_BATCH : count;
  struct fb_buffer root = {0};
  int code = FB_OK;

  if (self->codec != NULL)
    fb_memory_segment_wrap(&root.segment, self->scratch,
                           (size_t)COMPRESSED_PER_BATCH * fb_local_buffer_pool_segment_size(self->base.pool));
  for (uint32_t from = 0; from < count && code == FB_OK; from += step) {
    struct fb_buffer_slice written[BUFFERS_PER_BATCH];
    uint32_t here = count - from < step ? count - from : step;

    for (uint32_t i = 0; i < here; i++) compress_buffer(self, &root, i, &slices[from + i], &written[i]);
    code = fb_bounded_data_write(&self->channels[index].data, written, here, failure);
  }
  for (uint32_t i = 0; i < count; i++) fb_buffer_slice_release(&slices[i]);
  return code;
}

/* Writes the complete buffers of a subpartition. Returns how many pooled ones are free now. */
static int write_pending(struct bounded_partition* self, uint32_t index, struct fb_file_failure* failure) {
  struct bounded_channel* channel = &self->channels[index];
  uint32_t complete = complete_count(self, index);
  struct fb_buffer_slice slices[BUFFERS_PER_BATCH];
  uint32_t written = complete;
  int code = FB_OK;

  while (complete > 0 && code == FB_OK) {
    uint32_t count = 0;
    for (; complete > 0 && count < BUFFERS_PER_BATCH; complete--) {
      struct fb_buffer_consumer* consumer = pending_at(channel, 0);
      fb_buffer_consumer_build(consumer, &slices[count]);
      fb_buffer_consumer_close(consumer);
      fb_deque_pop(&channel->pending);
      if (slices[count].size == 0 && fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)slices[count].data_type))
        fb_buffer_slice_release(&slices[count]);
      else count++;
    }
    if (count > 0) code = write_slices(self, index, slices, count, failure);
  }
  if (code == FB_OK && self->parks) code = fb_bounded_data_park(&channel->data, failure);
  return code < 0 ? code : (int)(written > INT32_MAX ? INT32_MAX : written);
}

/* The files go as soon as no reader uses them. */
static int fail_bounded_output(struct bounded_partition* self, const struct fb_file_failure* failure) {
  fb_result_partition_fail_output(&self->base, failure->code, failure->error, fb_file_failure_text(failure));
  fb_bounded_readers_end_writing(&self->readers);
  return failure->code;
}

/* Whether somebody has released the partition under its producer: then it writes nothing more, and its files go. */
static bool is_given_up(struct bounded_partition* self) {
  return fb_bounded_readers_is_released(&self->readers) && fb_bounded_readers_end_writing(&self->readers);
}

/* Returns how many buffers were written. */
static int write_all_pending(struct bounded_partition* self) {
  struct fb_file_failure failure = {0};
  int total = 0;

  for (uint32_t i = 0; i < self->base.subpartition_count; i++) {
    int written;
    if (is_given_up(self)) return fb_result_partition_verdict(&self->base);
    written = complete_count(self, i) > 0 ? write_pending(self, i, &failure) : 0;
    if (written < 0) return fail_bounded_output(self, &failure);
    total = written > INT32_MAX - total ? INT32_MAX : total + written;
  }
  return total;
}

static int make_room_on_disk(struct fb_result_partition* base) {
  struct bounded_partition* self = bounded_of(base);
  int written = write_all_pending(self);

  if (written != 0) return written < 0 ? written : FB_OK;
  /* All memory is in buffers that are still filled: there are more subpartitions than buffers. */
  fb_result_partition_finish_builders(base);
  written = write_all_pending(self);
  return written < 0 ? written : written > 0 ? FB_OK : FB_NEEDS_BUFFER;
}

static int finish_channel(struct bounded_partition* self, uint32_t index, const struct fb_buffer_slice* end,
                          struct fb_file_failure* failure) {
  struct fb_bounded_data* data = &self->channels[index].data;
  int code = write_pending(self, index, failure);

  if (code >= 0) code = fb_bounded_data_write(data, end, 1, failure);
  if (code >= 0) code = fb_bounded_data_finish(data, self->base.type == FB_BLOCKING_PERSISTENT, failure);
  if (code >= 0) atomic_fetch_add_explicit(&self->channels[index].added, 1, memory_order_relaxed);
  return code < 0 ? code : FB_OK;
}

static int finish_files(struct fb_result_partition* base) {
  static const uint8_t END_OF_PARTITION_EVENT[4];
  struct bounded_partition* self = bounded_of(base);
  struct fb_file_failure failure = {0};
  struct fb_buffer_slice end;
  int code = fb_buffer_new_unpooled(END_OF_PARTITION_EVENT, sizeof END_OF_PARTITION_EVENT, FB_END_OF_PARTITION, &end);

  if (code < 0) return code;
  for (uint32_t i = 0; i < base->subpartition_count && code == FB_OK && !is_given_up(self); i++)
    code = finish_channel(self, i, &end, &failure);
  fb_buffer_slice_release(&end);
  free(self->scratch);
  self->scratch = NULL;
  if (code < 0) return fail_bounded_output(self, &failure);
  return fb_bounded_readers_end_writing(&self->readers) ? FB_ERELEASED : FB_OK;
}

/* ---- readers --------------------------------------------------------------------------------------------- */

static void delete_files(struct fb_bounded_readers* readers) {
  struct bounded_partition* self = FB_OWNER(bounded_partition, readers, readers);

  if (atomic_load(&self->keeps_files)) return;
  for (uint32_t i = 0; i < self->base.subpartition_count; i++) fb_bounded_data_delete(&self->channels[i].data);
}

static bool is_kept(struct fb_result_partition* base) {
  return base->type == FB_BLOCKING_PERSISTENT && fb_result_partition_is_finished(base);
}

static void release_files(struct fb_result_partition* base) {
  struct bounded_partition* self = bounded_of(base);

  if (is_kept(base) && atomic_load(&base->is_closed) && !fb_bounded_readers_is_released(&self->readers))
    atomic_store(&self->keeps_files, true);
  fb_bounded_readers_release(&self->readers);
}

static int create_bounded_view(struct fb_result_partition* base, uint32_t index, const struct fb_view_options* options,
                               struct fb_subpartition_view** view) {
  struct bounded_partition* self = bounded_of(base);
  return fb_bounded_view_open(&self->readers, base, index, &self->channels[index].data, self->executor, options, view);
}

static void get_bounded_usage(struct fb_result_partition* base, uint32_t index, struct fb_subpartition_usage* usage) {
  struct bounded_channel* channel = &bounded_of(base)->channels[index];

  *usage = (struct fb_subpartition_usage){.credit = -1};
  usage->buffers = atomic_load_explicit(&channel->added, memory_order_relaxed);
}

static void drop_pending(struct bounded_channel* channel) {
  for (; channel->pending.count > 0; fb_deque_pop(&channel->pending)) fb_buffer_consumer_close(pending_at(channel, 0));
}

/* The producer has closed it: what is not in the files will never be, its buffers are for others, and the files for readers. */
static void drop_all_pending(struct fb_result_partition* base) {
  struct bounded_partition* self = bounded_of(base);

  for (uint32_t i = 0; self->channels != NULL && i < base->subpartition_count; i++) drop_pending(&self->channels[i]);
  fb_bounded_readers_end_writing(&self->readers);
}

static void close_channel(struct bounded_channel* channel, bool keeps_file) {
  drop_pending(channel);
  fb_deque_close(&channel->pending);
  if (!keeps_file) fb_bounded_data_delete(&channel->data);
  fb_bounded_data_close(&channel->data);
}

static void close_bounded(struct fb_result_partition* base) {
  struct bounded_partition* self = bounded_of(base);
  bool keeps_files =
      is_kept(base) && (atomic_load(&self->keeps_files) || !fb_bounded_readers_is_released(&self->readers));

  for (uint32_t i = 0; self->channels != NULL && i < base->subpartition_count; i++)
    close_channel(&self->channels[i], keeps_files);
  free(self->channels);
  free(self->scratch);
  if (self->executor != NULL) fb_io_executor_drop(self->executor);
  fb_buffer_codec_release(self->codec);
  fb_bounded_readers_close(&self->readers);
}

static const struct fb_result_partition_kind BOUNDED_BLOCKING = {
    .name = "bounded blocking",
    .is_blocking = true,
    .outlives_readers = true,
    .reserve = reserve_pending,
    .add = add_pending,
    .make_room = make_room_on_disk,
    .flush = NULL, /* nobody reads before the end: what waits is written when memory is needed */
    .finish = finish_files,
    .leave = drop_all_pending,
    .create_view = create_bounded_view,
    .release = release_files,
    .get_usage = get_bounded_usage,
    .close = close_bounded,
};

/* ---- opening ------------------------------------------------------------------------------------------------ */

static int open_channels(struct bounded_partition* self, const struct fb_bounded_options* options,
                         struct fb_file_failure* failure) {
  size_t capacity = strlen(options->path) + sizeof ".4294967295.data";
  char* path = malloc(capacity);
  int code = path == NULL ? fb_file_failure_set(failure, FB_ENOMEM, 0, "cannot create", options->path, 0, NULL) : FB_OK;

  for (uint32_t i = 0; i < self->base.subpartition_count && code == FB_OK; i++) {
    bool waits = self->parks && i > 0; /* the first one tells whether there can be any */

    snprintf(path, capacity, "%s.%" PRIu32 ".data", options->path, i);
    code = (waits ? fb_bounded_data_prepare : fb_bounded_data_open)(&self->channels[i].data, options->storage, path,
                                                                    options->region_limit, failure);
  }
  free(path);
  return code;
}

static int open_bounded(struct bounded_partition* self, const struct fb_bounded_options* options,
                        struct fb_file_failure* failure) {
  self->channels = calloc(self->base.subpartition_count, sizeof *self->channels);
  if (self->channels == NULL || fb_bounded_readers_open(&self->readers, delete_files) < 0) return FB_ENOMEM;
  self->parks = self->base.subpartition_count > FILES_KEPT_OPEN;
  self->executor = options->executor;
  fb_io_executor_retain(self->executor);
  self->codec = options->codec;
  fb_buffer_codec_retain(self->codec);
  if (self->codec != NULL)
    self->scratch = malloc((size_t)COMPRESSED_PER_BATCH * fb_local_buffer_pool_segment_size(self->base.pool));
  if (self->codec != NULL && self->scratch == NULL) return FB_ENOMEM;
  return open_channels(self, options, failure);
}

int fb_bounded_partition_open(enum fb_result_partition_type type, uint32_t subpartition_count,
                              struct fb_local_buffer_pool* pool, const struct fb_bounded_options* options,
                              struct fb_result_partition** self, struct fb_file_failure* failure) {
  struct bounded_partition* opened = calloc(1, sizeof *opened);
  int code;

  *self = NULL;
  fb_file_failure_set(failure, FB_ENOMEM, 0, "cannot create", options->path, 0, NULL);
  if (opened == NULL) {
    fb_local_buffer_pool_close(pool);
    return FB_ENOMEM;
  }
  code = fb_result_partition_open_base(&opened->base, &BOUNDED_BLOCKING, type, subpartition_count, pool);
  if (code < 0) {
    free(opened);
    return fb_file_failure_set(failure, code, 0, "cannot create", options->path, 0, NULL);
  }
  code = open_bounded(opened, options, failure);
  if (code < 0) fb_result_partition_drop(&opened->base);
  else *self = &opened->base;
  return code;
}
