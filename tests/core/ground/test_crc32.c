/* CRC 32 against its check value, and the quick way against that by tables at each length and place. */
#include "ground/crc32.h"

#include <stdlib.h>

#include "check.h"

#define SIZE 700

/* Pieces of less than 64 bytes go by tables, on any processor. */
static uint32_t crc32_by_tables(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size > 63; size -= 63, data += 63) crc = fb_crc32(crc, data, 63);
  return fb_crc32(crc, data, size);
}

static void checksums_are_those_of_the_standard(void) {
  CHECK(fb_crc32(0, "", 0) == 0);
  CHECK(fb_crc32(0, "123456789", 9) == 0xcbf43926u);
}

static void both_ways_agree_at_each_length_and_place(void) {
  uint8_t* data = malloc(SIZE);

  CHECK(data != NULL);
  for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)(i * i * 31 + i);
  for (size_t begin = 0; begin < 17; begin++) {
    for (size_t size = 0; begin + size <= SIZE; size++) {
      uint32_t all = fb_crc32(7, data + begin, size);

      CHECK(all == crc32_by_tables(7, data + begin, size));
      CHECK(all == fb_crc32(fb_crc32(7, data + begin, size / 3), data + begin + size / 3, size - size / 3));
    }
  }
  free(data);
}

int main(void) {
  checksums_are_those_of_the_standard();
  both_ways_agree_at_each_length_and_place();
  return 0;
}
