/* Partitions are found while they are registered, and whoever waits for one is told. */
#include "partition/pipelined_partition.h"
#include "wire/partition_manager.h"

#include <string.h>

#include "check.h"

#define ID(n) ((const uint8_t[60]){[59] = n})

struct fixture {
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partition;
  struct fb_partition_manager* manager;
};

static void no_data(void* context, uint32_t index) { (void)context, (void)index; }
static void no_priority(void* context, uint32_t index, int32_t sequence) { (void)context, (void)index, (void)sequence; }
static const struct fb_availability_listener DEAF = {no_data, no_priority, NULL};

static void open_fixture(struct fixture* self) {
  struct fb_buffer_pool_options options = {.min = 2, .max = FB_UNBOUNDED};
  struct fb_local_buffer_pool* pool;

  CHECK(fb_network_buffer_pool_open(4, 64, &self->network) == FB_OK);
  CHECK(fb_local_buffer_pool_open(self->network, &options, &pool) == FB_OK);
  CHECK(fb_pipelined_partition_open(FB_PIPELINED, 1, pool, &self->partition) == FB_OK);
  CHECK(fb_partition_manager_open(&self->manager) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  fb_result_partition_close(self->partition);
  fb_result_partition_drop(self->partition);
  fb_partition_manager_close(self->manager);
  CHECK(fb_network_buffer_pool_available(self->network) == 4);
  fb_network_buffer_pool_close(self->network);
}

static void a_partition_is_found_by_its_id(void) {
  struct fixture f;
  struct fb_result_partition* found;

  open_fixture(&f);
  CHECK(fb_partition_manager_find(f.manager, ID(1)) == NULL);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_OK);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_ESTATE);
  CHECK(fb_partition_manager_find(f.manager, ID(2)) == NULL);
  found = fb_partition_manager_find(f.manager, ID(1));
  CHECK(found == f.partition);
  fb_result_partition_drop(found);
  CHECK(fb_partition_manager_unregister(f.manager, ID(1)));
  CHECK(!fb_partition_manager_unregister(f.manager, ID(1)));
  CHECK(fb_partition_manager_count(f.manager) == 0 && !fb_result_partition_is_released(f.partition));
  close_fixture(&f);
}

static void a_consumed_partition_is_forgotten(void) {
  struct fixture f;

  open_fixture(&f);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_OK);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  fb_result_partition_close(f.partition);
  CHECK(fb_partition_manager_count(f.manager) == 1);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  CHECK(fb_partition_manager_count(f.manager) == 0);
  close_fixture(&f);
}

static void closing_releases_what_is_left(void) {
  struct fixture f;

  open_fixture(&f);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_OK);
  fb_partition_manager_close(f.manager);
  CHECK(fb_result_partition_is_released(f.partition));
  f.manager = NULL;
  close_fixture(&f);
}

static void a_cleared_manager_can_still_be_told_of_the_end_of_a_partition(void) {
  struct fixture f;

  open_fixture(&f);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_OK);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  fb_partition_manager_clear(f.manager);
  CHECK(fb_result_partition_is_released(f.partition) && fb_partition_manager_count(f.manager) == 0);
  CHECK(fb_partition_manager_find(f.manager, ID(1)) == NULL);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  close_fixture(&f);
}

struct observer {
  struct fb_task task;
  uint32_t runs;
};

static void observe(struct fb_task* task) { ((struct observer*)task)->runs++; }
static void nothing(void* context) { (void)context; }

static void observers_are_told_of_registrations(void) {
  struct fixture f;
  struct fb_reactor* reactor;
  struct observer observers[3] = {{.task.run = observe}, {.task.run = observe}, {.task.run = observe}};

  open_fixture(&f);
  CHECK(fb_reactor_open(&reactor) == FB_OK);
  for (int i = 0; i < 3; i++) CHECK(fb_partition_manager_add_observer(f.manager, reactor, &observers[i].task) == FB_OK);
  fb_partition_manager_remove_observer(f.manager, &observers[1].task);
  fb_partition_manager_remove_observer(f.manager, &observers[1].task);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_OK);
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_ESTATE);
  CHECK(fb_reactor_call(reactor, nothing, NULL) == FB_OK);
  CHECK(observers[0].runs == 1 && observers[1].runs == 0 && observers[2].runs == 1);
  fb_partition_manager_remove_observer(f.manager, &observers[0].task);
  fb_partition_manager_remove_observer(f.manager, &observers[2].task);
  fb_reactor_close(reactor);
  CHECK(fb_partition_manager_unregister(f.manager, ID(1)));
  CHECK(fb_partition_manager_register(f.manager, ID(1), f.partition) == FB_OK);
  close_fixture(&f);
}

int main(void) {
  a_partition_is_found_by_its_id();
  a_consumed_partition_is_forgotten();
  closing_releases_what_is_left();
  a_cleared_manager_can_still_be_told_of_the_end_of_a_partition();
  observers_are_told_of_registrations();
  return 0;
}
