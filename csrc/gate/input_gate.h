/* The channels of one consumer, and which of them have something to read.
 *
 * A channel that gets data queues itself once; poll() takes the first queued channel, hands out one buffer
 * of it, and puts it back at the end if it has more, so that no channel starves. Channels whose next buffer is
 * a priority event stand in front. A local channel polls a partition of this process, a remote one what the
 * client has received for it. What a checkpoint has restored of a channel comes before all that the channel brings, but for
 * priority events. Flink: SingleInputGate, LocalInputChannel, RecoveredInputChannel.
 *
 * Owner:   whoever opened it. A channel holds a reference of the partition it reads, or its remote channel; a polled
 *          slice is the caller's. close() gives all channels up: no notification arrives after it. It holds a reference
 *          on the client that it was given, which may be closed before the gate; manager and pools outlive it.
 * Threads: poll, resume and close by the consuming task; notifications come from any thread. The lock guards
 *          the queue and the channels' flags only; partitions and remote channels are never called under it.
 * Waiting: the gate rings its bell when the queue stops being empty; wait() sleeps on it. A task that also
 *          writes gives the gate its own bell instead (fb_input_gate_set_wakeup). */
#ifndef FB_INPUT_GATE_H
#define FB_INPUT_GATE_H

#include <pthread.h>

#include "gate/buffer_debloater.h"
#include "ground/deque.h"
#include "ground/wakeup.h"
#include "wire/partition_client.h"
#include "wire/partition_manager.h"

enum fb_channel_kind {
  FB_UNKNOWN_CHANNEL = 0, /* not set yet */
  FB_LOCAL_CHANNEL = 1,
  FB_REMOTE_CHANNEL = 2,
};

/* How many channels have a priority event in front; for whoever reads, between two records, without the lock. */
struct fb_input_gate_priority {
  _Atomic uint32_t channels;
};

static inline bool fb_input_gate_priority_is_set(struct fb_input_gate_priority* self) {
  /* Relaxed: a hint to ask the gate, whose lock orders. */
  return atomic_load_explicit(&self->channels, memory_order_relaxed) > 0;
}

struct fb_input_channel {
  struct fb_input_gate* gate;
  struct fb_result_partition* partition; /* local: the producer's; NULL until it is there, and once released */
  struct fb_remote_channel* remote;      /* remote: NULL once released */
  uint32_t index;
  uint32_t subpartition_index;
  uint8_t kind;                               /* enum fb_channel_kind */
  uint8_t partition_id[FB_PARTITION_ID_SIZE]; /* remote, and local by id */
  bool is_awaited;                            /* local: the partition is not there yet */
  struct fb_subpartition_view* view;          /* local: NULL until the partition is there, and once released */
  int attach_error;                           /* local: why there is no view; FB_OK: nothing went wrong */
  bool is_replaced;                           /* local: another reader has taken its place */
  bool is_enqueued;                           /* under the gate's lock */
  bool has_priority;                          /* under the gate's lock: it stands in the front part of the queue */
  bool has_ended;                             /* EndOfPartition was read */
  bool has_ended_data;                        /* EndOfData was read */
  uint64_t buffer_count;                      /* polled, events included */
  uint64_t byte_count;
  struct fb_buffer_slice restored;       /* what is left of it; no buffer: nothing */
  struct fb_channel_persister persister; /* local: is shown what is polled; remote: has what came before its end */
};

struct fb_input_gate {
  pthread_mutex_t lock;
  struct fb_input_channel* channels;
  uint32_t channel_count;
  struct fb_deque queue; /* of indexes, uint32_t; each channel stands in it at most once, so it never grows */
  struct fb_wakeup own_wakeup;
  struct fb_wakeup* wakeup;                      /* own_wakeup, or the task's */
  struct fb_input_gate_priority* priority_count; /* NULL: nobody wants to know */
  uint32_t ended_count;                          /* channels that gave EndOfPartition */
  uint32_t ended_data_count;                     /* channels that gave EndOfData */
  uint32_t drained_count;                        /* of these, with mode DRAIN */
  bool is_requested;
  bool is_open;
  /* The network, for channels by id; all NULL without. */
  struct fb_partition_client* client; /* retained */
  struct fb_reactor* reactor;         /* the client's */
  struct fb_partition_manager* manager;
  struct fb_network_buffer_pool* network_pool;
  struct fb_local_buffer_pool* pool; /* owned: the floating buffers of remote channels */
  int64_t patience_ms;               /* how long local channels wait for their partition */
  int64_t deadline_ms;               /* of those that wait */
  uint32_t awaited_count;
  uint64_t registrations_seen;
  uint32_t restored_count; /* channels that have something restored left */
  struct fb_persisting_budget persisting_budget;
  /* Buffer debloating; off, and no clock is read, while the period is 0. */
  int64_t debloat_period_ms;
  int64_t debloat_due_ms;
  int32_t announced_size; /* bytes; 0: none yet */
  struct fb_buffer_debloater debloater;
  _Atomic uint64_t idle_ms; /* slept in wait(); relaxed, anybody may look */
};

/* What poll() gives; the slice's reference is the caller's. */
struct fb_gate_item {
  struct fb_buffer_slice slice;
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
/* Gives the gate a network; before channels by id. Takes the handle on `pool` over, also on failure; it may be
 * NULL without remote channels. A local channel waits `patience_ms` for its partition. FB_ESTATE. */
struct fb_gate_network {
  struct fb_partition_client* client;
  struct fb_partition_manager* manager;
  struct fb_network_buffer_pool* network_pool;
  struct fb_local_buffer_pool* pool;
  int64_t patience_ms;
};
int fb_input_gate_set_network(struct fb_input_gate* self, const struct fb_gate_network* network);
/* Channel `index` reads a partition of this process by its id; it need not be there yet. Errors as set_local(). */
int fb_input_gate_set_local_id(struct fb_input_gate* self, uint32_t index, const uint8_t* partition_id,
                               uint32_t subpartition_index);
/* Channel `index` reads from another process, under `id` (16 bytes nobody else uses), with `exclusive_count`
 * buffers of the network pool for itself, for which it waits up to timeout_ms. FB_EBUFFERS, FB_ETIMEOUT,
 * FB_EDESTROYED, FB_ENOMEM, and errors as set_local(). */
int fb_input_gate_set_remote(struct fb_input_gate* self, uint32_t index, const struct fb_remote_source* source,
                             const uint8_t* id, uint32_t exclusive_count, int64_t timeout_ms);
/* Has poll() look every `period_ms` > 0 how fast data are consumed, and ask the senders for buffers of a size to match.
 * Before request_partitions(). FB_EARGUMENT, FB_ESTATE. */
int fb_input_gate_set_debloating(struct fb_input_gate* self, const struct fb_buffer_debloater_config* config,
                                 int64_t period_ms);
/* Rings `wakeup` instead of the gate's own. Before request_partitions(). */
void fb_input_gate_set_wakeup(struct fb_input_gate* self, struct fb_wakeup* wakeup);
/* Keeps `count` up to date, which several gates may share; it outlives the gate. Before request_partitions(). */
void fb_input_gate_set_priority(struct fb_input_gate* self, struct fb_input_gate_priority* count);
/* Creates the views and sends the requests; effective once. *failed is the channel that could not be attached. What
 * goes wrong later, or elsewhere, is told by poll(). */
int fb_input_gate_request_partitions(struct fb_input_gate* self, uint32_t* failed);

/* 1: *item is filled. 0: nothing now (or finished). FB_ERELEASED: the partition of *item->channel_index went away
 * before its end. FB_ENOT_FOUND: it never came. Other codes as partition and remote channel give them. An error
 * stays: the next poll() gives it again. */
int fb_input_gate_poll(struct fb_input_gate* self, struct fb_gate_item* item);
/* The same for channels with a priority event in front only, and without errors: poll() tells those. */
int fb_input_gate_poll_priority(struct fb_input_gate* self, struct fb_gate_item* item);
/* Why channel `index` failed, as a sentence; NULL: nothing more than the code is known. */
const char* fb_input_gate_failure(struct fb_input_gate* self, uint32_t index);
/* Sleeps until something may be polled; returns whether the queue holds a channel. */
bool fb_input_gate_wait(struct fb_input_gate* self, int64_t timeout_ms);
/* Wakes whoever sleeps in wait(); any thread. */
void fb_input_gate_ring(struct fb_input_gate* self);
/* Lets a channel that a barrier blocked go on. FB_ESTATE unless blocked. */
int fb_input_gate_resume(struct fb_input_gate* self, uint32_t channel_index);
/* Tells the producer of a channel that all of its records have been processed: between EndOfData and
 * EndOfPartition, after which nobody is left to be told. FB_EARGUMENT. */
int fb_input_gate_acknowledge(struct fb_input_gate* self, uint32_t channel_index);

/* ---- unaligned checkpoints; channels that exist, by the consuming task -------------------------------- */

/* What was in the channel when the checkpoint was taken that the task begins from: copied, and polled first. Before the
 * first poll. FB_ESTATE: something of the channel was polled already, or restored. FB_ENOMEM. */
int fb_input_gate_restore(struct fb_input_gate* self, uint32_t channel_index, const uint8_t* data, size_t size);
/* How many bytes arriving data may take up while a checkpoint runs, from now on; before start_persisting(). */
void fb_input_gate_set_persisting_budget(struct fb_input_gate* self, int64_t bytes);
/* An unaligned checkpoint begins: adds to `overtaken` (references, to be given back soon) what is here of the channel, was
 * not polled, and lies before the checkpoint's barrier. What comes from now on until the barrier is kept as copies.
 * FB_ESTATE: the barrier of a newer checkpoint is here already. FB_ENOMEM. */
int fb_input_gate_start_persisting(struct fb_input_gate* self, uint32_t channel_index, int64_t checkpoint_id,
                                   struct fb_slice_list* overtaken);
/* It ends: moves the copies behind `arrived`. FB_ETOO_LARGE (the budget was too small), FB_ENOMEM: some are missing. */
int fb_input_gate_stop_persisting(struct fb_input_gate* self, uint32_t channel_index, struct fb_slice_list* arrived);
/* The barrier with this number, which the channel has announced, overtakes what is before it, and its sender, which it
 * blocked, goes on. 1: it does. 0: it is not there, or the channel is local, whose sender does it. FB_ECORRUPT, FB_ENOMEM. */
int fb_input_gate_convert_to_priority(struct fb_input_gate* self, uint32_t channel_index, int32_t sequence_number);

/* Every channel gave EndOfPartition. */
static inline bool fb_input_gate_is_finished(const struct fb_input_gate* self) {
  return self->ended_count == self->channel_count;
}
uint32_t fb_input_gate_queued_channels(struct fb_input_gate* self);

/* What a channel has taken in, and what waits for it. */
struct fb_channel_usage {
  uint64_t buffers; /* polled, events included */
  uint64_t bytes;
  uint32_t queued;   /* buffers and events to be polled */
  uint32_t backlog;  /* data buffers at the sender, as it said last; of a local channel: of those queued */
  int32_t credit;    /* free buffers of a remote channel; -1: local */
  int64_t oldest_ms; /* how long the first one has been here; of a local channel: was written; 0: none */
};
/* Index of a channel that exists. Not while close() runs. */
void fb_input_gate_get_channel_usage(struct fb_input_gate* self, uint32_t index, struct fb_channel_usage* usage);
/* Whether a channel is queued, and whether one of them for a priority event. A closed gate has nothing. */
bool fb_input_gate_has_data(struct fb_input_gate* self, bool* has_priority);

#endif
