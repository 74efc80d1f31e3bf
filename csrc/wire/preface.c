#include "wire/preface.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ground/byte_order.h"
#include "ground/errors.h"
#include "ground/sha256.h"
#include "wire/frame.h"

enum kind { HELLO = 1, PROOF = 2, REFUSAL = 3 };
enum role { CLIENT = 1, SERVER = 2 };
enum stage { AT_HELLO, AT_PROOF, DONE };

#define NONCE_SIZE 32
#define START_SIZE 8 /* bytes that tell who speaks: length and magic */

static const char* const ROLES[] = {"client", "server"};
static const char* own_name(const struct fb_preface* self) { return ROLES[self->is_server]; }
static const char* peer_name(const struct fb_preface* self) { return ROLES[!self->is_server]; }

/* ---- writing --------------------------------------------------------------------------------------- */

static uint8_t* write_header(const struct fb_preface* self, enum kind kind, size_t size, uint8_t* to) {
  fb_store_be32(to, (uint32_t)size);
  fb_store_be32(to + 4, FB_PREFACE_MAGIC);
  to[8] = (uint8_t)kind;
  to[9] = self->is_server ? SERVER : CLIENT;
  fb_store_be16(to + 10, FB_PREFACE_VERSION);
  return to + FB_PREFACE_HEADER_SIZE;
}

static size_t write_hello(struct fb_preface* self, uint8_t* to) {
  fb_store_be32(self->mine + FB_PREFACE_HEADER_SIZE, self->offered);
  memcpy(to, self->mine, FB_PREFACE_HELLO_SIZE);
  return FB_PREFACE_HELLO_SIZE;
}

/* What whoever has the role `of` has to send. */
static void make_proof(const struct fb_preface* self, enum role of, uint8_t* proof) {
  static const char labels[][24] = {"flinkbuf preface client", "flinkbuf preface server"};
  struct fb_sha256_hmac hmac;

  fb_sha256_hmac_open(&hmac, self->secret, self->secret_size);
  fb_sha256_hmac_add(&hmac, labels[of == SERVER], sizeof labels[0]);
  fb_sha256_hmac_add(&hmac, self->is_server ? self->theirs : self->mine, FB_PREFACE_HELLO_SIZE);
  fb_sha256_hmac_add(&hmac, self->is_server ? self->mine : self->theirs, FB_PREFACE_HELLO_SIZE);
  fb_sha256_hmac_finish(&hmac, proof);
}

static size_t write_proof(const struct fb_preface* self, uint8_t* to) {
  make_proof(self, self->is_server ? SERVER : CLIENT, write_header(self, PROOF, FB_PREFACE_PROOF_SIZE, to));
  return FB_PREFACE_PROOF_SIZE;
}

/* ---- refusing -------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int fail(struct fb_preface* self, const char* format, ...) {
  va_list values;

  va_start(values, format);
  vsnprintf(self->error, sizeof self->error, format, values);
  va_end(values);
  self->failure = FB_ECORRUPT;
  return FB_ECORRUPT;
}

static size_t write_refusal(const struct fb_preface* self, uint8_t* to) {
  size_t size = strlen(self->error);

  if (!self->is_server || self->peer_speaks_flink || self->was_told) return 0;
  memcpy(write_header(self, REFUSAL, FB_PREFACE_HEADER_SIZE + size, to), self->error, size);
  return FB_PREFACE_HEADER_SIZE + size;
}

size_t fb_preface_refuse(struct fb_preface* self, const char* why, uint8_t* out) {
  fail(self, "%s", why);
  return write_refusal(self, out);
}

static int fail_tls(struct fb_preface* self) {
  return fail(self, "the %s speaks TLS and the %s does not: NetworkConfig(tls=...) must be set on both sides",
              peer_name(self), own_name(self));
}

size_t fb_preface_end(struct fb_preface* self, uint8_t* out) {
  if (self->failure != FB_OK || self->stage == DONE) return 0;
  if (self->joined >= 2 && fb_frame_is_tls(self->side)) fail_tls(self);
  else fail(self, "the %s closed the connection before it proved that it knows the shared secret", peer_name(self));
  return write_refusal(self, out);
}

/* ---- reading --------------------------------------------------------------------------------------- */

/* The first bytes of a message: whoever they are from. */
static int take_start(struct fb_preface* self) {
  const uint8_t* from = self->side;
  uint32_t magic = fb_load_be32(from + 4);

  if (magic == FB_PREFACE_MAGIC) {
    self->wanted = FB_PREFACE_HEADER_SIZE;
    return FB_OK;
  }
  self->peer_speaks_flink = magic == FB_FRAME_MAGIC;
  if (self->peer_speaks_flink)
    return fail(self,
                "the %s speaks plain Flink and the %s asks for proof of a shared secret: "
                "NetworkConfig(auth=...) must be set on both sides or on neither",
                peer_name(self), own_name(self));
  if (fb_frame_is_tls(from)) return fail_tls(self);
  return fail(self,
              "the %s sent %02x %02x %02x %02x %02x %02x %02x %02x where the preface of flinkbuf was due: "
              "another program speaks there",
              peer_name(self), from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]);
}

/* Nothing of the peer's is believed before its header is right; its refusal is heard whatever its version. */
static int take_preface_header(struct fb_preface* self) {
  uint32_t length = fb_load_be32(self->side);
  uint8_t kind = self->side[8], role = self->side[9];
  uint16_t version = fb_load_be16(self->side + 10);
  uint32_t due = self->stage == AT_HELLO ? FB_PREFACE_HELLO_SIZE : FB_PREFACE_PROOF_SIZE;

  if (role == (self->is_server ? SERVER : CLIENT))
    return fail(self, "the %s met a peer in its own role: two %ss, or its own bytes sent back", own_name(self),
                own_name(self));
  if (kind == REFUSAL && length > FB_PREFACE_HEADER_SIZE && length <= FB_PREFACE_MESSAGE_MAX) {
    self->wanted = length;
    return FB_OK;
  }
  if (version != FB_PREFACE_VERSION)
    return fail(self,
                "the %s speaks version %u of flinkbuf's preface, the %s version %u: both need the same "
                "release",
                peer_name(self), version, own_name(self), FB_PREFACE_VERSION);
  if (kind != (self->stage == AT_HELLO ? HELLO : PROOF) || length != due || role > SERVER || role < CLIENT)
    return fail(self, "the %s sent message %u of %u bytes in role %u where message %u of %u bytes was due",
                peer_name(self), kind, length, role, self->stage == AT_HELLO ? HELLO : PROOF, due);
  self->wanted = length;
  return FB_OK;
}

/* Another's words are shown, so they hold nothing but what can be shown. */
static int take_refusal(struct fb_preface* self) {
  size_t size = self->wanted - FB_PREFACE_HEADER_SIZE;
  const uint8_t* from = self->side + FB_PREFACE_HEADER_SIZE;

  for (size_t i = 0; i < size; i++) self->error[i] = from[i] >= ' ' && from[i] <= '~' ? (char)from[i] : '?';
  self->error[size] = 0;
  self->was_told = true;
  self->failure = FB_ECORRUPT;
  return FB_ECORRUPT;
}

static int take_hello(struct fb_preface* self, uint8_t* out, size_t* out_size) {
  memcpy(self->theirs, self->side, FB_PREFACE_HELLO_SIZE);
  *out_size += self->is_server ? write_hello(self, out + *out_size) : write_proof(self, out + *out_size);
  self->stage = AT_PROOF;
  return FB_OK;
}

static int take_proof(struct fb_preface* self, uint8_t* out, size_t* out_size) {
  uint8_t expected[FB_SHA256_SIZE];
  bool is_right;

  make_proof(self, self->is_server ? CLIENT : SERVER, expected);
  is_right = fb_sha256_is_equal(expected, self->side + FB_PREFACE_HEADER_SIZE, sizeof expected);
  fb_sha256_wipe(expected, sizeof expected); /* what would have been right is for nobody to see */
  if (!is_right)
    return fail(self, "the %s does not know the secret of the %s: NetworkConfig(auth=...) differs between them",
                peer_name(self), own_name(self));
  if (self->is_server) *out_size += write_proof(self, out + *out_size);
  self->features = self->offered & fb_load_be32(self->theirs + FB_PREFACE_HEADER_SIZE);
  self->stage = DONE;
  return FB_OK;
}

/* `wanted` bytes are there. */
static int take_joined(struct fb_preface* self, uint8_t* out, size_t* out_size) {
  if (self->wanted == START_SIZE) return take_start(self);
  if (self->wanted == FB_PREFACE_HEADER_SIZE) return take_preface_header(self);
  self->joined = 0;
  if (self->side[8] == REFUSAL) return take_refusal(self);
  self->wanted = START_SIZE;
  return self->stage == AT_HELLO ? take_hello(self, out, out_size) : take_proof(self, out, out_size);
}

int fb_preface_take(struct fb_preface* self, const uint8_t** data, size_t* size, uint8_t* out, size_t* out_size) {
  *out_size = 0;
  while (self->failure == FB_OK && self->stage != DONE && *size > 0) {
    size_t missing = self->wanted - self->joined;
    size_t taken = *size < missing ? *size : missing;

    memcpy(self->side + self->joined, *data, taken);
    self->joined += taken;
    *data += taken;
    *size -= taken;
    if (taken == missing && take_joined(self, out, out_size) < 0) *out_size += write_refusal(self, out + *out_size);
  }
  return self->failure < 0 ? self->failure : self->stage == DONE;
}

/* ---- life ------------------------------------------------------------------------------------------ */

int fb_preface_open(struct fb_preface* self, const uint8_t* secret, size_t size, bool is_server) {
  uint8_t* nonce;

  memset(self, 0, sizeof(*self));
  if (size < FB_PREFACE_MIN_SECRET) return FB_EARGUMENT;
  self->secret = secret;
  self->secret_size = size;
  self->is_server = is_server;
  self->offered = FB_PREFACE_FEATURES;
  self->wanted = START_SIZE;
  nonce = write_header(self, HELLO, FB_PREFACE_HELLO_SIZE, self->mine) + sizeof self->offered;
  return fb_sha256_random(nonce, NONCE_SIZE);
}

size_t fb_preface_start(struct fb_preface* self, uint8_t* out) { return self->is_server ? 0 : write_hello(self, out); }
