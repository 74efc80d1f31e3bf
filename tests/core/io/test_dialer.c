/* Connections that somebody carries: what he writes and reads is the connection's, and what he says of its end is
 * what its owner is told. The carrier is this thread, with plain blocking reads of its end of the pair. */
#include "io/dialer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "ground/errors.h"
#include "ground/wakeup.h"

struct fixture {
  struct fb_reactor* reactor;
  struct fb_dialer* dialer;
  struct fb_tcp_address peer;
  struct fb_connection* connection;
  struct fb_carried carried; /* for adopt() */
  int64_t timeout_ms;
  int fds[2];
  /* What the connection told; release on the I/O thread, acquire here. */
  _Atomic uint32_t connected, ended, closed;
  _Atomic uint64_t bytes;
  int code;
  char reason[440];
};

static void on_connected(struct fb_connection* connection) {
  struct fixture* self = fb_connection_context(connection);
  CHECK(fb_connection_send(connection, (const uint8_t*)"hello", 5, NULL) == FB_OK);
  atomic_fetch_add_explicit(&self->connected, 1, memory_order_release);
}

static void on_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct fixture* self = fb_connection_context(connection);
  (void)data;
  atomic_fetch_add_explicit(&self->bytes, size, memory_order_release);
}

static void on_end(struct fb_connection* connection) {
  struct fixture* self = fb_connection_context(connection);
  atomic_fetch_add_explicit(&self->ended, 1, memory_order_release);
  fb_connection_close(connection);
}

static void on_closed(struct fb_connection* connection, int code, const char* reason) {
  struct fixture* self = fb_connection_context(connection);
  self->code = code;
  snprintf(self->reason, sizeof self->reason, "%s", reason != NULL ? reason : "");
  atomic_fetch_add_explicit(&self->closed, 1, memory_order_release);
}

static const struct fb_connection_handler HANDLER = {
    .on_connected = on_connected, .on_bytes = on_bytes, .on_end = on_end, .on_closed = on_closed};

static void open_fixture(struct fixture* self) {
  memset(self, 0, sizeof(*self));
  self->timeout_ms = 20000;
  CHECK(fb_reactor_open(&self->reactor) == FB_OK && fb_dialer_open(&self->dialer) == FB_OK);
  CHECK(fb_tcp_address_resolve(&self->peer, "10.1.2.3", 6121) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  fb_reactor_close(self->reactor);
  fb_dialer_close(self->dialer);
}

static void dial(void* context) {
  struct fixture* self = context;
  CHECK(fb_dialer_connect(self->dialer, self->reactor, &self->peer, self->timeout_ms, &HANDLER, self,
                          &self->connection) == FB_OK);
}

static void hang_up(void* context) {
  struct fixture* self = context;
  fb_connection_close(self->connection);
}

static void wait_for(_Atomic uint32_t* count) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(20000);
  while (atomic_load_explicit(count, memory_order_acquire) == 0) {
    CHECK(fb_wakeup_now_ms() < deadline_ms);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

/* The next call, once the bell has rung; its descriptor waits in read() from now on. */
static struct fb_call take_call(struct fixture* self) {
  struct pollfd bell = {.fd = fb_dialer_fd(self->dialer), .events = POLLIN};
  struct fb_call call;
  char rings[64];

  CHECK(poll(&bell, 1, 20000) == 1 && read(bell.fd, rings, sizeof rings) > 0);
  CHECK(fb_dialer_take(self->dialer, &call));
  CHECK(fcntl(call.carried.fd, F_SETFL, 0) == 0);
  return call;
}

static void hang_up_call(const struct fb_call* call) {
  close(call->carried.fd);
  fb_carrier_drop(call->carried.carrier);
}

static void expect_hello(int fd) {
  char heard[5];
  for (size_t size = 0; size < sizeof heard;) {
    ssize_t got = read(fd, heard + size, sizeof heard - size);
    CHECK(got > 0);
    size += (size_t)got;
  }
  CHECK(memcmp(heard, "hello", 5) == 0);
}

static void a_call_becomes_a_connection_that_speaks_for_its_peer(void) {
  struct fixture f;
  struct fb_call call;
  char text[FB_ADDRESS_TEXT_SIZE];

  open_fixture(&f);
  CHECK(!fb_dialer_take(f.dialer, &call));
  CHECK(fb_reactor_call(f.reactor, dial, &f) == FB_OK);
  call = take_call(&f);
  fb_tcp_address_text(&call.peer, text);
  CHECK(strcmp(text, "10.1.2.3:6121") == 0 && call.timeout_ms == 20000);
  CHECK(atomic_load(&f.connected) == 0);
  CHECK(write(call.carried.fd, "\0abc", 4) == 4); /* it stands, and three bytes of the peer's */
  wait_for(&f.connected);
  expect_hello(call.carried.fd);
  close(call.carried.fd);
  wait_for(&f.closed);
  CHECK(atomic_load(&f.bytes) == 3 && atomic_load(&f.ended) == 1 && f.reason[0] == 0);
  fb_carrier_drop(call.carried.carrier);
  close_fixture(&f);
}

static void what_the_carrier_knows_of_the_end_is_told(void) {
  for (int stands = 0; stands < 2; stands++) {
    for (int says = 0; says < 2; says++) {
      struct fixture f;
      struct fb_call call;

      open_fixture(&f);
      CHECK(fb_reactor_call(f.reactor, dial, &f) == FB_OK);
      call = take_call(&f);
      if (stands) {
        CHECK(write(call.carried.fd, "\0", 1) == 1);
        expect_hello(call.carried.fd);
      }
      if (says) fb_carrier_fail(call.carried.carrier, FB_ECORRUPT, "its certificate has expired");
      fb_carrier_fail(call.carried.carrier, says ? FB_EIO : FB_OK, says ? "and another reason" : "");
      hang_up_call(&call);
      wait_for(&f.closed);
      CHECK(f.code == (says ? FB_ECORRUPT : stands ? FB_OK : FB_EIO));
      if (says) CHECK(strcmp(f.reason, "connection with 10.1.2.3:6121: its certificate has expired") == 0);
      else CHECK(strcmp(f.reason, stands ? "" : "connection with 10.1.2.3:6121: connecting failed") == 0);
      CHECK(atomic_load(&f.ended) == (stands && !says)); /* an end with a reason is no orderly one */
      close_fixture(&f);
    }
  }
}

static void a_call_that_nobody_answers_runs_out(void) {
  struct fixture f;
  struct fb_call call;
  char byte;

  open_fixture(&f);
  f.timeout_ms = 50;
  CHECK(fb_reactor_call(f.reactor, dial, &f) == FB_OK);
  wait_for(&f.closed);
  CHECK(f.code == FB_ETIMEOUT && strstr(f.reason, "connecting took too long") != NULL);
  call = take_call(&f);
  CHECK(read(call.carried.fd, &byte, 1) == 0); /* who takes it late sees that it is over */
  hang_up_call(&call);
  CHECK(fb_reactor_call(f.reactor, dial, &f) == FB_OK);
  close_fixture(&f); /* with a call that nobody took */
}

static void a_caller_may_hang_up(void) {
  struct fixture f;
  struct fb_call call;
  char byte;

  open_fixture(&f);
  CHECK(fb_reactor_call(f.reactor, dial, &f) == FB_OK);
  CHECK(fb_reactor_call(f.reactor, hang_up, &f) == FB_OK);
  wait_for(&f.closed);
  CHECK(f.code == FB_OK && f.reason[0] == 0);
  call = take_call(&f);
  CHECK(read(call.carried.fd, &byte, 1) == 0);
  fb_carrier_fail(call.carried.carrier, FB_EIO, "nobody hears this");
  hang_up_call(&call);
  close_fixture(&f);
}

static void adopt(void* context) {
  struct fixture* self = context;
  CHECK(fb_connection_adopt(self->reactor, &self->peer, &self->carried, 0, &self->connection) == FB_OK);
  fb_connection_set_handler(self->connection, &HANDLER, self);
}

static void one_that_stands_is_adopted(void) {
  struct fixture f;
  char reason[FB_CARRIER_REASON_SIZE];
  struct fb_carrier* carrier = fb_carrier_new();

  open_fixture(&f);
  CHECK(carrier != NULL && fb_tcp_pair(f.fds) == FB_OK);
  fb_carrier_retain(carrier);
  f.carried = (struct fb_carried){f.fds[0], carrier};
  CHECK(fb_reactor_call(f.reactor, adopt, &f) == FB_OK);
  CHECK(strcmp(fb_connection_peer(f.connection), "10.1.2.3:6121") == 0);
  CHECK(write(f.fds[1], "abc", 3) == 3);
  while (atomic_load_explicit(&f.bytes, memory_order_acquire) < 3) continue;
  CHECK(fb_carrier_failure(carrier, reason) == FB_OK && reason[0] == 0);
  fb_carrier_fail(carrier, FB_EIO, "the peer is gone");
  CHECK(fb_carrier_failure(carrier, reason) == FB_EIO && strcmp(reason, "the peer is gone") == 0);
  close(f.fds[1]);
  fb_carrier_drop(carrier);
  wait_for(&f.closed);
  CHECK(f.code == FB_EIO && strstr(f.reason, "the peer is gone") != NULL && atomic_load(&f.ended) == 0);
  close_fixture(&f);
}

/* Takes and answers calls until `closed` of them have ended. */
static void* carry(void* argument) {
  struct fixture* self = argument;

  while (atomic_load_explicit(&self->closed, memory_order_acquire) < 200) {
    struct fb_call call;
    if (!fb_dialer_take(self->dialer, &call)) continue;
    if (call.carried.fd % 2 == 0) fb_carrier_fail(call.carried.carrier, FB_ECORRUPT, "no");
    else if (write(call.carried.fd, "\0", 1) == 1) fb_carrier_fail(call.carried.carrier, FB_EIO, "later");
    hang_up_call(&call);
  }
  return NULL;
}

static void calls_and_answers_meet(void) {
  struct fixture f;
  pthread_t carrier;

  open_fixture(&f);
  CHECK(pthread_create(&carrier, NULL, carry, &f) == 0);
  for (int i = 0; i < 200; i++) CHECK(fb_reactor_call(f.reactor, dial, &f) == FB_OK);
  pthread_join(carrier, NULL);
  close_fixture(&f);
}

int main(void) {
  a_call_becomes_a_connection_that_speaks_for_its_peer();
  what_the_carrier_knows_of_the_end_is_told();
  a_call_that_nobody_answers_runs_out();
  a_caller_may_hang_up();
  one_that_stands_is_adopted();
  calls_and_answers_meet();
  return 0;
}
