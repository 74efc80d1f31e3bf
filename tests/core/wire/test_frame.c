/* Every frame survives the way out and in, in one piece and cut anywhere; what is wrong is refused. */
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "golden.h"
#include "ground/byte_order.h"

#define BODY_MAX 64

/* A frame with its body: what a sender means, and what a receiver has got. */
struct message {
  struct fb_frame frame;
  uint32_t parts[8];
  uint32_t part_count;
  uint8_t body[BODY_MAX];
  uint32_t size;
};

static void fill_ids(struct fb_frame* frame) {
  for (int i = 0; i < FB_CHANNEL_ID_SIZE; i++) frame->receiver[i] = (uint8_t)(0xa0 + i);
  frame->has_receiver = true;
}

static void fill_partition(struct fb_frame* frame) {
  for (int i = 0; i < FB_PARTITION_ID_SIZE; i++) frame->partition[i] = (uint8_t)(3 * i + 1);
}

static struct message make(uint32_t id) {
  struct message made = {.frame = {.id = (uint8_t)id}};
  struct fb_frame* frame = &made.frame;

  if (id != FB_CLOSE_REQUEST) fill_ids(frame);
  switch (id) {
    case FB_BUFFER_RESPONSE:
      frame->data_type = FB_DATA_BUFFER;
      frame->is_compressed = true;
      frame->subpartition = 7;
      frame->sequence_number = -5;
      frame->backlog = INT32_MAX;
      frame->part_count = made.part_count = 3;
      memcpy(made.parts, (uint32_t[]){4, 1, 35}, 12);
      made.size = 40;
      break;
    case FB_PARTITION_REQUEST:
      frame->subpartition = 2;
      frame->last_subpartition = 9;
      fill_partition(frame);
      break;
    case FB_TASK_EVENT_REQUEST:
      fill_partition(frame);
      made.size = 21;
      break;
    case FB_ERROR_RESPONSE: made.size = 33; break;
    case FB_ADD_CREDIT: frame->credit = 12; break;
    case FB_BACKLOG_ANNOUNCEMENT: frame->backlog = 1; break;
    case FB_NEW_BUFFER_SIZE: frame->buffer_size = 4096; break;
    case FB_SEGMENT_ID:
      frame->segment = 1;
      frame->subpartition = 0;
      break;
    default: break;
  }
  for (uint32_t i = 0; i < made.size; i++) made.body[i] = (uint8_t)(i * 31 + 7);
  frame->body_size = made.size;
  return made;
}

static size_t write_message(const struct message* self, uint8_t* to) {
  int head = fb_frame_write_head(&self->frame, to);
  uint8_t* end = to + head;

  CHECK(head >= FB_FRAME_HEADER_SIZE && head <= FB_FRAME_HEAD_MAX);
  for (uint32_t i = 0; i < self->part_count; i++, end += 4) fb_store_be32(end, self->parts[i]);
  memcpy(end, self->body, self->size);
  end += self->size;
  end += fb_frame_write_tail(&self->frame, end);
  CHECK((uint64_t)(end - to) == fb_frame_size(&self->frame));
  CHECK((uint64_t)(end - to) == fb_load_be32(to));
  return (size_t)(end - to);
}

/* Takes one step into `got`. */
static int step(struct fb_frame_decoder* decoder, const uint8_t** data, size_t* size, struct message* got) {
  int code = fb_frame_decoder_next(decoder, data, size);

  if (code == FB_FRAME_BODY_STARTS) CHECK(decoder->frame.body_size <= BODY_MAX);
  if (code == FB_FRAME_PART) got->parts[got->part_count++] = decoder->part_size;
  if (code == FB_FRAME_BODY) {
    CHECK(decoder->offset == got->size && decoder->size <= BODY_MAX - got->size);
    memcpy(got->body + got->size, decoder->bytes, decoder->size);
    got->size += decoder->size;
  }
  if (code == FB_FRAME_ENDS) {
    got->frame = decoder->frame;
    if (got->frame.id == FB_ERROR_RESPONSE) {
      CHECK(fb_frame_split_error(&got->frame, got->body, got->size) == FB_OK);
      memset(got->body + got->frame.body_size, 0, got->size - got->frame.body_size);
      got->size = got->frame.body_size;
    }
  }
  return code;
}

/* Each piece lies in a block of its own, so that the sanitizer sees a read past its end. */
static bool give(struct fb_frame_decoder* decoder, const uint8_t* bytes, size_t size, struct message* got) {
  uint8_t* piece = malloc(size + 1);
  const uint8_t* data = piece + 1;
  bool has_ended = false;
  int code;

  CHECK(piece != NULL);
  memcpy(piece + 1, bytes, size);
  while ((code = step(decoder, &data, &size, got)) != FB_FRAME_NEEDS_INPUT) {
    CHECK(code > 0);
    if (code == FB_FRAME_ENDS) has_ended = true;
  }
  CHECK(size == 0);
  free(piece);
  return has_ended;
}

static bool is_between(const struct fb_frame_decoder* decoder) {
  return decoder->stage == 0 && decoder->joined == 0 && decoder->failure == FB_OK;
}

static void check_same(const struct message* left, const struct message* right) {
  CHECK(memcmp(&left->frame, &right->frame, sizeof left->frame) == 0);
  CHECK(left->part_count == right->part_count && left->size == right->size);
  CHECK(memcmp(left->parts, right->parts, 4 * left->part_count) == 0);
  CHECK(memcmp(left->body, right->body, left->size) == 0);
}

static void every_frame_survives_being_cut_at_any_two_places(void) {
  for (uint32_t id = 0; id < FB_FRAME_ID_COUNT; id++) {
    struct message sent = make(id);
    uint8_t wire[512];
    size_t size = write_message(&sent, wire);

    for (size_t first = 0; first <= size; first++) {
      for (size_t second = first; second <= size; second++) {
        struct fb_frame_decoder decoder;
        struct message got = {0};

        fb_frame_decoder_open(&decoder, NULL);
        CHECK(!give(&decoder, wire, first, &got) || first == size);
        CHECK(is_between(&decoder) == (first == 0 || first == size));
        if (!give(&decoder, wire + first, second - first, &got)) CHECK(second < size || first == size);
        if (second < size) CHECK(give(&decoder, wire + second, size - second, &got));
        check_same(&got, &sent);
        CHECK(is_between(&decoder) && decoder.stream_offset == size);
      }
    }
  }
}

static void frames_in_a_row_are_told_apart(void) {
  struct fb_frame_decoder decoder;
  uint8_t wire[8192];
  size_t size = 0;
  const uint8_t* data = wire;
  uint32_t id = 0;

  for (uint32_t i = 0; i < 2 * FB_FRAME_ID_COUNT; i++) {
    struct message sent = make(i % FB_FRAME_ID_COUNT);
    size += write_message(&sent, wire + size);
  }
  fb_frame_decoder_open(&decoder, NULL);
  for (;; id++) {
    struct message sent = make(id % FB_FRAME_ID_COUNT), got = {0};
    int code;

    while ((code = step(&decoder, &data, &size, &got)) > 0 && code != FB_FRAME_ENDS) continue;
    if (code == FB_FRAME_NEEDS_INPUT) break;
    check_same(&got, &sent);
  }
  CHECK(id == 2 * FB_FRAME_ID_COUNT && size == 0);
}

static void a_body_may_arrive_without_the_decoder(void) {
  enum fb_frame_id ids[] = {FB_BUFFER_RESPONSE, FB_TASK_EVENT_REQUEST};

  for (int i = 0; i < 2; i++) {
    struct message sent = make(ids[i]);
    uint8_t wire[512];
    size_t size = write_message(&sent, wire);
    size_t before = size - sent.size - (ids[i] == FB_TASK_EVENT_REQUEST ? 76 : 0);
    struct fb_frame_decoder decoder;
    struct message got = {0};
    const uint8_t* data = wire;

    fb_frame_decoder_open(&decoder, NULL);
    CHECK(!give(&decoder, wire, before, &got));
    CHECK(fb_frame_decoder_body_left(&decoder) == sent.size);
    CHECK(fb_frame_decoder_took(&decoder, 5) == FB_OK);
    got.size += 5;
    CHECK(!give(&decoder, wire + before + 5, 2, &got) && decoder.offset == 5);
    CHECK(fb_frame_decoder_took(&decoder, sent.size - 6) == FB_EBOUNDS);
    CHECK(fb_frame_decoder_took(&decoder, sent.size - 7) == FB_OK);
    CHECK(fb_frame_decoder_body_left(&decoder) == 0);
    data = wire + before + sent.size;
    size -= before + sent.size;
    CHECK(step(&decoder, &data, &size, &got) == FB_FRAME_ENDS);
    CHECK(memcmp(&got.frame, &sent.frame, sizeof got.frame) == 0);
    CHECK(decoder.stream_offset == fb_load_be32(wire));
  }
}

/* Decodes `wire` with the given limits; the stream must be refused with `code`, saying `text`. */
static void check_refused(const uint8_t* wire, size_t size, const struct fb_frame_limits* limits, int code,
                          const char* text) {
  struct fb_frame_decoder decoder;
  int found;

  fb_frame_decoder_open(&decoder, limits);
  while ((found = fb_frame_decoder_next(&decoder, &wire, &size)) > 0) CHECK(found != FB_FRAME_ENDS);
  CHECK(found == code);
  if (strstr(decoder.error, text) == NULL) fprintf(stderr, "got: %s\nexpected: %s\n", decoder.error, text);
  CHECK(strstr(decoder.error, text) != NULL);
  CHECK(strncmp(decoder.error, "frame at byte 0 of the stream: ", 31) == 0);
  CHECK(fb_frame_decoder_next(&decoder, &wire, &size) == code && !is_between(&decoder));
}

static void patched_i32(enum fb_frame_id id, size_t at, int32_t value, const char* text) {
  struct message sent = make(id);
  uint8_t wire[512];
  size_t size = write_message(&sent, wire);

  fb_store_be32(wire + at, (uint32_t)value);
  check_refused(wire, size, NULL, FB_ECORRUPT, text);
}

static void patched_u8(enum fb_frame_id id, size_t at, uint8_t value, const char* text) {
  struct message sent = make(id);
  uint8_t wire[512];
  size_t size = write_message(&sent, wire);

  wire[at] = value;
  check_refused(wire, size, NULL, FB_ECORRUPT, text);
}

static void wrong_values_are_refused_by_name(void) {
  patched_i32(FB_ADD_CREDIT, 4, 0x0badcafe, "magic number 0x0BADCAFE instead of 0xBADC0FFE");
  patched_u8(FB_ADD_CREDIT, 8, 12, "unknown message id 12");
  patched_u8(FB_ADD_CREDIT, 8, 255, "unknown message id 255");
  patched_i32(FB_ADD_CREDIT, 0, 28, "AddCredit says it has 28 bytes, expected 29");
  patched_i32(FB_ADD_CREDIT, 0, -1, "AddCredit says it has -1 bytes, expected 29");
  patched_i32(FB_TASK_EVENT_REQUEST, 0, 88, "TaskEventRequest says it has 88 bytes, expected at least 89");
  patched_i32(FB_ADD_CREDIT, 9, 0, "AddCredit with credit 0, expected at least 1");
  patched_i32(FB_ADD_CREDIT, 9, -3, "AddCredit with credit -3");
  patched_i32(FB_BACKLOG_ANNOUNCEMENT, 9, 0, "BacklogAnnouncement with backlog 0");
  patched_i32(FB_NEW_BUFFER_SIZE, 9, 0, "NewBufferSize with buffer size 0");
  patched_i32(FB_SEGMENT_ID, 9, -1, "SegmentId with subpartition -1");
  patched_i32(FB_SEGMENT_ID, 13, 0, "SegmentId with segment 0");
  patched_i32(FB_PARTITION_REQUEST, 69, -1, "PartitionRequest with first subpartition -1");
  patched_i32(FB_PARTITION_REQUEST, 73, 1, "last subpartition 1, expected at least the first");
  patched_i32(FB_PARTITION_REQUEST, 93, -1, "PartitionRequest with credit -1");
  patched_i32(FB_BUFFER_RESPONSE, 25, -7, "BufferResponse with subpartition -7");
  patched_i32(FB_BUFFER_RESPONSE, 37, -1, "BufferResponse with backlog -1");
  patched_u8(FB_BUFFER_RESPONSE, 41, 0, "BufferResponse with data type 0, expected 1 to 13");
  patched_u8(FB_BUFFER_RESPONSE, 41, 14, "BufferResponse with data type 14");
  patched_u8(FB_BUFFER_RESPONSE, 42, 2, "compression flag 2");
  patched_i32(FB_BUFFER_RESPONSE, 43, 39, "3 parts and 39 bytes of body make 98");
  patched_i32(FB_BUFFER_RESPONSE, 43, -1, "3 parts and -1 bytes of body");
  patched_i32(FB_BUFFER_RESPONSE, 29, 41, "number of parts 41, expected at most the size of the body");
  patched_i32(FB_BUFFER_RESPONSE, 29, -1, "number of parts 4294967295");
  patched_i32(FB_BUFFER_RESPONSE, 29, 4, "4 parts and 40 bytes of body make 103");
  patched_i32(FB_BUFFER_RESPONSE, 47, 0, "part 0 of 3 has 0 bytes");
  patched_i32(FB_BUFFER_RESPONSE, 47, 39, "part 0 of 3 has 39 bytes");
  patched_i32(FB_BUFFER_RESPONSE, 51, -1, "part 1 of 3 has -1 bytes; parts before it 4, body 40");
  patched_i32(FB_BUFFER_RESPONSE, 55, 34, "part 2 of 3 has 34 bytes; parts before it 5, body 40");
  patched_i32(FB_TASK_EVENT_REQUEST, 9, 22, "TaskEventRequest of 110 bytes");
}

static void limits_are_checked_before_the_bytes_come(void) {
  struct message data = make(FB_BUFFER_RESPONSE), event = data, error = make(FB_ERROR_RESPONSE);
  uint8_t wire[512];

  write_message(&data, wire);
  check_refused(wire, FB_FRAME_RESPONSE_HEAD_SIZE, &(struct fb_frame_limits){.max_data = 39}, FB_ETOO_LARGE,
                "BufferResponse with a body of 40 bytes, at most 39 are allowed here");
  check_refused(wire, FB_FRAME_RESPONSE_HEAD_SIZE, &(struct fb_frame_limits){.max_parts = 2}, FB_ETOO_LARGE,
                "BufferResponse with 3 parts, at most 2");
  check_refused(wire, FB_FRAME_HEADER_SIZE, &(struct fb_frame_limits){.accepted = FB_FRAMES_OF_CLIENTS}, FB_ECORRUPT,
                "BufferResponse (id 0) does not travel in this direction");
  event.frame.data_type = FB_EVENT_BUFFER;
  write_message(&event, wire);
  check_refused(wire, FB_FRAME_RESPONSE_HEAD_SIZE, &(struct fb_frame_limits){.max_event = 39}, FB_ETOO_LARGE,
                "BufferResponse with a body of 40 bytes");
  write_message(&error, wire);
  check_refused(wire, FB_FRAME_HEADER_SIZE, &(struct fb_frame_limits){.max_error = 32}, FB_ETOO_LARGE,
                "ErrorResponse with a body of 50 bytes, at most 32 are allowed here");
}

static void an_error_names_the_byte_where_its_frame_started(void) {
  struct message good = make(FB_PARTITION_REQUEST);
  struct fb_frame_decoder decoder;
  uint8_t wire[512];
  size_t size = write_message(&good, wire);
  const uint8_t* data = wire;

  memset(wire + size, 0, 9);
  size += 9;
  fb_frame_decoder_open(&decoder, NULL);
  CHECK(fb_frame_decoder_next(&decoder, &data, &size) == FB_FRAME_ENDS);
  CHECK(fb_frame_decoder_next(&decoder, &data, &size) == FB_ECORRUPT);
  CHECK(strncmp(decoder.error, "frame at byte 97 of the stream: ", 32) == 0);
}

static void a_frame_that_nobody_could_read_is_not_written(void) {
  uint8_t wire[FB_FRAME_HEAD_MAX];
  struct fb_frame frame;

  frame = make(FB_ADD_CREDIT).frame, frame.credit = 0;
  CHECK(fb_frame_write_head(&frame, wire) == FB_EARGUMENT);
  frame = make(FB_BUFFER_RESPONSE).frame, frame.data_type = FB_NONE;
  CHECK(fb_frame_write_head(&frame, wire) == FB_EARGUMENT);
  frame = make(FB_BUFFER_RESPONSE).frame, frame.body_size = INT32_MAX;
  CHECK(fb_frame_write_head(&frame, wire) == FB_EARGUMENT);
  frame = make(FB_TASK_EVENT_REQUEST).frame, frame.body_size = UINT32_MAX;
  CHECK(fb_frame_write_head(&frame, wire) == FB_EARGUMENT);
  frame.id = FB_FRAME_ID_COUNT;
  CHECK(fb_frame_write_head(&frame, wire) == FB_EARGUMENT);
}

/* A cause whose last bytes are `cause`, with the tail as written: both readings may be possible. */
static void check_split(const char* cause, size_t cause_size, const char* receiver) {
  struct fb_frame sent = {.id = FB_ERROR_RESPONSE, .has_receiver = receiver != NULL}, got = {0};
  uint8_t bytes[64];
  size_t size = cause_size;

  memcpy(bytes, cause, cause_size);
  if (receiver != NULL) memcpy(sent.receiver, receiver, FB_CHANNEL_ID_SIZE);
  size += (size_t)fb_frame_write_tail(&sent, bytes + size);
  CHECK(fb_frame_split_error(&got, bytes, size) == FB_OK);
  CHECK(got.has_receiver == sent.has_receiver && got.body_size == cause_size);
  CHECK(memcmp(got.receiver, sent.receiver, FB_CHANNEL_ID_SIZE) == 0);
}

static void the_cause_of_an_error_is_split_from_its_tail(void) {
  static const char one_where_a_flag_could_be[] = "__\1______________x";
  struct fb_frame frame = {.id = FB_ERROR_RESPONSE};

  check_split("xx", 2, NULL);
  check_split("x_______________________x", 25, NULL);
  check_split(one_where_a_flag_could_be, 18, NULL);
  check_split("__x", 3, "0123456789abcdef");
  check_split("__x", 3, "0123456789abcde\0");
  check_split("___", 3, "0123456789abcde\0"); /* a class with fields of its own */
  check_split("__x", 3, "0123456789abcdx\0");
  CHECK(fb_frame_split_error(&frame, (const uint8_t*)"", 0) == FB_ECORRUPT);
  CHECK(fb_frame_split_error(&frame, (const uint8_t*)"xxxx", 4) == FB_ECORRUPT);
}

static void a_change_of_any_one_byte_breaks_the_seal_of_an_id(void) {
  uint8_t id[FB_CHANNEL_ID_SIZE] = "an id, at random";

  CHECK(!fb_frame_channel_id_is_sealed(id));
  fb_frame_channel_id_seal(id);
  CHECK(fb_frame_channel_id_is_sealed(id) && memcmp(id, "an id, at ra", 12) == 0);
  for (size_t i = 0; i < sizeof id; i++) {
    for (int change = 1; change < 256; change++) {
      id[i] ^= (uint8_t)change;
      CHECK(!fb_frame_channel_id_is_sealed(id));
      id[i] ^= (uint8_t)change;
    }
  }
}

/* ---- what Flink wrote: tests/golden ------------------------------------------------------------------- */

static char line[1 << 18];
/* Flink's names, by id. */
static const char* const NAMES[FB_FRAME_ID_COUNT] = {
    "BufferResponse", "ErrorResponse", "PartitionRequest",  "TaskEventRequest",           "CancelPartitionRequest",
    "CloseRequest",   "AddCredit",     "ResumeConsumption", "AckAllUserRecordsProcessed", "BacklogAnnouncement",
    "NewBufferSize",  "SegmentId"};

static void check_fields(const struct fb_frame* frame, const uint8_t* body) {
  uint8_t expected[1 << 16];

  CHECK(frame->subpartition == golden_number(line, "subpartition_id") + golden_number(line, "start_index"));
  CHECK(frame->last_subpartition == golden_number(line, "end_index"));
  CHECK(frame->sequence_number == golden_number(line, "sequence_number"));
  CHECK(frame->backlog == golden_number(line, "backlog") && frame->credit == golden_number(line, "credit"));
  CHECK(frame->buffer_size == golden_number(line, "buffer_size") &&
        frame->segment == golden_number(line, "segment_id"));
  CHECK(frame->data_type == golden_number(line, "data_type_ordinal"));
  CHECK(frame->is_compressed == golden_number(line, "is_compressed"));
  CHECK(frame->part_count == (uint32_t)golden_number(line, "num_partial_buffers"));
  CHECK(frame->has_receiver == (golden_value(line, "receiver_id") != NULL));
  if (frame->has_receiver)
    CHECK(golden_bytes(golden_value(line, "receiver_id"), expected, sizeof expected) == 16 &&
          memcmp(frame->receiver, expected, 16) == 0);
  if (golden_value(line, "partition_id") != NULL && frame->id != FB_ERROR_RESPONSE) /* that one is in the cause */
    CHECK(golden_bytes(golden_value(line, "partition_id"), expected, sizeof expected) == 60 &&
          memcmp(frame->partition, expected, 60) == 0);
  if (golden_value(line, "payload") != NULL) {
    CHECK(golden_bytes(golden_value(line, "payload"), expected, sizeof expected) == frame->body_size);
    CHECK(memcmp(body, expected, frame->body_size) == 0);
  }
}

/* The frame of a line is understood to its end, and its head and tail are written as they were. */
static uint8_t check_golden(bool has_fields) {
  static uint8_t wire[1 << 17];
  size_t size = golden_bytes(golden_value(line, "hex"), wire, sizeof wire), left = size;
  const uint8_t* data = wire;
  uint8_t head[FB_FRAME_HEAD_MAX], tail[FB_FRAME_TAIL_MAX];
  struct fb_frame_decoder decoder;
  struct fb_frame frame;
  uint32_t head_size, tail_size, parts = 0;
  int code;

  fb_frame_decoder_open(&decoder, NULL);
  while ((code = fb_frame_decoder_next(&decoder, &data, &left)) != FB_FRAME_ENDS) {
    CHECK(code > 0);
    if (code == FB_FRAME_PART) {
      CHECK(decoder.part_size == fb_load_be32(wire + FB_FRAME_RESPONSE_HEAD_SIZE + 4 * parts));
      parts++;
    }
  }
  CHECK(left == 0 && parts == decoder.frame.part_count);
  frame = decoder.frame;
  if (frame.id == FB_ERROR_RESPONSE) CHECK(fb_frame_split_error(&frame, wire + 9, size - 9) == FB_OK);
  CHECK(strncmp(golden_value(line, "message"), NAMES[frame.id], strlen(NAMES[frame.id])) == 0);
  head_size = (uint32_t)fb_frame_write_head(&frame, head);
  tail_size = (uint32_t)fb_frame_write_tail(&frame, tail);
  CHECK(head_size <= sizeof head && memcmp(head, wire, head_size) == 0);
  CHECK(head_size + 4 * parts + frame.body_size + tail_size == size);
  CHECK(memcmp(tail, wire + size - tail_size, tail_size) == 0);
  if (has_fields) check_fields(&frame, wire + head_size + 4 * parts);
  return frame.id;
}

static void frames_of_flink_are_understood_and_written_again(void) {
  FILE* golden = open_golden("netty_frames/netty_frames.json");
  uint32_t seen = 0, count = 0;

  while (fgets(line, sizeof line, golden) != NULL)
    if (golden_value(line, "hex") != NULL) seen |= 1u << check_golden(true), count++;
  CHECK(seen == FB_FRAMES_ALL && count == 73);
  fclose(golden);
}

static void conversations_of_flink_are_understood_and_written_again(void) {
  static const char* const KINDS[] = {"blocking_lz4", "credit", "early_stop", "pipelined"};
  uint32_t seen = 0;

  for (int i = 0; i < 4; i++) {
    char name[64];
    FILE* golden;

    snprintf(name, sizeof name, "conversations/conversation_%s.json", KINDS[i]);
    golden = open_golden(name);
    while (fgets(line, sizeof line, golden) != NULL)
      if (golden_value(line, "hex") != NULL) seen |= 1u << check_golden(false);
    fclose(golden);
  }
  CHECK((seen & 1u << FB_BUFFER_RESPONSE) != 0 && (seen & 1u << FB_ADD_CREDIT) != 0);
}

int main(void) {
  frames_of_flink_are_understood_and_written_again();
  conversations_of_flink_are_understood_and_written_again();
  a_change_of_any_one_byte_breaks_the_seal_of_an_id();
  every_frame_survives_being_cut_at_any_two_places();
  frames_in_a_row_are_told_apart();
  a_body_may_arrive_without_the_decoder();
  wrong_values_are_refused_by_name();
  limits_are_checked_before_the_bytes_come();
  an_error_names_the_byte_where_its_frame_started();
  a_frame_that_nobody_could_read_is_not_written();
  the_cause_of_an_error_is_split_from_its_tail();
  return 0;
}
