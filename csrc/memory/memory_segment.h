/* A block of memory with a fixed size: the unit that pools lend and sockets carry.
 *
 * Owner:   open() allocates and close() frees; a segment made with wrap() borrows. All-zero means closed.
 * Threads: none of its own; at any time one thread writes or many read.
 * Bounds:  an access is inside iff offset <= size - width; otherwise FB_EFREED on a closed segment, else
 *          FB_EBOUNDS, and nothing is read or written. (Flink encodes "freed" in the limit; so do we: a
 *          closed segment has size 0, and only the failing path looks at `data`.)
 * Bytes:   numbers in the host's order unless the name ends in _le or _be.
 * Flink:   MemorySegment. */
#ifndef FB_MEMORY_SEGMENT_H
#define FB_MEMORY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/byte_order.h"
#include "ground/errors.h"

struct fb_memory_segment {
  uint8_t* data; /* NULL: closed (freed) */
  size_t size;   /* bytes */
  bool is_owner; /* close() frees `data` */
};

/* Allocates `size` zeroed bytes; a segment of size 0 is open too. FB_ENOMEM leaves the segment closed. */
int fb_memory_segment_open(struct fb_memory_segment* self, size_t size);
/* Frees the memory, or lets go of borrowed memory. Closing a closed segment does nothing. */
void fb_memory_segment_close(struct fb_memory_segment* self);
/* Borrows [data, data + size); `data` is not NULL. */
void fb_memory_segment_wrap(struct fb_memory_segment* self, uint8_t* data, size_t size);

static inline bool fb_memory_segment_is_freed(const struct fb_memory_segment* self) { return self->data == NULL; }

/* Whether `width` bytes lie at `offset`: FB_OK, FB_EFREED or FB_EBOUNDS. */
static inline int fb_memory_segment_check(const struct fb_memory_segment* self, size_t offset, size_t width) {
  if (width <= self->size && offset <= self->size - width && self->data != NULL) return FB_OK;
  return self->data == NULL ? FB_EFREED : FB_EBOUNDS;
}

static inline int fb_memory_segment_get_u8(const struct fb_memory_segment* self, size_t offset, uint8_t* value) {
  int code = fb_memory_segment_check(self, offset, 1);
  if (code == FB_OK) *value = self->data[offset];
  return code;
}
static inline int fb_memory_segment_put_u8(struct fb_memory_segment* self, size_t offset, uint8_t value) {
  int code = fb_memory_segment_check(self, offset, 1);
  if (code == FB_OK) self->data[offset] = value;
  return code;
}

/* get_u16(self, offset, &value) and put_u16(self, offset, value); likewise u16_le, u16_be, u32.., u64...
 * Signed numbers and floats are the same bits. */
#define FB_DEFINE_SEGMENT_ACCESS(name, bits, load, store)                                             \
  static inline int fb_memory_segment_get_##name(const struct fb_memory_segment* self, size_t offset, \
                                                 uint##bits##_t* value) {                             \
    int code = fb_memory_segment_check(self, offset, bits / 8);                                       \
    if (code == FB_OK) *value = load(self->data + offset);                                            \
    return code;                                                                                      \
  }                                                                                                   \
  static inline int fb_memory_segment_put_##name(struct fb_memory_segment* self, size_t offset,       \
                                                 uint##bits##_t value) {                              \
    int code = fb_memory_segment_check(self, offset, bits / 8);                                       \
    if (code == FB_OK) store(self->data + offset, value);                                             \
    return code;                                                                                      \
  }

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FB_NATIVE(access) fb_##access##be
#else
#define FB_NATIVE(access) fb_##access##le
#endif
#define FB_NATIVE_BITS(access, bits) FB_NATIVE_JOIN(FB_NATIVE(access), bits)
#define FB_NATIVE_JOIN(name, bits)   FB_NATIVE_JOIN_(name, bits)
#define FB_NATIVE_JOIN_(name, bits)  name##bits

FB_DEFINE_SEGMENT_ACCESS(u16, 16, FB_NATIVE_BITS(load_, 16), FB_NATIVE_BITS(store_, 16))
FB_DEFINE_SEGMENT_ACCESS(u32, 32, FB_NATIVE_BITS(load_, 32), FB_NATIVE_BITS(store_, 32))
FB_DEFINE_SEGMENT_ACCESS(u64, 64, FB_NATIVE_BITS(load_, 64), FB_NATIVE_BITS(store_, 64))
FB_DEFINE_SEGMENT_ACCESS(u16_le, 16, fb_load_le16, fb_store_le16)
FB_DEFINE_SEGMENT_ACCESS(u32_le, 32, fb_load_le32, fb_store_le32)
FB_DEFINE_SEGMENT_ACCESS(u64_le, 64, fb_load_le64, fb_store_le64)
FB_DEFINE_SEGMENT_ACCESS(u16_be, 16, fb_load_be16, fb_store_be16)
FB_DEFINE_SEGMENT_ACCESS(u32_be, 32, fb_load_be32, fb_store_be32)
FB_DEFINE_SEGMENT_ACCESS(u64_be, 64, fb_load_be64, fb_store_be64)

/* All `size` bytes or none. The ranges may overlap when both segments are the same. */
int fb_memory_segment_copy_to(const struct fb_memory_segment* self, size_t offset, struct fb_memory_segment* target,
                              size_t target_offset, size_t size);
/* Swaps two ranges; no scratch memory is needed (Flink's takes one). FB_EARGUMENT if they overlap. */
int fb_memory_segment_swap_bytes(struct fb_memory_segment* self, size_t offset, struct fb_memory_segment* other,
                                 size_t other_offset, size_t size);

/* A part of a segment, for comparisons. */
struct fb_segment_range {
  const struct fb_memory_segment* segment;
  size_t offset;
  size_t size;
};
/* Unsigned lexicographic order, then the shorter first. *order has Flink's values, not only its signs:
 * -1 or 1 where a block of eight differs, the difference of the bytes in the tail, that of the sizes last. */
int fb_memory_segment_compare(const struct fb_segment_range* left, const struct fb_segment_range* right,
                              int32_t* order);
/* Whether two ranges of the same size hold the same bytes. */
int fb_memory_segment_equal_to(const struct fb_segment_range* left, const struct fb_segment_range* right,
                               bool* is_equal);

#endif
