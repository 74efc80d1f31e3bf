/* Makes what was written readable after a while, also when buffers fill slowly.
 *
 * One thread serves all writers of a process: each registered partition has an interval and a list of
 * subpartitions that were written to since they were last flushed (the dirty list); the thread sleeps until
 * the next one is due, and for ever when nothing is dirty. Flink has one OutputFlusher thread per writer
 * that wakes all subpartitions.
 *
 * Owner:   the process; whoever opened it closes it after the last partition was removed.
 * Threads: mark() by the producer of a partition, the rest by anybody. The thread takes no Python lock.
 * Fork:    a child must not use its parent's flusher (threads do not survive); open a new one. */
#ifndef FB_OUTPUT_FLUSHER_H
#define FB_OUTPUT_FLUSHER_H

#include "result_partition.h"

struct fb_output_flusher; /* opaque */

/* Starts the thread. FB_ENOMEM, FB_ETHREAD. */
int fb_output_flusher_open(struct fb_output_flusher** self);
/* Stops and joins the thread. */
void fb_output_flusher_close(struct fb_output_flusher* self);
/* From now on dirty subpartitions of `partition` are flushed within `interval_ms` (> 0). */
int fb_output_flusher_add(struct fb_output_flusher* self, struct fb_result_partition* partition, int64_t interval_ms);
/* After this returns the flusher does not touch the partition. Does not flush. */
void fb_output_flusher_remove(struct fb_output_flusher* self, struct fb_result_partition* partition);

/* The slow half of fb_output_flusher_mark. */
void fb_output_flusher_mark_dirty(struct fb_result_partition* partition, uint32_t subpartition);

/* The producer has committed bytes to `subpartition` (subpartition_count stands for all of them: broadcast). One relaxed load when it is dirty already. (The flusher
 * keeps a subpartition on its list for one more interval after it found nothing new there, so that a commit
 * that raced with the clearing of the mark is not forgotten.) */
static inline void fb_output_flusher_mark(struct fb_result_partition* partition, uint32_t subpartition) {
  if (partition->flusher != NULL &&
      atomic_load_explicit(&partition->dirty[subpartition], memory_order_relaxed) == 0)
    fb_output_flusher_mark_dirty(partition, subpartition);
}

#endif
