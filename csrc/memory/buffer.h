/* Counted views of memory segments: what partitions queue, gates hand over and sockets carry.
 *
 * A `struct fb_buffer` is the root: one segment, one reference count, and what to do with the segment
 * when the count reaches zero. A `struct fb_buffer_slice` is a small value that names a part of a root and what
 * kind of bytes lie there; it is copied freely, and each copy that is kept owns one reference.
 * Flink: NetworkBuffer and ReadOnlySlicedNetworkBuffer.
 *
 * Owner:   whoever holds a reference. request() and fb_buffer_new_unpooled() give the first one.
 * Threads: retain and release from any; the bytes are written by one thread (buffer_builder.h says how
 *          they become visible to another). */
#ifndef FB_BUFFER_H
#define FB_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/errors.h"
#include "memory/memory_segment.h"

/* Buffer.DataType of Flink 2.2: the number is a byte on the wire. */
enum fb_buffer_data_type {
  FB_NONE = 0, /* there is nothing */
  FB_DATA_BUFFER = 1,
  FB_EVENT_BUFFER = 2,
  FB_PRIORITIZED_EVENT_BUFFER = 3,
  FB_ALIGNED_CHECKPOINT_BARRIER = 4,
  FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5,
  FB_RECOVERY_COMPLETION = 6,
  FB_END_OF_SEGMENT = 7,
  FB_DATA_BUFFER_WITH_CLEAR_END = 8, /* ends at a record boundary */
  FB_END_OF_DATA = 9,
  FB_END_OF_PARTITION = 10,
  FB_RECOVERY_METADATA = 11,
  FB_ALIGNED_WATERMARK_EVENT = 12,
  FB_UNALIGNED_WATERMARK_EVENT = 13,
  FB_DATA_TYPE_COUNT = 14,
};

static inline bool fb_buffer_data_type_is_buffer(enum fb_buffer_data_type type) {
  return type == FB_DATA_BUFFER || type == FB_DATA_BUFFER_WITH_CLEAR_END;
}
static inline bool fb_buffer_data_type_is_event(enum fb_buffer_data_type type) {
  return type != FB_NONE && !fb_buffer_data_type_is_buffer(type);
}
static inline bool fb_buffer_data_type_has_priority(enum fb_buffer_data_type type) {
  return type == FB_PRIORITIZED_EVENT_BUFFER;
}
static inline bool fb_buffer_data_type_blocks_upstream(enum fb_buffer_data_type type) {
  return type == FB_ALIGNED_CHECKPOINT_BARRIER || type == FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER ||
         type == FB_RECOVERY_COMPLETION || type == FB_ALIGNED_WATERMARK_EVENT;
}
static inline bool fb_buffer_data_type_requires_announcement(enum fb_buffer_data_type type) {
  return type == FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER;
}

struct fb_buffer {
  struct fb_memory_segment segment;
  _Atomic uint32_t references;
  _Atomic int32_t position_marker;         /* see buffer_builder.h */
  uint32_t channel;                        /* whose quota it counts for; FB_NO_CHANNEL if nobody's */
  void (*recycle)(struct fb_buffer* self); /* runs once, when the count reaches zero; may free `self` */
  void* owner;                             /* for recycle(): the pool */
  struct fb_buffer* next;                  /* for the owner's free list */
};

#define FB_NO_CHANNEL UINT32_MAX

struct fb_buffer_slice {
  struct fb_buffer* buffer; /* the root; NULL: there is nothing here */
  uint32_t offset;          /* bytes from the segment's start */
  uint32_t size;            /* bytes */
  uint8_t data_type;        /* enum fb_buffer_data_type */
  bool is_compressed;
};

/* Makes a buffer that nobody holds the caller's, with one reference and an empty position marker. */
static inline void fb_buffer_reset(struct fb_buffer* self, void (*recycle)(struct fb_buffer*), void* owner) {
  self->recycle = recycle;
  self->owner = owner;
  self->channel = FB_NO_CHANNEL;
  /* Relaxed: whoever else gets this buffer gets it from the caller, later. */
  atomic_store_explicit(&self->references, 1, memory_order_relaxed);
  atomic_store_explicit(&self->position_marker, 0, memory_order_relaxed);
}

/* One more reference. The caller must hold one already. */
static inline void fb_buffer_retain(struct fb_buffer* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
}

/* Gives one reference back; the last one recycles the segment. */
static inline void fb_buffer_release(struct fb_buffer* self) {
  /* A sole owner needs no read-modify-write: nobody else can be counting. The acquire load pairs with the
   * release half of other holders' decrements, so all they did to the bytes is done. */
  if (atomic_load_explicit(&self->references, memory_order_acquire) == 1 ||
      atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1) {
    atomic_store_explicit(&self->references, 0, memory_order_relaxed);
    self->recycle(self);
  }
}

static inline const uint8_t* fb_buffer_slice_data(const struct fb_buffer_slice* self) {
  return self->buffer->segment.data + self->offset;
}
static inline void fb_buffer_slice_retain(const struct fb_buffer_slice* self) { fb_buffer_retain(self->buffer); }
/* Releases the slice's reference and empties the slice. An empty one is left alone. */
static inline void fb_buffer_slice_release(struct fb_buffer_slice* self) {
  struct fb_buffer* buffer = self->buffer;
  self->buffer = NULL;
  if (buffer != NULL) fb_buffer_release(buffer);
}

/* A part of a slice, sharing its reference (not retained). FB_EBOUNDS when it does not lie inside. */
int fb_buffer_slice_part(const struct fb_buffer_slice* self, uint32_t offset, uint32_t size,
                         struct fb_buffer_slice* part);

/* A buffer of its own, outside every pool, holding a copy of `data`: events travel in these. NULL: the caller
 * fills in the bytes. The root is freed at the last release. */
int fb_buffer_new_unpooled(const uint8_t* data, size_t size, enum fb_buffer_data_type type,
                           struct fb_buffer_slice* event);

/* Whether the bytes of an event begin as its data type says, as far as Flink ties the two together: a stream must not
 * end, block or lose data because a data type was mistaken for another. */
bool fb_buffer_event_is_of_its_type(const struct fb_buffer_slice* event);

#endif
