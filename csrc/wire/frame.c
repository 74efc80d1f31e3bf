#include "wire/frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ground/byte_order.h"

enum stage { IN_HEADER = 0, IN_FIELDS, BEFORE_BODY, IN_PARTS, IN_BODY, IN_TAIL, AT_END };

/* What the id says of a frame's shape. */
struct shape {
  const char* name;
  uint8_t head_size; /* bytes */
  uint8_t tail_size; /* of an ERROR_RESPONSE: 0, the decoder leaves it in the body */
  bool has_body;
};

static const struct shape SHAPES[FB_FRAME_ID_COUNT] = {
    [FB_BUFFER_RESPONSE] = {"BufferResponse", FB_FRAME_RESPONSE_HEAD_SIZE, 0, true},
    [FB_ERROR_RESPONSE] = {"ErrorResponse", 9, 0, true},
    [FB_PARTITION_REQUEST] = {"PartitionRequest", 97, 0, false},
    [FB_TASK_EVENT_REQUEST] = {"TaskEventRequest", 13, 76, true},
    [FB_CANCEL_PARTITION_REQUEST] = {"CancelPartitionRequest", 25, 0, false},
    [FB_CLOSE_REQUEST] = {"CloseRequest", 9, 0, false},
    [FB_ADD_CREDIT] = {"AddCredit", 29, 0, false},
    [FB_RESUME_CONSUMPTION] = {"ResumeConsumption", 25, 0, false},
    [FB_ACK_ALL_USER_RECORDS_PROCESSED] = {"AckAllUserRecordsProcessed", 25, 0, false},
    [FB_BACKLOG_ANNOUNCEMENT] = {"BacklogAnnouncement", 29, 0, false},
    [FB_NEW_BUFFER_SIZE] = {"NewBufferSize", 29, 0, false},
    [FB_SEGMENT_ID] = {"SegmentId", 33, 0, false},
};

/* ---- rules that hold in both directions ------------------------------------------------------------ */

struct violation {
  const char* field; /* NULL: there is none */
  int64_t value;
  const char* rule;
};

#define REQUIRE(condition, field, value, rule)  \
  if (!(condition)) return (struct violation) { \
      field, value, rule                        \
    }

static struct violation violation_of(const struct fb_frame* self) {
  switch (self->id) {
    case FB_BUFFER_RESPONSE:
      REQUIRE(self->subpartition >= 0, "subpartition", self->subpartition, "at least 0");
      REQUIRE(self->backlog >= 0, "backlog", self->backlog, "at least 0");
      REQUIRE(self->data_type > FB_NONE && self->data_type < FB_DATA_TYPE_COUNT, "data type", self->data_type,
              "1 to 13");
      REQUIRE(self->part_count <= self->body_size, "number of parts", self->part_count, "at most the size of the body");
      break;
    case FB_PARTITION_REQUEST:
      REQUIRE(self->subpartition >= 0, "first subpartition", self->subpartition, "at least 0");
      REQUIRE(self->last_subpartition >= self->subpartition, "last subpartition", self->last_subpartition,
              "at least the first");
      REQUIRE(self->credit >= 0, "credit", self->credit, "at least 0");
      break;
    case FB_ADD_CREDIT: REQUIRE(self->credit > 0, "credit", self->credit, "at least 1"); break;
    case FB_BACKLOG_ANNOUNCEMENT: REQUIRE(self->backlog > 0, "backlog", self->backlog, "at least 1"); break;
    case FB_NEW_BUFFER_SIZE: REQUIRE(self->buffer_size > 0, "buffer size", self->buffer_size, "at least 1"); break;
    case FB_SEGMENT_ID:
      REQUIRE(self->subpartition >= 0, "subpartition", self->subpartition, "at least 0");
      REQUIRE(self->segment > 0, "segment", self->segment, "at least 1");
      break;
    default: break;
  }
  return (struct violation){0};
}

/* ---- writing --------------------------------------------------------------------------------------- */

static uint32_t tail_size(const struct fb_frame* self) {
  if (self->id == FB_ERROR_RESPONSE) return self->has_receiver ? 1 + FB_CHANNEL_ID_SIZE : 1;
  return SHAPES[self->id].tail_size;
}

uint64_t fb_frame_size(const struct fb_frame* self) {
  if (!SHAPES[self->id].has_body) return SHAPES[self->id].head_size;
  return SHAPES[self->id].head_size + 4 * (uint64_t)self->part_count + self->body_size + tail_size(self);
}

static uint8_t* put_i32(uint8_t* to, int32_t value) {
  fb_store_be32(to, (uint32_t)value);
  return to + 4;
}

static uint8_t* put_bytes(uint8_t* to, const uint8_t* from, size_t size) {
  memcpy(to, from, size);
  return to + size;
}

static uint8_t* put_response(const struct fb_frame* self, uint8_t* to) {
  to = put_bytes(to, self->receiver, FB_CHANNEL_ID_SIZE);
  to = put_i32(to, self->subpartition);
  to = put_i32(to, (int32_t)self->part_count);
  to = put_i32(to, self->sequence_number);
  to = put_i32(to, self->backlog);
  *to++ = self->data_type;
  *to++ = self->is_compressed;
  return put_i32(to, (int32_t)self->body_size);
}

static uint8_t* put_fields(const struct fb_frame* self, uint8_t* to) {
  switch (self->id) {
    case FB_BUFFER_RESPONSE: return put_response(self, to);
    case FB_ERROR_RESPONSE:
    case FB_CLOSE_REQUEST: return to;
    case FB_TASK_EVENT_REQUEST: return put_i32(to, (int32_t)self->body_size);
    case FB_PARTITION_REQUEST:
      to = put_bytes(to, self->partition, FB_PARTITION_ID_SIZE);
      to = put_i32(to, self->subpartition);
      to = put_i32(to, self->last_subpartition);
      to = put_bytes(to, self->receiver, FB_CHANNEL_ID_SIZE);
      return put_i32(to, self->credit);
    case FB_ADD_CREDIT: to = put_i32(to, self->credit); break;
    case FB_BACKLOG_ANNOUNCEMENT: to = put_i32(to, self->backlog); break;
    case FB_NEW_BUFFER_SIZE: to = put_i32(to, self->buffer_size); break;
    case FB_SEGMENT_ID: to = put_i32(put_i32(to, self->subpartition), self->segment); break;
    default: break;
  }
  return put_bytes(to, self->receiver, FB_CHANNEL_ID_SIZE);
}

int fb_frame_write_head(const struct fb_frame* self, uint8_t* to) {
  uint64_t size;
  uint8_t* end;

  if (self->id >= FB_FRAME_ID_COUNT || violation_of(self).field != NULL) return FB_EARGUMENT;
  if (self->id == FB_BUFFER_RESPONSE && self->body_size > INT32_MAX) return FB_EARGUMENT;
  size = fb_frame_size(self);
  if (size > INT32_MAX) return FB_EARGUMENT;
  fb_store_be32(to, (uint32_t)size);
  fb_store_be32(to + 4, FB_FRAME_MAGIC);
  to[8] = self->id;
  end = put_fields(self, to + FB_FRAME_HEADER_SIZE);
  return (int)(end - to);
}

int fb_frame_write_tail(const struct fb_frame* self, uint8_t* to) {
  if (self->id == FB_ERROR_RESPONSE) {
    to[0] = self->has_receiver;
    if (self->has_receiver) memcpy(to + 1, self->receiver, FB_CHANNEL_ID_SIZE);
  } else if (self->id == FB_TASK_EVENT_REQUEST) {
    put_bytes(put_bytes(to, self->partition, FB_PARTITION_ID_SIZE), self->receiver, FB_CHANNEL_ID_SIZE);
  } else {
    return 0;
  }
  return (int)tail_size(self);
}

/* ---- ids of channels ------------------------------------------------------------------------------- */

/* FNV-1a: each step is one-to-one, so a change of one byte always changes the sum. */
static uint32_t sum_of(const uint8_t* id) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < FB_CHANNEL_ID_SIZE - FB_CHANNEL_SEAL_SIZE; i++) sum = (sum ^ id[i]) * 16777619u;
  return sum;
}

void fb_frame_channel_id_seal(uint8_t* id) {
  fb_store_be32(id + FB_CHANNEL_ID_SIZE - FB_CHANNEL_SEAL_SIZE, sum_of(id));
}

bool fb_frame_channel_id_is_sealed(const uint8_t* id) {
  return fb_load_be32(id + FB_CHANNEL_ID_SIZE - FB_CHANNEL_SEAL_SIZE) == sum_of(id);
}

/* ---- decoding: one stage each ---------------------------------------------------------------------- */

static void enter_stage(struct fb_frame_decoder* self, enum stage stage, uint32_t wanted) {
  self->stage = (uint8_t)stage;
  self->wanted = (uint8_t)wanted;
  self->joined = 0;
}

void fb_frame_decoder_open(struct fb_frame_decoder* self, const struct fb_frame_limits* limits) {
  memset(self, 0, sizeof(*self));
  if (limits != NULL) self->limits = *limits;
  if (self->limits.accepted == 0) self->limits.accepted = FB_FRAMES_ALL;
  if (self->limits.max_data == 0) self->limits.max_data = INT32_MAX;
  if (self->limits.max_event == 0) self->limits.max_event = INT32_MAX;
  if (self->limits.max_error == 0) self->limits.max_error = INT32_MAX;
  if (self->limits.max_parts == 0) self->limits.max_parts = INT32_MAX;
  enter_stage(self, IN_HEADER, FB_FRAME_HEADER_SIZE);
}

__attribute__((format(printf, 3, 4))) static int refuse(struct fb_frame_decoder* self, int code, const char* format,
                                                        ...) {
  va_list values;
  int used = snprintf(self->error, sizeof self->error, "frame at byte %" PRIu64 " of the stream: ", self->frame_offset);

  va_start(values, format);
  vsnprintf(self->error + used, sizeof self->error - (size_t)used, format, values);
  va_end(values);
  self->failure = code;
  return code;
}

static int32_t get_i32(const uint8_t* from) { return (int32_t)fb_load_be32(from); }

static int take_frame_header(struct fb_frame_decoder* self, const uint8_t* from) {
  uint32_t length = fb_load_be32(from);
  uint32_t magic = fb_load_be32(from + 4);
  uint8_t id = from[8];
  const struct shape* shape;

  if (magic == FB_PREFACE_MAGIC)
    return refuse(self, FB_ECORRUPT,
                  "a proof of a shared secret instead of a Flink frame: only one side has NetworkConfig(auth=...)");
  if (fb_frame_is_tls(from) && magic != FB_FRAME_MAGIC)
    return refuse(self, FB_ECORRUPT, "TLS instead of a Flink frame: only one side has NetworkConfig(tls=...)");
  if (magic != FB_FRAME_MAGIC)
    return refuse(self, FB_ECORRUPT,
                  "starts with magic number 0x%08" PRIX32
                  " instead of 0x%08X; not a Flink peer, or the "
                  "stream is corrupted",
                  magic, FB_FRAME_MAGIC);
  if (id >= FB_FRAME_ID_COUNT) return refuse(self, FB_ECORRUPT, "unknown message id %u", id);
  if ((self->limits.accepted >> id & 1) == 0)
    return refuse(self, FB_ECORRUPT, "%s (id %u) does not travel in this direction", SHAPES[id].name, id);
  shape = &SHAPES[id];
  if (length > INT32_MAX || length < (uint32_t)shape->head_size + shape->tail_size ||
      (!shape->has_body && length != shape->head_size))
    return refuse(self, FB_ECORRUPT, "%s says it has %" PRId32 " bytes, expected %s%u", shape->name, (int32_t)length,
                  shape->has_body ? "at least " : "", shape->head_size + shape->tail_size);
  memset(&self->frame, 0, sizeof self->frame);
  self->frame.id = id;
  self->frame_size = length;
  enter_stage(self, IN_FIELDS, (uint32_t)shape->head_size - FB_FRAME_HEADER_SIZE);
  return FB_OK;
}

static void get_receiver(struct fb_frame* frame, const uint8_t* from) {
  memcpy(frame->receiver, from, FB_CHANNEL_ID_SIZE);
  frame->has_receiver = true;
}

static void get_response(struct fb_frame* frame, const uint8_t* from) {
  get_receiver(frame, from);
  frame->subpartition = get_i32(from + 16);
  frame->part_count = fb_load_be32(from + 20);
  frame->sequence_number = get_i32(from + 24);
  frame->backlog = get_i32(from + 28);
  frame->data_type = from[32];
  frame->is_compressed = from[33] != 0;
  frame->body_size = fb_load_be32(from + 34);
}

static void get_fields(struct fb_frame* frame, const uint8_t* from) {
  switch (frame->id) {
    case FB_BUFFER_RESPONSE: get_response(frame, from); return;
    case FB_ERROR_RESPONSE:
    case FB_CLOSE_REQUEST: return;
    case FB_TASK_EVENT_REQUEST: frame->body_size = fb_load_be32(from); return;
    case FB_PARTITION_REQUEST:
      memcpy(frame->partition, from, FB_PARTITION_ID_SIZE);
      frame->subpartition = get_i32(from + 60);
      frame->last_subpartition = get_i32(from + 64);
      get_receiver(frame, from + 68);
      frame->credit = get_i32(from + 84);
      return;
    case FB_ADD_CREDIT:
      frame->credit = get_i32(from);
      from += 4;
      break;
    case FB_BACKLOG_ANNOUNCEMENT:
      frame->backlog = get_i32(from);
      from += 4;
      break;
    case FB_NEW_BUFFER_SIZE:
      frame->buffer_size = get_i32(from);
      from += 4;
      break;
    case FB_SEGMENT_ID:
      frame->subpartition = get_i32(from);
      frame->segment = get_i32(from + 4);
      from += 8;
      break;
    default: break;
  }
  get_receiver(frame, from);
}

/* The body is as long as the frame's length leaves room for, and within its limit. */
static int check_body(struct fb_frame_decoder* self) {
  const struct fb_frame* frame = &self->frame;
  const char* name = SHAPES[frame->id].name;
  bool is_data = frame->id == FB_BUFFER_RESPONSE && fb_buffer_data_type_is_buffer(frame->data_type);
  uint32_t limit = is_data ? self->limits.max_data : self->limits.max_event;
  uint64_t size =
      SHAPES[frame->id].head_size + 4 * (uint64_t)frame->part_count + frame->body_size + SHAPES[frame->id].tail_size;

  if (frame->id == FB_ERROR_RESPONSE) limit = self->limits.max_error;
  if (frame->body_size > INT32_MAX || size != self->frame_size)
    return refuse(self, FB_ECORRUPT,
                  "%s of %" PRIu64 " bytes, but %" PRIu32 " parts and %" PRId32 " bytes of body make %" PRIu64, name,
                  self->frame_size, frame->part_count, (int32_t)frame->body_size, size);
  if (frame->body_size > limit)
    return refuse(self, FB_ETOO_LARGE, "%s with a body of %" PRIu32 " bytes, at most %" PRIu32 " are allowed here",
                  name, frame->body_size, limit);
  if (frame->part_count > self->limits.max_parts)
    return refuse(self, FB_ETOO_LARGE, "%s with %" PRIu32 " parts, at most %" PRIu32 " are allowed here", name,
                  frame->part_count, self->limits.max_parts);
  return FB_OK;
}

static int take_fields(struct fb_frame_decoder* self, const uint8_t* from) {
  struct fb_frame* frame = &self->frame;
  struct violation found;

  get_fields(frame, from);
  if (frame->id == FB_BUFFER_RESPONSE && from[33] > 1)
    return refuse(self, FB_ECORRUPT, "BufferResponse with compression flag %u, expected 0 or 1", from[33]);
  if (frame->id == FB_ERROR_RESPONSE) frame->body_size = (uint32_t)(self->frame_size - FB_FRAME_HEADER_SIZE);
  found = violation_of(frame);
  if (found.field != NULL)
    return refuse(self, FB_ECORRUPT, "%s with %s %" PRId64 ", expected %s", SHAPES[frame->id].name, found.field,
                  found.value, found.rule);
  if (!SHAPES[frame->id].has_body) {
    enter_stage(self, AT_END, 0);
    return FB_OK;
  }
  if (check_body(self) < 0) return self->failure;
  self->parts_left = frame->part_count;
  self->parts_sum = 0;
  enter_stage(self, BEFORE_BODY, 0);
  return FB_OK;
}

static void enter_body(struct fb_frame_decoder* self) {
  self->body_left = self->frame.body_size;
  enter_stage(self, IN_BODY, 0);
}

static int take_part(struct fb_frame_decoder* self, const uint8_t* from) {
  uint32_t size = fb_load_be32(from);
  uint32_t number = self->frame.part_count - self->parts_left;

  /* Each part has a byte at least, so what is left must do for those that follow. */
  self->parts_left--;
  if (size == 0 || size > self->frame.body_size - self->parts_sum - self->parts_left ||
      (self->parts_left == 0 && size != self->frame.body_size - self->parts_sum))
    return refuse(self, FB_ECORRUPT,
                  "BufferResponse whose part %" PRIu32 " of %" PRIu32 " has %" PRId32 " bytes; parts before it %" PRIu32
                  ", body %" PRIu32,
                  number, self->frame.part_count, (int32_t)size, self->parts_sum, self->frame.body_size);
  self->parts_sum += size;
  self->part_size = size;
  self->joined = 0;
  if (self->parts_left == 0) enter_body(self);
  return FB_FRAME_PART;
}

static void take_tail(struct fb_frame_decoder* self, const uint8_t* from) {
  memcpy(self->frame.partition, from, FB_PARTITION_ID_SIZE);
  get_receiver(&self->frame, from + FB_PARTITION_ID_SIZE);
  enter_stage(self, AT_END, 0);
}

/* ---- decoding: the machine ------------------------------------------------------------------------- */

/* The bytes the stage wants: in place if they came in one piece, else joined in `side`. NULL: not yet. */
static const uint8_t* join_header(struct fb_frame_decoder* self, const uint8_t** data, size_t* size) {
  size_t missing = (size_t)(self->wanted - self->joined);
  size_t taken = missing < *size ? missing : *size;
  const uint8_t* whole = self->side;

  if (missing == 0) return whole;
  if (self->joined == 0 && taken == missing) {
    whole = *data;
  } else if (taken > 0) {
    memcpy(self->side + self->joined, *data, taken);
  }
  self->joined = (uint8_t)(self->joined + taken);
  if (taken > 0) *data += taken;
  *size -= taken;
  self->stream_offset += taken;
  return taken == missing ? whole : NULL;
}

int fb_frame_decoder_took(struct fb_frame_decoder* self, uint32_t size) {
  if (size > self->body_left) return FB_EBOUNDS;
  self->body_left -= size;
  self->stream_offset += size;
  return FB_OK;
}

/* Gives the next range of the body, or moves past it. */
static int take_body(struct fb_frame_decoder* self, const uint8_t** data, size_t* size) {
  uint32_t taken = self->body_left < *size ? self->body_left : (uint32_t)*size;

  if (self->body_left == 0) {
    enter_stage(self, SHAPES[self->frame.id].tail_size > 0 ? IN_TAIL : AT_END, SHAPES[self->frame.id].tail_size);
    return FB_OK;
  }
  if (taken == 0) return FB_FRAME_NEEDS_INPUT;
  self->bytes = *data;
  self->size = taken;
  self->offset = self->frame.body_size - self->body_left;
  *data += taken;
  *size -= taken;
  fb_frame_decoder_took(self, taken);
  return FB_FRAME_BODY;
}

int fb_frame_decoder_next(struct fb_frame_decoder* self, const uint8_t** data, size_t* size) {
  const uint8_t* from;
  int code;

  while (self->failure == FB_OK) {
    switch ((enum stage)self->stage) {
      case IN_HEADER:
        if (self->joined == 0) self->frame_offset = self->stream_offset;
        if ((from = join_header(self, data, size)) == NULL) return FB_FRAME_NEEDS_INPUT;
        take_frame_header(self, from);
        break;
      case IN_FIELDS:
        if ((from = join_header(self, data, size)) == NULL) return FB_FRAME_NEEDS_INPUT;
        take_fields(self, from);
        break;
      case BEFORE_BODY:
        if (self->parts_left > 0) enter_stage(self, IN_PARTS, 4);
        else enter_body(self);
        return FB_FRAME_BODY_STARTS;
      case IN_PARTS:
        if ((from = join_header(self, data, size)) == NULL) return FB_FRAME_NEEDS_INPUT;
        return take_part(self, from);
      case IN_BODY:
        code = take_body(self, data, size);
        if (code != FB_OK || self->stage == IN_BODY) return code;
        break;
      case IN_TAIL:
        if ((from = join_header(self, data, size)) == NULL) return FB_FRAME_NEEDS_INPUT;
        take_tail(self, from);
        break;
      case AT_END: enter_stage(self, IN_HEADER, FB_FRAME_HEADER_SIZE); return FB_FRAME_ENDS;
    }
  }
  return self->failure;
}

int fb_frame_split_error(struct fb_frame* self, const uint8_t* body, size_t size) {
  const size_t with_receiver = 1 + FB_CHANNEL_ID_SIZE;
  const uint8_t end_of_throwable = 0x78;
  bool may_be_fatal = size >= 1 && body[size - 1] == 0;
  bool may_have_receiver = size >= with_receiver && body[size - with_receiver] == 1;

  if (may_be_fatal && may_have_receiver) {
    bool ends_here = size >= 2 && body[size - 2] == end_of_throwable;
    bool ends_before = size > with_receiver && body[size - with_receiver - 1] == end_of_throwable;
    may_have_receiver = ends_before || !ends_here;
  }
  if (!may_be_fatal && !may_have_receiver) return FB_ECORRUPT;
  self->has_receiver = may_have_receiver;
  memset(self->receiver, 0, sizeof self->receiver);
  if (may_have_receiver) memcpy(self->receiver, body + size - FB_CHANNEL_ID_SIZE, FB_CHANNEL_ID_SIZE);
  self->body_size = (uint32_t)(size - (may_have_receiver ? with_receiver : 1));
  return FB_OK;
}
