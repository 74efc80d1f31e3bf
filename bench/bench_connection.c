/* How fast does the I/O thread move 32 KiB buffers over one loopback connection, next to blocking send and
 * recv in the same run? And how many round trips of 47 bytes are there in a second?
 *
 *   bench_connection [seconds of each row, 1]
 *
 * The rows of files send the 32 KiB buffers of a 64 MiB file that lies in the system's memory: as its parts (sendfile), and
 * read into buffers that are sent.
 *
 * Each side has a thread: a reactor, or a thread with a blocking socket that sends a head of 47 bytes and a
 * buffer with one sendmsg, and receives as much as it can. Counterpart: StreamNetworkThroughputBenchmark of
 * flink-benchmarks, the network alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkstemp */
#endif
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include "bench.h"
#include "ground/wakeup.h"
#include "io/connection.h"

#define HEAD 47
#define BODY 32768

static void pause_s(double seconds) {
  struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&pause, NULL);
}

static void row(const char* name, const char* unit, double rate) {
  printf("{\"name\": \"%s\", \"unit\": \"%s\", \"rate\": %.4g}\n", name, unit, rate);
  fflush(stdout);
}

/* ---- reactors ------------------------------------------------------------------------------------------ */

struct side {
  struct fb_reactor* reactor;
  struct fb_tcp_address address;
  struct fb_connection* connection;
  struct fb_buffer_slice body; /* sent again and again */
  uint8_t* memory;             /* received into */
  uint32_t left;               /* bytes of the body that is being received */
  uint32_t head_left;
  bool floods, answers;
  struct fb_shared_file* file; /* bodies come from there; NULL: `body` */
  bool reads_file;             /* into buffers */
  uint64_t at;
  uint64_t round_trips;
  _Atomic uint64_t bytes;
};

static uint8_t head[HEAD];

#define FILE_BYTES ((uint64_t)64 << 20)

static void send_part(struct side* self) {
  struct fb_file_region region = {self->file, self->at, BODY};
  struct fb_buffer_slice body;

  self->at = (self->at + BODY) % FILE_BYTES;
  if (!self->reads_file) {
    fb_shared_file_retain(self->file);
    fb_connection_send_region(self->connection, head, HEAD, &region);
    return;
  }
  if (fb_buffer_new_unpooled(NULL, BODY, FB_DATA_BUFFER, &body) < 0) exit(1);
  if (pread(self->file->fd, body.buffer->segment.data + body.offset, BODY, (off_t)region.offset) != BODY) exit(1);
  fb_connection_send(self->connection, head, HEAD, &body);
}

static void flood(struct side* self) {
  while (self->file != NULL && fb_connection_is_writable(self->connection)) send_part(self);
  while (self->floods && fb_connection_is_writable(self->connection)) {
    struct fb_buffer_slice body = self->body;
    fb_buffer_slice_retain(&body);
    fb_connection_send(self->connection, head, HEAD, &body);
  }
}

static void on_writable(struct fb_connection* connection) { flood(fb_connection_context(connection)); }

static void count_bytes(struct side* self, size_t size) {
  atomic_store_explicit(&self->bytes, atomic_load_explicit(&self->bytes, memory_order_relaxed) + size,
                        memory_order_relaxed);
}

static size_t target(struct fb_connection* connection, uint8_t** memory) {
  struct side* self = fb_connection_context(connection);
  if (!self->floods) return 0;
  *memory = self->memory + BODY - self->left;
  return self->left;
}

static void on_filled(struct fb_connection* connection, size_t size) {
  struct side* self = fb_connection_context(connection);
  self->left -= (uint32_t)size;
  count_bytes(self, size);
}

/* Follows heads and bodies as a client of frames does: what came beside the target is copied to its place. */
static void on_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct side* self = fb_connection_context(connection);

  count_bytes(self, size);
  if (self->answers) fb_connection_send(connection, data, size, NULL), self->round_trips++;
  if (!self->floods) return;
  while (size > 0) {
    uint32_t taken;
    if (self->left == 0 && self->head_left == 0) self->head_left = HEAD;
    if (self->left > 0) {
      taken = self->left < size ? self->left : (uint32_t)size;
      memcpy(self->memory + BODY - self->left, data, taken);
      self->left -= taken;
    } else {
      taken = self->head_left < size ? self->head_left : (uint32_t)size;
      self->head_left -= taken;
      if (self->head_left == 0) self->left = BODY;
    }
    data += taken;
    size -= taken;
  }
}

static void on_connected(struct fb_connection* connection) {
  struct side* self = fb_connection_context(connection);
  if (self->answers) fb_connection_send(connection, head, HEAD, NULL);
}

static const struct fb_connection_handler HANDLER = {on_connected, target,      on_filled, on_bytes,
                                                     NULL,         on_writable, NULL};

static void on_accept(struct fb_connection* connection, void* context) {
  struct side* self = context;
  self->connection = connection;
  fb_connection_set_handler(connection, &HANDLER, self);
  flood(self);
}

static void listen_there(void* context) {
  struct side* self = context;
  struct fb_listener* listener;
  if (fb_connection_listen(self->reactor, &self->address, 8, on_accept, self, &listener) < 0) exit(1);
}

static void connect_there(void* context) {
  struct side* self = context;
  if (fb_connection_connect(self->reactor, &self->address, 1000, &HANDLER, self, &self->connection) < 0) exit(1);
}

static void never(struct fb_buffer* buffer) { (void)buffer; }

static void leave_open(struct fb_shared_file* file) { (void)file; }

static void open_big_file(struct fb_shared_file* self) {
  char path[] = "/tmp/flinkbuf-bench-XXXXXX";
  uint8_t* bytes = calloc(1, FILE_BYTES);
  int fd = mkstemp(path);

  if (fd < 0 || write(fd, bytes, FILE_BYTES) != (ssize_t)FILE_BYTES) exit(1);
  unlink(path);
  free(bytes);
  fb_shared_file_open(self, fd, "the file", leave_open);
}

/* `file`, if there is one, is sent instead of memory. */
static void measure_reactors(double seconds, bool is_round_trip, struct fb_shared_file* file, bool reads_file) {
  struct fb_buffer buffer = {0};
  struct side server = {0}, client = {0};
  double start;
  uint64_t before;

  fb_memory_segment_open(&buffer.segment, BODY);
  fb_buffer_reset(&buffer, never, NULL);
  client.memory = malloc(BODY);
  server.body = (struct fb_buffer_slice){.buffer = &buffer, .size = BODY, .data_type = FB_DATA_BUFFER};
  server.file = file;
  server.reads_file = reads_file;
  server.floods = client.floods = !is_round_trip;
  server.answers = client.answers = is_round_trip;
  if (fb_reactor_open(&server.reactor) < 0 || fb_reactor_open(&client.reactor) < 0) exit(1);
  fb_tcp_address_resolve(&server.address, "127.0.0.1", 0);
  fb_reactor_call(server.reactor, listen_there, &server);
  client.address = server.address;
  fb_reactor_call(client.reactor, connect_there, &client);
  pause_s(0.1);
  start = now_s();
  before = atomic_load_explicit(&client.bytes, memory_order_relaxed);
  pause_s(seconds);
  before = atomic_load_explicit(&client.bytes, memory_order_relaxed) - before;
  if (is_round_trip) row("connection_round_trip.flinkbuf", "round trips/s", (double)before / HEAD / (now_s() - start));
  else
    row(file == NULL ? "connection_32k.flinkbuf"
        : reads_file ? "connection_file_32k.flinkbuf_read_and_send"
                     : "connection_file_32k.flinkbuf_sendfile",
        "bytes/s", (double)before / (now_s() - start));
  fb_reactor_close(client.reactor);
  fb_reactor_close(server.reactor);
  free(client.memory);
  fb_memory_segment_close(&buffer.segment);
}

/* ---- blocking sockets ---------------------------------------------------------------------------------- */

struct plain {
  int fd;
  bool answers;
  _Atomic bool is_over;
  _Atomic uint64_t bytes;
};

static void* send_plain(void* argument) {
  struct plain* self = argument;
  uint8_t* body = calloc(1, BODY);

  while (!atomic_load_explicit(&self->is_over, memory_order_relaxed)) {
    struct iovec ranges[2] = {{head, HEAD}, {body, BODY}};
    struct msghdr message = {.msg_iov = ranges, .msg_iovlen = 2};
    if (self->answers) {
      if (recv(self->fd, body, HEAD, MSG_WAITALL) <= 0) break;
      if (send(self->fd, body, HEAD, MSG_NOSIGNAL) <= 0) break;
    } else if (sendmsg(self->fd, &message, MSG_NOSIGNAL) < 0) {
      break;
    }
  }
  shutdown(self->fd, SHUT_RDWR);
  free(body);
  return NULL;
}

static void* receive_plain(void* argument) {
  struct plain* self = argument;
  uint8_t* memory = calloc(2, BODY);
  ssize_t got;

  if (self->answers && send(self->fd, memory, HEAD, MSG_NOSIGNAL) < 0) exit(1);
  while ((got = recv(self->fd, memory, self->answers ? HEAD : 2 * BODY, 0)) > 0) {
    atomic_fetch_add_explicit(&self->bytes, (uint64_t)got, memory_order_relaxed);
    if (self->answers && send(self->fd, memory, HEAD, MSG_NOSIGNAL) < 0) break;
  }
  free(memory);
  return NULL;
}

static void measure_blocking(double seconds, bool is_round_trip) {
  struct plain sender = {.answers = is_round_trip}, receiver = {.answers = is_round_trip};
  struct fb_tcp_address address;
  pthread_t threads[2];
  int listener, one = 1;
  uint64_t before;
  double start;

  fb_tcp_address_resolve(&address, "127.0.0.1", 0);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr*)&address.bytes, address.size) < 0 || listen(listener, 1) < 0) exit(1);
  getsockname(listener, (struct sockaddr*)&address.bytes, &address.size);
  receiver.fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(receiver.fd, (struct sockaddr*)&address.bytes, address.size) < 0) exit(1);
  sender.fd = accept(listener, NULL, NULL);
  setsockopt(sender.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(receiver.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  pthread_create(&threads[0], NULL, send_plain, &sender);
  pthread_create(&threads[1], NULL, receive_plain, &receiver);
  pause_s(0.1);
  start = now_s();
  before = atomic_load_explicit(&receiver.bytes, memory_order_relaxed);
  pause_s(seconds);
  before = atomic_load_explicit(&receiver.bytes, memory_order_relaxed) - before;
  if (is_round_trip) row("connection_round_trip.blocking", "round trips/s", (double)before / HEAD / (now_s() - start));
  else row("connection_32k.blocking", "bytes/s", (double)before / (now_s() - start));
  atomic_store_explicit(&sender.is_over, true, memory_order_relaxed);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  close(sender.fd);
  close(receiver.fd);
  close(listener);
}

int main(int argc, char** argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  struct fb_shared_file file;

  for (int is_round_trip = 0; is_round_trip < 2; is_round_trip++) {
    measure_blocking(seconds, is_round_trip != 0);
    measure_reactors(seconds, is_round_trip != 0, NULL, false);
  }
  open_big_file(&file);
  measure_reactors(seconds, false, &file, true);
  measure_reactors(seconds, false, &file, false);
  close(file.fd);
  return 0;
}
