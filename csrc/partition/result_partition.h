/* What one task wrote for its n readers: what all kinds of it have in common, and the builders that fill it.
 *
 * A kind (result_partition_kind.h) says what becomes of a buffer: it is queued for one reader (pipelined_partition.h), or
 * written to files that any number of readers read when it is finished. Nobody else asks for the kind.
 * Unicast: one builder per subpartition. Broadcast: one builder for all, of which every subpartition holds a
 * copy of the consumer. The two exclude each other: opening one kind finishes the other, so records keep
 * their order. An event finishes all builders and is a buffer of its own. An open builder is never full.
 * Flink: ResultPartition, BufferWritingResultPartition.
 *
 * Owner:   counted. A kind's open() gives the producer's reference; each view holds one.
 * Threads: the producer's side below is one call at a time: it touches builders and files without a lock. close() is of it,
 *          since it frees them; the bindings see to that with a claim (result_partition.pyx). Views, release(), fail(),
 *          abort(), lose_reader(), acknowledge(), flush() and figures come from any thread, also while the producer is in
 *          any of its calls: they change atomics and what has a lock, never builders or files. */
#ifndef FB_RESULT_PARTITION_H
#define FB_RESULT_PARTITION_H

#include "ground/data_view.h"
#include "memory/local_buffer_pool.h"
#include "partition/result_partition_kind.h"

enum fb_result_partition_type {
  FB_PIPELINED = 0,
  FB_PIPELINED_BOUNDED = 1,
  FB_PIPELINED_APPROXIMATE = 2,
  FB_BLOCKING = 3,
  FB_BLOCKING_PERSISTENT = 4, /* its files outlive it */
};

struct fb_flushed_partition;

struct fb_result_partition {
  const struct fb_result_partition_kind* kind;
  _Atomic uint32_t references;
  _Atomic uint32_t
      users; /* readers that have not consumed their subpartition, and the producer; of a blocking one: 1, its
                             owner, who never says so */
  enum fb_result_partition_type type;
  uint32_t subpartition_count;
  struct fb_buffer_builder* unicast;  /* one slot per subpartition; closed if it has none */
  struct fb_buffer_builder broadcast; /* closed while unicast is in use */
  uint32_t open_unicast_count;        /* slots of `unicast` that are open */
  bool takes_records; /* set by the kind: there are no builders now, emit() and broadcast() take the bytes */
  uint32_t continued; /* who has half a record (subpartition_count: all), or FB_NO_CHANNEL */
  struct fb_local_buffer_pool* pool; /* owned */
  struct fb_wakeup own_wakeup;
  struct fb_wakeup_shared* task_wakeup; /* retained; NULL: none was given */
  /* Rung when the pool has room, a reader is done or has acknowledged, and at the release: the task's, else its own. */
  _Atomic(struct fb_wakeup*) wakeup;
  /* The producer counts, anybody may look. */
  _Atomic uint64_t total_written_bytes;    /* in finished buffers; broadcast counts for each reader */
  _Atomic uint64_t total_buffers;          /* finished likewise, events not included */
  _Atomic uint64_t hard_back_pressured_ms; /* waited for a buffer, of which there was none */
  _Atomic uint64_t soft_back_pressured_ms; /* waited before a record, rather than make a small buffer larger */
  /* Whose readers said that they have processed everything, and how many have not. */
  _Atomic bool* acknowledged;
  _Atomic uint32_t unacknowledged_count;
  _Atomic bool is_finished; /* release, by the producer; see fb_result_partition_is_finished() */
  _Atomic bool is_closed;   /* by the producer, or by who saw that it has ended it */
  _Atomic bool is_going;    /* a release has begun: nothing is a reason for one any more */
  _Atomic bool is_released; /* it has reached every subpartition */
  _Atomic int verdict;      /* what the producer is told by whatever it does next; see fb_result_partition_verdict() */
  int failure_errno;        /* of the system, with fail_output(); written before the verdict; 0: none */
  _Atomic(char*) failure;   /* why it was released; owned; NULL: no failure */
  /* Told once, after the partition was released because all readers and the producer are done with it. Set
   * before the first view is created; NULL: nobody. */
  void (*on_consumed)(struct fb_result_partition* self, void* context);
  void* on_consumed_context;
  /* subpartition_count + 1 marks: set while on_written() need not be called for the subpartition (the last: all). */
  _Atomic uint8_t* dirty;
  /* Told by the producer that it committed bytes to a subpartition without a mark; NULL: nobody wants to know. */
  void (*on_written)(struct fb_result_partition* self, uint32_t subpartition);
  struct fb_flushed_partition* flush_entry; /* whoever set on_written */
  /* The producer counts, anybody may look: records written to each subpartition, and (the last) to all of them. */
  uint64_t* record_counts;
};

void fb_result_partition_retain(struct fb_result_partition* self);
void fb_result_partition_drop(struct fb_result_partition* self);

/* Rings the task's bell instead of its own, which the partition holds as long as it lives: readers ring it, too. By the
 * producer, who looks at everything after it before it sleeps. FB_ESTATE: it has one, or is closed. FB_ENOMEM. */
int fb_result_partition_share_wakeup(struct fb_result_partition* self, struct fb_wakeup_shared* wakeup);

/* ---- the producer's side --------------------------------------------------------------------------
 *
 * All of these give FB_EFINISHED after finish(), FB_ELOST once a reader was lost, FB_ERELEASED once it was aborted (or, a
 * blocking one, released), and FB_EIO once its files could not be written.
 * Between FB_NEEDS_BUFFER in the middle of a record and the call that brings the rest of it they give FB_ESTATE; only
 * priority events may pass, in front of it. */

/* Makes sure that unicast[subpartition] is open (finishing the broadcast builder first). FB_OK, also when the
 * reader is gone or the partition takes records: then the slot stays closed, and the caller encodes elsewhere what
 * fb_result_partition_emit() takes, or drops. FB_NEEDS_BUFFER: the pool has
 * none now. FB_EARGUMENT (no such subpartition), FB_EDESTROYED, FB_ENOMEM. */
int fb_result_partition_open_unicast(struct fb_result_partition* self, uint32_t subpartition);
int fb_result_partition_open_broadcast(struct fb_result_partition* self);

/* Called after a record was encoded in place at the end of an open builder and filled it: sends it off. */
void fb_result_partition_finish_unicast(struct fb_result_partition* self, uint32_t subpartition);
void fb_result_partition_finish_broadcast(struct fb_result_partition* self);

/* Called after bytes were committed to `subpartition` (subpartition_count stands for all: broadcast): one relaxed
 * load when it is marked already. That load may overtake the commit's store, so a commit can go unseen by the
 * flush that clears the mark; who clears marks therefore looks once more later (output_flusher.h). */
static inline void fb_result_partition_mark_written(struct fb_result_partition* self, uint32_t subpartition) {
  if (self->on_written != NULL && atomic_load_explicit(&self->dirty[subpartition], memory_order_relaxed) == 0)
    self->on_written(self, subpartition);
}

/* Brings the end of a subpartition's open buffer near: with many of them each record would wait for memory. */
static inline void fb_result_partition_prefetch(const struct fb_result_partition* self, uint32_t subpartition) {
  const struct fb_buffer_builder* builder = &self->unicast[subpartition];
  if (builder->buffer == NULL) return;
  __builtin_prefetch(builder->data + builder->position, 1);
  __builtin_prefetch(builder->data + builder->position + 64, 1);
}

/* Appends bytes (a framed record), cutting them over as many buffers as it takes. *data and *size move past
 * what was taken. FB_OK: all (dropped if the reader is gone); FB_NEEDS_BUFFER: call again with the rest when
 * the pool has room. Errors as open_unicast. */
int fb_result_partition_emit(struct fb_result_partition* self, uint32_t subpartition, const uint8_t** data,
                             size_t* size);
int fb_result_partition_broadcast(struct fb_result_partition* self, const uint8_t** data, size_t* size);
/* Adds an event (copied) to every subpartition; finishes all builders. Needs no pooled memory. FB_EARGUMENT
 * when `type` is not an event's; FB_ENOMEM adds it nowhere. */
int fb_result_partition_broadcast_event(struct fb_result_partition* self, const uint8_t* data, size_t size,
                                        enum fb_buffer_data_type type);
/* The same to one subpartition: finishes its builder (or the broadcast builder) only. */
int fb_result_partition_emit_event(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                   size_t size, enum fb_buffer_data_type type);
/* An unaligned checkpoint barrier for every subpartition, which overtakes what is queued: the unread data are added to
 * the list of their subpartition, of which there is one each. FB_ESTATE in the middle of a record: its beginning would be
 * in the lists, and its end nowhere. FB_ENOMEM adds it nowhere. */
int fb_result_partition_broadcast_barrier(struct fb_result_partition* self, const uint8_t* data, size_t size,
                                          struct fb_slice_list* overtaken);
/* A barrier that was sent with a timeout becomes such a one where it is still queued. Returns whether it was anywhere (1
 * or 0). FB_ECORRUPT, FB_ENOMEM. Flink: ResultPartition.alignedBarrierTimeout. */
int fb_result_partition_convert_barrier(struct fb_result_partition* self, int64_t checkpoint_id,
                                        struct fb_slice_list* overtaken);
/* Whether it is queued anywhere. When it leaves a queue, the bell rings. */
bool fb_result_partition_has_barrier(struct fb_result_partition* self, int64_t checkpoint_id);
/* What was queued for a subpartition when the checkpoint was taken that the producer begins from, and comes before all
 * that it will write; it is copied, outside the pool. FB_ESTATE: something was written to it already. FB_EARGUMENT,
 * FB_ENOMEM. */
int fb_result_partition_restore(struct fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                size_t size);
void fb_result_partition_flush(struct fb_result_partition* self, uint32_t subpartition);
void fb_result_partition_flush_all(struct fb_result_partition* self);
/* Finishes the builders and adds EndOfPartition everywhere; a blocking one writes all that is left, and
 * gives its memory back to the global pool. FB_EFINISHED the second
 * time. FB_ENOMEM adds it nowhere. It stands an abort, release or failure by another thread at every point, and then gives
 * the verdict instead of success. */
int fb_result_partition_finish(struct fb_result_partition* self);
/* Whether a record may be begun, without a wait for readers: the pool has room, or the partition makes room itself. */
bool fb_result_partition_has_room(struct fb_result_partition* self);
/* Whether wait() makes room instead of sleeping until somebody else has: for those who never wait for readers. */
static inline bool fb_result_partition_makes_room(const struct fb_result_partition* self) {
  return self->kind->make_room != NULL;
}
/* Makes room if the partition does so itself, which may write to files. Else sleeps until the pool may have room. Returns whether it has, or the partition was released. */
bool fb_result_partition_wait(struct fb_result_partition* self, int64_t timeout_ms);
/* Before a record that may not fit the open buffer of `subpartition` (subpartition_count: of all). Where readers want
 * that buffer small, it keeps its size only if the pool has another one: sleeps until it may. Returns whether it
 * has; without a small buffer, or a reader, always and at once. */
bool fb_result_partition_wait_available(struct fb_result_partition* self, uint32_t subpartition, int64_t timeout_ms);
/* Whether all readers have acknowledged, or one that did not is gone: nothing is left to wait for. */
bool fb_result_partition_is_answered(struct fb_result_partition* self);
/* Sleeps until that is so. Returns whether it is. */
bool fb_result_partition_wait_acknowledged(struct fb_result_partition* self, int64_t timeout_ms);
/* The producer is done: closes the builders, destroys the pool lazily. What is queued stays readable if it is
 * finished; otherwise it fails, so that readers do not wait for the rest. A blocking one stays until it is released.
 * Idempotent; the flusher must have let go of it before. */
void fb_result_partition_close(struct fb_result_partition* self);

/* ---- anybody ------------------------------------------------------------------------------------- */

/* Attaches a reader to a subpartition. FB_EARGUMENT: there is no such one. FB_EUNFINISHED: a blocking one that is still
 * written. FB_ERELEASED, FB_ESTATE (it has a reader, or had one), FB_ENOT_FOUND (its files are gone), FB_ENOMEM, FB_EIO. */
int fb_result_partition_create_view(struct fb_result_partition* self, uint32_t index,
                                    const struct fb_view_options* options, struct fb_subpartition_view** view);
/* What is said of such an error. */
const char* fb_result_partition_view_error(const struct fb_result_partition* self, int code);
/* Why a view gives an error, as a sentence: its own cause, else its partition's; NULL: nothing more than the code is
 * known. Valid as long as the view. */
const char* fb_result_partition_view_failure(struct fb_subpartition_view* view);
static inline void fb_result_partition_get_usage(struct fb_result_partition* self, uint32_t index,
                                                 struct fb_subpartition_usage* usage) {
  self->kind->get_usage(self, index, usage);
}
static inline bool fb_result_partition_is_finished(struct fb_result_partition* self) {
  /* Acquire, partner of the store in fb_result_partition_finish(): who sees it sees what was written. */
  return atomic_load_explicit(&self->is_finished, memory_order_acquire);
}
/* The reader of `subpartition`, which exists, has processed all records that came before EndOfData. Idempotent. */
void fb_result_partition_acknowledge(struct fb_result_partition* self, uint32_t subpartition);
/* Whether all readers have. */
static inline bool fb_result_partition_is_acknowledged(struct fb_result_partition* self) {
  /* Acquire, partner of the decrement in fb_result_partition_acknowledge(). */
  return atomic_load_explicit(&self->unacknowledged_count, memory_order_acquire) == 0;
}

/* Drops everything queued and to come; views say so. Wakes a waiting producer. When it returns, all subpartitions are
 * released. Idempotent. */
void fb_result_partition_release(struct fb_result_partition* self);
/* The same for a reason (copied), which readers can show; the first one stays. */
void fb_result_partition_fail(struct fb_result_partition* self, const char* cause);
/* A reader went away without leave: the same, and the producer is told by whatever it does next. Nothing where another
 * may take its place, or the partition was released before. */
void fb_result_partition_lose_reader(struct fb_result_partition* self, const char* cause);
/* The same by somebody who takes the partition from its producer: the environment that is closed. The producer closes
 * it afterwards, or whoever knows that the producer is at rest. */
void fb_result_partition_abort(struct fb_result_partition* self, const char* cause);
/* FB_OK; FB_ELOST: a reader was lost; FB_ERELEASED: it was aborted, or, blocking and unfinished, released; what
 * fail_output() was told. The first of them stays. */
static inline int fb_result_partition_verdict(struct fb_result_partition* self) {
  /* Acquire, partner of the exchange in set_verdict(): who sees it also sees the failure. */
  return atomic_load_explicit(&self->verdict, memory_order_acquire);
}
static inline bool fb_result_partition_is_reader_lost(struct fb_result_partition* self) {
  return fb_result_partition_verdict(self) == FB_ELOST;
}
/* NULL unless it failed. Valid as long as the partition. */
const char* fb_result_partition_failure(struct fb_result_partition* self);

static inline bool fb_result_partition_is_released(struct fb_result_partition* self) {
  /* Acquire, partner of the store in fb_result_partition_release(): who sees it sees every subpartition released, too,
   * and the failure. */
  return atomic_load_explicit(&self->is_released, memory_order_acquire);
}

/* ---- for the kinds -------------------------------------------------------------------------------- */

/* Opens the common part, at the front of a kind's struct that calloc() gave. Takes the pool's handle over, also on failure,
 * after which the kind frees its struct. If a kind's own part fails later, it drops the partition.
 * FB_EARGUMENT (0 subpartitions, or over 2^31), FB_ENOMEM. */
int fb_result_partition_open_base(struct fb_result_partition* self, const struct fb_result_partition_kind* kind,
                                  enum fb_result_partition_type type, uint32_t subpartition_count,
                                  struct fb_local_buffer_pool* pool);
/* Ends all open builders: their consumers are complete. By the producer. */
void fb_result_partition_finish_builders(struct fb_result_partition* self);
/* It cannot be written any more, and is released: `code` is what the producer is told, `error` the system's errno or 0,
 * `cause` (copied) a sentence with path and offset. By the producer. */
void fb_result_partition_fail_output(struct fb_result_partition* self, int code, int error, const char* cause);
/* Counts what did not come from builders. By the producer. */
void fb_result_partition_count_written(struct fb_result_partition* self, uint64_t buffers, uint64_t bytes);
/* One of the readers of a subpartition that can be read once is done with it. */
void fb_result_partition_drop_user(struct fb_result_partition* self);
/* Whether nobody will read what is written to `target`. */
static inline bool fb_result_partition_is_gone(struct fb_result_partition* self, uint32_t target) {
  return self->kind->is_gone != NULL ? self->kind->is_gone(self, target) : fb_result_partition_is_released(self);
}
static inline struct fb_wakeup* fb_result_partition_bell(struct fb_result_partition* self) {
  /* Acquire, partner of the store in fb_result_partition_share_wakeup(): a reader rings what was made there. */
  return atomic_load_explicit(&self->wakeup, memory_order_acquire);
}
/* The common part of a view: takes a reference of the partition. */
void fb_result_partition_open_view(struct fb_result_partition* self, const struct fb_subpartition_view_kind* kind,
                                   uint32_t index, struct fb_subpartition_view* view);
/* Gives that reference back, the partition's last perhaps: all of a kind's release() but what is its own, and free(). */
void fb_result_partition_close_view(struct fb_subpartition_view* view);

#endif
