/* A part of a file that many may hold: what a reader hands on instead of bytes, so that they never pass through here.
 *
 * Flink: FileRegionBuffer.
 *
 * Owner:   a file is counted, and embedded in whatever opened it; each region that is kept owns one reference. The last
 *          one frees it, which closes the descriptor.
 * Threads: any; nobody changes the file's position, and it is only read. */
#ifndef FB_FILE_REGION_H
#define FB_FILE_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct fb_shared_file {
  _Atomic uint32_t references;
  int fd;
  const char* path;                          /* the owner's, for sentences; lives as long as the file */
  void (*free)(struct fb_shared_file* self); /* runs once, on any thread; closes the descriptor */
};

struct fb_file_region {
  struct fb_shared_file* file; /* NULL: there is nothing here */
  uint64_t offset;             /* bytes from the file's start */
  uint32_t size;               /* bytes */
};

/* With the first reference, which is the caller's. */
static inline void fb_shared_file_open(struct fb_shared_file* self, int fd, const char* path,
                                       void (*free)(struct fb_shared_file*)) {
  self->fd = fd;
  self->path = path;
  self->free = free;
  atomic_init(&self->references, 1);
}
static inline void fb_shared_file_retain(struct fb_shared_file* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}
static inline void fb_shared_file_drop(struct fb_shared_file* self) {
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1) self->free(self);
}

/* Gives the region's reference back and empties it. An empty one is left alone. */
static inline void fb_file_region_release(struct fb_file_region* self) {
  struct fb_shared_file* file = self->file;
  self->file = NULL;
  if (file != NULL) fb_shared_file_drop(file);
}

#endif
