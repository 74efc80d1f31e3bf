#include "columns/arrow_data_records.h"

#include "columns/arrow_data_cell.h"
#include "value/text.h"

#define LENGTH_BYTES 4

/* The rows that the columns pass over. */
struct row_pass {
  const uint8_t* const* heads; /* of the records: the row's length */
  const uint8_t* const* ends;
  uint32_t count;
  uint64_t fixed_size;                         /* of a row: before its parts */
  bool has_nulls;                              /* some row has a null bit */
  uint32_t budgets[FB_ARROW_DATA_RECORDS];     /* of each row: see fb_binary_section */
  const uint8_t* parts[FB_ARROW_DATA_RECORDS]; /* of a column of text */
  uint32_t sizes[FB_ARROW_DATA_RECORDS];
  struct fb_arrow_reading* reading;
};

/* Row `i` is not right: what follows is read for the rows before it only. */
static void stop_rows_at(struct row_pass* pass, uint32_t i, const struct fb_arrow_builder* builder, int code,
                         const char* reason, size_t byte) {
  *pass->reading = (struct fb_arrow_reading){code, reason, builder->column, i, byte};
  pass->count = i;
}

static inline const uint8_t* row_of(const struct row_pass* pass, uint32_t i) { return pass->heads[i] + LENGTH_BYTES; }

/* Looks at the heads of all rows. */
static void open_rows(struct row_pass* pass, const struct fb_arrow_builder* builder) {
  uint32_t field_count = builder->column->child_count;
  uint64_t nulls = fb_binary_row_null_size(field_count), seen = 0;

  for (uint32_t i = 0; i < pass->count; i++) {
    size_t size = (size_t)(pass->ends[i] - pass->heads[i]);
    struct fb_binary_section row;
    int code = size < LENGTH_BYTES ? FB_ETRUNCATED : FB_OK;
    const char* reason = NULL;
    if (code == FB_OK && fb_load_be32(pass->heads[i]) != size - LENGTH_BYTES) {
      code = FB_ECORRUPT;
      reason = "a row of another length than its record";
    }
    if (code == FB_OK) code = fb_binary_row_open(row_of(pass, i), size - LENGTH_BYTES, field_count, &row);
    if (code == FB_OK && *row_of(pass, i) != 0) {
      code = FB_ECORRUPT;
      reason = "the row is a change (-U, +U or -D), which a batch has no place for";
    }
    if (code != FB_OK) {
      stop_rows_at(pass, i, builder, code, reason, 0);
      break;
    }
    pass->budgets[i] = (uint32_t)row.budget;
    for (uint64_t k = 0; k < nulls; k += 8) seen |= fb_load_le64(row.start + k);
  }
  pass->has_nulls = seen != 0;
}

static inline bool is_slot_null(const struct row_pass* pass, uint32_t i, uint32_t field) {
  return (row_of(pass, i)[1 + field / 8] >> (field % 8) & 1) != 0;
}

/* For all rows of the chunk at once. */
static int extend_null_bits(struct fb_arrow_builder* builder, const struct row_pass* pass, uint32_t field) {
  int code;

  if (builder->validity.data == NULL && !pass->has_nulls) return FB_OK;
  code = fb_arrow_builder_begin_validity(builder, builder->length + pass->count);
  for (uint32_t i = 0; code == FB_OK && i < pass->count; i++) {
    bool null = pass->has_nulls && is_slot_null(pass, i, field);
    fb_arrow_memory_set_bit(builder->validity.data, builder->length + i, !null);
    builder->null_count += null;
  }
  return code;
}

/* A loop for slots that are the column's own values; that of a null is 0. */
#define FB_DEFINE_TAKE_SLOTS(bits)                                                                                     \
  static int take_slots_##bits(struct row_pass* pass, struct fb_arrow_builder* builder, uint32_t field, uint64_t at) { \
    int code = fb_arrow_memory_reserve(&builder->values, pass->count * (bits / 8));                                    \
    uint8_t* to;                                                                                                       \
    if (code != FB_OK) return code;                                                                                    \
    to = builder->values.data + builder->values.size;                                                                  \
    if (!pass->has_nulls)                                                                                              \
      for (uint32_t i = 0; i < pass->count; i++) memcpy(to + i * (bits / 8), row_of(pass, i) + at, bits / 8);          \
    for (uint32_t i = 0; pass->has_nulls && i < pass->count; i++) {                                                    \
      memcpy(to + i * (bits / 8), row_of(pass, i) + at, bits / 8);                                                     \
      if (is_slot_null(pass, i, field)) memset(to + i * (bits / 8), 0, bits / 8);                                      \
    }                                                                                                                  \
    code = extend_null_bits(builder, pass, field);                                                                     \
    builder->length += pass->count;                                                                                    \
    builder->values.size += pass->count * (bits / 8);                                                                  \
    return code;                                                                                                       \
  }
FB_DEFINE_TAKE_SLOTS(8)
FB_DEFINE_TAKE_SLOTS(16)
FB_DEFINE_TAKE_SLOTS(32)
FB_DEFINE_TAKE_SLOTS(64)

/* ---- text and binary -------------------------------------------------------------------------------- */

/* Where the bytes of a row are, and how many. */
static bool find_part(struct row_pass* pass, uint32_t i, uint64_t at) {
  const uint8_t *row = row_of(pass, i), *slot = row + at;
  uint64_t offset, row_size = (uint64_t)(pass->ends[i] - row);
  uint32_t size;

  if (slot[7] >= 0x80) {
    pass->parts[i] = slot;
    pass->sizes[i] = slot[7] & 0x7fu;
    return pass->sizes[i] <= FB_BINARY_ROW_MAX_INLINE;
  }
  size = fb_load_le32(slot);
  offset = fb_load_le32(slot + 4);
  if (size > pass->budgets[i] || offset < pass->fixed_size || offset > row_size || size > row_size - offset)
    return false;
  pass->budgets[i] -= size;
  pass->parts[i] = row + offset;
  pass->sizes[i] = size;
  return true;
}

/* Where the bytes of all rows are; returns how many in all. */
static size_t find_parts(struct row_pass* pass, struct fb_arrow_builder* builder, uint32_t field, uint64_t at) {
  size_t sum = 0, limit = INT32_MAX - builder->values.size;

  for (uint32_t i = 0; i < pass->count; i++) {
    if (pass->has_nulls && is_slot_null(pass, i, field)) {
      pass->parts[i] = pass->heads[i];
      pass->sizes[i] = 0;
    } else if (!find_part(pass, i, at)) {
      stop_rows_at(pass, i, builder, FB_ECORRUPT, NULL, LENGTH_BYTES + at);
    } else if (pass->sizes[i] > limit - sum) {
      stop_rows_at(pass, i, builder, FB_EBOUNDS, FB_ARROW_CELL_FULL, LENGTH_BYTES + at);
    } else {
      sum += pass->sizes[i];
    }
  }
  return sum;
}

/* Text that is no UTF-8, looked for row by row. */
static void check_utf8(struct row_pass* pass, const struct fb_arrow_builder* builder, uint64_t at) {
  for (uint32_t i = 0; i < pass->count; i++)
    if (!fb_text_is_utf8(pass->parts[i], pass->sizes[i]))
      stop_rows_at(pass, i, builder, FB_ECORRUPT, "text that is no UTF-8", LENGTH_BYTES + at);
}

static int take_byte_slots(struct row_pass* pass, struct fb_arrow_builder* builder, uint32_t field, uint64_t at) {
  size_t first = builder->values.size, sum = find_parts(pass, builder, field, at);
  int code = fb_arrow_memory_reserve(&builder->values, sum);
  uint8_t *to, *offset;

  if (code == FB_OK) code = fb_arrow_builder_begin_offsets(builder, pass->count);
  if (code != FB_OK) return code;
  to = builder->values.data + first;
  offset = builder->offsets.data + builder->offsets.size;
  for (uint32_t i = 0; i < pass->count; i++, offset += 4) {
    int32_t end;
    if (pass->sizes[i] <= 8) memcpy(to, pass->parts[i], pass->sizes[i]);
    else fb_text_copy(to, pass->parts[i], pass->sizes[i]);
    to += pass->sizes[i];
    end = (int32_t)(to - builder->values.data);
    memcpy(offset, &end, 4);
  }
  if (builder->column->arrow.kind == FB_ARROW_TEXT && !fb_text_is_ascii(builder->values.data + first, sum))
    check_utf8(pass, builder, at);
  code = extend_null_bits(builder, pass, field);
  builder->length += pass->count;
  builder->values.size = (size_t)(to - builder->values.data);
  builder->offsets.size += 4 * (size_t)pass->count;
  return code;
}

/* ---- columns ---------------------------------------------------------------------------------------- */

static int take_cells(struct row_pass* pass, struct fb_arrow_builder* builder, uint32_t field, uint32_t field_count,
                      uint64_t at) {
  for (uint32_t i = 0; i < pass->count; i++) {
    const struct fb_arrow_builder* where = builder;
    const char* reason = NULL;
    struct fb_arrow_refusal refusal = {&where, &reason};
    const uint8_t* row = row_of(pass, i);
    struct fb_binary_section section = {
        .start = row,
        .null_bits = row + 1,
        .slots = row + fb_binary_row_null_size(field_count),
        .size = (uint64_t)(pass->ends[i] - row),
        .budget = pass->budgets[i],
        .count = field_count,
        .width = 8,
    };
    int code = fb_arrow_data_cell_read(builder, &section, field, &refusal);
    if (code == FB_ENOMEM) return code;
    if (code != FB_OK) stop_rows_at(pass, i, where, code, reason, LENGTH_BYTES + at);
    pass->budgets[i] = (uint32_t)section.budget;
  }
  return FB_OK;
}

static int take_slot_column(struct row_pass* pass, struct fb_arrow_builder* builder, uint32_t field,
                            uint32_t field_count) {
  const struct fb_arrow_type* arrow = &builder->column->arrow;
  const struct fb_type* type = builder->column->type;
  uint64_t at = fb_binary_row_null_size(field_count) + 8 * (uint64_t)field;
  bool is_number = (arrow->kind == FB_ARROW_INTEGER && arrow->is_signed && type->kind != FB_TYPE_DECIMAL_DATA) ||
                   arrow->kind == FB_ARROW_FLOAT || arrow->kind == FB_ARROW_DURATION ||
                   arrow->kind == FB_ARROW_MONTHS || (arrow->kind == FB_ARROW_DATE && arrow->width == 4) ||
                   (arrow->kind == FB_ARROW_TIMESTAMP && arrow->per_second == 1000 && fb_type_is_compact(type));

  if (is_number && arrow->width == fb_type_slot_width(type)) {
    if (arrow->width == 8) return take_slots_64(pass, builder, field, at);
    if (arrow->width == 4) return take_slots_32(pass, builder, field, at);
    if (arrow->width == 2) return take_slots_16(pass, builder, field, at);
    return take_slots_8(pass, builder, field, at);
  }
  if (arrow->kind == FB_ARROW_TEXT || arrow->kind == FB_ARROW_BINARY) return take_byte_slots(pass, builder, field, at);
  return take_cells(pass, builder, field, field_count, at);
}

/* A null in a column that is declared NOT NULL: the first row that has one is not right. */
static void check_required_field(struct row_pass* pass, const struct fb_arrow_builder* builder, uint32_t field) {
  if (!builder->column->is_required || !pass->has_nulls) return;
  for (uint32_t i = 0; i < pass->count; i++)
    if (is_slot_null(pass, i, field)) stop_rows_at(pass, i, builder, FB_ECORRUPT, FB_ARROW_COLUMN_NULL, LENGTH_BYTES);
}

int64_t fb_arrow_data_records_read(struct fb_arrow_builder* self, const uint8_t* const* heads,
                                   const uint8_t* const* ends, uint32_t count, struct fb_arrow_reading* reading) {
  struct row_pass pass;
  uint32_t field_count = self->column->child_count, wanted;
  int64_t length = self->length;
  int code = FB_OK;

  *reading = (struct fb_arrow_reading){0};
  pass.heads = heads; /* the arrays stay as they are until they are filled */
  pass.ends = ends;
  pass.reading = reading;
  pass.fixed_size = fb_binary_row_fixed_size(field_count);
  do { /* again for the rows before one that is not right: some columns have read more than others */
    wanted = pass.count = count;
    open_rows(&pass, self);
    for (uint32_t k = 0; code == FB_OK && k < field_count; k++) {
      code = take_slot_column(&pass, &self->children[k], k, field_count);
      if (code == FB_OK) check_required_field(&pass, &self->children[k], k);
    }
    if (code != FB_OK || pass.count < wanted) fb_arrow_builder_truncate(self, length);
    if (code != FB_OK) return code;
    count = pass.count;
  } while (count < wanted);
  self->length = length + count;
  return count;
}
