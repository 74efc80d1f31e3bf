#include "columns/arrow_binary.h"

#define LENGTH_BYTES 4

/* How many slots from `first` on are alike, of at most `limit`: all null, or all there. */
static uint32_t count_alike(const struct fb_arrow_column* column, int64_t first, uint32_t limit, bool* is_null) {
  uint32_t count = 0;

  *is_null = false;
  if (column->validity == NULL && column->arrow.kind != FB_ARROW_NULL && column->arrow.kind < FB_ARROW_DICTIONARY)
    return limit;
  for (; count < limit; count++) {
    const struct fb_arrow_column* found = column;
    int64_t slot = first + count;
    bool is_this_null = !fb_arrow_column_resolve(&found, &slot);
    if (count > 0 && is_this_null != *is_null) break;
    *is_null = is_this_null;
  }
  return count;
}

static int put_nulls(struct fb_arrow_builder* to, uint32_t count) {
  int code = FB_OK;

  for (uint32_t i = 0; code == FB_OK && i < count; i++) code = fb_arrow_builder_put_null(to);
  return code;
}

/* ---- rows to values --------------------------------------------------------------------------------- */

static int put_chunk(struct fb_arrow_rows* rows, struct fb_arrow_builder* to, struct fb_arrow_fault* fault) {
  size_t room = INT32_MAX - to->values.size, sum = 0, end = to->values.size;
  int code;

  for (uint32_t i = 0; i < rows->count; i++) {
    sum += rows->sizes[i] - LENGTH_BYTES;
    if (sum <= room) continue;
    *fault = (struct fb_arrow_fault){
        .column = rows->row, .reason = "a binary column of 2^31 bytes or more", .row = rows->first + i};
    return FB_OK;
  }
  code = fb_arrow_memory_reserve(&to->values, sum);
  if (code == FB_OK) code = fb_arrow_builder_begin_offsets(to, rows->count);
  if (code != FB_OK) return code;
  fb_arrow_rows_pack_values(rows, to->values.data + end);
  for (uint32_t i = 0; i < rows->count; i++) {
    end += rows->sizes[i] - LENGTH_BYTES;
    fb_arrow_builder_put_offset(to, (int64_t)end);
  }
  to->values.size = end;
  return fb_arrow_builder_put_valid_slots(to, rows->count);
}

int fb_arrow_binary_write(struct fb_arrow_rows* rows, struct fb_arrow_builder* to, struct fb_arrow_fault* fault) {
  int64_t first = 0, length = rows->row->length;
  int code = FB_OK;

  *fault = (struct fb_arrow_fault){.row = -1};
  while (code == FB_OK && first < length && fault->column == NULL) {
    bool is_null;
    uint32_t limit = length - first < FB_ARROW_CHUNK ? (uint32_t)(length - first) : FB_ARROW_CHUNK;
    uint32_t count = count_alike(rows->row, first, limit, &is_null);
    if (is_null) {
      code = put_nulls(to, count);
      first += count;
    } else {
      fb_arrow_rows_measure_some(rows, first, count, fault);
      first += rows->count;
      if (fault->column == NULL) code = put_chunk(rows, to, fault);
    }
  }
  return code;
}

/* ---- values to rows --------------------------------------------------------------------------------- */

/* Where the bytes are, behind dictionaries and run ends. */
static const struct fb_arrow_column* leaf_of(const struct fb_arrow_column* column) {
  while (column->arrow.kind == FB_ARROW_DICTIONARY || column->arrow.kind == FB_ARROW_RUN_ENDS)
    column = &column->children[0];
  return column;
}

bool fb_arrow_binary_is(const struct fb_arrow_column* column) {
  switch (leaf_of(column)->arrow.kind) {
    case FB_ARROW_BINARY:
    case FB_ARROW_LARGE_BINARY:
    case FB_ARROW_BINARY_VIEW:
    case FB_ARROW_FIXED_BINARY: return true;
    default: return false;
  }
}

/* Records that are read together lie one behind the other in one block, as in a buffer: the loops look a little beyond
 * the end of one, as long as that is before the end of the last. */
static bool lies_together(const struct fb_arrow_column* column) {
  return column->arrow.kind == FB_ARROW_BINARY || column->arrow.kind == FB_ARROW_LARGE_BINARY ||
         column->arrow.kind == FB_ARROW_FIXED_BINARY;
}

/* Up to `limit` values from `first` on, none of which is null. */
static void collect_values(const struct fb_arrow_column* values, int64_t first, uint32_t limit,
                           struct fb_arrow_records* records) {
  size_t size, sum = 0;

  for (records->count = 0; records->count < limit && sum < FB_ARROW_RECORDS_BYTES; records->count++) {
    const struct fb_arrow_column* found = values;
    int64_t slot = first + records->count;
    fb_arrow_column_resolve(&found, &slot);
    records->heads[records->count] = fb_arrow_column_bytes(found, slot, &size);
    records->ends[records->count] = records->heads[records->count] + size;
    sum += size;
  }
}

/* The rows themselves are there, too. */
static int64_t read_collected(struct fb_arrow_builder* to, struct fb_arrow_records* records,
                              struct fb_arrow_reading* reading) {
  int64_t before = to->length, taken = fb_arrow_records_read(to, records, reading);
  int code = FB_OK;

  if (taken > 0 && to->column->arrow.kind == FB_ARROW_STRUCT && to->column->nullable == NULL) {
    to->length = before;
    code = fb_arrow_builder_put_valid_slots(to, taken);
  }
  return code == FB_OK ? taken : code;
}

int64_t fb_arrow_binary_read(const struct fb_arrow_column* values, struct fb_arrow_builder* to, bool is_permissive,
                             struct fb_arrow_reading* reading) {
  struct fb_arrow_records records;
  uint32_t most = lies_together(values) ? FB_ARROW_RECORDS : 1, at_once = most;
  int64_t row = 0;
  int code = FB_OK;

  *reading = (struct fb_arrow_reading){0};
  while (code == FB_OK && row < values->length) {
    bool is_null;
    uint32_t limit = values->length - row < at_once ? (uint32_t)(values->length - row) : at_once;
    uint32_t count = count_alike(values, row, limit, &is_null);
    int64_t taken;
    if (is_null) {
      code = put_nulls(to, count);
      row += count;
      continue;
    }
    collect_values(values, row, count, &records);
    taken = read_collected(to, &records, reading);
    if (taken < 0) return taken;
    row += taken;
    at_once = at_once <= most / 2 ? 2 * at_once : most;
    if (reading->code == FB_OK) continue;
    if (!is_permissive || reading->code == FB_EBOUNDS) return row;
    code = put_nulls(to, 1);
    row++;
    at_once = 1; /* where many are wrong, not all that follow are read again for each */
  }
  *reading = (struct fb_arrow_reading){0};
  return code == FB_OK ? row : code;
}
