/* Many readers of a hash-style blocking partition at once, while views come and go and somebody releases it. The rest of
 * BoundedBlockingSubpartitionWriteReadTest is in test_bounded_partition.py. */
#include "partition/bounded_partition.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "ground/wakeup.h"

enum { SEGMENT = 256, SEGMENTS = 16, CHANNELS = 3, RECORDS = 400, READERS = 6, ROUNDS = 5 };

static char folder[] = "/tmp/flinkbuf-test-XXXXXX";

struct reader {
  pthread_t thread;
  struct fb_result_partition* partition;
  uint32_t seed;
  bool may_be_released;
  uint32_t whole_count; /* subpartitions read to their ends */
};

static void ring(void* context, uint32_t index) {
  (void)index;
  fb_wakeup_ring(context);
}
static void no_priority(void* context, uint32_t index, int32_t sequence) { (void)context, (void)index, (void)sequence; }

/* 1: read to its end; FB_ERELEASED. `limit` buffers at most. */
static int read_subpartition(struct reader* self, uint32_t index, uint32_t limit) {
  struct fb_wakeup bell;
  struct fb_view_options options = {.listener = {ring, no_priority, &bell}};
  struct fb_subpartition_view* view;
  uint64_t bytes = 0;
  int code = 0;

  CHECK(fb_wakeup_open(&bell) == FB_OK);
  code = fb_result_partition_create_view(self->partition, index, &options, &view);
  while (code == FB_OK && limit > 0) {
    uint64_t seen = fb_wakeup_seen(&bell);
    struct fb_polled_buffer polled;

    code = fb_subpartition_view_poll(view, &polled);
    if (code < 0) break;
    if (code == 0) {
      CHECK(fb_wakeup_wait(&bell, seen, 10000));
      continue;
    }
    for (uint32_t i = 0; i < polled.slice.size && polled.slice.data_type == FB_DATA_BUFFER; i++)
      CHECK(fb_buffer_slice_data(&polled.slice)[i] == (uint8_t)(index + 1));
    if (polled.slice.data_type == FB_DATA_BUFFER) bytes += polled.slice.size;
    code = polled.slice.data_type == FB_END_OF_PARTITION ? 1 : FB_OK;
    fb_buffer_slice_release(&polled.slice);
    limit--;
  }
  fb_subpartition_view_release(view);
  fb_wakeup_close(&bell);
  if (code == 1) CHECK(bytes == (uint64_t)RECORDS * 50);
  return code;
}

static void* read_rounds(void* argument) {
  struct reader* self = argument;

  for (uint32_t round = 0; round < ROUNDS; round++) {
    int code = read_subpartition(self, (self->seed + round) % CHANNELS, round % 3 == 1 ? 4 : UINT32_MAX);
    if (code == 1) self->whole_count++;
    else if (code < 0) CHECK(self->may_be_released && code == FB_ERELEASED);
  }
  return NULL;
}

static struct fb_result_partition* write_partition(struct fb_network_buffer_pool* network,
                                                   struct fb_io_executor* executor, enum fb_bounded_storage storage,
                                                   int number) {
  struct fb_buffer_pool_options wishes = {.min = 4, .max = 4, .channel_count = CHANNELS, .max_buffers_per_channel = 10};
  struct fb_bounded_options options = {.storage = storage, .executor = executor};
  struct fb_result_partition* partition;
  struct fb_local_buffer_pool* pool;
  struct fb_file_failure failure;
  char path[80];

  snprintf(path, sizeof path, "%s/part%d", folder, number);
  options.path = path;
  CHECK(fb_local_buffer_pool_open(network, &wishes, &pool) == FB_OK);
  CHECK(fb_bounded_partition_open(FB_BLOCKING, CHANNELS, pool, &options, &partition, &failure) == FB_OK);
  for (uint32_t i = 0; i < RECORDS * CHANNELS; i++) {
    uint8_t record[50];
    const uint8_t* data = record;
    size_t size = sizeof record;
    int code;

    memset(record, (int)(i % CHANNELS + 1), sizeof record);
    while ((code = fb_result_partition_emit(partition, i % CHANNELS, &data, &size)) == FB_NEEDS_BUFFER)
      CHECK(fb_result_partition_wait(partition, 1000));
    CHECK(code == FB_OK);
  }
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  return partition;
}

static void many_readers_read(struct fb_network_buffer_pool* network, struct fb_io_executor* executor,
                              enum fb_bounded_storage storage, bool releases) {
  struct fb_result_partition* partition = write_partition(network, executor, storage, (int)storage);
  struct reader readers[READERS];
  uint32_t whole_count = 0;

  for (uint32_t i = 0; i < READERS; i++) {
    readers[i] = (struct reader){.partition = partition, .seed = i, .may_be_released = releases};
    CHECK(pthread_create(&readers[i].thread, NULL, read_rounds, &readers[i]) == 0);
  }
  if (releases) fb_result_partition_release(partition);
  for (uint32_t i = 0; i < READERS; i++) CHECK(pthread_join(readers[i].thread, NULL) == 0);
  for (uint32_t i = 0; i < READERS; i++) whole_count += readers[i].whole_count;
  CHECK(releases || whole_count == READERS * (ROUNDS - 2));
  fb_result_partition_close(partition);
  fb_result_partition_drop(partition);
  CHECK(fb_network_buffer_pool_available(network) == SEGMENTS);
}

/* ---- released while it is written --------------------------------------------------------------------------- */

enum { FILES = 300 }; /* more than are kept open, so that they are made while it is written */

struct writing {
  pthread_t thread;
  struct fb_result_partition* partition;
  _Atomic bool has_begun;
  bool is_endless; /* writes until it is stopped, however late that is */
  int code;
};

static void* write_files(void* argument) {
  struct writing* self = argument;
  uint8_t record[200] = {0};

  self->code = FB_OK;
  for (uint32_t i = 0; (self->is_endless || i < 3 * FILES) && self->code == FB_OK; i++) {
    const uint8_t* data = record;
    size_t size = sizeof record;

    while ((self->code = fb_result_partition_emit(self->partition, i % FILES, &data, &size)) == FB_NEEDS_BUFFER)
      fb_result_partition_wait(self->partition, 1000);
    if (i == FILES) atomic_store(&self->has_begun, true);
  }
  if (self->code == FB_OK) self->code = fb_result_partition_finish(self->partition);
  atomic_store(&self->has_begun, true);
  return NULL;
}

static bool is_folder_empty(void) {
  DIR* opened = opendir(folder);
  uint32_t count = 0;

  CHECK(opened != NULL);
  while (readdir(opened) != NULL) count++;
  CHECK(closedir(opened) == 0);
  return count == 2; /* itself and the one above */
}

/* `delay` steps after it has begun. */
static void release_under_the_writer(struct fb_network_buffer_pool* network, struct fb_io_executor* executor,
                                     enum fb_bounded_storage storage, uint32_t delay, bool is_endless) {
  struct fb_buffer_pool_options wishes = {.min = 8, .max = 8};
  struct fb_bounded_options options = {.storage = storage, .executor = executor};
  struct writing writing = {.is_endless = is_endless};
  struct fb_local_buffer_pool* pool;
  struct fb_file_failure failure;
  char path[80];

  snprintf(path, sizeof path, "%s/released", folder);
  options.path = path;
  CHECK(fb_local_buffer_pool_open(network, &wishes, &pool) == FB_OK);
  CHECK(fb_bounded_partition_open(FB_BLOCKING, FILES, pool, &options, &writing.partition, &failure) == FB_OK);
  CHECK(pthread_create(&writing.thread, NULL, write_files, &writing) == 0);
  while (!atomic_load(&writing.has_begun)) sched_yield();
  for (uint32_t i = 0; i < delay; i++) sched_yield();
  if (delay / 10 % 2) fb_result_partition_release(writing.partition);
  else fb_result_partition_abort(writing.partition, "enough");
  CHECK(pthread_join(writing.thread, NULL) == 0);
  CHECK((writing.code == FB_OK && !is_endless) || writing.code == FB_ERELEASED);
  CHECK(writing.code == FB_OK || !fb_result_partition_is_finished(writing.partition) ||
        fb_result_partition_verdict(writing.partition) == FB_ERELEASED);
  fb_result_partition_close(writing.partition);
  CHECK(is_folder_empty()); /* already before the last reference goes */
  fb_result_partition_drop(writing.partition);
}

static void test_nothing_is_left_of_a_partition_that_is_released_while_it_is_written(
    struct fb_network_buffer_pool* network, struct fb_io_executor* executor) {
  for (uint32_t round = 0; round < 18; round++)
    release_under_the_writer(network, executor, (enum fb_bounded_storage)(round % 3), round * 10, round < 9);
}

int main(void) {
  struct fb_network_buffer_pool* network;
  struct fb_io_executor* executor;

  CHECK(mkdtemp(folder) != NULL && fb_io_executor_open("test", &executor) == FB_OK);
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &network) == FB_OK);
  for (int storage = FB_BOUNDED_FILE; storage <= FB_BOUNDED_FILE_MMAP; storage++)
    for (int releases = 0; releases < 2; releases++)
      for (int round = 0; round < 4; round++)
        many_readers_read(network, executor, (enum fb_bounded_storage)storage, releases);
  test_nothing_is_left_of_a_partition_that_is_released_while_it_is_written(network, executor);
  fb_network_buffer_pool_close(network);
  fb_io_executor_drop(executor);
  CHECK(rmdir(folder) == 0); /* every file is gone */
}
