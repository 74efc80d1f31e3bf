#include "partition_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "error_cause.h"
#include "frame.h"

#define BACKLOG 128         /* connections that wait to be accepted */
#define MAX_EVENT (1 << 20) /* bytes of a task event */

/* Who reads one subpartition for one channel of a client. */
struct reader {
  struct fb_task task;       /* posted by the subpartition's listener */
  struct session* session;
  uint8_t receiver[FB_CHANNEL_ID_SIZE];
  uint8_t partition_id[FB_PARTITION_ID_SIZE];
  struct fb_result_partition* partition; /* NULL: waits for it */
  struct fb_subpartition* subpartition;
  uint32_t index;
  int64_t credits;
  bool had_no_credit;        /* at first: no exclusive buffers, so the backlog is announced */
  bool is_ready;             /* in the queue */
  bool has_ended;            /* EndOfPartition was sent */
  bool is_removed;           /* freed when its task has run */
  _Atomic bool has_priority; /* release by the listener, acquire on the I/O thread */
  struct fb_timer timer;     /* ends the wait for the partition */
  struct reader *previous_ready, *next_ready;
  struct reader* next; /* of the same bucket */
};

struct session {
  struct fb_partition_server* server;
  struct fb_connection* connection;
  struct fb_frame_decoder decoder;
  struct reader** buckets;
  uint32_t bucket_count; /* a power of two */
  uint32_t reader_count;
  struct reader *first_ready, *last_ready;
  bool is_over; /* a fatal error was sent, or the client has closed */
  struct session *previous, *next;
};

struct fb_partition_server {
  struct fb_reactor* reactor;
  struct fb_partition_manager* manager;
  struct fb_partition_server_options options;
  struct fb_address address;
  struct fb_listener* listener;
  struct fb_task registered; /* posted by the manager */
  struct session* sessions;
  int code; /* of start() */
  int error;
  /* Relaxed: figures that anybody may look at. */
  _Atomic uint32_t connection_count, channel_count;
  _Atomic uint64_t buffer_count;
};

#define OWNER(type, member, pointer) ((struct type*)((char*)(pointer) - offsetof(struct type, member)))

static void serve(struct session* self);

/* ---- readers by channel ---------------------------------------------------------------------------- */

static struct reader** link_of(struct session* self, const uint8_t* receiver) {
  uint64_t words[2];
  struct reader** link;

  memcpy(words, receiver, sizeof words);
  link = &self->buckets[((words[0] ^ words[1]) * 0x9e3779b97f4a7c15u >> 32) & (self->bucket_count - 1)];
  while (*link != NULL && memcmp((*link)->receiver, receiver, FB_CHANNEL_ID_SIZE) != 0) link = &(*link)->next;
  return link;
}

/* More buckets than readers. A failure only makes them slower to find. */
static void widen(struct session* self) {
  uint32_t old_count = self->bucket_count;
  struct reader** old = self->buckets;
  struct reader** buckets = calloc(2 * (size_t)old_count, sizeof *buckets);

  if (buckets == NULL) return;
  self->buckets = buckets;
  self->bucket_count = 2 * old_count;
  for (uint32_t i = 0; i < old_count; i++) {
    while (old[i] != NULL) {
      struct reader* reader = old[i];
      old[i] = reader->next;
      reader->next = NULL;
      *link_of(self, reader->receiver) = reader;
    }
  }
  free(old);
}

/* ---- the queue of those who have something to send ------------------------------------------------- */

static void put_last(struct session* self, struct reader* reader) {
  reader->is_ready = true;
  reader->next_ready = NULL;
  reader->previous_ready = self->last_ready;
  if (self->last_ready != NULL) self->last_ready->next_ready = reader;
  else self->first_ready = reader;
  self->last_ready = reader;
}

static void put_first(struct session* self, struct reader* reader) {
  reader->is_ready = true;
  reader->previous_ready = NULL;
  reader->next_ready = self->first_ready;
  if (self->first_ready != NULL) self->first_ready->previous_ready = reader;
  else self->last_ready = reader;
  self->first_ready = reader;
}

static void take_out(struct session* self, struct reader* reader) {
  if (!reader->is_ready) return;
  reader->is_ready = false;
  if (reader->previous_ready != NULL) reader->previous_ready->next_ready = reader->next_ready;
  else self->first_ready = reader->next_ready;
  if (reader->next_ready != NULL) reader->next_ready->previous_ready = reader->previous_ready;
  else self->last_ready = reader->previous_ready;
}

/* Lets go of the subpartition. The listener is not called after this; what it posted before runs still. */
static void remove_reader(struct reader* self) {
  struct session* session = self->session;

  *link_of(session, self->receiver) = self->next;
  session->reader_count--;
  atomic_fetch_sub_explicit(&session->server->channel_count, 1, memory_order_relaxed);
  take_out(session, self);
  fb_reactor_cancel_timer(session->server->reactor, &self->timer);
  if (self->subpartition != NULL) fb_subpartition_release_view_of(self->subpartition, self);
  if (self->partition != NULL) fb_result_partition_drop(self->partition);
  self->is_removed = true;
  /* Acquire, partner of fb_reactor_post() by a listener that has returned. */
  if (!atomic_load_explicit(&self->task.is_posted, memory_order_acquire)) free(self);
}

static void remove_all(struct session* self) {
  for (uint32_t i = 0; i < self->bucket_count; i++)
    while (self->buckets[i] != NULL) remove_reader(self->buckets[i]);
}

/* ---- sending --------------------------------------------------------------------------------------- */

/* Without memory a stream would have a hole: the connection goes instead. */
static void send_frame(struct session* self, const struct fb_frame* frame, struct fb_slice* body) {
  uint8_t bytes[FB_FRAME_HEAD_MAX];
  int size = fb_frame_write_head(frame, bytes);
  int code = size;

  if (size >= 0) code = fb_connection_send(self->connection, bytes, (size_t)size, body);
  else if (body != NULL) fb_slice_release(body);
  if (code >= 0) size = fb_frame_write_tail(frame, bytes);
  if (code >= 0 && size > 0) code = fb_connection_send(self->connection, bytes, (size_t)size, NULL);
  if (code < 0 && code != FB_ERELEASED) fb_connection_close(self->connection);
}

/* Takes the cause over. `receiver` NULL: the error ends the connection. */
static void send_cause(struct session* self, const uint8_t* receiver, struct fb_slice* cause) {
  struct fb_frame frame = {.id = FB_ERROR_RESPONSE, .body_size = cause->size};

  frame.has_receiver = receiver != NULL;
  if (receiver != NULL) memcpy(frame.receiver, receiver, FB_CHANNEL_ID_SIZE);
  send_frame(self, &frame, cause);
}

static void send_error(struct session* self, const uint8_t* receiver, const char* message) {
  struct fb_slice cause;

  if (fb_error_cause_new(message, &cause) < 0) fb_connection_close(self->connection);
  else send_cause(self, receiver, &cause);
}

static void end_session(struct session* self, const char* message) {
  if (self->is_over) return;
  self->is_over = true;
  remove_all(self);
  if (message != NULL) send_error(self, NULL, message);
  fb_connection_finish(self->connection);
}

static void refuse_reader(struct reader* self, const char* what) {
  char id[FB_PARTITION_ID_TEXT_SIZE], message[FB_PARTITION_ID_TEXT_SIZE + 300];

  fb_partition_id_text(self->partition_id, id);
  snprintf(message, sizeof message, "subpartition %u of partition %s: %s", self->index, id, what);
  send_error(self->session, self->receiver, message);
  remove_reader(self);
}

/* Fails a reader whose partition went away; says why if that is known. */
static void fail_released(struct reader* self) {
  const char* failure = fb_result_partition_failure(self->partition);

  /* Who has read everything does not care. */
  if (self->has_ended) remove_reader(self);
  else refuse_reader(self, failure != NULL ? failure : "the partition was released before its end was read");
}

static void send_buffer(struct reader* self, struct fb_polled_buffer* polled) {
  struct fb_frame frame = {
      .id = FB_BUFFER_RESPONSE,
      .data_type = polled->slice.data_type,
      .is_compressed = polled->slice.is_compressed,
      .has_receiver = true,
      .subpartition = (int32_t)self->index,
      .sequence_number = polled->sequence_number,
      .backlog = (int32_t)polled->backlog,
      .body_size = polled->slice.size,
  };

  memcpy(frame.receiver, self->receiver, FB_CHANNEL_ID_SIZE);
  atomic_fetch_add_explicit(&self->session->server->buffer_count, 1, memory_order_relaxed);
  send_frame(self->session, &frame, &polled->slice);
}

static bool is_available(struct reader* self, uint32_t* backlog) {
  /* One that was released has its end to tell. */
  return fb_subpartition_is_available(self->subpartition, self->credits > 0, backlog) ||
         fb_subpartition_is_released(self->subpartition);
}

/* Puts the reader in the queue if it may send; else tells a client without credit what waits for it. */
static void enqueue(struct reader* self, bool is_first) {
  struct session* session = self->session;
  uint32_t backlog = 0;

  if (self->partition == NULL || (self->is_ready && !is_first)) return;
  if (is_available(self, &backlog)) {
    take_out(session, self);
    if (is_first) put_first(session, self);
    else put_last(session, self);
  } else if (backlog > 0 && self->had_no_credit && self->credits == 0) {
    struct fb_frame frame = {.id = FB_BACKLOG_ANNOUNCEMENT, .backlog = (int32_t)backlog};
    memcpy(frame.receiver, self->receiver, FB_CHANNEL_ID_SIZE);
    send_frame(session, &frame, NULL);
  }
}

/* Sends one buffer. The reader is behind the others if it has more; it may be gone after this. */
static void send_next(struct reader* self) {
  struct fb_polled_buffer polled;
  enum fb_data_type next;
  uint32_t backlog;
  int code;

  /* Credit may have gone since it was put in the queue. */
  if (!is_available(self, &backlog)) return;
  code = fb_subpartition_poll(self->subpartition, &polled);
  if (code == FB_ERELEASED) {
    fail_released(self);
  } else if (code < 0) {
    refuse_reader(self, fb_strerror(code));
  } else if (code == 1) {
    if (fb_data_type_is_buffer(polled.slice.data_type)) self->credits--;
    if (polled.slice.data_type == FB_END_OF_PARTITION) self->has_ended = true;
    next = polled.next_data_type;
    send_buffer(self, &polled);
    if (fb_data_type_is_event(next) || (next != FB_NONE && self->credits > 0)) put_last(self->session, self);
  }
}

static void serve(struct session* self) {
  while (self->first_ready != NULL && fb_connection_is_writable(self->connection)) {
    struct reader* reader = self->first_ready;
    take_out(self, reader);
    send_next(reader);
  }
}

/* ---- from the subpartition to the reader ----------------------------------------------------------- */

static void on_data_available(void* context, uint32_t index) {
  struct reader* self = context;
  (void)index;
  /* Refused: the reactor stops, and its connections with it. */
  fb_reactor_post(self->session->server->reactor, &self->task);
}

static void on_priority_event(void* context, uint32_t index, int32_t sequence_number) {
  struct reader* self = context;
  (void)sequence_number;
  atomic_store_explicit(&self->has_priority, true, memory_order_release);
  on_data_available(context, index);
}

static void run_reader(struct fb_task* task) {
  struct reader* self = (struct reader*)task;
  struct session* session = self->session;

  if (self->is_removed) {
    free(self);
    return;
  }
  enqueue(self, atomic_exchange_explicit(&self->has_priority, false, memory_order_acquire));
  serve(session);
}

/* ---- requests -------------------------------------------------------------------------------------- */

/* Starts to read if the partition is there. The reader may be gone after this. */
static void attach(struct reader* self) {
  struct fb_availability_listener listener = {on_data_available, on_priority_event, self};
  int code;

  self->partition = fb_partition_manager_find(self->session->server->manager, self->partition_id);
  if (self->partition == NULL) return;
  fb_reactor_cancel_timer(self->session->server->reactor, &self->timer);
  if (self->index >= self->partition->subpartition_count) {
    refuse_reader(self, "there is no such subpartition");
    return;
  }
  self->subpartition = &self->partition->subpartitions[self->index];
  self->subpartition->sends_empty_buffers = self->had_no_credit;
  code = fb_subpartition_create_view(self->subpartition, &listener);
  if (code == FB_ERELEASED) {
    fail_released(self);
  } else if (code < 0) {
    self->subpartition = NULL; /* the view is another reader's */
    refuse_reader(self, "it is read already, and can be read only once");
  } else {
    enqueue(self, false);
  }
}

static void on_request_timeout(struct fb_timer* timer) {
  struct reader* self = OWNER(reader, timer, timer);
  struct fb_slice cause;

  if (fb_error_cause_new_not_found(self->partition_id, &cause) < 0) {
    fb_connection_close(self->session->connection);
    return;
  }
  send_cause(self->session, self->receiver, &cause);
  remove_reader(self);
}

static void on_request(struct session* self, const struct fb_frame* frame) {
  struct reader** link = link_of(self, frame->receiver);
  struct fb_partition_server* server = self->server;
  struct reader* reader;

  if (*link != NULL) {
    send_error(self, frame->receiver, "this channel has asked for a subpartition already");
    remove_reader(*link);
    return;
  }
  if (frame->subpartition != frame->last_subpartition || self->reader_count >= server->options.max_channels) {
    send_error(self, frame->receiver,
               frame->subpartition != frame->last_subpartition
                   ? "ranges of subpartitions are not served: ask for each with a channel of its own"
                   : "too many channels on one connection");
    return;
  }
  reader = calloc(1, sizeof(*reader));
  if (reader == NULL) {
    fb_connection_close(self->connection);
    return;
  }
  reader->task.run = run_reader;
  reader->timer.on_due = on_request_timeout;
  reader->session = self;
  memcpy(reader->receiver, frame->receiver, FB_CHANNEL_ID_SIZE);
  memcpy(reader->partition_id, frame->partition, FB_PARTITION_ID_SIZE);
  reader->index = (uint32_t)frame->subpartition;
  reader->credits = frame->credit;
  reader->had_no_credit = frame->credit == 0;
  *link = reader;
  atomic_fetch_add_explicit(&server->channel_count, 1, memory_order_relaxed);
  if (++self->reader_count > self->bucket_count) widen(self);
  if (fb_reactor_set_timer(server->reactor, &reader->timer, server->options.request_timeout_ms) < 0)
    fb_connection_close(self->connection);
  attach(reader);
}

static void on_credit(struct reader* self, int32_t credit) {
  if (credit > INT32_MAX - self->credits) {
    refuse_reader(self, "credit over 2147483647");
    return;
  }
  self->credits += credit;
  enqueue(self, false);
}

static void on_resume(struct reader* self) {
  /* Its floating buffers went back meanwhile. */
  if (self->had_no_credit) self->credits = 0;
  if (self->subpartition == NULL || fb_subpartition_resume(self->subpartition) < 0)
    refuse_reader(self, "it is not blocked by an event, so it cannot be resumed");
  else
    enqueue(self, false);
}

/* Frames for channels that are not there (any more) are late, not wrong: they are ignored. */
static void handle(struct session* self, const struct fb_frame* frame) {
  struct reader* reader = frame->has_receiver ? *link_of(self, frame->receiver) : NULL;

  switch ((enum fb_frame_id)frame->id) {
    case FB_PARTITION_REQUEST: on_request(self, frame); break;
    case FB_CLOSE_REQUEST: end_session(self, NULL); break;
    case FB_TASK_EVENT_REQUEST:
      send_error(self, frame->receiver, "nobody listens to task events of this partition");
      break;
    case FB_CANCEL_PARTITION_REQUEST: if (reader != NULL) remove_reader(reader); break;
    case FB_ADD_CREDIT: if (reader != NULL) on_credit(reader, frame->credit); break;
    case FB_RESUME_CONSUMPTION: if (reader != NULL) on_resume(reader); break;
    case FB_NEW_BUFFER_SIZE:
      if (reader != NULL && reader->subpartition != NULL)
        fb_subpartition_set_buffer_size(reader->subpartition, frame->buffer_size);
      break;
    case FB_ACK_ALL_USER_RECORDS_PROCESSED: /* nothing here waits for it */
    case FB_SEGMENT_ID:                     /* of tiered storage */
    default: break;
  }
}

/* ---- connections ----------------------------------------------------------------------------------- */

static void on_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct session* self = fb_connection_context(connection);
  int step;

  while (!self->is_over) {
    step = fb_frame_decoder_next(&self->decoder, &data, &size);
    if (step == FB_FRAME_NEEDS_INPUT) break;
    if (step == FB_FRAME_ENDS) handle(self, &self->decoder.frame);
    if (step < 0) end_session(self, self->decoder.error);
  }
  serve(self);
}

static void on_writable(struct fb_connection* connection) { serve(fb_connection_context(connection)); }

static void on_closed(struct fb_connection* connection, int code, const char* reason) {
  struct session* self = fb_connection_context(connection);
  struct fb_partition_server* server = self->server;

  (void)code, (void)reason;
  remove_all(self);
  if (self->previous != NULL) self->previous->next = self->next;
  else server->sessions = self->next;
  if (self->next != NULL) self->next->previous = self->previous;
  atomic_fetch_sub_explicit(&server->connection_count, 1, memory_order_relaxed);
  free(self->buckets);
  free(self);
}

static const struct fb_connection_handler HANDLER = {
    .on_bytes = on_bytes, .on_writable = on_writable, .on_closed = on_closed};

/* Without memory the connection stays without a handler, and is closed. */
static void on_accept(struct fb_connection* connection, void* context) {
  struct fb_partition_server* server = context;
  struct fb_frame_limits limits = {.accepted = FB_FRAMES_OF_CLIENTS, .max_event = MAX_EVENT};
  struct session* self = calloc(1, sizeof(*self));

  if (self == NULL) return;
  self->bucket_count = 16;
  self->buckets = calloc(self->bucket_count, sizeof *self->buckets);
  if (self->buckets == NULL) {
    free(self);
    return;
  }
  self->server = server;
  self->connection = connection;
  fb_frame_decoder_open(&self->decoder, &limits);
  self->next = server->sessions;
  if (self->next != NULL) self->next->previous = self;
  server->sessions = self;
  atomic_fetch_add_explicit(&server->connection_count, 1, memory_order_relaxed);
  fb_connection_set_handler(connection, &HANDLER, self);
  fb_connection_set_marks(connection, server->options.low_mark, server->options.high_mark);
}

/* A partition was registered: looks for those that are waited for. */
static void on_registered(struct fb_task* task) {
  struct fb_partition_server* self = OWNER(fb_partition_server, registered, task);

  for (struct session* session = self->sessions; session != NULL; session = session->next) {
    for (uint32_t i = 0; i < session->bucket_count; i++) {
      struct reader* next;
      for (struct reader* reader = session->buckets[i]; reader != NULL; reader = next) {
        next = reader->next;
        if (reader->partition == NULL) attach(reader);
      }
    }
    serve(session);
  }
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void start(void* context) {
  struct fb_partition_server* self = context;

  self->code = fb_reactor_listen(self->reactor, &self->address, BACKLOG, on_accept, self, &self->listener);
  self->error = errno;
}

int fb_partition_server_open(struct fb_reactor* reactor, struct fb_partition_manager* manager,
                             struct fb_address* address, const struct fb_partition_server_options* options,
                             struct fb_partition_server** self) {
  struct fb_partition_server* opened = calloc(1, sizeof(*opened));
  int code;

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  opened->reactor = reactor;
  opened->manager = manager;
  opened->address = *address;
  opened->registered.run = on_registered;
  if (options != NULL) opened->options = *options;
  if (opened->options.request_timeout_ms == 0) opened->options.request_timeout_ms = 10000;
  if (opened->options.max_channels == 0) opened->options.max_channels = 65536;
  if (opened->options.low_mark == 0) opened->options.low_mark = 65536;
  if (opened->options.high_mark == 0) opened->options.high_mark = 131072;
  code = fb_partition_manager_add_observer(manager, reactor, &opened->registered);
  if (code == FB_OK) code = fb_reactor_call(reactor, start, opened);
  if (code == FB_OK) code = opened->code;
  if (code < 0) {
    fb_partition_manager_remove_observer(manager, &opened->registered);
    errno = opened->error;
    free(opened);
    return code;
  }
  *address = opened->address;
  *self = opened;
  return FB_OK;
}

static void stop(void* context) {
  struct fb_partition_server* self = context;

  fb_listener_close(self->listener);
  for (struct session* at = self->sessions; at != NULL; at = at->next) fb_connection_close(at->connection);
}

static void look(void* context) { (void)context; }

void fb_partition_server_close(struct fb_partition_server* self) {
  if (self == NULL) return;
  fb_partition_manager_remove_observer(self->manager, &self->registered);
  if (fb_reactor_call(self->reactor, stop, self) == FB_OK) {
    /* The turn in which they were closed ends with their last words; tasks posted before have run, too. */
    while (fb_reactor_call(self->reactor, look, NULL) == FB_OK &&
           atomic_load_explicit(&self->connection_count, memory_order_relaxed) > 0)
      continue;
  }
  free(self);
}

void fb_partition_server_get_counters(struct fb_partition_server* self,
                                      struct fb_partition_server_counters* counters) {
  counters->connections = atomic_load_explicit(&self->connection_count, memory_order_relaxed);
  counters->channels = atomic_load_explicit(&self->channel_count, memory_order_relaxed);
  counters->buffers = atomic_load_explicit(&self->buffer_count, memory_order_relaxed);
}
