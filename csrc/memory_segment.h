/* A block of memory with a fixed size: the unit that pools lend and sockets carry.
 *
 * Owner:   open() allocates and close() frees; a segment made with wrap() borrows. All-zero means closed.
 * Threads: none of its own; at any time one thread writes or many read.
 * Bounds:  an access is inside iff offset <= size - width; otherwise FB_EFREED on a closed segment, else
 *          FB_EBOUNDS, and nothing is read or written. (Flink encodes "freed" in the limit; so do we: a
 *          closed segment has size 0, and only the failing path looks at `data`.)
 * Flink:   MemorySegment. */
#ifndef FB_MEMORY_SEGMENT_H
#define FB_MEMORY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "errors.h"

struct fb_memory_segment {
  uint8_t* data; /* NULL: closed (freed) */
  size_t size;   /* bytes */
  bool is_owner; /* close() frees `data` */
};

/* Allocates `size` zeroed bytes. FB_ENOMEM leaves the segment closed. */
int fb_memory_segment_open(struct fb_memory_segment* self, size_t size);
/* Frees the memory, or lets go of borrowed memory. Closing a closed segment does nothing. */
void fb_memory_segment_close(struct fb_memory_segment* self);
/* Borrows [data, data + size). */
void fb_memory_segment_wrap(struct fb_memory_segment* self, uint8_t* data, size_t size);

#endif
