#include "columns/arrow_range.h"

#include "columns/arrow_value.h"
#include "value/calendar.h"
#include "value/number.h"

#define MAX_DECIMAL 32 /* bytes */

void fb_arrow_range_close(struct fb_arrow_range* self) { fb_data_output_close(&self->scratch); }

int fb_arrow_range_check(const struct fb_arrow_column* column) {
  if (column->arrow.kind == FB_ARROW_MAP || column->arrow.kind == FB_ARROW_DAY_TIME ||
      column->arrow.kind == FB_ARROW_MONTH_DAY_NANO)
    return FB_EARGUMENT;
  for (uint32_t k = 0; k < column->child_count; k++)
    if (fb_arrow_range_check(&column->children[k]) < 0) return FB_EARGUMENT;
  return FB_OK;
}

static int put_value(const struct fb_arrow_column* column, int64_t i, struct fb_data_output* key);

static int put_element(const struct fb_arrow_column* column, int64_t i, struct fb_data_output* key) {
  size_t mark;
  int code = fb_range_key_begin_element(key, &mark);

  return code < 0 ? code : fb_range_key_end_element(key, mark, put_value(column, i, key));
}

/* Numbers that are the bytes of one value, as fb_range_key_put_bytes has them. */
static int put_byte_list(const struct fb_arrow_column* child, struct fb_arrow_span span, struct fb_data_output* key) {
  int code = FB_OK;

  for (int64_t k = span.start; code == FB_OK && k < span.start + span.count; k++) {
    const struct fb_arrow_column* found = child;
    int64_t slot = k;
    uint8_t byte;
    if (!fb_arrow_column_resolve(&found, &slot)) return FB_EARGUMENT; /* measure() has refused it */
    byte = (uint8_t)fb_arrow_column_integer(found->values, found->arrow.width, true, found->offset + slot);
    code = fb_range_key_put_byte(key, byte);
    if (code == FB_OK && byte == 0) code = fb_range_key_put_byte(key, 0xff);
  }
  if (code == FB_OK) code = fb_range_key_put_byte(key, 0);
  return code == FB_OK ? fb_range_key_put_byte(key, 0) : code;
}

static int put_list(const struct fb_arrow_column* column, int64_t i, struct fb_data_output* key) {
  struct fb_arrow_span span = fb_arrow_column_elements(column, i);

  if (column->type->kind == FB_TYPE_PRIMITIVE_ARRAY && column->type->children[0]->kind == FB_TYPE_BYTE)
    return put_byte_list(&column->children[0], span, key);
  for (int64_t k = span.start; k < span.start + span.count; k++) {
    int code = put_element(&column->children[0], k, key);
    if (code < 0) return code;
  }
  return fb_range_key_put_byte(key, FB_RANGE_END);
}

static int put_struct(const struct fb_arrow_column* column, int64_t i, struct fb_data_output* key) {
  for (uint32_t k = 0; k < column->child_count; k++) {
    int code = put_element(&column->children[k], i, key);
    if (code < 0) return code;
  }
  return FB_OK;
}

/* Bytes of little-endian two's complement, as they lie in a column, the other way round. */
static int put_decimal(const struct fb_arrow_column* column, int64_t at, int32_t scale, struct fb_data_output* key) {
  uint32_t width = column->arrow.width;
  const uint8_t* from = column->values + at * (int64_t)width;
  uint8_t number[MAX_DECIMAL + 1];
  bool is_signed = column->arrow.kind == FB_ARROW_DECIMAL || column->arrow.is_signed;

  number[0] = is_signed && (from[width - 1] & 0x80) ? 0xff : 0;
  for (uint32_t b = 0; b < width; b++) number[width - b] = from[b];
  return fb_range_key_put_decimal(key, number, width + 1, scale);
}

static int64_t load_integer(const struct fb_arrow_column* column, int64_t at) {
  return fb_arrow_column_integer(column->values, column->arrow.width,
                                 column->arrow.kind != FB_ARROW_INTEGER || column->arrow.is_signed, at);
}

static int put_seconds(const struct fb_arrow_column* column, int64_t at, struct fb_data_output* key) {
  int64_t value = load_integer(column, at), unit = column->arrow.per_second;
  int64_t seconds = fb_calendar_floor_div(value, unit);

  return fb_range_key_put_time(key, seconds, (uint32_t)(fb_calendar_floor_mod(value, unit) * (1000000000 / unit)));
}

static int put_present(const struct fb_arrow_column* column, int64_t i, struct fb_data_output* key) {
  int64_t at = column->offset + i;
  const uint8_t* bytes;
  size_t size;

  switch (column->arrow.kind) {
    case FB_ARROW_BOOLEAN: return fb_range_key_put_byte(key, fb_arrow_column_bit(column->values, at));
    case FB_ARROW_INTEGER:
      if (column->type->kind == FB_TYPE_BIG_INT) return put_decimal(column, at, 0, key);
      return fb_range_key_put_long(key, load_integer(column, at));
    case FB_ARROW_DURATION:
    case FB_ARROW_MONTHS: return fb_range_key_put_long(key, load_integer(column, at));
    case FB_ARROW_DATE:
      return fb_range_key_put_long(key, column->arrow.width == 4
                                            ? load_integer(column, at)
                                            : fb_calendar_floor_div(load_integer(column, at), FB_CALENDAR_DAY_MILLIS));
    case FB_ARROW_FLOAT: return fb_range_key_put_double(key, fb_arrow_value_float(column, i));
    case FB_ARROW_DECIMAL: return put_decimal(column, at, column->arrow.scale, key);
    case FB_ARROW_TIME:
    case FB_ARROW_TIMESTAMP: return put_seconds(column, at, key);
    case FB_ARROW_LIST:
    case FB_ARROW_LARGE_LIST:
    case FB_ARROW_LIST_VIEW:
    case FB_ARROW_LARGE_LIST_VIEW:
    case FB_ARROW_FIXED_LIST: return put_list(column, i, key);
    case FB_ARROW_STRUCT: return put_struct(column, at, key);
    case FB_ARROW_MAP:
    case FB_ARROW_DAY_TIME:
    case FB_ARROW_MONTH_DAY_NANO:
    case FB_ARROW_DICTIONARY: return FB_EARGUMENT; /* check() and measure() have refused them */
    default: bytes = fb_arrow_column_bytes(column, i, &size); return fb_range_key_put_bytes(key, bytes, size);
  }
}

static int put_value(const struct fb_arrow_column* column, int64_t i, struct fb_data_output* key) {
  return fb_arrow_column_resolve(&column, &i) ? put_present(column, i, key) : FB_RANGE_IS_NULL;
}

int fb_arrow_range_key(struct fb_arrow_range* self, const struct fb_arrow_column* row, int64_t i) {
  fb_data_output_start_scratch(&self->scratch);
  for (uint32_t k = 0; k < self->column_count; k++) {
    const struct fb_arrow_column* column = self->columns[k];
    size_t mark;
    int code = fb_range_key_begin(&self->scratch, &mark);
    if (code < 0) return code;
    code = put_value(column, i + (column == row ? 0 : row->offset), &self->scratch);
    code = fb_range_key_end(&self->scratch, mark, code, self->orders[k]);
    if (code < 0) return code;
  }
  return FB_OK;
}

/* The only column as words that compare as its values do; false: it has to go the long way. */
static bool find_longs(struct fb_arrow_range* self, const struct fb_arrow_rows* rows, uint32_t* channels) {
  const struct fb_arrow_column* column = self->columns[0];
  uint64_t turned = self->orders[0].is_descending ? UINT64_MAX : 0;
  int64_t first = column->offset + rows->first + (column == rows->row ? 0 : rows->row->offset);

  if (self->column_count != 1 || column->arrow.kind != FB_ARROW_INTEGER || column->validity != NULL ||
      column->type->kind == FB_TYPE_BIG_INT || !self->bounds->are_words)
    return false;
  for (uint32_t i = 0; i < rows->count; i++) {
    uint64_t word = ((uint64_t)load_integer(column, first + i) ^ (uint64_t)1 << 63) ^ turned;
    channels[i] = fb_range_bounds_find_word(self->bounds, 1, word);
  }
  return true;
}

int fb_arrow_range_channels(struct fb_arrow_range* self, const struct fb_arrow_rows* rows, uint32_t* channels) {
  if (self->bounds->count == 0) {
    memset(channels, 0, rows->count * sizeof *channels);
    return FB_OK;
  }
  if (find_longs(self, rows, channels)) return FB_OK;
  for (uint32_t i = 0; i < rows->count; i++) {
    int code = fb_arrow_range_key(self, rows->row, rows->first + i);
    if (code < 0) return code;
    channels[i] = fb_range_bounds_find(self->bounds, self->scratch.start, fb_data_output_size(&self->scratch));
  }
  return FB_OK;
}
