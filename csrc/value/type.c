#include "value/type.h"

#include "ground/byte_order.h"
#include "value/binary_row.h"
#include "value/object.h"
#include "value/text.h"

/* java.time's bounds: Instant.MIN and MAX in seconds, Year.MIN_VALUE and MAX_VALUE. */
#define MIN_EPOCH_SECOND (-31557014167219200LL)
#define MAX_EPOCH_SECOND 31556889864403199LL
#define MAX_YEAR         999999999
#define NANOS_PER_SECOND 1000000000
#define NANOS_PER_MILLI  1000000

static const uint8_t fixed_sizes[FB_TYPE_KIND_COUNT] = {
#define X(name, size) size,
    FB_TYPE_KINDS(X)
#undef X
};

uint32_t fb_type_fixed_size(enum fb_type_kind kind) { return fixed_sizes[kind]; }

static uint32_t add_saturated(uint32_t a, uint32_t b) { return a > UINT32_MAX - b ? UINT32_MAX : a + b; }

static uint32_t children_min_size(const struct fb_type* self) {
  uint32_t sum = 0;

  for (uint32_t i = 0; i < self->child_count; i++) sum = add_saturated(sum, self->children[i]->min_size);
  return sum;
}

static uint32_t mask_size(const struct fb_type* row) { return (row->child_count + 2 + 7) / 8; }

void fb_type_measure(struct fb_type* self) {
  uint32_t left, right;

  switch (self->kind) {
    case FB_TYPE_STRING:
    case FB_TYPE_STRING_VALUE:
    case FB_TYPE_OBJECT: self->min_size = 1; break;
    case FB_TYPE_NULL_VALUE: self->min_size = 0; break;
    case FB_TYPE_TUPLE: self->min_size = children_min_size(self); break;
    case FB_TYPE_ROW: self->min_size = mask_size(self); break; /* every field may be null */
    case FB_TYPE_EITHER:
      left = self->children[0]->min_size;
      right = self->children[1]->min_size;
      self->min_size = add_saturated(1, left < right ? left : right);
      break;
    case FB_TYPE_NULLABLE:
      left = self->children[0]->min_size;
      self->min_size = add_saturated(1, left < self->padding ? left : self->padding);
      break;
    case FB_TYPE_STREAM_ELEMENT: self->min_size = 1; break;
    case FB_TYPE_TIMESTAMP_DATA:
    case FB_TYPE_TIMESTAMP_LTZ_DATA: self->min_size = 8; break;
    case FB_TYPE_ROW_DATA: self->min_size = add_saturated(12, self->child_count); break; /* fewer than it takes */
    default: self->min_size = fixed_sizes[self->kind] > 0 ? fixed_sizes[self->kind] : 4; /* a length */
  }
}

/* --- skip: its parts -------------------------------------------------------------------------------- */

static int skip_bytes(struct fb_data_input* input, size_t size) {
  if (fb_data_input_left(input) < size) return FB_ETRUNCATED;
  input->pos += size;
  return FB_OK;
}

/* One byte that is 0 or 1. */
static int skip_flag(struct fb_data_input* input, bool* flag) {
  if (fb_data_input_left(input) < 1) return FB_ETRUNCATED;
  if (*input->pos > 1) return FB_ECORRUPT;
  *flag = *input->pos++ == 1;
  return FB_OK;
}

static int skip_zeros(struct fb_data_input* input, size_t size) {
  if (fb_data_input_left(input) < size) return FB_ETRUNCATED;
  for (; size > 0; size--, input->pos++)
    if (*input->pos != 0) return FB_ECORRUPT;
  return FB_OK;
}

/* A count, checked against the bytes left; an offending one is not passed over. */
static int skip_count(struct fb_data_input* input, uint32_t min_size, uint32_t* count) {
  if (fb_data_input_left(input) < 4) return FB_ETRUNCATED;
  *count = fb_load_be32(input->pos);
  if (*count > INT32_MAX) return FB_ECORRUPT;
  if (!fb_type_fits(*count, min_size, fb_data_input_left(input) - 4))
    return min_size == 0 ? FB_ETOO_LARGE : FB_ETRUNCATED;
  input->pos += 4;
  return FB_OK;
}

/* --- skip: one value of each kind ------------------------------------------------------------------- */

static int skip_string(struct fb_data_input* input, bool has_null) {
  const uint8_t* start = input->pos;
  struct fb_text text;
  uint32_t units;
  int code = fb_text_read_varint(input, &units);

  if (code != FB_OK) return code;
  if (has_null && units-- == 0) return FB_OK; /* null; else one more than the units */
  if (units > fb_data_input_left(input)) return input->pos = start, FB_ETRUNCATED;
  return fb_text_measure(input, units, &text);
}

/* The two's complement of a BigInteger is never empty and never longer than it needs to be. */
static int skip_big_int(struct fb_data_input* input, bool* is_null) {
  uint32_t length;
  const uint8_t* bytes;

  if (fb_data_input_left(input) < 4) return FB_ETRUNCATED;
  length = fb_load_be32(input->pos);
  *is_null = length == 0;
  if (length == 4 || length > INT32_MAX) return FB_ECORRUPT;
  if (length < 4) return skip_bytes(input, 4); /* null, and the short forms of 0, 1 and 10 */
  if (fb_data_input_left(input) - 4 < length - 4) return FB_ETRUNCATED;
  bytes = input->pos + 4;
  if (length > 5 && ((bytes[0] == 0 && bytes[1] < 0x80) || (bytes[0] == 0xff && bytes[1] >= 0x80))) return FB_ECORRUPT;
  input->pos = bytes + (length - 4);
  return FB_OK;
}

static int skip_big_dec(struct fb_data_input* input) {
  bool is_null;
  int code = skip_big_int(input, &is_null);

  return code != FB_OK || is_null ? code : skip_bytes(input, 4);
}

static int skip_instant(struct fb_data_input* input) {
  int64_t second;
  uint32_t nano;

  if (fb_data_input_left(input) < 12) return FB_ETRUNCATED;
  second = (int64_t)fb_load_be64(input->pos);
  nano = fb_load_be32(input->pos + 8);
  if (!(second == INT64_MIN && nano == 0x80000000u) &&
      (second < MIN_EPOCH_SECOND || second > MAX_EPOCH_SECOND || nano >= NANOS_PER_SECOND))
    return FB_ECORRUPT;
  input->pos += 12;
  return FB_OK;
}

static bool is_date(const uint8_t* from) {
  static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int32_t year = (int32_t)fb_load_be32(from);
  unsigned month = from[4], day = from[5];
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

  if (year < -MAX_YEAR || year > MAX_YEAR || month < 1 || month > 12 || day < 1) return false;
  return day <= days[month - 1] + (unsigned)(leap && month == 2);
}

static bool is_time(const uint8_t* from) {
  return from[0] < 24 && from[1] < 60 && from[2] < 60 && fb_load_be32(from + 3) < NANOS_PER_SECOND;
}

static const uint8_t null_date_time[13] = {0x80, 0, 0, 0, 0x80, 0, 0x80, 0x80, 0, 0x80, 0, 0, 0};

/* LOCAL_DATE is the first 6 bytes of this, LOCAL_TIME the other 7. */
static int skip_date_time(struct fb_data_input* input, bool has_date, bool has_time) {
  size_t date_size = has_date ? 6 : 0, size = date_size + (has_time ? 7 : 0);

  if (fb_data_input_left(input) < size) return FB_ETRUNCATED;
  if (memcmp(input->pos, null_date_time + (has_date ? 0 : 6), size) != 0 &&
      ((has_date && !is_date(input->pos)) || (has_time && !is_time(input->pos + date_size))))
    return FB_ECORRUPT;
  input->pos += size;
  return FB_OK;
}

/* java.sql.Timestamp: its milliseconds count the whole ones of its nanoseconds too. */
static int skip_timestamp(struct fb_data_input* input) {
  int64_t millis, milli;
  uint32_t nanos;

  if (fb_data_input_left(input) < 12) return FB_ETRUNCATED;
  millis = (int64_t)fb_load_be64(input->pos);
  nanos = fb_load_be32(input->pos + 8);
  milli = (millis % 1000 + 1000) % 1000;
  if (millis == INT64_MIN ? nanos != 0 : nanos >= NANOS_PER_SECOND || nanos / NANOS_PER_MILLI != milli)
    return FB_ECORRUPT;
  input->pos += 12;
  return FB_OK;
}

static int skip_enum(const struct fb_type* self, struct fb_data_input* input) {
  if (fb_data_input_left(input) < 4) return FB_ETRUNCATED;
  if (fb_load_be32(input->pos) >= self->symbol_count) return FB_ECORRUPT;
  input->pos += 4;
  return FB_OK;
}

static int skip_primitive_array(const struct fb_type* self, struct fb_data_input* input) {
  uint32_t size = self->children[0]->min_size, count;
  int code = skip_count(input, size, &count);

  if (code != FB_OK) return code;
  if (self->children[0]->kind != FB_TYPE_BOOLEAN) return skip_bytes(input, (size_t)count * size);
  for (; count > 0; count--, input->pos++)
    if (*input->pos > 1) return FB_ECORRUPT;
  return FB_OK;
}

static int skip_strings(struct fb_data_input* input) {
  uint32_t count;
  int code = skip_count(input, 1, &count);

  for (; code == FB_OK && count > 0; count--) code = skip_string(input, true);
  return code;
}

static int skip_list(const struct fb_type* self, struct fb_data_input* input) {
  uint32_t count;
  int code = skip_count(input, self->children[0]->min_size, &count);

  for (; code == FB_OK && count > 0; count--) code = fb_type_skip(self->children[0], input);
  return code;
}

/* A flag before each element: SET says with 1 that it is null, OBJECT_ARRAY that it is not. */
static int skip_flagged(const struct fb_type* self, struct fb_data_input* input, bool flag_of_null) {
  uint32_t count;
  bool flag = false;
  int code = skip_count(input, 1, &count);

  for (; code == FB_OK && count > 0; count--) {
    code = skip_flag(input, &flag);
    if (code == FB_OK && flag != flag_of_null) code = fb_type_skip(self->children[0], input);
  }
  return code;
}

static int skip_map(const struct fb_type* self, struct fb_data_input* input) {
  uint32_t count;
  bool is_null = false;
  int code = skip_count(input, add_saturated(self->children[0]->min_size, 1), &count);

  for (; code == FB_OK && count > 0; count--) {
    code = fb_type_skip(self->children[0], input);
    if (code == FB_OK) code = skip_flag(input, &is_null);
    if (code == FB_OK && !is_null) code = fb_type_skip(self->children[1], input);
  }
  return code;
}

static int skip_tuple(const struct fb_type* self, struct fb_data_input* input) {
  int code = FB_OK;

  for (uint32_t i = 0; code == FB_OK && i < self->child_count; i++) code = fb_type_skip(self->children[i], input);
  return code;
}

/* The mask: 2 bits of RowKind, a null bit for each field, most significant bit first, then zeros. */
static int skip_row(const struct fb_type* self, struct fb_data_input* input) {
  const uint8_t* mask = input->pos;
  uint32_t size = mask_size(self), bits = self->child_count + 2;
  int code = skip_bytes(input, size);

  if (code != FB_OK) return code;
  if (bits % 8 != 0 && (mask[size - 1] & (0xffu >> (bits % 8))) != 0) return input->pos = mask + size - 1, FB_ECORRUPT;
  for (uint32_t i = 0, bit = 2; code == FB_OK && i < self->child_count; i++, bit++)
    if ((mask[bit / 8] & (0x80u >> (bit % 8))) == 0) code = fb_type_skip(self->children[i], input);
  return code;
}

static int skip_either(const struct fb_type* self, struct fb_data_input* input) {
  bool is_left = false;
  int code = skip_flag(input, &is_left);

  return code == FB_OK ? fb_type_skip(self->children[is_left ? 0 : 1], input) : code;
}

static int skip_nullable(const struct fb_type* self, struct fb_data_input* input) {
  bool is_null = false;
  int code = skip_flag(input, &is_null);

  if (code != FB_OK) return code;
  return is_null ? skip_zeros(input, self->padding) : fb_type_skip(self->children[0], input);
}

static int skip_stream_element(const struct fb_type* self, struct fb_data_input* input) {
  const uint8_t* tag = input->pos;
  bool backlog;
  int code = skip_bytes(input, 1);

  if (code != FB_OK) return code;
  switch (*tag) {
    case FB_ELEMENT_RECORD_WITH_TIMESTAMP:
      code = skip_bytes(input, 8);
      return code == FB_OK ? fb_type_skip(self->children[0], input) : code;
    case FB_ELEMENT_RECORD: return fb_type_skip(self->children[0], input);
    case FB_ELEMENT_WATERMARK: return skip_bytes(input, 8);
    case FB_ELEMENT_LATENCY_MARKER: return skip_bytes(input, 28);
    case FB_ELEMENT_WATERMARK_STATUS:
      if (fb_data_input_left(input) < 4) return FB_ETRUNCATED;
      if (fb_load_be32(input->pos) + 1 > 1) return FB_ECORRUPT; /* 0 active, -1 idle */
      return skip_bytes(input, 4);
    case FB_ELEMENT_RECORD_ATTRIBUTES: return skip_flag(input, &backlog);
    case FB_ELEMENT_INTERNAL_WATERMARK: return skip_bytes(input, 12);
    default: return input->pos = tag, FB_ECORRUPT;
  }
}

static int skip_sized_bytes(struct fb_data_input* input) {
  uint32_t size;
  int code = skip_count(input, 1, &size);

  return code == FB_OK ? skip_bytes(input, size) : code;
}

/* --- skip: the table runtime's ---------------------------------------------------------------------- */

uint32_t fb_type_slot_width(const struct fb_type* self) {
  switch (self->kind) {
    case FB_TYPE_BOOLEAN:
    case FB_TYPE_BYTE: return 1;
    case FB_TYPE_SHORT: return 2;
    case FB_TYPE_INT:
    case FB_TYPE_FLOAT:
    case FB_TYPE_DATE_DATA:
    case FB_TYPE_TIME_DATA: return 4;
    default: return 8;
  }
}

bool fb_type_is_compact(const struct fb_type* self) {
  if (self->kind == FB_TYPE_DECIMAL_DATA) return self->precision <= FB_BINARY_ROW_MAX_COMPACT;
  return self->precision <= FB_BINARY_ROW_MILLIS;
}

static bool is_time_of_day(uint64_t millis) { return millis < 86400000; }

/* A slot that is not null. */
static int check_slot(const struct fb_type* self, struct fb_binary_section* section, uint32_t i) {
  uint64_t slot = fb_binary_row_load_slot(section, i), size;
  const uint8_t* part;
  fb_wide_int unscaled;
  int64_t millis;
  uint32_t nanos;
  int code;

  switch (self->kind) {
    case FB_TYPE_VOID: return FB_ECORRUPT;
    case FB_TYPE_BOOLEAN: return (uint8_t)slot > 1 ? FB_ECORRUPT : FB_OK;
    case FB_TYPE_TIME_DATA: return is_time_of_day((uint32_t)slot) ? FB_OK : FB_ECORRUPT;
    case FB_TYPE_STRING_DATA:
      code = fb_binary_row_take_bytes(section, i, &part, &size);
      return code == FB_OK && !fb_text_is_utf8(part, size) ? FB_ECORRUPT : code;
    case FB_TYPE_PRIMITIVE_ARRAY: return fb_binary_row_take_bytes(section, i, &part, &size);
    case FB_TYPE_DECIMAL_DATA:
      if (!fb_type_is_compact(self)) return fb_binary_row_take_decimal(section, i, self->precision, &unscaled);
      return fb_binary_row_has_digits((int64_t)slot, self->precision) ? FB_OK : FB_ECORRUPT;
    case FB_TYPE_TIMESTAMP_DATA:
    case FB_TYPE_TIMESTAMP_LTZ_DATA:
      return fb_type_is_compact(self) ? FB_OK : fb_binary_row_take_timestamp(section, i, &millis, &nanos);
    case FB_TYPE_ARRAY_DATA:
    case FB_TYPE_MAP_DATA:
    case FB_TYPE_ROW_DATA:
      code = fb_binary_row_take_part(section, i, &part, &size);
      if (code != FB_OK) return code;
      if (self->kind == FB_TYPE_ARRAY_DATA) return fb_type_check_array(self, part, size);
      if (self->kind == FB_TYPE_MAP_DATA) return fb_type_check_map(self, part, size);
      return fb_type_check_row(self, part, size);
    default: return FB_OK;
  }
}

static int check_elements(const struct fb_type* element, struct fb_binary_section* section) {
  int code = FB_OK;

  for (uint32_t i = 0; code == FB_OK && i < section->count; i++)
    if (!fb_binary_row_is_null(section, i)) code = check_slot(element, section, i);
  return code;
}

int fb_type_check_row(const struct fb_type* self, const uint8_t* start, uint64_t size) {
  struct fb_binary_section row;
  int code = fb_binary_row_open(start, size, self->child_count, &row);

  for (uint32_t i = 0; code == FB_OK && i < row.count; i++)
    if (!fb_binary_row_is_null(&row, i)) code = check_slot(self->children[i], &row, i);
  return code;
}

int fb_type_check_array(const struct fb_type* self, const uint8_t* start, uint64_t size) {
  struct fb_binary_section array;
  int code = fb_binary_row_open_array(start, size, fb_type_slot_width(self->children[0]), &array);

  return code == FB_OK ? check_elements(self->children[0], &array) : code;
}

int fb_type_check_map(const struct fb_type* self, const uint8_t* start, uint64_t size) {
  struct fb_binary_section keys, values;
  int code = fb_binary_row_open_map(start, size, fb_type_slot_width(self->children[0]),
                                    fb_type_slot_width(self->children[1]), &keys, &values);

  if (code == FB_OK) code = check_elements(self->children[0], &keys);
  return code == FB_OK ? check_elements(self->children[1], &values) : code;
}

/* What has 4 length bytes in front. What is wrong inside is said of its beginning. */
static int skip_sized_data(const struct fb_type* self, struct fb_data_input* input) {
  const uint8_t* start = input->pos;
  uint32_t size;
  int code = skip_count(input, 1, &size);

  if (code != FB_OK) return code;
  switch (self->kind) {
    case FB_TYPE_STRING_DATA: code = fb_text_is_utf8(input->pos, size) ? FB_OK : FB_ECORRUPT; break;
    case FB_TYPE_DECIMAL_DATA:
      if (size < 1 || size > 16 ||
          !fb_binary_row_has_digits(fb_binary_row_load_digits(input->pos, size), self->precision))
        code = FB_ECORRUPT;
      break;
    case FB_TYPE_ARRAY_DATA: code = fb_type_check_array(self, input->pos, size); break;
    case FB_TYPE_MAP_DATA: code = fb_type_check_map(self, input->pos, size); break;
    default: code = fb_type_check_row(self, input->pos, size);
  }
  if (code != FB_OK) return input->pos = start, FB_ECORRUPT; /* all its bytes are there */
  input->pos += size;
  return FB_OK;
}

static int skip_fixed_data(const struct fb_type* self, struct fb_data_input* input) {
  bool is_timestamp = self->kind == FB_TYPE_TIMESTAMP_DATA || self->kind == FB_TYPE_TIMESTAMP_LTZ_DATA;
  size_t size = self->kind == FB_TYPE_TIME_DATA ? 4 : is_timestamp && !fb_type_is_compact(self) ? 12 : 8;

  if (fb_data_input_left(input) < size) return FB_ETRUNCATED;
  if ((size == 4 && !is_time_of_day(fb_load_be32(input->pos))) ||
      (size == 12 && fb_load_be32(input->pos + 8) > FB_BINARY_ROW_MAX_NANOS) ||
      (!is_timestamp && size == 8 && !fb_binary_row_has_digits((int64_t)fb_load_be64(input->pos), self->precision)))
    return FB_ECORRUPT;
  input->pos += size;
  return FB_OK;
}

int fb_type_skip(const struct fb_type* self, struct fb_data_input* input) {
  bool flag;

  switch (self->kind) {
    case FB_TYPE_BOOLEAN: return skip_flag(input, &flag);
    case FB_TYPE_VOID: return skip_zeros(input, 1);
    case FB_TYPE_NULL_VALUE: return FB_OK;
    case FB_TYPE_STRING: return skip_string(input, true);
    case FB_TYPE_STRING_VALUE: return skip_string(input, false);
    case FB_TYPE_BIG_INT: return skip_big_int(input, &flag);
    case FB_TYPE_BIG_DEC: return skip_big_dec(input);
    case FB_TYPE_INSTANT: return skip_instant(input);
    case FB_TYPE_LOCAL_DATE: return skip_date_time(input, true, false);
    case FB_TYPE_LOCAL_TIME: return skip_date_time(input, false, true);
    case FB_TYPE_LOCAL_DATE_TIME: return skip_date_time(input, true, true);
    case FB_TYPE_SQL_TIMESTAMP: return skip_timestamp(input);
    case FB_TYPE_ENUM: return skip_enum(self, input);
    case FB_TYPE_PICKLED_BYTES: return skip_sized_bytes(input);
    case FB_TYPE_OBJECT: return fb_object_skip(input, false);
    case FB_TYPE_PRIMITIVE_ARRAY: return skip_primitive_array(self, input);
    case FB_TYPE_STRING_ARRAY: return skip_strings(input);
    case FB_TYPE_OBJECT_ARRAY: return skip_flagged(self, input, false);
    case FB_TYPE_SET: return skip_flagged(self, input, true);
    case FB_TYPE_LIST: return skip_list(self, input);
    case FB_TYPE_MAP: return skip_map(self, input);
    case FB_TYPE_TUPLE: return skip_tuple(self, input);
    case FB_TYPE_ROW: return skip_row(self, input);
    case FB_TYPE_EITHER: return skip_either(self, input);
    case FB_TYPE_NULLABLE: return skip_nullable(self, input);
    case FB_TYPE_STREAM_ELEMENT: return skip_stream_element(self, input);
    case FB_TYPE_DECIMAL_DATA:
      return fb_type_is_compact(self) ? skip_fixed_data(self, input) : skip_sized_data(self, input);
    case FB_TYPE_TIME_DATA:
    case FB_TYPE_TIMESTAMP_DATA:
    case FB_TYPE_TIMESTAMP_LTZ_DATA: return skip_fixed_data(self, input);
    case FB_TYPE_STRING_DATA:
    case FB_TYPE_ARRAY_DATA:
    case FB_TYPE_MAP_DATA:
    case FB_TYPE_ROW_DATA: return skip_sized_data(self, input);
    default: return skip_bytes(input, fixed_sizes[self->kind]);
  }
}
