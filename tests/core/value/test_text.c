#include "value/text.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static void text_survives_decoding_and_encoding(void) {
  static const uint32_t points[] = {0, 0x7f, 0x80, 0x3fff, 0x4000, 0xdc00, 0xd800, 0xffff, 0x10000, 0x10ffff, 0xd801};
  enum { COUNT = sizeof points / sizeof *points };
  uint32_t decoded[COUNT];
  uint8_t bytes[6 * COUNT];
  struct fb_text plan, text;
  struct fb_data_input input;

  CHECK(fb_text_plan(points, COUNT, 4, &plan));
  CHECK(fb_text_encode(points, COUNT, 4, bytes) == bytes + plan.size);
  input = (struct fb_data_input){bytes, bytes, bytes + plan.size, -1, -1};
  CHECK(fb_text_measure(&input, plan.units, &text) == FB_OK);
  CHECK(input.pos == input.end);
  CHECK(text.length == COUNT && text.max_point == 0x10ffff && text.size == plan.size);
  fb_text_decode(bytes, &text, 4, decoded);
  CHECK(memcmp(decoded, points, sizeof points) == 0);
}

static void surrogates_that_would_join_are_told_from_lone_ones(void) {
  static const uint32_t joining[] = {0x10000, 0xd800, 0xdbff, 0xdfff};
  static const uint16_t narrow[] = {'x', 0xd83d, 0xde00, 'y'}, lone[] = {0xdc00, 0xd800, 'x', 0xdfff};
  static const uint32_t beyond[] = {0x1d800, 0x1dc00, 0x10d800, 0xdc00, 0xd800, 0x1dc00};
  static const uint8_t latin[] = {0xd8, 0xdc};
  struct fb_text plan;

  CHECK(!fb_text_plan(joining, 4, 4, &plan));
  CHECK(fb_text_plan(joining, 3, 4, &plan) && fb_text_plan(beyond, 6, 4, &plan));
  CHECK(!fb_text_plan(narrow, 4, 2, &plan));
  CHECK(fb_text_plan(narrow, 2, 2, &plan) && fb_text_plan(lone, 4, 2, &plan));
  CHECK(fb_text_plan(latin, 2, 1, &plan) && fb_text_plan(NULL, 0, 1, &plan));
}

static void ascii_is_told_from_the_rest_at_every_length(void) {
  uint8_t bytes[40];

  for (size_t size = 0; size <= sizeof bytes; size++) {
    memset(bytes, 'a', sizeof bytes);
    CHECK(fb_text_is_ascii(bytes, size));
    for (size_t at = 0; at < sizeof bytes; at++) {
      bytes[at] = 0x80;
      CHECK(fb_text_is_ascii(bytes, size) == (at >= size));
      bytes[at] = 'a';
    }
  }
}

static void a_copy_touches_its_own_bytes_only(void) {
  for (size_t size = 0; size <= 40; size++) {
    uint8_t* from = malloc(size > 0 ? size : 1); /* of exactly this size, for the sanitizer */
    uint8_t to[42];

    CHECK(from != NULL);
    for (size_t i = 0; i < size; i++) from[i] = (uint8_t)(i + 1);
    memset(to, 0xee, sizeof to);
    fb_text_copy(to + 1, from, size);
    CHECK(memcmp(to + 1, from, size) == 0 && to[0] == 0xee && to[size + 1] == 0xee);
    free(from);
  }
}

/* So two texts of one length have the same word only if they are the same, whatever the byte order of the host. */
static void the_word_of_a_text_holds_each_of_its_bytes_in_a_place_of_its_own(void) {
  static const uint8_t bytes[] = {0x41, 0x7e, 0x23, 0x5a, 0x01, 0x6d, 0x38, 0x7f};

  for (size_t size = 2; size <= sizeof bytes; size++) {
    uint64_t word = fb_text_word(bytes, size);

    for (size_t i = 0; i < 8; i++) CHECK((word >> (8 * i) & 0xff) == (i < size ? bytes[i] : 0u));
  }
}

int main(void) {
  text_survives_decoding_and_encoding();
  surrogates_that_would_join_are_told_from_lone_ones();
  ascii_is_told_from_the_rest_at_every_length();
  a_copy_touches_its_own_bytes_only();
  the_word_of_a_text_holds_each_of_its_bytes_in_a_place_of_its_own();
  return 0;
}
