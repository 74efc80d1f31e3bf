/* What one task wrote for its n readers: n subpartitions and the builders that fill them.
 *
 * Unicast: one builder per subpartition. Broadcast: one builder for all, of which every subpartition holds a
 * copy of the consumer. The two exclude each other: opening one kind finishes the other, so records keep
 * their order. An event finishes all builders and is a buffer of its own. Flink: BufferWritingResultPartition,
 * PipelinedResultPartition.
 *
 * Owner:   counted. open() gives the producer's reference; each view holds one. close() by the producer only:
 *          it alone touches the builders.
 * Threads: the producer emits; readers poll their subpartition; anybody releases. */
#ifndef FB_RESULT_PARTITION_H
#define FB_RESULT_PARTITION_H

#include "buffer_pool.h"
#include "data_view.h"
#include "subpartition.h"

enum fb_result_partition_type {
  FB_PIPELINED = 0,
  FB_PIPELINED_BOUNDED = 1,
  FB_PIPELINED_APPROXIMATE = 2,
};

struct fb_result_partition {
  _Atomic uint32_t references;
  enum fb_result_partition_type type;
  uint32_t subpartition_count;
  struct fb_subpartition* subpartitions;
  struct fb_buffer_builder* unicast;  /* one slot per subpartition; closed if it has none */
  struct fb_buffer_builder broadcast; /* closed while unicast is in use */
  struct fb_local_buffer_pool* pool;  /* owned */
  struct fb_wakeup pool_wakeup;       /* rung when the pool has room: emit waits here */
  uint64_t total_written_bytes;
  uint64_t total_buffers;             /* finished by the producer */
  uint64_t hard_back_pressured_ms;
  bool is_finished;
  bool is_closed;                     /* by the producer */
  _Atomic bool is_released;
  /* subpartition_count + 1 marks: set while the subpartition (the last: all) is on the flusher's dirty list */
  _Atomic uint8_t* dirty;
  struct fb_output_flusher* flusher;  /* NULL: nobody flushes by time */
};

/* Takes the pool's handle over. FB_EARGUMENT (no subpartitions), FB_ENOMEM. */
int fb_result_partition_open(enum fb_result_partition_type type, uint32_t subpartition_count,
                             struct fb_local_buffer_pool* pool, struct fb_result_partition** self);
void fb_result_partition_retain(struct fb_result_partition* self);
void fb_result_partition_drop(struct fb_result_partition* self);

/* ---- the producer's side -------------------------------------------------------------------------- */

/* Makes sure that unicast[subpartition] is open (finishing the broadcast builder first). FB_OK,
 * FB_NEEDS_BUFFER (the pool has none now), FB_EFINISHED, FB_ERELEASED is not an error here: data for a gone
 * reader is dropped. */
int fb_result_partition_open_unicast(struct fb_result_partition* self, uint32_t subpartition);
int fb_result_partition_open_broadcast(struct fb_result_partition* self);

/* Called after a record was encoded in place at the end of an open builder: finishes the builder if full. */
void fb_result_partition_finish_unicast(struct fb_result_partition* self, uint32_t subpartition);
void fb_result_partition_finish_broadcast(struct fb_result_partition* self);

/* Appends bytes (a framed record), cutting them over as many buffers as it takes. *data and *size move past
 * what was taken. FB_OK: all; FB_NEEDS_BUFFER: call again with the rest when the pool has room. */
int fb_result_partition_emit(struct fb_result_partition* self, uint32_t subpartition, const uint8_t** data,
                             size_t* size);
int fb_result_partition_broadcast(struct fb_result_partition* self, const uint8_t** data, size_t* size);
/* Adds an event (copied) to every subpartition; finishes all builders. Needs no pooled memory. */
int fb_result_partition_broadcast_event(struct fb_result_partition* self, const uint8_t* data, size_t size,
                                        enum fb_data_type type);
/* The same to one subpartition: finishes its builder only. */
int fb_result_partition_emit_event(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                   size_t size, enum fb_data_type type);
void fb_result_partition_flush(struct fb_result_partition* self, uint32_t subpartition);
void fb_result_partition_flush_all(struct fb_result_partition* self);
/* Finishes the builders and adds EndOfPartition everywhere. FB_EFINISHED the second time. */
int fb_result_partition_finish(struct fb_result_partition* self);
/* Sleeps until the pool may have room. Returns whether it has. */
bool fb_result_partition_wait(struct fb_result_partition* self, int64_t timeout_ms);
/* The producer is done: closes the builders, destroys the pool lazily. What is queued stays readable. */
void fb_result_partition_close(struct fb_result_partition* self);

/* ---- anybody ----------------------------------------------------------------------------------------- */

/* Drops everything queued; later data is dropped too, views say so. Idempotent. */
void fb_result_partition_release(struct fb_result_partition* self);

static inline bool fb_result_partition_is_released(struct fb_result_partition* self) {
  return atomic_load_explicit(&self->is_released, memory_order_acquire);
}

#endif
