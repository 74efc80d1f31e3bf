/* A result partition on disk with a file for each subpartition, readable any number of times once it is finished.
 *
 * Buffers are filled as those of a pipelined partition, and written when the pool has no more, many of a subpartition with
 * one system call. A reader has two buffers of its own, or looks into the mapped file; what is not in memory is read ahead by
 * the executor. Its files are <path>.<subpartition>.data. Flink: BoundedBlockingResultPartition,
 * BoundedBlockingSubpartition, BoundedBlockingSubpartitionReader and its direct-transfer kind.
 *
 * Owner:   as every result partition (result_partition.h). Files go with the release, when the last reader has gone and
 *          the producer writes no more: it looks before each file, at the end, and when it closes. At the latest they go with
 *          the partition, but for a persistent one that was finished.
 * Threads: as every result partition. */
#ifndef FB_BOUNDED_PARTITION_H
#define FB_BOUNDED_PARTITION_H

#include "io/io_executor.h"
#include "memory/buffer_codec.h"
#include "partition/bounded_data.h"
#include "partition/result_partition.h"

struct fb_bounded_options {
  enum fb_bounded_storage storage;
  const char* path;                /* copied; what all its files begin with */
  uint64_t region_limit;           /* bytes; 0: as large as can be */
  struct fb_io_executor* executor; /* retained; reads for those who may not wait */
  struct fb_buffer_codec* codec;   /* retained; NULL: nothing is compressed */
};

/* `type` is FB_BLOCKING or FB_BLOCKING_PERSISTENT. Takes the pool's handle over, also on failure. Creates all files; if one
 * fails, those before it are removed. FB_EARGUMENT, FB_EIO, FB_ENOMEM. */
int fb_bounded_partition_open(enum fb_result_partition_type type, uint32_t subpartition_count,
                              struct fb_local_buffer_pool* pool, const struct fb_bounded_options* options,
                              struct fb_result_partition** self, struct fb_file_failure* failure);

#endif
