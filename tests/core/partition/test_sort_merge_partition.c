#include "partition/sort_merge_partition.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "ground/byte_order.h"
#include "ground/wakeup.h"
#include "partition/buffer_header.h"
#include "partition_files.h"

#define SUBPARTITIONS_MAX 1000

static char directory[256], base[300];
static struct bytes wanted[SUBPARTITIONS_MAX];
static uint64_t state = 7;
static struct fb_io_executor* executor;
static struct fb_read_buffer_pool* read_pool;
static struct fb_network_buffer_pool* global; /* of the partition that was opened last */

static uint32_t random_number(uint32_t limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % limit;
}

static void forget_wanted(void) {
  for (uint32_t i = 0; i < SUBPARTITIONS_MAX; i++) free_bytes(&wanted[i]);
}

static bool has_any_file(void) {
  return has_file(base, FB_PARTITION_DATA_SUFFIX) || has_file(base, FB_PARTITION_INDEX_SUFFIX) ||
         has_file(base, FB_PARTITION_INDEX_PART_SUFFIX);
}

/* ---- a partition ----------------------------------------------------------------------------------- */

struct setting {
  uint32_t subpartitions, segments, segment_size;
  struct fb_buffer_codec* codec;
  bool keeps_small_regions, is_persistent;
};

static int try_open(const struct setting* setting, uint32_t min, struct fb_result_partition** partition,
                    struct fb_file_failure* failure) {
  struct fb_buffer_pool_options pool_options = {.min = min, .max = setting->segments};
  struct fb_local_buffer_pool* pool;
  struct fb_sort_merge_options options = {.type = setting->is_persistent ? FB_BLOCKING_PERSISTENT : FB_BLOCKING,
                                          .subpartition_count = setting->subpartitions,
                                          .base_path = base,
                                          .first_subpartition = FB_RANDOM_SUBPARTITION,
                                          .keeps_small_regions = setting->keeps_small_regions,
                                          .codec = setting->codec,
                                          .read_pool = read_pool,
                                          .executor = executor};

  if (global != NULL) fb_network_buffer_pool_close(global);
  CHECK(fb_network_buffer_pool_open(setting->segments, setting->segment_size, &global) == FB_OK);
  CHECK(fb_local_buffer_pool_open(global, &pool_options, &pool) == FB_OK);
  return fb_sort_merge_partition_open(&options, pool, partition, failure);
}

static struct fb_result_partition* open_partition(const struct setting* setting) {
  struct fb_result_partition* partition;
  struct fb_file_failure failure;
  CHECK(try_open(setting, setting->segments, &partition, &failure) == FB_OK);
  return partition;
}

static int try_emit(struct fb_result_partition* partition, uint32_t target, const uint8_t* data, size_t size) {
  int code;
  do {
    code = target == partition->subpartition_count ? fb_result_partition_broadcast(partition, &data, &size)
                                                   : fb_result_partition_emit(partition, target, &data, &size);
    if (code == FB_NEEDS_BUFFER) fb_result_partition_wait(partition, 100);
  } while (code == FB_NEEDS_BUFFER);
  CHECK(code < 0 || size == 0);
  return code;
}

static void want(struct fb_result_partition* partition, uint32_t target, uint8_t type, const void* data, size_t size) {
  for (uint32_t i = 0; i < partition->subpartition_count; i++) {
    if (target != i && target != partition->subpartition_count) continue;
    if (type != FB_DATA_BUFFER) add_bytes(&wanted[i], &type, 1);
    add_bytes(&wanted[i], data, size);
  }
}

static void emit_random(struct fb_result_partition* partition, uint32_t size, bool is_broadcast) {
  uint32_t target = is_broadcast ? partition->subpartition_count : random_number(partition->subpartition_count);
  uint8_t* data = malloc(size);

  CHECK(data != NULL);
  for (uint32_t i = 0; i < size; i++) data[i] = (uint8_t)(i % 7 == 0 ? random_number(256) : i / 50);
  CHECK(try_emit(partition, target, data, size) == FB_OK);
  want(partition, target, FB_DATA_BUFFER, data, size);
  free(data);
}

static void emit_event(struct fb_result_partition* partition, uint32_t target, uint32_t size) {
  uint8_t event[600] = {0, 0, 0, 3}; /* an event of a kind that takes any bytes */

  for (uint32_t i = 4; i < size; i++) event[i] = (uint8_t)random_number(256);
  if (target == partition->subpartition_count)
    CHECK(fb_result_partition_broadcast_event(partition, event, size, FB_EVENT_BUFFER) == FB_OK);
  else CHECK(fb_result_partition_emit_event(partition, target, event, size, FB_EVENT_BUFFER) == FB_OK);
  want(partition, target, FB_EVENT_BUFFER, event, size);
}

static void finish(struct fb_result_partition* partition) {
  static const uint8_t END_OF_DATA[5] = {0, 0, 0, 8, 1}, END[4] = {0};

  CHECK(fb_result_partition_broadcast_event(partition, END_OF_DATA, 5, FB_END_OF_DATA) == FB_OK);
  want(partition, partition->subpartition_count, FB_END_OF_DATA, END_OF_DATA, 5);
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  want(partition, partition->subpartition_count, FB_END_OF_PARTITION, END, 4);
  CHECK(fb_result_partition_finish(partition) == FB_EFINISHED);
}

/* The files go with the last one who uses them: that may be the executor. */
static void drop_with_files(struct fb_result_partition* partition) {
  fb_result_partition_drop(partition);
  while (has_any_file()) sched_yield();
}

/* ---- a reader -------------------------------------------------------------------------------------- */

struct reader {
  struct fb_subpartition_view* view;
  struct fb_wakeup bell;
};

static void ring(void* context, uint32_t subpartition) {
  (void)subpartition;
  fb_wakeup_ring(&((struct reader*)context)->bell);
}

static int open_reader(struct reader* self, struct fb_result_partition* partition, uint32_t subpartition) {
  struct fb_view_options options = {.listener = {.on_data_available = ring, .context = self}};
  CHECK(fb_wakeup_open(&self->bell) == FB_OK);
  return fb_result_partition_create_view(partition, subpartition, &options, &self->view);
}

static void close_reader(struct reader* self) {
  fb_subpartition_view_release(self->view);
  fb_wakeup_close(&self->bell);
}

/* The next buffer, an error, or FB_ETIMEOUT. */
static int take(struct reader* self, struct fb_polled_buffer* polled) {
  while (true) {
    uint64_t seen = fb_wakeup_seen(&self->bell);
    int code = fb_subpartition_view_poll(self->view, polled);
    if (code != 0) return code;
    CHECK(!fb_subpartition_view_is_available(self->view, true, NULL) || seen != fb_wakeup_seen(&self->bell));
    if (!fb_wakeup_wait(&self->bell, seen, 20000)) return FB_ETIMEOUT;
  }
}

static void add_taken(struct bytes* bytes, const struct fb_buffer_slice* slice) {
  uint8_t restored[65536];
  uint32_t size;

  if (!fb_buffer_data_type_is_buffer(slice->data_type)) add_bytes(bytes, &slice->data_type, 1);
  if (!slice->is_compressed) {
    add_bytes(bytes, fb_buffer_slice_data(slice), slice->size);
    return;
  }
  CHECK(fb_buffer_codec_lz4()->decompress(fb_buffer_codec_lz4(), fb_buffer_slice_data(slice), slice->size, restored,
                                          sizeof restored, &size) == FB_OK);
  add_bytes(bytes, restored, size);
}

/* Reads to the end, or to an error. Returns 1 at the end. */
static int read_on(struct reader* self, struct bytes* bytes) {
  struct fb_polled_buffer polled;
  int32_t sequence_number = 0;
  bool is_end;
  int code;

  do {
    code = take(self, &polled);
    if (code < 0) return code;
    CHECK(polled.sequence_number == sequence_number++);
    is_end = polled.slice.data_type == FB_END_OF_PARTITION;
    CHECK(!is_end || (polled.next_data_type == FB_NONE && polled.backlog == 0));
    add_taken(bytes, &polled.slice);
    fb_buffer_slice_release(&polled.slice);
  } while (!is_end);
  return 1;
}

static void check_subpartition(struct fb_result_partition* partition, uint32_t subpartition) {
  struct reader reader;
  struct bytes bytes = {0};

  CHECK(open_reader(&reader, partition, subpartition) == FB_OK);
  CHECK(read_on(&reader, &bytes) == 1 && equal_bytes(&bytes, &wanted[subpartition]));
  close_reader(&reader);
  free_bytes(&bytes);
}

static void check_pool_is_empty(void) {
  struct fb_read_pool_usage usage;
  fb_read_buffer_pool_get_usage(read_pool, &usage);
  while (usage.consumers > 0) { /* the executor lets go of the last one */
    sched_yield();
    fb_read_buffer_pool_get_usage(read_pool, &usage);
  }
  CHECK(usage.used == 0 && usage.waiting == 0 && usage.cached == 0);
}

static void check_all(struct fb_result_partition* partition) {
  for (uint32_t i = 0; i < partition->subpartition_count; i++) check_subpartition(partition, i);
}

/* ---- data ---------------------------------------------------------------------------------------- */

static void write_some(struct fb_result_partition* partition, uint32_t records, uint32_t size_max) {
  for (uint32_t i = 0; i < records; i++) {
    uint32_t choice = random_number(40);
    if (choice == 0) emit_event(partition, partition->subpartition_count, 4 + random_number(20));
    else if (choice == 1) emit_event(partition, random_number(partition->subpartition_count), 4 + random_number(590));
    else if (choice == 2) emit_random(partition, size_max * (1 + random_number(60)), random_number(4) == 0);
    else emit_random(partition, 1 + random_number(size_max), choice < 7);
  }
}

static void test_random_data_by_setting(void) {
  static const uint32_t COUNTS[] = {1, 3, 24}, SEGMENTS[] = {2, 5, 16, 100};
  for (uint32_t turn = 0; turn < 24; turn++) {
    struct setting setting = {.subpartitions = COUNTS[turn % 3],
                              .segments = SEGMENTS[turn % 4],
                              .segment_size = turn % 2 ? 256 : 4096,
                              .codec = turn % 5 < 2 ? fb_buffer_codec_lz4() : NULL,
                              .keeps_small_regions = turn % 7 < 2};
    struct fb_result_partition* partition;

    forget_wanted();
    partition = open_partition(&setting);
    write_some(partition, 300, 100);
    finish(partition);
    check_all(partition);
    check_subpartition(partition, 0); /* any number of times */
    fb_result_partition_close(partition);
    check_all(partition);
    CHECK(has_any_file());
    drop_with_files(partition);
    check_pool_is_empty();
  }
}

static uint64_t regions_of(bool keeps_small_regions, uint32_t segments) {
  struct setting setting = {
      .subpartitions = 8, .segments = segments, .segment_size = 4096, .keeps_small_regions = keeps_small_regions};
  struct fb_result_partition* partition = open_partition(&setting);
  struct fb_partition_file* file;
  uint64_t regions;

  forget_wanted();
  for (uint32_t i = 0; i < 20; i++) {
    for (uint32_t record = 0; record < 20; record++) emit_random(partition, 50, false);
    emit_random(partition, 2, true);
  }
  finish(partition);
  check_all(partition);
  file = fb_sort_merge_partition_take_file(partition);
  regions = file->region_count;
  fb_partition_file_drop(file);
  drop_with_files(partition);
  return regions;
}

/* A small record for everybody does not cut the file into pieces. */
static void test_small_regions_are_merged(void) {
  CHECK(regions_of(true, 250) == 40 && regions_of(false, 250) == 2);
  CHECK(regions_of(true, 15) >= 40 && regions_of(false, 15) <= 3);
}

static void test_arguments(void) {
  struct setting setting = {.subpartitions = 3, .segments = 4, .segment_size = 4096};
  struct fb_result_partition *partition, *second;
  struct fb_file_failure failure;
  struct reader reader;
  uint8_t bytes[8] = {0};

  CHECK(try_open(&setting, 1, &partition, &failure) == FB_EARGUMENT);
  CHECK(partition == NULL && strstr(failure.text, "too few sort buffers") != NULL && !has_any_file());
  partition = open_partition(&setting);
  CHECK(try_open(&setting, 4, &second, &failure) == FB_EIO && second == NULL && failure.error == EEXIST);
  CHECK(open_reader(&reader, partition, 0) == FB_EUNFINISHED);
  close_reader(&reader);
  CHECK(fb_result_partition_broadcast_event(partition, bytes, 8, FB_PRIORITIZED_EVENT_BUFFER) == FB_EARGUMENT);
  CHECK(fb_result_partition_broadcast_event(partition, bytes, 8, FB_ALIGNED_CHECKPOINT_BARRIER) == FB_EARGUMENT);
  CHECK(open_reader(&reader, partition, 3) == FB_EARGUMENT);
  close_reader(&reader);
  drop_with_files(partition);
}

/* ---- ends ---------------------------------------------------------------------------------------- */

static struct fb_result_partition* write_partition(uint32_t subpartitions, bool is_persistent, uint32_t records) {
  struct setting setting = {.subpartitions = subpartitions,
                            .segments = subpartitions * 3 > 100 ? 100 : subpartitions * 3,
                            .segment_size = 4096,
                            .is_persistent = is_persistent};
  struct fb_result_partition* partition = open_partition(&setting);

  forget_wanted();
  write_some(partition, records, 1000);
  finish(partition);
  return partition;
}

static void test_release_with_readers(void) {
  struct fb_result_partition* partition = write_partition(4, false, 2000);
  struct reader readers[4], late;
  struct fb_polled_buffer polled;
  struct bytes bytes = {0};

  for (uint32_t i = 0; i < 4; i++) CHECK(open_reader(&readers[i], partition, i) == FB_OK);
  CHECK(take(&readers[0], &polled) == 1);
  CHECK(read_on(&readers[1], &bytes) == 1);
  free_bytes(&bytes);
  fb_result_partition_release(partition);
  CHECK(open_reader(&late, partition, 0) == FB_ERELEASED);
  close_reader(&late);
  CHECK(take(&readers[2], &(struct fb_polled_buffer){0}) == FB_ERELEASED);
  CHECK(fb_subpartition_view_is_released(readers[2].view) &&
        fb_subpartition_view_is_available(readers[2].view, false, NULL));
  CHECK(!fb_subpartition_view_is_released(readers[1].view)); /* it has its end */
  fb_result_partition_close(partition);
  fb_result_partition_drop(partition);
  CHECK(has_any_file());
  for (uint32_t i = 0; i < 4; i++) close_reader(&readers[i]);
  while (has_any_file()) sched_yield(); /* the executor may be the last one */
  CHECK(fb_buffer_slice_data(&polled.slice) != NULL);
  fb_buffer_slice_release(&polled.slice);
  check_pool_is_empty();
}

static void test_persistent(void) {
  struct fb_result_partition* partition = write_partition(3, true, 500);
  struct fb_partition_file* file;
  struct fb_file_failure failure;

  check_subpartition(partition, 1);
  fb_result_partition_close(partition);
  fb_result_partition_release(partition);
  fb_result_partition_drop(partition);
  CHECK(fb_partition_file_open(base, 0, FB_INDEX_CACHE_SIZE, &file, &failure) == FB_OK);
  for (uint32_t turn = 0; turn < 2; turn++) {
    CHECK(fb_sort_merge_partition_open_file(file, read_pool, executor, &partition) == FB_OK);
    check_all(partition);
    fb_result_partition_release(partition);
    fb_result_partition_drop(partition);
  }
  CHECK(has_file(base, FB_PARTITION_DATA_SUFFIX));
  fb_partition_file_delete_on_drop(file);
  fb_partition_file_drop(file);
  check_pool_is_empty();
  while (has_any_file()) sched_yield();

  partition = write_partition(3, true, 500);
  fb_result_partition_release(partition); /* before it is closed: nobody wants it */
  drop_with_files(partition);
}

static void test_files_that_go_away(void) {
  struct fb_result_partition* partition = write_partition(3, false, 2000);
  struct reader reader;
  struct bytes bytes = {0};
  int code;

  put_file(base, FB_PARTITION_DATA_SUFFIX, "cut off", 7);
  CHECK(open_reader(&reader, partition, 0) == FB_OK);
  CHECK(read_on(&reader, &bytes) == FB_ETRUNCATED);
  CHECK(strstr(fb_result_partition_view_failure(reader.view), base) != NULL);
  CHECK(read_on(&reader, &bytes) == FB_ETRUNCATED); /* it stays */
  close_reader(&reader);
  drop_file(base, FB_PARTITION_DATA_SUFFIX);
  CHECK(open_reader(&reader, partition, 0) == FB_OK);
  code = read_on(&reader, &bytes);
  CHECK(code == FB_ENOT_FOUND && strstr(fb_result_partition_view_failure(reader.view), base) != NULL);
  close_reader(&reader);
  free_bytes(&bytes);
  drop_with_files(partition);
}

/* What stands before the damage is given, then the error. */
static void test_damaged_block(void) {
  struct fb_result_partition* partition = write_partition(1, false, 100);
  struct bytes data = get_file(base, FB_PARTITION_DATA_SUFFIX), bytes = {0};
  struct reader reader;
  uint32_t second;
  char place[32];

  second = FB_BUFFER_HEADER_SIZE + fb_load_le32(data.data + 4);
  data.data[second] = data.data[second + 1] = 0xff; /* a kind that does not exist */
  put_file(base, FB_PARTITION_DATA_SUFFIX, data.data, data.size);
  snprintf(place, sizeof place, "byte %u", second);
  CHECK(open_reader(&reader, partition, 0) == FB_OK);
  CHECK(read_on(&reader, &bytes) == FB_ECORRUPT && bytes.size >= second - FB_BUFFER_HEADER_SIZE);
  CHECK(strstr(fb_result_partition_view_failure(reader.view), place) != NULL);
  close_reader(&reader);
  free_bytes(&bytes);
  free_bytes(&data);
  drop_with_files(partition);
}

static void test_released_while_it_is_written(void) {
  struct setting setting = {.subpartitions = 3, .segments = 20, .segment_size = 4096};
  struct fb_result_partition* partition = open_partition(&setting);

  write_some(partition, 500, 1000);
  forget_wanted();
  fb_result_partition_release(partition);
  CHECK(try_emit(partition, 1, (const uint8_t*)"late", 4) == FB_ERELEASED);
  CHECK(fb_result_partition_finish(partition) == FB_ERELEASED);
  drop_with_files(partition);
}

static void test_full_disk(uint32_t segments) {
  struct setting setting = {.subpartitions = 10, .segments = segments, .segment_size = 4096};
  struct fb_result_partition* partition = open_partition(&setting);
  struct rlimit before, limit;
  uint8_t record[3000] = {1};
  int code = FB_OK;

  signal(SIGXFSZ, SIG_IGN);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = 200000;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  for (uint32_t i = 0; i < 1000 && code == FB_OK; i++) code = try_emit(partition, i % 10, record, sizeof record);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(code == FB_EIO && fb_result_partition_verdict(partition) == FB_EIO);
  CHECK(partition->failure_errno == EFBIG && strstr(fb_result_partition_failure(partition), base) != NULL);
  CHECK(!has_any_file() && fb_result_partition_finish(partition) == FB_EIO);
  fb_result_partition_drop(partition);
}

/* A writer that is killed in the middle leaves nothing that opens. */
static void test_killed(void) {
  pid_t child = fork();
  struct fb_partition_file* file;
  struct fb_file_failure failure;
  int status;

  if (child == 0) {
    struct setting setting = {.subpartitions = 10, .segments = 8, .segment_size = 4096};
    struct fb_result_partition* partition = open_partition(&setting);
    write_some(partition, 1000, 500);
    raise(SIGKILL);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  CHECK(has_file(base, FB_PARTITION_DATA_SUFFIX));
  CHECK(fb_partition_file_open(base, 0, 0, &file, &failure) == FB_EIO && failure.error == ENOENT);
  drop_file(base, FB_PARTITION_DATA_SUFFIX);
  drop_file(base, FB_PARTITION_INDEX_PART_SUFFIX);
}

/* ---- many ---------------------------------------------------------------------------------------- */

/* Readers that take one after the other, on few bytes of memory: whoever is not read holds what it has, and nobody stands. */
static void test_readers_that_wait_for_each_other(void) {
  enum { READERS = 60 };
  struct fb_result_partition* partition = write_partition(20, false, 3000);
  struct fb_read_buffer_pool *small, *usual = read_pool;
  struct fb_result_partition* reading;
  struct fb_partition_file* file;
  struct fb_file_failure failure;
  struct reader readers[READERS];

  CHECK(fb_read_buffer_pool_open(64 << 10, 300000, &small) == FB_OK);
  CHECK(fb_partition_file_open(base, 20, FB_INDEX_CACHE_SIZE, &file, &failure) == FB_OK);
  CHECK(fb_sort_merge_partition_open_file(file, small, executor, &reading) == FB_OK);
  for (uint32_t i = 0; i < READERS; i++) CHECK(open_reader(&readers[i], reading, i % 20) == FB_OK);
  for (uint32_t i = READERS; i-- > 0;) {
    struct bytes bytes = {0};
    CHECK(read_on(&readers[i], &bytes) == 1 && equal_bytes(&bytes, &wanted[i % 20]));
    free_bytes(&bytes);
  }
  for (uint32_t i = 0; i < READERS; i++) close_reader(&readers[i]);
  fb_result_partition_drop(reading);
  fb_partition_file_drop(file);
  fb_read_buffer_pool_drop(small);
  read_pool = usual;
  drop_with_files(partition);
  check_pool_is_empty();
}

struct work {
  struct fb_result_partition* partition;
  uint32_t number;
  uint32_t ends, releases;
};

static _Atomic uint32_t all_ends;

/* Reads subpartitions to their ends, or gives up somewhere, until the partition is released. */
static void* read_many(void* context) {
  struct work* work = context;

  for (uint32_t round = 0;; round++) {
    uint32_t subpartition = (work->number * 7 + round) % work->partition->subpartition_count;
    struct bytes bytes = {0};
    struct reader reader;
    int code = open_reader(&reader, work->partition, subpartition);

    if (code == FB_OK && (round + work->number) % 3 == 0) {
      struct fb_polled_buffer polled;
      code = take(&reader, &polled);
      if (code == 1) fb_buffer_slice_release(&polled.slice);
    } else if (code == FB_OK) {
      code = read_on(&reader, &bytes);
      if (code == 1) CHECK(equal_bytes(&bytes, &wanted[subpartition]));
      work->ends += code == 1;
      if (code == 1) atomic_fetch_add(&all_ends, 1);
    }
    close_reader(&reader);
    free_bytes(&bytes);
    CHECK(code >= 0 || code == FB_ERELEASED);
    if (code == FB_ERELEASED) break;
  }
  work->releases++;
  return NULL;
}

static void test_32_readers_while_it_is_released(void) {
  enum { THREADS = 32 };
  struct fb_result_partition* partition = write_partition(8, false, 800);
  struct work work[THREADS];
  pthread_t threads[THREADS];
  uint32_t ends = 0;

  for (uint32_t i = 0; i < THREADS; i++) {
    work[i] = (struct work){.partition = partition, .number = i};
    CHECK(pthread_create(&threads[i], NULL, read_many, &work[i]) == 0);
  }
  while (atomic_load(&all_ends) < 2 * THREADS) sched_yield();
  fb_result_partition_release(partition);
  for (uint32_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0 && work[i].releases == 1);
    ends += work[i].ends;
  }
  CHECK(ends > 0);
  drop_with_files(partition);
  check_pool_is_empty();
}

/* The thread that reads is closed under readers: they hear of it. */
static void test_closed_executor(void) {
  struct fb_result_partition* partition;
  struct fb_io_executor* usual = executor;
  struct reader reader, late;
  struct bytes bytes = {0};

  CHECK(fb_io_executor_open("closed", &executor) == FB_OK);
  partition = write_partition(1, false, 4000);
  CHECK(open_reader(&reader, partition, 0) == FB_OK);
  fb_io_executor_close(executor);
  CHECK(open_reader(&late, partition, 0) == FB_ESTATE);
  close_reader(&late);
  CHECK(read_on(&reader, &bytes) == FB_ESTATE);
  free_bytes(&bytes);
  close_reader(&reader);
  drop_with_files(partition);
  fb_io_executor_drop(executor);
  executor = usual;
}

/* Readers that hold all the memory they may, and wait for more to come home: closing the thread tells them, too. */
static void test_closed_executor_under_parked_readers(void) {
  enum { READERS = 6, KEPT_MAX = 4000 };
  static struct fb_buffer_slice kept[KEPT_MAX];
  struct fb_io_executor* usual = executor;
  struct fb_read_buffer_pool *small, *usual_pool = read_pool;
  struct fb_result_partition* partition;
  struct fb_polled_buffer polled;
  struct reader readers[READERS];
  uint32_t count = 0;
  uint64_t runs;
  bool is_any;

  CHECK(fb_read_buffer_pool_open(256 << 10, 300000, &small) == FB_OK);
  read_pool = small;
  CHECK(fb_io_executor_open("closed", &executor) == FB_OK);
  partition = write_partition(1, false, 4000);
  for (uint32_t i = 0; i < READERS; i++) CHECK(open_reader(&readers[i], partition, 0) == FB_OK);
  do {
    runs = fb_io_executor_run_count(executor);
    is_any = false;
    for (uint32_t i = 0; i < READERS; i++)
      while (fb_subpartition_view_poll(readers[i].view, &polled) == 1) {
        CHECK(count < KEPT_MAX);
        kept[count++] = polled.slice;
        is_any = true;
      }
  } while (is_any || fb_io_executor_pending_count(executor) > 0 || runs != fb_io_executor_run_count(executor));
  fb_io_executor_close(executor);
  for (uint32_t i = 0; i < READERS; i++) {
    int code;
    while ((code = take(&readers[i], &polled)) == 1) fb_buffer_slice_release(&polled.slice);
    CHECK(code == FB_ESTATE && strstr(fb_result_partition_view_failure(readers[i].view), "closed") != NULL);
  }
  while (count > 0) fb_buffer_slice_release(&kept[--count]); /* who stood in line is called, in vain */
  for (uint32_t i = 0; i < READERS; i++) close_reader(&readers[i]);
  drop_with_files(partition);
  fb_io_executor_drop(executor);
  fb_read_buffer_pool_drop(small);
  read_pool = usual_pool;
  executor = usual;
}

int main(void) {
  make_directory(directory, sizeof directory);
  snprintf(base, sizeof base, "%s/partition", directory);
  CHECK(fb_read_buffer_pool_open(4 << 20, 300000, &read_pool) == FB_OK);
  CHECK(fb_io_executor_open("partition test", &executor) == FB_OK);
  test_killed();
  test_arguments();
  test_random_data_by_setting();
  test_small_regions_are_merged();
  test_release_with_readers();
  test_persistent();
  test_files_that_go_away();
  test_damaged_block();
  test_released_while_it_is_written();
  test_full_disk(8);
  test_full_disk(40);
  test_readers_that_wait_for_each_other();
  test_32_readers_while_it_is_released();
  test_closed_executor();
  test_closed_executor_under_parked_readers();
  forget_wanted();
  fb_io_executor_close(executor);
  fb_io_executor_drop(executor);
  fb_read_buffer_pool_drop(read_pool);
  fb_network_buffer_pool_close(global);
  CHECK(rmdir(directory) == 0);
  return 0;
}
