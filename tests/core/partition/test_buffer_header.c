/* What stands in front of each buffer in a file. */
#include "partition/buffer_header.h"

#include <string.h>

#include "check.h"

static struct fb_buffer_slice slice_of(enum fb_buffer_data_type type, uint32_t size, bool is_compressed) {
  return (struct fb_buffer_slice){.data_type = (uint8_t)type, .size = size, .is_compressed = is_compressed};
}

static void bytes_are_those_of_flink(void) {
  static const struct {
    enum fb_buffer_data_type type;
    bool is_compressed;
    uint32_t size;
    uint8_t bytes[FB_BUFFER_HEADER_SIZE];
  } CASES[] = {
      {FB_DATA_BUFFER, false, 10, {0, 0, 0, 0, 10, 0, 0, 0}},
      {FB_DATA_BUFFER, true, 0x12345678, {0, 0, 1, 0, 0x78, 0x56, 0x34, 0x12}},
      {FB_EVENT_BUFFER, false, 33, {1, 0, 0, 0, 33, 0, 0, 0}},
      {FB_END_OF_SEGMENT, false, 4, {2, 0, 0, 0, 4, 0, 0, 0}},
      {FB_END_OF_DATA, false, 5, {3, 0, 0, 0, 5, 0, 0, 0}},
      {FB_END_OF_PARTITION, false, 4, {4, 0, 0, 0, 4, 0, 0, 0}},
      {FB_DATA_BUFFER_WITH_CLEAR_END, false, 0, {5, 0, 0, 0, 0, 0, 0, 0}},
  };

  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    struct fb_buffer_slice slice = slice_of(CASES[i].type, CASES[i].size, CASES[i].is_compressed);
    struct fb_buffer_header header;
    uint8_t bytes[FB_BUFFER_HEADER_SIZE];

    CHECK(fb_buffer_header_write(bytes, &slice) == FB_OK && memcmp(bytes, CASES[i].bytes, sizeof bytes) == 0);
    CHECK(fb_buffer_header_read(bytes, &header) == FB_OK && header.data_type == CASES[i].type);
    CHECK(header.size == CASES[i].size && header.is_compressed == CASES[i].is_compressed);
  }
}

static void other_types_cannot_be_stored(void) {
  for (int type = 0; type <= FB_DATA_TYPE_COUNT; type++) {
    struct fb_buffer_slice slice = slice_of((enum fb_buffer_data_type)type, 4, false);
    uint8_t bytes[FB_BUFFER_HEADER_SIZE] = {9};
    bool is_stored = fb_buffer_header_write(bytes, &slice) == FB_OK;

    CHECK(is_stored == (type == FB_DATA_BUFFER || type == FB_EVENT_BUFFER || type == FB_END_OF_SEGMENT ||
                        type == FB_DATA_BUFFER_WITH_CLEAR_END || type == FB_END_OF_DATA ||
                        type == FB_END_OF_PARTITION));
    CHECK(is_stored || bytes[0] == 9);
  }
}

/* Every single bit of a header, turned: it is refused, or says something that can be written again. */
static void damaged_header_is_refused(void) {
  static const uint8_t SAMPLES[][FB_BUFFER_HEADER_SIZE] = {
      {0, 0, 0, 0, 10, 0, 0, 0}, {0, 0, 1, 0, 9, 1, 0, 0}, {4, 0, 0, 0, 4, 0, 0, 0}};
  uint32_t refused = 0;

  for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++)
    for (unsigned bit = 0; bit < 64; bit++) {
      uint8_t bytes[FB_BUFFER_HEADER_SIZE], again[FB_BUFFER_HEADER_SIZE];
      struct fb_buffer_header header;

      memcpy(bytes, SAMPLES[i], sizeof bytes);
      bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
      if (fb_buffer_header_read(bytes, &header) != FB_OK) {
        refused++;
        continue;
      }
      struct fb_buffer_slice slice =
          slice_of((enum fb_buffer_data_type)header.data_type, header.size, header.is_compressed);
      CHECK(fb_buffer_header_write(again, &slice) == FB_OK && memcmp(bytes, again, sizeof bytes) == 0);
    }
  CHECK(refused > 3 * 28);
}

int main(void) {
  bytes_are_those_of_flink();
  other_types_cannot_be_stored();
  damaged_header_is_refused();
}
