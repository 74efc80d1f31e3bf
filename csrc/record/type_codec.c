#include "record/type_codec.h"

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

static uint32_t add_saturated(uint32_t a, uint32_t b) { return a > UINT32_MAX - b ? UINT32_MAX : a + b; }

static uint32_t children_min_size(const struct fb_type* self) {
  uint32_t sum = 0;

  for (uint32_t i = 0; i < self->child_count; i++) sum = add_saturated(sum, self->children[i]->min_size);
  return sum;
}

static uint32_t mask_size(const struct fb_type* row) { return (row->child_count + 2 + 7) / 8; }

void fb_type_codec_measure(struct fb_type* self) {
  uint32_t left, right;

  switch (self->kind) {
    case FB_TYPE_STRING:
    case FB_TYPE_STRING_VALUE: self->min_size = 1; break;
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
    default: self->min_size = fixed_sizes[self->kind] > 0 ? fixed_sizes[self->kind] : 4; /* a length */
  }
}

/* --- text ------------------------------------------------------------------------------------------- */

int fb_type_codec_read_varint(struct fb_input* input, uint32_t* value) {
  const uint8_t* pos = input->pos;
  uint32_t bits = 0;

  for (unsigned shift = 0;; shift += 7, pos++) {
    if (pos == input->end) return input->pos = pos, FB_ETRUNCATED;
    /* A fifth byte holds bits 28 to 30; a last byte of zero would have been left out. */
    if ((shift == 28 && *pos > 0x07) || (shift > 0 && *pos == 0)) return input->pos = pos, FB_ECORRUPT;
    bits |= (uint32_t)(*pos & 0x7f) << shift;
    if (*pos < 0x80) break;
  }
  input->pos = pos + 1;
  *value = bits;
  return FB_OK;
}

/* Reads one UTF-16 unit of 1 to 3 bytes. */
static inline int read_unit(const uint8_t** from, const uint8_t* end, uint32_t* unit) {
  const uint8_t* pos = *from;

  if (pos == end) return FB_ETRUNCATED;
  *unit = *pos & 0x7fu;
  if (*pos++ >= 0x80) {
    if (pos == end) return FB_ETRUNCATED;
    if (*pos == 0) return FB_ECORRUPT;
    *unit |= (uint32_t)(*pos & 0x7f) << 7;
    if (*pos++ >= 0x80) {
      if (pos == end) return FB_ETRUNCATED;
      if (*pos == 0 || *pos > 0x03) return FB_ECORRUPT; /* 16 bits in all */
      *unit |= (uint32_t)*pos++ << 14;
    }
  }
  *from = pos;
  return FB_OK;
}

static inline bool is_high_surrogate(uint32_t point) { return point >> 10 == 0xd800u >> 10; }
static inline bool is_low_surrogate(uint32_t point) { return point >> 10 == 0xdc00u >> 10; }
static inline uint32_t join_surrogates(uint32_t high, uint32_t low) {
  return 0x10000u + ((high & 0x3ffu) << 10) + (low & 0x3ffu);
}

int fb_type_codec_measure_text(struct fb_input* input, uint32_t units, struct fb_text* text) {
  const uint8_t *pos = input->pos, *end = input->end;
  uint32_t previous = 0, unit = 0, points = 0, max_point = 0;

  for (uint32_t i = 0; i < units; i++) {
    int code = read_unit(&pos, end, &unit);
    if (code != FB_OK) return input->pos = pos, code;
    if (is_low_surrogate(unit) && is_high_surrogate(previous)) {
      uint32_t point = join_surrogates(previous, unit);
      if (point > max_point) max_point = point;
      unit = 0; /* a low one after this stands alone */
    } else {
      points++;
      if (unit > max_point) max_point = unit;
    }
    previous = unit;
  }
  *text = (struct fb_text){(size_t)(pos - input->pos), units, points, max_point};
  input->pos = pos;
  return FB_OK;
}

static inline void store_point(void* points, size_t index, int width, uint32_t point) {
  if (width == 1) ((uint8_t*)points)[index] = (uint8_t)point;
  else if (width == 2) ((uint16_t*)points)[index] = (uint16_t)point;
  else ((uint32_t*)points)[index] = point;
}

static inline uint32_t load_point(const void* points, size_t index, int width) {
  if (width == 1) return ((const uint8_t*)points)[index];
  if (width == 2) return ((const uint16_t*)points)[index];
  return ((const uint32_t*)points)[index];
}

void fb_type_codec_decode_text(const uint8_t* from, const struct fb_text* text, int width, void* points) {
  const uint8_t* end = from + text->size;
  size_t index = 0;
  uint32_t unit = 0, previous = 0;

  while (from < end && read_unit(&from, end, &unit) == FB_OK) {
    if (is_low_surrogate(unit) && is_high_surrogate(previous)) {
      store_point(points, index - 1, width, join_surrogates(previous, unit));
      unit = 0;
    } else {
      store_point(points, index++, width, unit);
    }
    previous = unit;
  }
}

static bool has_surrogate_pair(const void* points, size_t length, int width) {
  for (size_t i = 1; i < length; i++)
    if (is_low_surrogate(load_point(points, i, width)) && is_high_surrogate(load_point(points, i - 1, width)))
      return true;
  return false;
}

/* A loop for each width, in which nothing depends on the last character: the compiler takes many at once. */
static inline bool plan_text(const void* points, size_t length, int width, struct fb_text* text) {
  uint32_t above_7_bits = 0, above_14_bits = 0, pairs = 0, low_surrogates = 0;

  for (size_t i = 0; i < length; i++) {
    uint32_t point = load_point(points, i, width);
    /* Both halves of a surrogate pair are above 0x3fff. */
    above_7_bits += point >= 0x80;
    above_14_bits += point >= 0x4000;
    pairs += point > 0xffff;
    low_surrogates |= is_low_surrogate(point);
  }
  text->size = length + above_7_bits + above_14_bits + 3 * (size_t)pairs;
  text->units = (uint32_t)length + pairs;
  text->length = (uint32_t)length;
  return low_surrogates == 0 || !has_surrogate_pair(points, length, width);
}

bool fb_type_codec_plan_text(const void* points, size_t length, int width, struct fb_text* text) {
  if (width == 1) return plan_text(points, length, 1, text);
  return width == 2 ? plan_text(points, length, 2, text) : plan_text(points, length, 4, text);
}

uint8_t* fb_type_codec_encode_text(const void* points, size_t length, int width, uint8_t* to) {
  for (size_t i = 0; i < length; i++) {
    uint32_t point = load_point(points, i, width);
    if (point > 0xffff) {
      point -= 0x10000u;
      to = fb_type_codec_write_varint(0xd800u | point >> 10, to);
      point = 0xdc00u | (point & 0x3ffu);
    }
    to = fb_type_codec_write_varint(point, to);
  }
  return to;
}

/* --- arrays of numbers ------------------------------------------------------------------------------ */

/* Java's floatToIntBits and doubleToLongBits: one NaN stands for all. */
static inline uint32_t float_bits(uint32_t bits) { return (bits & INT32_MAX) > 0x7f800000u ? 0x7fc00000u : bits; }
static inline uint64_t double_bits(uint64_t bits) {
  return (bits & INT64_MAX) > 0x7ff0000000000000u ? 0x7ff8000000000000u : bits;
}

/* Element `i` of numbers that may lie at any address: a view of somebody's bytes need not be aligned. */
static inline uint16_t load_16(const void* from, size_t i) {
  uint16_t value;
  memcpy(&value, (const uint8_t*)from + 2 * i, 2);
  return value;
}

static inline uint32_t load_32(const void* from, size_t i) {
  uint32_t value;
  memcpy(&value, (const uint8_t*)from + 4 * i, 4);
  return value;
}

static inline uint64_t load_64(const void* from, size_t i) {
  uint64_t value;
  memcpy(&value, (const uint8_t*)from + 8 * i, 8);
  return value;
}

void fb_type_codec_store_array(enum fb_type_kind kind, const void* from, size_t count, uint8_t* to) {
  size_t width = fixed_sizes[kind];

  if (width == 1) {
    if (count > 0) memcpy(to, from, count);
  } else if (width == 2) {
    for (size_t i = 0; i < count; i++) fb_store_be16(to + 2 * i, load_16(from, i));
  } else if (kind == FB_TYPE_FLOAT) {
    for (size_t i = 0; i < count; i++) fb_store_be32(to + 4 * i, float_bits(load_32(from, i)));
  } else if (width == 4) {
    for (size_t i = 0; i < count; i++) fb_store_be32(to + 4 * i, load_32(from, i));
  } else if (kind == FB_TYPE_DOUBLE) {
    for (size_t i = 0; i < count; i++) fb_store_be64(to + 8 * i, double_bits(load_64(from, i)));
  } else {
    for (size_t i = 0; i < count; i++) fb_store_be64(to + 8 * i, load_64(from, i));
  }
}

void fb_type_codec_load_array(enum fb_type_kind kind, const uint8_t* from, size_t count, void* to) {
  size_t width = fixed_sizes[kind];
  uint8_t* out = to;

  if (width == 1) {
    if (count > 0) memcpy(out, from, count);
  } else if (width == 2) {
    for (size_t i = 0; i < count; i++) memcpy(out + 2 * i, &(uint16_t){fb_load_be16(from + 2 * i)}, 2);
  } else if (width == 4) {
    for (size_t i = 0; i < count; i++) memcpy(out + 4 * i, &(uint32_t){fb_load_be32(from + 4 * i)}, 4);
  } else {
    for (size_t i = 0; i < count; i++) memcpy(out + 8 * i, &(uint64_t){fb_load_be64(from + 8 * i)}, 8);
  }
}

/* --- skip: helpers ---------------------------------------------------------------------------------- */

static int skip_bytes(struct fb_input* input, size_t size) {
  if (fb_input_left(input) < size) return FB_ETRUNCATED;
  input->pos += size;
  return FB_OK;
}

/* One byte that is 0 or 1. */
static int skip_flag(struct fb_input* input, bool* flag) {
  if (fb_input_left(input) < 1) return FB_ETRUNCATED;
  if (*input->pos > 1) return FB_ECORRUPT;
  *flag = *input->pos++ == 1;
  return FB_OK;
}

static int skip_zeros(struct fb_input* input, size_t size) {
  if (fb_input_left(input) < size) return FB_ETRUNCATED;
  for (; size > 0; size--, input->pos++)
    if (*input->pos != 0) return FB_ECORRUPT;
  return FB_OK;
}

/* A count, checked against the bytes left; an offending one is not passed over. */
static int skip_count(struct fb_input* input, uint32_t min_size, uint32_t* count) {
  if (fb_input_left(input) < 4) return FB_ETRUNCATED;
  *count = fb_load_be32(input->pos);
  if (*count > INT32_MAX) return FB_ECORRUPT;
  if (!fb_type_codec_fits(*count, min_size, fb_input_left(input) - 4))
    return min_size == 0 ? FB_ETOO_LARGE : FB_ETRUNCATED;
  input->pos += 4;
  return FB_OK;
}

/* --- skip: one value of each kind ------------------------------------------------------------------- */

static int skip_string(struct fb_input* input, bool has_null) {
  const uint8_t* start = input->pos;
  struct fb_text text;
  uint32_t units;
  int code = fb_type_codec_read_varint(input, &units);

  if (code != FB_OK) return code;
  if (has_null && units-- == 0) return FB_OK; /* null; else one more than the units */
  if (units > fb_input_left(input)) return input->pos = start, FB_ETRUNCATED;
  return fb_type_codec_measure_text(input, units, &text);
}

/* The two's complement of a BigInteger is never empty and never longer than it needs to be. */
static int skip_big_int(struct fb_input* input, bool* is_null) {
  uint32_t length;
  const uint8_t* bytes;

  if (fb_input_left(input) < 4) return FB_ETRUNCATED;
  length = fb_load_be32(input->pos);
  *is_null = length == 0;
  if (length == 4 || length > INT32_MAX) return FB_ECORRUPT;
  if (length < 4) return skip_bytes(input, 4); /* null, and the short forms of 0, 1 and 10 */
  if (fb_input_left(input) - 4 < length - 4) return FB_ETRUNCATED;
  bytes = input->pos + 4;
  if (length > 5 && ((bytes[0] == 0 && bytes[1] < 0x80) || (bytes[0] == 0xff && bytes[1] >= 0x80))) return FB_ECORRUPT;
  input->pos = bytes + (length - 4);
  return FB_OK;
}

static int skip_big_dec(struct fb_input* input) {
  bool is_null;
  int code = skip_big_int(input, &is_null);

  return code != FB_OK || is_null ? code : skip_bytes(input, 4);
}

static int skip_instant(struct fb_input* input) {
  int64_t second;
  uint32_t nano;

  if (fb_input_left(input) < 12) return FB_ETRUNCATED;
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
static int skip_date_time(struct fb_input* input, bool has_date, bool has_time) {
  size_t date_size = has_date ? 6 : 0, size = date_size + (has_time ? 7 : 0);

  if (fb_input_left(input) < size) return FB_ETRUNCATED;
  if (memcmp(input->pos, null_date_time + (has_date ? 0 : 6), size) != 0 &&
      ((has_date && !is_date(input->pos)) || (has_time && !is_time(input->pos + date_size))))
    return FB_ECORRUPT;
  input->pos += size;
  return FB_OK;
}

/* java.sql.Timestamp: its milliseconds count the whole ones of its nanoseconds too. */
static int skip_timestamp(struct fb_input* input) {
  int64_t millis, milli;
  uint32_t nanos;

  if (fb_input_left(input) < 12) return FB_ETRUNCATED;
  millis = (int64_t)fb_load_be64(input->pos);
  nanos = fb_load_be32(input->pos + 8);
  milli = (millis % 1000 + 1000) % 1000;
  if (millis == INT64_MIN ? nanos != 0 : nanos >= NANOS_PER_SECOND || nanos / NANOS_PER_MILLI != milli)
    return FB_ECORRUPT;
  input->pos += 12;
  return FB_OK;
}

static int skip_enum(const struct fb_type* self, struct fb_input* input) {
  if (fb_input_left(input) < 4) return FB_ETRUNCATED;
  if (fb_load_be32(input->pos) >= self->symbol_count) return FB_ECORRUPT;
  input->pos += 4;
  return FB_OK;
}

static int skip_primitive_array(const struct fb_type* self, struct fb_input* input) {
  uint32_t size = self->children[0]->min_size, count;
  int code = skip_count(input, size, &count);

  if (code != FB_OK) return code;
  if (self->children[0]->kind != FB_TYPE_BOOLEAN) return skip_bytes(input, (size_t)count * size);
  for (; count > 0; count--, input->pos++)
    if (*input->pos > 1) return FB_ECORRUPT;
  return FB_OK;
}

static int skip_strings(struct fb_input* input) {
  uint32_t count;
  int code = skip_count(input, 1, &count);

  for (; code == FB_OK && count > 0; count--) code = skip_string(input, true);
  return code;
}

static int skip_list(const struct fb_type* self, struct fb_input* input) {
  uint32_t count;
  int code = skip_count(input, self->children[0]->min_size, &count);

  for (; code == FB_OK && count > 0; count--) code = fb_type_codec_skip(self->children[0], input);
  return code;
}

/* A flag before each element: SET says with 1 that it is null, OBJECT_ARRAY that it is not. */
static int skip_flagged(const struct fb_type* self, struct fb_input* input, bool flag_of_null) {
  uint32_t count;
  bool flag = false;
  int code = skip_count(input, 1, &count);

  for (; code == FB_OK && count > 0; count--) {
    code = skip_flag(input, &flag);
    if (code == FB_OK && flag != flag_of_null) code = fb_type_codec_skip(self->children[0], input);
  }
  return code;
}

static int skip_map(const struct fb_type* self, struct fb_input* input) {
  uint32_t count;
  bool is_null = false;
  int code = skip_count(input, add_saturated(self->children[0]->min_size, 1), &count);

  for (; code == FB_OK && count > 0; count--) {
    code = fb_type_codec_skip(self->children[0], input);
    if (code == FB_OK) code = skip_flag(input, &is_null);
    if (code == FB_OK && !is_null) code = fb_type_codec_skip(self->children[1], input);
  }
  return code;
}

static int skip_tuple(const struct fb_type* self, struct fb_input* input) {
  int code = FB_OK;

  for (uint32_t i = 0; code == FB_OK && i < self->child_count; i++) code = fb_type_codec_skip(self->children[i], input);
  return code;
}

/* The mask: 2 bits of RowKind, a null bit for each field, most significant bit first, then zeros. */
static int skip_row(const struct fb_type* self, struct fb_input* input) {
  const uint8_t* mask = input->pos;
  uint32_t size = mask_size(self), bits = self->child_count + 2;
  int code = skip_bytes(input, size);

  if (code != FB_OK) return code;
  if (bits % 8 != 0 && (mask[size - 1] & (0xffu >> (bits % 8))) != 0) return input->pos = mask + size - 1, FB_ECORRUPT;
  for (uint32_t i = 0, bit = 2; code == FB_OK && i < self->child_count; i++, bit++)
    if ((mask[bit / 8] & (0x80u >> (bit % 8))) == 0) code = fb_type_codec_skip(self->children[i], input);
  return code;
}

static int skip_either(const struct fb_type* self, struct fb_input* input) {
  bool is_left = false;
  int code = skip_flag(input, &is_left);

  return code == FB_OK ? fb_type_codec_skip(self->children[is_left ? 0 : 1], input) : code;
}

static int skip_nullable(const struct fb_type* self, struct fb_input* input) {
  bool is_null = false;
  int code = skip_flag(input, &is_null);

  if (code != FB_OK) return code;
  return is_null ? skip_zeros(input, self->padding) : fb_type_codec_skip(self->children[0], input);
}

static int skip_stream_element(const struct fb_type* self, struct fb_input* input) {
  const uint8_t* tag = input->pos;
  bool backlog;
  int code = skip_bytes(input, 1);

  if (code != FB_OK) return code;
  switch (*tag) {
    case FB_ELEMENT_RECORD_WITH_TIMESTAMP:
      code = skip_bytes(input, 8);
      return code == FB_OK ? fb_type_codec_skip(self->children[0], input) : code;
    case FB_ELEMENT_RECORD: return fb_type_codec_skip(self->children[0], input);
    case FB_ELEMENT_WATERMARK: return skip_bytes(input, 8);
    case FB_ELEMENT_LATENCY_MARKER: return skip_bytes(input, 28);
    case FB_ELEMENT_WATERMARK_STATUS:
      if (fb_input_left(input) < 4) return FB_ETRUNCATED;
      if (fb_load_be32(input->pos) + 1 > 1) return FB_ECORRUPT; /* 0 active, -1 idle */
      return skip_bytes(input, 4);
    case FB_ELEMENT_RECORD_ATTRIBUTES: return skip_flag(input, &backlog);
    case FB_ELEMENT_INTERNAL_WATERMARK: return skip_bytes(input, 12);
    default: return input->pos = tag, FB_ECORRUPT;
  }
}

static int skip_sized_bytes(struct fb_input* input) {
  uint32_t size;
  int code = skip_count(input, 1, &size);

  return code == FB_OK ? skip_bytes(input, size) : code;
}

int fb_type_codec_skip(const struct fb_type* self, struct fb_input* input) {
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
    default: return skip_bytes(input, fixed_sizes[self->kind]);
  }
}
