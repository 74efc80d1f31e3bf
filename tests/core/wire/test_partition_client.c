/* A client over real sockets, answered by a server that is a plain blocking socket of this thread and keeps to the
 * protocol only where the test wants it to. */
#include "wire/partition_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ground/byte_order.h"
#include "pools.h"
#include "wire/error_cause.h"

#define SEGMENT  64
#define SEGMENTS 64
#define CHANNELS 8

static const struct fb_partition_client_options OPTIONS = {
    .connect_timeout_ms = 20000,
    .backoff_initial_ms = 10,
    .backoff_max_ms = 20,
    .request_timeout_ms = 10,
    .max_data = SEGMENT,
};

struct fixture {
  struct fb_reactor* reactor;
  struct fb_partition_client* client;
  struct fb_network_buffer_pool* network;
  struct fb_local_buffer_pool* pool;
  struct fb_tcp_address address;
  int listener;
  struct fb_wakeup news; /* rung by every channel */
  struct fb_remote_channel* channels[CHANNELS];
  /* The server's side of one connection. */
  int fd;
  struct fb_frame_decoder decoder;
  uint8_t input[1 << 16];
  const uint8_t* at;
  size_t left;
  struct fb_frame frame; /* the last that came */
};

/* ---- the server ---------------------------------------------------------------------------------------- */

static void listen_at(struct fixture* self) {
  self->listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(self->listener >= 0);
  CHECK(setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
  CHECK(bind(self->listener, (struct sockaddr*)&self->address.bytes, self->address.size) == 0);
  CHECK(listen(self->listener, 16) == 0);
  CHECK(getsockname(self->listener, (struct sockaddr*)&self->address.bytes, &self->address.size) == 0);
}

static void accept_client(struct fixture* self) {
  struct timeval limit = {.tv_sec = 20};

  self->fd = accept(self->listener, NULL, NULL);
  CHECK(self->fd >= 0 && setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  CHECK(setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
  fb_frame_decoder_open(&self->decoder, &(struct fb_frame_limits){.accepted = FB_FRAMES_OF_CLIENTS});
  self->left = 0;
}

static void hang_up(struct fixture* self) {
  close(self->fd);
  self->fd = -1;
}

/* The next frame of the client into self->frame. false: the client has ended the stream. */
static bool hear(struct fixture* self) {
  for (;;) {
    int step = fb_frame_decoder_next(&self->decoder, &self->at, &self->left);
    CHECK(step >= 0);
    if (step == FB_FRAME_ENDS) {
      self->frame = self->decoder.frame;
      return true;
    }
    if (step == FB_FRAME_NEEDS_INPUT) {
      ssize_t got = read(self->fd, self->input, sizeof self->input);
      CHECK(got >= 0);
      if (got == 0) return false;
      self->at = self->input;
      self->left = (size_t)got;
    }
  }
}

static void expect(struct fixture* self, enum fb_frame_id id, uint8_t channel) {
  CHECK(hear(self));
  if (self->frame.id != id) fprintf(stderr, "got frame %u\n", self->frame.id);
  CHECK(self->frame.id == id && self->frame.receiver[0] == channel);
}

static void check_request(const struct fixture* self, int32_t credit) {
  uint8_t channel = self->frame.receiver[0];

  CHECK(self->frame.id == FB_PARTITION_REQUEST && self->frame.credit == credit);
  CHECK(self->frame.partition[0] == channel);
  CHECK(self->frame.subpartition == channel && self->frame.last_subpartition == channel);
}

static void expect_request(struct fixture* self, uint8_t channel, int32_t credit) {
  expect(self, FB_PARTITION_REQUEST, channel);
  check_request(self, credit);
}

/* The same behind any credit for what was read before. */
static void expect_in_the_end(struct fixture* self, enum fb_frame_id id, uint8_t channel) {
  do CHECK(hear(self));
  while (self->frame.id == FB_ADD_CREDIT);
  CHECK(self->frame.id == id && self->frame.receiver[0] == channel);
}

/* Credit may come in several frames. */
static void expect_credit(struct fixture* self, uint8_t channel, int32_t credit) {
  while (credit > 0) {
    expect(self, FB_ADD_CREDIT, channel);
    credit -= self->frame.credit;
  }
  CHECK(credit == 0);
}

static void say_bytes(struct fixture* self, const uint8_t* bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(self->fd, bytes, size);
    CHECK(written > 0);
    bytes += written;
    size -= (size_t)written;
  }
}

/* A frame with its body (and the sizes of its parts) at `to`; returns the bytes. */
static size_t put_frame(uint8_t* to, const struct fb_frame* frame, const uint32_t* parts, const void* body) {
  int size = fb_frame_write_head(frame, to);
  size_t at;

  CHECK(size > 0);
  at = (size_t)size;
  for (uint32_t i = 0; i < frame->part_count; i++, at += 4) fb_store_be32(to + at, parts[i]);
  if (frame->body_size > 0) memcpy(to + at, body, frame->body_size);
  at += frame->body_size;
  size = fb_frame_write_tail(frame, to + at);
  CHECK(size >= 0);
  return at + (size_t)size;
}

static void say(struct fixture* self, const struct fb_frame* frame, const uint32_t* parts, const void* body) {
  uint8_t bytes[4096];
  say_bytes(self, bytes, put_frame(bytes, frame, parts, body));
}

static struct fb_frame response(uint8_t channel, int32_t sequence_number, enum fb_buffer_data_type type, size_t size) {
  struct fb_frame frame = {.id = FB_BUFFER_RESPONSE,
                           .data_type = (uint8_t)type,
                           .has_receiver = true,
                           .subpartition = channel,
                           .sequence_number = sequence_number,
                           .body_size = (uint32_t)size};
  memset(frame.receiver, channel, sizeof frame.receiver);
  return frame;
}

static void say_data(struct fixture* self, uint8_t channel, int32_t sequence_number, int32_t backlog,
                     const char* text) {
  struct fb_frame frame = response(channel, sequence_number, FB_DATA_BUFFER, strlen(text));
  frame.backlog = backlog;
  say(self, &frame, NULL, text);
}

/* As long as it has to be, and of the kind that its type says. */
static const uint8_t* bytes_of_event(enum fb_buffer_data_type type) {
  static const uint8_t end[] = {0, 0, 0, 0}, barrier[] = {0, 0, 0, 1}, other[] = {0, 0, 0, 2};
  if (type == FB_END_OF_PARTITION) return end;
  return type == FB_ALIGNED_CHECKPOINT_BARRIER ? barrier : other;
}

static void say_event(struct fixture* self, uint8_t channel, int32_t sequence_number, enum fb_buffer_data_type type) {
  struct fb_frame frame = response(channel, sequence_number, type, 4);
  say(self, &frame, NULL, bytes_of_event(type));
}

static void say_backlog(struct fixture* self, uint8_t channel, int32_t backlog) {
  struct fb_frame frame = {.id = FB_BACKLOG_ANNOUNCEMENT, .has_receiver = true, .backlog = backlog};
  memset(frame.receiver, channel, sizeof frame.receiver);
  say(self, &frame, NULL, NULL);
}

/* `channel` 0: the error ends the connection. */
static void say_error(struct fixture* self, uint8_t channel, struct fb_buffer_slice* cause) {
  struct fb_frame frame = {.id = FB_ERROR_RESPONSE, .has_receiver = channel != 0, .body_size = cause->size};
  memset(frame.receiver, channel, sizeof frame.receiver);
  say(self, &frame, NULL, fb_buffer_slice_data(cause));
  fb_buffer_slice_release(cause);
}

static void say_failure(struct fixture* self, uint8_t channel, const char* message) {
  struct fb_buffer_slice cause;
  CHECK(fb_error_cause_new(message, &cause) == FB_OK);
  say_error(self, channel, &cause);
}

static void say_not_found(struct fixture* self, uint8_t channel) {
  const uint8_t partition[FB_PARTITION_ID_SIZE] = {channel};
  struct fb_buffer_slice cause;
  CHECK(fb_error_cause_new_not_found(partition, &cause) == FB_OK);
  say_error(self, channel, &cause);
}

/* ---- the task ------------------------------------------------------------------------------------------ */

static void on_data_available(void* context, uint32_t index) {
  struct fixture* self = context;
  (void)index;
  fb_wakeup_ring(&self->news);
}

static void on_priority_event(void* context, uint32_t index, int32_t sequence_number) {
  (void)sequence_number;
  on_data_available(context, index);
}

/* Channel `n`, in 1 .. CHANNELS - 1, reads subpartition n of partition n; all of its id's bytes are n. */
static void open_channel_with(struct fixture* self, uint8_t n, uint32_t exclusive_count, uint32_t connection_index) {
  struct fb_remote_source source = {.address = self->address, .connection_index = connection_index};
  struct fb_buffer* exclusive[8];
  uint8_t id[FB_CHANNEL_ID_SIZE];

  memset(id, n, sizeof id);
  source.partition[0] = n;
  source.subpartition_index = n;
  CHECK(fb_network_buffer_pool_request_unpooled(self->network, exclusive_count, 0, exclusive) == FB_OK);
  CHECK(fb_remote_channel_open(&source, id, self->network, self->pool, exclusive, exclusive_count,
                               &self->channels[n]) == FB_OK);
  fb_remote_channel_set_listener(self->channels[n], 0,
                                 &(struct fb_availability_listener){on_data_available, on_priority_event, self});
}

static void open_channel(struct fixture* self, uint8_t n, uint32_t exclusive_count) {
  open_channel_with(self, n, exclusive_count, 0);
}

static void request(struct fixture* self, uint8_t first, uint32_t count) {
  CHECK(fb_partition_client_request(self->client, self->channels + first, count) == FB_OK);
}

static void cancel(struct fixture* self, uint8_t n) {
  fb_partition_client_cancel(self->client, &self->channels[n], 1);
  fb_remote_channel_close(self->channels[n]);
  self->channels[n] = NULL;
}

/* One that has ended: as a gate lets it go. */
static void leave(struct fixture* self, uint8_t n) {
  fb_partition_client_leave(self->client, self->channels[n]);
  fb_remote_channel_close(self->channels[n]);
  self->channels[n] = NULL;
}

static void open_fixture_with(struct fixture* self, const struct fb_partition_client_options* options) {
  struct fb_buffer_pool_options floating = {.min = 8, .max = 8};

  memset(self, 0, sizeof(*self));
  self->fd = -1;
  CHECK(fb_network_buffer_pool_open(SEGMENTS, SEGMENT, &self->network) == FB_OK);
  CHECK(fb_local_buffer_pool_open(self->network, &floating, &self->pool) == FB_OK);
  CHECK(fb_wakeup_open(&self->news) == FB_OK && fb_reactor_open(&self->reactor) == FB_OK);
  CHECK(fb_partition_client_open(self->reactor, options, &self->client) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->address, "127.0.0.1", 0) == FB_OK);
  listen_at(self);
}

static void open_fixture(struct fixture* self) { open_fixture_with(self, &OPTIONS); }

static void close_client(struct fixture* self) {
  for (uint8_t n = 0; n < CHANNELS; n++)
    if (self->channels[n] != NULL) cancel(self, n);
  fb_partition_client_cancel(self->client, NULL, 0); /* of those that left */
  fb_partition_client_close(self->client);
  self->client = NULL;
}

/* Everything is home afterwards, whatever happened. */
static void close_fixture(struct fixture* self) {
  if (self->client != NULL) close_client(self);
  fb_reactor_close(self->reactor);
  if (self->fd >= 0) close(self->fd);
  close(self->listener);
  fb_wakeup_close(&self->news);
  CHECK(used_of(self->pool) == 0);
  fb_local_buffer_pool_close(self->pool);
  CHECK(fb_network_buffer_pool_available(self->network) == SEGMENTS);
  CHECK(fb_network_buffer_pool_required(self->network) == 0);
  fb_network_buffer_pool_close(self->network);
}

/* So many channels with `exclusive_count` buffers each, asked for and accepted. */
static void open_conversations(struct fixture* self, const struct fb_partition_client_options* options,
                               uint8_t channel_count, uint32_t exclusive_count) {
  open_fixture_with(self, options);
  for (uint8_t n = 1; n <= channel_count; n++) open_channel(self, n, exclusive_count);
  request(self, 1, channel_count);
  accept_client(self);
  for (uint8_t i = 0; i < channel_count; i++) { /* in any order */
    CHECK(hear(self));
    check_request(self, (int32_t)exclusive_count);
  }
}

static void open_conversation(struct fixture* self, uint32_t exclusive_count) {
  open_conversations(self, &OPTIONS, 1, exclusive_count);
}

/* The next of a channel; waits for it. The code of poll(), which is not 0. */
static int next(struct fixture* self, uint8_t n, struct fb_polled_buffer* polled) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);

  for (;;) {
    uint64_t seen = fb_wakeup_seen(&self->news);
    int code = fb_remote_channel_poll(self->channels[n], polled);
    if (code != 0) return code;
    CHECK(fb_wakeup_wait_until(&self->news, seen, deadline_ms) == FB_OK);
  }
}

static struct fb_buffer_slice take(struct fixture* self, uint8_t n, int32_t sequence_number, const char* text) {
  struct fb_polled_buffer polled;

  CHECK(next(self, n, &polled) == 1);
  CHECK(polled.sequence_number == sequence_number && polled.slice.size == strlen(text));
  CHECK(memcmp(fb_buffer_slice_data(&polled.slice), text, strlen(text)) == 0);
  return polled.slice;
}

static void read_text(struct fixture* self, uint8_t n, int32_t sequence_number, const char* text) {
  struct fb_buffer_slice slice = take(self, n, sequence_number, text);
  fb_buffer_slice_release(&slice);
}

static void read_event(struct fixture* self, uint8_t n, int32_t sequence_number, enum fb_buffer_data_type type) {
  struct fb_polled_buffer polled;

  CHECK(next(self, n, &polled) == 1 && polled.slice.data_type == type);
  CHECK(polled.sequence_number == sequence_number && polled.slice.size == 4);
  CHECK(memcmp(fb_buffer_slice_data(&polled.slice), bytes_of_event(type), 4) == 0);
  fb_buffer_slice_release(&polled.slice);
}

/* The channel fails with `code`, and its text has `first` and `second` in it. Nothing is read before. */
static void expect_failure(struct fixture* self, uint8_t n, int code, const char* first, const char* second) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);
  struct fb_polled_buffer polled;
  const char* text;
  int found;

  for (;;) {
    uint64_t seen = fb_wakeup_seen(&self->news);
    if ((text = fb_remote_channel_failure(self->channels[n])) != NULL) break;
    CHECK(fb_wakeup_wait_until(&self->news, seen, deadline_ms) == FB_OK);
  }
  found = fb_remote_channel_poll(self->channels[n], &polled);
  if (found != code || strstr(text, first) == NULL || strstr(text, second) == NULL)
    fprintf(stderr, "got: %d %s\n", found, text);
  CHECK(found == code && strstr(text, first) != NULL && strstr(text, second) != NULL);
}

static void nothing(void* context) { (void)context; }

/* Whatever the client was to do before is done. */
static void settle(struct fixture* self) { CHECK(fb_reactor_call(self->reactor, nothing, NULL) == FB_OK); }

static struct fb_partition_client_counters counters_of(struct fixture* self) {
  struct fb_partition_client_counters counters;
  settle(self);
  fb_partition_client_get_counters(self->client, &counters);
  return counters;
}

static void wait_for_connections(struct fixture* self, uint32_t count) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);
  while (counters_of(self).connections != count) CHECK(fb_wakeup_now_ms() < deadline_ms);
}

static uint64_t bytes_read(struct fixture* self) {
  struct fb_reactor_counters counters;
  fb_reactor_get_counters(self->reactor, &counters);
  return counters.bytes_read;
}

/* Says bytes and waits until the client has read them, so that they are one piece of its stream. */
static void say_piece(struct fixture* self, const uint8_t* bytes, size_t size) {
  uint64_t before = bytes_read(self);
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);

  say_bytes(self, bytes, size);
  while (bytes_read(self) < before + size) CHECK(fb_wakeup_now_ms() < deadline_ms);
}

/* ---- requests and their end ---------------------------------------------------------------------------- */

static void a_channel_is_asked_for_read_and_given_up(void) {
  struct fixture f;

  open_conversation(&f, 2);
  CHECK(fb_partition_client_reactor(f.client) == f.reactor);
  say_data(&f, 1, 0, 0, "one");
  say_event(&f, 1, 1, FB_EVENT_BUFFER);
  read_text(&f, 1, 0, "one");
  read_event(&f, 1, 1, FB_EVENT_BUFFER);
  CHECK(counters_of(&f).connections == 1 && counters_of(&f).channels == 1);
  cancel(&f, 1);
  expect_in_the_end(&f, FB_CLOSE_REQUEST, 0); /* the last one takes leave for all */
  CHECK(!hear(&f));
  hang_up(&f);
  wait_for_connections(&f, 0);
  close_fixture(&f);
}

static void channels_to_one_address_share_a_connection(void) {
  struct fixture f;

  open_fixture(&f);
  for (uint8_t n = 1; n <= 4; n++) open_channel(&f, n, n);
  request(&f, 1, 3);
  accept_client(&f);
  for (int n = 1; n <= 3; n++) {
    CHECK(hear(&f) && f.frame.id == FB_PARTITION_REQUEST && f.frame.credit == f.frame.receiver[0]);
  }
  request(&f, 4, 1); /* it stands already */
  expect_request(&f, 4, 4);
  CHECK(counters_of(&f).connections == 1 && counters_of(&f).channels == 4);
  cancel(&f, 2);
  expect(&f, FB_CANCEL_PARTITION_REQUEST, 2);
  leave(&f, 4);
  expect(&f, FB_CANCEL_PARTITION_REQUEST, 4);
  CHECK(counters_of(&f).channels == 2);
  say_data(&f, 3, 0, 0, "goes on");
  read_text(&f, 3, 0, "goes on");
  cancel(&f, 1);
  expect_in_the_end(&f, FB_CANCEL_PARTITION_REQUEST, 1);
  leave(&f, 3);
  expect_in_the_end(&f, FB_CLOSE_REQUEST, 0);
  CHECK(!hear(&f));
  hang_up(&f);
  wait_for_connections(&f, 0);
  close_fixture(&f);
}

static void connections_differ_by_their_index(void) {
  struct fixture f;
  int fds[2];

  open_fixture(&f);
  for (uint8_t n = 1; n <= 4; n++) open_channel_with(&f, n, 1, n % 2);
  request(&f, 1, 4);
  for (int i = 0; i < 2; i++) {
    accept_client(&f);
    CHECK(hear(&f) && f.frame.id == FB_PARTITION_REQUEST);
    CHECK(hear(&f) && f.frame.id == FB_PARTITION_REQUEST);
    fds[i] = f.fd;
  }
  CHECK(counters_of(&f).connections == 2 && counters_of(&f).channels == 4);
  f.fd = -1;
  close(fds[0]);
  close(fds[1]);
  close_fixture(&f);
}

static void a_connection_can_be_kept_for_later(void) {
  struct fb_partition_client_options options = OPTIONS;
  struct fixture f;

  options.keeps_connections = true;
  open_conversations(&f, &options, 1, 1);
  cancel(&f, 1);
  expect(&f, FB_CANCEL_PARTITION_REQUEST, 1);
  CHECK(counters_of(&f).connections == 1 && counters_of(&f).channels == 0);
  open_channel(&f, 2, 0);
  request(&f, 2, 1);
  expect_request(&f, 2, 0); /* over the same one */
  leave(&f, 2);
  expect(&f, FB_CANCEL_PARTITION_REQUEST, 2);
  hang_up(&f); /* idle, and broken: the next channel gets a new one */
  wait_for_connections(&f, 0);
  open_channel(&f, 3, 0);
  request(&f, 3, 1);
  accept_client(&f);
  expect_request(&f, 3, 0);
  cancel(&f, 3);
  expect(&f, FB_CANCEL_PARTITION_REQUEST, 3);
  close_client(&f);
  expect(&f, FB_CLOSE_REQUEST, 0);
  CHECK(!hear(&f));
  close_fixture(&f);
}

static void a_channel_may_go_before_its_connection_stands(void) {
  for (int how = 0; how < 20; how++) {
    struct fixture f;
    bool is_asked = false;

    open_fixture(&f);
    for (uint8_t n = 1; n <= 3; n++) open_channel(&f, n, 1);
    request(&f, 1, 2);
    if (how % 2 == 0) cancel(&f, 1), leave(&f, 2);
    else leave(&f, 1), cancel(&f, 2);
    request(&f, 3, 1); /* over a new one: the first is on its way out */
    while (!is_asked) {
      accept_client(&f);
      while (!is_asked && hear(&f)) is_asked = f.frame.id == FB_PARTITION_REQUEST && f.frame.receiver[0] == 3;
      if (!is_asked) hang_up(&f);
    }
    say_data(&f, 3, 0, 0, "data");
    read_text(&f, 3, 0, "data");
    cancel(&f, 3);
    while (hear(&f)) continue;
    hang_up(&f);
    wait_for_connections(&f, 0);
    close_fixture(&f);
  }
}

static void an_id_is_used_once(void) {
  struct fixture f;
  struct fb_remote_channel* twin;

  open_conversation(&f, 1);
  twin = f.channels[1];
  open_channel(&f, 1, 1);
  request(&f, 1, 1);
  expect_failure(&f, 1, FB_ESTATE, "connecting with 127.0.0.1:", "not allowed in the object's present state");
  cancel(&f, 1);
  f.channels[1] = twin;
  say_data(&f, 1, 0, 0, "undisturbed");
  read_text(&f, 1, 0, "undisturbed");
  close_fixture(&f);
}

static void nothing_is_asked_of_a_reactor_that_is_closed(void) {
  struct fixture f;

  open_fixture(&f);
  open_channel(&f, 1, 2);
  close_client(&f);
  CHECK(f.channels[1] == NULL);
  fb_reactor_close(f.reactor);
  CHECK(fb_reactor_open(&f.reactor) == FB_OK);
  fb_partition_client_close(NULL);
  close_fixture(&f);
}

/* ---- what the client says ------------------------------------------------------------------------------ */

static void wishes_are_said_in_order(void) {
  struct fixture f;

  open_conversation(&f, 1);
  say_event(&f, 1, 0, FB_ALIGNED_CHECKPOINT_BARRIER);
  read_event(&f, 1, 0, FB_ALIGNED_CHECKPOINT_BARRIER);
  CHECK(fb_remote_channel_resume(f.channels[1]) == FB_OK);
  expect(&f, FB_RESUME_CONSUMPTION, 1);
  CHECK(fb_remote_channel_announce_buffer_size(f.channels[1], 32) == FB_OK);
  expect(&f, FB_NEW_BUFFER_SIZE, 1);
  CHECK(f.frame.buffer_size == 32);
  say_backlog(&f, 1, 3);
  expect_credit(&f, 1, 3);
  CHECK(fb_remote_channel_acknowledge(f.channels[1]) == FB_OK);
  leave(&f, 1); /* at once: it is said all the same */
  expect(&f, FB_ACK_ALL_USER_RECORDS_PROCESSED, 1);
  expect(&f, FB_CLOSE_REQUEST, 0);
  close_fixture(&f);
}

static void recycled_buffers_are_credit_again(void) {
  struct fb_buffer_slice slices[2];
  struct fixture f;

  open_conversation(&f, 2);
  for (int32_t i = 0; i < 20; i += 2) {
    say_data(&f, 1, i, 0, "one");
    slices[0] = take(&f, 1, i, "one");
    /* Said or not, the backlog of 0 asks for as many as there are exclusive ones. */
    say_data(&f, 1, i + 1, 0, "two");
    slices[1] = take(&f, 1, i + 1, "two");
    for (int j = 0; j < 2; j++) fb_buffer_slice_release(&slices[j]);
    expect_credit(&f, 1, 2);
  }
  close_fixture(&f);
}

static void without_exclusive_buffers_the_announced_backlog_is_answered(void) {
  struct fixture f;

  open_conversation(&f, 0);
  for (int32_t i = 0; i < 10; i++) {
    say_backlog(&f, 1, 1);
    expect_credit(&f, 1, 1);
    say_data(&f, 1, 2 * i, 0, "data");
    read_text(&f, 1, 2 * i, "data");
    say_event(&f, 1, 2 * i + 1, FB_ALIGNED_CHECKPOINT_BARRIER);
    read_event(&f, 1, 2 * i + 1, FB_ALIGNED_CHECKPOINT_BARRIER);
    CHECK(fb_remote_channel_resume(f.channels[1]) == FB_OK);
    expect(&f, FB_RESUME_CONSUMPTION, 1);
  }
  close_fixture(&f);
}

static void floating_buffers_go_round(void) {
  struct fb_buffer_slice slices[16];
  struct fixture f;

  open_conversations(&f, &OPTIONS, 2, 0);
  say_backlog(&f, 1, 100);
  expect_credit(&f, 1, 8); /* all there are */
  say_backlog(&f, 2, 2);
  for (int32_t i = 0; i < 8; i++) {
    say_data(&f, 1, i, 92, "data");
    slices[i] = take(&f, 1, i, "data");
  }
  for (int i = 0; i < 2; i++) fb_buffer_slice_release(&slices[i]); /* both wait for one: each gets its turn */
  for (int i = 0; i < 2; i++) CHECK(hear(&f) && f.frame.id == FB_ADD_CREDIT && f.frame.credit == 1);
  say_data(&f, 2, 0, 1, "other");
  read_text(&f, 2, 0, "other");
  for (int i = 2; i < 8; i++) fb_buffer_slice_release(&slices[i]);
  close_fixture(&f);
}

/* A server that does not read for a while: what is to be said is kept in the channels, not queued without end. */
static void a_server_that_does_not_listen_is_told_the_latest(void) {
  enum { ROUNDS = 30000, BYTES_OF_ROUND = (CHANNELS - 1) * (29 + 25 + 25) };
  struct fb_reactor_counters counters;
  int32_t last[CHANNELS] = {0};
  int done = 0;
  struct fixture f;

  open_fixture(&f);
  CHECK(setsockopt(f.listener, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)) == 0);
  for (uint8_t n = 1; n < CHANNELS; n++) open_channel(&f, n, 1);
  request(&f, 1, CHANNELS - 1);
  accept_client(&f);
  for (int32_t i = 1; i <= ROUNDS; i++) {
    for (uint8_t n = 1; n < CHANNELS; n++) {
      CHECK(fb_remote_channel_announce_buffer_size(f.channels[n], i) == FB_OK);
      CHECK(fb_remote_channel_acknowledge(f.channels[n]) == FB_OK);
      CHECK(fb_remote_channel_resume(f.channels[n]) == FB_OK);
    }
    settle(&f);
  }
  while (done < CHANNELS - 1) {
    CHECK(hear(&f));
    if (f.frame.id != FB_NEW_BUFFER_SIZE) continue;
    CHECK(f.frame.buffer_size > last[f.frame.receiver[0]]);
    last[f.frame.receiver[0]] = f.frame.buffer_size;
    done += f.frame.buffer_size == ROUNDS;
  }
  fb_reactor_get_counters(f.reactor, &counters);
  CHECK(counters.bytes_written < (uint64_t)ROUNDS * BYTES_OF_ROUND / 2); /* most of it was overtaken */
  say_data(&f, 1, 0, 0, "data");
  read_text(&f, 1, 0, "data");
  close_fixture(&f);
}

/* ---- what it hears ------------------------------------------------------------------------------------- */

/* One of everything, for a channel with room for it; the numbers start at `at`. Returns the bytes. */
static size_t put_everything(uint8_t* to, int32_t at) {
  struct fb_frame frame;
  struct fb_buffer_slice cause;
  size_t size = 0;

  frame = response(1, at, FB_DATA_BUFFER, 11);
  size += put_frame(to + size, &frame, NULL, "hello world");
  frame = response(9, at, FB_DATA_BUFFER, 7); /* nobody's */
  size += put_frame(to + size, &frame, NULL, "dropped");
  frame = response(1, at + 1, FB_EVENT_BUFFER, 4);
  size += put_frame(to + size, &frame, NULL, bytes_of_event(FB_EVENT_BUFFER));
  frame = response(1, at + 2, FB_DATA_BUFFER, 0);
  size += put_frame(to + size, &frame, NULL, NULL);
  frame = response(1, at + 3, FB_DATA_BUFFER, 9);
  frame.part_count = 3;
  frame.is_compressed = true;
  size += put_frame(to + size, &frame, (const uint32_t[]){4, 2, 3}, "partsofit");
  frame = response(1, at + 6, FB_EVENT_BUFFER, 4);
  frame.part_count = 1;
  size += put_frame(to + size, &frame, (const uint32_t[]){4}, bytes_of_event(FB_EVENT_BUFFER));
  frame = (struct fb_frame){.id = FB_ERROR_RESPONSE, .has_receiver = true, .receiver = {9}};
  CHECK(fb_error_cause_new("nobody's error", &cause) == FB_OK);
  frame.body_size = cause.size;
  size += put_frame(to + size, &frame, NULL, fb_buffer_slice_data(&cause));
  fb_buffer_slice_release(&cause);
  frame = (struct fb_frame){.id = FB_BACKLOG_ANNOUNCEMENT, .has_receiver = true, .backlog = 1};
  memset(frame.receiver, 1, sizeof frame.receiver);
  size += put_frame(to + size, &frame, NULL, NULL);
  return size;
}

static void expect_everything(struct fixture* f, int32_t at) {
  struct fb_buffer_slice part;

  read_text(f, 1, at, "hello world");
  read_event(f, 1, at + 1, FB_EVENT_BUFFER);
  part = take(f, 1, at + 3, "part");
  CHECK(part.is_compressed && part.data_type == FB_DATA_BUFFER);
  fb_buffer_slice_release(&part);
  read_text(f, 1, at + 4, "so");
  read_text(f, 1, at + 5, "fit");
  read_event(f, 1, at + 6, FB_EVENT_BUFFER);
  /* The others pass unseen; nobody's data are cancelled. */
  expect_in_the_end(f, FB_CANCEL_PARTITION_REQUEST, 9);
}

static void any_split_of_the_stream_is_the_same(void) {
  uint8_t stream[4096];
  size_t size = put_everything(stream, 0);
  int32_t at = 0;
  struct fixture f;

  open_conversation(&f, 3);
  for (size_t cut = 1; cut < size; cut++, at += 7) {
    put_everything(stream, at);
    say_piece(&f, stream, cut);
    say_piece(&f, stream + cut, size - cut);
    expect_everything(&f, at);
  }
  for (size_t step = 1; step <= 7; step += 2, at += 7) {
    put_everything(stream, at);
    for (size_t i = 0; i < size; i += step) say_piece(&f, stream + i, step < size - i ? step : size - i);
    expect_everything(&f, at);
  }
  close_fixture(&f);
}

static void a_channel_may_go_while_its_buffer_comes(void) {
  for (int how = 0; how < 6; how++) {
    struct fb_frame frame = response(1, 0, how % 2 == 0 ? FB_DATA_BUFFER : FB_EVENT_BUFFER, 40);
    char text[41] = "0123456789012345678901234567890123456789";
    uint8_t bytes[200];
    size_t size = put_frame(bytes, &frame, NULL, text);
    size_t cut = how < 2 ? 20 : how < 4 ? FB_FRAME_RESPONSE_HEAD_SIZE : FB_FRAME_RESPONSE_HEAD_SIZE + 13;
    struct fixture f;

    open_conversations(&f, &OPTIONS, 2, 1);
    say_piece(&f, bytes, cut);
    cancel(&f, 1);
    expect(&f, FB_CANCEL_PARTITION_REQUEST, 1);
    CHECK(fb_network_buffer_pool_required(f.network) == 8 + 1); /* it keeps nothing, not even half a buffer */
    say_piece(&f, bytes + cut, size - cut);
    expect(&f, FB_CANCEL_PARTITION_REQUEST, 1); /* again: the server seems not to have heard */
    say_data(&f, 2, 0, 0, "undisturbed");
    read_text(&f, 2, 0, "undisturbed");
    close_fixture(&f);
  }
}

/* Ids of ours end with a sum: one that does not was never given to a server. */
static void an_id_that_nobody_ever_had_ends_the_connection(void) {
  for (int how = 0; how < 4; how++) {
    struct fb_frame frame = {.id = FB_BACKLOG_ANNOUNCEMENT, .has_receiver = true, .backlog = 1};
    struct fb_buffer_slice cause;
    struct fixture f;

    open_fixture(&f);
    open_channel(&f, 1, 1);
    fb_frame_channel_id_seal(f.channels[1]->id);
    request(&f, 1, 1);
    accept_client(&f);
    CHECK(hear(&f) && fb_frame_channel_id_is_sealed(f.frame.receiver));
    memcpy(frame.receiver, (const uint8_t[FB_CHANNEL_ID_SIZE]){9}, FB_CHANNEL_ID_SIZE);
    fb_frame_channel_id_seal(frame.receiver);
    say(&f, &frame, NULL, NULL); /* somebody who has gone */
    expect(&f, FB_CANCEL_PARTITION_REQUEST, 9);
    frame.receiver[4] ^= 1;
    if (how == 0) {
      say(&f, &frame, NULL, NULL);
    } else if (how == 1) {
      CHECK(fb_error_cause_new("for nobody", &cause) == FB_OK);
      frame.id = FB_ERROR_RESPONSE;
      frame.backlog = 0;
      frame.body_size = cause.size;
      say(&f, &frame, NULL, fb_buffer_slice_data(&cause));
      fb_buffer_slice_release(&cause);
    } else {
      uint8_t id[FB_CHANNEL_ID_SIZE];
      memcpy(id, frame.receiver, sizeof id);
      frame = response(1, 0, how == 2 ? FB_DATA_BUFFER : FB_EVENT_BUFFER, 4);
      memcpy(frame.receiver, id, sizeof id);
      say(&f, &frame, NULL, "lost");
    }
    expect_failure(&f, 1, FB_ECORRUPT, "connection with 127.0.0.1:", "a channel that was never opened here");
    close_fixture(&f);
  }
}

static void an_event_that_is_none_fails_its_channel_only(void) {
  for (int how = 0; how < 4; how++) {
    struct fb_frame frame = response(1, 0, how == 0 ? FB_EVENT_BUFFER : FB_END_OF_PARTITION, how == 1 ? 0 : 4);
    struct fixture f;

    open_conversations(&f, &OPTIONS, 2, 1);
    frame.part_count = how == 3; /* as sort-merge partitions send all they have */
    say(&f, &frame, (const uint32_t[]){4}, how == 0 ? "data" : "\0\0\0\2");
    expect_failure(&f, 1, FB_ECORRUPT, "what came as an event is none", "the stream is corrupted");
    say_data(&f, 2, 0, 0, "undisturbed");
    read_text(&f, 2, 0, "undisturbed");
    close_fixture(&f);
  }
}

static void a_backlog_for_nobody_is_answered_with_a_cancel(void) {
  struct fixture f;

  open_conversation(&f, 1);
  say_backlog(&f, 9, 3);
  expect(&f, FB_CANCEL_PARTITION_REQUEST, 9);
  close_fixture(&f);
}

static void data_without_credit_fail_their_channel_only(void) {
  struct fixture f;

  open_conversations(&f, &OPTIONS, 2, 1);
  for (int32_t i = 0; i < 12; i++) say_data(&f, 1, i, 100, "too much"); /* 1 exclusive, 8 floating */
  expect_failure(&f, 1, FB_ECORRUPT, "a data buffer came without credit", "protocol");
  expect_in_the_end(&f, FB_CANCEL_PARTITION_REQUEST, 1);
  say_data(&f, 2, 0, 0, "undisturbed");
  read_text(&f, 2, 0, "undisturbed");
  CHECK(counters_of(&f).channels == 1);
  close_fixture(&f);
}

static void an_empty_buffer_gives_its_credit_back(void) {
  struct fb_frame frame;
  struct fixture f;

  open_conversation(&f, 1);
  for (int32_t i = 0; i < 100; i++) {
    frame = response(1, i, FB_DATA_BUFFER, 0);
    say(&f, &frame, NULL, NULL);
    expect_credit(&f, 1, 1);
  }
  say_data(&f, 1, 100, 0, "data");
  read_text(&f, 1, 100, "data");
  close_fixture(&f);
}

static void a_lost_buffer_is_an_error(void) {
  struct fixture f;

  open_conversation(&f, 3);
  say_data(&f, 1, 0, 0, "first");
  read_text(&f, 1, 0, "first");
  say_data(&f, 1, 2, 0, "third");
  expect_failure(&f, 1, FB_ECORRUPT, "sequence number 2 came where 1 was expected", "lost or reordered");
  close_fixture(&f);
}

/* ---- errors that the server tells ---------------------------------------------------------------------- */

static void an_error_with_a_receiver_is_its_alone(void) {
  struct fixture f;

  open_conversations(&f, &OPTIONS, 2, 1);
  say_failure(&f, 1, "the disk is full");
  expect_failure(&f, 1, FB_ERELEASED, " failed: the disk is full", "the disk is full");
  say_data(&f, 2, 0, 0, "undisturbed");
  read_text(&f, 2, 0, "undisturbed");
  CHECK(counters_of(&f).channels == 1 && counters_of(&f).connections == 1);
  close_fixture(&f);
}

static void an_error_without_a_receiver_ends_the_connection(void) {
  struct fixture f;

  open_conversations(&f, &OPTIONS, 2, 1);
  open_channel(&f, 3, 1);
  say_failure(&f, 0, "shutting down");
  for (uint8_t n = 1; n <= 2; n++)
    expect_failure(&f, n, FB_EIO, "connection with 127.0.0.1:", "failed and ends the connection");
  CHECK(strstr(fb_remote_channel_failure(f.channels[1]), "shutting down") != NULL);
  CHECK(!hear(&f));
  hang_up(&f);
  wait_for_connections(&f, 0);
  request(&f, 3, 1); /* over a new one */
  accept_client(&f);
  expect_request(&f, 3, 1);
  close_fixture(&f);
}

/* After the last channel of a connection has failed, nobody is there to give it up. */
static void a_connection_ends_with_its_last_channel_also_if_that_fails(void) {
  static const int codes[] = {FB_ERELEASED, FB_ECORRUPT, FB_ENOT_FOUND, FB_ECORRUPT};

  for (int how = 0; how < 4; how++) {
    struct fb_frame no_event = response(1, 0, FB_END_OF_DATA, 4);
    struct fixture f;

    open_conversation(&f, 0);
    if (how == 0) say_failure(&f, 1, "gone");
    if (how == 1) say_data(&f, 1, 0, 0, "without credit");
    for (int i = 0; how == 2 && i < 3; i++) {
      say_not_found(&f, 1);
      expect_request(&f, 1, 0);
    }
    if (how == 2) say_not_found(&f, 1);
    if (how == 3) say(&f, &no_event, NULL, "none");
    expect_failure(&f, 1, codes[how], "", "");
    expect(&f, FB_CLOSE_REQUEST, 0);
    CHECK(!hear(&f));
    hang_up(&f);
    wait_for_connections(&f, 0);
    close_fixture(&f);
  }
}

static void look_at_backoff(void* context) {
  struct fixture* self = context;
  self->frame.credit = (int32_t)self->channels[1]->request.backoff_ms;
}

static int32_t backoff_of(struct fixture* self) {
  CHECK(fb_reactor_call(self->reactor, look_at_backoff, self) == FB_OK);
  return self->frame.credit;
}

/* Flink's run with 500, 1000 and 500 ms, here a fiftieth of it: 500, 1000, 1500, then failure. */
/* The server forgot it with the reader that it did not attach. */
static void a_buffer_size_is_said_again_with_the_request(void) {
  struct fixture f;

  open_conversation(&f, 2);
  CHECK(fb_remote_channel_announce_buffer_size(f.channels[1], 32) == FB_OK);
  for (int i = 0; i < 3; i++) {
    expect(&f, FB_NEW_BUFFER_SIZE, 1);
    CHECK(f.frame.buffer_size == 32);
    if (i == 2) break;
    say_not_found(&f, 1);
    expect_request(&f, 1, 2);
  }
  close_fixture(&f);
}

static void a_partition_that_is_not_found_is_asked_for_again(void) {
  struct fixture f;

  open_conversation(&f, 2);
  for (int32_t i = 1; i <= 3; i++) {
    int64_t start_ms = fb_wakeup_now_ms();
    say_not_found(&f, 1);
    expect_request(&f, 1, 2);
    CHECK(fb_wakeup_now_ms() - start_ms >= 9 && backoff_of(&f) == 10 * i);
  }
  say_not_found(&f, 1);
  expect_failure(&f, 1, FB_ENOT_FOUND, "partition 01000000000000000000000000000000#0@", "was not found at 127.0.0.1:");
  close_fixture(&f);
}

/* Servers that do not wait, as Flink's did not before 1.18: 10, 20, 40, then failure. */
static void without_a_wait_of_the_server_the_backoff_doubles(void) {
  struct fb_partition_client_options options = OPTIONS;
  struct fixture f;

  options.request_timeout_ms = 0;
  options.backoff_max_ms = 40;
  open_conversations(&f, &options, 1, 2);
  for (int32_t wait_ms = 10; wait_ms <= 40; wait_ms *= 2) {
    int64_t start_ms = fb_wakeup_now_ms();
    say_not_found(&f, 1);
    expect_request(&f, 1, 2);
    CHECK(fb_wakeup_now_ms() - start_ms >= wait_ms - 1);
  }
  say_not_found(&f, 1);
  expect_failure(&f, 1, FB_ENOT_FOUND, "was not found", "its producer has not registered it there");
  close_fixture(&f);
}

static void a_partition_that_comes_late_is_read(void) {
  struct fixture f;

  open_conversation(&f, 1);
  say_not_found(&f, 1);
  expect_request(&f, 1, 1);
  say_data(&f, 1, 0, 2, "late");
  expect_credit(&f, 1, 3);
  read_text(&f, 1, 0, "late");
  close_fixture(&f);
}

static void a_partition_is_asked_for_once_without_backoff(void) {
  struct fb_partition_client_options options = OPTIONS;
  struct fixture f;

  options.backoff_initial_ms = 0;
  open_conversations(&f, &options, 1, 2);
  say_not_found(&f, 1);
  expect_failure(&f, 1, FB_ENOT_FOUND, "was not found", "its producer has not registered it there");
  close_fixture(&f);
}

static void a_channel_may_go_while_it_waits_to_ask_again(void) {
  struct fb_partition_client_options options = OPTIONS;

  options.backoff_initial_ms = 60000;
  options.backoff_max_ms = 120000;
  for (int how = 0; how < 3; how++) {
    struct fixture f;

    open_conversations(&f, &options, 2, 1);
    say_not_found(&f, 1);
    say_data(&f, 2, 0, 0, "meanwhile");
    read_text(&f, 2, 0, "meanwhile"); /* the answer before it has been read as well */
    if (how == 0) cancel(&f, 1);
    else if (how == 1) leave(&f, 1);
    else hang_up(&f);
    if (how == 2) expect_failure(&f, 1, FB_EIO, "connection with 127.0.0.1:", "most likely lost");
    close_fixture(&f);
  }
}

/* ---- connections that break ---------------------------------------------------------------------------- */

static void a_connection_that_is_refused_fails_its_channels(void) {
  struct fixture f;

  open_fixture(&f);
  close(f.listener);
  for (uint8_t n = 1; n <= 2; n++) open_channel(&f, n, 1);
  request(&f, 1, 2);
  for (uint8_t n = 1; n <= 2; n++) {
    expect_failure(&f, n, FB_EIO, "connection with 127.0.0.1:", "connecting failed: Connection refused");
    CHECK(strstr(fb_remote_channel_failure(f.channels[n]), "is the task there still running") != NULL);
  }
  wait_for_connections(&f, 0);
  listen_at(&f); /* it is up again: who comes later is served */
  open_channel(&f, 3, 1);
  request(&f, 3, 1);
  accept_client(&f);
  expect_request(&f, 3, 1);
  close_fixture(&f);
}

static void a_server_that_comes_up_while_there_are_attempts_left_is_reached(void) {
  struct fb_partition_client_options options = OPTIONS;
  struct fixture f;

  options.connect_retries = UINT32_MAX;
  open_fixture_with(&f, &options);
  close(f.listener);
  open_channel(&f, 1, 1);
  request(&f, 1, 1);
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  listen_at(&f);
  accept_client(&f);
  expect_request(&f, 1, 1);
  hang_up(&f); /* no attempts for one that stood */
  expect_failure(&f, 1, FB_EIO, "the peer closed it", "most likely lost");
  close_fixture(&f);
}

static void attempts_end(void) {
  struct fb_partition_client_options options = OPTIONS;
  struct fixture f;

  options.connect_retries = 20;
  open_fixture_with(&f, &options);
  close(f.listener);
  open_channel(&f, 1, 1);
  request(&f, 1, 1);
  expect_failure(&f, 1, FB_EIO, "connecting failed", "Connection refused");
  listen_at(&f);
  close_fixture(&f);
}

static void a_channel_may_go_between_attempts(void) {
  struct fb_partition_client_options options = OPTIONS;

  options.connect_retries = UINT32_MAX;
  for (int how = 0; how < 20; how++) {
    struct fixture f;
    open_fixture_with(&f, &options);
    close(f.listener);
    open_channel(&f, 1, 1);
    request(&f, 1, 1);
    if (how % 2 == 0) cancel(&f, 1);
    else leave(&f, 1);
    wait_for_connections(&f, 0);
    listen_at(&f);
    close_fixture(&f);
  }
}

static void a_connection_that_breaks_fails_all_of_its_channels_once(void) {
  for (int how = 0; how < 4; how++) {
    struct fb_frame frame = response(1, 0, FB_DATA_BUFFER, 40);
    char text[41] = "0123456789012345678901234567890123456789";
    uint8_t bytes[200];
    size_t size = put_frame(bytes, &frame, NULL, text);
    struct fixture f;

    open_conversations(&f, &OPTIONS, 3, 2);
    /* Between frames, inside a head, inside a body, and with a reset. */
    if (how == 1) say_piece(&f, bytes, 30);
    if (how == 2) say_piece(&f, bytes, size - 10);
    if (how == 3) {
      struct linger linger = {.l_onoff = 1, .l_linger = 0};
      CHECK(setsockopt(f.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    }
    hang_up(&f);
    for (uint8_t n = 1; n <= 3; n++)
      expect_failure(&f, n, FB_EIO, how == 3 ? "Connection reset by peer" : "the peer closed it", "most likely lost");
    wait_for_connections(&f, 0);
    CHECK(counters_of(&f).channels == 0);
    close_fixture(&f);
  }
}

static void what_came_before_the_end_of_a_connection_is_not_read(void) {
  struct fixture f;

  open_conversation(&f, 2);
  say_data(&f, 1, 0, 0, "first");
  hang_up(&f);
  wait_for_connections(&f, 0);
  expect_failure(&f, 1, FB_EIO, "connection with 127.0.0.1:", "most likely lost"); /* the error goes first */
  close_fixture(&f);
}

static void a_stream_that_is_none_ends_the_connection(void) {
  static const struct {
    const char* bytes;
    size_t size;
    int code;
    const char* text;
  } wrong[] = {
      {"HTTP/1.1 400 Bad Request\r\n", 26, FB_ECORRUPT, "not a Flink peer"},
      {"\0\0\0\11\272\334\17\376\5", 9, FB_ECORRUPT, "CloseRequest (id 5) does not travel in this direction"},
      {"\0\0\0\11\272\334\17\376\77", 9, FB_ECORRUPT, "unknown message id 63"},
      {"\377\377\377\377\272\334\17\376\0", 9, FB_ECORRUPT, "BufferResponse says it has -1 bytes"},
  };

  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct fixture f;
    open_conversation(&f, 1);
    say_bytes(&f, (const uint8_t*)wrong[i].bytes, wrong[i].size);
    expect_failure(&f, 1, wrong[i].code, "connection with 127.0.0.1:", wrong[i].text);
    while (read(f.fd, f.input, sizeof f.input) > 0) continue; /* and it is over */
    hang_up(&f);
    wait_for_connections(&f, 0);
    close_fixture(&f);
  }
}

static void lengths_are_checked_before_memory_is_taken(void) {
  for (int how = 0; how < 3; how++) {
    struct fb_frame frame = response(1, 0, how == 0 ? FB_DATA_BUFFER : FB_EVENT_BUFFER, SEGMENT + 1);
    uint8_t head[FB_FRAME_HEAD_MAX];
    struct fixture f;
    int size;

    if (how == 1) frame.body_size = (16 << 20) + 1;
    if (how == 2) frame = (struct fb_frame){.id = FB_ERROR_RESPONSE, .body_size = 1 << 20};
    open_conversation(&f, 1);
    size = fb_frame_write_head(&frame, head);
    CHECK(size > 0);
    say_bytes(&f, head, (size_t)size);
    expect_failure(&f, 1, FB_ETOO_LARGE, "connection with 127.0.0.1:", "bytes, at most");
    close_fixture(&f);
  }
}

static void an_error_that_cannot_be_read_ends_the_connection(void) {
  struct fixture f;
  uint8_t bytes[] = {0, 0, 0, 11, 0xba, 0xdc, 0x0f, 0xfe, FB_ERROR_RESPONSE, 7, 7};

  open_conversation(&f, 1);
  say_bytes(&f, bytes, sizeof bytes);
  expect_failure(&f, 1, FB_ECORRUPT, "connection with 127.0.0.1:", "it reports an error that cannot be read");
  close_fixture(&f);
}

/* A message of any length and kind ends in a text of bounded size. */
static void a_long_failure_is_cut(void) {
  char message[1000];
  struct fixture f;

  memset(message, 'x', sizeof message - 1);
  message[sizeof message - 1] = 0;
  open_conversation(&f, 1);
  say_failure(&f, 1, message);
  expect_failure(&f, 1, FB_ERELEASED, ": xxxx", "xxxx");
  CHECK(strlen(fb_remote_channel_failure(f.channels[1])) < 800);
  close_fixture(&f);
}

static void closing_the_client_fails_what_is_left(void) {
  struct fixture f;
  struct fb_remote_channel* left;

  open_conversation(&f, 1);
  left = f.channels[1];
  f.channels[1] = NULL;
  close_client(&f);
  f.channels[1] = left;
  expect_failure(&f, 1, FB_ERELEASED, "the network environment was closed", "");
  fb_remote_channel_end(left);
  fb_remote_channel_close(left);
  f.channels[1] = NULL;
  expect(&f, FB_CLOSE_REQUEST, 0);
  CHECK(!hear(&f));
  close_fixture(&f);
}

int main(void) {
  a_channel_is_asked_for_read_and_given_up();
  channels_to_one_address_share_a_connection();
  connections_differ_by_their_index();
  a_connection_can_be_kept_for_later();
  a_channel_may_go_before_its_connection_stands();
  an_id_is_used_once();
  nothing_is_asked_of_a_reactor_that_is_closed();
  wishes_are_said_in_order();
  recycled_buffers_are_credit_again();
  without_exclusive_buffers_the_announced_backlog_is_answered();
  floating_buffers_go_round();
  a_server_that_does_not_listen_is_told_the_latest();
  any_split_of_the_stream_is_the_same();
  a_channel_may_go_while_its_buffer_comes();
  an_id_that_nobody_ever_had_ends_the_connection();
  an_event_that_is_none_fails_its_channel_only();
  a_backlog_for_nobody_is_answered_with_a_cancel();
  data_without_credit_fail_their_channel_only();
  an_empty_buffer_gives_its_credit_back();
  a_lost_buffer_is_an_error();
  an_error_with_a_receiver_is_its_alone();
  an_error_without_a_receiver_ends_the_connection();
  a_connection_ends_with_its_last_channel_also_if_that_fails();
  a_buffer_size_is_said_again_with_the_request();
  a_partition_that_is_not_found_is_asked_for_again();
  without_a_wait_of_the_server_the_backoff_doubles();
  a_partition_that_comes_late_is_read();
  a_partition_is_asked_for_once_without_backoff();
  a_channel_may_go_while_it_waits_to_ask_again();
  a_connection_that_is_refused_fails_its_channels();
  a_server_that_comes_up_while_there_are_attempts_left_is_reached();
  attempts_end();
  a_channel_may_go_between_attempts();
  a_connection_that_breaks_fails_all_of_its_channels_once();
  what_came_before_the_end_of_a_connection_is_not_read();
  a_stream_that_is_none_ends_the_connection();
  lengths_are_checked_before_memory_is_taken();
  an_error_that_cannot_be_read_ends_the_connection();
  a_long_failure_is_cut();
  closing_the_client_fails_what_is_left();
  return 0;
}
