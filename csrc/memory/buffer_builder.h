/* The writing end and the reading ends of a buffer that is being filled.
 *
 * One thread appends, another may read what was committed; neither locks. They meet in the buffer's
 * `position_marker`: 0..capacity = that many bytes committed, more may come; negative = finished with
 * that many bytes; INT32_MIN = finished and empty. The writer keeps its position to itself and publishes
 * it with commit(); a reader keeps a cached copy of what it last saw. Flink: BufferBuilder,
 * BufferConsumer, PositionMarker.
 *
 * Owner:   builder and consumer own one reference of the buffer each, every built slice one more.
 * Threads: the builder belongs to the writing thread; a consumer to whoever holds the lock of its queue. */
#ifndef FB_BUFFER_BUILDER_H
#define FB_BUFFER_BUILDER_H

#include "memory/buffer.h"

#define FB_FINISHED_EMPTY INT32_MIN

struct fb_buffer_builder {
  struct fb_buffer* buffer; /* NULL: closed; there is no builder here */
  uint8_t* data;            /* the segment's first byte */
  uint32_t position;        /* bytes written, committed or not */
  uint32_t capacity;        /* bytes that may be written; trim() moves it */
  bool is_finished;
  bool has_consumer;
  uint8_t data_type; /* enum fb_buffer_data_type the consumer will report */
};

struct fb_buffer_consumer {
  struct fb_buffer* buffer; /* NULL: closed */
  uint32_t reader_position; /* bytes handed out */
  int32_t cached_marker;    /* the writer's marker as last seen by build() or skip() */
  uint8_t data_type;
  bool is_compressed;
  bool is_whole; /* born finished: cached_marker holds for ever, the buffer's own marker is not looked at */
};

/* Starts filling `buffer`, whose reference passes to the builder. */
void fb_buffer_builder_open(struct fb_buffer_builder* self, struct fb_buffer* buffer);
/* Gives the builder's reference back. Closing a closed builder does nothing. */
void fb_buffer_builder_close(struct fb_buffer_builder* self);

static inline uint32_t fb_buffer_builder_writable(const struct fb_buffer_builder* self) {
  return self->capacity - self->position;
}
static inline bool fb_buffer_builder_is_full(const struct fb_buffer_builder* self) {
  return self->position == self->capacity;
}

/* Publishes everything appended. Pairs with the acquire loads of the consumer: it sees the bytes. Does
 * nothing once finished, since finish() has published. */
static inline void fb_buffer_builder_commit(struct fb_buffer_builder* self) {
  if (self->is_finished) return;
  atomic_store_explicit(&self->buffer->position_marker, (int32_t)self->position, memory_order_release);
}

/* Whether a commit() would publish anything. */
static inline bool fb_buffer_builder_is_committed(const struct fb_buffer_builder* self) {
  /* Relaxed: only this thread stores it. */
  return self->buffer == NULL || self->is_finished ||
         atomic_load_explicit(&self->buffer->position_marker, memory_order_relaxed) == (int32_t)self->position;
}

/* Copies as much of `data` as fits and returns the count; not visible before commit(). The caller has
 * checked that the builder is open and not finished. */
size_t fb_buffer_builder_append(struct fb_buffer_builder* self, const uint8_t* data, size_t size);
/* Publishes and marks the end; idempotent. Returns the bytes written. */
uint32_t fb_buffer_builder_finish(struct fb_buffer_builder* self);
/* capacity = min(max(size, position), segment size): may shrink or widen. */
void fb_buffer_builder_trim(struct fb_buffer_builder* self, uint32_t size);

/* The one consumer of this builder, reading from the writer's present position or from the first byte.
 * FB_ESTATE on the second call. */
int fb_buffer_builder_consumer(struct fb_buffer_builder* self, bool from_beginning,
                               struct fb_buffer_consumer* consumer);

/* A consumer that is born finished over a whole slice, whose reference it takes over: events, and
 * buffers that came from elsewhere. */
void fb_buffer_consumer_open(struct fb_buffer_consumer* self, struct fb_buffer_slice* slice);
void fb_buffer_consumer_close(struct fb_buffer_consumer* self);
/* An independent reader (own reference) that starts where this one stands and sees later commits. */
void fb_buffer_consumer_copy(const struct fb_buffer_consumer* self, struct fb_buffer_consumer* copy);
/* The same from an earlier or equal position <= the writer's; else FB_EARGUMENT. */
int fb_buffer_consumer_copy_at(const struct fb_buffer_consumer* self, uint32_t reader_position,
                               struct fb_buffer_consumer* copy);

/* Hands out [reader, writer) as a slice with a reference of its own; may have size 0. */
void fb_buffer_consumer_build(struct fb_buffer_consumer* self, struct fb_buffer_slice* slice);
/* Passes over `size` readable bytes. FB_ESTATE if there are fewer. */
int fb_buffer_consumer_skip(struct fb_buffer_consumer* self, uint32_t size);

/* Cached: true only after a build() or skip() that saw the finish. */
static inline bool fb_buffer_consumer_is_finished(const struct fb_buffer_consumer* self) {
  return self->cached_marker < 0;
}
/* Reads the shared marker: whether a build() now would give bytes. */
bool fb_buffer_consumer_is_data_available(const struct fb_buffer_consumer* self);
/* Bytes committed so far, from the shared marker. */
uint32_t fb_buffer_consumer_committed(const struct fb_buffer_consumer* self);

#endif
