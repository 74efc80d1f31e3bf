#include "io/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/deque.h"
#include "ground/owner.h"
#include "ground/wakeup.h"
#include "io/file_sender.h"

enum {
  ACCEPTS_PER_TURN = 16,
  READS_PER_TURN = 8,  /* of one connection */
  WRITES_PER_TURN = 4, /* of one connection */
  PARTS_PER_TURN = 16, /* the same where parts of files come one by one */
  RANGES_PER_WRITE = 64,
  BEHIND_TARGET = 4 << 10, /* bytes received behind a target: what follows it is most likely the next head */
  LOW_MARK = 64 << 10,     /* bytes */
  HIGH_MARK = 256 << 10,
  LINGER_MS = 5000,      /* for the peer to take something of, or to end its side of, a finished connection */
  ACCEPT_PAUSE_MS = 100, /* when descriptors ran out */
};

struct piece {
  struct fb_buffer_slice body;
  struct fb_file_region region; /* instead of a body */
  uint32_t done;                /* bytes of head and body that were written */
  uint32_t head_size;
  uint8_t head[FB_CONNECTION_HEAD_MAX];
};

struct fb_connection {
  struct fb_source source;
  struct fb_reactor* reactor;
  struct fb_carrier* carrier; /* NULL: it is the network's own socket */
  const struct fb_connection_handler* handler;
  void* context;
  struct fb_chore chore;            /* writes; buries one that was closed */
  struct fb_timer timer;            /* connecting, lingering */
  struct fb_timer pulse;            /* looks whether the peer's machine answers, while something is under way */
  int64_t silent_since_ms;          /* 0: it does */
  struct fb_deque pieces;           /* of piece */
  struct fb_file_sender_read* read; /* of the first piece's region, which waits for it; NULL: there is none */
  size_t queued;                    /* bytes */
  size_t low, high;
  size_t deaf_over; /* nothing is read while more is queued; 0: no such limit */
  bool is_connecting;
  bool is_over_mark; /* on_writable is owed */
  bool has_read_end; /* the peer's */
  bool is_shutting;  /* ours ends when the queue is empty */
  bool is_shut;
  bool is_finishing;
  bool is_closed;
  int code;
  char reason[440]; /* empty: this side closed it */
  char peer[FB_ADDRESS_TEXT_SIZE];
};

struct fb_listener {
  struct fb_source source;
  struct fb_reactor* reactor;
  void (*on_accept)(struct fb_connection* connection, void* context);
  void* context;
  struct fb_timer timer; /* resumes after descriptors ran out */
  struct fb_chore chore; /* frees it once it was closed */
  int fd;
  bool is_closed;
};

/* Closes it for whoever is on the other side, too: a child that was forked meanwhile has the descriptor as well, and
 * would keep a connection, or a port, that nobody serves. */
static void end_socket(int fd) {
  shutdown(fd, SHUT_RDWR);
  close(fd);
}

/* ---- connections: end ------------------------------------------------------------------------------ */

static struct piece* piece_at(struct fb_connection* self, uint32_t index) {
  return fb_deque_at(&self->pieces, index, sizeof(struct piece));
}

static void close_connection(struct fb_connection* self, int code) {
  int fd = self->source.watch.fd;

  if (self->is_closed) return;
  self->is_closed = true;
  self->code = code;
  fb_reactor_cancel_timer(self->reactor, &self->timer);
  fb_reactor_cancel_timer(self->reactor, &self->pulse);
  fb_reactor_remove(self->reactor, &self->source);
  end_socket(fd);
  if (self->read != NULL) fb_file_sender_forget(self->read);
  self->read = NULL;
  for (uint32_t i = 0; i < self->pieces.count; i++) {
    fb_buffer_slice_release(&piece_at(self, i)->body);
    fb_file_region_release(&piece_at(self, i)->region);
  }
  self->pieces.count = 0;
  self->queued = 0;
  fb_reactor_leave(self->reactor, &self->chore);
}

/* What the carrier said of the end, if there is one and it did. */
static int carrier_failure(struct fb_connection* self, char* reason) {
  return self->carrier != NULL ? fb_carrier_failure(self->carrier, reason) : FB_OK;
}

/* Closes for a reason that lies outside: `error` is an errno, or 0 for none. */
static void fail_connection(struct fb_connection* self, int code, const char* what, int error) {
  char text[96] = "", carried[FB_CARRIER_REASON_SIZE];
  int failure;

  if (self->is_closed) return;
  if (self->is_finishing) {
    close_connection(self, FB_OK); /* nobody waits for anything any more */
    return;
  }
  failure = carrier_failure(self, carried);
  if (failure < 0) {
    code = failure;
    what = carried;
    error = 0;
  }
  if (error != 0 && strerror_r(error, text, sizeof text) != 0) snprintf(text, sizeof text, "error %d", error);
  snprintf(self->reason, sizeof self->reason, "connection with %s: %s%s%s", self->peer, what, error != 0 ? ": " : "",
           text);
  close_connection(self, code);
}

void fb_connection_close(struct fb_connection* self) { close_connection(self, FB_OK); }

/* The last word about one that was closed. */
static void bury_connection(struct fb_connection* self) {
  if (self->handler != NULL && self->handler->on_closed != NULL)
    self->handler->on_closed(self, self->code, self->reason[0] != 0 ? self->reason : NULL);
  if (self->carrier != NULL) fb_carrier_drop(self->carrier);
  fb_deque_close(&self->pieces);
  free(self);
}

/* ---- connections: writing -------------------------------------------------------------------------- */

static void make_due(struct fb_connection* self) {
  if (!self->is_connecting && !self->is_closed) fb_reactor_leave(self->reactor, &self->chore);
}

/* The bytes of a piece behind its head. */
static uint32_t body_size(const struct piece* piece) {
  if (piece->region.file != NULL) return piece->region.size;
  return piece->body.buffer != NULL ? piece->body.size : 0;
}

static int reserve_piece(struct fb_connection* self, size_t head_size) {
  if (self->is_closed || self->is_shutting) return FB_ERELEASED;
  if (head_size > FB_CONNECTION_HEAD_MAX) return FB_EARGUMENT;
  return fb_deque_reserve(&self->pieces, 1, sizeof(struct piece));
}

static void queue_piece(struct fb_connection* self, const uint8_t* head, size_t head_size, struct fb_buffer_slice body,
                        struct fb_file_region region) {
  struct piece* piece = fb_deque_push(&self->pieces, sizeof *piece);

  piece->body = body;
  piece->region = region;
  piece->done = 0;
  piece->head_size = (uint32_t)head_size;
  if (head_size > 0) memcpy(piece->head, head, head_size);
  self->queued += head_size + body_size(piece);
  if (self->queued > self->high) self->is_over_mark = true;
  make_due(self);
}

int fb_connection_send_region(struct fb_connection* self, const uint8_t* head, size_t head_size,
                              struct fb_file_region* region) {
  struct fb_file_region taken = *region;
  int code = reserve_piece(self, head_size);

  region->file = NULL;
  if (code < 0 || taken.size == 0) fb_file_region_release(&taken);
  if (code < 0 || (head_size == 0 && taken.file == NULL)) return code;
  queue_piece(self, head, head_size, (struct fb_buffer_slice){0}, taken);
  return FB_OK;
}

int fb_connection_send(struct fb_connection* self, const uint8_t* head, size_t head_size,
                       struct fb_buffer_slice* body) {
  struct fb_buffer_slice taken = {0};
  int code = reserve_piece(self, head_size);

  if (body != NULL) {
    taken = *body;
    body->buffer = NULL;
  }
  if (code < 0 || (taken.buffer != NULL && taken.size == 0)) fb_buffer_slice_release(&taken);
  if (code < 0 || (head_size == 0 && taken.buffer == NULL)) return code;
  queue_piece(self, head, head_size, taken, (struct fb_file_region){0});
  return FB_OK;
}

/* As many bytes as go out in one call: no further than to the first part of a file, which *is_cut then says. */
static size_t gather_ranges(struct fb_connection* self, struct iovec* ranges, bool* is_cut) {
  size_t filled = 0;

  *is_cut = false;
  for (uint32_t i = 0; i < self->pieces.count && filled + 2 <= RANGES_PER_WRITE; i++) {
    struct piece* piece = piece_at(self, i);
    uint32_t skipped = piece->done < piece->head_size ? 0 : piece->done - piece->head_size;

    if (piece->done < piece->head_size)
      ranges[filled++] = (struct iovec){piece->head + piece->done, piece->head_size - piece->done};
    if (piece->region.file != NULL) {
      *is_cut = true;
      break;
    }
    if (piece->body.buffer == NULL) continue;
    ranges[filled].iov_base = (uint8_t*)fb_buffer_slice_data(&piece->body) + skipped;
    ranges[filled++].iov_len = piece->body.size - skipped;
  }
  return filled;
}

static void drop_written(struct fb_connection* self, size_t written) {
  self->queued -= written;
  while (written > 0) {
    struct piece* piece = piece_at(self, 0);
    size_t left = piece->head_size + body_size(piece) - piece->done;

    if (written < left) {
      piece->done += (uint32_t)written;
      return;
    }
    written -= left;
    fb_deque_pop(&self->pieces);
    fb_buffer_slice_release(&piece->body);
    fb_file_region_release(&piece->region);
  }
}

/* The peer says more and takes no answer: its next words wait where they cost us nothing. */
static bool is_deaf(const struct fb_connection* self) { return self->deaf_over > 0 && self->queued > self->deaf_over; }

static uint8_t interest_of(const struct fb_connection* self) {
  if (self->is_connecting && self->carrier != NULL) return FB_READABLE;
  return (uint8_t)((self->has_read_end || is_deaf(self) ? 0 : FB_READABLE) |
                   (self->is_connecting || (self->pieces.count > 0 && self->read == NULL) ? FB_WRITABLE : 0));
}

/* What was asked to finish has so long from now on for the next step: to send the rest, to read the peer's end. */
static void linger_socket(struct fb_connection* self) {
  if (fb_reactor_set_timer(self->reactor, &self->timer, LINGER_MS) < 0) close_connection(self, FB_OK);
}

/* The queue is empty: ends this side if that was asked for. */
static void shut_if_asked(struct fb_connection* self) {
  if (!self->is_shutting || self->is_shut) return;
  self->is_shut = true;
  shutdown(self->source.watch.fd, SHUT_WR);
  if (!self->is_finishing) return;
  if (self->has_read_end) close_connection(self, FB_OK);
  else linger_socket(self);
}

/* How often the pulse of a peer is felt: its silence is noticed at most a tenth late. */
static uint32_t pulse_interval_ms(const struct fb_connection* self) {
  uint32_t tenth = fb_reactor_tcp_patience(self->reactor)->dead_ms / 10;
  return tenth < 1000 ? tenth + 1 : 1000;
}

/* Without memory for a timer it is left to the system. */
static void watch_pulse(struct fb_connection* self) {
  if (fb_reactor_tcp_patience(self->reactor)->dead_ms == 0 || fb_timer_queue_is_set(&self->pulse)) return;
  fb_reactor_set_timer(self->reactor, &self->pulse, pulse_interval_ms(self));
}

static void on_pulse(struct fb_timer* timer) {
  struct fb_connection* self = FB_OWNER(fb_connection, pulse, timer);
  uint32_t interval_ms = pulse_interval_ms(self);
  enum fb_tcp_pulse pulse = fb_tcp_feel_pulse(self->source.watch.fd, interval_ms);
  int64_t now_ms = fb_wakeup_now_ms();

  if (pulse != FB_TCP_SILENT) self->silent_since_ms = 0;
  else if (self->silent_since_ms == 0) self->silent_since_ms = now_ms - interval_ms;
  if (pulse == FB_TCP_IDLE) return; /* until something is written again */
  if (pulse == FB_TCP_SILENT && now_ms - self->silent_since_ms >= fb_reactor_tcp_patience(self->reactor)->dead_ms)
    fail_connection(self, FB_EIO, "the other machine does not answer any more", ETIMEDOUT);
  else watch_pulse(self);
}

/* A part of a file cannot be sent: its frame has begun, so nothing else can follow. */
static void fail_region(struct fb_connection* self, int code, int error) {
  const struct piece* piece = piece_at(self, 0);
  const struct fb_file_region* region = &piece->region;
  char what[320];

  snprintf(what, sizeof what, "file %.200s, byte %llu of %llu that were to be sent: %s",
           region->file->path != NULL ? region->file->path : "(without a name)",
           (unsigned long long)(region->offset + piece->done - piece->head_size),
           (unsigned long long)(region->offset + region->size),
           code == FB_ETRUNCATED ? "the file ends before; it was shortened by somebody" : "reading failed");
  fail_connection(self, FB_EIO, what, error);
}

static void on_region_read(void* context, int code, int error, struct fb_buffer_slice* slice) {
  struct fb_connection* self = context;
  struct piece* piece = piece_at(self, 0);

  self->read = NULL;
  if (code < 0) {
    fail_region(self, code, error);
    return;
  }
  /* From here on it is a piece like any other, whose head, and perhaps a beginning, have left. */
  fb_file_region_release(&piece->region);
  piece->body = *slice;
  slice->buffer = NULL;
  piece->done = piece->head_size = 0;
  make_due(self);
}

/* Of the first piece, whose head has left, what the socket takes; 0 too while the disk's thread reads it. Negative: the
 * connection has failed. */
static int64_t write_region(struct fb_connection* self) {
  const struct piece* piece = piece_at(self, 0);
  uint32_t skipped = piece->done - piece->head_size;
  int64_t written;
  int code;

  if (self->read != NULL) return 0;
  if (!fb_file_sender_is_ready(&piece->region, skipped)) {
    code = fb_file_sender_start_read(self->reactor, &piece->region, skipped, on_region_read, self, &self->read);
    if (code < 0) fail_connection(self, code, "no memory or thread to read a file with", 0);
    return code < 0 ? code : 0;
  }
  written = fb_file_sender_send(self->source.watch.fd, &piece->region, skipped);
  if (written == FB_EIO && errno != EPIPE && errno != ECONNRESET) fail_region(self, FB_EIO, errno);
  else if (written == FB_EIO) fail_connection(self, FB_EIO, "writing failed", errno);
  else if (written < 0) fail_region(self, (int)written, 0);
  return written;
}

static int64_t write_ranges(struct fb_connection* self) {
  struct iovec ranges[RANGES_PER_WRITE];
  bool is_cut;
  size_t count = gather_ranges(self, ranges, &is_cut);
  int64_t written = is_cut ? fb_tcp_write_more(self->source.watch.fd, ranges, count)
                           : fb_tcp_write(self->source.watch.fd, ranges, count);

  if (written < 0) fail_connection(self, FB_EIO, "writing failed", errno);
  return written;
}

static bool is_at_region(struct fb_connection* self) {
  const struct piece* piece = piece_at(self, 0);
  return piece->region.file != NULL && piece->done >= piece->head_size;
}

/* Writes what the socket takes, within the bounds of one turn. */
static void write_pieces(struct fb_connection* self) {
  int limit = WRITES_PER_TURN;

  for (int i = 0; i < limit && self->pieces.count > 0; i++) {
    int64_t written;
    if (is_at_region(self)) {
      written = write_region(self);
      limit = PARTS_PER_TURN;
    } else {
      written = write_ranges(self);
    }
    if (written < 0) return;
    if (written == 0) break;
    fb_reactor_count_written(self->reactor, (size_t)written);
    drop_written(self, (size_t)written);
    watch_pulse(self);
    if (self->is_finishing && self->pieces.count > 0) linger_socket(self);
    if (self->is_closed) return;
  }
  if (self->pieces.count == 0) shut_if_asked(self);
  if (self->is_closed) return;
  /* What is left is written when the socket says so: at once, if only the bound of the turn stopped us. */
  fb_reactor_set_interest(self->reactor, &self->source, interest_of(self));
  if (!self->is_over_mark || self->queued > self->low) return;
  self->is_over_mark = false;
  if (self->handler->on_writable != NULL && !self->is_shutting) self->handler->on_writable(self);
}

static void run_chore(struct fb_chore* chore) {
  struct fb_connection* self = FB_OWNER(fb_connection, chore, chore);

  if (self->is_closed) bury_connection(self);
  else write_pieces(self);
}

/* ---- connections: reading -------------------------------------------------------------------------- */

static void end_reading(struct fb_connection* self) {
  char reason[FB_CARRIER_REASON_SIZE];

  self->has_read_end = true;
  fb_reactor_set_interest(self->reactor, &self->source, interest_of(self));
  if (self->is_finishing) {
    if (self->is_shut) close_connection(self, FB_OK);
  } else if (self->handler->on_end != NULL && carrier_failure(self, reason) == FB_OK) {
    self->handler->on_end(self);
  } else {
    fail_connection(self, FB_EFINISHED, "the peer closed it", 0);
  }
}

/* Gives the bytes to the handler: first those that lie in its own memory, then the others. */
static void hand_over(struct fb_connection* self, size_t size, size_t target_size) {
  size_t direct = size < target_size ? size : target_size;

  fb_reactor_count_read(self->reactor, size);
  if (self->is_finishing) return;
  if (direct > 0) self->handler->on_filled(self, direct);
  if (size > direct && !self->is_closed && !self->is_finishing)
    self->handler->on_bytes(self, fb_reactor_receive_buffer(self->reactor), size - direct);
}

static void read_socket(struct fb_connection* self) {
  for (int i = 0; i < READS_PER_TURN && !self->is_closed; i++) {
    uint8_t* target = NULL;
    size_t target_size = 0, room;
    struct iovec ranges[2];
    int64_t got;

    if (self->handler->target != NULL && !self->is_finishing) target_size = self->handler->target(self, &target);
    /* Where memory was named for what comes, little more is taken, since that would have to be copied. */
    room = target_size > 0 ? BEHIND_TARGET : FB_RECEIVE_SIZE;
    ranges[0] = (struct iovec){target, target_size};
    ranges[1] = (struct iovec){fb_reactor_receive_buffer(self->reactor), room};
    got = fb_tcp_read(self->source.watch.fd, target_size > 0 ? ranges : ranges + 1, target_size > 0 ? 2 : 1);
    if (got == 0) return;
    if (got == FB_EFINISHED) {
      end_reading(self);
      return;
    }
    if (got < 0) {
      fail_connection(self, FB_EIO, "reading failed", errno);
      return;
    }
    hand_over(self, (size_t)got, target_size);
    if ((size_t)got < target_size + room) return; /* the socket is most likely empty */
    if (is_deaf(self)) return;                    /* write_pieces() is due, and says when to go on */
  }
}

/* Whether the carrier has said that it stands. */
static bool is_carried(struct fb_connection* self) {
  uint8_t byte;
  struct iovec range = {&byte, 1};
  int64_t got = fb_tcp_read(self->source.watch.fd, &range, 1);

  if (got < 0) fail_connection(self, FB_EIO, "connecting failed", got == FB_EFINISHED ? 0 : errno);
  return got > 0;
}

static bool is_connected(struct fb_connection* self) {
  int error = fb_tcp_error(self->source.watch.fd);

  if (error != 0) fail_connection(self, FB_EIO, "connecting failed", error);
  return error == 0;
}

static void end_connecting(struct fb_connection* self) {
  if (!(self->carrier != NULL ? is_carried(self) : is_connected(self))) return;
  self->is_connecting = false;
  /* Not before: connecting has a timeout of its own. */
  if (self->carrier == NULL) fb_tcp_set_patience(self->source.watch.fd, fb_reactor_tcp_patience(self->reactor));
  fb_reactor_cancel_timer(self->reactor, &self->timer);
  fb_reactor_set_interest(self->reactor, &self->source, interest_of(self));
  if (self->handler->on_connected != NULL) self->handler->on_connected(self);
  if (self->pieces.count > 0 || self->is_shutting) make_due(self);
}

static void on_connection_ready(struct fb_source* source, uint8_t events) {
  struct fb_connection* self = (struct fb_connection*)source;

  if (self->is_closed) return;
  if (self->is_connecting) {
    if (events & (FB_WRITABLE | FB_HUNG_UP) || self->carrier != NULL) end_connecting(self);
    return;
  }
  if (events & FB_WRITABLE) make_due(self);
  if (events & (FB_READABLE | FB_HUNG_UP) && !self->has_read_end) {
    read_socket(self);
  } else if (events & FB_HUNG_UP) {
    int error = fb_tcp_error(source->watch.fd);
    if (error == 0 || self->is_finishing) close_connection(self, FB_OK);
    else fail_connection(self, FB_EIO, "the peer is gone", error);
  }
}

/* ---- connections: start ---------------------------------------------------------------------------- */

static void on_connection_timer(struct fb_timer* timer) {
  struct fb_connection* self = FB_OWNER(fb_connection, timer, timer);

  if (self->is_connecting) fail_connection(self, FB_ETIMEOUT, "connecting took too long", 0);
  else close_connection(self, FB_OK);
}

static void on_connection_stop(struct fb_source* source) {
  struct fb_connection* self = (struct fb_connection*)source;
  const char* failure = fb_reactor_failure(self->reactor);

  if (failure != NULL) fail_connection(self, FB_EIO, failure, 0);
  else close_connection(self, FB_OK);
}

/* Takes the descriptor over, and the reference of a carrier, also on failure. */
static int new_connection(struct fb_reactor* reactor, const struct fb_carried* carried,
                          const struct fb_tcp_address* peer, bool is_connecting, struct fb_connection** connection) {
  struct fb_connection* self = calloc(1, sizeof(*self));
  int code = self == NULL ? FB_ENOMEM : FB_OK;
  int fd = carried->fd;

  if (self != NULL) {
    self->carrier = carried->carrier;
    self->is_connecting = is_connecting;
    self->source.on_ready = on_connection_ready;
    self->source.on_stop = on_connection_stop;
    self->chore.run = run_chore;
    code = fb_reactor_add(reactor, &self->source, fd, interest_of(self));
  }
  if (code < 0) {
    int kept = errno;
    close(fd);
    if (carried->carrier != NULL) fb_carrier_drop(carried->carrier);
    free(self);
    errno = kept;
    return code;
  }
  self->reactor = reactor;
  self->timer.on_due = on_connection_timer;
  self->pulse.on_due = on_pulse;
  self->low = LOW_MARK;
  self->high = HIGH_MARK;
  fb_tcp_address_text(peer, self->peer);
  *connection = self;
  return FB_OK;
}

/* On failure the connection, which has no handler yet, is closed. */
static int limit_connecting(struct fb_connection* self, int64_t timeout_ms) {
  int code = timeout_ms < 0 ? FB_OK : fb_reactor_set_timer(self->reactor, &self->timer, timeout_ms);

  if (code < 0) close_connection(self, code);
  return code;
}

int fb_connection_connect(struct fb_reactor* self, const struct fb_tcp_address* peer, int64_t timeout_ms,
                          const struct fb_connection_handler* handler, void* context,
                          struct fb_connection** connection) {
  int fd = -1;
  int code = fb_tcp_connect(peer, &fd);

  if (code < 0) return code;
  /* One that stands already is told so by the poller as well: one way for both. */
  code = new_connection(self, &(struct fb_carried){fd, NULL}, peer, true, connection);
  if (code == FB_OK) code = limit_connecting(*connection, timeout_ms);
  if (code == FB_OK) fb_connection_set_handler(*connection, handler, context);
  return code;
}

int fb_connection_adopt(struct fb_reactor* self, const struct fb_tcp_address* peer, const struct fb_carried* carried,
                        int64_t connect_timeout_ms, struct fb_connection** connection) {
  int code = new_connection(self, carried, peer, connect_timeout_ms != 0, connection);

  return code == FB_OK && connect_timeout_ms != 0 ? limit_connecting(*connection, connect_timeout_ms) : code;
}

void fb_connection_set_handler(struct fb_connection* self, const struct fb_connection_handler* handler, void* context) {
  self->handler = handler;
  self->context = context;
}

void* fb_connection_context(const struct fb_connection* self) { return self->context; }
const char* fb_connection_peer(const struct fb_connection* self) { return self->peer; }
bool fb_connection_is_writable(const struct fb_connection* self) { return !self->is_over_mark && !self->is_closed; }

void fb_connection_set_marks(struct fb_connection* self, size_t low, size_t high) {
  self->low = low < high ? low : high;
  self->high = high;
}

void fb_connection_set_deaf_over(struct fb_connection* self, size_t size) { self->deaf_over = size; }

void fb_connection_shutdown(struct fb_connection* self) {
  self->is_shutting = true;
  make_due(self);
}

void fb_connection_finish(struct fb_connection* self) {
  self->is_finishing = true;
  fb_connection_shutdown(self);
  if (self->is_closed) return;
  /* Shut down before: write_pieces() has nothing to do any more. */
  if (self->is_shut && self->has_read_end) close_connection(self, FB_OK);
  else linger_socket(self);
}

/* ---- listeners ------------------------------------------------------------------------------------- */

static void on_listener_ready(struct fb_source* source, uint8_t events) {
  struct fb_listener* self = (struct fb_listener*)source;

  (void)events;
  for (int i = 0; i < ACCEPTS_PER_TURN && !self->is_closed; i++) {
    struct fb_connection* connection;
    struct fb_tcp_address peer;
    int fd;
    int code = fb_tcp_accept(self->fd, &fd, &peer);

    if (code > 0) return;
    if (code == FB_OK) code = new_connection(self->reactor, &(struct fb_carried){fd, NULL}, &peer, false, &connection);
    if (code == FB_OK) fb_tcp_set_patience(fd, fb_reactor_tcp_patience(self->reactor));
    if (code < 0) {
      /* Out of descriptors or memory: a listener that stayed ready would only turn the thread in circles. */
      fb_reactor_set_interest(self->reactor, source, 0);
      fb_reactor_set_timer(self->reactor, &self->timer, ACCEPT_PAUSE_MS);
      return;
    }
    self->on_accept(connection, self->context);
    if (connection->handler == NULL) close_connection(connection, FB_OK);
  }
}

static void resume_listener(struct fb_timer* timer) {
  struct fb_listener* self = FB_OWNER(fb_listener, timer, timer);
  fb_reactor_set_interest(self->reactor, &self->source, FB_READABLE);
}

static void on_listener_stop(struct fb_source* source) { fb_connection_close_listener((struct fb_listener*)source); }
static void free_listener(struct fb_chore* chore) { free(FB_OWNER(fb_listener, chore, chore)); }

int fb_connection_listen(struct fb_reactor* self, struct fb_tcp_address* address, int backlog,
                         void (*on_accept)(struct fb_connection* connection, void* context), void* context,
                         struct fb_listener** listener) {
  struct fb_listener* opened = calloc(1, sizeof(*opened));
  int code;

  if (opened == NULL) return FB_ENOMEM;
  code = fb_tcp_listen(address, backlog, &opened->fd);
  if (code < 0) goto no_socket;
  opened->source.on_ready = on_listener_ready;
  opened->source.on_stop = on_listener_stop;
  opened->chore.run = free_listener;
  code = fb_reactor_add(self, &opened->source, opened->fd, FB_READABLE);
  if (code < 0) goto no_watch;
  opened->reactor = self;
  opened->on_accept = on_accept;
  opened->context = context;
  opened->timer.on_due = resume_listener;
  *listener = opened;
  return FB_OK;

no_watch:
  close(opened->fd);
no_socket:
  free(opened);
  return code;
}

void fb_connection_close_listener(struct fb_listener* self) {
  if (self->is_closed) return;
  self->is_closed = true;
  fb_reactor_cancel_timer(self->reactor, &self->timer);
  fb_reactor_remove(self->reactor, &self->source);
  end_socket(self->fd);
  fb_reactor_leave(self->reactor, &self->chore);
}
