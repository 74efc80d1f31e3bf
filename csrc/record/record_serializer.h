/* Length-prefixed records, encoded straight into the segment they will be sent from.
 *
 * On a subpartition's byte stream a record is a 4-byte big-endian length and that many bytes; it may start
 * anywhere and span any number of buffers. begin() leaves a hole for the length at the builder's position and
 * gives the encoder the rest of the segment; end() fills the hole and commits. Only a record that does not
 * fit moves to the scratch on the way (data_view.h), and end() says so: the caller then has it cut. Nothing
 * is visible, and the builder's position has not moved, before end(): a failed encode leaves no trace.
 * Flink: RecordWriter.serializeRecord.
 *
 * Owner:   the serializer owns the scratch. Threads: the producing one. */
#ifndef FB_RECORD_SERIALIZER_H
#define FB_RECORD_SERIALIZER_H

#include "ground/byte_order.h"
#include "ground/data_view.h"
#include "memory/buffer_builder.h"

#define FB_LENGTH_BYTES       4
#define FB_SCRATCH_KEEP_BYTES (5u << 20) /* a larger scratch is given back after its record (Flink: 5 MiB) */

struct fb_record_serializer {
  struct fb_data_output output;
};

void fb_record_serializer_close(struct fb_record_serializer* self);

/* Starts a record in borrowed memory [start, end), or in the scratch if that is NULL. FB_ENOMEM. */
static inline int fb_record_serializer_begin_at(struct fb_record_serializer* self, uint8_t* start, uint8_t* end) {
  struct fb_data_output* output = &self->output;

  if (start != NULL) fb_data_output_start(output, start, end);
  else fb_data_output_start_scratch(output);
  if (fb_data_output_reserve(output, FB_LENGTH_BYTES) < 0) return FB_ENOMEM;
  output->pos += FB_LENGTH_BYTES;
  return FB_OK;
}

/* Ends the record: fills in its length. Returns the framed size; it lies at output.start. */
static inline size_t fb_record_serializer_frame(struct fb_record_serializer* self) {
  size_t size = fb_data_output_size(&self->output);

  fb_store_be32(self->output.start, (uint32_t)(size - FB_LENGTH_BYTES));
  return size;
}

/* Starts a record at the end of `builder`. */
static inline int fb_record_serializer_begin(struct fb_record_serializer* self,
                                             const struct fb_buffer_builder* builder) {
  return fb_record_serializer_begin_at(self, builder->data + builder->position, builder->data + builder->capacity);
}

/* Ends the record. FB_RECORD: it lies in the builder, committed. FB_NEEDS_BUFFER: it lies in the scratch,
 * framed; the caller appends output.start .. output.pos through the partition. */
static inline int fb_record_serializer_end(struct fb_record_serializer* self, struct fb_buffer_builder* builder) {
  size_t size = fb_record_serializer_frame(self);

  if (fb_data_output_in_scratch(&self->output)) return FB_NEEDS_BUFFER;
  builder->position += (uint32_t)size;
  fb_buffer_builder_commit(builder);
  return FB_RECORD;
}

#endif
