/* The records of one channel, joined again from its buffers.
 *
 * A record that lies in one buffer is given as a pointer into that buffer; only one that spans buffers is
 * copied together, and one longer than the spill threshold goes to a temporary file, which is then mapped.
 * Flink: SpillingAdaptiveSpanningRecordDeserializer with its two wrappers; unlike Flink's, a negative or
 * oversized length and leftovers at the end are errors.
 *
 * Owner:   the deserializer owns its spanning memory and the spill file; buffers given to set_next_buffer()
 *          are borrowed until next() says FB_NEEDS_INPUT (then nothing points into them any more).
 * Threads: one at a time.
 * Use:     set_next_buffer(); while (next() == FB_RECORD) ...; on FB_NEEDS_INPUT give back the buffer,
 *          repeat.
 * Errors:  next() says the same again until clear(), unless the cause has gone: after FB_ENOMEM or FB_EIO
 *          nothing is lost, and a later next() goes on where it stopped. */
#ifndef FB_RECORD_DESERIALIZER_H
#define FB_RECORD_DESERIALIZER_H

#include "ground/byte_order.h"
#include "ground/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FB_SPILL_THRESHOLD_BYTES (5u << 20)
#define FB_SPANNING_KEEP_BYTES   (32u << 10) /* larger spanning memory is given back after its record */

struct fb_record_deserializer_options {
  size_t spill_threshold; /* bytes; longer records go to a file; 0 = 5 MiB */
  size_t max_record_size; /* bytes; a longer length is FB_ETOO_LARGE; 0 = 2^31-1 */
  /* Borrowed for the deserializer's life; NULL-terminated; NULL = $TMPDIR or /tmp. */
  const char* const* spill_dirs;
};

struct fb_record_deserializer {
  /* the buffer being read (non-spanning) */
  const uint8_t* pos;
  const uint8_t* end;
  /* the record being joined (spanning) */
  uint8_t length_bytes[4];
  uint32_t length_count; /* of length_bytes; 0: no record is being joined */
  int64_t record_length; /* -1: not known yet, or not acceptable */
  size_t accumulated;    /* bytes of it so far */
  uint8_t* spanning;
  size_t spanning_capacity;
  bool is_spilling; /* its bytes go to spill_file */
  int spill_file;   /* a descriptor; the file has no name any more */
  uint8_t* spilled; /* the mapped file of the record handed out last */
  size_t spilled_size;
  int io_errno; /* why the last FB_EIO */
  /* where we are, for messages */
  uint32_t last_bytes;                           /* of the record handed out last, length included */
  uint64_t stream_offset;                        /* bytes of all buffers before the current one */
  uint64_t buffer_size;                          /* of the current buffer */
  uint64_t record_count;                         /* handed out */
  struct fb_record_deserializer_options options; /* with the defaults filled in */
};

/* `options` NULL: the defaults. */
void fb_record_deserializer_open(struct fb_record_deserializer* self,
                                 const struct fb_record_deserializer_options* options);
/* Frees everything; removes the spill file. All-zero and closed are the same. */
void fb_record_deserializer_close(struct fb_record_deserializer* self);
/* Forgets all partial data and the rest of the buffer, but stays usable (Flink: clear). */
void fb_record_deserializer_clear(struct fb_record_deserializer* self);

/* The next bytes of the channel. The previous buffer must have been used up (FB_ESTATE otherwise). */
int fb_record_deserializer_set_next_buffer(struct fb_record_deserializer* self, const uint8_t* data, size_t size);

/* The slow half, for what take() left: spanning records, spilling, errors. FB_RECORD: [*record, *record + *size) is the next
 * record, readable until the next call. FB_NEEDS_INPUT: the buffer is used up. FB_ECORRUPT (negative length), FB_ETOO_LARGE,
 * FB_ENOMEM, FB_EIO (io_errno says why). */
int fb_record_deserializer_next_spanning(struct fb_record_deserializer* self, const uint8_t** record, size_t* size);

/* The fast half: takes the next record if it lies whole in the buffer. No system call, no allocation. */
static inline bool fb_record_deserializer_take(struct fb_record_deserializer* self, const uint8_t** record,
                                               size_t* size) {
  size_t left = (size_t)(self->end - self->pos);
  if (left < 4 || self->length_count > 0) return false;

  uint32_t length = fb_load_be32(self->pos);
  /* A negative length is above every maximum. */
  if (length > left - 4 || length > self->options.max_record_size) return false;
  *record = self->pos + 4;
  *size = length;
  self->pos += 4 + length;
  self->last_bytes = 4 + length;
  self->record_count++;
  return true;
}

/* Bytes taken in that belong to a record not yet complete: > 0 at the end of a channel means truncation. */
size_t fb_record_deserializer_pending(const struct fb_record_deserializer* self);
/* Offset in the channel's stream of the record being joined (or refused), else of the one handed out last. */
uint64_t fb_record_deserializer_offset(const struct fb_record_deserializer* self);

/* What has to be replayed first to restore the present state (Flink: getUnconsumedBuffer): returns its size,
 * and copies at most `capacity` bytes of it from `from` on. FB_EIO (io_errno says why). */
int64_t fb_record_deserializer_unconsumed(struct fb_record_deserializer* self, uint64_t from, uint8_t* to,
                                          size_t capacity);

#endif
