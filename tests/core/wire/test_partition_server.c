/* A server over real sockets, asked by a client that is a plain blocking socket of this thread: credit,
 * backlog, events, barriers, partitions that come late or never, and errors that stay with their channel. */
/* memmem */
#define _GNU_SOURCE
#include "partition/pipelined_partition.h"
#include "wire/partition_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "wire/error_cause.h"
#include "wire/frame.h"

#define SEGMENT  64
#define SEGMENTS 64
#define ID(n)    ((const uint8_t[FB_PARTITION_ID_SIZE]){n})

struct fixture {
  struct fb_reactor* reactor;
  struct fb_partition_manager* manager;
  struct fb_partition_server* server;
  struct fb_tcp_address address;
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partition;
  struct fb_frame_decoder decoder;
  int fd;
  uint8_t input[1 << 16];
  const uint8_t* at;
  size_t left;
  struct fb_frame frame; /* the last that came, and its body */
  uint8_t body[1 << 16];
};

static void dial(struct fixture* self) {
  struct timeval limit = {.tv_sec = 20};

  fb_frame_decoder_open(&self->decoder, &(struct fb_frame_limits){.accepted = FB_FRAMES_OF_SERVERS});
  self->left = 0;
  self->fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(self->fd >= 0 && setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  CHECK(connect(self->fd, (struct sockaddr*)&self->address.bytes, self->address.size) == 0);
}

static void open_partition_of(struct fixture* self, enum fb_result_partition_type type, uint32_t n) {
  struct fb_buffer_pool_options options = {.min = n + 1, .max = FB_UNBOUNDED};
  struct fb_local_buffer_pool* pool;

  CHECK(fb_local_buffer_pool_open(self->network, &options, &pool) == FB_OK);
  CHECK(fb_pipelined_partition_open(type, n, pool, &self->partition) == FB_OK);
}

static void open_partition(struct fixture* self, uint32_t n) { open_partition_of(self, FB_PIPELINED, n); }

static void open_fixture_with(struct fixture* self, uint32_t n, const struct fb_partition_server_options* options) {
  memset(self, 0, sizeof(*self));
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &self->network) == FB_OK);
  open_partition(self, n);
  CHECK(fb_reactor_open(&self->reactor) == FB_OK && fb_partition_manager_open(&self->manager) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_partition_server_open(self->reactor, self->manager, &self->address, options, &self->server) == FB_OK);
  dial(self);
}

static void open_fixture(struct fixture* self, uint32_t n) {
  open_fixture_with(self, n, &(struct fb_partition_server_options){.request_timeout_ms = 150, .max_channels = 300});
}

/* Everything is home afterwards, whatever happened. */
static void close_fixture(struct fixture* self) {
  close(self->fd);
  fb_partition_server_close(self->server);
  fb_reactor_close(self->reactor);
  fb_result_partition_close(self->partition);
  fb_result_partition_drop(self->partition);
  fb_partition_manager_close(self->manager);
  CHECK(fb_network_buffer_pool_available(self->network) == SEGMENTS);
  fb_network_buffer_pool_close(self->network);
}

/* ---- the client ---------------------------------------------------------------------------------------- */

static struct fb_frame frame_for(enum fb_frame_id id, uint8_t channel) {
  struct fb_frame frame = {.id = (uint8_t)id, .has_receiver = true};
  memset(frame.receiver, channel, sizeof frame.receiver);
  return frame;
}

static void say(struct fixture* self, const struct fb_frame* frame) {
  uint8_t bytes[FB_FRAME_HEAD_MAX];
  int size = fb_frame_write_head(frame, bytes);
  CHECK(size > 0 && write(self->fd, bytes, (size_t)size) == size);
}

static void ask(struct fixture* self, uint8_t channel, const uint8_t* id, int32_t subpartition, int32_t credit) {
  struct fb_frame frame = frame_for(FB_PARTITION_REQUEST, channel);
  memcpy(frame.partition, id, FB_PARTITION_ID_SIZE);
  frame.subpartition = frame.last_subpartition = subpartition;
  frame.credit = credit;
  say(self, &frame);
}

static void give_credit(struct fixture* self, uint8_t channel, int32_t credit) {
  struct fb_frame frame = frame_for(FB_ADD_CREDIT, channel);
  frame.credit = credit;
  say(self, &frame);
}

static void tell(struct fixture* self, enum fb_frame_id id, uint8_t channel) {
  struct fb_frame frame = frame_for(id, channel);
  say(self, &frame);
}

/* The next frame of the server into self->frame and self->body. false: the server has ended the stream. */
static bool hear(struct fixture* self) {
  size_t filled = 0;

  for (;;) {
    int step = fb_frame_decoder_next(&self->decoder, &self->at, &self->left);
    if (step == FB_FRAME_BODY) {
      CHECK(filled + self->decoder.size <= sizeof self->body);
      memcpy(self->body + filled, self->decoder.bytes, self->decoder.size);
      filled += self->decoder.size;
    }
    if (step == FB_FRAME_NEEDS_INPUT) {
      ssize_t got = read(self->fd, self->input, sizeof self->input);
      CHECK(got >= 0);
      if (got == 0) return false;
      self->at = self->input;
      self->left = (size_t)got;
    }
    CHECK(step >= 0);
    if (step != FB_FRAME_ENDS) continue;
    self->frame = self->decoder.frame;
    if (self->frame.id == FB_ERROR_RESPONSE) CHECK(fb_frame_split_error(&self->frame, self->body, filled) == FB_OK);
    return true;
  }
}

static void expect_buffer(struct fixture* self, uint8_t channel, int32_t sequence, uint32_t backlog, const char* text) {
  CHECK(hear(self) && self->frame.id == FB_BUFFER_RESPONSE);
  CHECK(self->frame.receiver[0] == channel && self->frame.sequence_number == sequence);
  CHECK(self->frame.data_type == FB_DATA_BUFFER && (uint32_t)self->frame.backlog == backlog);
  CHECK(self->frame.body_size == strlen(text) && memcmp(self->body, text, strlen(text)) == 0);
}

static void expect_event(struct fixture* self, uint8_t channel, int32_t sequence, enum fb_buffer_data_type type) {
  CHECK(hear(self) && self->frame.id == FB_BUFFER_RESPONSE && self->frame.receiver[0] == channel);
  CHECK(self->frame.data_type == type && self->frame.sequence_number == sequence);
}

/* `channel` 0: the error ends the connection. */
static void expect_error(struct fixture* self, uint8_t channel, const char* text) {
  struct fb_error_cause cause;
  char message[1001];

  CHECK(hear(self) && self->frame.id == FB_ERROR_RESPONSE);
  CHECK(self->frame.has_receiver == (channel != 0) && self->frame.receiver[0] == channel);
  fb_error_cause_read(self->body, self->frame.body_size, &cause);
  CHECK(cause.message != NULL && cause.message_size <= 1000);
  memcpy(message, cause.message, cause.message_size);
  message[cause.message_size] = 0;
  if (strstr(message, text) == NULL) fprintf(stderr, "got: %s\n", message);
  CHECK(strstr(message, text) != NULL);
}

/* Nothing more comes for a channel: the answer to a request that is refused at once is the next frame. */
static void expect_silence(struct fixture* self) {
  static const uint8_t marker = 0xee;
  ask(self, marker, ID(99), 5, 1);
  tell(self, FB_CANCEL_PARTITION_REQUEST, marker);
  struct fb_frame frame = frame_for(FB_PARTITION_REQUEST, marker);
  frame.last_subpartition = 1;
  say(self, &frame);
  expect_error(self, marker, "ranges of subpartitions are not served");
}

static void emit(struct fixture* self, uint32_t subpartition, const char* text) {
  const uint8_t* data = (const uint8_t*)text;
  size_t size = strlen(text);
  CHECK(fb_result_partition_emit(self->partition, subpartition, &data, &size) == FB_OK);
}

/* A full buffer. Flushed, since the last one is not announced before. */
static void emit_buffer(struct fixture* self, uint32_t subpartition, char fill) {
  char text[SEGMENT + 1];
  memset(text, fill, SEGMENT);
  text[SEGMENT] = 0;
  emit(self, subpartition, text);
  fb_result_partition_flush(self->partition, subpartition);
}

static const char* filled_with(char fill) {
  static char text[SEGMENT + 1];
  memset(text, fill, SEGMENT);
  return text;
}

static void emit_event(struct fixture* self, uint32_t subpartition, enum fb_buffer_data_type type) {
  const uint8_t* data = (const uint8_t*)"event";
  CHECK(fb_result_partition_emit_event(self->partition, subpartition, data, 5, type) == FB_OK);
}

static void register_partition(struct fixture* self, uint8_t id) {
  CHECK(fb_partition_manager_register(self->manager, ID(id), self->partition) == FB_OK);
}

static struct fb_partition_server_counters counters_of(struct fixture* self) {
  struct fb_partition_server_counters counters;
  fb_partition_server_get_counters(self->server, &counters);
  return counters;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void data_waits_for_credit_and_events_do_not(void) {
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  for (char c = 'a'; c <= 'f'; c++) emit_buffer(&f, 0, c);
  ask(&f, 7, ID(1), 0, 2);
  expect_buffer(&f, 7, 0, 5, filled_with('a'));
  expect_buffer(&f, 7, 1, 4, filled_with('b'));
  expect_silence(&f);
  give_credit(&f, 7, 1);
  expect_buffer(&f, 7, 2, 3, filled_with('c'));
  expect_silence(&f);
  give_credit(&f, 7, 3);
  expect_buffer(&f, 7, 3, 2, filled_with('d'));
  expect_buffer(&f, 7, 4, 1, filled_with('e'));
  expect_buffer(&f, 7, 5, 0, filled_with('f'));
  emit_event(&f, 0, FB_EVENT_BUFFER); /* without credit */
  expect_event(&f, 7, 6, FB_EVENT_BUFFER);
  CHECK(fb_result_partition_finish(f.partition) == FB_OK);
  expect_event(&f, 7, 7, FB_END_OF_PARTITION);
  CHECK(fb_partition_manager_count(f.manager) == 1);
  tell(&f, FB_CANCEL_PARTITION_REQUEST, 7);
  expect_silence(&f);
  CHECK(counters_of(&f).channels == 0 && counters_of(&f).buffers == 8);
  fb_result_partition_close(f.partition); /* the last who needs it */
  CHECK(fb_partition_manager_count(f.manager) == 0);
  close_fixture(&f);
}

static void without_exclusive_buffers_the_backlog_is_announced(void) {
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  emit_buffer(&f, 0, 'a');
  emit_buffer(&f, 0, 'b');
  ask(&f, 7, ID(1), 0, 0);
  CHECK(hear(&f) && f.frame.id == FB_BACKLOG_ANNOUNCEMENT);
  CHECK(f.frame.backlog == 2 && f.frame.receiver[0] == 7);
  give_credit(&f, 7, 1);
  expect_buffer(&f, 7, 0, 1, filled_with('a'));
  give_credit(&f, 7, 1);
  expect_buffer(&f, 7, 1, 0, filled_with('b'));
  emit_buffer(&f, 0, 'c');
  CHECK(hear(&f) && f.frame.id == FB_BACKLOG_ANNOUNCEMENT && f.frame.backlog == 1);
  give_credit(&f, 7, 5);
  expect_buffer(&f, 7, 2, 0, filled_with('c'));
  close_fixture(&f);
}

static void a_barrier_blocks_until_it_is_resumed(void) {
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  emit_buffer(&f, 0, 'a');
  emit_event(&f, 0, FB_ALIGNED_CHECKPOINT_BARRIER);
  emit_buffer(&f, 0, 'b');
  ask(&f, 7, ID(1), 0, 10);
  expect_buffer(&f, 7, 0, 1, filled_with('a'));
  expect_event(&f, 7, 1, FB_ALIGNED_CHECKPOINT_BARRIER);
  expect_silence(&f);
  tell(&f, FB_RESUME_CONSUMPTION, 7);
  expect_buffer(&f, 7, 2, 0, filled_with('b'));
  tell(&f, FB_RESUME_CONSUMPTION, 7);
  expect_error(&f, 7, "it is not blocked by an event");
  close_fixture(&f);
}

static void a_priority_event_goes_first(void) {
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  ask(&f, 7, ID(1), 0, 0);
  expect_silence(&f);
  emit_buffer(&f, 0, 'a');
  CHECK(hear(&f) && f.frame.id == FB_BACKLOG_ANNOUNCEMENT);
  emit_event(&f, 0, FB_PRIORITIZED_EVENT_BUFFER);
  expect_event(&f, 7, 0, FB_PRIORITIZED_EVENT_BUFFER);
  give_credit(&f, 7, 1);
  expect_buffer(&f, 7, 1, 0, filled_with('a'));
  close_fixture(&f);
}

static void a_partition_may_come_after_its_request(void) {
  struct fixture f;
  struct fb_frame frame;

  open_fixture(&f, 2);
  emit_buffer(&f, 0, 'a');
  emit_buffer(&f, 1, 'b');
  ask(&f, 7, ID(1), 0, 1);
  ask(&f, 8, ID(1), 1, 0);
  give_credit(&f, 8, 1); /* while it waits */
  frame = frame_for(FB_NEW_BUFFER_SIZE, 7);
  frame.buffer_size = 24;
  say(&f, &frame);
  ask(&f, 9, ID(2), 0, 1);
  expect_silence(&f);
  CHECK(counters_of(&f).channels == 3);
  register_partition(&f, 1);
  for (int i = 0; i < 2; i++) {
    CHECK(hear(&f) && f.frame.id == FB_BUFFER_RESPONSE);
    CHECK(f.body[0] == (f.frame.receiver[0] == 7 ? 'a' : 'b'));
    CHECK(f.frame.subpartition == f.frame.receiver[0] - 7);
  }
  CHECK(fb_pipelined_partition_queue(f.partition, 0)->buffer_size == 24 &&
        fb_pipelined_partition_queue(f.partition, 1)->buffer_size == INT32_MAX);
  expect_error(&f, 9, "Partition 02000000000000000000000000000000#0@"); /* never came */
  CHECK(strstr((char*)f.body + 8, "PartitionNotFoundException") != NULL);
  emit_buffer(&f, 0, 'c'); /* the others go on */
  give_credit(&f, 7, 1);
  expect_buffer(&f, 7, 1, 0, filled_with('c'));
  close_fixture(&f);
}

static void errors_stay_with_their_channel(void) {
  struct fixture f;
  struct fb_frame frame;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 1);
  ask(&f, 2, ID(1), 0, 1);
  expect_error(&f, 2, "it is read already, and can be read only once");
  ask(&f, 3, ID(1), 1, 1);
  expect_error(&f, 3, "subpartition 1 of partition 01000000000000000000000000000000#0@");
  give_credit(&f, 4, 1); /* nobody's: late, not wrong */
  tell(&f, FB_CANCEL_PARTITION_REQUEST, 4);
  tell(&f, FB_ACK_ALL_USER_RECORDS_PROCESSED, 4);
  frame = frame_for(FB_NEW_BUFFER_SIZE, 1);
  frame.buffer_size = 4096;
  say(&f, &frame);
  frame = frame_for(FB_TASK_EVENT_REQUEST, 5);
  {
    uint8_t bytes[FB_FRAME_HEAD_MAX + FB_FRAME_TAIL_MAX];
    int head = fb_frame_write_head(&frame, bytes);
    int tail = fb_frame_write_tail(&frame, bytes + head);
    CHECK(write(f.fd, bytes, (size_t)(head + tail)) == head + tail);
  }
  expect_error(&f, 5, "nobody listens to task events");
  emit_buffer(&f, 0, 'a');
  expect_buffer(&f, 1, 0, 0, filled_with('a'));
  give_credit(&f, 1, INT32_MAX);
  give_credit(&f, 1, 1);
  expect_error(&f, 1, "credit over 2147483647");
  expect_silence(&f);
  CHECK(counters_of(&f).connections == 1 && counters_of(&f).channels == 0);
  close_fixture(&f);
}

/* As everybody may see it; the I/O thread tells in its own time. */
static void expect_credit(struct fixture* self, uint32_t subpartition, int32_t credit) {
  struct fb_subpartition_usage usage;

  for (int i = 0; i < 4000; i++) {
    fb_subpartition_get_usage(fb_pipelined_partition_queue(self->partition, subpartition), &usage);
    if (usage.credit == credit) return;
    usleep(5000);
  }
  CHECK(usage.credit == credit);
}

static void credit_is_shown(void) {
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  expect_credit(&f, 0, -1);
  ask(&f, 7, ID(1), 0, 2);
  expect_credit(&f, 0, 2);
  ask(&f, 8, ID(1), 0, 9); /* is refused, and changes nothing */
  expect_error(&f, 8, "it is read already");
  expect_credit(&f, 0, 2);
  emit_buffer(&f, 0, 'a');
  expect_buffer(&f, 7, 0, 0, filled_with('a'));
  expect_credit(&f, 0, 1);
  give_credit(&f, 7, 5);
  expect_credit(&f, 0, 6);
  CHECK(counters_of(&f).buffers == 1 && counters_of(&f).bytes == SEGMENT);
  tell(&f, FB_CANCEL_PARTITION_REQUEST, 7);
  expect_credit(&f, 0, -1);
  close_fixture(&f);
}

static void readers_acknowledge_what_they_have_processed(void) {
  struct fixture f;

  open_fixture(&f, 2);
  ask(&f, 3, ID(2), 0, 1);
  tell(&f, FB_ACK_ALL_USER_RECORDS_PROCESSED, 3); /* before there is anything: ignored */
  register_partition(&f, 1);
  for (uint8_t i = 0; i < 2; i++) {
    emit_event(&f, i, FB_END_OF_DATA);
    ask(&f, (uint8_t)(i + 1), ID(1), i, 1);
    expect_event(&f, (uint8_t)(i + 1), 0, FB_END_OF_DATA);
  }
  tell(&f, FB_ACK_ALL_USER_RECORDS_PROCESSED, 2);
  CHECK(!fb_result_partition_wait_acknowledged(f.partition, 20));
  tell(&f, FB_ACK_ALL_USER_RECORDS_PROCESSED, 2);
  tell(&f, FB_ACK_ALL_USER_RECORDS_PROCESSED, 1);
  tell(&f, FB_CANCEL_PARTITION_REQUEST, 1);
  CHECK(fb_result_partition_wait_acknowledged(f.partition, -1) && fb_result_partition_is_acknowledged(f.partition));
  close_fixture(&f);
}

static void asking_twice_ends_the_channel(void) {
  struct fixture f;

  open_fixture(&f, 2);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 1);
  ask(&f, 1, ID(1), 1, 1);
  expect_error(&f, 1, "asked for a subpartition already");
  expect_silence(&f);
  CHECK(counters_of(&f).channels == 0);
  close_fixture(&f);
}

static void channels_of_one_connection_are_limited(void) {
  struct fixture f;
  int refused = 0;

  open_fixture(&f, 1);
  for (int i = 0; i < 310; i++) {
    struct fb_frame frame = frame_for(FB_PARTITION_REQUEST, 1);
    frame.receiver[1] = (uint8_t)i;
    frame.receiver[2] = (uint8_t)(i >> 8);
    say(&f, &frame);
  }
  for (int i = 0; i < 310; i++) { /* 10 at once, 300 when their partition has not come in time */
    struct fb_error_cause cause;
    CHECK(hear(&f) && f.frame.id == FB_ERROR_RESPONSE);
    fb_error_cause_read(f.body, f.frame.body_size, &cause);
    refused += !cause.is_partition_not_found;
  }
  CHECK(refused == 10 && counters_of(&f).channels == 0);
  close_fixture(&f);
}

static void of_strangers_only_so_many_requests_wait(void) {
  struct fixture f;

  open_fixture_with(&f, 1, &(struct fb_partition_server_options){.request_timeout_ms = 60000, .max_waiting = 2});
  for (uint8_t channel = 1; channel <= 4; channel++) ask(&f, channel, ID(9), 0, 1);
  for (uint8_t channel = 3; channel <= 4; channel++)
    CHECK(hear(&f) && f.frame.id == FB_ERROR_RESPONSE && f.frame.receiver[0] == channel);
  CHECK(counters_of(&f).channels == 2);
  tell(&f, FB_CANCEL_PARTITION_REQUEST, 1);
  ask(&f, 5, ID(9), 0, 1); /* in its place */
  ask(&f, 6, ID(9), 0, 1);
  CHECK(hear(&f) && f.frame.id == FB_ERROR_RESPONSE && f.frame.receiver[0] == 6);
  close_fixture(&f);
}

/* Whatever the server has said first. */
static bool is_hung_up(int fd) {
  uint8_t said[1 << 12];
  ssize_t got;

  while ((got = read(fd, said, sizeof said)) > 0) continue;
  return got == 0 || errno == ECONNRESET;
}

static void a_stranger_too_many_takes_the_place_of_one_that_reads_nothing(void) {
  struct fixture f;
  int fds[40];

  open_fixture_with(&f, 1, &(struct fb_partition_server_options){.max_connections = 2});
  ask(&f, 1, ID(9), 0, 1);
  while (counters_of(&f).channels < 1) usleep(1000);
  fds[0] = f.fd; /* it waits for something */
  for (int i = 1; i < 40; i++) {
    dial(&f);
    fds[i] = f.fd;
  }
  for (int i = 1; i < 39; i++) CHECK(is_hung_up(fds[i]));
  CHECK(counters_of(&f).channels == 1 && counters_of(&f).refused == 38);
  for (int i = 0; i < 39; i++) close(fds[i]);
  close_fixture(&f);
}

static void a_stranger_that_asks_for_nothing_goes(void) {
  struct fixture f;

  open_fixture_with(&f, 1, &(struct fb_partition_server_options){.proof_timeout_ms = 20});
  CHECK(hear(&f) && f.frame.id == FB_ERROR_RESPONSE && !f.frame.has_receiver);
  CHECK(!hear(&f));
  CHECK(counters_of(&f).refused == 1);
  close_fixture(&f);
}

static void a_failed_partition_tells_its_readers_why(void) {
  struct fixture f;

  open_fixture(&f, 2);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 1);
  ask(&f, 2, ID(1), 1, 1);
  emit_buffer(&f, 0, 'a');
  expect_buffer(&f, 1, 0, 0, filled_with('a'));
  fb_result_partition_fail(f.partition, "the task died of hunger");
  for (int i = 0; i < 2; i++) {
    CHECK(hear(&f) && f.frame.id == FB_ERROR_RESPONSE && f.frame.has_receiver);
    f.body[f.frame.body_size] = 0;
    CHECK(memmem(f.body, f.frame.body_size, "the task died of hunger", 23) != NULL);
  }
  close_fixture(&f);
}

static void bytes_that_are_no_frames_end_the_connection_with_a_reason(void) {
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 1);
  CHECK(write(f.fd, "GET / HTTP/1.1\r\n\r\n", 18) == 18);
  expect_error(&f, 0, "frame at byte 97 of the stream: starts with magic number");
  CHECK(!hear(&f));
  close(f.fd);
  dial(&f); /* nobody else is disturbed */
  expect_silence(&f);
  close_fixture(&f);
}

static void a_close_request_ends_the_connection(void) {
  struct fixture f;
  struct fb_frame frame = {.id = FB_CLOSE_REQUEST};

  open_fixture(&f, 1);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 1);
  say(&f, &frame);
  CHECK(!hear(&f));
  close_fixture(&f);
}

/* Its questions wait where they cost the server nothing, and are answered when it listens again. */
static void a_client_that_takes_no_answers_is_not_heard(void) {
  struct fixture f;
  struct timeval limit = {.tv_sec = 2};
  struct fb_frame frame = frame_for(FB_TASK_EVENT_REQUEST, 1);
  uint8_t bytes[FB_FRAME_HEAD_MAX + FB_FRAME_TAIL_MAX];
  size_t size, sent = 0;
  ssize_t written;

  open_fixture(&f, 1);
  size = (size_t)fb_frame_write_head(&frame, bytes);
  size += (size_t)fb_frame_write_tail(&frame, bytes + size);
  CHECK(setsockopt(f.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
  for (; (written = write(f.fd, bytes + sent % size, size - sent % size)) > 0; sent += (size_t)written)
    CHECK(sent < 32 << 20);
  for (size_t i = 0; i < sent / size; i++) CHECK(hear(&f) && f.frame.id == FB_ERROR_RESPONSE && f.frame.has_receiver);
  CHECK(sent % size == 0 || write(f.fd, bytes + sent % size, size - sent % size) > 0);
  close_fixture(&f);
}

static void who_was_replaced_as_a_reader_takes_nothing_more(void) {
  struct fixture f;

  open_fixture(&f, 1);
  fb_result_partition_close(f.partition);
  fb_result_partition_drop(f.partition);
  open_partition_of(&f, FB_PIPELINED_APPROXIMATE, 1);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 1);
  emit_buffer(&f, 0, 'a');
  expect_buffer(&f, 1, 0, 0, filled_with('a'));
  emit_buffer(&f, 0, 'b');
  ask(&f, 2, ID(1), 0, 0);
  CHECK(hear(&f) && f.frame.id == FB_BACKLOG_ANNOUNCEMENT && f.frame.receiver[0] == 2);
  give_credit(&f, 1, 1);
  expect_error(&f, 1, "another reader has taken its place");
  give_credit(&f, 2, 1);
  expect_buffer(&f, 2, 0, 0, filled_with('b'));
  close_fixture(&f);
}

/* ---- under load ---------------------------------------------------------------------------------------- */

#define CHANNELS 8
#define BUFFERS  4000 /* of each channel */

static void* produce(void* argument) {
  struct fixture* self = argument;

  for (uint32_t i = 0; i < BUFFERS * CHANNELS; i++) {
    uint8_t bytes[SEGMENT];
    const uint8_t* data = bytes;
    size_t size = sizeof bytes;
    int code;

    memset(bytes, (int)(i / CHANNELS % 251), sizeof bytes);
    while ((code = fb_result_partition_emit(self->partition, i % CHANNELS, &data, &size)) == FB_NEEDS_BUFFER)
      fb_result_partition_wait(self->partition, 100);
    if (code < 0) return NULL; /* released */
    CHECK(code == FB_OK);
  }
  CHECK(fb_result_partition_finish(self->partition) == FB_OK);
  return NULL;
}

/* Reads until every channel has ended, with random credits; checks what the protocol promises. */
static void consume(struct fixture* self, uint32_t until) {
  int64_t credits[CHANNELS];
  int32_t next[CHANNELS] = {0};
  uint32_t ended = 0, total = 0;

  for (uint8_t i = 0; i < CHANNELS; i++) credits[i] = i % 3;
  while (ended < CHANNELS && total < until) {
    uint32_t channel;
    CHECK(hear(self));
    channel = self->frame.receiver[0] - 1u;
    CHECK(channel < CHANNELS);
    if (self->frame.id == FB_BUFFER_RESPONSE) {
      CHECK(self->frame.sequence_number == next[channel]);
      if (self->frame.data_type == FB_END_OF_PARTITION) {
        CHECK(next[channel] == BUFFERS);
        ended++;
        continue;
      }
      CHECK(--credits[channel] >= 0); /* no data without credit */
      CHECK(self->frame.body_size == SEGMENT && self->body[0] == (uint8_t)(next[channel] % 251));
      next[channel]++;
      total++;
    } else {
      CHECK(self->frame.id == FB_BACKLOG_ANNOUNCEMENT && channel % 3 == 0);
    }
    if (credits[channel] == 0) {
      int32_t more = 1 + rand() % 6;
      credits[channel] += more;
      give_credit(self, (uint8_t)(channel + 1), more);
    }
  }
}

static void load(uint32_t until, bool fails) {
  struct fixture f;
  pthread_t producer;

  open_fixture(&f, CHANNELS);
  register_partition(&f, 1);
  for (uint8_t i = 0; i < CHANNELS; i++) ask(&f, (uint8_t)(i + 1), ID(1), i, i % 3);
  CHECK(pthread_create(&producer, NULL, produce, &f) == 0);
  consume(&f, until);
  if (until == UINT32_MAX) CHECK(counters_of(&f).buffers == (BUFFERS + 1) * CHANNELS);
  if (fails) {
    fb_result_partition_fail(f.partition, "enough");
  } else if (until != UINT32_MAX) { /* the reader goes in the middle: the writer goes on */
    close(f.fd);
    f.fd = -1;
  }
  pthread_join(producer, NULL);
  close_fixture(&f);
}

/* How the producer of a partition of two is told of a client that went; `leave`: the frame it took leave with. */
static void check_loss(const struct fb_frame* leave, bool resets, const char* told) {
  struct linger at_once = {.l_onoff = 1};
  struct fixture f;

  open_fixture(&f, 2);
  register_partition(&f, 1);
  ask(&f, 1, ID(1), 0, 2);
  for (int i = 0; i < 20000 && counters_of(&f).channels == 0; i++) usleep(1000);
  CHECK(counters_of(&f).channels == 1);
  if (leave != NULL) say(&f, leave);
  if (resets) CHECK(setsockopt(f.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  if (leave == NULL || leave->id != FB_ADD_CREDIT) {
    close(f.fd);
    f.fd = -1;
  }
  for (int i = 0; i < 20000 && counters_of(&f).channels > 0; i++) usleep(1000);
  CHECK(counters_of(&f).channels == 0);
  CHECK(fb_result_partition_is_reader_lost(f.partition) == (told != NULL));
  if (told != NULL) {
    const char* failure = fb_result_partition_failure(f.partition);
    CHECK(strstr(failure, "the reader of subpartition 0 was lost: ") == failure && strstr(failure, told) != NULL);
    CHECK(strstr(failure, "127.0.0.1:") != NULL);
  } else {
    CHECK(fb_result_partition_failure(f.partition) == NULL && !fb_result_partition_is_released(f.partition));
  }
  close_fixture(&f);
}

static void a_producer_is_told_of_readers_that_went_without_leave(void) {
  struct fb_frame cancel = frame_for(FB_CANCEL_PARTITION_REQUEST, 1), close_request = {.id = FB_CLOSE_REQUEST};
  struct fb_frame credit = frame_for(FB_ADD_CREDIT, 1);

  credit.credit = INT32_MAX; /* with the 2 it has, more than there can be */
  check_loss(NULL, false, "the peer closed it");
  check_loss(NULL, true, "Connection reset by peer");
  check_loss(&credit, false, "was refused: credit over 2147483647");
  check_loss(&cancel, false, NULL);
  check_loss(&cancel, true, NULL);
  check_loss(&close_request, false, NULL);
}

/* Ids that our clients choose carry a sum; one that does not fit is no channel that has gone. */
static void a_channel_that_was_never_opened_ends_the_connection(void) {
  struct fb_frame request = frame_for(FB_PARTITION_REQUEST, 7), credit = frame_for(FB_ADD_CREDIT, 7);
  struct fixture f;

  open_fixture(&f, 1);
  register_partition(&f, 1);
  fb_frame_channel_id_seal(request.receiver);
  memcpy(request.partition, ID(1), FB_PARTITION_ID_SIZE);
  say(&f, &request);
  memset(credit.receiver, 9, sizeof credit.receiver);
  fb_frame_channel_id_seal(credit.receiver);
  credit.credit = 1;
  say(&f, &credit); /* of a channel that has gone: late, not wrong */
  memcpy(credit.receiver, request.receiver, sizeof credit.receiver);
  credit.receiver[3] ^= 1;
  say(&f, &credit);
  hear(&f);
  CHECK(f.frame.id == FB_ERROR_RESPONSE && !f.frame.has_receiver);
  CHECK(fb_result_partition_is_reader_lost(f.partition));
  CHECK(strstr(fb_result_partition_failure(f.partition), "names a channel that it never opened here") != NULL);
  close_fixture(&f);
}

static void channels_share_a_connection_under_load(void) {
  load(UINT32_MAX, false);
  for (uint32_t i = 0; i < 10; i++) load(100 * i, i % 2 == 0);
}

int main(void) {
  a_producer_is_told_of_readers_that_went_without_leave();
  a_channel_that_was_never_opened_ends_the_connection();
  data_waits_for_credit_and_events_do_not();
  without_exclusive_buffers_the_backlog_is_announced();
  a_barrier_blocks_until_it_is_resumed();
  a_priority_event_goes_first();
  a_partition_may_come_after_its_request();
  errors_stay_with_their_channel();
  credit_is_shown();
  readers_acknowledge_what_they_have_processed();
  asking_twice_ends_the_channel();
  channels_of_one_connection_are_limited();
  of_strangers_only_so_many_requests_wait();
  a_stranger_too_many_takes_the_place_of_one_that_reads_nothing();
  a_stranger_that_asks_for_nothing_goes();
  a_failed_partition_tells_its_readers_why();
  bytes_that_are_no_frames_end_the_connection_with_a_reason();
  a_close_request_ends_the_connection();
  a_client_that_takes_no_answers_is_not_heard();
  who_was_replaced_as_a_reader_takes_nothing_more();
  channels_share_a_connection_under_load();
  return 0;
}
