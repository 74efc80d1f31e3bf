/* Several gates read as one: behaviours of Flink's UnionInputGateTest, errors, and producers on threads. */
#include "gate/union_input_gate.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "partition/pipelined_partition.h"

#define SEGMENT_SIZE 64
#define SEGMENTS     64
#define MAX_GATES    3
#define MAX_CHANNELS 5

/* Gate g reads partition g, one channel a subpartition. */
struct fixture {
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partitions[MAX_GATES];
  struct fb_input_gate gates[MAX_GATES];
  struct fb_union_input_gate all;
  uint32_t gate_count;
};

static const uint8_t END_OF_DATA[] = {0, 0, 0, 8, 0};
static const uint8_t END_OF_DATA_WITHOUT_DRAIN[] = {0, 0, 0, 8, 1};
static const uint8_t EVENT[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1};

static void open_gates(struct fixture* self, uint32_t gate_count, const uint32_t* channels) {
  *self = (struct fixture){.gate_count = gate_count};
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT_SIZE, &self->network) == FB_OK);
  for (uint32_t g = 0; g < gate_count; g++) {
    struct fb_buffer_pool_options options = {.min = channels[g] + 1, .max = FB_UNBOUNDED};
    struct fb_local_buffer_pool* pool;
    CHECK(fb_local_buffer_pool_open(self->network, &options, &pool) == FB_OK);
    CHECK(fb_pipelined_partition_open(FB_PIPELINED, channels[g], pool, &self->partitions[g]) == FB_OK);
    CHECK(fb_input_gate_open(&self->gates[g], channels[g]) == FB_OK);
    for (uint32_t c = 0; c < channels[g]; c++)
      CHECK(fb_input_gate_set_local(&self->gates[g], c, self->partitions[g], c) == FB_OK);
  }
}

static void unite(struct fixture* self) {
  struct fb_input_gate* gates[MAX_GATES];
  uint32_t failed;

  for (uint32_t g = 0; g < self->gate_count; g++) gates[g] = &self->gates[g];
  CHECK(fb_union_input_gate_open(&self->all, gates, self->gate_count) == FB_OK);
  CHECK(fb_union_input_gate_request_partitions(&self->all, &failed) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  for (uint32_t g = 0; g < self->gate_count; g++) fb_input_gate_close(&self->gates[g]);
  fb_union_input_gate_close(&self->all);
  fb_union_input_gate_close(&self->all);
  for (uint32_t g = 0; g < self->gate_count; g++) {
    fb_result_partition_close(self->partitions[g]);
    fb_result_partition_drop(self->partitions[g]);
  }
  CHECK(fb_network_buffer_pool_available(self->network) == SEGMENTS);
  fb_network_buffer_pool_close(self->network);
}

static void emit(struct fixture* self, uint32_t gate, uint32_t channel, const char* text) {
  const uint8_t* data = (const uint8_t*)text;
  size_t size = strlen(text);

  CHECK(fb_result_partition_emit(self->partitions[gate], channel, &data, &size) == FB_OK);
  fb_result_partition_flush(self->partitions[gate], channel);
}

static void emit_event(struct fixture* self, uint32_t gate, uint32_t channel, enum fb_buffer_data_type type) {
  CHECK(fb_result_partition_emit_event(self->partitions[gate], channel, EVENT, sizeof EVENT, type) == FB_OK);
}

static void end_data(struct fixture* self, uint32_t gate, uint32_t channel, const uint8_t* event) {
  CHECK(fb_result_partition_emit_event(self->partitions[gate], channel, event, sizeof END_OF_DATA, FB_END_OF_DATA) ==
        FB_OK);
}

/* The next item comes from `channel` of the union. Returns its data type. */
static enum fb_buffer_data_type take(struct fixture* self, uint32_t channel, bool more_available) {
  struct fb_gate_item item;
  uint32_t gate, local;
  enum fb_buffer_data_type type;

  CHECK(fb_union_input_gate_poll(&self->all, &item, &gate) == 1);
  CHECK(item.channel_index == channel && item.more_available == more_available);
  CHECK(fb_union_input_gate_find(&self->all, channel, &local) == gate);
  type = (enum fb_buffer_data_type)item.slice.data_type;
  fb_buffer_slice_release(&item.slice);
  return type;
}

static void take_none(struct fixture* self) {
  struct fb_gate_item item;
  uint32_t gate;
  CHECK(fb_union_input_gate_poll(&self->all, &item, &gate) == 0);
}

/* United, and known to be empty. */
static void open_fixture(struct fixture* self, uint32_t gate_count, const uint32_t* channels) {
  open_gates(self, gate_count, channels);
  unite(self);
  take_none(self);
}

/* ---- Flink's ----------------------------------------------------------------------------------------- */

static void gates_take_turns_and_channels_within_them(void) {
  /* What channels 0 to 2 of the first gate and 0 to 4 of the second are read as, and in which order. */
  const uint32_t turns[] = {0, 3, 1, 4, 2, 5, 0, 6, 1, 7, 2, 3, 0, 4, 1, 5, 2, 6, 7, 3, 4, 5, 6, 7};
  struct fixture f;
  uint32_t ends = 0;

  open_gates(&f, 2, (const uint32_t[]){3, 5});
  for (uint32_t g = 0; g < 2; g++) {
    for (uint32_t c = 0; c < f.gates[g].channel_count; c++) {
      emit(&f, g, c, "data");
      end_data(&f, g, c, END_OF_DATA);
    }
    CHECK(fb_result_partition_finish(f.partitions[g]) == FB_OK);
  }
  unite(&f);
  CHECK(f.all.channel_count == 8);
  for (int i = 0; i < 24; i++) {
    CHECK(!fb_union_input_gate_is_finished(&f.all));
    ends += take(&f, turns[i], i < 23) == FB_END_OF_PARTITION;
  }
  CHECK(ends == 8 && fb_union_input_gate_is_finished(&f.all));
  for (int g = 0; g < 2; g++) CHECK(f.gates[g].drained_count == f.gates[g].channel_count);
  take_none(&f);
  close_fixture(&f);
}

static void each_gate_knows_how_its_data_ended(void) {
  struct fixture f;

  open_fixture(&f, 2, (const uint32_t[]){2, 2});
  end_data(&f, 0, 1, END_OF_DATA);
  end_data(&f, 1, 0, END_OF_DATA);
  CHECK(take(&f, 1, true) == FB_END_OF_DATA && take(&f, 2, false) == FB_END_OF_DATA);
  CHECK(f.gates[0].ended_data_count == 1 && f.gates[1].ended_data_count == 1);
  end_data(&f, 0, 0, END_OF_DATA_WITHOUT_DRAIN);
  end_data(&f, 1, 1, END_OF_DATA);
  CHECK(take(&f, 0, true) == FB_END_OF_DATA && take(&f, 3, false) == FB_END_OF_DATA);
  CHECK(f.gates[0].ended_data_count == 2 && f.gates[0].drained_count == 1);
  CHECK(f.gates[1].ended_data_count == 2 && f.gates[1].drained_count == 2);
  close_fixture(&f);
}

static void a_busy_gate_does_not_starve_another(void) {
  struct fixture f;

  open_fixture(&f, 3, (const uint32_t[]){5, 1, 2});
  for (int round = 0; round < 3; round++)
    for (uint32_t c = 0; c < 5; c++) emit_event(&f, 0, c, FB_EVENT_BUFFER);
  take(&f, 0, true);
  emit_event(&f, 2, 1, FB_EVENT_BUFFER);
  take(&f, 7, true);
  take(&f, 1, true);
  emit_event(&f, 1, 0, FB_EVENT_BUFFER);
  take(&f, 5, true);
  take(&f, 2, true);
  take(&f, 3, true);
  close_fixture(&f);
}

static void a_priority_event_of_any_gate_goes_first(void) {
  struct fixture f;

  open_fixture(&f, 3, (const uint32_t[]){2, 1, 2});
  for (uint32_t g = 0; g < 3; g++) emit_event(&f, g, 0, FB_EVENT_BUFFER);
  emit_event(&f, 2, 1, FB_PRIORITIZED_EVENT_BUFFER);
  CHECK(take(&f, 4, true) == FB_PRIORITIZED_EVENT_BUFFER);
  emit_event(&f, 1, 0, FB_PRIORITIZED_EVENT_BUFFER);
  CHECK(take(&f, 2, true) == FB_PRIORITIZED_EVENT_BUFFER);
  take(&f, 3, true);
  take(&f, 0, true);
  take(&f, 2, false);
  close_fixture(&f);
}

/* ---- waiting, errors --------------------------------------------------------------------------------- */

static void one_bell_wakes_for_all_gates(void) {
  struct fixture f;

  open_fixture(&f, 2, (const uint32_t[]){1, 1});
  for (uint32_t g = 0; g < 2; g++) take_none(&f);
  CHECK(!fb_union_input_gate_wait(&f.all, 0) && !fb_union_input_gate_wait(&f.all, 5));
  for (uint32_t g = 0; g < 2; g++) {
    emit(&f, g, 0, "data");
    CHECK(fb_union_input_gate_wait(&f.all, 20000) && fb_union_input_gate_queued_channels(&f.all) == 1);
    take(&f, g, false);
    take_none(&f);
    CHECK(!fb_union_input_gate_wait(&f.all, 0));
  }
  close_fixture(&f);
}

static void a_task_gives_the_union_its_own_bell(void) {
  struct fb_input_gate* gates[2];
  struct fb_wakeup bell;
  struct fixture f;
  uint32_t failed;
  uint64_t seen;

  open_gates(&f, 2, (const uint32_t[]){1, 1});
  for (int g = 0; g < 2; g++) gates[g] = &f.gates[g];
  CHECK(fb_wakeup_open(&bell) == FB_OK);
  CHECK(fb_union_input_gate_open(&f.all, gates, 2) == FB_OK);
  fb_union_input_gate_set_wakeup(&f.all, &bell);
  CHECK(fb_union_input_gate_request_partitions(&f.all, &failed) == FB_OK);
  take_none(&f);
  for (uint32_t g = 0; g < 2; g++) {
    seen = fb_wakeup_seen(&bell);
    emit(&f, g, 0, "data");
    CHECK(fb_wakeup_wait(&bell, seen, 0));
    take(&f, g, false);
  }
  close_fixture(&f);
  fb_wakeup_close(&bell);
}

static void gates_that_cannot_be_united_stay_as_they_are(void) {
  struct fb_union_input_gate other;
  struct fb_wakeup bell;
  struct fixture f;
  struct fb_input_gate* gates[4];
  uint32_t failed;

  open_gates(&f, 3, (const uint32_t[]){1, 2, 1});
  for (int g = 0; g < 3; g++) gates[g] = &f.gates[g];
  gates[3] = gates[0];
  CHECK(fb_union_input_gate_open(&f.all, gates, 0) == FB_EARGUMENT);
  CHECK(fb_union_input_gate_open(&f.all, gates, 1) == FB_EARGUMENT);
  CHECK(fb_union_input_gate_open(&f.all, gates, 4) == FB_EARGUMENT);
  CHECK(fb_wakeup_open(&bell) == FB_OK);
  fb_input_gate_set_wakeup(gates[1], &bell);
  CHECK(fb_union_input_gate_open(&f.all, gates, 2) == FB_ESTATE);
  fb_input_gate_set_wakeup(gates[1], &gates[1]->own_wakeup);
  CHECK(fb_input_gate_request_partitions(gates[2], &failed) == FB_OK);
  CHECK(fb_union_input_gate_open(&f.all, gates, 3) == FB_ESTATE);
  fb_union_input_gate_close(&f.all); /* nothing was opened */
  for (int g = 0; g < 3; g++) CHECK(gates[g]->wakeup == &gates[g]->own_wakeup);
  f.gate_count = 2;
  unite(&f);
  CHECK(fb_union_input_gate_open(&other, gates, 2) == FB_ESTATE);
  fb_wakeup_close(&bell);
  f.gate_count = 3;
  close_fixture(&f);
}

static void an_error_names_its_channel_and_stays(void) {
  struct fb_gate_item item;
  struct fixture f;
  uint32_t gate;

  open_fixture(&f, 2, (const uint32_t[]){2, 3});
  fb_result_partition_fail(f.partitions[1], "lost");
  for (int i = 0; i < 3; i++) {
    CHECK(fb_union_input_gate_poll(&f.all, &item, &gate) == FB_ERELEASED);
    CHECK(gate == 1 && item.channel_index >= 2 && item.channel_index < 5);
    CHECK(fb_union_input_gate_wait(&f.all, 20000));
  }
  close_fixture(&f);
}

static void partitions_that_cannot_be_read_are_named(void) {
  struct fb_input_gate* gates[2];
  struct fb_input_gate thief;
  struct fixture f;
  uint32_t failed;

  open_gates(&f, 2, (const uint32_t[]){2, 2});
  CHECK(fb_input_gate_open(&thief, 1) == FB_OK);
  CHECK(fb_input_gate_set_local(&thief, 0, f.partitions[1], 1) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&thief, &failed) == FB_OK);
  for (int g = 0; g < 2; g++) gates[g] = &f.gates[g];
  CHECK(fb_union_input_gate_open(&f.all, gates, 2) == FB_OK);
  CHECK(fb_union_input_gate_request_partitions(&f.all, &failed) == FB_ESTATE && failed == 3);
  fb_input_gate_close(&thief);
  close_fixture(&f);
}

static void a_closed_gate_is_an_error(void) {
  struct fb_gate_item item;
  struct fixture f;
  uint32_t gate;

  open_fixture(&f, 2, (const uint32_t[]){1, 1});
  emit(&f, 0, 0, "data");
  fb_input_gate_close(&f.gates[1]);
  take(&f, 0, false);
  CHECK(fb_union_input_gate_poll(&f.all, &item, &gate) == FB_ESTATE && gate == 1);
  CHECK(!fb_union_input_gate_wait(&f.all, 0) && fb_union_input_gate_queued_channels(&f.all) == 0);
  close_fixture(&f);
}

/* ---- threads ----------------------------------------------------------------------------------------- */

#define RECORDS 20000

struct producer {
  struct fb_result_partition* partition;
  pthread_t thread;
};

static void* produce(void* argument) {
  struct producer* self = argument;

  for (uint32_t i = 0; i < RECORDS; i++) {
    uint8_t bytes[4] = {(uint8_t)(i >> 8), (uint8_t)i, (uint8_t)~(i >> 8), (uint8_t)~i};
    const uint8_t* data = bytes;
    size_t size = sizeof bytes;
    while (fb_result_partition_emit(self->partition, i % 2, &data, &size) == FB_NEEDS_BUFFER)
      fb_result_partition_wait(self->partition, 100);
    if (i % 97 == 0) fb_result_partition_flush_all(self->partition);
  }
  CHECK(fb_result_partition_finish(self->partition) == FB_OK);
  return NULL;
}

static void records_of_concurrent_producers_arrive_complete(void) {
  uint64_t received[2 * MAX_GATES] = {0};
  struct producer producers[MAX_GATES];
  struct fb_gate_item item;
  struct fixture f;
  uint32_t gate;

  open_fixture(&f, MAX_GATES, (const uint32_t[]){2, 2, 2});
  for (int g = 0; g < MAX_GATES; g++) {
    producers[g].partition = f.partitions[g];
    CHECK(pthread_create(&producers[g].thread, NULL, produce, &producers[g]) == 0);
  }
  while (!fb_union_input_gate_is_finished(&f.all)) {
    int code = fb_union_input_gate_poll(&f.all, &item, &gate);
    CHECK(code >= 0);
    if (code == 0) {
      fb_union_input_gate_wait(&f.all, 100);
      continue;
    }
    CHECK(gate == item.channel_index / 2);
    for (uint32_t i = 0;
         fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)item.slice.data_type) && i < item.slice.size; i++) {
      uint64_t at = received[item.channel_index]++;
      uint64_t record = at / 4 * 2 + item.channel_index % 2;
      uint8_t expected = (uint8_t)(at % 2 == 0 ? record >> 8 : record);
      CHECK(fb_buffer_slice_data(&item.slice)[i] == (at % 4 < 2 ? expected : (uint8_t)~expected));
    }
    fb_buffer_slice_release(&item.slice);
  }
  for (int g = 0; g < MAX_GATES; g++) CHECK(pthread_join(producers[g].thread, NULL) == 0);
  for (int c = 0; c < 2 * MAX_GATES; c++) CHECK(received[c] == RECORDS / 2 * 4);
  close_fixture(&f);
}

int main(void) {
  gates_take_turns_and_channels_within_them();
  each_gate_knows_how_its_data_ended();
  a_busy_gate_does_not_starve_another();
  a_priority_event_of_any_gate_goes_first();
  one_bell_wakes_for_all_gates();
  a_task_gives_the_union_its_own_bell();
  gates_that_cannot_be_united_stay_as_they_are();
  an_error_names_its_channel_and_stays();
  partitions_that_cannot_be_read_are_named();
  a_closed_gate_is_an_error();
  records_of_concurrent_producers_arrive_complete();
  return 0;
}
