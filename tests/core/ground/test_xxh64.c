/* XXH64 against known values, in pieces as in one, and backwards. */
#include "ground/xxh64.h"

#include <stdlib.h>

#include "check.h"
#include "ground/byte_order.h"

#define SIZE 300

static void fill(uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(i * i * 31 + i * 7 + 3);
}

static void hashes_are_those_of_the_algorithm(void) {
  const char* text = "The quick brown fox jumps over the lazy dog";

  CHECK(fb_xxh64((const uint8_t*)"", 0) == 0xef46db3751d8e999u);
  CHECK(fb_xxh64((const uint8_t*)"abc", 3) == 0x44bc2cf5ad770999u);
  CHECK(fb_xxh64((const uint8_t*)text, 43) == 0x0b242d361fda71bcu);
}

static void pieces_have_the_hash_of_the_whole(void) {
  uint8_t* data = malloc(SIZE);

  CHECK(data != NULL);
  fill(data, SIZE);
  for (size_t size = 0; size <= SIZE; size++) {
    for (size_t first = 0; first <= size; first += 1 + size / 11) {
      struct fb_xxh64 state;

      fb_xxh64_start(&state);
      fb_xxh64_add(&state, data, first);
      fb_xxh64_add(&state, data + first, (size - first) / 2);
      fb_xxh64_add(&state, data + first + (size - first) / 2, size - first - (size - first) / 2);
      CHECK(fb_xxh64_value(&state) == fb_xxh64(data, size));
    }
  }
  free(data);
}

static void the_last_word_makes_any_hash(void) {
  uint8_t data[128 + 8];
  uint64_t wanted = 0;

  fill(data, sizeof data);
  for (size_t size = 0; size <= 128; size += 8) {
    struct fb_xxh64 state;

    if (size % FB_XXH64_STRIPE == 24) continue; /* the word would complete a stripe */
    fb_xxh64_start(&state);
    fb_xxh64_add(&state, data, size);
    for (int i = 0; i < 4; i++, wanted = wanted * 0x9e3779b97f4a7c15u + 12345) {
      uint8_t kept[8];

      memcpy(kept, data + size, 8);
      fb_store_le64(data + size, fb_xxh64_last_word(&state, wanted));
      CHECK(fb_xxh64(data, size + 8) == wanted);
      memcpy(data + size, kept, 8);
    }
  }
}

int main(void) {
  hashes_are_those_of_the_algorithm();
  pieces_have_the_hash_of_the_whole();
  the_last_word_makes_any_hash();
  return 0;
}
