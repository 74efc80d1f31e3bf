/* Real loopback sockets: bytes arrive whole and in order, slow peers cost bounded memory, and whoever goes,
 * the reason is told once, with the address. Peers are plain blocking sockets of this thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkstemp, posix_fadvise */
#endif
#include "io/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ground/errors.h"
#include "ground/wakeup.h"

#define PIECE      32768
#define FILE_BYTES (1 << 20)

/* Each byte of it is the lowest one of its offset. */
struct counting_file {
  struct fb_shared_file base;
  _Atomic uint32_t closed;
  char path[40];
};

/* One end of a connection on the I/O thread, and what it was told. */
struct end {
  struct fb_connection* connection;
  struct fb_wakeup told;
  _Atomic uint64_t bytes;  /* received; release by the I/O thread, acquire by the test */
  _Atomic uint64_t direct; /* of those, in the target */
  _Atomic uint32_t connected, ended, writable, closed;
  int code; /* from here on: the test looks after `closed` */
  char reason[240];
  bool had_reason;
  uint8_t next;           /* value of the byte that must come next */
  uint8_t sent;           /* value of the byte sent next */
  uint64_t left;          /* bytes still to send */
  size_t held, most_held; /* bytes of bodies that have not come back */
  uint8_t target[1000];
  bool uses_target, echoes, finishes, has_said_bye;
  struct counting_file* file; /* bodies come from there; NULL: from memory */
};

struct fixture {
  struct fb_reactor* reactor;
  struct fb_listener* listener;
  struct fb_tcp_address address;
  struct end end; /* of the one connection that is accepted */
};

static void tell(struct end* self, _Atomic uint32_t* count) {
  atomic_fetch_add_explicit(count, 1, memory_order_release);
  fb_wakeup_ring(&self->told);
}

static uint32_t seen(_Atomic uint32_t* count) { return atomic_load_explicit(count, memory_order_acquire); }

static void wait_for(struct end* self, _Atomic uint32_t* count) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);
  while (seen(count) == 0) {
    uint64_t ticket = fb_wakeup_seen(&self->told);
    if (seen(count) == 0) CHECK(fb_wakeup_wait_until(&self->told, ticket, deadline_ms) == FB_OK);
  }
}

static void wait_for_bytes(struct end* self, uint64_t bytes) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);
  for (;;) {
    uint64_t ticket = fb_wakeup_seen(&self->told);
    if (atomic_load_explicit(&self->bytes, memory_order_acquire) >= bytes) return;
    CHECK(fb_wakeup_wait_until(&self->told, ticket, deadline_ms) == FB_OK);
  }
}

/* ---- what an end does ---------------------------------------------------------------------------------- */

static void free_buffer(struct fb_buffer* buffer) {
  struct end* self = buffer->owner;

  self->held -= buffer->segment.size;
  fb_memory_segment_close(&buffer->segment);
  free(buffer);
}

/* A buffer of its own with the bytes that are due. */
static struct fb_buffer_slice make_piece(struct end* self, uint32_t size) {
  struct fb_buffer_slice slice = {.size = size, .data_type = FB_DATA_BUFFER};

  slice.buffer = calloc(1, sizeof *slice.buffer);
  CHECK(slice.buffer != NULL && fb_memory_segment_open(&slice.buffer->segment, size) == FB_OK);
  fb_buffer_reset(slice.buffer, free_buffer, self);
  self->held += size;
  for (uint32_t i = 0; i < size; i++) slice.buffer->segment.data[i] = self->sent++;
  return slice;
}

static void close_file(struct fb_shared_file* base) {
  struct counting_file* self = (struct counting_file*)base;
  close(base->fd);
  unlink(self->path);
  atomic_fetch_add_explicit(&self->closed, 1, memory_order_release);
}

static void open_file(struct counting_file* self) {
  static uint8_t bytes[FILE_BYTES];
  int fd;

  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
  *self = (struct counting_file){.path = "/tmp/flinkbuf-counting-XXXXXX"};
  fd = mkstemp(self->path);
  CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
  fb_shared_file_open(&self->base, fd, self->path, close_file);
}

/* A part of the file with the bytes that are due. */
static struct fb_file_region cut_file(struct end* self, uint32_t size) {
  uint64_t offset = self->sent + 256 * (self->left % 64);

  CHECK(offset + size <= FILE_BYTES);
  self->sent = (uint8_t)(self->sent + size);
  fb_shared_file_retain(&self->file->base);
  return (struct fb_file_region){&self->file->base, offset, size};
}

static void send_more(struct end* self) {
  while (self->left > 0 && fb_connection_is_writable(self->connection)) {
    uint32_t size = self->left < PIECE ? (uint32_t)self->left : PIECE;
    uint8_t head[40];
    size_t head_size = size < sizeof head ? size : sizeof head;
    struct fb_buffer_slice body;

    for (size_t i = 0; i < head_size; i++) head[i] = self->sent++;
    if (self->file != NULL) {
      struct fb_file_region region = cut_file(self, size - (uint32_t)head_size);
      CHECK(fb_connection_send_region(self->connection, head, head_size, &region) == FB_OK && region.file == NULL);
      self->left -= size;
      continue;
    }
    body = make_piece(self, size - (uint32_t)head_size);
    CHECK(fb_connection_send(self->connection, head, head_size, &body) == FB_OK && body.buffer == NULL);
    self->left -= size;
    if (self->held > self->most_held) self->most_held = self->held;
  }
}

static void on_connected(struct fb_connection* connection) {
  struct end* self = fb_connection_context(connection);
  send_more(self);
  tell(self, &self->connected);
}

static void check_bytes(struct end* self, const uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; i++) CHECK(data[i] == self->next++);
  atomic_fetch_add_explicit(&self->bytes, size, memory_order_release);
}

static size_t choose_target(struct fb_connection* connection, uint8_t** memory) {
  struct end* self = fb_connection_context(connection);
  uint64_t bytes = atomic_load_explicit(&self->bytes, memory_order_relaxed);

  if (!self->uses_target) return 0;
  *memory = self->target;
  return bytes % 3 == 0 ? 0 : bytes % sizeof self->target;
}

static void on_filled(struct fb_connection* connection, size_t size) {
  struct end* self = fb_connection_context(connection);
  check_bytes(self, self->target, size);
  atomic_fetch_add_explicit(&self->direct, size, memory_order_relaxed);
  fb_wakeup_ring(&self->told);
}

static void on_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct end* self = fb_connection_context(connection);

  check_bytes(self, data, size);
  while (self->echoes && size > 0) {
    size_t part = size < FB_CONNECTION_HEAD_MAX ? size : FB_CONNECTION_HEAD_MAX;
    CHECK(fb_connection_send(connection, data, part, NULL) == FB_OK);
    data += part;
    size -= part;
  }
  if (self->finishes && !self->has_said_bye) {
    self->has_said_bye = true;
    CHECK(fb_connection_send(connection, (const uint8_t*)"bye", 3, NULL) == FB_OK);
    fb_connection_finish(connection);
    CHECK(fb_connection_send(connection, (const uint8_t*)"!", 1, NULL) == FB_ERELEASED);
  }
  fb_wakeup_ring(&self->told);
}

static void on_end(struct fb_connection* connection) {
  struct end* self = fb_connection_context(connection);
  if (self->echoes) {
    CHECK(fb_connection_send(connection, (const uint8_t*)"end", 3, NULL) == FB_OK);
    fb_connection_finish(connection);
  }
  tell(self, &self->ended);
}

static void on_writable(struct fb_connection* connection) {
  struct end* self = fb_connection_context(connection);
  send_more(self);
  tell(self, &self->writable);
}

static void on_closed(struct fb_connection* connection, int code, const char* reason) {
  struct end* self = fb_connection_context(connection);
  self->code = code;
  self->had_reason = reason != NULL;
  snprintf(self->reason, sizeof self->reason, "%s", reason != NULL ? reason : "");
  CHECK(seen(&self->closed) == 0);
  tell(self, &self->closed);
}

static const struct fb_connection_handler HANDLER = {
    on_connected, choose_target, on_filled, on_bytes, on_end, on_writable, on_closed,
};

/* ---- the fixture --------------------------------------------------------------------------------------- */

static void on_accept(struct fb_connection* connection, void* context) {
  struct fixture* self = context;
  self->end.connection = connection;
  fb_connection_set_handler(connection, &HANDLER, &self->end);
  fb_connection_set_marks(connection, 100000, 200000);
  send_more(&self->end);
  tell(&self->end, &self->end.connected);
}

static void start_listening(void* context) {
  struct fixture* self = context;
  CHECK(fb_connection_listen(self->reactor, &self->address, 64, on_accept, self, &self->listener) == FB_OK);
}

static void open_fixture(struct fixture* self) {
  memset(self, 0, sizeof(*self));
  CHECK(fb_wakeup_open(&self->end.told) == FB_OK && fb_reactor_open(&self->reactor) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_reactor_call(self->reactor, start_listening, self) == FB_OK);
  CHECK(fb_tcp_address_port(&self->address) != 0);
}

static void close_fixture(struct fixture* self) {
  fb_reactor_close(self->reactor);
  CHECK(seen(&self->end.connected) == seen(&self->end.closed)); /* everybody had a last word */
  fb_wakeup_close(&self->end.told);
}

/* A plain blocking socket, connected to the fixture. */
static int dial(struct fixture* self) {
  struct timeval limit = {.tv_sec = 20};
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  CHECK(connect(fd, (struct sockaddr*)&self->address.bytes, self->address.size) == 0);
  return fd;
}

static void read_exactly(int fd, void* to, size_t size) {
  uint8_t* at = to;
  while (size > 0) {
    ssize_t got = read(fd, at, size);
    CHECK(got > 0);
    at += got;
    size -= (size_t)got;
  }
}

static void check_end_of_stream(int fd) {
  char byte;
  CHECK(read(fd, &byte, 1) == 0);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void of_a_names_addresses_an_ipv4_one_is_taken(void) {
  struct addrinfo fourth = {.ai_family = AF_INET}, third = {.ai_family = AF_INET, .ai_next = &fourth};
  struct addrinfo second = {.ai_family = AF_INET6, .ai_next = &third};
  struct addrinfo first = {.ai_family = AF_INET6, .ai_next = &second}, alone = {.ai_family = AF_INET6};

  CHECK(fb_tcp_address_choose(&first) == &third && fb_tcp_address_choose(&fourth) == &fourth);
  CHECK(fb_tcp_address_choose(&alone) == &alone);
}

static void half_sent_data_waits_for_the_rest(void) {
  struct fixture fixture;
  uint8_t bytes[256], back[256];
  int fd;

  open_fixture(&fixture);
  fixture.end.echoes = true;
  for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
  fd = dial(&fixture);
  for (size_t at = 0; at < 256; at += 64) {
    CHECK(write(fd, bytes + at, 64) == 64);
    wait_for_bytes(&fixture.end, at + 64);
    read_exactly(fd, back + at, 64);
  }
  CHECK(memcmp(bytes, back, 256) == 0);
  CHECK(shutdown(fd, SHUT_WR) == 0); /* half-closed: the answer still comes */
  wait_for(&fixture.end, &fixture.end.ended);
  read_exactly(fd, back, 3);
  CHECK(memcmp(back, "end", 3) == 0);
  check_end_of_stream(fd);
  wait_for(&fixture.end, &fixture.end.closed);
  CHECK(fixture.end.code == FB_OK && !fixture.end.had_reason);
  close(fd);
  close_fixture(&fixture);
}

/* Two ends on the I/O thread of one reactor each way: 24 MB through targets and without. */
static void bytes_arrive_whole_and_in_order(bool uses_target) {
  struct fixture fixture;
  const uint64_t total = 24000001;
  static uint8_t received[1 << 16];
  uint8_t next = 0;
  int fd;

  open_fixture(&fixture);
  fixture.end.uses_target = uses_target;
  fixture.end.left = total;
  fd = dial(&fixture);
  for (uint64_t left = total; left > 0;) {
    ssize_t got = read(fd, received, sizeof received);
    CHECK(got > 0);
    for (ssize_t i = 0; i < got; i++) CHECK(received[i] == next++);
    left -= (uint64_t)got;
  }
  next = 0;
  for (uint64_t left = total; left > 0;) { /* the other way */
    size_t size = left < sizeof received ? (size_t)left : sizeof received;
    for (size_t i = 0; i < size; i++) received[i] = next++;
    for (size_t at = 0; at < size;) {
      ssize_t written = write(fd, received + at, size - at);
      CHECK(written > 0);
      at += (size_t)written;
    }
    left -= size;
  }
  wait_for_bytes(&fixture.end, total);
  CHECK((atomic_load_explicit(&fixture.end.direct, memory_order_relaxed) > 0) == uses_target);
  close(fd);
  wait_for(&fixture.end, &fixture.end.ended);
  close_fixture(&fixture);
}

static void a_peer_that_never_reads_costs_bounded_memory(void) {
  struct fixture fixture;
  struct fb_reactor_counters before, after;
  struct timespec pause = {0, 50000000};
  uint8_t byte;
  int fd, looks = 400;

  open_fixture(&fixture);
  fixture.end.left = 1ull << 30;
  fd = dial(&fixture);
  wait_for(&fixture.end, &fixture.end.connected);
  nanosleep(&pause, NULL);
  do { /* until the socket's own buffers are full */
    fb_reactor_get_counters(fixture.reactor, &before);
    nanosleep(&pause, NULL);
    fb_reactor_get_counters(fixture.reactor, &after);
    CHECK(--looks > 0); /* it comes to rest, and sleeps */
  } while (after.bytes_written > before.bytes_written || after.turns > before.turns);
  CHECK(after.bytes_written < 64u << 20);
  for (int i = 0; i < 1 << 20; i++) {
    read_exactly(fd, &byte, 1);
    CHECK(byte == (uint8_t)i);
    if (i % 4096 == 0 && seen(&fixture.end.writable) > 2) break;
  }
  close(fd);
  wait_for(&fixture.end, &fixture.end.closed);
  /* A body of which a part has left is held as a whole. */
  CHECK(fixture.end.most_held > 200000 - PIECE && fixture.end.most_held <= 200000 + 2 * PIECE);
  CHECK(fixture.end.code == FB_EIO && fixture.end.left > 0);
  close_fixture(&fixture);
}

static void a_reset_is_told_with_address_and_text(void) {
  struct linger none = {.l_onoff = 1, .l_linger = 0};
  struct fixture fixture;
  struct fb_tcp_address mine = {.size = sizeof mine.bytes};
  char text[FB_ADDRESS_TEXT_SIZE];
  int fd;

  open_fixture(&fixture);
  fd = dial(&fixture);
  CHECK(getsockname(fd, (struct sockaddr*)&mine.bytes, &mine.size) == 0);
  fb_tcp_address_text(&mine, text);
  wait_for(&fixture.end, &fixture.end.connected);
  CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
  close(fd);
  wait_for(&fixture.end, &fixture.end.closed);
  CHECK(fixture.end.code == FB_EIO && strstr(fixture.end.reason, text) != NULL);
  CHECK(strstr(fixture.end.reason, "Connection reset by peer") != NULL);
  close_fixture(&fixture);
}

static void the_last_words_are_read_before_the_connection_goes(void) {
  struct fixture fixture;
  static uint8_t bytes[1 << 20];
  char last[3];
  int fd;

  open_fixture(&fixture);
  fixture.end.finishes = true;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
  fd = dial(&fixture);
  for (size_t at = 0; at < sizeof bytes;) { /* goes on sending long after the other has finished */
    ssize_t written = write(fd, bytes + at, sizeof bytes - at);
    CHECK(written > 0);
    at += (size_t)written;
  }
  read_exactly(fd, last, 3);
  CHECK(memcmp(last, "bye", 3) == 0);
  check_end_of_stream(fd);
  close(fd);
  wait_for(&fixture.end, &fixture.end.closed);
  CHECK(fixture.end.code == FB_OK);
  close_fixture(&fixture);
}

static void a_peer_that_takes_nothing_of_the_last_words_is_left_in_time(void) {
  struct fixture fixture;
  uint8_t first = 0;
  int fd;

  open_fixture(&fixture);
  fixture.end.finishes = true;
  fixture.end.left = 1 << 30; /* until the high mark: more than the sockets take */
  fd = dial(&fixture);
  wait_for(&fixture.end, &fixture.end.connected);
  CHECK(write(fd, &first, 1) == 1);
  wait_for(&fixture.end, &fixture.end.closed);
  CHECK(fixture.end.code == FB_OK);
  close(fd);
  close_fixture(&fixture);
}

static void set_deaf_over(void* context) { fb_connection_set_deaf_over(context, 1 << 20); }

/* Echoes what it hears, and hears no more when nobody takes the echo. */
static void a_peer_that_takes_no_answers_is_not_heard_until_it_does(void) {
  struct fixture fixture;
  struct timeval limit = {.tv_sec = 2};
  static uint8_t bytes[1 << 16], back[1 << 16];
  size_t sent = 0;
  ssize_t written;
  int fd;

  open_fixture(&fixture);
  fixture.end.echoes = true;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
  fd = dial(&fixture);
  wait_for(&fixture.end, &fixture.end.connected);
  CHECK(fb_reactor_call(fixture.reactor, set_deaf_over, fixture.end.connection) == FB_OK);
  CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
  while ((written = write(fd, bytes + sent % sizeof bytes, sizeof bytes - sent % sizeof bytes)) > 0) {
    sent += (size_t)written;
    CHECK(sent < (size_t)64 << 20); /* what the sockets of both directions hold, and a little */
  }
  for (size_t at = 0, size; at < sent; at += size) {
    size = sent - at < sizeof back ? sent - at : sizeof back;
    read_exactly(fd, back, size);
    for (size_t i = 0; i < size; i++) CHECK(back[i] == (uint8_t)(at + i));
  }
  CHECK(atomic_load_explicit(&fixture.end.bytes, memory_order_acquire) == sent);
  close(fd);
  wait_for(&fixture.end, &fixture.end.ended);
  wait_for(&fixture.end, &fixture.end.closed);
  close_fixture(&fixture);
}

/* ---- outgoing ------------------------------------------------------------------------------------------ */

struct outgoing {
  struct fb_reactor* reactor;
  struct fb_tcp_address peer;
  struct end* end;
  int64_t timeout_ms;
};

static void start_connecting(void* context) {
  struct outgoing* self = context;
  CHECK(fb_connection_connect(self->reactor, &self->peer, self->timeout_ms, &HANDLER, self->end,
                              &self->end->connection) == FB_OK);
  CHECK(seen(&self->end->connected) == 0);
}

static void start_dialling(struct fb_reactor* reactor, const struct fb_tcp_address* peer, struct end* end,
                           int64_t timeout_ms) {
  struct outgoing outgoing = {reactor, *peer, end, timeout_ms};
  CHECK(fb_wakeup_open(&end->told) == FB_OK);
  CHECK(fb_reactor_call(reactor, start_connecting, &outgoing) == FB_OK);
}

static void two_ends_of_one_reactor_talk(void) {
  struct fixture fixture;
  struct end client = {.left = 3000000, .uses_target = true};

  open_fixture(&fixture);
  fixture.end.left = 5000000;
  fixture.end.uses_target = true;
  start_dialling(fixture.reactor, &fixture.address, &client, 10000);
  wait_for(&client, &client.connected);
  wait_for_bytes(&client, 5000000);
  wait_for_bytes(&fixture.end, 3000000);
  close_fixture(&fixture);
  CHECK(seen(&client.closed) == 1 && client.code == FB_OK && !client.had_reason);
  fb_wakeup_close(&client.told);
}

static void a_refused_connection_is_told(void) {
  struct fixture fixture;
  struct fb_tcp_address nobody;
  struct end client = {0};
  int fd;

  open_fixture(&fixture);
  CHECK(fb_tcp_address_resolve(&nobody, "127.0.0.1", 0) == FB_OK && fb_tcp_listen(&nobody, 1, &fd) == FB_OK);
  close(fd);
  start_dialling(fixture.reactor, &nobody, &client, 10000);
  wait_for(&client, &client.closed);
  CHECK(client.code == FB_EIO && seen(&client.connected) == 0);
  CHECK(strstr(client.reason, "connection with 127.0.0.1:") != NULL);
  CHECK(strstr(client.reason, "connecting failed: Connection refused") != NULL);
  close_fixture(&fixture); /* it may be ringing still */
  fb_wakeup_close(&client.told);
}

static void connecting_ends_in_time(void) {
  struct fixture fixture;
  struct fb_tcp_address full;
  struct end client = {0};
  int listener, fillers[8];

  open_fixture(&fixture);
  CHECK(fb_tcp_address_resolve(&full, "127.0.0.1", 0) == FB_OK && fb_tcp_listen(&full, 0, &listener) == FB_OK);
  for (int i = 0; i < 8; i++) CHECK(fb_tcp_connect(&full, &fillers[i]) >= 0); /* its queue is full now */
  start_dialling(fixture.reactor, &full, &client, 100);
  wait_for(&client, &client.closed);
  CHECK(client.code == FB_ETIMEOUT && strstr(client.reason, "connecting took too long") != NULL);
  for (int i = 0; i < 8; i++) close(fillers[i]);
  close(listener);
  close_fixture(&fixture); /* it may be ringing still */
  fb_wakeup_close(&client.told);
}

static void send_and_close(void* context) {
  struct end* self = context;
  self->left = 2000000;
  send_more(self);
  fb_connection_close(self->connection);
  fb_connection_close(self->connection);
  CHECK(self->held == 0);
  CHECK(fb_connection_send(self->connection, (const uint8_t*)"x", 1, NULL) == FB_ERELEASED);
}

static void closing_drops_what_is_queued(void) {
  struct fixture fixture;
  int fd;

  open_fixture(&fixture);
  fd = dial(&fixture);
  wait_for(&fixture.end, &fixture.end.connected);
  CHECK(fb_reactor_call(fixture.reactor, send_and_close, &fixture.end) == FB_OK);
  wait_for(&fixture.end, &fixture.end.closed);
  CHECK(fixture.end.code == FB_OK);
  check_end_of_stream(fd);
  close(fd);
  close_fixture(&fixture);
}

/* A peer that takes little at a time gets parts of a file like any other bytes: what the socket does not take now comes
 * later, from where it ended. */
static void parts_of_a_file_arrive_whole_and_in_order(void) {
  struct counting_file file;
  struct fixture f;
  static uint8_t received[5000];
  uint8_t next = 0;
  int fd;

  open_file(&file);
  open_fixture(&f);
  f.end.file = &file;
  f.end.left = 6000001;
  fd = dial(&f);
  for (uint64_t left = 6000001; left > 0;) {
    ssize_t got = read(fd, received, sizeof received);
    CHECK(got > 0);
    for (ssize_t i = 0; i < got; i++) CHECK(received[i] == next++);
    left -= (uint64_t)got;
  }
  close(fd);
  close_fixture(&f);
  CHECK(seen(&file.closed) == 0);
  fb_shared_file_drop(&file.base);
  CHECK(seen(&file.closed) == 1);
}

/* What is not in memory is read by another thread: the same bytes, and a connection that goes meanwhile waits for nothing. */
static void parts_of_a_file_come_from_the_disk(bool is_left) {
  struct counting_file file;
  struct fixture f;
  uint8_t byte = 0, next = 0;
  int fd;

  open_file(&file);
  CHECK(fsync(file.base.fd) == 0);
  posix_fadvise(file.base.fd, 0, 0, POSIX_FADV_DONTNEED);
  open_fixture(&f);
  f.end.file = &file;
  f.end.left = 300000;
  fd = dial(&f);
  for (int i = 0; i < (is_left ? 40 : 300000); i++) {
    CHECK(read(fd, &byte, 1) == 1 && byte == next);
    next++;
  }
  close(fd);
  close_fixture(&f);
  fb_shared_file_drop(&file.base);
  CHECK(seen(&file.closed) == 1);
}

/* Its frame has begun, so only the end of the connection can say it; no other bytes take the place of those that lack. */
static void a_file_that_is_shortened_ends_the_connection(void) {
  struct counting_file file;
  struct fixture f;
  uint8_t byte;
  uint8_t next = 0;
  uint64_t got = 0;
  char where[80];
  int fd;

  open_file(&file);
  CHECK(ftruncate(file.base.fd, 10000) == 0);
  open_fixture(&f);
  f.end.file = &file;
  f.end.left = PIECE;
  fd = dial(&f);
  while (read(fd, &byte, 1) == 1) {
    CHECK(byte == next);
    next++;
    got++;
  }
  CHECK(got == 40 + 10000 - 40); /* the head, and the region from byte 40 on */
  wait_for(&f.end, &f.end.closed);
  snprintf(where, sizeof where, "file %s, byte 10000 of", file.path);
  CHECK(f.end.code == FB_EIO && strstr(f.end.reason, where) != NULL && strstr(f.end.reason, "shortened") != NULL);
  close(fd);
  close_fixture(&f);
  fb_shared_file_drop(&file.base);
}

/* A peer that resets while a part of a file is under way, and one that goes before anything was sent. */
static void a_peer_that_goes_lets_go_of_the_file(void) {
  struct counting_file file;
  struct linger at_once = {1, 0};
  struct fixture f;
  uint8_t bytes[100];
  int fd;

  open_file(&file);
  open_fixture(&f);
  f.end.file = &file;
  f.end.left = 1 << 30;
  fd = dial(&f);
  read_exactly(fd, bytes, sizeof bytes);
  CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  close(fd);
  wait_for(&f.end, &f.end.closed);
  CHECK(f.end.code < 0 && strstr(f.end.reason, "file") == NULL); /* the file is not to blame */
  close_fixture(&f);
  CHECK(atomic_load(&file.base.references) == 1);
  fb_shared_file_drop(&file.base);
}

static void adopt_half(void* context) {
  struct fixture* self = context;
  struct fb_carried carried = {(int)self->end.bytes, fb_carrier_new()};

  self->end.bytes = 0;
  CHECK(fb_connection_adopt(self->reactor, &self->address, &carried, 0, &self->end.connection) == FB_OK);
  fb_connection_set_handler(self->end.connection, &HANDLER, &self->end);
  send_more(&self->end);
  tell(&self->end, &self->end.connected);
}

/* The local pair of sockets in front of a carrier takes them, too. */
static void parts_of_a_file_go_through_a_carrier(void) {
  struct counting_file file;
  struct fixture f;
  uint8_t bytes[1000];
  uint8_t next = 0;
  int fds[2];

  open_file(&file);
  open_fixture(&f);
  CHECK(fb_tcp_pair(fds) == FB_OK);
  CHECK(fcntl(fds[1], F_SETFL, 0) == 0);
  f.end.file = &file;
  f.end.left = 1000000;
  f.end.bytes = (uint64_t)fds[0];
  CHECK(fb_reactor_call(f.reactor, adopt_half, &f) == FB_OK);
  for (int i = 0; i < 1000; i++) {
    read_exactly(fds[1], bytes, sizeof bytes);
    for (size_t at = 0; at < sizeof bytes; at++) CHECK(bytes[at] == next++);
  }
  close(fds[1]);
  close_fixture(&f);
  fb_shared_file_drop(&file.base);
}

static void stop_listening(void* context) { fb_connection_close_listener(*(struct fb_listener**)context); }

static void a_closed_listener_accepts_nobody(void) {
  struct fixture fixture;
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  open_fixture(&fixture);
  CHECK(fb_reactor_call(fixture.reactor, stop_listening, &fixture.listener) == FB_OK);
  CHECK(connect(fd, (struct sockaddr*)&fixture.address.bytes, fixture.address.size) < 0);
  CHECK(errno == ECONNREFUSED);
  close(fd);
  close_fixture(&fixture);
}

/* While descriptors are short the listener rests; it neither spins nor gives up. */
static void descriptors_may_run_out(void) {
  struct fixture fixture;
  struct fb_reactor_counters before, after;
  struct timespec pause = {0, 30000000};
  struct rlimit limit, low;
  int fd, spare;

  open_fixture(&fixture);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  spare = dup(fd);
  CHECK(fd >= 0 && spare >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
  close(spare);
  low = limit;
  low.rlim_cur = (rlim_t)spare; /* no descriptor from here on */
  CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(connect(fd, (struct sockaddr*)&fixture.address.bytes, fixture.address.size) == 0);
  nanosleep(&pause, NULL);
  fb_reactor_get_counters(fixture.reactor, &before);
  nanosleep(&pause, NULL);
  fb_reactor_get_counters(fixture.reactor, &after);
  CHECK(seen(&fixture.end.connected) == 0 && after.turns - before.turns <= 2);
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  wait_for(&fixture.end, &fixture.end.connected);
  close(fd);
  wait_for(&fixture.end, &fixture.end.ended);
  close_fixture(&fixture);
}

static int option_of(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  CHECK(getsockopt(fd, level, name, &value, &size) == 0);
  return value;
}

static void patience_with_silent_peers_is_set(void) {
  const struct fb_tcp_patience own = {7, 3, 4, 0}, none = {0};
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  CHECK(fd >= 0);
  fb_tcp_set_patience(fd, &none);
  CHECK(option_of(fd, SOL_SOCKET, SO_KEEPALIVE) != 0);
#ifdef __linux__
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 5 && option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 2);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
  fb_tcp_set_patience(fd, &own);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 7 && option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 3);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT) == 4);
#else
  fb_tcp_set_patience(fd, &own);
#endif
  close(fd);
}

/* It does not read for longer than a dead one would be given, while more waits than fits. */
static void a_peer_that_answers_but_does_not_read_is_not_given_up(void) {
  const struct fb_tcp_patience patience = {.dead_ms = 1500};
  struct timespec pause = {.tv_sec = 3, .tv_nsec = 500000000};
  struct fixture fixture;
  uint8_t bytes[1000];
  int fd;

  open_fixture(&fixture);
  fb_reactor_set_tcp_patience(fixture.reactor, &patience);
  fixture.end.left = 20000000;
  fd = dial(&fixture);
  wait_for(&fixture.end, &fixture.end.connected);
  nanosleep(&pause, NULL);
  CHECK(seen(&fixture.end.closed) == 0);
  for (size_t i = 0; i < 20000000; i++) {
    if (i % sizeof bytes == 0) read_exactly(fd, bytes, sizeof bytes);
    CHECK(bytes[i % sizeof bytes] == (uint8_t)i);
  }
  close(fd);
  wait_for(&fixture.end, &fixture.end.ended);
  close_fixture(&fixture);
}

#if defined(__linux__) && !defined(FB_USE_POLL)
static void do_nothing(void* context) { (void)context; }

/* Puts another file where the process has its only epoll set: from now on waiting for it is refused. */
static void break_epoll(void) {
  char path[64], target[64];
  int pipes[2], broken = 0;

  CHECK(pipe(pipes) == 0);
  for (int fd = 3; fd < 64; fd++) {
    ssize_t size;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    size = readlink(path, target, sizeof target - 1);
    if (size < 0) continue;
    target[size] = 0;
    if (strstr(target, "eventpoll") == NULL) continue;
    CHECK(dup2(pipes[0], fd) == fd);
    broken++;
  }
  CHECK(broken == 1);
  close(pipes[0]);
  close(pipes[1]);
}

/* A thread that cannot wait any more would turn for ever and serve nobody. */
static void a_thread_that_cannot_wait_ends_and_tells_everybody(void) {
  struct fixture f;
  char byte = 0;
  int fd;

  open_fixture(&f);
  fd = dial(&f);
  wait_for(&f.end, &f.end.connected);
  break_epoll();
  CHECK(write(fd, &byte, 1) == 1); /* the wait that is under way ends with this */
  wait_for(&f.end, &f.end.closed);
  CHECK(f.end.code == FB_EIO && strstr(f.end.reason, "cannot wait for its sockets any more: Invalid argument") != NULL);
  CHECK(fb_reactor_call(f.reactor, do_nothing, NULL) == FB_ESTATE);
  check_end_of_stream(fd);
  close(fd);
  close_fixture(&f);
}
#endif

int main(void) {
#if defined(__linux__) && !defined(FB_USE_POLL)
  a_thread_that_cannot_wait_ends_and_tells_everybody();
#endif
  of_a_names_addresses_an_ipv4_one_is_taken();
  a_peer_that_answers_but_does_not_read_is_not_given_up();
  patience_with_silent_peers_is_set();
  descriptors_may_run_out();
  half_sent_data_waits_for_the_rest();
  bytes_arrive_whole_and_in_order(false);
  bytes_arrive_whole_and_in_order(true);
  a_peer_that_never_reads_costs_bounded_memory();
  a_reset_is_told_with_address_and_text();
  the_last_words_are_read_before_the_connection_goes();
  a_peer_that_takes_nothing_of_the_last_words_is_left_in_time();
  a_peer_that_takes_no_answers_is_not_heard_until_it_does();
  parts_of_a_file_arrive_whole_and_in_order();
  parts_of_a_file_come_from_the_disk(false);
  parts_of_a_file_come_from_the_disk(true);
  a_file_that_is_shortened_ends_the_connection();
  a_peer_that_goes_lets_go_of_the_file();
  parts_of_a_file_go_through_a_carrier();
  two_ends_of_one_reactor_talk();
  a_refused_connection_is_told();
  connecting_ends_in_time();
  closing_drops_what_is_queued();
  a_closed_listener_accepts_nobody();
  return 0;
}
