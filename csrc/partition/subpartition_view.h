/* How one reader takes buffers out of one subpartition, whatever kind of partition that belongs to.
 *
 * Every kind of view begins with a `struct fb_subpartition_view`; gate, server and binding know nothing else. poll()
 * neither blocks nor reads a file: what has to be read first is read elsewhere, and the listener is told when it is there.
 * Notification is edge-triggered: a reader drains until the next data type it is told is FB_NONE.
 * Flink: ResultSubpartitionView, BufferAvailabilityListener.
 *
 * Owner:   whoever created it (fb_result_partition_create_view); it holds a reference of its partition. release() frees it.
 * Threads: one reader calls it, one call at a time; set_buffer_size() and get_usage() also others, not while release()
 *          runs. The listener is called from any thread. */
#ifndef FB_SUBPARTITION_VIEW_H
#define FB_SUBPARTITION_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "ground/errors.h"
#include "io/file_region.h"
#include "memory/buffer.h"

struct fb_result_partition;
struct fb_subpartition_view;

/* Who is told that a subpartition has something to poll, or was released. Called without any lock, from the
 * thread that made it so; must not block. */
struct fb_availability_listener {
  void (*on_data_available)(void* context, uint32_t subpartition_index);
  void (*on_priority_event)(void* context, uint32_t subpartition_index, int32_t sequence_number);
  void* context;
};

struct fb_view_options {
  struct fb_availability_listener listener; /* copied */
  bool sends_empty_buffers; /* the reader has no exclusive buffers: an empty one tells it to release credit */
  bool takes_file_regions;  /* poll() may give a part of a file instead of bytes */
};

/* What poll() gives. The references of `slice` and `region` are the caller's, and only one of the two has one. Where the
 * region has it, size, data_type and is_compressed of the slice are the region's. */
struct fb_polled_buffer {
  struct fb_buffer_slice slice;
  struct fb_file_region region;
  uint32_t backlog;       /* data buffers that can be taken after this one */
  uint8_t next_data_type; /* enum fb_buffer_data_type of the following buffer, FB_NONE if nothing is available */
  int32_t sequence_number;
};

/* All of it at one moment. */
struct fb_subpartition_usage {
  uint64_t buffers; /* added, events included */
  uint64_t bytes;   /* polled */
  uint32_t queued;  /* buffers and events, the open one included */
  uint32_t backlog;
  int32_t credit;    /* -1: the reader is local, or there is none */
  int64_t oldest_ms; /* at most so long the first byte to be read has waited; 0: there is none */
};

/* Those that may be NULL say what happens then. */
struct fb_subpartition_view_kind {
  int (*poll)(struct fb_subpartition_view* self, struct fb_polled_buffer* polled);
  int (*poll_priority)(struct fb_subpartition_view* self, struct fb_polled_buffer* polled); /* NULL: 0 */
  bool (*is_available)(struct fb_subpartition_view* self, bool has_credit, uint32_t* backlog);
  int (*resume)(struct fb_subpartition_view* self);                        /* NULL: FB_ESTATE */
  int (*set_buffer_size)(struct fb_subpartition_view* self, int32_t size); /* NULL: it is nobody's wish */
  void (*set_credit)(struct fb_subpartition_view* self, int64_t credit);   /* NULL: nobody looks at it */
  bool (*is_released)(struct fb_subpartition_view* self);
  bool (*is_replaced)(struct fb_subpartition_view* self); /* NULL: never */
  void (*get_usage)(struct fb_subpartition_view* self, struct fb_subpartition_usage* usage);
  const char* (*failure)(struct fb_subpartition_view* self); /* its own cause, or NULL; NULL: it has none */
  void (*release)(struct fb_subpartition_view* self);
};

struct fb_subpartition_view {
  const struct fb_subpartition_view_kind* kind;
  struct fb_result_partition* partition; /* a reference */
  uint32_t index;
};

/* ---- for the reader -------------------------------------------------------------------------------- */

/* Gives the next buffer. Returns 1 with one; 0 if there is none now, and the listener will say when; FB_ERELEASED;
 * FB_ESTATE: another reader has taken its place, or the queue is broken; FB_ENOT_FOUND: what it was to read is gone;
 * others as reading a file gives them. An error stays. */
static inline int fb_subpartition_view_poll(struct fb_subpartition_view* self, struct fb_polled_buffer* polled) {
  return self->kind->poll(self, polled);
}
/* As poll(), but 0 unless what comes next has priority. */
static inline int fb_subpartition_view_poll_priority(struct fb_subpartition_view* self,
                                                     struct fb_polled_buffer* polled) {
  return self->kind->poll_priority != NULL ? self->kind->poll_priority(self, polled) : 0;
}
/* Whether poll() would give something: with credit any buffer or an error, without credit only an event or an error.
 * *backlog (may be NULL) = data buffers that can be taken. */
static inline bool fb_subpartition_view_is_available(struct fb_subpartition_view* self, bool has_credit,
                                                     uint32_t* backlog) {
  return self->kind->is_available(self, has_credit, backlog);
}
/* After a barrier that blocked it. FB_ESTATE unless blocked. The caller polls next. */
static inline int fb_subpartition_view_resume(struct fb_subpartition_view* self) {
  return self->kind->resume != NULL ? self->kind->resume(self) : FB_ESTATE;
}
/* Asks the writer for buffers of so many bytes. FB_EARGUMENT for a negative size. */
static inline int fb_subpartition_view_set_buffer_size(struct fb_subpartition_view* self, int32_t size) {
  if (size < 0) return FB_EARGUMENT;
  return self->kind->set_buffer_size != NULL ? self->kind->set_buffer_size(self, size) : FB_OK;
}
/* The server tells how much credit the reader has left. */
static inline void fb_subpartition_view_set_credit(struct fb_subpartition_view* self, int64_t credit) {
  if (self->kind->set_credit != NULL) self->kind->set_credit(self, credit);
}
static inline bool fb_subpartition_view_is_released(struct fb_subpartition_view* self) {
  return self->kind->is_released(self);
}
/* Whether another reader has taken its place: nothing more comes from it. */
static inline bool fb_subpartition_view_is_replaced(struct fb_subpartition_view* self) {
  return self->kind->is_replaced != NULL && self->kind->is_replaced(self);
}
static inline void fb_subpartition_view_get_usage(struct fb_subpartition_view* self,
                                                  struct fb_subpartition_usage* usage) {
  self->kind->get_usage(self, usage);
}
/* Gives the view up: its listener is not called again after this returns, and must not be what calls this. NULL: nothing. */
static inline void fb_subpartition_view_release(struct fb_subpartition_view* self) {
  if (self != NULL) self->kind->release(self);
}
#endif
