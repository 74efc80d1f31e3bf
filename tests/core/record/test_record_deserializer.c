#include "record/record_deserializer.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "next_record.h"

/* ---- streams --------------------------------------------------------------------------------------- */

static const size_t SIZES[] = {0, 1, 3, 4, 5, 0, 0, 100, 11, 5000, 2, 1024, 0, 777, 64};
enum { RECORDS = sizeof SIZES / sizeof SIZES[0] };

static uint8_t byte_of(size_t record, size_t i) { return (uint8_t)(i * 31 + record * 7 + 1); }

struct stream {
  uint8_t* data;
  size_t size;
};

static void append_record(struct stream* self, size_t record, size_t size) {
  uint8_t* grown = realloc(self->data, self->size + 4 + size);
  CHECK(grown != NULL);
  self->data = grown;
  fb_store_be32(grown + self->size, (uint32_t)size);
  for (size_t i = 0; i < size; i++) grown[self->size + 4 + i] = byte_of(record, i);
  self->size += 4 + size;
}

static struct stream all_sizes(void) {
  struct stream stream = {0};
  for (size_t record = 0; record < RECORDS; record++) append_record(&stream, record, SIZES[record]);
  return stream;
}

static void check_record(const uint8_t* data, size_t size, size_t record) {
  CHECK(record < RECORDS && size == SIZES[record]);
  for (size_t i = 0; i < size; i++) CHECK(data[i] == byte_of(record, i));
}

/* Gives [data, data + size) as one buffer, in a block of exactly that size; returns the record reached. */
static size_t feed(struct fb_record_deserializer* self, const uint8_t* data, size_t size, size_t record) {
  uint8_t* buffer = malloc(size > 0 ? size : 1);
  const uint8_t* found;
  size_t found_size;
  int code;

  CHECK(buffer != NULL);
  memcpy(buffer, data, size);
  CHECK(fb_record_deserializer_set_next_buffer(self, buffer, size) == FB_OK);
  while ((code = next_record(self, &found, &found_size)) == FB_RECORD) check_record(found, found_size, record++);
  CHECK(code == FB_NEEDS_INPUT);
  free(buffer);
  return record;
}

static struct fb_record_deserializer open_with_threshold(size_t threshold) {
  struct fb_record_deserializer self;
  fb_record_deserializer_open(&self, &(struct fb_record_deserializer_options){.spill_threshold = threshold});
  return self;
}

static int open_files(void) {
  int count = 0;
  for (int file = 0; file < 256; file++) count += dup2(file, file) == file;
  return count;
}

/* ---- tests ----------------------------------------------------------------------------------------- */

static void records_come_back_for_every_buffer_size(size_t threshold) {
  struct stream stream = all_sizes();
  struct fb_record_deserializer self = open_with_threshold(threshold);

  for (size_t buffer_size = 1; buffer_size <= stream.size; buffer_size += buffer_size < 40 ? 1 : 97) {
    size_t record = 0;
    for (size_t at = 0; at < stream.size; at += buffer_size) {
      size_t size = stream.size - at < buffer_size ? stream.size - at : buffer_size;
      record = feed(&self, stream.data + at, size, record);
    }
    CHECK(record == RECORDS);
    CHECK(fb_record_deserializer_pending(&self) == 0);
  }
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static void whole_records_are_not_copied(void) {
  struct stream stream = {0};
  struct fb_record_deserializer self = open_with_threshold(1);
  const uint8_t* record;
  size_t size;

  append_record(&stream, 0, 100);
  append_record(&stream, 1, 50);
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 106) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_RECORD);
  CHECK(record == stream.data + 4 && size == 100);
  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  CHECK(fb_record_deserializer_pending(&self) == 2);

  /* Only the length of this one was cut off. */
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data + 106, 52) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_RECORD);
  CHECK(record == stream.data + 108 && size == 50);
  CHECK(fb_record_deserializer_offset(&self) == 104);
  CHECK(self.spanning == NULL && self.spilled == NULL && self.record_count == 2);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static void unconsumed_bytes_restore_the_state_at_every_point(size_t threshold) {
  struct stream stream = all_sizes();
  uint8_t* replayed = malloc(stream.size);
  CHECK(replayed != NULL);

  for (size_t cut = 0; cut <= stream.size; cut += cut < 300 ? 1 : 61) {
    struct fb_record_deserializer first = open_with_threshold(threshold);
    struct fb_record_deserializer second = open_with_threshold(threshold);
    size_t record = feed(&first, stream.data, cut / 2, 0);
    record = feed(&first, stream.data + cut / 2, cut - cut / 2, record);

    int64_t size = fb_record_deserializer_unconsumed(&first, 0, NULL, 0);
    CHECK(size == (int64_t)fb_record_deserializer_pending(&first));
    for (int64_t from = 0; from < size; from += 7) /* in pieces that cross every part */
      CHECK(fb_record_deserializer_unconsumed(&first, (uint64_t)from, replayed + from,
                                              size - from < 7 ? (size_t)(size - from) : 7) == size);
    fb_record_deserializer_close(&first);

    record = feed(&second, replayed, (size_t)size, record);
    CHECK(feed(&second, stream.data + cut, stream.size - cut, record) == RECORDS);
    fb_record_deserializer_close(&second);
  }
  free(replayed);
  free(stream.data);
}

static void unread_rest_of_a_buffer_is_unconsumed_too(void) {
  struct stream stream = all_sizes();
  struct fb_record_deserializer self = open_with_threshold(0);
  uint8_t copied[64];
  const uint8_t* record;
  size_t size;

  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 20) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_RECORD);
  CHECK(fb_record_deserializer_unconsumed(&self, 0, copied, sizeof copied) == 16);
  CHECK(memcmp(copied, stream.data + 4, 16) == 0);
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 1) == FB_ESTATE);
  fb_record_deserializer_clear(&self);
  CHECK(fb_record_deserializer_unconsumed(&self, 0, NULL, 0) == 0);
  CHECK(feed(&self, stream.data, stream.size, 0) == RECORDS);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static void bad_length_is_an_error_at_every_cut(uint32_t length, size_t max_record_size, int expected) {
  uint8_t bytes[] = {0, 0, 0, 1, 9, 0, 0, 0, 0, 1, 2, 3, 4};
  fb_store_be32(bytes + 5, length);

  for (size_t cut = 0; cut <= 8; cut++) {
    struct fb_record_deserializer self;
    const uint8_t* record;
    size_t size;
    int code = FB_NEEDS_INPUT;
    struct fb_record_deserializer_options options = {.spill_threshold = 10};
    options.max_record_size = max_record_size;
    fb_record_deserializer_open(&self, &options);
    for (int part = 0; part < 2 && code == FB_NEEDS_INPUT; part++) {
      CHECK(fb_record_deserializer_set_next_buffer(&self, part == 0 ? bytes : bytes + cut,
                                                   part == 0 ? cut : sizeof bytes - cut) == FB_OK);
      while ((code = next_record(&self, &record, &size)) == FB_RECORD) CHECK(size == 1);
    }
    CHECK(code == expected);
    CHECK(next_record(&self, &record, &size) == expected); /* it does not go away */
    CHECK(self.record_count == 1 && fb_record_deserializer_offset(&self) == 5);
    CHECK(self.spanning == NULL && !self.is_spilling);

    fb_record_deserializer_clear(&self);
    CHECK(fb_record_deserializer_set_next_buffer(&self, bytes, 5) == FB_OK);
    CHECK(next_record(&self, &record, &size) == FB_RECORD && record[0] == 9);
    fb_record_deserializer_close(&self);
  }
}

static void memory_follows_what_arrives_not_what_is_announced(void) {
  uint8_t bytes[1004] = {0x7f, 0xff, 0xff, 0xff};
  struct fb_record_deserializer self = open_with_threshold(INT32_MAX);
  const uint8_t* record;
  size_t size;

  for (int i = 0; i < 100; i++) {
    size_t from = i == 0 ? 0 : 4;
    CHECK(fb_record_deserializer_set_next_buffer(&self, bytes + from, sizeof bytes - from) == FB_OK);
    CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  }
  CHECK(fb_record_deserializer_pending(&self) == 100004);
  CHECK(self.spanning_capacity <= 200000);
  fb_record_deserializer_close(&self);
}

static void feed_large(struct fb_record_deserializer* self, const struct stream* stream, size_t from,
                       const uint8_t** record, size_t* size) {
  int code = FB_NEEDS_INPUT;
  for (size_t at = from; at < stream->size; at += 32768) {
    size_t part = stream->size - at < 32768 ? stream->size - at : 32768;
    CHECK(code == FB_NEEDS_INPUT);
    CHECK(fb_record_deserializer_set_next_buffer(self, stream->data + at, part) == FB_OK);
    code = next_record(self, record, size);
  }
  CHECK(code == FB_RECORD);
}

static void large_memory_is_given_back(void) {
  struct stream stream = {0};
  struct fb_record_deserializer self = open_with_threshold(0);
  const uint8_t* record;
  size_t size;

  append_record(&stream, 3, 1 << 20);
  feed_large(&self, &stream, 0, &record, &size);
  CHECK(size == 1 << 20 && record == self.spanning && memcmp(record, stream.data + 4, size) == 0);
  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  CHECK(self.spanning_capacity <= FB_SPANNING_KEEP_BYTES);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static size_t files_in(const char* path) {
  DIR* dir = opendir(path);
  size_t count = 0;
  CHECK(dir != NULL);
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count - 2; /* . and .. */
}

static void spilled_record_is_mapped_and_leaves_no_file(const char* dir) {
  const char* dirs[] = {"/nonexistent", dir, NULL};
  struct stream stream = {0};
  struct fb_record_deserializer self;
  const uint8_t* record;
  size_t size;
  int files = open_files();

  fb_record_deserializer_open(&self, &(struct fb_record_deserializer_options){.spill_dirs = dirs});
  append_record(&stream, 5, 8 << 20);
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 40) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  CHECK(self.is_spilling && open_files() == files + 1);
  CHECK(files_in(dir) == 0); /* it has no name: a killed process leaves nothing */
  feed_large(&self, &stream, 40, &record, &size);
  CHECK(record == self.spilled && size == 8 << 20 && memcmp(record, stream.data + 4, size) == 0);
  CHECK(self.spanning == NULL && open_files() == files);
  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  CHECK(self.spilled == NULL);

  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 40) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  fb_record_deserializer_clear(&self);
  CHECK(open_files() == files && files_in(dir) == 0);
  fb_record_deserializer_close(&self);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static void spilling_without_a_usable_directory_fails_and_can_be_tried_again(void) {
  const char* dirs[] = {"/nonexistent/one", "/nonexistent/two", NULL};
  struct stream stream = {0};
  struct fb_record_deserializer_options options = {.spill_threshold = 100, .spill_dirs = dirs};
  struct fb_record_deserializer self;
  const uint8_t* record;
  size_t size;

  append_record(&stream, 5, 1000);
  fb_record_deserializer_open(&self, &options);
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 500) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_EIO && self.io_errno == ENOENT);
  self.options.spill_dirs = NULL;
  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT);
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data + 500, 504) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_RECORD);
  CHECK(size == 1000 && memcmp(record, stream.data + 4, size) == 0);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static void full_disk_is_an_error_and_nothing_is_lost(void) {
  struct stream stream = {0};
  struct fb_record_deserializer self = open_with_threshold(100);
  struct rlimit before, small;
  const uint8_t* record;
  size_t size;

  append_record(&stream, 5, 20000);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
  small = before;
  small.rlim_cur = 10000;
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data, 15000) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_EIO && self.io_errno == EFBIG);
  CHECK(next_record(&self, &record, &size) == FB_EIO);
  CHECK(self.accumulated == 10000);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);

  CHECK(next_record(&self, &record, &size) == FB_NEEDS_INPUT); /* somebody made room */
  CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data + 15000, 5004) == FB_OK);
  CHECK(next_record(&self, &record, &size) == FB_RECORD);
  CHECK(size == 20000 && memcmp(record, stream.data + 4, size) == 0);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

static void long_stream_needs_flat_memory(void) {
  enum { BUFFER_SIZE = 32768 };
  struct stream stream = {0};
  struct fb_record_deserializer self = open_with_threshold(0);
  uint64_t bytes = 0, records = 0;

  for (; stream.size < 8 * BUFFER_SIZE; records++) append_record(&stream, records, 3 + records * 997 % 10007);
  uint64_t per_round = records;
  for (records = 0; bytes < 2ull << 30; bytes += stream.size) {
    for (size_t at = 0; at < stream.size; at += BUFFER_SIZE) {
      size_t part = stream.size - at < BUFFER_SIZE ? stream.size - at : BUFFER_SIZE;
      const uint8_t* record;
      size_t size;
      CHECK(fb_record_deserializer_set_next_buffer(&self, stream.data + at, part) == FB_OK);
      for (; next_record(&self, &record, &size) == FB_RECORD; records++)
        CHECK(record[size - 1] == byte_of(records % per_round, size - 1));
    }
  }
  CHECK(self.record_count == records && records == bytes / stream.size * per_round);
  CHECK(self.stream_offset + self.buffer_size == bytes);
  CHECK(self.spanning_capacity <= FB_SPANNING_KEEP_BYTES);
  fb_record_deserializer_close(&self);
  free(stream.data);
}

int main(void) {
  char dir[] = "/tmp/test_record_deserializer_XXXXXX";

  records_come_back_for_every_buffer_size(0);
  records_come_back_for_every_buffer_size(50);
  whole_records_are_not_copied();
  unconsumed_bytes_restore_the_state_at_every_point(0);
  unconsumed_bytes_restore_the_state_at_every_point(50);
  unread_rest_of_a_buffer_is_unconsumed_too();
  bad_length_is_an_error_at_every_cut(0xffffffff, 0, FB_ECORRUPT);
  bad_length_is_an_error_at_every_cut(0x80000000, 0, FB_ECORRUPT);
  bad_length_is_an_error_at_every_cut(0x7fffffff, 1 << 20, FB_ETOO_LARGE);
  bad_length_is_an_error_at_every_cut(4, 3, FB_ETOO_LARGE);
  memory_follows_what_arrives_not_what_is_announced();
  large_memory_is_given_back();
  CHECK(mkdtemp(dir) != NULL);
  spilled_record_is_mapped_and_leaves_no_file(dir);
  CHECK(rmdir(dir) == 0);
  spilling_without_a_usable_directory_fails_and_can_be_tried_again();
  full_disk_is_an_error_and_nothing_is_lost();
  long_stream_needs_flat_memory();
  return 0;
}
