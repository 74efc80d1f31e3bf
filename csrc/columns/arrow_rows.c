#include "columns/arrow_rows.h"

#include <stdlib.h>

#include "columns/arrow_row_data.h"
#include "columns/arrow_value.h"
#include "ground/wide.h"
#include "value/number.h"

#define LENGTH_BYTES    4
#define MAX_CHUNK_BYTES (1u << 26) /* of a chunk of more than one row, which may be packed in memory */
#define MAX_CHUNK_TEXT  (1u << 30) /* in all columns: with less text in a chunk no sum of sizes can overflow */

/* How far ahead a row's place is brought near, and its builder before that. */
#define ROWS_AHEAD     8
#define BUILDERS_AHEAD 24

/* ---- what kind of loop a column has ----------------------------------------------------------------- */

enum field_loop {
  FIELD_64,
  FIELD_DOUBLE,
  FIELD_8,
  FIELD_16,
  FIELD_32,
  FIELD_FLOAT,
  FIELD_BOOLEAN,
  FIELD_TEXT, /* behind offsets of 4 bytes; all of the chunk's is ASCII */
  FIELD_ANY,  /* value by value */
};

/* What put_row() asks first: most fields are one of the first three. */
enum field_way { WAY_64, WAY_DOUBLE, WAY_TEXT, WAY_OTHER };

/* A column from the chunk's first row on. */
struct fb_arrow_field {
  enum field_way way;
  enum field_loop loop;
  const uint8_t* from;     /* numbers, or offsets of text: from the chunk's first value on; bits: from the array's */
  const uint8_t* text;     /* what the offsets count from */
  size_t text_end;         /* the batch's text ends there */
  const uint8_t* validity; /* NULL: nothing is null, or `loop` is FIELD_ANY */
  int64_t at;              /* the first value's place in the array */
  int64_t base;            /* the same without the array's offset */
  uint32_t width;          /* bytes of a value, where every one has as many */
  const struct fb_arrow_column* column;
};

static enum field_loop loop_of_width(uint32_t width) {
  return width == 1 ? FIELD_8 : width == 2 ? FIELD_16 : width == 4 ? FIELD_32 : FIELD_64;
}

/* `has_mask`: a field that is null has no bytes. Without it nulls take the long way. */
static enum field_loop loop_of(const struct fb_arrow_column* column, bool has_mask) {
  enum fb_type_kind kind = column->type->kind;

  if (column->nullable != NULL || (!has_mask && column->validity != NULL)) return FIELD_ANY;
  switch (column->arrow.kind) {
    case FB_ARROW_BOOLEAN: return FIELD_BOOLEAN;
    case FB_ARROW_INTEGER:
    case FB_ARROW_DURATION:
    case FB_ARROW_MONTHS:
      return fb_type_fixed_size(kind) == column->arrow.width ? loop_of_width(column->arrow.width) : FIELD_ANY;
    case FB_ARROW_FLOAT:
      if (fb_type_fixed_size(kind) != column->arrow.width) return FIELD_ANY;
      return kind == FB_TYPE_FLOAT ? FIELD_FLOAT : FIELD_DOUBLE;
    case FB_ARROW_TEXT: return kind == FB_TYPE_STRING ? FIELD_TEXT : FIELD_ANY;
    default: return FIELD_ANY;
  }
}

static bool is_row_of_fields(const struct fb_arrow_column* column) {
  return column->arrow.kind == FB_ARROW_STRUCT && column->nullable == NULL;
}

int fb_arrow_rows_open(struct fb_arrow_rows* self, const struct fb_arrow_column* row) {
  uint32_t count = is_row_of_fields(row) ? row->child_count : 1;
  struct fb_arrow_field* fields = calloc(count > 0 ? count : 1, sizeof *fields);

  self->row = NULL;
  self->fields = NULL;
  if (fields == NULL) return FB_ENOMEM;
  self->row = row;
  self->fields = fields;
  self->field_count = count;
  self->mask_size = is_row_of_fields(row) && row->type->kind == FB_TYPE_ROW ? (count + 9) / 8 : 0;
  for (uint32_t k = 0; k < count; k++) fields[k].column = is_row_of_fields(row) ? &row->children[k] : row;
  return FB_OK;
}

void fb_arrow_rows_close(struct fb_arrow_rows* self) {
  free(self->fields);
  self->fields = NULL;
  self->row = NULL;
}

/* ---- text ------------------------------------------------------------------------------------------- */

static inline int32_t load_text_offset(const uint8_t* offsets, int64_t i) {
  int32_t offset;
  memcpy(&offset, offsets + 4 * i, 4);
  return offset;
}

/* Adds length and varint of each text, as if all varints had one byte; whether they have. */
static FB_WIDE_INLINE bool add_text_sizes(uint32_t* restrict sizes, const uint8_t* restrict offsets, uint32_t count) {
  uint32_t seen = 0;

  for (uint32_t i = 0; i < count; i++) {
    uint32_t size = (uint32_t)load_text_offset(offsets, (int64_t)i + 1) - (uint32_t)load_text_offset(offsets, i);
    sizes[i] += size + 1;
    seen |= size;
  }
  return seen < 0x7f;
}
static FB_WIDE_TARGET bool add_text_sizes_wide(uint32_t* sizes, const uint8_t* offsets, uint32_t count) {
  return add_text_sizes(sizes, offsets, count);
}

static FB_WIDE_TARGET bool is_ascii_wide(const uint8_t* from, size_t size) { return fb_text_is_ascii(from, size); }

/* The text of the chunk lies together: one look says whether all of it is ASCII. */
static bool is_chunk_ascii(const struct fb_arrow_field* field, const struct fb_arrow_rows* rows) {
  uint32_t count = rows->count;
  int32_t start = load_text_offset(field->from, 0), end = load_text_offset(field->from, count);
  size_t size = (size_t)(end - start);

  if (size >= MAX_CHUNK_TEXT / rows->field_count) return false;
  return fb_wide_is_there() ? is_ascii_wide(field->text + start, size) : fb_text_is_ascii(field->text + start, size);
}

static void measure_ascii(struct fb_arrow_rows* self, const struct fb_arrow_field* field) {
  uint32_t count = self->count;
  bool is_short;

  if (field->validity == NULL) {
    is_short = fb_wide_is_there() ? add_text_sizes_wide(self->sizes, field->from, count)
                                  : add_text_sizes(self->sizes, field->from, count);
    if (is_short) return;
  }
  for (uint32_t i = 0; i < count; i++) {
    uint32_t size = (uint32_t)(load_text_offset(field->from, (int64_t)i + 1) - load_text_offset(field->from, i));
    if (field->validity == NULL) self->sizes[i] += fb_text_varint_size((uint64_t)size + 1) - 1;
    else if (fb_arrow_column_bit(field->validity, field->at + i))
      self->sizes[i] += size + fb_text_varint_size((uint64_t)size + 1);
  }
}

/* ---- sizes ------------------------------------------------------------------------------------------ */

/* Puts the field on the rows of the chunk; `base` is the first one's slot. bind() has looked at the offsets up to that of
 * the batch's last row, and no further. */
static void begin_field(struct fb_arrow_field* field, const struct fb_arrow_rows* rows, int64_t base) {
  const struct fb_arrow_column* column = field->column;
  bool has_mask = rows->mask_size > 0;

  field->loop = loop_of(column, has_mask);
  field->base = base;
  field->at = column->offset + base;
  field->validity = field->loop == FIELD_ANY ? NULL : column->validity;
  field->width = field->loop < FIELD_TEXT ? fb_type_fixed_size(column->type->kind) : 0;
  if (field->loop < FIELD_BOOLEAN) field->from = column->values + field->at * (int64_t)field->width;
  else if (field->loop == FIELD_BOOLEAN) field->from = column->values;
  else if (field->loop == FIELD_TEXT) {
    field->from = column->offsets + 4 * field->at;
    field->text = column->values;
    field->text_end = (size_t)load_text_offset(field->from, rows->row->length - rows->first);
    if (!is_chunk_ascii(field, rows)) field->loop = FIELD_ANY;
  }
  if (field->loop == FIELD_ANY) field->validity = NULL;
  field->way = field->validity != NULL       ? WAY_OTHER
               : field->loop == FIELD_64     ? WAY_64
               : field->loop == FIELD_DOUBLE ? WAY_DOUBLE
               : field->loop == FIELD_TEXT   ? WAY_TEXT
                                             : WAY_OTHER;
}

static void stop_chunk_at(struct fb_arrow_rows* self, uint32_t i, struct fb_arrow_fault* fault) {
  self->count = i;
  fault->row = self->first + i;
}

static void measure_nullable(struct fb_arrow_rows* self, const struct fb_arrow_field* field) {
  for (uint32_t i = 0; i < self->count; i++)
    self->sizes[i] += field->width & (0u - (uint32_t)fb_arrow_column_bit(field->validity, field->at + i));
}

static void measure_any(struct fb_arrow_rows* self, const struct fb_arrow_field* column, struct fb_arrow_fault* fault) {
  for (uint32_t i = 0; i < self->count; i++) {
    const struct fb_arrow_column* field = column->column;
    int64_t slot = column->base + i, size;
    if (self->mask_size > 0 && !fb_arrow_column_resolve(&field, &slot)) continue;
    size = fb_arrow_value_size(column->column, column->base + i, fault);
    if (size >= 0 && self->sizes[i] + size > INT32_MAX) {
      *fault = (struct fb_arrow_fault){.column = column->column, .reason = "a row of 2^31 bytes or more"};
      size = -1;
    }
    if (size < 0) return stop_chunk_at(self, i, fault);
    self->sizes[i] += (uint32_t)size;
  }
}

static void refuse_nulls(struct fb_arrow_rows* self, const struct fb_arrow_field* field, struct fb_arrow_fault* fault) {
  for (uint32_t i = 0; i < self->count; i++) {
    const struct fb_arrow_column* found = field->column;
    int64_t slot = field->base + i;
    if (fb_arrow_column_resolve(&found, &slot)) continue;
    *fault = (struct fb_arrow_fault){.column = field->column, .reason = FB_ARROW_COLUMN_NULL};
    stop_chunk_at(self, i, fault);
  }
}

/* Rows so large that fewer make a chunk. A fault behind them will be found again. */
static void cut_chunk(struct fb_arrow_rows* self, struct fb_arrow_fault* fault) {
  uint64_t sum = 0;

  for (uint32_t i = 0; i < self->count; i++) sum += self->sizes[i];
  if (sum <= MAX_CHUNK_BYTES) return;
  sum = 0;
  for (uint32_t i = 0; i < self->count; i++) {
    sum += self->sizes[i];
    if (sum > MAX_CHUNK_BYTES && i > 0) {
      self->count = i;
      *fault = (struct fb_arrow_fault){.row = -1};
    }
  }
}

/* Bytes that every row has; the fields that have no others need no further look. */
static uint32_t begin_fields(struct fb_arrow_rows* self) {
  const struct fb_arrow_column* row = self->row;
  int64_t base = self->first + (is_row_of_fields(row) ? row->offset : 0);
  uint32_t sum = LENGTH_BYTES + self->mask_size;

  for (uint32_t k = 0; k < self->field_count; k++) {
    struct fb_arrow_field* field = &self->fields[k];
    begin_field(field, self, base);
    if (field->validity == NULL) sum += field->width;
  }
  return sum;
}

void fb_arrow_rows_measure(struct fb_arrow_rows* self, int64_t first, struct fb_arrow_fault* fault) {
  fb_arrow_rows_measure_some(self, first, FB_ARROW_CHUNK, fault);
}

void fb_arrow_rows_measure_some(struct fb_arrow_rows* self, int64_t first, uint32_t limit,
                                struct fb_arrow_fault* fault) {
  const struct fb_arrow_column* row = self->row;
  int64_t left = row->length - first;
  uint32_t fixed;

  *fault = (struct fb_arrow_fault){.row = -1};
  self->first = first;
  self->count = left < limit ? (uint32_t)left : limit;
  if (row->type->kind == FB_TYPE_ROW_DATA) {
    fb_arrow_row_data_measure(row, first, &self->count, self->sizes, fault);
    cut_chunk(self, fault);
    return;
  }
  for (uint32_t i = 0; is_row_of_fields(row) && row->validity != NULL && i < self->count; i++)
    if (fb_arrow_column_is_marked_null(row, first + i)) {
      *fault = (struct fb_arrow_fault){.column = row, .reason = "the row itself is null"};
      stop_chunk_at(self, i, fault);
    }
  if (self->count == 0) return;
  fixed = begin_fields(self);
  for (uint32_t i = 0; i < self->count; i++) self->sizes[i] = fixed;
  for (uint32_t k = 0; k < self->field_count; k++) {
    const struct fb_arrow_field* field = &self->fields[k];
    if (field->column->is_required && (field->validity != NULL || field->loop == FIELD_ANY))
      refuse_nulls(self, field, fault);
    if (field->loop == FIELD_ANY) measure_any(self, field, fault);
    else if (field->loop == FIELD_TEXT) measure_ascii(self, field);
    else if (field->validity != NULL) measure_nullable(self, field);
  }
  cut_chunk(self, fault);
}

/* ---- fields ----------------------------------------------------------------------------------------- */

static inline uint16_t load_field_16(const uint8_t* from, uint32_t i) {
  uint16_t value;
  memcpy(&value, from + 2 * (size_t)i, 2);
  return value;
}

static inline uint32_t load_field_32(const uint8_t* from, uint32_t i) {
  uint32_t value;
  memcpy(&value, from + 4 * (size_t)i, 4);
  return value;
}

static inline uint64_t load_field_64(const uint8_t* from, uint32_t i) {
  uint64_t value;
  memcpy(&value, from + 8 * (size_t)i, 8);
  return value;
}

/* Short text is copied as 16 bytes, as long as the batch's text and the slack behind the row have them. */
static inline uint8_t* put_text_field(const struct fb_arrow_field* field, uint32_t i, uint8_t* to) {
  uint32_t start = load_field_32(field->from, i), size = load_field_32(field->from, i + 1) - start;

  if (size > FB_ARROW_ROWS_SLACK || field->text_end - start < FB_ARROW_ROWS_SLACK)
    return fb_arrow_value_put_ascii(field->text + start, size, to);
  *to++ = (uint8_t)(size + 1);
  memcpy(to, field->text + start, FB_ARROW_ROWS_SLACK);
  return to + size;
}

static inline void mark_null_field(uint8_t* mask, uint32_t k) {
  mask[(k + 2) / 8] |= (uint8_t)(0x80u >> ((k + 2) % 8));
}

static uint8_t* put_other_field(const struct fb_arrow_rows* self, uint32_t k, uint32_t i, uint8_t* to, uint8_t* mask) {
  const struct fb_arrow_field* field = &self->fields[k];
  const struct fb_arrow_column* found = field->column;
  int64_t slot = field->base + i;

  if (field->validity != NULL && !fb_arrow_column_bit(field->validity, field->at + i))
    return mark_null_field(mask, k), to;
  switch (field->loop) {
    case FIELD_8: *to = field->from[i]; return to + 1;
    case FIELD_16: fb_store_be16(to, load_field_16(field->from, i)); return to + 2;
    case FIELD_32: fb_store_be32(to, load_field_32(field->from, i)); return to + 4;
    case FIELD_64: fb_store_be64(to, load_field_64(field->from, i)); return to + 8;
    case FIELD_FLOAT: fb_store_be32(to, fb_number_java_float(load_field_32(field->from, i))); return to + 4;
    case FIELD_DOUBLE: fb_store_be64(to, fb_number_java_double(load_field_64(field->from, i))); return to + 8;
    case FIELD_BOOLEAN: *to = fb_arrow_column_bit(field->from, field->at + i); return to + 1;
    case FIELD_TEXT: return put_text_field(field, i, to);
    default: break;
  }
  if (self->mask_size > 0 && !fb_arrow_column_resolve(&found, &slot)) return mark_null_field(mask, k), to;
  return fb_arrow_value_put(field->column, field->base + i, to);
}

/* Row `i` of the chunk without its length, with up to FB_ARROW_ROWS_SLACK bytes of anything behind it. */
static FB_WIDE_INLINE void put_row(const struct fb_arrow_rows* self, const struct fb_arrow_field* fields,
                                   uint32_t field_count, uint32_t mask_size, uint32_t i, uint8_t* to) {
  uint8_t* mask = to;

  memset(mask, 0, 8);
  if (mask_size > 8) memset(mask, 0, mask_size);
  to = mask + mask_size;
  for (uint32_t k = 0; k < field_count; k++) {
    const struct fb_arrow_field* field = &fields[k];
    enum field_way way = field->way;
    const uint8_t* from = field->from;
    if (way == WAY_TEXT) to = put_text_field(field, i, to);
    else if (way == WAY_OTHER) to = put_other_field(self, k, i, to, mask);
    else {
      uint64_t value = load_field_64(from, i);
      if (way == WAY_DOUBLE) value = fb_number_java_double(value);
      fb_store_be64(to, value);
      to += 8;
    }
  }
}

/* ---- places ----------------------------------------------------------------------------------------- */

/* How many rows from `from` on have a channel that there is. */
static uint32_t count_known_channels(const struct fb_arrow_rows* self, uint32_t from, uint32_t builder_count) {
  uint32_t highest = 0, i = from;

  for (uint32_t k = from; k < self->count; k++) highest = self->channels[k] > highest ? self->channels[k] : highest;
  if (highest < builder_count) return self->count;
  while (self->channels[i] < builder_count) i++;
  return i;
}

/* Where the next rows will go, as far as can be told already. */
static FB_WIDE_INLINE void bring_places_near(const struct fb_arrow_rows* self, uint32_t i, uint32_t count,
                                             const struct fb_buffer_builder* builders) {
  uint32_t near = i + ROWS_AHEAD < count ? i + ROWS_AHEAD : i,
           far = i + BUILDERS_AHEAD < count ? i + BUILDERS_AHEAD : i;
  const struct fb_buffer_builder* builder = &builders[self->channels[near]];
  const uint8_t* place = builder->data + builder->position;

  __builtin_prefetch(place, 1);
  __builtin_prefetch(place + self->sizes[near], 1);
  __builtin_prefetch(&builders[self->channels[far]], 1);
}

/* Before row `i`; returns where that goes. */
static inline uint8_t* put_row_length(const struct fb_arrow_rows* self, uint32_t i, uint8_t* to) {
  fb_store_be32(to, self->sizes[i] - LENGTH_BYTES);
  return to + LENGTH_BYTES;
}

static uint32_t scatter_rows(struct fb_arrow_rows* self, uint32_t from, uint32_t count,
                             struct fb_buffer_builder* restrict builders, uint64_t* restrict counts) {
  uint32_t i = from, field_count = self->field_count, mask_size = self->mask_size;
  const struct fb_arrow_field* fields = self->fields;

  for (; i < count; i++) {
    uint32_t channel = self->channels[i], size = self->sizes[i];
    struct fb_buffer_builder* builder = &builders[channel];
    uint8_t* to;
    if (fb_buffer_builder_writable(builder) < (uint64_t)size + FB_ARROW_ROWS_SLACK)
      break; /* a closed one has no room */
    bring_places_near(self, i, count, builders);
    to = builder->data + builder->position;
    builder->position += size;
    counts[channel]++;
    put_row(self, fields, field_count, mask_size, i, put_row_length(self, i, to));
  }
  return i - from;
}

/* The same where the format has loops of its own: first all places, then the rows. */
static uint32_t scatter_row_data(struct fb_arrow_rows* self, uint32_t from, uint32_t count,
                                 struct fb_buffer_builder* restrict builders, uint64_t* restrict counts) {
  uint32_t i = from;

  for (; i < count; i++) {
    uint32_t channel = self->channels[i], size = self->sizes[i];
    struct fb_buffer_builder* builder = &builders[channel];
    if (fb_buffer_builder_writable(builder) < (uint64_t)size + FB_ARROW_ROWS_SLACK) break;
    bring_places_near(self, i, count, builders);
    self->ends[i - from] = put_row_length(self, i, builder->data + builder->position);
    builder->position += size;
    counts[channel]++;
  }
  fb_arrow_row_data_put(self->row, self->first + from, i - from, self->sizes + from, self->heads, self->ends);
  return i - from;
}

uint32_t fb_arrow_rows_scatter(struct fb_arrow_rows* self, uint32_t from, struct fb_buffer_builder* builders,
                               uint32_t builder_count, uint64_t* counts) {
  uint32_t count = count_known_channels(self, from, builder_count);

  if (self->row->type->kind == FB_TYPE_ROW_DATA) return scatter_row_data(self, from, count, builders, counts);
  return scatter_rows(self, from, count, builders, counts);
}

static FB_WIDE_INLINE void pack_rows(struct fb_arrow_rows* self, uint32_t from, uint32_t count, bool has_lengths,
                                     uint8_t* to) {
  bool is_data = self->row->type->kind == FB_TYPE_ROW_DATA;

  for (uint32_t i = from; i < from + count; i++) {
    if (has_lengths) to = put_row_length(self, i, to);
    if (is_data) self->ends[i - from] = to;
    else put_row(self, self->fields, self->field_count, self->mask_size, i, to);
    to += self->sizes[i] - LENGTH_BYTES;
  }
  if (is_data) fb_arrow_row_data_put(self->row, self->first + from, count, self->sizes + from, self->heads, self->ends);
}

void fb_arrow_rows_pack(struct fb_arrow_rows* self, uint32_t from, uint32_t count, uint8_t* to) {
  pack_rows(self, from, count, true, to);
}

void fb_arrow_rows_pack_values(struct fb_arrow_rows* self, uint8_t* to) { pack_rows(self, 0, self->count, false, to); }
