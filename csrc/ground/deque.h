/* A queue in an array that grows, with those that have priority in front: Flink's PrioritizedDeque.
 *
 * Its user keeps items of one type in it, names their size at each call, and says the type once, in a function around
 * fb_deque_at(). Sizes are constants there, so that nothing is left of them in what is compiled. A plain queue is one
 * without priority items.
 *
 * Owner:   the deque owns the array; what the items refer to is the user's. All-zero is closed and empty.
 * Threads: none of its own; its users have a lock, or one thread. */
#ifndef FB_DEQUE_H
#define FB_DEQUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ground/errors.h"

struct fb_deque {
  void* items;
  uint32_t capacity; /* a power of two, or 0 */
  uint32_t head;     /* where in the array the first one is */
  uint32_t count;
  uint32_t priority_count; /* of these, the first ones */
};

/* Frees the array. Closing a closed deque does nothing. */
void fb_deque_close(struct fb_deque* self);

/* The item `position` < count places behind the first one. Valid until the deque changes. */
static inline void* fb_deque_at(const struct fb_deque* self, uint32_t position, size_t item_size) {
  return (uint8_t*)self->items + ((self->head + position) & (self->capacity - 1)) * item_size;
}

/* For fb_deque_reserve(), when there is no room. */
int fb_deque_grow(struct fb_deque* self, uint32_t more, size_t item_size);

/* Makes room for `more` items. FB_ENOMEM changes nothing. */
static inline int fb_deque_reserve(struct fb_deque* self, uint32_t more, size_t item_size) {
  return self->capacity - self->count >= more ? FB_OK : fb_deque_grow(self, more, item_size);
}

/* The place of a new last item, for the caller to fill. Room was reserved. */
static inline void* fb_deque_push(struct fb_deque* self, size_t item_size) {
  return fb_deque_at(self, self->count++, item_size);
}

/* The place of a new item behind those with priority and before all others. Room was reserved. */
static inline void* fb_deque_push_priority(struct fb_deque* self, size_t item_size) {
  self->head = (self->head - 1) & (self->capacity - 1);
  self->count++;
  for (uint32_t i = 0; i < self->priority_count; i++)
    memcpy(fb_deque_at(self, i, item_size), fb_deque_at(self, i + 1, item_size), item_size);
  return fb_deque_at(self, self->priority_count++, item_size);
}

/* Drops the first of count > 0 items; its place stays readable until the next push. */
static inline void fb_deque_pop(struct fb_deque* self) {
  self->head = (self->head + 1) & (self->capacity - 1);
  self->count--;
  if (self->priority_count > 0) self->priority_count--;
}

/* Takes the item at `position` < count out; the others keep their order. */
void fb_deque_remove(struct fb_deque* self, uint32_t position, size_t item_size);

#endif
