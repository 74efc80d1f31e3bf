/* Buffers that were filled in place, waiting in memory to be written to a partition file as one region or a few.
 *
 * Each subpartition has a list of its own, and there is one for what is broadcast. Unicast and broadcast follow each other in
 * phases. A broadcast phase that is small beside the rest is written with the subpartitions it stands between, once for each,
 * instead of making regions of its own and of what comes before and after it. Flink: HashBasedDataBuffer.
 *
 * Owner:   owns the consumers it was given until write() or close(); all-zero is closed.
 * Threads: one. */
#ifndef FB_HASH_DATA_BUFFER_H
#define FB_HASH_DATA_BUFFER_H

#include "memory/buffer_builder.h"
#include "memory/buffer_codec.h"
#include "partition/partition_file_writer.h"

struct fb_hash_part; /* opaque */
struct fb_hash_phase;

struct fb_hash_data_buffer {
  uint32_t subpartition_count;
  struct fb_hash_part* parts;
  uint32_t part_count, part_capacity;
  uint32_t* first; /* part of each subpartition, and (the last) of what is broadcast; UINT32_MAX: none */
  uint32_t* last;
  struct fb_hash_phase* phases;
  uint32_t phase_count, phase_capacity;
};

/* FB_ENOMEM: stays closed. */
int fb_hash_data_buffer_open(struct fb_hash_data_buffer* self, uint32_t subpartition_count);
void fb_hash_data_buffer_close(struct fb_hash_data_buffer* self);
static inline bool fb_hash_data_buffer_is_empty(const struct fb_hash_data_buffer* self) {
  return self->part_count == 0;
}

/* Room for one more. FB_ENOMEM. */
int fb_hash_data_buffer_reserve(struct fb_hash_data_buffer* self);
/* Takes the consumer over, behind all others of `target` (subpartition_count: of all). Room was reserved. */
void fb_hash_data_buffer_add(struct fb_hash_data_buffer* self, uint32_t target, struct fb_buffer_consumer* consumer);

/* How write() does it. */
struct fb_hash_write {
  struct fb_partition_file_writer* writer;
  struct fb_buffer_codec* codec; /* NULL: nothing is compressed */
  uint8_t* scratch;              /* for the codec: as many bytes as the largest buffer */
  bool merges_regions;
  bool is_last; /* the last broadcast phase keeps a region of its own */
};
/* Writes all that is there, whose builders are finished, and forgets it, also when it fails. */
int fb_hash_data_buffer_write(struct fb_hash_data_buffer* self, const struct fb_hash_write* how,
                              struct fb_file_failure* failure);

#endif
