#include "columns/arrow_row_data.h"

#include "value/number.h"
#include "value/text.h"

#define LENGTH_BYTES   4
#define HEAD_BYTES     8         /* the record's length, and the row's */
#define MAX_TEXT_BYTES (1 << 28) /* of a chunk in one column: less than this added to a size below 2^31 does not wrap */

/* ---- what kind of loop a column has ----------------------------------------------------------------- */

enum slot_loop {
  SLOT_8,
  SLOT_16,
  SLOT_32,
  SLOT_64,
  SLOT_BOOLEAN,
  SLOT_FLOAT,
  SLOT_DOUBLE,
  SLOT_BYTES, /* text and binary behind offsets of 4 bytes */
  SLOT_ANY,   /* value by value */
};

static enum slot_loop slot_loop_of_width(uint32_t width) {
  return width == 1 ? SLOT_8 : width == 2 ? SLOT_16 : width == 4 ? SLOT_32 : SLOT_64;
}

static enum slot_loop slot_loop_of(const struct fb_arrow_column* column) {
  const struct fb_arrow_type* arrow = &column->arrow;
  enum fb_type_kind kind = column->type->kind;

  switch (arrow->kind) {
    case FB_ARROW_BOOLEAN: return SLOT_BOOLEAN;
    case FB_ARROW_INTEGER:
      if (kind == FB_TYPE_DECIMAL_DATA || arrow->width != fb_type_slot_width(column->type)) return SLOT_ANY;
      return slot_loop_of_width(arrow->width);
    case FB_ARROW_DURATION: return SLOT_64;
    case FB_ARROW_MONTHS: return SLOT_32;
    case FB_ARROW_DATE: return arrow->width == 4 ? SLOT_32 : SLOT_ANY;
    case FB_ARROW_TIMESTAMP: return arrow->per_second == 1000 && fb_type_is_compact(column->type) ? SLOT_64 : SLOT_ANY;
    case FB_ARROW_FLOAT:
      if (kind == FB_TYPE_DOUBLE) return arrow->width == 8 ? SLOT_DOUBLE : SLOT_ANY;
      return arrow->width == 4 ? SLOT_FLOAT : SLOT_ANY;
    case FB_ARROW_TEXT:
    case FB_ARROW_BINARY: return SLOT_BYTES;
    default: return SLOT_ANY;
  }
}

/* ---- sizes ------------------------------------------------------------------------------------------ */

/* The rows that are measured, fewer after a fault. */
struct measuring {
  uint32_t* sizes;
  uint32_t count;
  int64_t first;
  struct fb_arrow_fault* fault;
};

static void stop_measuring_at(struct measuring* self, uint32_t i, const struct fb_arrow_column* column,
                              const char* reason) {
  self->fault->column = column;
  self->fault->reason = reason;
  self->fault->row = self->first + i;
  self->count = i;
}

static void refuse_null_rows(struct measuring* self, const struct fb_arrow_column* column, int64_t base,
                             const char* reason) {
  if (column->validity == NULL) return;
  for (uint32_t i = 0; i < self->count; i++)
    if (fb_arrow_column_is_marked_null(column, base + i)) stop_measuring_at(self, i, column, reason);
}

static inline int32_t load_slot_offset(const uint8_t* offsets, int64_t i) {
  int32_t offset;
  memcpy(&offset, offsets + 4 * i, 4);
  return offset;
}

/* Bytes that lie together: one look says whether all is ASCII. False: they must be looked at one by one. */
static bool measure_bytes(struct measuring* self, const struct fb_arrow_column* column, int64_t at) {
  int32_t start = load_slot_offset(column->offsets, at), end = load_slot_offset(column->offsets, at + self->count);
  bool is_text = column->arrow.kind == FB_ARROW_TEXT;

  if (end - start >= MAX_TEXT_BYTES) return false;
  if (is_text && !fb_text_is_ascii(column->values + start, (size_t)(end - start))) return false;
  for (uint32_t i = 0; i < self->count; i++) {
    int32_t next = load_slot_offset(column->offsets, at + i + 1);
    uint32_t part = (uint32_t)fb_binary_row_bytes_part((uint32_t)(next - start));
    bool is_there = column->validity == NULL || fb_arrow_column_bit(column->validity, at + i);
    start = next;
    if (!is_there) continue;
    self->sizes[i] += part;
    if (self->sizes[i] > INT32_MAX) stop_measuring_at(self, i, column, "a row of 2^31 bytes or more");
  }
  return true;
}

static void measure_values(struct measuring* self, const struct fb_arrow_column* column, int64_t base) {
  for (uint32_t i = 0; i < self->count; i++) {
    struct fb_arrow_fault found = {.column = column};
    int64_t size = fb_arrow_data_value_size(column, base + i, &found);
    if (size >= 0 && self->sizes[i] + size > INT32_MAX) {
      found = (struct fb_arrow_fault){.column = column, .reason = "a row of 2^31 bytes or more"};
      size = -1;
    }
    if (size < 0) stop_measuring_at(self, i, found.column, found.reason);
    else self->sizes[i] += (uint32_t)size;
  }
}

void fb_arrow_row_data_measure(const struct fb_arrow_column* row, int64_t first, uint32_t* count, uint32_t* sizes,
                               struct fb_arrow_fault* fault) {
  struct measuring self = {sizes, *count, first, fault};
  uint64_t head = HEAD_BYTES + fb_binary_row_fixed_size(row->child_count);
  int64_t base = row->offset + first;

  for (uint32_t i = 0; i < self.count; i++) sizes[i] = head <= INT32_MAX ? (uint32_t)head : INT32_MAX;
  refuse_null_rows(&self, row, first, "the row itself is null");
  for (uint32_t k = 0; self.count > 0 && k < row->child_count; k++) {
    const struct fb_arrow_column* column = &row->children[k];
    enum slot_loop loop = slot_loop_of(column);
    if (column->is_required && loop != SLOT_ANY) refuse_null_rows(&self, column, base, FB_ARROW_COLUMN_NULL);
    if (loop == SLOT_ANY || (loop == SLOT_BYTES && !measure_bytes(&self, column, column->offset + base)))
      measure_values(&self, column, base);
  }
  *count = self.count;
}

/* ---- fields ----------------------------------------------------------------------------------------- */

/* The rows that the columns pass over. */
struct slot_pass {
  uint8_t** heads;
  uint8_t** ends;
  uint32_t count;
};

static inline void mark_null_slot(uint8_t* row, uint32_t field, uint64_t at) {
  row[1 + field / 8] |= (uint8_t)(1u << (field % 8));
  fb_store_le64(row + at, 0);
}

/* A loop for columns without a null, and one for the others. `at` is the slot's place in a row. */
#define FB_DEFINE_SLOTS(name, type, convert)                                                                 \
  static void put_##name##_slots(struct slot_pass* pass, const struct fb_arrow_column* column, int64_t base, \
                                 uint32_t field, uint64_t at) {                                              \
    const uint8_t* from = column->values + (column->offset + base) * (int64_t)sizeof(type);                  \
    const uint8_t* validity = column->validity;                                                              \
    int64_t bit = column->offset + base;                                                                     \
    type value;                                                                                              \
    if (validity == NULL) {                                                                                  \
      for (uint32_t i = 0; i < pass->count; i++) {                                                           \
        memcpy(&value, from + i * sizeof value, sizeof value);                                               \
        fb_store_le64(pass->heads[i] + at, convert(value));                                                  \
      }                                                                                                      \
      return;                                                                                                \
    }                                                                                                        \
    for (uint32_t i = 0; i < pass->count; i++) {                                                             \
      memcpy(&value, from + i * sizeof value, sizeof value);                                                 \
      if (fb_arrow_column_bit(validity, bit + i)) fb_store_le64(pass->heads[i] + at, convert(value));        \
      else mark_null_slot(pass->heads[i], field, at);                                                        \
    }                                                                                                        \
  }
#define FB_SLOT_SAME(value) (value)
FB_DEFINE_SLOTS(8, uint8_t, FB_SLOT_SAME)
FB_DEFINE_SLOTS(16, uint16_t, FB_SLOT_SAME)
FB_DEFINE_SLOTS(32, uint32_t, FB_SLOT_SAME)
FB_DEFINE_SLOTS(64, uint64_t, FB_SLOT_SAME)
FB_DEFINE_SLOTS(float, uint32_t, fb_number_java_float)
FB_DEFINE_SLOTS(double, uint64_t, fb_number_java_double)

static void put_boolean_slots(struct slot_pass* pass, const struct fb_arrow_column* column, int64_t base,
                              uint32_t field, uint64_t at) {
  int64_t bit = column->offset + base;

  for (uint32_t i = 0; i < pass->count; i++) {
    if (column->validity == NULL || fb_arrow_column_bit(column->validity, bit + i))
      fb_store_le64(pass->heads[i] + at, fb_arrow_column_bit(column->values, bit + i));
    else mark_null_slot(pass->heads[i], field, at);
  }
}

/* Up to 7 bytes with a load of 8, of which those that are too many are cleared; there are 8 before `limit`. */
static inline uint64_t load_short_bytes(const uint8_t* from, uint32_t size, const uint8_t* limit) {
  if (limit - from < 8) return fb_binary_row_inline_slot(from, size);
  return (fb_load_le64(from) & ((1ull << (8 * size)) - 1)) | (uint64_t)(0x80 | size) << 56;
}

static void put_bytes_slots(struct slot_pass* pass, const struct fb_arrow_column* column, int64_t base, uint32_t field,
                            uint64_t at) {
  int64_t first = column->offset + base;
  const uint8_t *offsets = column->offsets + 4 * first, *values = column->values;
  int32_t start = load_slot_offset(offsets, 0);
  const uint8_t* limit = values + load_slot_offset(offsets, pass->count);

  for (uint32_t i = 0; i < pass->count; i++) {
    uint8_t *row = pass->heads[i], *end = pass->ends[i];
    int32_t next = load_slot_offset(offsets, (int64_t)i + 1);
    uint32_t size = (uint32_t)(next - start);
    const uint8_t* from = values + start;
    start = next;
    if (column->validity != NULL && !fb_arrow_column_bit(column->validity, first + i)) {
      mark_null_slot(row, field, at);
      continue;
    }
    if (size <= FB_BINARY_ROW_MAX_INLINE) {
      fb_store_le64(row + at, load_short_bytes(from, size, limit));
      continue;
    }
    fb_store_le64(row + at, fb_binary_row_slot((uint64_t)(end - row), size));
    pass->ends[i] = end + fb_binary_row_round(size);
    fb_store_le64(pass->ends[i] - 8, 0);
    fb_text_copy(end, from, size);
  }
}

static void put_any_slots(struct slot_pass* pass, const struct fb_arrow_column* column, int64_t base, uint32_t field,
                          uint64_t at) {
  for (uint32_t i = 0; i < pass->count; i++) {
    uint64_t slot = 0;
    if (fb_arrow_data_value_put(column, base + i, pass->heads[i], &pass->ends[i], &slot))
      fb_store_le64(pass->heads[i] + at, slot);
    else mark_null_slot(pass->heads[i], field, at);
  }
}

static void put_slots(struct slot_pass* pass, const struct fb_arrow_column* column, int64_t base, uint32_t field,
                      uint64_t at) {
  switch (slot_loop_of(column)) {
    case SLOT_8: put_8_slots(pass, column, base, field, at); break;
    case SLOT_16: put_16_slots(pass, column, base, field, at); break;
    case SLOT_32: put_32_slots(pass, column, base, field, at); break;
    case SLOT_64: put_64_slots(pass, column, base, field, at); break;
    case SLOT_BOOLEAN: put_boolean_slots(pass, column, base, field, at); break;
    case SLOT_FLOAT: put_float_slots(pass, column, base, field, at); break;
    case SLOT_DOUBLE: put_double_slots(pass, column, base, field, at); break;
    case SLOT_BYTES: put_bytes_slots(pass, column, base, field, at); break;
    case SLOT_ANY: put_any_slots(pass, column, base, field, at); break;
  }
}

void fb_arrow_row_data_put(const struct fb_arrow_column* row, int64_t first, uint32_t count, const uint32_t* sizes,
                           uint8_t** heads, uint8_t** ends) {
  struct slot_pass pass = {heads, ends, count};
  uint64_t nulls = fb_binary_row_null_size(row->child_count), fixed = fb_binary_row_fixed_size(row->child_count);

  for (uint32_t i = 0; i < count; i++) {
    uint8_t* row_head = ends[i] + LENGTH_BYTES;
    fb_store_be32(ends[i], sizes[i] - HEAD_BYTES);
    for (uint64_t k = 0; k < nulls; k += 8) fb_store_le64(row_head + k, 0);
    heads[i] = row_head;
    ends[i] = row_head + fixed;
  }
  for (uint32_t k = 0; k < row->child_count; k++)
    put_slots(&pass, &row->children[k], row->offset + first, k, nulls + 8 * (uint64_t)k);
}

/* ---- keys ------------------------------------------------------------------------------------------- */

int64_t fb_arrow_row_data_key_size(const struct fb_arrow_column* const* columns, uint32_t column_count, int64_t i,
                                   struct fb_arrow_fault* fault) {
  int64_t sum = (int64_t)fb_binary_row_fixed_size(column_count);

  for (uint32_t k = 0; k < column_count; k++) {
    int64_t size;
    if (slot_loop_of(columns[k]) < SLOT_BYTES && !columns[k]->is_required) continue; /* nothing behind its slot */
    size = fb_arrow_data_value_size(columns[k], i, fault);
    if (size < 0) return size;
    sum += size;
  }
  return sum;
}

int32_t fb_arrow_row_data_key_hash(const struct fb_arrow_column* const* columns, uint32_t column_count, int64_t i,
                                   uint8_t* to) {
  uint64_t nulls = fb_binary_row_null_size(column_count);
  uint8_t* end = to + fb_binary_row_fixed_size(column_count);

  memset(to, 0, nulls);
  for (uint32_t k = 0; k < column_count; k++) {
    const struct fb_arrow_column* column = columns[k];
    uint64_t slot = 0;
    if (column->validity == NULL && slot_loop_of(column) == SLOT_64)
      memcpy(&slot, column->values + 8 * (column->offset + i), 8);
    else if (!fb_arrow_data_value_put(column, i, to, &end, &slot)) to[1 + k / 8] |= (uint8_t)(1u << (k % 8));
    fb_store_le64(to + nulls + 8 * (uint64_t)k, slot);
  }
  return fb_binary_row_hash(to, (size_t)(end - to));
}
