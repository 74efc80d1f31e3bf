#include "gate/input_gate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "partition/pipelined_partition.h"

#define SEGMENT_SIZE 64

static struct fb_network_buffer_pool* global;

static void setup(uint32_t segments) { CHECK(fb_network_buffer_pool_open(segments, SEGMENT_SIZE, &global) == FB_OK); }

/* Every test ends with all segments home. */
static void teardown(uint32_t segments) {
  CHECK(fb_network_buffer_pool_available(global) == segments);
  fb_network_buffer_pool_close(global);
}

static struct fb_result_partition* open_partition_of(enum fb_result_partition_type type, uint32_t subpartitions) {
  struct fb_buffer_pool_options options = {
      .min = subpartitions + 1, .max = FB_UNBOUNDED, .channel_count = subpartitions};
  struct fb_local_buffer_pool* pool;
  struct fb_result_partition* partition;

  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_OK);
  CHECK(fb_pipelined_partition_open(type, subpartitions, pool, &partition) == FB_OK);
  return partition;
}

static struct fb_result_partition* open_partition(uint32_t subpartitions) {
  return open_partition_of(FB_PIPELINED, subpartitions);
}

static void close_partition(struct fb_result_partition* partition) {
  fb_result_partition_close(partition);
  fb_result_partition_drop(partition);
}

static void emit(struct fb_result_partition* partition, uint32_t subpartition, const char* text) {
  const uint8_t* data = (const uint8_t*)text;
  size_t size = strlen(text);
  int code;

  while ((code = fb_result_partition_emit(partition, subpartition, &data, &size)) == FB_NEEDS_BUFFER)
    fb_result_partition_wait(partition, 100);
  CHECK(code == FB_OK);
}

static bool item_is(struct fb_gate_item* item, uint32_t channel, const char* text) {
  bool equal = item->channel_index == channel && item->slice.size == strlen(text) &&
               memcmp(fb_buffer_slice_data(&item->slice), text, strlen(text)) == 0;
  fb_buffer_slice_release(&item->slice);
  return equal;
}

static void channels_take_turns(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  const uint8_t event[] = {0, 0, 0, 2};
  uint32_t failed;

  setup(16);
  partition = open_partition(2);
  CHECK(fb_input_gate_open(&gate, 2) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 1, partition, 1) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 1, partition, 1) == FB_ESTATE);
  CHECK(fb_input_gate_set_local(&gate, 2, partition, 0) == FB_EARGUMENT);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 0);

  for (int round = 0; round < 2; round++) {
    emit(partition, 0, "a");
    emit(partition, 1, "b");
    CHECK(fb_result_partition_broadcast_event(partition, event, sizeof event, FB_EVENT_BUFFER) == FB_OK);
  }
  for (int i = 0; i < 8; i++) {
    CHECK(fb_input_gate_poll(&gate, &item) == 1);
    CHECK(item.channel_index == (uint32_t)i % 2); /* fair: never the same channel twice in a row */
    CHECK(item.sequence_number == i / 2);
    CHECK(item.more_available == (i < 7));
    fb_buffer_slice_release(&item.slice);
  }
  CHECK(fb_input_gate_poll(&gate, &item) == 0);
  CHECK(gate.channels[0].buffer_count == 4 && gate.channels[0].byte_count == 10);
  fb_input_gate_close(&gate);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(16);
}

static void what_was_written_before_the_view_is_seen_and_the_end_ends_it(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  const uint8_t end_of_data[] = {0, 0, 0, 8, 0};
  uint32_t failed;

  setup(4);
  partition = open_partition(1);
  emit(partition, 0, "early");
  CHECK(fb_result_partition_broadcast_event(partition, end_of_data, sizeof end_of_data, FB_END_OF_DATA) == FB_OK);
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  CHECK(fb_input_gate_open(&gate, 1) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item_is(&item, 0, "early"));
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.data_type == FB_END_OF_DATA);
  fb_buffer_slice_release(&item.slice);
  CHECK(gate.ended_data_count == 1 && gate.drained_count == 1 && !fb_input_gate_is_finished(&gate));
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.data_type == FB_END_OF_PARTITION);
  fb_buffer_slice_release(&item.slice);
  CHECK(fb_input_gate_is_finished(&gate) && !item.more_available);
  CHECK(fb_input_gate_poll(&gate, &item) == 0);
  close_partition(partition);
  fb_input_gate_close(&gate);
  teardown(4);
}

static void a_released_partition_is_an_error_not_an_end(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  uint32_t failed;

  setup(4);
  partition = open_partition(1);
  CHECK(fb_input_gate_open(&gate, 1) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 0);
  emit(partition, 0, "lost");
  fb_result_partition_release(partition);
  CHECK(fb_input_gate_wait(&gate, 10000));
  CHECK(fb_input_gate_poll(&gate, &item) == FB_ERELEASED && item.channel_index == 0);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(4);
}

/* A partition that is found later learns the size that the others were asked for. */
static void a_size_is_announced_to_who_comes_late(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  uint32_t failed;

  setup(4);
  partition = open_partition(1);
  CHECK(fb_input_gate_open(&gate, 1) == FB_OK && fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  gate.announced_size = 24;
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_pipelined_partition_queue(partition, 0)->buffer_size == 24);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(4);
}

static void* wait_for_data(void* gate) { return fb_input_gate_wait(gate, 20000) ? gate : NULL; }

/* Of an approximate partition: the gate that read it hears of that while it sleeps, and takes nothing of the other's. */
static void who_was_replaced_is_told_and_takes_nothing(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate first, second;
  struct fb_gate_item item;
  pthread_t sleeper;
  void* woken;
  uint32_t failed;

  setup(4);
  partition = open_partition_of(FB_PIPELINED_APPROXIMATE, 1);
  CHECK(fb_input_gate_open(&first, 1) == FB_OK && fb_input_gate_open(&second, 1) == FB_OK);
  CHECK(fb_input_gate_set_local(&first, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_set_local(&second, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&first, &failed) == FB_OK);
  CHECK(fb_input_gate_poll(&first, &item) == 0);
  CHECK(pthread_create(&sleeper, NULL, wait_for_data, &first) == 0);
  CHECK(fb_input_gate_request_partitions(&second, &failed) == FB_OK);
  pthread_join(sleeper, &woken);
  CHECK(woken == &first);

  emit(partition, 0, "for the second");
  fb_result_partition_flush_all(partition);
  for (int i = 0; i < 2; i++) CHECK(fb_input_gate_poll(&first, &item) == FB_ESTATE && item.channel_index == 0);
  CHECK(strcmp(fb_input_gate_failure(&first, 0), "another reader has taken its place") == 0);
  CHECK(fb_input_gate_resume(&first, 0) == FB_ESTATE);
  fb_input_gate_close(&first);
  CHECK(fb_input_gate_poll(&second, &item) == 1 && item_is(&item, 0, "for the second"));
  fb_input_gate_close(&second);
  close_partition(partition);
  teardown(4);
}

static void a_priority_event_overtakes_other_channels(void) {
  struct fb_result_partition* first;
  struct fb_result_partition* second;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  const uint8_t event[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1};
  uint32_t failed;

  setup(8);
  first = open_partition(1);
  second = open_partition(1);
  CHECK(fb_input_gate_open(&gate, 2) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 0, first, 0) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 1, second, 0) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 0);
  emit(first, 0, "data");
  fb_result_partition_flush_all(first);
  CHECK(fb_result_partition_broadcast_event(second, event, sizeof event, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.channel_index == 1);
  CHECK(item.slice.data_type == FB_PRIORITIZED_EVENT_BUFFER);
  fb_buffer_slice_release(&item.slice);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item_is(&item, 0, "data"));
  fb_input_gate_close(&gate);
  close_partition(first);
  close_partition(second);
  teardown(8);
}

/* What a reader does between two records of a buffer: it asks for priority events alone, and only if there are any. */
static void a_priority_event_is_given_without_what_stands_before_it(void) {
  struct fb_input_gate_priority priority = {0};
  struct fb_result_partition* partitions[2];
  struct fb_input_gate gates[2];
  struct fb_availability_listener listener;
  struct fb_gate_item item;
  const uint8_t event[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1};
  uint32_t failed;

  setup(8);
  for (int i = 0; i < 2; i++) {
    partitions[i] = open_partition(1);
    CHECK(fb_input_gate_open(&gates[i], 1) == FB_OK);
    fb_input_gate_set_priority(&gates[i], &priority);
    CHECK(fb_input_gate_set_local(&gates[i], 0, partitions[i], 0) == FB_OK);
    CHECK(fb_input_gate_request_partitions(&gates[i], &failed) == FB_OK);
    CHECK(fb_input_gate_poll(&gates[i], &item) == 0);
    emit(partitions[i], 0, "data");
    fb_result_partition_flush_all(partitions[i]);
  }
  CHECK(fb_input_gate_poll_priority(&gates[0], &item) == 0 && !fb_input_gate_priority_is_set(&priority));
  for (int i = 0; i < 2; i++)
    CHECK(fb_result_partition_broadcast_event(partitions[i], event, sizeof event, FB_PRIORITIZED_EVENT_BUFFER) ==
          FB_OK);
  for (int i = 0; i < 2; i++) {
    CHECK(fb_input_gate_priority_is_set(&priority));
    CHECK(fb_input_gate_poll_priority(&gates[i], &item) == 1);
    CHECK(item.slice.data_type == FB_PRIORITIZED_EVENT_BUFFER && item.channel_index == 0);
    fb_buffer_slice_release(&item.slice);
    CHECK(fb_input_gate_poll_priority(&gates[i], &item) == 0);
  }
  CHECK(!fb_input_gate_priority_is_set(&priority));
  /* Told of an event that has been taken already: what stands behind it waits for poll(). */
  listener = fb_pipelined_partition_queue(partitions[0], 0)->options.listener;
  listener.on_priority_event(listener.context, 0, 0);
  CHECK(fb_input_gate_priority_is_set(&priority));
  CHECK(fb_input_gate_poll_priority(&gates[0], &item) == 0 && !fb_input_gate_priority_is_set(&priority));
  CHECK(fb_input_gate_poll(&gates[0], &item) == 1 && item_is(&item, 0, "data"));
  /* An error waits for poll(). */
  fb_result_partition_fail(partitions[0], "lost");
  listener.on_priority_event(listener.context, 0, 0);
  CHECK(fb_input_gate_poll_priority(&gates[0], &item) == 0 && !fb_input_gate_priority_is_set(&priority));
  CHECK(fb_input_gate_poll(&gates[0], &item) == FB_ERELEASED);
  /* A gate that is closed has nothing to ask for. */
  CHECK(fb_result_partition_broadcast_event(partitions[1], event, sizeof event, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  CHECK(fb_input_gate_priority_is_set(&priority));
  for (int i = 0; i < 2; i++) {
    fb_input_gate_close(&gates[i]);
    CHECK(fb_input_gate_poll_priority(&gates[i], &item) == 0);
    close_partition(partitions[i]);
  }
  CHECK(!fb_input_gate_priority_is_set(&priority));
  teardown(8);
}

/* ---- unaligned checkpoints ------------------------------------------------------------------------------ */

static const uint8_t BARRIER[34] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, [21] = 255, 255, 255, 255, 2};

static void broadcast_barrier(struct fb_result_partition* partition) {
  struct fb_slice_list* lists = calloc(partition->subpartition_count, sizeof *lists);

  CHECK(lists != NULL);
  CHECK(fb_result_partition_broadcast_barrier(partition, BARRIER, sizeof BARRIER, lists) == FB_OK);
  for (uint32_t i = 0; i < partition->subpartition_count; i++) fb_slice_list_close(&lists[i]);
  free(lists);
}

static bool list_is(struct fb_slice_list* list, const char* text) {
  size_t at = 0;
  bool is_equal = list->size == strlen(text);

  for (uint32_t i = 0; i < list->count && is_equal; i++) {
    is_equal = memcmp(fb_buffer_slice_data(&list->items[i]), text + at, list->items[i].size) == 0;
    at += list->items[i].size;
  }
  fb_slice_list_close(list);
  return is_equal;
}

static bool next_is(struct fb_input_gate* gate, uint32_t channel, const char* text) {
  struct fb_gate_item item;
  return fb_input_gate_poll(gate, &item) == 1 && item_is(&item, channel, text);
}

static bool next_is_barrier(struct fb_input_gate* gate, uint32_t channel) {
  struct fb_gate_item item;

  if (fb_input_gate_poll(gate, &item) != 1 || item.channel_index != channel) return false;
  bool is_barrier = item.slice.data_type == FB_PRIORITIZED_EVENT_BUFFER;
  fb_buffer_slice_release(&item.slice);
  return is_barrier;
}

static void open_local_gate(struct fb_input_gate* gate, struct fb_result_partition* partition, uint32_t channels) {
  uint32_t failed;

  CHECK(fb_input_gate_open(gate, channels) == FB_OK);
  for (uint32_t i = 0; i < channels; i++) CHECK(fb_input_gate_set_local(gate, i, partition, i) == FB_OK);
  CHECK(fb_input_gate_request_partitions(gate, &failed) == FB_OK);
}

static void what_is_restored_comes_before_all_but_priority_events(void) {
  struct fb_result_partition* partition;
  struct fb_slice_list list = {0};
  struct fb_input_gate gate;
  struct fb_gate_item item;
  static uint8_t large[(32 << 10) + 5];

  setup(16);
  memset(large, 'x', sizeof large);
  partition = open_partition(1);
  emit(partition, 0, "new");
  CHECK(fb_input_gate_open(&gate, 1) == FB_OK);
  CHECK(fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_restore(&gate, 1, large, 1) == FB_EARGUMENT);
  CHECK(fb_input_gate_restore(&gate, 0, large, 0) == FB_OK && gate.restored_count == 0);
  CHECK(fb_input_gate_restore(&gate, 0, large, sizeof large) == FB_OK && gate.restored_count == 1);
  CHECK(fb_input_gate_restore(&gate, 0, large, 1) == FB_ESTATE);
  CHECK(fb_input_gate_request_partitions(&gate, &(uint32_t){0}) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.size == 32 << 10 && item.more_available);
  fb_buffer_slice_release(&item.slice);

  /* A checkpoint takes the rest along once more. */
  broadcast_barrier(partition);
  emit(partition, 0, "later");
  CHECK(next_is_barrier(&gate, 0));
  fb_input_gate_set_persisting_budget(&gate, 1000);
  CHECK(fb_input_gate_start_persisting(&gate, 0, 5, &list) == FB_OK && list_is(&list, "xxxxx"));
  CHECK(next_is(&gate, 0, "xxxxx") && gate.restored_count == 0);
  CHECK(next_is(&gate, 0, "new"));
  fb_subpartition_flush(fb_pipelined_partition_queue(partition, 0));
  CHECK(next_is(&gate, 0, "later"));
  CHECK(fb_input_gate_stop_persisting(&gate, 0, &list) == FB_OK && list_is(&list, ""));
  CHECK(fb_input_gate_restore(&gate, 0, large, 1) == FB_ESTATE); /* it would come too late */
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(16);
}

static void what_is_restored_needs_no_producer_yet_and_goes_with_the_gate(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;

  setup(16);
  partition = open_partition(2);
  open_local_gate(&gate, partition, 2);
  CHECK(fb_input_gate_restore(&gate, 1, (const uint8_t*)"old", 3) == FB_OK);
  CHECK(fb_input_gate_restore(&gate, 0, (const uint8_t*)"old", 3) == FB_OK);
  CHECK(fb_input_gate_wait(&gate, 0) && next_is(&gate, 0, "old"));
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(16);
}

static void of_a_local_channel_what_is_polled_before_its_barrier_is_persisted(void) {
  struct fb_result_partition* partition;
  struct fb_slice_list list = {0};
  struct fb_input_gate gate;
  struct fb_gate_item item;

  setup(16);
  partition = open_partition(2);
  open_local_gate(&gate, partition, 2);
  fb_input_gate_set_persisting_budget(&gate, 1000);
  emit(partition, 0, "before");
  fb_result_partition_flush_all(partition);
  CHECK(next_is(&gate, 0, "before") && fb_input_gate_poll(&gate, &item) == 0);
  CHECK(fb_input_gate_start_persisting(&gate, 2, 5, &list) == FB_EARGUMENT);
  CHECK(fb_input_gate_start_persisting(&gate, 0, 5, &list) == FB_OK);
  CHECK(fb_input_gate_start_persisting(&gate, 1, 5, &list) == FB_OK);
  CHECK(list_is(&list, "")); /* what is queued is the producer's to keep */
  emit(partition, 0, "a");
  emit(partition, 1, "b");
  fb_result_partition_flush_all(partition);
  CHECK(next_is(&gate, 0, "a"));
  broadcast_barrier(partition);
  emit(partition, 0, "behind");
  fb_result_partition_flush_all(partition);
  CHECK(next_is_barrier(&gate, 0) && next_is_barrier(&gate, 1));
  CHECK(next_is(&gate, 0, "behind") && next_is(&gate, 1, "b"));
  CHECK(fb_input_gate_stop_persisting(&gate, 0, &list) == FB_OK && list_is(&list, "a"));
  CHECK(fb_input_gate_stop_persisting(&gate, 1, &list) == FB_OK && list_is(&list, "")); /* overtaken: the producer's */
  CHECK(fb_input_gate_start_persisting(&gate, 0, 4, &list) == FB_ESTATE);
  CHECK(fb_input_gate_convert_to_priority(&gate, 0, 3) == 0);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(16);
}

static void a_channel_that_ends_has_persisted_what_it_gave(void) {
  struct fb_result_partition* partition;
  struct fb_slice_list list = {0};
  struct fb_input_gate gate;
  struct fb_gate_item item;

  setup(16);
  partition = open_partition(1);
  open_local_gate(&gate, partition, 1);
  fb_input_gate_set_persisting_budget(&gate, 1000);
  CHECK(fb_input_gate_start_persisting(&gate, 0, 5, &list) == FB_OK);
  emit(partition, 0, "last");
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  CHECK(next_is(&gate, 0, "last"));
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.data_type == FB_END_OF_PARTITION);
  fb_buffer_slice_release(&item.slice);
  CHECK(fb_input_gate_stop_persisting(&gate, 0, &list) == FB_OK && list_is(&list, "last"));
  CHECK(fb_input_gate_start_persisting(&gate, 0, 6, &list) == FB_OK);
  CHECK(fb_input_gate_stop_persisting(&gate, 0, &list) == FB_OK && list_is(&list, ""));
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(16);
}

static void an_acknowledgement_reaches_the_producer_until_the_end_was_read(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  uint32_t failed;

  setup(4);
  partition = open_partition(2);
  CHECK(fb_input_gate_open(&gate, 2) == FB_OK);
  for (uint32_t i = 0; i < 2; i++) CHECK(fb_input_gate_set_local(&gate, i, partition, 1 - i) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_acknowledge(&gate, 2) == FB_EARGUMENT);
  CHECK(fb_input_gate_acknowledge(&gate, 0) == FB_OK && fb_input_gate_acknowledge(&gate, 0) == FB_OK);
  CHECK(!fb_result_partition_is_acknowledged(partition) && partition->unacknowledged_count == 1);
  CHECK(fb_input_gate_acknowledge(&gate, 1) == FB_OK && fb_result_partition_is_acknowledged(partition));
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  for (int i = 0; i < 2; i++) {
    CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.data_type == FB_END_OF_PARTITION);
    fb_buffer_slice_release(&item.slice);
  }
  CHECK(fb_input_gate_acknowledge(&gate, 0) == FB_OK); /* too late to matter */
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(4);
}

static void sleep_ms(long ms) {
  struct timespec pause = {.tv_nsec = ms * 1000000};
  nanosleep(&pause, NULL);
}

static void senders_are_asked_for_buffers_of_a_size_that_is_soon_consumed(void) {
  struct fb_buffer_debloater_config config = {
      .target_ms = 10, .max_size = SEGMENT_SIZE, .min_size = 8, .threshold_percent = 25, .samples = 1};
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  uint32_t failed;
  int32_t wanted;

  setup(16);
  partition = open_partition(2);
  CHECK(fb_input_gate_open(&gate, 2) == FB_OK);
  for (uint32_t i = 0; i < 2; i++) CHECK(fb_input_gate_set_local(&gate, i, partition, i) == FB_OK);
  CHECK(fb_input_gate_set_debloating(&gate, &config, 0) == FB_EARGUMENT);
  CHECK(fb_input_gate_set_debloating(&gate, &config, 5) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  CHECK(fb_input_gate_set_debloating(&gate, &config, 5) == FB_ESTATE);
  for (uint32_t i = 0; i < 8 * SEGMENT_SIZE / 8; i++) emit(partition, i / 8 % 2, "8 bytes.");
  fb_result_partition_flush_all(partition);
  for (int i = 0; i < 8; i++) {
    CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.size == SEGMENT_SIZE);
    fb_buffer_slice_release(&item.slice);
    sleep_ms(20); /* 3.2 bytes in a millisecond: 32 in flight would do */
  }
  wanted = fb_pipelined_partition_queue(partition, 0)->buffer_size;
  CHECK(wanted == gate.debloater.announced_size && wanted == fb_pipelined_partition_queue(partition, 1)->buffer_size);
  CHECK(wanted >= 8 && wanted < SEGMENT_SIZE);
  for (int i = 0; i < 2 * SEGMENT_SIZE / 8; i++) emit(partition, 0, "8 bytes.");
  fb_result_partition_flush_all(partition);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.size == (uint32_t)wanted);
  fb_buffer_slice_release(&item.slice);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(16);
}

static void what_waits_and_how_long_nothing_did_is_shown(void) {
  struct fb_result_partition* partition;
  struct fb_channel_usage usage;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  uint32_t failed;

  setup(4);
  partition = open_partition(1);
  CHECK(fb_input_gate_open(&gate, 1) == FB_OK && fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  fb_input_gate_get_channel_usage(&gate, 0, &usage); /* nothing was asked for yet */
  CHECK(usage.buffers == 0 && usage.queued == 0 && usage.credit == -1);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK && fb_input_gate_poll(&gate, &item) == 0);
  CHECK(!fb_input_gate_wait(&gate, 30) && gate.idle_ms >= 30);
  emit(partition, 0, "x");
  fb_result_partition_flush_all(partition);
  CHECK(fb_input_gate_wait(&gate, 10000) && gate.idle_ms < 10000);
  sleep_ms(20);
  fb_input_gate_get_channel_usage(&gate, 0, &usage);
  CHECK(usage.queued == 1 && usage.backlog == 1 && usage.oldest_ms >= 20 && usage.buffers == 0);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item_is(&item, 0, "x"));
  fb_input_gate_get_channel_usage(&gate, 0, &usage);
  CHECK(usage.queued == 1 && usage.oldest_ms == 0 && usage.buffers == 1 && usage.bytes == 1);
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  CHECK(fb_input_gate_poll(&gate, &item) == 1 && item.slice.data_type == FB_END_OF_PARTITION);
  fb_buffer_slice_release(&item.slice);
  fb_input_gate_get_channel_usage(&gate, 0, &usage); /* its figures stay when it has ended */
  CHECK(usage.queued == 0 && usage.buffers == 2 && usage.bytes == 5);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(4);
}

static void without_debloating_no_size_is_announced(void) {
  struct fb_result_partition* partition;
  struct fb_input_gate gate;
  struct fb_gate_item item;
  uint32_t failed;

  setup(4);
  partition = open_partition(1);
  CHECK(fb_input_gate_open(&gate, 1) == FB_OK && fb_input_gate_set_local(&gate, 0, partition, 0) == FB_OK);
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  for (int i = 0; i < 10; i++) {
    emit(partition, 0, "x");
    fb_result_partition_flush_all(partition);
    CHECK(fb_input_gate_poll(&gate, &item) == 1);
    fb_buffer_slice_release(&item.slice);
    sleep_ms(1);
  }
  CHECK(fb_pipelined_partition_queue(partition, 0)->buffer_size == INT32_MAX && gate.debloat_due_ms == 0);
  fb_input_gate_close(&gate);
  close_partition(partition);
  teardown(4);
}

#define PRODUCERS 3
#define RECORDS   20000

static void* produce(void* argument) {
  struct fb_result_partition* partition = argument;

  for (uint32_t i = 0; i < RECORDS; i++) {
    char text[12];
    snprintf(text, sizeof text, "%010u", i);
    emit(partition, 0, text);
    if (i % 97 == 0) fb_result_partition_flush(partition, 0);
  }
  CHECK(fb_result_partition_finish(partition) == FB_OK);
  fb_result_partition_close(partition);
  return NULL;
}

/* Producers on threads of their own, a few segments, one consumer that sleeps on the gate: every byte arrives, in
 * order in each channel, and every segment comes home. */
static void records_of_concurrent_producers_arrive_in_order(void) {
  struct fb_result_partition* partitions[PRODUCERS];
  pthread_t threads[PRODUCERS];
  uint64_t received[PRODUCERS] = {0};
  struct fb_input_gate gate;
  struct fb_gate_item item;
  uint32_t failed;

  setup(PRODUCERS * 3);
  CHECK(fb_input_gate_open(&gate, PRODUCERS) == FB_OK);
  for (uint32_t p = 0; p < PRODUCERS; p++) {
    partitions[p] = open_partition(1);
    CHECK(fb_input_gate_set_local(&gate, p, partitions[p], 0) == FB_OK);
  }
  CHECK(fb_input_gate_request_partitions(&gate, &failed) == FB_OK);
  for (uint32_t p = 0; p < PRODUCERS; p++) CHECK(pthread_create(&threads[p], NULL, produce, partitions[p]) == 0);
  while (!fb_input_gate_is_finished(&gate)) {
    int code = fb_input_gate_poll(&gate, &item);
    CHECK(code >= 0);
    if (code == 0) {
      fb_input_gate_wait(&gate, 100);
      continue;
    }
    if (fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)item.slice.data_type)) {
      const uint8_t* data = fb_buffer_slice_data(&item.slice);
      for (uint32_t i = 0; i < item.slice.size; i++) {
        char text[12];
        uint64_t at = received[item.channel_index]++;
        if (at % 10 != 0 && i != 0) continue; /* the first byte of each record, and of each buffer */
        snprintf(text, sizeof text, "%010u", (unsigned)(at / 10));
        CHECK(data[i] == (uint8_t)text[at % 10]);
      }
    }
    fb_buffer_slice_release(&item.slice);
  }
  for (uint32_t p = 0; p < PRODUCERS; p++) {
    CHECK(pthread_join(threads[p], NULL) == 0);
    CHECK(received[p] == (uint64_t)RECORDS * 10);
    fb_result_partition_drop(partitions[p]);
  }
  fb_input_gate_close(&gate);
  teardown(PRODUCERS * 3);
}

int main(void) {
  channels_take_turns();
  what_was_written_before_the_view_is_seen_and_the_end_ends_it();
  a_released_partition_is_an_error_not_an_end();
  a_size_is_announced_to_who_comes_late();
  who_was_replaced_is_told_and_takes_nothing();
  a_priority_event_overtakes_other_channels();
  a_priority_event_is_given_without_what_stands_before_it();
  what_is_restored_comes_before_all_but_priority_events();
  what_is_restored_needs_no_producer_yet_and_goes_with_the_gate();
  of_a_local_channel_what_is_polled_before_its_barrier_is_persisted();
  a_channel_that_ends_has_persisted_what_it_gave();
  an_acknowledgement_reaches_the_producer_until_the_end_was_read();
  senders_are_asked_for_buffers_of_a_size_that_is_soon_consumed();
  without_debloating_no_size_is_announced();
  what_waits_and_how_long_nothing_did_is_shown();
  records_of_concurrent_producers_arrive_in_order();
  return 0;
}
