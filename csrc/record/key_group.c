#include "record/key_group.h"

#include "ground/byte_order.h"
#include "value/binary_row.h"
#include "value/object.h"

/* A count over what is left can only be honest where elements take no bytes at all (NULL_VALUE, the empty
 * tuple); nobody has more of these in a key, and without a limit four bytes could keep us busy for
 * seconds. */
#define MAX_EMPTY_ELEMENTS 65536u

#define POWER_4            923521u     /* 31^4 */
#define POWER_8            2487512833u /* 31^8, wrapped */
#define HIGH_BITS          0x8080808080808080u

int fb_key_group_check(uint32_t max_parallelism, uint32_t parallelism) {
  if (max_parallelism == 0 || max_parallelism > FB_MAX_PARALLELISM) return FB_EARGUMENT;
  return parallelism == 0 || parallelism > max_parallelism ? FB_EARGUMENT : FB_OK;
}

int fb_key_group_range(uint32_t max_parallelism, uint32_t parallelism, uint32_t operator_index, uint32_t* first,
                       uint32_t* last) {
  if (fb_key_group_check(max_parallelism, parallelism) < 0) return FB_EARGUMENT;
  if (operator_index >= parallelism) return FB_EARGUMENT;
  *first = (operator_index * max_parallelism + parallelism - 1) / parallelism;
  *last = ((operator_index + 1) * max_parallelism - 1) / parallelism;
  return FB_OK;
}

int fb_key_group_default_max_parallelism(uint32_t parallelism) {
  uint32_t wanted = parallelism + parallelism / 2, power = FB_DEFAULT_MIN_MAX_PARALLELISM;

  if (parallelism == 0 || parallelism > FB_MAX_PARALLELISM) return FB_EARGUMENT;
  while (power < wanted && power < FB_MAX_PARALLELISM) power *= 2;
  return (int)power;
}

/* ---- strings ---------------------------------------------------------------------------------------- */

/* The polynomial over eight bytes at once: neighbours join in 16-bit lanes, then in 32-bit lanes, and
 * neither can overflow (255 * 32 < 2^16, 8160 * 962 < 2^32). Three multiplications stand for eight. */
static inline uint32_t hash_8_bytes(uint32_t h, uint64_t bytes) {
  uint64_t pairs = (bytes & 0x00ff00ff00ff00ffu) * 31 + (bytes >> 8 & 0x00ff00ff00ff00ffu);
  uint64_t fours = (pairs & 0x0000ffff0000ffffu) * 961 + (pairs >> 16 & 0x0000ffff0000ffffu);

  return h * POWER_8 + (uint32_t)fours * POWER_4 + (uint32_t)(fours >> 32);
}

static inline uint32_t hash_4_bytes(uint32_t h, uint32_t bytes) {
  uint32_t pairs = (bytes & 0x00ff00ffu) * 31 + (bytes >> 8 & 0x00ff00ffu);
  return h * POWER_4 + (pairs & 0xffffu) * 961 + (pairs >> 16);
}

int32_t fb_key_group_hash_latin1(const uint8_t* characters, size_t length) {
  uint32_t h = 0;

  for (; length >= 8; length -= 8, characters += 8) h = hash_8_bytes(h, fb_load_le64(characters));
  if (length >= 4) {
    h = hash_4_bytes(h, fb_load_le32(characters));
    length -= 4;
    characters += 4;
  }
  for (; length > 0; length--) h = 31 * h + *characters++;
  return (int32_t)h;
}

int32_t fb_key_group_hash_ucs2(const uint16_t* characters, size_t length) {
  uint32_t h = 0;

  for (; length >= 4; length -= 4, characters += 4)
    h = h * POWER_4 + characters[0] * 29791u + characters[1] * 961u + characters[2] * 31u + characters[3];
  for (; length > 0; length--) h = 31 * h + *characters++;
  return (int32_t)h;
}

int32_t fb_key_group_hash_ucs4(const uint32_t* characters, size_t length) {
  uint32_t h = 0;

  for (size_t i = 0; i < length; i++) {
    uint32_t character = characters[i];
    if (character > 0xffffu) {
      h = 31 * h + (0xd7c0u + (character >> 10)); /* 0xd7c0 = 0xd800 - (0x10000 >> 10) */
      character = 0xdc00u | (character & 0x3ffu);
    }
    h = 31 * h + character;
  }
  return (int32_t)h;
}

/* ---- many values ------------------------------------------------------------------------------------ */

void fb_key_group_hash_longs(const int64_t* keys, size_t count, int32_t* hashes) {
  for (size_t i = 0; i < count; i++) hashes[i] = fb_key_group_hash_long(keys[i]);
}

void fb_key_group_hash_floats(const float* keys, size_t count, int32_t* hashes) {
  for (size_t i = 0; i < count; i++) hashes[i] = fb_key_group_hash_float(keys[i]);
}

void fb_key_group_hash_doubles(const double* keys, size_t count, int32_t* hashes) {
  for (size_t i = 0; i < count; i++) hashes[i] = fb_key_group_hash_double(keys[i]);
}

/* ---- encoded values --------------------------------------------------------------------------------- */

/* What a walk over one value gives. Two hashes of the same object are in use: Object.hashCode(), and the
 * deep one that Row takes of its fields, under which arrays count by content and any other object adds 31. */
struct hashed {
  bool is_null;
  uint32_t hash;
};

enum { PLAIN = false, DEEP = true };

typedef int (*hasher)(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out);

static int hash_value(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out);

static int take_bytes(struct fb_data_input* input, size_t size, const uint8_t** bytes) {
  if (fb_data_input_left(input) < size) return FB_ETRUNCATED;
  *bytes = input->pos;
  input->pos += size;
  return FB_OK;
}

static int take_flag(struct fb_data_input* input, bool* flag) {
  const uint8_t* bytes;

  if (take_bytes(input, 1, &bytes) < 0) return FB_ETRUNCATED;
  *flag = bytes[0] != 0;
  return FB_OK;
}

static int take_count(struct fb_data_input* input, uint32_t* count) {
  const uint8_t* bytes;

  if (take_bytes(input, 4, &bytes) < 0) return FB_ETRUNCATED;
  *count = fb_load_be32(bytes);
  return *count > (uint32_t)INT32_MAX ? FB_ECORRUPT : FB_OK;
}

/* Seven bits a byte, the low ones first, at most `bits` in all. */
static int take_varint(struct fb_data_input* input, uint32_t bits, uint32_t* value) {
  uint64_t sum = 0;

  for (uint32_t shift = 0; shift < bits; shift += 7) {
    if (input->pos == input->end) return FB_ETRUNCATED;
    uint8_t byte = *input->pos++;
    sum |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = (uint32_t)sum;
      return sum >> bits != 0 ? FB_ECORRUPT : FB_OK;
    }
  }
  return FB_ECORRUPT;
}

static int set_hash(struct hashed* out, int32_t hash) {
  *out = (struct hashed){.hash = (uint32_t)hash};
  return FB_OK;
}

static int set_null(struct hashed* out) {
  *out = (struct hashed){.is_null = true};
  return FB_OK;
}

/* The hash of a number of `kind` at `bytes`, which hold one; also an element of a primitive array. */
static int32_t hash_number(enum fb_type_kind kind, const uint8_t* bytes) {
  switch (kind) {
    case FB_TYPE_BOOLEAN: return fb_key_group_hash_bool(bytes[0] != 0);
    case FB_TYPE_BYTE: return (int8_t)bytes[0];
    case FB_TYPE_SHORT: return (int16_t)fb_load_be16(bytes);
    case FB_TYPE_CHAR: return fb_load_be16(bytes);
    case FB_TYPE_INT: return (int32_t)fb_load_be32(bytes);
    case FB_TYPE_LONG: return fb_key_group_hash_long((int64_t)fb_load_be64(bytes));
    case FB_TYPE_FLOAT: return fb_key_group_hash_float_bits(fb_load_be32(bytes));
    default: return fb_key_group_hash_double_bits(fb_load_be64(bytes));
  }
}

/* Bytes of one number; 0 where `kind` is no number. */
static size_t number_size(enum fb_type_kind kind) {
  static const uint8_t SIZES[] = {
      [FB_TYPE_BOOLEAN] = 1, [FB_TYPE_BYTE] = 1, [FB_TYPE_SHORT] = 2, [FB_TYPE_CHAR] = 2,
      [FB_TYPE_INT] = 4,     [FB_TYPE_LONG] = 8, [FB_TYPE_FLOAT] = 4, [FB_TYPE_DOUBLE] = 8,
  };
  return (size_t)kind < sizeof SIZES ? SIZES[kind] : 0;
}

static int number_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t* bytes;

  (void)deep;
  if (take_bytes(input, number_size(type->kind), &bytes) < 0) return FB_ETRUNCATED;
  return set_hash(out, hash_number(type->kind, bytes));
}

/* `length` UTF-16 units, a varint each: eight at once while they are ASCII. */
static int hash_units(struct fb_data_input* input, uint32_t length, struct hashed* out) {
  uint32_t h = 0, unit;

  while (length > 0) {
    if (length >= 8 && fb_data_input_left(input) >= 8) {
      uint64_t bytes = fb_load_le64(input->pos);
      if ((bytes & HIGH_BITS) == 0) {
        h = hash_8_bytes(h, bytes);
        input->pos += 8;
        length -= 8;
        continue;
      }
    }
    int code = take_varint(input, 16, &unit);
    if (code < 0) return code;
    h = 31 * h + unit;
    length--;
  }
  return set_hash(out, (int32_t)h);
}

static int string_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  uint32_t length;
  int code = take_varint(input, 32, &length);

  (void)deep;
  if (code < 0) return code;
  if (type->kind == FB_TYPE_STRING) {
    if (length == 0) return set_null(out);
    length--;
  }
  if (length > fb_data_input_left(input)) return FB_ETRUNCATED;
  return hash_units(input, length, out);
}

static int void_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t* bytes;

  (void)type, (void)deep;
  if (take_bytes(input, 1, &bytes) < 0) return FB_ETRUNCATED;
  return set_null(out);
}

/* NullValue is an object, takes no bytes, and has this hash. */
static int null_value_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  (void)type, (void)input, (void)deep;
  return set_hash(out, 53);
}

/* The 32 bits that end `end` bytes into a two's-complement number; before its start the sign goes on. */
static uint32_t word_ending_at(const uint8_t* bytes, size_t end) {
  uint32_t word = bytes[0] & 0x80 ? UINT32_MAX : 0;

  if (end >= 4) return fb_load_be32(bytes + end - 4);
  for (size_t i = 0; i < end; i++) word = word << 8 | bytes[i];
  return word;
}

/* BigInteger hashes the words of its magnitude, highest first, times its sign. A negative number's magnitude
 * is its complement plus one, and the one carries through the zero words at the low end only. */
static uint32_t hash_twos_complement(const uint8_t* bytes, size_t size) {
  bool is_negative = (bytes[0] & 0x80) != 0;
  size_t first = (size - 1) % 4 + 1, carry_end = size;
  uint32_t h = 0;

  while (is_negative && word_ending_at(bytes, carry_end) == 0) carry_end -= 4;
  for (size_t end = first; end <= size; end += 4) {
    uint32_t word = word_ending_at(bytes, end);
    if (is_negative) word = ~word + (end >= carry_end);
    h = 31 * h + word;
  }
  return is_negative ? 0u - h : h;
}

/* A length + 4 and that many bytes; 0 is null, and 1, 2, 3 are the numbers 0, 1, 10. */
static int big_int_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  static const int32_t SHORT_FORMS[] = {0, 0, 1, 10};
  const uint8_t* bytes;
  uint32_t length;
  int code = take_count(input, &length);

  (void)type, (void)deep;
  if (code < 0) return code;
  if (length == 0) return set_null(out);
  if (length < 4) return set_hash(out, SHORT_FORMS[length]);
  if (length == 4) return FB_ECORRUPT; /* no number has zero bytes */
  if (take_bytes(input, length - 4, &bytes) < 0) return FB_ETRUNCATED;
  return set_hash(out, (int32_t)hash_twos_complement(bytes, length - 4));
}

static int big_dec_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t* bytes;
  int code = big_int_hash(type, input, deep, out);

  if (code < 0 || out->is_null) return code;
  if (take_bytes(input, 4, &bytes) < 0) return FB_ETRUNCATED;
  out->hash = 31 * out->hash + fb_load_be32(bytes);
  return FB_OK;
}

static int instant_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t* bytes;

  (void)type, (void)deep;
  if (take_bytes(input, 12, &bytes) < 0) return FB_ETRUNCATED;
  int64_t second = (int64_t)fb_load_be64(bytes);
  uint32_t nano = fb_load_be32(bytes + 8);
  if (second == INT64_MIN) return set_null(out);
  return set_hash(out, (int32_t)((uint32_t)fb_key_group_hash_long(second) + 51 * nano));
}

static uint32_t hash_date(const uint8_t* bytes) {
  uint32_t year = fb_load_be32(bytes), month = bytes[4], day = bytes[5];
  return (year & 0xfffff800u) ^ ((year << 11) + (month << 6) + day);
}

static uint32_t hash_time(const uint8_t* bytes) {
  int64_t second = bytes[0] * 3600 + bytes[1] * 60 + bytes[2];
  return (uint32_t)fb_key_group_hash_long(second * 1000000000 + (int32_t)fb_load_be32(bytes + 3));
}

/* A date is six bytes, a time seven, and both together one after the other; null has its mark in the
 * first. */
static int local_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  bool has_date = type->kind != FB_TYPE_LOCAL_TIME, has_time = type->kind != FB_TYPE_LOCAL_DATE;
  const uint8_t *date = NULL, *time = NULL;
  uint32_t h = 0;

  (void)deep;
  if (has_date && take_bytes(input, 6, &date) < 0) return FB_ETRUNCATED;
  if (has_time && take_bytes(input, 7, &time) < 0) return FB_ETRUNCATED;
  bool date_is_null = has_date && fb_load_be32(date) == 0x80000000u;
  bool time_is_null = has_time && time[0] == 0x80;
  if (has_date && has_time && date_is_null != time_is_null) return FB_ECORRUPT;
  if (date_is_null || time_is_null) return set_null(out);
  if (has_date) h ^= hash_date(date);
  if (has_time) h ^= hash_time(time);
  return set_hash(out, (int32_t)h);
}

/* java.util.Date and java.sql's three hash their milliseconds since 1970. */
static int millis_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  bool has_nanos = type->kind == FB_TYPE_SQL_TIMESTAMP;
  const uint8_t* bytes;

  (void)deep;
  if (take_bytes(input, has_nanos ? 12 : 8, &bytes) < 0) return FB_ETRUNCATED;
  int64_t millis = (int64_t)fb_load_be64(bytes);
  if (millis == INT64_MIN) return set_null(out);
  return set_hash(out, fb_key_group_hash_long(millis));
}

static int no_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  (void)type, (void)input, (void)deep, (void)out;
  return FB_EARGUMENT;
}

static int primitive_array_hash(const struct fb_type* type, struct fb_data_input* input, bool deep,
                                struct hashed* out) {
  enum fb_type_kind kind = type->children[0]->kind;
  size_t size = number_size(kind);
  const uint8_t* bytes;
  uint32_t count, h = 1;
  int code;

  if (!deep || size == 0) return FB_EARGUMENT;
  code = take_count(input, &count);
  if (code < 0) return code;
  if (count > fb_data_input_left(input) / size) return FB_ETRUNCATED;
  if (take_bytes(input, count * size, &bytes) < 0) return FB_ETRUNCATED;
  for (uint32_t i = 0; i < count; i++, bytes += size) h = 31 * h + (uint32_t)hash_number(kind, bytes);
  return set_hash(out, (int32_t)h);
}

/* Whether a byte stands before each element, and which value of it means that the element is null. */
enum null_mark { NO_MARK, NULL_IS_ONE, NULL_IS_ZERO };

static int hash_element(const struct fb_type* child, struct fb_data_input* input, bool deep, enum null_mark mark,
                        struct hashed* out) {
  bool flag;

  if (mark == NO_MARK) return hash_value(child, input, deep, out);
  if (take_flag(input, &flag) < 0) return FB_ETRUNCATED;
  return flag == (mark == NULL_IS_ONE) ? set_null(out) : hash_value(child, input, deep, out);
}

/* A count, then the elements. Elements take a byte or more, so that a false count soon meets the end of the
 * bytes; only where they take none it has to be refused. */
static int hash_elements(const struct fb_type* child, struct fb_data_input* input, bool deep, enum null_mark mark,
                         struct hashed* out) {
  bool is_sum = mark == NULL_IS_ONE; /* a set, the only one with this mark, has no order */
  const uint8_t* first;
  struct hashed element;
  uint32_t count, h = is_sum ? 0 : 1;
  int code = take_count(input, &count);

  if (code < 0) return code;
  first = input->pos;
  for (uint32_t i = 0; i < count; i++) {
    code = hash_element(child, input, deep, mark, &element);
    if (code < 0) return code;
    if (input->pos == first && count > MAX_EMPTY_ELEMENTS) return FB_ETOO_LARGE;
    h = (is_sum ? h : 31 * h) + element.hash;
  }
  return set_hash(out, (int32_t)h);
}

static int list_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  return hash_elements(type->children[0], input, deep, NO_MARK, out);
}

static int set_of_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  (void)deep;
  return hash_elements(type->children[0], input, PLAIN, NULL_IS_ONE, out);
}

static int object_array_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  if (!deep) return FB_EARGUMENT;
  return hash_elements(type->children[0], input, deep, NULL_IS_ZERO, out);
}

static int string_array_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  static const struct fb_type STRING = {.kind = FB_TYPE_STRING};

  (void)type;
  if (!deep) return FB_EARGUMENT;
  return hash_elements(&STRING, input, deep, NO_MARK, out);
}

/* A sum over the entries, so that their order is free; Row's deep hash starts it at 1. */
static int map_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  struct hashed key, value;
  uint32_t count, h = deep ? 1 : 0;
  int code = take_count(input, &count);

  for (uint32_t i = 0; code >= 0 && i < count; i++) {
    code = hash_value(type->children[0], input, deep, &key);
    if (code >= 0) code = hash_element(type->children[1], input, deep, NULL_IS_ONE, &value);
    if (code >= 0) h += key.hash ^ value.hash;
  }
  return code < 0 ? code : set_hash(out, (int32_t)h);
}

static int tuple_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  struct hashed field;
  uint32_t h = 0;

  (void)deep;
  for (uint32_t i = 0; i < type->child_count; i++) {
    int code = hash_value(type->children[i], input, PLAIN, &field);
    if (code < 0) return code;
    h = 31 * h + field.hash;
  }
  return set_hash(out, (int32_t)h);
}

/* A bit mask comes first, the highest bit of each byte first: two bits of RowKind, low one first, and one
 * a field, set where the field is null and has no bytes. The fields hash as an Object[] of their own. */
static int row_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  struct hashed field = {0};
  const uint8_t* mask;
  uint32_t h = 1;

  (void)deep;
  if (take_bytes(input, ((size_t)type->child_count + 9) / 8, &mask) < 0) return FB_ETRUNCATED;
  for (uint32_t i = 0; i < type->child_count; i++) {
    uint32_t bit = i + 2;
    bool is_null = (mask[bit / 8] & 0x80 >> bit % 8) != 0;
    int code = is_null ? set_null(&field) : hash_value(type->children[i], input, DEEP, &field);
    if (code < 0) return code;
    h = 31 * h + field.hash;
  }
  uint32_t kind = (mask[0] & 0x80 ? 1u : 0u) + (mask[0] & 0x40 ? 2u : 0u);
  return set_hash(out, (int32_t)(31 * kind + h));
}

static int either_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  bool is_left;

  (void)deep;
  if (take_flag(input, &is_left) < 0) return FB_ETRUNCATED;
  return hash_value(type->children[is_left ? 0 : 1], input, PLAIN, out);
}

static int nullable_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t* padding;
  bool is_null;

  if (take_flag(input, &is_null) < 0) return FB_ETRUNCATED;
  if (!is_null) return hash_value(type->children[0], input, deep, out);
  if (take_bytes(input, type->padding, &padding) < 0) return FB_ETRUNCATED;
  return set_null(out);
}

/* No class of Java's stands behind such a key, so its bytes are hashed; but an int and an ASCII text as their declared
 * types hash them, so that these two need no bytes. */
static uint32_t hash_bytes(const uint8_t* bytes, size_t size) {
  uint64_t h = size * 0x9e3779b97f4a7c15u, word = 0;

  for (; size >= 8; size -= 8, bytes += 8) {
    h = (h ^ fb_load_le64(bytes)) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
  }
  for (size_t i = 0; i < size; i++) word |= (uint64_t)bytes[i] << (8 * i);
  h = (h ^ word) * 0x94d049bb133111ebu;
  return (uint32_t)(h >> 32);
}

static int object_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t *start = input->pos, *bytes = start + 1;
  int code = fb_object_skip(input, true);
  uint8_t tag;

  (void)type, (void)deep;
  if (code < 0) return code;
  tag = *start;
  if (tag > FB_OBJECT_INT && tag < FB_OBJECT_BIG_INT)
    return set_hash(out,
                    fb_key_group_hash_long(fb_object_int(bytes, tag - FB_OBJECT_INT, (size_t)(input->end - bytes))));
  if (tag == FB_OBJECT_ASCII) bytes += 4;
  if (tag == FB_OBJECT_ASCII || tag <= FB_OBJECT_MAX_SHORT_TEXT)
    return set_hash(out, fb_key_group_hash_latin1(bytes, (size_t)(input->pos - bytes)));
  return set_hash(out, (int32_t)hash_bytes(start, (size_t)(input->pos - start)));
}

/* BinaryRowData.hashCode: of the row's bytes, whatever its fields are. */
static int row_data_hash(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  const uint8_t* row = input->pos + 4;
  int code = fb_type_skip(type, input);

  (void)deep;
  return code < 0 ? code : set_hash(out, fb_binary_row_hash(row, (size_t)(input->pos - row)));
}

static const hasher HASHERS[FB_TYPE_KIND_COUNT] = {
    [FB_TYPE_BOOLEAN] = number_hash,
    [FB_TYPE_BYTE] = number_hash,
    [FB_TYPE_SHORT] = number_hash,
    [FB_TYPE_CHAR] = number_hash,
    [FB_TYPE_INT] = number_hash,
    [FB_TYPE_LONG] = number_hash,
    [FB_TYPE_FLOAT] = number_hash,
    [FB_TYPE_DOUBLE] = number_hash,
    [FB_TYPE_STRING] = string_hash,
    [FB_TYPE_STRING_VALUE] = string_hash,
    [FB_TYPE_VOID] = void_hash,
    [FB_TYPE_NULL_VALUE] = null_value_hash,
    [FB_TYPE_BIG_INT] = big_int_hash,
    [FB_TYPE_BIG_DEC] = big_dec_hash,
    [FB_TYPE_INSTANT] = instant_hash,
    [FB_TYPE_LOCAL_DATE] = local_hash,
    [FB_TYPE_LOCAL_TIME] = local_hash,
    [FB_TYPE_LOCAL_DATE_TIME] = local_hash,
    [FB_TYPE_DATE] = millis_hash,
    [FB_TYPE_SQL_DATE] = millis_hash,
    [FB_TYPE_SQL_TIME] = millis_hash,
    [FB_TYPE_SQL_TIMESTAMP] = millis_hash,
    [FB_TYPE_ENUM] = no_hash,
    [FB_TYPE_PICKLED_BYTES] = no_hash,
    [FB_TYPE_OBJECT] = object_hash,
    [FB_TYPE_PRIMITIVE_ARRAY] = primitive_array_hash,
    [FB_TYPE_STRING_ARRAY] = string_array_hash,
    [FB_TYPE_OBJECT_ARRAY] = object_array_hash,
    [FB_TYPE_LIST] = list_hash,
    [FB_TYPE_SET] = set_of_hash,
    [FB_TYPE_MAP] = map_hash,
    [FB_TYPE_TUPLE] = tuple_hash,
    [FB_TYPE_ROW] = row_hash,
    [FB_TYPE_EITHER] = either_hash,
    [FB_TYPE_NULLABLE] = nullable_hash,
    [FB_TYPE_STREAM_ELEMENT] = no_hash,
    [FB_TYPE_ROW_DATA] = row_data_hash, /* its parts by themselves have none */
};

/* Kinds that Row's deep hash looks into, rather than asking the object. */
static bool passes_depth(enum fb_type_kind kind) {
  return kind == FB_TYPE_LIST || kind == FB_TYPE_MAP || kind == FB_TYPE_STRING_ARRAY || kind == FB_TYPE_OBJECT_ARRAY ||
         kind == FB_TYPE_NULLABLE;
}

static hasher hasher_of(const struct fb_type* type) {
  hasher found = (uint32_t)type->kind < FB_TYPE_KIND_COUNT ? HASHERS[type->kind] : NULL;
  return found != NULL ? found : no_hash;
}

static int hash_value(const struct fb_type* type, struct fb_data_input* input, bool deep, struct hashed* out) {
  int code = hasher_of(type)(type, input, deep, out);

  /* The deep hash of such an object is that of an array which holds it alone: 31 * 1 + its own. */
  if (code >= 0 && deep && !out->is_null && !passes_depth(type->kind)) out->hash += 31;
  return code;
}

static int check_type(const struct fb_type* type, bool deep) {
  enum fb_type_kind kind = type->kind;
  bool is_array = kind == FB_TYPE_PRIMITIVE_ARRAY || kind == FB_TYPE_STRING_ARRAY || kind == FB_TYPE_OBJECT_ARRAY;
  bool below = kind == FB_TYPE_ROW ? DEEP : passes_depth(kind) ? deep : PLAIN;

  if (hasher_of(type) == no_hash || (is_array && !deep)) return FB_EARGUMENT;
  if (kind == FB_TYPE_ROW_DATA) return FB_OK;
  for (uint32_t i = 0; i < type->child_count; i++)
    if (check_type(type->children[i], below) < 0) return FB_EARGUMENT;
  return FB_OK;
}

int fb_key_group_hash_check(const struct fb_type* type) { return check_type(type, PLAIN); }

int fb_key_group_hash_encoded(const struct fb_type* type, struct fb_data_input* input, int32_t* hash) {
  struct hashed result;
  int code = hash_value(type, input, PLAIN, &result);

  if (code < 0) return code;
  if (result.is_null) return FB_ESTATE;
  *hash = (int32_t)result.hash;
  return FB_OK;
}
