/* The preface as bytes between two state machines: agreed on at every cut, refused whatever is wrong with it. */
#include "wire/preface.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ground/byte_order.h"
#include "ground/errors.h"
#include "ground/sha256.h"
#include "wire/frame.h"

static const uint8_t SECRET[] = "sixteen bytes and some more";
static const uint8_t OTHER[] = "sixteen bytes and some morf";

struct side {
  struct fb_preface preface;
  uint8_t said[512]; /* not heard yet */
  size_t said_size;
  int code; /* of the last take() */
};

static void open_side(struct side* self, const uint8_t* secret, bool is_server) {
  memset(self, 0, sizeof(*self));
  CHECK(fb_preface_open(&self->preface, secret, sizeof SECRET - 1, is_server) == FB_OK);
}

static void start(struct side* self) { self->said_size = fb_preface_start(&self->preface, self->said); }

/* Gives `size` bytes in a block of exactly their size. Returns how many were left. */
static size_t give(struct side* self, const uint8_t* bytes, size_t size) {
  uint8_t* block = malloc(size > 0 ? size : 1);
  uint8_t out[FB_PREFACE_OUT_MAX];
  const uint8_t* at = block;
  size_t out_size;

  CHECK(block != NULL);
  if (size > 0) memcpy(block, bytes, size);
  self->code = fb_preface_take(&self->preface, &at, &size, out, &out_size);
  CHECK(out_size <= sizeof out && self->said_size + out_size <= sizeof self->said);
  memcpy(self->said + self->said_size, out, out_size);
  self->said_size += out_size;
  CHECK(self->code != 0 || size == 0);
  CHECK(self->code >= 0 || self->preface.error[0] != 0);
  free(block);
  return size;
}

/* Carries what `from` said to `to`, `piece` bytes at a time. */
static void carry(struct side* from, struct side* to, size_t piece) {
  uint8_t bytes[sizeof from->said];
  size_t size = from->said_size;

  memcpy(bytes, from->said, size);
  from->said_size = 0;
  for (size_t done = 0; done < size; done += piece)
    CHECK(give(to, bytes + done, piece < size - done ? piece : size - done) == 0 || to->code < 0);
}

/* Both say what they have to until neither has anything. */
static void talk(struct side* client, struct side* server, size_t piece) {
  start(client);
  while (client->said_size + server->said_size > 0) {
    carry(client, server, piece);
    carry(server, client, piece);
  }
}

static bool says(const struct side* self, const char* text) {
  return self->code < 0 && strstr(self->preface.error, text) != NULL;
}

static void who_knows_the_secret_is_let_in_however_the_bytes_are_cut(void) {
  for (size_t piece = 1; piece <= 64; piece++) {
    struct side client, server;

    open_side(&client, SECRET, false);
    open_side(&server, SECRET, true);
    client.preface.offered = 0x80000005u;
    server.preface.offered = 0x00000006u;
    talk(&client, &server, piece);
    CHECK(client.code == 1 && server.code == 1);
    CHECK(client.preface.features == 4 && server.preface.features == 4);
  }
}

static void what_follows_the_preface_is_left_where_it_is(void) {
  struct side client, server;
  uint8_t bytes[128];

  open_side(&client, SECRET, false);
  open_side(&server, SECRET, true);
  start(&client);
  CHECK(client.said_size == FB_PREFACE_HELLO_SIZE);
  carry(&client, &server, 1000);
  carry(&server, &client, 1000);
  CHECK(client.said_size == FB_PREFACE_PROOF_SIZE && client.code == 0);
  memcpy(bytes, client.said, client.said_size);
  memset(bytes + client.said_size, 'f', 60);
  CHECK(give(&server, bytes, client.said_size + 60) == 60 && server.code == 1);
  CHECK(give(&server, bytes, 60) == 60 && server.code == 1); /* nothing of the frames is ever taken */
  CHECK(fb_preface_end(&server.preface, bytes) == 0 && server.preface.error[0] == 0);
}

static void the_server_says_nothing_of_the_secret_first(void) {
  struct side client, server, again;

  open_side(&client, SECRET, false);
  open_side(&server, SECRET, true);
  open_side(&again, SECRET, true);
  CHECK(fb_preface_start(&server.preface, server.said) == 0);
  start(&client);
  CHECK(give(&server, client.said, client.said_size) == 0 && give(&again, client.said, client.said_size) == 0);
  /* Header, features and a nonce; nothing else that the same secret would make the same. */
  CHECK(server.said_size == FB_PREFACE_HEADER_SIZE + 4 + 32 && again.said_size == server.said_size);
  CHECK(memcmp(server.said, again.said, 16) == 0 && memcmp(server.said + 16, again.said + 16, 32) != 0);
}

static void a_wrong_secret_is_refused_and_told(void) {
  struct side client, server;

  open_side(&client, OTHER, false);
  open_side(&server, SECRET, true);
  talk(&client, &server, 7);
  CHECK(says(&server, "the client does not know the secret of the server") && !server.preface.was_told);
  CHECK(says(&client, server.preface.error) && client.preface.was_told);
  CHECK(give(&server, SECRET, 5) == 5 && server.code == FB_ECORRUPT); /* it stays so, and hears nothing more */
}

/* An impostor without the secret knows the preface and lets every client pass. */
static void a_server_without_the_secret_is_refused(void) {
  struct side client, impostor;
  uint8_t proof[FB_PREFACE_PROOF_SIZE];

  open_side(&client, SECRET, false);
  open_side(&impostor, OTHER, true);
  start(&client);
  carry(&client, &impostor, 1000);
  carry(&impostor, &client, 1000);
  memcpy(proof, client.said, sizeof proof);
  client.said_size = 0;
  proof[9] = 2; /* the client's own proof, sent back as the server's */
  CHECK(give(&client, proof, sizeof proof) == 0);
  CHECK(says(&client, "the server does not know the secret of the client") && client.said_size == 0);
}

static void bytes_that_are_sent_back_are_refused(void) {
  struct side client, server;
  uint8_t hello[FB_PREFACE_HELLO_SIZE];

  open_side(&client, SECRET, false);
  start(&client);
  memcpy(hello, client.said, sizeof hello);
  give(&client, hello, sizeof hello);
  CHECK(says(&client, "the client met a peer in its own role"));
  open_side(&server, SECRET, true);
  give(&server, hello, sizeof hello);
  memcpy(hello, server.said, sizeof hello);
  open_side(&server, SECRET, true);
  give(&server, hello, sizeof hello);
  CHECK(says(&server, "the server met a peer in its own role"));
}

static void a_recorded_proof_is_worth_nothing(void) {
  struct side client, server;
  uint8_t record[FB_PREFACE_HELLO_SIZE + FB_PREFACE_PROOF_SIZE];

  open_side(&client, SECRET, false);
  open_side(&server, SECRET, true);
  start(&client);
  memcpy(record, client.said, FB_PREFACE_HELLO_SIZE);
  carry(&client, &server, 1000);
  carry(&server, &client, 1000);
  memcpy(record + FB_PREFACE_HELLO_SIZE, client.said, FB_PREFACE_PROOF_SIZE);
  carry(&client, &server, 1000);
  CHECK(server.code == 1);
  open_side(&server, SECRET, true);
  CHECK(give(&server, record, sizeof record) == 0);
  CHECK(says(&server, "does not know the secret"));
}

/* Somebody between the two changes one bit of what either said. */
static void every_bit_is_vouched_for(void) {
  for (int message = 0; message < 4; message++) {
    for (size_t bit = 0; bit < 8 * (message < 2 ? FB_PREFACE_HELLO_SIZE : FB_PREFACE_PROOF_SIZE); bit++) {
      struct side client, server;
      struct side* speaker = message % 2 == 0 ? &client : &server;

      open_side(&client, SECRET, false);
      open_side(&server, SECRET, true);
      start(&client);
      for (int i = 0; i < message; i++) i % 2 == 0 ? carry(&client, &server, 1000) : carry(&server, &client, 1000);
      CHECK(speaker->said_size > bit / 8);
      speaker->said[bit / 8] ^= (uint8_t)(1u << bit % 8);
      while (client.said_size + server.said_size > 0) {
        carry(&client, &server, 1000);
        carry(&server, &client, 1000);
      }
      /* The last bytes come from the server: it may have let the right client in. */
      CHECK(client.code != 1 && (message == 3 || server.code != 1));
    }
  }
}

static void expect_refusal(bool is_server, const void* bytes, size_t size, const char* text) {
  struct side side;

  for (size_t piece = 1; piece <= size; piece += size > 1 ? size - 1 : 1) {
    open_side(&side, SECRET, is_server);
    for (size_t at = 0; at < size; at += piece)
      give(&side, (const uint8_t*)bytes + at, piece < size - at ? piece : size - at);
    CHECK(says(&side, text));
    if (!is_server || side.preface.peer_speaks_flink) {
      CHECK(side.said_size == 0);
    } else {
      CHECK(fb_load_be32(side.said) == side.said_size && fb_load_be32(side.said + 4) == FB_PREFACE_MAGIC);
      CHECK(memcmp(side.said + FB_PREFACE_HEADER_SIZE, side.preface.error, strlen(side.preface.error)) == 0);
    }
  }
}

static void each_stranger_is_told_what_is_wrong(void) {
  uint8_t flink[FB_FRAME_HEAD_MAX];
  struct fb_frame frame = {.id = FB_CLOSE_REQUEST};
  int size = fb_frame_write_head(&frame, flink);

  CHECK(size > 0);
  for (int is_server = 0; is_server < 2; is_server++) {
    expect_refusal(is_server, flink, (size_t)size,
                   is_server ? "the client speaks plain Flink and the server asks"
                             : "the server speaks plain Flink and the client asks");
    expect_refusal(is_server, "GET / HTTP/1.1\r\n\r\n", 18, "47 45 54 20 2f 20 48 54 where the preface");
    expect_refusal(is_server, "\x16\x03\x01\x02\0\1\0\1\xfc", 9, "speaks TLS");
  }
  expect_refusal(true, "\0\0\0\0\0\0\0\0", 8, "the client sent 00 00 00 00 00 00 00 00");
}

static void other_versions_are_refused_by_number(void) {
  for (int version = 0; version < 4; version++) {
    uint8_t hello[64] = {0, 0, 0, 64, 'f', 'b', 'u', 'f', 1, 1, 0, (uint8_t)version};
    char text[80];

    snprintf(text, sizeof text, "client speaks version %d of flinkbuf's preface, the server version 1", version);
    if (version != FB_PREFACE_VERSION) expect_refusal(true, hello, sizeof hello, text);
  }
}

static void messages_out_of_order_or_of_a_wrong_size_are_refused(void) {
  const uint32_t sizes[] = {0, 11, 12, 47, 49, 0x7fffffff, 0xffffffff};
  uint8_t message[FB_PREFACE_HELLO_SIZE] = {0, 0, 0, FB_PREFACE_HELLO_SIZE, 'f', 'b', 'u', 'f', 1, 1, 0, 1};

  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    fb_store_be32(message, sizes[i]);
    expect_refusal(true, message, FB_PREFACE_HEADER_SIZE, "where message 1 of 48 bytes was due");
  }
  fb_store_be32(message, FB_PREFACE_PROOF_SIZE);
  message[8] = 2;
  expect_refusal(true, message, FB_PREFACE_HEADER_SIZE, "message 2 of 44 bytes in role 1 where message 1");
  message[9] = 0;
  expect_refusal(true, message, FB_PREFACE_HEADER_SIZE, "in role 0 where");
  message[9] = 1;
  message[8] = 3; /* refusals without words, or with too many */
  fb_store_be32(message, FB_PREFACE_HEADER_SIZE);
  expect_refusal(true, message, FB_PREFACE_HEADER_SIZE, "message 3 of 12 bytes");
  fb_store_be32(message, FB_PREFACE_MESSAGE_MAX + 1);
  expect_refusal(true, message, FB_PREFACE_HEADER_SIZE, "message 3 of 213 bytes");
}

static void a_refusal_is_heard_in_any_version_and_cannot_smuggle_anything(void) {
  uint8_t message[FB_PREFACE_MESSAGE_MAX] = {0, 0, 0, 0, 'f', 'b', 'u', 'f', 3, 2, 0, 9};
  struct side client;

  fb_store_be32(message, sizeof message);
  memset(message + FB_PREFACE_HEADER_SIZE, 'x', FB_PREFACE_TEXT_MAX);
  memcpy(message + FB_PREFACE_HEADER_SIZE, "\x1b[2J\n\0\xff", 7);
  open_side(&client, SECRET, false);
  start(&client);
  client.said_size = 0;
  CHECK(give(&client, message, sizeof message) == 0 && client.said_size == 0);
  CHECK(strncmp(client.preface.error, "?[2J???xxx", 10) == 0 && client.preface.was_told);
  CHECK(strlen(client.preface.error) == FB_PREFACE_TEXT_MAX);
}

static void who_leaves_before_the_end_is_refused(void) {
  struct side client;
  uint8_t out[FB_PREFACE_OUT_MAX];

  open_side(&client, SECRET, false);
  CHECK(fb_preface_end(&client.preface, out) == 0);
  give(&client, out, 0);
  CHECK(says(&client, "the server closed the connection before it proved"));
  open_side(&client, SECRET, false);
  give(&client, (const uint8_t*)"\x15\x03\x03\0\2\2\x28", 7); /* a TLS alert is shorter than our header */
  CHECK(fb_preface_end(&client.preface, out) == 0);
  CHECK(strstr(client.preface.error, "the server speaks TLS") != NULL);
  open_side(&client, SECRET, true);
  CHECK(fb_preface_end(&client.preface, out) > FB_PREFACE_HEADER_SIZE && out[8] == 3);
  CHECK(fb_preface_end(&client.preface, out) == 0);
  open_side(&client, SECRET, true);
  CHECK(fb_preface_refuse(&client.preface, "no time", out) == FB_PREFACE_HEADER_SIZE + 7);
  CHECK(memcmp(out + FB_PREFACE_HEADER_SIZE, "no time", 7) == 0);
  CHECK(give(&client, out, 3) == 3 && says(&client, "no time"));
}

static void short_secrets_are_not_taken(void) {
  struct fb_preface preface;

  CHECK(fb_preface_open(&preface, SECRET, 15, true) == FB_EARGUMENT);
  CHECK(fb_preface_open(&preface, NULL, 0, false) == FB_EARGUMENT);
  CHECK(fb_preface_open(&preface, SECRET, 16, true) == FB_OK);
}

int main(void) {
  who_knows_the_secret_is_let_in_however_the_bytes_are_cut();
  what_follows_the_preface_is_left_where_it_is();
  the_server_says_nothing_of_the_secret_first();
  a_wrong_secret_is_refused_and_told();
  a_server_without_the_secret_is_refused();
  bytes_that_are_sent_back_are_refused();
  a_recorded_proof_is_worth_nothing();
  every_bit_is_vouched_for();
  each_stranger_is_told_what_is_wrong();
  other_versions_are_refused_by_number();
  messages_out_of_order_or_of_a_wrong_size_are_refused();
  a_refusal_is_heard_in_any_version_and_cannot_smuggle_anything();
  who_leaves_before_the_end_is_refused();
  short_secrets_are_not_taken();
  return 0;
}
