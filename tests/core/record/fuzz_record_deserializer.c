/* Any bytes, cut in any way: the deserializer gives the same records, the same error at the same place, and
 * reads nothing outside its buffers.
 *
 * Input: 1 byte of options, 1 byte n, n buffer sizes of 1 byte (used in turn), then the channel's stream. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz_replay.h"
#include "next_record.h"
#include "record/record_deserializer.h"

/* Spilling takes three bits together: it is far slower than memory, so few inputs shall do it. */
enum { HAS_SMALL_MAXIMUM = 2, IS_REPLAYED = 4, SPILLS = 0xe0 };

/* What can be seen of a parse. */
struct outcome {
  int code;
  uint64_t records;
  uint64_t hash;
  uint64_t offset;
  size_t pending;
};

static void open_deserializer(struct fb_record_deserializer* self, uint8_t options) {
  fb_record_deserializer_open(self, &(struct fb_record_deserializer_options){
                                        .spill_threshold = (options & SPILLS) == SPILLS ? 60 : INT32_MAX,
                                        .max_record_size = options & HAS_SMALL_MAXIMUM ? 200 : 0,
                                    });
}

static uint64_t hash_record(uint64_t hash, const uint8_t* record, size_t size) {
  hash = (hash ^ size) * 0x100000001b3u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ record[i]) * 0x100000001b3u;
  return hash;
}

/* Gives one buffer in a block of exactly its size, so that the sanitizer sees a read past either end. */
static int feed(struct fb_record_deserializer* self, const uint8_t* data, size_t size, struct outcome* outcome) {
  uint8_t* buffer = malloc(size);
  const uint8_t* record;
  size_t record_size;
  int code;

  CHECK(size == 0 || buffer != NULL);
  if (size > 0) memcpy(buffer, data, size);
  CHECK(fb_record_deserializer_set_next_buffer(self, buffer, size) == FB_OK);
  while ((code = next_record(self, &record, &record_size)) == FB_RECORD) {
    CHECK(record_size <= self->options.max_record_size);
    outcome->hash = hash_record(outcome->hash, record, record_size);
    outcome->records++;
  }
  CHECK(self->spanning_capacity <= 2 * self->accumulated + (64u << 10)); /* whatever was announced */
  if (code != FB_NEEDS_INPUT) {
    CHECK(code == FB_ECORRUPT || code == FB_ETOO_LARGE);
    CHECK(next_record(self, &record, &record_size) == code);
  }
  outcome->code = code;
  outcome->pending = fb_record_deserializer_pending(self);
  outcome->offset = fb_record_deserializer_offset(self);
  /* The block goes: nothing may point into it any more. After an error its rest is forgotten. */
  self->pos = self->end;
  free(buffer);
  return code;
}

/* Moves the state over to a new deserializer by replaying what is unconsumed. */
static void replay(struct fb_record_deserializer* self, uint8_t options, struct outcome* outcome) {
  struct fb_record_deserializer fresh;
  int64_t size = fb_record_deserializer_unconsumed(self, 0, NULL, 0);
  uint8_t* bytes = malloc((size_t)size + 1);

  CHECK(bytes != NULL && fb_record_deserializer_unconsumed(self, 0, bytes, (size_t)size) == size);
  open_deserializer(&fresh, options);
  fresh.stream_offset = self->stream_offset + self->buffer_size - (uint64_t)size;
  fresh.record_count = self->record_count;
  fresh.last_bytes = self->last_bytes;
  CHECK(feed(&fresh, bytes, (size_t)size, outcome) == FB_NEEDS_INPUT);
  fb_record_deserializer_close(self);
  *self = fresh;
  free(bytes);
}

static struct outcome parse(const uint8_t* data, size_t size, const uint8_t* cuts, size_t cut_count, uint8_t options) {
  struct fb_record_deserializer self;
  struct outcome outcome = {.code = FB_NEEDS_INPUT};

  open_deserializer(&self, options);
  for (size_t turn = 0; size > 0 && outcome.code == FB_NEEDS_INPUT; turn++) {
    size_t part = cut_count > 0 ? cuts[turn % cut_count] : size;
    if (part == 0 && turn % 2 == 1) part = 1; /* empty buffers are allowed, but there must be an end */
    if (part > size) part = size;
    if (feed(&self, data, part, &outcome) == FB_NEEDS_INPUT && options & IS_REPLAYED && turn % 8 == 0)
      replay(&self, options, &outcome);
    data += part;
    size -= part;
  }
  fb_record_deserializer_close(&self);
  return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || data[1] > size - 2) return 0;

  const uint8_t* stream = data + 2 + data[1];
  size_t stream_size = size - 2 - data[1];
  if (stream_size > 1000) stream_size = 1000; /* longer ones find nothing more, but slowly */
  struct outcome whole = parse(stream, stream_size, NULL, 0, data[0] & HAS_SMALL_MAXIMUM);
  struct outcome cut = parse(stream, stream_size, data + 2, data[1], data[0]);

  CHECK(whole.code == cut.code && whole.records == cut.records && whole.hash == cut.hash);
  CHECK(whole.offset == cut.offset && whole.pending == cut.pending);
  return 0;
}
