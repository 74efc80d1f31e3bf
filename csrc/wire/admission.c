#include "wire/admission.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ground/owner.h"
#include "ground/sha256.h"
#include "wire/error_cause.h"
#include "wire/frame.h"

#define TIMEOUT_MS   10000
#define MAX_UNPROVEN 1024
#define LINGER_MS    2000       /* for a refused peer to read why and go */
#define LINGER_BYTES (64 << 10) /* of its, dropped meanwhile */

/* One connection on its way in. */
struct guest {
  struct fb_admission* admission;
  struct fb_connection* connection;
  const struct fb_admission_handler* handler;
  void* context;
  struct fb_preface preface;
  struct fb_timer timer; /* ends the wait for the proof; once refused, the time to read why */
  struct guests* place;  /* the queue it stands in */
  struct guest *previous, *next;
  bool is_refused;
  size_t dropped;                        /* bytes since then */
  char reason[FB_ADMISSION_REASON_SIZE]; /* once refused */
};

/* In the order of coming. */
struct guests {
  struct guest *first, *last;
  uint32_t count;
};

struct fb_admission {
  struct fb_reactor* reactor;
  struct fb_admission_options options;
  uint8_t* secret;
  struct guests waiting; /* for their proof */
  struct guests refused; /* they read why, if they like */
  struct guests closed;  /* until the end of the turn */
  /* Relaxed: figures that anybody may look at. */
  _Atomic uint32_t unproven_count;
  _Atomic uint64_t refused_count;
  pthread_mutex_t lock; /* of the last reason alone */
  char last_reason[FB_ADMISSION_REASON_SIZE];
};

/* ---- queues ---------------------------------------------------------------------------------------- */

static void join_guests(struct guest* guest, struct guests* place) {
  guest->place = place;
  guest->next = NULL;
  guest->previous = place->last;
  if (place->last != NULL) place->last->next = guest;
  else place->first = guest;
  place->last = guest;
  place->count++;
}

static void leave_guests(struct guest* guest) {
  struct guests* place = guest->place;

  if (guest->previous != NULL) guest->previous->next = guest->next;
  else place->first = guest->next;
  if (guest->next != NULL) guest->next->previous = guest->previous;
  else place->last = guest->previous;
  place->count--;
}

/* The end of it here: the connection is another's, or gone. */
static void dismiss_guest(struct guest* guest) {
  leave_guests(guest);
  fb_reactor_cancel_timer(guest->admission->reactor, &guest->timer);
  atomic_fetch_sub_explicit(&guest->admission->unproven_count, 1, memory_order_relaxed);
  free(guest);
}

/* ---- refusing -------------------------------------------------------------------------------------- */

void fb_admission_note(struct fb_admission* self, const char* reason) {
  atomic_fetch_add_explicit(&self->refused_count, 1, memory_order_relaxed);
  pthread_mutex_lock(&self->lock);
  snprintf(self->last_reason, sizeof self->last_reason, "%s", reason);
  pthread_mutex_unlock(&self->lock);
}

/* Words that did not fit into a queue are lost with the connection: nobody needs them. */
static void say_words(struct guest* guest, const uint8_t* words, size_t size) {
  for (size_t piece; size > 0; words += piece, size -= piece) {
    piece = size < FB_CONNECTION_HEAD_MAX ? size : FB_CONNECTION_HEAD_MAX;
    if (fb_connection_send(guest->connection, words, piece, NULL) < 0) return;
  }
}

/* A peer that speaks plain Flink is told in an ErrorResponse for the whole connection. */
static void say_in_flink(struct guest* guest) {
  struct fb_frame frame = {.id = FB_ERROR_RESPONSE};
  uint8_t head[FB_FRAME_HEAD_MAX], tail[FB_FRAME_TAIL_MAX];
  struct fb_buffer_slice cause;

  if (fb_error_cause_new(guest->preface.error, &cause) < 0) return;
  frame.body_size = cause.size;
  if (fb_connection_send(guest->connection, head, (size_t)fb_frame_write_head(&frame, head), &cause) < 0) return;
  fb_connection_send(guest->connection, tail, (size_t)fb_frame_write_tail(&frame, tail), NULL);
}

static void close_guest(struct guest* guest) {
  leave_guests(guest);
  join_guests(guest, &guest->admission->closed);
  fb_connection_close(guest->connection);
}

/* preface.error says why, and `words` tell the peer. */
static void refuse_guest(struct guest* guest, const uint8_t* words, size_t size) {
  struct fb_admission* self = guest->admission;

  guest->is_refused = true;
  snprintf(guest->reason, sizeof guest->reason, "connection with %s refused%s: %s",
           fb_connection_peer(guest->connection), guest->preface.was_told ? " by the peer" : "", guest->preface.error);
  fb_admission_note(self, guest->reason);
  if (!self->options.is_server || fb_reactor_set_timer(self->reactor, &guest->timer, LINGER_MS) < 0) {
    close_guest(guest);
    return;
  }
  leave_guests(guest);
  join_guests(guest, &self->refused);
  if (guest->preface.peer_speaks_flink) say_in_flink(guest);
  else say_words(guest, words, size);
  fb_connection_shutdown(guest->connection);
  if (self->refused.count > self->options.max_unproven) close_guest(self->refused.first);
}

static void refuse_because(struct guest* guest, const char* why) {
  uint8_t words[FB_PREFACE_OUT_MAX];
  refuse_guest(guest, words, fb_preface_refuse(&guest->preface, why, words));
}

static void on_timeout(struct fb_timer* timer) {
  struct guest* guest = FB_OWNER(guest, timer, timer);
  char why[FB_PREFACE_TEXT_MAX];

  if (guest->is_refused) {
    close_guest(guest);
    return;
  }
  snprintf(why, sizeof why, "the %s did not prove within %lld ms that it knows the shared secret",
           guest->preface.is_server ? "client" : "server", (long long)guest->admission->options.timeout_ms);
  refuse_because(guest, why);
}

/* ---- the connection -------------------------------------------------------------------------------- */

static void on_guest_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct guest* guest = fb_connection_context(connection);
  const struct fb_admission_handler* handler = guest->handler;
  void* context = guest->context;
  uint8_t words[FB_PREFACE_OUT_MAX];
  size_t words_size;
  int code;

  if (guest->is_refused) {
    guest->dropped += size;
    if (guest->dropped > LINGER_BYTES) close_guest(guest);
    return;
  }
  code = fb_preface_take(&guest->preface, &data, &size, words, &words_size);
  if (code < 0) {
    refuse_guest(guest, words, words_size);
    return;
  }
  say_words(guest, words, words_size);
  if (code == 0) return;
  dismiss_guest(guest);
  handler->on_proven(connection, context, data, size);
}

static void on_end(struct fb_connection* connection) {
  struct guest* guest = fb_connection_context(connection);
  uint8_t words[FB_PREFACE_OUT_MAX];

  if (!guest->is_refused) refuse_guest(guest, words, fb_preface_end(&guest->preface, words));
}

static void on_guest_closed(struct fb_connection* connection, int code, const char* reason) {
  struct guest* guest = fb_connection_context(connection);
  const struct fb_admission_handler* handler = guest->handler;
  void* context = guest->context;
  char kept[FB_ADMISSION_REASON_SIZE];

  if (guest->is_refused) {
    memcpy(kept, guest->reason, sizeof kept);
    reason = kept;
    code = guest->preface.failure;
  } else if (reason != NULL) {
    fb_admission_note(guest->admission, reason);
  }
  /* Before the last call: whoever waits for that may close the admission in it. */
  dismiss_guest(guest);
  if (handler->on_refused != NULL) handler->on_refused(connection, context, code, reason);
}

static const struct fb_connection_handler HANDLER = {
    .on_bytes = on_guest_bytes, .on_end = on_end, .on_closed = on_guest_closed};

int fb_admission_start(struct fb_admission* self, struct fb_connection* connection,
                       const struct fb_admission_handler* handler, void* context) {
  uint8_t words[FB_PREFACE_OUT_MAX];
  struct guest* guest;
  int code;

  if (self->secret == NULL) {
    handler->on_proven(connection, context, NULL, 0);
    return FB_OK;
  }
  guest = calloc(1, sizeof *guest);
  if (guest == NULL) return FB_ENOMEM;
  guest->timer.on_due = on_timeout;
  code = fb_preface_open(&guest->preface, self->secret, self->options.secret_size, self->options.is_server);
  if (code == FB_OK) code = fb_reactor_set_timer(self->reactor, &guest->timer, self->options.timeout_ms);
  if (code < 0) {
    free(guest);
    return code;
  }
  guest->admission = self;
  guest->connection = connection;
  guest->handler = handler;
  guest->context = context;
  join_guests(guest, &self->waiting);
  atomic_fetch_add_explicit(&self->unproven_count, 1, memory_order_relaxed);
  fb_connection_set_handler(connection, &HANDLER, guest);
  say_words(guest, words, fb_preface_start(&guest->preface, words));
  if (self->options.is_server && self->waiting.count > self->options.max_unproven)
    refuse_because(self->waiting.first,
                   "too many connections wait to prove that they know the shared secret; "
                   "this one had waited longest");
  return FB_OK;
}

/* ---- life ------------------------------------------------------------------------------------------ */

/* An attacker's connections take at most half of the descriptors: as many again may be refused ones. */
uint32_t fb_admission_strangers_max(void) {
  struct rlimit limit;

  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return MAX_UNPROVEN;
  return limit.rlim_cur / 4 < MAX_UNPROVEN ? (uint32_t)(limit.rlim_cur / 4) + 1 : MAX_UNPROVEN;
}

int fb_admission_open(struct fb_reactor* reactor, const struct fb_admission_options* options,
                      struct fb_admission** self) {
  struct fb_admission* opened;

  *self = NULL;
  if (options->secret != NULL && options->secret_size < FB_PREFACE_MIN_SECRET) return FB_EARGUMENT;
  opened = calloc(1, sizeof(*opened));
  if (opened == NULL) return FB_ENOMEM;
  opened->reactor = reactor;
  opened->options = *options;
  opened->options.secret = NULL;
  if (opened->options.timeout_ms == 0) opened->options.timeout_ms = TIMEOUT_MS;
  if (opened->options.max_unproven == 0) opened->options.max_unproven = fb_admission_strangers_max();
  if (options->secret != NULL) {
    opened->secret = malloc(options->secret_size);
    if (opened->secret == NULL) goto no_secret;
    memcpy(opened->secret, options->secret, options->secret_size);
  }
  if (pthread_mutex_init(&opened->lock, NULL) != 0) goto no_lock;
  *self = opened;
  return FB_OK;

no_lock:
  if (opened->secret != NULL) fb_sha256_wipe(opened->secret, options->secret_size);
  free(opened->secret);
no_secret:
  free(opened);
  return FB_ENOMEM;
}

void fb_admission_close(struct fb_admission* self) {
  if (self == NULL) return;
  if (self->secret != NULL) fb_sha256_wipe(self->secret, self->options.secret_size);
  free(self->secret);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

void fb_admission_stop(struct fb_admission* self) {
  for (struct guest* at = self->waiting.first; at != NULL; at = at->next) fb_connection_close(at->connection);
  for (struct guest* at = self->refused.first; at != NULL; at = at->next) fb_connection_close(at->connection);
}

void fb_admission_get_counters(struct fb_admission* self, struct fb_admission_counters* counters) {
  counters->unproven = atomic_load_explicit(&self->unproven_count, memory_order_relaxed);
  counters->refused = atomic_load_explicit(&self->refused_count, memory_order_relaxed);
}

void fb_admission_last_reason(struct fb_admission* self, char* reason) {
  pthread_mutex_lock(&self->lock);
  memcpy(reason, self->last_reason, sizeof self->last_reason);
  pthread_mutex_unlock(&self->lock);
}
