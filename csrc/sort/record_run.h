/* Sorted runs in one file: how records that no memory holds are put aside, and read back in order.
 *
 * A run is a part of the file: records one behind the other, each 16 bytes of lengths and timestamp, its key, its
 * bytes. Numbers are in the order of the machine, since nobody else reads them. Flink: the channels of SpillingThread,
 * ChannelReaderInputViewIterator.
 *
 * Owner:   writer and reader own their buffers; both borrow the channel.
 * Threads: one at a time; they may wait for the disk. */
#ifndef FB_RECORD_RUN_H
#define FB_RECORD_RUN_H

#include "io/file_channel.h"

/* A record and what it is sorted by. */
struct fb_sorted_record {
  const uint8_t* key;
  const uint8_t* record;
  uint32_t key_size;
  uint32_t record_size;
  int64_t timestamp;
};

enum { FB_RECORD_RUN_HEAD = 16 }; /* bytes before the key */

/* Where a run lies in its file. */
struct fb_record_run {
  uint64_t offset;
  uint64_t size; /* bytes */
};

struct fb_record_run_writer {
  struct fb_file_channel* channel;
  uint8_t* buffer;
  size_t capacity;
  size_t used;
  struct fb_record_run run; /* what was added since begin() */
};

/* FB_ENOMEM. */
int fb_record_run_writer_open(struct fb_record_run_writer* self, struct fb_file_channel* channel, size_t capacity);
void fb_record_run_writer_close(struct fb_record_run_writer* self);
/* A new run begins where the file ends. */
void fb_record_run_writer_begin(struct fb_record_run_writer* self);
/* FB_EIO. */
int fb_record_run_writer_add(struct fb_record_run_writer* self, const struct fb_sorted_record* record,
                             struct fb_file_failure* failure);
/* Writes what is held back: `run` is whole then. FB_EIO. */
int fb_record_run_writer_end(struct fb_record_run_writer* self, struct fb_file_failure* failure);

struct fb_record_run_reader {
  const struct fb_file_channel* channel;
  uint64_t offset; /* of the next byte to read */
  uint64_t end;    /* of the run */
  uint8_t* buffer;
  size_t capacity;
  size_t start; /* of what was read and not given */
  size_t used;
  struct fb_sorted_record head; /* what next() has found; good until the next call */
};

/* FB_ENOMEM. */
int fb_record_run_reader_open(struct fb_record_run_reader* self, const struct fb_file_channel* channel,
                              const struct fb_record_run* run, size_t capacity);
void fb_record_run_reader_close(struct fb_record_run_reader* self);
/* 1: `head` is the next record; 0: the run has ended. FB_EIO, FB_ETRUNCATED, FB_ECORRUPT (with path and offset), FB_ENOMEM. */
int fb_record_run_reader_next(struct fb_record_run_reader* self, struct fb_file_failure* failure);

/* Whether the next call of next() has to read the file. */
bool fb_record_run_reader_must_read(const struct fb_record_run_reader* self);

#endif
