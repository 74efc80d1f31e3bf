/* Channels by their id of 16 bytes, as frames name them: a hash table of entries embedded in what they stand for.
 *
 * Owner:   borrows the entries, each of which stays where it is until it was removed.
 * Threads: one. */
#ifndef FB_CHANNEL_MAP_H
#define FB_CHANNEL_MAP_H

#include "wire/frame.h"

struct fb_channel_entry {
  uint8_t id[FB_CHANNEL_ID_SIZE];
  struct fb_channel_entry* next; /* the map's */
};

/* All-zero is an empty map. */
struct fb_channel_map {
  struct fb_channel_entry** buckets;
  uint32_t bucket_count; /* a power of two, or 0 */
  uint32_t count;
};

/* Forgets all entries. */
void fb_channel_map_close(struct fb_channel_map* self);
/* FB_ESTATE: the id is taken. FB_ENOMEM. */
int fb_channel_map_add(struct fb_channel_map* self, struct fb_channel_entry* entry);
/* NULL: there is none. */
struct fb_channel_entry* fb_channel_map_find(const struct fb_channel_map* self, const uint8_t* id);
/* One that is not there is left alone. Returns whether it was. */
bool fb_channel_map_remove(struct fb_channel_map* self, struct fb_channel_entry* entry);
/* Calls `each` for every entry; it may remove (and free) the one it was given, and no other. */
void fb_channel_map_each(struct fb_channel_map* self, void (*each)(struct fb_channel_entry* entry, void* context),
                         void* context);

#endif
