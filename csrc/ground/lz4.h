/* LZ4's block format: what compresses shuffled bytes at nearly the speed of the network, and restores them faster.
 *
 * The format is the block of LZ4 1.x, without frame, length or checksum: both sizes travel beside it.
 * Flink: Lz4BlockCompressor and Lz4BlockDecompressor, on lz4-java.
 *
 * Owner:   nothing is allocated; compressing takes 16 KiB of the stack.
 * Threads: any. */
#ifndef FB_LZ4_H
#define FB_LZ4_H

#include <stdint.h>

#include "ground/errors.h"

/* Neither function takes more: lengths and positions stay inside 31 bits. */
#define FB_LZ4_MAX_SIZE 0x7e000000u

/* Compresses `size` bytes to at most `capacity` bytes at `to`, which must not overlap them, and sets `*written`.
 * FB_ETOO_LARGE: they do not fit (`to` may have been written to), or `size` is over FB_LZ4_MAX_SIZE. */
int fb_lz4_compress(const uint8_t* data, uint32_t size, uint8_t* to, uint32_t capacity, uint32_t* written);

/* Restores the `size` bytes that a block of `block_size` stands for; the two must not overlap. Nothing in the block is
 * believed, and nothing outside of either is touched. FB_ECORRUPT: it is no such block, or stands for another number
 * of bytes (`to` may have been written to). */
int fb_lz4_decompress(const uint8_t* block, uint32_t block_size, uint8_t* to, uint32_t size);

#endif
