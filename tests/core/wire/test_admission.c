/* Connections on their way in, over real loopback sockets: who knows the secret is handed on with every byte it
 * said, whoever else comes is told why, in bounded time and number, and nobody disturbs anybody. */
#include "wire/admission.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ground/byte_order.h"
#include "ground/errors.h"
#include "ground/wakeup.h"
#include "wire/frame.h"

static const uint8_t SECRET[32] = "a secret that both of them know";
static const uint8_t WRONG[32] = "a secret that only one has guess";

/* What happens to connections, counted on the I/O thread and seen by the test. */
struct door {
  struct fb_reactor* reactor;
  struct fb_admission* admission;
  struct fb_listener* listener;
  struct fb_tcp_address address;
  _Atomic uint32_t proven, refused, stopped; /* release there, acquire here */
  char reason[FB_ADMISSION_REASON_SIZE];     /* after `refused` */
  int code;
};

/* ---- behind the door: an echo ------------------------------------------------------------------------ */

static void echo(struct fb_connection* connection, const uint8_t* data, size_t size) {
  CHECK(size <= FB_CONNECTION_HEAD_MAX && fb_connection_send(connection, data, size, NULL) == FB_OK);
}

static const struct fb_connection_handler ECHO = {.on_bytes = echo};

static void on_proven(struct fb_connection* connection, void* context, const uint8_t* data, size_t size) {
  struct door* self = context;

  fb_connection_set_handler(connection, &ECHO, self);
  if (size > 0) echo(connection, data, size);
  atomic_fetch_add_explicit(&self->proven, 1, memory_order_release);
}

static void on_refused(struct fb_connection* connection, void* context, int code, const char* reason) {
  struct door* self = context;

  (void)connection;
  self->code = code;
  snprintf(self->reason, sizeof self->reason, "%s", reason != NULL ? reason : "");
  atomic_fetch_add_explicit(reason != NULL ? &self->refused : &self->stopped, 1, memory_order_release);
}

static const struct fb_admission_handler HANDLER = {on_proven, on_refused};

static void on_accept(struct fb_connection* connection, void* context) {
  struct door* self = context;
  CHECK(fb_admission_start(self->admission, connection, &HANDLER, self) == FB_OK);
}

static void listen_at(void* context) {
  struct door* self = context;
  CHECK(fb_connection_listen(self->reactor, &self->address, 128, on_accept, self, &self->listener) == FB_OK);
}

static void open_door(struct door* self, const uint8_t* secret, int64_t timeout_ms, uint32_t max_unproven) {
  struct fb_admission_options options = {.secret = secret,
                                         .secret_size = sizeof SECRET,
                                         .is_server = true,
                                         .timeout_ms = timeout_ms,
                                         .max_unproven = max_unproven};

  memset(self, 0, sizeof(*self));
  CHECK(fb_reactor_open(&self->reactor) == FB_OK);
  CHECK(fb_admission_open(self->reactor, &options, &self->admission) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_reactor_call(self->reactor, listen_at, self) == FB_OK);
}

static void stop(void* context) {
  struct door* self = context;
  if (self->listener != NULL) fb_connection_close_listener(self->listener);
  fb_admission_stop(self->admission);
}

static struct fb_admission_counters counters_of(struct door* self) {
  struct fb_admission_counters counters;
  fb_admission_get_counters(self->admission, &counters);
  return counters;
}

static void close_door(struct door* self) {
  CHECK(fb_reactor_call(self->reactor, stop, self) == FB_OK);
  fb_reactor_close(self->reactor);
  CHECK(counters_of(self).unproven == 0);
  fb_admission_close(self->admission);
}

static void sleep_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void wait_for(_Atomic uint32_t* count, uint32_t least) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);
  while (atomic_load_explicit(count, memory_order_acquire) < least) {
    CHECK(fb_wakeup_now_ms() < deadline_ms);
    sleep_ms(1);
  }
}

/* ---- in front of it: plain sockets -------------------------------------------------------------------- */

static int dial(const struct fb_tcp_address* address) {
  struct timeval limit = {.tv_sec = 20};
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  CHECK(connect(fd, (const struct sockaddr*)&address->bytes, address->size) == 0);
  return fd;
}

static void write_all(int fd, const void* bytes, size_t size) { CHECK(write(fd, bytes, size) == (ssize_t)size); }

/* Proves itself as a client does. Returns what fb_preface_take() said; the error is in `preface`. */
static int prove(int fd, const uint8_t* secret, struct fb_preface* preface) {
  uint8_t out[FB_PREFACE_OUT_MAX], byte;
  size_t out_size;
  int code = 0;

  CHECK(fb_preface_open(preface, secret, sizeof SECRET, false) == FB_OK);
  out_size = fb_preface_start(preface, out);
  while (code == 0) {
    const uint8_t* at = &byte;
    size_t size = 1;
    ssize_t got;

    write_all(fd, out, out_size);
    got = read(fd, &byte, 1);
    if (got <= 0) {
      fb_preface_end(preface, out);
      return FB_ECORRUPT;
    }
    code = fb_preface_take(preface, &at, &size, out, &out_size);
  }
  return code;
}

/* Reads to the end of the stream: the refusal that stands there. */
static void expect_refusal(int fd, const char* text) {
  struct fb_preface preface;
  uint8_t said[512], out[FB_PREFACE_OUT_MAX];
  const uint8_t* at = said;
  size_t size = 0, out_size;
  ssize_t got;

  while ((got = read(fd, said + size, sizeof said - size)) > 0) size += (size_t)got;
  CHECK(got == 0);
  CHECK(fb_preface_open(&preface, SECRET, sizeof SECRET, false) == FB_OK);
  if (size > FB_PREFACE_HELLO_SIZE && said[8] == 1) { /* its hello comes first */
    at += FB_PREFACE_HELLO_SIZE;
    size -= FB_PREFACE_HELLO_SIZE;
  }
  CHECK(fb_preface_take(&preface, &at, &size, out, &out_size) < 0 && size == 0);
  CHECK(preface.was_told && strstr(preface.error, text) != NULL);
}

static void expect_echo(int fd) {
  char heard[5];
  write_all(fd, "hello", 5);
  for (size_t size = 0; size < sizeof heard;) {
    ssize_t got = read(fd, heard + size, sizeof heard - size);
    CHECK(got > 0);
    size += (size_t)got;
  }
  CHECK(memcmp(heard, "hello", 5) == 0);
}

static void honest_client_gets_in(struct door* self) {
  struct fb_preface preface;
  int fd = dial(&self->address);

  CHECK(prove(fd, SECRET, &preface) == 1);
  expect_echo(fd);
  close(fd);
}

/* ---- servers ------------------------------------------------------------------------------------------- */

static void who_proves_itself_is_handed_on_with_what_it_said(void) {
  uint8_t out[FB_PREFACE_OUT_MAX + 5], in[FB_PREFACE_HELLO_SIZE + FB_PREFACE_PROOF_SIZE + 5];
  const uint8_t* at = in;
  struct fb_preface preface;
  struct door door;
  size_t size = FB_PREFACE_HELLO_SIZE, out_size, got = 0;
  int fd;

  open_door(&door, SECRET, 0, 0);
  honest_client_gets_in(&door);
  fd = dial(&door.address);
  CHECK(fb_preface_open(&preface, SECRET, sizeof SECRET, false) == FB_OK);
  write_all(fd, out, fb_preface_start(&preface, out));
  while (got < size) got += (size_t)read(fd, in + got, size - got);
  CHECK(fb_preface_take(&preface, &at, &size, out, &out_size) == 0 && out_size == FB_PREFACE_PROOF_SIZE);
  memcpy(out + out_size, "hello", 5); /* in the same packet */
  write_all(fd, out, out_size + 5);
  while (got < sizeof in) got += (size_t)read(fd, in + got, sizeof in - got);
  CHECK(memcmp(in + sizeof in - 5, "hello", 5) == 0);
  close(fd);
  CHECK(counters_of(&door).refused == 0 && counters_of(&door).unproven == 0);
  close_door(&door);
}

static void without_a_secret_everybody_is_let_in(void) {
  struct door door;
  char reason[FB_ADMISSION_REASON_SIZE];
  int fd;

  open_door(&door, NULL, 0, 0);
  fd = dial(&door.address);
  expect_echo(fd);
  close(fd);
  fb_admission_last_reason(door.admission, reason);
  CHECK(reason[0] == 0);
  close_door(&door);
}

static void a_wrong_secret_is_refused_with_a_reason(void) {
  char reason[FB_ADMISSION_REASON_SIZE];
  struct fb_preface preface;
  struct door door;
  int fd, friend;

  open_door(&door, SECRET, 0, 0);
  friend = dial(&door.address);
  CHECK(prove(friend, SECRET, &preface) == 1);
  fd = dial(&door.address);
  CHECK(prove(fd, WRONG, &preface) < 0);
  CHECK(preface.was_told && strstr(preface.error, "the client does not know the secret of the server") != NULL);
  close(fd);
  wait_for(&door.refused, 1);
  CHECK(door.code == FB_ECORRUPT && strncmp(door.reason, "connection with 127.0.0.1:", 26) == 0);
  CHECK(strstr(door.reason, " refused: the client does not know") != NULL);
  fb_admission_last_reason(door.admission, reason);
  CHECK(strcmp(reason, door.reason) == 0 && counters_of(&door).refused == 1);
  expect_echo(friend);
  close(friend);
  close_door(&door);
}

static void strangers_are_refused_in_their_own_language(void) {
  struct fb_frame frame = {.id = FB_CLOSE_REQUEST};
  uint8_t bytes[FB_FRAME_HEAD_MAX];
  char heard[1024] = "";
  ssize_t got;
  size_t size = 0;
  struct door door;
  int fd;

  open_door(&door, SECRET, 0, 0);
  fd = dial(&door.address);
  write_all(fd, "GET / HTTP/1.1\r\n\r\n", 18);
  expect_refusal(fd, "another program speaks there");
  close(fd);
  fd = dial(&door.address);
  write_all(fd, bytes, (size_t)fb_frame_write_head(&frame, bytes));
  while ((got = read(fd, heard + size, sizeof heard - size)) > 0) size += (size_t)got;
  CHECK(got == 0 && fb_load_be32((uint8_t*)heard) == size && fb_load_be32((uint8_t*)heard + 4) == FB_FRAME_MAGIC);
  CHECK(heard[8] == FB_ERROR_RESPONSE && heard[size - 1] == 0); /* for the whole connection */
  close(fd);
  wait_for(&door.refused, 2);
  CHECK(strstr(door.reason, "the client speaks plain Flink") != NULL);
  honest_client_gets_in(&door);
  close_door(&door);
}

static void who_is_silent_or_slow_is_refused_in_time(void) {
  struct fb_preface preface;
  uint8_t hello[FB_PREFACE_OUT_MAX];
  struct door door;
  int64_t start_ms = fb_wakeup_now_ms();
  int silent, slow, half_open;

  open_door(&door, SECRET, 150, 0);
  silent = dial(&door.address);
  slow = dial(&door.address);
  half_open = dial(&door.address);
  CHECK(shutdown(half_open, SHUT_WR) == 0);
  CHECK(fb_preface_open(&preface, SECRET, sizeof SECRET, false) == FB_OK);
  fb_preface_start(&preface, hello);
  for (int i = 0; i < 30; i++) { /* a byte now and then buys no time */
    if (write(slow, hello + i, 1) < 0) break;
    sleep_ms(10);
  }
  expect_refusal(half_open, "the client closed the connection before it proved");
  expect_refusal(silent, "did not prove within 150 ms");
  expect_refusal(slow, "did not prove within 150 ms");
  CHECK(fb_wakeup_now_ms() - start_ms < 15000);
  honest_client_gets_in(&door);
  close(silent);
  close(slow);
  close(half_open);
  wait_for(&door.refused, 3);
  close_door(&door);
}

static void those_who_wait_are_limited_and_the_oldest_goes(void) {
  enum { LIMIT = 4, MANY = 40 };
  struct door door;
  int fds[MANY];

  open_door(&door, SECRET, 20000, LIMIT);
  for (int i = 0; i < MANY; i++) fds[i] = dial(&door.address);
  honest_client_gets_in(&door);
  /* The honest one took a place, too. Of those refused some are kept to read why, but not all of them. */
  for (int64_t until = fb_wakeup_deadline_ms(20000); counters_of(&door).unproven > 2 * LIMIT; sleep_ms(1))
    CHECK(fb_wakeup_now_ms() < until);
  CHECK(counters_of(&door).refused == MANY + 1 - LIMIT);
  expect_refusal(fds[MANY - LIMIT], "this one had waited longest");
  for (int i = 0; i < MANY; i++) close(fds[i]);
  close_door(&door);
}

static void who_floods_is_cut_off(void) {
  struct fb_reactor_counters counters;
  struct door door;
  uint8_t* noise = calloc(1, 1 << 20);
  int fd, sent = 0;

  CHECK(noise != NULL);
  open_door(&door, SECRET, 0, 0);
  fd = dial(&door.address);
  while (sent < 200 && send(fd, noise, 1 << 20, MSG_NOSIGNAL) > 0) sent++;
  CHECK(sent < 200);
  wait_for(&door.refused, 1);
  fb_reactor_get_counters(door.reactor, &counters);
  CHECK(counters.bytes_read < 1 << 20);
  CHECK(strstr(door.reason, "sent 00 00 00 00") != NULL);
  close(fd);
  free(noise);
  honest_client_gets_in(&door);
  close_door(&door);
}

static void stopping_closes_those_who_wait(void) {
  struct door door;
  int fds[8];
  char byte;

  open_door(&door, SECRET, 20000, 0);
  for (int i = 0; i < 8; i++) fds[i] = dial(&door.address);
  for (int64_t until = fb_wakeup_deadline_ms(20000); counters_of(&door).unproven < 8; sleep_ms(1))
    CHECK(fb_wakeup_now_ms() < until);
  close_door(&door);
  CHECK(atomic_load_explicit(&door.stopped, memory_order_acquire) == 8 && door.reason[0] == 0);
  for (int i = 0; i < 8; i++) {
    CHECK(read(fds[i], &byte, 1) == 0);
    close(fds[i]);
  }
}

/* ---- clients ------------------------------------------------------------------------------------------- */

struct caller {
  struct door door; /* its admission is a client's */
  const struct fb_tcp_address* to;
  struct fb_connection* connection;
};

static void on_connected(struct fb_connection* connection) {
  struct caller* self = fb_connection_context(connection);
  CHECK(fb_admission_start(self->door.admission, connection, &HANDLER, &self->door) == FB_OK);
}

static void ignore(struct fb_connection* connection, const uint8_t* data, size_t size) {
  (void)connection, (void)data, (void)size;
}

static const struct fb_connection_handler CALLING = {.on_connected = on_connected, .on_bytes = ignore};

static void call(void* context) {
  struct caller* self = context;
  CHECK(fb_connection_connect(self->door.reactor, self->to, 20000, &CALLING, self, &self->connection) == FB_OK);
}

static void open_caller(struct caller* self, const struct fb_tcp_address* to, const uint8_t* secret,
                        int64_t timeout_ms) {
  struct fb_admission_options options = {
      .secret = secret, .secret_size = sizeof SECRET, .timeout_ms = timeout_ms, .max_unproven = 1};

  memset(self, 0, sizeof(*self));
  self->to = to;
  CHECK(fb_reactor_open(&self->door.reactor) == FB_OK);
  CHECK(fb_admission_open(self->door.reactor, &options, &self->door.admission) == FB_OK);
}

static void clients_are_handed_on_or_told(void) {
  struct caller caller;
  struct door door;

  open_door(&door, SECRET, 0, 0);
  open_caller(&caller, &door.address, SECRET, 0);
  for (int i = 0; i < 10; i++) CHECK(fb_reactor_call(caller.door.reactor, call, &caller) == FB_OK);
  wait_for(&caller.door.proven, 10);
  close_door(&caller.door);
  open_caller(&caller, &door.address, WRONG, 0);
  CHECK(fb_reactor_call(caller.door.reactor, call, &caller) == FB_OK);
  wait_for(&caller.door.refused, 1);
  CHECK(strstr(caller.door.reason, " refused by the peer: the client does not know the secret") != NULL);
  close_door(&caller.door);
  close_door(&door);
}

static void clients_do_not_wait_for_ever(void) {
  struct caller caller;
  struct fb_tcp_address address;
  int listener, fd;

  CHECK(fb_tcp_address_resolve(&address, "127.0.0.1", 0) == FB_OK);
  CHECK(fb_tcp_listen(&address, 8, &listener) == FB_OK);
  open_caller(&caller, &address, SECRET, 100);
  CHECK(fb_reactor_call(caller.door.reactor, call, &caller) == FB_OK);
  wait_for(&caller.door.refused, 1);
  CHECK(strstr(caller.door.reason, "the server did not prove within 100 ms") != NULL);
  close_door(&caller.door);
  open_caller(&caller, &address, SECRET, 20000);
  CHECK(fb_reactor_call(caller.door.reactor, call, &caller) == FB_OK);
  for (int i = 0; i < 2; i++) {
    struct fb_tcp_address peer;
    while (fb_tcp_accept(listener, &fd, &peer) > 0) sleep_ms(1);
    close(fd);
  }
  wait_for(&caller.door.refused, 1);
  CHECK(strstr(caller.door.reason, "closed the connection before it proved") != NULL ||
        strstr(caller.door.reason, "reset by peer") != NULL); /* its hello was not read */
  close_door(&caller.door);
  close(listener);
}

/* ---- all at once --------------------------------------------------------------------------------------- */

static void* come_and_go(void* argument) {
  struct door* door = argument;

  for (int i = 0; i < 40; i++) {
    struct fb_preface preface;
    int fd = dial(&door->address);

    if (i % 3 == 0) write_all(fd, "what is this?", 13);
    else if (i % 3 == 1) CHECK(prove(fd, WRONG, &preface) < 0);
    else CHECK(prove(fd, SECRET, &preface) == 1);
    if (i % 3 == 2) expect_echo(fd);
    close(fd);
  }
  return NULL;
}

static void friends_and_strangers_at_once(void) {
  char reason[FB_ADMISSION_REASON_SIZE];
  pthread_t threads[4];
  struct door door;

  open_door(&door, SECRET, 0, 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, come_and_go, &door) == 0);
  for (int i = 0; i < 200; i++) {
    counters_of(&door);
    fb_admission_last_reason(door.admission, reason);
    CHECK(reason[0] == 0 || strncmp(reason, "connection with 127.0.0.1:", 26) == 0);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  wait_for(&door.proven, 4 * 13);
  wait_for(&door.refused, 4 * 27);
  CHECK(counters_of(&door).refused == 4 * 27);
  close_door(&door);
}

static void options_are_checked(void) {
  struct fb_admission_options options = {.secret = SECRET, .secret_size = 15};
  struct fb_admission* admission;

  CHECK(fb_admission_open(NULL, &options, &admission) == FB_EARGUMENT && admission == NULL);
  fb_admission_close(admission);
}

int main(void) {
  who_proves_itself_is_handed_on_with_what_it_said();
  without_a_secret_everybody_is_let_in();
  a_wrong_secret_is_refused_with_a_reason();
  strangers_are_refused_in_their_own_language();
  who_is_silent_or_slow_is_refused_in_time();
  those_who_wait_are_limited_and_the_oldest_goes();
  who_floods_is_cut_off();
  stopping_closes_those_who_wait();
  clients_are_handed_on_or_told();
  clients_do_not_wait_for_ever();
  friends_and_strangers_at_once();
  options_are_checked();
  return 0;
}
