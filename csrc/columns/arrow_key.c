#include "columns/arrow_key.h"

#include "columns/arrow_row_data.h"
#include "columns/arrow_value.h"
#include "ground/wide.h"
#include "record/key_group.h"

void fb_arrow_key_close(struct fb_arrow_key* self) { fb_data_output_close(&self->scratch); }

/* Any value: through its bytes, as the hash of a record's key is taken. */
static int hash_key_bytes(struct fb_arrow_key* self, const struct fb_arrow_column* column, int64_t slot, int32_t* hash,
                          struct fb_arrow_fault* fault) {
  const struct fb_type* type = column->nullable != NULL ? column->nullable : column->type;
  int64_t size = fb_arrow_value_size(column, slot, fault);
  struct fb_data_input input;
  int code;

  if (size < 0) return FB_ECORRUPT;
  fb_data_output_start_scratch(&self->scratch);
  code = fb_data_output_reserve(&self->scratch, (size_t)size + 1);
  if (code < 0) return code;
  input = (struct fb_data_input){.start = self->scratch.start, .pos = self->scratch.start};
  input.end = fb_arrow_value_put(column, slot, self->scratch.start);
  return fb_key_group_hash_encoded(type, &input, hash);
}

/* A value that is not null, in the column where it lies. */
static int hash_key_slot(struct fb_arrow_key* self, const struct fb_arrow_column* column, int64_t slot, int32_t* hash,
                         struct fb_arrow_fault* fault) {
  const struct fb_arrow_type* arrow = &column->arrow;
  int64_t at = column->offset + slot;
  const uint8_t* text;
  uint64_t bits;
  uint32_t narrow;
  size_t size;

  switch (column->type->kind) {
    case FB_TYPE_BOOLEAN: *hash = fb_key_group_hash_bool(fb_arrow_column_bit(column->values, at)); return FB_OK;
    case FB_TYPE_BYTE:
    case FB_TYPE_SHORT:
    case FB_TYPE_INT:
      *hash = (int32_t)fb_arrow_column_integer(column->values, arrow->width,
                                               arrow->kind != FB_ARROW_INTEGER || arrow->is_signed, at);
      return FB_OK;
    case FB_TYPE_LONG:
      *hash = fb_key_group_hash_long(fb_arrow_column_integer(column->values, arrow->width,
                                                             arrow->kind != FB_ARROW_INTEGER || arrow->is_signed, at));
      return FB_OK;
    case FB_TYPE_FLOAT:
      if (arrow->width != 4) break;
      memcpy(&narrow, column->values + 4 * at, 4);
      *hash = fb_key_group_hash_float_bits(narrow);
      return FB_OK;
    case FB_TYPE_DOUBLE:
      if (arrow->width != 8) break;
      memcpy(&bits, column->values + 8 * at, 8);
      *hash = fb_key_group_hash_double_bits(bits);
      return FB_OK;
    case FB_TYPE_STRING:
    case FB_TYPE_STRING_VALUE: /* measure() has found that it is UTF-8 */
      text = fb_arrow_column_bytes(column, slot, &size);
      *hash = fb_arrow_value_text_hash(text, size);
      return FB_OK;
    default: break;
  }
  return hash_key_bytes(self, column, slot, hash, fault);
}

static int hash_key_part(struct fb_arrow_key* self, const struct fb_arrow_column* key, int64_t slot, int32_t* hash,
                         struct fb_arrow_fault* fault) {
  const struct fb_arrow_column* column = key;

  if (!fb_arrow_column_resolve(&column, &slot)) {
    *hash = 0;
    if (self->column_count > 1) return FB_OK;
    fault->column = key;
    fault->reason = "a key that is null; filter such rows out, or give them a stand-in";
    return FB_ECORRUPT;
  }
  return hash_key_slot(self, column, slot, hash, fault);
}

static FB_WIDE_INLINE void hash_longs(const uint8_t* restrict from, uint32_t count, int32_t* restrict hashes) {
  for (uint32_t i = 0; i < count; i++) {
    int64_t value;
    memcpy(&value, from + 8 * (size_t)i, 8);
    hashes[i] = fb_key_group_hash_long(value);
  }
}
static FB_WIDE_TARGET void hash_longs_wide(const uint8_t* from, uint32_t count, int32_t* hashes) {
  hash_longs(from, count, hashes);
}

/* The loop that most keys take. */
static bool hash_key_longs(const struct fb_arrow_column* column, int64_t base, uint32_t count, int32_t* hashes) {
  bool is_long = column->type->kind == FB_TYPE_LONG && column->arrow.width == 8;
  const uint8_t* from = column->values;

  if (column->validity != NULL || !is_long || column->nullable != NULL || column->arrow.kind != FB_ARROW_INTEGER)
    return false;
  if (count == 0) return true;
  from += 8 * (column->offset + base);
  if (fb_wide_is_there()) hash_longs_wide(from, count, hashes);
  else hash_longs(from, count, hashes);
  return true;
}

/* The row of one LONG: 8 bytes of nothing, and the number. */
static bool hash_long_rows(const struct fb_arrow_key* self, const struct fb_arrow_rows* rows, int32_t* hashes) {
  const struct fb_arrow_column* key = self->columns[0];
  int64_t first = key->offset + rows->row->offset + rows->first;
  uint8_t row[16] = {0};

  if (self->column_count != 1 || key == rows->row || key->validity != NULL || key->nullable != NULL ||
      key->type->kind != FB_TYPE_LONG || key->arrow.kind != FB_ARROW_INTEGER || key->arrow.width != 8)
    return false;
  for (uint32_t i = 0; i < rows->count; i++) {
    fb_store_le64(row + 8, (uint64_t)fb_arrow_column_integer(key->values, 8, true, first + i));
    hashes[i] = fb_binary_row_hash(row, sizeof row);
  }
  return true;
}

/* Of rows of the table runtime: the hash code of the row of the key's fields, in which null is a value. */
static int hash_key_rows(struct fb_arrow_key* self, struct fb_arrow_rows* rows, int32_t* hashes,
                         struct fb_arrow_fault* fault) {
  const struct fb_arrow_column* row = rows->row;
  bool is_whole = self->column_count == 1 && self->columns[0] == row;

  if (hash_long_rows(self, rows, hashes)) return FB_OK;
  for (uint32_t i = 0; i < rows->count; i++) {
    int64_t slot = row->offset + rows->first + i, size;
    int code;
    size = is_whole ? fb_arrow_data_value_row_size(row, slot, fault)
                    : fb_arrow_row_data_key_size(self->columns, self->column_count, slot, fault);
    if (size < 0) {
      fault->row = rows->first + i;
      rows->count = i;
      return FB_OK;
    }
    fb_data_output_start_scratch(&self->scratch);
    code = fb_data_output_reserve(&self->scratch, (size_t)size);
    if (code < 0) return code;
    if (!is_whole) {
      hashes[i] = fb_arrow_row_data_key_hash(self->columns, self->column_count, slot, self->scratch.start);
      continue;
    }
    fb_arrow_data_value_put_row(row, slot, self->scratch.start);
    hashes[i] = fb_binary_row_hash(self->scratch.start, (size_t)size);
  }
  return FB_OK;
}

int fb_arrow_key_hash(struct fb_arrow_key* self, struct fb_arrow_rows* rows, int32_t* hashes,
                      struct fb_arrow_fault* fault) {
  const struct fb_arrow_column* row = rows->row;

  if (row->type->kind == FB_TYPE_ROW_DATA) return hash_key_rows(self, rows, hashes, fault);
  if (self->column_count == 1 && self->columns[0] != row &&
      hash_key_longs(self->columns[0], row->offset + rows->first, rows->count, hashes))
    return FB_OK;
  for (uint32_t i = 0; i < rows->count; i++) {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < self->column_count; k++) {
      const struct fb_arrow_column* key = self->columns[k];
      struct fb_arrow_fault found = {.column = key, .reason = "a value that has no hash code"};
      int32_t part = 0;
      int code = hash_key_part(self, key, rows->first + i + (key == row ? 0 : row->offset), &part, &found);
      if (code == FB_ENOMEM) return code;
      if (code < 0) {
        *fault = found;
        fault->row = rows->first + i;
        rows->count = i;
        return FB_OK;
      }
      sum = self->column_count > 1 ? 31 * sum + (uint32_t)part : (uint32_t)part;
    }
    hashes[i] = (int32_t)sum;
  }
  return FB_OK;
}
