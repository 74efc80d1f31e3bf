#include "columns/arrow_row_data.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "columns/arrow_data_records.h"

/* Columns (long, text) of four rows: (7, "abcdefg"), (null, "abcdefgtail"), (-1, null), (0, "é"). */
static const int64_t NUMBERS[] = {99, 7, 0, -1, 0};
static const uint8_t NUMBERS_THERE[] = {0x1b};
static const int32_t ENDS[] = {0, 7, 18, 18, 20};
static const uint8_t TEXT[] = "abcdefgabcdefgtail\xc3\xa9";
static const uint8_t TEXT_THERE[] = {0x0b};

struct two_columns {
  struct fb_type number, text, row;
  const struct fb_type* children[2];
  struct fb_arrow_column columns[3];
};

static struct fb_arrow_column* open_two(struct two_columns* self) {
  *self = (struct two_columns){.number = {.kind = FB_TYPE_LONG}, .text = {.kind = FB_TYPE_STRING_DATA}};
  self->children[0] = &self->number;
  self->children[1] = &self->text;
  self->row = (struct fb_type){.kind = FB_TYPE_ROW_DATA, .child_count = 2, .children = self->children};
  self->columns[0] = (struct fb_arrow_column){
      .type = &self->row, .path = "", .child_count = 2, .children = &self->columns[1], .length = 4};
  self->columns[1] = (struct fb_arrow_column){.type = &self->number,
                                              .path = "number",
                                              .length = 4,
                                              .offset = 1, /* a slice */
                                              .validity = NUMBERS_THERE,
                                              .values = (const uint8_t*)NUMBERS};
  self->columns[2] = (struct fb_arrow_column){.type = &self->text,
                                              .path = "text",
                                              .length = 4,
                                              .validity = TEXT_THERE,
                                              .values = TEXT,
                                              .offsets = (const uint8_t*)ENDS};
  CHECK(fb_arrow_type_parse("+s", &self->columns[0].arrow) == FB_OK);
  CHECK(fb_arrow_type_parse("l", &self->columns[1].arrow) == FB_OK);
  CHECK(fb_arrow_type_parse("u", &self->columns[2].arrow) == FB_OK);
  return self->columns;
}

/* The records of all rows, each in a block of exactly its size. */
static void write_all(const struct fb_arrow_column* root, uint8_t** records, uint32_t* sizes) {
  struct fb_arrow_fault fault = {.row = -1};
  uint8_t *heads[4], *ends[4];
  uint32_t count = 4;

  fb_arrow_row_data_measure(root, 0, &count, sizes, &fault);
  CHECK(count == 4 && fault.column == NULL);
  for (uint32_t i = 0; i < 4; i++) {
    records[i] = malloc(sizes[i]);
    CHECK(records[i] != NULL);
    fb_store_be32(records[i], sizes[i] - 4);
    ends[i] = records[i] + 4;
  }
  fb_arrow_row_data_put(root, 0, 4, sizes, heads, ends);
  for (uint32_t i = 0; i < 4; i++) CHECK(ends[i] == records[i] + sizes[i] && heads[i] == records[i] + 8);
}

static void rows_have_the_bytes_of_flink(void) {
  static const uint8_t FIRST[] = "\0\0\0\x1c\0\0\0\x18\0\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0abcdefg\x87";
  static const uint8_t SECOND[] =
      "\0\0\0\x2c\0\0\0\x28\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0b\0\0\0\x18\0\0\0abcdefgtail\0\0\0\0";
  static const uint8_t THIRD[] = "\0\0\0\x1c\0\0\0\x18\0\2\0\0\0\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0";
  struct two_columns two;
  uint8_t* records[4];
  uint32_t sizes[4];

  write_all(open_two(&two), records, sizes);
  CHECK(sizes[0] == 32 && memcmp(records[0], FIRST, 32) == 0);
  CHECK(sizes[1] == 48 && memcmp(records[1], SECOND, 48) == 0);
  CHECK(sizes[2] == 32 && memcmp(records[2], THIRD, 32) == 0);
  CHECK(sizes[3] == 32 && memcmp(records[3] + 24, "\xc3\xa9\0\0\0\0\0\x82", 8) == 0);
  for (uint32_t i = 0; i < 4; i++) free(records[i]);
}

static void rows_become_the_columns_that_they_were(void) {
  struct two_columns two;
  struct fb_arrow_column* root = open_two(&two);
  struct fb_arrow_builder builder;
  struct fb_arrow_reading reading;
  uint8_t* records[4];
  const uint8_t *heads[4], *ends[4];
  uint32_t sizes[4];

  write_all(root, records, sizes);
  for (uint32_t i = 0; i < 4; i++) {
    heads[i] = records[i] + 4;
    ends[i] = records[i] + sizes[i];
  }
  CHECK(fb_arrow_builder_open(&builder, root) == FB_OK);
  CHECK(fb_arrow_data_records_read(&builder, heads, ends, 4, &reading) == 4 && reading.code == FB_OK);
  CHECK(builder.length == 4 && builder.children[0].null_count == 1 && builder.children[1].null_count == 1);
  CHECK(memcmp(builder.children[0].values.data, (int64_t[]){7, 0, -1, 0}, 32) == 0);
  CHECK(memcmp(builder.children[1].offsets.data, ENDS, sizeof ENDS) == 0);
  CHECK(memcmp(builder.children[1].values.data, TEXT, 20) == 0);
  records[2][8] = 1; /* a change: the two rows before it are read */
  CHECK(fb_arrow_data_records_read(&builder, heads, ends, 4, &reading) == 2);
  CHECK(reading.code == FB_ECORRUPT && reading.row == 2 && builder.length == 6 && builder.children[1].length == 6);
  root->children[0].is_required = true;
  CHECK(fb_arrow_data_records_read(&builder, heads, ends, 2, &reading) == 1);
  CHECK(reading.column == &root->children[0] && reading.row == 1 && builder.length == 7);
  fb_arrow_builder_close(&builder);
  for (uint32_t i = 0; i < 4; i++) free(records[i]);
}

static void rows_before_one_at_fault_are_measured(void) {
  struct two_columns two;
  struct fb_arrow_column* root = open_two(&two);
  struct fb_arrow_fault fault = {.row = -1};
  uint8_t wrong[20];
  uint32_t sizes[4], count = 4;

  root->children[1].is_required = true;
  fb_arrow_row_data_measure(root, 0, &count, sizes, &fault);
  CHECK(count == 2 && fault.row == 2 && fault.column == &root->children[1]);
  root->children[1].is_required = false;
  memcpy(wrong, TEXT, 20);
  wrong[10] = 0xff; /* no UTF-8 */
  root->children[1].values = wrong;
  fault = (struct fb_arrow_fault){.row = -1};
  count = 3;
  fb_arrow_row_data_measure(root, 1, &count, sizes, &fault);
  CHECK(count == 0 && fault.row == 1 && fault.column == &root->children[1]);
}

static void a_key_is_hashed_as_a_row_of_its_columns(void) {
  struct two_columns two;
  struct fb_arrow_column* root = open_two(&two);
  const struct fb_arrow_column* both[] = {&root->children[0], &root->children[1]};
  struct fb_arrow_fault fault = {.row = -1};
  uint8_t *records[4], key[64];
  uint32_t sizes[4];

  write_all(root, records, sizes);
  for (uint32_t i = 0; i < 4; i++) {
    CHECK(fb_arrow_row_data_key_size(both, 2, i, &fault) == sizes[i] - 8);
    CHECK(fb_arrow_row_data_key_hash(both, 2, i, key) == fb_binary_row_hash(records[i] + 8, sizes[i] - 8));
    free(records[i]);
  }
}

int main(void) {
  rows_have_the_bytes_of_flink();
  rows_become_the_columns_that_they_were();
  rows_before_one_at_fault_are_measured();
  a_key_is_hashed_as_a_row_of_its_columns();
  return 0;
}
