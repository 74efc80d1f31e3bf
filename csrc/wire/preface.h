/* The preface: what two flinkbuf processes say before the first Flink frame, to prove that both know a secret.
 *
 *   client                                      server
 *   HELLO  nonce of 32 bytes            ->
 *                                       <-      HELLO  another nonce
 *   PROOF  HMAC(secret, "client", both) ->      checked; only then
 *                                       <-      PROOF  HMAC(secret, "server", both)
 *   checked; frames                     ->
 *
 * The client proves first: before that a stranger learns the preface's version and a random number, and nothing
 * that was made with the secret; in return a client that dials an impostor hands it one proof, from which a
 * short secret could be guessed at leisure. So secrets are random, 16 bytes or more. "both" are the two HELLOs
 * whole, so a proof also vouches for versions, features and roles: one that is recorded fails against the other
 * side's fresh nonce, one that is sent back fails by its label. The preface says who is there, once. It hides
 * nothing and does not bind what follows to it: where others can rewrite the network's bytes, use TLS below it.
 *
 * A message is a header of 12 bytes, the same in every version for ever, and its content:
 *   length int32 of all, magic int32 FB_PREFACE_MAGIC, kind int8, role int8 (1 client, 2 server), version int16
 *   HELLO 1: features int32, nonce 32    PROOF 2: 32 bytes    REFUSAL 3: up to 200 bytes of text, ASCII
 * Length and magic lie where a Flink frame has them, so either side of a mismatch sees what it met. A server that
 * refuses says why in a REFUSAL; a client just goes. To a peer that speaks plain Flink nothing is written here.
 *
 * Owner:   the secret is borrowed while bytes are given; nothing is allocated, there is no close.
 * Threads: none of its own; no input or output.
 * Bytes:   numbers are big-endian. */
#ifndef FB_PREFACE_H
#define FB_PREFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FB_PREFACE_VERSION     1
#define FB_PREFACE_MIN_SECRET  16 /* bytes */
#define FB_PREFACE_HEADER_SIZE 12
#define FB_PREFACE_HELLO_SIZE  48
#define FB_PREFACE_PROOF_SIZE  44
#define FB_PREFACE_TEXT_MAX    200 /* bytes of a refusal's text */
#define FB_PREFACE_MESSAGE_MAX (FB_PREFACE_HEADER_SIZE + FB_PREFACE_TEXT_MAX)
#define FB_PREFACE_OUT_MAX     (FB_PREFACE_HELLO_SIZE + FB_PREFACE_MESSAGE_MAX) /* bytes of one answer, at most */

/* What a connection may do beyond Flink's frames. None yet: what both offer holds, unknown bits do not. */
#define FB_PREFACE_FEATURES 0u

struct fb_preface {
  uint32_t offered;  /* feature bits; may be changed between open() and the first byte */
  uint32_t features; /* when done: what both offer */
  bool is_server;
  bool peer_speaks_flink; /* refused because of that: say why in its language */
  bool was_told;          /* refused by the peer: `error` holds its words */
  /* Its own. */
  uint8_t stage;
  int failure; /* code of the first error, which stays */
  const uint8_t* secret;
  size_t secret_size;
  size_t joined; /* bytes in `side` */
  size_t wanted; /* bytes that are joined before they are looked at */
  uint8_t mine[FB_PREFACE_HELLO_SIZE], theirs[FB_PREFACE_HELLO_SIZE];
  uint8_t side[FB_PREFACE_MESSAGE_MAX];
  char error[FB_PREFACE_TEXT_MAX + 1]; /* why it was refused; never holds secrets */
};

/* FB_EARGUMENT: a secret of less than 16 bytes. FB_EIO: the system gave no random bytes. */
int fb_preface_open(struct fb_preface* self, const uint8_t* secret, size_t size, bool is_server);
/* Writes what is said without being asked: a client's HELLO. Returns its size, 0 for a server. */
size_t fb_preface_start(struct fb_preface* self, uint8_t* out);

/* Takes bytes from the front of [*data, *data + *size) and moves both past them, never further than the
 * preface. Writes *out_size bytes to be sent into `out`, which has FB_PREFACE_OUT_MAX, also when it refuses.
 * 0: every byte was taken, more are needed. 1: the peer is proven; what is left are frames. FB_ECORRUPT: refused,
 * `error` says why, and each later call says the same. */
int fb_preface_take(struct fb_preface* self, const uint8_t** data, size_t* size, uint8_t* out, size_t* out_size);
/* The peer ended its side before it was proven: refuses it, unless that was done, as refuse(). */
size_t fb_preface_end(struct fb_preface* self, uint8_t* out);
/* Refuses for a reason of the caller, at most FB_PREFACE_TEXT_MAX bytes, and writes the REFUSAL of a server.
 * Returns its size. */
size_t fb_preface_refuse(struct fb_preface* self, const char* why, uint8_t* out);

#endif
