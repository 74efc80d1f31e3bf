/* The result partition whose readers read while it is written: a queue for each, read once.
 *
 * Of an approximate one a new reader takes the place of the one before it.
 * Flink: PipelinedResultPartition, PipelinedSubpartitionView, PipelinedApproximateSubpartitionView.
 *
 * Owner:   result_partition.h.
 * Threads: result_partition.h. */
#ifndef FB_PIPELINED_PARTITION_H
#define FB_PIPELINED_PARTITION_H

#include "partition/result_partition.h"
#include "partition/subpartition.h"

/* Takes the pool's handle over, also on failure. `type` is one of the pipelined ones. FB_EARGUMENT (another type, 0
 * subpartitions, or over 2^31), FB_ENOMEM. */
int fb_pipelined_partition_open(enum fb_result_partition_type type, uint32_t subpartition_count,
                                struct fb_local_buffer_pool* pool, struct fb_result_partition** self);

/* The queue of a subpartition that exists, of a partition that was opened here. */
struct fb_subpartition* fb_pipelined_partition_queue(struct fb_result_partition* self, uint32_t index);

#endif
