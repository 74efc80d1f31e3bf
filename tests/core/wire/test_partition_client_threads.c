/* Server, client and gates with all their threads: producers write, consumers read or give up at any moment, over one
 * connection or over many. Every byte arrives once and in order, and every segment comes home. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "gate/input_gate.h"
#include "partition/pipelined_partition.h"
#include "wire/partition_server.h"

#define SEGMENT         64
#define SERVER_SEGMENTS 256
#define CLIENT_SEGMENTS 64
#define MOST_CHANNELS   4
#define WORKERS         3

/* Two processes in one: each side with its own I/O thread and its own memory. */
struct world {
  struct fb_reactor *server_reactor, *client_reactor;
  struct fb_partition_manager* manager;
  struct fb_partition_server* server;
  struct fb_partition_client* client;
  struct fb_network_buffer_pool *server_pool, *client_pool;
  struct fb_tcp_address address;
  _Atomic uint32_t next_id;
  int rounds;
  uint32_t least_floating, more_floating, most_exclusive;
  bool gives_up; /* some of the consumers */
};

/* One partition, written by its own thread and read by the worker that made it. */
struct exchange {
  struct world* world;
  struct fb_result_partition* partition;
  uint8_t id[FB_PARTITION_ID_SIZE];
  uint32_t channels;
  uint32_t bytes; /* for each subpartition */
  uint64_t seed;
};

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state >> 11;
}

static void open_world(struct world* self, bool keeps_connections) {
  struct fb_partition_server_options serving = {.request_timeout_ms = 60000};
  struct fb_partition_client_options asking = {.connect_timeout_ms = 60000,
                                               .backoff_initial_ms = 100,
                                               .backoff_max_ms = 10000,
                                               .request_timeout_ms = 60000,
                                               .max_data = SEGMENT,
                                               .keeps_connections = keeps_connections};

  *self = (struct world){.least_floating = 2, .more_floating = 6, .most_exclusive = 2};
  CHECK(fb_network_buffer_pool_open(SERVER_SEGMENTS, SEGMENT, &self->server_pool) == FB_OK);
  CHECK(fb_network_buffer_pool_open(CLIENT_SEGMENTS, SEGMENT, &self->client_pool) == FB_OK);
  CHECK(fb_reactor_open(&self->server_reactor) == FB_OK && fb_reactor_open(&self->client_reactor) == FB_OK);
  CHECK(fb_partition_manager_open(&self->manager) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_partition_server_open(self->server_reactor, self->manager, &self->address, &serving, &self->server) ==
        FB_OK);
  CHECK(fb_partition_client_open(self->client_reactor, &asking, &self->client) == FB_OK);
}

static bool is_home(struct fb_network_buffer_pool* pool, uint32_t segments) {
  return fb_network_buffer_pool_available(pool) == segments && fb_network_buffer_pool_required(pool) == 0 &&
         fb_network_buffer_pool_pool_count(pool) == 0;
}

/* The server learns in its own time that a client has gone. */
static void wait_until_home(struct world* self) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(60000);

  while (!is_home(self->client_pool, CLIENT_SEGMENTS) || !is_home(self->server_pool, SERVER_SEGMENTS) ||
         fb_partition_manager_count(self->manager) > 0) {
    CHECK(fb_wakeup_now_ms() < deadline_ms);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

/* Nothing is left of all those rounds, before anything is closed. */
static void close_world(struct world* self) {
  struct fb_partition_client_counters counters;

  fb_partition_client_get_counters(self->client, &counters);
  CHECK(counters.channels == 0);
  wait_until_home(self);
  fb_partition_client_close(self->client);
  fb_reactor_close(self->client_reactor);
  fb_partition_server_close(self->server);
  fb_reactor_close(self->server_reactor);
  fb_partition_manager_close(self->manager);
  fb_network_buffer_pool_close(self->client_pool);
  fb_network_buffer_pool_close(self->server_pool);
}

/* ---- the producer -------------------------------------------------------------------------------------- */

static uint8_t byte_at(uint32_t channel, uint32_t at) { return (uint8_t)(at * 31 + (at >> 8) * 7 + channel * 101); }

static void emit(struct exchange* self, uint32_t channel, uint32_t at, uint32_t size) {
  uint8_t bytes[200];
  const uint8_t* data = bytes;
  size_t left = size;
  int code;

  for (uint32_t i = 0; i < size; i++) bytes[i] = byte_at(channel, at + i);
  while ((code = fb_result_partition_emit(self->partition, channel, &data, &left)) == FB_NEEDS_BUFFER)
    fb_result_partition_wait(self->partition, 1000);
  CHECK(code == FB_OK);
}

static void emit_event(struct exchange* self, uint64_t random) {
  static const enum fb_buffer_data_type types[] = {FB_EVENT_BUFFER, FB_ALIGNED_CHECKPOINT_BARRIER, FB_EVENT_BUFFER,
                                                   FB_PRIORITIZED_EVENT_BUFFER};
  enum fb_buffer_data_type type = types[random % 4];
  const uint8_t event[] = {0, 0, 0, type == FB_ALIGNED_CHECKPOINT_BARRIER ? 1 : 2};
  CHECK(fb_result_partition_broadcast_event(self->partition, event, sizeof event, type) == FB_OK);
}

static void* produce(void* argument) {
  struct exchange* self = argument;
  uint32_t at[MOST_CHANNELS] = {0};
  uint32_t left = self->channels * self->bytes;

  if (self->seed % 3 == 0) sched_yield(); /* requests may come before the partition */
  CHECK(fb_partition_manager_register(self->world->manager, self->id, self->partition) == FB_OK);
  while (left > 0) {
    uint64_t random = next_random(&self->seed);
    uint32_t channel = (uint32_t)(random % self->channels), size = 1 + (uint32_t)(random >> 8) % 200;

    if (size > self->bytes - at[channel]) size = self->bytes - at[channel];
    if (size > 0) emit(self, channel, at[channel], size);
    at[channel] += size;
    left -= size;
    if (random >> 20 & 1) fb_result_partition_flush(self->partition, channel);
    if ((random >> 24) % 32 == 0) emit_event(self, random >> 30);
  }
  CHECK(fb_result_partition_finish(self->partition) == FB_OK);
  fb_result_partition_close(self->partition);
  return NULL;
}

/* ---- the consumer -------------------------------------------------------------------------------------- */

static void open_gate(struct exchange* self, struct fb_input_gate* gate) {
  struct world* world = self->world;
  uint32_t floating = world->least_floating;
  uint32_t exclusive = (uint32_t)(next_random(&self->seed) % (world->most_exclusive + 1));
  struct fb_buffer_pool_options options = {.min = floating, .max = floating + world->more_floating};
  struct fb_gate_network network = {world->client, world->manager, world->client_pool, NULL, 60000};
  uint32_t failed;

  CHECK(fb_local_buffer_pool_open(world->client_pool, &options, &network.pool) == FB_OK);
  CHECK(fb_local_buffer_pool_reserve(network.pool, 1, 60000) == FB_OK);
  CHECK(fb_input_gate_open(gate, self->channels) == FB_OK && fb_input_gate_set_network(gate, &network) == FB_OK);
  for (uint32_t i = 0; i < self->channels; i++) {
    struct fb_remote_source source = {.address = world->address, .subpartition_index = i};
    uint8_t id[FB_CHANNEL_ID_SIZE] = {0};

    if (next_random(&self->seed) % 8 == 0) {
      CHECK(fb_input_gate_set_local_id(gate, i, self->id, i) == FB_OK);
      continue;
    }
    memcpy(source.partition, self->id, sizeof source.partition);
    memcpy(id, self->id, 8);
    id[15] = (uint8_t)i;
    CHECK(fb_input_gate_set_remote(gate, i, &source, id, exclusive, 60000) == FB_OK);
  }
  CHECK(fb_input_gate_request_partitions(gate, &failed) == FB_OK);
}

struct held {
  struct fb_buffer_slice slices[3];
  uint32_t count;
};

/* Keeps a few buffers for a while, so that they come home late and out of order. */
static void hold(struct held* self, const struct fb_buffer_slice* slice, uint64_t random) {
  uint32_t which;

  if (self->count < 3) {
    self->slices[self->count++] = *slice;
    return;
  }
  which = (uint32_t)(random % 3);
  fb_buffer_slice_release(&self->slices[which]);
  self->slices[which] = *slice;
}

static void let_go(struct held* self) {
  while (self->count > 0) fb_buffer_slice_release(&self->slices[--self->count]);
}

static void check_bytes(const struct fb_gate_item* item, uint32_t* at) {
  const uint8_t* data = fb_buffer_slice_data(&item->slice);
  for (uint32_t i = 0; i < item->slice.size; i++) CHECK(data[i] == byte_at(item->channel_index, (*at)++));
}

/* Reads until everything has come, or `polls` buffers. Returns whether everything has. */
static bool consume(struct exchange* self, struct fb_input_gate* gate, uint64_t polls, struct held* held) {
  uint32_t at[MOST_CHANNELS] = {0};
  int64_t deadline_ms = fb_wakeup_deadline_ms(60000);

  while (!fb_input_gate_is_finished(gate)) {
    struct fb_gate_item item;
    int code = fb_input_gate_poll(gate, &item);

    if (code < 0)
      fprintf(stderr, "channel %u: %s\n", item.channel_index, fb_input_gate_failure(gate, item.channel_index));
    CHECK(code >= 0 && fb_wakeup_now_ms() < deadline_ms);
    if (code == 0) {
      let_go(held); /* what is held could be all there is */
      fb_input_gate_wait(gate, 1000);
      continue;
    }
    if (polls-- == 0) {
      fb_buffer_slice_release(&item.slice);
      return false;
    }
    if (fb_buffer_data_type_is_buffer(item.slice.data_type)) {
      check_bytes(&item, &at[item.channel_index]);
      hold(held, &item.slice, next_random(&self->seed));
      continue;
    }
    if (fb_buffer_data_type_blocks_upstream(item.slice.data_type))
      CHECK(fb_input_gate_resume(gate, item.channel_index) == FB_OK);
    fb_buffer_slice_release(&item.slice);
  }
  for (uint32_t i = 0; i < self->channels; i++) CHECK(at[i] == self->bytes);
  return true;
}

static void open_partition(struct exchange* self) {
  uint32_t number = atomic_fetch_add(&self->world->next_id, 1) + 1;
  struct fb_buffer_pool_options options = {.min = self->channels + 1, .max = self->channels + 12};
  struct fb_local_buffer_pool* pool;

  memcpy(self->id, &number, sizeof number);
  CHECK(fb_local_buffer_pool_open(self->world->server_pool, &options, &pool) == FB_OK);
  CHECK(fb_pipelined_partition_open(FB_PIPELINED_BOUNDED, self->channels, pool, &self->partition) == FB_OK);
}

static void run_exchange(struct world* world, uint64_t seed) {
  struct exchange self = {.world = world,
                          .channels = 1 + (uint32_t)(seed >> 20) % MOST_CHANNELS,
                          .bytes = (uint32_t)(seed >> 24) % 3000,
                          .seed = seed | 1};
  struct exchange produced;
  uint64_t polls = world->gives_up && seed % 2 ? (seed >> 40) % 50 : UINT64_MAX;
  struct held held = {.count = 0};
  struct fb_input_gate gate;
  pthread_t producer;
  bool is_complete;

  open_partition(&self);
  produced = self;
  fb_result_partition_retain(self.partition); /* for the end of a round that is given up */
  if (seed >> 50 & 1) open_gate(&self, &gate);
  CHECK(pthread_create(&producer, NULL, produce, &produced) == 0);
  if (!(seed >> 50 & 1)) open_gate(&self, &gate);
  is_complete = consume(&self, &gate, polls, &held);
  if (seed >> 51 & 1) let_go(&held);
  fb_input_gate_close(&gate);
  /* What was not even asked for would be waited for. */
  if (!is_complete) fb_result_partition_release(self.partition);
  pthread_join(producer, NULL);
  let_go(&held);
  if (!is_complete) fb_partition_manager_unregister(world->manager, self.id);
  fb_result_partition_drop(self.partition);
  fb_result_partition_drop(self.partition);
}

struct worker {
  struct world* world;
  uint64_t seed;
};

static void* work(void* argument) {
  struct worker* self = argument;
  for (int i = 0; i < self->world->rounds; i++)
    run_exchange(self->world, next_random(&self->seed) << 11 ^ next_random(&self->seed));
  return NULL;
}

static void run_rounds(struct world* world, int rounds) {
  struct worker workers[WORKERS];
  pthread_t threads[WORKERS];

  world->rounds = rounds;
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (struct worker){world, 0x9e3779b97f4a7c15u * (uint64_t)(i + 1)};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void everything_arrives_over_one_connection(void) {
  struct world world;

  open_world(&world, true);
  run_rounds(&world, 250);
  close_world(&world);
}

static void everything_arrives_over_connections_that_come_and_go(void) {
  struct world world;

  open_world(&world, false);
  run_rounds(&world, 250);
  close_world(&world);
}

/* One floating buffer for up to four channels, and none of their own. */
static void one_buffer_is_enough(void) {
  struct world world;

  open_world(&world, true);
  world.least_floating = 1;
  world.more_floating = 0;
  world.most_exclusive = 0;
  run_rounds(&world, 100);
  close_world(&world);
}

static void consumers_may_give_up_at_any_moment(void) {
  for (int keeps = 0; keeps < 2; keeps++) {
    struct world world;

    open_world(&world, keeps);
    world.gives_up = true;
    run_rounds(&world, 400);
    close_world(&world);
  }
}

static void* close_gate(void* gate) {
  fb_input_gate_close(gate);
  return NULL;
}

/* The consuming side's network goes; the rest of the world stays as it is. */
static void close_network(struct world* self) {
  fb_partition_client_close(self->client);
  fb_reactor_close(self->client_reactor);
}

static void close_rest(struct world* self) {
  wait_until_home(self);
  fb_partition_server_close(self->server);
  fb_reactor_close(self->server_reactor);
  fb_partition_manager_close(self->manager);
  fb_network_buffer_pool_close(self->client_pool);
  fb_network_buffer_pool_close(self->server_pool);
}

/* All channels are remote ones, to a partition that does not come. */
static void open_waiting_gate(struct exchange* self, struct fb_input_gate* gate) {
  self->seed = 1; /* whatever next_random() makes of it, the first channel is remote */
  open_gate(self, gate);
  CHECK(gate->channels[0].remote != NULL);
}

static void expect_released(struct fb_input_gate* gate) {
  struct fb_gate_item item;

  CHECK(fb_input_gate_poll(gate, &item) == FB_ERELEASED);
  CHECK(strstr(fb_input_gate_failure(gate, item.channel_index), "was closed") != NULL);
}

/* A gate that nobody finds any more, since it is about to be freed, while its network is closed. */
static void a_gate_may_be_closed_after_its_client_and_reactor(void) {
  for (int round = 0; round < 200; round++) {
    struct world world;
    struct exchange exchange = {.world = &world, .channels = 2, .id = {1}};
    struct fb_input_gate gate;
    pthread_t thread;

    open_world(&world, round & 1);
    open_waiting_gate(&exchange, &gate);
    if (round < 4) {
      close_network(&world);
      expect_released(&gate);
      fb_input_gate_close(&gate);
    } else { /* at the same time */
      CHECK(pthread_create(&thread, NULL, close_gate, &gate) == 0);
      if (round & 2) sched_yield();
      close_network(&world);
      pthread_join(thread, NULL);
    }
    close_rest(&world);
  }
}

static void a_closed_client_asks_nobody(void) {
  struct world world;
  struct exchange exchange = {.world = &world, .channels = 2, .id = {1}};
  struct fb_input_gate gate;

  open_world(&world, true);
  fb_partition_client_retain(world.client);
  fb_partition_client_close(world.client);
  open_waiting_gate(&exchange, &gate);
  expect_released(&gate);
  fb_input_gate_close(&gate);
  fb_partition_client_drop(world.client);
  fb_reactor_close(world.client_reactor);
  close_rest(&world);
}

int main(void) {
  a_gate_may_be_closed_after_its_client_and_reactor();
  a_closed_client_asks_nobody();
  everything_arrives_over_one_connection();
  everything_arrives_over_connections_that_come_and_go();
  one_buffer_is_enough();
  consumers_may_give_up_at_any_moment();
  return 0;
}
