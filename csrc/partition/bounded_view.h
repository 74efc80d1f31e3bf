/* How one reader takes buffers out of the file of a subpartition.
 *
 * One buffer is always read ahead, so that a reader knows what comes next. What the system has in memory is read at once,
 * which waits for nothing; the rest by the executor, and the listener is told. Reading from a file needs one of the reader's
 * two read buffers: with both out, poll() gives nothing, and the one that comes back sets the executor to work.
 * Flink: BoundedBlockingSubpartitionReader, FileChannelBoundedData.FileBufferReader.
 *
 * Owner:   as every view (subpartition_view.h). Read buffers live until the view and their last holder are gone.
 * Threads: as every view; the executor reads, and read buffers come back from any thread. */
#ifndef FB_BOUNDED_VIEW_H
#define FB_BOUNDED_VIEW_H

#include "io/io_executor.h"
#include "partition/bounded_data.h"
#include "partition/result_partition.h"

struct fb_bounded_view;

/* Those who use the files of a partition, and what happens when it is released: each reader is told, and when the last user
 * has gone the files go. The producer is one of them while it writes: it alone knows which files there are. Embedded in the
 * partition; all-zero is closed. */
struct fb_bounded_readers {
  void (*on_last)(struct fb_bounded_readers* self); /* once, after the release, without users; without the lock */
  pthread_mutex_t lock;                             /* of what follows */
  pthread_cond_t told;                              /* a view is no longer being told */
  struct fb_bounded_view* views;
  bool is_open, has_gone;
  bool is_written;          /* the producer uses the files, from open() on */
  _Atomic bool is_released; /* changes under the lock, before the views are told */
};

/* FB_ENOMEM: stays closed. */
int fb_bounded_readers_open(struct fb_bounded_readers* self, void (*on_last)(struct fb_bounded_readers* self));
void fb_bounded_readers_close(struct fb_bounded_readers* self);
/* The producer makes and writes no files any more. Returns whether they were released before: nobody will read them.
 * Idempotent; a closed one: released. */
bool fb_bounded_readers_end_writing(struct fb_bounded_readers* self);
/* Idempotent; from any thread. A closed one: nothing. */
void fb_bounded_readers_release(struct fb_bounded_readers* self);
static inline bool fb_bounded_readers_is_released(struct fb_bounded_readers* self) {
  /* Acquire, partner of the store in fb_bounded_readers_release(). */
  return atomic_load_explicit(&self->is_released, memory_order_acquire);
}

/* As create_view() of result_partition_kind.h, of one of the partition's files. */
int fb_bounded_view_open(struct fb_bounded_readers* readers, struct fb_result_partition* partition, uint32_t index,
                         struct fb_bounded_data* data, struct fb_io_executor* executor,
                         const struct fb_view_options* options, struct fb_subpartition_view** view);

#endif
