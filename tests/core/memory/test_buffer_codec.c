/* Blocks of single buffers: they come back, stay as they are where that is shorter, and lie about nothing. */
#include "memory/buffer_codec.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ground/byte_order.h"

enum { SIZE = 4096 };

static struct {
  struct fb_buffer_codec codec;
  int freed;
} counted;

static void count_free(struct fb_buffer_codec* self) {
  CHECK(self == &counted.codec);
  counted.freed++;
}

static void a_buffer_comes_back(void) {
  struct fb_buffer_codec* codec = fb_buffer_codec_lz4();
  uint8_t data[SIZE] = {1, 2, 3}, block[SIZE], restored[SIZE];
  uint32_t written, size;

  CHECK(strcmp(codec->name, "LZ4") == 0);
  CHECK(codec->compress(codec, data, SIZE, block, SIZE, &written) == FB_OK);
  CHECK(written < 100 && fb_load_le32(block) == written - 8 && fb_load_le32(block + 4) == SIZE);
  CHECK(codec->decompress(codec, block, written, restored, SIZE, &size) == FB_OK);
  CHECK(size == SIZE && memcmp(restored, data, SIZE) == 0);

  CHECK(codec->decompress(codec, block, written, restored, SIZE - 1, &size) == FB_ETOO_LARGE);
  CHECK(codec->decompress(codec, block, written - 1, restored, SIZE, &size) == FB_ETRUNCATED);
  CHECK(codec->decompress(codec, block, 8, restored, SIZE, &size) == FB_ETRUNCATED);
  CHECK(codec->decompress(codec, block, 0, restored, SIZE, &size) == FB_ETRUNCATED);
  fb_store_le32(block + 4, 0);
  CHECK(codec->decompress(codec, block, written, restored, SIZE, &size) == FB_ECORRUPT);
  fb_store_le32(block + 4, UINT32_MAX);
  CHECK(codec->decompress(codec, block, written, restored, UINT32_MAX, &size) == FB_ECORRUPT);
  fb_store_le32(block + 4, SIZE - 1);
  CHECK(codec->decompress(codec, block, written, restored, SIZE, &size) == FB_ECORRUPT);
}

static void what_would_not_shrink_stays(void) {
  struct fb_buffer_codec* codec = fb_buffer_codec_lz4();
  uint8_t data[SIZE], scratch[SIZE], before[SIZE];
  uint32_t written, state = 7;

  for (uint32_t i = 0; i < SIZE; i++) data[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
  memcpy(before, data, SIZE);
  for (uint32_t size = 0; size < SIZE; size += size < 40 ? 1 : 97) {
    CHECK(codec->compress(codec, data, size, scratch, SIZE, &written) == FB_ETOO_LARGE);
    CHECK(fb_buffer_codec_compress_in_place(codec, data, size, scratch) == 0);
  }
  CHECK(memcmp(before, data, SIZE) == 0);

  memset(data, 9, SIZE);
  written = fb_buffer_codec_compress_in_place(codec, data, SIZE, scratch);
  CHECK(written > 8 && written < 100);
  CHECK(codec->decompress(codec, data, written, scratch, SIZE, &written) == FB_OK);
  CHECK(written == SIZE && scratch[0] == 9 && scratch[SIZE - 1] == 9);
}

static void the_last_holder_frees_it(void) {
  counted.codec.free = count_free;
  atomic_init(&counted.codec.references, 1);
  fb_buffer_codec_retain(&counted.codec);
  fb_buffer_codec_release(&counted.codec);
  CHECK(counted.freed == 0);
  fb_buffer_codec_release(&counted.codec);
  CHECK(counted.freed == 1);

  fb_buffer_codec_retain(NULL);
  fb_buffer_codec_release(NULL);
  for (int i = 0; i < 3; i++) fb_buffer_codec_release(fb_buffer_codec_lz4());
}

int main(void) {
  a_buffer_comes_back();
  what_would_not_shrink_stays();
  the_last_holder_frees_it();
  return 0;
}
