#include "wire/partition_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ground/owner.h"
#include "io/connection.h"
#include "wire/channel_map.h"
#include "wire/error_cause.h"
#include "wire/frame.h"

#define BACKLOG     128       /* connections that wait to be accepted */
#define MAX_EVENT   (1 << 20) /* bytes of a task event */
#define MAX_ANSWERS (1 << 20) /* bytes over the high mark: a client that takes no more of them is not heard */
#define REASON_SIZE 700       /* why a reader was lost */
#define MAX_WAITING 4096      /* requests of a stranger that wait; of all strangers sixteen times as many */

/* Who reads one subpartition for one channel of a client. */
struct reader {
  struct fb_task task;           /* the first member; posted by the subpartition's listener */
  struct fb_channel_entry entry; /* its id is the receiver in frames */
  struct session* session;
  uint8_t partition_id[FB_PARTITION_ID_SIZE];
  struct fb_result_partition* partition; /* NULL: waits for it */
  struct fb_subpartition_view* view;
  uint32_t index;
  int64_t credits;
  int32_t buffer_size;       /* that it would like; 0: it has not said */
  bool had_no_credit;        /* at first: no exclusive buffers, so the backlog is announced */
  bool is_ready;             /* in the queue */
  bool has_ended;            /* EndOfPartition was sent */
  bool is_removed;           /* freed when its task has run */
  bool is_waiting;           /* for its partition */
  _Atomic bool has_priority; /* release by the listener, acquire on the I/O thread */
  struct fb_timer timer;     /* ends the wait for the partition */
  struct reader *previous_ready, *next_ready;
};

struct session {
  struct fb_partition_server* server;
  struct fb_connection* connection;
  struct fb_frame_decoder decoder;
  struct fb_channel_map readers;
  struct reader *first_ready, *last_ready;
  struct fb_timer timer;         /* ends the wait for a stranger's first request */
  uint32_t waiting_count;        /* readers that wait for their partition */
  bool has_spoken;               /* a frame came */
  bool has_sealed, has_unsealed; /* ids among those its channels were asked for by; Flink's are not */
  bool is_over;                  /* a fatal error was sent, the client has taken leave, or the server is closed */
  struct session *previous, *next;
};

struct fb_partition_server {
  struct fb_reactor* reactor;
  struct fb_partition_manager* manager;
  struct fb_partition_server_options options;
  struct fb_tcp_address address;
  struct fb_listener* listener;
  struct fb_admission* admission;
  struct fb_task registered; /* posted by the manager */
  struct session* sessions;
  bool is_open_to_all; /* no secret: all are strangers */
  uint32_t session_count, waiting_count;
  int code; /* of start_server() */
  int error;
  /* Relaxed: figures that anybody may look at. */
  _Atomic uint32_t connection_count, channel_count;
  _Atomic uint64_t buffer_count;
  _Atomic uint64_t byte_count;
};

static void serve_session(struct session* self);

static struct reader* reader_of(struct fb_channel_entry* entry) {
  return entry != NULL ? FB_OWNER(reader, entry, entry) : NULL;
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

static void stop_waiting(struct reader* self) {
  if (!self->is_waiting) return;
  self->is_waiting = false;
  self->session->waiting_count--;
  self->session->server->waiting_count--;
  fb_reactor_cancel_timer(self->session->server->reactor, &self->timer);
}

/* Lets go of the subpartition. The listener is not called after this; what it posted before runs still. */
static void remove_reader(struct reader* self) {
  struct session* session = self->session;

  fb_channel_map_remove(&session->readers, &self->entry);
  atomic_fetch_sub_explicit(&session->server->channel_count, 1, memory_order_relaxed);
  take_out(session, self);
  stop_waiting(self);
  fb_subpartition_view_release(self->view);
  if (self->partition != NULL) fb_result_partition_drop(self->partition);
  self->is_removed = true;
  /* Acquire, partner of fb_reactor_post() by a listener that has returned. */
  if (!atomic_load_explicit(&self->task.is_posted, memory_order_acquire)) free(self);
}

/* The client went without taking leave of it, or cannot be served any more: who writes for it is told why. */
static void lose_reader(struct reader* self, const char* why) {
  char cause[REASON_SIZE + 64];

  snprintf(cause, sizeof cause, "the reader of subpartition %u was lost: %s", self->index, why);
  if (self->view != NULL) fb_result_partition_lose_reader(self->partition, cause);
  remove_reader(self);
}

static void remove_entry(struct fb_channel_entry* entry, void* why) {
  if (why == NULL) remove_reader(reader_of(entry));
  else lose_reader(reader_of(entry), why);
}

/* `why`: NULL where the client has taken leave. */
static void remove_all(struct session* self, const char* why) {
  fb_channel_map_each(&self->readers, remove_entry, (void*)why);
}

/* ---- sending --------------------------------------------------------------------------------------- */

/* Without memory a stream would have a hole: the connection goes instead. `body` or `region`, or none. */
static void send_frame_with(struct session* self, const struct fb_frame* frame, struct fb_buffer_slice* body,
                            struct fb_file_region* region) {
  uint8_t bytes[FB_FRAME_HEAD_MAX];
  int size = fb_frame_write_head(frame, bytes);
  int code = size;

  if (size >= 0 && region != NULL) code = fb_connection_send_region(self->connection, bytes, (size_t)size, region);
  else if (size >= 0) code = fb_connection_send(self->connection, bytes, (size_t)size, body);
  if (body != NULL) fb_buffer_slice_release(body); /* what was not taken over */
  if (region != NULL) fb_file_region_release(region);
  if (code >= 0) size = fb_frame_write_tail(frame, bytes);
  if (code >= 0 && size > 0) code = fb_connection_send(self->connection, bytes, (size_t)size, NULL);
  if (code < 0 && code != FB_ERELEASED) fb_connection_close(self->connection);
}

static void send_session_frame(struct session* self, const struct fb_frame* frame, struct fb_buffer_slice* body) {
  send_frame_with(self, frame, body, NULL);
}

/* Takes the cause over. `receiver` NULL: the error ends the connection. */
static void send_cause(struct session* self, const uint8_t* receiver, struct fb_buffer_slice* cause) {
  struct fb_frame frame = {.id = FB_ERROR_RESPONSE, .body_size = cause->size};

  frame.has_receiver = receiver != NULL;
  if (receiver != NULL) memcpy(frame.receiver, receiver, FB_CHANNEL_ID_SIZE);
  send_session_frame(self, &frame, cause);
}

static void send_error(struct session* self, const uint8_t* receiver, const char* message) {
  struct fb_buffer_slice cause;

  if (fb_error_cause_new(message, &cause) < 0) fb_connection_close(self->connection);
  else send_cause(self, receiver, &cause);
}

static void end_session(struct session* self, const char* message) {
  char why[REASON_SIZE];

  if (self->is_over) return;
  self->is_over = true;
  snprintf(why, sizeof why, "connection with %s: %s", fb_connection_peer(self->connection),
           message != NULL ? message : "");
  remove_all(self, message != NULL ? why : NULL);
  if (message != NULL) send_error(self, NULL, message);
  fb_connection_finish(self->connection);
}

static void refuse_reader(struct reader* self, const char* what) {
  char id[FB_PARTITION_ID_TEXT_SIZE], message[FB_PARTITION_ID_TEXT_SIZE + 900], why[REASON_SIZE];

  fb_error_cause_id_text(self->partition_id, id);
  snprintf(message, sizeof message, "subpartition %u of partition %s: %s", self->index, id, what);
  send_error(self->session, self->entry.id, message);
  snprintf(why, sizeof why, "%s was refused: %s", fb_connection_peer(self->session->connection), what);
  lose_reader(self, why);
}

/* Fails a reader whose partition went away; says why if that is known. */
static void fail_released(struct reader* self) {
  const char* failure =
      self->view != NULL ? fb_result_partition_view_failure(self->view) : fb_result_partition_failure(self->partition);

  /* Who has read everything does not care. */
  if (self->has_ended) remove_reader(self);
  else refuse_reader(self, failure != NULL ? failure : "the partition was released before its end was read");
}

/* What it reads is not here: Flink's own exception, by which the client knows that the producer has to run again. */
static void send_not_found(struct session* self, const uint8_t* receiver, const uint8_t* partition_id) {
  struct fb_buffer_slice cause;

  if (fb_error_cause_new_not_found(partition_id, &cause) < 0) fb_connection_close(self->connection);
  else send_cause(self, receiver, &cause);
}

static void refuse_not_found(struct reader* self) {
  send_not_found(self->session, self->entry.id, self->partition_id);
  remove_reader(self);
}

/* Its view could not be created, or gives an error from now on. */
static void fail_reader(struct reader* self, int code) {
  const char* failure = self->view != NULL ? fb_result_partition_view_failure(self->view) : NULL;

  if (code == FB_ERELEASED) fail_released(self);
  else if (code == FB_ENOT_FOUND) refuse_not_found(self);
  else if (self->view == NULL) refuse_reader(self, fb_result_partition_view_error(self->partition, code));
  else refuse_reader(self, failure != NULL ? failure : fb_strerror(code));
}

/* Another has its place: what is there now is for that one. True: it is gone. */
static bool has_given_way(struct reader* self) {
  if (self->view == NULL || !fb_subpartition_view_is_replaced(self->view)) return false;
  refuse_reader(self, "another reader has taken its place");
  return true;
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

  memcpy(frame.receiver, self->entry.id, FB_CHANNEL_ID_SIZE);
  atomic_fetch_add_explicit(&self->session->server->buffer_count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&self->session->server->byte_count, polled->slice.size, memory_order_relaxed);
  send_frame_with(self->session, &frame, &polled->slice, polled->region.file != NULL ? &polled->region : NULL);
}

/* A file that is shorter than what was written to it is found before a frame promises its bytes. True: the reader is gone. */
static bool has_lost_file(struct reader* self, struct fb_polled_buffer* polled) {
  const struct fb_file_region* region = &polled->region;
  char what[600];
  struct stat file;

  if (region->file == NULL) return false;
  if (fstat(region->file->fd, &file) == 0 && (uint64_t)file.st_size >= region->offset + region->size) return false;
  snprintf(what, sizeof what, "file %.400s is damaged: %u bytes at byte %llu are missing, since it was shortened",
           region->file->path != NULL ? region->file->path : "(without a name)", region->size,
           (unsigned long long)region->offset);
  fb_file_region_release(&polled->region);
  refuse_reader(self, what);
  return true;
}

static void set_credits(struct reader* self, int64_t credits) {
  self->credits = credits;
  if (self->view != NULL) fb_subpartition_view_set_credit(self->view, credits);
}

static bool is_available(struct reader* self, uint32_t* backlog) {
  /* One that was released has its end to tell. */
  return fb_subpartition_view_is_available(self->view, self->credits > 0, backlog) ||
         fb_subpartition_view_is_released(self->view);
}

/* Puts the reader in the queue if it may send; else tells a client without credit what waits for it. */
static void enqueue_reader(struct reader* self, bool is_first) {
  struct session* session = self->session;
  uint32_t backlog = 0;

  if (self->view == NULL || (self->is_ready && !is_first)) return;
  if (is_available(self, &backlog)) {
    take_out(session, self);
    if (is_first) put_first(session, self);
    else put_last(session, self);
  } else if (backlog > 0 && self->had_no_credit && self->credits == 0) {
    struct fb_frame frame = {.id = FB_BACKLOG_ANNOUNCEMENT, .backlog = (int32_t)backlog};
    memcpy(frame.receiver, self->entry.id, FB_CHANNEL_ID_SIZE);
    send_session_frame(session, &frame, NULL);
  }
}

/* Sends one buffer. The reader is behind the others if it has more; it may be gone after this. */
static void send_next(struct reader* self) {
  struct fb_polled_buffer polled;
  enum fb_buffer_data_type next;
  uint32_t backlog;
  int code;

  /* Credit may have gone since it was put in the queue. */
  if (!is_available(self, &backlog)) return;
  code = fb_subpartition_view_poll(self->view, &polled);
  if (code == FB_ESTATE && has_given_way(self)) return;
  if (code < 0) {
    fail_reader(self, code);
  } else if (code == 1) {
    if (fb_buffer_data_type_is_buffer(polled.slice.data_type)) set_credits(self, self->credits - 1);
    if (polled.slice.data_type == FB_END_OF_PARTITION) self->has_ended = true;
    next = polled.next_data_type;
    if (has_lost_file(self, &polled)) return;
    send_buffer(self, &polled);
    if (fb_buffer_data_type_is_event(next) || (next != FB_NONE && self->credits > 0)) put_last(self->session, self);
  }
}

static void serve_session(struct session* self) {
  while (self->first_ready != NULL && fb_connection_is_writable(self->connection)) {
    struct reader* reader = self->first_ready;
    take_out(self, reader);
    send_next(reader);
  }
}

/* ---- from the subpartition to the reader ----------------------------------------------------------- */

static void on_reader_data(void* context, uint32_t index) {
  struct reader* self = context;
  (void)index;
  /* Refused: the reactor stops, and its connections with it. */
  fb_reactor_post(self->session->server->reactor, &self->task);
}

static void on_reader_priority(void* context, uint32_t index, int32_t sequence_number) {
  struct reader* self = context;
  (void)sequence_number;
  atomic_store_explicit(&self->has_priority, true, memory_order_release);
  on_reader_data(context, index);
}

static void run_reader(struct fb_task* task) {
  struct reader* self = (struct reader*)task;
  struct session* session = self->session;

  if (self->is_removed) {
    free(self);
    return;
  }
  if (has_given_way(self)) {
    serve_session(session);
    return;
  }
  enqueue_reader(self, atomic_exchange_explicit(&self->has_priority, false, memory_order_acquire));
  serve_session(session);
}

/* ---- requests -------------------------------------------------------------------------------------- */

/* Starts to read if the partition is there. The reader may be gone after this. */
static void attach_reader(struct reader* self) {
  struct fb_view_options options = {
      .listener = {on_reader_data, on_reader_priority, self},
      .sends_empty_buffers = self->had_no_credit,
      .takes_file_regions = true,
  };
  int code;

  self->partition = fb_partition_manager_find(self->session->server->manager, self->partition_id);
  if (self->partition == NULL) return;
  stop_waiting(self);
  code = fb_result_partition_create_view(self->partition, self->index, &options, &self->view);
  if (code < 0) {
    fail_reader(self, code);
    return;
  }
  set_credits(self, self->credits);
  if (self->buffer_size > 0) fb_subpartition_view_set_buffer_size(self->view, self->buffer_size);
  enqueue_reader(self, false);
}

static void on_request_timeout(struct fb_timer* timer) { refuse_not_found(FB_OWNER(reader, timer, timer)); }

/* Of strangers only so many wait: one more is answered at once what it would be answered later, and may ask again. */
static bool may_wait(struct session* self, const uint8_t* partition_id) {
  const struct fb_partition_server* server = self->server;
  struct fb_result_partition* partition;

  if (!server->is_open_to_all) return true;
  if (self->waiting_count < server->options.max_waiting && server->waiting_count / 16 < server->options.max_waiting)
    return true;
  partition = fb_partition_manager_find(server->manager, partition_id);
  if (partition == NULL) return false;
  fb_result_partition_drop(partition);
  return true;
}

static void on_request(struct session* self, const struct fb_frame* frame) {
  struct reader* asked = reader_of(fb_channel_map_find(&self->readers, frame->receiver));
  struct fb_partition_server* server = self->server;
  struct reader* reader;

  if (fb_frame_channel_id_is_sealed(frame->receiver)) self->has_sealed = true;
  else self->has_unsealed = true;
  if (asked != NULL) {
    refuse_reader(asked, "this channel has asked for a subpartition already");
    return;
  }
  if (frame->subpartition != frame->last_subpartition || self->readers.count >= server->options.max_channels) {
    send_error(self, frame->receiver,
               frame->subpartition != frame->last_subpartition
                   ? "ranges of subpartitions are not served: ask for each with a channel of its own"
                   : "too many channels on one connection");
    return;
  }
  if (!may_wait(self, frame->partition)) {
    send_not_found(self, frame->receiver, frame->partition);
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
  memcpy(reader->entry.id, frame->receiver, FB_CHANNEL_ID_SIZE);
  memcpy(reader->partition_id, frame->partition, FB_PARTITION_ID_SIZE);
  reader->index = (uint32_t)frame->subpartition;
  reader->credits = frame->credit;
  reader->had_no_credit = frame->credit == 0;
  if (fb_channel_map_add(&self->readers, &reader->entry) < 0) {
    free(reader);
    fb_connection_close(self->connection);
    return;
  }
  atomic_fetch_add_explicit(&server->channel_count, 1, memory_order_relaxed);
  reader->is_waiting = true;
  self->waiting_count++;
  server->waiting_count++;
  if (fb_reactor_set_timer(server->reactor, &reader->timer, server->options.request_timeout_ms) < 0)
    fb_connection_close(self->connection);
  attach_reader(reader);
}

static void on_reader_credit(struct reader* self, int32_t credit) {
  if (credit > INT32_MAX - self->credits) {
    refuse_reader(self, "credit over 2147483647");
    return;
  }
  set_credits(self, self->credits + credit);
  enqueue_reader(self, false);
}

/* Of one that still waits for its partition the size is kept for it. */
static void on_buffer_size(struct reader* self, int32_t size) {
  self->buffer_size = size;
  if (self->view != NULL) fb_subpartition_view_set_buffer_size(self->view, size);
}

static void on_resume(struct reader* self) {
  /* Its floating buffers went back meanwhile. */
  if (self->had_no_credit) set_credits(self, 0);
  if (self->view == NULL || fb_subpartition_view_resume(self->view) < 0)
    refuse_reader(self, "it is not blocked by an event, so it cannot be resumed");
  else enqueue_reader(self, false);
}

/* Frames for channels that are not there (any more) are late, not wrong: they are ignored. */
static void handle_session_frame(struct session* self, const struct fb_frame* frame) {
  struct reader* reader = frame->has_receiver ? reader_of(fb_channel_map_find(&self->readers, frame->receiver)) : NULL;

  if (reader == NULL && frame->has_receiver && frame->id != FB_PARTITION_REQUEST && self->has_sealed &&
      !self->has_unsealed && !fb_frame_channel_id_is_sealed(frame->receiver)) {
    end_session(self, "it names a channel that it never opened here: the stream is corrupted");
    return;
  }
  if (reader != NULL && frame->id != FB_PARTITION_REQUEST && frame->id != FB_CANCEL_PARTITION_REQUEST &&
      has_given_way(reader))
    return;
  switch ((enum fb_frame_id)frame->id) {
    case FB_PARTITION_REQUEST: on_request(self, frame); break;
    case FB_CLOSE_REQUEST: end_session(self, NULL); break;
    case FB_TASK_EVENT_REQUEST:
      send_error(self, frame->receiver, "nobody listens to task events of this partition");
      break;
    case FB_CANCEL_PARTITION_REQUEST:
      if (reader != NULL) remove_reader(reader);
      break;
    case FB_ADD_CREDIT:
      if (reader != NULL) on_reader_credit(reader, frame->credit);
      break;
    case FB_RESUME_CONSUMPTION:
      if (reader != NULL) on_resume(reader);
      break;
    case FB_NEW_BUFFER_SIZE:
      if (reader != NULL) on_buffer_size(reader, frame->buffer_size);
      break;
    case FB_ACK_ALL_USER_RECORDS_PROCESSED:
      if (reader != NULL && reader->view != NULL) fb_result_partition_acknowledge(reader->partition, reader->index);
      break;
    case FB_SEGMENT_ID: /* of tiered storage */
    default: break;
  }
}

/* ---- connections ----------------------------------------------------------------------------------- */

/* A stranger, by its first bytes. */
static void note_refusal(struct session* self) {
  char reason[FB_ADMISSION_REASON_SIZE];

  snprintf(reason, sizeof reason, "connection with %s: %s", fb_connection_peer(self->connection), self->decoder.error);
  fb_admission_note(self->server->admission, reason);
}

static void on_silence(struct fb_timer* timer) {
  struct session* self = FB_OWNER(session, timer, timer);

  snprintf(self->decoder.error, sizeof self->decoder.error, "nothing was asked for within %lld ms",
           (long long)self->server->options.proof_timeout_ms);
  note_refusal(self);
  end_session(self, self->decoder.error);
}

/* One stranger too many: of those that read nothing, the one that came first goes. False: all read. */
static bool make_room(struct fb_partition_server* self) {
  struct session* found = NULL;

  if (!self->is_open_to_all || self->session_count < self->options.max_connections) return true;
  for (struct session* at = self->sessions; at != NULL; at = at->next)
    if (at->readers.count == 0 && !at->is_over) found = at;
  if (found == NULL) return false;
  found->is_over = true;
  fb_admission_note(self->admission, "a connection that read nothing gave way to another one");
  fb_connection_close(found->connection);
  return true;
}

static void on_session_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct session* self = fb_connection_context(connection);
  int step;

  while (!self->is_over) {
    step = fb_frame_decoder_next(&self->decoder, &data, &size);
    if (step == FB_FRAME_NEEDS_INPUT) break;
    if (step == FB_FRAME_ENDS) {
      if (!self->has_spoken) fb_reactor_cancel_timer(self->server->reactor, &self->timer);
      self->has_spoken = true;
      handle_session_frame(self, &self->decoder.frame);
    } else if (step < 0) {
      if (!self->has_spoken) note_refusal(self);
      end_session(self, self->decoder.error);
    }
  }
  serve_session(self);
}

static void on_session_writable(struct fb_connection* connection) { serve_session(fb_connection_context(connection)); }

static void on_session_closed(struct fb_connection* connection, int code, const char* reason) {
  struct session* self = fb_connection_context(connection);
  struct fb_partition_server* server = self->server;

  (void)code;
  if (reason == NULL && !self->is_over) reason = "the connection was closed on this side for want of memory";
  remove_all(self, reason);
  fb_reactor_cancel_timer(server->reactor, &self->timer);
  server->session_count--;
  if (self->previous != NULL) self->previous->next = self->next;
  else server->sessions = self->next;
  if (self->next != NULL) self->next->previous = self->previous;
  atomic_fetch_sub_explicit(&server->connection_count, 1, memory_order_relaxed);
  fb_channel_map_close(&self->readers);
  free(self);
}

static const struct fb_connection_handler HANDLER = {
    .on_bytes = on_session_bytes, .on_writable = on_session_writable, .on_closed = on_session_closed};

/* The peer may ask now; [data, data + size) it has said already. */
static void on_session_proven(struct fb_connection* connection, void* context, const uint8_t* data, size_t size) {
  struct fb_partition_server* server = context;
  struct fb_frame_limits limits = {.accepted = FB_FRAMES_OF_CLIENTS, .max_event = MAX_EVENT};
  struct session* self = make_room(server) ? calloc(1, sizeof(*self)) : NULL;

  if (self == NULL) {
    fb_admission_note(server->admission, "a connection too many, or no memory for it");
    fb_connection_set_handler(connection, NULL, NULL);
    fb_connection_close(connection);
    return;
  }
  self->server = server;
  self->connection = connection;
  fb_frame_decoder_open(&self->decoder, &limits);
  self->next = server->sessions;
  if (self->next != NULL) self->next->previous = self;
  server->sessions = self;
  server->session_count++;
  self->timer.on_due = on_silence;
  if (server->is_open_to_all) fb_reactor_set_timer(server->reactor, &self->timer, server->options.proof_timeout_ms);
  atomic_fetch_add_explicit(&server->connection_count, 1, memory_order_relaxed);
  fb_connection_set_handler(connection, &HANDLER, self);
  fb_connection_set_marks(connection, server->options.low_mark, server->options.high_mark);
  fb_connection_set_deaf_over(connection, server->options.high_mark + MAX_ANSWERS);
  if (size > 0) on_session_bytes(connection, data, size);
}

static const struct fb_admission_handler ON_ADMISSION = {.on_proven = on_session_proven};

/* On failure the connection stays without a handler, and is closed. */
static void on_accept(struct fb_connection* connection, void* context) {
  struct fb_partition_server* self = context;
  fb_admission_start(self->admission, connection, &ON_ADMISSION, self);
}

static void attach_waiting(struct fb_channel_entry* entry, void* context) {
  (void)context;
  if (reader_of(entry)->partition == NULL) attach_reader(reader_of(entry));
}

/* A partition was registered: looks for those that are waited for. */
static void on_registered(struct fb_task* task) {
  struct fb_partition_server* self = FB_OWNER(fb_partition_server, registered, task);

  for (struct session* session = self->sessions; session != NULL; session = session->next) {
    fb_channel_map_each(&session->readers, attach_waiting, NULL);
    serve_session(session);
  }
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void start_server(void* context) {
  struct fb_partition_server* self = context;

  if (self->address.size == 0) return;
  self->code = fb_connection_listen(self->reactor, &self->address, BACKLOG, on_accept, self, &self->listener);
  self->error = errno;
}

static int open_admission(struct fb_partition_server* self) {
  struct fb_admission_options options = {
      .secret = self->options.secret,
      .secret_size = self->options.secret_size,
      .is_server = true,
      .timeout_ms = self->options.proof_timeout_ms,
      .max_unproven = self->options.max_unproven,
  };

  self->options.secret = NULL; /* the caller's */
  return fb_admission_open(self->reactor, &options, &self->admission);
}

int fb_partition_server_open(struct fb_reactor* reactor, struct fb_partition_manager* manager,
                             struct fb_tcp_address* address, const struct fb_partition_server_options* options,
                             struct fb_partition_server** self) {
  struct fb_partition_server* opened = calloc(1, sizeof(*opened));
  int code;

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  opened->reactor = reactor;
  opened->manager = manager;
  if (address != NULL) opened->address = *address;
  opened->registered.run = on_registered;
  if (options != NULL) opened->options = *options;
  if (opened->options.request_timeout_ms == 0) opened->options.request_timeout_ms = 10000;
  if (opened->options.max_channels == 0) opened->options.max_channels = 65536;
  if (opened->options.low_mark == 0) opened->options.low_mark = 65536;
  if (opened->options.high_mark == 0) opened->options.high_mark = 131072;
  if (opened->options.proof_timeout_ms == 0) opened->options.proof_timeout_ms = 10000;
  if (opened->options.max_connections == 0) opened->options.max_connections = fb_admission_strangers_max();
  if (opened->options.max_waiting == 0) opened->options.max_waiting = MAX_WAITING;
  opened->is_open_to_all = opened->options.secret == NULL;
  code = open_admission(opened);
  if (code == FB_OK) code = fb_partition_manager_add_observer(manager, reactor, &opened->registered);
  if (code == FB_OK) code = fb_reactor_call(reactor, start_server, opened);
  if (code == FB_OK) code = opened->code;
  if (code < 0) {
    fb_partition_manager_remove_observer(manager, &opened->registered);
    fb_admission_close(opened->admission);
    errno = opened->error;
    free(opened);
    return code;
  }
  if (address != NULL) *address = opened->address;
  fb_reactor_retain(reactor);
  *self = opened;
  return FB_OK;
}

static void stop_server(void* context) {
  struct fb_partition_server* self = context;

  if (self->listener != NULL) fb_connection_close_listener(self->listener);
  fb_admission_stop(self->admission);
  for (struct session* at = self->sessions; at != NULL; at = at->next) {
    at->is_over = true;
    fb_connection_close(at->connection);
  }
}

static void pass_server(void* context) { (void)context; }

static bool has_sessions(struct fb_partition_server* self) {
  struct fb_partition_server_counters counters;

  fb_partition_server_get_counters(self, &counters);
  return counters.connections + counters.unproven > 0;
}

void fb_partition_server_close(struct fb_partition_server* self) {
  if (self == NULL) return;
  fb_partition_manager_remove_observer(self->manager, &self->registered);
  if (fb_reactor_call(self->reactor, stop_server, self) == FB_OK) {
    /* The turn in which they were closed ends with their last words; tasks posted before have run, too. */
    while (fb_reactor_call(self->reactor, pass_server, NULL) == FB_OK && has_sessions(self)) continue;
  }
  fb_admission_close(self->admission);
  fb_reactor_drop(self->reactor);
  free(self);
}

struct adoption {
  struct fb_partition_server* server;
  const struct fb_tcp_address* peer;
  const struct fb_carried* carried;
  int code;
  int error;
};

static void adopt_socket(void* context) {
  struct adoption* adoption = context;
  struct fb_connection* connection;

  adoption->code = fb_connection_adopt(adoption->server->reactor, adoption->peer, adoption->carried, 0, &connection);
  adoption->error = errno;
  if (adoption->code < 0) return;
  adoption->code = fb_admission_start(adoption->server->admission, connection, &ON_ADMISSION, adoption->server);
  if (adoption->code < 0) fb_connection_close(connection);
}

int fb_partition_server_adopt(struct fb_partition_server* self, const struct fb_tcp_address* peer,
                              const struct fb_carried* carried) {
  struct adoption adoption = {.server = self, .peer = peer, .carried = carried};
  int code = fb_reactor_call(self->reactor, adopt_socket, &adoption);

  if (code < 0) {
    close(carried->fd);
    fb_carrier_drop(carried->carrier);
    return code;
  }
  errno = adoption.error;
  return adoption.code;
}

void fb_partition_server_note_refusal(struct fb_partition_server* self, const char* reason) {
  fb_admission_note(self->admission, reason);
}

void fb_partition_server_get_counters(struct fb_partition_server* self, struct fb_partition_server_counters* counters) {
  struct fb_admission_counters admission;

  fb_admission_get_counters(self->admission, &admission);
  counters->unproven = admission.unproven;
  counters->refused = admission.refused;
  counters->connections = atomic_load_explicit(&self->connection_count, memory_order_relaxed);
  counters->channels = atomic_load_explicit(&self->channel_count, memory_order_relaxed);
  counters->buffers = atomic_load_explicit(&self->buffer_count, memory_order_relaxed);
  counters->bytes = atomic_load_explicit(&self->byte_count, memory_order_relaxed);
}

void fb_partition_server_last_refusal(struct fb_partition_server* self, char* reason) {
  fb_admission_last_reason(self->admission, reason);
}
