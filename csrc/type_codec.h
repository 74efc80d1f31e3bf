/* What a value's bytes look like, type by type: exactly what Flink's TypeSerializers write.
 *
 * A `struct fb_type` is a tree that describes one type. The walk over Python objects lives in the binding
 * (type_codec.pyx); here is what needs no Python: the description, its sizes, and a check that measures an
 * encoded value without building anything (for batches, for keys, for untrusted bytes).
 *
 * Owner:   whoever allocated the tree; nodes borrow their children.
 * Threads: immutable once made.
 * Bytes:   big-endian; `tests/golden/types` has what Flink 2.2.1 writes. */
#ifndef FB_TYPE_CODEC_H
#define FB_TYPE_CODEC_H

#include "byte_order.h"
#include "data_view.h"

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
  X(LOCAL_TIME, 0)                                                                     \
  X(LOCAL_DATE_TIME, 0)                                                                \
  X(DATE, 8)                                                                           \
  X(SQL_DATE, 8)                                                                       \
  X(SQL_TIME, 8)                                                                       \
  X(SQL_TIMESTAMP, 12)                                                                 \
  X(ENUM, 4)                                                                           \
  X(PICKLED_BYTES, 0)                                                                  \
  X(PRIMITIVE_ARRAY, 0) /* child 0: the element */                                     \
  X(STRING_ARRAY, 0)                                                                   \
  X(OBJECT_ARRAY, 0)    /* child 0; a null mask byte before each element */            \
  X(LIST, 0)            /* child 0 */                                                  \
  X(SET, 0)             /* child 0 */                                                  \
  X(MAP, 0)             /* child 0: key, 1: value */                                   \
  X(TUPLE, 0)           /* one child a field */                                        \
  X(ROW, 0)             /* one child a field */                                        \
  X(EITHER, 0)          /* child 0: left, 1: right */                                  \
  X(NULLABLE, 0)        /* child 0 */                                                  \
  X(STREAM_ELEMENT, 0)  /* child 0 */

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
  uint32_t symbol_count; /* ENUM: how many names there are */
  uint32_t padding;      /* NULLABLE: bytes written for null beside the mask (nullable_padded), else 0 */
};

/* Measures and checks one encoded value at input->pos and moves past it. FB_ETRUNCATED (it ends early),
 * FB_ECORRUPT (a byte that no Flink serializer writes), FB_ETOO_LARGE; then input->pos is at the offence. */
int fb_type_codec_skip(const struct fb_type* self, struct fb_input* input);

#endif
