#include "memory/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "ground/byte_order.h"

int fb_buffer_slice_part(const struct fb_buffer_slice* self, uint32_t offset, uint32_t size,
                         struct fb_buffer_slice* part) {
  if (self->buffer == NULL) return FB_EREFERENCES;
  if (size > self->size || offset > self->size - size) return FB_EBOUNDS;
  *part = *self;
  part->offset = self->offset + offset;
  part->size = size;
  return FB_OK;
}

/* The kinds of event: what their bytes begin with, as an int32. Flink: EventSerializer. */
enum {
  END_OF_PARTITION = 0,
  CHECKPOINT_BARRIER = 1,
  END_OF_SUPERSTEP = 2,
  CANCEL_CHECKPOINT = 4,
  SUBTASK_CONNECTION = 7,
  END_OF_DATA = 8,
  END_OF_SEGMENT = 9,
  LAST_KIND = 12,
};

/* Bytes that an event of a kind has; 0: they differ. */
static uint32_t event_size(uint32_t kind) {
  switch (kind) {
    case END_OF_PARTITION:
    case END_OF_SUPERSTEP:
    case END_OF_SEGMENT: return 4;
    case END_OF_DATA: return 5;
    case CANCEL_CHECKPOINT:
    case SUBTASK_CONNECTION: return 12;
    default: return 0;
  }
}

bool fb_buffer_event_is_of_its_type(const struct fb_buffer_slice* event) {
  uint32_t kind;

  if (event->size < 4) return false;
  kind = fb_load_be32(fb_buffer_slice_data(event));
  if (kind > LAST_KIND || (event_size(kind) != 0 && event_size(kind) != event->size)) return false;
  switch ((enum fb_buffer_data_type)event->data_type) {
    case FB_PRIORITIZED_EVENT_BUFFER: return true; /* any event may overtake */
    case FB_END_OF_PARTITION: return kind == END_OF_PARTITION;
    case FB_END_OF_DATA: return kind == END_OF_DATA;
    case FB_ALIGNED_CHECKPOINT_BARRIER:
    case FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER: return kind == CHECKPOINT_BARRIER;
    default: return kind != END_OF_PARTITION && kind != END_OF_DATA;
  }
}

static void free_event(struct fb_buffer* self) { free(self); }

int fb_buffer_new_unpooled(const uint8_t* data, size_t size, enum fb_buffer_data_type type,
                           struct fb_buffer_slice* event) {
  struct fb_buffer* buffer;
  uint8_t* bytes;

  *event = (struct fb_buffer_slice){0};
  if (size > INT32_MAX || type <= FB_NONE || type >= FB_DATA_TYPE_COUNT) return FB_EARGUMENT;
  buffer = malloc(sizeof *buffer + size);
  if (buffer == NULL) return FB_ENOMEM;
  bytes = (uint8_t*)(buffer + 1);
  if (data != NULL && size > 0) memcpy(bytes, data, size);

  *buffer = (struct fb_buffer){.channel = FB_NO_CHANNEL, .recycle = free_event};
  fb_memory_segment_wrap(&buffer->segment, bytes, size);
  atomic_init(&buffer->references, 1);
  atomic_init(&buffer->position_marker, 0);
  *event = (struct fb_buffer_slice){.buffer = buffer, .size = (uint32_t)size, .data_type = (uint8_t)type};
  return FB_OK;
}
