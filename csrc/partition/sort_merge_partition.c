#include "partition/sort_merge_partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "partition/buffer_header.h"
#include "partition/data_buffer.h"
#include "partition/hash_data_buffer.h"
#include "partition/partition_file_writer.h"
#include "partition/read_scheduler.h"

#define WRITE_SIZE_MAX ((uint64_t)4 << 20)
#define WRITE_SHARE    8 /* the write buffer has at most this part of the pool's memory */
#define MERGED_SHARE   8

struct sort_merge_partition {
  struct fb_result_partition base; /* the first member */
  /* the producer's */
  struct fb_partition_file_writer writer;
  struct fb_buffer_codec* codec;
  uint8_t* scratch; /* for the codec: a segment */
  bool merges_regions;
  uint32_t log_segments; /* wished for; 0: no wish */
  struct fb_hash_data_buffer hash;
  struct fb_buffer** held; /* segments of the log */
  uint32_t held_count, held_capacity;
  struct fb_data_buffer log; /* open while something is in it */
  bool is_log_open;
  bool is_log_broadcast;
  uint64_t merged_bytes; /* of broadcast records in a log for single subpartitions */
  uint8_t* write_buffer;
  uint32_t write_size;
  uint32_t* order; /* of the subpartitions in a region */
  /* for reading */
  struct fb_read_buffer_pool* read_pool;
  struct fb_io_executor* executor;
  pthread_mutex_t lock;                /* of what follows */
  struct fb_read_scheduler* scheduler; /* once it is finished */
  bool is_released;
  bool owns_files;
};

static struct sort_merge_partition* partition_of(struct fb_result_partition* self) {
  return (struct sort_merge_partition*)self;
}

static uint32_t segment_size_of(const struct sort_merge_partition* self) {
  return fb_local_buffer_pool_segment_size(self->base.pool);
}

/* What was written can no longer be used: the files go, the producer and all readers are told. */
static int fail_partition(struct sort_merge_partition* self, int code, const struct fb_file_failure* failure) {
  if (code == FB_OK) return FB_OK;
  fb_partition_file_writer_abort(&self->writer);
  fb_result_partition_fail_output(&self->base, code, failure->error, fb_file_failure_text(failure));
  return code;
}

/* ---- memory -------------------------------------------------------------------------------------- */

/* Which way records take from now on: in place if there are two buffers for each subpartition. */
static void choose_way(struct sort_merge_partition* self) {
  uint64_t wanted = 2 * (uint64_t)self->base.subpartition_count;
  self->base.takes_records = fb_local_buffer_pool_size(self->base.pool) < wanted;
}

static int open_write_buffer(struct sort_merge_partition* self) {
  uint64_t segment = segment_size_of(self);
  uint64_t size = fb_local_buffer_pool_size(self->base.pool) * segment / WRITE_SHARE;

  if (self->write_buffer != NULL) return FB_OK;
  if (size > WRITE_SIZE_MAX) size = WRITE_SIZE_MAX;
  if (size < segment + FB_BUFFER_HEADER_SIZE) size = segment + FB_BUFFER_HEADER_SIZE;
  self->write_buffer = malloc((size_t)size);
  self->write_size = (uint32_t)size;
  return self->write_buffer == NULL ? FB_ENOMEM : FB_OK;
}

/* Segments for the log: what the write buffer takes is left to the pool. */
static uint32_t wanted_segments(struct sort_merge_partition* self) {
  uint32_t size = fb_local_buffer_pool_size(self->base.pool);
  uint32_t written = self->write_size / segment_size_of(self);
  uint32_t wanted = size > written ? size - written : 1;

  return self->log_segments > 0 && self->log_segments < size ? self->log_segments : wanted;
}

static int make_held_room(struct sort_merge_partition* self, uint32_t count) {
  struct fb_buffer** held;

  if (self->held_capacity >= count) return FB_OK;
  held = realloc(self->held, count * sizeof(*held));
  if (held == NULL) return FB_ENOMEM;
  self->held = held;
  self->held_capacity = count;
  return FB_OK;
}

/* Takes what the pool gives at once, and at least half of what is guaranteed. FB_NEEDS_BUFFER: that is not there. */
static int hold_segments(struct sort_merge_partition* self) {
  uint32_t wanted = wanted_segments(self), least = fb_local_buffer_pool_min(self->base.pool) / 2;
  int code = make_held_room(self, wanted);

  while (code == FB_OK && self->held_count < wanted) {
    struct fb_buffer* buffer;
    code = fb_local_buffer_pool_request(self->base.pool, FB_NO_CHANNEL, &buffer);
    if (code != FB_OK || buffer == NULL) break;
    self->held[self->held_count++] = buffer;
  }
  if (code != FB_OK) return code;
  if (least > wanted) least = wanted;
  return self->held_count < least || self->held_count == 0 ? FB_NEEDS_BUFFER : FB_OK;
}

static void give_segments_back(struct sort_merge_partition* self) {
  while (self->held_count > 0) fb_buffer_release(self->held[--self->held_count]);
}

/* ---- the log ------------------------------------------------------------------------------------- */

static int open_log(struct sort_merge_partition* self, bool is_broadcast) {
  uint8_t** segments;
  int code = open_write_buffer(self);

  if (code == FB_OK) code = hold_segments(self);
  if (code != FB_OK) return code;
  segments = malloc(self->held_count * sizeof(*segments));
  if (segments == NULL) return FB_ENOMEM;
  for (uint32_t i = 0; i < self->held_count; i++) segments[i] = self->held[i]->segment.data;
  code = fb_data_buffer_open(&self->log, is_broadcast ? 1 : self->base.subpartition_count, segments, self->held_count,
                             segment_size_of(self));
  free(segments);
  if (code != FB_OK) return code;
  self->is_log_open = true;
  self->is_log_broadcast = is_broadcast;
  self->merged_bytes = 0;
  return FB_OK;
}

static void close_log(struct sort_merge_partition* self) {
  fb_data_buffer_close(&self->log);
  self->is_log_open = false;
  give_segments_back(self);
}

/* Gives the next block of the log a place in the write buffer, its header in front. 0: that was all. */
static uint32_t read_block(struct sort_merge_partition* self, uint8_t* to, uint32_t* subpartition) {
  enum fb_buffer_data_type type = FB_DATA_BUFFER;
  struct fb_buffer_slice block = {0};

  block.size = fb_data_buffer_read(&self->log, to + FB_BUFFER_HEADER_SIZE, segment_size_of(self), subpartition, &type);
  if (block.size == 0) return 0;
  if (self->codec != NULL && fb_buffer_data_type_is_buffer(type)) {
    uint32_t size =
        fb_buffer_codec_compress_in_place(self->codec, to + FB_BUFFER_HEADER_SIZE, block.size, self->scratch);
    block.is_compressed = size > 0;
    if (size > 0) block.size = size;
  }
  block.data_type = (uint8_t)type;
  fb_buffer_header_write(to, &block); /* checked when it came */
  return FB_BUFFER_HEADER_SIZE + block.size;
}

static int write_log_region(struct sort_merge_partition* self, struct fb_file_failure* failure) {
  uint32_t block_max = FB_BUFFER_HEADER_SIZE + segment_size_of(self), at = 0;
  int code = fb_partition_file_writer_start_region(&self->writer, self->is_log_broadcast, failure);

  fb_data_buffer_finish(&self->log, self->is_log_broadcast ? NULL : self->order);
  while (code == FB_OK) {
    uint32_t subpartition = 0, size;

    if (self->write_size - at < block_max) {
      code = fb_partition_file_writer_flush(&self->writer, failure);
      at = 0;
      if (code != FB_OK) break;
    }
    size = read_block(self, self->write_buffer + at, &subpartition);
    if (size == 0) break;
    code = fb_partition_file_writer_add_blocks(&self->writer, subpartition, self->write_buffer + at, size, failure);
    at += size;
  }
  return code == FB_OK ? fb_partition_file_writer_finish_region(&self->writer, failure) : code;
}

static int flush_log(struct sort_merge_partition* self, struct fb_file_failure* failure) {
  int code = FB_OK;

  if (!self->is_log_open) return FB_OK;
  if (self->log.record_count > 0) code = write_log_region(self, failure);
  close_log(self);
  return code;
}

/* A record or event that no log can hold: a region of its own. */
static int write_large(struct sort_merge_partition* self, uint32_t target, enum fb_buffer_data_type type,
                       const uint8_t* data, size_t size, struct fb_file_failure* failure) {
  bool is_broadcast = target == self->base.subpartition_count, is_event = fb_buffer_data_type_is_event(type);
  uint32_t part_max = is_event ? INT32_MAX : segment_size_of(self);
  int code = fb_partition_file_writer_start_region(&self->writer, is_broadcast, failure);

  while (size > 0 && code == FB_OK) {
    uint32_t part = size < part_max ? (uint32_t)size : part_max;
    struct fb_buffer_slice block;

    code = fb_buffer_new_unpooled(data, part, type, &block);
    if (code != FB_OK)
      return fb_file_failure_set(failure, code, ENOMEM, "cannot write", self->writer.data.path, 0, NULL);
    if (self->codec != NULL && !is_event) {
      uint32_t compressed =
          fb_buffer_codec_compress_in_place(self->codec, block.buffer->segment.data, part, self->scratch);
      block.is_compressed = compressed > 0;
      if (compressed > 0) block.size = compressed;
    }
    code = fb_partition_file_writer_add(&self->writer, is_broadcast ? 0 : target, &block, failure);
    if (code == FB_OK) code = fb_partition_file_writer_flush(&self->writer, failure);
    fb_buffer_slice_release(&block);
    data += part;
    size -= part;
  }
  return code == FB_OK ? fb_partition_file_writer_finish_region(&self->writer, failure) : code;
}

/* Bytes that a log's segments still hold, entries of records included; what is lost at the ends of segments is not. */
static uint64_t log_room(const struct fb_data_buffer* log) {
  uint64_t rest = log->segment_size - log->write_offset;
  uint64_t whole = log->segment_count - log->write_segment - 1;
  uint64_t lost = (whole + 1) * 16;
  uint64_t room = rest + whole * log->segment_size;

  return room > lost ? room - lost : 0;
}

/* Bytes that a broadcast record adds to the file if every subpartition has it. An event has a block of its own, and so has
 * what follows it. */
static uint64_t merged_size(const struct sort_merge_partition* self, enum fb_buffer_data_type type, size_t size) {
  uint64_t headers = fb_buffer_data_type_is_event(type) ? 2 * FB_BUFFER_HEADER_SIZE : 0;
  return (size + headers) * self->base.subpartition_count;
}

/* Whether that is better than three regions. */
static bool is_mergeable(const struct sort_merge_partition* self, enum fb_buffer_data_type type, size_t size) {
  uint64_t in_log = ((uint64_t)size + 16) * self->base.subpartition_count;

  if (!self->merges_regions || !self->is_log_open || self->is_log_broadcast || in_log > log_room(&self->log))
    return false;
  return self->merged_bytes + merged_size(self, type, size) <= self->log.total_bytes / MERGED_SHARE;
}

static void append_to_all(struct sort_merge_partition* self, enum fb_buffer_data_type type, const uint8_t* data,
                          size_t size) {
  for (uint32_t i = 0; i < self->base.subpartition_count; i++) fb_data_buffer_append(&self->log, i, type, data, size);
  self->merged_bytes += merged_size(self, type, size);
}

/* Stores it whole. FB_NEEDS_BUFFER: the log is full, or not there; errors have been told. */
static int append_record(struct sort_merge_partition* self, uint32_t target, enum fb_buffer_data_type type,
                         const uint8_t* data, size_t size) {
  bool is_broadcast = target == self->base.subpartition_count;
  struct fb_file_failure failure = {0};
  int code = FB_OK;

  if (is_broadcast && is_mergeable(self, type, size)) {
    append_to_all(self, type, data, size);
    return FB_OK;
  }
  if (self->is_log_open && self->is_log_broadcast != is_broadcast) code = flush_log(self, &failure);
  if (code == FB_OK && !self->is_log_open) code = open_log(self, is_broadcast);
  if (code == FB_OK) code = fb_data_buffer_append(&self->log, is_broadcast ? 0 : target, type, data, size);
  if (code == FB_NEEDS_BUFFER && self->is_log_open && self->log.record_count == 0) {
    close_log(self);
    code = write_large(self, target, type, data, size, &failure);
  }
  if (code >= 0) return code;
  failure.code = code;
  return fail_partition(self, code, &failure);
}

/* ---- what the producer calls ------------------------------------------------------------------------- */

static void count_record(struct sort_merge_partition* self, uint32_t target, size_t size) {
  uint32_t copies = target == self->base.subpartition_count ? self->base.subpartition_count : 1;
  fb_result_partition_count_written(&self->base, 0, (uint64_t)size * copies);
}

static int emit_to_log(struct fb_result_partition* base, uint32_t target, const uint8_t** data, size_t* size) {
  struct sort_merge_partition* self = partition_of(base);
  int code;

  if (*size == 0) return FB_OK;
  code = append_record(self, target, FB_DATA_BUFFER, *data, *size);
  if (code != FB_OK) return code;
  count_record(self, target, *size);
  *data += *size;
  *size = 0;
  return FB_OK;
}

static int reserve_part(struct fb_result_partition* base, uint32_t target) {
  (void)target;
  return fb_hash_data_buffer_reserve(&partition_of(base)->hash);
}

static bool is_storable(const struct fb_buffer_consumer* consumer) {
  uint8_t header[FB_BUFFER_HEADER_SIZE];
  struct fb_buffer_slice slice = {.data_type = consumer->data_type};
  return fb_buffer_header_write(header, &slice) == FB_OK;
}

static int flush_memory(struct sort_merge_partition* self, bool is_last, struct fb_file_failure* failure) {
  struct fb_hash_write how = {.writer = &self->writer,
                              .codec = self->codec,
                              .scratch = self->scratch,
                              .merges_regions = self->merges_regions,
                              .is_last = is_last};
  int code = flush_log(self, failure);

  if (code == FB_OK) code = fb_hash_data_buffer_write(&self->hash, &how, failure);
  return code;
}

/* An event while records go to the log. It is appended there, too, unless it is longer than a buffer. */
static int add_event_to_log(struct sort_merge_partition* self, uint32_t target, struct fb_buffer_consumer* consumer) {
  struct fb_file_failure failure = {0};
  struct fb_buffer_slice event;
  int code = FB_NEEDS_BUFFER;

  fb_buffer_consumer_build(consumer, &event);
  fb_buffer_consumer_close(consumer);
  if (event.size > 0 && event.size <= segment_size_of(self))
    code = append_record(self, target, event.data_type, fb_buffer_slice_data(&event), event.size);
  if (code == FB_NEEDS_BUFFER) {
    /* The log is full, or the pool is empty. */
    code = flush_log(self, &failure);
    if (code == FB_OK)
      code = write_large(self, target, event.data_type, fb_buffer_slice_data(&event), event.size, &failure);
    if (code != FB_OK) fail_partition(self, code, &failure);
  }
  fb_buffer_slice_release(&event);
  return code;
}

static int add_to_region(struct fb_result_partition* base, uint32_t target, struct fb_buffer_consumer* consumer,
                         int32_t partial_record_length, int32_t* desired_size) {
  struct sort_merge_partition* self = partition_of(base);

  (void)partial_record_length;
  (void)desired_size;
  if (!is_storable(consumer)) {
    fb_buffer_consumer_close(consumer);
    return FB_EARGUMENT;
  }
  if (base->takes_records) return add_event_to_log(self, target, consumer);
  fb_hash_data_buffer_add(&self->hash, target, consumer);
  return FB_OK;
}

static int make_region(struct fb_result_partition* base) {
  struct sort_merge_partition* self = partition_of(base);
  struct fb_file_failure failure = {0};
  bool is_empty;
  int code;

  if (fb_result_partition_verdict(base) < 0) return fb_result_partition_verdict(base);
  fb_result_partition_finish_builders(base);
  is_empty = fb_hash_data_buffer_is_empty(&self->hash) && !self->is_log_open;
  code = flush_memory(self, false, &failure);
  if (code != FB_OK) return fail_partition(self, code, &failure);
  choose_way(self);
  if (!self->base.takes_records) give_segments_back(self);
  return is_empty ? FB_NEEDS_BUFFER : FB_OK;
}

/* The end of the partition has no place among the records of single subpartitions: the last region is a broadcast one. */
static int add_end(struct sort_merge_partition* self, struct fb_file_failure* failure) {
  static const uint8_t END[4] = {0};
  struct fb_buffer_consumer consumer;
  struct fb_buffer_slice end;
  int code;

  if (self->is_log_open && self->is_log_broadcast &&
      fb_data_buffer_append(&self->log, 0, FB_END_OF_PARTITION, END, sizeof END) == FB_RECORD)
    return FB_OK;
  code = flush_log(self, failure);
  if (code == FB_OK) code = fb_buffer_new_unpooled(END, sizeof END, FB_END_OF_PARTITION, &end);
  if (code != FB_OK) return code;
  fb_buffer_consumer_open(&consumer, &end);
  fb_hash_data_buffer_add(&self->hash, self->base.subpartition_count, &consumer);
  return FB_OK;
}

static bool is_persistent(const struct sort_merge_partition* self) { return self->base.type == FB_BLOCKING_PERSISTENT; }

/* Hands the file over to those who read. Whoever released the partition meanwhile finds nothing: then it goes here. */
static int publish_file(struct sort_merge_partition* self, struct fb_partition_file* file) {
  struct fb_read_scheduler* scheduler;
  bool is_released;
  int code = fb_read_scheduler_open(file, self->read_pool, self->executor, &scheduler);

  if (code == FB_OK) {
    pthread_mutex_lock(&self->lock);
    is_released = self->is_released;
    if (!is_released) self->scheduler = scheduler;
    pthread_mutex_unlock(&self->lock);
    if (is_released) {
      fb_read_scheduler_drop(scheduler);
      code = FB_ERELEASED;
    }
  }
  if (code != FB_OK) fb_partition_file_delete_on_drop(file);
  fb_partition_file_drop(file);
  return code;
}

static int finish_file(struct fb_result_partition* base) {
  struct sort_merge_partition* self = partition_of(base);
  struct fb_file_failure failure = {0};
  struct fb_partition_file* file = NULL;
  int code = add_end(self, &failure);

  if (code == FB_OK) code = flush_memory(self, true, &failure);
  if (code == FB_OK) code = fb_partition_file_writer_finish(&self->writer, &file, &failure);
  if (code == FB_OK) code = publish_file(self, file);
  free(self->write_buffer);
  self->write_buffer = NULL;
  return fail_partition(self, code, &failure);
}

/* ---- what anybody calls ------------------------------------------------------------------------------ */

/* The scheduler with a reference, if there is one that may be used. Who releases the partition gets the partition's own: the
 * files go with the last reader, however long somebody holds the partition. */
static struct fb_read_scheduler* take_scheduler(struct sort_merge_partition* self, bool is_releasing) {
  struct fb_read_scheduler* scheduler;

  pthread_mutex_lock(&self->lock);
  scheduler = self->scheduler;
  if (is_releasing) {
    self->is_released = true;
    self->scheduler = NULL;
  } else if (scheduler != NULL) {
    fb_read_scheduler_retain(scheduler);
  }
  pthread_mutex_unlock(&self->lock);
  return scheduler;
}

static int create_file_view(struct fb_result_partition* base, uint32_t index, const struct fb_view_options* options,
                            struct fb_subpartition_view** view) {
  struct fb_read_scheduler* scheduler = take_scheduler(partition_of(base), false);
  int code;

  *view = NULL;
  if (scheduler == NULL) return FB_ERELEASED;
  code = fb_sort_merge_reader_open(fb_read_scheduler_source(scheduler), base, index, options, view);
  fb_read_scheduler_drop(scheduler);
  return code;
}

static void release_file(struct fb_result_partition* base) {
  struct sort_merge_partition* self = partition_of(base);
  struct fb_read_scheduler* scheduler = take_scheduler(self, true);
  bool is_kept = !self->owns_files || (is_persistent(self) && atomic_load(&base->is_closed));

  if (scheduler == NULL) return; /* the producer finds out, and removes what it has written */
  if (!is_kept) fb_partition_file_delete_on_drop(fb_read_scheduler_file(scheduler));
  fb_read_scheduler_release(scheduler);
  fb_read_scheduler_drop(scheduler);
}

static void get_file_usage(struct fb_result_partition* base, uint32_t index, struct fb_subpartition_usage* usage) {
  (void)base;
  (void)index;
  *usage = (struct fb_subpartition_usage){.credit = -1}; /* each reader has a queue of its own */
}

/* The producer has closed it: what is not in the file will never be. */
static void drop_unwritten(struct fb_result_partition* base) {
  struct sort_merge_partition* self = partition_of(base);

  fb_partition_file_writer_abort(&self->writer);
  fb_hash_data_buffer_close(&self->hash);
  close_log(self);
}

static void close_partition(struct fb_result_partition* base) {
  struct sort_merge_partition* self = partition_of(base);

  drop_unwritten(base);
  if (self->scheduler != NULL && self->owns_files && !is_persistent(self))
    fb_partition_file_delete_on_drop(fb_read_scheduler_file(self->scheduler));
  fb_read_scheduler_drop(self->scheduler);
  fb_read_buffer_pool_drop(self->read_pool);
  if (self->executor != NULL) fb_io_executor_drop(self->executor);
  fb_buffer_codec_release(self->codec);
  free(self->held);
  free(self->scratch);
  free(self->order);
  free(self->write_buffer);
  pthread_mutex_destroy(&self->lock);
}

static const struct fb_result_partition_kind SORT_MERGE = {
    .name = "sort-merge blocking",
    .is_blocking = true,
    .outlives_readers = true,
    .leave = drop_unwritten,
    .reserve = reserve_part,
    .add = add_to_region,
    .emit = emit_to_log,
    .make_room = make_region,
    .finish = finish_file,
    .create_view = create_file_view,
    .release = release_file,
    .get_usage = get_file_usage,
    .close = close_partition,
};

/* ---- opening ------------------------------------------------------------------------------------- */

static int open_base(enum fb_result_partition_type type, uint32_t subpartition_count, struct fb_local_buffer_pool* pool,
                     struct fb_read_buffer_pool* read_pool, struct fb_io_executor* executor,
                     struct sort_merge_partition** self) {
  struct sort_merge_partition* opened = calloc(1, sizeof *opened);
  int code;

  *self = NULL;
  if (opened == NULL || pthread_mutex_init(&opened->lock, NULL) != 0) {
    fb_local_buffer_pool_close(pool);
    free(opened);
    return FB_ENOMEM;
  }
  code = fb_result_partition_open_base(&opened->base, &SORT_MERGE, type, subpartition_count, pool);
  if (code != FB_OK) {
    pthread_mutex_destroy(&opened->lock);
    free(opened);
    return code;
  }
  fb_read_buffer_pool_retain(read_pool);
  fb_io_executor_retain(executor);
  opened->read_pool = read_pool;
  opened->executor = executor;
  *self = opened;
  return FB_OK;
}

static uint32_t random_subpartition(uint32_t count) {
  uint32_t number = 0;
  (void)!getentropy(&number, sizeof number); /* a 0 is as good */
  return number % count;
}

static int open_memory(struct sort_merge_partition* self, const struct fb_sort_merge_options* options) {
  uint32_t count = options->subpartition_count;

  self->order = malloc(count * sizeof *self->order);
  if (self->order == NULL) return FB_ENOMEM;
  for (uint32_t place = 0; place < count; place++)
    self->order[place] = fb_partition_file_writer_at(&self->writer, place);
  if (options->codec != NULL) {
    self->scratch = malloc(segment_size_of(self));
    if (self->scratch == NULL) return FB_ENOMEM;
    fb_buffer_codec_retain(options->codec);
    self->codec = options->codec;
  }
  return fb_hash_data_buffer_open(&self->hash, count);
}

static int open_file(struct sort_merge_partition* self, const struct fb_sort_merge_options* options,
                     struct fb_file_failure* failure) {
  bool is_random = options->first_subpartition == FB_RANDOM_SUBPARTITION;
  struct fb_partition_file_writer_options writer = {
      .subpartition_count = options->subpartition_count,
      .first_subpartition = is_random ? random_subpartition(options->subpartition_count) : options->first_subpartition,
      .is_synced = options->type == FB_BLOCKING_PERSISTENT,
      .has_sums = options->type == FB_BLOCKING_PERSISTENT};
  int code = fb_partition_file_writer_open(&self->writer, options->base_path, &writer, failure);

  if (code != FB_OK) return code;
  code = open_memory(self, options);
  if (code == FB_ENOMEM) fb_file_failure_set(failure, code, ENOMEM, "cannot write", options->base_path, 0, NULL);
  return code;
}

static int check_options(const struct fb_sort_merge_options* options, struct fb_local_buffer_pool* pool,
                         struct fb_file_failure* failure) {
  const char* why = NULL;

  if (options->type != FB_BLOCKING && options->type != FB_BLOCKING_PERSISTENT) why = "this type has no files";
  else if (options->subpartition_count == 0 || options->subpartition_count > INT32_MAX)
    why = "a partition has 1 to 2147483647 subpartitions";
  else if (fb_local_buffer_pool_min(pool) < 2)
    why =
        "too few sort buffers: its pool must be guaranteed two or more; raise "
        "taskmanager.network.sort-shuffle.min-buffers";
  else if (fb_local_buffer_pool_segment_size(pool) < 64) why = "segments have at least 64 bytes";
  if (why == NULL) return FB_OK;
  return fb_file_failure_set(failure, FB_EARGUMENT, 0, "cannot write", options->base_path, 0, why);
}

int fb_sort_merge_partition_open(const struct fb_sort_merge_options* options, struct fb_local_buffer_pool* pool,
                                 struct fb_result_partition** self, struct fb_file_failure* failure) {
  struct sort_merge_partition* opened;
  int code = check_options(options, pool, failure);

  *self = NULL;
  if (code != FB_OK) {
    fb_local_buffer_pool_close(pool);
    return code;
  }
  code = open_base(options->type, options->subpartition_count, pool, options->read_pool, options->executor, &opened);
  if (code != FB_OK) return fb_file_failure_set(failure, code, ENOMEM, "cannot write", options->base_path, 0, NULL);
  opened->owns_files = true;
  opened->merges_regions = !options->keeps_small_regions;
  opened->log_segments = options->log_segments;
  code = open_file(opened, options, failure);
  if (code != FB_OK) {
    fb_result_partition_drop(&opened->base);
    return code;
  }
  choose_way(opened);
  *self = &opened->base;
  return FB_OK;
}

/* A pool that nobody takes anything from: what is finished needs none, but every partition has one. */
static int open_empty_pool(struct fb_local_buffer_pool** pool) {
  struct fb_buffer_pool_options options = {.min = 1, .max = 1};
  struct fb_network_buffer_pool* global;
  int code = fb_network_buffer_pool_open(1, 64, &global);

  if (code != FB_OK) return code;
  code = fb_local_buffer_pool_open(global, &options, pool);
  fb_network_buffer_pool_close(global); /* lives as long as the local one */
  return code;
}

int fb_sort_merge_partition_open_file(struct fb_partition_file* file, struct fb_read_buffer_pool* read_pool,
                                      struct fb_io_executor* executor, struct fb_result_partition** self) {
  struct sort_merge_partition* opened;
  struct fb_local_buffer_pool* pool;
  int code = open_empty_pool(&pool);

  *self = NULL;
  if (code == FB_OK)
    code = open_base(FB_BLOCKING_PERSISTENT, file->subpartition_count, pool, read_pool, executor, &opened);
  if (code != FB_OK) return code;
  code = fb_read_scheduler_open(file, read_pool, executor, &opened->scheduler);
  if (code != FB_OK) {
    fb_result_partition_drop(&opened->base);
    return code;
  }
  atomic_store_explicit(&opened->base.is_finished, true, memory_order_release);
  fb_result_partition_close(&opened->base);
  *self = &opened->base;
  return FB_OK;
}

struct fb_partition_file* fb_sort_merge_partition_take_file(struct fb_result_partition* self) {
  struct fb_read_scheduler* scheduler = take_scheduler(partition_of(self), false);
  struct fb_partition_file* file;

  if (scheduler == NULL) return NULL;
  file = fb_read_scheduler_file(scheduler);
  fb_partition_file_retain(file);
  fb_read_scheduler_drop(scheduler);
  return file;
}
