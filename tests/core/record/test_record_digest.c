/* The digest of a stream of records: in any order and cut anywhere the same, and another one for other records. */
#include "record/record_digest.h"

#include <stdlib.h>

#include "check.h"
#include "ground/byte_order.h"

#define RECORDS 7
static const uint32_t sizes[RECORDS] = {0, 1, 3, 40, 8, 8, 65};

/* Writes record `index`, filled with its number. */
static size_t put(uint8_t* to, int index) {
  fb_store_be32(to, sizes[index]);
  memset(to + 4, index + 1, sizes[index]);
  return 4 + sizes[index];
}

static uint64_t digest_of(const uint8_t* data, size_t size, size_t piece) {
  struct fb_record_digest digest = {0};

  for (size_t at = 0; at < size; at += piece) {
    size_t part = piece < size - at ? piece : size - at;
    uint8_t* exact = malloc(part); /* so that a sanitizer sees a byte too far */

    CHECK(exact != NULL);
    memcpy(exact, data + at, part);
    fb_record_digest_add(&digest, exact, part);
    free(exact);
  }
  CHECK(digest.missing == 0 && digest.length_size == 0);
  return digest.sum;
}

static void order_and_cuts_make_no_difference(void) {
  uint8_t there[512], back[512];
  size_t size = 0, size_back = 0;

  for (int i = 0; i < RECORDS; i++) size += put(there + size, i);
  for (int i = RECORDS - 1; i >= 0; i--) size_back += put(back + size_back, i);
  for (size_t piece = 1; piece <= size; piece++) {
    CHECK(digest_of(there, size, piece) == digest_of(back, size_back, size));
  }
}

static void other_records_have_another(void) {
  uint8_t one[64], other[64];
  size_t size = put(one, 3);

  put(other, 3);
  other[20] ^= 1;
  CHECK(digest_of(one, size, size) != digest_of(other, size, size));
  memcpy(other, one, size);
  CHECK(digest_of(one, size, size) != 2 * digest_of(other, size, size));
}

int main(void) {
  order_and_cuts_make_no_difference();
  other_records_have_another();
  return 0;
}
