/* Behaviours of Flink's PipelinedSubpartitionTest, PipelinedSubpartitionWithReadViewTest and
 * PipelinedApproximateSubpartitionTest, and the two threads that meet at a queue. */
#include "check.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "ground/wakeup.h"
#include "partition/subpartition.h"

/* ---- a recording listener, and buffers whose homecoming is counted ------------------------------- */

struct record {
  _Atomic int data;
  _Atomic int priority;
  int32_t sequence_number;
};

static void on_data(void* context, uint32_t index) {
  struct record* record = context;
  (void)index;
  atomic_fetch_add_explicit(&record->data, 1, memory_order_relaxed); /* a count, no partner */
}

static void on_priority(void* context, uint32_t index, int32_t sequence_number) {
  struct record* record = context;
  (void)index;
  record->sequence_number = sequence_number;
  atomic_fetch_add_explicit(&record->priority, 1, memory_order_relaxed);
}

static struct fb_availability_listener listen(struct record* record) {
  return (struct fb_availability_listener){on_data, on_priority, record};
}

static void recycle(struct fb_buffer* self) {
  atomic_fetch_sub_explicit((_Atomic int*)self->owner, 1, memory_order_relaxed);
  fb_memory_segment_close(&self->segment);
  free(self);
}

/* `out` counts the buffers that are not home. */
static struct fb_buffer_builder new_builder(_Atomic int* out, size_t size) {
  struct fb_buffer* buffer = calloc(1, sizeof(*buffer));
  struct fb_buffer_builder builder;

  CHECK(buffer != NULL && fb_memory_segment_open(&buffer->segment, size) == FB_OK);
  atomic_init(&buffer->references, 1);
  buffer->channel = FB_NO_CHANNEL;
  buffer->recycle = recycle;
  buffer->owner = (void*)out;
  atomic_fetch_add_explicit(out, 1, memory_order_relaxed);
  fb_buffer_builder_open(&builder, buffer);
  return builder;
}

static void write_bytes(struct fb_buffer_builder* builder, size_t count) {
  uint8_t bytes[64];

  memset(bytes, 7, sizeof(bytes));
  CHECK(fb_buffer_builder_append(builder, bytes, count) == count);
  fb_buffer_builder_commit(builder);
}

static int add_builder(struct fb_subpartition* subpartition, struct fb_buffer_builder* builder, int32_t partial) {
  struct fb_buffer_consumer consumer;
  int32_t size;

  CHECK(fb_buffer_builder_consumer(builder, true, &consumer) == FB_OK);
  return fb_subpartition_add(subpartition, &consumer, partial, &size);
}

/* A buffer whose consumer is made before its end is written: the queue learns of it at the next build. */
static void add_filled(struct fb_subpartition* subpartition, _Atomic int* out, size_t count) {
  struct fb_buffer_builder builder = new_builder(out, 64);
  struct fb_buffer_consumer consumer;
  int32_t size;

  write_bytes(&builder, count);
  CHECK(fb_buffer_builder_consumer(&builder, true, &consumer) == FB_OK);
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);
  CHECK(fb_subpartition_add(subpartition, &consumer, 0, &size) == FB_OK);
}

static int add_event(struct fb_subpartition* subpartition, enum fb_buffer_data_type type) {
  const uint8_t bytes[4] = {0, 0, 0, 2};
  struct fb_buffer_consumer consumer;
  struct fb_buffer_slice event;
  int32_t size;

  CHECK(fb_buffer_new_unpooled(bytes, sizeof(bytes), type, &event) == FB_OK);
  fb_buffer_consumer_open(&consumer, &event);
  return fb_subpartition_add(subpartition, &consumer, 0, &size);
}

static uint32_t backlog_of(struct fb_subpartition* subpartition) {
  struct fb_subpartition_usage usage;

  fb_subpartition_get_usage(subpartition, &usage);
  return usage.backlog;
}

static int finish(struct fb_subpartition* subpartition) {
  struct fb_buffer_consumer end;

  CHECK(fb_subpartition_new_end(&end) == FB_OK);
  return fb_subpartition_add_end(subpartition, &end);
}

static void expect(struct fb_subpartition* subpartition, enum fb_buffer_data_type type, uint32_t size, uint32_t backlog,
                   enum fb_buffer_data_type next) {
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(subpartition, NULL, &polled) == 1);
  CHECK(polled.slice.data_type == type && polled.slice.size == size);
  CHECK(polled.backlog == backlog && polled.next_data_type == next);
  fb_buffer_slice_release(&polled.slice);
}

static void expect_nothing(struct fb_subpartition* subpartition) {
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(subpartition, NULL, &polled) == 0);
  CHECK(polled.slice.buffer == NULL);
}

struct fixture {
  struct fb_subpartition subpartition;
  struct record record;
  _Atomic int out;
};

static void open_fixture(struct fixture* self, bool is_approximate) {
  struct fb_availability_listener listener = listen(&self->record);

  memset(self, 0, sizeof(*self));
  CHECK(fb_subpartition_open(&self->subpartition, 3, is_approximate) == FB_OK);
  CHECK(fb_subpartition_attach(&self->subpartition, listener.context,
                               &(struct fb_view_options){.listener = listener}) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  fb_subpartition_detach(&self->subpartition, NULL);
  fb_subpartition_close(&self->subpartition);
  CHECK(self->out == 0);
}

/* ---- PipelinedSubpartitionTest ------------------------------------------------------------------- */

static void second_view_is_refused(void) {
  struct fixture f;
  struct fb_availability_listener listener = listen(&f.record);

  open_fixture(&f, false);
  CHECK(fb_subpartition_attach(&f.subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_ESTATE);
  fb_subpartition_release(&f.subpartition);
  fb_subpartition_detach(&f.subpartition, NULL);
  CHECK(fb_subpartition_attach(&f.subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_ERELEASED);
  close_fixture(&f);
}

static void add_after_finish_or_release_closes_the_consumer(void) {
  struct fixture f;
  struct fb_buffer_builder builder;

  open_fixture(&f, false);
  CHECK(finish(&f.subpartition) == FB_OK);
  builder = new_builder(&f.out, 16);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_EFINISHED);
  fb_buffer_builder_close(&builder);
  CHECK(f.out == 0 && fb_subpartition_queued_buffers(&f.subpartition) == 1);

  fb_subpartition_release(&f.subpartition);
  builder = new_builder(&f.out, 16);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_ERELEASED);
  fb_buffer_builder_close(&builder);
  CHECK(f.out == 0);
  CHECK(finish(&f.subpartition) == FB_ERELEASED);
  close_fixture(&f);
}

static void release_frees_all_with_and_without_a_view(void) {
  for (int with_view = 0; with_view < 2; with_view++) {
    struct fb_availability_listener listener;
    struct fb_subpartition subpartition;
    struct fb_polled_buffer polled;
    struct record record = {0};
    _Atomic int out = 0;

    listener = listen(&record);
    CHECK(fb_subpartition_open(&subpartition, 0, false) == FB_OK);
    if (with_view)
      CHECK(fb_subpartition_attach(&subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
            FB_OK);
    for (int i = 0; i < 20; i++) add_filled(&subpartition, &out, 3);
    CHECK(out == 20);
    fb_subpartition_release(&subpartition);
    fb_subpartition_release(&subpartition);
    CHECK(out == 0 && record.data == (with_view ? 2 : 0)); /* the second buffer, and the release */
    CHECK(fb_subpartition_poll(&subpartition, NULL, &polled) == FB_ERELEASED && polled.slice.buffer == NULL);
    if (with_view) fb_subpartition_detach(&subpartition, NULL);
    fb_subpartition_close(&subpartition);
  }
}

/* ---- PipelinedSubpartitionWithReadViewTest ------------------------------------------------------- */

static void unfinished_buffer_before_another_is_an_error(void) {
  struct fixture f;
  struct fb_buffer_builder first, second;
  struct fb_polled_buffer polled;

  open_fixture(&f, false);
  first = new_builder(&f.out, 16);
  second = new_builder(&f.out, 16);
  CHECK(add_builder(&f.subpartition, &first, 0) == FB_OK);
  CHECK(add_builder(&f.subpartition, &second, 0) == FB_OK);
  CHECK(fb_subpartition_poll(&f.subpartition, NULL, &polled) == FB_ESTATE && polled.slice.buffer == NULL);
  fb_buffer_builder_close(&first);
  fb_buffer_builder_close(&second);
  close_fixture(&f);
}

static void empty_unfinished_buffer_notifies_nobody_and_the_second_buffer_does(void) {
  struct fixture f;
  struct fb_buffer_builder builder;

  open_fixture(&f, false);
  builder = new_builder(&f.out, 16);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_OK);
  CHECK(f.record.data == 0 && !fb_subpartition_is_available(&f.subpartition, true, NULL));
  expect_nothing(&f.subpartition);

  write_bytes(&builder, 5);
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);
  CHECK(f.record.data == 0);
  add_filled(&f.subpartition, &f.out, 6);
  CHECK(f.record.data == 1 && backlog_of(&f.subpartition) == 1);
  expect(&f.subpartition, FB_DATA_BUFFER, 5, 0, FB_NONE);
  CHECK(backlog_of(&f.subpartition) == 0);
  /* The last one is not announced, but whoever asks gets it. */
  CHECK(!fb_subpartition_is_available(&f.subpartition, true, NULL));
  expect(&f.subpartition, FB_DATA_BUFFER, 6, 0, FB_NONE);
  expect_nothing(&f.subpartition);
  CHECK(f.record.data == 1);
  close_fixture(&f);
}

static void several_empty_finished_buffers_are_skipped_in_one_poll(void) {
  struct fixture f;

  open_fixture(&f, false);
  for (int i = 0; i < 5; i++) add_filled(&f.subpartition, &f.out, 0);
  add_filled(&f.subpartition, &f.out, 9);
  CHECK(backlog_of(&f.subpartition) == 5);
  expect(&f.subpartition, FB_DATA_BUFFER, 9, 0, FB_NONE);
  CHECK(f.out == 0 && fb_subpartition_queued_buffers(&f.subpartition) == 0);
  close_fixture(&f);
}

static void empty_finished_buffers_are_given_to_a_reader_without_exclusive_buffers(void) {
  struct fixture f;

  open_fixture(&f, false);
  f.subpartition.options.sends_empty_buffers = true;
  add_filled(&f.subpartition, &f.out, 0);
  add_filled(&f.subpartition, &f.out, 4);
  expect(&f.subpartition, FB_DATA_BUFFER, 0, 0, FB_NONE);
  expect(&f.subpartition, FB_DATA_BUFFER, 4, 0, FB_NONE);
  expect_nothing(&f.subpartition);
  close_fixture(&f);
}

static void flush_notifies_for_a_single_buffer_with_data_only(void) {
  struct fixture f;
  struct fb_buffer_builder builder;

  open_fixture(&f, false);
  fb_subpartition_flush(&f.subpartition); /* an empty queue */
  CHECK(f.record.data == 0);

  builder = new_builder(&f.out, 16);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_OK);
  fb_subpartition_flush(&f.subpartition); /* one buffer, no data */
  CHECK(f.record.data == 0 && !fb_subpartition_is_available(&f.subpartition, true, NULL));

  write_bytes(&builder, 3);
  CHECK(backlog_of(&f.subpartition) == 0);
  fb_subpartition_flush(&f.subpartition);
  fb_subpartition_flush(&f.subpartition); /* the second is silent */
  CHECK(f.record.data == 1 && backlog_of(&f.subpartition) == 1);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 0, FB_NONE);
  CHECK(fb_subpartition_queued_buffers(&f.subpartition) == 1); /* it goes on filling */

  fb_subpartition_flush(&f.subpartition); /* nothing new */
  CHECK(f.record.data == 1);
  write_bytes(&builder, 2);
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);
  add_filled(&f.subpartition, &f.out, 8);
  CHECK(f.record.data == 2);              /* the second buffer */
  fb_subpartition_flush(&f.subpartition); /* two buffers: silent, but the last one counts now */
  CHECK(f.record.data == 2 && backlog_of(&f.subpartition) == 2);
  expect(&f.subpartition, FB_DATA_BUFFER, 2, 1, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 8, 0, FB_NONE);
  close_fixture(&f);
}

static struct fb_subpartition_usage usage_of(struct fixture* self) {
  struct fb_subpartition_usage usage;
  fb_subpartition_get_usage(&self->subpartition, &usage);
  return usage;
}

static void bytes_count_when_polled_and_buffers_when_added_and_events_are_no_backlog(void) {
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 5);
  CHECK(add_event(&f.subpartition, FB_EVENT_BUFFER) == FB_OK);
  CHECK(fb_subpartition_total_buffers(&f.subpartition) == 2);
  CHECK(usage_of(&f).bytes == 0);
  CHECK(backlog_of(&f.subpartition) == 1);
  expect(&f.subpartition, FB_DATA_BUFFER, 5, 0, FB_EVENT_BUFFER);
  CHECK(usage_of(&f).bytes == 5);
  CHECK(fb_subpartition_is_available(&f.subpartition, false, NULL)); /* an event needs no credit */
  expect(&f.subpartition, FB_EVENT_BUFFER, 4, 0, FB_NONE);
  CHECK(usage_of(&f).bytes == 9);
  close_fixture(&f);
}

static void sleep_ms(long ms) {
  struct timespec pause = {.tv_nsec = ms * 1000000};
  nanosleep(&pause, NULL);
}

static void age_is_that_of_the_first_unread_byte_at_most(void) {
  struct fb_buffer_builder builder;
  struct fixture f;

  open_fixture(&f, false);
  CHECK(usage_of(&f).oldest_ms == 0 && usage_of(&f).queued == 0 && usage_of(&f).credit == -1);
  builder = new_builder(&f.out, 16);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_OK);
  sleep_ms(20);
  CHECK(usage_of(&f).queued == 1 && usage_of(&f).oldest_ms == 0); /* open, and nothing is in it */
  write_bytes(&builder, 3);
  CHECK(usage_of(&f).oldest_ms >= 20 && usage_of(&f).backlog == 0);
  fb_subpartition_flush(&f.subpartition);
  CHECK(usage_of(&f).backlog == 1);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 0, FB_NONE);
  CHECK(usage_of(&f).oldest_ms == 0 && usage_of(&f).bytes == 3);
  write_bytes(&builder, 3);
  CHECK(usage_of(&f).oldest_ms < 20); /* what came after was not there before */
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);
  sleep_ms(20);
  add_filled(&f.subpartition, &f.out, 8);
  CHECK(usage_of(&f).queued == 2 && usage_of(&f).oldest_ms >= 20);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 0, FB_NONE);
  CHECK(usage_of(&f).oldest_ms < 20 && usage_of(&f).buffers == 2);
  fb_subpartition_set_credit(&f.subpartition, 5);
  CHECK(usage_of(&f).credit == 5);
  close_fixture(&f);
}

static void priority_events_overtake_in_their_own_order(void) {
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 1);
  CHECK(f.record.data == 0);
  add_filled(&f.subpartition, &f.out, 2);
  CHECK(f.record.data == 1 && f.record.priority == 0);
  CHECK(add_event(&f.subpartition, FB_EVENT_BUFFER) == FB_OK);
  add_filled(&f.subpartition, &f.out, 4);
  CHECK(f.record.data == 1 && f.record.priority == 0);
  CHECK(add_event(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  CHECK(add_event(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  CHECK(f.record.data == 1 && f.record.priority == 1 && f.record.sequence_number == 0);

  CHECK(fb_subpartition_is_available(&f.subpartition, false, NULL));
  expect(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER, 4, 2, FB_PRIORITIZED_EVENT_BUFFER);
  expect(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER, 4, 2, FB_DATA_BUFFER);
  CHECK(!fb_subpartition_is_available(&f.subpartition, false, NULL));
  expect(&f.subpartition, FB_DATA_BUFFER, 1, 1, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 2, 0, FB_EVENT_BUFFER);
  expect(&f.subpartition, FB_EVENT_BUFFER, 4, 0, FB_NONE);
  expect(&f.subpartition, FB_DATA_BUFFER, 4, 0, FB_NONE);
  close_fixture(&f);
}

/* Growth and the wrap of the ring, with priority events pushed in front of a moved head. */
static void the_queue_keeps_its_order_while_it_grows(void) {
  struct fixture f;
  int32_t sequence = 0;

  open_fixture(&f, false);
  for (uint32_t round = 1; round < 40; round++) {
    struct fb_polled_buffer polled;

    for (uint32_t i = 1; i <= round; i++) add_filled(&f.subpartition, &f.out, i);
    CHECK(add_event(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
    for (uint32_t i = 0; i <= round; i++) {
      CHECK(fb_subpartition_poll(&f.subpartition, NULL, &polled) == 1);
      CHECK(polled.slice.size == (i == 0 ? 4 : i) && polled.sequence_number == sequence++);
      fb_buffer_slice_release(&polled.slice);
    }
    CHECK(f.record.sequence_number == sequence - (int32_t)round - 1 && f.out == 0);
  }
  close_fixture(&f);
}

static void aligned_barrier_blocks_until_resume(void) {
  struct fixture f;
  uint32_t backlog = 9;

  open_fixture(&f, false);
  CHECK(fb_subpartition_resume(&f.subpartition, NULL) == FB_ESTATE);
  CHECK(add_event(&f.subpartition, FB_ALIGNED_CHECKPOINT_BARRIER) == FB_OK);
  CHECK(f.record.data == 1);
  add_filled(&f.subpartition, &f.out, 3);
  CHECK(f.record.data == 2); /* still one that is known to be finished: told again, which does no harm */
  expect(&f.subpartition, FB_ALIGNED_CHECKPOINT_BARRIER, 4, 0, FB_NONE);

  add_filled(&f.subpartition, &f.out, 4);
  CHECK(add_event(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  fb_subpartition_flush(&f.subpartition);
  CHECK(f.record.data == 2 && f.record.priority == 0);
  CHECK(!fb_subpartition_is_available(&f.subpartition, true, &backlog) && backlog == 0);
  CHECK(!fb_subpartition_is_available(&f.subpartition, false, NULL));
  expect_nothing(&f.subpartition);

  CHECK(fb_subpartition_resume(&f.subpartition, NULL) == FB_OK);
  CHECK(fb_subpartition_is_available(&f.subpartition, true, &backlog) && backlog == 2);
  expect(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER, 4, 2, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 1, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 4, 0, FB_NONE);
  close_fixture(&f);
}

static void timeoutable_barrier_waits_its_turn_and_blocks(void) {
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 3);
  CHECK(add_event(&f.subpartition, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER) == FB_OK);
  CHECK(f.record.data == 1 && f.record.priority == 0);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 0, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  expect(&f.subpartition, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, 4, 0, FB_NONE);
  CHECK(fb_subpartition_resume(&f.subpartition, NULL) == FB_OK);
  close_fixture(&f);
}

static struct fb_buffer_consumer new_barrier(int64_t id, enum fb_buffer_data_type type) {
  uint8_t bytes[34] = {0, 0, 0, 1};
  struct fb_buffer_consumer consumer;
  struct fb_buffer_slice event;

  bytes[11] = (uint8_t)id;
  memset(bytes + 21, 0xff, 4); /* the default location */
  bytes[25] = 1;               /* ALIGNED */
  bytes[32] = 100;             /* some timeout */
  CHECK(fb_buffer_new_unpooled(bytes, sizeof bytes, type, &event) == FB_OK);
  fb_buffer_consumer_open(&consumer, &event);
  return consumer;
}

static int add_timeoutable(struct fb_subpartition* subpartition, int64_t id) {
  struct fb_buffer_consumer barrier = new_barrier(id, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  int32_t size;
  return fb_subpartition_add(subpartition, &barrier, 0, &size);
}

static void expect_sizes(struct fb_slice_list* list, uint32_t count, const uint32_t* sizes) {
  CHECK(list->count == count);
  for (uint32_t i = 0; i < count; i++) CHECK(list->items[i].size == sizes[i]);
  fb_slice_list_close(list);
}

/* PipelinedSubpartitionWithReadViewTest.testBarrierOvertaking: sizes 1, 2, 4; of the first, part was read. */
static void an_unaligned_barrier_overtakes_and_what_is_unread_is_listed(void) {
  struct fb_buffer_consumer barrier = new_barrier(1, FB_PRIORITIZED_EVENT_BUFFER);
  struct fb_slice_list list = {0};
  struct fixture f;
  struct fb_buffer_builder builder;

  open_fixture(&f, false);
  builder = new_builder(&f.out, 64);
  write_bytes(&builder, 5);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_OK);
  expect(&f.subpartition, FB_DATA_BUFFER, 5, 0, FB_NONE);
  write_bytes(&builder, 1);
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);
  add_filled(&f.subpartition, &f.out, 2);
  CHECK(add_event(&f.subpartition, FB_EVENT_BUFFER) == FB_OK);
  add_filled(&f.subpartition, &f.out, 0); /* nothing to read */
  add_filled(&f.subpartition, &f.out, 4);

  CHECK(fb_subpartition_reserve_overtaken(&f.subpartition, &list) == FB_OK);
  CHECK(fb_subpartition_add_overtaking(&f.subpartition, &barrier, &list) == FB_OK);
  CHECK(f.record.priority == 1 && f.record.sequence_number == 1);
  expect_sizes(&list, 3, (const uint32_t[]){1, 2, 4});

  expect(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER, 34, 3, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 1, 2, FB_DATA_BUFFER); /* they stay in the queue */
  expect(&f.subpartition, FB_DATA_BUFFER, 2, 1, FB_EVENT_BUFFER);
  expect(&f.subpartition, FB_EVENT_BUFFER, 4, 1, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 4, 0, FB_NONE);
  close_fixture(&f);
}

static void nothing_is_listed_for_a_reader_that_is_gone(void) {
  struct fb_buffer_consumer barrier = new_barrier(1, FB_PRIORITIZED_EVENT_BUFFER);
  struct fb_slice_list list = {0};
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 2);
  CHECK(fb_subpartition_reserve_overtaken(&f.subpartition, &list) == FB_OK);
  fb_subpartition_release(&f.subpartition);
  CHECK(fb_subpartition_add_overtaking(&f.subpartition, &barrier, &list) == FB_ERELEASED);
  expect_sizes(&list, 0, NULL);
  CHECK(fb_subpartition_convert_barrier(&f.subpartition, 1, &list) == 0);
  close_fixture(&f);
}

static void a_barrier_that_waits_too_long_overtakes_after_all(void) {
  struct fb_slice_list list = {0};
  struct fb_polled_buffer polled;
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 1);
  add_filled(&f.subpartition, &f.out, 2);
  CHECK(add_timeoutable(&f.subpartition, 6) == FB_OK);
  add_filled(&f.subpartition, &f.out, 4);
  CHECK(add_timeoutable(&f.subpartition, 7) == FB_OK); /* the one before was given up meanwhile */
  add_filled(&f.subpartition, &f.out, 8);
  CHECK(fb_subpartition_has_barrier(&f.subpartition, 7) && !fb_subpartition_has_barrier(&f.subpartition, 8));

  CHECK(fb_subpartition_reserve_overtaken(&f.subpartition, &list) == FB_OK);
  CHECK(fb_subpartition_convert_barrier(&f.subpartition, 8, &list) == 0 && f.record.priority == 0);
  CHECK(fb_subpartition_convert_barrier(&f.subpartition, 7, &list) == 1);
  CHECK(f.record.priority == 1 && f.record.sequence_number == 0);
  expect_sizes(&list, 3, (const uint32_t[]){1, 2, 4}); /* what is behind it was written after it */
  CHECK(fb_subpartition_convert_barrier(&f.subpartition, 7, &list) == 0);
  CHECK(!fb_subpartition_has_barrier(&f.subpartition, 7) && fb_subpartition_has_barrier(&f.subpartition, 6));

  CHECK(fb_subpartition_poll(&f.subpartition, NULL, &polled) == 1);
  CHECK(polled.slice.data_type == FB_PRIORITIZED_EVENT_BUFFER && polled.slice.size == 34);
  CHECK(fb_buffer_slice_data(&polled.slice)[11] == 7 && fb_buffer_slice_data(&polled.slice)[25] == 2); /* UNALIGNED */
  fb_buffer_slice_release(&polled.slice);
  expect(&f.subpartition, FB_DATA_BUFFER, 1, 2, FB_DATA_BUFFER); /* it does not block */
  close_fixture(&f);
}

static uint32_t barriers_polled;
static void on_barrier_polled(struct fb_subpartition* self) {
  CHECK(self->index == 3);
  barriers_polled++;
}

static void a_barrier_that_was_sent_is_converted_no_more(void) {
  struct fb_slice_list list = {0};
  struct fixture f;

  open_fixture(&f, false);
  f.subpartition.on_barrier_polled = on_barrier_polled;
  barriers_polled = 0;
  CHECK(add_timeoutable(&f.subpartition, 1) == FB_OK);
  add_filled(&f.subpartition, &f.out, 1);
  CHECK(barriers_polled == 0);
  expect(&f.subpartition, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, 34, 0, FB_NONE);
  CHECK(barriers_polled == 1);
  CHECK(!fb_subpartition_has_barrier(&f.subpartition, 1));
  CHECK(fb_subpartition_convert_barrier(&f.subpartition, 1, &list) == 0 && list.count == 0);
  expect_nothing(&f.subpartition); /* blocked */
  CHECK(fb_subpartition_resume(&f.subpartition, NULL) == FB_OK);
  expect(&f.subpartition, FB_DATA_BUFFER, 1, 0, FB_NONE);
  CHECK(barriers_polled == 1);
  close_fixture(&f);
}

/* While an older barrier blocks it, a converted one waits, and nobody is told before the resume. */
static void a_blocked_reader_hears_of_a_converted_barrier_after_the_resume(void) {
  struct fb_slice_list list = {0};
  struct fixture f;

  open_fixture(&f, false);
  CHECK(add_timeoutable(&f.subpartition, 1) == FB_OK);
  expect(&f.subpartition, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, 34, 0, FB_NONE);
  add_filled(&f.subpartition, &f.out, 1);
  CHECK(add_timeoutable(&f.subpartition, 2) == FB_OK);
  CHECK(fb_subpartition_reserve_overtaken(&f.subpartition, &list) == FB_OK);
  CHECK(fb_subpartition_convert_barrier(&f.subpartition, 2, &list) == 1 && f.record.priority == 0);
  expect_sizes(&list, 1, (const uint32_t[]){1});
  expect_nothing(&f.subpartition);
  CHECK(fb_subpartition_resume(&f.subpartition, NULL) == FB_OK);
  expect(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER, 34, 0, FB_NONE);
  close_fixture(&f);
}

static void with_priority_only_that_is_polled(void) {
  struct fb_polled_buffer polled;
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 1);
  CHECK(fb_subpartition_poll_priority(&f.subpartition, &f.record, &polled) == 0);
  CHECK(add_event(&f.subpartition, FB_PRIORITIZED_EVENT_BUFFER) == FB_OK);
  CHECK(fb_subpartition_poll_priority(&f.subpartition, &f, &polled) == FB_ESTATE); /* not its reader */
  CHECK(fb_subpartition_poll_priority(&f.subpartition, &f.record, &polled) == 1);
  CHECK(polled.slice.data_type == FB_PRIORITIZED_EVENT_BUFFER);
  fb_buffer_slice_release(&polled.slice);
  CHECK(fb_subpartition_poll_priority(&f.subpartition, &f.record, &polled) == 0);
  expect(&f.subpartition, FB_DATA_BUFFER, 1, 0, FB_NONE);
  close_fixture(&f);
}

static void finish_always_notifies_and_makes_all_backlog_consumable(void) {
  struct fixture f;

  open_fixture(&f, false);
  add_filled(&f.subpartition, &f.out, 3);
  add_filled(&f.subpartition, &f.out, 3);
  CHECK(f.record.data == 1 && backlog_of(&f.subpartition) == 1);
  CHECK(finish(&f.subpartition) == FB_OK);
  CHECK(finish(&f.subpartition) == FB_EFINISHED);
  CHECK(f.record.data == 2 && backlog_of(&f.subpartition) == 2);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 1, FB_DATA_BUFFER);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 0, FB_END_OF_PARTITION);
  expect(&f.subpartition, FB_END_OF_PARTITION, 4, 0, FB_NONE);
  expect_nothing(&f.subpartition);
  close_fixture(&f);
}

static void desired_buffer_size_is_what_the_reader_said_last(void) {
  struct fixture f;
  struct fb_buffer_consumer consumer;
  struct fb_buffer_slice event;
  int32_t size;

  open_fixture(&f, false);
  CHECK(fb_subpartition_set_buffer_size(&f.subpartition, -1) == FB_EARGUMENT);
  for (int32_t wanted = 0; wanted < 3; wanted++) {
    CHECK(fb_subpartition_set_buffer_size(&f.subpartition, wanted) == FB_OK);
    CHECK(fb_buffer_new_unpooled((const uint8_t*)"", 1, FB_EVENT_BUFFER, &event) == FB_OK);
    fb_buffer_consumer_open(&consumer, &event);
    CHECK(fb_subpartition_add(&f.subpartition, &consumer, 0, &size) == FB_OK && size == wanted);
  }
  close_fixture(&f);
}

/* ---- PipelinedApproximateSubpartitionTest -------------------------------------------------------- */

static void new_view_replaces_the_first_and_starts_to_count_anew(void) {
  struct fixture f;
  struct record second = {0};
  struct fb_availability_listener listener = listen(&second);
  struct fb_polled_buffer polled;

  open_fixture(&f, true);
  CHECK(add_event(&f.subpartition, FB_ALIGNED_CHECKPOINT_BARRIER) == FB_OK);
  expect(&f.subpartition, FB_ALIGNED_CHECKPOINT_BARRIER, 4, 0, FB_NONE);
  CHECK(fb_subpartition_attach(&f.subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_OK);
  add_filled(&f.subpartition, &f.out, 1); /* no longer blocked */
  add_filled(&f.subpartition, &f.out, 2);
  CHECK(f.record.data == 2 && second.data == 1); /* the first was told to look once more */
  CHECK(fb_subpartition_poll(&f.subpartition, &f.record, &polled) == FB_ESTATE && polled.slice.buffer == NULL);
  CHECK(fb_subpartition_poll(&f.subpartition, &second, &polled) == 1 && polled.sequence_number == 0);
  fb_buffer_slice_release(&polled.slice);
  CHECK(add_event(&f.subpartition, FB_ALIGNED_CHECKPOINT_BARRIER) == FB_OK);
  CHECK(fb_subpartition_poll(&f.subpartition, &second, &polled) == 1);
  fb_buffer_slice_release(&polled.slice);
  CHECK(fb_subpartition_poll(&f.subpartition, &second, &polled) == 1);
  fb_buffer_slice_release(&polled.slice);
  CHECK(fb_subpartition_resume(&f.subpartition, &f.record) == FB_ESTATE); /* the other's barrier */
  CHECK(fb_subpartition_resume(&f.subpartition, &second) == FB_OK);
  fb_subpartition_detach(&f.subpartition, NULL);
  CHECK(!fb_subpartition_is_released(&f.subpartition)); /* it waits for its next reader */
  CHECK(fb_subpartition_attach(&f.subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_OK);
  close_fixture(&f);
}

static void partial_records_are_skipped_wherever_the_reader_left(void) {
  struct fixture f;
  struct fb_availability_listener listener = listen(&f.record);
  struct fb_buffer_builder builder;
  struct fb_polled_buffer polled;

  open_fixture(&f, true);
  builder = new_builder(&f.out, 16);
  write_bytes(&builder, 16);
  CHECK(add_builder(&f.subpartition, &builder, 0) == FB_OK);
  expect(&f.subpartition, FB_DATA_BUFFER, 16, 0, FB_NONE); /* all of it, but its end is not written yet */
  CHECK(fb_subpartition_attach(&f.subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_OK);
  expect_nothing(&f.subpartition); /* nothing left to read here: that proves no record's end */
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);

  builder = new_builder(&f.out, 16);
  write_bytes(&builder, 6);
  CHECK(add_builder(&f.subpartition, &builder, 6) == FB_OK);
  expect_nothing(&f.subpartition);
  write_bytes(&builder, 3);
  expect(&f.subpartition, FB_DATA_BUFFER, 3, 0, FB_NONE);
  fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);

  builder = new_builder(&f.out, 16); /* a restored buffer does not know its record */
  write_bytes(&builder, 4);
  CHECK(add_builder(&f.subpartition, &builder, INT32_MIN) == FB_OK);
  CHECK(fb_subpartition_attach(&f.subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_OK);
  fb_buffer_builder_close(&builder);
  CHECK(fb_subpartition_poll(&f.subpartition, NULL, &polled) == FB_ESTATE);
  close_fixture(&f);
}

/* ---- threads ------------------------------------------------------------------------------------- */

#define RECORDS      20000
#define RECORD_BYTES 8

struct producer {
  struct fb_subpartition* subpartition;
  _Atomic int* out;
  pthread_t thread;
};

/* Numbers the records, so that the reader sees each once and in order; flushes now and then. */
static void* produce(void* argument) {
  struct producer* self = argument;
  struct fb_buffer_builder builder = {0};

  for (uint64_t i = 0; i < RECORDS; i++) {
    if (builder.buffer == NULL) {
      builder = new_builder(self->out, 4 * RECORD_BYTES);
      if (add_builder(self->subpartition, &builder, 0) < 0) break;
    }
    CHECK(fb_buffer_builder_append(&builder, (const uint8_t*)&i, RECORD_BYTES) == RECORD_BYTES);
    fb_buffer_builder_commit(&builder);
    if (fb_buffer_builder_is_full(&builder)) {
      fb_buffer_builder_finish(&builder);
      fb_buffer_builder_close(&builder);
    }
    if (i % 7 == 0) fb_subpartition_flush(self->subpartition);
  }
  if (builder.buffer != NULL) fb_buffer_builder_finish(&builder);
  fb_buffer_builder_close(&builder);
  finish(self->subpartition);
  return NULL;
}

static void ring(void* context, uint32_t index) {
  (void)index;
  fb_wakeup_ring(context);
}

static void ring_priority(void* context, uint32_t index, int32_t sequence_number) {
  (void)sequence_number;
  ring(context, index);
}

/* Polls as the contract says: sleeps only when there is nothing. A notification that is lost hangs it. */
static void reader_that_drains_to_none_misses_nothing(void) {
  struct fb_subpartition subpartition;
  struct fb_wakeup wakeup;
  struct fb_availability_listener listener = {ring, ring_priority, &wakeup};
  _Atomic int out = 0;
  struct producer producer = {.subpartition = &subpartition, .out = &out};
  uint64_t expected = 0;
  bool has_ended = false;

  CHECK(fb_wakeup_open(&wakeup) == FB_OK && fb_subpartition_open(&subpartition, 0, false) == FB_OK);
  CHECK(fb_subpartition_attach(&subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
        FB_OK);
  CHECK(pthread_create(&producer.thread, NULL, produce, &producer) == 0);
  while (!has_ended) {
    uint64_t seen = fb_wakeup_seen(&wakeup);
    struct fb_polled_buffer polled;
    int code = fb_subpartition_is_available(&subpartition, true, NULL)
                   ? fb_subpartition_poll(&subpartition, NULL, &polled)
                   : 0;

    CHECK(code >= 0);
    if (code == 0) {
      CHECK(fb_wakeup_wait(&wakeup, seen, 30000));
      continue;
    }
    if (polled.slice.data_type == FB_END_OF_PARTITION) has_ended = true;
    for (uint32_t at = 0; !has_ended && at < polled.slice.size; at += RECORD_BYTES)
      CHECK(memcmp(fb_buffer_slice_data(&polled.slice) + at, &expected, RECORD_BYTES) == 0 && ++expected);
    fb_buffer_slice_release(&polled.slice);
  }
  CHECK(expected == RECORDS);
  pthread_join(producer.thread, NULL);
  fb_subpartition_detach(&subpartition, NULL);
  fb_subpartition_close(&subpartition);
  fb_wakeup_close(&wakeup);
  CHECK(out == 0);
}

/* A listener whose memory goes as soon as release_view() returns: a later call is seen by the sanitizers. */
static void listener_is_not_called_after_release_view_returned(void) {
  for (int round = 0; round < 60; round++) {
    struct fb_subpartition subpartition;
    struct record* record = calloc(1, sizeof(*record));
    struct fb_availability_listener listener = listen(record);
    _Atomic int out = 0;
    struct producer producer = {.subpartition = &subpartition, .out = &out};
    bool is_approximate = round % 2;

    CHECK(fb_subpartition_open(&subpartition, 0, is_approximate) == FB_OK);
    CHECK(fb_subpartition_attach(&subpartition, listener.context, &(struct fb_view_options){.listener = listener}) ==
          FB_OK);
    CHECK(pthread_create(&producer.thread, NULL, produce, &producer) == 0);
    for (bool has_ended = false; !has_ended && record->data <= round % 5;) {
      struct fb_polled_buffer polled;
      if (fb_subpartition_poll(&subpartition, NULL, &polled) != 1) continue;
      has_ended = polled.slice.data_type == FB_END_OF_PARTITION;
      fb_buffer_slice_release(&polled.slice);
    }
    fb_subpartition_detach(&subpartition, NULL);
    memset(record, 0xff, sizeof(*record));
    free(record);
    fb_subpartition_release(&subpartition);
    pthread_join(producer.thread, NULL);
    fb_subpartition_close(&subpartition);
    CHECK(out == 0);
  }
}

/* A listener that does not come back before it is told to, as one that is interrupted there. */
struct slow_listener {
  _Atomic int calls;
  _Atomic bool may_return;
};

static void stay(void* context, uint32_t index) {
  struct slow_listener* self = context;
  (void)index;
  atomic_fetch_add(&self->calls, 1);
  while (!atomic_load(&self->may_return)) sched_yield();
}

struct arrival {
  struct fixture* fixture;
  struct record record;
  int code;
};

static int attach_record(struct fixture* fixture, struct record* record) {
  struct fb_availability_listener listener = listen(record);
  return fb_subpartition_attach(&fixture->subpartition, record, &(struct fb_view_options){.listener = listener});
}

/* The first of two is known to be finished: the reader is told. */
static void* add_two(void* argument) {
  struct fixture* f = argument;
  add_filled(&f->subpartition, &f->out, 1);
  add_filled(&f->subpartition, &f->out, 1);
  return NULL;
}

static void* arrive(void* argument) {
  struct arrival* self = argument;
  self->code = attach_record(self->fixture, &self->record);
  return NULL;
}

static void* go(void* argument) {
  struct arrival* self = argument;
  fb_subpartition_detach(&self->fixture->subpartition, &self->record);
  return NULL;
}

static int32_t poll_number(struct fb_subpartition* subpartition, const void* viewer) {
  struct fb_polled_buffer polled;

  CHECK(fb_subpartition_poll(subpartition, viewer, &polled) == 1);
  fb_buffer_slice_release(&polled.slice);
  return polled.sequence_number;
}

/* The first reader's listener is still running when a second and a third one take its place. */
static void readers_that_come_at_once_take_each_other_s_place(void) {
  struct slow_listener first = {0};
  struct fb_view_options options = {.listener = {stay, NULL, &first}};
  struct arrival second = {0};
  struct record third = {0};
  pthread_t adding, arriving;
  struct fixture f = {0};

  CHECK(fb_subpartition_open(&f.subpartition, 3, true) == FB_OK);
  CHECK(fb_subpartition_attach(&f.subpartition, &first, &options) == FB_OK);
  CHECK(pthread_create(&adding, NULL, add_two, &f) == 0);
  while (atomic_load(&first.calls) == 0) sched_yield();
  second.fixture = &f;
  CHECK(pthread_create(&arriving, NULL, arrive, &second) == 0);
  while (fb_subpartition_is_attached(&f.subpartition, &first)) sched_yield();
  CHECK(attach_record(&f, &third) == FB_OK);
  CHECK(poll_number(&f.subpartition, &third) == 0);
  atomic_store(&first.may_return, true);
  CHECK(pthread_join(adding, NULL) == 0 && pthread_join(arriving, NULL) == 0);

  CHECK(second.code == FB_OK);           /* else a reader was refused that should have taken the place of another */
  CHECK(atomic_load(&first.calls) == 2); /* it was told that it has lost its place */
  add_filled(&f.subpartition, &f.out, 2);
  if (fb_subpartition_is_attached(&f.subpartition, &third)) CHECK(poll_number(&f.subpartition, &third) == 1);
  else CHECK(third.data >= 1 && poll_number(&f.subpartition, &second.record) == 0);
  fb_subpartition_detach(&f.subpartition, &first);
  close_fixture(&f);
}

/* The first reader goes while its listener is still running: what it leaves behind is not done to the next one. */
static void a_reader_that_goes_changes_nothing_of_the_next(void) {
  struct slow_listener slow = {0};
  struct fb_view_options options = {.listener = {stay, NULL, &slow}};
  struct arrival first = {0};
  struct record second = {0};
  pthread_t adding, going;
  struct fixture f = {0};

  first.fixture = &f;
  CHECK(fb_subpartition_open(&f.subpartition, 3, true) == FB_OK);
  CHECK(fb_subpartition_attach(&f.subpartition, &first.record, &options) == FB_OK);
  CHECK(pthread_create(&adding, NULL, add_two, &f) == 0);
  while (atomic_load(&slow.calls) == 0) sched_yield();
  CHECK(pthread_create(&going, NULL, go, &first) == 0);
  while (fb_subpartition_is_attached(&f.subpartition, NULL)) sched_yield();
  CHECK(attach_record(&f, &second) == FB_OK);
  CHECK(poll_number(&f.subpartition, &second) == 0);
  CHECK(add_event(&f.subpartition, FB_ALIGNED_CHECKPOINT_BARRIER) == FB_OK);
  CHECK(poll_number(&f.subpartition, &second) == 1 && poll_number(&f.subpartition, &second) == 2);
  atomic_store(&slow.may_return, true);
  CHECK(pthread_join(adding, NULL) == 0 && pthread_join(going, NULL) == 0);

  add_filled(&f.subpartition, &f.out, 2);
  expect_nothing(&f.subpartition); /* the barrier blocks it still */
  CHECK(fb_subpartition_resume(&f.subpartition, &second) == FB_OK);
  CHECK(poll_number(&f.subpartition, &second) == 3);
  close_fixture(&f);
}

int main(void) {
  second_view_is_refused();
  add_after_finish_or_release_closes_the_consumer();
  release_frees_all_with_and_without_a_view();
  unfinished_buffer_before_another_is_an_error();
  empty_unfinished_buffer_notifies_nobody_and_the_second_buffer_does();
  several_empty_finished_buffers_are_skipped_in_one_poll();
  empty_finished_buffers_are_given_to_a_reader_without_exclusive_buffers();
  flush_notifies_for_a_single_buffer_with_data_only();
  bytes_count_when_polled_and_buffers_when_added_and_events_are_no_backlog();
  age_is_that_of_the_first_unread_byte_at_most();
  priority_events_overtake_in_their_own_order();
  the_queue_keeps_its_order_while_it_grows();
  aligned_barrier_blocks_until_resume();
  timeoutable_barrier_waits_its_turn_and_blocks();
  an_unaligned_barrier_overtakes_and_what_is_unread_is_listed();
  nothing_is_listed_for_a_reader_that_is_gone();
  a_barrier_that_waits_too_long_overtakes_after_all();
  a_barrier_that_was_sent_is_converted_no_more();
  a_blocked_reader_hears_of_a_converted_barrier_after_the_resume();
  with_priority_only_that_is_polled();
  finish_always_notifies_and_makes_all_backlog_consumable();
  desired_buffer_size_is_what_the_reader_said_last();
  new_view_replaces_the_first_and_starts_to_count_anew();
  partial_records_are_skipped_wherever_the_reader_left();
  reader_that_drains_to_none_misses_nothing();
  listener_is_not_called_after_release_view_returned();
  readers_that_come_at_once_take_each_other_s_place();
  a_reader_that_goes_changes_nothing_of_the_next();
  return 0;
}
