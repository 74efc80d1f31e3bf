#include "ground/data_view.h"

#include <stdlib.h>
#include <string.h>

/* A record's length is a signed 32-bit number on the wire, and its 4 length bytes are in the output too. */
#define MAX_RECORD_BYTES    ((size_t)INT32_MAX)
#define FIRST_SCRATCH_BYTES 256

void fb_data_output_close(struct fb_data_output* self) {
  free(self->scratch);
  *self = (struct fb_data_output){0};
}

int fb_data_output_grow(struct fb_data_output* self, size_t size) {
  size_t used = fb_data_output_size(self);
  bool in_scratch = fb_data_output_in_scratch(self);
  size_t capacity = self->scratch_capacity > 0 ? self->scratch_capacity : FIRST_SCRATCH_BYTES;
  uint8_t* grown = self->scratch;

  if (size > MAX_RECORD_BYTES || used > MAX_RECORD_BYTES - size) return FB_ETOO_LARGE;
  while (capacity < used + size) capacity *= 2;
  if (capacity > self->scratch_capacity) {
    grown = realloc(self->scratch, capacity);
    if (grown == NULL) return FB_ENOMEM;
  }
  if (!in_scratch && used > 0) memcpy(grown, self->start, used);
  self->scratch = self->start = grown;
  self->scratch_capacity = capacity;
  self->pos = grown + used;
  self->end = grown + capacity;
  return FB_OK;
}

void fb_data_output_prune(struct fb_data_output* self, size_t limit) {
  if (self->scratch_capacity <= limit) return;
  if (fb_data_output_in_scratch(self)) self->start = self->pos = self->end = NULL;
  free(self->scratch);
  self->scratch = NULL;
  self->scratch_capacity = 0;
}
