/* Behaviours of Flink's ResultPartitionTest, PipelinedResultPartition and
 * PipelinedApproximateSubpartitionTest, and a partition that is released in the middle of traffic. */
#include "check.h"
#include "pools.h"

#include <string.h>

#include "ground/byte_order.h"
#include "partition/pipelined_partition.h"

#define SEGMENT  16
#define SEGMENTS 24

struct fixture {
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partition;
};

static void no_data(void* context, uint32_t index) { (void)context, (void)index; }
static void no_priority(void* context, uint32_t index, int32_t sequence) { (void)context, (void)index, (void)sequence; }
static const struct fb_availability_listener DEAF = {no_data, no_priority, NULL};

static void open_fixture(struct fixture* self, enum fb_result_partition_type type, uint32_t n, uint32_t max) {
  struct fb_buffer_pool_options options = {.min = n + 1, .max = max, .channel_count = n, .max_buffers_per_channel = 10};
  struct fb_local_buffer_pool* pool;

  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &self->network) == FB_OK);
  CHECK(fb_local_buffer_pool_open(self->network, &options, &pool) == FB_OK);
  CHECK(fb_pipelined_partition_open(type, n, pool, &self->partition) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  fb_result_partition_close(self->partition);
  fb_result_partition_drop(self->partition);
  CHECK(fb_network_buffer_pool_available(self->network) == SEGMENTS);
  fb_network_buffer_pool_close(self->network);
}

static int emit(struct fixture* self, uint32_t subpartition, const char* text) {
  const uint8_t* data = (const uint8_t*)text;
  size_t size = strlen(text);
  int code = fb_result_partition_emit(self->partition, subpartition, &data, &size);

  CHECK(code != FB_OK || (size == 0 && data == (const uint8_t*)text + strlen(text)));
  return code;
}

static int broadcast(struct fixture* self, const char* text) {
  const uint8_t* data = (const uint8_t*)text;
  size_t size = strlen(text);
  return fb_result_partition_broadcast(self->partition, &data, &size);
}

/* The next buffer's bytes are `text`; NULL: there is none. */
static void expect(struct fixture* self, uint32_t subpartition, const char* text) {
  struct fb_polled_buffer polled;
  int code = fb_subpartition_poll(fb_pipelined_partition_queue(self->partition, subpartition), NULL, &polled);

  CHECK(code == (text != NULL));
  if (text == NULL) return;
  CHECK(polled.slice.size == strlen(text) && memcmp(fb_buffer_slice_data(&polled.slice), text, strlen(text)) == 0);
  fb_buffer_slice_release(&polled.slice);
}

static void expect_end(struct fixture* self, uint32_t subpartition) {
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(fb_pipelined_partition_queue(self->partition, subpartition), NULL, &polled) == 1);
  CHECK(polled.slice.data_type == FB_END_OF_PARTITION && polled.next_data_type == FB_NONE);
  fb_buffer_slice_release(&polled.slice);
}

/* ---- writing ------------------------------------------------------------------------------------- */

static void records_are_cut_over_buffers_and_full_buffers_are_finished(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(emit(&f, 1, "0123456789") == FB_OK);
  CHECK(emit(&f, 1, "abcdefghijklmnopqrstuvwxyz") == FB_OK);
  CHECK(f.partition->unicast[0].buffer == NULL && f.partition->unicast[1].position == 4);
  CHECK(emit(&f, 1, "ABCDEFGHIJKL") == FB_OK); /* fills the buffer: off it goes */
  CHECK(f.partition->unicast[1].buffer == NULL && f.partition->total_buffers == 3);
  CHECK(f.partition->total_written_bytes == 48);
  expect(&f, 0, NULL);
  expect(&f, 1, "0123456789abcdef");
  expect(&f, 1, "ghijklmnopqrstuv");
  expect(&f, 1, "wxyzABCDEFGHIJKL");
  expect(&f, 1, NULL);
  CHECK(emit(&f, 2, "x") == FB_EARGUMENT);
  close_fixture(&f);
}

static void unicast_and_broadcast_keep_their_order(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(emit(&f, 0, "a") == FB_OK && emit(&f, 1, "b") == FB_OK);
  CHECK(broadcast(&f, "all") == FB_OK);
  CHECK(f.partition->unicast[0].buffer == NULL && f.partition->unicast[1].buffer == NULL);
  CHECK(broadcast(&f, "!") == FB_OK); /* one buffer, shared */
  CHECK(used_of(f.partition->pool) == 3);
  CHECK(emit(&f, 1, "c") == FB_OK);
  CHECK(f.partition->broadcast.buffer == NULL && f.partition->total_written_bytes == 1 + 1 + 2 * 4);
  fb_result_partition_flush_all(f.partition);
  expect(&f, 0, "a");
  expect(&f, 0, "all!");
  expect(&f, 0, NULL);
  expect(&f, 1, "b");
  expect(&f, 1, "all!");
  expect(&f, 1, "c");
  close_fixture(&f);
}

static void in_place_writers_find_an_open_builder(void) {
  struct fixture f;
  struct fb_buffer_builder* builder;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  builder = &f.partition->unicast[1];
  CHECK(fb_result_partition_open_unicast(f.partition, 2) == FB_EARGUMENT);
  CHECK(fb_result_partition_open_unicast(f.partition, 1) == FB_OK && builder->buffer != NULL);
  CHECK(fb_result_partition_open_unicast(f.partition, 1) == FB_OK);
  memcpy(builder->data + builder->position, "0123456789abcdef", SEGMENT);
  builder->position += SEGMENT;
  fb_buffer_builder_commit(builder);
  fb_result_partition_finish_unicast(f.partition, 1);
  CHECK(builder->buffer == NULL);
  CHECK(fb_result_partition_open_broadcast(f.partition) == FB_OK && f.partition->broadcast.buffer != NULL);
  fb_result_partition_finish_broadcast(f.partition);
  expect(&f, 1, "0123456789abcdef");
  expect(&f, 1, NULL); /* the empty broadcast buffer is skipped */
  close_fixture(&f);
}

static void emit_goes_on_where_the_pool_left_it(void) {
  struct fixture f;
  const char* text = "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnop";
  const uint8_t* data = (const uint8_t*)text;
  size_t size = strlen(text);

  open_fixture(&f, FB_PIPELINED_BOUNDED, 1, 2);
  CHECK(fb_result_partition_emit(f.partition, 0, &data, &size) == FB_NEEDS_BUFFER);
  CHECK(data == (const uint8_t*)text + 2 * SEGMENT && size == strlen(text) - 2 * SEGMENT);
  CHECK(!fb_result_partition_wait(f.partition, 1) && f.partition->hard_back_pressured_ms >= 1);
  /* Half a record is written: nothing may come between its halves but a priority event. */
  CHECK(fb_result_partition_open_unicast(f.partition, 0) == FB_ESTATE);
  CHECK(broadcast(&f, "x") == FB_ESTATE);
  CHECK(fb_result_partition_broadcast_event(f.partition, data, 4, FB_EVENT_BUFFER) == FB_ESTATE);
  CHECK(fb_result_partition_finish(f.partition) == FB_ESTATE);
  data -= 2;
  CHECK(fb_result_partition_broadcast_event(f.partition, data, 2, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  data += 2;
  expect(&f, 0, "uv");
  expect(&f, 0, "0123456789abcdef");
  CHECK(fb_result_partition_wait(f.partition, 0));
  CHECK(fb_result_partition_emit(f.partition, 0, &data, &size) == FB_NEEDS_BUFFER);
  CHECK(size == strlen(text) - 3 * SEGMENT);
  expect(&f, 0, "ghijklmnopqrstuv");
  CHECK(fb_result_partition_emit(f.partition, 0, &data, &size) == FB_OK && size == 0);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  expect(&f, 0, "wxyz0123456789ab");
  expect(&f, 0, "cdefghijklmnop");
  expect_end(&f, 0);
  close_fixture(&f);
}

static void events_cut_all_buffers_and_need_no_memory_of_the_pool(void) {
  struct fixture f;
  const uint8_t event[4] = {'e', 'v', 'n', 't'};

  open_fixture(&f, FB_PIPELINED_BOUNDED, 2, 3);
  CHECK(emit(&f, 0, "a") == FB_OK);
  CHECK(fb_result_partition_broadcast_event(f.partition, event, 4, FB_DATA_BUFFER) == FB_EARGUMENT);
  CHECK(fb_result_partition_broadcast_event(f.partition, event, 4, FB_DATA_TYPE_COUNT) == FB_EARGUMENT);
  CHECK(fb_result_partition_broadcast_event(f.partition, event, 4, FB_EVENT_BUFFER) == FB_OK);
  CHECK(f.partition->unicast[0].buffer == NULL && used_of(f.partition->pool) == 1);
  CHECK(emit(&f, 0, "b") == FB_OK && emit(&f, 1, "c") == FB_OK);
  CHECK(fb_result_partition_emit_event(f.partition, 1, event, 4, FB_EVENT_BUFFER) == FB_OK);
  CHECK(f.partition->unicast[0].buffer != NULL && f.partition->unicast[1].buffer == NULL);
  fb_result_partition_flush(f.partition, 0);
  expect(&f, 0, "a");
  expect(&f, 0, "evnt");
  expect(&f, 0, "b");
  expect(&f, 1, "evnt");
  expect(&f, 1, "c");
  expect(&f, 1, "evnt");
  close_fixture(&f);
}

static const uint8_t BARRIER[34] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, [21] = 255, 255, 255, 255, 1};

static void expect_barrier(struct fixture* self, uint32_t subpartition, enum fb_buffer_data_type type) {
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(fb_pipelined_partition_queue(self->partition, subpartition), NULL, &polled) == 1);
  CHECK(polled.slice.data_type == type && polled.slice.size == sizeof BARRIER);
  fb_buffer_slice_release(&polled.slice);
}

/* The bytes of a list, joined, are `text`. */
static void expect_list(struct fb_slice_list* list, const char* text) {
  size_t at = 0;

  CHECK(list->size == strlen(text));
  for (uint32_t i = 0; i < list->count; i++) {
    CHECK(memcmp(fb_buffer_slice_data(&list->items[i]), text + at, list->items[i].size) == 0);
    at += list->items[i].size;
  }
  fb_slice_list_close(list);
}

static void an_unaligned_barrier_goes_first_and_says_what_it_overtook(void) {
  struct fb_slice_list lists[2] = {{0}};
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(emit(&f, 0, "abcdefghijklmnopqrstuvwxyz") == FB_OK); /* over two buffers, of which one is open */
  CHECK(broadcast(&f, "all") == FB_OK);
  CHECK(emit(&f, 1, "one") == FB_OK);
  CHECK(fb_result_partition_broadcast_barrier(f.partition, BARRIER, sizeof BARRIER, lists) == FB_OK);
  expect_list(&lists[0], "abcdefghijklmnopqrstuvwxyzall");
  expect_list(&lists[1], "allone");
  CHECK(emit(&f, 1, "later") == FB_OK);
  expect_barrier(&f, 0, FB_PRIORITIZED_EVENT_BUFFER);
  expect_barrier(&f, 1, FB_PRIORITIZED_EVENT_BUFFER);
  expect(&f, 1, "all");
  expect(&f, 1, "one");
  CHECK(fb_result_partition_broadcast_barrier(f.partition, BARRIER, sizeof BARRIER, lists) == FB_OK);
  expect_list(&lists[0], "abcdefghijklmnopqrstuvwxyzall"); /* nobody has read it */
  expect_list(&lists[1], "later");
  close_fixture(&f);
}

static void in_the_middle_of_a_record_no_checkpoint_is_taken(void) {
  struct fb_slice_list lists[1] = {{0}};
  struct fixture f;
  const uint8_t* data = (const uint8_t*)"0123456789012345678901234567890123456789";
  size_t size = 40;

  open_fixture(&f, FB_PIPELINED_BOUNDED, 1, 2);
  CHECK(fb_result_partition_emit(f.partition, 0, &data, &size) == FB_NEEDS_BUFFER);
  CHECK(fb_result_partition_broadcast_barrier(f.partition, BARRIER, sizeof BARRIER, lists) == FB_ESTATE);
  CHECK(lists[0].count == 0);
  fb_result_partition_release(f.partition);
  close_fixture(&f);
}

static void a_barrier_with_a_timeout_is_converted_where_it_is_queued_still(void) {
  struct fb_slice_list lists[2] = {{0}};
  struct fixture f;
  uint64_t seen;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(emit(&f, 0, "zero") == FB_OK && emit(&f, 1, "one") == FB_OK);
  CHECK(fb_result_partition_broadcast_event(f.partition, BARRIER, sizeof BARRIER,
                                            FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER) == FB_OK);
  CHECK(emit(&f, 0, "later") == FB_OK);
  expect(&f, 1, "one");
  seen = fb_wakeup_seen(&f.partition->own_wakeup);
  expect_barrier(&f, 1, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  CHECK(fb_wakeup_seen(&f.partition->own_wakeup) != seen); /* the task hears that it was sent */
  CHECK(fb_result_partition_has_barrier(f.partition, 5));
  CHECK(fb_result_partition_convert_barrier(f.partition, 4, lists) == 0);
  CHECK(fb_result_partition_convert_barrier(f.partition, 5, lists) == 1);
  CHECK(!fb_result_partition_has_barrier(f.partition, 5));
  expect_list(&lists[0], "zero");
  expect_list(&lists[1], "");
  CHECK(fb_result_partition_convert_barrier(f.partition, 5, lists) == 0);
  for (int i = 0; i < 2; i++) fb_slice_list_close(&lists[i]);
  expect_barrier(&f, 0, FB_PRIORITIZED_EVENT_BUFFER);
  expect(&f, 0, "zero");
  close_fixture(&f);
}

static void what_is_restored_comes_first_in_buffers_that_fit_the_reader(void) {
  struct fb_slice_list lists[2] = {{0}};
  struct fixture f;
  const char* text = "0123456789abcdefghij";

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(fb_result_partition_restore(f.partition, 2, (const uint8_t*)text, 20) == FB_EARGUMENT);
  CHECK(fb_result_partition_restore(f.partition, 0, (const uint8_t*)text, 20) == FB_OK);
  CHECK(fb_network_buffer_pool_available(f.network) >= SEGMENTS - 1); /* the pool's are for what is new */
  CHECK(broadcast(&f, "new") == FB_OK);
  CHECK(fb_result_partition_restore(f.partition, 1, (const uint8_t*)text, 20) == FB_ESTATE);
  /* A checkpoint before it was read takes it along again. */
  CHECK(fb_result_partition_broadcast_barrier(f.partition, BARRIER, sizeof BARRIER, lists) == FB_OK);
  expect_list(&lists[0], "0123456789abcdefghijnew");
  expect_list(&lists[1], "new");
  expect_barrier(&f, 0, FB_PRIORITIZED_EVENT_BUFFER);
  expect(&f, 0, "0123456789abcdef");
  expect(&f, 0, "ghij");
  expect(&f, 0, "new");
  close_fixture(&f);
}

static void nothing_can_be_written_after_finish(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 1, FB_UNBOUNDED);
  CHECK(emit(&f, 0, "a") == FB_OK);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  CHECK(fb_result_partition_finish(f.partition) == FB_EFINISHED);
  CHECK(emit(&f, 0, "b") == FB_EFINISHED && broadcast(&f, "b") == FB_EFINISHED);
  CHECK(fb_result_partition_open_unicast(f.partition, 0) == FB_EFINISHED);
  CHECK(fb_result_partition_broadcast_event(f.partition, NULL, 0, FB_EVENT_BUFFER) == FB_EFINISHED);
  fb_result_partition_close(f.partition);
  expect(&f, 0, "a"); /* what is queued stays readable */
  expect_end(&f, 0);
  close_fixture(&f);
}

static void partial_record_lengths_follow_the_record(void) {
  struct fixture f;
  const int32_t lengths[] = {0, 16, 4, 16, 0};
  struct fb_deque* queue;

  open_fixture(&f, FB_PIPELINED, 1, FB_UNBOUNDED);
  queue = &fb_pipelined_partition_queue(f.partition, 0)->queue;
  CHECK(emit(&f, 0, "0123456789") == FB_OK);
  CHECK(emit(&f, 0, "abcdefghijklmnopqrstuvwxyz") == FB_OK);   /* 6 + 16 + 4 */
  CHECK(emit(&f, 0, "ABCDEFGHIJKLMNOPQRSTUVWXYZ01") == FB_OK); /* 12 + 16: ends with its buffer */
  CHECK(emit(&f, 0, "x") == FB_OK);
  CHECK(queue->count == 5);
  for (uint32_t i = 0; i < 5; i++) {
    struct fb_queued_consumer* queued = fb_deque_at(queue, i, sizeof *queued);
    CHECK(queued->partial_record_length == lengths[i]);
  }
  close_fixture(&f);
}

/* ---- debloating ---------------------------------------------------------------------------------- */

static void buffers_get_the_size_that_readers_want(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 6) == FB_OK);
  CHECK(emit(&f, 0, "ab") == FB_OK && f.partition->unicast[0].capacity == 6);
  CHECK(emit(&f, 0, "cdef") == FB_OK && f.partition->unicast[0].buffer == NULL); /* full at 6 */
  CHECK(emit(&f, 0, "0123456789") == FB_OK);                                     /* not cut: full at 10 */
  CHECK(f.partition->unicast[0].buffer == NULL);
  CHECK(emit(&f, 1, "ab") == FB_OK && f.partition->unicast[1].capacity == SEGMENT);
  CHECK(broadcast(&f, "x") == FB_OK && f.partition->broadcast.capacity == 6); /* the smallest wish */
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 0) == FB_OK);
  CHECK(emit(&f, 0, "ab") == FB_OK && f.partition->unicast[0].capacity == SEGMENT); /* 0 is no wish */
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 4000) == FB_OK);
  CHECK(fb_result_partition_broadcast_event(f.partition, (const uint8_t*)"e", 1, FB_EVENT_BUFFER) == FB_OK);
  CHECK(emit(&f, 0, "ab") == FB_OK);
  CHECK(f.partition->unicast[0].capacity == SEGMENT); /* not above the segment */
  expect(&f, 0, "abcdef");
  expect(&f, 0, "0123456789");
  close_fixture(&f);
}

static void small_buffer_is_widened_when_the_pool_has_no_other(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_BOUNDED, 1, 2);
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 4) == FB_OK);
  CHECK(emit(&f, 0, "abcd") == FB_OK && emit(&f, 0, "ef") == FB_OK);
  CHECK(!fb_local_buffer_pool_is_available(f.partition->pool) && f.partition->unicast[0].capacity == 4);
  CHECK(emit(&f, 0, "ghijkl") == FB_OK && f.partition->unicast[0].capacity == 9);
  CHECK(emit(&f, 0, "0123456789") == FB_NEEDS_BUFFER); /* the segment's end is the end */
  expect(&f, 0, "abcd");
  expect(&f, 0, "efghijkl01234567");
  close_fixture(&f);
}

static void* take_one(void* argument) {
  struct fixture* self = argument;
  struct timespec pause = {.tv_nsec = 20000000};

  nanosleep(&pause, NULL);
  expect(self, 0, "abcd");
  return NULL;
}

static void small_buffer_keeps_its_size_if_one_waits_for_another(void) {
  struct fixture f;
  pthread_t reader;

  open_fixture(&f, FB_PIPELINED_BOUNDED, 1, 2);
  CHECK(fb_result_partition_wait_available(f.partition, 0, 0)); /* none is open */
  CHECK(emit(&f, 0, "ab") == FB_OK && fb_result_partition_wait_available(f.partition, 0, 0));
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 4) == FB_OK);
  expect(&f, 0, "ab");
  CHECK(fb_result_partition_wait_available(f.partition, 0, 0)); /* a whole segment is open */
  CHECK(emit(&f, 0, "0123456789abcd") == FB_OK);
  expect(&f, 0, "0123456789abcd");
  CHECK(emit(&f, 0, "abcd") == FB_OK && emit(&f, 0, "ef") == FB_OK);
  CHECK(!fb_result_partition_wait_available(f.partition, 0, 0) && f.partition->soft_back_pressured_ms < 10);
  CHECK(!fb_result_partition_wait_available(f.partition, 0, 20)); /* nobody reads yet */
  CHECK(f.partition->soft_back_pressured_ms >= 10 && f.partition->hard_back_pressured_ms == 0);
  CHECK(pthread_create(&reader, NULL, take_one, &f) == 0);
  while (!fb_result_partition_wait_available(f.partition, 0, 1000)) continue;
  pthread_join(reader, NULL);
  CHECK(emit(&f, 0, "ghij") == FB_OK);
  expect(&f, 0, "efgh");
  fb_result_partition_flush_all(f.partition);
  expect(&f, 0, "ij");
  close_fixture(&f);
}

static void nobody_waits_for_buffers_of_a_reader_that_is_gone(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_BOUNDED, 1, 2);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 4) == FB_OK);
  CHECK(emit(&f, 0, "abcd") == FB_OK && emit(&f, 0, "ef") == FB_OK);
  CHECK(!fb_result_partition_wait_available(f.partition, 0, 0));
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  CHECK(fb_result_partition_wait_available(f.partition, 0, -1));
  close_fixture(&f);
}

/* ---- approximate: Flink's vectors, a buffer = 4 ints --------------------------------------------- */

static void emit_ints(struct fixture* self, int32_t first, int32_t end, int32_t last) {
  uint8_t bytes[64];
  const uint8_t* data = bytes;
  size_t size = 0;

  for (int32_t i = first; i < end; i++, size += 4) fb_store_be32(bytes + size, (uint32_t)i);
  if (last >= 0) fb_store_be32(bytes + size, (uint32_t)last), size += 4;
  CHECK(fb_result_partition_emit(self->partition, 0, &data, &size) == FB_OK);
}

static void expect_ints(struct fixture* self, int32_t first, int32_t end) {
  struct fb_subpartition* subpartition = fb_pipelined_partition_queue(self->partition, 0);
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(subpartition, NULL, &polled) == 1 && polled.slice.size == 4 * (uint32_t)(end - first));
  for (int32_t i = first; i < end; i++)
    CHECK(fb_load_be32(fb_buffer_slice_data(&polled.slice) + 4 * (i - first)) == (uint32_t)i);
  fb_buffer_slice_release(&polled.slice);
}

static void reconnect(struct fixture* self) {
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(self->partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
}

static void new_reader_goes_on_with_the_next_whole_record(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 1, SEGMENTS);
  reconnect(&f);
  emit_ints(&f, 0, 4, 42);
  expect_ints(&f, 0, 4);
  reconnect(&f);
  expect(&f, 0, NULL);
  emit_ints(&f, 8, 10, -1);
  expect_ints(&f, 8, 10);
  close_fixture(&f);

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 1, SEGMENTS);
  reconnect(&f);
  emit_ints(&f, 0, 9, 42);
  expect_ints(&f, 0, 4);
  reconnect(&f);
  expect(&f, 0, NULL);
  close_fixture(&f);

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 1, SEGMENTS);
  reconnect(&f);
  emit_ints(&f, 0, 7, 42); /* ends exactly with its second buffer */
  emit_ints(&f, 100, 103, -1);
  expect_ints(&f, 0, 4);
  reconnect(&f);
  expect_ints(&f, 100, 103);
  close_fixture(&f);

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 1, SEGMENTS);
  reconnect(&f);
  emit_ints(&f, 0, 4, 42);
  reconnect(&f); /* before anything was read: nothing is skipped */
  expect_ints(&f, 0, 4);
  expect_ints(&f, 42, 43);
  close_fixture(&f);
}

/* A reader wants 8-byte buffers: a record's middle buffer is full although its segment is not. */
static void broken_records_are_skipped_over_trimmed_buffers_too(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 1, SEGMENTS);
  reconnect(&f);
  CHECK(fb_subpartition_set_buffer_size(fb_pipelined_partition_queue(f.partition, 0), 8) == FB_OK);
  emit_ints(&f, 0, 1, -1);
  emit_ints(&f, 1, 12, -1); /* 4 + 16 + 16 + 8 bytes */
  emit_ints(&f, 50, 52, -1);
  expect_ints(&f, 0, 2);
  reconnect(&f);
  expect_ints(&f, 50, 52);
  close_fixture(&f);
}

/* ---- readers that go, release -------------------------------------------------------------------- */

static void note_consumed(struct fb_result_partition* self, void* context) {
  CHECK(fb_result_partition_is_released(self));
  ++*(int*)context;
}

static void partition_is_released_when_all_readers_and_the_producer_are_done(void) {
  struct fixture f;
  int consumed = 0;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  f.partition->on_consumed = note_consumed;
  f.partition->on_consumed_context = &consumed;
  for (uint32_t i = 0; i < 2; i++)
    CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, i), NULL,
                                 &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  fb_result_partition_close(f.partition);
  fb_result_partition_close(f.partition);
  CHECK(!fb_result_partition_is_released(f.partition) && consumed == 0);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 1), NULL);
  CHECK(fb_result_partition_is_released(f.partition) && consumed == 1);
  close_fixture(&f);
  CHECK(consumed == 1);
}

static void a_partition_closed_before_its_end_fails(void) {
  struct fixture f;
  struct fb_polled_buffer polled;

  open_fixture(&f, FB_PIPELINED, 1, FB_UNBOUNDED);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  CHECK(emit(&f, 0, "the beginning") == FB_OK);
  fb_result_partition_close(f.partition);
  CHECK(fb_subpartition_poll(fb_pipelined_partition_queue(f.partition, 0), NULL, &polled) == FB_ERELEASED);
  CHECK(strstr(fb_result_partition_failure(f.partition), "before its end") != NULL);
  close_fixture(&f);
}

static void data_of_a_reader_that_left_is_dropped_and_holds_nobody_up(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_BOUNDED, 2, 3);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  CHECK(emit(&f, 0, "abc") == FB_OK);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  for (int i = 0; i < 100; i++) CHECK(emit(&f, 0, "0123456789abcdef0123456789abcdef") == FB_OK);
  CHECK(used_of(f.partition->pool) == 0);
  CHECK(fb_result_partition_open_unicast(f.partition, 0) == FB_OK && f.partition->unicast[0].buffer == NULL);
  CHECK(emit(&f, 1, "for the other") == FB_OK && broadcast(&f, "for all") == FB_OK);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  expect(&f, 1, "for the other");
  expect(&f, 1, "for all");
  expect_end(&f, 1);
  close_fixture(&f);
}

static void release_drops_all_and_later_data_costs_no_memory(void) {
  struct fixture f;
  const uint8_t* data = (const uint8_t*)"0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdef";
  size_t size = 52;
  struct fb_polled_buffer polled;

  open_fixture(&f, FB_PIPELINED_BOUNDED, 1, 2);
  CHECK(fb_result_partition_failure(f.partition) == NULL);
  CHECK(fb_result_partition_emit(f.partition, 0, &data, &size) == FB_NEEDS_BUFFER);
  fb_result_partition_fail(f.partition, "disk full");
  fb_result_partition_fail(f.partition, "something later");
  CHECK(strcmp(fb_result_partition_failure(f.partition), "disk full") == 0);
  CHECK(fb_result_partition_emit(f.partition, 0, &data, &size) == FB_OK && size == 0); /* the rest goes too */
  CHECK(emit(&f, 0, "x") == FB_OK && broadcast(&f, "x") == FB_OK);
  CHECK(fb_result_partition_broadcast_event(f.partition, data, 1, FB_EVENT_BUFFER) == FB_OK);
  CHECK(used_of(f.partition->pool) == 0);
  CHECK(fb_subpartition_poll(fb_pipelined_partition_queue(f.partition, 0), NULL, &polled) == FB_ERELEASED);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  close_fixture(&f);
}

static void* close_partition(void* argument) {
  fb_result_partition_close(((struct fixture*)argument)->partition);
  return NULL;
}

/* The producer, and who saw that everything was read. */
static void closing_from_two_threads_counts_once(void) {
  for (int round = 0; round < 200; round++) {
    pthread_t threads[2];
    struct fixture f;

    open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
    CHECK(emit(&f, 0, "abc") == FB_OK && fb_result_partition_finish(f.partition) == FB_OK);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, close_partition, &f) == 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(f.partition->users == 2 && !fb_result_partition_is_released(f.partition));
    close_fixture(&f);
  }
}

/* ---- between the parts of a release --------------------------------------------------------------- */

static void write_record(struct fixture* self) { emit(self, 1, "after"); }
static void write_long_record(struct fixture* self) { emit(self, 1, "after, over more than one segment"); }
static void write_to_all(struct fixture* self) { broadcast(self, "after"); }
static void write_event(struct fixture* self) {
  fb_result_partition_emit_event(self->partition, 1, (const uint8_t*)"after", 5, FB_EVENT_BUFFER);
}
static void write_event_to_all(struct fixture* self) {
  fb_result_partition_broadcast_event(self->partition, (const uint8_t*)"after", 5, FB_EVENT_BUFFER);
}
static void write_in_place(struct fixture* self) {
  struct fb_buffer_builder* builder = &self->partition->unicast[1];

  if (fb_result_partition_open_unicast(self->partition, 1) != FB_OK || builder->buffer == NULL) return;
  fb_buffer_builder_append(builder, (const uint8_t*)"after", 5);
  fb_buffer_builder_commit(builder);
}

static void release(struct fb_result_partition* self) { fb_result_partition_release(self); }
static void fail(struct fb_result_partition* self) { fb_result_partition_fail(self, "it failed"); }
static void lose_reader(struct fb_result_partition* self) {
  fb_result_partition_lose_reader(self, "its cable was cut");
}
static void abort_it(struct fb_result_partition* self) { fb_result_partition_abort(self, "it is closed"); }

static void (*const WAYS_TO_WRITE[])(struct fixture*) = {write_record, write_long_record,  write_to_all,
                                                         write_event,  write_event_to_all, write_in_place};
static void (*const WAYS_TO_GO[])(struct fb_result_partition*) = {release, fail, lose_reader, abort_it};
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A release reaches one subpartition after the other, and tells the reader of the first before it comes to the second:
 * what this listener does happens between the two, every time. */
struct interloper {
  struct fixture f;
  void (*write)(struct fixture* self);
  uint32_t calls;
};

/* The producer writes and ends; the reader of subpartition 1 takes all that it is given. */
static void write_finish_and_read(void* context, uint32_t index) {
  struct interloper* self = context;
  struct fb_polled_buffer polled;
  bool has_ended = false;
  size_t size = 0;

  CHECK(index == 0 && self->calls++ == 0);
  self->write(&self->f);
  fb_result_partition_finish(self->f.partition);
  while (fb_subpartition_poll(fb_pipelined_partition_queue(self->f.partition, 1), NULL, &polled) == 1) {
    CHECK(!has_ended);
    has_ended = polled.slice.data_type == FB_END_OF_PARTITION;
    size += has_ended ? 0 : polled.slice.size;
    fb_buffer_slice_release(&polled.slice);
  }
  CHECK(!has_ended || size >= strlen("before") + strlen("after"));
}

static void play_release(enum fb_result_partition_type type, void (*write)(struct fixture*),
                         void (*go)(struct fb_result_partition*)) {
  struct interloper self = {.write = write};
  struct fb_availability_listener listener = {write_finish_and_read, no_priority, &self};

  if (type == FB_PIPELINED_APPROXIMATE && go == lose_reader) return; /* there it means nothing */
  open_fixture(&self.f, type, 2, FB_UNBOUNDED);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(self.f.partition, 0), listener.context,
                               &(struct fb_view_options){.listener = listener}) == FB_OK);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(self.f.partition, 1), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  CHECK(emit(&self.f, 1, "before") == FB_OK);
  go(self.f.partition);
  CHECK(self.calls == 1 && fb_result_partition_is_released(self.f.partition));
  close_fixture(&self.f);
}

/* A reader that is given the end of its channel was given all that was written before it, whenever the partition goes. */
static void no_end_follows_what_a_release_dropped(void) {
  for (int type = FB_PIPELINED; type <= FB_PIPELINED_APPROXIMATE; type++)
    for (size_t i = 0; i < LENGTH(WAYS_TO_WRITE); i++)
      for (size_t j = 0; j < LENGTH(WAYS_TO_GO); j++)
        play_release((enum fb_result_partition_type)type, WAYS_TO_WRITE[i], WAYS_TO_GO[j]);
}

static void lose_and_close(void* context, uint32_t index) {
  struct fixture* self = context;
  (void)index;
  fb_result_partition_lose_reader(self->partition, "its partition went away");
  fb_result_partition_close(self->partition);
}

/* Who hears of a release while it is under way takes nothing for its reason, and nobody for lost. */
static void a_release_has_no_other_reason_than_its_own(void) {
  struct fixture f;
  struct fb_availability_listener listener = {lose_and_close, no_priority, &f};

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), listener.context,
                               &(struct fb_view_options){.listener = listener}) == FB_OK);
  fb_result_partition_release(f.partition);
  CHECK(fb_result_partition_verdict(f.partition) == FB_OK && fb_result_partition_failure(f.partition) == NULL);
  close_fixture(&f);
}

/* ---- threads ------------------------------------------------------------------------------------- */

#define READERS 2
#define ROUNDS  1000

struct traffic {
  struct fixture f;
  struct fb_wakeup wakeup;
  _Atomic bool is_stopping; /* relaxed: only says that it is time to go */
  pthread_t producer, flusher, readers[READERS];
  uint32_t next_reader;
  pthread_mutex_t lock;
};

static bool is_stopping(struct traffic* self) { return atomic_load_explicit(&self->is_stopping, memory_order_relaxed); }

static void* produce(void* argument) {
  struct traffic* self = argument;
  uint8_t bytes[40];

  for (size_t i = 0; !is_stopping(self); i++) {
    const uint8_t* data = bytes;
    size_t size = 1 + i * 7 % sizeof(bytes);
    int code;

    memset(bytes, (int)size, size);
    do {
      code = i % 5 == 0 ? fb_result_partition_broadcast(self->f.partition, &data, &size)
                        : fb_result_partition_emit(self->f.partition, (uint32_t)(i % READERS), &data, &size);
      CHECK(code == FB_OK || code == FB_NEEDS_BUFFER);
      if (code == FB_NEEDS_BUFFER) fb_result_partition_wait(self->f.partition, 1);
    } while (code == FB_NEEDS_BUFFER && !is_stopping(self));
    if (i % 11 == 0 && code == FB_OK)
      CHECK(fb_result_partition_broadcast_event(self->f.partition, bytes, 1, FB_EVENT_BUFFER) == FB_OK);
  }
  fb_result_partition_close(self->f.partition);
  return NULL;
}

static void* flush(void* argument) {
  struct traffic* self = argument;

  while (!is_stopping(self)) fb_result_partition_flush_all(self->f.partition);
  return NULL;
}

static void ring(void* context, uint32_t index) {
  (void)index;
  fb_wakeup_ring(context);
}

static void* read_all(void* argument) {
  struct traffic* self = argument;
  struct fb_availability_listener listener = {ring, no_priority, &self->wakeup};
  struct fb_subpartition* subpartition;
  int code;

  pthread_mutex_lock(&self->lock);
  subpartition = fb_pipelined_partition_queue(self->f.partition, self->next_reader++);
  pthread_mutex_unlock(&self->lock);
  fb_result_partition_retain(self->f.partition);
  code = fb_subpartition_attach(subpartition, listener.context, &(struct fb_view_options){.listener = listener});
  while (code >= 0 && !is_stopping(self)) {
    uint64_t seen = fb_wakeup_seen(&self->wakeup);
    struct fb_polled_buffer polled;

    code = fb_subpartition_poll(subpartition, NULL, &polled);
    if (code == 1) fb_buffer_slice_release(&polled.slice);
    if (code == 0) fb_wakeup_wait(&self->wakeup, seen, 1);
  }
  CHECK(code >= 0 || code == FB_ERELEASED);
  fb_subpartition_detach(subpartition, NULL);
  fb_result_partition_drop(self->f.partition);
  return NULL;
}

/* ---- acknowledgements ------------------------------------------------------------------------------ */

static void the_producer_learns_when_all_readers_have_processed_everything(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 3, FB_UNBOUNDED);
  CHECK(!fb_result_partition_is_acknowledged(f.partition));
  fb_result_partition_acknowledge(f.partition, 2);
  fb_result_partition_acknowledge(f.partition, 2);
  fb_result_partition_acknowledge(f.partition, 0);
  CHECK(!fb_result_partition_is_acknowledged(f.partition));
  CHECK(!fb_result_partition_wait_acknowledged(f.partition, 0));
  CHECK(!fb_result_partition_wait_acknowledged(f.partition, 5));
  fb_result_partition_acknowledge(f.partition, 1);
  CHECK(fb_result_partition_is_acknowledged(f.partition));
  CHECK(fb_result_partition_wait_acknowledged(f.partition, 0));
  fb_result_partition_acknowledge(f.partition, 1);
  fb_result_partition_release(f.partition);
  CHECK(fb_result_partition_is_acknowledged(f.partition));
  close_fixture(&f);
}

static void nobody_waits_for_a_reader_that_left_without_a_word(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  for (uint32_t i = 0; i < 2; i++)
    CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, i), NULL,
                                 &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  fb_result_partition_acknowledge(f.partition, 0);
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 0), NULL);
  CHECK(!fb_result_partition_wait_acknowledged(f.partition, 0)); /* the other may still */
  fb_subpartition_detach(fb_pipelined_partition_queue(f.partition, 1), NULL);
  CHECK(fb_result_partition_wait_acknowledged(f.partition, -1));
  CHECK(!fb_result_partition_is_acknowledged(f.partition));
  close_fixture(&f);
}

static void* acknowledge_or_leave(void* argument) {
  struct traffic* self = argument;
  uint32_t index;

  pthread_mutex_lock(&self->lock);
  index = self->next_reader++;
  pthread_mutex_unlock(&self->lock);
  if (index > 0 || !is_stopping(self)) fb_result_partition_acknowledge(self->f.partition, index);
  fb_subpartition_detach(fb_pipelined_partition_queue(self->f.partition, index), NULL);
  return NULL;
}

static void a_waiting_producer_is_woken_by_the_last_reader(void) {
  for (int round = 0; round < ROUNDS; round++) {
    struct traffic t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    bool is_left = round % 2 == 0;

    atomic_init(&t.is_stopping, is_left); /* then one of them leaves without a word */
    open_fixture(&t.f, FB_PIPELINED, READERS, FB_UNBOUNDED);
    for (uint32_t i = 0; i < READERS; i++)
      CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(t.f.partition, i), NULL,
                                   &(struct fb_view_options){.listener = DEAF}) == FB_OK);
    for (int i = 0; i < READERS; i++) CHECK(pthread_create(&t.readers[i], NULL, acknowledge_or_leave, &t) == 0);
    CHECK(fb_result_partition_wait_acknowledged(t.f.partition, -1));
    CHECK(fb_result_partition_is_acknowledged(t.f.partition) == !is_left);
    for (int i = 0; i < READERS; i++) pthread_join(t.readers[i], NULL);
    close_fixture(&t.f);
  }
}

static void take(struct fixture* self, uint32_t subpartition) {
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(fb_pipelined_partition_queue(self->partition, subpartition), NULL, &polled) == 1);
  fb_buffer_slice_release(&polled.slice);
}

/* Two outputs, and none of their own bells: whatever one of them waits for rings the task's. */
static void a_task_sleeps_on_one_bell_for_all_its_partitions(void) {
  struct fb_wakeup_shared* bell;
  struct fb_wakeup_shared* other;
  struct fixture f[2];
  uint64_t seen;

  CHECK(fb_wakeup_shared_open(&bell) == FB_OK && fb_wakeup_shared_open(&other) == FB_OK);
  for (int i = 0; i < 2; i++) {
    open_fixture(&f[i], FB_PIPELINED_BOUNDED, 1, 2);
    CHECK(fb_result_partition_share_wakeup(f[i].partition, bell) == FB_OK);
    CHECK(fb_result_partition_share_wakeup(f[i].partition, other) == FB_ESTATE);
    CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f[i].partition, 0), NULL,
                                 &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  }
  fb_wakeup_shared_drop(other);
  for (int i = 0; i < 2; i++) {
    while (emit(&f[i], 0, "0123456789abcdef") == FB_OK) continue;
    CHECK(!fb_result_partition_wait(f[i].partition, 0));
    seen = fb_wakeup_seen(&bell->wakeup);
    take(&f[i], 0);
    CHECK(fb_wakeup_wait(&bell->wakeup, seen, 0)); /* there is room again */
    CHECK(fb_result_partition_wait(f[i].partition, 0));
    CHECK(fb_wakeup_seen(&f[i].partition->own_wakeup) == 0);
  }
  CHECK(!fb_result_partition_is_answered(f[0].partition));
  seen = fb_wakeup_seen(&bell->wakeup);
  fb_result_partition_acknowledge(f[0].partition, 0);
  CHECK(fb_wakeup_wait(&bell->wakeup, seen, 0) && fb_result_partition_is_answered(f[0].partition));
  seen = fb_wakeup_seen(&bell->wakeup);
  fb_wakeup_shared_drop(bell); /* the partitions hold it */
  fb_subpartition_detach(fb_pipelined_partition_queue(f[1].partition, 0), NULL);
  CHECK(fb_wakeup_wait(&bell->wakeup, seen, 0) && fb_result_partition_is_answered(f[1].partition));
  seen = fb_wakeup_seen(&bell->wakeup);
  fb_result_partition_abort(f[0].partition, "it is closed");
  CHECK(fb_wakeup_wait(&bell->wakeup, seen, 0));
  fb_result_partition_close(f[0].partition);
  CHECK(fb_result_partition_share_wakeup(f[0].partition, bell) == FB_ESTATE);
  for (int i = 0; i < 2; i++) close_fixture(&f[i]);
}

/* A reader that is done at this very moment rings the old bell or the new one; the producer looks before it sleeps. */
static void a_bell_is_taken_while_readers_ring(void) {
  for (int round = 0; round < ROUNDS; round++) {
    struct traffic t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct fb_wakeup_shared* bell;
    uint64_t seen;

    atomic_init(&t.is_stopping, round % 2 == 0);
    CHECK(fb_wakeup_shared_open(&bell) == FB_OK);
    open_fixture(&t.f, FB_PIPELINED, READERS, FB_UNBOUNDED);
    for (uint32_t i = 0; i < READERS; i++)
      CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(t.f.partition, i), NULL,
                                   &(struct fb_view_options){.listener = DEAF}) == FB_OK);
    for (int i = 0; i < READERS; i++) CHECK(pthread_create(&t.readers[i], NULL, acknowledge_or_leave, &t) == 0);
    CHECK(fb_result_partition_share_wakeup(t.f.partition, bell) == FB_OK);
    seen = fb_wakeup_seen(&bell->wakeup);
    while (!fb_result_partition_is_answered(t.f.partition)) {
      CHECK(fb_wakeup_wait(&bell->wakeup, seen, 20000)); /* a lost ring would show as a time-out */
      seen = fb_wakeup_seen(&bell->wakeup);
    }
    fb_result_partition_close(t.f.partition);
    fb_wakeup_shared_drop(bell); /* readers go on ringing it until the last one has gone */
    for (int i = 0; i < READERS; i++) pthread_join(t.readers[i], NULL);
    close_fixture(&t.f);
  }
}

/* Who writes for a reader that went without a word is told, whatever it does next; the others are told why. */
static void a_lost_reader_fails_the_partition_and_its_producer(void) {
  static const uint8_t end[] = {0, 0, 0, 8, 0};
  struct fixture f;

  open_fixture(&f, FB_PIPELINED, 2, FB_UNBOUNDED);
  CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(f.partition, 0), NULL,
                               &(struct fb_view_options){.listener = DEAF}) == FB_OK);
  CHECK(emit(&f, 0, "before") == FB_OK && emit(&f, 1, "before") == FB_OK);
  CHECK(!fb_result_partition_is_reader_lost(f.partition));
  fb_result_partition_lose_reader(f.partition, "its cable was cut");
  fb_result_partition_lose_reader(f.partition, "too late");
  CHECK(fb_result_partition_is_reader_lost(f.partition) && fb_result_partition_is_released(f.partition));
  CHECK(strcmp(fb_result_partition_failure(f.partition), "its cable was cut") == 0);
  CHECK(emit(&f, 0, "a record that is longer than its segment") == FB_ELOST && emit(&f, 1, "after") == FB_ELOST);
  CHECK(broadcast(&f, "after") == FB_ELOST);
  CHECK(fb_result_partition_open_unicast(f.partition, 1) == FB_ELOST);
  CHECK(fb_result_partition_open_broadcast(f.partition) == FB_ELOST);
  CHECK(fb_result_partition_broadcast_event(f.partition, end, sizeof end, FB_END_OF_DATA) == FB_ELOST);
  CHECK(fb_result_partition_finish(f.partition) == FB_ELOST && !f.partition->is_finished);
  close_fixture(&f);
}

/* Who writes what somebody else has given up is told so, in the middle of a record, too; the first verdict stays. */
static void an_aborted_partition_takes_nothing_more(void) {
  static const uint8_t end[] = {0, 0, 0, 8, 0};
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 2, FB_UNBOUNDED);
  CHECK(fb_result_partition_verdict(f.partition) == FB_OK && emit(&f, 0, "before") == FB_OK);
  fb_result_partition_abort(f.partition, "it is closed");
  fb_result_partition_abort(f.partition, "too late");
  CHECK(fb_result_partition_verdict(f.partition) == FB_ERELEASED && fb_result_partition_is_released(f.partition));
  CHECK(!fb_result_partition_is_reader_lost(f.partition));
  CHECK(strcmp(fb_result_partition_failure(f.partition), "it is closed") == 0);
  CHECK(emit(&f, 0, "a record that is longer than its segment") == FB_ERELEASED);
  CHECK(emit(&f, 1, "after") == FB_ERELEASED && broadcast(&f, "after") == FB_ERELEASED);
  CHECK(fb_result_partition_open_unicast(f.partition, 1) == FB_ERELEASED);
  CHECK(fb_result_partition_open_broadcast(f.partition) == FB_ERELEASED);
  CHECK(fb_result_partition_broadcast_event(f.partition, end, sizeof end, FB_END_OF_DATA) == FB_ERELEASED);
  CHECK(fb_result_partition_finish(f.partition) == FB_ERELEASED && !f.partition->is_finished);
  close_fixture(&f);

  open_fixture(&f, FB_PIPELINED, 1, FB_UNBOUNDED);
  fb_result_partition_release(f.partition); /* its writer drops what it writes; then it is told to stop */
  CHECK(emit(&f, 0, "dropped") == FB_OK);
  fb_result_partition_abort(f.partition, "it is closed");
  CHECK(emit(&f, 0, "refused") == FB_ERELEASED);
  close_fixture(&f);

  open_fixture(&f, FB_PIPELINED, 1, FB_UNBOUNDED);
  fb_result_partition_lose_reader(f.partition, "its cable was cut");
  fb_result_partition_abort(f.partition, "it is closed");
  CHECK(fb_result_partition_verdict(f.partition) == FB_ELOST && emit(&f, 0, "refused") == FB_ELOST);
  close_fixture(&f);
}

static void nobody_is_told_of_a_reader_that_may_be_replaced_or_is_done(void) {
  struct fixture f;

  open_fixture(&f, FB_PIPELINED_APPROXIMATE, 1, FB_UNBOUNDED);
  fb_result_partition_lose_reader(f.partition, "another comes");
  CHECK(!fb_result_partition_is_released(f.partition) && emit(&f, 0, "goes on") == FB_OK);
  close_fixture(&f);

  open_fixture(&f, FB_PIPELINED, 1, FB_UNBOUNDED);
  fb_result_partition_release(f.partition);
  fb_result_partition_lose_reader(f.partition, "nobody needs it");
  CHECK(fb_result_partition_failure(f.partition) == NULL && emit(&f, 0, "dropped") == FB_OK);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  close_fixture(&f);
}

static void release_against_traffic_brings_every_segment_home(void) {
  for (int round = 0; round < ROUNDS; round++) {
    struct traffic t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct timespec pause = {.tv_nsec = round % 10 * 60000};

    open_fixture(&t.f, (enum fb_result_partition_type)(round % 3), READERS, 6);
    CHECK(fb_wakeup_open(&t.wakeup) == FB_OK);
    CHECK(pthread_create(&t.producer, NULL, produce, &t) == 0);
    CHECK(pthread_create(&t.flusher, NULL, flush, &t) == 0);
    for (int i = 0; i < READERS; i++) CHECK(pthread_create(&t.readers[i], NULL, read_all, &t) == 0);
    nanosleep(&pause, NULL);
    if (round % 4 != 0) fb_result_partition_release(t.f.partition);
    atomic_store_explicit(&t.is_stopping, true, memory_order_relaxed);
    pthread_join(t.producer, NULL);
    pthread_join(t.flusher, NULL);
    for (int i = 0; i < READERS; i++) pthread_join(t.readers[i], NULL);
    close_fixture(&t.f);
    fb_wakeup_close(&t.wakeup);
  }
}

int main(void) {
  closing_from_two_threads_counts_once();
  a_lost_reader_fails_the_partition_and_its_producer();
  an_aborted_partition_takes_nothing_more();
  nobody_is_told_of_a_reader_that_may_be_replaced_or_is_done();
  records_are_cut_over_buffers_and_full_buffers_are_finished();
  unicast_and_broadcast_keep_their_order();
  in_place_writers_find_an_open_builder();
  emit_goes_on_where_the_pool_left_it();
  events_cut_all_buffers_and_need_no_memory_of_the_pool();
  an_unaligned_barrier_goes_first_and_says_what_it_overtook();
  in_the_middle_of_a_record_no_checkpoint_is_taken();
  a_barrier_with_a_timeout_is_converted_where_it_is_queued_still();
  what_is_restored_comes_first_in_buffers_that_fit_the_reader();
  nothing_can_be_written_after_finish();
  partial_record_lengths_follow_the_record();
  buffers_get_the_size_that_readers_want();
  small_buffer_is_widened_when_the_pool_has_no_other();
  small_buffer_keeps_its_size_if_one_waits_for_another();
  nobody_waits_for_buffers_of_a_reader_that_is_gone();
  new_reader_goes_on_with_the_next_whole_record();
  broken_records_are_skipped_over_trimmed_buffers_too();
  partition_is_released_when_all_readers_and_the_producer_are_done();
  a_partition_closed_before_its_end_fails();
  data_of_a_reader_that_left_is_dropped_and_holds_nobody_up();
  release_drops_all_and_later_data_costs_no_memory();
  no_end_follows_what_a_release_dropped();
  a_release_has_no_other_reason_than_its_own();
  the_producer_learns_when_all_readers_have_processed_everything();
  nobody_waits_for_a_reader_that_left_without_a_word();
  a_waiting_producer_is_woken_by_the_last_reader();
  a_task_sleeps_on_one_bell_for_all_its_partitions();
  a_bell_is_taken_while_readers_ring();
  release_against_traffic_brings_every_segment_home();
  return 0;
}
