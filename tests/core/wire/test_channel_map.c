#include "wire/channel_map.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ground/errors.h"

#define MANY 5000

struct item {
  struct fb_channel_entry entry;
  bool is_in;
};

/* Ids whose two halves differ only in these bits fall into one bucket, however many buckets there are. */
static void set_colliding_id(struct fb_channel_entry* entry, uint64_t n) {
  uint64_t halves[2] = {n, n};
  memcpy(entry->id, halves, sizeof halves);
}

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static void set_random_id(struct fb_channel_entry* entry, uint64_t* state) {
  uint64_t halves[2];
  halves[0] = next_random(state);
  halves[1] = next_random(state);
  memcpy(entry->id, halves, sizeof halves);
}

static void an_empty_map_has_nothing(void) {
  struct fb_channel_map map = {0};
  struct fb_channel_entry entry = {.id = {1}};

  CHECK(fb_channel_map_find(&map, entry.id) == NULL);
  CHECK(!fb_channel_map_remove(&map, &entry));
  fb_channel_map_each(&map, NULL, NULL);
  fb_channel_map_close(&map);
  fb_channel_map_close(&map);
}

static void an_id_is_taken_once(void) {
  struct fb_channel_map map = {0};
  struct fb_channel_entry first = {.id = {1, 2}}, twin = {.id = {1, 2}}, other = {.id = {1, 3}};

  CHECK(fb_channel_map_add(&map, &first) == FB_OK);
  CHECK(fb_channel_map_add(&map, &twin) == FB_ESTATE && map.count == 1);
  CHECK(fb_channel_map_find(&map, twin.id) == &first && fb_channel_map_find(&map, other.id) == NULL);
  CHECK(!fb_channel_map_remove(&map, &twin) && map.count == 1); /* another entry, though of the same id */
  CHECK(!fb_channel_map_remove(&map, &other) && map.count == 1);
  CHECK(fb_channel_map_remove(&map, &first) && map.count == 0);
  CHECK(!fb_channel_map_remove(&map, &first));
  CHECK(fb_channel_map_add(&map, &twin) == FB_OK && fb_channel_map_find(&map, first.id) == &twin);
  fb_channel_map_close(&map);
  CHECK(fb_channel_map_find(&map, first.id) == NULL);
}

/* Every byte of the id counts. */
static void ids_differ_in_any_byte(void) {
  struct fb_channel_map map = {0};
  struct fb_channel_entry entries[FB_CHANNEL_ID_SIZE];

  memset(entries, 0, sizeof entries);
  for (size_t i = 0; i < FB_CHANNEL_ID_SIZE; i++) {
    entries[i].id[i] = 1;
    CHECK(fb_channel_map_add(&map, &entries[i]) == FB_OK);
  }
  for (size_t i = 0; i < FB_CHANNEL_ID_SIZE; i++) CHECK(fb_channel_map_find(&map, entries[i].id) == &entries[i]);
  CHECK(fb_channel_map_find(&map, (const uint8_t[FB_CHANNEL_ID_SIZE]){0}) == NULL);
  fb_channel_map_close(&map);
}

/* Random additions, removals and look-ups, with ids that spread or collide. */
static void it_agrees_with_a_list(bool collides) {
  struct item* items = calloc(MANY, sizeof *items);
  struct fb_channel_map map = {0};
  uint64_t state = 88172645463325252u;
  uint32_t count = 0, steps = collides ? 20000 : 200000, used = collides ? 200 : MANY;

  CHECK(items != NULL);
  for (uint32_t i = 0; i < used; i++) {
    if (collides) set_colliding_id(&items[i].entry, i + 1);
    else set_random_id(&items[i].entry, &state);
  }
  for (uint32_t step = 0; step < steps; step++) {
    struct item* item = &items[next_random(&state) % used];
    switch (next_random(&state) % 3) {
      case 0:
        CHECK(fb_channel_map_add(&map, &item->entry) == (item->is_in ? FB_ESTATE : FB_OK));
        count += !item->is_in;
        item->is_in = true;
        break;
      case 1:
        CHECK(fb_channel_map_remove(&map, &item->entry) == item->is_in);
        count -= item->is_in;
        item->is_in = false;
        break;
      default: CHECK(fb_channel_map_find(&map, item->entry.id) == (item->is_in ? &item->entry : NULL));
    }
    CHECK(map.count == count && count <= map.bucket_count);
  }
  fb_channel_map_close(&map);
  free(items);
}

struct walk {
  struct fb_channel_map* map;
  uint32_t seen, removed;
};

static void remove_odd(struct fb_channel_entry* entry, void* context) {
  struct walk* walk = context;

  walk->seen++;
  if (entry->id[0] % 2 == 0) return;
  CHECK(fb_channel_map_remove(walk->map, entry));
  free(entry);
  walk->removed++;
}

static void remove_any(struct fb_channel_entry* entry, void* context) {
  struct walk* walk = context;

  CHECK(fb_channel_map_remove(walk->map, entry));
  free(entry);
  walk->removed++;
}

static void a_walk_may_remove_and_free_where_it_stands(void) {
  struct fb_channel_map map = {0};
  struct walk walk = {.map = &map};

  for (uint64_t i = 0; i < 100; i++) {
    struct fb_channel_entry* entry = calloc(1, sizeof *entry);
    CHECK(entry != NULL);
    if (i < 50) set_colliding_id(entry, i); /* half of them in one chain */
    else entry->id[0] = (uint8_t)i;
    CHECK(fb_channel_map_add(&map, entry) == FB_OK);
  }
  fb_channel_map_each(&map, remove_odd, &walk);
  CHECK(walk.seen == 100 && walk.removed == 50 && map.count == 50);
  fb_channel_map_each(&map, remove_any, &walk);
  CHECK(walk.removed == 100 && map.count == 0);
  fb_channel_map_close(&map);
}

int main(void) {
  an_empty_map_has_nothing();
  an_id_is_taken_once();
  ids_differ_in_any_byte();
  it_agrees_with_a_list(false);
  it_agrees_with_a_list(true);
  a_walk_may_remove_and_free_where_it_stands();
  return 0;
}
