/* One channel whose producer is in another process: what has arrived, and the credit for what may come.
 *
 * The I/O thread puts buffers in (partition_client.h); the consuming task polls them. Buffers come in the order of
 * their sequence numbers or not at all. An error is given to the next poll, before anything that is queued.
 * Flink: RemoteInputChannel.
 *
 * Owner:   counted: open() gives the gate's reference; exclusive buffers that are out hold one each, so a channel
 *          lives until its last buffer came home. close() ends the gate's part.
 * Threads: on_...() on the I/O thread; poll, resume, announcements and close by the consuming task; credit comes
 *          from whoever recycles. Queue and error have one lock, under which nobody is called but the
 *          reactor's post(), which calls nobody. */
#ifndef FB_REMOTE_CHANNEL_H
#define FB_REMOTE_CHANNEL_H

#include "ground/deque.h"
#include "io/reactor.h"
#include "io/tcp.h"
#include "partition/subpartition.h"
#include "wire/buffer_manager.h"
#include "wire/channel_map.h"
#include "wire/channel_persister.h"
#include "wire/frame.h"

struct fb_received_buffer {
  struct fb_buffer_slice slice;
  int32_t sequence_number;
  int64_t received_ms;
};

struct fb_received_queue {
  struct fb_deque deque; /* of fb_received_buffer; priority events stand in front */
  size_t event_bytes;    /* of memory, about: events need no credit */
};

/* What the channel reads; fixed before it is opened. */
struct fb_remote_source {
  struct fb_tcp_address address;
  uint32_t connection_index; /* channels with the same address and index share a connection */
  uint32_t subpartition_index;
  uint8_t partition[FB_PARTITION_ID_SIZE];
};

/* What the client keeps about a channel that it serves; embedded, since it lives as long. It begins as zeros, and
 * nobody but partition_client.c reads or writes it: on the I/O thread, except that the task posts `leaving`. */
struct fb_remote_request {
  struct fb_channel_entry entry; /* in the map of its connection */
  void* link;                    /* the connection; NULL: not yet, or not any more */
  struct fb_timer timer;         /* asks again */
  struct fb_task leaving;        /* posted once: forgets the channel and drops a reference */
  uint32_t backoff_ms;
  int32_t told_buffer_size; /* what was sent last; 0: nothing */
  bool is_sent;
};

/* The members are written in remote_channel.c only, but for `request`. */
struct fb_remote_channel {
  struct fb_remote_source source;
  uint8_t id[FB_CHANNEL_ID_SIZE]; /* the receiver in frames */
  uint32_t index;                 /* in the gate */
  _Atomic uint32_t references;
  struct fb_buffer_manager buffers;
  uint32_t initial_credit; /* exclusive buffers */
  struct fb_availability_listener listener;

  pthread_mutex_t lock; /* of what follows */
  struct fb_received_queue queue;
  int32_t expected_sequence_number;
  int failure_code; /* FB_OK: none */
  char* failure;    /* owned; stays once it is set */
  bool is_released;
  struct fb_channel_persister persister; /* is shown what arrives */

  /* What is to be sent, and the task that does. */
  struct fb_reactor* reactor; /* NULL: nobody yet; under the lock */
  struct fb_task task;
  _Atomic uint32_t unannounced_credit;
  _Atomic int32_t sender_credit; /* granted and not used yet, as far as this side knows */
  _Atomic bool wants_resume;
  _Atomic bool wants_acknowledgement;
  _Atomic int32_t announced_buffer_size; /* 0: nothing to announce */
  struct fb_remote_request request;      /* the client's */

  /* Relaxed: figures that anybody may look at. */
  _Atomic uint64_t buffer_count, byte_count; /* received, events included */
  _Atomic uint32_t backlog;                  /* as the sender said last */
};

/* `exclusive` are `exclusive_count` unpooled buffers of `network_pool`, taken over, also on failure; they are the
 * initial credit. Floating ones come from `pool`, which outlives close(). FB_ENOMEM. */
int fb_remote_channel_open(const struct fb_remote_source* source, const uint8_t* id,
                           struct fb_network_buffer_pool* network_pool, struct fb_local_buffer_pool* pool,
                           struct fb_buffer** exclusive, uint32_t exclusive_count, struct fb_remote_channel** self);
/* Whom to tell what comes, and under which index; before anybody serves the channel. */
void fb_remote_channel_set_listener(struct fb_remote_channel* self, uint32_t index,
                                    const struct fb_availability_listener* listener);
/* From now on until end(), `run` is posted to the reactor, with `task`, whenever there is something to send. */
void fb_remote_channel_set_sender(struct fb_remote_channel* self, struct fb_reactor* reactor,
                                  void (*run)(struct fb_task* task));
/* After fb_partition_client_cancel() or leave(): drops what is queued, sends buffers home, drops the reference. */
void fb_remote_channel_close(struct fb_remote_channel* self);

void fb_remote_channel_retain(struct fb_remote_channel* self);
void fb_remote_channel_drop(struct fb_remote_channel* self);

/* ---- the consuming task ----------------------------------------------------------------------------- */

/* 1 with a buffer, whose reference is the caller's; 0: none now; the code of what went wrong, which stays. */
int fb_remote_channel_poll(struct fb_remote_channel* self, struct fb_polled_buffer* polled);
/* The same, but 0 unless what comes next has priority. */
int fb_remote_channel_poll_priority(struct fb_remote_channel* self, struct fb_polled_buffer* polled);
/* Why, as a sentence; NULL: nothing went wrong. Valid as long as the channel. */
const char* fb_remote_channel_failure(struct fb_remote_channel* self);
/* Lets the sender go on after an event that blocked it. FB_ERELEASED. */
int fb_remote_channel_resume(struct fb_remote_channel* self);
/* Asks for buffers of at most `size` > 0 bytes. FB_ERELEASED. */
int fb_remote_channel_announce_buffer_size(struct fb_remote_channel* self, int32_t size);
/* Tells the producer that all of its records have been processed. FB_ERELEASED. */
int fb_remote_channel_acknowledge(struct fb_remote_channel* self);
/* The barrier with this number, announced before, overtakes what is queued in front of it, as an unaligned one.
 * FB_ESTATE: it is not there, or was converted before. FB_ECORRUPT: what the sender called a barrier is none, and keeps
 * its place. FB_ENOMEM. */
int fb_remote_channel_convert_to_priority(struct fb_remote_channel* self, int32_t sequence_number);

/* An unaligned checkpoint begins: adds to `overtaken` what has arrived before its barrier and was not polled; what
 * arrives from now on until the barrier is kept as copies, as long as the budget, which outlives the channel, lasts.
 * FB_ESTATE: the barrier of a newer one is there. FB_ENOMEM. */
int fb_remote_channel_start_persisting(struct fb_remote_channel* self, int64_t checkpoint_id,
                                       struct fb_persisting_budget* budget, struct fb_slice_list* overtaken);
/* It ends: moves the copies behind `arrived`. FB_ETOO_LARGE, FB_ENOMEM: something is missing. */
int fb_remote_channel_stop_persisting(struct fb_remote_channel* self, struct fb_slice_list* arrived);

/* Nothing is taken in any more, and the client's task is not posted any more. */
void fb_remote_channel_end(struct fb_remote_channel* self);

struct fb_remote_channel_usage {
  uint32_t queued;   /* buffers and events that wait for the task */
  uint32_t credit;   /* buffers that wait for data */
  uint32_t required; /* how many should */
  int64_t oldest_ms; /* age of the one at the head; 0: none */
};
void fb_remote_channel_get_usage(struct fb_remote_channel* self, struct fb_remote_channel_usage* usage);

/* ---- the I/O thread --------------------------------------------------------------------------------- */

/* A buffer for data that arrives, with a reference for the caller. NULL: the sender has no credit for it. */
struct fb_buffer* fb_remote_channel_request_buffer(struct fb_remote_channel* self);
/* Takes the slice over on every path. `backlog` < 0: nothing is said of it. */
void fb_remote_channel_on_buffer(struct fb_remote_channel* self, struct fb_buffer_slice* slice, int32_t sequence_number,
                                 int32_t backlog);
/* A data buffer of 0 bytes: it costs a credit and counts in the sequence, but there is nothing to read. */
void fb_remote_channel_on_empty_buffer(struct fb_remote_channel* self, int32_t sequence_number, int32_t backlog);
void fb_remote_channel_on_backlog(struct fb_remote_channel* self, int32_t backlog);
/* The first error stays. The text is copied. */
void fb_remote_channel_fail(struct fb_remote_channel* self, int code, const char* failure);
/* Whether the sender is to be told to go on; before take_credit(), since a sender without credit of its own forgets
 * what it was given before. */
bool fb_remote_channel_take_resume(struct fb_remote_channel* self);
/* Takes the credit that has come together since the last call, to be sent. */
uint32_t fb_remote_channel_take_credit(struct fb_remote_channel* self);
/* Whether the producer is to be told that all of its records have been processed. */
bool fb_remote_channel_take_acknowledgement(struct fb_remote_channel* self);
/* The buffer size to be announced; 0: none, or it was taken. */
int32_t fb_remote_channel_take_buffer_size(struct fb_remote_channel* self);
/* Has `size` announced once more, since the reader that was told it is gone; a later wish stays. 0: nothing was. */
void fb_remote_channel_restore_buffer_size(struct fb_remote_channel* self, int32_t size);

#endif
