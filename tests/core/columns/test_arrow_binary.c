#include "columns/arrow_binary.h"

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "ground/byte_order.h"

#define ROOM ((size_t)INT32_MAX + 64 + FB_ARROW_SLACK)

/* Rows of one number and one text: (1, "a"), null, (2, "bc"), and in the struct's validity the second is null. */
static const int64_t NUMBERS[] = {1, 99, 2};
static const int32_t ENDS[] = {0, 1, 1, 3};
static const uint8_t TEXT[] = "abc", ALL_BUT_ONE[] = {0x05};
static const char BYTES[] =
    "\0\0\0\0\0\0\0\0\1\2a"
    "\0\0\0\0\0\0\0\0\2\3bc";
static const int32_t VALUE_ENDS[] = {0, 11, 11, 23};

struct number_and_text {
  struct fb_type number, text, row;
  const struct fb_type* children[2];
  struct fb_arrow_column columns[3], values;
};

static struct fb_arrow_column* open_rows(struct number_and_text* self) {
  *self = (struct number_and_text){.number = {.kind = FB_TYPE_LONG}, .text = {.kind = FB_TYPE_STRING}};
  self->children[0] = &self->number;
  self->children[1] = &self->text;
  self->row = (struct fb_type){.kind = FB_TYPE_ROW, .child_count = 2, .children = self->children};
  self->columns[0] = (struct fb_arrow_column){.type = &self->row,
                                              .path = "",
                                              .child_count = 2,
                                              .children = &self->columns[1],
                                              .length = 3,
                                              .validity = ALL_BUT_ONE};
  self->columns[1] =
      (struct fb_arrow_column){.type = &self->number, .path = "number", .length = 3, .values = (const uint8_t*)NUMBERS};
  self->columns[2] = (struct fb_arrow_column){
      .type = &self->text, .path = "text", .length = 3, .values = TEXT, .offsets = (const uint8_t*)ENDS};
  self->values = (struct fb_arrow_column){.path = ""};
  CHECK(fb_arrow_type_parse("+s", &self->columns[0].arrow) == FB_OK);
  CHECK(fb_arrow_type_parse("l", &self->columns[1].arrow) == FB_OK);
  CHECK(fb_arrow_type_parse("u", &self->columns[2].arrow) == FB_OK);
  CHECK(fb_arrow_type_parse("z", &self->values.arrow) == FB_OK);
  return self->columns;
}

static void a_value_is_a_row_without_its_length_and_null_where_that_is(void) {
  static struct fb_arrow_rows rows;
  struct number_and_text tree;
  struct fb_arrow_builder values;
  struct fb_arrow_fault fault;

  CHECK(fb_arrow_rows_open(&rows, open_rows(&tree)) == FB_OK);
  CHECK(fb_arrow_builder_open(&values, &tree.values) == FB_OK);
  CHECK(fb_arrow_binary_write(&rows, &values, &fault) == FB_OK && fault.column == NULL);
  CHECK(values.length == 3 && values.null_count == 1 && values.validity.data[0] % 8 == 5);
  CHECK(memcmp(values.offsets.data, VALUE_ENDS, sizeof VALUE_ENDS) == 0);
  CHECK(values.values.size == 23 && memcmp(values.values.data, BYTES, 23) == 0);
  fb_arrow_builder_close(&values);
  fb_arrow_rows_close(&rows);
}

/* The column's bytes in a block of exactly their size, for the sanitizer. */
static uint8_t* open_values(struct number_and_text* tree, int32_t* ends) {
  uint8_t* block = malloc(23);

  CHECK(block != NULL);
  memcpy(block, BYTES, 23);
  tree->values.values = block;
  tree->values.offsets = (const uint8_t*)ends;
  tree->values.length = 3;
  return block;
}

static void rows_come_back(void) {
  struct number_and_text tree;
  struct fb_arrow_column* root = open_rows(&tree);
  struct fb_arrow_builder rows;
  struct fb_arrow_reading reading;
  int32_t ends[4];
  uint8_t* block;

  memcpy(ends, VALUE_ENDS, sizeof ends);
  block = open_values(&tree, ends);
  tree.values.validity = ALL_BUT_ONE;
  CHECK(fb_arrow_builder_open(&rows, root) == FB_OK);
  for (int i = 0; i < 2; i++) CHECK(fb_arrow_binary_read(&tree.values, &rows, false, &reading) == 3);
  CHECK(reading.code == FB_OK && rows.length == 6 && rows.null_count == 2 && rows.validity.data[0] % 64 == 0x2d);
  CHECK(memcmp(rows.children[0].values.data, (int64_t[]){1, 0, 2, 1, 0, 2}, 48) == 0);
  CHECK(memcmp(rows.children[1].values.data, "abcabc", 6) == 0);
  fb_arrow_builder_close(&rows);
  free(block);
}

/* Without a validity the value of no byte is no record. */
static void a_value_that_is_no_record_ends_the_reading_or_is_null(void) {
  struct number_and_text tree;
  struct fb_arrow_column* root = open_rows(&tree);
  struct fb_arrow_builder rows;
  struct fb_arrow_reading reading;
  int32_t ends[4];
  uint8_t* block;

  memcpy(ends, VALUE_ENDS, sizeof ends);
  block = open_values(&tree, ends);
  CHECK(fb_arrow_builder_open(&rows, root) == FB_OK);
  CHECK(fb_arrow_binary_read(&tree.values, &rows, false, &reading) == 1);
  CHECK(reading.code == FB_ETRUNCATED && reading.column == root && rows.length == 1 && rows.null_count == 0);
  CHECK(fb_arrow_binary_read(&tree.values, &rows, true, &reading) == 3 && reading.code == FB_OK);
  CHECK(rows.length == 4 && rows.null_count == 1 && rows.validity.data[0] % 16 == 0xb);
  for (uint32_t k = 0; k < 2; k++) CHECK(rows.children[k].length == 4 && rows.children[k].null_count == 1);
  fb_arrow_builder_close(&rows);
  free(block);
}

/* Some values among many are wrong, so that the rows that are read at once become few and many again. */
static bool is_wrong_value(int32_t i) { return i % 1000 < 40 && i % 4 == 0; }

static void wrong_values_among_many_are_null_and_no_others(void) {
  enum { COUNT = 4000, WRONG_COUNT = 40 };
  static int32_t ends[COUNT + 1];
  struct number_and_text tree;
  struct fb_arrow_column* root = open_rows(&tree);
  struct fb_arrow_builder rows;
  struct fb_arrow_reading reading;
  uint8_t* block = calloc(COUNT, 10);

  CHECK(block != NULL);
  for (int32_t i = 0; i < COUNT; i++) {
    block[10 * i + 8] = (uint8_t)(i % 251);
    block[10 * i + 9] = is_wrong_value(i) ? 0x7f : 1; /* a text that has no end; one of no letter */
    ends[i + 1] = 10 * (i + 1);
  }
  tree.values.values = block;
  tree.values.offsets = (const uint8_t*)ends;
  tree.values.length = COUNT;
  CHECK(fb_arrow_builder_open(&rows, root) == FB_OK);
  CHECK(fb_arrow_binary_read(&tree.values, &rows, true, &reading) == COUNT && rows.null_count == WRONG_COUNT);
  for (int32_t i = 0; i < COUNT; i++) {
    CHECK(fb_arrow_column_bit(rows.validity.data, i) == !is_wrong_value(i));
    CHECK(rows.children[0].values.data[8 * i] == (is_wrong_value(i) ? 0 : i % 251));
  }
  fb_arrow_builder_close(&rows);
  free(block);
}

/* The column has room for `room` bytes more, of which nearly all are never touched. */
static int write_into_full(size_t room, struct fb_arrow_fault* fault) {
  static struct fb_arrow_rows rows;
  struct number_and_text tree;
  struct fb_arrow_builder values;
  uint8_t* data = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int code;

  CHECK(data != MAP_FAILED);
  CHECK(fb_arrow_rows_open(&rows, open_rows(&tree)) == FB_OK);
  CHECK(fb_arrow_builder_open(&values, &tree.values) == FB_OK);
  values.values =
      (struct fb_arrow_memory){.data = data, .size = (size_t)INT32_MAX - room, .capacity = ROOM - FB_ARROW_SLACK};
  code = fb_arrow_binary_write(&rows, &values, fault);
  values.values = (struct fb_arrow_memory){0};
  fb_arrow_builder_close(&values);
  fb_arrow_rows_close(&rows);
  CHECK(munmap(data, ROOM) == 0);
  return code;
}

static void rows_of_more_bytes_than_a_column_can_have_are_refused(void) {
  struct fb_arrow_fault fault;

  CHECK(write_into_full(23, &fault) == FB_OK && fault.column == NULL);
  CHECK(write_into_full(22, &fault) == FB_OK && fault.column != NULL && fault.row == 2);
  CHECK(write_into_full(10, &fault) == FB_OK && fault.column != NULL && fault.row == 0);
}

int main(void) {
  a_value_is_a_row_without_its_length_and_null_where_that_is();
  rows_come_back();
  a_value_that_is_no_record_ends_the_reading_or_is_null();
  wrong_values_among_many_are_null_and_no_others();
  rows_of_more_bytes_than_a_column_can_have_are_refused();
  return 0;
}
