#include "columns/arrow_data_cell.h"

#include "value/calendar.h"
#include "value/number.h"
#include "value/text.h"

static int refuse_part(struct fb_arrow_builder* self, const struct fb_arrow_refusal* refusal, int code) {
  return fb_arrow_cell_refuse(self, refusal, code, NULL);
}

/* ---- values without parts --------------------------------------------------------------------------- */

static int read_bytes_slot(struct fb_arrow_builder* self, struct fb_binary_section* section, uint32_t i,
                           const struct fb_arrow_refusal* refusal) {
  const uint8_t* part = NULL;
  uint64_t size = 0;
  int code = fb_binary_row_take_bytes(section, i, &part, &size);

  if (code != FB_OK) return refuse_part(self, refusal, code);
  if (self->column->arrow.kind == FB_ARROW_FIXED_BINARY) {
    if (size != self->column->arrow.width)
      return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "bytes of another length than the column's");
    return fb_arrow_builder_put_slot(self, part, size);
  }
  if (self->column->type->kind == FB_TYPE_STRING_DATA && !fb_text_is_utf8(part, size))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "text that is no UTF-8");
  code = fb_arrow_cell_begin_bytes(self, size, refusal);
  if (code != FB_OK) return code;
  if (size > 0) memcpy(self->values.data + self->values.size, part, size);
  self->values.size += size;
  return fb_arrow_cell_end_bytes(self);
}

static int read_decimal_slot(struct fb_arrow_builder* self, struct fb_binary_section* section, uint32_t i,
                             const struct fb_arrow_refusal* refusal) {
  const struct fb_type* type = self->column->type;
  fb_wide_int unscaled = 0;
  uint64_t number;
  int code = FB_OK;

  if (fb_type_is_compact(type)) {
    unscaled = (int64_t)fb_binary_row_load_slot(section, i);
    if (!fb_binary_row_has_digits(unscaled, type->precision)) code = FB_ECORRUPT;
  } else {
    code = fb_binary_row_take_decimal(section, i, type->precision, &unscaled);
  }
  if (code != FB_OK) return refuse_part(self, refusal, code);
  if (self->column->arrow.kind == FB_ARROW_DECIMAL)
    return fb_arrow_cell_put_decimal(self, unscaled, (int32_t)type->scale, refusal);
  if (!fb_binary_row_rescale(&unscaled, type->scale, 0) || unscaled < INT64_MIN || unscaled > UINT64_MAX ||
      (unscaled > INT64_MAX && (self->column->arrow.is_signed || self->column->arrow.width < 8)))
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a number that the column cannot hold");
  if (unscaled <= INT64_MAX) return fb_arrow_cell_put_integer(self, (int64_t)unscaled, refusal);
  number = (uint64_t)unscaled;
  return fb_arrow_builder_put_slot(self, &number, 8);
}

static int read_moment_slot(struct fb_arrow_builder* self, struct fb_binary_section* section, uint32_t i,
                            const struct fb_arrow_refusal* refusal) {
  uint64_t slot = fb_binary_row_load_slot(section, i);
  int64_t millis = (int64_t)slot, second;
  uint32_t nanos = 0, rest;
  int code = FB_OK;

  switch (self->column->type->kind) {
    case FB_TYPE_DATE_DATA: return fb_arrow_cell_put_days(self, (int32_t)slot, refusal);
    case FB_TYPE_TIME_DATA:
      millis = (uint32_t)slot;
      if (millis >= FB_CALENDAR_DAY_MILLIS) code = FB_ECORRUPT;
      break;
    default:
      if (!fb_type_is_compact(self->column->type)) code = fb_binary_row_take_timestamp(section, i, &millis, &nanos);
  }
  if (code != FB_OK) return refuse_part(self, refusal, code);
  second = fb_calendar_floor_div(millis, 1000);
  rest = (uint32_t)fb_calendar_floor_mod(millis, 1000);
  return fb_arrow_cell_put_moment(self, second, rest * 1000000u + nanos, refusal);
}

static int read_number_slot(struct fb_arrow_builder* self, struct fb_binary_section* section, uint32_t i,
                            const struct fb_arrow_refusal* refusal) {
  uint64_t slot = fb_binary_row_load_slot(section, i);
  int code;

  switch (self->column->type->kind) {
    case FB_TYPE_BOOLEAN:
      if ((uint8_t)slot > 1) return refuse_part(self, refusal, FB_ECORRUPT);
      code = fb_arrow_memory_reserve_bits(&self->values, self->length + 1);
      if (code != FB_OK) return code;
      fb_arrow_memory_set_bit(self->values.data, self->length, (uint8_t)slot == 1);
      return fb_arrow_builder_put_valid(self);
    case FB_TYPE_BYTE: return fb_arrow_cell_put_integer(self, (int8_t)slot, refusal);
    case FB_TYPE_SHORT: return fb_arrow_cell_put_integer(self, (int16_t)slot, refusal);
    case FB_TYPE_INT: return fb_arrow_cell_put_integer(self, (int32_t)slot, refusal);
    case FB_TYPE_LONG: return fb_arrow_cell_put_integer(self, (int64_t)slot, refusal);
    case FB_TYPE_FLOAT: return fb_arrow_cell_put_float(self, fb_number_float((uint32_t)slot), refusal);
    case FB_TYPE_DOUBLE: return fb_arrow_cell_put_float(self, fb_number_double(slot), refusal);
    default: return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a value in a column of nulls");
  }
}

/* ---- values with parts ------------------------------------------------------------------------------ */

static int read_array_elements(struct fb_arrow_builder* child, struct fb_binary_section* array,
                               const struct fb_arrow_refusal* refusal) {
  int code = FB_OK;

  for (uint32_t k = 0; code == FB_OK && k < array->count; k++) code = fb_arrow_data_cell_read(child, array, k, refusal);
  return code;
}

static int read_array_part(struct fb_arrow_builder* self, const uint8_t* part, uint64_t size,
                           const struct fb_arrow_refusal* refusal) {
  bool is_fixed = self->column->arrow.kind == FB_ARROW_FIXED_LIST;
  struct fb_binary_section array;
  int code = fb_binary_row_open_array(part, size, fb_type_slot_width(self->children[0].column->type), &array);

  if (code != FB_OK) return refuse_part(self, refusal, code);
  if (is_fixed && array.count != self->column->arrow.width)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a list of another length than the column's");
  if (!is_fixed) code = fb_arrow_builder_begin_offsets(self, 1);
  if (code == FB_OK) code = read_array_elements(&self->children[0], &array, refusal);
  return code == FB_OK ? fb_arrow_cell_end_list(self, refusal) : code;
}

static int read_map_part(struct fb_arrow_builder* self, const uint8_t* part, uint64_t size,
                         const struct fb_arrow_refusal* refusal) {
  struct fb_binary_section keys, values;
  int code = fb_binary_row_open_map(part, size, fb_type_slot_width(self->children[0].column->type),
                                    fb_type_slot_width(self->children[1].column->type), &keys, &values);

  if (code != FB_OK) return refuse_part(self, refusal, code);
  for (uint32_t k = 0; k < keys.count; k++)
    if (fb_binary_row_is_null(&keys, k))
      return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a map with a key that is null, which Arrow has not");
  code = fb_arrow_builder_begin_offsets(self, 1);
  if (code == FB_OK) code = read_array_elements(&self->children[0], &keys, refusal);
  if (code == FB_OK) code = read_array_elements(&self->children[1], &values, refusal);
  return code == FB_OK ? fb_arrow_cell_end_list(self, refusal) : code;
}

/* DAY_TIME and MONTH_DAY_NANO. */
static int read_interval_part(struct fb_arrow_builder* self, const struct fb_binary_section* row,
                              const struct fb_arrow_refusal* refusal) {
  uint32_t width = self->column->arrow.width, parts[2];
  uint8_t slot[16];
  uint64_t nanos;

  for (uint32_t k = 0; k < row->count; k++)
    if (fb_binary_row_is_null(row, k))
      return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "an interval with a part that is null");
  parts[0] = (uint32_t)fb_binary_row_load_slot(row, 0);
  parts[1] = (uint32_t)fb_binary_row_load_slot(row, 1);
  memcpy(slot, parts, 8);
  if (width == 16) {
    nanos = fb_binary_row_load_slot(row, 2);
    memcpy(slot + 8, &nanos, 8);
  }
  return fb_arrow_builder_put_slot(self, slot, width);
}

static int read_row_part(struct fb_arrow_builder* self, const uint8_t* part, uint64_t size,
                         const struct fb_arrow_refusal* refusal) {
  struct fb_binary_section row;
  int code = fb_binary_row_open(part, size, self->column->type->child_count, &row);

  if (code != FB_OK) return refuse_part(self, refusal, code);
  if (part[0] != 0)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a row that is a change, which a batch has no place for");
  if (self->column->arrow.kind != FB_ARROW_STRUCT) return read_interval_part(self, &row, refusal);
  for (uint32_t k = 0; code == FB_OK && k < row.count; k++) {
    struct fb_arrow_builder* child = &self->children[k];
    if (child->column->is_required && fb_binary_row_is_null(&row, k))
      return fb_arrow_cell_refuse(child, refusal, FB_ECORRUPT, FB_ARROW_COLUMN_NULL);
    code = fb_arrow_data_cell_read(child, &row, k, refusal);
  }
  return code == FB_OK ? fb_arrow_builder_put_valid(self) : code;
}

/* ---- any value -------------------------------------------------------------------------------------- */

int fb_arrow_data_cell_read(struct fb_arrow_builder* self, struct fb_binary_section* section, uint32_t i,
                            const struct fb_arrow_refusal* refusal) {
  const uint8_t* part = NULL;
  uint64_t size = 0;
  int code;

  if (fb_binary_row_is_null(section, i)) return fb_arrow_builder_put_null(self);
  if (self->column->arrow.kind == FB_ARROW_NULL)
    return fb_arrow_cell_refuse(self, refusal, FB_ECORRUPT, "a value in a column of nulls");
  switch (self->column->type->kind) {
    case FB_TYPE_STRING_DATA:
    case FB_TYPE_PRIMITIVE_ARRAY: return read_bytes_slot(self, section, i, refusal);
    case FB_TYPE_DECIMAL_DATA: return read_decimal_slot(self, section, i, refusal);
    case FB_TYPE_DATE_DATA:
    case FB_TYPE_TIME_DATA:
    case FB_TYPE_TIMESTAMP_DATA:
    case FB_TYPE_TIMESTAMP_LTZ_DATA: return read_moment_slot(self, section, i, refusal);
    case FB_TYPE_ARRAY_DATA:
    case FB_TYPE_MAP_DATA:
    case FB_TYPE_ROW_DATA:
      code = fb_binary_row_take_part(section, i, &part, &size);
      if (code != FB_OK) return refuse_part(self, refusal, code);
      if (self->column->type->kind == FB_TYPE_ARRAY_DATA) return read_array_part(self, part, size, refusal);
      if (self->column->type->kind == FB_TYPE_MAP_DATA) return read_map_part(self, part, size, refusal);
      return read_row_part(self, part, size, refusal);
    default: return read_number_slot(self, section, i, refusal);
  }
}
