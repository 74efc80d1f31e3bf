/* Any bytes, cut in any way: the decoder gives the same frames, the same error at the same byte, and what it
 * gave is written again to the same bytes.
 *
 * Input: 1 byte n, n piece sizes of 1 byte (used in turn), then the stream. */
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz_replay.h"

/* What can be seen of a stream. */
struct outcome {
  int code;
  uint64_t frames;
  uint64_t hash;
  uint64_t offset;
  uint64_t rewritten; /* bytes of the stream that were written again and compared */
  char error[160];
};

static uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t size) {
  const uint8_t* at = bytes;
  for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

/* The head and the tail of a frame are where they were in the stream. */
static void compare(const struct fb_frame_decoder* decoder, const uint8_t* stream, struct outcome* outcome) {
  struct fb_frame frame = decoder->frame;
  const uint8_t* start = stream + decoder->frame_offset;
  size_t size = (size_t)(decoder->stream_offset - decoder->frame_offset);
  uint8_t head[FB_FRAME_HEAD_MAX], tail[FB_FRAME_TAIL_MAX];
  int head_size, tail_size;

  if (frame.id == FB_ERROR_RESPONSE &&
      fb_frame_split_error(&frame, start + FB_FRAME_HEADER_SIZE, size - FB_FRAME_HEADER_SIZE) < 0)
    return;
  CHECK(fb_frame_size(&frame) == size);
  head_size = fb_frame_write_head(&frame, head);
  tail_size = fb_frame_write_tail(&frame, tail);
  CHECK(head_size > 0 && tail_size >= 0);
  CHECK(memcmp(head, start, (size_t)head_size) == 0);
  CHECK(memcmp(tail, start + size - (size_t)tail_size, (size_t)tail_size) == 0);
  outcome->rewritten += size;
}

/* Gives one piece in a block of exactly its size, so that the sanitizer sees a read past either end. */
static void feed(struct fb_frame_decoder* decoder, const uint8_t* bytes, size_t size, const uint8_t* stream,
                 struct outcome* outcome) {
  uint8_t* piece = malloc(size > 0 ? size : 1);
  const uint8_t* data = piece;

  CHECK(piece != NULL);
  memcpy(piece, bytes, size);
  while ((outcome->code = fb_frame_decoder_next(decoder, &data, &size)) > 0) {
    if (outcome->code == FB_FRAME_PART) outcome->hash = hash_bytes(outcome->hash, &decoder->part_size, 4);
    if (outcome->code == FB_FRAME_BODY) {
      CHECK(decoder->size > 0 && decoder->offset + decoder->size <= decoder->frame.body_size);
      outcome->hash = hash_bytes(outcome->hash, decoder->bytes, decoder->size);
    }
    if (outcome->code == FB_FRAME_ENDS) {
      outcome->hash = hash_bytes(outcome->hash, &decoder->frame, sizeof decoder->frame);
      outcome->frames++;
      compare(decoder, stream, outcome);
    }
  }
  CHECK(outcome->code < 0 || size == 0);
  free(piece);
}

static struct outcome decode(const uint8_t* data, size_t size, const uint8_t* cuts, size_t cut_count) {
  struct fb_frame_limits limits = {.max_parts = 64, .max_error = 1 << 16};
  struct fb_frame_decoder decoder;
  struct outcome outcome = {0};
  const uint8_t* stream = data;

  fb_frame_decoder_open(&decoder, &limits);
  for (size_t turn = 0; size > 0 && outcome.code == FB_FRAME_NEEDS_INPUT; turn++) {
    size_t piece = cut_count > 0 ? cuts[turn % cut_count] : size;
    if (piece == 0 && turn % 2 == 1) piece = 1; /* empty pieces are allowed, but there must be an end */
    if (piece > size) piece = size;
    feed(&decoder, data, piece, stream, &outcome);
    data += piece;
    size -= piece;
  }
  outcome.offset = outcome.code < 0 ? decoder.frame_offset : decoder.stream_offset;
  memcpy(outcome.error, decoder.error, sizeof outcome.error);
  return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || data[0] > size - 1) return 0;

  const uint8_t* stream = data + 1 + data[0];
  size_t stream_size = size - 1 - data[0];
  struct outcome whole = decode(stream, stream_size, NULL, 0);
  struct outcome cut = decode(stream, stream_size, data + 1, data[0]);

  CHECK(whole.code == cut.code && whole.frames == cut.frames && whole.hash == cut.hash);
  CHECK(whole.offset == cut.offset && whole.rewritten == cut.rewritten);
  CHECK(strcmp(whole.error, cut.error) == 0);
  return 0;
}
