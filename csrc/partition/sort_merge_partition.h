/* A blocking partition in one data file and one index, however many subpartitions it has.
 *
 * With two buffers and more for each subpartition, builders are filled in place as those of a pipelined partition, and what
 * is finished waits in memory (hash_data_buffer.h); with fewer, records go to a log (data_buffer.h). When the memory is full,
 * the producer writes all of it as a region, in large system calls. A record larger than the whole log is a region by itself.
 * Views read through a read scheduler (read_scheduler.h). Flink: SortMergeResultPartition.
 *
 * Owner:   counted, as every result partition. The files are removed when it and its readers are gone; those of a
 *          persistent partition stay once it is finished and closed.
 * Threads: as result_partition.h. Files are written by the producer, read on the executor. */
#ifndef FB_SORT_MERGE_PARTITION_H
#define FB_SORT_MERGE_PARTITION_H

#include "memory/buffer_codec.h"
#include "partition/read_scheduler.h"
#include "partition/result_partition.h"

#define FB_RANDOM_SUBPARTITION UINT32_MAX

struct fb_sort_merge_options {
  enum fb_result_partition_type
      type; /* FB_BLOCKING, FB_BLOCKING_PERSISTENT: its files outlive it, are synced and summed */
  uint32_t subpartition_count;
  const char* base_path;         /* copied */
  uint32_t first_subpartition;   /* of the order in which they are written; or FB_RANDOM_SUBPARTITION */
  uint32_t log_segments;         /* of the log; 0: as many as the pool gives */
  bool keeps_small_regions;      /* writes them as they come, as Flink does; else they are merged */
  struct fb_buffer_codec* codec; /* NULL: nothing is compressed */
  struct fb_read_buffer_pool* read_pool;
  struct fb_io_executor* executor; /* that reads in this directory */
};

/* Creates the data file. Takes the pool over, also on failure. FB_EARGUMENT (fewer than two segments are guaranteed to the
 * pool; no such type), FB_EIO, FB_ENOMEM: failure says why. */
int fb_sort_merge_partition_open(const struct fb_sort_merge_options* options, struct fb_local_buffer_pool* pool,
                                 struct fb_result_partition** self, struct fb_file_failure* failure);
/* A finished file as a partition that is read like any other. It never removes the file. FB_ENOMEM. */
int fb_sort_merge_partition_open_file(struct fb_partition_file* file, struct fb_read_buffer_pool* read_pool,
                                      struct fb_io_executor* executor, struct fb_result_partition** self);

/* A reference of the file, which a persistent partition has summed; NULL: it is not finished, or released. */
struct fb_partition_file* fb_sort_merge_partition_take_file(struct fb_result_partition* self);

#endif
