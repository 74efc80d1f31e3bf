/* Makes what was written readable after a while, also when buffers fill slowly.
 *
 * One thread serves all writers of a process: each registered partition has an interval and a list of
 * subpartitions that were written to since they were last flushed (the dirty list); the thread sleeps until
 * the next one is due, and for ever when nothing is dirty. Flink has one OutputFlusher thread per writer
 * that wakes all subpartitions.
 *
 * Owner:   the process; whoever opened it closes it after the last partition was removed. It holds a
 *          reference of each partition it serves.
 * Threads: mark() by the producer of a partition, the rest by anybody; add() before the producer writes on,
 *          remove() when it has stopped. Partitions are flushed without a lock held, so their listeners run
 *          on this thread; they must not call add, remove or close. The thread takes no Python lock.
 * Fork:    a child must not use its parent's flusher (threads do not survive); open a new one. */
#ifndef FB_OUTPUT_FLUSHER_H
#define FB_OUTPUT_FLUSHER_H

#include "partition/result_partition.h"

struct fb_output_flusher; /* opaque */

/* Starts the thread. FB_ENOMEM, FB_ETHREAD. */
int fb_output_flusher_open(struct fb_output_flusher** self);
/* Stops and joins the thread. Partitions that are still served are let go of. */
void fb_output_flusher_close(struct fb_output_flusher* self);
/* From now on dirty subpartitions of `partition` are flushed within `interval_ms` (> 0). FB_EARGUMENT,
 * FB_ESTATE (it has a flusher already), FB_ENOMEM. */
int fb_output_flusher_add(struct fb_output_flusher* self, struct fb_result_partition* partition, int64_t interval_ms);
/* After this returns the flusher does not touch the partition. Does not flush. One that is not served is left
 * alone. */
void fb_output_flusher_remove(struct fb_output_flusher* self, struct fb_result_partition* partition);
/* Partitions it serves. */
uint32_t fb_output_flusher_partition_count(struct fb_output_flusher* self);
/* Times the thread woke up, for tests and metrics: it does not while nothing is dirty. */
uint64_t fb_output_flusher_turn_count(struct fb_output_flusher* self);

#endif
