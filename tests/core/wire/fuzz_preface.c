/* Any bytes, cut in any way, before any peer: a preface takes them to the same end as uncut, says no more than it
 * may, and lets nobody in who does not know the secret.
 *
 * Input: 1 byte of flags (1: a server, else a client; 2: the hellos have been said), 1 byte n, n piece sizes of
 * 1 byte (used in turn), then the stream. */
#include "wire/preface.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz_replay.h"
#include "ground/errors.h"

static const uint8_t SECRET[16] = "0123456789abcdef";

struct outcome {
  int code;
  size_t taken, said;
  char error[FB_PREFACE_TEXT_MAX + 1];
};

/* Gives one piece in a block of exactly its size. Returns how much of it was taken. */
static size_t give(struct fb_preface* self, const uint8_t* bytes, size_t size, struct outcome* outcome) {
  uint8_t* piece = malloc(size > 0 ? size : 1);
  uint8_t* out = malloc(FB_PREFACE_OUT_MAX);
  const uint8_t* at = piece;
  size_t left = size, out_size;

  CHECK(piece != NULL && out != NULL);
  if (size > 0) memcpy(piece, bytes, size);
  outcome->code = fb_preface_take(self, &at, &left, out, &out_size);
  CHECK(out_size <= FB_PREFACE_OUT_MAX && left <= size && at == piece + (size - left));
  CHECK(outcome->code != 0 || left == 0);
  outcome->said += out_size;
  free(piece);
  free(out);
  return size - left;
}

static void run(struct fb_preface* self, const uint8_t* data, size_t size, const uint8_t* cuts, size_t cut_count,
                struct outcome* outcome) {
  memset(outcome, 0, sizeof *outcome);
  for (size_t turn = 0; size > 0 && outcome->code == 0; turn++) {
    size_t piece = cut_count > 0 ? cuts[turn % cut_count] : size;
    if (piece == 0 && turn % 2 == 1) piece = 1; /* empty pieces are allowed, but there must be an end */
    if (piece > size) piece = size;
    outcome->taken += give(self, data, piece, outcome);
    data += piece;
    size -= piece;
  }
  CHECK(strlen(self->error) <= FB_PREFACE_TEXT_MAX && (outcome->code < 0) == (self->error[0] != 0));
  for (const char* at = self->error; *at != 0; at++) CHECK(*at >= ' ' && *at <= '~');
  memcpy(outcome->error, self->error, sizeof self->error);
}

/* Brings `self` past the hellos. */
static void say_hello(struct fb_preface* self, struct outcome* outcome) {
  uint8_t mine[FB_PREFACE_OUT_MAX], theirs[FB_PREFACE_OUT_MAX];
  struct fb_preface peer;
  const uint8_t* at = mine;
  size_t said = fb_preface_start(self, mine), size;

  CHECK(fb_preface_open(&peer, SECRET, sizeof SECRET, !self->is_server) == FB_OK);
  size = fb_preface_start(&peer, theirs);
  if (peer.is_server) CHECK(fb_preface_take(&peer, &at, &said, theirs, &size) == 0);
  CHECK(size == FB_PREFACE_HELLO_SIZE && give(self, theirs, size, outcome) == size && outcome->code == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct outcome whole, cut, before = {0};
  struct fb_preface first, second;

  if (size < 2 || data[1] > size - 2) return 0;
  CHECK(fb_preface_open(&first, SECRET, sizeof SECRET, (data[0] & 1) != 0) == FB_OK);
  if (data[0] & 2) say_hello(&first, &before);
  second = first; /* with the same nonces */
  run(&first, data + 2 + data[1], size - 2 - data[1], NULL, 0, &whole);
  run(&second, data + 2 + data[1], size - 2 - data[1], data + 2, data[1], &cut);
  CHECK(whole.code == cut.code && whole.taken == cut.taken && whole.said == cut.said);
  CHECK(strcmp(whole.error, cut.error) == 0);
  /* A proof of the right secret over nonces that nobody could foresee. */
  CHECK(whole.code != 1);
  CHECK(whole.taken <= FB_PREFACE_HELLO_SIZE + FB_PREFACE_MESSAGE_MAX);
  return 0;
}
