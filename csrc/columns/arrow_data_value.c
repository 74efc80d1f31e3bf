#include "columns/arrow_data_value.h"

#include "columns/arrow_value.h"
#include "value/calendar.h"
#include "value/number.h"

#define NANOS_PER_SECOND 1000000000

static int64_t refuse_data(const struct fb_arrow_column* column, struct fb_arrow_fault* fault, const char* reason) {
  fault->column = column;
  fault->reason = reason;
  return -1;
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

static int64_t load_data_integer(const struct fb_arrow_column* column, int64_t i) {
  bool is_signed = column->arrow.kind != FB_ARROW_INTEGER || column->arrow.is_signed;

  return fb_arrow_column_integer(column->values, column->arrow.width, is_signed, column->offset + i);
}

/* The bits of a FLOAT or DOUBLE. */
static uint64_t load_data_float(const struct fb_arrow_column* column, int64_t i) {
  int64_t at = column->offset + i;
  uint64_t bits;
  uint32_t narrow;
  uint16_t half;
  float value;

  switch (column->arrow.width) {
    case 8: memcpy(&bits, column->values + 8 * at, 8); return fb_number_java_double(bits);
    case 4: memcpy(&value, column->values + 4 * at, 4); break;
    default: memcpy(&half, column->values + 2 * at, 2); value = fb_arrow_value_half(half);
  }
  if (column->type->kind == FB_TYPE_DOUBLE) return fb_number_double_bits((double)value);
  memcpy(&narrow, &value, 4);
  return fb_number_java_float(narrow);
}

/* A number of the type's scale; false: it has more digits than the type. */
static bool load_data_decimal(const struct fb_arrow_column* column, int64_t i, fb_wide_int* unscaled) {
  uint32_t width = column->arrow.width;
  const uint8_t* from = column->values + (column->offset + i) * (int64_t)width;
  int64_t scale = column->arrow.kind == FB_ARROW_DECIMAL ? column->arrow.scale : 0;

  if (column->arrow.kind != FB_ARROW_DECIMAL) {
    int64_t number = load_data_integer(column, i);
    *unscaled = column->arrow.is_signed ? (fb_wide_int)number : (fb_wide_int)(uint64_t)number;
  } else if (width < 16) {
    *unscaled = fb_arrow_column_integer(column->values, width, true, column->offset + i);
  } else {
    memcpy(unscaled, from, 16);
    for (uint32_t k = 16; k < width; k++)
      if (from[k] != (*unscaled < 0 ? 0xff : 0)) return false;
  }
  return fb_binary_row_rescale(unscaled, scale, column->type->scale) &&
         fb_binary_row_has_digits(*unscaled, column->type->precision);
}

/* ---- time ------------------------------------------------------------------------------------------- */

/* What stands in the slot of a date, time or timestamp, and nanoseconds; not NULL: why it cannot. */
static const char* load_data_moment(const struct fb_arrow_column* column, int64_t i, int64_t* value, uint32_t* nanos) {
  int64_t found = fb_arrow_column_integer(column->values, column->arrow.width, true, column->offset + i);
  int64_t unit = column->arrow.per_second, rest;

  *nanos = 0;
  if (column->arrow.kind == FB_ARROW_DATE) {
    *value = column->arrow.width == 4 ? found : found / FB_CALENDAR_DAY_MILLIS;
    if (column->arrow.width == 8 && found % FB_CALENDAR_DAY_MILLIS != 0) return "milliseconds that are no whole day";
    return *value < INT32_MIN || *value > INT32_MAX ? "a date whose days do not fit 32 bits" : NULL;
  }
  if (unit <= 1000) {
    if (__builtin_mul_overflow(found, 1000 / unit, value))
      return "a point in time whose milliseconds do not fit 64 bits";
  } else {
    *value = fb_calendar_floor_div(found, unit / 1000);
    rest = found - *value * (unit / 1000);
    *nanos = (uint32_t)(rest * (NANOS_PER_SECOND / unit));
  }
  if (column->type->kind == FB_TYPE_TIME_DATA) {
    if (*value < 0 || *value >= FB_CALENDAR_DAY_MILLIS) return "a time that is not within one day";
    return *nanos != 0 ? "a time with more than milliseconds, which the type would lose" : NULL;
  }
  return *nanos != 0 && fb_type_is_compact(column->type)
             ? "a timestamp with more than milliseconds, which the type would lose"
             : NULL;
}

/* ---- values with parts ------------------------------------------------------------------------------ */

static int64_t size_present_data(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault);

static int64_t add_part_size(int64_t sum, int64_t part, const struct fb_arrow_column* column,
                             struct fb_arrow_fault* fault) {
  if (part < 0) return part;
  return sum + part > INT32_MAX ? refuse_data(column, fault, "a value of 2^31 bytes or more") : sum + part;
}

/* Of the elements of a list, or of the keys or values of a map. */
static int64_t size_elements(const struct fb_arrow_column* column, const struct fb_arrow_column* element,
                             struct fb_arrow_span span, struct fb_arrow_fault* fault) {
  int64_t sum;

  if (span.count > INT32_MAX / 8) return refuse_data(column, fault, "2^28 elements or more");
  sum = (int64_t)fb_binary_row_array_fixed_size((uint64_t)span.count, fb_type_slot_width(element->type));
  for (int64_t k = span.start; sum >= 0 && k < span.start + span.count; k++)
    sum = add_part_size(sum, fb_arrow_data_value_size(element, k, fault), element, fault);
  return sum;
}

static int64_t size_map_data(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);
  int64_t keys = size_elements(column, &column->children[0], span, fault), values;

  if (keys < 0) return keys;
  values = size_elements(column, &column->children[1], span, fault);
  return values < 0 ? values : add_part_size(keys + 4, values, column, fault);
}

int64_t fb_arrow_data_value_row_size(const struct fb_arrow_column* row, int64_t i, struct fb_arrow_fault* fault) {
  int64_t sum = (int64_t)fb_binary_row_fixed_size(row->child_count);

  for (uint32_t k = 0; sum >= 0 && k < row->child_count; k++)
    sum = add_part_size(sum, fb_arrow_data_value_size(&row->children[k], i, fault), &row->children[k], fault);
  return sum;
}

static uint8_t* put_element_data(const struct fb_arrow_column* element, struct fb_arrow_span span, uint8_t* to) {
  uint32_t width = fb_type_slot_width(element->type);
  uint64_t count = (uint64_t)span.count, fixed = fb_binary_row_array_fixed_size(count, width);
  uint8_t *slots = to + fb_binary_row_array_head(count), *end = to + fixed;

  memset(to, 0, fixed);
  fb_store_le32(to, (uint32_t)count);
  for (uint64_t k = 0; k < count; k++) {
    uint64_t slot = 0;
    if (fb_arrow_data_value_put(element, span.start + (int64_t)k, to, &end, &slot))
      fb_binary_row_put_slot(slots + k * width, width, slot);
    else to[4 + k / 8] |= (uint8_t)(1u << (k % 8));
  }
  return end;
}

static uint8_t* put_map_data(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);
  uint8_t* end = put_element_data(&column->children[0], span, to + 4);

  fb_store_le32(to, (uint32_t)(end - to - 4));
  return put_element_data(&column->children[1], span, end);
}

uint8_t* fb_arrow_data_value_put_row(const struct fb_arrow_column* row, int64_t i, uint8_t* to) {
  uint64_t nulls = fb_binary_row_null_size(row->child_count);
  uint8_t* end = to + fb_binary_row_fixed_size(row->child_count);

  memset(to, 0, nulls);
  for (uint32_t k = 0; k < row->child_count; k++) {
    uint64_t slot = 0;
    if (!fb_arrow_data_value_put(&row->children[k], i, to, &end, &slot)) to[1 + k / 8] |= (uint8_t)(1u << (k % 8));
    fb_store_le64(to + nulls + 8 * (uint64_t)k, slot);
  }
  return end;
}

/* Rows of two and three numbers, none of them null. */
static uint8_t* put_interval_data(const struct fb_arrow_column* column, int64_t i, uint8_t* to) {
  const uint8_t* from = column->values + (column->offset + i) * (int64_t)column->arrow.width;
  uint32_t parts[2];
  uint64_t nanos;

  memcpy(parts, from, 8);
  fb_store_le64(to, 0);
  fb_store_le64(to + 8, parts[0]);
  fb_store_le64(to + 16, parts[1]);
  if (column->arrow.kind == FB_ARROW_DAY_TIME) return to + 24;
  memcpy(&nanos, from + 8, 8);
  fb_store_le64(to + 24, nanos);
  return to + 32;
}

/* ---- any value -------------------------------------------------------------------------------------- */

static int64_t size_bytes_data(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  size_t size;
  const uint8_t* from = fb_arrow_column_bytes(column, i, &size);

  if (size > INT32_MAX - 8) return refuse_data(column, fault, "2^31 bytes or more");
  if (column->type->kind == FB_TYPE_STRING_DATA && !fb_text_is_utf8(from, size))
    return refuse_data(column, fault, "text that is no UTF-8");
  return (int64_t)fb_binary_row_bytes_part(size);
}

static int64_t size_moment_data(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  bool is_timestamp = column->arrow.kind == FB_ARROW_TIMESTAMP;
  int64_t value;
  uint32_t nanos;
  const char* reason = load_data_moment(column, i, &value, &nanos);

  if (reason != NULL) return refuse_data(column, fault, reason);
  return is_timestamp && !fb_type_is_compact(column->type) ? 8 : 0;
}

static int64_t size_present_data(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  fb_wide_int unscaled;

  if (column->arrow.kind == FB_ARROW_DICTIONARY)
    return refuse_data(column, fault, "an index that points to no value of its dictionary");
  switch (column->type->kind) {
    case FB_TYPE_STRING_DATA:
    case FB_TYPE_PRIMITIVE_ARRAY: return size_bytes_data(column, i, fault);
    case FB_TYPE_DECIMAL_DATA:
      if (!load_data_decimal(column, i, &unscaled))
        return refuse_data(column, fault, "a decimal with more digits than its type has");
      return fb_type_is_compact(column->type) ? 0 : 16;
    case FB_TYPE_DATE_DATA:
    case FB_TYPE_TIME_DATA:
    case FB_TYPE_TIMESTAMP_DATA:
    case FB_TYPE_TIMESTAMP_LTZ_DATA: return size_moment_data(column, i, fault);
    case FB_TYPE_ARRAY_DATA: return size_elements(column, column->children, fb_arrow_column_elements(column, i), fault);
    case FB_TYPE_MAP_DATA: return size_map_data(column, i, fault);
    case FB_TYPE_ROW_DATA:
      if (column->arrow.kind == FB_ARROW_DAY_TIME) return 24;
      if (column->arrow.kind == FB_ARROW_MONTH_DAY_NANO) return 32;
      return fb_arrow_data_value_row_size(column, column->offset + i, fault);
    default: return 0;
  }
}

int64_t fb_arrow_data_value_size(const struct fb_arrow_column* column, int64_t i, struct fb_arrow_fault* fault) {
  const struct fb_arrow_column* found = column;
  int64_t size;

  if (!fb_arrow_column_resolve(&found, &i))
    return column->is_required ? refuse_data(column, fault, FB_ARROW_COLUMN_NULL) : 0;
  size = size_present_data(found, i, fault);
  return size < 0 ? size : (int64_t)fb_binary_row_round((uint64_t)size);
}

static uint64_t put_bytes_data(const struct fb_arrow_column* column, int64_t i, const uint8_t* base, uint8_t** end) {
  size_t size;
  const uint8_t* from = fb_arrow_column_bytes(column, i, &size);
  uint64_t slot;

  if (size <= FB_BINARY_ROW_MAX_INLINE) return fb_binary_row_inline_slot(from, size);
  slot = fb_binary_row_slot((uint64_t)(*end - base), size);
  *end = fb_binary_row_put_part(from, size, *end);
  return slot;
}

static uint64_t put_decimal_data(const struct fb_arrow_column* column, int64_t i, const uint8_t* base, uint8_t** end) {
  fb_wide_int unscaled = 0;
  uint64_t slot;

  load_data_decimal(column, i, &unscaled);
  if (fb_type_is_compact(column->type)) return (uint64_t)unscaled;
  memset(*end, 0, 16);
  slot = fb_binary_row_slot((uint64_t)(*end - base), fb_binary_row_put_digits(unscaled, *end));
  *end += 16;
  return slot;
}

static uint64_t put_moment_data(const struct fb_arrow_column* column, int64_t i, const uint8_t* base, uint8_t** end) {
  uint64_t slot;
  uint32_t nanos;
  int64_t value;

  load_data_moment(column, i, &value, &nanos);
  if (column->type->kind == FB_TYPE_DATE_DATA || column->type->kind == FB_TYPE_TIME_DATA) return (uint32_t)value;
  if (fb_type_is_compact(column->type)) return (uint64_t)value;
  slot = fb_binary_row_slot((uint64_t)(*end - base), nanos);
  fb_store_le64(*end, (uint64_t)value);
  *end += 8;
  return slot;
}

static uint64_t put_nested_data(const struct fb_arrow_column* column, int64_t i, const uint8_t* base, uint8_t** end) {
  uint8_t *start = *end, *to;
  uint64_t size;

  if (column->type->kind == FB_TYPE_MAP_DATA) to = put_map_data(column, i, start);
  else if (column->type->kind == FB_TYPE_ARRAY_DATA)
    to = put_element_data(column->children, fb_arrow_column_elements(column, i), start);
  else if (column->arrow.kind == FB_ARROW_STRUCT) to = fb_arrow_data_value_put_row(column, column->offset + i, start);
  else to = put_interval_data(column, i, start);
  size = (uint64_t)(to - start);
  for (*end = start + fb_binary_row_round(size); to < *end; to++) *to = 0;
  return fb_binary_row_slot((uint64_t)(start - base), size);
}

bool fb_arrow_data_value_put(const struct fb_arrow_column* column, int64_t i, const uint8_t* base, uint8_t** end,
                             uint64_t* slot) {
  if (!fb_arrow_column_resolve(&column, &i)) return false;
  switch (column->type->kind) {
    case FB_TYPE_BOOLEAN: *slot = fb_arrow_column_bit(column->values, column->offset + i); break;
    case FB_TYPE_BYTE: *slot = (uint8_t)load_data_integer(column, i); break;
    case FB_TYPE_SHORT: *slot = (uint16_t)load_data_integer(column, i); break;
    case FB_TYPE_INT: *slot = (uint32_t)load_data_integer(column, i); break;
    case FB_TYPE_LONG: *slot = (uint64_t)load_data_integer(column, i); break;
    case FB_TYPE_FLOAT:
    case FB_TYPE_DOUBLE: *slot = load_data_float(column, i); break;
    case FB_TYPE_STRING_DATA:
    case FB_TYPE_PRIMITIVE_ARRAY: *slot = put_bytes_data(column, i, base, end); break;
    case FB_TYPE_DECIMAL_DATA: *slot = put_decimal_data(column, i, base, end); break;
    case FB_TYPE_ARRAY_DATA:
    case FB_TYPE_MAP_DATA:
    case FB_TYPE_ROW_DATA: *slot = put_nested_data(column, i, base, end); break;
    default: *slot = put_moment_data(column, i, base, end);
  }
  return true;
}
