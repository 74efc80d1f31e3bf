#include "columns/arrow_cell.h"

#include "ground/byte_order.h"
#include "value/calendar.h"
#include "value/number.h"
#include "value/text.h"

#define SECONDS_PER_DAY 86400

int fb_arrow_cell_refuse(struct fb_arrow_builder* self, const struct fb_arrow_refusal* refusal, int code,
                         const char* reason) {
  *refusal->at = self;
  *refusal->reason = reason;
  return code;
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

int fb_arrow_cell_put_integer(struct fb_arrow_builder* self, int64_t value, const struct fb_arrow_refusal* refusal) {
  const struct fb_arrow_type* arrow = &self->column->arrow;
  uint32_t width = arrow->width, bits = 8 * width;
  bool is_signed = arrow->kind != FB_ARROW_INTEGER || arrow->is_signed;
  uint8_t narrow8 = (uint8_t)value;
  uint16_t narrow16 = (uint16_t)value;
  uint32_t narrow32 = (uint32_t)value;

  if (!is_signed ? value < 0 || (bits < 64 && value >> bits != 0)
                 : bits < 64 && (value < -(1LL << (bits - 1)) || value >= 1LL << (bits - 1)))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a number that the column cannot hold");
  switch (width) {
    case 1: return fb_arrow_builder_put_slot(self, &narrow8, 1);
    case 2: return fb_arrow_builder_put_slot(self, &narrow16, 2);
    case 4: return fb_arrow_builder_put_slot(self, &narrow32, 4);
    default: return fb_arrow_builder_put_slot(self, &value, 8);
  }
}

/* The half that is this number exactly; false: there is none. */
static bool half_of(float value, uint16_t* half) {
  uint32_t bits, sign, fraction;
  int exponent;

  memcpy(&bits, &value, 4);
  sign = bits >> 16 & 0x8000u;
  exponent = (int)(bits >> 23 & 0xff) - 112;
  fraction = bits & 0x7fffffu;
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    *half = (uint16_t)(sign | 0x7c00u | (fraction != 0 ? 0x200u : 0));
    return true;
  }
  if (bits << 1 == 0) return *half = (uint16_t)sign, true;
  if (exponent >= 0x1f) return false;
  if (exponent <= 0) { /* below the smallest normal half: the fraction with its hidden bit moves right */
    int shift = 14 - exponent;
    fraction |= 0x800000u;
    if (shift > 24 || (fraction & ((1u << shift) - 1)) != 0) return false;
    *half = (uint16_t)(sign | fraction >> shift);
    return true;
  }
  *half = (uint16_t)(sign | (uint32_t)exponent << 10 | fraction >> 13);
  return (fraction & 0x1fffu) == 0;
}

int fb_arrow_cell_put_float(struct fb_arrow_builder* self, double value, const struct fb_arrow_refusal* refusal) {
  float narrow = (float)value;
  uint16_t half;

  if (self->column->arrow.width == 8) return fb_arrow_builder_put_slot(self, &value, 8);
  if ((double)narrow != value && value == value)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a number that the column cannot hold exactly");
  if (self->column->arrow.width == 4) return fb_arrow_builder_put_slot(self, &narrow, 4);
  if (!half_of(narrow, &half))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a number that the column cannot hold exactly");
  return fb_arrow_builder_put_slot(self, &half, 2);
}

int fb_arrow_cell_put_decimal(struct fb_arrow_builder* self, fb_wide_int unscaled, int32_t scale,
                              const struct fb_arrow_refusal* refusal) {
  const struct fb_arrow_type* arrow = &self->column->arrow;
  uint8_t bytes[32];

  if (!fb_binary_row_rescale(&unscaled, scale, arrow->scale))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a decimal that the column's scale cannot hold exactly");
  if (!fb_binary_row_has_digits(unscaled, (uint32_t)arrow->precision))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a decimal with more digits than the column has");
  memset(bytes, unscaled < 0 ? 0xff : 0, 32);
  memcpy(bytes, &unscaled, 16);
  return fb_arrow_builder_put_slot(self, bytes, arrow->width);
}

/* The digits of a BIG_INT or BIG_DEC that was measured, as 33 bytes with the lowest first; false: more of them. */
static bool load_big_digits(struct fb_data_input* input, uint8_t* bytes) {
  static const uint8_t SHORT_FORMS[] = {0, 0, 1, 10};
  uint32_t length = fb_load_be32(input->pos);

  input->pos += 4;
  memset(bytes, 0, 33);
  if (length < 4) return bytes[0] = SHORT_FORMS[length], true;
  length -= 4;
  input->pos += length;
  if (length > 33) return false;
  if (input->pos[-(int64_t)length] & 0x80) memset(bytes, 0xff, 33);
  for (uint32_t i = 0; i < length; i++) bytes[i] = input->pos[-1 - (int64_t)i];
  return true;
}

static bool fits_bytes(const uint8_t* bytes, uint32_t width, bool is_signed) {
  uint8_t fill = is_signed && (bytes[width - 1] & 0x80) ? 0xff : 0;

  for (uint32_t i = width; i < 33; i++)
    if (bytes[i] != fill) return false;
  return true;
}

static int read_big_int(struct fb_arrow_builder* self, struct fb_data_input* input,
                        const struct fb_arrow_refusal* refusal) {
  const struct fb_arrow_type* arrow = &self->column->arrow;
  uint8_t bytes[33];

  if (fb_load_be32(input->pos) == 0) return input->pos += 4, fb_arrow_builder_put_null(self);
  if (!load_big_digits(input, bytes) || !fits_bytes(bytes, arrow->width, arrow->is_signed))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a number that the column cannot hold");
  return fb_arrow_builder_put_slot(self, bytes, arrow->width); /* the host is little-endian, as Arrow in memory is */
}

static int read_big_dec(struct fb_arrow_builder* self, struct fb_data_input* input,
                        const struct fb_arrow_refusal* refusal) {
  const struct fb_arrow_type* arrow = &self->column->arrow;
  uint8_t bytes[33];
  fb_wide_int value;
  int32_t scale;
  bool is_there;

  if (fb_load_be32(input->pos) == 0) return input->pos += 4, fb_arrow_builder_put_null(self);
  is_there = load_big_digits(input, bytes);
  scale = (int32_t)fb_load_be32(input->pos);
  input->pos += 4;
  if (is_there && arrow->width == 32 && scale == arrow->scale && fits_bytes(bytes, 32, true))
    return fb_arrow_builder_put_slot(self, bytes, 32);
  if (!is_there || !fits_bytes(bytes, 16, true))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a decimal with more digits than the column has");
  memcpy(&value, bytes, 16);
  return fb_arrow_cell_put_decimal(self, value, scale, refusal);
}

/* ---- time ------------------------------------------------------------------------------------------- */

static int64_t load_second_of_day(const uint8_t* from) { return from[0] * 3600 + from[1] * 60 + from[2]; }

/* A second and its nanoseconds in the column's unit. */
int fb_arrow_cell_put_moment(struct fb_arrow_builder* self, int64_t second, uint32_t nano,
                             const struct fb_arrow_refusal* refusal) {
  int64_t unit = self->column->arrow.per_second, value, step = 1000000000 / unit;
  int32_t narrow;

  if (nano % step != 0)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a time that is more exact than the column's unit");
  if (__builtin_mul_overflow(second, unit, &value) || __builtin_add_overflow(value, nano / step, &value)) {
    /* The first second may begin before what fits. */
    if (second >= 0 || __builtin_mul_overflow(second + 1, unit, &value) ||
        __builtin_add_overflow(value, nano / step - unit, &value))
      return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a point in time that the column's unit cannot hold");
  }
  narrow = (int32_t)value;
  return self->column->arrow.width == 4 ? fb_arrow_builder_put_slot(self, &narrow, 4)
                                        : fb_arrow_builder_put_slot(self, &value, 8);
}

int fb_arrow_cell_put_days(struct fb_arrow_builder* self, int64_t days, const struct fb_arrow_refusal* refusal) {
  int32_t narrow = (int32_t)days;
  int64_t millis = days * FB_CALENDAR_DAY_MILLIS; /* a billion years of them fit */

  if (self->column->arrow.width == 8) return fb_arrow_builder_put_slot(self, &millis, 8);
  if (days < INT32_MIN || days > INT32_MAX)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a date that the column cannot hold");
  return fb_arrow_builder_put_slot(self, &narrow, 4);
}

/* All kinds of time, once they were measured. */
static int read_time_cell(struct fb_arrow_builder* self, const uint8_t* from, const struct fb_arrow_refusal* refusal) {
  int64_t second;

  switch (self->column->type->kind) {
    case FB_TYPE_LOCAL_DATE:
      if (fb_load_be32(from) == 0x80000000u) return fb_arrow_builder_put_null(self);
      return fb_arrow_cell_put_days(self, fb_calendar_load_date(from), refusal);
    case FB_TYPE_LOCAL_TIME:
      if (from[0] == 0x80) return fb_arrow_builder_put_null(self);
      return fb_arrow_cell_put_moment(self, load_second_of_day(from), fb_load_be32(from + 3), refusal);
    case FB_TYPE_LOCAL_DATE_TIME:
      if (fb_load_be32(from) == 0x80000000u) return fb_arrow_builder_put_null(self);
      second = fb_calendar_load_date(from) * SECONDS_PER_DAY + load_second_of_day(from + 6);
      return fb_arrow_cell_put_moment(self, second, fb_load_be32(from + 9), refusal);
    default:
      second = (int64_t)fb_load_be64(from);
      if (second == INT64_MIN) return fb_arrow_builder_put_null(self);
      return fb_arrow_cell_put_moment(self, second, fb_load_be32(from + 8), refusal);
  }
}

/* Of INT, INT and perhaps LONG; none of them null. */
static int read_interval(struct fb_arrow_builder* self, const uint8_t* from, const struct fb_arrow_refusal* refusal) {
  uint32_t width = self->column->arrow.width, parts[2];
  uint8_t slot[16];
  uint64_t nanos;

  if (from[0] != 0) return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "an interval with a part that is null");
  parts[0] = fb_load_be32(from + 1);
  parts[1] = fb_load_be32(from + 5);
  memcpy(slot, parts, 8);
  if (width == 16) {
    nanos = fb_load_be64(from + 9);
    memcpy(slot + 8, &nanos, 8);
  }
  return fb_arrow_builder_put_slot(self, slot, width);
}

/* ---- text and bytes --------------------------------------------------------------------------------- */

int fb_arrow_cell_end_bytes(struct fb_arrow_builder* self) {
  fb_arrow_builder_put_offset(self, (int64_t)self->values.size);
  return fb_arrow_builder_put_valid(self);
}

int fb_arrow_cell_begin_bytes(struct fb_arrow_builder* self, size_t size, const struct fb_arrow_refusal* refusal) {
  int code = fb_arrow_builder_begin_offsets(self, 1);

  if (code != FB_OK) return code;
  if (!fb_arrow_builder_is_wide(self->column->arrow.kind) && size > (size_t)INT32_MAX - self->values.size)
    return fb_arrow_cell_refuse(self, refusal, FB_EBOUNDS, FB_ARROW_CELL_FULL);
  return fb_arrow_memory_reserve(&self->values, size);
}

static uint8_t* put_utf8(uint32_t point, uint8_t* to) {
  if (point < 0x80) return *to = (uint8_t)point, to + 1;
  if (point < 0x800) {
    to[0] = (uint8_t)(0xc0 | point >> 6);
    to[1] = (uint8_t)(0x80 | (point & 0x3f));
    return to + 2;
  }
  if (point < 0x10000) {
    to[0] = (uint8_t)(0xe0 | point >> 12);
    to[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    to[2] = (uint8_t)(0x80 | (point & 0x3f));
    return to + 3;
  }
  to[0] = (uint8_t)(0xf0 | point >> 18);
  to[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
  to[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
  to[3] = (uint8_t)(0x80 | (point & 0x3f));
  return to + 4;
}

/* Units that were measured, as UTF-8; false: a surrogate without its other half. */
static bool put_units(const uint8_t* from, uint32_t units, uint8_t** to) {
  uint32_t high = 0;

  for (; units > 0; units--) {
    uint32_t unit = *from & 0x7fu;
    if (*from++ >= 0x80) {
      unit |= (uint32_t)(*from & 0x7f) << 7;
      if (*from++ >= 0x80) unit |= (uint32_t)*from++ << 14;
    }
    if (unit >> 10 == 0xdc00u >> 10) {
      if (high == 0) return false;
      *to = put_utf8(0x10000u + ((high & 0x3ffu) << 10) + (unit & 0x3ffu), *to);
      high = 0;
    } else if (high != 0) {
      return false;
    } else if (unit >> 10 == 0xd800u >> 10) {
      high = unit;
    } else {
      *to = put_utf8(unit, *to);
    }
  }
  return high == 0;
}

static int read_text_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                          const struct fb_arrow_refusal* refusal) {
  uint32_t units;
  struct fb_text text;
  const uint8_t* from;
  uint8_t* to;
  int code = fb_text_read_varint(input, &units);

  if (code != FB_OK) return fb_arrow_cell_refuse(self, refusal, code, NULL);
  if (self->column->type->kind == FB_TYPE_STRING) {
    if (units == 0) return fb_arrow_builder_put_null(self);
    units--;
  }
  if (units > fb_data_input_left(input)) return fb_arrow_cell_refuse(self, refusal, FB_ETRUNCATED, NULL);
  from = input->pos;
  if (fb_text_is_ascii(from, units)) {
    code = fb_arrow_cell_begin_bytes(self, units, refusal);
    if (code != FB_OK) return code;
    if (units > 0) memcpy(self->values.data + self->values.size, from, units);
    self->values.size += units;
    input->pos += units;
    return fb_arrow_cell_end_bytes(self);
  }
  code = fb_text_measure(input, units, &text);
  if (code != FB_OK) return fb_arrow_cell_refuse(self, refusal, code, NULL);
  code = fb_arrow_cell_begin_bytes(self, 3 * (size_t)units, refusal);
  if (code != FB_OK) return code;
  to = self->values.data + self->values.size;
  if (!put_units(from, units, &to))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "text with half a surrogate pair, which has no UTF-8");
  self->values.size = (size_t)(to - self->values.data);
  return fb_arrow_cell_end_bytes(self);
}

static int read_cell_count(struct fb_arrow_builder* self, struct fb_data_input* input, uint32_t min_size,
                           uint32_t* count, const struct fb_arrow_refusal* refusal) {
  if (fb_data_input_left(input) < 4) return fb_arrow_cell_refuse(self, refusal, FB_ETRUNCATED, NULL);
  *count = fb_load_be32(input->pos);
  if (*count > INT32_MAX) return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, NULL);
  if (!fb_type_fits(*count, min_size, fb_data_input_left(input) - 4))
    return fb_arrow_cell_refuse(self, refusal, FB_ETRUNCATED, NULL);
  input->pos += 4;
  return FB_OK;
}

static int read_byte_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                          const struct fb_arrow_refusal* refusal) {
  uint32_t size;
  int code = read_cell_count(self, input, 1, &size, refusal);

  if (code != FB_OK) return code;
  input->pos += size;
  if (self->column->arrow.kind == FB_ARROW_FIXED_BINARY) {
    if (size != self->column->arrow.width)
      return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "bytes of another length than the column's");
    return fb_arrow_builder_put_slot(self, input->pos - size, size);
  }
  code = fb_arrow_cell_begin_bytes(self, size, refusal);
  if (code != FB_OK) return code;
  if (size > 0) memcpy(self->values.data + self->values.size, input->pos - size, size);
  self->values.size += size;
  return fb_arrow_cell_end_bytes(self);
}

/* ---- values with parts ------------------------------------------------------------------------------ */

static int read_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                     const struct fb_arrow_refusal* refusal);

/* A flag, and what is not null. */
static int read_flagged_cell(struct fb_arrow_builder* self, struct fb_data_input* input, bool flag_of_null,
                             const struct fb_arrow_refusal* refusal) {
  bool flag;

  if (input->pos == input->end) return fb_arrow_cell_refuse(self, refusal, FB_ETRUNCATED, NULL);
  if (*input->pos > 1) return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, NULL);
  flag = *input->pos++ == 1;
  return flag == flag_of_null ? fb_arrow_builder_put_null(self) : read_cell(self, input, refusal);
}

static uint32_t min_size_of(const struct fb_arrow_column* column) {
  return (column->nullable != NULL ? column->nullable : column->type)->min_size;
}

int fb_arrow_cell_end_list(struct fb_arrow_builder* self, const struct fb_arrow_refusal* refusal) {
  int64_t length = self->children[0].length;

  if (self->column->arrow.kind == FB_ARROW_FIXED_LIST) return fb_arrow_builder_put_valid(self);
  if (!fb_arrow_builder_is_wide(self->column->arrow.kind) && length > INT32_MAX)
    return fb_arrow_cell_refuse(self, refusal, FB_EBOUNDS, FB_ARROW_CELL_FULL);
  fb_arrow_builder_put_offset(self, length);
  return fb_arrow_builder_put_valid(self);
}

static int read_list_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                          const struct fb_arrow_refusal* refusal) {
  struct fb_arrow_builder* child = &self->children[0];
  bool is_flagged = self->column->type->kind == FB_TYPE_OBJECT_ARRAY;
  bool is_fixed = self->column->arrow.kind == FB_ARROW_FIXED_LIST;
  uint32_t count;
  int code = read_cell_count(self, input, is_flagged ? 1 : min_size_of(child->column), &count, refusal);

  if (code == FB_OK && is_fixed && count != self->column->arrow.width)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a list of another length than the column's");
  if (code == FB_OK && !is_fixed) code = fb_arrow_builder_begin_offsets(self, 1);
  for (; code == FB_OK && count > 0; count--)
    code = is_flagged ? read_flagged_cell(child, input, false, refusal) : read_cell(child, input, refusal);
  return code == FB_OK ? fb_arrow_cell_end_list(self, refusal) : code;
}

static int read_map_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                         const struct fb_arrow_refusal* refusal) {
  uint32_t count;
  int code = read_cell_count(self, input, min_size_of(self->children[0].column) + 1, &count, refusal);

  if (code == FB_OK) code = fb_arrow_builder_begin_offsets(self, 1);
  for (; code == FB_OK && count > 0; count--) {
    code = read_cell(&self->children[0], input, refusal);
    if (code == FB_OK) code = read_flagged_cell(&self->children[1], input, true, refusal);
  }
  return code == FB_OK ? fb_arrow_cell_end_list(self, refusal) : code;
}

static int read_row_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                         const struct fb_arrow_refusal* refusal) {
  uint32_t count = self->column->child_count, size = (count + 9) / 8, spare = 8 * size - count - 2;
  bool has_mask = self->column->type->kind == FB_TYPE_ROW;
  const uint8_t* mask = input->pos;
  int code = FB_OK;

  if (has_mask) {
    if (fb_data_input_left(input) < size) return fb_arrow_cell_refuse(self, refusal, FB_ETRUNCATED, NULL);
    if ((mask[size - 1] & ((1u << spare) - 1)) != 0) return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, NULL);
    if ((mask[0] & 0xc0) != 0)
      return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a row that is a change, which a batch has no place for");
    input->pos += size;
  }
  for (uint32_t k = 0; code == FB_OK && k < count; k++) {
    bool is_null = has_mask && (mask[(k + 2) / 8] & (0x80u >> ((k + 2) % 8))) != 0;
    if (is_null && self->children[k].column->is_required)
      return fb_arrow_cell_refuse(&self->children[k], refusal, FB_ECORRUPT, FB_ARROW_COLUMN_NULL);
    code = is_null ? fb_arrow_builder_put_null(&self->children[k]) : read_cell(&self->children[k], input, refusal);
  }
  return code == FB_OK ? fb_arrow_builder_put_valid(self) : code;
}

/* ---- any value -------------------------------------------------------------------------------------- */

/* A value whose bytes tell nothing but themselves: measured and checked as any reader of its type would. */
static int read_leaf_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                          const struct fb_arrow_refusal* refusal) {
  const uint8_t* from = input->pos;
  int code = fb_type_skip(self->column->type, input);
  struct fb_data_input part = {.start = from, .pos = from, .end = input->pos};

  if (code != FB_OK) return fb_arrow_cell_refuse(self, refusal, code, NULL);
  switch (self->column->type->kind) {
    case FB_TYPE_BOOLEAN:
      code = fb_arrow_memory_reserve_bits(&self->values, self->length + 1);
      if (code != FB_OK) return code;
      fb_arrow_memory_set_bit(self->values.data, self->length, *from == 1);
      return fb_arrow_builder_put_valid(self);
    case FB_TYPE_BYTE: return fb_arrow_cell_put_integer(self, (int8_t)*from, refusal);
    case FB_TYPE_SHORT: return fb_arrow_cell_put_integer(self, (int16_t)fb_load_be16(from), refusal);
    case FB_TYPE_INT: return fb_arrow_cell_put_integer(self, (int32_t)fb_load_be32(from), refusal);
    case FB_TYPE_LONG: return fb_arrow_cell_put_integer(self, (int64_t)fb_load_be64(from), refusal);
    case FB_TYPE_FLOAT: return fb_arrow_cell_put_float(self, fb_number_float(fb_load_be32(from)), refusal);
    case FB_TYPE_DOUBLE: return fb_arrow_cell_put_float(self, fb_number_double(fb_load_be64(from)), refusal);
    case FB_TYPE_BIG_INT: return read_big_int(self, &part, refusal);
    case FB_TYPE_BIG_DEC: return read_big_dec(self, &part, refusal);
    case FB_TYPE_VOID: return fb_arrow_builder_put_null(self);
    default: return read_time_cell(self, from, refusal);
  }
}

static int read_cell(struct fb_arrow_builder* self, struct fb_data_input* input,
                     const struct fb_arrow_refusal* refusal) {
  const uint8_t* from = input->pos;
  int code;

  if (self->column->nullable != NULL) {
    if (input->pos == input->end) return fb_arrow_cell_refuse(self, refusal, FB_ETRUNCATED, NULL);
    if (*from == 1) {
      code = fb_type_skip(self->column->nullable, input);
      return code == FB_OK ? fb_arrow_builder_put_null(self) : fb_arrow_cell_refuse(self, refusal, code, NULL);
    }
    if (*from != 0) return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, NULL);
    input->pos++;
  }
  switch (self->column->arrow.kind) {
    case FB_ARROW_NULL:
      code = fb_type_skip(self->column->type, input);
      if (self->column->is_skipped && code != FB_OK) return fb_arrow_cell_refuse(self, refusal, code, NULL);
      return code == FB_OK && (self->column->is_skipped || self->column->type->kind == FB_TYPE_VOID)
                 ? fb_arrow_builder_put_null(self)
                 : fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a value in a column of nulls");
    case FB_ARROW_TEXT:
    case FB_ARROW_LARGE_TEXT: return read_text_cell(self, input, refusal);
    case FB_ARROW_BINARY:
    case FB_ARROW_LARGE_BINARY:
    case FB_ARROW_FIXED_BINARY: return read_byte_cell(self, input, refusal);
    case FB_ARROW_DAY_TIME:
    case FB_ARROW_MONTH_DAY_NANO:
      from = input->pos;
      code = fb_type_skip(self->column->type, input);
      return code == FB_OK ? read_interval(self, from, refusal) : fb_arrow_cell_refuse(self, refusal, code, NULL);
    case FB_ARROW_LIST:
    case FB_ARROW_LARGE_LIST:
    case FB_ARROW_FIXED_LIST: return read_list_cell(self, input, refusal);
    case FB_ARROW_STRUCT: return read_row_cell(self, input, refusal);
    case FB_ARROW_MAP: return read_map_cell(self, input, refusal);
    default: return read_leaf_cell(self, input, refusal);
  }
}

int fb_arrow_cell_read(struct fb_arrow_builder* self, struct fb_data_input* input, const struct fb_arrow_builder** at,
                       const char** reason) {
  struct fb_arrow_refusal refusal = {at, reason};

  *at = self;
  *reason = NULL;
  return read_cell(self, input, &refusal);
}
