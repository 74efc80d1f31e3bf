#include "columns/arrow_value.h"

#include "record/key_group.h"
#include "value/calendar.h"
#include "value/number.h"

#define MIN_EPOCH_SECOND (-31557014167219200LL) /* java.time.Instant.MIN and MAX */
#define MAX_EPOCH_SECOND 31556889864403199LL
#define MAX_DAYS         365241780471LL /* 999999999-12-31; the first day is 365243219162 days before 1970 */
#define MIN_DAYS         (-365243219162LL)
#define SECONDS_PER_DAY  86400
#define MAX_TEXT         (INT32_MAX - 1)

static int64_t refuse_slot(const struct fb_arrow_column* column, struct fb_arrow_fault* fault, const char* reason) {
  fault->column = column;
  fault->reason = reason;
  return -1;
}

static int64_t refuse_null_slot(const struct fb_arrow_column* column, struct fb_arrow_fault* fault) {
  return refuse_slot(column, fault, "null, for which the type has no form in this place");
}

/* ---- text ------------------------------------------------------------------------------------------- */

/* The next code point; false: no UTF-8. */
static inline bool next_utf8_point(const uint8_t** from, const uint8_t* end, uint32_t* point) {
  const uint8_t* pos = *from;
  uint32_t first = *pos++, rest;
  unsigned more;

  if (first < 0x80) return *point = first, *from = pos, true;
  if (first < 0xc2 || first > 0xf4) return false;
  more = 1u + (first >= 0xe0) + (first >= 0xf0);
  if ((size_t)(end - pos) < more) return false;
  rest = first & (0x3fu >> more);
  for (unsigned i = 0; i < more; i++) {
    if ((pos[i] & 0xc0) != 0x80) return false;
    rest = rest << 6 | (pos[i] & 0x3fu);
  }
  if (more == 2 && (rest < 0x800 || rest >> 11 == 0xd800u >> 11)) return false;
  if (more == 3 && (rest < 0x10000 || rest > 0x10ffff)) return false;
  *point = rest;
  *from = pos + more;
  return true;
}

/* UTF-16 units, and bytes that they take. */
static bool measure_utf8(const uint8_t* text, size_t size, uint64_t* units, uint64_t* bytes) {
  const uint8_t* end = text + size;
  uint32_t point = 0;

  *units = *bytes = 0;
  while (text < end) {
    if (!next_utf8_point(&text, end, &point)) return false;
    *units += 1u + (point > 0xffff);
    *bytes += point > 0xffff ? 6 : 1u + (point >= 0x80) + (point >= 0x4000);
  }
  return true;
}

/* A STRING counts one more than its units, and has 0 for null. */
static inline bool has_null_text(const struct fb_type* type) { return type->kind != FB_TYPE_STRING_VALUE; }

/* Bytes of a text whose UTF-8 is not known to be ASCII; -1: it is no UTF-8. */
static int64_t size_utf8(const struct fb_type* type, const uint8_t* text, size_t size) {
  uint64_t units = size, bytes = size;

  if (!fb_text_is_ascii(text, size) && !measure_utf8(text, size, &units, &bytes)) return -1;
  return (int64_t)(fb_text_varint_size(units + has_null_text(type)) + bytes);
}

static uint8_t* put_utf8_text(const struct fb_type* type, const uint8_t* text, size_t size, uint8_t* to) {
  const uint8_t* end = text + size;
  uint64_t units = size, bytes = size;
  uint32_t point = 0;
  bool is_ascii = fb_text_is_ascii(text, size);

  if (!is_ascii) measure_utf8(text, size, &units, &bytes);
  to = fb_text_write_varint((uint32_t)units + has_null_text(type), to);
  if (is_ascii) return fb_text_copy(to, text, size), to + size;
  while (text < end && next_utf8_point(&text, end, &point)) to = fb_text_encode(&point, 1, 4, to);
  return to;
}

int32_t fb_arrow_value_text_hash(const uint8_t* text, size_t size) {
  const uint8_t* end = text + size;
  uint32_t point = 0, h = 0;

  if (fb_text_is_ascii(text, size)) return fb_key_group_hash_latin1(text, size);
  while (text < end && next_utf8_point(&text, end, &point)) {
    if (point > 0xffff) {
      h = 31 * h + (0xd7c0u + (point >> 10));
      point = 0xdc00u | (point & 0x3ffu);
    }
    h = 31 * h + point;
  }
  return (int32_t)h;
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

float fb_arrow_value_half(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu, wide;
  float value;

  if (exponent == 0x1f) wide = 0x7f800000u | fraction << 13;
  else if (exponent != 0) wide = (exponent + 112) << 23 | fraction << 13;
  else {
    value = (float)fraction * 0x1p-24f;
    memcpy(&wide, &value, 4);
  }
  wide |= sign;
  memcpy(&value, &wide, 4);
  return value;
}

double fb_arrow_value_float(const struct fb_arrow_column* column, int64_t i) {
  int64_t at = column->offset + i;
  uint16_t half;
  float single;
  double value;

  if (column->arrow.width == 8) return memcpy(&value, column->values + 8 * at, 8), value;
  if (column->arrow.width == 4) return memcpy(&single, column->values + 4 * at, 4), single;
  memcpy(&half, column->values + 2 * at, 2);
  return fb_arrow_value_half(half);
}

static int64_t load_integer_slot(const struct fb_arrow_column* column, int64_t i) {
  return fb_arrow_column_integer(column->values, column->arrow.width, column->arrow.is_signed, column->offset + i);
}

/* A number of any width as 33 bytes of two's complement, the last one first. */
struct big {
  uint8_t bytes[33];
};

static void load_big_slot(const struct fb_arrow_column* column, int64_t i, struct big* big) {
  uint32_t width = column->arrow.width;
  const uint8_t* from = column->values + (column->offset + i) * (int64_t)width;
  bool is_signed = column->arrow.kind == FB_ARROW_DECIMAL || column->arrow.is_signed;

  memset(big->bytes, is_signed && (from[width - 1] & 0x80) ? 0xff : 0, sizeof big->bytes);
  memcpy(big->bytes, from, width);
}

/* How many of the bytes are needed. */
static uint32_t big_size(const struct big* big) {
  uint8_t fill = (uint8_t)((int8_t)big->bytes[32] >> 7);
  uint32_t size = 33;

  while (size > 1 && big->bytes[size - 1] == fill && ((big->bytes[size - 2] ^ fill) & 0x80) == 0) size--;
  return size;
}

/* Flink's short forms of 0, 1 and 10; else 0. */
static uint32_t big_form(const struct big* big, uint32_t size) {
  if (size > 1) return 0;
  return big->bytes[0] == 0 ? 1 : big->bytes[0] == 1 ? 2 : big->bytes[0] == 10 ? 3 : 0;
}

static int64_t size_big(const struct fb_arrow_column* column, int64_t i) {
  struct big big;
  uint32_t size;

  load_big_slot(column, i, &big);
  size = big_size(&big);
  return 4 + (big_form(&big, size) != 0 ? 0 : size);
}

static uint8_t* put_big_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  struct big big;
  uint32_t size, form;

  load_big_slot(column, i, &big);
  size = big_size(&big);
  form = big_form(&big, size);
  fb_store_be32(to, form != 0 ? form : size + 4);
  to += 4;
  if (form != 0) return to;
  for (uint32_t k = 0; k < size; k++) to[k] = big.bytes[size - 1 - k];
  return to + size;
}

/* ---- time ------------------------------------------------------------------------------------------- */

static uint8_t* put_time_of_day(uint32_t second, uint32_t nano, uint8_t* to) {
  to[0] = (uint8_t)(second / 3600);
  to[1] = (uint8_t)(second / 60 % 60);
  to[2] = (uint8_t)(second % 60);
  fb_store_be32(to + 3, nano);
  return to + 7;
}

static int64_t load_time_slot(const struct fb_arrow_column* column, int64_t i) {
  return fb_arrow_column_integer(column->values, column->arrow.width, true, column->offset + i);
}

static void split_second(const struct fb_arrow_column* column, int64_t i, int64_t* second, uint32_t* nano) {
  int64_t value = load_time_slot(column, i), unit = column->arrow.per_second;

  *second = fb_calendar_floor_div(value, unit);
  *nano = (uint32_t)((value - *second * unit) * (1000000000 / unit));
}

static int64_t check_time_slot(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  int64_t value = load_time_slot(column, i), second;
  uint32_t nano;

  switch (column->arrow.kind) {
    case FB_ARROW_DATE:
      if (column->arrow.width == 8 && value % FB_CALENDAR_DAY_MILLIS != 0)
        return refuse_slot(column, fault, "milliseconds that are no whole day");
      return 0; /* so many days are within java.time's years, whatever the number */
    case FB_ARROW_TIME:
      if (value < 0 || value >= SECONDS_PER_DAY * column->arrow.per_second)
        return refuse_slot(column, fault, "a time that is not within one day");
      return 0;
    default:
      split_second(column, i, &second, &nano);
      if (column->type->kind == FB_TYPE_INSTANT
              ? second < MIN_EPOCH_SECOND || second > MAX_EPOCH_SECOND
              : second < MIN_DAYS * SECONDS_PER_DAY || second >= (MAX_DAYS + 1) * SECONDS_PER_DAY)
        return refuse_slot(column, fault, "a point in time outside the years that Java knows");
      return 0;
  }
}

static uint8_t* put_time_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  int64_t value, second, days;
  uint32_t nano;

  switch (column->arrow.kind) {
    case FB_ARROW_DATE:
      value = load_time_slot(column, i);
      return fb_calendar_put_date(column->arrow.width == 4 ? value : value / FB_CALENDAR_DAY_MILLIS, to);
    case FB_ARROW_TIME: split_second(column, i, &second, &nano); return put_time_of_day((uint32_t)second, nano, to);
    default:
      split_second(column, i, &second, &nano);
      if (column->type->kind == FB_TYPE_INSTANT) {
        fb_store_be64(to, (uint64_t)second);
        fb_store_be32(to + 8, nano);
        return to + 12;
      }
      days = fb_calendar_floor_div(second, SECONDS_PER_DAY);
      return put_time_of_day((uint32_t)(second - days * SECONDS_PER_DAY), nano, fb_calendar_put_date(days, to));
  }
}

/* DAY_TIME and MONTH_DAY_NANO are rows of two and three numbers; neither is null. */
static uint8_t* put_interval_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  const uint8_t* from = column->values + (column->offset + i) * (int64_t)column->arrow.width;
  uint32_t narrow[2];
  uint64_t nanos;

  memcpy(narrow, from, 8);
  *to++ = 0;
  fb_store_be32(to, narrow[0]);
  fb_store_be32(to + 4, narrow[1]);
  if (column->arrow.kind == FB_ARROW_DAY_TIME) return to + 8;
  memcpy(&nanos, from + 8, 8);
  fb_store_be64(to + 8, nanos);
  return to + 16;
}

/* ---- values with parts ------------------------------------------------------------------------------ */

/* A value that is not null, in the column where it lies. */
static int64_t size_present_slot(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault);
static uint8_t* put_present_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to);

static inline int64_t add_size(int64_t sum, int64_t size) { return size < 0 ? size : sum + size; }

/* An element, or the value of a map: a flag, and what is not null. */
static int64_t size_flagged(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  return fb_arrow_column_resolve(&column, &i) ? add_size(1, size_present_slot(column, i, fault)) : 1;
}

static uint8_t* put_flagged_slot(const struct fb_arrow_column* column, int64_t i, bool flag_of_null, uint8_t* to) {
  bool is_null = !fb_arrow_column_resolve(&column, &i);

  *to++ = is_null == flag_of_null;
  return is_null ? to : put_present_slot(column, i, to);
}

static int64_t size_list_slot(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);
  bool is_flagged = column->type->kind == FB_TYPE_OBJECT_ARRAY;
  int64_t sum = 4;

  if (span.count > INT32_MAX) return refuse_slot(column, fault, "a list of 2^31 elements or more");
  for (int64_t k = span.start; sum >= 0 && k < span.start + span.count; k++)
    sum = add_size(
        sum, is_flagged ? size_flagged(column->children, k, fault) : fb_arrow_value_size(column->children, k, fault));
  return sum;
}

static uint8_t* put_list_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);
  bool is_flagged = column->type->kind == FB_TYPE_OBJECT_ARRAY;

  fb_store_be32(to, (uint32_t)span.count);
  to += 4;
  for (int64_t k = span.start; k < span.start + span.count; k++)
    to = is_flagged ? put_flagged_slot(column->children, k, false, to) : fb_arrow_value_put(column->children, k, to);
  return to;
}

static int64_t size_map_slot(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);
  int64_t sum = 4;

  for (int64_t k = span.start; sum >= 0 && k < span.start + span.count; k++) {
    sum = add_size(sum, fb_arrow_value_size(&column->children[0], k, fault));
    if (sum >= 0) sum = add_size(sum, size_flagged(&column->children[1], k, fault));
  }
  return sum;
}

static uint8_t* put_map_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);

  fb_store_be32(to, (uint32_t)span.count);
  to += 4;
  for (int64_t k = span.start; k < span.start + span.count; k++) {
    to = fb_arrow_value_put(&column->children[0], k, to);
    to = put_flagged_slot(&column->children[1], k, true, to);
  }
  return to;
}

int64_t fb_arrow_value_row_size(const struct fb_arrow_column* row, int64_t i, struct fb_arrow_fault* fault) {
  bool has_mask = row->type->kind == FB_TYPE_ROW;
  int64_t sum = has_mask ? ((int64_t)row->child_count + 9) / 8 : 0;

  for (uint32_t k = 0; sum >= 0 && k < row->child_count; k++) {
    const struct fb_arrow_column* field = &row->children[k];
    int64_t at = i;
    if (!has_mask) sum = add_size(sum, fb_arrow_value_size(field, at, fault));
    else if (fb_arrow_column_resolve(&field, &at))
      sum = add_size(sum + (row->children[k].nullable != NULL), size_present_slot(field, at, fault));
    else if (row->children[k].is_required) return refuse_slot(&row->children[k], fault, FB_ARROW_COLUMN_NULL);
  }
  return sum;
}

uint8_t* fb_arrow_value_put_row(const struct fb_arrow_column* row, int64_t i, uint8_t* to) {
  bool has_mask = row->type->kind == FB_TYPE_ROW;
  uint8_t* mask = to;

  if (has_mask) {
    size_t size = ((size_t)row->child_count + 9) / 8;
    memset(to, 0, size);
    to += size;
  }
  for (uint32_t k = 0; k < row->child_count; k++) {
    const struct fb_arrow_column* field = &row->children[k];
    int64_t at = i;
    if (!has_mask) to = fb_arrow_value_put(field, at, to);
    else if (fb_arrow_column_resolve(&field, &at))
      to = row->children[k].nullable != NULL ? fb_arrow_value_put(&row->children[k], i, to)
                                             : put_present_slot(field, at, to);
    else mask[(k + 2) / 8] |= (uint8_t)(0x80u >> ((k + 2) % 8));
  }
  return to;
}

/* ---- any value -------------------------------------------------------------------------------------- */

static int64_t size_text_slot(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  size_t size;
  const uint8_t* text = fb_arrow_column_bytes(column, i, &size);
  int64_t bytes = size > MAX_TEXT ? 0 : size_utf8(column->type, text, size);

  if (bytes == 0) return refuse_slot(column, fault, "a text of 2^31 bytes or more");
  return bytes < 0 ? refuse_slot(column, fault, "text that is no UTF-8") : bytes;
}

static int64_t size_present_slot(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  size_t size;

  switch (column->arrow.kind) {
    case FB_ARROW_TEXT:
    case FB_ARROW_LARGE_TEXT:
    case FB_ARROW_TEXT_VIEW: return size_text_slot(column, i, fault);
    case FB_ARROW_BINARY:
    case FB_ARROW_LARGE_BINARY:
    case FB_ARROW_BINARY_VIEW:
    case FB_ARROW_FIXED_BINARY:
      fb_arrow_column_bytes(column, i, &size);
      return size > INT32_MAX ? refuse_slot(column, fault, "2^31 bytes or more") : 4 + (int64_t)size;
    case FB_ARROW_DECIMAL: return size_big(column, i) + 4;
    case FB_ARROW_DATE: return add_size(6, check_time_slot(column, i, fault));
    case FB_ARROW_TIME: return add_size(7, check_time_slot(column, i, fault));
    case FB_ARROW_TIMESTAMP:
      return add_size(column->type->kind == FB_TYPE_INSTANT ? 12 : 13, check_time_slot(column, i, fault));
    case FB_ARROW_DAY_TIME: return 9;
    case FB_ARROW_MONTH_DAY_NANO: return 17;
    case FB_ARROW_LIST:
    case FB_ARROW_LARGE_LIST:
    case FB_ARROW_LIST_VIEW:
    case FB_ARROW_LARGE_LIST_VIEW:
    case FB_ARROW_FIXED_LIST: return size_list_slot(column, i, fault);
    case FB_ARROW_STRUCT: return fb_arrow_value_row_size(column, column->offset + i, fault);
    case FB_ARROW_MAP: return size_map_slot(column, i, fault);
    case FB_ARROW_DICTIONARY: return refuse_slot(column, fault, "an index that points to no value of its dictionary");
    default:
      if (column->type->kind == FB_TYPE_BIG_INT) return size_big(column, i);
      return fb_type_fixed_size(column->type->kind);
  }
}

static uint8_t* put_integer_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  int64_t value = column->arrow.kind == FB_ARROW_DURATION || column->arrow.kind == FB_ARROW_MONTHS
                      ? load_time_slot(column, i)
                      : load_integer_slot(column, i);

  switch (column->type->kind) {
    case FB_TYPE_BYTE: *to = (uint8_t)value; return to + 1;
    case FB_TYPE_SHORT: fb_store_be16(to, (uint16_t)value); return to + 2;
    case FB_TYPE_INT: fb_store_be32(to, (uint32_t)value); return to + 4;
    case FB_TYPE_BIG_INT: return put_big_slot(column, i, to);
    default: fb_store_be64(to, (uint64_t)value); return to + 8;
  }
}

static uint8_t* put_byte_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  size_t size;
  const uint8_t* from = fb_arrow_column_bytes(column, i, &size);

  fb_store_be32(to, (uint32_t)size);
  if (size > 0) memcpy(to + 4, from, size);
  return to + 4 + size;
}

static uint8_t* put_present_slot(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  const uint8_t* text;
  size_t size;
  double value;

  switch (column->arrow.kind) {
    case FB_ARROW_BOOLEAN: *to = fb_arrow_column_bit(column->values, column->offset + i); return to + 1;
    case FB_ARROW_INTEGER:
    case FB_ARROW_DURATION:
    case FB_ARROW_MONTHS: return put_integer_slot(column, i, to);
    case FB_ARROW_FLOAT:
      value = fb_arrow_value_float(column, i);
      if (column->type->kind == FB_TYPE_DOUBLE) return fb_store_be64(to, fb_number_double_bits(value)), to + 8;
      return fb_store_be32(to, fb_number_float_bits(value)), to + 4;
    case FB_ARROW_TEXT:
    case FB_ARROW_LARGE_TEXT:
    case FB_ARROW_TEXT_VIEW:
      text = fb_arrow_column_bytes(column, i, &size);
      return put_utf8_text(column->type, text, size, to);
    case FB_ARROW_DECIMAL:
      to = put_big_slot(column, i, to);
      fb_store_be32(to, (uint32_t)column->arrow.scale);
      return to + 4;
    case FB_ARROW_DATE:
    case FB_ARROW_TIME:
    case FB_ARROW_TIMESTAMP: return put_time_slot(column, i, to);
    case FB_ARROW_DAY_TIME:
    case FB_ARROW_MONTH_DAY_NANO: return put_interval_slot(column, i, to);
    case FB_ARROW_LIST:
    case FB_ARROW_LARGE_LIST:
    case FB_ARROW_LIST_VIEW:
    case FB_ARROW_LARGE_LIST_VIEW:
    case FB_ARROW_FIXED_LIST: return put_list_slot(column, i, to);
    case FB_ARROW_STRUCT: return fb_arrow_value_put_row(column, column->offset + i, to);
    case FB_ARROW_MAP: return put_map_slot(column, i, to);
    default: return put_byte_slot(column, i, to);
  }
}

/* The NULLABLE around the type, if there is one, stands at the column itself, in front of its dictionary. */
int64_t fb_arrow_value_size(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  const struct fb_arrow_column* field = column;
  const struct fb_type* type = column->nullable != NULL ? column->nullable : column->type;

  if (fb_arrow_column_resolve(&field, &i))
    return add_size(column->nullable != NULL, size_present_slot(field, i, fault));
  return fb_arrow_type_null_size(type) < 0 ? refuse_null_slot(column, fault) : fb_arrow_type_null_size(type);
}

uint8_t* fb_arrow_value_put(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  const struct fb_arrow_column* field = column;
  const struct fb_type* type = column->nullable != NULL ? column->nullable : column->type;

  if (!fb_arrow_column_resolve(&field, &i)) return fb_arrow_type_put_null(type, to);
  if (column->nullable != NULL) *to++ = 0;
  return put_present_slot(field, i, to);
}
