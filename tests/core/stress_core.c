/* Everything that two threads may do to a partition at once, held up where a seed says (ground/schedule_point.h).
 *
 * A round is one partition of a kind that its seed chooses: pipelined, or blocking in one file a subpartition or one for all.
 * It is written, ended and closed by one thread, read through gates, local and over TCP, by others, which pause, keep buffers,
 * resume channels, wish for other buffer sizes, and go early; and one more releases, fails or aborts it when it likes.
 *
 *   No record is lost, doubled or out of order where a channel is read, and what ends has all that was written to it.
 *   When a round is over every segment is home, no file is left, and nobody waits any more.
 *
 *   stress_core [SECONDS [ROUND [TEXT]]]   from ROUND on, only those whose description contains TEXT: "hashed", "aborted"
 *   FB_PLANT=NAME stress_core ...          with an old fault put back, which it finds
 *
 * What fails or stands still says its round: `stress_core 60 ROUND` begins with that one. */
#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "gate/input_gate.h"
#include "partition/bounded_partition.h"
#include "partition/output_flusher.h"
#include "partition/pipelined_partition.h"
#include "partition/sort_merge_partition.h"
#include "partition_files.h"
#include "wire/partition_server.h"

#define SEGMENT         256
#define SEGMENTS        1024
#define DISK_SEGMENT    4096
#define DISK_SEGMENTS   400
#define CHANNELS_MAX    320
#define CONSUMERS_MAX   4
#define DEFAULT_SECONDS 15
#define PATIENCE_MS     10000 /* without any progress something stands still */

/* ---- random numbers, time -------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 29;
}

static uint32_t below(uint64_t* state, uint32_t limit) { return (uint32_t)(next_random(state) % limit); }
static bool one_in(uint64_t* state, uint32_t count) { return below(state, count) == 0; }

static void nap(uint64_t* state, uint32_t most_us) {
  struct timespec time = {.tv_nsec = (long)below(state, most_us) * 1000};
  nanosleep(&time, NULL);
}

/* ---- who watches ------------------------------------------------------------------------------------------------------ */

static uint64_t round_number;
static const char* round_text = "";
static _Atomic uint64_t progress;

static void move_on(void) { atomic_fetch_add(&progress, 1); }

static _Noreturn void complain(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: %s; round %" PRIu64 " (%s)\n", file, line, what, round_number, round_text);
  fflush(stderr);
  _Exit(1);
}

#define EXPECT_ELSE(condition, what)                      \
  do {                                                    \
    if (!(condition)) complain(__FILE__, __LINE__, what); \
  } while (0)
#define EXPECT(condition) EXPECT_ELSE(condition, #condition)

static void* watch(void* ignored) {
  uint64_t seen = 0;
  int64_t since_ms = fb_wakeup_now_ms();

  (void)ignored;
  for (;;) {
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (atomic_load(&progress) != seen) {
      seen = atomic_load(&progress);
      since_ms = fb_wakeup_now_ms();
    }
    EXPECT_ELSE(fb_wakeup_now_ms() - since_ms < PATIENCE_MS, "something stands still");
  }
}

/* ---- the world: two processes in one -------------------------------------------------------------------------------------- */

static struct fb_reactor *server_reactor, *client_reactor;
static struct fb_partition_manager* manager;
static struct fb_partition_server* server;
static struct fb_partition_client* client;
static struct fb_network_buffer_pool *server_pool, *client_pool, *disk_pool; /* the last one of blocking partitions */
static struct fb_tcp_address address;
static struct fb_io_executor* executor;
static struct fb_output_flusher* flusher;
static char folder[256];

static void open_world(void) {
  struct fb_partition_server_options serving = {.request_timeout_ms = 60000};
  struct fb_partition_client_options asking = {.connect_timeout_ms = 60000,
                                               .backoff_initial_ms = 1,
                                               .backoff_max_ms = 50,
                                               .request_timeout_ms = 60000,
                                               .max_data = DISK_SEGMENT,
                                               .keeps_connections = true};

  make_directory(folder, sizeof folder);
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &server_pool) == FB_OK);
  CHECK(fb_network_buffer_pool_open(SEGMENTS, DISK_SEGMENT, &client_pool) == FB_OK);
  CHECK(fb_network_buffer_pool_open(DISK_SEGMENTS, DISK_SEGMENT, &disk_pool) == FB_OK);
  CHECK(fb_reactor_open(&server_reactor) == FB_OK && fb_reactor_open(&client_reactor) == FB_OK);
  CHECK(fb_partition_manager_open(&manager) == FB_OK);
  CHECK(fb_tcp_address_resolve(&address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_partition_server_open(server_reactor, manager, &address, &serving, &server) == FB_OK);
  CHECK(fb_partition_client_open(client_reactor, &asking, &client) == FB_OK);
  CHECK(fb_io_executor_open("stress", &executor) == FB_OK);
  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
}

static void close_world(void) {
  fb_output_flusher_close(flusher);
  fb_partition_client_close(client);
  fb_reactor_close(client_reactor);
  fb_partition_server_close(server);
  fb_reactor_close(server_reactor);
  fb_partition_manager_close(manager);
  fb_network_buffer_pool_close(client_pool);
  fb_network_buffer_pool_close(server_pool);
  fb_network_buffer_pool_close(disk_pool);
  fb_io_executor_close(executor);
  fb_io_executor_drop(executor);
  CHECK(rmdir(folder) == 0);
}

static bool is_pool_home(struct fb_network_buffer_pool* pool, uint32_t segments) {
  return fb_network_buffer_pool_available(pool) == segments && fb_network_buffer_pool_required(pool) == 0 &&
         fb_network_buffer_pool_pool_count(pool) == 0;
}

static bool is_folder_empty(void) {
  DIR* opened = opendir(folder);
  uint32_t count = 0;

  CHECK(opened != NULL);
  while (readdir(opened) != NULL) count++;
  CHECK(closedir(opened) == 0);
  return count == 2; /* itself and the one above */
}

static const char* what_is_not_home(void) {
  if (!is_pool_home(client_pool, SEGMENTS)) return "a consumer's segments are not home";
  if (!is_pool_home(server_pool, SEGMENTS) || !is_pool_home(disk_pool, DISK_SEGMENTS))
    return "the producer's segments are not home";
  if (fb_partition_manager_count(manager) > 0) return "a partition stays registered";
  return is_folder_empty() ? NULL : "files are left";
}

/* The server learns in its own time that a reader has gone; files go with the last one who uses them. */
static void wait_until_home(void) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(PATIENCE_MS);
  const char* what;

  while ((what = what_is_not_home()) != NULL && fb_wakeup_now_ms() < deadline_ms)
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  if (what != NULL) fprintf(stderr, "%s\n", what);
  EXPECT(what == NULL);
}

/* ---- a round ---------------------------------------------------------------------------------------------------------------- */

enum way { PIPELINED, HASHED, SORT_MERGE };
enum disturbance { NOTHING, RELEASE, FAIL, ABORT, LOSE_READER, DISTURBANCES };

struct round {
  enum way way;
  enum disturbance disturbance;
  uint32_t channels, bytes; /* of each channel */
  uint32_t consumers;
  uint64_t seed;
  struct fb_result_partition* partition;
  struct fb_read_buffer_pool* read_pool;
  uint8_t id[FB_PARTITION_ID_SIZE];
  uint32_t written[CHANNELS_MAX]; /* the producer's */
  int outcome;                    /* what it was told last */
  _Atomic bool is_disturbed;      /* somebody has begun to; set before */
  _Atomic bool may_be_read;
};

static uint8_t byte_at(uint32_t channel, uint32_t at) {
  return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16) * 3 + channel * 101);
}

static void open_partition(struct round* self) {
  uint32_t wanted = self->way == HASHED && self->channels > 16 ? 16 : self->channels + 1;
  struct fb_buffer_pool_options wishes = {.min = self->way == SORT_MERGE ? 8 : wanted,
                                          .max = self->way == SORT_MERGE ? 40 : wanted + 8,
                                          .channel_count = self->way == PIPELINED ? self->channels : 0,
                                          .max_buffers_per_channel = 10};
  struct fb_local_buffer_pool* pool;
  struct fb_file_failure failure;
  char path[300];

  snprintf(path, sizeof path, "%s/part", folder);
  memcpy(self->id, &round_number, sizeof round_number);
  CHECK(fb_local_buffer_pool_open(self->way == PIPELINED ? server_pool : disk_pool, &wishes, &pool) == FB_OK);
  if (self->way == PIPELINED) {
    CHECK(fb_pipelined_partition_open(FB_PIPELINED_BOUNDED, self->channels, pool, &self->partition) == FB_OK);
  } else if (self->way == HASHED) {
    struct fb_bounded_options options = {
        .storage = (enum fb_bounded_storage)below(&self->seed, 3), .path = path, .executor = executor};
    CHECK(fb_bounded_partition_open(FB_BLOCKING, self->channels, pool, &options, &self->partition, &failure) == FB_OK);
  } else {
    uint64_t budget = (uint64_t)self->channels * self->consumers * (4 + below(&self->seed, 40)) << 10;
    struct fb_sort_merge_options options = {.type = FB_BLOCKING,
                                            .subpartition_count = self->channels,
                                            .base_path = path,
                                            .first_subpartition = FB_RANDOM_SUBPARTITION,
                                            .executor = executor};
    CHECK(fb_read_buffer_pool_open(budget, 60000, &self->read_pool) == FB_OK);
    options.read_pool = self->read_pool;
    CHECK(fb_sort_merge_partition_open(&options, pool, &self->partition, &failure) == FB_OK);
  }
}

/* ---- its producer ------------------------------------------------------------------------------------------------------------- */

static int emit(struct round* self, uint32_t channel, uint32_t size) {
  uint8_t bytes[3 * SEGMENT];
  const uint8_t* data = bytes;
  size_t left = size;
  int code;

  for (uint32_t i = 0; i < size; i++) bytes[i] = byte_at(channel, self->written[channel] + i);
  while ((code = fb_result_partition_emit(self->partition, channel, &data, &left)) == FB_NEEDS_BUFFER)
    fb_result_partition_wait(self->partition, 1000);
  if (code != FB_OK) return code;
  self->written[channel] += size;
  fb_result_partition_mark_written(self->partition, channel);
  move_on();
  return FB_OK;
}

/* A barrier that may wait for its turn, and after a while may not. */
static int emit_barrier(struct round* self, uint64_t* seed) {
  static struct fb_slice_list overtaken[CHANNELS_MAX];
  uint8_t barrier[34] = {0, 0, 0, 1};
  int code;

  barrier[11] = 1;
  memset(barrier + 21, 0xff, 4);
  barrier[25] = 1;
  barrier[32] = 100;
  code = fb_result_partition_broadcast_event(self->partition, barrier, sizeof barrier,
                                             FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  if (code == FB_OK && one_in(seed, 2)) {
    nap(seed, 300);
    code = fb_result_partition_convert_barrier(self->partition, 1, overtaken);
    for (uint32_t i = 0; i < self->channels; i++) fb_slice_list_close(&overtaken[i]);
  }
  return code < 0 ? code : FB_OK;
}

static int emit_something_else(struct round* self, uint64_t* seed) {
  static const uint8_t EVENT[] = {0, 0, 0, 2};
  enum fb_buffer_data_type type =
      self->way == PIPELINED && one_in(seed, 2) ? FB_PRIORITIZED_EVENT_BUFFER : FB_EVENT_BUFFER;

  if (self->way == PIPELINED && one_in(seed, 3)) return emit_barrier(self, seed);
  if (one_in(seed, 2))
    return fb_result_partition_emit_event(self->partition, below(seed, self->channels), EVENT, sizeof EVENT, type);
  return fb_result_partition_broadcast_event(self->partition, EVENT, sizeof EVENT, type);
}

static int write_all(struct round* self, uint64_t* seed) {
  uint64_t left = (uint64_t)self->channels * self->bytes;
  int code = FB_OK;

  while (left > 0 && code == FB_OK) {
    uint32_t channel = below(seed, self->channels), size = 1 + below(seed, 3 * SEGMENT - 1);

    if (size > self->bytes - self->written[channel]) size = self->bytes - self->written[channel];
    if (size > 0) code = emit(self, channel, size);
    left -= size;
    if (one_in(seed, 16)) fb_result_partition_flush(self->partition, channel);
    if (code == FB_OK && one_in(seed, 64)) code = emit_something_else(self, seed);
  }
  return code;
}

static void* produce(void* argument) {
  struct round* self = argument;
  uint64_t seed = self->seed * 3 + 1;
  bool is_flushed = self->way == PIPELINED && one_in(&seed, 2);

  if (is_flushed) CHECK(fb_output_flusher_add(flusher, self->partition, 1) == FB_OK);
  self->outcome = write_all(self, &seed);
  if (self->outcome == FB_OK) self->outcome = fb_result_partition_finish(self->partition);
  EXPECT(self->outcome == FB_OK || atomic_load(&self->is_disturbed));
  if (is_flushed) fb_output_flusher_remove(flusher, self->partition);
  atomic_store(&self->may_be_read, self->outcome == FB_OK);
  move_on();
  fb_result_partition_close(self->partition);
  return NULL;
}

/* ---- who disturbs -------------------------------------------------------------------------------------------------------------- */

static void* disturb(void* argument) {
  struct round* self = argument;
  uint64_t seed = self->seed * 5 + 3;

  if (self->disturbance == NOTHING) return NULL;
  nap(&seed, one_in(&seed, 2) ? 500 : 20000);
  atomic_store(&self->is_disturbed, true);
  if (self->disturbance == RELEASE) fb_result_partition_release(self->partition);
  else if (self->disturbance == FAIL) fb_result_partition_fail(self->partition, "it failed");
  else if (self->disturbance == ABORT) fb_result_partition_abort(self->partition, "it was aborted");
  else fb_result_partition_lose_reader(self->partition, "a reader was lost");
  move_on();
  return NULL;
}

/* ---- a consumer ----------------------------------------------------------------------------------------------------------------- */

struct consumer {
  struct round* round;
  uint32_t number, first, count; /* channels */
  uint64_t seed;
  pthread_t thread;
};

struct reading {
  struct fb_input_gate gate;
  uint32_t first, count;
  uint32_t at[CHANNELS_MAX];
  struct fb_buffer_slice held[3];
  uint32_t held_count;
};

static void set_channel(struct consumer* self, struct reading* reading, uint32_t index, bool is_remote) {
  struct fb_remote_source source = {.address = address, .subpartition_index = reading->first + index};
  static _Atomic uint64_t next_id;
  uint8_t id[FB_CHANNEL_ID_SIZE] = {0};
  uint64_t number = atomic_fetch_add(&next_id, 1) + 1;

  if (!is_remote) {
    CHECK(fb_input_gate_set_local(&reading->gate, index, self->round->partition, reading->first + index) == FB_OK);
    return;
  }
  memcpy(source.partition, self->round->id, sizeof source.partition);
  memcpy(id, &number, sizeof number);
  EXPECT(fb_input_gate_set_remote(&reading->gate, index, &source, id, 1 + below(&self->seed, 2), 60000) == FB_OK);
}

/* FB_OK, or why it cannot be read. */
static int open_reading(struct consumer* self, struct reading* reading, bool is_remote) {
  struct fb_buffer_debloater_config debloating = {
      .target_ms = 1, .min_size = 64, .max_size = SEGMENT, .threshold_percent = 1, .samples = 2};
  uint32_t failed;

  CHECK(fb_input_gate_open(&reading->gate, reading->count) == FB_OK);
  if (is_remote) {
    struct fb_buffer_pool_options options = {.min = 1, .max = 8};
    struct fb_gate_network network = {client, manager, client_pool, NULL, 60000};
    CHECK(fb_local_buffer_pool_open(client_pool, &options, &network.pool) == FB_OK);
    CHECK(fb_local_buffer_pool_reserve(network.pool, 1, 60000) == FB_OK);
    CHECK(fb_input_gate_set_network(&reading->gate, &network) == FB_OK);
  }
  for (uint32_t i = 0; i < reading->count; i++) set_channel(self, reading, i, is_remote);
  if (one_in(&self->seed, 3)) CHECK(fb_input_gate_set_debloating(&reading->gate, &debloating, 1) == FB_OK);
  return fb_input_gate_request_partitions(&reading->gate, &failed);
}

static void let_go(struct reading* reading) {
  while (reading->held_count > 0) fb_buffer_slice_release(&reading->held[--reading->held_count]);
}

static void close_reading(struct reading* reading) {
  let_go(reading);
  fb_input_gate_close(&reading->gate);
}

static void take_bytes(struct reading* reading, const struct fb_gate_item* item) {
  const uint8_t* data = fb_buffer_slice_data(&item->slice);
  uint32_t* at = &reading->at[item->channel_index];

  for (uint32_t i = 0; i < item->slice.size; i++)
    EXPECT(data[i] == byte_at(reading->first + item->channel_index, (*at)++));
}

/* One item, or a wait for it. Negative: an error. */
static int read_item(struct consumer* self, struct reading* reading) {
  struct fb_gate_item item;
  int code = fb_input_gate_poll(&reading->gate, &item);

  if (code < 0) return code;
  if (code == 0) {
    let_go(reading); /* what is held could be all there is */
    fb_input_gate_wait(&reading->gate, 1000);
    return FB_OK;
  }
  move_on();
  if (fb_buffer_data_type_is_buffer(item.slice.data_type)) {
    take_bytes(reading, &item);
    if (reading->held_count == 3) fb_buffer_slice_release(&reading->held[--reading->held_count]);
    reading->held[reading->held_count++] = item.slice;
    if (one_in(&self->seed, 2)) let_go(reading);
    return FB_OK;
  }
  if (item.slice.data_type == FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER) {
    code = fb_input_gate_resume(&reading->gate, item.channel_index);
    EXPECT(code == FB_OK || atomic_load(&self->round->is_disturbed));
  }
  fb_buffer_slice_release(&item.slice);
  return FB_OK;
}

/* Up to so many items, or to the end. */
static int read_on(struct consumer* self, struct reading* reading, uint32_t items) {
  int code = FB_OK;

  for (; items > 0 && code == FB_OK && !fb_input_gate_is_finished(&reading->gate); items--) {
    code = read_item(self, reading);
    if (one_in(&self->seed, 200)) nap(&self->seed, 2000);
  }
  return code;
}

/* What has ended has all that was written, and what was dropped has no end. */
static void check_ends(struct consumer* self, struct reading* reading) {
  for (uint32_t i = 0; i < reading->count; i++) {
    uint32_t written = self->round->bytes;
    if (reading->gate.channels[i].has_ended)
      EXPECT_ELSE(reading->at[i] == written, "a channel that ended lacks records");
  }
}

static void check_error(struct consumer* self, int code) {
  EXPECT(code == FB_OK || atomic_load(&self->round->is_disturbed));
}

/* The first for a while, then the second to its end, as a join does; then the rest of the first, or not. */
static void consume_two(struct consumer* self, bool is_remote) {
  struct reading* readings = calloc(2, sizeof *readings);
  int code = FB_OK;

  CHECK(readings != NULL);
  for (uint32_t i = 0; i < 2; i++) {
    readings[i].first = self->first;
    readings[i].count = self->count;
    if (code == FB_OK) code = open_reading(self, &readings[i], is_remote);
    else CHECK(fb_input_gate_open(&readings[i].gate, self->count) == FB_OK);
  }
  if (code == FB_OK) code = read_on(self, &readings[0], 1 + below(&self->seed, 4 * self->count));
  let_go(&readings[0]);
  if (code == FB_OK) code = read_on(self, &readings[1], UINT32_MAX);
  if (code == FB_OK && !one_in(&self->seed, 4)) code = read_on(self, &readings[0], UINT32_MAX);
  check_error(self, code);
  for (uint32_t i = 0; i < 2; i++) {
    check_ends(self, &readings[i]);
    close_reading(&readings[i]);
  }
  free(readings);
}

static void consume_one(struct consumer* self, bool is_remote, bool may_go) {
  struct reading* reading = calloc(1, sizeof *reading);
  bool goes = may_go && one_in(&self->seed, 5);
  int code;

  CHECK(reading != NULL);
  reading->first = self->first;
  reading->count = self->count;
  if (goes) atomic_store(&self->round->is_disturbed, true); /* a lost reader is a reason to fail */
  code = open_reading(self, reading, is_remote);
  if (code == FB_OK) code = read_on(self, reading, goes ? below(&self->seed, 100) : UINT32_MAX);
  check_error(self, code);
  check_ends(self, reading);
  close_reading(reading);
  free(reading);
}

static void* consume(void* argument) {
  struct consumer* self = argument;
  bool is_remote = one_in(&self->seed, 3);

  if (self->round->way == PIPELINED || one_in(&self->seed, 3)) consume_one(self, is_remote, true);
  else consume_two(self, is_remote);
  move_on();
  return NULL;
}

/* ---- rounds ----------------------------------------------------------------------------------------------------------------------- */

static const char* const WAYS[] = {"pipelined", "hashed", "sort-merge"};

static void choose(struct round* self, uint64_t number) {
  static const char* const DISTURBANCES_TEXT[] = {"undisturbed", "released", "failed", "aborted", "a reader lost"};
  static char text[100];

  *self = (struct round){.seed = number * 7919 + 17};
  next_random(&self->seed);
  self->way = (enum way)below(&self->seed, 3);
  self->disturbance = one_in(&self->seed, 2) ? NOTHING : (enum disturbance)below(&self->seed, DISTURBANCES);
  self->consumers = 1 + below(&self->seed, CONSUMERS_MAX);
  if (self->way == PIPELINED) {
    self->channels = 1 + below(&self->seed, 12);
    self->bytes = below(&self->seed, 6000);
  } else {
    self->channels = self->way == HASHED && one_in(&self->seed, 2) ? 300 : 1 + below(&self->seed, 40);
    self->bytes = below(&self->seed, self->channels > 100 ? 1000 : one_in(&self->seed, 2) ? 4000 : 60000);
  }
  snprintf(text, sizeof text, "%s, %s, %u channels of %u bytes", WAYS[self->way], DISTURBANCES_TEXT[self->disturbance],
           self->channels, self->bytes);
  round_text = text;
}

/* Consumers share the channels of a pipelined partition, and read all those of a blocking one each. */
static uint32_t start_consumers(struct round* self, struct consumer* consumers) {
  uint32_t count = self->consumers < self->channels ? self->consumers : self->channels;

  for (uint32_t i = 0; i < count; i++) {
    struct consumer* each = &consumers[i];

    *each = (struct consumer){.round = self, .number = i, .seed = self->seed * 11 + i, .count = self->channels};
    if (self->way == PIPELINED) {
      each->first = self->channels * i / count;
      each->count = self->channels * (i + 1) / count - each->first;
    } else if (self->channels > 60) {
      each->count = 60;
    }
    CHECK(pthread_create(&each->thread, NULL, consume, each) == 0);
  }
  return count;
}

static void run_round(struct round* self, uint64_t number) {
  struct consumer consumers[CONSUMERS_MAX];
  pthread_t producer, disturber;
  uint32_t count = 0;

  round_number = number;
  fb_schedule_point_start(number);
  open_partition(self);
  CHECK(fb_partition_manager_register(manager, self->id, self->partition) == FB_OK);
  CHECK(pthread_create(&producer, NULL, produce, self) == 0);
  CHECK(pthread_create(&disturber, NULL, disturb, self) == 0);
  if (self->way == PIPELINED) count = start_consumers(self, consumers);
  CHECK(pthread_join(producer, NULL) == 0);
  if (self->way != PIPELINED && atomic_load(&self->may_be_read)) count = start_consumers(self, consumers);
  for (uint32_t i = 0; i < count; i++) CHECK(pthread_join(consumers[i].thread, NULL) == 0);
  CHECK(pthread_join(disturber, NULL) == 0);
  fb_partition_manager_unregister(manager, self->id);
  if (self->way != PIPELINED) fb_result_partition_release(self->partition);
  fb_schedule_point_start(0);
  wait_until_home(); /* already while the partition is held: it was released, and is read by nobody */
  fb_result_partition_drop(self->partition);
  fb_read_buffer_pool_drop(self->read_pool);
}

int main(int argument_count, char** arguments) {
  int64_t seconds = argument_count > 1 ? atoll(arguments[1]) : DEFAULT_SECONDS;
  uint64_t number = argument_count > 2 ? strtoull(arguments[2], NULL, 10) : 1, rounds = 0;
  int64_t deadline_ms = fb_wakeup_deadline_ms(seconds * 1000);
  static struct round round;
  pthread_t watcher;

  open_world();
  CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0 && pthread_detach(watcher) == 0);
  for (; fb_wakeup_now_ms() < deadline_ms; number++) {
    choose(&round, number);
    if (argument_count > 3 && strstr(round_text, arguments[3]) == NULL) continue;
    run_round(&round, number);
    rounds++;
  }
  close_world();
  printf("%" PRIu64 " rounds, %" PRIu64 " steps: nothing was found\n", rounds, atomic_load(&progress));
  return 0;
}
