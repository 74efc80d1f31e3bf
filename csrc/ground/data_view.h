/* Cursors over bytes: where a codec writes a record, and where it reads one.
 *
 * An output starts inside a memory segment, so that most records are encoded where they will be sent
 * from. When the record outgrows the segment, the bytes written so far move to a growable scratch
 * buffer and the encoder goes on there without noticing; whoever opened the output then cuts the
 * scratch over buffers. Flink: DataOutputSerializer and DataInputDeserializer.
 *
 * Owner:   an output owns its scratch until close(); `start`..`end` may be borrowed memory.
 * Threads: one at a time. */
#ifndef FB_DATA_VIEW_H
#define FB_DATA_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/errors.h"

struct fb_data_output {
  uint8_t* start; /* first byte of what is being written */
  uint8_t* pos;   /* next byte to write */
  uint8_t* end;   /* one past the last byte that may be written */
  uint8_t* scratch;
  size_t scratch_capacity; /* bytes */
  int64_t record_number;   /* for messages: which record this is, from 0; -1 unknown */
};

struct fb_data_input {
  const uint8_t* start; /* first byte of the value, for offsets in messages */
  const uint8_t* pos;
  const uint8_t* end;
  int64_t record_number; /* for messages: which record this is, from 0; -1 unknown */
  int64_t channel;       /* for messages: channel index; -1 unknown */
};

/* Frees the scratch. All-zero and closed are the same. */
void fb_data_output_close(struct fb_data_output* self);

/* Starts writing into borrowed memory [start, end). The scratch, if any, is kept for later. */
static inline void fb_data_output_start(struct fb_data_output* self, uint8_t* start, uint8_t* end) {
  self->start = self->pos = start;
  self->end = end;
}

/* Starts writing into the scratch itself (empty; it grows as needed). */
static inline void fb_data_output_start_scratch(struct fb_data_output* self) {
  self->start = self->pos = self->scratch;
  self->end = self->scratch;
  if (self->scratch != NULL) self->end += self->scratch_capacity; /* NULL + 0 is undefined in C */
}

/* Whether what was written since start lies in the scratch. */
static inline bool fb_data_output_in_scratch(const struct fb_data_output* self) { return self->start == self->scratch; }

static inline size_t fb_data_output_size(const struct fb_data_output* self) {
  return (size_t)(self->pos - self->start);
}

/* The slow half of fb_data_output_reserve. */
int fb_data_output_grow(struct fb_data_output* self, size_t size);

/* Makes room for `size` more bytes at `pos`: in place, or by moving on to (or growing) the scratch.
 * FB_ENOMEM, FB_ETOO_LARGE (a record of 2^31 bytes or more) leave what was written as it was. */
static inline int fb_data_output_reserve(struct fb_data_output* self, size_t size) {
  if ((size_t)(self->end - self->pos) >= size) return FB_OK;
  return fb_data_output_grow(self, size);
}

/* Gives an oversized scratch back (Flink prunes above 5 MiB); nothing may be in writing. */
void fb_data_output_prune(struct fb_data_output* self, size_t limit);

static inline size_t fb_data_input_left(const struct fb_data_input* self) { return (size_t)(self->end - self->pos); }

#endif
