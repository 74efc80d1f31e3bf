/* The channels of one consumer, and which of them have something to read.
 *
 * A channel that gets data queues itself once; poll() takes the first queued channel, hands out one buffer
 * of it, and puts it back at the end if it has more, so that no channel starves. Channels whose next buffer is
 * a priority event stand in front. Flink: SingleInputGate, LocalInputChannel.
 *
 * Owner:   whoever opened it. A channel holds a reference of the partition it reads; a polled slice is the
 *          caller's. close() releases the views: no notification arrives after it.
 * Threads: poll, resume and close by the consuming task; notifications come from any thread. The lock guards
 *          the queue and the channels' flags only; partitions are never called under it.
 * Waiting: the gate rings its bell when the queue stops being empty; wait() sleeps on it. A task that also
 *          writes gives the gate its own bell instead (fb_input_gate_set_wakeup). */
#ifndef FB_INPUT_GATE_H
#define FB_INPUT_GATE_H

#include <pthread.h>

#include "result_partition.h"
#include "wakeup.h"

struct fb_input_channel {
  struct fb_input_gate* gate;
  struct fb_result_partition* partition; /* local: the producer's partition; NULL once released */
  uint32_t index;
  uint32_t subpartition_index;
  bool has_view;
  bool is_enqueued;      /* under the gate's lock */
  bool has_priority;     /* under the gate's lock: it stands in the front part of the queue */
  bool has_ended;        /* EndOfPartition was read */
  bool has_ended_data;   /* EndOfData was read */
  uint64_t buffer_count; /* polled, events included */
  uint64_t byte_count;
};

/* A ring of channel indexes; each channel stands in it at most once, so it never overflows. */
struct fb_channel_queue {
  uint32_t* items;
  uint32_t capacity;
  uint32_t head;
  uint32_t count;
  uint32_t priority_count;
};

struct fb_input_gate {
  pthread_mutex_t lock;
  struct fb_input_channel* channels;
  uint32_t channel_count;
  struct fb_channel_queue queue;
  struct fb_wakeup own_wakeup;
  struct fb_wakeup* wakeup; /* own_wakeup, or the task's */
  uint32_t ended_count;      /* channels that gave EndOfPartition */
  uint32_t ended_data_count; /* channels that gave EndOfData */
  uint32_t drained_count;    /* of these, with mode DRAIN */
  bool is_requested;
  bool is_open;
};

/* What poll() gives; the slice's reference is the caller's. */
struct fb_gate_item {
  struct fb_slice slice;
  uint32_t channel_index;
  int32_t sequence_number;
  bool more_available;
};

int fb_input_gate_open(struct fb_input_gate* self, uint32_t channel_count);
/* Releases all views. Idempotent. */
void fb_input_gate_close(struct fb_input_gate* self);

/* Channel `index` reads `subpartition_index` of a partition in this process, which is retained. Before
 * request_partitions(). FB_EARGUMENT, FB_ESTATE. */
int fb_input_gate_set_local(struct fb_input_gate* self, uint32_t index, struct fb_result_partition* partition,
                            uint32_t subpartition_index);
/* Rings `wakeup` instead of the gate's own. Before request_partitions(). */
void fb_input_gate_set_wakeup(struct fb_input_gate* self, struct fb_wakeup* wakeup);
/* Creates the views; effective once. *failed is the channel that could not be attached. */
int fb_input_gate_request_partitions(struct fb_input_gate* self, uint32_t* failed);

/* 1: *item is filled. 0: nothing now (or finished). FB_ERELEASED: the partition of *item->channel_index went away
 * before its end. Other codes as the partition gives them. An error stays: the next poll() gives it again. */
int fb_input_gate_poll(struct fb_input_gate* self, struct fb_gate_item* item);
/* Sleeps until something may be polled; returns whether the queue holds a channel. */
bool fb_input_gate_wait(struct fb_input_gate* self, int64_t timeout_ms);
/* Lets a channel that a barrier blocked go on. FB_ESTATE unless blocked. */
int fb_input_gate_resume(struct fb_input_gate* self, uint32_t channel_index);

/* Every channel gave EndOfPartition. */
static inline bool fb_input_gate_is_finished(const struct fb_input_gate* self) {
  return self->ended_count == self->channel_count;
}
uint32_t fb_input_gate_queued_channels(struct fb_input_gate* self);

#endif
