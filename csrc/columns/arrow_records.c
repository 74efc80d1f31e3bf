#include "columns/arrow_records.h"

#include "columns/arrow_data_records.h"
#include "ground/byte_order.h"

#define LIMIT_32 INT32_MAX

struct read_pass {
  const uint8_t** heads;
  const uint8_t** next;
  const uint8_t** ends;
  uint32_t count;
  size_t gap;     /* bytes behind `next` that are read already */
  bool has_nulls; /* some mask has a bit */
  struct fb_arrow_reading* reading;
};

/* Row `i` is not right: what follows is read for the rows before it only. */
static void stop_reading_at(struct read_pass* pass, uint32_t i, const struct fb_arrow_builder* builder, int code,
                            const char* reason, const uint8_t* pos) {
  pass->reading->code = code;
  pass->reading->reason = reason;
  pass->reading->column = builder->column;
  pass->reading->row = i;
  pass->reading->byte = (size_t)(pos - pass->heads[i]);
  pass->count = i;
}

static inline bool is_field_null(const uint8_t* mask, uint32_t field) {
  return (mask[(field + 2) / 8] & (0x80u >> ((field + 2) % 8))) != 0;
}

/* For all rows of the chunk at once. */
static int extend_validity(struct fb_arrow_builder* builder, const struct read_pass* pass, uint32_t field) {
  int code;

  if (builder->validity.data == NULL && !pass->has_nulls) return FB_OK;
  code = fb_arrow_builder_begin_validity(builder, builder->length + pass->count);
  for (uint32_t i = 0; code == FB_OK && i < pass->count; i++) {
    bool null = pass->has_nulls && is_field_null(pass->heads[i], field);
    fb_arrow_memory_set_bit(builder->validity.data, builder->length + i, !null);
    builder->null_count += null;
  }
  return code;
}

#define FB_DEFINE_TAKE(bits)                                                                         \
  static int take_##bits(struct read_pass* pass, struct fb_arrow_builder* builder, uint32_t field) { \
    size_t gap = pass->gap, width = bits / 8;                                                        \
    uint##bits##_t value;                                                                            \
    uint8_t* to;                                                                                     \
    int code = fb_arrow_memory_reserve(&builder->values, pass->count * width);                       \
    if (code != FB_OK) return code;                                                                  \
    to = builder->values.data + builder->values.size;                                                \
    if (!pass->has_nulls) {                                                                          \
      for (uint32_t i = 0; i < pass->count; i++) {                                                   \
        if ((size_t)(pass->ends[i] - pass->next[i]) < gap + width) {                                 \
          stop_reading_at(pass, i, builder, FB_ETRUNCATED, NULL, pass->ends[i]);                     \
          break;                                                                                     \
        }                                                                                            \
        memcpy(&value, pass->next[i] + gap, sizeof value);                                           \
        value = FB_BE##bits(value);                                                                  \
        memcpy(to + i * sizeof value, &value, sizeof value);                                         \
      }                                                                                              \
      pass->gap += width;                                                                            \
    } else {                                                                                         \
      for (uint32_t i = 0; i < pass->count; i++) {                                                   \
        const uint8_t* from = pass->next[i] + gap;                                                   \
        value = 0;                                                                                   \
        if (!is_field_null(pass->heads[i], field)) {                                                 \
          if ((size_t)(pass->ends[i] - pass->next[i]) < gap + width) {                               \
            stop_reading_at(pass, i, builder, FB_ETRUNCATED, NULL, pass->ends[i]);                   \
            break;                                                                                   \
          }                                                                                          \
          memcpy(&value, from, sizeof value);                                                        \
          value = FB_BE##bits(value);                                                                \
          from += width;                                                                             \
        }                                                                                            \
        memcpy(to + i * sizeof value, &value, sizeof value);                                         \
        pass->next[i] = from;                                                                        \
      }                                                                                              \
      pass->gap = 0;                                                                                 \
    }                                                                                                \
    code = extend_validity(builder, pass, field);                                                    \
    builder->length += pass->count;                                                                  \
    builder->values.size += pass->count * width;                                                     \
    return code;                                                                                     \
  }
FB_DEFINE_TAKE(16)
FB_DEFINE_TAKE(32)
FB_DEFINE_TAKE(64)

/* Whether 16 bytes, of which the first `units` are a text, hold ASCII in those. */
static inline bool is_short_ascii(const uint8_t* from, uint32_t units) {
  uint64_t head = fb_load_le64(from), tail = fb_load_le64(from + 8);
  uint64_t head_mask = units >= 8 ? UINT64_MAX : (1ull << (8 * units)) - 1;
  uint64_t tail_mask = units <= 8 ? 0 : units == 16 ? UINT64_MAX : (1ull << (8 * (units - 8))) - 1;

  return (((head & head_mask) | (tail & tail_mask)) & 0x8080808080808080u) == 0;
}

/* Texts that are short, ASCII and there, from row `i` on; returns the first that is not so. 16 bytes are copied of each,
 * of which the next text overwrites what is too much; the last record's end says how far one may look. */
static uint32_t take_short_texts(struct read_pass* pass, struct fb_arrow_builder* builder, uint32_t i, uint32_t count) {
  const uint8_t* last = pass->ends[count - 1];
  size_t size = builder->values.size, capacity = builder->values.capacity, gap = pass->gap;
  uint8_t* data = builder->values.data;
  uint8_t* offset = builder->offsets.data + builder->offsets.size;
  uint32_t first = i;

  for (; i < count; i++, offset += 4) {
    const uint8_t *next = pass->next[i], *end = pass->ends[i];
    uint32_t units;
    int32_t now;
    if ((size_t)(end - next) <= gap) break;
    next += gap;
    units = *next - 1u; /* of null it is too large */
    if (units > 16 || (size_t)(end - next) <= units || last - next < 17 || capacity - size < 16 ||
        !is_short_ascii(next + 1, units))
      break;
    memcpy(data + size, next + 1, 16);
    size += units;
    now = (int32_t)size;
    memcpy(offset, &now, 4);
    pass->next[i] = next + 1 + units;
  }
  builder->values.size = size;
  builder->offsets.size += 4 * (size_t)(i - first);
  builder->length += i - first;
  return i;
}

/* One text of any kind. */
static int take_text(struct read_pass* pass, struct fb_arrow_builder* builder, bool is_null, uint32_t i) {
  struct fb_data_input input = {.start = pass->heads[i], .pos = pass->next[i], .end = pass->ends[i]};
  const struct fb_arrow_builder* at = builder;
  const char* reason = NULL;
  int code;

  if (fb_data_input_left(&input) < pass->gap) {
    stop_reading_at(pass, i, builder, FB_ETRUNCATED, NULL, input.end);
    return FB_OK;
  }
  input.pos += pass->gap;
  code = is_null ? fb_arrow_builder_put_null(builder) : fb_arrow_cell_read(builder, &input, &at, &reason);
  if (code == FB_ENOMEM) return code;
  if (code != FB_OK) stop_reading_at(pass, i, at, code, reason, input.pos);
  pass->next[i] = input.pos;
  return FB_OK;
}

static int take_texts(struct read_pass* pass, struct fb_arrow_builder* builder, bool has_mask, uint32_t field) {
  bool may_be_null = has_mask && pass->has_nulls;
  uint32_t i = 0;
  int code = fb_arrow_builder_begin_offsets(builder, pass->count);

  if (code == FB_OK) code = fb_arrow_memory_reserve(&builder->values, 16 * (size_t)pass->count);
  while (code == FB_OK && i < pass->count) {
    if (!may_be_null && builder->validity.data == NULL && builder->values.size < LIMIT_32 - 16 * (size_t)pass->count)
      i = take_short_texts(pass, builder, i, pass->count);
    if (i == pass->count) break;
    code = take_text(pass, builder, may_be_null && is_field_null(pass->heads[i], field), i);
    i++;
  }
  pass->gap = 0;
  return code;
}

static int take_any(struct read_pass* pass, struct fb_arrow_builder* builder, bool has_mask, uint32_t field) {
  for (uint32_t i = 0; i < pass->count; i++) {
    struct fb_data_input input = {.start = pass->heads[i], .pos = pass->next[i], .end = pass->ends[i]};
    const char* reason = NULL;
    const struct fb_arrow_builder* at = builder;
    int code;
    if (fb_data_input_left(&input) < pass->gap) {
      stop_reading_at(pass, i, builder, FB_ETRUNCATED, NULL, input.end);
      break;
    }
    input.pos += pass->gap;
    code = has_mask && pass->has_nulls && is_field_null(pass->heads[i], field)
               ? fb_arrow_builder_put_null(builder)
               : fb_arrow_cell_read(builder, &input, &at, &reason);
    if (code == FB_ENOMEM) return code;
    if (code != FB_OK) {
      stop_reading_at(pass, i, at, code, reason, input.pos);
      break;
    }
    pass->next[i] = input.pos;
  }
  pass->gap = 0;
  return FB_OK;
}

static int take_column(struct read_pass* pass, struct fb_arrow_builder* builder, bool has_mask, uint32_t field) {
  const struct fb_arrow_column* column = builder->column;
  enum fb_arrow_kind kind = column->arrow.kind;
  uint32_t width = fb_type_fixed_size(column->type->kind);
  bool is_number = (kind == FB_ARROW_INTEGER && column->arrow.is_signed) || kind == FB_ARROW_FLOAT ||
                   kind == FB_ARROW_DURATION || kind == FB_ARROW_MONTHS;

  if (is_number && column->nullable == NULL && width == column->arrow.width) {
    if (width == 8) return take_64(pass, builder, field);
    if (width == 4) return take_32(pass, builder, field);
    if (width == 2) return take_16(pass, builder, field);
  }
  if (kind == FB_ARROW_TEXT && column->type->kind == FB_TYPE_STRING && column->nullable == NULL)
    return take_texts(pass, builder, has_mask, field);
  return take_any(pass, builder, has_mask, field);
}

/* Reads the masks: they must be there, and have nothing but bits of nulls. */
static void take_masks(struct read_pass* pass, struct fb_arrow_builder* row) {
  uint32_t size = (row->column->child_count + 9) / 8, spare = 8 * size - row->column->child_count - 2;
  uint8_t last = (uint8_t)((1u << spare) - 1), seen = 0;

  for (uint32_t i = 0; i < pass->count; i++) {
    const uint8_t* mask = pass->heads[i];
    if ((size_t)(pass->ends[i] - mask) < size) {
      stop_reading_at(pass, i, row, FB_ETRUNCATED, NULL, pass->ends[i]);
      break;
    }
    if ((mask[size - 1] & last) != 0) {
      stop_reading_at(pass, i, row, FB_ECORRUPT, NULL, mask + size - 1);
      break;
    }
    if ((mask[0] & 0xc0) != 0) {
      stop_reading_at(pass, i, row, FB_ECORRUPT, "the row is a change (-U, +U or -D), which a batch has no place for",
                      mask);
      break;
    }
    for (uint32_t k = 0; k < size; k++) seen |= mask[k];
  }
  pass->has_nulls = seen != 0;
  pass->gap = size;
}

/* A null in a column that is declared NOT NULL: the first row that has one is not right. */
static void check_required(struct read_pass* pass, const struct fb_arrow_builder* builder) {
  int64_t first = builder->length - pass->count;

  if (!builder->column->is_required || builder->validity.data == NULL) return;
  for (uint32_t i = 0; i < pass->count; i++)
    if (!fb_arrow_column_bit(builder->validity.data, first + i))
      stop_reading_at(pass, i, builder, FB_ECORRUPT, FB_ARROW_COLUMN_NULL, pass->heads[i]);
}

static int take_row_fields(struct fb_arrow_builder* self, struct read_pass* pass) {
  bool is_row = self->column->arrow.kind == FB_ARROW_STRUCT && self->column->nullable == NULL;
  bool has_mask = is_row && self->column->type->kind == FB_TYPE_ROW;
  int code = FB_OK;

  if (has_mask) take_masks(pass, self);
  if (!is_row) code = take_column(pass, self, false, 0);
  for (uint32_t k = 0; is_row && code == FB_OK && k < self->column->child_count; k++) {
    code = take_column(pass, &self->children[k], has_mask, k);
    if (code == FB_OK) check_required(pass, &self->children[k]);
  }
  for (uint32_t i = 0; code == FB_OK && i < pass->count; i++)
    if ((size_t)(pass->ends[i] - pass->next[i]) != pass->gap) {
      bool is_short = (size_t)(pass->ends[i] - pass->next[i]) < pass->gap;
      stop_reading_at(pass, i, self, is_short ? FB_ETRUNCATED : FB_ECORRUPT,
                      is_short ? NULL : "the record is longer than the declared type", pass->next[i]);
    }
  return code;
}

int64_t fb_arrow_records_read(struct fb_arrow_builder* self, struct fb_arrow_records* records,
                              struct fb_arrow_reading* reading) {
  struct read_pass pass = {.heads = records->heads, .next = records->next, .ends = records->ends};
  bool is_row = self->column->arrow.kind == FB_ARROW_STRUCT && self->column->nullable == NULL;
  int64_t length = self->length;
  uint32_t count = records->count, wanted;

  *reading = (struct fb_arrow_reading){0};
  if (self->column->type->kind == FB_TYPE_ROW_DATA)
    return fb_arrow_data_records_read(self, records->heads, records->ends, count, reading);
  pass.reading = reading;
  do { /* again for the rows before one that is not right: some columns have read more than others */
    int code;
    wanted = count;
    pass.count = count;
    pass.gap = 0;
    pass.has_nulls = false;
    for (uint32_t i = 0; i < count; i++) records->next[i] = records->heads[i];
    code = take_row_fields(self, &pass);
    if (code != FB_OK || pass.count < wanted) fb_arrow_builder_truncate(self, length);
    if (code != FB_OK) return code;
    count = pass.count;
  } while (count < wanted);
  if (is_row) self->length = length + count;
  return count;
}

void fb_arrow_records_collect(struct fb_record_deserializer* deserializer, uint32_t limit,
                              struct fb_arrow_records* records) {
  uint32_t count = 0;
  size_t size, sum = 0;

  if (limit > FB_ARROW_RECORDS) limit = FB_ARROW_RECORDS;
  while (count < limit && sum < FB_ARROW_RECORDS_BYTES &&
         fb_record_deserializer_take(deserializer, &records->heads[count], &size)) {
    records->ends[count] = records->heads[count] + size;
    sum += size;
    count++;
  }
  records->count = count;
}

void fb_arrow_records_skip(struct fb_arrow_records* records, uint32_t count) {
  records->count -= count;
  memmove(records->heads, records->heads + count, records->count * sizeof *records->heads);
  memmove(records->ends, records->ends + count, records->count * sizeof *records->ends);
}
