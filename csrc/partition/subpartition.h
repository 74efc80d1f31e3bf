/* One reader's queue of buffer consumers.
 *
 * The producing thread adds consumers of buffers that it is still filling; the reading side polls slices of
 * what was committed. Only the last consumer may be unfinished. Priority events stand in front.
 * Notification is edge-triggered (the first finished buffer, or a flush): a reader drains until the next
 * data type it is told is FB_NONE. Flink: PipelinedSubpartition, PipelinedApproximateSubpartition.
 *
 * Owner:   embedded in the result partition, which outlives its views (it is counted).
 * Threads: add, reserve, finish by the producer; flush also by the flusher; poll, resume and the view by the
 *          reader; release by anybody. One lock; buffers are recycled and the listener is called after
 *          leaving it. A call to the listener is counted while it runs, so that detach() can wait
 *          for those in flight; it must therefore not be called from the listener itself, nor with a lock
 *          held that the listener takes. */
#ifndef FB_SUBPARTITION_H
#define FB_SUBPARTITION_H

#include <pthread.h>

#include "ground/deque.h"
#include "memory/buffer_builder.h"
#include "memory/slice_list.h"
#include "partition/subpartition_view.h"

struct fb_queued_consumer {
  struct fb_buffer_consumer consumer;
  int32_t partial_record_length; /* bytes at the front that belong to an earlier record */
  int64_t waiting_since_ms;      /* when it was added, or what it held then was read */
};

struct fb_subpartition {
  pthread_mutex_t lock;
  pthread_cond_t quiet;  /* signalled when the last running call of the listener returned */
  struct fb_deque queue; /* of fb_queued_consumer; priority events stand in front */
  uint32_t index;
  uint32_t backlog; /* data buffers in the queue */
  int32_t sequence_number;
  int32_t buffer_size; /* desired by the reader (debloating); INT32_MAX: no limit */
  uint32_t notifying;  /* calls of the listener that are running */
  bool is_open;
  bool is_approximate;
  bool is_finished;
  _Atomic bool is_released; /* changes under the lock; the producer also looks without it */
  bool is_blocked;
  bool is_flush_requested;
  bool is_cleanup_required; /* approximate: skip the rest of a broken record */
  bool has_view;
  const void* viewer; /* who is attached, if has_view */
  struct fb_view_options options;
  /* Told once when the reader of a subpartition that can be read only once is done; NULL: nobody. */
  void (*on_consumed)(struct fb_subpartition* self);
  /* Told, without a lock, that a barrier which could have been converted has left the queue; NULL: nobody. */
  void (*on_barrier_polled)(struct fb_subpartition* self);
  void* owner;            /* for those two: the result partition */
  uint64_t total_buffers; /* added, events included */
  uint64_t total_bytes;   /* polled */
  _Atomic int32_t credit; /* that a reader elsewhere has left; -1: its reader, if any, needs none */
};

int fb_subpartition_open(struct fb_subpartition* self, uint32_t index, bool is_approximate);
/* Closes all consumers that are left. */
void fb_subpartition_close(struct fb_subpartition* self);

/* Takes the consumer over on every path. *desired_size = bytes the next builder should have (INT32_MAX: no
 * limit). FB_EFINISHED / FB_ERELEASED: it was closed and dropped. FB_ENOMEM. */
int fb_subpartition_add(struct fb_subpartition* self, struct fb_buffer_consumer* consumer,
                        int32_t partial_record_length, int32_t* desired_size);
/* Makes room for one more, so that the next add() cannot fail for want of memory. FB_ENOMEM. */
int fb_subpartition_reserve(struct fb_subpartition* self);
/* The same for add_overtaking() and convert_barrier(). */
int fb_subpartition_reserve_overtaken(struct fb_subpartition* self, struct fb_slice_list* overtaken);
/* Adds an unaligned checkpoint barrier in front of everything without priority. The unread data it overtakes stay in the
 * queue, and are added to `overtaken`, for which room was reserved by the producer, who alone adds to the queue. */
int fb_subpartition_add_overtaking(struct fb_subpartition* self, struct fb_buffer_consumer* barrier,
                                   struct fb_slice_list* overtaken);
/* A barrier that was to wait for its turn so long and no longer overtakes after all, as an unaligned one; what it overtakes
 * as above. By the producer. 1: it did; 0: no such barrier is queued (any more). FB_ECORRUPT, FB_ENOMEM.
 * Flink: PipelinedSubpartition.alignedBarrierTimeout. */
int fb_subpartition_convert_barrier(struct fb_subpartition* self, int64_t checkpoint_id,
                                    struct fb_slice_list* overtaken);
/* Whether such a barrier is queued. */
bool fb_subpartition_has_barrier(struct fb_subpartition* self, int64_t checkpoint_id);
/* EndOfPartition in two steps, of which the second needs no memory after reserve(): makes the event, of which each
 * subpartition can be given a copy, FB_ENOMEM; adds one, which is taken over on every path, FB_EFINISHED, FB_ERELEASED. */
int fb_subpartition_new_end(struct fb_buffer_consumer* end);
int fb_subpartition_add_end(struct fb_subpartition* self, struct fb_buffer_consumer* end);
void fb_subpartition_flush(struct fb_subpartition* self);
/* Drops everything queued and to come, and tells the reader, whose next poll() says so. Idempotent. */
void fb_subpartition_release(struct fb_subpartition* self);
static inline bool fb_subpartition_is_released(struct fb_subpartition* self) {
  /* Acquire, partner of the release store in fb_subpartition_release(). */
  return atomic_load_explicit(&self->is_released, memory_order_acquire);
}

/* ---- the reader's side: `viewer` is the view that asks. It is compared only; NULL asks for whoever is attached. */

/* As fb_subpartition_view_poll(). FB_ESTATE: the viewer is attached no more and nothing is taken, or the queue is broken (an
 * unfinished buffer that is not the last). */
int fb_subpartition_poll(struct fb_subpartition* self, const void* viewer, struct fb_polled_buffer* polled);
/* The same, but 0 unless what comes next has priority. */
int fb_subpartition_poll_priority(struct fb_subpartition* self, const void* viewer, struct fb_polled_buffer* polled);
/* Attaches a reader. It is not told of what is there already: poll after this. The one whose place it takes is told once
 * more, and finds with poll() that it has lost it. Readers that come at once take each other's place one after the other.
 * FB_ERELEASED, FB_ESTATE (a second one; approximate ones replace the first). */
int fb_subpartition_attach(struct fb_subpartition* self, const void* viewer, const struct fb_view_options* options);
/* Detaches the reader unless another has its place: its listener is not called again after this returns. An approximate
 * subpartition waits for its next reader, every other one counts as consumed and drops what it has and gets.
 * Idempotent. */
void fb_subpartition_detach(struct fb_subpartition* self, const void* viewer);
bool fb_subpartition_is_attached(struct fb_subpartition* self, const void* viewer);
/* FB_ESTATE unless blocked, and for one that is attached no more. The caller polls next. */
int fb_subpartition_resume(struct fb_subpartition* self, const void* viewer);
/* As fb_subpartition_view_is_available(). */
bool fb_subpartition_is_available(struct fb_subpartition* self, bool has_credit, uint32_t* backlog);
/* FB_EARGUMENT for a negative size. */
int fb_subpartition_set_buffer_size(struct fb_subpartition* self, int32_t size);

uint32_t fb_subpartition_queued_buffers(struct fb_subpartition* self);
uint64_t fb_subpartition_total_buffers(struct fb_subpartition* self);
void fb_subpartition_get_usage(struct fb_subpartition* self, struct fb_subpartition_usage* usage);
/* The server tells how much credit the reader has left. From any thread. */
static inline void fb_subpartition_set_credit(struct fb_subpartition* self, int64_t credit) {
  /* Relaxed: a figure to look at. */
  atomic_store_explicit(&self->credit, (int32_t)credit, memory_order_relaxed);
}

#endif
