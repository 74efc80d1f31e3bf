/* One reader's view of a subpartition of a partition file: a queue that the
 * read scheduler fills and the reader empties.
 *
 * What was read before something went wrong is given first, then the error,
 * which stays. A release drops what is queued. Flink:
 * SortMergeSubpartitionReader.
 *
 * Owner:   counted: the view has a reference, and the scheduler while it uses
 * the reader. What the reader holds open goes with the last one, so that giving
 * a view up never waits for a disk. Threads: the view by the reader; fill, end
 * and fail on the executor's thread; release by anybody. One lock; the listener
 *          is called after leaving it and counted while it runs.
 *
 * The scheduler stands on readers: what a reader asks of it goes through the table of functions below. */
#ifndef FB_SORT_MERGE_READER_H
#define FB_SORT_MERGE_READER_H

#include <pthread.h>

#include "ground/deque.h"
#include "partition/partition_file_reader.h"
#include "partition/read_buffer_pool.h"
#include "partition/subpartition_view.h"

struct fb_sort_merge_reader;
struct fb_sort_merge_source;

/* Who reads the file for its readers. Counted; any thread. */
struct fb_sort_merge_source_kind {
  void (*retain)(struct fb_sort_merge_source* self);
  void (*drop)(struct fb_sort_merge_source* self);
  /* Readers come and go. FB_ERELEASED. */
  int (*add)(struct fb_sort_merge_source* self, struct fb_sort_merge_reader* reader);
  void (*remove)(struct fb_sort_merge_source* self, struct fb_sort_merge_reader* reader);
  /* `reader` is to be served. Codes as fb_io_executor_post(): it will not be. */
  int (*ask)(struct fb_sort_merge_source* self, struct fb_sort_merge_reader* reader);
};

struct fb_sort_merge_source {
  const struct fb_sort_merge_source_kind* kind;
  struct fb_io_executor* executor; /* where it reads; valid as long as the source */
};

struct fb_sort_merge_reader {
  struct fb_subpartition_view view;    /* the first member */
  struct fb_sort_merge_source* source; /* a reference */
  struct fb_availability_listener listener;
  _Atomic uint32_t references;
  _Atomic int32_t credit;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t quiet; /* signalled when the last running call of the listener returned */
  uint32_t notifying;
  struct fb_deque queue; /* of fb_buffer_slice */
  uint64_t queued_bytes;
  uint32_t low_bytes; /* with less in the queue it asks for more */
  uint32_t backlog;   /* data buffers in the queue */
  int32_t sequence_number;
  uint64_t buffers; /* added */
  uint64_t bytes;   /* polled */
  bool has_asked;   /* it is, or will be, in the source's list */
  bool is_complete; /* all was read */
  bool is_at_end;   /* the end of the partition was polled: nothing can go wrong any more */
  bool is_given_up; /* the view is released: the listener is not called any more */
  int code;         /* what poll() gives when the queue is empty; FB_OK: nothing went wrong */
  char* failure;    /* the sentence for it; NULL: it has none */
  /* the source's, on the executor's thread */
  struct fb_partition_file_reader file_reader; /* opened at the first turn */
  struct fb_read_consumer* consumer;
  struct fb_io_request request; /* posted by the pool: asks again */
  /* the source's, under its lock */
  struct fb_sort_merge_reader *previous, *next; /* all readers */
  struct fb_sort_merge_reader *previous_asking, *next_asking;
  bool is_asking;
};

/* A view of `index` for `partition`; asks for its first buffers. FB_ERELEASED,
 * FB_ENOMEM, FB_ESTATE. Reads nothing itself. */
int fb_sort_merge_reader_open(struct fb_sort_merge_source* source, struct fb_result_partition* partition,
                              uint32_t index, const struct fb_view_options* options,
                              struct fb_subpartition_view** view);

/* ---- for the source ------------------------------------------------------------------------------------- */

void fb_sort_merge_reader_retain(struct fb_sort_merge_reader* self);
void fb_sort_merge_reader_drop(struct fb_sort_merge_reader* self);
/* Adds what was read; takes the references over on every path. `low_bytes`:
 * below this it asks again. Returns whether it wants more at once. FB_ENOMEM:
 * it has failed. */
int fb_sort_merge_reader_fill(struct fb_sort_merge_reader* self, struct fb_buffer_slice* slices, uint32_t count,
                              uint32_t low_bytes);
void fb_sort_merge_reader_complete(struct fb_sort_merge_reader* self);
/* The first code stays. FB_ERELEASED drops what is queued. */
void fb_sort_merge_reader_fail(struct fb_sort_merge_reader* self, int code, const char* cause);
/* Whether anything is to be read for it. */
bool fb_sort_merge_reader_is_wanted(struct fb_sort_merge_reader* self);
/* It is not in the list any more, and asks when it runs low. Returns whether it
 * does already. */
bool fb_sort_merge_reader_rest(struct fb_sort_merge_reader* self);

#endif
