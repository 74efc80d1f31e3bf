#include "memory/buffer_builder.h"

#include <string.h>

void fb_buffer_builder_open(struct fb_buffer_builder* self, struct fb_buffer* buffer) {
  /* Whoever reads this buffer learns of it from this thread, after this store. */
  atomic_store_explicit(&buffer->position_marker, 0, memory_order_relaxed);
  *self = (struct fb_buffer_builder){
      .buffer = buffer,
      .data = buffer->segment.data,
      .capacity = (uint32_t)buffer->segment.size,
      .data_type = FB_DATA_BUFFER,
  };
}

void fb_buffer_builder_close(struct fb_buffer_builder* self) {
  struct fb_buffer* buffer = self->buffer;

  *self = (struct fb_buffer_builder){0};
  if (buffer != NULL) fb_buffer_release(buffer);
}

size_t fb_buffer_builder_append(struct fb_buffer_builder* self, const uint8_t* data, size_t size) {
  size_t room = fb_buffer_builder_writable(self);
  size_t taken = size < room ? size : room;

  if (taken > 0) memcpy(self->data + self->position, data, taken);
  self->position += (uint32_t)taken;
  return taken;
}

uint32_t fb_buffer_builder_finish(struct fb_buffer_builder* self) {
  int32_t position = (int32_t)self->position;

  if (self->is_finished) return self->position;
  self->is_finished = true;
  /* Pairs with the acquire loads of the consumers: they see the bytes before the end. */
  atomic_store_explicit(&self->buffer->position_marker, position == 0 ? FB_FINISHED_EMPTY : -position,
                        memory_order_release);
  return self->position;
}

void fb_buffer_builder_trim(struct fb_buffer_builder* self, uint32_t size) {
  uint32_t wanted = size > self->position ? size : self->position;

  self->capacity = wanted < self->buffer->segment.size ? wanted : (uint32_t)self->buffer->segment.size;
}

int fb_buffer_builder_consumer(struct fb_buffer_builder* self, bool from_beginning,
                               struct fb_buffer_consumer* consumer) {
  *consumer = (struct fb_buffer_consumer){0};
  if (self->buffer == NULL || self->has_consumer) return FB_ESTATE;
  self->has_consumer = true;
  fb_buffer_retain(self->buffer);
  consumer->buffer = self->buffer;
  consumer->reader_position = from_beginning ? 0 : self->position;
  consumer->data_type = self->data_type;
  return FB_OK;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static uint32_t marker_bytes(int32_t marker) {
  if (marker == FB_FINISHED_EMPTY) return 0;
  return (uint32_t)(marker < 0 ? -marker : marker);
}

static int32_t shared_marker(const struct fb_buffer_consumer* self) {
  /* Pairs with the release stores of commit() and finish(). */
  return atomic_load_explicit(&self->buffer->position_marker, memory_order_acquire);
}

/* Readable bytes by the cached marker. A consumer that starts at an uncommitted position has none yet. */
static uint32_t cached_readable(const struct fb_buffer_consumer* self) {
  uint32_t written = marker_bytes(self->cached_marker);
  return written > self->reader_position ? written - self->reader_position : 0;
}

void fb_buffer_consumer_open(struct fb_buffer_consumer* self, struct fb_buffer_slice* slice) {
  int32_t end = (int32_t)(slice->offset + slice->size);

  *self = (struct fb_buffer_consumer){
      .buffer = slice->buffer,
      .reader_position = slice->offset,
      .cached_marker = end == 0 ? FB_FINISHED_EMPTY : -end,
      .data_type = slice->data_type,
      .is_compressed = slice->is_compressed,
      .is_whole = true,
  };
  slice->buffer = NULL;
}

void fb_buffer_consumer_close(struct fb_buffer_consumer* self) {
  struct fb_buffer* buffer = self->buffer;

  self->buffer = NULL;
  if (buffer != NULL) fb_buffer_release(buffer);
}

void fb_buffer_consumer_copy(const struct fb_buffer_consumer* self, struct fb_buffer_consumer* copy) {
  *copy = *self;
  if (copy->buffer != NULL) fb_buffer_retain(copy->buffer);
}

int fb_buffer_consumer_copy_at(const struct fb_buffer_consumer* self, uint32_t reader_position,
                               struct fb_buffer_consumer* copy) {
  *copy = (struct fb_buffer_consumer){0};
  if (self->buffer == NULL || reader_position > fb_buffer_consumer_committed(self)) return FB_EARGUMENT;
  fb_buffer_consumer_copy(self, copy);
  copy->reader_position = reader_position;
  return FB_OK;
}

static void refresh_consumer(struct fb_buffer_consumer* self) {
  if (!self->is_whole) self->cached_marker = shared_marker(self);
}

void fb_buffer_consumer_build(struct fb_buffer_consumer* self, struct fb_buffer_slice* slice) {
  uint32_t size;

  refresh_consumer(self);
  size = cached_readable(self);
  fb_buffer_retain(self->buffer);
  *slice = (struct fb_buffer_slice){
      .buffer = self->buffer,
      .offset = self->reader_position,
      .size = size,
      .data_type = self->data_type,
      .is_compressed = self->is_compressed,
  };
  self->reader_position += size;
}

int fb_buffer_consumer_skip(struct fb_buffer_consumer* self, uint32_t size) {
  refresh_consumer(self);
  if (size > cached_readable(self)) return FB_ESTATE;
  self->reader_position += size;
  return FB_OK;
}

uint32_t fb_buffer_consumer_committed(const struct fb_buffer_consumer* self) {
  return marker_bytes(self->is_whole ? self->cached_marker : shared_marker(self));
}

bool fb_buffer_consumer_is_data_available(const struct fb_buffer_consumer* self) {
  return fb_buffer_consumer_committed(self) > self->reader_position;
}
