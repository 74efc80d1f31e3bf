#include "columns/arrow_column.h"

#include <stddef.h>

/* The slots of an array that its parent uses. */
struct range {
  int64_t first;
  int64_t count;
};

static int refuse_array(const struct fb_arrow_column* self, struct fb_arrow_fault* fault, const char* reason) {
  *fault = (struct fb_arrow_fault){.column = self, .reason = reason, .row = -1};
  return FB_ECORRUPT;
}

/* Offsets may not fall, nor start below zero. All of them are looked at, without a branch. */
#define FB_DEFINE_CHECK(bits)                                                                            \
  static bool offsets_rise_##bits(const uint8_t* offsets, int64_t first, int64_t count, int64_t* last) { \
    int##bits##_t previous, next;                                                                        \
    int falls = 0;                                                                                       \
    memcpy(&previous, offsets + first * (bits / 8), sizeof previous);                                    \
    falls = previous < 0;                                                                                \
    for (int64_t i = first + 1; i <= first + count; i++) {                                               \
      memcpy(&next, offsets + i * (bits / 8), sizeof next);                                              \
      falls |= next < previous;                                                                          \
      previous = next;                                                                                   \
    }                                                                                                    \
    *last = previous;                                                                                    \
    return !falls;                                                                                       \
  }
FB_DEFINE_CHECK(32)
FB_DEFINE_CHECK(64)

static bool has_wide_offsets(enum fb_arrow_kind kind) {
  return kind == FB_ARROW_LARGE_TEXT || kind == FB_ARROW_LARGE_BINARY || kind == FB_ARROW_LARGE_LIST ||
         kind == FB_ARROW_LARGE_LIST_VIEW;
}

static int check_offsets(struct fb_arrow_column* self, struct range range, int64_t limit,
                         struct fb_arrow_fault* fault) {
  int64_t last = 0, first = self->offset + range.first;
  bool rises;

  if (range.count == 0) return FB_OK;
  if (self->offsets == NULL) return refuse_array(self, fault, "its offsets are missing");
  rises = has_wide_offsets(self->arrow.kind) ? offsets_rise_64(self->offsets, first, range.count, &last)
                                             : offsets_rise_32(self->offsets, first, range.count, &last);
  if (!rises) return refuse_array(self, fault, "its offsets fall, or are negative");
  if (last > limit) return refuse_array(self, fault, "its offsets go beyond its values");
  return FB_OK;
}

static int check_views(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                       struct fb_arrow_fault* fault) {
  int64_t buffer_count = array->n_buffers - 3;
  const int64_t* sizes = array->buffers[array->n_buffers - 1];

  if (self->values == NULL && range.count > 0) return refuse_array(self, fault, "its views are missing");
  if (sizes == NULL && buffer_count > 0) return refuse_array(self, fault, "the sizes of its buffers are missing");
  for (int64_t i = range.first; i < range.first + range.count; i++) {
    int32_t parts[4];
    int64_t size;
    if (fb_arrow_column_is_marked_null(self, i)) continue;
    memcpy(parts, self->values + 16 * (array->offset + i), 16);
    if (parts[0] < 0) return refuse_array(self, fault, "a view has a negative length");
    if (parts[0] <= 12) continue;
    if (parts[2] < 0 || parts[2] >= buffer_count || self->data[parts[2]] == NULL || parts[3] < 0)
      return refuse_array(self, fault, "a view points to no buffer of its array");
    memcpy(&size, sizes + parts[2], 8);
    if (size < parts[0] || parts[3] > size - parts[0])
      return refuse_array(self, fault, "a view goes beyond its buffer");
  }
  return FB_OK;
}

static int check_list_views(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                            struct fb_arrow_fault* fault) {
  if ((self->offsets == NULL || self->sizes == NULL) && range.count > 0)
    return refuse_array(self, fault, "its offsets or sizes are missing");
  for (int64_t i = range.first; i < range.first + range.count; i++) {
    struct fb_arrow_span span;
    int64_t length = array->children[0]->length;
    if (fb_arrow_column_is_marked_null(self, i)) continue;
    span = fb_arrow_column_elements(self, i);
    if (span.start < 0 || span.count < 0 || span.count > length || span.start > length - span.count)
      return refuse_array(self, fault, "its offsets and sizes go beyond its elements");
  }
  return FB_OK;
}

/* Run ends rise from above zero, and reach the last row. */
static int check_run_ends(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                          struct fb_arrow_fault* fault) {
  const struct ArrowArray* ends = array->children[0];
  int64_t previous = 0;

  if (ends->length < 0 || ends->offset < 0 || ends->null_count > 0 || ends->n_buffers != 2 ||
      ends->offset > INT64_MAX / 16 - ends->length || (ends->length > 0 && ends->buffers[1] == NULL))
    return refuse_array(self, fault, "its run ends are no array of integers");
  self->sizes = (const uint8_t*)ends->buffers[1] + (ends->length > 0 ? ends->offset * (int64_t)self->arrow.width : 0);
  self->run_count = ends->length;
  for (int64_t i = 0; i < ends->length; i++) {
    int64_t end = fb_arrow_column_integer(self->sizes, self->arrow.width, true, i);
    if (end <= previous) return refuse_array(self, fault, "its run ends do not rise");
    previous = end;
  }
  if (range.count > 0 && previous < self->offset + range.first + range.count)
    return refuse_array(self, fault, "its run ends stop before its last row");
  return FB_OK;
}

/* How many buffers the array of a kind has; views have that many or more. */
static int64_t buffers_of(enum fb_arrow_kind kind) {
  switch (kind) {
    case FB_ARROW_NULL:
    case FB_ARROW_RUN_ENDS: return 0;
    case FB_ARROW_STRUCT:
    case FB_ARROW_FIXED_LIST: return 1;
    case FB_ARROW_TEXT:
    case FB_ARROW_LARGE_TEXT:
    case FB_ARROW_BINARY:
    case FB_ARROW_LARGE_BINARY:
    case FB_ARROW_TEXT_VIEW:
    case FB_ARROW_BINARY_VIEW:
    case FB_ARROW_LIST_VIEW:
    case FB_ARROW_LARGE_LIST_VIEW: return 3;
    default: return 2;
  }
}

static bool is_view(enum fb_arrow_kind kind) { return kind == FB_ARROW_TEXT_VIEW || kind == FB_ARROW_BINARY_VIEW; }

static int check_shape(struct fb_arrow_column* self, const struct ArrowArray* array, struct fb_arrow_fault* fault) {
  enum fb_arrow_kind kind = self->arrow.kind;
  int64_t count = buffers_of(kind);

  if (array->release == NULL) return refuse_array(self, fault, "its array has been released");
  /* So far below the limit that no size in bytes can overflow. */
  if (array->length < 0 || array->offset < 0 || array->length > INT64_MAX / 64 ||
      array->offset > INT64_MAX / 64 - array->length)
    return refuse_array(self, fault, "its length or offset is out of range");
  if (is_view(kind) ? array->n_buffers < count : array->n_buffers != count)
    return refuse_array(self, fault, "its array has another number of buffers than its type");
  if (array->n_buffers > 0 && array->buffers == NULL) return refuse_array(self, fault, "its buffers are missing");
  if (array->n_children != self->array_child_count) return refuse_array(self, fault, "its array has other children");
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children == NULL || array->children[i] == NULL) return refuse_array(self, fault, "a child is missing");
  if ((array->dictionary != NULL) != (kind == FB_ARROW_DICTIONARY))
    return refuse_array(self, fault, kind == FB_ARROW_DICTIONARY ? "its dictionary is missing" : "it has a dictionary");
  return FB_OK;
}

static void take_buffers(struct fb_arrow_column* self, const struct ArrowArray* array) {
  enum fb_arrow_kind kind = self->arrow.kind;
  int64_t count = array->n_buffers;

  self->offset = array->offset;
  self->length = array->length;
  self->validity = count > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
  self->values = self->offsets = self->sizes = NULL;
  self->data = NULL;
  if (is_view(kind)) {
    self->values = array->buffers[1];
    self->data = array->buffers + 2;
  } else if (kind == FB_ARROW_LIST_VIEW || kind == FB_ARROW_LARGE_LIST_VIEW) {
    self->offsets = array->buffers[1];
    self->sizes = array->buffers[2];
  } else if (count == 3 || kind == FB_ARROW_LIST || kind == FB_ARROW_LARGE_LIST || kind == FB_ARROW_MAP) {
    self->offsets = array->buffers[1];
    self->values = count == 3 ? array->buffers[2] : NULL;
  } else if (count == 2) {
    self->values = array->buffers[1];
  }
}

static int bind_array(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                      struct fb_arrow_fault* fault);

/* The bytes of text and binary may be missing where there are none. */
static int check_byte_array(struct fb_arrow_column* self, struct range range, struct fb_arrow_fault* fault) {
  static const uint8_t nothing[1];
  int code = check_offsets(self, range, self->values != NULL ? INT64_MAX : 0, fault);

  if (code == FB_OK && self->values == NULL) self->values = nothing;
  return code;
}

/* The elements that the lists of a range use; those of list views may lie anywhere. */
static struct range elements_of(const struct fb_arrow_column* self, const struct ArrowArray* array,
                                struct range range) {
  struct fb_arrow_span first, last;

  if (self->arrow.kind == FB_ARROW_LIST_VIEW || self->arrow.kind == FB_ARROW_LARGE_LIST_VIEW)
    return (struct range){0, array->children[0]->length};
  if (range.count == 0) return (struct range){0, 0};
  first = fb_arrow_column_elements(self, range.first);
  last = fb_arrow_column_elements(self, range.first + range.count - 1);
  return (struct range){first.start, last.start + last.count - first.start};
}

/* Keys and values are the children of its one child, a struct. */
static int bind_map(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                    struct fb_arrow_fault* fault) {
  const struct ArrowArray* entries = array->children[0];
  struct range elements = elements_of(self, array, range);

  if (entries->n_children != 2 || entries->children == NULL || entries->offset < 0 ||
      entries->offset > INT64_MAX / 64 - entries->length)
    return refuse_array(self, fault, "its entries are no keys and values");
  elements.first += entries->offset;
  for (uint32_t i = 0; i < 2; i++) {
    int code;
    if (entries->children[i] == NULL) return refuse_array(self, fault, "its entries are no keys and values");
    code = bind_array(&self->children[i], entries->children[i], elements, fault);
    if (code != FB_OK) return code;
    self->children[i].offset += entries->offset;
  }
  return FB_OK;
}

static int bind_struct(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                       struct fb_arrow_fault* fault) {
  int code = FB_OK;

  range.first += array->offset;
  for (uint32_t i = 0; code == FB_OK && i < self->child_count; i++)
    code = bind_array(&self->children[i], array->children[self->children[i].place], range, fault);
  return code;
}

static int bind_nested(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                       struct fb_arrow_fault* fault) {
  enum fb_arrow_kind kind = self->arrow.kind;
  int code;

  if (kind == FB_ARROW_STRUCT) return bind_struct(self, array, range, fault);
  if (kind == FB_ARROW_DICTIONARY) {
    if (self->values == NULL && range.count > 0) return refuse_array(self, fault, "its indices are missing");
    range = (struct range){0, array->dictionary->length > 0 ? array->dictionary->length : 0};
    return bind_array(self->children, array->dictionary, range, fault);
  }
  if (kind == FB_ARROW_RUN_ENDS) {
    code = check_run_ends(self, array, range, fault);
    return code != FB_OK ? code
                         : bind_array(self->children, array->children[1], (struct range){0, self->run_count}, fault);
  }
  if (array->children[0]->length < 0) return refuse_array(self, fault, "its elements have a negative length");
  if (kind == FB_ARROW_LIST_VIEW || kind == FB_ARROW_LARGE_LIST_VIEW)
    code = check_list_views(self, array, range, fault);
  else if (kind == FB_ARROW_FIXED_LIST)
    code = self->arrow.width > 0 &&
                   array->offset + range.first + range.count > array->children[0]->length / (int64_t)self->arrow.width
               ? refuse_array(self, fault, "it has too few elements for its lists")
               : FB_OK;
  else code = check_offsets(self, range, array->children[0]->length, fault);
  if (code != FB_OK) return code;
  if (kind == FB_ARROW_MAP) return bind_map(self, array, range, fault);
  return bind_array(self->children, array->children[0], elements_of(self, array, range), fault);
}

static int bind_array(struct fb_arrow_column* self, const struct ArrowArray* array, struct range range,
                      struct fb_arrow_fault* fault) {
  enum fb_arrow_kind kind = self->arrow.kind;
  int code = check_shape(self, array, fault);

  if (code != FB_OK) return code;
  if (range.count > array->length || range.first > array->length - range.count)
    return refuse_array(self, fault, "its array is shorter than its parent needs");
  take_buffers(self, array);
  if (self->validity == NULL && array->null_count > 0 && kind != FB_ARROW_NULL)
    return refuse_array(self, fault, "it says that it has nulls, but not which");
  if (kind == FB_ARROW_NULL) return FB_OK;
  if (is_view(kind)) return check_views(self, array, range, fault);
  if (kind >= FB_ARROW_LIST) return bind_nested(self, array, range, fault);
  if (self->offsets != NULL || buffers_of(kind) == 3) return check_byte_array(self, range, fault);
  if (self->values == NULL && range.count > 0 && !(kind == FB_ARROW_FIXED_BINARY && self->arrow.width == 0))
    return refuse_array(self, fault, "its values are missing");
  return FB_OK;
}

int fb_arrow_column_bind(struct fb_arrow_column* self, const struct ArrowArray* array, struct fb_arrow_fault* fault) {
  return bind_array(self, array, (struct range){0, array->length > 0 ? array->length : 0}, fault);
}

struct fb_arrow_span fb_arrow_column_elements(const struct fb_arrow_column* self, int64_t i) {
  int64_t at = self->offset + i, width = self->arrow.width;
  int32_t narrow[2];
  int64_t wide[2];

  switch (self->arrow.kind) {
    case FB_ARROW_FIXED_LIST: return (struct fb_arrow_span){at * width, width};
    case FB_ARROW_LIST_VIEW:
      memcpy(narrow, self->offsets + 4 * at, 4);
      memcpy(narrow + 1, self->sizes + 4 * at, 4);
      return (struct fb_arrow_span){narrow[0], narrow[1]};
    case FB_ARROW_LARGE_LIST_VIEW:
      memcpy(wide, self->offsets + 8 * at, 8);
      memcpy(wide + 1, self->sizes + 8 * at, 8);
      return (struct fb_arrow_span){wide[0], wide[1]};
    case FB_ARROW_LARGE_LIST:
      memcpy(wide, self->offsets + 8 * at, 16);
      return (struct fb_arrow_span){wide[0], wide[1] - wide[0]};
    default: memcpy(narrow, self->offsets + 4 * at, 8); return (struct fb_arrow_span){narrow[0], narrow[1] - narrow[0]};
  }
}

/* Which run slot `i` is in: the first that ends behind it. */
static int64_t run_of(const struct fb_arrow_column* self, int64_t i) {
  int64_t low = 0, high = self->run_count - 1, at = self->offset + i;

  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (fb_arrow_column_integer(self->sizes, self->arrow.width, true, middle) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

bool fb_arrow_column_resolve(const struct fb_arrow_column** column, int64_t* i) {
  const struct fb_arrow_column* at = *column;

  for (;;) {
    if (at->arrow.kind == FB_ARROW_NULL || fb_arrow_column_is_marked_null(at, *i)) return false;
    if (at->arrow.kind == FB_ARROW_DICTIONARY) {
      int64_t index = fb_arrow_column_integer(at->values, at->arrow.width, at->arrow.is_signed, at->offset + *i);
      if (index < 0 || index >= at->children[0].length) break;
      *i = index;
    } else if (at->arrow.kind == FB_ARROW_RUN_ENDS) *i = run_of(at, *i);
    else break;
    *column = at = &at->children[0];
  }
  return true;
}
