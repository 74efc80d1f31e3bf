/* A column of a schema over a type of ours, and the array of a batch that stands on it.
 *
 * The tree is made once for a schema; bind() puts it on the arrays of a batch after it has looked at every offset,
 * index and length in them, so that the loops over rows need not. A library may hand over anything: what the interface
 * does not let us see, the sizes of the buffers, is all that is taken on trust.
 *
 * Owner:   whoever allocated the tree; it borrows types, paths and, from bind() on, the array.
 * Threads: one at a time. */
#ifndef FB_ARROW_COLUMN_H
#define FB_ARROW_COLUMN_H

#include <string.h>

#include "columns/arrow_c_data.h"
#include "columns/arrow_type.h"

/* Why a null is refused in a column that is_required. */
#define FB_ARROW_COLUMN_NULL "null, but the column is declared NOT NULL"

struct fb_arrow_column {
  struct fb_arrow_type arrow;
  const struct fb_type* type;     /* without a NULLABLE around it */
  const struct fb_type* nullable; /* the NULLABLE; NULL: there is none */
  const char* path;               /* for messages: a.b */
  bool is_required;               /* declared NOT NULL */
  uint32_t child_count;
  struct fb_arrow_column* children; /* of a row: in the order of the type's fields */
  uint32_t place;                   /* which child of its parent's array it is */
  uint32_t array_child_count;       /* how many children its own array has */
  bool is_skipped; /* when records are read: of Arrow's null type, and values of any type are passed over */
  /* the array */
  int64_t offset;
  int64_t length;
  const uint8_t* validity; /* NULL: nothing is null */
  const uint8_t* values;   /* numbers, views, indices; of text and binary: the bytes */
  const uint8_t* offsets;  /* of text, binary, lists and maps */
  const uint8_t* sizes;    /* of list views; of run ends: themselves */
  const void* const* data; /* of views */
  int64_t run_count;
};

/* What is wrong with an array or a value. */
struct fb_arrow_fault {
  const struct fb_arrow_column* column; /* NULL: nothing is wrong */
  const char* reason;
  int64_t row; /* of the value; -1: the array itself */
};

/* All rows of an array. FB_ECORRUPT: it is not one of this schema; `fault` says why. */
int fb_arrow_column_bind(struct fb_arrow_column* self, const struct ArrowArray* array, struct fb_arrow_fault* fault);

static inline bool fb_arrow_column_bit(const uint8_t* bits, int64_t i) { return bits[i / 8] >> (i % 8) & 1; }

/* Whether slot `i`, counted without the array's offset, has a validity bit that says null. */
static inline bool fb_arrow_column_is_marked_null(const struct fb_arrow_column* self, int64_t i) {
  return self->validity != NULL && !fb_arrow_column_bit(self->validity, self->offset + i);
}

/* The column and the slot that value `i` really lies in, behind dictionaries and run ends; false: it is null. An index of
 * a dictionary that points to no value of it, which is no fault below a null, ends at the dictionary. */
bool fb_arrow_column_resolve(const struct fb_arrow_column** column, int64_t* i);

/* Element `i` of an array of integers of 1, 2, 4 or 8 bytes. */
static inline int64_t fb_arrow_column_integer(const uint8_t* values, uint32_t width, bool is_signed, int64_t i) {
  int64_t value;

  switch (width) {
    case 1: return is_signed ? (int8_t)values[i] : values[i];
    case 2: {
      uint16_t narrow;
      memcpy(&narrow, values + 2 * i, 2);
      return is_signed ? (int16_t)narrow : narrow;
    }
    case 4: {
      uint32_t narrow;
      memcpy(&narrow, values + 4 * i, 4);
      return is_signed ? (int64_t)(int32_t)narrow : (int64_t)narrow;
    }
    default: memcpy(&value, values + 8 * i, 8); return value;
  }
}

struct fb_arrow_span {
  int64_t start; /* elements of a list or map: from this slot of the child on */
  int64_t count;
};

/* The elements of value `i` of a list or map. */
struct fb_arrow_span fb_arrow_column_elements(const struct fb_arrow_column* self, int64_t i);

/* The bytes of value `i` of text or binary. */
static inline const uint8_t* fb_arrow_column_bytes(const struct fb_arrow_column* self, int64_t i, size_t* size) {
  int64_t at = self->offset + i;

  switch (self->arrow.kind) {
    case FB_ARROW_TEXT:
    case FB_ARROW_BINARY: {
      int32_t bounds[2];
      memcpy(bounds, self->offsets + 4 * at, 8);
      *size = (size_t)(bounds[1] - bounds[0]);
      return self->values + bounds[0];
    }
    case FB_ARROW_LARGE_TEXT:
    case FB_ARROW_LARGE_BINARY: {
      int64_t bounds[2];
      memcpy(bounds, self->offsets + 8 * at, 16);
      *size = (size_t)(bounds[1] - bounds[0]);
      return self->values + bounds[0];
    }
    case FB_ARROW_FIXED_BINARY: *size = self->arrow.width; return self->values + at * (int64_t)self->arrow.width;
    default: {
      const uint8_t* view = self->values + 16 * at;
      int32_t parts[4]; /* length, prefix, buffer, offset; or the length and up to 12 bytes */
      memcpy(parts, view, 16);
      *size = (size_t)parts[0];
      return parts[0] <= 12 ? view + 4 : (const uint8_t*)self->data[parts[2]] + parts[3];
    }
  }
}

#endif
