/* The hash of text in memory, by the width of its characters; all else is held through the binding. */
#include "record/key_group.h"

#include "check.h"

/* What Java's definition says, one unit at a time. */
static int32_t slow_hash(const uint32_t* characters, size_t length) {
  uint32_t h = 0;
  for (size_t i = 0; i < length; i++) {
    uint32_t c = characters[i];
    if (c >= 0x10000) h = 31 * h + (0xd800 + ((c - 0x10000) >> 10));
    h = 31 * h + (c >= 0x10000 ? 0xdc00 + ((c - 0x10000) & 0x3ff) : c);
  }
  return (int32_t)h;
}

static void test_all_string_widths_agree_at_all_lengths(void) {
  uint8_t narrow[80];
  uint16_t wide[80];
  uint32_t full[80];

  for (uint32_t seed = 0; seed < 8; seed++) {
    for (size_t length = 0; length <= 80; length++) {
      for (size_t i = 0; i < length; i++) {
        narrow[i] = (uint8_t)((i * 31 + length * 7 + seed * 85) | (seed == 7 ? 0xff : 0));
        full[i] = wide[i] = narrow[i];
      }
      CHECK(fb_key_group_hash_latin1(narrow, length) == slow_hash(full, length));
      CHECK(fb_key_group_hash_ucs2(wide, length) == slow_hash(full, length));
      CHECK(fb_key_group_hash_ucs4(full, length) == slow_hash(full, length));
      for (size_t i = 0; i < length; i++) full[i] = wide[i] = (uint16_t)(0xffff - i * 977 * (seed + 1));
      CHECK(fb_key_group_hash_ucs2(wide, length) == slow_hash(full, length));
      for (size_t i = 0; i < length; i++) full[i] = (uint32_t)(0x10000 + i * 13001 * (seed + 1)) % 0x110000;
      CHECK(fb_key_group_hash_ucs4(full, length) == slow_hash(full, length));
    }
  }
  CHECK(fb_key_group_hash_latin1((const uint8_t*)"key-17", 6) == -1134722988);
}

int main(void) {
  test_all_string_widths_agree_at_all_lengths();
  return 0;
}
