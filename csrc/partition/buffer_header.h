/* The eight bytes in front of every buffer in a file of a blocking partition.
 *
 * int16 kind, int16 whether compressed (0 or 1), int32 bytes that follow. Flink writes them in the host's order; ours are
 * little-endian everywhere, so that files can move. Flink: BufferReaderWriterUtil. */
#ifndef FB_BUFFER_HEADER_H
#define FB_BUFFER_HEADER_H

#include "memory/buffer.h"

#define FB_BUFFER_HEADER_SIZE 8

struct fb_buffer_header {
  uint32_t size;     /* bytes of the buffer */
  uint8_t data_type; /* enum fb_buffer_data_type */
  bool is_compressed;
};

/* Writes FB_BUFFER_HEADER_SIZE bytes for `buffer`. FB_EARGUMENT: its data type cannot be stored (it has priority, or belongs
 * to a checkpoint), or it is too large; nothing was written. */
int fb_buffer_header_write(uint8_t* to, const struct fb_buffer_slice* buffer);
/* Reads FB_BUFFER_HEADER_SIZE bytes. FB_ECORRUPT: no such kind, or a compressed event, or a negative size. The caller looks
 * whether the size is one that it expects. */
int fb_buffer_header_read(const uint8_t* from, struct fb_buffer_header* header);

#endif
