#include "sort/record_merge.h"

#include <stdlib.h>
#include <string.h>

#include "sort/record_order.h"

static bool merge_head_is_before(const struct fb_record_merge* self, const struct fb_record_merge_head* one,
                                 const struct fb_record_merge_head* other) {
  int order;

  if (one->prefix != other->prefix) return one->prefix < other->prefix;
  order = fb_record_order_compare(&self->readers[one->run].head, &self->readers[other->run].head);
  return order != 0 ? order < 0 : one->run < other->run;
}

static void merge_sift_down(struct fb_record_merge* self, uint32_t place) {
  struct fb_record_merge_head moved = self->heap[place];

  for (uint32_t child; (child = 2 * place + 1) < self->heap_size; place = child) {
    if (child + 1 < self->heap_size && merge_head_is_before(self, &self->heap[child + 1], &self->heap[child])) child++;
    if (!merge_head_is_before(self, &self->heap[child], &moved)) break;
    self->heap[place] = self->heap[child];
  }
  self->heap[place] = moved;
}

/* 1: the run of `head` goes on; 0: it has ended. */
static int merge_advance(struct fb_record_merge* self, struct fb_record_merge_head* head,
                         struct fb_file_failure* failure) {
  struct fb_record_run_reader* reader = &self->readers[head->run];
  int code = fb_record_run_reader_next(reader, failure);

  if (code == 1) head->prefix = fb_record_order_prefix(reader->head.key, reader->head.key_size);
  return code;
}

static int open_merge_readers(struct fb_record_merge* self, const struct fb_file_channel* channel,
                              const struct fb_record_run* runs, uint32_t run_count, size_t buffer_bytes,
                              struct fb_file_failure* failure) {
  for (uint32_t i = 0; i < run_count; i++) {
    struct fb_record_merge_head head = {0, i};
    int code = fb_record_run_reader_open(&self->readers[i], channel, &runs[i], buffer_bytes);

    if (code != FB_OK) {
      return fb_file_failure_set(failure, code, 0, "cannot merge the runs of", channel->path, runs[i].offset,
                                 "there is no memory for their buffers");
    }
    self->reader_count++;
    if ((code = merge_advance(self, &head, failure)) < 0) return code;
    if (code == 1) self->heap[self->heap_size++] = head;
  }
  for (uint32_t i = self->heap_size / 2; i-- > 0;) merge_sift_down(self, i);
  return FB_OK;
}

int fb_record_merge_open(struct fb_record_merge* self, const struct fb_file_channel* channel,
                         const struct fb_record_run* runs, uint32_t run_count, size_t buffer_bytes,
                         struct fb_file_failure* failure) {
  int code;

  memset(self, 0, sizeof(*self));
  self->readers = calloc(run_count, sizeof(*self->readers));
  self->heap = calloc(run_count, sizeof(*self->heap));
  if (self->readers == NULL || self->heap == NULL) {
    code =
        fb_file_failure_set(failure, FB_ENOMEM, 0, "cannot merge the runs of", channel->path, 0, "there is no memory");
  } else {
    code = open_merge_readers(self, channel, runs, run_count, buffer_bytes, failure);
  }
  if (code != FB_OK) fb_record_merge_close(self);
  return code;
}

void fb_record_merge_close(struct fb_record_merge* self) {
  for (uint32_t i = 0; i < self->reader_count; i++) fb_record_run_reader_close(&self->readers[i]);
  free(self->readers);
  free(self->heap);
  memset(self, 0, sizeof(*self));
}

int fb_record_merge_next(struct fb_record_merge* self, struct fb_sorted_record* record,
                         struct fb_file_failure* failure) {
  if (self->heap_size > 0 && self->is_started) { /* only now: what was given last lies in its buffer */
    int code = merge_advance(self, &self->heap[0], failure);

    if (code < 0) return code;
    if (code == 0) self->heap[0] = self->heap[--self->heap_size];
    if (self->heap_size > 0) merge_sift_down(self, 0);
  }
  self->is_started = true;
  if (self->heap_size == 0) return 0;
  *record = self->readers[self->heap[0].run].head;
  return 1;
}

bool fb_record_merge_must_read(const struct fb_record_merge* self) {
  if (self->heap_size == 0 || !self->is_started) return false;
  return fb_record_run_reader_must_read(&self->readers[self->heap[0].run]);
}
