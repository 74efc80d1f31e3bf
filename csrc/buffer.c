#include "buffer.h"

#include <stdlib.h>
#include <string.h>

int fb_slice_part(const struct fb_slice* self, uint32_t offset, uint32_t size, struct fb_slice* part) {
  if (self->buffer == NULL) return FB_EREFERENCES;
  if (size > self->size || offset > self->size - size) return FB_EBOUNDS;
  *part = *self;
  part->offset = self->offset + offset;
  part->size = size;
  return FB_OK;
}

static void free_event(struct fb_buffer* self) { free(self); }

int fb_event_buffer_new(const uint8_t* data, size_t size, enum fb_data_type type, struct fb_slice* event) {
  struct fb_buffer* buffer;
  uint8_t* bytes;

  *event = (struct fb_slice){0};
  if (size > INT32_MAX || type <= FB_NONE || type >= FB_DATA_TYPE_COUNT) return FB_EARGUMENT;
  buffer = malloc(sizeof *buffer + size);
  if (buffer == NULL) return FB_ENOMEM;
  bytes = (uint8_t*)(buffer + 1);
  if (size > 0) memcpy(bytes, data, size);

  *buffer = (struct fb_buffer){.channel = FB_NO_CHANNEL, .recycle = free_event};
  fb_memory_segment_wrap(&buffer->segment, bytes, size);
  atomic_init(&buffer->references, 1);
  atomic_init(&buffer->position_marker, 0);
  *event = (struct fb_slice){.buffer = buffer, .size = (uint32_t)size, .data_type = (uint8_t)type};
  return FB_OK;
}
