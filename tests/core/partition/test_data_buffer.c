#include "partition/data_buffer.h"

#include <string.h>

#include "check.h"

enum { SEGMENTS = 4, SUBPARTITIONS = 3, MAX_RECORD = 400 };

struct fixture {
  struct fb_data_buffer buffer;
  uint8_t* segments[SEGMENTS];
};

static void open_fixture(struct fixture* self, uint32_t segment_size) {
  for (int i = 0; i < SEGMENTS; i++) CHECK((self->segments[i] = malloc(segment_size)) != NULL);
  CHECK(fb_data_buffer_open(&self->buffer, SUBPARTITIONS, self->segments, SEGMENTS, segment_size) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  fb_data_buffer_close(&self->buffer);
  fb_data_buffer_close(&self->buffer);
  for (int i = 0; i < SEGMENTS; i++) free(self->segments[i]);
}

static int append(struct fixture* self, uint32_t subpartition, enum fb_buffer_data_type type, const char* text) {
  return fb_data_buffer_append(&self->buffer, subpartition, type, (const uint8_t*)text, strlen(text));
}

/* Reads one buffer and compares all there is to it; NULL: nothing is left. */
static void check_read(struct fixture* self, uint32_t capacity, uint32_t subpartition, enum fb_buffer_data_type type,
                       const char* text) {
  uint8_t* to = malloc(capacity);
  uint32_t found = 0;
  enum fb_buffer_data_type found_type = FB_NONE;
  uint32_t size;

  CHECK(to != NULL);
  size = fb_data_buffer_read(&self->buffer, to, capacity, &found, &found_type);
  CHECK(size == (text != NULL ? strlen(text) : 0));
  if (text != NULL) CHECK(memcmp(to, text, size) == 0 && found == subpartition && found_type == type);
  free(to);
}

static void subpartitions_are_read_one_after_the_other(void) {
  struct fixture self;
  const uint32_t order[SUBPARTITIONS] = {2, 0, 1};

  open_fixture(&self, 64);
  CHECK(append(&self, 2, FB_DATA_BUFFER, "two") == FB_RECORD);
  CHECK(append(&self, 0, FB_DATA_BUFFER, "zero") == FB_RECORD);
  CHECK(append(&self, 2, FB_DATA_BUFFER, "TWO") == FB_RECORD);
  CHECK(self.buffer.record_count == 3 && self.buffer.total_bytes == 10);
  check_read(&self, 64, 0, FB_NONE, NULL); /* not before finish() */
  fb_data_buffer_finish(&self.buffer, NULL);
  CHECK(append(&self, 0, FB_DATA_BUFFER, "late") == FB_ESTATE);
  check_read(&self, 64, 0, FB_DATA_BUFFER, "zero");
  check_read(&self, 64, 2, FB_DATA_BUFFER, "twoTWO");
  check_read(&self, 64, 0, FB_NONE, NULL);
  check_read(&self, 64, 0, FB_NONE, NULL);

  fb_data_buffer_reset(&self.buffer);
  CHECK(self.buffer.record_count == 0 && self.buffer.total_bytes == 0);
  CHECK(append(&self, 1, FB_DATA_BUFFER, "one") == FB_RECORD);
  CHECK(append(&self, 2, FB_DATA_BUFFER, "two") == FB_RECORD);
  fb_data_buffer_finish(&self.buffer, order);
  check_read(&self, 64, 2, FB_DATA_BUFFER, "two");
  check_read(&self, 64, 1, FB_DATA_BUFFER, "one");
  check_read(&self, 64, 0, FB_NONE, NULL);

  fb_data_buffer_reset(&self.buffer);
  fb_data_buffer_finish(&self.buffer, NULL);
  check_read(&self, 64, 0, FB_NONE, NULL); /* nothing was written */
  close_fixture(&self);
}

static void record_goes_on_in_the_next_buffer(void) {
  struct fixture self;

  open_fixture(&self, 32);
  CHECK(append(&self, 1, FB_DATA_BUFFER, "abcdefghijklmnopqrstuvwxyz") == FB_RECORD);
  CHECK(append(&self, 1, FB_DATA_BUFFER, "0123") == FB_RECORD);
  fb_data_buffer_finish(&self.buffer, NULL);
  check_read(&self, 10, 1, FB_DATA_BUFFER, "abcdefghij");
  check_read(&self, 10, 1, FB_DATA_BUFFER, "klmnopqrst");
  check_read(&self, 10, 1, FB_DATA_BUFFER, "uvwxyz0123");
  check_read(&self, 10, 0, FB_NONE, NULL);
  close_fixture(&self);
}

static void event_has_a_buffer_of_its_own(void) {
  struct fixture self;

  open_fixture(&self, 128);
  CHECK(append(&self, 0, FB_DATA_BUFFER, "before") == FB_RECORD);
  CHECK(append(&self, 0, FB_EVENT_BUFFER, "event") == FB_RECORD);
  CHECK(append(&self, 0, FB_EVENT_BUFFER, "again") == FB_RECORD);
  CHECK(append(&self, 0, FB_DATA_BUFFER, "after") == FB_RECORD);
  CHECK(append(&self, 0, FB_END_OF_PARTITION, "end") == FB_RECORD);
  fb_data_buffer_finish(&self.buffer, NULL);
  check_read(&self, 64, 0, FB_DATA_BUFFER, "before");
  check_read(&self, 64, 0, FB_EVENT_BUFFER, "event");
  check_read(&self, 64, 0, FB_EVENT_BUFFER, "again");
  check_read(&self, 64, 0, FB_DATA_BUFFER, "after");
  check_read(&self, 64, 0, FB_END_OF_PARTITION, "end");
  check_read(&self, 64, 0, FB_NONE, NULL);
  close_fixture(&self);
}

static void append_is_all_or_nothing(void) {
  struct fixture self;
  char longest[4 * 32 - 16 + 1];

  memset(longest, 'x', sizeof longest);
  longest[sizeof longest - 1] = '\0';
  open_fixture(&self, 32);
  CHECK(append(&self, 0, FB_DATA_BUFFER, "0123456789") == FB_RECORD);       /* 26 of 32 bytes: the rest is lost */
  CHECK(append(&self, 1, FB_DATA_BUFFER, longest + 31) == FB_NEEDS_BUFFER); /* 1 byte more than there is */
  CHECK(append(&self, 1, FB_DATA_BUFFER, longest + 32) == FB_RECORD);       /* fills the last segment */
  CHECK(append(&self, 2, FB_DATA_BUFFER, "x") == FB_NEEDS_BUFFER);
  CHECK(self.buffer.record_count == 2);
  fb_data_buffer_finish(&self.buffer, NULL);
  check_read(&self, 200, 0, FB_DATA_BUFFER, "0123456789");
  check_read(&self, 200, 1, FB_DATA_BUFFER, longest + 32);
  check_read(&self, 200, 0, FB_NONE, NULL);

  fb_data_buffer_reset(&self.buffer);
  for (int i = 0; i < SEGMENTS; i++) /* each ends with its segment */
    CHECK(append(&self, 0, FB_DATA_BUFFER, "0123456789abcdef") == FB_RECORD);
  CHECK(append(&self, 2, FB_DATA_BUFFER, "x") == FB_NEEDS_BUFFER);

  fb_data_buffer_reset(&self.buffer);
  CHECK(append(&self, 1, FB_DATA_BUFFER, longest) == FB_RECORD); /* the longest record there can be */
  CHECK(append(&self, 1, FB_DATA_BUFFER, "x") == FB_NEEDS_BUFFER);
  fb_data_buffer_reset(&self.buffer);
  CHECK(append(&self, 1, FB_DATA_BUFFER, "") == FB_EARGUMENT);
  CHECK(append(&self, SUBPARTITIONS, FB_DATA_BUFFER, "x") == FB_EARGUMENT);
  CHECK(self.buffer.record_count == 0);
  close_fixture(&self);
}

static void impossible_shapes_are_refused(void) {
  struct fb_data_buffer buffer;
  uint8_t memory[16];
  uint8_t* segments[] = {memory};

  CHECK(fb_data_buffer_open(&buffer, 0, segments, 1, 16) == FB_EARGUMENT);
  CHECK(fb_data_buffer_open(&buffer, 1, segments, 0, 16) == FB_EARGUMENT);
  CHECK(fb_data_buffer_open(&buffer, 1, segments, 1, 15) == FB_EARGUMENT);
  fb_data_buffer_close(&buffer);
}

/* The log is as long as its segments, however many may be written to. */
static void memory_does_not_grow_with_the_number_of_subpartitions(void) {
  struct fb_data_buffer buffer;
  uint8_t memory[4][4088], to[4096];
  uint8_t* segments[] = {memory[0], memory[1], memory[2], memory[3]};
  enum fb_buffer_data_type type;
  uint32_t stored = 0, read = 0, subpartition;

  CHECK(fb_data_buffer_open(&buffer, 100000, segments, 4, 4088) == FB_OK);
  while (fb_data_buffer_append(&buffer, stored * 7919 % 100000, FB_DATA_BUFFER, (const uint8_t*)"12345678", 8) ==
         FB_RECORD)
    stored++;
  CHECK(stored == 4 * (4088 / 24)); /* the 8 bytes that are left have no room for an entry */
  fb_data_buffer_finish(&buffer, NULL);
  while (fb_data_buffer_read(&buffer, to, sizeof to, &subpartition, &type) > 0) read++;
  CHECK(read == stored);
  fb_data_buffer_close(&buffer);
}

/* Every record of every subpartition comes back in order, whatever the sizes of records, segments, buffers. */
static void everything_comes_back(uint32_t segment_size, uint32_t capacity, uint32_t seed) {
  struct fixture self;
  uint8_t record[MAX_RECORD], got[MAX_RECORD];
  uint8_t written[SUBPARTITIONS][SEGMENTS * 4096], read[SUBPARTITIONS][SEGMENTS * 4096];
  size_t written_size[SUBPARTITIONS] = {0}, read_size[SUBPARTITIONS] = {0};
  uint32_t subpartition, size;
  enum fb_buffer_data_type type;

  open_fixture(&self, segment_size);
  for (;;) {
    seed = seed * 1664525 + 1013904223;
    subpartition = (seed >> 16) % SUBPARTITIONS;
    size = 1 + (seed >> 8) % MAX_RECORD * (seed >> 24) / 256;
    for (uint32_t i = 0; i < size; i++) record[i] = (uint8_t)(seed + i * 31);
    if (fb_data_buffer_append(&self.buffer, subpartition, FB_DATA_BUFFER, record, size) != FB_RECORD) break;
    memcpy(written[subpartition] + written_size[subpartition], record, size);
    written_size[subpartition] += size;
  }
  fb_data_buffer_finish(&self.buffer, NULL);
  while ((size = fb_data_buffer_read(&self.buffer, got, capacity, &subpartition, &type)) > 0) {
    memcpy(read[subpartition] + read_size[subpartition], got, size);
    read_size[subpartition] += size;
    /* Only a subpartition's last buffer is not full. */
    CHECK(size == capacity || read_size[subpartition] == written_size[subpartition]);
  }
  for (int i = 0; i < SUBPARTITIONS; i++)
    CHECK(read_size[i] == written_size[i] && memcmp(read[i], written[i], read_size[i]) == 0);
  close_fixture(&self);
}

int main(void) {
  subpartitions_are_read_one_after_the_other();
  record_goes_on_in_the_next_buffer();
  event_has_a_buffer_of_its_own();
  append_is_all_or_nothing();
  impossible_shapes_are_refused();
  memory_does_not_grow_with_the_number_of_subpartitions();
  for (uint32_t seed = 0; seed < 300; seed++) {
    everything_comes_back(16 + seed * 3, 1 + seed, seed);
    everything_comes_back(4096 - seed, MAX_RECORD - seed, seed);
  }
  return 0;
}
