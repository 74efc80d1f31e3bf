#include "ground/deque.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 8 };

#define LAST_CAPACITY ((uint32_t)1 << 31) /* the largest power of two */

void fb_deque_close(struct fb_deque* self) {
  free(self->items);
  *self = (struct fb_deque){0};
}

int fb_deque_grow(struct fb_deque* self, uint32_t more, size_t item_size) {
  uint32_t capacity = self->capacity > 0 ? self->capacity : FIRST_CAPACITY;
  uint32_t until_end = self->capacity - self->head;
  uint8_t* items;

  if (more > LAST_CAPACITY - self->count) return FB_ENOMEM;
  while (capacity < self->count + more) capacity *= 2;
  if (capacity > SIZE_MAX / item_size) return FB_ENOMEM;
  items = malloc(capacity * item_size);
  if (items == NULL) return FB_ENOMEM;
  /* In order from the start: those up to the end of the old array, then those that went around it. */
  if (until_end > self->count) until_end = self->count;
  if (until_end > 0) memcpy(items, fb_deque_at(self, 0, item_size), until_end * item_size);
  if (self->count > until_end)
    memcpy(items + until_end * item_size, self->items, (self->count - until_end) * item_size);
  free(self->items);
  self->items = items;
  self->capacity = capacity;
  self->head = 0;
  return FB_OK;
}

void fb_deque_remove(struct fb_deque* self, uint32_t position, size_t item_size) {
  if (position < self->priority_count) self->priority_count--;
  self->count--;
  for (; position < self->count; position++)
    memcpy(fb_deque_at(self, position, item_size), fb_deque_at(self, position + 1, item_size), item_size);
}
