#include "columns/count_slots.h"

#include <string.h>

struct count_window {
  int64_t rows; /* 0: none is open */
  uint32_t slot;
};

static struct count_window* windows_of(const struct fb_count_slots* self) {
  return (struct count_window*)(void*)self->windows.data;
}

void fb_count_slots_open(struct fb_count_slots* self, int64_t size) { *self = (struct fb_count_slots){.size = size}; }

void fb_count_slots_clear(struct fb_count_slots* self) {
  fb_arrow_memory_free(&self->windows);
  self->count = self->open_count = 0;
}

size_t fb_count_slots_bytes(const struct fb_count_slots* self) { return self->windows.capacity; }

static int reserve_keys(struct fb_count_slots* self, int64_t rows, uint32_t key_count) {
  size_t known = self->windows.size / sizeof(struct count_window), more;
  int code;

  if ((size_t)rows >= UINT32_MAX - self->count) return FB_ETOO_LARGE;
  if (key_count <= known) return FB_OK;
  more = (key_count - known) * sizeof(struct count_window);
  code = fb_arrow_memory_reserve(&self->windows, more);
  if (code < 0) return code;
  memset(self->windows.data + self->windows.size, 0, more);
  self->windows.size += more;
  return FB_OK;
}

static void note_window(const struct fb_count_windows* to, int64_t i, uint32_t key, const struct count_window* window) {
  to->keys[i] = key;
  to->slots[i] = window->slot;
  to->rows[i] = window->rows;
}

int fb_count_slots_add(struct fb_count_slots* self, const uint32_t* keys, int64_t rows, uint32_t key_count,
                       uint32_t* slots, const struct fb_count_windows* full, int64_t* full_count) {
  int code;

  for (int64_t i = 0; i < rows; i++)
    if (keys[i] >= key_count) return FB_EARGUMENT;
  code = reserve_keys(self, rows, key_count);
  if (code < 0) return code;
  *full_count = 0;
  for (int64_t i = 0; i < rows; i++) {
    struct count_window* window = &windows_of(self)[keys[i]];
    if (window->rows++ == 0) {
      window->slot = self->count++;
      self->open_count++;
    }
    slots[i] = window->slot;
    if (window->rows < self->size) continue;
    note_window(full, (*full_count)++, keys[i], window);
    window->rows = 0;
    self->open_count--;
  }
  return FB_OK;
}

void fb_count_slots_all(const struct fb_count_slots* self, const struct fb_count_windows* to) {
  int64_t count = 0;

  for (uint32_t key = 0; key < self->windows.size / sizeof(struct count_window); key++)
    if (windows_of(self)[key].rows > 0) note_window(to, count++, key, &windows_of(self)[key]);
}

int fb_count_slots_restore(struct fb_count_slots* self, const struct fb_count_windows* windows, int64_t count,
                           uint32_t key_count) {
  int code;

  for (int64_t i = 0; i < count; i++)
    if (windows->keys[i] < 0 || windows->keys[i] >= key_count || windows->rows[i] <= 0 ||
        windows->rows[i] >= self->size)
      return FB_EARGUMENT;
  code = reserve_keys(self, count, key_count);
  if (code < 0) return code;
  for (int64_t i = 0; i < count; i++) {
    struct count_window* window = &windows_of(self)[windows->keys[i]];
    self->open_count += window->rows == 0;
    *window = (struct count_window){.rows = windows->rows[i], .slot = self->count++};
    windows->slots[i] = window->slot;
  }
  return FB_OK;
}
