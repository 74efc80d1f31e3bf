#include "sort/record_run.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------- */

int fb_record_run_writer_open(struct fb_record_run_writer* self, struct fb_file_channel* channel, size_t capacity) {
  memset(self, 0, sizeof(*self));
  self->buffer = malloc(capacity);
  if (self->buffer == NULL) return FB_ENOMEM;
  self->channel = channel;
  self->capacity = capacity;
  return FB_OK;
}

void fb_record_run_writer_close(struct fb_record_run_writer* self) {
  free(self->buffer);
  memset(self, 0, sizeof(*self));
}

void fb_record_run_writer_begin(struct fb_record_run_writer* self) {
  self->run.offset = self->channel->position;
  self->run.size = 0;
  self->used = 0;
}

static int write_held_back(struct fb_record_run_writer* self, const struct fb_sorted_record* more,
                           struct fb_file_failure* failure) {
  struct iovec parts[3] = {{self->buffer, self->used}, {NULL, 0}, {NULL, 0}};

  self->used = 0;
  if (more == NULL) return fb_file_channel_write_all(self->channel, parts, 1, failure);
  parts[1] = (struct iovec){(void*)more->key, more->key_size};
  parts[2] = (struct iovec){(void*)more->record, more->record_size};
  return fb_file_channel_write_all(self->channel, parts, 3, failure);
}

int fb_record_run_writer_add(struct fb_record_run_writer* self, const struct fb_sorted_record* record,
                             struct fb_file_failure* failure) {
  size_t body = (size_t)record->key_size + record->record_size;
  uint8_t* to;

  if (self->capacity - self->used < FB_RECORD_RUN_HEAD) {
    int code = write_held_back(self, NULL, failure);

    if (code != FB_OK) return code;
  }
  to = self->buffer + self->used;
  memcpy(to, &record->key_size, 4);
  memcpy(to + 4, &record->record_size, 4);
  memcpy(to + 8, &record->timestamp, 8);
  self->used += FB_RECORD_RUN_HEAD;
  self->run.size += FB_RECORD_RUN_HEAD + body;
  if (self->capacity - self->used < body) return write_held_back(self, record, failure);
  if (record->key_size > 0) memcpy(to + FB_RECORD_RUN_HEAD, record->key, record->key_size);
  if (record->record_size > 0) memcpy(to + FB_RECORD_RUN_HEAD + record->key_size, record->record, record->record_size);
  self->used += body;
  return FB_OK;
}

int fb_record_run_writer_end(struct fb_record_run_writer* self, struct fb_file_failure* failure) {
  return self->used > 0 ? write_held_back(self, NULL, failure) : FB_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

int fb_record_run_reader_open(struct fb_record_run_reader* self, const struct fb_file_channel* channel,
                              const struct fb_record_run* run, size_t capacity) {
  memset(self, 0, sizeof(*self));
  if (capacity < FB_RECORD_RUN_HEAD) capacity = FB_RECORD_RUN_HEAD;
  self->buffer = malloc(capacity);
  if (self->buffer == NULL) return FB_ENOMEM;
  self->channel = channel;
  self->capacity = capacity;
  self->offset = run->offset;
  self->end = run->offset + run->size;
  return FB_OK;
}

void fb_record_run_reader_close(struct fb_record_run_reader* self) {
  free(self->buffer);
  memset(self, 0, sizeof(*self));
}

/* Makes the next `wanted` bytes, which the run has, lie in one piece. */
static int fill_for(struct fb_record_run_reader* self, size_t wanted, struct fb_file_failure* failure) {
  size_t held = self->used - self->start, size;
  int code;

  if (held >= wanted) return FB_OK;
  if (self->capacity < wanted) {
    uint8_t* buffer = malloc(wanted);

    if (buffer == NULL) {
      return fb_file_failure_set(failure, FB_ENOMEM, 0, "cannot read a record of", self->channel->path, self->offset,
                                 "no memory holds it");
    }
    memcpy(buffer, self->buffer + self->start, held);
    free(self->buffer);
    self->buffer = buffer;
    self->capacity = wanted;
  } else if (held > 0) {
    memmove(self->buffer, self->buffer + self->start, held);
  }
  self->start = 0;
  self->used = held;
  size = self->capacity - held;
  if (size > self->end - self->offset) size = (size_t)(self->end - self->offset);
  code = fb_file_channel_read_exactly(self->channel, self->offset, self->buffer + held, size, failure);
  if (code != FB_OK) return code;
  self->offset += size;
  self->used += size;
  return FB_OK;
}

static uint64_t bytes_left(const struct fb_record_run_reader* self) {
  return self->end - self->offset + (self->used - self->start);
}

static int fail_corrupt(const struct fb_record_run_reader* self, struct fb_file_failure* failure) {
  return fb_file_failure_set(failure, FB_ECORRUPT, 0, "cannot read a sorted run of", self->channel->path,
                             self->end - bytes_left(self), "the lengths of a record are more than what is left of it");
}

int fb_record_run_reader_next(struct fb_record_run_reader* self, struct fb_file_failure* failure) {
  uint64_t left = bytes_left(self), body;
  const uint8_t* from;
  int code;

  if (left == 0) return 0;
  if (left < FB_RECORD_RUN_HEAD) return fail_corrupt(self, failure);
  if ((code = fill_for(self, FB_RECORD_RUN_HEAD, failure)) != FB_OK) return code;
  from = self->buffer + self->start;
  memcpy(&self->head.key_size, from, 4);
  memcpy(&self->head.record_size, from + 4, 4);
  memcpy(&self->head.timestamp, from + 8, 8);
  body = (uint64_t)self->head.key_size + self->head.record_size;
  if (body > left - FB_RECORD_RUN_HEAD) return fail_corrupt(self, failure);
  if ((code = fill_for(self, FB_RECORD_RUN_HEAD + (size_t)body, failure)) != FB_OK) return code;
  self->head.key = self->buffer + self->start + FB_RECORD_RUN_HEAD;
  self->head.record = self->head.key + self->head.key_size;
  self->start += FB_RECORD_RUN_HEAD + (size_t)body;
  return 1;
}

bool fb_record_run_reader_must_read(const struct fb_record_run_reader* self) {
  size_t held = self->used - self->start;
  uint32_t sizes[2];

  if (self->offset == self->end) return false;
  if (held < FB_RECORD_RUN_HEAD) return true;
  memcpy(sizes, self->buffer + self->start, sizeof(sizes));
  return held - FB_RECORD_RUN_HEAD < (uint64_t)sizes[0] + sizes[1];
}
