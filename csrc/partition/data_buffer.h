/* Records of many subpartitions in few segments: memory that does not grow with the number of channels.
 *
 * All segments form one log. Each record is an index entry of 16 bytes (length and data type, address of the
 * next entry of the same subpartition) followed by its bytes; the entry never crosses a segment, the bytes may.
 * append() is all or nothing. finish() turns the log around: read() then gives full buffers, subpartition after
 * subpartition, each holding one subpartition only; an event has a buffer of its own. Flink: SortBasedDataBuffer.
 *
 * Owner:   the buffer borrows `segments` from whoever opened it, until reset() or close().
 * Threads: one at a time. */
#ifndef FB_DATA_BUFFER_H
#define FB_DATA_BUFFER_H

#include "memory/buffer.h"

struct fb_data_buffer {
  uint8_t** segments; /* borrowed; the array itself is owned */
  uint32_t segment_count;
  uint32_t segment_size;
  uint32_t subpartition_count;
  uint64_t* first_entries; /* per subpartition: segment << 32 | offset; UINT64_MAX = none */
  uint64_t* last_entries;
  uint32_t write_segment;
  uint32_t write_offset;
  uint64_t record_count;
  uint64_t total_bytes; /* of records, without entries */
  bool is_finished;
  /* reading */
  const uint32_t* order; /* borrowed; subpartitions in the order they are read; NULL = 0, 1, 2 ... */
  uint32_t read_order;   /* position in `order` */
  uint64_t read_entry;
  uint32_t read_record_bytes; /* of the current record already read */
};

/* FB_EARGUMENT (nothing to write to, or segments of less than an entry), FB_ENOMEM: it stays closed. */
int fb_data_buffer_open(struct fb_data_buffer* self, uint32_t subpartition_count, uint8_t* const* segments,
                        uint32_t segment_count, uint32_t segment_size);
void fb_data_buffer_close(struct fb_data_buffer* self);

/* FB_RECORD: stored. FB_NEEDS_BUFFER: does not fit in what is left; nothing was written. FB_EARGUMENT (empty
 * record, subpartition out of range), FB_ETOO_LARGE (2^32 bytes or more), FB_ESTATE (finished). */
int fb_data_buffer_append(struct fb_data_buffer* self, uint32_t subpartition, enum fb_buffer_data_type type,
                          const uint8_t* data, size_t size);
/* From now on it is read. `order` names each subpartition once and is borrowed (NULL: ascending). */
void fb_data_buffer_finish(struct fb_data_buffer* self, const uint32_t* order);
/* Fills `to` with the next bytes of one subpartition and one type: returns the count (0: all has been read).
 * Only an event longer than `capacity` goes on in the next buffer; the caller gives room for the longest. */
uint32_t fb_data_buffer_read(struct fb_data_buffer* self, uint8_t* to, uint32_t capacity, uint32_t* subpartition,
                             enum fb_buffer_data_type* type);
/* Empty again, same segments. */
void fb_data_buffer_reset(struct fb_data_buffer* self);

#endif
