#include "memory/slice_list.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 8 };

void fb_slice_list_close(struct fb_slice_list* self) {
  for (uint32_t i = 0; i < self->count; i++) fb_buffer_slice_release(&self->items[i]);
  free(self->items);
  *self = (struct fb_slice_list){0};
}

int fb_slice_list_reserve(struct fb_slice_list* self, uint32_t more) {
  uint64_t capacity = self->capacity > 0 ? self->capacity : FIRST_CAPACITY;
  struct fb_buffer_slice* items;

  if (self->capacity - self->count >= more) return FB_OK;
  while (capacity < (uint64_t)self->count + more) capacity *= 2;
  if (capacity > UINT32_MAX) return FB_ENOMEM;
  items = realloc(self->items, (size_t)capacity * sizeof *items);
  if (items == NULL) return FB_ENOMEM;
  self->items = items;
  self->capacity = (uint32_t)capacity;
  return FB_OK;
}

void fb_slice_list_push(struct fb_slice_list* self, const struct fb_buffer_slice* slice) {
  self->items[self->count++] = *slice;
  self->size += slice->size;
}

int fb_slice_list_add(struct fb_slice_list* self, const struct fb_buffer_slice* slice) {
  int code = fb_slice_list_reserve(self, 1);

  if (code < 0) return code;
  fb_buffer_slice_retain(slice);
  fb_slice_list_push(self, slice);
  return FB_OK;
}

int fb_slice_list_add_copy(struct fb_slice_list* self, const struct fb_buffer_slice* slice) {
  struct fb_buffer_slice copy;
  int code = fb_slice_list_reserve(self, 1);

  if (code == FB_OK)
    code = fb_buffer_new_unpooled(fb_buffer_slice_data(slice), slice->size, (enum fb_buffer_data_type)slice->data_type,
                                  &copy);
  if (code < 0) return code;
  copy.is_compressed = slice->is_compressed;
  fb_slice_list_push(self, &copy);
  return FB_OK;
}

int fb_slice_list_move(struct fb_slice_list* self, struct fb_slice_list* other) {
  int code = fb_slice_list_reserve(self, other->count);

  if (code < 0) return code;
  if (other->count > 0) memcpy(self->items + self->count, other->items, other->count * sizeof *other->items);
  self->count += other->count;
  self->size += other->size;
  free(other->items);
  *other = (struct fb_slice_list){0};
  return FB_OK;
}
