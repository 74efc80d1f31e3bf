#include "columns/arrow_type.h"

#include <stdlib.h>

#include "ground/byte_order.h"

/* Formats of one character. */
static const struct {
  char letter;
  struct fb_arrow_type type;
} plain_formats[] = {
    {'n', {.kind = FB_ARROW_NULL}},
    {'b', {.kind = FB_ARROW_BOOLEAN}},
    {'c', {.kind = FB_ARROW_INTEGER, .width = 1, .is_signed = true}},
    {'C', {.kind = FB_ARROW_INTEGER, .width = 1}},
    {'s', {.kind = FB_ARROW_INTEGER, .width = 2, .is_signed = true}},
    {'S', {.kind = FB_ARROW_INTEGER, .width = 2}},
    {'i', {.kind = FB_ARROW_INTEGER, .width = 4, .is_signed = true}},
    {'I', {.kind = FB_ARROW_INTEGER, .width = 4}},
    {'l', {.kind = FB_ARROW_INTEGER, .width = 8, .is_signed = true}},
    {'L', {.kind = FB_ARROW_INTEGER, .width = 8}},
    {'e', {.kind = FB_ARROW_FLOAT, .width = 2}},
    {'f', {.kind = FB_ARROW_FLOAT, .width = 4}},
    {'g', {.kind = FB_ARROW_FLOAT, .width = 8}},
    {'u', {.kind = FB_ARROW_TEXT}},
    {'U', {.kind = FB_ARROW_LARGE_TEXT}},
    {'z', {.kind = FB_ARROW_BINARY}},
    {'Z', {.kind = FB_ARROW_LARGE_BINARY}},
};

/* A number in decimal digits, perhaps after a minus sign; moves past it. */
static bool read_format_number(const char** text, int32_t* number) {
  char* end;
  long value = strtol(*text, &end, 10);

  if (end == *text || **text == '+' || **text == ' ' || value < INT32_MIN || value > INT32_MAX) return false;
  *number = (int32_t)value;
  *text = end;
  return true;
}

/* "d:precision,scale" or "d:precision,scale,bits". */
static int parse_decimal(const char* format, struct fb_arrow_type* type) {
  const char* pos = format + 2;
  int32_t bits = 128;

  if (format[1] != ':' || !read_format_number(&pos, &type->precision) || *pos++ != ',' ||
      !read_format_number(&pos, &type->scale))
    return FB_EARGUMENT;
  if (*pos == ',') {
    pos++;
    if (!read_format_number(&pos, &bits)) return FB_EARGUMENT;
  }
  if (*pos != 0 || type->precision < 1 || (bits != 32 && bits != 64 && bits != 128 && bits != 256)) return FB_EARGUMENT;
  type->kind = FB_ARROW_DECIMAL;
  type->width = (uint32_t)bits / 8;
  return FB_OK;
}

static int64_t units_per_second(char unit) {
  switch (unit) {
    case 's': return 1;
    case 'm': return 1000;
    case 'u': return 1000000;
    case 'n': return 1000000000;
    default: return 0;
  }
}

static int parse_time_format(const char* format, struct fb_arrow_type* type) {
  char family = format[1], unit = family != 0 ? format[2] : 0;

  type->per_second = units_per_second(unit);
  type->width = 8;
  switch (family) {
    case 'd':
      type->kind = FB_ARROW_DATE;
      if (unit == 'D') type->width = 4;
      else if (unit != 'm') return FB_EARGUMENT;
      return format[3] == 0 ? FB_OK : FB_EARGUMENT;
    case 't':
      type->kind = FB_ARROW_TIME;
      if (type->per_second != 0 && type->per_second <= 1000) type->width = 4;
      return type->per_second != 0 && format[3] == 0 ? FB_OK : FB_EARGUMENT;
    case 's':
      type->kind = FB_ARROW_TIMESTAMP;
      if (type->per_second == 0 || format[3] != ':') return FB_EARGUMENT;
      type->has_zone = format[4] != 0;
      return FB_OK;
    case 'D': type->kind = FB_ARROW_DURATION; return type->per_second != 0 && format[3] == 0 ? FB_OK : FB_EARGUMENT;
    case 'i':
      type->kind = unit == 'M' ? FB_ARROW_MONTHS : unit == 'D' ? FB_ARROW_DAY_TIME : FB_ARROW_MONTH_DAY_NANO;
      type->width = unit == 'M' ? 4 : unit == 'D' ? 8 : 16;
      type->per_second = 0;
      return (unit == 'M' || unit == 'D' || unit == 'n') && format[3] == 0 ? FB_OK : FB_EARGUMENT;
    default: return FB_EARGUMENT;
  }
}

static int parse_nested(const char* format, struct fb_arrow_type* type) {
  const char* pos = format + 3;
  int32_t count;

  switch (format[1]) {
    case 'l': type->kind = FB_ARROW_LIST; break;
    case 'L': type->kind = FB_ARROW_LARGE_LIST; break;
    case 's': type->kind = FB_ARROW_STRUCT; break;
    case 'm': type->kind = FB_ARROW_MAP; break;
    case 'r': type->kind = FB_ARROW_RUN_ENDS; break;
    case 'v':
      if (format[2] != 'l' && format[2] != 'L') return FB_EARGUMENT;
      type->kind = format[2] == 'l' ? FB_ARROW_LIST_VIEW : FB_ARROW_LARGE_LIST_VIEW;
      return format[3] == 0 ? FB_OK : FB_EARGUMENT;
    case 'w':
      if (format[2] != ':' || !read_format_number(&pos, &count) || *pos != 0 || count < 0) return FB_EARGUMENT;
      type->kind = FB_ARROW_FIXED_LIST;
      type->width = (uint32_t)count;
      return FB_OK;
    default: return FB_EARGUMENT; /* unions */
  }
  return format[2] == 0 ? FB_OK : FB_EARGUMENT;
}

int fb_arrow_type_parse(const char* format, struct fb_arrow_type* type) {
  const char* pos;
  int32_t size;

  *type = (struct fb_arrow_type){.kind = FB_ARROW_KIND_COUNT};
  if (format == NULL || format[0] == 0) return FB_EARGUMENT;
  if (format[1] == 0)
    for (size_t i = 0; i < sizeof plain_formats / sizeof *plain_formats; i++)
      if (plain_formats[i].letter == format[0]) return *type = plain_formats[i].type, FB_OK;
  switch (format[0]) {
    case 'd': return parse_decimal(format, type);
    case 't': return parse_time_format(format, type);
    case '+': return parse_nested(format, type);
    case 'v':
      if (format[1] != 'u' && format[1] != 'z') return FB_EARGUMENT;
      type->kind = format[1] == 'u' ? FB_ARROW_TEXT_VIEW : FB_ARROW_BINARY_VIEW;
      return format[2] == 0 ? FB_OK : FB_EARGUMENT;
    case 'w':
      pos = format + 2;
      if (format[1] != ':' || !read_format_number(&pos, &size) || *pos != 0 || size < 0) return FB_EARGUMENT;
      type->kind = FB_ARROW_FIXED_BINARY;
      type->width = (uint32_t)size;
      return FB_OK;
    default: return FB_EARGUMENT;
  }
}

static bool integer_fits(const struct fb_arrow_type* arrow, enum fb_type_kind kind) {
  uint32_t width = arrow->is_signed ? arrow->width : arrow->width + 1; /* of a signed number that holds them all */

  switch (kind) {
    case FB_TYPE_BYTE: return width <= 1;
    case FB_TYPE_SHORT: return width <= 2;
    case FB_TYPE_INT: return width <= 4;
    case FB_TYPE_LONG: return width <= 8;
    case FB_TYPE_BIG_INT: return true;
    case FB_TYPE_DECIMAL_DATA:
      return arrow->kind == FB_ARROW_INTEGER; /* whether the digits fit is asked of each value */
    default: return false;
  }
}

static bool is_row_of(const struct fb_type* type, const enum fb_type_kind* kinds, uint32_t count) {
  if ((type->kind != FB_TYPE_ROW && type->kind != FB_TYPE_ROW_DATA) || type->child_count != count) return false;
  for (uint32_t i = 0; i < count; i++)
    if (type->children[i]->kind != kinds[i]) return false;
  return true;
}

static bool is_list_type(const struct fb_type* type) {
  return type->kind == FB_TYPE_OBJECT_ARRAY || type->kind == FB_TYPE_LIST || type->kind == FB_TYPE_PRIMITIVE_ARRAY ||
         type->kind == FB_TYPE_STRING_ARRAY || type->kind == FB_TYPE_ARRAY_DATA;
}

static bool decimal_fits(const struct fb_arrow_type* arrow, const struct fb_type* type) {
  if (type->kind == FB_TYPE_DECIMAL_DATA) return arrow->scale <= (int32_t)type->scale;
  return type->kind == FB_TYPE_BIG_DEC;
}

static bool timestamp_fits(const struct fb_arrow_type* arrow, enum fb_type_kind kind) {
  if (arrow->has_zone) return kind == FB_TYPE_INSTANT || kind == FB_TYPE_TIMESTAMP_LTZ_DATA;
  return kind == FB_TYPE_LOCAL_DATE_TIME || kind == FB_TYPE_TIMESTAMP_DATA;
}

bool fb_arrow_type_fits(const struct fb_arrow_type* arrow, const struct fb_type* type) {
  static const enum fb_type_kind PARTS[] = {FB_TYPE_INT, FB_TYPE_INT, FB_TYPE_LONG};

  while (type->kind == FB_TYPE_NULLABLE) type = type->children[0];
  switch (arrow->kind) {
    case FB_ARROW_NULL: return true; /* whether null may stand there is asked of each value */
    case FB_ARROW_BOOLEAN: return type->kind == FB_TYPE_BOOLEAN;
    case FB_ARROW_INTEGER: return integer_fits(arrow, type->kind);
    case FB_ARROW_FLOAT: return type->kind == FB_TYPE_DOUBLE || (type->kind == FB_TYPE_FLOAT && arrow->width <= 4);
    case FB_ARROW_TEXT:
    case FB_ARROW_LARGE_TEXT:
    case FB_ARROW_TEXT_VIEW:
      return type->kind == FB_TYPE_STRING || type->kind == FB_TYPE_STRING_VALUE || type->kind == FB_TYPE_STRING_DATA;
    case FB_ARROW_BINARY:
    case FB_ARROW_LARGE_BINARY:
    case FB_ARROW_BINARY_VIEW:
    case FB_ARROW_FIXED_BINARY: return type->kind == FB_TYPE_PRIMITIVE_ARRAY && type->children[0]->kind == FB_TYPE_BYTE;
    case FB_ARROW_DECIMAL: return decimal_fits(arrow, type);
    case FB_ARROW_DATE: return type->kind == FB_TYPE_LOCAL_DATE || type->kind == FB_TYPE_DATE_DATA;
    case FB_ARROW_TIME: return type->kind == FB_TYPE_LOCAL_TIME || type->kind == FB_TYPE_TIME_DATA;
    case FB_ARROW_TIMESTAMP: return timestamp_fits(arrow, type->kind);
    case FB_ARROW_DURATION: return type->kind == FB_TYPE_LONG;
    case FB_ARROW_MONTHS: return type->kind == FB_TYPE_INT;
    case FB_ARROW_DAY_TIME: return is_row_of(type, PARTS, 2);
    case FB_ARROW_MONTH_DAY_NANO: return is_row_of(type, PARTS, 3);
    case FB_ARROW_LIST:
    case FB_ARROW_LARGE_LIST:
    case FB_ARROW_LIST_VIEW:
    case FB_ARROW_LARGE_LIST_VIEW:
    case FB_ARROW_FIXED_LIST: return is_list_type(type);
    case FB_ARROW_STRUCT:
      return type->kind == FB_TYPE_ROW || type->kind == FB_TYPE_TUPLE || type->kind == FB_TYPE_ROW_DATA;
    case FB_ARROW_MAP: return type->kind == FB_TYPE_MAP || type->kind == FB_TYPE_MAP_DATA;
    default: return true; /* DICTIONARY, RUN_ENDS: their values are asked */
  }
}

int64_t fb_arrow_type_null_size(const struct fb_type* type) {
  switch (type->kind) {
    case FB_TYPE_STRING:
    case FB_TYPE_VOID: return 1;
    case FB_TYPE_BIG_INT:
    case FB_TYPE_BIG_DEC: return 4;
    case FB_TYPE_NULLABLE: return 1 + (int64_t)type->padding;
    case FB_TYPE_INSTANT:
    case FB_TYPE_LOCAL_DATE:
    case FB_TYPE_LOCAL_TIME:
    case FB_TYPE_LOCAL_DATE_TIME: return fb_type_fixed_size(type->kind);
    default: return -1;
  }
}

uint8_t* fb_arrow_type_put_null(const struct fb_type* type, uint8_t* to) {
  static const uint8_t NO_DATE_TIME[13] = {0x80, 0, 0, 0, 0x80, 0, 0x80, 0x80, 0, 0x80, 0, 0, 0};
  size_t size = (size_t)fb_arrow_type_null_size(type);

  switch (type->kind) {
    case FB_TYPE_INSTANT:
      fb_store_be64(to, (uint64_t)INT64_MIN);
      fb_store_be32(to + 8, 0x80000000u);
      break;
    case FB_TYPE_LOCAL_TIME: memcpy(to, NO_DATE_TIME + 6, 7); break;
    case FB_TYPE_LOCAL_DATE:
    case FB_TYPE_LOCAL_DATE_TIME: memcpy(to, NO_DATE_TIME, size); break;
    default:
      memset(to, 0, size);
      if (type->kind == FB_TYPE_NULLABLE) to[0] = 1;
  }
  return to + size;
}
