#include "wire/partition_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ground/owner.h"
#include "wire/error_cause.h"

enum {
  MAX_EVENT = 16 << 20, /* bytes of an event: barriers carry the path of a savepoint */
  MAX_CAUSE = 1 << 20,  /* bytes of a serialized Throwable */
  TEXT_SIZE = 700,      /* of what users are told */
  LAST_WORDS_MS = 100,  /* for what was sent last to leave at the end */
};

/* One connection and the channels that share it. */
struct link {
  struct fb_partition_client* client;
  struct fb_connection* connection; /* NULL: it could not even be started, or is closed */
  struct fb_tcp_address address;
  uint32_t index;
  uint32_t retries_left;
  bool is_connected; /* and, with a secret, proven */
  bool is_finishing; /* the last channel has gone: nobody joins any more */
  bool has_unsealed; /* somebody's id is not sealed, so those of channels that have gone may not be, too */
  bool has_waiting;  /* somebody had something to send while the queue was full */
  struct fb_channel_map channels;
  struct fb_frame_decoder decoder;
  /* The body that is being received. */
  struct fb_remote_channel* receiver; /* NULL: nobody wants it */
  struct fb_buffer_slice body;        /* where it goes; empty: it is dropped */
  uint8_t* cause;                     /* of an ERROR_RESPONSE */
  uint32_t* parts;
  uint32_t part_count, part_capacity;
  char peer[FB_ADDRESS_TEXT_SIZE];
  struct link *previous, *next;
};

struct fb_partition_client {
  _Atomic uint32_t references;
  struct fb_reactor* reactor; /* retained */
  struct fb_partition_client_options options;
  struct fb_admission* admission;
  struct link* links;
  bool is_closed;
  /* Relaxed: figures that anybody may look at. */
  _Atomic uint32_t connection_count, channel_count;
  _Atomic uint64_t buffer_count, byte_count;
};

static const char CLOSED_TEXT[] = "the network environment was closed";

static struct fb_remote_channel* channel_of(struct fb_channel_entry* entry) {
  return FB_OWNER(fb_remote_channel, request.entry, entry);
}

/* ---- sending ---------------------------------------------------------------------------------------- */

/* Control frames have no body. Without memory the connection goes: a lost credit would stop the channel. */
static void send_link_frame(struct link* self, const struct fb_frame* frame) {
  uint8_t bytes[FB_FRAME_HEAD_MAX];
  int size = fb_frame_write_head(frame, bytes);
  int code = size;

  if (size >= 0) code = fb_connection_send(self->connection, bytes, (size_t)size, NULL);
  if (code < 0 && code != FB_ERELEASED) fb_connection_close(self->connection);
}

static void send_to_reader(struct link* self, struct fb_frame frame, const uint8_t* receiver) {
  frame.has_receiver = true;
  memcpy(frame.receiver, receiver, FB_CHANNEL_ID_SIZE);
  send_link_frame(self, &frame);
}

static void send_request(struct link* self, struct fb_remote_channel* channel) {
  struct fb_frame frame = {
      .id = FB_PARTITION_REQUEST,
      .subpartition = (int32_t)channel->source.subpartition_index,
      .last_subpartition = (int32_t)channel->source.subpartition_index,
      .credit = (int32_t)channel->initial_credit,
  };

  memcpy(frame.partition, channel->source.partition, FB_PARTITION_ID_SIZE);
  channel->request.is_sent = true;
  send_to_reader(self, frame, channel->id);
}

static void send_acknowledgement(struct link* self, struct fb_remote_channel* channel) {
  if (fb_remote_channel_take_acknowledgement(channel))
    send_to_reader(self, (struct fb_frame){.id = FB_ACK_ALL_USER_RECORDS_PROCESSED}, channel->id);
}

/* Sends what the channel has asked for since the last time. */
static void send_wishes(struct link* self, struct fb_remote_channel* channel) {
  const uint8_t* id = channel->id;
  uint32_t credit;
  int32_t size;

  if (fb_remote_channel_take_resume(channel)) send_to_reader(self, (struct fb_frame){.id = FB_RESUME_CONSUMPTION}, id);
  send_acknowledgement(self, channel);
  size = fb_remote_channel_take_buffer_size(channel);
  if (size > 0) {
    channel->request.told_buffer_size = size;
    send_to_reader(self, (struct fb_frame){.id = FB_NEW_BUFFER_SIZE, .buffer_size = size}, id);
  }
  credit = fb_remote_channel_take_credit(channel);
  if (credit > 0) send_to_reader(self, (struct fb_frame){.id = FB_ADD_CREDIT, .credit = (int32_t)credit}, id);
}

static void greet_channel(struct fb_channel_entry* entry, void* context) {
  struct fb_remote_channel* channel = channel_of(entry);
  struct link* link = context;

  if (fb_timer_queue_is_set(&channel->request.timer)) return; /* asks again when it is due */
  if (!channel->request.is_sent) send_request(link, channel);
  send_wishes(link, channel);
}

/* To a server that goes on sending for a channel that has gone: what was said when it went comes too late, or got lost.
 * Only if the server listens; it will send the next one, too. */
static void cancel_again(struct link* self, const uint8_t* receiver) {
  if (fb_connection_is_writable(self->connection))
    send_to_reader(self, (struct fb_frame){.id = FB_CANCEL_PARTITION_REQUEST}, receiver);
}

/* ---- channels of a connection ----------------------------------------------------------------------- */

/* Nothing is called on the channel after this. */
static void forget_channel(struct fb_remote_channel* channel) {
  struct link* link = channel->request.link;

  if (link == NULL) return;
  channel->request.link = NULL;
  fb_reactor_cancel_timer(link->client->reactor, &channel->request.timer);
  fb_channel_map_remove(&link->channels, &channel->request.entry);
  atomic_fetch_sub_explicit(&link->client->channel_count, 1, memory_order_relaxed);
  if (link->receiver != channel) return;
  link->receiver = NULL;
  fb_buffer_slice_release(&link->body); /* the rest of it is dropped as it comes */
}

static void fail_channel(struct fb_remote_channel* channel, int code, const char* what) {
  forget_channel(channel);
  fb_remote_channel_fail(channel, code, what);
}

struct failure {
  int code;
  const char* what;
};

static void fail_entry(struct fb_channel_entry* entry, void* context) {
  struct failure* failure = context;
  fail_channel(channel_of(entry), failure->code, failure->what);
}

static void fail_all(struct link* self, int code, const char* what) {
  struct failure failure = {code, what};
  fb_channel_map_each(&self->channels, fail_entry, &failure);
}

/* The last channel has gone: tells the server, so that nothing said before is overtaken by the end. */
static void end_if_unused(struct link* self) {
  if (self->channels.count > 0 || self->is_finishing) return;
  if (self->client->options.keeps_connections && self->is_connected) return;
  self->is_finishing = true;
  if (self->connection == NULL) return;
  if (self->is_connected) {
    send_link_frame(self, &(struct fb_frame){.id = FB_CLOSE_REQUEST});
    fb_connection_finish(self->connection);
  } else {
    fb_connection_close(self->connection);
  }
}

/* One channel fails; the last one takes its connection with it. */
static void expel_channel(struct link* self, struct fb_remote_channel* channel, int code, const char* what) {
  fail_channel(channel, code, what);
  end_if_unused(self);
}

/* ---- partitions that are not there yet -------------------------------------------------------------- */

static void on_ask_again(struct fb_timer* timer) {
  struct fb_remote_channel* channel = FB_OWNER(fb_remote_channel, request.timer, timer);
  struct link* link = channel->request.link;

  if (link->is_connected) greet_channel(&channel->request.entry, link);
}

/* The server has waited for it already, so the back-off grows by that time; twofold, if servers do not wait. */
static void on_not_found(struct link* self, struct fb_remote_channel* channel) {
  const struct fb_partition_client_options* options = &self->client->options;
  char id[FB_PARTITION_ID_TEXT_SIZE], text[TEXT_SIZE];
  struct fb_remote_request* request = &channel->request;
  uint32_t wait_ms;

  request->is_sent = false;
  fb_remote_channel_restore_buffer_size(channel, request->told_buffer_size);
  if (request->backoff_ms == 0) request->backoff_ms = options->backoff_initial_ms;
  else if (options->request_timeout_ms > 0) request->backoff_ms += options->request_timeout_ms;
  else request->backoff_ms *= 2;
  wait_ms = options->request_timeout_ms > 0 ? options->backoff_initial_ms : request->backoff_ms;
  if (request->backoff_ms > 0 && request->backoff_ms < 2 * options->backoff_max_ms &&
      fb_reactor_set_timer(self->client->reactor, &request->timer, wait_ms) == FB_OK)
    return;
  fb_error_cause_id_text(channel->source.partition, id);
  snprintf(text, sizeof text,
           "partition %s was not found at %s: its producer has not registered it there, or has "
           "released it",
           id, self->peer);
  expel_channel(self, channel, FB_ENOT_FOUND, text);
}

/* ---- receiving -------------------------------------------------------------------------------------- */

/* The stream cannot be followed any more, or must not be. */
static void fail_link(struct link* self, int code, const char* what) {
  char text[TEXT_SIZE + FB_ADDRESS_TEXT_SIZE + 32];

  snprintf(text, sizeof text, "connection with %s: %s", self->peer, what);
  fail_all(self, code, text);
  self->is_finishing = true;
  fb_connection_close(self->connection);
}

/* NULL: it has gone; or there never was one of that id, and the connection is given up. */
static struct fb_remote_channel* find_channel(struct link* self, const uint8_t* id) {
  struct fb_channel_entry* entry = fb_channel_map_find(&self->channels, id);

  if (entry == NULL && !self->has_unsealed && !fb_frame_channel_id_is_sealed(id))
    fail_link(self, FB_ECORRUPT, "it names a channel that was never opened here: the stream is corrupted");
  return entry != NULL ? channel_of(entry) : NULL;
}

/* Says where the body of a BUFFER_RESPONSE goes: a credit buffer, a buffer of its own for an event, nowhere. */
static void choose_buffer(struct link* self, const struct fb_frame* frame) {
  struct fb_buffer* buffer;

  self->part_count = 0;
  self->receiver = find_channel(self, frame->receiver);
  if (self->receiver == NULL) return;
  if (!fb_buffer_data_type_is_buffer(frame->data_type)) {
    if (fb_buffer_new_unpooled(NULL, frame->body_size, frame->data_type, &self->body) < 0)
      expel_channel(self, self->receiver, FB_ENOMEM, "no memory for an event that arrived");
    return;
  }
  buffer = fb_remote_channel_request_buffer(self->receiver);
  if (buffer != NULL)
    self->body = (struct fb_buffer_slice){buffer, 0, frame->body_size, frame->data_type, frame->is_compressed};
  else
    expel_channel(self, self->receiver, FB_ECORRUPT,
                  "a data buffer came without credit: the sender does not keep to the "
                  "protocol"); /* unless it has just been released: then nobody reads this */
}

static void start_body(struct link* self, const struct fb_frame* frame) {
  if (frame->id == FB_BUFFER_RESPONSE) {
    choose_buffer(self, frame);
  } else {
    self->cause = malloc(frame->body_size > 0 ? frame->body_size : 1);
    if (self->cause == NULL) fail_link(self, FB_ENOMEM, "no memory for the error it reports");
  }
}

static void add_part(struct link* self, uint32_t size) {
  if (self->part_count == self->part_capacity) {
    uint32_t capacity = self->part_capacity > 0 ? 2 * self->part_capacity : 16;
    uint32_t* parts = realloc(self->parts, capacity * sizeof *parts);
    if (parts == NULL) {
      fail_link(self, FB_ENOMEM, "no memory for the parts of a buffer");
      return;
    }
    self->parts = parts;
    self->part_capacity = capacity;
  }
  self->parts[self->part_count++] = size;
}

static void put_body(struct link* self, const uint8_t* bytes, uint32_t offset, uint32_t size) {
  if (self->cause != NULL) memcpy(self->cause + offset, bytes, size);
  else if (self->body.buffer != NULL) memcpy(self->body.buffer->segment.data + offset, bytes, size);
}

/* Several buffers in one frame: each is a slice of it with its own sequence number. */
static void deliver_parts(struct link* self, struct fb_remote_channel* channel, struct fb_buffer_slice* body,
                          const struct fb_frame* frame) {
  int32_t sequence_number = frame->sequence_number;
  uint32_t offset = 0;

  for (uint32_t i = 0; i < self->part_count; i++) {
    struct fb_buffer_slice part = *body;
    bool is_last = i + 1 == self->part_count;
    part.offset += offset;
    part.size = self->parts[i];
    offset += part.size;
    fb_buffer_slice_retain(&part);
    fb_remote_channel_on_buffer(channel, &part, sequence_number, is_last ? frame->backlog : -1);
    sequence_number = sequence_number == INT32_MAX ? INT32_MIN : sequence_number + 1;
  }
  fb_buffer_slice_release(body);
}

static void on_response(struct link* self, const struct fb_frame* frame) {
  struct fb_remote_channel* channel = self->receiver;
  struct fb_buffer_slice body = self->body;

  atomic_fetch_add_explicit(&self->client->buffer_count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&self->client->byte_count, frame->body_size, memory_order_relaxed);
  self->receiver = NULL;
  self->body.buffer = NULL;
  if (channel == NULL) { /* it went while the buffer was on its way */
    fb_buffer_slice_release(&body);
    cancel_again(self, frame->receiver);
  } else if (frame->body_size == 0 && fb_buffer_data_type_is_buffer(frame->data_type)) {
    fb_buffer_slice_release(&body); /* gives the credit back */
    fb_remote_channel_on_empty_buffer(channel, frame->sequence_number, frame->backlog);
  } else if (!fb_buffer_data_type_is_buffer(frame->data_type) && !fb_buffer_event_is_of_its_type(&body)) {
    fb_buffer_slice_release(&body);
    expel_channel(self, channel, FB_ECORRUPT,
                  "what came as an event is none, or is another one: the stream is corrupted");
  } else if (self->part_count > 0) {
    deliver_parts(self, channel, &body, frame);
  } else {
    fb_remote_channel_on_buffer(channel, &body, frame->sequence_number, frame->backlog);
  }
}

/* A sentence about what the other side reports. */
static void describe_cause(struct link* self, const struct fb_error_cause* cause, const char* what, char* text) {
  bool has_class = cause->class_name != NULL && !cause->is_plain;

  snprintf(text, TEXT_SIZE, "%s %s: %.*s%s%.*s", self->peer, what, has_class ? (int)cause->class_size : 0,
           has_class ? cause->class_name : "", has_class && cause->message != NULL ? ": " : "",
           cause->message != NULL ? (int)cause->message_size : 0, cause->message != NULL ? cause->message : "");
}

static void on_error(struct link* self, struct fb_frame* frame) {
  struct fb_remote_channel* channel;
  struct fb_error_cause cause;
  char text[TEXT_SIZE];
  uint8_t* bytes = self->cause;

  self->cause = NULL;
  if (fb_frame_split_error(frame, bytes, frame->body_size) < 0) {
    fail_link(self, FB_ECORRUPT, "it reports an error that cannot be read");
  } else {
    fb_error_cause_read(bytes, frame->body_size, &cause);
    if (!frame->has_receiver) {
      describe_cause(self, &cause, "failed and ends the connection", text);
      fail_link(self, FB_EIO, text);
    } else if ((channel = find_channel(self, frame->receiver)) != NULL) {
      describe_cause(self, &cause, "failed", text);
      if (cause.is_partition_not_found) on_not_found(self, channel);
      else expel_channel(self, channel, FB_ERELEASED, text);
    }
  }
  free(bytes);
}

static void handle_link_frame(struct link* self, struct fb_frame* frame) {
  struct fb_remote_channel* channel;

  if (frame->id == FB_BUFFER_RESPONSE) {
    on_response(self, frame);
  } else if (frame->id == FB_ERROR_RESPONSE) {
    on_error(self, frame);
  } else if ((channel = find_channel(self, frame->receiver)) != NULL) {
    fb_remote_channel_on_backlog(channel, frame->backlog);
  } else {
    cancel_again(self, frame->receiver);
  }
}

/* What the decoder found; for a buffer that fits into none of ours also what to do about it. */
static void fail_frame(struct link* self, int code) {
  const struct fb_frame_decoder* decoder = &self->decoder;
  char text[sizeof decoder->error + 100];
  bool is_too_large = code == FB_ETOO_LARGE && decoder->frame.id == FB_BUFFER_RESPONSE &&
                      decoder->frame.body_size > self->client->options.max_data;

  snprintf(text, sizeof text, "%s%s", decoder->error,
           is_too_large ? "; the segment size of the reading side must be that of the sending one, or more" : "");
  fail_link(self, code, text);
}

static void on_link_bytes(struct fb_connection* connection, const uint8_t* data, size_t size) {
  struct link* self = fb_connection_context(connection);
  struct fb_frame_decoder* decoder = &self->decoder;
  int step;

  while (!self->is_finishing) {
    step = fb_frame_decoder_next(decoder, &data, &size);
    if (step == FB_FRAME_NEEDS_INPUT) break;
    if (step == FB_FRAME_BODY_STARTS) start_body(self, &decoder->frame);
    else if (step == FB_FRAME_PART) add_part(self, decoder->part_size);
    else if (step == FB_FRAME_BODY) put_body(self, decoder->bytes, decoder->offset, decoder->size);
    else if (step == FB_FRAME_ENDS) handle_link_frame(self, &decoder->frame);
    else fail_frame(self, step);
  }
}

/* The rest of a body that goes into a buffer is received there. */
static size_t target_memory(struct fb_connection* connection, uint8_t** memory) {
  struct link* self = fb_connection_context(connection);
  uint32_t left = fb_frame_decoder_body_left(&self->decoder);

  if (self->body.buffer == NULL || self->cause != NULL) return 0;
  *memory = self->body.buffer->segment.data + self->body.size - left;
  return left;
}

static void on_filled(struct fb_connection* connection, size_t size) {
  struct link* self = fb_connection_context(connection);

  fb_frame_decoder_took(&self->decoder, (uint32_t)size);
  on_link_bytes(connection, NULL, 0);
}

/* ---- connections ------------------------------------------------------------------------------------ */

static void tell_channel(struct fb_channel_entry* entry, void* context) {
  if (channel_of(entry)->request.is_sent) send_wishes(context, channel_of(entry));
}

static void on_link_writable(struct fb_connection* connection) {
  struct link* self = fb_connection_context(connection);

  if (!self->has_waiting) return;
  self->has_waiting = false;
  fb_channel_map_each(&self->channels, tell_channel, self);
}

static void free_link(struct link* self) {
  struct fb_partition_client* client = self->client;

  if (self->previous != NULL) self->previous->next = self->next;
  else client->links = self->next;
  if (self->next != NULL) self->next->previous = self->previous;
  atomic_fetch_sub_explicit(&client->connection_count, 1, memory_order_relaxed);
  fb_buffer_slice_release(&self->body);
  fb_channel_map_close(&self->channels);
  free(self->cause);
  free(self->parts);
  free(self);
}

static int connect_link(struct link* self);

/* The end of a connection, whether it was ever proven or not. */
static void end_link(struct fb_connection* connection, void* context, int code, const char* reason) {
  struct link* self = context;
  const char* advice = "";
  char text[TEXT_SIZE], closed[FB_ADDRESS_TEXT_SIZE + 256];

  (void)connection;
  self->connection = NULL;
  if (!self->is_connected && !self->is_finishing && self->retries_left > 0) {
    self->retries_left--;
    if (connect_link(self) == FB_OK) return;
  }
  /* A refusal says all there is to say. */
  if (code == FB_ECORRUPT || fb_reactor_failure(self->client->reactor) != NULL) {
    advice = "";
  } else if (fb_frame_decoder_saw_tls(&self->decoder)) {
    advice = "; it speaks TLS: NetworkConfig(tls=...) must be set here, too";
  } else if (self->is_connected) {
    advice = "; the task there was most likely lost";
  } else {
    snprintf(closed, sizeof closed,
             "; is the task there still running, and do firewalls let this host in at TCP %s? The ports to open are "
             "those of taskmanager.data.port, for an exchange of NetworkConfig(data_port=...)",
             self->peer);
    advice = closed;
  }
  if (code == FB_OK || code == FB_EFINISHED || code == FB_ECORRUPT) code = FB_EIO;
  snprintf(text, sizeof text, "%s%s", reason != NULL ? reason : "the connection was closed on this side", advice);
  fail_all(self, code, text);
  free_link(self);
}

static void on_link_closed(struct fb_connection* connection, int code, const char* reason) {
  end_link(connection, fb_connection_context(connection), code, reason);
}

static const struct fb_connection_handler HANDLER = {.target = target_memory,
                                                     .on_filled = on_filled,
                                                     .on_bytes = on_link_bytes,
                                                     .on_writable = on_link_writable,
                                                     .on_closed = on_link_closed};

/* The server is who it should be: requests may go, and what it has said already is read. */
static void on_link_proven(struct fb_connection* connection, void* context, const uint8_t* data, size_t size) {
  struct link* self = context;

  fb_connection_set_handler(connection, &HANDLER, self);
  self->is_connected = true;
  fb_channel_map_each(&self->channels, greet_channel, self);
  if (size > 0) on_link_bytes(connection, data, size);
}

static const struct fb_admission_handler ON_ADMISSION = {.on_proven = on_link_proven, .on_refused = end_link};

static void on_connected(struct fb_connection* connection) {
  struct link* self = fb_connection_context(connection);

  if (fb_admission_start(self->client->admission, connection, &ON_ADMISSION, self) < 0) fb_connection_close(connection);
}

/* Nothing of the peer's is read before on_connected(), which gives the connection on. */
static const struct fb_connection_handler CONNECTING = {
    .on_connected = on_connected, .on_bytes = on_link_bytes, .on_closed = on_link_closed};

static int connect_link(struct link* self) {
  const struct fb_partition_client* client = self->client;

  if (client->options.dialer != NULL)
    return fb_dialer_connect(client->options.dialer, client->reactor, &self->address,
                             client->options.connect_timeout_ms, &CONNECTING, self, &self->connection);
  return fb_connection_connect(client->reactor, &self->address, client->options.connect_timeout_ms, &CONNECTING, self,
                               &self->connection);
}

/* A new connection, on its way. FB_ENOMEM, FB_EIO with errno, FB_ESTATE. */
static int open_link(struct fb_partition_client* client, const struct fb_remote_source* source, struct link** link) {
  struct fb_frame_limits limits = {.accepted = FB_FRAMES_OF_SERVERS,
                                   .max_data = client->options.max_data,
                                   .max_event = MAX_EVENT,
                                   .max_error = MAX_CAUSE,
                                   .max_parts = client->options.max_data};
  struct link* opened = calloc(1, sizeof(*opened));
  int code = FB_ENOMEM;

  if (opened != NULL) {
    opened->client = client;
    opened->address = source->address;
    opened->index = source->connection_index;
    opened->retries_left = client->options.connect_retries;
    fb_tcp_address_text(&source->address, opened->peer);
    fb_frame_decoder_open(&opened->decoder, &limits);
    code = connect_link(opened);
  }
  if (code < 0) {
    free(opened);
    return code;
  }
  opened->next = client->links;
  if (opened->next != NULL) opened->next->previous = opened;
  client->links = opened;
  atomic_fetch_add_explicit(&client->connection_count, 1, memory_order_relaxed);
  *link = opened;
  return FB_OK;
}

static int find_link(struct fb_partition_client* client, const struct fb_remote_source* source, struct link** link) {
  for (struct link* at = client->links; at != NULL; at = at->next) {
    if (at->index == source->connection_index && at->address.size == source->address.size && !at->is_finishing &&
        at->connection != NULL && memcmp(&at->address.bytes, &source->address.bytes, source->address.size) == 0) {
      *link = at;
      return FB_OK;
    }
  }
  return open_link(client, source, link);
}

/* ---- the channel's own task ------------------------------------------------------------------------- */

static void cancel_channel(struct fb_remote_channel* channel) {
  struct link* link = channel->request.link;

  if (link == NULL) return;
  /* Its end may have been read right after. */
  if (link->is_connected && channel->request.is_sent) send_acknowledgement(link, channel);
  /* The last one of a connection that ends takes leave for all. */
  if (link->is_connected && (link->channels.count > 1 || link->client->options.keeps_connections))
    send_to_reader(link, (struct fb_frame){.id = FB_CANCEL_PARTITION_REQUEST}, channel->id);
  forget_channel(channel);
  end_if_unused(link);
}

/* It has something to say. */
static void run_channel(struct fb_task* task) {
  struct fb_remote_channel* channel = FB_OWNER(fb_remote_channel, task, task);
  struct link* link = channel->request.link;

  if (link == NULL || !link->is_connected || !channel->request.is_sent) return;
  if (fb_connection_is_writable(link->connection)) send_wishes(link, channel);
  else link->has_waiting = true;
}

/* It is done. Its other task, if that was posted, has run: tasks keep their order. */
static void run_leaving(struct fb_task* task) {
  struct fb_remote_channel* channel = FB_OWNER(fb_remote_channel, request.leaving, task);

  cancel_channel(channel);
  fb_remote_channel_drop(channel);
}

/* ---- requests --------------------------------------------------------------------------------------- */

struct batch {
  struct fb_partition_client* client;
  struct fb_remote_channel** channels;
  uint32_t count;
};

static void join_link(struct fb_partition_client* client, struct fb_remote_channel* channel) {
  struct link* link = NULL;
  char peer[FB_ADDRESS_TEXT_SIZE], text[TEXT_SIZE];
  int code, error;

  if (client->is_closed) {
    fb_remote_channel_fail(channel, FB_ERELEASED, CLOSED_TEXT);
    return;
  }
  channel->request.timer.on_due = on_ask_again;
  memcpy(channel->request.entry.id, channel->id, FB_CHANNEL_ID_SIZE);
  code = find_link(client, &channel->source, &link);
  error = errno;
  if (code == FB_OK) code = fb_channel_map_add(&link->channels, &channel->request.entry);
  if (code == FB_OK && !fb_frame_channel_id_is_sealed(channel->id)) link->has_unsealed = true;
  if (code < 0) {
    fb_tcp_address_text(&channel->source.address, peer);
    snprintf(text, sizeof text, "connecting with %s failed: %s", peer,
             code == FB_EIO ? strerror(error) : fb_strerror(code));
    fb_remote_channel_fail(channel, code, text);
    if (link != NULL) end_if_unused(link);
    return;
  }
  channel->request.link = link;
  atomic_fetch_add_explicit(&client->channel_count, 1, memory_order_relaxed);
  if (link->is_connected) greet_channel(&channel->request.entry, link);
}

static void request_batch(void* context) {
  struct batch* batch = context;

  for (uint32_t i = 0; i < batch->count; i++) join_link(batch->client, batch->channels[i]);
}

int fb_partition_client_request(struct fb_partition_client* self, struct fb_remote_channel** channels, uint32_t count) {
  struct batch batch = {self, channels, count};

  for (uint32_t i = 0; i < count; i++) fb_remote_channel_set_sender(channels[i], self->reactor, run_channel);
  return fb_reactor_call(self->reactor, request_batch, &batch);
}

static void cancel_batch(void* context) {
  struct batch* batch = context;
  for (uint32_t i = 0; i < batch->count; i++) cancel_channel(batch->channels[i]);
}

/* Nobody posts the tasks any more; those that were posted before have run when the call returns. */
void fb_partition_client_cancel(struct fb_partition_client* self, struct fb_remote_channel** channels, uint32_t count) {
  struct batch batch = {self, channels, count};

  for (uint32_t i = 0; i < count; i++) fb_remote_channel_end(channels[i]);
  fb_reactor_call(self->reactor, cancel_batch, &batch);
}

void fb_partition_client_leave(struct fb_partition_client* self, struct fb_remote_channel* channel) {
  fb_remote_channel_end(channel);
  fb_remote_channel_retain(channel); /* for the task, which drops it */
  channel->request.leaving.run = run_leaving;
  if (fb_reactor_post(self->reactor, &channel->request.leaving) < 0) fb_remote_channel_drop(channel);
}

/* ---- life ------------------------------------------------------------------------------------------- */

int fb_partition_client_open(struct fb_reactor* reactor, const struct fb_partition_client_options* options,
                             struct fb_partition_client** self) {
  struct fb_admission_options admission = {
      .secret = options->secret, .secret_size = options->secret_size, .timeout_ms = options->proof_timeout_ms};
  struct fb_partition_client* opened = calloc(1, sizeof(*opened));
  int code;

  *self = opened;
  if (opened == NULL) return FB_ENOMEM;
  atomic_init(&opened->references, 1);
  opened->reactor = reactor;
  opened->options = *options;
  opened->options.secret = NULL; /* the caller's */
  if (opened->options.connect_timeout_ms == 0) opened->options.connect_timeout_ms = 120000;
  code = fb_admission_open(reactor, &admission, &opened->admission);
  if (code < 0) {
    free(opened);
    *self = NULL;
    return code;
  }
  fb_reactor_retain(reactor);
  return FB_OK;
}

static void stop_client(void* context) {
  struct fb_partition_client* self = context;
  struct link* next;

  self->is_closed = true;
  for (struct link* at = self->links; at != NULL; at = next) {
    next = at->next;
    fail_all(at, FB_ERELEASED, CLOSED_TEXT);
    self->options.keeps_connections = false;
    end_if_unused(at);
  }
}

static void pass_client(void* context) { (void)context; }

static void cut_off(void* context) {
  struct fb_partition_client* self = context;

  for (struct link* at = self->links; at != NULL; at = at->next)
    if (at->connection != NULL) fb_connection_close(at->connection);
}

static bool has_links(struct fb_partition_client* self) {
  return atomic_load_explicit(&self->connection_count, memory_order_relaxed) > 0;
}

void fb_partition_client_close(struct fb_partition_client* self) {
  const struct timespec millisecond = {.tv_nsec = 1000000};

  if (self == NULL) return;
  /* What was said last leaves before the connections go; a peer that does not listen is not waited for. */
  fb_reactor_call(self->reactor, stop_client, self);
  for (int i = 0; i < LAST_WORDS_MS && has_links(self); i++) nanosleep(&millisecond, NULL);
  fb_reactor_call(self->reactor, cut_off, self);
  while (fb_reactor_call(self->reactor, pass_client, NULL) == FB_OK && has_links(self)) continue;
  fb_admission_close(self->admission);
  self->admission = NULL;
  fb_partition_client_drop(self);
}

void fb_partition_client_retain(struct fb_partition_client* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_partition_client_drop(struct fb_partition_client* self) {
  struct fb_reactor* reactor = self->reactor;

  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  free(self);
  fb_reactor_drop(reactor);
}

struct fb_reactor* fb_partition_client_reactor(const struct fb_partition_client* self) { return self->reactor; }

void fb_partition_client_get_counters(struct fb_partition_client* self, struct fb_partition_client_counters* counters) {
  counters->connections = atomic_load_explicit(&self->connection_count, memory_order_relaxed);
  counters->channels = atomic_load_explicit(&self->channel_count, memory_order_relaxed);
  counters->buffers = atomic_load_explicit(&self->buffer_count, memory_order_relaxed);
  counters->bytes = atomic_load_explicit(&self->byte_count, memory_order_relaxed);
}
