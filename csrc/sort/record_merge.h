/* Merges sorted runs of one file into one order; equal records come by the number of their run.
 *
 * Owner:   owns its readers and their buffers; borrows the channel.
 * Threads: one at a time; it waits for the disk. */
#ifndef FB_RECORD_MERGE_H
#define FB_RECORD_MERGE_H

#include "sort/record_run.h"

struct fb_record_merge_head {
  uint64_t prefix; /* of the reader's head, fb_record_order_prefix */
  uint32_t run;
};

struct fb_record_merge {
  struct fb_record_run_reader* readers;
  uint32_t reader_count;
  struct fb_record_merge_head* heap; /* smallest first; those that have not ended */
  uint32_t heap_size;
  bool is_started; /* the head of the heap was given */
};

/* `buffer_bytes` for each run. FB_ENOMEM, or what reading gives: stays closed. */
int fb_record_merge_open(struct fb_record_merge* self, const struct fb_file_channel* channel,
                         const struct fb_record_run* runs, uint32_t run_count, size_t buffer_bytes,
                         struct fb_file_failure* failure);
void fb_record_merge_close(struct fb_record_merge* self);
/* As fb_record_run_reader_next. */
int fb_record_merge_next(struct fb_record_merge* self, struct fb_sorted_record* record,
                         struct fb_file_failure* failure);

/* Whether the next call of next() has to read the file. */
bool fb_record_merge_must_read(const struct fb_record_merge* self);

#endif
