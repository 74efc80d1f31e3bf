/* What a value's bytes look like, type by type: exactly what Flink's TypeSerializers write.
 *
 * A `struct fb_type` is a tree that describes one type. The walk over Python objects lives in the bindings
 * (type_codec.pyx and what it stands on); here is what needs no Python: the description, its sizes, and a check that
 * measures an encoded value without building anything (for batches, for keys, for untrusted bytes).
 *
 * Owner:   whoever allocated the tree; nodes borrow their children.
 * Threads: immutable once made.
 * Bytes:   big-endian; `tests/golden/types` has what Flink 2.2.1 writes. */
#ifndef FB_TYPE_H
#define FB_TYPE_H

#include "ground/data_view.h"

/* X(NAME, encoded size, 0 where it varies). The order is ours; it never leaves the process. */
#define FB_TYPE_KINDS(X)                                                               \
  X(BOOLEAN, 1)                                                                        \
  X(BYTE, 1)                                                                           \
  X(SHORT, 2)                                                                          \
  X(CHAR, 2)                                                                           \
  X(INT, 4)                                                                            \
  X(LONG, 8)                                                                           \
  X(FLOAT, 4)                                                                          \
  X(DOUBLE, 8)                                                                         \
  X(STRING, 0)                                                                         \
  X(STRING_VALUE, 0)                                                                   \
  X(VOID, 1)                                                                           \
  X(NULL_VALUE, 0)                                                                     \
  X(BIG_INT, 0)                                                                        \
  X(BIG_DEC, 0)                                                                        \
  X(INSTANT, 12)                                                                       \
  X(LOCAL_DATE, 6)                                                                     \
  X(LOCAL_TIME, 7)                                                                     \
  X(LOCAL_DATE_TIME, 13)                                                               \
  X(DATE, 8)                                                                           \
  X(SQL_DATE, 8)                                                                       \
  X(SQL_TIME, 8)                                                                       \
  X(SQL_TIMESTAMP, 12)                                                                 \
  X(ENUM, 4)                                                                           \
  X(PICKLED_BYTES, 0)                                                                  \
  X(OBJECT, 0)                                                                         \
  X(PRIMITIVE_ARRAY, 0) /* child 0: the element */                                     \
  X(STRING_ARRAY, 0)                                                                   \
  X(OBJECT_ARRAY, 0)       /* child 0; a null mask byte before each element */         \
  X(LIST, 0)               /* child 0 */                                               \
  X(SET, 0)                /* child 0 */                                               \
  X(MAP, 0)                /* child 0: key, 1: value */                                \
  X(TUPLE, 0)              /* one child a field */                                     \
  X(ROW, 0)                /* one child a field */                                     \
  X(EITHER, 0)             /* child 0: left, 1: right */                               \
  X(NULLABLE, 0)           /* child 0 */                                               \
  X(STREAM_ELEMENT, 0)     /* child 0 */                                               \
  X(STRING_DATA, 0)        /* from here on what the table runtime has: binary_row.h */ \
  X(DECIMAL_DATA, 0)       /* child 0: BIG_DEC */                                      \
  X(DATE_DATA, 4)          /* child 0: LOCAL_DATE */                                   \
  X(TIME_DATA, 4)          /* child 0: LOCAL_TIME */                                   \
  X(TIMESTAMP_DATA, 0)     /* child 0: LOCAL_DATE_TIME */                              \
  X(TIMESTAMP_LTZ_DATA, 0) /* child 0: INSTANT */                                      \
  X(ARRAY_DATA, 0)         /* child 0: the element */                                  \
  X(MAP_DATA, 0)           /* child 0: key, 1: value */                                \
  X(ROW_DATA, 0)           /* one child a field */

enum fb_type_kind {
#define X(name, size) FB_TYPE_##name,
  FB_TYPE_KINDS(X)
#undef X
      FB_TYPE_KIND_COUNT
};

struct fb_type {
  enum fb_type_kind kind;
  uint32_t child_count;
  const struct fb_type* const* children;
  union {
    uint32_t symbol_count; /* ENUM: how many names there are */
    uint32_t precision;    /* DECIMAL_DATA, TIMESTAMP_*: digits */
  };
  union {
    uint32_t padding; /* NULLABLE: bytes written for null beside the mask (nullable_padded), else 0 */
    uint32_t scale;   /* DECIMAL_DATA: digits behind the point */
  };
  uint32_t min_size; /* no value is shorter than this; set by fb_type_measure, else 0 */
};

/* The first byte of a STREAM_ELEMENT. */
enum fb_element_tag {
  FB_ELEMENT_RECORD_WITH_TIMESTAMP = 0,
  FB_ELEMENT_RECORD = 1,
  FB_ELEMENT_WATERMARK = 2,
  FB_ELEMENT_LATENCY_MARKER = 3,
  FB_ELEMENT_WATERMARK_STATUS = 4,
  FB_ELEMENT_RECORD_ATTRIBUTES = 5,
  FB_ELEMENT_INTERNAL_WATERMARK = 6,
};

/* A container of elements that take no bytes (NULL_VALUE) holds at most this many: nothing else bounds it. */
#define FB_TYPE_MAX_EMPTY_ELEMENTS 1024

/* Fills in `min_size` once all else is set; the children must have theirs. */
void fb_type_measure(struct fb_type* self);

/* Bytes of every value of a kind; 0 where they vary. */
uint32_t fb_type_fixed_size(enum fb_type_kind kind);

/* Whether `count` elements of `min_size` bytes can lie in `left` bytes: asked before any allocation. */
static inline bool fb_type_fits(uint32_t count, uint32_t min_size, size_t left) {
  if (min_size == 0) return count <= FB_TYPE_MAX_EMPTY_ELEMENTS;
  return count <= left / min_size;
}

/* Measures and checks one encoded value at input->pos and moves past it. FB_ETRUNCATED (it ends early),
 * FB_ECORRUPT (a byte that no Flink serializer writes), FB_ETOO_LARGE; then input->pos is at the offence. */
int fb_type_skip(const struct fb_type* self, struct fb_data_input* input);

/* Bytes of the slot that an element of ARRAY_DATA has. */
uint32_t fb_type_slot_width(const struct fb_type* self);

/* Whether decimals and timestamps stand in their slot alone. */
bool fb_type_is_compact(const struct fb_type* self);

/* The row of a ROW_DATA without its 4 length bytes, all of them. FB_ETRUNCATED, FB_ECORRUPT. */
int fb_type_check_row(const struct fb_type* self, const uint8_t* start, uint64_t size);
int fb_type_check_array(const struct fb_type* self, const uint8_t* start, uint64_t size);
int fb_type_check_map(const struct fb_type* self, const uint8_t* start, uint64_t size);

#endif
