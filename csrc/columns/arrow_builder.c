#include "columns/arrow_builder.h"

#include <stdlib.h>

static bool is_plain(enum fb_arrow_kind kind) {
  switch (kind) {
    case FB_ARROW_TEXT_VIEW:
    case FB_ARROW_BINARY_VIEW:
    case FB_ARROW_LIST_VIEW:
    case FB_ARROW_LARGE_LIST_VIEW:
    case FB_ARROW_DICTIONARY:
    case FB_ARROW_RUN_ENDS:
    case FB_ARROW_KIND_COUNT: return false;
    default: return true;
  }
}

static int open_builder_tree(struct fb_arrow_builder* self, const struct fb_arrow_column* column,
                             struct fb_arrow_memory_pool* pool) {
  int code = FB_OK;

  *self = (struct fb_arrow_builder){.column = column, .pool = pool};
  if (!is_plain(column->arrow.kind)) return FB_EARGUMENT;
  if (column->child_count > 0) {
    self->children = calloc(column->child_count, sizeof *self->children);
    if (self->children == NULL) return FB_ENOMEM;
  }
  for (uint32_t i = 0; code == FB_OK && i < column->child_count; i++)
    code = open_builder_tree(&self->children[i], &column->children[i], pool);
  return code;
}

int fb_arrow_builder_open(struct fb_arrow_builder* self, const struct fb_arrow_column* column) {
  struct fb_arrow_memory_pool* pool = fb_arrow_memory_pool_open();
  int code;

  *self = (struct fb_arrow_builder){0};
  if (pool == NULL) return FB_ENOMEM;
  code = open_builder_tree(self, column, pool);
  self->is_root = true;
  if (code != FB_OK) fb_arrow_builder_close(self);
  return code;
}

void fb_arrow_builder_close(struct fb_arrow_builder* self) {
  if (self->column == NULL) return;
  for (uint32_t i = 0; self->children != NULL && i < self->column->child_count; i++)
    fb_arrow_builder_close(&self->children[i]);
  free(self->children);
  fb_arrow_memory_free(&self->validity);
  fb_arrow_memory_free(&self->values);
  fb_arrow_memory_free(&self->offsets);
  if (self->is_root) {
    fb_arrow_memory_pool_stop(self->pool);
    fb_arrow_memory_pool_release(self->pool);
  }
  *self = (struct fb_arrow_builder){0};
}

uint64_t fb_arrow_builder_bytes(const struct fb_arrow_builder* self) {
  uint64_t sum = self->validity.size + self->values.size + self->offsets.size;

  for (uint32_t i = 0; i < self->column->child_count; i++) sum += fb_arrow_builder_bytes(&self->children[i]);
  return sum;
}

/* ---- what all columns have -------------------------------------------------------------------------- */

bool fb_arrow_builder_is_wide(enum fb_arrow_kind kind) {
  return kind == FB_ARROW_LARGE_TEXT || kind == FB_ARROW_LARGE_BINARY || kind == FB_ARROW_LARGE_LIST;
}

static bool column_has_offsets(enum fb_arrow_kind kind) {
  return fb_arrow_builder_is_wide(kind) || kind == FB_ARROW_TEXT || kind == FB_ARROW_BINARY || kind == FB_ARROW_LIST ||
         kind == FB_ARROW_MAP;
}

int fb_arrow_builder_begin_validity(struct fb_arrow_builder* self, int64_t count) {
  bool is_new = self->validity.data == NULL;
  int code = fb_arrow_memory_reserve_bits(&self->validity, count > 0 ? count : 1);

  if (code == FB_OK && is_new) memset(self->validity.data, 0xff, self->validity.size);
  return code;
}

/* The value appended next is there. */
int fb_arrow_builder_put_valid(struct fb_arrow_builder* self) { return fb_arrow_builder_put_valid_slots(self, 1); }

int fb_arrow_builder_put_valid_slots(struct fb_arrow_builder* self, int64_t count) {
  if (self->validity.data != NULL) {
    int code = fb_arrow_memory_reserve_bits(&self->validity, self->length + count);
    if (code != FB_OK) return code;
    for (int64_t i = self->length; i < self->length + count; i++) fb_arrow_memory_set_bit(self->validity.data, i, true);
  }
  self->length += count;
  return FB_OK;
}

int fb_arrow_builder_begin_offsets(struct fb_arrow_builder* self, size_t more) {
  size_t width = fb_arrow_builder_is_wide(self->column->arrow.kind) ? 8 : 4;
  int code = fb_arrow_memory_reserve(&self->offsets, (more + 1) * width);

  if (code == FB_OK && self->offsets.size == 0) {
    memset(self->offsets.data, 0, width);
    self->offsets.size = width;
  }
  return code;
}

void fb_arrow_builder_put_offset(struct fb_arrow_builder* self, int64_t offset) {
  uint8_t* to = self->offsets.data + self->offsets.size;
  int32_t narrow = (int32_t)offset;

  if (fb_arrow_builder_is_wide(self->column->arrow.kind)) {
    memcpy(to, &offset, 8);
    self->offsets.size += 8;
  } else {
    memcpy(to, &narrow, 4);
    self->offsets.size += 4;
  }
}

int64_t fb_arrow_builder_offset(const struct fb_arrow_builder* self, int64_t i) {
  int32_t narrow;
  int64_t wide;

  if (self->offsets.size == 0) return 0;
  if (fb_arrow_builder_is_wide(self->column->arrow.kind)) return memcpy(&wide, self->offsets.data + 8 * i, 8), wide;
  return memcpy(&narrow, self->offsets.data + 4 * i, 4), narrow;
}

/* Bytes of a slot in `values`; 0: its values lie otherwise. */
static size_t slot_width(const struct fb_arrow_type* arrow) {
  if (arrow->kind == FB_ARROW_BOOLEAN || column_has_offsets(arrow->kind) || arrow->kind >= FB_ARROW_LIST ||
      arrow->kind == FB_ARROW_NULL)
    return 0;
  return arrow->width;
}

int fb_arrow_builder_put_slot(struct fb_arrow_builder* self, const void* value, size_t width) {
  int code = fb_arrow_memory_reserve(&self->values, width);

  if (code != FB_OK) return code;
  memcpy(self->values.data + self->values.size, value, width);
  self->values.size += width;
  return fb_arrow_builder_put_valid(self);
}

/* The slot of a value that is null. */
static int put_empty_slot(struct fb_arrow_builder* self) {
  const struct fb_arrow_type* arrow = &self->column->arrow;
  size_t width = slot_width(arrow);
  int code;

  if (arrow->kind == FB_ARROW_BOOLEAN) {
    code = fb_arrow_memory_reserve_bits(&self->values, self->length + 1);
    if (code == FB_OK) fb_arrow_memory_set_bit(self->values.data, self->length, false);
    return code;
  }
  if (column_has_offsets(arrow->kind)) {
    code = fb_arrow_builder_begin_offsets(self, 1);
    if (code == FB_OK) fb_arrow_builder_put_offset(self, fb_arrow_builder_offset(self, self->length));
    return code;
  }
  if (width > 0) {
    code = fb_arrow_memory_reserve(&self->values, width);
    if (code != FB_OK) return code;
    memset(self->values.data + self->values.size, 0, width);
    self->values.size += width;
    return FB_OK;
  }
  code = FB_OK;
  for (uint32_t i = 0; code == FB_OK && i < self->column->child_count; i++)
    for (uint32_t k = 0; code == FB_OK && k < (arrow->kind == FB_ARROW_FIXED_LIST ? arrow->width : 1); k++)
      code = fb_arrow_builder_put_null(&self->children[i]);
  return code;
}

int fb_arrow_builder_put_null(struct fb_arrow_builder* self) {
  int code =
      self->column->arrow.kind == FB_ARROW_NULL ? FB_OK : fb_arrow_builder_begin_validity(self, self->length + 1);

  if (code == FB_OK) code = put_empty_slot(self);
  if (code != FB_OK) return code;
  if (self->validity.data != NULL) fb_arrow_memory_set_bit(self->validity.data, self->length, false);
  self->length++;
  self->null_count++;
  return FB_OK;
}

void fb_arrow_builder_truncate(struct fb_arrow_builder* self, int64_t length) {
  const struct fb_arrow_type* arrow = &self->column->arrow;
  int64_t inside = length;

  if (arrow->kind == FB_ARROW_NULL) self->null_count = length;
  else if (self->validity.data != NULL) {
    for (int64_t i = length; i < self->length; i++) self->null_count -= !fb_arrow_column_bit(self->validity.data, i);
    self->validity.size = ((size_t)length + 7) / 8;
  }
  self->length = length;
  if (arrow->kind == FB_ARROW_BOOLEAN) self->values.size = ((size_t)length + 7) / 8;
  else if (slot_width(arrow) > 0) self->values.size = (size_t)length * slot_width(arrow);
  if (column_has_offsets(arrow->kind)) {
    inside = fb_arrow_builder_offset(self, length);
    if (self->offsets.size > 0)
      self->offsets.size = ((size_t)length + 1) * (fb_arrow_builder_is_wide(arrow->kind) ? 8 : 4);
    if (self->column->child_count == 0) self->values.size = (size_t)inside;
  }
  if (arrow->kind == FB_ARROW_FIXED_LIST) inside = length * (int64_t)arrow->width;
  for (uint32_t i = 0; i < self->column->child_count; i++) fb_arrow_builder_truncate(&self->children[i], inside);
}

/* ---- handing over ----------------------------------------------------------------------------------- */

/* What an array that was handed over owns beside its children. */
struct handed_over {
  const void* buffers[3];
  struct fb_arrow_memory owned[3];
  struct fb_arrow_memory_pool* pool; /* one reference */
  struct ArrowArray* children[];
};

static void release_array(struct ArrowArray* array) {
  struct handed_over* owned = array->private_data;

  for (int64_t i = 0; i < array->n_children; i++) {
    if (array->children[i]->release != NULL) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  for (int i = 0; i < 3; i++) fb_arrow_memory_pool_give(owned->pool, owned->owned[i].data, owned->owned[i].capacity);
  fb_arrow_memory_pool_release(owned->pool);
  free(owned);
  array->release = NULL;
}

/* An array with room for children, which are released already. */
static struct handed_over* open_array(struct ArrowArray* array, uint32_t child_count,
                                      struct fb_arrow_memory_pool* pool) {
  struct handed_over* owned = calloc(1, sizeof *owned + child_count * sizeof *owned->children);

  *array = (struct ArrowArray){0};
  if (owned == NULL) return NULL;
  owned->pool = fb_arrow_memory_pool_retain(pool);
  array->private_data = owned;
  array->buffers = owned->buffers;
  array->children = child_count > 0 ? owned->children : NULL;
  array->release = release_array;
  for (; array->n_children < child_count; array->n_children++) {
    owned->children[array->n_children] = calloc(1, sizeof(struct ArrowArray));
    if (owned->children[array->n_children] == NULL) return release_array(array), NULL;
  }
  return owned;
}

/* All that may fail: the offsets of columns without a row, and the structures of the arrays. */
static int prepare_array(struct fb_arrow_builder* self, struct ArrowArray* array) {
  bool is_map = self->column->arrow.kind == FB_ARROW_MAP;
  struct ArrowArray* parent = array;
  int code = column_has_offsets(self->column->arrow.kind) ? fb_arrow_builder_begin_offsets(self, 0) : FB_OK;

  if (code == FB_OK) code = fb_arrow_memory_reserve(&self->values, 0);
  if (code != FB_OK) return *array = (struct ArrowArray){0}, code;
  if (open_array(array, is_map ? 1 : self->column->child_count, self->pool) == NULL) return FB_ENOMEM;
  if (is_map) {
    parent = array->children[0];
    if (open_array(parent, 2, self->pool) == NULL) code = FB_ENOMEM;
  }
  for (uint32_t i = 0; code == FB_OK && i < self->column->child_count; i++)
    code = prepare_array(&self->children[i], parent->children[i]);
  if (code != FB_OK) array->release(array);
  return code;
}

static void add_array_buffer(struct ArrowArray* array, struct fb_arrow_memory* memory) {
  struct handed_over* owned = array->private_data;
  int64_t i = array->n_buffers++;

  owned->buffers[i] = memory->data;
  owned->owned[i] = *memory;
  *memory = (struct fb_arrow_memory){0};
}

/* The next batch will probably be as large as this one. */
static void hand_array_over(struct fb_arrow_builder* self, struct ArrowArray* array) {
  enum fb_arrow_kind kind = self->column->arrow.kind;
  struct ArrowArray* parent = array;
  size_t value_bytes = self->values.size, offset_bytes = self->offsets.size;

  array->length = self->length;
  array->null_count = self->null_count;
  if (kind == FB_ARROW_MAP) {
    parent = array->children[0];
    parent->length = self->children[0].length;
    parent->n_buffers = 1;
  }
  if (kind != FB_ARROW_NULL) add_array_buffer(array, &self->validity);
  if (column_has_offsets(kind)) {
    add_array_buffer(array, &self->offsets);
    fb_arrow_memory_pool_begin(self->pool, offset_bytes, &self->offsets);
  }
  if (kind != FB_ARROW_NULL && kind < FB_ARROW_LIST) {
    add_array_buffer(array, &self->values);
    fb_arrow_memory_pool_begin(self->pool, value_bytes, &self->values);
  }
  for (uint32_t i = 0; i < self->column->child_count; i++) hand_array_over(&self->children[i], parent->children[i]);
  self->length = self->null_count = 0;
}

int fb_arrow_builder_finish(struct fb_arrow_builder* self, struct ArrowArray* array) {
  int code = prepare_array(self, array);

  if (code == FB_OK) hand_array_over(self, array);
  return code;
}
