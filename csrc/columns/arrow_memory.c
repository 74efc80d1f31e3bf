#include "columns/arrow_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int fb_arrow_memory_grow(struct fb_arrow_memory* self, size_t more) {
  size_t capacity = self->capacity < 512 ? 512 : self->capacity * 2;
  uint8_t* data;

  if (more > SIZE_MAX / 4 || self->size > SIZE_MAX / 4) return FB_ENOMEM;
  if (self->data == NULL && capacity < self->expected) capacity = self->expected;
  if (capacity < self->size + more) capacity = self->size + more;
  data = realloc(self->data, capacity + FB_ARROW_SLACK);
  if (data == NULL) return FB_ENOMEM;
  self->data = data;
  self->capacity = capacity;
  return FB_OK;
}

void fb_arrow_memory_free(struct fb_arrow_memory* self) {
  free(self->data);
  *self = (struct fb_arrow_memory){0};
}

/* ---- blocks that come back -------------------------------------------------------------------------- */

struct kept_block {
  uint8_t* data;
  size_t capacity;
};

struct fb_arrow_memory_pool {
  _Atomic uint32_t references;
  _Atomic bool is_stopped;
  pthread_mutex_t lock; /* of what follows; only tried: a child may have been forked while another thread held it */
  uint32_t count;
  size_t bytes; /* of all blocks */
  struct kept_block blocks[FB_ARROW_MEMORY_KEPT_BLOCKS];
};

/* Takes out block `i`; the others keep their order, the oldest first. */
static struct kept_block take_block(struct fb_arrow_memory_pool* self, uint32_t i) {
  struct kept_block block = self->blocks[i];

  self->count--;
  self->bytes -= block.capacity;
  memmove(self->blocks + i, self->blocks + i + 1, (self->count - i) * sizeof *self->blocks);
  return block;
}

struct fb_arrow_memory_pool* fb_arrow_memory_pool_open(void) {
  struct fb_arrow_memory_pool* self = calloc(1, sizeof *self);

  if (self == NULL) return NULL;
  if (pthread_mutex_init(&self->lock, NULL) != 0) return free(self), NULL;
  atomic_init(&self->references, 1);
  atomic_init(&self->is_stopped, false);
  return self;
}

struct fb_arrow_memory_pool* fb_arrow_memory_pool_retain(struct fb_arrow_memory_pool* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
  return self;
}

void fb_arrow_memory_pool_release(struct fb_arrow_memory_pool* self) {
  /* The last holder sees what the others did: their decrements release, its own acquires. */
  if (self == NULL || atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) > 1) return;
  fb_arrow_memory_pool_stop(self);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

void fb_arrow_memory_pool_stop(struct fb_arrow_memory_pool* self) {
  atomic_store(&self->is_stopped, true);
  if (pthread_mutex_trylock(&self->lock) != 0) return; /* who holds it has a reference, whose release does this again */
  while (self->count > 0) free(take_block(self, self->count - 1).data);
  pthread_mutex_unlock(&self->lock);
}

void fb_arrow_memory_pool_give(struct fb_arrow_memory_pool* self, uint8_t* data, size_t capacity) {
  bool is_kept = false;

  if (data == NULL) return;
  if (capacity >= FB_ARROW_MEMORY_MIN_KEPT && capacity <= FB_ARROW_MEMORY_KEPT_BYTES &&
      pthread_mutex_trylock(&self->lock) == 0) {
    is_kept = !atomic_load(&self->is_stopped);
    while (is_kept &&
           (self->count == FB_ARROW_MEMORY_KEPT_BLOCKS || self->bytes > FB_ARROW_MEMORY_KEPT_BYTES - capacity))
      free(take_block(self, 0).data);
    if (is_kept) {
      self->blocks[self->count++] = (struct kept_block){data, capacity};
      self->bytes += capacity;
    }
    pthread_mutex_unlock(&self->lock);
  }
  if (!is_kept) free(data);
}

void fb_arrow_memory_pool_begin(struct fb_arrow_memory_pool* self, size_t expected, struct fb_arrow_memory* memory) {
  *memory = (struct fb_arrow_memory){.expected = expected};
  if (expected < FB_ARROW_MEMORY_MIN_KEPT || pthread_mutex_trylock(&self->lock) != 0) return;
  for (uint32_t i = self->count; i-- > 0;) {
    struct kept_block block = self->blocks[i];
    if (block.capacity < expected || block.capacity / 2 > expected) continue; /* too small, or a waste */
    take_block(self, i);
    memory->data = block.data;
    memory->capacity = block.capacity;
    break;
  }
  pthread_mutex_unlock(&self->lock);
}
