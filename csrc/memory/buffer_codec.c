#include "memory/buffer_codec.h"

#include <string.h>

#include "ground/byte_order.h"
#include "ground/lz4.h"

#define HEADER FB_BUFFER_CODEC_HEADER_SIZE

int fb_buffer_codec_read_header(const uint8_t* block, uint32_t block_size, uint32_t capacity, uint32_t* original_size) {
  if (block_size <= HEADER) return FB_ETRUNCATED;
  if (fb_load_le32(block) != block_size - HEADER) return FB_ETRUNCATED;

  uint32_t size = fb_load_le32(block + 4);
  if (size == 0 || size > INT32_MAX) return FB_ECORRUPT;
  if (size > capacity) return FB_ETOO_LARGE;
  *original_size = size;
  return FB_OK;
}

static int lz4_block_compress(struct fb_buffer_codec* self, const uint8_t* data, uint32_t size, uint8_t* to,
                              uint32_t capacity, uint32_t* written) {
  (void)self;
  if (capacity >= size) capacity = size - 1; /* size 0: the check below */
  if (size <= HEADER || capacity <= HEADER) return FB_ETOO_LARGE;

  uint32_t body;
  int code = fb_lz4_compress(data, size, to + HEADER, capacity - HEADER, &body);
  if (code < 0) return code;
  fb_store_le32(to, body);
  fb_store_le32(to + 4, size);
  *written = body + HEADER;
  return FB_OK;
}

static int lz4_block_decompress(struct fb_buffer_codec* self, const uint8_t* block, uint32_t block_size, uint8_t* to,
                                uint32_t capacity, uint32_t* written) {
  (void)self;
  uint32_t size;
  int code = fb_buffer_codec_read_header(block, block_size, capacity, &size);
  if (code < 0) return code;
  code = fb_lz4_decompress(block + HEADER, block_size - HEADER, to, size);
  if (code < 0) return code;
  *written = size;
  return FB_OK;
}

struct fb_buffer_codec* fb_buffer_codec_lz4(void) {
  static struct fb_buffer_codec codec = {
      .name = "LZ4",
      .compress = lz4_block_compress,
      .decompress = lz4_block_decompress,
  };
  return &codec;
}

void fb_buffer_codec_retain(struct fb_buffer_codec* self) {
  if (self == NULL || self->free == NULL) return;
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
}

void fb_buffer_codec_release(struct fb_buffer_codec* self) {
  if (self == NULL || self->free == NULL) return;
  /* Acquire and release pair with other holders' decrements: all their calls are over before the codec is freed. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1) self->free(self);
}

uint32_t fb_buffer_codec_compress_in_place(struct fb_buffer_codec* self, uint8_t* data, uint32_t size,
                                           uint8_t* scratch) {
  uint32_t written = 0;
  if (size == 0 || self->compress(self, data, size, scratch, size, &written) < 0) return 0;
  memcpy(data, scratch, written);
  return written;
}
