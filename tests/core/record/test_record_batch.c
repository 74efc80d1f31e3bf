#include "record/record_batch.h"

#include <string.h>

#include "check.h"
#include "next_record.h"

static struct fb_buffer root;
static uint8_t memory[64];

static void recycle(struct fb_buffer* self) { (void)self; }

static void open_builder(struct fb_buffer_builder* builder, size_t size) {
  memset(memory, 0xEE, sizeof memory);
  root = (struct fb_buffer){0};
  fb_memory_segment_wrap(&root.segment, memory, size);
  atomic_init(&root.references, 1);
  root.recycle = recycle;
  fb_buffer_builder_open(builder, &root);
}

static void a_column_becomes_ordinary_records(void) {
  struct fb_buffer_builder builder = {0};
  struct fb_record_deserializer reader;
  const uint64_t values[] = {1, UINT64_MAX, 0x0102030405060708};
  const uint8_t expected[] = {0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1};
  const uint8_t* record;
  size_t size;

  open_builder(&builder, 40); /* room for three records of 12 bytes and 4 bytes more */
  CHECK(fb_record_batch_write(&builder, (const uint8_t*)values, 8, 3) == 3);
  CHECK(builder.position == 36);
  CHECK(memcmp(memory, expected, sizeof expected) == 0);
  CHECK(memory[36] == 0xEE);

  fb_record_deserializer_open(&reader, NULL);
  CHECK(fb_record_deserializer_set_next_buffer(&reader, memory, builder.position) == FB_OK);
  for (int i = 0; i < 3; i++) {
    CHECK(next_record(&reader, &record, &size) == FB_RECORD);
    CHECK(size == 8 && fb_load_be64(record) == values[i]);
  }
  CHECK(next_record(&reader, &record, &size) == FB_NEEDS_INPUT);
  fb_record_deserializer_close(&reader);
  fb_buffer_builder_close(&builder);
}

static void only_whole_records_are_written(void) {
  struct fb_buffer_builder builder = {0};
  const uint16_t values[] = {0x1234, 2, 3};

  open_builder(&builder, 15); /* two records of 6 bytes */
  CHECK(fb_record_batch_write(&builder, (const uint8_t*)values, 2, 3) == 2);
  CHECK(builder.position == 12);
  CHECK(memory[4] == 0x12 && memory[5] == 0x34);
  CHECK(fb_record_batch_write(&builder, (const uint8_t*)values, 2, 1) == 0);
  CHECK(memory[12] == 0xEE);
  fb_buffer_builder_close(&builder);
}

static void a_scattered_column_stops_where_a_builder_has_no_room_and_at_a_channel_that_is_not_there(void) {
  struct fb_buffer_builder builders[3] = {{0}}; /* the last one stays closed */
  struct fb_buffer other = {.recycle = recycle};
  uint8_t others_memory[64];
  uint64_t counts[3] = {0};
  const uint64_t values[] = {1, 2, 3, 4, 5};
  const uint32_t channels[] = {1, 0, 1, 0, 0}, closed[] = {0, 2}, missing[] = {3};
  struct fb_record_batch batch = {(const uint8_t*)values, channels, 5, 8};

  open_builder(&builders[0], 36); /* room for three, of which the last would fill it */
  fb_memory_segment_wrap(&other.segment, others_memory, sizeof others_memory);
  atomic_init(&other.references, 1);
  fb_buffer_builder_open(&builders[1], &other);
  CHECK(fb_record_batch_scatter(builders, 3, &batch, counts) == 4);
  CHECK(builders[0].position == 24 && builders[1].position == 24 && counts[0] == 2 && counts[1] == 2);
  CHECK(fb_load_be64(memory + 4) == 2 && fb_load_be64(memory + 16) == 4);
  CHECK(fb_load_be32(others_memory) == 8 && fb_load_be64(others_memory + 16) == 3);
  CHECK(!fb_buffer_builder_is_committed(&builders[0]) && fb_buffer_builder_is_committed(&builders[2]));
  fb_buffer_builder_commit(&builders[0]);
  CHECK(fb_buffer_builder_is_committed(&builders[0]));

  fb_buffer_builder_trim(&builders[0], 64); /* no wider than its segment */
  batch = (struct fb_record_batch){(const uint8_t*)values, closed, 2, 2};
  CHECK(fb_record_batch_scatter(builders, 3, &batch, counts) == 1 && counts[2] == 0);
  batch = (struct fb_record_batch){(const uint8_t*)values, missing, 1, 8};
  CHECK(fb_record_batch_scatter(builders, 3, &batch, counts) == 0);
  for (int i = 0; i < 3; i++) fb_buffer_builder_close(&builders[i]);
}

static void reading_stops_at_another_length_and_at_a_cut(void) {
  struct fb_record_deserializer reader;
  const uint8_t bytes[] = {0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0, 0, 1, 9, 0, 0, 0, 4, 1, 2};
  uint32_t values[4] = {0};
  const uint8_t* record;
  size_t size;

  fb_record_deserializer_open(&reader, NULL);
  CHECK(fb_record_deserializer_set_next_buffer(&reader, bytes, sizeof bytes) == FB_OK);
  CHECK(fb_record_batch_read(&reader, (uint8_t*)values, 4, 4) == 2);
  CHECK(values[0] == 7 && values[1] == 256);
  CHECK(fb_record_batch_read(&reader, (uint8_t*)values, 4, 4) == 0);
  CHECK(next_record(&reader, &record, &size) == FB_RECORD && size == 1 && record[0] == 9);
  CHECK(fb_record_batch_read(&reader, (uint8_t*)values, 4, 4) == 0);
  CHECK(next_record(&reader, &record, &size) == FB_NEEDS_INPUT);
  CHECK(fb_record_batch_read(&reader, (uint8_t*)values, 4, 4) == 0);
  fb_record_deserializer_close(&reader);
}

static void every_width_comes_back(void) {
  const uint32_t widths[] = {1, 2, 4, 8};
  uint8_t values[16], back[16];

  for (size_t w = 0; w < 4; w++) {
    struct fb_buffer_builder builder = {0};
    struct fb_record_deserializer reader;
    size_t count = 16 / widths[w];
    for (size_t i = 0; i < sizeof values; i++) values[i] = (uint8_t)(17 * i + w);
    count = count > 5 ? 5 : count;
    open_builder(&builder, sizeof memory);
    CHECK(fb_record_batch_write(&builder, values, widths[w], count) == count);
    fb_record_deserializer_open(&reader, NULL);
    CHECK(fb_record_deserializer_set_next_buffer(&reader, memory, builder.position) == FB_OK);
    CHECK(fb_record_batch_read(&reader, back, widths[w], count) == count);
    CHECK(memcmp(values, back, count * widths[w]) == 0);
    fb_record_deserializer_close(&reader);
    fb_buffer_builder_close(&builder);
  }
}

int main(void) {
  a_column_becomes_ordinary_records();
  only_whole_records_are_written();
  a_scattered_column_stops_where_a_builder_has_no_room_and_at_a_channel_that_is_not_there();
  reading_stops_at_another_length_and_at_a_cut();
  every_width_comes_back();
  return 0;
}
