/* Any bytes as a block: restoring stays inside; what it gives is compressed and restored to the same bytes. Any bytes
 * as data: they come back, and a capacity that is too small is said.
 *
 * Input: 2 bytes little-endian size of the original that is expected, then the block. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz_replay.h"
#include "ground/byte_order.h"
#include "ground/lz4.h"

/* Of exactly that size, so that the sanitizer sees each byte too many. */
static uint8_t* room(size_t size) {
  uint8_t* memory = malloc(size > 0 ? size : 1);
  CHECK(memory != NULL);
  return memory;
}

/* Bytes that a block has at most. */
static uint32_t bound_of(uint32_t size) { return size + size / 255 + 16; }

static void round_trip(const uint8_t* data, uint32_t size) {
  uint32_t written, tight;
  uint8_t* block = room(bound_of(size));
  CHECK(fb_lz4_compress(data, size, block, bound_of(size), &written) == FB_OK);
  uint8_t* restored = room(size);
  CHECK(fb_lz4_decompress(block, written, restored, size) == FB_OK);
  CHECK(memcmp(restored, data, size) == 0);

  uint8_t* small = room(size / 2);
  int code = fb_lz4_compress(data, size, small, size / 2, &tight);
  CHECK(code == FB_OK ? tight == written && memcmp(small, block, written) == 0 : code == FB_ETOO_LARGE);
  free(small);
  free(restored);
  free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 1 << 20) return 0;
  uint32_t original_size = fb_load_le16(data);
  uint8_t* original = room(original_size);
  int code = fb_lz4_decompress(data + 2, (uint32_t)size - 2, original, original_size);
  CHECK(code == FB_OK || code == FB_ECORRUPT);
  if (code == FB_OK) round_trip(original, original_size);
  free(original);

  round_trip(data + 2, (uint32_t)size - 2);
  return 0;
}
