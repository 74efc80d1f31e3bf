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

#include "ground/byte_order.h"
#include "ground/data_view.h"

/* X(NAME, encoded size, 0 where it varies). The order is ours; it never leaves the process. */
#define FB_TYPE_KINDS(X)                                                   \
  X(BOOLEAN, 1)                                                            \
  X(BYTE, 1)                                                               \
  X(SHORT, 2)                                                              \
  X(CHAR, 2)                                                               \
  X(INT, 4)                                                                \
  X(LONG, 8)                                                               \
  X(FLOAT, 4)                                                              \
  X(DOUBLE, 8)                                                             \
  X(STRING, 0)                                                             \
  X(STRING_VALUE, 0)                                                       \
  X(VOID, 1)                                                               \
  X(NULL_VALUE, 0)                                                         \
  X(BIG_INT, 0)                                                            \
  X(BIG_DEC, 0)                                                            \
  X(INSTANT, 12)                                                           \
  X(LOCAL_DATE, 6)                                                         \
  X(LOCAL_TIME, 7)                                                         \
  X(LOCAL_DATE_TIME, 13)                                                   \
  X(DATE, 8)                                                               \
  X(SQL_DATE, 8)                                                           \
  X(SQL_TIME, 8)                                                           \
  X(SQL_TIMESTAMP, 12)                                                     \
  X(ENUM, 4)                                                               \
  X(PICKLED_BYTES, 0)                                                      \
  X(PRIMITIVE_ARRAY, 0) /* child 0: the element */                         \
  X(STRING_ARRAY, 0)                                                       \
  X(OBJECT_ARRAY, 0)   /* child 0; a null mask byte before each element */ \
  X(LIST, 0)           /* child 0 */                                       \
  X(SET, 0)            /* child 0 */                                       \
  X(MAP, 0)            /* child 0: key, 1: value */                        \
  X(TUPLE, 0)          /* one child a field */                             \
  X(ROW, 0)            /* one child a field */                             \
  X(EITHER, 0)         /* child 0: left, 1: right */                       \
  X(NULLABLE, 0)       /* child 0 */                                       \
  X(STREAM_ELEMENT, 0) /* child 0 */

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
  uint32_t min_size;     /* no value is shorter than this; set by fb_type_codec_measure, else 0 */
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
void fb_type_codec_measure(struct fb_type* self);

/* Whether `count` elements of `min_size` bytes can lie in `left` bytes: asked before any allocation. */
static inline bool fb_type_codec_fits(uint32_t count, uint32_t min_size, size_t left) {
  if (min_size == 0) return count <= FB_TYPE_MAX_EMPTY_ELEMENTS;
  return count <= left / min_size;
}

/* Measures and checks one encoded value at input->pos and moves past it. FB_ETRUNCATED (it ends early),
 * FB_ECORRUPT (a byte that no Flink serializer writes), FB_ETOO_LARGE; then input->pos is at the offence. */
int fb_type_codec_skip(const struct fb_type* self, struct fb_input* input);

/* Text on the wire: a varint for the count of UTF-16 units, then a varint for each unit (7 bits a byte, low
 * bits first). A surrogate pair is one code point for us, a lone surrogate is one of its own. */
struct fb_text {
  size_t size;        /* bytes of the units */
  uint32_t units;     /* UTF-16 */
  uint32_t length;    /* code points */
  uint32_t max_point; /* no code point is greater */
};

/* Reads a varint of at most 31 bits, as short as can be. FB_ETRUNCATED, FB_ECORRUPT. */
int fb_type_codec_read_varint(struct fb_input* input, uint32_t* value);

/* Measures `units` UTF-16 units at input->pos and moves past them. FB_ETRUNCATED, FB_ECORRUPT as for skip. */
int fb_type_codec_measure_text(struct fb_input* input, uint32_t units, struct fb_text* text);

/* Writes the code points of measured text as an array of `width` (1, 2 or 4) byte numbers in native order. */
void fb_type_codec_decode_text(const uint8_t* from, const struct fb_text* text, int width, void* points);

/* Fills in `size`, `units` and `length` of `length` < 2^31 code points of `width` bytes each. False if a high
 * surrogate stands right before a low one: the two would come back as one character. */
bool fb_type_codec_plan_text(const void* points, size_t length, int width, struct fb_text* text);

/* Writes the units of `length` code points; returns the byte after them. The caller has made room. */
uint8_t* fb_type_codec_encode_text(const void* points, size_t length, int width, uint8_t* to);

/* Between native numbers, at any address, and the elements of a PRIMITIVE_ARRAY. Storing gives every NaN the
 * one pattern of Java. */
void fb_type_codec_store_array(enum fb_type_kind kind, const void* from, size_t count, uint8_t* to);
void fb_type_codec_load_array(enum fb_type_kind kind, const uint8_t* from, size_t count, void* to);

/* Writes `value` as a varint of 1 to 5 bytes; returns the byte after it. */
static inline uint8_t* fb_type_codec_write_varint(uint32_t value, uint8_t* to) {
  for (; value >= 0x80; value >>= 7) *to++ = (uint8_t)(value | 0x80);
  *to++ = (uint8_t)value;
  return to;
}

/* Whether all `size` bytes are below 0x80. */
static inline bool fb_type_codec_is_ascii(const uint8_t* from, size_t size) {
  uint64_t seen = 0, word;

  if (size < 8) {
    for (size_t i = 0; i < size; i++) seen |= from[i];
    return (seen & 0x80) == 0;
  }
  for (size_t i = 0; i < size - 8; i += 8) {
    memcpy(&word, from + i, 8);
    seen |= word;
  }
  memcpy(&word, from + size - 8, 8); /* the last 8 bytes, some of them twice */
  return ((seen | word) & 0x8080808080808080u) == 0;
}

#endif
