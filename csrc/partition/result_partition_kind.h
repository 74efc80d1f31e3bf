/* What differs between kinds of result partition: one table for each kind.
 *
 * A kind's own struct begins with a `struct fb_result_partition`, whose functions check what is common and call the table.
 * `target` is a subpartition, or subpartition_count for all of them (broadcast). Flink: ResultPartition's subclasses.
 *
 * Threads: what the producer calls comes from one thread at a time; the rest from any. */
#ifndef FB_RESULT_PARTITION_KIND_H
#define FB_RESULT_PARTITION_KIND_H

#include "memory/buffer_builder.h"
#include "memory/slice_list.h"
#include "partition/subpartition_view.h"

struct fb_result_partition;

struct fb_result_partition_kind {
  const char* name; /* for sentences: "pipelined" */
  /* It is read when it is finished, any number of times, and reading does not consume it: it stays until its owner
   * releases it. Acknowledgements mean nothing. */
  bool is_blocking;
  bool outlives_readers; /* one that is lost is no reason to fail: another may come */

  /* ---- by the producer */

  /* Makes sure that the next add() cannot fail for want of memory. NULL: nothing is to be done. */
  int (*reserve)(struct fb_result_partition* self, uint32_t target);
  /* Takes over the consumer of a buffer that is about to be filled, or of an event; also on failure. What comes first is
   * first in its subpartition. *desired_size, INT32_MAX before, = bytes that its readers would like buffers to have. Does no
   * input or output, except for events. The bytes at the front that end an earlier record are partial_record_length. */
  int (*add)(struct fb_result_partition* self, uint32_t target, struct fb_buffer_consumer* consumer,
             int32_t partial_record_length, int32_t* desired_size);
  /* Takes the bytes of records itself while `takes_records` is set, when there are no builders; NULL: it never is. As
   * fb_result_partition_emit(): FB_NEEDS_BUFFER, with a part taken or nothing, has make_room() called. */
  int (*emit)(struct fb_result_partition* self, uint32_t target, const uint8_t** data, size_t* size);
  /* Writes to disk what fills the memory; without the GIL. FB_OK: what found no room may be tried again. FB_NEEDS_BUFFER: only
   * the pool can help. Errors: after fb_result_partition_fail_output(). NULL: readers make room. */
  int (*make_room)(struct fb_result_partition* self);
  void (*flush)(struct fb_result_partition* self, uint32_t target); /* NULL: nothing is to be done */
  /* Adds the ends, when all builders are finished. An error leaves no subpartition ended. May block. */
  int (*finish)(struct fb_result_partition* self);
  /* The producer has closed it: gives back what it has not written. NULL: nothing is to be done. */
  void (*leave)(struct fb_result_partition* self);
  /* Checkpoints, as the functions of the same names in result_partition.h; NULL: there are none. */
  int (*broadcast_barrier)(struct fb_result_partition* self, struct fb_buffer_consumer* barrier,
                           struct fb_slice_list* overtaken);
  int (*reserve_overtaken)(struct fb_result_partition* self, struct fb_slice_list* overtaken);
  int (*convert_barrier)(struct fb_result_partition* self, int64_t checkpoint_id, struct fb_slice_list* overtaken);
  bool (*has_barrier)(struct fb_result_partition* self, int64_t checkpoint_id);
  int (*restore)(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data, size_t size);

  /* ---- by anybody */

  /* Whether nobody will read what is written to the target. NULL: once the partition is released. */
  bool (*is_gone)(struct fb_result_partition* self, uint32_t target);
  /* The index is checked; a blocking partition is finished and not released. May be called where nobody may wait for a disk.
   * FB_ERELEASED, FB_ESTATE (it has a reader, or had one), FB_ENOT_FOUND (its files are gone), FB_ENOMEM, FB_EIO. */
  int (*create_view)(struct fb_result_partition* self, uint32_t index, const struct fb_view_options* options,
                     struct fb_subpartition_view** view);
  /* Drops what is held and tells the views. Idempotent; a second caller returns no sooner than it is done. */
  void (*release)(struct fb_result_partition* self);
  void (*get_usage)(struct fb_result_partition* self, uint32_t index, struct fb_subpartition_usage* usage);
  /* The last reference is gone: frees what is the kind's own, but not `self`. It may have been opened by half. */
  void (*close)(struct fb_result_partition* self);
};

#endif
