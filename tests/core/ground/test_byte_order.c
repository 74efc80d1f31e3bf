/* Loads and stores in both orders, at every alignment. */
#include "ground/byte_order.h"

#include "check.h"

static void each_width_and_order_puts_the_bytes_where_it_says(void) {
  uint8_t bytes[16];

  for (int at = 0; at < 8; at++) {
    memset(bytes, 0, sizeof bytes);
    fb_store_be16(bytes + at, 0x0102);
    CHECK(memcmp(bytes + at, "\1\2", 2) == 0 && fb_load_be16(bytes + at) == 0x0102);
    CHECK(fb_load_le16(bytes + at) == 0x0201);
    fb_store_le32(bytes + at, 0x01020304);
    CHECK(memcmp(bytes + at, "\4\3\2\1", 4) == 0 && fb_load_le32(bytes + at) == 0x01020304);
    CHECK(fb_load_be32(bytes + at) == 0x04030201);
    fb_store_be64(bytes + at, 0x0102030405060708);
    CHECK(memcmp(bytes + at, "\1\2\3\4\5\6\7\10", 8) == 0 && fb_load_be64(bytes + at) == 0x0102030405060708);
    CHECK(fb_load_le64(bytes + at) == 0x0807060504030201);
    fb_store_le64(bytes + at, 0x0102030405060708);
    CHECK(fb_load_be64(bytes + at) == 0x0807060504030201);
    fb_store_le16(bytes + at, 0xff01);
    CHECK(memcmp(bytes + at, "\1\377", 2) == 0);
    fb_store_be32(bytes + at, 0xff000001);
    CHECK(memcmp(bytes + at, "\377\0\0\1", 4) == 0);
  }
}

static void neighbours_are_not_touched(void) {
  uint8_t bytes[10];

  memset(bytes, 0xaa, sizeof bytes);
  fb_store_be64(bytes + 1, 0);
  CHECK(bytes[0] == 0xaa && bytes[9] == 0xaa && bytes[1] == 0 && bytes[8] == 0);
}

int main(void) {
  each_width_and_order_puts_the_bytes_where_it_says();
  neighbours_are_not_touched();
  return 0;
}
