/* Which objects a walk over a value has met: a set of addresses, on the stack while it is small. */
#ifndef FB_OBJECT_CODEC_H
#define FB_OBJECT_CODEC_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FB_OBJECT_CODEC_FIRST 8 /* so many are looked through one by one */

/* Of `slots`, a power of two, at most half are taken. Empty when `count` is 0 and `slots` NULL. */
struct fb_object_codec_seen {
  size_t count, size;
  const void** slots;
  const void* first[FB_OBJECT_CODEC_FIRST];
};

static inline void fb_object_codec_forget(struct fb_object_codec_seen* self) { free((void*)self->slots); }

/* Where `object` is or would be. */
static inline size_t fb_object_codec_slot(const struct fb_object_codec_seen* self, const void* object) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u) >> 20) & (self->size - 1);
  while (self->slots[i] != NULL && self->slots[i] != object) i = (i + 1) & (self->size - 1);
  return i;
}

/* Room for twice as many. */
static inline int fb_object_codec_grow(struct fb_object_codec_seen* self) {
  struct fb_object_codec_seen wider = *self;
  wider.size = self->slots == NULL ? 64 : 2 * self->size;
  wider.slots = (const void**)calloc(wider.size, sizeof(void*));
  if (wider.slots == NULL) return -1;
  if (self->slots == NULL)
    for (size_t i = 0; i < self->count; i++) wider.slots[fb_object_codec_slot(&wider, self->first[i])] = self->first[i];
  else
    for (size_t i = 0; i < self->size; i++)
      if (self->slots[i] != NULL) wider.slots[fb_object_codec_slot(&wider, self->slots[i])] = self->slots[i];
  free((void*)self->slots);
  *self = wider;
  return 0;
}

/* 1: it was met before; 0: it is remembered from here on; -1: out of memory. */
static inline int fb_object_codec_met(struct fb_object_codec_seen* self, const void* object) {
  size_t slot;
  if (self->slots == NULL) {
    for (size_t i = 0; i < self->count; i++)
      if (self->first[i] == object) return 1;
    if (self->count < FB_OBJECT_CODEC_FIRST) {
      self->first[self->count++] = object;
      return 0;
    }
  }
  if ((self->slots == NULL || 2 * self->count >= self->size) && fb_object_codec_grow(self) < 0) return -1;
  slot = fb_object_codec_slot(self, object);
  if (self->slots[slot] == object) return 1;
  self->slots[slot] = object;
  self->count++;
  return 0;
}

#endif
