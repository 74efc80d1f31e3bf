/* LZ4 blocks: what is compressed is restored, at every size, capacity and repetition; what is broken is refused. */
#include "ground/lz4.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Memory of exactly `size` bytes, so that the sanitizer sees each byte too many. */
static uint8_t* room(size_t size) {
  uint8_t* memory = malloc(size > 0 ? size : 1);
  CHECK(memory != NULL);
  return memory;
}

static uint32_t state = 1;
static uint32_t next_random(void) { return state = state * 1664525u + 1013904223u, state >> 8; }

/* Bytes of an alphabet, with repetitions from before at some distance. */
static uint8_t* some_bytes(uint32_t size, uint32_t alphabet, uint32_t distance_max) {
  uint8_t* data = room(size);
  for (uint32_t i = 0; i < size;) {
    uint32_t run = 1 + next_random() % 40;
    uint32_t distance = 1 + next_random() % distance_max;
    bool repeats = i >= distance && next_random() % 3 != 0;
    for (; run > 0 && i < size; run--, i++)
      data[i] = (uint8_t)(repeats ? data[i - distance] : next_random() % alphabet);
  }
  return data;
}

/* Bytes that a block has at most. */
static uint32_t bound_of(uint32_t size) { return size + size / 255 + 16; }

static uint32_t round_trip(const uint8_t* data, uint32_t size) {
  uint32_t capacity = bound_of(size), written = 0;
  uint8_t* block = room(capacity);
  CHECK(fb_lz4_compress(data, size, block, capacity, &written) == FB_OK);
  CHECK(written > 0 && written <= capacity);

  uint8_t* exact = room(written);
  memcpy(exact, block, written);
  uint8_t* restored = room(size);
  CHECK(fb_lz4_decompress(exact, written, restored, size) == FB_OK);
  CHECK(memcmp(restored, data, size) == 0);

  /* One byte more or less is another original. */
  uint8_t* longer = room(size + 1);
  CHECK(fb_lz4_decompress(exact, written, longer, size + 1) == FB_ECORRUPT);
  if (size > 0) CHECK(fb_lz4_decompress(exact, written, longer, size - 1) == FB_ECORRUPT);
  free(longer);
  free(restored);
  free(exact);
  free(block);
  return written;
}

static void every_size_comes_back(void) {
  for (uint32_t size = 0; size < 700; size++) {
    uint8_t* data = some_bytes(size, 4, 30);
    round_trip(data, size);
    free(data);
  }
}

static void every_short_distance_comes_back(void) {
  uint8_t data[3000];
  for (uint32_t distance = 1; distance < 40; distance++) {
    for (uint32_t size = 13; size < sizeof data; size += 97) {
      for (uint32_t i = 0; i < size; i++) data[i] = i < distance ? (uint8_t)next_random() : data[i - distance];
      round_trip(data, size);
    }
  }
}

static void large_ones_come_back(void) {
  static const uint32_t sizes[] = {32767, 32768, 65535, 65536, 65537, 65536 + 13, 300000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    static const uint32_t distances[] = {3, 1000, 65535, 65536, 200000};
    for (size_t j = 0; j < sizeof distances / sizeof distances[0]; j++) {
      uint8_t* data = some_bytes(sizes[i], 256, distances[j]);
      round_trip(data, sizes[i]);
      free(data);
    }
  }
}

static void equal_bytes_shrink_to_almost_nothing(void) {
  uint8_t* data = calloc(1, 1 << 17);
  CHECK(data != NULL);
  CHECK(round_trip(data, 32768) < 32768 / 250 + 16);
  CHECK(round_trip(data, 1 << 17) < (1 << 17) / 250 + 16);
  free(data);
}

static void no_room_is_said_and_nothing_lies_behind_it(void) {
  uint8_t* data = some_bytes(5000, 8, 100);
  uint8_t whole[8192];
  uint32_t all, written;
  CHECK(fb_lz4_compress(data, 5000, whole, sizeof whole, &all) == FB_OK);
  for (uint32_t capacity = 0; capacity < all + 20; capacity++) {
    uint8_t* block = room(capacity);
    int code = fb_lz4_compress(data, 5000, block, capacity, &written);
    CHECK(code == FB_OK || code == FB_ETOO_LARGE);
    if (capacity < all) CHECK(code == FB_ETOO_LARGE);
    if (code == FB_OK) CHECK(written == all && memcmp(block, whole, all) == 0);
    /* A few bytes are kept free for what might follow. */
    if (capacity >= all + 16) CHECK(code == FB_OK);
    free(block);
  }
  CHECK(fb_lz4_compress(data, UINT32_MAX, whole, sizeof whole, &written) == FB_ETOO_LARGE);
  free(data);
}

static void every_flipped_bit_and_every_end_stays_inside(void) {
  uint8_t* data = some_bytes(600, 6, 50);
  uint8_t block[1024], restored[600];
  uint32_t written;
  CHECK(fb_lz4_compress(data, 600, block, sizeof block, &written) == FB_OK);
  for (uint32_t bit = 0; bit < written * 8; bit++) {
    uint8_t* broken = room(written);
    memcpy(broken, block, written);
    broken[bit / 8] ^= (uint8_t)(1 << bit % 8);
    int code = fb_lz4_decompress(broken, written, restored, sizeof restored);
    CHECK(code == FB_OK || code == FB_ECORRUPT);
    free(broken);
  }
  for (uint32_t size = 0; size < written; size++) {
    uint8_t* cut = room(size);
    memcpy(cut, block, size);
    CHECK(fb_lz4_decompress(cut, size, restored, sizeof restored) == FB_ECORRUPT);
    free(cut);
  }
  free(data);
}

static void refused(const char* block, uint32_t size, uint32_t original) {
  uint8_t* exact = room(size);
  uint8_t* restored = room(original);
  memcpy(exact, block, size);
  CHECK(fb_lz4_decompress(exact, size, restored, original) == FB_ECORRUPT);
  free(restored);
  free(exact);
}

static void what_no_compressor_writes_is_refused(void) {
  refused("", 0, 0);
  refused("", 0, 1);
  refused("\x10", 1, 1); /* a literal that is not there */
  refused(
      "\x10"
      "a\x00\x00",
      4, 5); /* a distance of zero */
  refused(
      "\x10"
      "a\x02\x00\x10"
      "b",
      6, 6); /* before the beginning */
  refused(
      "\x10"
      "a\x01",
      3, 5); /* half a distance */
  refused(
      "\x10"
      "a\x01\x00",
      4, 5); /* no literals at the end */
  refused(
      "\x1f"
      "a\x01\x00",
      4, 30);                                  /* a length that ends with the block */
  refused("\xf0\xff\xff\xff\xff", 5, 2000);    /* likewise */
  refused("\xf0\xff\xff\xff\xff\x00", 6, 100); /* more literals than fit */
  refused(
      "\x1f"
      "a\x01\x00\xff\xff\xff\xff\x00\x10"
      "b",
      12, 100);
}

int main(void) {
  every_size_comes_back();
  every_short_distance_comes_back();
  large_ones_come_back();
  equal_bytes_shrink_to_almost_nothing();
  no_room_is_said_and_nothing_lies_behind_it();
  every_flipped_bit_and_every_end_stays_inside();
  what_no_compressor_writes_is_refused();
  return 0;
}
