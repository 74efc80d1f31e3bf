/* Slices that are kept together for a while, in their order: what a checkpoint takes along of a channel.
 *
 * Owner:   the list owns a reference for each slice. All-zero is empty.
 * Threads: none of its own; its users have a lock, or one thread. */
#ifndef FB_SLICE_LIST_H
#define FB_SLICE_LIST_H

#include "memory/buffer.h"

struct fb_slice_list {
  struct fb_buffer_slice* items;
  uint32_t count;
  uint32_t capacity;
  size_t size; /* bytes of all of them */
};

/* Gives all references back and frees the array. The list is empty then, and may be used again. */
void fb_slice_list_close(struct fb_slice_list* self);
/* Makes room for `more` slices. FB_ENOMEM changes nothing. */
int fb_slice_list_reserve(struct fb_slice_list* self, uint32_t more);
/* Takes over the slice's reference. Room was reserved. */
void fb_slice_list_push(struct fb_slice_list* self, const struct fb_buffer_slice* slice);
/* Adds a reference of its own. FB_ENOMEM. */
int fb_slice_list_add(struct fb_slice_list* self, const struct fb_buffer_slice* slice);
/* Adds a copy of the bytes, outside every pool, so that the buffer they lie in may go home. FB_ENOMEM. */
int fb_slice_list_add_copy(struct fb_slice_list* self, const struct fb_buffer_slice* slice);
/* Moves all of `other` behind what is here, and leaves it empty. FB_ENOMEM changes nothing. */
int fb_slice_list_move(struct fb_slice_list* self, struct fb_slice_list* other);

#endif
