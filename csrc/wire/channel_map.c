#include "wire/channel_map.h"

#include <stdlib.h>
#include <string.h>

#include "ground/errors.h"

#define FIRST_BUCKETS 16

/* Where the entry of `id` is chained, or would be. There are buckets. */
static struct fb_channel_entry** mapped_link_of(const struct fb_channel_map* self, const uint8_t* id) {
  uint64_t words[2];
  struct fb_channel_entry** link;

  memcpy(words, id, sizeof words);
  link = &self->buckets[((words[0] ^ words[1]) * 0x9e3779b97f4a7c15u >> 32) & (self->bucket_count - 1)];
  while (*link != NULL && memcmp((*link)->id, id, FB_CHANNEL_ID_SIZE) != 0) link = &(*link)->next;
  return link;
}

/* Twice as many buckets. Without memory it stays as it is, only slower, unless it has none at all. */
static int widen_map(struct fb_channel_map* self) {
  struct fb_channel_map wide = {.bucket_count = self->bucket_count > 0 ? 2 * self->bucket_count : FIRST_BUCKETS};

  wide.buckets = calloc(wide.bucket_count, sizeof *wide.buckets);
  if (wide.buckets == NULL) return self->bucket_count > 0 ? FB_OK : FB_ENOMEM;
  for (uint32_t i = 0; i < self->bucket_count; i++) {
    while (self->buckets[i] != NULL) {
      struct fb_channel_entry* entry = self->buckets[i];
      self->buckets[i] = entry->next;
      entry->next = NULL;
      *mapped_link_of(&wide, entry->id) = entry;
    }
  }
  free(self->buckets);
  self->buckets = wide.buckets;
  self->bucket_count = wide.bucket_count;
  return FB_OK;
}

void fb_channel_map_close(struct fb_channel_map* self) {
  free(self->buckets);
  *self = (struct fb_channel_map){0};
}

int fb_channel_map_add(struct fb_channel_map* self, struct fb_channel_entry* entry) {
  struct fb_channel_entry** link;

  if (self->count == self->bucket_count && widen_map(self) < 0) return FB_ENOMEM;
  link = mapped_link_of(self, entry->id);
  if (*link != NULL) return FB_ESTATE;
  entry->next = NULL;
  *link = entry;
  self->count++;
  return FB_OK;
}

struct fb_channel_entry* fb_channel_map_find(const struct fb_channel_map* self, const uint8_t* id) {
  return self->count > 0 ? *mapped_link_of(self, id) : NULL;
}

bool fb_channel_map_remove(struct fb_channel_map* self, struct fb_channel_entry* entry) {
  struct fb_channel_entry** link;

  if (self->count == 0) return false;
  link = mapped_link_of(self, entry->id);
  if (*link != entry) return false;
  *link = entry->next;
  self->count--;
  return true;
}

void fb_channel_map_each(struct fb_channel_map* self, void (*each)(struct fb_channel_entry* entry, void* context),
                         void* context) {
  struct fb_channel_entry* next;

  for (uint32_t i = 0; i < self->bucket_count; i++) {
    for (struct fb_channel_entry* entry = self->buckets[i]; entry != NULL; entry = next) {
      next = entry->next;
      each(entry, context);
    }
  }
}
