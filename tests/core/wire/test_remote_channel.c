/* One remote channel between a sender and a task that are both this thread, and a reactor that counts how often the
 * client would be asked to send something. */
#include "wire/remote_channel.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ground/byte_order.h"
#include "pools.h"

#define SEGMENT_SIZE 64

struct fixture {
  struct fb_network_buffer_pool* network;
  struct fb_local_buffer_pool* pool;
  struct fb_reactor* reactor;
  struct fb_remote_channel* channel;
  uint32_t segments, floating;
  _Atomic uint32_t data_news, priority_news; /* told to the gate */
  _Atomic int32_t last_priority;
};

static _Atomic uint32_t turns; /* of the client's task */

static void count_turn(struct fb_task* task) {
  (void)task;
  atomic_fetch_add(&turns, 1);
}

static void nothing(void* context) { (void)context; }

/* How often the client's task ran since the last look. */
static uint32_t client_turns(struct fixture* self) {
  CHECK(fb_reactor_call(self->reactor, nothing, NULL) == FB_OK);
  return atomic_exchange(&turns, 0);
}

static void on_data_available(void* context, uint32_t index) {
  struct fixture* self = context;
  CHECK(index == 5);
  atomic_fetch_add(&self->data_news, 1);
}

static void on_priority_event(void* context, uint32_t index, int32_t sequence_number) {
  struct fixture* self = context;
  CHECK(index == 5);
  atomic_store(&self->last_priority, sequence_number);
  atomic_fetch_add(&self->priority_news, 1);
}

static struct fb_remote_channel* open_channel(struct fixture* self, uint32_t exclusive_count) {
  struct fb_remote_source source = {.subpartition_index = 1};
  const uint8_t id[FB_CHANNEL_ID_SIZE] = {7};
  struct fb_buffer* exclusive[16];
  struct fb_remote_channel* channel;

  CHECK(fb_network_buffer_pool_request_unpooled(self->network, exclusive_count, 0, exclusive) == FB_OK);
  CHECK(fb_remote_channel_open(&source, id, self->network, self->pool, exclusive, exclusive_count, &channel) == FB_OK);
  fb_remote_channel_set_listener(channel, 5,
                                 &(struct fb_availability_listener){on_data_available, on_priority_event, self});
  fb_remote_channel_set_sender(channel, self->reactor, count_turn);
  return channel;
}

static void open_fixture(struct fixture* self, uint32_t floating, uint32_t exclusive_count) {
  struct fb_buffer_pool_options options = {.min = floating, .max = floating};

  *self = (struct fixture){.segments = floating + 16, .floating = floating};
  CHECK(fb_network_buffer_pool_open(self->segments, SEGMENT_SIZE, &self->network) == FB_OK);
  CHECK(fb_local_buffer_pool_open(self->network, &options, &self->pool) == FB_OK);
  CHECK(fb_reactor_open(&self->reactor) == FB_OK);
  self->channel = open_channel(self, exclusive_count);
  atomic_store(&turns, 0);
}

static void close_pools(struct fixture* self) {
  fb_reactor_close(self->reactor);
  CHECK(used_of(self->pool) == 0);
  fb_local_buffer_pool_close(self->pool);
  CHECK(fb_network_buffer_pool_available(self->network) == self->segments);
  CHECK(fb_network_buffer_pool_required(self->network) == 0);
  fb_network_buffer_pool_close(self->network);
}

static void close_fixture(struct fixture* self) {
  fb_remote_channel_end(self->channel);
  client_turns(self);
  fb_remote_channel_close(self->channel);
  close_pools(self);
}

/* ---- the sender ---------------------------------------------------------------------------------------- */

static struct fb_buffer_slice event(enum fb_buffer_data_type type) {
  struct fb_buffer_slice slice;
  CHECK(fb_buffer_new_unpooled((const uint8_t[]){0, 0, 0, 2}, 4, type, &slice) == FB_OK);
  return slice;
}

static void send_event(struct fixture* self, enum fb_buffer_data_type type, int32_t sequence_number) {
  struct fb_buffer_slice slice = event(type);
  fb_remote_channel_on_buffer(self->channel, &slice, sequence_number, 0);
  CHECK(slice.buffer == NULL);
}

/* false: there is no credit buffer for it. */
static bool send_data(struct fixture* self, int32_t sequence_number, int32_t backlog, uint8_t fill) {
  struct fb_buffer_slice slice = {.size = SEGMENT_SIZE, .data_type = FB_DATA_BUFFER};

  slice.buffer = fb_remote_channel_request_buffer(self->channel);
  if (slice.buffer == NULL) return false;
  memset(slice.buffer->segment.data, fill, SEGMENT_SIZE);
  fb_remote_channel_on_buffer(self->channel, &slice, sequence_number, backlog);
  CHECK(slice.buffer == NULL);
  return true;
}

/* An aligned checkpoint barrier as it travels: type, id, timestamp, kind, location, alignment, timeout. */
static struct fb_buffer_slice barrier(enum fb_buffer_data_type type, int64_t id) {
  uint8_t bytes[34] = {0};
  struct fb_buffer_slice slice;

  fb_store_be32(bytes, 1);
  fb_store_be64(bytes + 4, (uint64_t)id);
  fb_store_be32(bytes + 21, UINT32_MAX); /* default location */
  bytes[25] = 1;                         /* ALIGNED */
  fb_store_be64(bytes + 26, 1000);
  CHECK(fb_buffer_new_unpooled(bytes, sizeof bytes, type, &slice) == FB_OK);
  return slice;
}

static void send_barrier(struct fixture* self, enum fb_buffer_data_type type, int64_t id, int32_t sequence_number) {
  struct fb_buffer_slice slice = barrier(type, id);
  fb_remote_channel_on_buffer(self->channel, &slice, sequence_number, 0);
}

/* ---- the task ------------------------------------------------------------------------------------------ */

static void expect_nothing(struct fixture* self) {
  struct fb_polled_buffer polled;
  CHECK(fb_remote_channel_poll(self->channel, &polled) == 0);
}

static struct fb_buffer_slice expect_next(struct fixture* self, int32_t sequence_number, enum fb_buffer_data_type type,
                                          enum fb_buffer_data_type next) {
  struct fb_polled_buffer polled;

  CHECK(fb_remote_channel_poll(self->channel, &polled) == 1);
  CHECK(polled.sequence_number == sequence_number && polled.slice.data_type == type);
  CHECK(polled.next_data_type == next);
  return polled.slice;
}

static void pass(struct fixture* self, int32_t sequence_number, enum fb_buffer_data_type type,
                 enum fb_buffer_data_type next) {
  struct fb_buffer_slice slice = expect_next(self, sequence_number, type, next);
  fb_buffer_slice_release(&slice);
}

static void expect_failure(struct fixture* self, int code, const char* text) {
  struct fb_polled_buffer polled;

  CHECK(fb_remote_channel_poll(self->channel, &polled) == code);
  CHECK(fb_remote_channel_poll(self->channel, &polled) == code); /* it stays */
  CHECK(strcmp(fb_remote_channel_failure(self->channel), text) == 0);
}

/* ---- order --------------------------------------------------------------------------------------------- */

static void buffers_come_in_the_order_of_their_numbers(void) {
  struct fixture f;

  open_fixture(&f, 4, 2);
  expect_nothing(&f);
  CHECK(send_data(&f, 0, 0, 'a') && send_data(&f, 1, 0, 'b'));
  send_event(&f, FB_EVENT_BUFFER, 2);
  fb_remote_channel_on_empty_buffer(f.channel, 3, 0); /* counts, and is nothing to read */
  send_event(&f, FB_END_OF_PARTITION, 4);
  CHECK(f.data_news == 1 && f.priority_news == 0); /* it was empty once */
  pass(&f, 0, FB_DATA_BUFFER, FB_DATA_BUFFER);
  pass(&f, 1, FB_DATA_BUFFER, FB_EVENT_BUFFER);
  pass(&f, 2, FB_EVENT_BUFFER, FB_END_OF_PARTITION);
  pass(&f, 4, FB_END_OF_PARTITION, FB_NONE);
  expect_nothing(&f);
  send_event(&f, FB_EVENT_BUFFER, 5);
  CHECK(f.data_news == 2 && f.channel->buffer_count == 5 && f.channel->byte_count == 2 * SEGMENT_SIZE + 12);
  close_fixture(&f);
}

static void a_wrong_number_is_an_error_of_the_next_poll(void) {
  static const struct {
    int32_t number;
    const char* text;
  } wrong[] = {
      {2, "a buffer with sequence number 2 came where 1 was expected: data were lost or reordered on the way"},
      {0, "a buffer with sequence number 0 came where 1 was expected: data were lost or reordered on the way"},
      {-1, "a buffer with sequence number -1 came where 1 was expected: data were lost or reordered on the way"},
  };

  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    for (int how = 0; how < 3; how++) {
      struct fixture f;

      open_fixture(&f, 4, 2);
      CHECK(send_data(&f, 0, 0, 'a'));
      if (how == 0) CHECK(send_data(&f, wrong[i].number, 0, 'b'));
      else if (how == 1) send_event(&f, FB_EVENT_BUFFER, wrong[i].number);
      else fb_remote_channel_on_empty_buffer(f.channel, wrong[i].number, 0);
      CHECK(f.data_news == 2);
      expect_failure(&f, FB_ECORRUPT, wrong[i].text); /* before what is queued, which goes at the end */
      close_fixture(&f);
    }
  }
}

static void numbers_wrap_at_the_end_of_their_range(void) {
  struct fixture f;

  open_fixture(&f, 4, 0);
  f.channel->expected_sequence_number = INT32_MAX - 1;
  send_event(&f, FB_EVENT_BUFFER, INT32_MAX - 1);
  send_event(&f, FB_EVENT_BUFFER, INT32_MAX);
  send_event(&f, FB_EVENT_BUFFER, INT32_MIN);
  fb_remote_channel_on_empty_buffer(f.channel, INT32_MIN + 1, 0);
  send_event(&f, FB_EVENT_BUFFER, INT32_MIN + 2);
  pass(&f, INT32_MAX - 1, FB_EVENT_BUFFER, FB_EVENT_BUFFER);
  pass(&f, INT32_MAX, FB_EVENT_BUFFER, FB_EVENT_BUFFER);
  pass(&f, INT32_MIN, FB_EVENT_BUFFER, FB_EVENT_BUFFER);
  pass(&f, INT32_MIN + 2, FB_EVENT_BUFFER, FB_NONE);
  f.channel->expected_sequence_number = -1;
  send_event(&f, FB_EVENT_BUFFER, -1);
  send_event(&f, FB_EVENT_BUFFER, 0);
  pass(&f, -1, FB_EVENT_BUFFER, FB_EVENT_BUFFER);
  pass(&f, 0, FB_EVENT_BUFFER, FB_NONE);
  close_fixture(&f);
}

static void priority_events_overtake_and_keep_their_own_order(void) {
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(send_data(&f, 0, 0, 'a'));
  CHECK(send_data(&f, 1, 0, 'b'));
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 2);
  send_event(&f, FB_EVENT_BUFFER, 3);
  send_event(&f, FB_EVENT_BUFFER, 4);
  CHECK(f.data_news == 1 && f.priority_news == 1 && f.last_priority == 2);
  pass(&f, 2, FB_PRIORITIZED_EVENT_BUFFER, FB_DATA_BUFFER);
  pass(&f, 0, FB_DATA_BUFFER, FB_DATA_BUFFER);
  pass(&f, 1, FB_DATA_BUFFER, FB_EVENT_BUFFER);
  pass(&f, 3, FB_EVENT_BUFFER, FB_EVENT_BUFFER);
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 5);
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 6);
  pass(&f, 5, FB_PRIORITIZED_EVENT_BUFFER, FB_PRIORITIZED_EVENT_BUFFER);
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 7);
  pass(&f, 6, FB_PRIORITIZED_EVENT_BUFFER, FB_PRIORITIZED_EVENT_BUFFER);
  pass(&f, 7, FB_PRIORITIZED_EVENT_BUFFER, FB_EVENT_BUFFER);
  pass(&f, 4, FB_EVENT_BUFFER, FB_NONE);
  CHECK(f.data_news == 1 && f.priority_news == 4);
  close_fixture(&f);
}

/* The queue is a ring: every way in, with every head and every fill, against a plain list. */
static void the_queue_agrees_with_a_list(void) {
  static int32_t normal[4096], priority[4096];
  uint32_t normal_count = 0, priority_count = 0;
  uint64_t state = 1;
  struct fixture f;

  open_fixture(&f, 1, 0);
  for (int32_t number = 0; number < 4000;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    switch (state >> 60) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        send_event(&f, FB_EVENT_BUFFER, number);
        normal[normal_count++] = number++;
        break;
      case 5:
      case 6:
        send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, number);
        priority[priority_count++] = number++;
        break;
      default:
        if (priority_count > 0) {
          enum fb_buffer_data_type next = priority_count > 1 ? FB_PRIORITIZED_EVENT_BUFFER
                                          : normal_count > 0 ? FB_EVENT_BUFFER
                                                             : FB_NONE;
          pass(&f, priority[0], FB_PRIORITIZED_EVENT_BUFFER, next);
          memmove(priority, priority + 1, --priority_count * sizeof priority[0]);
        } else if (normal_count > 0) {
          pass(&f, normal[0], FB_EVENT_BUFFER, normal_count > 1 ? FB_EVENT_BUFFER : FB_NONE);
          memmove(normal, normal + 1, --normal_count * sizeof normal[0]);
        } else {
          expect_nothing(&f);
        }
    }
  }
  close_fixture(&f); /* with what is left in it */
}

/* ---- barriers that may time out ------------------------------------------------------------------------ */

static void a_barrier_is_announced_and_can_be_made_to_overtake(void) {
  struct fb_buffer_slice slice;
  const uint8_t* bytes;
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(send_data(&f, 0, 0, 'a') && send_data(&f, 1, 0, 'b'));
  send_barrier(&f, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, 9, 2);
  CHECK(f.priority_news == 1 && f.last_priority == 2);
  slice = expect_next(&f, 2, FB_PRIORITIZED_EVENT_BUFFER, FB_DATA_BUFFER);
  bytes = fb_buffer_slice_data(&slice);
  CHECK(slice.size == 8 + 34 && fb_load_be32(bytes) == 6 && fb_load_be32(bytes + 4) == 2);
  CHECK(fb_load_be32(bytes + 8) == 1 && fb_load_be64(bytes + 12) == 9 && bytes[8 + 25] == 1);
  fb_buffer_slice_release(&slice);
  pass(&f, 0, FB_DATA_BUFFER, FB_DATA_BUFFER);

  CHECK(fb_remote_channel_convert_to_priority(f.channel, 1) == FB_ESTATE); /* data */
  CHECK(fb_remote_channel_convert_to_priority(f.channel, 3) == FB_ESTATE);
  CHECK(fb_remote_channel_convert_to_priority(f.channel, 2) == FB_OK);
  CHECK(f.priority_news == 2 && f.last_priority == 2); /* again, though the gate knows this number */
  CHECK(fb_remote_channel_convert_to_priority(f.channel, 2) == FB_ESTATE);
  slice = expect_next(&f, 2, FB_PRIORITIZED_EVENT_BUFFER, FB_DATA_BUFFER);
  bytes = fb_buffer_slice_data(&slice);
  CHECK(slice.size == 34 && fb_load_be32(bytes) == 1 && fb_load_be64(bytes + 4) == 9);
  CHECK(bytes[25] == 2 && fb_load_be64(bytes + 26) == INT64_MAX); /* UNALIGNED, no timeout */
  fb_buffer_slice_release(&slice);
  pass(&f, 1, FB_DATA_BUFFER, FB_NONE);
  CHECK(fb_remote_channel_convert_to_priority(f.channel, 2) == FB_ESTATE);
  close_fixture(&f);
}

static void an_announced_barrier_keeps_its_place_unless_it_is_converted(void) {
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(send_data(&f, 0, 0, 'a'));
  send_barrier(&f, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, 1, 1);
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 2);
  pass(&f, 1, FB_PRIORITIZED_EVENT_BUFFER, FB_PRIORITIZED_EVENT_BUFFER);
  pass(&f, 2, FB_PRIORITIZED_EVENT_BUFFER, FB_DATA_BUFFER);
  pass(&f, 0, FB_DATA_BUFFER, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  pass(&f, 1, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, FB_NONE);
  CHECK(fb_remote_channel_convert_to_priority(f.channel, 1) == FB_ESTATE); /* too late */
  close_fixture(&f);
}

/* Bytes from hexadecimal digits. */
static size_t from_hex(const char* digits, uint8_t* bytes) {
  size_t size = strlen(digits) / 2;
  unsigned value;

  for (size_t i = 0; i < size; i++) {
    CHECK(sscanf(digits + 2 * i, "%2x", &value) == 1);
    bytes[i] = (uint8_t)value;
  }
  return size;
}

/* Sends `bytes` as a barrier that may time out, converts it, and compares it with `wanted`; NULL: it is refused, and
 * comes as it is. */
static void convert(const uint8_t* bytes, size_t size, const uint8_t* wanted) {
  enum fb_buffer_data_type type =
      wanted != NULL ? FB_PRIORITIZED_EVENT_BUFFER : FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER;
  struct fb_buffer_slice slice;
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(fb_buffer_new_unpooled(bytes, size, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, &slice) == FB_OK);
  fb_remote_channel_on_buffer(f.channel, &slice, 0, 0);
  pass(&f, 0, FB_PRIORITIZED_EVENT_BUFFER, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  CHECK(fb_remote_channel_convert_to_priority(f.channel, 0) == (wanted != NULL ? FB_OK : FB_ECORRUPT));
  slice = expect_next(&f, 0, type, FB_NONE);
  CHECK(slice.size == size && memcmp(fb_buffer_slice_data(&slice), wanted != NULL ? wanted : bytes, size) == 0);
  fb_buffer_slice_release(&slice);
  close_fixture(&f);
}

/* tests/golden/events: what Flink writes for the same barrier with a timeout, and unaligned. It travels in the whole
 * array that Flink wrote it into (tests/golden/conversations), so zeros follow. */
#define HEAD  "00000001000000000000004d0000018bcfe5687b"
#define ZEROS "00000000"
static const struct {
  const char *aligned, *unaligned;
} BARRIERS[] = {
    {HEAD "00ffffffff010000000000007530" ZEROS, HEAD "00ffffffff027fffffffffffffff" ZEROS},
    {HEAD "00000000050102030405010000000000007530" ZEROS, HEAD "00000000050102030405027fffffffffffffff" ZEROS},
    {HEAD "04ffffffff010000000000007530" ZEROS, HEAD "04ffffffff027fffffffffffffff" ZEROS},
    {HEAD "04000000050102030405010000000000007530" ZEROS, HEAD "04000000050102030405027fffffffffffffff" ZEROS},
    {HEAD "0100ffffffff017fffffffffffffff000000", HEAD "0100ffffffff027fffffffffffffff000000"},
    {HEAD "0300000000050102030405017fffffffffffffff000000", HEAD "0300000000050102030405027fffffffffffffff000000"},
    {HEAD "0000000000010000000000007530", HEAD "0000000000027fffffffffffffff"},
};

static void flinks_own_barriers_are_converted_whatever_follows_their_options(void) {
  uint8_t bytes[64], wanted[64];

  for (size_t i = 0; i < sizeof BARRIERS / sizeof BARRIERS[0]; i++) {
    size_t size = from_hex(BARRIERS[i].aligned, bytes);
    CHECK(from_hex(BARRIERS[i].unaligned, wanted) == size);
    convert(bytes, size, wanted);
  }
}

/* What a stranger calls a barrier is not touched unless it is one. */
static void what_is_no_barrier_is_not_converted(void) {
  static const char* const REFUSED[] = {
      "",
      "00000001",
      HEAD "00",
      HEAD "00ffffffff0100000000000075",             /* one byte short of its options */
      HEAD "00000000060102030405010000000000007530", /* one byte short behind a location */
      HEAD "007fffffff010000000000007530" ZEROS,     /* a location longer than everything */
      HEAD "00fffffffe010000000000007530" ZEROS,     /* of a negative length */
      HEAD "0080000000010000000000007530" ZEROS,
      HEAD "05ffffffff010000000000007530" ZEROS,                                      /* of an unknown kind */
      HEAD "0100ffffffff0100000000000075",                                            /* a savepoint, one byte short */
      ("00000004000000000000004d0000018bcfe5687b00ffffffff010000000000007530" ZEROS), /* another event */
  };
  uint8_t bytes[64];

  for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
    size_t size = from_hex(REFUSED[i], bytes);
    uint8_t* exact = malloc(size > 0 ? size : 1); /* a sanitizer sees a read past its end */
    CHECK(exact != NULL);
    memcpy(exact, bytes, size);
    convert(exact, size, NULL);
    free(exact);
  }
}

/* ---- unaligned checkpoints ------------------------------------------------------------------------------ */

/* The list holds buffers filled with these letters. */
static void expect_slices(struct fb_slice_list* list, const char* letters) {
  CHECK(list->count == strlen(letters) && list->size == SEGMENT_SIZE * strlen(letters));
  for (uint32_t i = 0; i < list->count; i++) {
    CHECK(fb_buffer_slice_data(&list->items[i])[0] == (uint8_t)letters[i]);
    CHECK(fb_buffer_slice_data(&list->items[i])[SEGMENT_SIZE - 1] == (uint8_t)letters[i]);
  }
  fb_slice_list_close(list);
}

static void what_is_queued_and_what_arrives_before_the_barrier_is_persisted(void) {
  struct fb_persisting_budget budget = {1000};
  struct fb_slice_list list = {0};
  struct fixture f;

  open_fixture(&f, 4, 4);
  CHECK(send_data(&f, 0, 0, 'a'));
  CHECK(send_data(&f, 1, 0, 'b'));
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 2);
  pass(&f, 2, FB_PRIORITIZED_EVENT_BUFFER, FB_DATA_BUFFER);
  pass(&f, 0, FB_DATA_BUFFER, FB_DATA_BUFFER);
  send_event(&f, FB_EVENT_BUFFER, 3);
  CHECK(fb_remote_channel_start_persisting(f.channel, 9, &budget, &list) == FB_OK);
  expect_slices(&list, "b");
  CHECK(send_data(&f, 4, 0, 'c'));
  pass(&f, 1, FB_DATA_BUFFER, FB_EVENT_BUFFER);
  CHECK(send_data(&f, 5, 0, 'd'));
  send_barrier(&f, FB_PRIORITIZED_EVENT_BUFFER, 9, 6);
  CHECK(send_data(&f, 7, 0, 'e'));
  CHECK(fb_remote_channel_stop_persisting(f.channel, &list) == FB_OK);
  expect_slices(&list, "cd");
  CHECK(atomic_load(&budget.left) == 1000 - 2 * SEGMENT_SIZE);
  close_fixture(&f);
}

static void of_a_channel_whose_barrier_is_there_only_what_it_overtook_is_persisted(void) {
  struct fb_persisting_budget budget = {1000};
  struct fb_slice_list list = {0};
  struct fixture f;

  open_fixture(&f, 4, 4);
  CHECK(send_data(&f, 0, 0, 'a'));
  CHECK(send_data(&f, 1, 0, 'b'));
  send_barrier(&f, FB_PRIORITIZED_EVENT_BUFFER, 9, 2);
  CHECK(send_data(&f, 3, 0, 'c'));
  CHECK(fb_remote_channel_start_persisting(f.channel, 8, &budget, &list) == FB_ESTATE);
  CHECK(list.count == 0);
  CHECK(fb_remote_channel_start_persisting(f.channel, 9, &budget, &list) == FB_OK);
  expect_slices(&list, "ab");
  CHECK(send_data(&f, 4, 0, 'd'));
  CHECK(fb_remote_channel_stop_persisting(f.channel, &list) == FB_OK && list.count == 0);
  close_fixture(&f);
}

/* A sender that has run out of credit before it could send its barrier would never come to send it. */
static void persisted_buffers_come_home_before_the_barrier(void) {
  struct fb_persisting_budget budget = {1000};
  struct fb_slice_list list = {0};
  struct fixture f;

  open_fixture(&f, 1, 1);
  CHECK(fb_remote_channel_start_persisting(f.channel, 1, &budget, &list) == FB_OK);
  CHECK(send_data(&f, 0, 0, 'a') && send_data(&f, 1, 0, 'b') && !send_data(&f, 2, 0, 'c'));
  pass(&f, 0, FB_DATA_BUFFER, FB_DATA_BUFFER);
  pass(&f, 1, FB_DATA_BUFFER, FB_NONE);
  CHECK(send_data(&f, 2, 0, 'c'));
  CHECK(fb_remote_channel_stop_persisting(f.channel, &list) == FB_OK);
  expect_slices(&list, "abc");
  close_fixture(&f);
}

static void with_priority_only_that_is_polled(void) {
  struct fb_polled_buffer polled;
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(fb_remote_channel_poll_priority(f.channel, &polled) == 0);
  CHECK(send_data(&f, 0, 0, 'a'));
  CHECK(fb_remote_channel_poll_priority(f.channel, &polled) == 0);
  send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, 1);
  CHECK(fb_remote_channel_poll_priority(f.channel, &polled) == 1);
  CHECK(polled.sequence_number == 1 && polled.next_data_type == FB_DATA_BUFFER);
  fb_buffer_slice_release(&polled.slice);
  CHECK(fb_remote_channel_poll_priority(f.channel, &polled) == 0);
  pass(&f, 0, FB_DATA_BUFFER, FB_NONE);
  close_fixture(&f);
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static void the_first_error_comes_first_and_stays(void) {
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(send_data(&f, 0, 0, 'a'));
  CHECK(fb_remote_channel_failure(f.channel) == NULL);
  fb_remote_channel_fail(f.channel, FB_EIO, "the first");
  fb_remote_channel_fail(f.channel, FB_ECORRUPT, "the second");
  CHECK(f.data_news == 2); /* of the data, and of the first error */
  expect_failure(&f, FB_EIO, "the first");
  CHECK(send_data(&f, 1, 0, 'b')); /* taken in until the client forgets the channel */
  expect_failure(&f, FB_EIO, "the first");
  close_fixture(&f);
}

static void events_that_nobody_reads_cost_bounded_memory(void) {
  const char* what = "events of 64 MiB wait to be read, and more came: the sender floods it";
  struct fixture f;
  int32_t sent = 0;

  open_fixture(&f, 4, 2);
  while (fb_remote_channel_failure(f.channel) == NULL) send_event(&f, FB_EVENT_BUFFER, sent++);
  CHECK(sent > 100000 && sent < 1000000); /* a checkpoint a second for a day is no flood */
  for (int i = 0; i < 100; i++) send_event(&f, FB_PRIORITIZED_EVENT_BUFFER, sent++);
  CHECK(f.channel->queue.deque.count < (uint32_t)sent - 100);
  expect_failure(&f, FB_ECORRUPT, what);
  close_fixture(&f);

  open_fixture(&f, 4, 2);
  for (sent = 0; sent < 1000000; sent++) { /* any number of those that are read */
    send_event(&f, FB_EVENT_BUFFER, sent);
    pass(&f, sent, FB_EVENT_BUFFER, FB_NONE);
  }
  close_fixture(&f);
}

static void a_released_channel_takes_nothing_in(void) {
  struct fb_polled_buffer polled;
  struct fixture f;

  open_fixture(&f, 4, 2);
  CHECK(send_data(&f, 0, 0, 'a'));
  fb_remote_channel_end(f.channel);
  send_event(&f, FB_EVENT_BUFFER, 1);
  CHECK(send_data(&f, 2, 5, 'b'));
  CHECK(fb_remote_channel_poll(f.channel, &polled) == FB_ERELEASED);
  CHECK(fb_remote_channel_resume(f.channel) == FB_ERELEASED);
  CHECK(fb_remote_channel_acknowledge(f.channel) == FB_ERELEASED);
  CHECK(fb_remote_channel_announce_buffer_size(f.channel, 64) == FB_ERELEASED);
  client_turns(&f);
  fb_remote_channel_on_backlog(f.channel, 3);
  CHECK(client_turns(&f) == 0); /* nobody is asked to send anything */
  close_fixture(&f);
}

static void what_the_task_holds_outlives_the_channel(void) {
  struct fb_buffer_slice held[2];
  struct fixture f;

  open_fixture(&f, 2, 1);
  fb_remote_channel_on_backlog(f.channel, 1);
  CHECK(send_data(&f, 0, -1, 'a') && send_data(&f, 1, -1, 'b') && !send_data(&f, 2, -1, 'c'));
  for (int i = 0; i < 2; i++) held[i] = expect_next(&f, i, FB_DATA_BUFFER, i == 0 ? FB_DATA_BUFFER : FB_NONE);
  fb_remote_channel_end(f.channel);
  client_turns(&f);
  fb_remote_channel_close(f.channel);
  CHECK(fb_network_buffer_pool_required(f.network) == f.floating + 1);
  for (int i = 0; i < 2; i++) {
    CHECK(fb_buffer_slice_data(&held[i])[SEGMENT_SIZE - 1] == "ab"[i]);
    fb_buffer_slice_release(&held[i]);
  }
  close_pools(&f);
}

static void wishes_are_remembered_until_they_are_sent(void) {
  struct fixture f;

  open_fixture(&f, 2, 1);
  CHECK(fb_remote_channel_announce_buffer_size(f.channel, 0) == FB_EARGUMENT);
  CHECK(fb_remote_channel_announce_buffer_size(f.channel, -5) == FB_EARGUMENT);
  CHECK(client_turns(&f) == 0);
  CHECK(fb_remote_channel_announce_buffer_size(f.channel, 4096) == FB_OK);
  CHECK(fb_remote_channel_announce_buffer_size(f.channel, 256) == FB_OK);
  CHECK(fb_remote_channel_acknowledge(f.channel) == FB_OK);
  CHECK(client_turns(&f) > 0);
  CHECK(fb_remote_channel_take_buffer_size(f.channel) == 256 && fb_remote_channel_take_buffer_size(f.channel) == 0);
  CHECK(fb_remote_channel_take_acknowledgement(f.channel) && !fb_remote_channel_take_acknowledgement(f.channel));
  fb_remote_channel_restore_buffer_size(f.channel, 0);
  CHECK(fb_remote_channel_take_buffer_size(f.channel) == 0);
  fb_remote_channel_restore_buffer_size(f.channel, 256);
  CHECK(fb_remote_channel_take_buffer_size(f.channel) == 256);
  CHECK(fb_remote_channel_announce_buffer_size(f.channel, 512) == FB_OK && client_turns(&f) == 1);
  fb_remote_channel_restore_buffer_size(f.channel, 256); /* a later wish stays */
  CHECK(fb_remote_channel_take_buffer_size(f.channel) == 512);
  CHECK(!fb_remote_channel_take_resume(f.channel));
  CHECK(fb_remote_channel_resume(f.channel) == FB_OK && client_turns(&f) == 1);
  CHECK(fb_remote_channel_take_resume(f.channel) && !fb_remote_channel_take_resume(f.channel));
  close_fixture(&f);
}

/* ---- credit -------------------------------------------------------------------------------------------- */

/* While the sender has next to none, the first new credit has the client called; what comes until it is sent
 * rides along. */
static void credit_that_is_short_is_told_once_until_it_is_sent(void) {
  struct fb_buffer_slice slice;
  struct fixture f;

  open_fixture(&f, 8, 2);
  CHECK(client_turns(&f) == 0 && fb_remote_channel_take_credit(f.channel) == 0);
  fb_remote_channel_on_backlog(f.channel, 3);
  CHECK(client_turns(&f) == 1);
  fb_remote_channel_on_backlog(f.channel, 5);
  CHECK(send_data(&f, 0, 4, 'a'));
  slice = expect_next(&f, 0, FB_DATA_BUFFER, FB_NONE);
  fb_buffer_slice_release(&slice); /* a floating one: the pool has it again, nobody waits for it */
  CHECK(fb_remote_channel_take_credit(f.channel) == 5);
  CHECK(fb_remote_channel_take_credit(f.channel) == 0);
  client_turns(&f);
  close_fixture(&f);
}

/* A sender that has enough is told in few frames, and in time: it is never out of credit that is there. */
static void credit_that_is_not_short_is_told_in_batches(void) {
  struct fb_buffer_slice slices[8];
  struct fixture f;

  open_fixture(&f, 1, 8);
  for (int i = 0; i < 5; i++) {
    CHECK(send_data(&f, i, -1, 'a'));
    slices[i] = expect_next(&f, i, FB_DATA_BUFFER, FB_NONE);
  }
  CHECK(client_turns(&f) == 0);
  fb_buffer_slice_release(&slices[0]); /* the sender has 3 left */
  CHECK(client_turns(&f) == 0);
  fb_buffer_slice_release(&slices[1]);
  fb_buffer_slice_release(&slices[2]);
  CHECK(client_turns(&f) == 0);
  fb_buffer_slice_release(&slices[3]);
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 4);
  fb_buffer_slice_release(&slices[4]); /* 7 left */
  for (int i = 5; i < 9; i++) {
    CHECK(send_data(&f, i, -1, 'a'));
    slices[i - 5] = expect_next(&f, i, FB_DATA_BUFFER, FB_NONE);
    CHECK(client_turns(&f) == 0);
  }
  CHECK(send_data(&f, 9, -1, 'a')); /* 2 left, and one to be told */
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 1);
  for (int i = 0; i < 4; i++) fb_buffer_slice_release(&slices[i]);
  pass(&f, 9, FB_DATA_BUFFER, FB_NONE);
  CHECK(client_turns(&f) > 0 && fb_remote_channel_take_credit(f.channel) == 5);
  close_fixture(&f);
}

static void an_empty_buffer_gives_its_credit_back(void) {
  struct fb_buffer* buffer;
  struct fixture f;

  open_fixture(&f, 2, 1);
  buffer = fb_remote_channel_request_buffer(f.channel);
  CHECK(buffer != NULL && fb_remote_channel_request_buffer(f.channel) == NULL);
  fb_buffer_release(buffer);
  fb_remote_channel_on_empty_buffer(f.channel, 0, 0);
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 1);
  expect_nothing(&f);
  close_fixture(&f);
}

static void a_blocked_sender_without_credit_of_its_own_starts_anew(void) {
  struct fb_remote_channel_usage usage;
  struct fixture f;

  open_fixture(&f, 8, 0);
  fb_remote_channel_on_backlog(f.channel, 3);
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 3);
  CHECK(send_data(&f, 0, 4, 'a')); /* two of its three are left, and two come on top */
  send_barrier(&f, FB_ALIGNED_CHECKPOINT_BARRIER, 1, 1);
  CHECK(fb_buffer_manager_available(&f.channel->buffers) == 0); /* others may need them */
  pass(&f, 0, FB_DATA_BUFFER, FB_ALIGNED_CHECKPOINT_BARRIER);
  pass(&f, 1, FB_ALIGNED_CHECKPOINT_BARRIER, FB_NONE);
  CHECK(fb_local_buffer_pool_stock(f.pool) == 1 || used_of(f.pool) == 0);
  client_turns(&f);
  CHECK(fb_remote_channel_resume(f.channel) == FB_OK && client_turns(&f) == 1);
  CHECK(fb_remote_channel_take_resume(f.channel));
  CHECK(fb_remote_channel_take_credit(f.channel) == 0); /* there is no buffer behind it any more */
  fb_remote_channel_get_usage(f.channel, &usage);
  CHECK(usage.queued == 0 && usage.credit == 0 && usage.required == 0);
  fb_remote_channel_on_backlog(f.channel, 1); /* the sender has none: it is told at once */
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 1);
  CHECK(send_data(&f, 2, 0, 'b') && !send_data(&f, 3, 0, 'c'));
  close_fixture(&f);
}

/* Credit on its way to the client's thread when the task resumes must not be taken for the sender's. */
static void credit_that_was_under_way_at_the_resume_is_forgotten(void) {
  struct fixture f;

  open_fixture(&f, 8, 0);
  fb_remote_channel_on_backlog(f.channel, 5);
  send_barrier(&f, FB_ALIGNED_CHECKPOINT_BARRIER, 1, 0);
  pass(&f, 0, FB_ALIGNED_CHECKPOINT_BARRIER, FB_NONE);
  CHECK(fb_remote_channel_resume(f.channel) == FB_OK);
  CHECK(fb_remote_channel_take_credit(f.channel) == 5); /* sent before the resume, which makes the sender forget it */
  CHECK(fb_remote_channel_take_resume(f.channel));
  client_turns(&f);
  fb_remote_channel_on_backlog(f.channel, 1);
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 1);
  close_fixture(&f);
}

/* Nothing is behind a barrier that blocks, whatever it says: buffers for it would have no credit after the resume. */
static void the_backlog_of_a_blocking_event_is_not_believed(void) {
  struct fb_buffer_slice slice = barrier(FB_ALIGNED_CHECKPOINT_BARRIER, 1);
  struct fixture f;

  open_fixture(&f, 8, 0);
  fb_remote_channel_on_buffer(f.channel, &slice, 0, 4);
  CHECK(fb_buffer_manager_available(&f.channel->buffers) == 0);
  pass(&f, 0, FB_ALIGNED_CHECKPOINT_BARRIER, FB_NONE);
  CHECK(fb_remote_channel_resume(f.channel) == FB_OK && fb_remote_channel_take_resume(f.channel));
  client_turns(&f);
  fb_remote_channel_on_backlog(f.channel, 4);
  CHECK(client_turns(&f) == 1 && fb_remote_channel_take_credit(f.channel) == 4);
  close_fixture(&f);
}

/* Two channels of one gate, with and without exclusive buffers, up to a barrier and after it. */
static void exclusive_buffers_stay_while_a_barrier_blocks(void) {
  struct fixture f;
  struct fb_remote_channel *with, *without;

  open_fixture(&f, 8, 2);
  with = f.channel;
  without = open_channel(&f, 0);
  fb_remote_channel_on_backlog(with, 2);
  fb_remote_channel_on_backlog(without, 2);
  for (int i = 0; i < 2; i++) {
    struct fb_buffer_slice slice = barrier(FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, 1);
    struct fb_remote_channel* channel = i == 0 ? with : without;
    CHECK(fb_buffer_manager_available(&channel->buffers) == (i == 0 ? 4 : 2));
    fb_remote_channel_on_buffer(channel, &slice, 0, 0);
    CHECK(fb_buffer_manager_available(&channel->buffers) == (i == 0 ? 4 : 0));
    CHECK(fb_remote_channel_resume(channel) == FB_OK);
    CHECK(fb_remote_channel_take_resume(channel));
    CHECK(channel->initial_credit + channel->unannounced_credit == (i == 0 ? 4 : 0));
  }
  fb_remote_channel_on_backlog(with, 4);
  fb_remote_channel_on_backlog(without, 4);
  CHECK(fb_buffer_manager_available(&with->buffers) == 6 && fb_buffer_manager_available(&without->buffers) == 4);
  CHECK(fb_remote_channel_take_credit(with) == 4 && fb_remote_channel_take_credit(without) == 4);
  fb_remote_channel_end(without);
  client_turns(&f);
  fb_remote_channel_close(without);
  close_fixture(&f);
}

/* ---- the rules of credit, under any schedule ----------------------------------------------------------- */

/* A sender with its subpartition, and the two directions of a wire between it and the channel. */
struct wire {
  struct {
    bool is_data, is_barrier, is_announcement;
    int32_t number, backlog;
  } down[512]; /* to the channel */
  struct {
    uint32_t credit;
    bool is_resume;
  } up[512];                                         /* to the sender */
  uint32_t down_first, down_last, up_first, up_last; /* run on; positions modulo 512 */
  uint32_t data_down, credit_up;                     /* of those under way */
  /* The sender. */
  uint32_t queued;         /* data buffers of the subpartition, up to a barrier */
  uint32_t behind_barrier; /* and behind it */
  uint32_t produced, to_produce;
  uint32_t credits, exclusive;
  int32_t number;
  bool has_barrier, is_blocked, was_announced;
  /* The task. */
  struct fb_buffer_slice held[16];
  uint32_t held_count;
  uint32_t consumed;
  int32_t next_number;
  bool wants_resume, has_turn;
};

static void go_down(struct wire* wire, bool is_data, bool is_barrier, uint32_t backlog) {
  bool is_announcement = !is_data && !is_barrier;

  CHECK(wire->down_last - wire->down_first < 512);
  wire->down[wire->down_last % 512].is_data = is_data;
  wire->down[wire->down_last % 512].is_barrier = is_barrier;
  wire->down[wire->down_last % 512].is_announcement = is_announcement;
  wire->down[wire->down_last % 512].backlog = (int32_t)backlog;
  if (!is_announcement) wire->down[wire->down_last % 512].number = wire->number++;
  wire->data_down += is_data;
  wire->down_last++;
}

/* What the server does when something changed: sends one buffer, or says what waits. */
static void serve(struct wire* wire) {
  if (wire->is_blocked) return;
  if (wire->queued > 0 && wire->credits > 0) {
    wire->credits--;
    wire->queued--;
    go_down(wire, true, false, wire->queued);
    wire->was_announced = false;
  } else if (wire->queued == 0 && wire->has_barrier) {
    wire->has_barrier = false;
    wire->is_blocked = true;
    go_down(wire, false, true, 0);
  } else if (wire->queued > 0 && wire->exclusive == 0 && !wire->was_announced) {
    wire->was_announced = true;
    go_down(wire, false, false, wire->queued);
  }
}

static void produce(struct wire* wire, bool is_barrier) {
  if (is_barrier) {
    if (!wire->has_barrier && !wire->is_blocked) wire->has_barrier = true;
    return;
  }
  if (wire->produced == wire->to_produce) return;
  wire->produced++;
  if (wire->has_barrier || wire->is_blocked) wire->behind_barrier++;
  else wire->queued++, wire->was_announced = false;
}

static void hear_from_client(struct wire* wire) {
  if (wire->up_first == wire->up_last) return;
  if (wire->up[wire->up_first % 512].is_resume) {
    CHECK(wire->is_blocked);
    wire->is_blocked = false;
    if (wire->exclusive == 0) wire->credits = 0;
    wire->queued += wire->behind_barrier;
    wire->behind_barrier = 0;
    wire->was_announced = false;
  }
  wire->credits += wire->up[wire->up_first % 512].credit;
  wire->credit_up -= wire->up[wire->up_first % 512].credit;
  wire->up_first++;
}

static void go_up(struct wire* wire, uint32_t credit, bool is_resume) {
  CHECK(wire->up_last - wire->up_first < 512);
  wire->up[wire->up_last % 512].credit = credit;
  wire->up[wire->up_last++ % 512].is_resume = is_resume;
  wire->credit_up += credit;
}

/* The client's task, if it was posted: nothing is sent without it. */
static void run_client(struct fixture* f, struct wire* wire) {
  uint32_t credit;

  wire->has_turn = client_turns(f) > 0 || wire->has_turn;
  if (!wire->has_turn) return;
  wire->has_turn = false;
  if (fb_remote_channel_take_resume(f->channel)) go_up(wire, 0, true);
  credit = fb_remote_channel_take_credit(f->channel);
  if (credit > 0) go_up(wire, credit, false);
}

static void hear_from_server(struct fixture* f, struct wire* wire) {
  uint32_t at = wire->down_first % 512;

  if (wire->down_first == wire->down_last) return;
  wire->down_first++;
  if (wire->down[at].is_announcement) {
    fb_remote_channel_on_backlog(f->channel, wire->down[at].backlog);
  } else if (wire->down[at].is_barrier) {
    send_barrier(f, FB_ALIGNED_CHECKPOINT_BARRIER, 1, wire->down[at].number);
  } else {
    CHECK(send_data(f, wire->down[at].number, wire->down[at].backlog, 'x')); /* there is always room for it */
    wire->data_down--;
  }
}

static void consume(struct fixture* f, struct wire* wire) {
  struct fb_polled_buffer polled;

  if (wire->wants_resume) {
    wire->wants_resume = false;
    CHECK(fb_remote_channel_resume(f->channel) == FB_OK);
  }
  if (wire->held_count == 16 || fb_remote_channel_poll(f->channel, &polled) != 1) return;
  CHECK(polled.sequence_number == wire->next_number++);
  if (fb_buffer_data_type_is_buffer(polled.slice.data_type)) {
    wire->held[wire->held_count++] = polled.slice;
    wire->consumed++;
  } else {
    wire->wants_resume = true;
    fb_buffer_slice_release(&polled.slice);
  }
}

static void recycle(struct wire* wire, uint64_t random) {
  uint32_t which;

  if (wire->held_count == 0) return;
  which = (uint32_t)(random % wire->held_count);
  fb_buffer_slice_release(&wire->held[which]);
  wire->held[which] = wire->held[--wire->held_count];
}

/* What the sender may send now or soon has a buffer that waits for it. Without exclusive buffers the two sides forget
 * their credit at different moments: from the barrier's arrival to the resume's it is not counted. */
static void check_credit(struct fixture* f, const struct wire* wire) {
  uint32_t promised = wire->credits + wire->credit_up + wire->data_down + atomic_load(&f->channel->unannounced_credit);

  if (wire->exclusive == 0 && (wire->is_blocked || f->channel->wants_resume || wire->wants_resume)) return;
  for (uint32_t at = wire->up_first; at != wire->up_last; at++)
    if (wire->up[at % 512].is_resume) return;
  CHECK(promised <= fb_buffer_manager_available(&f->channel->buffers));
}

static bool is_idle(struct fixture* f, const struct wire* wire) {
  return wire->produced == wire->to_produce && wire->consumed == wire->to_produce && wire->held_count == 0 &&
         wire->next_number == wire->number && !f->channel->wants_resume;
}

static void take_any_step(struct fixture* f, struct wire* wire, uint64_t random) {
  switch (random % 11) {
    case 0: produce(wire, false); break;
    case 1: produce(wire, random >> 32 & 1); break;
    case 2:
    case 3: serve(wire); break;
    case 4: hear_from_client(wire); break;
    case 5: run_client(f, wire); break;
    case 6:
    case 7: hear_from_server(f, wire); break;
    case 8: consume(f, wire); break;
    default: recycle(wire, random >> 16);
  }
}

static void run_schedule(uint32_t floating, uint32_t exclusive, uint32_t buffers, uint64_t seed) {
  struct wire* wire = calloc(1, sizeof *wire);
  uint32_t since = 0;
  struct fixture f;

  CHECK(wire != NULL);
  open_fixture(&f, floating, exclusive);
  wire->exclusive = wire->credits = exclusive;
  wire->to_produce = buffers;
  while (!is_idle(&f, wire)) {
    uint32_t consumed = wire->consumed;
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    take_any_step(&f, wire, seed);
    check_credit(&f, wire);
    since = wire->consumed > consumed || wire->produced < wire->to_produce ? 0 : since + 1;
    CHECK(since < 50000); /* it never stands still */
  }
  close_fixture(&f);
  free(wire);
}

static void the_rules_of_credit_hold_under_any_schedule(void) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    run_schedule(1, 0, 150, seed * 7919);
    run_schedule(6, 0, 150, seed * 104729);
    run_schedule(1, 1, 150, seed * 1299709);
    run_schedule(4, 2, 150, seed * 15485863);
    run_schedule(12, 8, 150, seed * 32452843);
  }
}

/* ---- threads ------------------------------------------------------------------------------------------- */

struct race {
  struct fixture* f;
  pthread_barrier_t start;
};

/* The I/O thread: what arrives, and the credit it finds to send; the connection goes when the channel has gone. */
static void* arrive(void* argument) {
  struct race* race = argument;
  int32_t number = 0;

  pthread_barrier_wait(&race->start);
  for (int i = 0; i < 40; i++) {
    if (i % 10 == 9) send_event(race->f, FB_PRIORITIZED_EVENT_BUFFER, number++);
    else if (send_data(race->f, number, i % 4, (uint8_t)i)) number++;
    else fb_remote_channel_on_backlog(race->f->channel, 2);
    fb_remote_channel_take_credit(race->f->channel);
  }
  fb_remote_channel_drop(race->f->channel);
  return NULL;
}

/* Others borrow from the gate's pool and give back. */
static void* lend(void* argument) {
  struct race* race = argument;

  pthread_barrier_wait(&race->start);
  for (int i = 0; i < 20; i++) {
    struct fb_buffer* buffer;
    CHECK(fb_local_buffer_pool_request(race->f->pool, FB_NO_CHANNEL, &buffer) == FB_OK);
    if (buffer != NULL) fb_buffer_release(buffer);
  }
  return NULL;
}

/* The task: polls, recycles one behind, and releases somewhere in between. */
static void* poll_and_release(struct race* race, int polls) {
  struct fb_polled_buffer polled = {0}, last = polled;

  pthread_barrier_wait(&race->start);
  for (int i = 0; i < polls; i++) {
    int code = fb_remote_channel_poll(race->f->channel, &polled);
    CHECK(code >= 0);
    if (code == 1) {
      fb_buffer_slice_release(&last.slice);
      last = polled;
    } else {
      sched_yield();
    }
  }
  fb_remote_channel_end(race->f->channel);
  CHECK(fb_reactor_call(race->f->reactor, nothing, NULL) == FB_OK);
  fb_remote_channel_close(race->f->channel);
  fb_buffer_slice_release(&last.slice);
  return NULL;
}

static void release_races_with_arrival_recycling_and_the_pool(void) {
  for (int round = 0; round < 2000; round++) {
    struct race race;
    struct fixture f;
    pthread_t threads[2];

    open_fixture(&f, 3, (uint32_t)round % 3);
    race.f = &f;
    fb_remote_channel_retain(f.channel); /* for the I/O thread */
    CHECK(pthread_barrier_init(&race.start, NULL, 3) == 0);
    CHECK(pthread_create(&threads[0], NULL, arrive, &race) == 0);
    CHECK(pthread_create(&threads[1], NULL, lend, &race) == 0);
    poll_and_release(&race, round % 50);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&race.start);
    close_pools(&f);
  }
}

enum { STREAM_DATA = 200, STREAM_BARRIERS = 5 };

struct stream {
  struct fixture* f;
  int32_t barrier_at[STREAM_BARRIERS]; /* how many data buffers come before it */
};

/* Data that are numbered, and barriers 1, 2, ... among them, each of which overtakes. */
static void* send_stream(void* argument) {
  struct stream* stream = argument;
  int32_t sequence = 0, next = 0;

  for (int32_t i = 0; i <= STREAM_DATA; i++) {
    while (next < STREAM_BARRIERS && stream->barrier_at[next] == i) {
      next++;
      send_barrier(stream->f, FB_PRIORITIZED_EVENT_BUFFER, next, sequence++);
    }
    while (i < STREAM_DATA && !send_data(stream->f, sequence, 0, (uint8_t)i)) sched_yield();
    sequence++;
  }
  return NULL;
}

/* Polls one thing; counts data, whose numbers must follow each other. Returns the barrier's id, or 0. */
static int64_t poll_stream(struct fixture* f, int32_t* count) {
  struct fb_polled_buffer polled;
  int64_t id = 0;

  if (fb_remote_channel_poll(f->channel, &polled) != 1) return 0;
  if (polled.slice.data_type == FB_DATA_BUFFER) CHECK(fb_buffer_slice_data(&polled.slice)[0] == (uint8_t)(*count)++);
  else CHECK(fb_checkpoint_barrier_read(&polled.slice, &id));
  fb_buffer_slice_release(&polled.slice);
  return id;
}

/* The slices go on where *count says. */
static void check_stream(struct fb_slice_list* list, int32_t* count) {
  for (uint32_t i = 0; i < list->count; i++) CHECK(fb_buffer_slice_data(&list->items[i])[0] == (uint8_t)(*count)++);
  fb_slice_list_close(list);
}

/* Whenever it begins, a checkpoint has exactly what was not polled at that moment and was sent before its barrier. */
static void a_checkpoint_is_complete_whatever_arrives_meanwhile(void) {
  for (unsigned round = 0; round < 20; round++) {
    struct fb_persisting_budget budget = {1 << 20};
    struct fb_slice_list list = {0};
    struct stream stream;
    struct fixture f;
    int32_t count = 0, persisted;
    int64_t barrier = 0, seen = 0;
    pthread_t sender;

    open_fixture(&f, 4, 2);
    stream.f = &f;
    for (int i = 0; i < STREAM_BARRIERS; i++)
      stream.barrier_at[i] = (int32_t)((unsigned)(i + 1) * STREAM_DATA / (STREAM_BARRIERS + 1));
    CHECK(pthread_create(&sender, NULL, send_stream, &stream) == 0);
    for (int64_t id = 1; id <= STREAM_BARRIERS; id++) {
      /* Some begin long before the barrier is here, some when it is polled. */
      for (unsigned i = 0; i < round % 40 && seen < id; i++)
        seen = (barrier = poll_stream(&f, &count)) ? barrier : seen;
      persisted = count;
      if (fb_remote_channel_start_persisting(f.channel, id, &budget, &list) < 0) continue;
      check_stream(&list, &persisted); /* gives them back: the sender may have no credit before */
      while (seen < id) seen = (barrier = poll_stream(&f, &count)) ? barrier : seen;
      CHECK(fb_remote_channel_stop_persisting(f.channel, &list) == FB_OK);
      check_stream(&list, &persisted);
      CHECK(persisted == stream.barrier_at[id - 1]);
    }
    while (count < STREAM_DATA) poll_stream(&f, &count);
    pthread_join(sender, NULL);
    close_fixture(&f);
  }
}

int main(void) {
  a_checkpoint_is_complete_whatever_arrives_meanwhile();
  buffers_come_in_the_order_of_their_numbers();
  a_wrong_number_is_an_error_of_the_next_poll();
  numbers_wrap_at_the_end_of_their_range();
  priority_events_overtake_and_keep_their_own_order();
  the_queue_agrees_with_a_list();
  a_barrier_is_announced_and_can_be_made_to_overtake();
  an_announced_barrier_keeps_its_place_unless_it_is_converted();
  flinks_own_barriers_are_converted_whatever_follows_their_options();
  what_is_no_barrier_is_not_converted();
  what_is_queued_and_what_arrives_before_the_barrier_is_persisted();
  of_a_channel_whose_barrier_is_there_only_what_it_overtook_is_persisted();
  persisted_buffers_come_home_before_the_barrier();
  with_priority_only_that_is_polled();
  the_first_error_comes_first_and_stays();
  events_that_nobody_reads_cost_bounded_memory();
  a_released_channel_takes_nothing_in();
  what_the_task_holds_outlives_the_channel();
  wishes_are_remembered_until_they_are_sent();
  credit_that_is_short_is_told_once_until_it_is_sent();
  credit_that_is_not_short_is_told_in_batches();
  an_empty_buffer_gives_its_credit_back();
  a_blocked_sender_without_credit_of_its_own_starts_anew();
  credit_that_was_under_way_at_the_resume_is_forgotten();
  the_backlog_of_a_blocking_event_is_not_believed();
  exclusive_buffers_stay_while_a_barrier_blocks();
  the_rules_of_credit_hold_under_any_schedule();
  release_races_with_arrival_recycling_and_the_pool();
  return 0;
}
