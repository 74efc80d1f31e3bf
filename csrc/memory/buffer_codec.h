/* How single buffers are compressed and restored: one codec, LZ4 or ZSTD, for all buffers of a partition.
 *
 * A compressed buffer is one block: 4 bytes little-endian length of the body, 4 bytes little-endian length of the
 * original, the body. Nothing in it names the codec: producer and consumer agree beforehand.
 * LZ4 is in C (fb_buffer_codec_lz4); ZSTD is a codec of flinkbuf/_core/memory/buffer_codec.pyx, which takes the GIL.
 * Flink: BlockCompressor and BlockDecompressor, as BufferCompressor and BufferDecompressor use them.
 *
 * Owner:   whoever holds a reference; the last release() frees the codec. That of LZ4 is never freed.
 * Threads: any number at once: a codec keeps nothing between two calls.
 * Locks:   call neither function with a lock held that a holder of the GIL may want. */
#ifndef FB_BUFFER_CODEC_H
#define FB_BUFFER_CODEC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/errors.h"

#define FB_BUFFER_CODEC_HEADER_SIZE 8u

struct fb_buffer_codec {
  const char* name; /* "LZ4", "ZSTD": for errors and descriptions */

  /* Writes the block of `size` bytes (at least 1) to at most `capacity` bytes at `to`, which does not overlap them.
   * FB_ETOO_LARGE: it is not smaller than they are, or does not fit; send them as they are. Other codes: the codec
   * itself failed (FB_ENOMEM); they may be sent as they are then, too. `to` may have been written to. */
  int (*compress)(struct fb_buffer_codec* self, const uint8_t* data, uint32_t size, uint8_t* to, uint32_t capacity,
                  uint32_t* written);

  /* Writes the original of a block of `block_size` bytes, nothing behind it, to at most `capacity` bytes at `to`.
   * FB_ECORRUPT: it is no block of this codec. FB_ETRUNCATED: it is cut off, or more lies behind it.
   * FB_ETOO_LARGE: the original has more than `capacity` bytes. `to` may have been written to. */
  int (*decompress)(struct fb_buffer_codec* self, const uint8_t* block, uint32_t block_size, uint8_t* to,
                    uint32_t capacity, uint32_t* written);

  void (*free)(struct fb_buffer_codec* self); /* runs once, at the last release; NULL: never freed, never counted */
  _Atomic uint32_t references;
};

/* The codec of LZ4: one per process and extension; retaining and releasing it does nothing. */
struct fb_buffer_codec* fb_buffer_codec_lz4(void);

void fb_buffer_codec_retain(struct fb_buffer_codec* self); /* NULL: nothing happens */
void fb_buffer_codec_release(struct fb_buffer_codec* self);

/* Replaces `size` bytes by their block when that is smaller: gives the block's bytes, or 0 when they stay as they are.
 * `scratch` has room for `size` bytes. What the codec fails at is left as it is: compression is never a reason to
 * lose a partition. */
uint32_t fb_buffer_codec_compress_in_place(struct fb_buffer_codec* self, uint8_t* data, uint32_t size,
                                           uint8_t* scratch);

/* The bytes of the original that a block states, and of its body, checked against `block_size` and `capacity`.
 * Codes as decompress(). */
int fb_buffer_codec_read_header(const uint8_t* block, uint32_t block_size, uint32_t capacity, uint32_t* original_size);

#endif
