#include "memory/memory_segment.h"

#include <stdlib.h>
#include <string.h>

int fb_memory_segment_open(struct fb_memory_segment* self, size_t size) {
  uint8_t* data = calloc(size > 0 ? size : 1, 1);

  *self = (struct fb_memory_segment){0};
  if (data == NULL) return FB_ENOMEM;
  self->data = data;
  self->size = size;
  self->is_owner = true;
  return FB_OK;
}

void fb_memory_segment_close(struct fb_memory_segment* self) {
  if (self->is_owner) free(self->data);
  *self = (struct fb_memory_segment){0};
}

void fb_memory_segment_wrap(struct fb_memory_segment* self, uint8_t* data, size_t size) {
  *self = (struct fb_memory_segment){.data = data, .size = size};
}

int fb_memory_segment_copy_to(const struct fb_memory_segment* self, size_t offset, struct fb_memory_segment* target,
                              size_t target_offset, size_t size) {
  int code = fb_memory_segment_check(self, offset, size);

  if (code == FB_OK) code = fb_memory_segment_check(target, target_offset, size);
  if (code == FB_OK) memmove(target->data + target_offset, self->data + offset, size);
  return code;
}

int fb_memory_segment_swap_bytes(struct fb_memory_segment* self, size_t offset, struct fb_memory_segment* other,
                                 size_t other_offset, size_t size) {
  uint8_t hold[256];
  uint8_t *left, *right;
  int code = fb_memory_segment_check(self, offset, size);

  if (code == FB_OK) code = fb_memory_segment_check(other, other_offset, size);
  if (code != FB_OK) return code;
  left = self->data + offset;
  right = other->data + other_offset;
  if (left < right + size && right < left + size) return FB_EARGUMENT;

  for (size_t done = 0, part; done < size; done += part) {
    part = size - done < sizeof hold ? size - done : sizeof hold;
    memcpy(hold, left + done, part);
    memcpy(left + done, right + done, part);
    memcpy(right + done, hold, part);
  }
  return FB_OK;
}

static int check_range(const struct fb_segment_range* range) {
  return fb_memory_segment_check(range->segment, range->offset, range->size);
}

static int32_t compare_bytes(const uint8_t* left, const uint8_t* right, size_t size) {
  size_t i = 0;

  while (size - i >= 256 && memcmp(left + i, right + i, 256) == 0) i += 256; /* equal parts, at full speed */
  for (; size - i >= 8; i += 8) {
    uint64_t l = fb_load_be64(left + i), r = fb_load_be64(right + i);
    if (l != r) return l < r ? -1 : 1;
  }
  for (; i < size; i++) {
    if (left[i] != right[i]) return (int32_t)left[i] - (int32_t)right[i];
  }
  return 0;
}

int fb_memory_segment_compare(const struct fb_segment_range* left, const struct fb_segment_range* right,
                              int32_t* order) {
  size_t shorter = left->size < right->size ? left->size : right->size;
  int code = check_range(left);

  if (code == FB_OK) code = check_range(right);
  if (code != FB_OK) return code;
  *order = compare_bytes(left->segment->data + left->offset, right->segment->data + right->offset, shorter);
  if (*order != 0 || left->size == right->size) return FB_OK;

  /* Sizes of more than 31 bits keep their sign. */
  size_t more = left->size > right->size ? left->size - right->size : right->size - left->size;
  *order = more > INT32_MAX ? INT32_MAX : (int32_t)more;
  if (left->size < right->size) *order = -*order;
  return FB_OK;
}

int fb_memory_segment_equal_to(const struct fb_segment_range* left, const struct fb_segment_range* right,
                               bool* is_equal) {
  int code = check_range(left);

  if (code == FB_OK) code = check_range(right);
  if (code != FB_OK) return code;
  *is_equal = left->size == right->size &&
              memcmp(left->segment->data + left->offset, right->segment->data + right->offset, left->size) == 0;
  return FB_OK;
}
