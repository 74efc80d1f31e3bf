#include "record/range_key.h"

#include <stdlib.h>

#include "value/number.h"
#include "value/text.h"

#define SIGN_BIT       ((uint64_t)1 << 63)
#define BILLION        1000000000u
#define STACK_NUMBER   32 /* bytes of a decimal that needs no memory: 256 bits */
#define MAX_DIGITS(n)  ((n) * 5 / 2 + 10)
#define FLAG_LOW_NULL  0
#define FLAG_VALUE     1
#define FLAG_HIGH_NULL 2

int fb_range_key_put_byte(struct fb_data_output* key, uint8_t byte) {
  int code = fb_data_output_reserve(key, 1);

  if (code == FB_OK) *key->pos++ = byte;
  return code;
}

static int put_word(struct fb_data_output* key, uint64_t word) {
  int code = fb_data_output_reserve(key, 8);

  if (code < 0) return code;
  fb_store_be64(key->pos, word);
  key->pos += 8;
  return FB_OK;
}

int fb_range_key_put_long(struct fb_data_output* key, int64_t value) {
  return put_word(key, (uint64_t)value ^ SIGN_BIT);
}

int fb_range_key_put_double(struct fb_data_output* key, double value) {
  uint64_t bits = fb_number_double_bits(value == 0 ? 0.0 : value);

  return put_word(key, bits & SIGN_BIT ? ~bits : bits | SIGN_BIT);
}

int fb_range_key_put_time(struct fb_data_output* key, int64_t seconds, uint32_t nanos) {
  int code = fb_data_output_reserve(key, 12);

  if (code < 0) return code;
  fb_store_be64(key->pos, (uint64_t)seconds ^ SIGN_BIT);
  fb_store_be32(key->pos + 8, nanos);
  key->pos += 12;
  return FB_OK;
}

/* A zero in the text is followed by 0xff, the end is two zeros: whatever goes on is above what ends. */
int fb_range_key_put_bytes(struct fb_data_output* key, const uint8_t* from, size_t size) {
  size_t zeros = 0;
  int code;

  for (size_t i = 0; i < size; i++) zeros += from[i] == 0;
  code = fb_data_output_reserve(key, size + zeros + 2);
  if (code < 0) return code;
  if (zeros == 0 && size > 0) {
    memcpy(key->pos, from, size);
    key->pos += size;
  } else {
    for (size_t i = 0; i < size; i++) {
      *key->pos++ = from[i];
      if (from[i] == 0) *key->pos++ = 0xff;
    }
  }
  *key->pos++ = 0;
  *key->pos++ = 0;
  return FB_OK;
}

/* ---- decimals --------------------------------------------------------------------------------------- */

/* The magnitude as words, lowest first; returns how many, without zeros at the top. */
static size_t magnitude_words(const uint8_t* number, size_t size, uint32_t* words) {
  bool is_negative = (number[0] & 0x80) != 0;
  size_t count = (size + 3) / 4;
  uint64_t carry = is_negative;

  for (size_t w = 0; w < count; w++) {
    uint32_t word = 0;
    for (size_t b = 0; b < 4; b++) {
      size_t from_end = 4 * w + b;
      uint32_t byte = from_end < size ? number[size - 1 - from_end] : is_negative ? 0xff : 0;
      word |= byte << 8 * b;
    }
    carry += is_negative ? ~word : word;
    words[w] = (uint32_t)carry;
    carry >>= 32;
  }
  while (count > 0 && words[count - 1] == 0) count--;
  return count;
}

/* The digits, lowest first, with zeros at the top. `words` are used up. */
static size_t digits_of(uint32_t* words, size_t count, uint8_t* digits) {
  size_t found = 0;

  while (count > 0) {
    uint64_t rest = 0;
    for (size_t w = count; w-- > 0;) {
      uint64_t whole = rest << 32 | words[w];
      words[w] = (uint32_t)(whole / BILLION);
      rest = whole % BILLION;
    }
    for (int d = 0; d < 9; d++, rest /= 10) digits[found++] = (uint8_t)(rest % 10);
    while (count > 0 && words[count - 1] == 0) count--;
  }
  return found;
}

/* Sign; how many digits stand in front of the point; the digits, and an end below all of them. */
static int put_digits(struct fb_data_output* key, bool is_negative, const uint8_t* digits, size_t count,
                      int32_t scale) {
  uint8_t turned = is_negative ? 0xff : 0;
  size_t last = 0;
  int code;

  while (count > 0 && digits[count - 1] == 0) count--;
  if (count == 0) return fb_range_key_put_byte(key, 1);
  while (digits[last] == 0) last++;
  code = fb_data_output_reserve(key, 10 + count - last);
  if (code < 0) return code;
  *key->pos++ = is_negative ? 0 : 2;
  fb_store_be64(key->pos, ((uint64_t)((int64_t)count - scale) ^ SIGN_BIT) ^ (is_negative ? UINT64_MAX : 0));
  key->pos += 8;
  for (size_t d = count; d-- > last;) *key->pos++ = (uint8_t)(digits[d] + 1) ^ turned;
  *key->pos++ = turned;
  return FB_OK;
}

int fb_range_key_put_decimal(struct fb_data_output* key, const uint8_t* number, size_t size, int32_t scale) {
  uint32_t small_words[STACK_NUMBER / 4];
  uint8_t small_digits[MAX_DIGITS(STACK_NUMBER)];
  uint32_t* words = small_words;
  uint8_t* digits = small_digits;
  size_t count;
  int code;

  if (size == 0) return FB_ECORRUPT;
  if (size > STACK_NUMBER) {
    words = malloc((size + 3) / 4 * 4 + MAX_DIGITS(size));
    if (words == NULL) return FB_ENOMEM;
    digits = (uint8_t*)words + (size + 3) / 4 * 4;
  }
  count = digits_of(words, magnitude_words(number, size, words), digits);
  code = put_digits(key, (number[0] & 0x80) != 0, digits, count, scale);
  if (words != small_words) free(words);
  return code;
}

/* ---- parts ------------------------------------------------------------------------------------------ */

int fb_range_key_put_null(struct fb_range_order order, struct fb_data_output* key) {
  return fb_range_key_put_byte(key, order.has_nulls_first ? FLAG_LOW_NULL : FLAG_HIGH_NULL);
}

static void turn(struct fb_data_output* key, size_t from) {
  for (uint8_t* byte = key->start + from; byte < key->pos; byte++) *byte = (uint8_t)~*byte;
}

int fb_range_key_begin(struct fb_data_output* key, size_t* mark) {
  *mark = fb_data_output_size(key);
  return fb_range_key_put_byte(key, FLAG_VALUE);
}

int fb_range_key_begin_element(struct fb_data_output* key, size_t* mark) {
  *mark = fb_data_output_size(key);
  return fb_range_key_put_byte(key, FB_RANGE_VALUE);
}

int fb_range_key_end(struct fb_data_output* key, size_t mark, int code, struct fb_range_order order) {
  if (code == FB_OK) {
    if (order.is_descending) turn(key, mark + 1);
    return FB_OK;
  }
  key->pos = key->start + mark;
  return code == FB_RANGE_IS_NULL ? fb_range_key_put_null(order, key) : code;
}

int fb_range_key_end_element(struct fb_data_output* key, size_t mark, int code) {
  if (code != FB_RANGE_IS_NULL) return code;
  key->pos = key->start + mark;
  *key->pos++ = FB_RANGE_NULL;
  return FB_OK;
}

static int put_encoded_value(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key);

int fb_range_key_put_encoded(const struct fb_type* type, struct fb_range_order order, struct fb_data_input* input,
                             struct fb_data_output* key) {
  size_t mark;
  int code = fb_range_key_begin(key, &mark);

  return code < 0 ? code : fb_range_key_end(key, mark, put_encoded_value(type, input, key), order);
}

/* ---- encoded values --------------------------------------------------------------------------------- */

static int take_encoded(struct fb_data_input* input, size_t size, const uint8_t** bytes) {
  if (size > fb_data_input_left(input)) return FB_ETRUNCATED;
  *bytes = input->pos;
  input->pos += size;
  return FB_OK;
}

static int take_encoded_count(struct fb_data_input* input, uint32_t* count) {
  const uint8_t* bytes;

  if (take_encoded(input, 4, &bytes) < 0) return FB_ETRUNCATED;
  *count = fb_load_be32(bytes);
  return *count > INT32_MAX ? FB_ECORRUPT : FB_OK;
}

static int put_encoded_element(const struct fb_type* type, struct fb_data_input* input, bool is_null,
                               struct fb_data_output* key) {
  size_t mark;
  int code = fb_range_key_begin_element(key, &mark);

  if (code < 0) return code;
  return fb_range_key_end_element(key, mark, is_null ? FB_RANGE_IS_NULL : put_encoded_value(type, input, key));
}

static int put_encoded_number(enum fb_type_kind kind, struct fb_data_input* input, struct fb_data_output* key) {
  const uint8_t* bytes;

  if (take_encoded(input, fb_type_fixed_size(kind), &bytes) < 0) return FB_ETRUNCATED;
  switch (kind) {
    case FB_TYPE_BOOLEAN: return fb_range_key_put_byte(key, bytes[0]);
    case FB_TYPE_BYTE: return fb_range_key_put_long(key, (int8_t)bytes[0]);
    case FB_TYPE_SHORT: return fb_range_key_put_long(key, (int16_t)fb_load_be16(bytes));
    case FB_TYPE_CHAR: return fb_range_key_put_long(key, fb_load_be16(bytes));
    case FB_TYPE_INT: return fb_range_key_put_long(key, (int32_t)fb_load_be32(bytes));
    case FB_TYPE_LONG: return fb_range_key_put_long(key, (int64_t)fb_load_be64(bytes));
    case FB_TYPE_FLOAT: return fb_range_key_put_double(key, fb_number_float(fb_load_be32(bytes)));
    default: return fb_range_key_put_double(key, fb_number_double(fb_load_be64(bytes)));
  }
}

static uint8_t* store_utf8(uint32_t point, uint8_t* to) {
  if (point < 0x80) {
    *to++ = (uint8_t)point;
  } else if (point < 0x800) {
    *to++ = (uint8_t)(0xc0 | point >> 6);
    *to++ = (uint8_t)(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    *to++ = (uint8_t)(0xe0 | point >> 12);
    *to++ = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    *to++ = (uint8_t)(0x80 | (point & 0x3f));
  } else {
    *to++ = (uint8_t)(0xf0 | point >> 18);
    *to++ = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    *to++ = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    *to++ = (uint8_t)(0x80 | (point & 0x3f));
  }
  return to;
}

/* Units of UTF-16 as UTF-8, of which a zero is escaped as in put_bytes. */
static int put_text_units(struct fb_data_input* input, uint32_t units, struct fb_data_output* key) {
  struct fb_text text;
  uint32_t high = 0, unit;
  int code = fb_text_measure(input, units, &text);
  struct fb_data_input again;

  if (code < 0) return code;
  code = fb_data_output_reserve(key, 3 * (size_t)units + 2);
  if (code < 0) return code;
  again = (struct fb_data_input){.pos = input->pos - text.size, .end = input->pos};
  for (uint32_t i = 0; i < units; i++) {
    code = fb_text_read_varint(&again, &unit);
    if (code < 0) return code;
    if (unit >> 10 == 0xdc00 >> 10 && high != 0) {
      key->pos = store_utf8(0x10000 + ((high & 0x3ff) << 10 | (unit & 0x3ff)), key->pos - 3);
      high = 0;
      continue;
    }
    high = unit >> 10 == 0xd800 >> 10 ? unit : 0;
    key->pos = store_utf8(unit, key->pos);
    if (unit == 0) *key->pos++ = 0xff;
  }
  *key->pos++ = 0;
  *key->pos++ = 0;
  return FB_OK;
}

static int put_encoded_text(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  uint32_t units;
  int code = fb_text_read_varint(input, &units);

  if (code < 0) return code;
  if (type->kind == FB_TYPE_STRING && units-- == 0) return FB_RANGE_IS_NULL;
  return units > fb_data_input_left(input) ? FB_ETRUNCATED : put_text_units(input, units, key);
}

static int put_encoded_big(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  static const uint8_t SHORT_FORMS[] = {0, 0, 1, 10};
  const uint8_t* number;
  const uint8_t* scale;
  uint32_t length;
  int code = take_encoded_count(input, &length);

  if (code < 0) return code;
  if (length == 0) return FB_RANGE_IS_NULL;
  if (length == 4) return FB_ECORRUPT;
  if (length > 4 && take_encoded(input, length - 4, &number) < 0) return FB_ETRUNCATED;
  if (length < 4) number = &SHORT_FORMS[length];
  if (type->kind == FB_TYPE_BIG_INT) return fb_range_key_put_decimal(key, number, length < 4 ? 1 : length - 4, 0);
  if (take_encoded(input, 4, &scale) < 0) return FB_ETRUNCATED;
  return fb_range_key_put_decimal(key, number, length < 4 ? 1 : length - 4, (int32_t)fb_load_be32(scale));
}

/* Days since 1970 of a date of any year of java.time. */
static int64_t days_of(const uint8_t* date) {
  int64_t year = (int32_t)fb_load_be32(date), month = date[4], era;

  year -= month <= 2;
  era = (year >= 0 ? year : year - 399) / 400;
  return era * 146097 + (year - era * 400) * 365 + (year - era * 400) / 4 - (year - era * 400) / 100 +
         (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + date[5] - 1 - 719468;
}

static int put_encoded_local(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  bool has_date = type->kind != FB_TYPE_LOCAL_TIME, has_time = type->kind != FB_TYPE_LOCAL_DATE;
  const uint8_t *date = NULL, *time = NULL;
  int64_t seconds;

  if (has_date && take_encoded(input, 6, &date) < 0) return FB_ETRUNCATED;
  if (has_time && take_encoded(input, 7, &time) < 0) return FB_ETRUNCATED;
  if (has_date ? fb_load_be32(date) == 0x80000000u : time[0] == 0x80) return FB_RANGE_IS_NULL;
  if (!has_time) return fb_range_key_put_long(key, days_of(date));
  seconds = time[0] * 3600 + time[1] * 60 + time[2] + (has_date ? 86400 * days_of(date) : 0);
  return fb_range_key_put_time(key, seconds, fb_load_be32(time + 3));
}

/* INSTANT and SQL_TIMESTAMP have nanoseconds behind seconds or milliseconds; java.util.Date and the others none. */
static int put_encoded_instant(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  const uint8_t* bytes;
  int64_t first;

  if (take_encoded(input, fb_type_fixed_size(type->kind), &bytes) < 0) return FB_ETRUNCATED;
  first = (int64_t)fb_load_be64(bytes);
  if (first == INT64_MIN) return FB_RANGE_IS_NULL;
  if (fb_type_fixed_size(type->kind) == 8) return fb_range_key_put_long(key, first);
  return fb_range_key_put_time(key, first, fb_load_be32(bytes + 8));
}

static int put_encoded_list(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  static const struct fb_type STRING = {.kind = FB_TYPE_STRING, .min_size = 1};
  const struct fb_type* child = type->kind == FB_TYPE_STRING_ARRAY ? &STRING : type->children[0];
  bool is_flagged = type->kind == FB_TYPE_OBJECT_ARRAY;
  const uint8_t* flag = NULL;
  uint32_t count;
  int code = take_encoded_count(input, &count);

  if (code == FB_OK && !fb_type_fits(count, is_flagged ? 1 : child->min_size, fb_data_input_left(input)))
    code = FB_ETRUNCATED;
  for (uint32_t i = 0; code == FB_OK && i < count; i++) {
    if (is_flagged && take_encoded(input, 1, &flag) < 0) return FB_ETRUNCATED;
    code = put_encoded_element(child, input, is_flagged && flag[0] == 0, key);
  }
  return code < 0 ? code : fb_range_key_put_byte(key, FB_RANGE_END);
}

static int put_encoded_binary(struct fb_data_input* input, struct fb_data_output* key) {
  const uint8_t* bytes;
  uint32_t count;
  int code = take_encoded_count(input, &count);

  if (code < 0) return code;
  if (take_encoded(input, count, &bytes) < 0) return FB_ETRUNCATED;
  return fb_range_key_put_bytes(key, bytes, count);
}

static int put_encoded_row(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  bool has_mask = type->kind == FB_TYPE_ROW;
  const uint8_t* mask = NULL;
  int code = FB_OK;

  if (has_mask && take_encoded(input, ((size_t)type->child_count + 9) / 8, &mask) < 0) return FB_ETRUNCATED;
  for (uint32_t k = 0; code == FB_OK && k < type->child_count; k++) {
    bool is_null = has_mask && (mask[(k + 2) / 8] & 0x80u >> ((k + 2) % 8)) != 0;
    code = put_encoded_element(type->children[k], input, is_null, key);
  }
  return code;
}

static int put_encoded_nullable(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  const uint8_t* flag;

  if (take_encoded(input, 1, &flag) < 0) return FB_ETRUNCATED;
  if (flag[0] == 0) return put_encoded_value(type->children[0], input, key);
  return take_encoded(input, type->padding, &flag) < 0 ? FB_ETRUNCATED : FB_RANGE_IS_NULL;
}

static int put_encoded_value(const struct fb_type* type, struct fb_data_input* input, struct fb_data_output* key) {
  const uint8_t* bytes;

  switch (type->kind) {
    case FB_TYPE_BOOLEAN:
    case FB_TYPE_BYTE:
    case FB_TYPE_SHORT:
    case FB_TYPE_CHAR:
    case FB_TYPE_INT:
    case FB_TYPE_LONG:
    case FB_TYPE_FLOAT:
    case FB_TYPE_DOUBLE: return put_encoded_number(type->kind, input, key);
    case FB_TYPE_STRING:
    case FB_TYPE_STRING_VALUE: return put_encoded_text(type, input, key);
    case FB_TYPE_VOID: return take_encoded(input, 1, &bytes) < 0 ? FB_ETRUNCATED : FB_RANGE_IS_NULL;
    case FB_TYPE_BIG_INT:
    case FB_TYPE_BIG_DEC: return put_encoded_big(type, input, key);
    case FB_TYPE_INSTANT:
    case FB_TYPE_DATE:
    case FB_TYPE_SQL_DATE:
    case FB_TYPE_SQL_TIME:
    case FB_TYPE_SQL_TIMESTAMP: return put_encoded_instant(type, input, key);
    case FB_TYPE_LOCAL_DATE:
    case FB_TYPE_LOCAL_TIME:
    case FB_TYPE_LOCAL_DATE_TIME: return put_encoded_local(type, input, key);
    case FB_TYPE_PRIMITIVE_ARRAY:
      return type->children[0]->kind == FB_TYPE_BYTE ? put_encoded_binary(input, key)
                                                     : put_encoded_list(type, input, key);
    case FB_TYPE_STRING_ARRAY:
    case FB_TYPE_OBJECT_ARRAY:
    case FB_TYPE_LIST: return put_encoded_list(type, input, key);
    case FB_TYPE_TUPLE:
    case FB_TYPE_ROW: return put_encoded_row(type, input, key);
    case FB_TYPE_NULLABLE: return put_encoded_nullable(type, input, key);
    default: return FB_EARGUMENT;
  }
}

int fb_range_key_check(const struct fb_type* type) {
  switch (type->kind) {
    case FB_TYPE_NULL_VALUE:
    case FB_TYPE_ENUM:
    case FB_TYPE_PICKLED_BYTES:
    case FB_TYPE_OBJECT:
    case FB_TYPE_SET:
    case FB_TYPE_MAP:
    case FB_TYPE_EITHER:
    case FB_TYPE_STREAM_ELEMENT: return FB_EARGUMENT;
    default: break;
  }
  for (uint32_t k = 0; k < type->child_count; k++)
    if (fb_range_key_check(type->children[k]) < 0) return FB_EARGUMENT;
  return FB_OK;
}
