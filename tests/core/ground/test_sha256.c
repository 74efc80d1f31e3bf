/* SHA-256 and HMAC-SHA256 against the vectors of FIPS 180-4 and RFC 4231. */
#include "ground/sha256.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ground/errors.h"

static void expect(const uint8_t* digest, const char* hex) {
  char text[2 * FB_SHA256_SIZE + 1];
  for (int i = 0; i < FB_SHA256_SIZE; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
  CHECK(strcmp(text, hex) == 0);
}

static void expect_digest(const void* data, size_t size, const char* hex) {
  struct fb_sha256 hash;
  uint8_t digest[FB_SHA256_SIZE];

  fb_sha256_open(&hash);
  fb_sha256_add(&hash, data, size);
  fb_sha256_finish(&hash, digest);
  expect(digest, hex);
}

static void digests_are_those_of_the_standard(void) {
  uint8_t* million = malloc(1000000);

  CHECK(million != NULL);
  memset(million, 'a', 1000000);
  expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  expect_digest(
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
      "mnopqrstnopqrstu",
      112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  expect_digest(million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(million);
}

static void a_digest_does_not_depend_on_how_the_bytes_were_cut(void) {
  uint8_t data[300], whole[FB_SHA256_SIZE], cut[FB_SHA256_SIZE];

  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
  for (size_t size = 0; size <= sizeof data; size++) {
    struct fb_sha256 hash;

    fb_sha256_open(&hash);
    fb_sha256_add(&hash, data, size);
    fb_sha256_finish(&hash, whole);
    fb_sha256_open(&hash);
    for (size_t done = 0, piece; done < size; done += piece) {
      piece = (done + size) % 67;
      if (piece > size - done) piece = size - done;
      if (piece == 0) piece = 1;
      fb_sha256_add(&hash, data + done, piece);
    }
    fb_sha256_finish(&hash, cut);
    CHECK(memcmp(whole, cut, sizeof whole) == 0);
  }
}

/* sha256(b"".join(hashlib.sha256(b"\xa5" * size).digest() for size in range(140))) as Python says it. */
static void each_padding_is_that_of_others(void) {
  uint8_t data[140], digest[FB_SHA256_SIZE];
  struct fb_sha256 each, all;

  memset(data, 0xa5, sizeof data);
  fb_sha256_open(&all);
  for (size_t size = 0; size < sizeof data; size++) {
    fb_sha256_open(&each);
    fb_sha256_add(&each, data, size);
    fb_sha256_finish(&each, digest);
    fb_sha256_add(&all, digest, sizeof digest);
  }
  fb_sha256_finish(&all, digest);
  expect(digest, "a9ee20066091bd5608b8f3e8038c8814e75b4191eb82d0faff7573ba08468724");
}

static void expect_proof(const void* key, size_t key_size, const void* data, size_t size, const char* hex) {
  struct fb_sha256_hmac hmac;
  uint8_t digest[FB_SHA256_SIZE];

  fb_sha256_hmac_open(&hmac, key, key_size);
  fb_sha256_hmac_add(&hmac, data, size / 2);
  fb_sha256_hmac_add(&hmac, (const uint8_t*)data + size / 2, size - size / 2);
  fb_sha256_hmac_finish(&hmac, digest);
  expect(digest, hex);
}

static void proofs_are_those_of_the_standard(void) {
  uint8_t key[131], counted[25], data[50];

  memset(key, 0x0b, 20);
  expect_proof(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  expect_proof("Jefe", 4, "what do ya want for nothing?", 28,
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  memset(key, 0xaa, sizeof key);
  memset(data, 0xdd, sizeof data);
  expect_proof(key, 20, data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  for (size_t i = 0; i < sizeof counted; i++) counted[i] = (uint8_t)(i + 1);
  memset(data, 0xcd, sizeof data);
  expect_proof(counted, 25, data, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  expect_proof(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  expect_proof(key, 131,
               "This is a test using a larger than block-size key and a larger than block-size data. The key "
               "needs to be hashed before being used by the HMAC algorithm.",
               152, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
  expect_proof(NULL, 0, "", 0, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void equal_means_every_byte(void) {
  uint8_t left[FB_SHA256_SIZE] = {1, 2, 3}, right[FB_SHA256_SIZE] = {1, 2, 3};

  CHECK(fb_sha256_is_equal(left, right, sizeof left));
  for (size_t i = 0; i < sizeof left; i++) {
    for (int bit = 0; bit < 8; bit++) {
      right[i] ^= (uint8_t)(1 << bit);
      CHECK(!fb_sha256_is_equal(left, right, sizeof left));
      CHECK(fb_sha256_is_equal(left, right, i));
      right[i] ^= (uint8_t)(1 << bit);
    }
  }
}

static void random_bytes_do_not_come_twice(void) {
  uint8_t first[32] = {0}, second[32] = {0}, many[257];

  CHECK(fb_sha256_random(first, sizeof first) == FB_OK && fb_sha256_random(second, sizeof second) == FB_OK);
  CHECK(memcmp(first, second, sizeof first) != 0);
  CHECK(fb_sha256_random(many, 256) == FB_OK);
  CHECK(fb_sha256_random(many, 257) == FB_EARGUMENT);
}

static void what_is_finished_leaves_no_trace(void) {
  static const struct fb_sha256_hmac zeros;
  struct fb_sha256_hmac hmac;
  uint8_t digest[FB_SHA256_SIZE];

  memset(&hmac, 0, sizeof hmac);
  fb_sha256_hmac_open(&hmac, "secret", 6);
  fb_sha256_hmac_finish(&hmac, digest);
  CHECK(memcmp(&hmac, &zeros, sizeof hmac) == 0);
}

int main(void) {
  digests_are_those_of_the_standard();
  a_digest_does_not_depend_on_how_the_bytes_were_cut();
  each_padding_is_that_of_others();
  proofs_are_those_of_the_standard();
  equal_means_every_byte();
  random_bytes_do_not_come_twice();
  what_is_finished_leaves_no_trace();
  return 0;
}
