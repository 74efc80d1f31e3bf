/* Hash codes, key groups and ranges against what Java 17 and Flink 2.2.1 say of the same values. */
#include "record/key_group.h"

#include <string.h>

#include "check.h"

/* Types are written as in a table: TYPE(name, kind, children ...). */
#define LEAF(name, KIND) static const struct fb_type name = {.kind = FB_TYPE_##KIND}
#define TYPE(name, KIND, count, ...)                                    \
  static const struct fb_type* const name##_children[] = {__VA_ARGS__}; \
  static const struct fb_type name = {.kind = FB_TYPE_##KIND, .child_count = count, .children = name##_children}

LEAF(BOOLEAN, BOOLEAN);
LEAF(BYTE, BYTE);
LEAF(SHORT, SHORT);
LEAF(CHAR, CHAR);
LEAF(INT, INT);
LEAF(LONG, LONG);
LEAF(FLOAT, FLOAT);
LEAF(DOUBLE, DOUBLE);
LEAF(STRING, STRING);
LEAF(STRING_VALUE, STRING_VALUE);
LEAF(VOID_TYPE, VOID);
LEAF(NULL_VALUE, NULL_VALUE);
LEAF(BIG_INT, BIG_INT);
LEAF(BIG_DEC, BIG_DEC);
LEAF(INSTANT, INSTANT);
LEAF(LOCAL_DATE, LOCAL_DATE);
LEAF(LOCAL_TIME, LOCAL_TIME);
LEAF(LOCAL_DATE_TIME, LOCAL_DATE_TIME);
LEAF(SQL_DATE, SQL_DATE);
LEAF(SQL_TIMESTAMP, SQL_TIMESTAMP);
LEAF(ENUM, ENUM);
LEAF(PICKLED_BYTES, PICKLED_BYTES);
LEAF(STRING_ARRAY, STRING_ARRAY);
TYPE(BYTE_ARRAY, PRIMITIVE_ARRAY, 1, &BYTE);
TYPE(BOOLEAN_ARRAY, PRIMITIVE_ARRAY, 1, &BOOLEAN);
TYPE(CHAR_ARRAY, PRIMITIVE_ARRAY, 1, &CHAR);
TYPE(SHORT_ARRAY, PRIMITIVE_ARRAY, 1, &SHORT);
TYPE(INT_ARRAY, PRIMITIVE_ARRAY, 1, &INT);
TYPE(LONG_ARRAY, PRIMITIVE_ARRAY, 1, &LONG);
TYPE(FLOAT_ARRAY, PRIMITIVE_ARRAY, 1, &FLOAT);
TYPE(DOUBLE_ARRAY, PRIMITIVE_ARRAY, 1, &DOUBLE);
TYPE(INT_OBJECTS, OBJECT_ARRAY, 1, &INT);
TYPE(LIST_OF_INT, LIST, 1, &INT);
TYPE(LIST_OF_STRING, LIST, 1, &STRING);
TYPE(LIST_OF_LONG, LIST, 1, &LONG);
TYPE(LIST_OF_NOTHING, LIST, 1, &NULL_VALUE);
TYPE(LIST_OF_LISTS, LIST, 1, &LIST_OF_LONG);
TYPE(LIST_OF_BYTES, LIST, 1, &BYTE_ARRAY);
TYPE(SET_OF_INT, SET, 1, &INT);
TYPE(MAP_OF_INT, MAP, 2, &STRING, &INT);
TYPE(PAIR, TUPLE, 2, &INT, &STRING);
TYPE(NESTED_TUPLE, TUPLE, 2, &INT, &PAIR);
TYPE(TUPLE_OF_BYTES, TUPLE, 1, &BYTE_ARRAY);
TYPE(EMPTY_ROW, ROW, 0, NULL);
TYPE(ROW_PAIR, ROW, 2, &INT, &STRING);
TYPE(ROW_OF_MAP, ROW, 1, &MAP_OF_INT);
TYPE(ROW_OF_ROW, ROW, 2, &ROW_PAIR, &LIST_OF_INT);
TYPE(ROW_OF_TUPLE_OF_BYTES, ROW, 1, &TUPLE_OF_BYTES);
TYPE(ROW_DEEP, ROW, 5, &SET_OF_INT, &LIST_OF_LISTS, &INT_ARRAY, &INT_OBJECTS, &STRING_ARRAY);
TYPE(ROW_ARRAYS, ROW, 7, &BYTE_ARRAY, &BOOLEAN_ARRAY, &CHAR_ARRAY, &LONG_ARRAY, &FLOAT_ARRAY, &DOUBLE_ARRAY,
     &SHORT_ARRAY);
TYPE(EITHER, EITHER, 2, &INT, &STRING);
TYPE(NULLABLE_INT, NULLABLE, 1, &INT);
TYPE(STREAM_ELEMENT, STREAM_ELEMENT, 1, &INT);

static size_t from_hex(const char* hex, uint8_t* bytes) {
  size_t size = strlen(hex) / 2;
  for (size_t i = 0; i < size; i++) {
    unsigned int byte;
    CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
    bytes[i] = (uint8_t)byte;
  }
  return size;
}

/* Hashes bytes that lie in memory of exactly their size, so that a sanitizer sees a step too far. */
static int hash_bytes(const struct fb_type* type, const uint8_t* bytes, size_t size, int32_t* hash, size_t* used) {
  uint8_t* copy = malloc(size > 0 ? size : 1);
  struct fb_data_input input = {.start = copy, .pos = copy, .end = copy + size};

  CHECK(copy != NULL);
  if (size > 0) memcpy(copy, bytes, size);
  int code = fb_key_group_hash_encoded(type, &input, hash);
  *used = (size_t)(input.pos - input.start);
  CHECK(*used <= size);
  free(copy);
  return code;
}

struct vector {
  const struct fb_type* type;
  const char* hex;
  int32_t hash;
};

static const struct vector VECTORS[] = {
    {&BOOLEAN, "01", 1231},
    {&BOOLEAN, "00", 1237},
    {&BYTE, "80", -128},
    {&SHORT, "8000", -32768},
    {&CHAR, "ffff", 65535},
    {&INT, "80000000", INT32_MIN},
    {&LONG, "ffffffffffffffff", 0},
    {&LONG, "0000000100000000", 1},
    {&FLOAT, "80000000", INT32_MIN},
    {&FLOAT, "ffc00001", 2143289344},
    {&DOUBLE, "400921fb54442d18", 340593891},
    {&DOUBLE, "fff8000000000001", 2146959360},
    {&STRING, "01", 0},
    {&STRING, "0c68656c6c6f20776f726c64", 1794106052},
    {&STRING, "02ffff03", 65535},
    {&STRING, "0380b00380b003", 55296 * 32},
    {&STRING_VALUE, "026162", 3105},
    {&NULL_VALUE, "", 53},
    {&BIG_INT, "00000001", 0},
    {&BIG_INT, "00000002", 1},
    {&BIG_INT, "00000003", 10},
    {&BIG_INT, "0000000502", 2},
    {&BIG_INT, "0000000580", -128},
    {&BIG_INT, "00000006ff7f", -129},
    {&BIG_INT, "0000000c7fffffffffffffff", 2147483616},
    {&BIG_INT, "0000000c8000000000000000", INT32_MIN},
    {&BIG_INT, "00000009ff00000000", -31},
    {&BIG_INT, "0000000dff0000000000000000", -961},
    {&BIG_INT, "0000001e0100000000000000000000000000000000000000000000000000", -432324352},
    {&BIG_INT, "0000001eff00000000000000000000000000000000000000000000000000", 432324352},
    {&BIG_DEC, "00000006ff7ffffffffd", -4002},
    {&BIG_DEC, "0000000300000001", 311},
    {&INSTANT, "ffffffffffffffff3b9ac9ff", -539607603},
    {&INSTANT, "00701cd2fa9578ff3b9ac9ff", -625237510},
    {&INSTANT, "ff8fe3101464140000000000", -336857328},
    {&LOCAL_DATE, "ffffffd4030f", 88271},
    {&LOCAL_DATE, "c46536010101", -304793535},
    {&LOCAL_DATE, "3b9ac9ff0c1f", -304794849},
    {&LOCAL_TIME, "00000000000000", 0},
    {&LOCAL_TIME, "173b3b3b9ac9ff", -1857113749},
    {&LOCAL_DATE_TIME, "3b9ac9ff0c1f173b3b3b9ac9ff", 2090566260},
    {&SQL_DATE, "0000018bcfe5687b", -807048720},
    {&SQL_TIMESTAMP, "0000018bcfe5687b075bcd15", -807048720},
    {&SQL_TIMESTAMP, "ffffffffffffffff3b8b87c0", 0},
    {&PAIR, "000000010261", 128},
    {&PAIR, "0000000100", 31},
    {&NESTED_TUPLE,
     "0000000700000001"
     "0261",
     7 * 31 + 128},
    {&EMPTY_ROW, "00", 1},
    {&ROW_PAIR, "00000000010261", 2081},
    {&ROW_PAIR, "80000000010261", 2112},
    {&ROW_PAIR, "40000000010261", 2143},
    {&ROW_PAIR, "c0000000010261", 2174},
    {&ROW_PAIR, "30", 961},
    {&LIST_OF_INT, "00000003000000010000000200000003", 30817},
    {&LIST_OF_STRING, "00000002026100", 3968},
    {&LIST_OF_LISTS,
     "00000002"
     "0000000200000000000000010000000000000002"
     "00000000",
     31776},
    {&SET_OF_INT,
     "00000003"
     "0000000007"
     "00ffffffff"
     "01",
     6},
    {&MAP_OF_INT, "0000000302610000000001026201026300fffffffd", 96},
    {&ROW_OF_MAP, "000000000302610000000001026201026300fffffffd", 479},
    {&ROW_OF_ROW, "00e0026e0000000100000001", 39030},
    {&ROW_DEEP,
     "40"
     "000000010000000007"
     "000000010000000200000000000000010000000000000002"
     "0000000200000001fffffffe"
     "000000030100000001000100000003"
     "00000003"
     "027800"
     "0279",
     126845580},
    {&ROW_ARRAYS,
     "0000"
     "000000020102"
     "000000020100"
     "0000000200614e2d"
     "000000020000000000000001fffffffffffffffe"
     "00000002800000007fc00000"
     "000000013ff8000000000000"
     "00000001fffd",
     1792680323},
    {&EITHER, "0100000005", 5},
    {&EITHER, "000272", 114},
    {&NULLABLE_INT, "0000000005", 5},
};

static void test_encoded_values_hash_as_in_java(void) {
  for (size_t i = 0; i < sizeof VECTORS / sizeof *VECTORS; i++) {
    const struct vector* vector = &VECTORS[i];
    uint8_t bytes[256];
    size_t size = from_hex(vector->hex, bytes), used;
    int32_t hash = ~vector->hash, untouched = 77;

    int code = hash_bytes(vector->type, bytes, size, &hash, &used);
    if (code != FB_OK || hash != vector->hash || used != size)
      fprintf(stderr, "vector %zu: code %d, hash %d, %zu of %zu bytes\n", i, code, hash, used, size);
    CHECK(code == FB_OK && hash == vector->hash && used == size);
    CHECK(fb_key_group_hash_check(vector->type) == FB_OK);

    for (size_t cut = 0; cut < size; cut++) {
      CHECK(hash_bytes(vector->type, bytes, cut, &untouched, &used) == FB_ETRUNCATED);
      CHECK(untouched == 77);
    }
  }
}

static void test_a_null_key_is_an_error(void) {
  const struct vector nulls[] = {
      {&STRING, "00", 0},
      {&VOID_TYPE, "00", 0},
      {&BIG_INT, "00000000", 0},
      {&BIG_DEC, "00000000", 0},
      {&LOCAL_DATE, "800000008000", 0},
      {&LOCAL_TIME, "80800080000000", 0},
      {&LOCAL_DATE_TIME, "80000000800080800080000000", 0},
      {&INSTANT, "800000000000000080000000", 0},
      {&SQL_DATE, "8000000000000000", 0},
      {&NULLABLE_INT, "01", 0},
  };
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
    uint8_t bytes[64];
    size_t used, size = from_hex(nulls[i].hex, bytes);
    int32_t hash = 77;
    CHECK(hash_bytes(nulls[i].type, bytes, size, &hash, &used) == FB_ESTATE);
    CHECK(used == size && hash == 77);
  }
}

static void test_damaged_bytes_are_refused(void) {
  const struct {
    const struct fb_type* type;
    const char* hex;
    int code;
  } cases[] = {
      {&STRING, "ffffffffff01", FB_ECORRUPT}, /* a length over 32 bits */
      {&STRING, "02ffff7f", FB_ECORRUPT},     /* a unit over 16 bits */
      {&STRING, "ffffffff0f", FB_ETRUNCATED}, /* 4 billion units in no bytes */
      {&BIG_INT, "00000004", FB_ECORRUPT},    /* a number of no bytes */
      {&BIG_INT, "ffffffff", FB_ECORRUPT},    /* a negative length */
      {&BIG_INT, "7fffffff00", FB_ETRUNCATED},
      {&LIST_OF_INT, "ffffffff", FB_ECORRUPT},
      {&LIST_OF_INT, "7fffffff00000001", FB_ETRUNCATED},
      {&LIST_OF_NOTHING, "7fffffff", FB_ETOO_LARGE},
      {&LOCAL_DATE_TIME, "80000000800000000000000000", FB_ECORRUPT}, /* a time without its date */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t bytes[64];
    size_t used, size = from_hex(cases[i].hex, bytes);
    int32_t hash;
    CHECK(hash_bytes(cases[i].type, bytes, size, &hash, &used) == cases[i].code);
  }
}

static void test_types_without_a_hash_by_value_are_refused(void) {
  static const struct fb_type* const TYPES[] = {
      &BYTE_ARRAY, &STRING_ARRAY,  &INT_OBJECTS,    &LIST_OF_BYTES, &TUPLE_OF_BYTES, &ROW_OF_TUPLE_OF_BYTES,
      &ENUM,       &PICKLED_BYTES, &STREAM_ELEMENT,
  };
  static const uint8_t BYTES[16] = {0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
  static const uint8_t ONE[16] = {0, 0, 0, 1};

  for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
    size_t used;
    int32_t hash = 77;
    CHECK(fb_key_group_hash_check(TYPES[i]) == FB_EARGUMENT);
    CHECK(hash_bytes(TYPES[i], TYPES[i] == &LIST_OF_BYTES ? ONE : BYTES, 16, &hash, &used) == FB_EARGUMENT);
    CHECK(hash == 77);
  }
}

/* What Java's definition says, one unit at a time. */
static int32_t slow_hash(const uint32_t* characters, size_t length) {
  uint32_t h = 0;
  for (size_t i = 0; i < length; i++) {
    uint32_t c = characters[i];
    if (c >= 0x10000) h = 31 * h + (0xd800 + ((c - 0x10000) >> 10));
    h = 31 * h + (c >= 0x10000 ? 0xdc00 + ((c - 0x10000) & 0x3ff) : c);
  }
  return (int32_t)h;
}

static void test_all_string_widths_agree_at_all_lengths(void) {
  uint8_t narrow[80];
  uint16_t wide[80];
  uint32_t full[80];

  for (uint32_t seed = 0; seed < 8; seed++) {
    for (size_t length = 0; length <= 80; length++) {
      for (size_t i = 0; i < length; i++) {
        narrow[i] = (uint8_t)((i * 31 + length * 7 + seed * 85) | (seed == 7 ? 0xff : 0));
        full[i] = wide[i] = narrow[i];
      }
      CHECK(fb_key_group_hash_latin1(narrow, length) == slow_hash(full, length));
      CHECK(fb_key_group_hash_ucs2(wide, length) == slow_hash(full, length));
      CHECK(fb_key_group_hash_ucs4(full, length) == slow_hash(full, length));
      for (size_t i = 0; i < length; i++) full[i] = wide[i] = (uint16_t)(0xffff - i * 977 * (seed + 1));
      CHECK(fb_key_group_hash_ucs2(wide, length) == slow_hash(full, length));
      for (size_t i = 0; i < length; i++) full[i] = (uint32_t)(0x10000 + i * 13001 * (seed + 1)) % 0x110000;
      CHECK(fb_key_group_hash_ucs4(full, length) == slow_hash(full, length));
    }
  }
  CHECK(fb_key_group_hash_latin1((const uint8_t*)"key-17", 6) == -1134722988);
}

static void test_murmur_and_key_groups(void) {
  const struct {
    int32_t hash;
    uint32_t murmur, group_of_128, group_of_1000;
  } cases[] = {
      {0, 593689054, 94, 54},    {1, 68075478, 86, 478},           {-1, 1982413648, 80, 648},
      {42, 1134849565, 29, 565}, {INT32_MAX, 1653689534, 62, 534}, {INT32_MIN, 1718298732, 108, 732},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(fb_key_group_murmur(cases[i].hash) == cases[i].murmur);
    CHECK(fb_key_group_of(cases[i].hash, 128) == cases[i].group_of_128);
    CHECK(fb_key_group_of(cases[i].hash, 1000) == cases[i].group_of_1000);
    CHECK(fb_key_group_of(cases[i].hash, 1) == 0);
  }
}

static void test_ranges_partition_the_key_groups(void) {
  const uint32_t maxima[] = {1, 2, 7, 128, 1000, 4099, FB_MAX_PARALLELISM};
  uint32_t first, last;

  for (size_t m = 0; m < sizeof maxima / sizeof *maxima; m++) {
    uint32_t max = maxima[m];
    for (uint32_t parallelism = 1; parallelism <= max; parallelism += 1 + parallelism / 3) {
      uint32_t next = 0;
      for (uint32_t i = 0; i < parallelism; i++) {
        CHECK(fb_key_group_range(max, parallelism, i, &first, &last) == FB_OK);
        CHECK(first == next && last >= first);
        CHECK(fb_key_group_operator(first, max, parallelism) == i);
        CHECK(fb_key_group_operator(last, max, parallelism) == i);
        next = last + 1;
      }
      CHECK(next == max);
    }
  }
  CHECK(fb_key_group_range(128, 3, 1, &first, &last) == FB_OK && first == 43 && last == 85);
}

static void test_arguments_are_checked_as_in_flink(void) {
  uint32_t first, last;

  CHECK(fb_key_group_range(128, 0, 0, &first, &last) == FB_EARGUMENT);
  CHECK(fb_key_group_range(128, 129, 0, &first, &last) == FB_EARGUMENT);
  CHECK(fb_key_group_range(32769, 1, 0, &first, &last) == FB_EARGUMENT);
  CHECK(fb_key_group_range(0, 0, 0, &first, &last) == FB_EARGUMENT);
  CHECK(fb_key_group_range(128, 4, 4, &first, &last) == FB_EARGUMENT);
  CHECK(fb_key_group_default_max_parallelism(0) == FB_EARGUMENT);
  CHECK(fb_key_group_default_max_parallelism(32769) == FB_EARGUMENT);
  CHECK(fb_key_group_default_max_parallelism(1) == 128);
  CHECK(fb_key_group_default_max_parallelism(85) == 128);
  CHECK(fb_key_group_default_max_parallelism(86) == 256);
  CHECK(fb_key_group_default_max_parallelism(200) == 512);
  CHECK(fb_key_group_default_max_parallelism(1000) == 2048);
  CHECK(fb_key_group_default_max_parallelism(32768) == 32768);
}

static void test_columns_hash_as_single_values(void) {
  int64_t longs[] = {0, 1, -1, INT64_MAX, INT64_MIN, 1099511627776};
  double doubles[] = {0.0, -0.0, 1.5, -1.0 / 3.0, __builtin_nan(""), __builtin_inf()};
  float floats[6];
  int32_t hashes[6];

  fb_key_group_hash_longs(longs, 6, hashes);
  for (int i = 0; i < 6; i++) CHECK(hashes[i] == fb_key_group_hash_long(longs[i]));
  for (int i = 0; i < 6; i++) floats[i] = (float)doubles[i];
  fb_key_group_hash_floats(floats, 6, hashes);
  for (int i = 0; i < 6; i++) CHECK(hashes[i] == fb_key_group_hash_float(floats[i]));
  CHECK(hashes[1] == INT32_MIN && hashes[4] == 2143289344);
  fb_key_group_hash_doubles(doubles, 6, hashes);
  for (int i = 0; i < 6; i++) CHECK(hashes[i] == fb_key_group_hash_double(doubles[i]));
  CHECK(hashes[0] == 0 && hashes[1] == INT32_MIN && hashes[4] == 2146959360);
}

/* Noise over every type: no read past the end, no endless loop, and a code that the header lists. */
static void test_noise_is_survived(void) {
  uint32_t x = 2463534242u;
  uint8_t bytes[48];

  for (int round = 0; round < 20000; round++) {
    size_t size = (size_t)round % sizeof bytes, used;
    int32_t hash;
    for (size_t i = 0; i < size; i++) {
      x ^= x << 13, x ^= x >> 17, x ^= x << 5;
      bytes[i] = (uint8_t)(x >> 24 > 100 ? x >> 16 & 3 : x >> 8);
    }
    const struct vector* vector = &VECTORS[(size_t)round % (sizeof VECTORS / sizeof *VECTORS)];
    int code = hash_bytes(vector->type, bytes, size, &hash, &used);
    CHECK(code == FB_OK || code == FB_ESTATE || code == FB_ETRUNCATED || code == FB_ECORRUPT);
  }
}

int main(void) {
  test_encoded_values_hash_as_in_java();
  test_a_null_key_is_an_error();
  test_damaged_bytes_are_refused();
  test_types_without_a_hash_by_value_are_refused();
  test_all_string_widths_agree_at_all_lengths();
  test_murmur_and_key_groups();
  test_ranges_partition_the_key_groups();
  test_arguments_are_checked_as_in_flink();
  test_columns_hash_as_single_values();
  test_noise_is_survived();
  return 0;
}
