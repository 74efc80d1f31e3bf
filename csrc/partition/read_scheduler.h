/* Reads one partition file for all of its readers, on the thread of an I/O
 * executor, in the order of the file.
 *
 * A reader that is running low asks. A run serves those that have asked: from
 * where the last run ended towards the end of the file, then from its front, so
 * that the disk is read in one direction however many readers there are. Each
 * gets a chunk of memory from the shared pool; one that finds none waits there,
 * and costs nothing meanwhile. When the executor is closed, all that have not
 * read everything are told. Flink: SortMergeResultPartitionReadScheduler.
 *
 * Owner:   counted: its partition has a reference, and each reader. Holds the
 * file, the pool and the executor. Threads: any. One lock, under which nothing
 * is called. */
#ifndef FB_READ_SCHEDULER_H
#define FB_READ_SCHEDULER_H

#include "partition/partition_file.h"
#include "partition/read_buffer_pool.h"
#include "partition/sort_merge_reader.h"

struct fb_read_scheduler; /* opaque */

/* References of its own of all three. FB_ENOMEM. */
int fb_read_scheduler_open(struct fb_partition_file* file, struct fb_read_buffer_pool* pool,
                           struct fb_io_executor* executor, struct fb_read_scheduler** self);
void fb_read_scheduler_retain(struct fb_read_scheduler* self);
void fb_read_scheduler_drop(struct fb_read_scheduler* self);

struct fb_partition_file* fb_read_scheduler_file(struct fb_read_scheduler* self);
/* What its readers are opened with. */
struct fb_sort_merge_source* fb_read_scheduler_source(struct fb_read_scheduler* self);
/* Fails all readers, and those to come, with FB_ERELEASED. Idempotent. */
void fb_read_scheduler_release(struct fb_read_scheduler* self);

#endif
