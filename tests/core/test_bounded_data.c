/* The file of a subpartition: what C alone can ask of it. Bytes, faults and properties are in test_bounded_data.py. */
#include "partition/bounded_data.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { BUFFERS = 300, SIZE = 1000 };

static char folder[] = "/tmp/flinkbuf-test-XXXXXX";
static char path[64];

static void write_numbered(struct fb_bounded_data* data, bool parks) {
  struct fb_file_failure failure;
  uint8_t bytes[SIZE];

  for (int i = 0; i < BUFFERS; i++) {
    struct fb_buffer_slice slice;
    memset(bytes, i, sizeof bytes);
    CHECK(fb_buffer_new_unpooled(bytes, sizeof bytes, FB_DATA_BUFFER, &slice) == FB_OK);
    CHECK(fb_bounded_data_write(data, &slice, 1, &failure) == FB_OK);
    fb_buffer_slice_release(&slice);
    if (parks && i % 7 == 0) CHECK(fb_bounded_data_park(data, &failure) == FB_OK);
  }
  CHECK(fb_bounded_data_finish(data, parks, &failure) == FB_OK);
}

/* Asks first for what needs no wait, as a reader does that may not. */
static void read_numbered(struct fb_bounded_data* data, uint32_t count) {
  struct fb_bounded_reader reader;
  struct fb_file_failure failure;

  CHECK(fb_bounded_reader_open(&reader, data, &failure) == FB_OK);
  for (uint32_t i = 0; i < count; i++) {
    struct fb_buffer_slice room, slice = {0};
    int step;

    CHECK(fb_buffer_new_unpooled(NULL, SIZE + FB_BOUNDED_HEADER_ROOM, FB_DATA_BUFFER, &room) == FB_OK);
    step = fb_bounded_reader_next(&reader, false, room.buffer, &slice, NULL, &failure);
    if (step == FB_BOUNDED_NOT_RESIDENT)
      step = fb_bounded_reader_next(&reader, true, room.buffer, &slice, NULL, &failure);
    CHECK(step == FB_BOUNDED_READ && slice.size == SIZE && fb_buffer_slice_data(&slice)[SIZE - 1] == (uint8_t)i);
    if (slice.buffer != room.buffer) fb_buffer_slice_release(&room);
    fb_buffer_slice_release(&slice);
  }
  if (count == BUFFERS) CHECK(fb_bounded_reader_next(&reader, true, NULL, NULL, NULL, &failure) == FB_BOUNDED_END);
  fb_bounded_reader_close(&reader);
  fb_bounded_reader_close(&reader);
}

static void what_was_written_is_read(enum fb_bounded_storage storage, uint64_t region_limit, bool parks) {
  struct fb_bounded_data data;
  struct fb_file_failure failure;

  CHECK(fb_bounded_data_open(&data, storage, path, region_limit, &failure) == FB_OK);
  write_numbered(&data, parks);
  CHECK(data.data_count == BUFFERS && data.largest == SIZE);
  read_numbered(&data, BUFFERS);
  read_numbered(&data, 3);
  fb_bounded_data_delete(&data);
  fb_bounded_data_delete(&data);
  CHECK(access(path, F_OK) < 0);
  fb_bounded_data_close(&data);
  fb_bounded_data_close(&data);
}

/* With the first write, and not where somebody else has a file: that one stays. */
static void a_prepared_one_is_created_when_it_is_written(void) {
  struct fb_bounded_data data;
  struct fb_file_failure failure;
  struct fb_buffer_slice slice;

  CHECK(fb_bounded_data_prepare(&data, FB_BOUNDED_FILE, path, 0, &failure) == FB_OK);
  CHECK(access(path, F_OK) < 0);
  write_numbered(&data, true);
  read_numbered(&data, BUFFERS);
  fb_bounded_data_close(&data);
  CHECK(fb_bounded_data_prepare(&data, FB_BOUNDED_FILE, path, 0, &failure) == FB_OK);
  CHECK(fb_buffer_new_unpooled((const uint8_t*)"data", 4, FB_DATA_BUFFER, &slice) == FB_OK);
  CHECK(fb_bounded_data_write(&data, &slice, 1, &failure) == FB_EIO && failure.error == EEXIST);
  fb_buffer_slice_release(&slice);
  fb_bounded_data_delete(&data);
  fb_bounded_data_close(&data);
  CHECK(unlink(path) == 0);
}

/* Only the place of a buffer: whoever sends files reads it; an event comes as bytes. */
static void regions_name_the_place_and_hold_the_file(void) {
  static const uint8_t EVENT[4];
  struct fb_bounded_data data;
  struct fb_bounded_reader reader;
  struct fb_file_failure failure;
  struct fb_file_region first = {0}, second = {0}, none = {0};
  struct fb_buffer_slice slice, end, room;
  uint8_t byte;

  CHECK(fb_bounded_data_open(&data, FB_BOUNDED_FILE, path, 0, &failure) == FB_OK);
  CHECK(fb_buffer_new_unpooled((const uint8_t*)"data", 4, FB_DATA_BUFFER, &slice) == FB_OK);
  CHECK(fb_buffer_new_unpooled(EVENT, 4, FB_END_OF_PARTITION, &end) == FB_OK);
  CHECK(fb_bounded_data_write(&data, &slice, 1, &failure) == FB_OK);
  CHECK(fb_bounded_data_write(&data, &slice, 1, &failure) == FB_OK);
  CHECK(fb_bounded_data_write(&data, &end, 1, &failure) == FB_OK);
  CHECK(fb_bounded_data_finish(&data, false, &failure) == FB_OK);
  fb_buffer_slice_release(&slice);
  fb_buffer_slice_release(&end);
  CHECK(fb_bounded_reader_open(&reader, &data, &failure) == FB_OK);
  CHECK(fb_buffer_new_unpooled(NULL, 4 + FB_BOUNDED_HEADER_ROOM, FB_DATA_BUFFER, &room) == FB_OK);
  CHECK(fb_bounded_reader_next(&reader, true, room.buffer, &slice, &first, &failure) == FB_BOUNDED_READ);
  CHECK(first.offset == 8 && first.size == 4 && slice.buffer == NULL && slice.size == 4);
  CHECK(fb_bounded_reader_next(&reader, true, room.buffer, &slice, &second, &failure) == FB_BOUNDED_READ);
  CHECK(second.offset == 20 && second.file == first.file);
  CHECK(fb_bounded_reader_next(&reader, true, room.buffer, &slice, &none, &failure) == FB_BOUNDED_READ);
  CHECK(none.file == NULL && slice.buffer == room.buffer && slice.data_type == FB_END_OF_PARTITION);
  CHECK(fb_bounded_reader_next(&reader, true, room.buffer, &slice, &none, &failure) == FB_BOUNDED_END);
  fb_buffer_slice_release(&room);
  fb_bounded_reader_close(&reader);
  fb_file_region_release(&first);
  fb_bounded_data_delete(&data);
  fb_bounded_data_close(&data);
  CHECK(pread(second.file->fd, &byte, 1, (off_t)second.offset) == 1 && byte == 'd');
  fb_file_region_release(&second);
}

int main(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/file", folder);
  for (int storage = FB_BOUNDED_FILE; storage <= FB_BOUNDED_FILE_MMAP; storage++)
    for (int round = 0; round < 4; round++)
      what_was_written_is_read((enum fb_bounded_storage)storage, round % 2 == 0 ? 0 : 5000, round >= 2);
  regions_name_the_place_and_hold_the_file();
  a_prepared_one_is_created_when_it_is_written();
  CHECK(rmdir(folder) == 0);
}
