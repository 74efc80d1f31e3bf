/* One reader's queue of buffer consumers.
 *
 * The producing thread adds consumers of buffers that it is still filling; the reading side polls slices of
 * what was committed. Only the last consumer may be unfinished. Priority events stand in front.
 * Notification is edge-triggered (the first finished buffer, or a flush): a reader drains until the next
 * data type it is told is FB_NONE. Flink: PipelinedSubpartition, PipelinedSubpartitionView,
 * PipelinedApproximateSubpartition.
 *
 * Owner:   embedded in the result partition, which outlives its views (it is counted).
 * Threads: add, flush, finish by the producer; flush also by the flusher; poll and resume by the reader;
 *          release by anybody. One lock; the listener is called after leaving it. */
#ifndef FB_SUBPARTITION_H
#define FB_SUBPARTITION_H

#include <pthread.h>

#include "buffer_builder.h"

/* Who is told that a subpartition has something to poll. Called without any lock, from the thread that
 * made it so; must not block. */
struct fb_availability_listener {
  void (*on_data_available)(void* context, uint32_t subpartition_index);
  void (*on_priority_event)(void* context, uint32_t subpartition_index, int32_t sequence_number);
  void* context;
};

struct fb_queued_consumer {
  struct fb_buffer_consumer consumer;
  int32_t partial_record_length; /* bytes at the front that belong to an earlier record */
};

/* A ring of consumers whose first `priority_count` are priority events (Flink: PrioritizedDeque). */
struct fb_consumer_queue {
  struct fb_queued_consumer* items;
  uint32_t capacity; /* a power of two, or 0 */
  uint32_t head;
  uint32_t count;
  uint32_t priority_count;
};

struct fb_subpartition {
  pthread_mutex_t lock;
  struct fb_consumer_queue queue;
  uint32_t index;
  uint32_t backlog; /* data buffers in the queue */
  int32_t sequence_number;
  int32_t buffer_size; /* desired by the reader (debloating); INT32_MAX: no limit */
  bool is_open;
  bool is_approximate;
  bool is_finished;
  bool is_released;
  bool is_blocked;
  bool is_flush_requested;
  bool is_cleanup_required; /* approximate: skip the rest of a broken record */
  bool has_view;
  bool sends_empty_buffers; /* the reader has no exclusive buffers: it must see empty ones to release credit */
  struct fb_availability_listener listener;
  uint64_t total_buffers; /* added, events included */
  uint64_t total_bytes;   /* polled */
};

/* What poll() gives. `slice` owns a reference. */
struct fb_polled_buffer {
  struct fb_slice slice;
  uint32_t backlog;        /* data buffers that can be taken after this one */
  uint8_t next_data_type;  /* enum fb_data_type of the following buffer, FB_NONE if nothing is available */
  int32_t sequence_number;
};

int fb_subpartition_open(struct fb_subpartition* self, uint32_t index, bool is_approximate);
/* Closes all consumers that are left. */
void fb_subpartition_close(struct fb_subpartition* self);

/* Takes the consumer over on every path. *desired_size = bytes the next builder should have (INT32_MAX: no
 * limit). FB_EFINISHED / FB_ERELEASED: it was closed and dropped. FB_ENOMEM. */
int fb_subpartition_add(struct fb_subpartition* self, struct fb_buffer_consumer* consumer,
                        int32_t partial_record_length, int32_t* desired_size);
/* Adds EndOfPartition. FB_EFINISHED, FB_ERELEASED. */
int fb_subpartition_finish(struct fb_subpartition* self);
void fb_subpartition_flush(struct fb_subpartition* self);
void fb_subpartition_release(struct fb_subpartition* self);

/* Gives the next buffer. Returns 1 with one, 0 if there is none now; FB_ESTATE if the queue is broken (an
 * unfinished buffer that is not the last). */
int fb_subpartition_poll(struct fb_subpartition* self, struct fb_polled_buffer* polled);
/* Attaches the reader; `listener` is copied. FB_ERELEASED, FB_ESTATE (a second view; approximate ones
 * replace the first). */
int fb_subpartition_create_view(struct fb_subpartition* self, const struct fb_availability_listener* listener);
/* Detaches the reader: its listener is not called again after this returns. */
void fb_subpartition_release_view(struct fb_subpartition* self);
/* FB_ESTATE unless blocked. */
int fb_subpartition_resume(struct fb_subpartition* self);
/* Whether poll() would give something: with credit any buffer, without credit only an event. */
bool fb_subpartition_is_available(struct fb_subpartition* self, bool has_credit, uint32_t* backlog);
int fb_subpartition_set_buffer_size(struct fb_subpartition* self, int32_t size);

uint32_t fb_subpartition_queued_buffers(struct fb_subpartition* self);
uint32_t fb_subpartition_backlog(struct fb_subpartition* self); /* as reported to readers */

#endif
