/* Records of one fixed width, many a call: a column of numbers in, a column of numbers out.
 *
 * On the stream they are ordinary records (4-byte length, big-endian payload). These loops handle the
 * records that lie whole in one buffer; the one at a buffer's edge goes the ordinary way.
 *
 * Owner:   borrows everything. Threads: the builder's, the deserializer's.
 * Bytes:   `values` are in the host's order, `width` (1, 2, 4 or 8) bytes each. */
#ifndef FB_RECORD_BATCH_H
#define FB_RECORD_BATCH_H

#include "memory/buffer_builder.h"
#include "record/record_deserializer.h"

/* Appends as many of `count` values as fit whole; returns how many. Not visible before commit(). */
size_t fb_record_batch_write(struct fb_buffer_builder* builder, const uint8_t* values, uint32_t width, size_t count);

/* Values of one width, each for a builder of its own. */
struct fb_record_batch {
  const uint8_t* values;
  const uint32_t* channels; /* numbers of builders */
  size_t count;
  uint32_t width;
};

/* Appends each value to the builder of its channel and counts it there, up to the first that has no open builder with
 * room for more than it: returns how many. Not visible before commit(). */
size_t fb_record_batch_scatter(struct fb_buffer_builder* builders, uint32_t builder_count,
                               const struct fb_record_batch* batch, uint64_t* counts);

/* Reads up to `count` whole records of `width` bytes out of the current buffer; returns how many. It stops
 * before a record that spans buffers or has another length: fb_record_deserializer_next_spanning then says which. */
size_t fb_record_batch_read(struct fb_record_deserializer* deserializer, uint8_t* values, uint32_t width, size_t count);

#endif
