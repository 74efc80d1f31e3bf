/* Sorts records by key and time, more of them than memory holds.
 *
 * What is added lies in blocks of memory. When that is full, the caller has it spilled: sorted, and written as a run
 * to a file. finish() sorts what is left; next() then gives all records in order, out of memory or merged from the
 * runs. Records that are equal in key and timestamp come in the order in which they were added. Flink: ExternalSorter
 * (PushSorter), as SortingDataInput uses it.
 *
 * Owner:   owns its memory and its files, which are gone after close().
 * Threads: one at a time. spill(), finish() and next() may wait for the disk. */
#ifndef FB_RECORD_SORTER_H
#define FB_RECORD_SORTER_H

#include "sort/record_order.h"
#include "sort/record_run.h"

struct fb_record_sorter {
  size_t memory_bytes; /* the budget: blocks, references, buffers of runs */
  uint32_t max_fan_in; /* runs that are merged at once */
  char* base_path;     /* NULL: nothing can be spilled; owned */
  /* what was added and not spilled */
  struct fb_sorter_block* blocks; /* the newest first */
  size_t block_bytes;             /* in all blocks */
  struct fb_record_reference* references;
  size_t count;
  size_t capacity;
  size_t read_place;      /* next() in memory */
  int64_t last_timestamp; /* of what was added last */
  bool is_by_time;        /* timestamps in memory do not only rise */
  bool is_finished;
  /* what was spilled */
  struct fb_file_channel file;
  uint32_t file_number; /* of the next file */
  struct fb_record_run* runs;
  size_t run_count;
  size_t run_capacity;
  struct fb_record_merge* merge; /* next() from runs */
  struct fb_file_failure failure;
  uint64_t record_count;
};

/* `memory_bytes` at least 64 KiB, `max_fan_in` at least 2; else FB_EARGUMENT. No memory is taken before the first record. */
int fb_record_sorter_open(struct fb_record_sorter* self, size_t memory_bytes, uint32_t max_fan_in);
void fb_record_sorter_close(struct fb_record_sorter* self);

/* Where files go: `<base>.sort.0` and so on; copied. Once, before the first spill. FB_ENOMEM, FB_ESTATE. */
int fb_record_sorter_set_path(struct fb_record_sorter* self, const char* base_path);

/* FB_RECORD; FB_NEEDS_BUFFER: memory is full, nothing was added, spill() first. FB_ENOMEM, FB_ESTATE (finished),
 * FB_ETOO_LARGE (2^31 bytes or more). A record larger than the budget is taken if it is alone. */
int fb_record_sorter_add(struct fb_record_sorter* self, const uint8_t* key, size_t key_size, int64_t timestamp,
                         const uint8_t* record, size_t record_size);
/* Writes what is in memory to a run. FB_ESTATE (no path), FB_ENOMEM, FB_EIO: see `failure`. */
int fb_record_sorter_spill(struct fb_record_sorter* self);
/* No more is added. Errors as spill(), and those of reading runs. */
int fb_record_sorter_finish(struct fb_record_sorter* self);
/* 1: *record is the next one, good until the next call; 0: that was all. Errors of reading: see `failure`. */
int fb_record_sorter_next(struct fb_record_sorter* self, struct fb_sorted_record* record);

/* Whether next() has to read the file: the caller lets others run meanwhile. */
bool fb_record_sorter_may_wait(const struct fb_record_sorter* self);

/* Memory in use now, in bytes. */
size_t fb_record_sorter_used_bytes(const struct fb_record_sorter* self);

#endif
