#include "columns/arrow_records.h"

#include <string.h>
#include <sys/mman.h>

#include "check.h"

#define ROOM ((size_t)INT32_MAX + 64 + FB_ARROW_SLACK)

/* Rows of one text: a mask, the length and one more, the letters. */
static const uint8_t ABC[] = {0, 4, 'a', 'b', 'c'};
static const uint8_t DATA_ABC[] = {0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 0x83};

struct text_rows {
  struct fb_type text, row;
  const struct fb_type* children[1];
  struct fb_arrow_column columns[2];
  struct fb_arrow_builder builder;
  uint8_t* values; /* 2^31 bytes, of which nearly all are never touched */
};

/* The column has room for `room` bytes more. */
static void open_rows(struct text_rows* self, bool is_data, size_t room) {
  struct fb_arrow_memory* values;

  *self = (struct text_rows){.text = {.kind = is_data ? FB_TYPE_STRING_DATA : FB_TYPE_STRING}};
  self->children[0] = &self->text;
  self->row =
      (struct fb_type){.kind = is_data ? FB_TYPE_ROW_DATA : FB_TYPE_ROW, .child_count = 1, .children = self->children};
  self->columns[0] = (struct fb_arrow_column){
      .type = &self->row, .path = "", .child_count = 1, .children = &self->columns[1], .array_child_count = 1};
  self->columns[1] = (struct fb_arrow_column){.type = &self->text, .path = "text"};
  CHECK(fb_arrow_type_parse("+s", &self->columns[0].arrow) == FB_OK);
  CHECK(fb_arrow_type_parse("u", &self->columns[1].arrow) == FB_OK);
  CHECK(fb_arrow_builder_open(&self->builder, self->columns) == FB_OK);
  self->values = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(self->values != MAP_FAILED);
  CHECK(fb_arrow_builder_begin_offsets(&self->builder.children[0], 1) == FB_OK);
  memcpy(self->builder.children[0].offsets.data, &(int32_t){(int32_t)(INT32_MAX - room)}, 4); /* of the first value */
  values = &self->builder.children[0].values;
  fb_arrow_memory_free(values);
  *values = (struct fb_arrow_memory){
      .data = self->values, .size = (size_t)INT32_MAX - room, .capacity = ROOM - FB_ARROW_SLACK};
}

static void close_rows(struct text_rows* self) {
  self->builder.children[0].values = (struct fb_arrow_memory){0};
  fb_arrow_builder_close(&self->builder);
  CHECK(munmap(self->values, ROOM) == 0);
}

static void put_record(struct fb_arrow_records* records, const uint8_t* bytes, size_t size) {
  records->heads[records->count] = bytes;
  records->ends[records->count++] = bytes + size;
}

static void rows_that_a_column_has_no_room_for_are_left(bool is_data) {
  static struct fb_arrow_records records;
  struct fb_arrow_reading reading;
  struct text_rows rows;
  const uint8_t* bytes = is_data ? DATA_ABC : ABC;
  size_t size = is_data ? sizeof DATA_ABC : sizeof ABC;

  open_rows(&rows, is_data, 7);
  records.count = 0;
  for (int i = 0; i < 4; i++) put_record(&records, bytes, size);
  CHECK(fb_arrow_records_read(&rows.builder, &records, &reading) == 2);
  CHECK(reading.code == FB_EBOUNDS && reading.row == 2 && reading.column == &rows.columns[1]);
  CHECK(rows.builder.length == 2 && rows.builder.children[0].length == 2);
  CHECK(rows.builder.children[0].values.size == (size_t)INT32_MAX - 1);
  CHECK(memcmp(rows.values + INT32_MAX - 7, "abcabc", 6) == 0);
  CHECK(fb_arrow_builder_offset(&rows.builder.children[0], 2) == INT32_MAX - 1);
  fb_arrow_records_skip(&records, 2);
  CHECK(records.count == 2 && records.heads[0] == bytes && records.ends[1] == bytes + size);
  CHECK(fb_arrow_records_read(&rows.builder, &records, &reading) == 0 && reading.code == FB_EBOUNDS);
  close_rows(&rows);
}

static void the_last_byte_may_be_used(bool is_data) {
  static struct fb_arrow_records records;
  struct fb_arrow_reading reading;
  struct text_rows rows;

  open_rows(&rows, is_data, 3);
  records.count = 0;
  if (is_data) put_record(&records, DATA_ABC, sizeof DATA_ABC);
  else put_record(&records, ABC, sizeof ABC);
  CHECK(fb_arrow_records_read(&rows.builder, &records, &reading) == 1 && reading.code == FB_OK);
  CHECK(rows.builder.children[0].values.size == (size_t)INT32_MAX);
  CHECK(fb_arrow_builder_offset(&rows.builder.children[0], 1) == INT32_MAX);
  close_rows(&rows);
}

/* Of a buffer with records of 5 MB, some at a time. */
static void large_records_are_taken_a_few_at_a_time(void) {
  static struct fb_arrow_records records;
  static uint8_t buffer[8 * (4 + (5u << 20))];
  struct fb_record_deserializer deserializer;
  uint32_t size = 5u << 20;

  for (size_t i = 0; i < 8; i++) {
    uint8_t* head = buffer + i * (4 + size);
    for (uint32_t k = 0; k < 4; k++) head[k] = (uint8_t)(size >> (24 - 8 * k));
  }
  fb_record_deserializer_open(&deserializer, NULL);
  CHECK(fb_record_deserializer_set_next_buffer(&deserializer, buffer, sizeof buffer) == FB_OK);
  fb_arrow_records_collect(&deserializer, 512, &records);
  CHECK(records.count == 4);
  fb_arrow_records_collect(&deserializer, 3, &records);
  CHECK(records.count == 3 && records.ends[2] == records.heads[2] + size);
  fb_arrow_records_collect(&deserializer, 512, &records);
  CHECK(records.count == 1);
  fb_record_deserializer_close(&deserializer);
}

int main(void) {
  rows_that_a_column_has_no_room_for_are_left(false);
  rows_that_a_column_has_no_room_for_are_left(true);
  the_last_byte_may_be_used(false);
  the_last_byte_may_be_used(true);
  large_records_are_taken_a_few_at_a_time();
  return 0;
}
