/* A kind of partition that only this file knows: gate, server and client read it like any other, locally and from elsewhere,
 * as often as they like. It is blocking, keeps what is written in memory, and may put it into a file when it is finished. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkstemp, posix_fadvise */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "gate/input_gate.h"
#include "wire/partition_server.h"

#define SEGMENT  1024
#define SEGMENTS 64
#define BYTES    20000 /* for each of two subpartitions */

/* ---- the kind -------------------------------------------------------------------------------------------- */

struct item {
  struct fb_buffer_consumer consumer; /* while it is filled */
  uint32_t target, size;
  uint8_t data_type;
  uint8_t* bytes;
  uint64_t offset; /* in the file */
};

struct shelf_file {
  struct fb_shared_file base;
  char path[64];
};

struct shelf {
  struct fb_result_partition base;
  pthread_mutex_t lock; /* of the views */
  struct shelf_view* views;
  struct item* items;
  uint32_t count, rooms_made;
  struct shelf_file* file;
  bool uses_file, has_bad_disk, has_lost_file;
};

struct shelf_view {
  struct fb_subpartition_view base;
  struct fb_view_options options;
  struct shelf_view* next;
  uint32_t at;
  int32_t sequence_number;
};

static _Atomic uint32_t open_files, regions_given;

static struct item* new_item(struct shelf* self, uint32_t target, uint8_t data_type) {
  self->items = realloc(self->items, (self->count + 1) * sizeof *self->items);
  CHECK(self->items != NULL);
  self->items[self->count] = (struct item){.target = target, .data_type = data_type};
  return &self->items[self->count++];
}

static void keep_bytes(struct item* item, const uint8_t* data, uint32_t size) {
  item->bytes = realloc(item->bytes, item->size + size + 1);
  CHECK(item->bytes != NULL);
  memcpy(item->bytes + item->size, data, size);
  item->size += size;
}

static int shelf_add(struct fb_result_partition* base, uint32_t target, struct fb_buffer_consumer* consumer,
                     int32_t partial_record_length, int32_t* desired_size) {
  struct item* item = new_item((struct shelf*)base, target, consumer->data_type);
  (void)partial_record_length;
  CHECK(*desired_size == INT32_MAX);
  item->consumer = *consumer;
  *consumer = (struct fb_buffer_consumer){0};
  return FB_OK;
}

static int shelf_emit(struct fb_result_partition* base, uint32_t target, const uint8_t** data, size_t* size) {
  size_t part = *size < 100 ? *size : 100;
  CHECK(base->takes_records && base->open_unicast_count == 0);
  keep_bytes(new_item((struct shelf*)base, target, FB_DATA_BUFFER), *data, (uint32_t)part);
  *data += part;
  *size -= part;
  return *size > 0 ? FB_NEEDS_BUFFER : FB_OK;
}

static void keep_filled(struct shelf* self) {
  fb_result_partition_finish_builders(&self->base);
  for (uint32_t i = 0; i < self->count; i++) {
    struct item* item = &self->items[i];
    struct fb_buffer_slice slice;
    if (item->consumer.buffer == NULL) continue;
    fb_buffer_consumer_build(&item->consumer, &slice);
    CHECK(fb_buffer_consumer_is_finished(&item->consumer));
    keep_bytes(item, fb_buffer_slice_data(&slice), slice.size);
    fb_buffer_slice_release(&slice);
    fb_buffer_consumer_close(&item->consumer);
  }
}

static int shelf_make_room(struct fb_result_partition* base) {
  struct shelf* self = (struct shelf*)base;
  if (self->has_bad_disk) {
    fb_result_partition_fail_output(base, FB_EIO, ENOSPC, "file /shelf, byte 7: no space left");
    return FB_EIO;
  }
  keep_filled(self);
  self->rooms_made++;
  return FB_OK;
}

static void free_shelf_file(struct fb_shared_file* base) {
  close(base->fd);
  free(base);
  atomic_fetch_sub(&open_files, 1);
}

static void write_shelf_file(struct shelf* self) {
  struct shelf_file* file = calloc(1, sizeof *file);
  uint64_t offset = 0;
  int fd;

  snprintf(file->path, sizeof file->path, "/tmp/flinkbuf-shelf-XXXXXX");
  fd = mkstemp(file->path);
  CHECK(fd >= 0);
  fb_shared_file_open(&file->base, fd, file->path, free_shelf_file);
  atomic_fetch_add(&open_files, 1);
  for (uint32_t i = 0; i < self->count; i++) {
    self->items[i].offset = offset;
    CHECK(write(fd, self->items[i].bytes, self->items[i].size) == (ssize_t)self->items[i].size);
    offset += self->items[i].size;
  }
  self->file = file;
}

static int shelf_finish(struct fb_result_partition* base) {
  static const uint8_t end[4] = {0};
  struct shelf* self = (struct shelf*)base;

  keep_filled(self);
  keep_bytes(new_item(self, base->subpartition_count, FB_END_OF_PARTITION), end, sizeof end);
  if (self->uses_file) write_shelf_file(self);
  return FB_OK;
}

static const struct item* shelf_next(const struct shelf_view* view, uint32_t from, uint32_t* at) {
  const struct shelf* self = (const struct shelf*)view->base.partition;
  for (*at = from; *at < self->count; (*at)++) {
    const struct item* item = &self->items[*at];
    if (item->size > 0 && (item->target == view->base.index || item->target == self->base.subpartition_count))
      return item;
  }
  return NULL;
}

static int shelf_poll(struct fb_subpartition_view* base, struct fb_polled_buffer* polled) {
  struct shelf_view* view = (struct shelf_view*)base;
  struct shelf* self = (struct shelf*)base->partition;
  uint32_t at;
  const struct item* item = shelf_next(view, view->at, &at);

  *polled = (struct fb_polled_buffer){0};
  if (fb_result_partition_is_released(base->partition)) return FB_ERELEASED;
  if (item == NULL) return 0;
  if (self->file != NULL && view->options.takes_file_regions && item->data_type == FB_DATA_BUFFER) {
    fb_shared_file_retain(&self->file->base);
    polled->region = (struct fb_file_region){&self->file->base, item->offset, item->size};
    polled->slice.size = item->size;
    polled->slice.data_type = FB_DATA_BUFFER;
    atomic_fetch_add(&regions_given, 1);
  } else {
    CHECK(fb_buffer_new_unpooled(item->bytes, item->size, (enum fb_buffer_data_type)item->data_type, &polled->slice) ==
          FB_OK);
  }
  view->at = at + 1;
  polled->sequence_number = view->sequence_number++;
  item = shelf_next(view, view->at, &at);
  polled->next_data_type = item != NULL ? item->data_type : FB_NONE;
  polled->backlog = item != NULL && item->data_type == FB_DATA_BUFFER;
  return 1;
}

static bool shelf_is_available(struct fb_subpartition_view* base, bool has_credit, uint32_t* backlog) {
  struct shelf_view* view = (struct shelf_view*)base;
  uint32_t at;
  const struct item* item = shelf_next(view, view->at, &at);

  if (backlog != NULL) *backlog = item != NULL && item->data_type == FB_DATA_BUFFER;
  return item != NULL && (has_credit || item->data_type != FB_DATA_BUFFER);
}

static bool shelf_view_is_released(struct fb_subpartition_view* base) {
  return fb_result_partition_is_released(base->partition);
}

static void shelf_view_usage(struct fb_subpartition_view* base, struct fb_subpartition_usage* usage) {
  (void)base;
  *usage = (struct fb_subpartition_usage){.credit = -1};
}

static void shelf_release_view(struct fb_subpartition_view* base) {
  struct shelf* self = (struct shelf*)base->partition;
  struct shelf_view** link = &self->views;

  pthread_mutex_lock(&self->lock);
  while (*link != (struct shelf_view*)base) link = &(*link)->next;
  *link = (*link)->next;
  pthread_mutex_unlock(&self->lock);
  fb_result_partition_close_view(base);
  free(base);
}

/* No optional function: each has its default. */
static const struct fb_subpartition_view_kind SHELF_VIEW = {.poll = shelf_poll,
                                                            .is_available = shelf_is_available,
                                                            .is_released = shelf_view_is_released,
                                                            .get_usage = shelf_view_usage,
                                                            .release = shelf_release_view};

static int shelf_create_view(struct fb_result_partition* base, uint32_t index, const struct fb_view_options* options,
                             struct fb_subpartition_view** view) {
  struct shelf* self = (struct shelf*)base;
  struct shelf_view* created = calloc(1, sizeof *created);

  CHECK(fb_result_partition_is_finished(base));
  if (self->has_lost_file) {
    free(created);
    return FB_ENOT_FOUND;
  }
  fb_result_partition_open_view(base, &SHELF_VIEW, index, &created->base);
  created->options = *options;
  pthread_mutex_lock(&self->lock);
  created->next = self->views;
  self->views = created;
  pthread_mutex_unlock(&self->lock);
  *view = &created->base;
  return FB_OK;
}

/* The lock is held for the calls, so that none is made to a view that is gone. */
static void shelf_release(struct fb_result_partition* base) {
  struct shelf* self = (struct shelf*)base;

  pthread_mutex_lock(&self->lock);
  for (struct shelf_view* at = self->views; at != NULL; at = at->next)
    at->options.listener.on_data_available(at->options.listener.context, at->base.index);
  pthread_mutex_unlock(&self->lock);
}

static void shelf_usage(struct fb_result_partition* base, uint32_t index, struct fb_subpartition_usage* usage) {
  (void)base, (void)index;
  *usage = (struct fb_subpartition_usage){.credit = -1};
}

static void shelf_close(struct fb_result_partition* base) {
  struct shelf* self = (struct shelf*)base;

  CHECK(self->views == NULL); /* each has a reference */
  for (uint32_t i = 0; i < self->count; i++) {
    if (self->items[i].consumer.buffer != NULL) fb_buffer_consumer_close(&self->items[i].consumer);
    free(self->items[i].bytes);
  }
  free(self->items);
  if (self->file != NULL) {
    unlink(self->file->path);
    fb_shared_file_drop(&self->file->base);
  }
  pthread_mutex_destroy(&self->lock);
}

static const struct fb_result_partition_kind SHELF = {.name = "shelf",
                                                      .is_blocking = true,
                                                      .outlives_readers = true,
                                                      .add = shelf_add,
                                                      .emit = shelf_emit,
                                                      .make_room = shelf_make_room,
                                                      .finish = shelf_finish,
                                                      .create_view = shelf_create_view,
                                                      .release = shelf_release,
                                                      .get_usage = shelf_usage,
                                                      .close = shelf_close};

/* ---- two processes in one ---------------------------------------------------------------------------------- */

struct world {
  struct fb_reactor *server_reactor, *client_reactor;
  struct fb_partition_manager* manager;
  struct fb_partition_server* server;
  struct fb_partition_client* client;
  struct fb_network_buffer_pool *server_pool, *client_pool;
  struct fb_tcp_address address;
  uint8_t id[FB_PARTITION_ID_SIZE];
  uint8_t last_channel;
  struct shelf* shelf;
};

static void open_shelf(struct world* self, bool uses_file) {
  struct fb_buffer_pool_options options = {.min = 3, .max = 3};
  struct fb_local_buffer_pool* pool;
  struct shelf* shelf = calloc(1, sizeof *shelf);

  CHECK(fb_local_buffer_pool_open(self->server_pool, &options, &pool) == FB_OK);
  CHECK(pthread_mutex_init(&shelf->lock, NULL) == 0);
  CHECK(fb_result_partition_open_base(&shelf->base, &SHELF, FB_BLOCKING, 2, pool) == FB_OK);
  shelf->uses_file = uses_file;
  self->shelf = shelf;
}

static void open_world(struct world* self, bool uses_file) {
  struct fb_partition_client_options asking = {.max_data = SEGMENT, .request_timeout_ms = 60000};

  *self = (struct world){.id = {7}};
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &self->server_pool) == FB_OK);
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &self->client_pool) == FB_OK);
  CHECK(fb_reactor_open(&self->server_reactor) == FB_OK && fb_reactor_open(&self->client_reactor) == FB_OK);
  CHECK(fb_partition_manager_open(&self->manager) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_partition_server_open(self->server_reactor, self->manager, &self->address, NULL, &self->server) == FB_OK);
  CHECK(fb_partition_client_open(self->client_reactor, &asking, &self->client) == FB_OK);
  open_shelf(self, uses_file);
}

/* Everything goes, the file and its descriptor with it. */
static void close_world(struct world* self) {
  fb_partition_client_close(self->client);
  fb_reactor_close(self->client_reactor);
  fb_partition_server_close(self->server);
  fb_reactor_close(self->server_reactor);
  fb_partition_manager_close(self->manager);
  fb_result_partition_close(&self->shelf->base);
  fb_result_partition_drop(&self->shelf->base);
  CHECK(fb_network_buffer_pool_available(self->server_pool) == SEGMENTS);
  CHECK(fb_network_buffer_pool_available(self->client_pool) == SEGMENTS);
  fb_network_buffer_pool_close(self->client_pool);
  fb_network_buffer_pool_close(self->server_pool);
  CHECK(atomic_load(&open_files) == 0);
}

static uint8_t byte_at(uint32_t channel, uint32_t at) { return (uint8_t)(at * 31 + (at >> 8) * 7 + channel * 101); }

static int write_one(struct world* self, uint32_t channel, uint32_t at, uint32_t size) {
  struct fb_result_partition* partition = &self->shelf->base;
  uint8_t bytes[700];
  const uint8_t* data = bytes;
  size_t left = size;
  int code;

  for (uint32_t i = 0; i < size; i++) bytes[i] = byte_at(channel, at + i);
  while ((code = fb_result_partition_emit(partition, channel, &data, &left)) == FB_NEEDS_BUFFER) {
    CHECK(fb_result_partition_has_room(partition)); /* a task would not stop */
    CHECK(fb_result_partition_wait(partition, 60000));
  }
  return code;
}

static void write_all(struct world* self) {
  const uint8_t event[] = {0, 0, 0, 2};

  for (uint32_t at = 0; at < BYTES; at += 500)
    for (uint32_t channel = 0; channel < 2; channel++) CHECK(write_one(self, channel, at, 500) == FB_OK);
  CHECK(fb_result_partition_broadcast_event(&self->shelf->base, event, sizeof event, FB_EVENT_BUFFER) == FB_OK);
  CHECK(fb_result_partition_finish(&self->shelf->base) == FB_OK);
  fb_result_partition_close(&self->shelf->base);
}

/* A gate over both subpartitions, here or there. */
static int open_gate(struct world* self, struct fb_input_gate* gate, bool is_remote) {
  struct fb_buffer_pool_options options = {.min = 2, .max = 8};
  struct fb_gate_network network = {self->client, self->manager, self->client_pool, NULL, 60000};
  uint32_t failed;

  CHECK(fb_local_buffer_pool_open(self->client_pool, &options, &network.pool) == FB_OK);
  CHECK(fb_local_buffer_pool_reserve(network.pool, 1, 60000) == FB_OK);
  CHECK(fb_input_gate_open(gate, 2) == FB_OK && fb_input_gate_set_network(gate, &network) == FB_OK);
  for (uint32_t i = 0; i < 2; i++) {
    struct fb_remote_source source = {.address = self->address, .subpartition_index = i};
    uint8_t id[FB_CHANNEL_ID_SIZE] = {1, ++self->last_channel};

    memcpy(source.partition, self->id, sizeof source.partition);
    if (is_remote) CHECK(fb_input_gate_set_remote(gate, i, &source, id, 2, 60000) == FB_OK);
    else CHECK(fb_input_gate_set_local_id(gate, i, self->id, i) == FB_OK);
  }
  return fb_input_gate_request_partitions(gate, &failed);
}

static int next_item(struct fb_input_gate* gate, struct fb_gate_item* item) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(60000);
  int code;

  while ((code = fb_input_gate_poll(gate, item)) == 0) {
    CHECK(fb_wakeup_now_ms() < deadline_ms);
    fb_input_gate_wait(gate, 1000);
  }
  return code;
}

struct progress {
  uint32_t at[2], events[2];
};

/* Takes one buffer; returns the gate's code. */
static int read_one(struct fb_input_gate* gate, struct progress* progress) {
  struct fb_gate_item item;
  int code = next_item(gate, &item);

  if (code < 0) return code;
  if (item.slice.data_type == FB_DATA_BUFFER) {
    uint32_t* at = &progress->at[item.channel_index];
    for (uint32_t i = 0; i < item.slice.size; i++, (*at)++)
      CHECK(fb_buffer_slice_data(&item.slice)[i] == byte_at(item.channel_index, *at));
  } else {
    progress->events[item.channel_index]++;
  }
  fb_buffer_slice_release(&item.slice);
  return code;
}

static void read_rest(struct fb_input_gate* gate, struct progress* progress) {
  while (!fb_input_gate_is_finished(gate)) CHECK(read_one(gate, progress) == 1);
  for (uint32_t i = 0; i < 2; i++) CHECK(progress->at[i] == BYTES && progress->events[i] == 2);
}

static void read_all(struct world* self, bool is_remote) {
  struct progress progress = {0};
  struct fb_input_gate gate;

  CHECK(open_gate(self, &gate, is_remote) == FB_OK);
  read_rest(&gate, &progress);
  fb_input_gate_close(&gate);
}

static void register_shelf(struct world* self) {
  CHECK(fb_partition_manager_register(self->manager, self->id, &self->shelf->base) == FB_OK);
}

/* Reads on until it fails, and gives the sentence. */
static int read_on_to_failure(struct fb_input_gate* gate, struct progress* progress, char* text, size_t size) {
  int code;

  while ((code = read_one(gate, progress)) == 1) continue;
  for (uint32_t i = 0; i < 2; i++) {
    const char* failure = fb_input_gate_failure(gate, i);
    snprintf(text, size, "%s", failure != NULL ? failure : "");
    if (text[0] != 0) break;
  }
  return code;
}

static int read_to_failure(struct fb_input_gate* gate, char* text, size_t size) {
  struct progress progress = {0};
  return read_on_to_failure(gate, &progress, text, size);
}

/* ---- tests ------------------------------------------------------------------------------------------------- */

static void more_is_written_than_the_memory_holds_and_read_by_many(void) {
  struct fb_subpartition_view* view;
  struct fb_view_options options = {0};
  struct world world;
  struct progress first = {0}, second = {0};
  struct fb_input_gate a, b;

  open_world(&world, false);
  register_shelf(&world);
  CHECK(fb_result_partition_create_view(&world.shelf->base, 0, &options, &view) == FB_EUNFINISHED && view == NULL);
  CHECK(fb_result_partition_create_view(&world.shelf->base, 2, &options, &view) == FB_EARGUMENT);
  write_all(&world);
  CHECK(world.shelf->rooms_made > 2 * BYTES / SEGMENT / 3);
  read_all(&world, false);
  read_all(&world, true);
  CHECK(open_gate(&world, &a, false) == FB_OK && open_gate(&world, &b, true) == FB_OK);
  for (int i = 0; i < 8; i++) CHECK(read_one(&a, &first) == 1 && read_one(&b, &second) == 1);
  read_rest(&a, &first);
  read_rest(&b, &second);
  fb_input_gate_close(&a);
  fb_input_gate_close(&b);
  /* Nothing of that has consumed it, and there is nobody to wait for. */
  CHECK(!fb_result_partition_is_released(&world.shelf->base) && fb_partition_manager_count(world.manager) == 1);
  CHECK(fb_result_partition_is_answered(&world.shelf->base));
  fb_result_partition_acknowledge(&world.shelf->base, 0);
  fb_result_partition_lose_reader(&world.shelf->base, "it went");
  CHECK(!fb_result_partition_is_released(&world.shelf->base));
  close_world(&world);
}

static void a_kind_may_take_the_records_itself(void) {
  struct world world;

  open_world(&world, false);
  register_shelf(&world);
  CHECK(write_one(&world, 0, 0, 500) == FB_OK); /* into a builder */
  CHECK(world.shelf->base.open_unicast_count == 1);
  fb_result_partition_finish_builders(&world.shelf->base);
  world.shelf->base.takes_records = true;
  CHECK(fb_result_partition_open_unicast(&world.shelf->base, 0) == FB_OK &&
        world.shelf->base.unicast[0].buffer == NULL);
  CHECK(write_one(&world, 0, 500, 500) == FB_OK && world.shelf->base.continued == FB_NO_CHANNEL);
  world.shelf->base.takes_records = false;
  for (uint32_t at = 1000; at < BYTES; at += 500) CHECK(write_one(&world, 0, at, 500) == FB_OK);
  for (uint32_t at = 0; at < BYTES; at += 500) CHECK(write_one(&world, 1, at, 500) == FB_OK);
  CHECK(fb_result_partition_broadcast_event(&world.shelf->base, (const uint8_t*)"\0\0\0\2", 4, FB_EVENT_BUFFER) == 0);
  CHECK(fb_result_partition_finish(&world.shelf->base) == FB_OK);
  fb_result_partition_close(&world.shelf->base);
  read_all(&world, true);
  close_world(&world);
}

static void parts_of_its_file_go_to_readers_elsewhere(void) {
  struct world world;
  uint32_t before = atomic_load(&regions_given);

  open_world(&world, true);
  register_shelf(&world);
  write_all(&world);
  read_all(&world, true);
  CHECK(atomic_load(&regions_given) > before + 2 * BYTES / SEGMENT);
  /* What is not in memory comes from the disk, through the reactor's thread for disks. */
  CHECK(fsync(world.shelf->file->base.fd) == 0);
  posix_fadvise(world.shelf->file->base.fd, 0, 0, POSIX_FADV_DONTNEED);
  read_all(&world, true);
  before = atomic_load(&regions_given);
  read_all(&world, false); /* here it gives bytes */
  CHECK(atomic_load(&regions_given) == before);
  close_world(&world);
}

static void a_shortened_file_is_told_with_path_and_byte(void) {
  struct world world;
  struct fb_input_gate gate;
  char text[1000];

  open_world(&world, true);
  register_shelf(&world);
  write_all(&world);
  CHECK(ftruncate(world.shelf->file->base.fd, BYTES + 17) == 0);
  CHECK(open_gate(&world, &gate, true) == FB_OK);
  CHECK(read_to_failure(&gate, text, sizeof text) < 0);
  CHECK(strstr(text, world.shelf->file->path) != NULL && strstr(text, "byte") != NULL && strstr(text, "shortened"));
  fb_input_gate_close(&gate);
  close_world(&world);
}

static void one_that_is_still_written_is_refused_with_words(void) {
  struct world world;
  struct fb_input_gate gate;
  char text[1000];

  open_world(&world, false);
  register_shelf(&world);
  CHECK(open_gate(&world, &gate, true) == FB_OK);
  CHECK(read_to_failure(&gate, text, sizeof text) < 0 && strstr(text, "still being written") != NULL);
  fb_input_gate_close(&gate);
  CHECK(open_gate(&world, &gate, false) == FB_EUNFINISHED);
  CHECK(strstr(fb_input_gate_failure(&gate, 0), "still being written") != NULL);
  fb_input_gate_close(&gate);
  close_world(&world);
}

static void one_whose_file_is_gone_is_not_found(void) {
  struct world world;
  struct fb_input_gate gate;
  char text[1000];

  open_world(&world, false);
  register_shelf(&world);
  write_all(&world);
  world.shelf->has_lost_file = true;
  CHECK(open_gate(&world, &gate, true) == FB_OK);
  CHECK(read_to_failure(&gate, text, sizeof text) == FB_ENOT_FOUND);
  fb_input_gate_close(&gate);
  CHECK(open_gate(&world, &gate, false) == FB_ENOT_FOUND);
  fb_input_gate_close(&gate);
  close_world(&world);
}

static void a_release_while_it_is_read_reaches_readers_with_its_reason(void) {
  for (int is_remote = 0; is_remote < 2; is_remote++) {
    struct world world;
    struct progress progress = {0};
    struct fb_input_gate gate;
    char text[1000];

    open_world(&world, is_remote);
    register_shelf(&world);
    write_all(&world);
    CHECK(open_gate(&world, &gate, is_remote) == FB_OK);
    CHECK(read_one(&gate, &progress) == 1);
    fb_result_partition_fail(&world.shelf->base, "its job was cancelled");
    while (read_one(&gate, &progress) == 1) continue;
    CHECK(progress.at[0] < BYTES || progress.at[1] < BYTES);
    read_on_to_failure(&gate, &progress, text, sizeof text); /* the other channel may have had more */
    CHECK(strstr(text, "its job was cancelled") != NULL);
    fb_input_gate_close(&gate);
    close_world(&world);
  }
}

static void a_disk_that_fails_stops_the_producer_with_its_words(void) {
  struct world world;
  int code = FB_OK;

  open_world(&world, false);
  world.shelf->has_bad_disk = true;
  for (uint32_t at = 0; at < BYTES && code == FB_OK; at += 500) code = write_one(&world, 0, at, 500);
  CHECK(code == FB_EIO && fb_result_partition_verdict(&world.shelf->base) == FB_EIO);
  CHECK(world.shelf->base.failure_errno == ENOSPC && fb_result_partition_is_released(&world.shelf->base));
  CHECK(strstr(fb_result_partition_failure(&world.shelf->base), "/shelf, byte 7") != NULL);
  CHECK(fb_result_partition_finish(&world.shelf->base) < 0);
  close_world(&world);
}

static void a_producer_whose_partition_is_released_is_told(void) {
  struct world world;

  open_world(&world, false);
  CHECK(write_one(&world, 0, 0, 500) == FB_OK);
  fb_result_partition_release(&world.shelf->base);
  CHECK(write_one(&world, 0, 500, 500) == FB_ERELEASED);
  CHECK(fb_result_partition_finish(&world.shelf->base) == FB_ERELEASED);
  close_world(&world);
}

int main(void) {
  more_is_written_than_the_memory_holds_and_read_by_many();
  a_kind_may_take_the_records_itself();
  parts_of_its_file_go_to_readers_elsewhere();
  a_shortened_file_is_told_with_path_and_byte();
  one_that_is_still_written_is_refused_with_words();
  one_whose_file_is_gone_is_not_found();
  a_release_while_it_is_read_reaches_readers_with_its_reason();
  a_disk_that_fails_stops_the_producer_with_its_words();
  a_producer_whose_partition_is_released_is_told();
  return 0;
}
