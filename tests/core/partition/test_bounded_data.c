/* The file of a subpartition: the bytes of Flink, three storages, and what becomes of files that somebody has touched. */
#define _GNU_SOURCE /* mount */
#include "partition/bounded_data.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "golden.h"

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

/* ---- contents: what is written and expected again ----------------------------------------------------- */

enum { CONTENTS_MAX = 128 };

struct content {
  enum fb_buffer_data_type type;
  bool is_compressed;
  uint32_t size;
  uint8_t bytes[5000];
};

static struct content contents[CONTENTS_MAX];
static uint32_t content_count;

static void add_content(enum fb_buffer_data_type type, bool is_compressed, const void* bytes, size_t size) {
  struct content* added = &contents[content_count++];

  CHECK(content_count <= CONTENTS_MAX && size <= sizeof added->bytes);
  added->type = type;
  added->is_compressed = is_compressed;
  added->size = (uint32_t)size;
  memcpy(added->bytes, bytes, size);
}

static int write_content(struct fb_bounded_data* data, const struct content* content, struct fb_file_failure* failure) {
  struct fb_buffer_slice slice;
  int code;

  CHECK(fb_buffer_new_unpooled(content->bytes, content->size, content->type, &slice) == FB_OK);
  slice.is_compressed = content->is_compressed;
  code = fb_bounded_data_write(data, &slice, 1, failure);
  fb_buffer_slice_release(&slice);
  return code;
}

static void make_file(struct fb_bounded_data* data, enum fb_bounded_storage storage, uint64_t region_limit) {
  struct fb_file_failure failure;

  CHECK(fb_bounded_data_open(data, storage, path, region_limit, &failure) == FB_OK);
  for (uint32_t i = 0; i < content_count; i++) CHECK(write_content(data, &contents[i], &failure) == FB_OK);
  CHECK(fb_bounded_data_finish(data, false, &failure) == FB_OK);
}

static void remove_file(struct fb_bounded_data* data) {
  fb_bounded_data_delete(data);
  fb_bounded_data_close(data);
  content_count = 0;
}

/* Takes the next buffer, whose header may have been changed: is it what was written as number `i`? -1: it is no buffer. */
static int read_content(struct fb_bounded_reader* reader, uint32_t i, bool* is_same, struct fb_file_failure* failure) {
  struct fb_buffer_slice room, slice = {0};
  int step;

  CHECK(fb_buffer_new_unpooled(NULL, reader->data->largest + FB_BOUNDED_HEADER_ROOM, FB_DATA_BUFFER, &room) == FB_OK);
  step = fb_bounded_reader_next(reader, true, room.buffer, &slice, NULL, failure);
  if (step != FB_BOUNDED_READ || slice.buffer != room.buffer) fb_buffer_slice_release(&room);
  if (step != FB_BOUNDED_READ) return step;
  *is_same = i < content_count && slice.data_type == contents[i].type && slice.size == contents[i].size &&
             slice.is_compressed == contents[i].is_compressed &&
             memcmp(fb_buffer_slice_data(&slice), contents[i].bytes, slice.size) == 0;
  fb_buffer_slice_release(&slice);
  return step;
}

/* Reads to the end or to an error; returns its code, FB_BOUNDED_END without one. */
static int read_contents(struct fb_bounded_data* data, uint32_t* read, bool* are_same,
                         struct fb_file_failure* failure) {
  struct fb_bounded_reader reader;
  bool is_same = false;
  int step;

  *are_same = true;
  *read = 0;
  CHECK(fb_bounded_reader_open(&reader, data, failure) == FB_OK);
  while ((step = read_content(&reader, *read, &is_same, failure)) == FB_BOUNDED_READ) {
    *are_same = *are_same && is_same;
    (*read)++;
  }
  fb_bounded_reader_close(&reader);
  return step;
}

static void check_contents(struct fb_bounded_data* data) {
  struct fb_file_failure failure;
  bool are_same;
  uint32_t read;

  CHECK(read_contents(data, &read, &are_same, &failure) == FB_BOUNDED_END);
  CHECK(read == content_count && are_same);
}

static size_t load_file(uint8_t* bytes, size_t room) {
  FILE* file = fopen(path, "rb");
  size_t size;

  CHECK(file != NULL);
  size = fread(bytes, 1, room, file);
  CHECK(size < room && fclose(file) == 0);
  return size;
}

/* The same file, for it may be mapped. */
static void store_file(const uint8_t* bytes, size_t size) {
  int fd = open(path, O_WRONLY);

  CHECK(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0 && close(fd) == 0);
}

/* ---- bytes ---------------------------------------------------------------------------------------------- */

static void check_golden(enum fb_bounded_storage storage, uint64_t region_limit, uint64_t reported, const char* hex) {
  static uint8_t written[1 << 16], expected[1 << 16];
  size_t size = golden_bytes(hex, expected, sizeof expected);
  struct fb_bounded_data data;

  make_file(&data, storage, region_limit);
  CHECK(load_file(written, sizeof written) == size && memcmp(written, expected, size) == 0);
  CHECK(data.size == reported);
  store_file(expected, size);
  check_contents(&data);
  remove_file(&data);
}

static void files_are_those_of_flink_both_ways(void) {
  static char line[1 << 17];
  static uint8_t bytes[1 << 16];
  FILE* golden = open_golden("bounded_blocking/bounded_blocking.json");
  enum fb_bounded_storage storage = FB_BOUNDED_FILE;
  enum fb_buffer_data_type type = FB_NONE;
  int32_t is_compressed = 0, reported = 0;
  uint32_t files = 0;

  while (fgets(line, sizeof line, golden) != NULL) {
    const char* kind = golden_value(line, "kind");
    const char* data_type = golden_value(line, "data_type");
    const char* hex = golden_value(line, "hex");
    const char* file = golden_value(line, "file");

    if (kind != NULL)
      storage = *kind == 'm'                      ? FB_BOUNDED_MMAP
                : strncmp(kind, "file_m", 6) == 0 ? FB_BOUNDED_FILE_MMAP
                                                  : FB_BOUNDED_FILE;
    if (data_type != NULL) type = *data_type == 'D' ? FB_DATA_BUFFER : FB_EVENT_BUFFER;
    if (golden_value(line, "compressed") != NULL) is_compressed = golden_number(line, "compressed");
    if (golden_value(line, "size_reported") != NULL) reported = golden_number(line, "size_reported");
    if (hex != NULL) add_content(type, is_compressed != 0, bytes, golden_bytes(hex, bytes, sizeof bytes));
    if (file != NULL) {
      CHECK(content_count > 0);
      check_golden(storage, storage == FB_BOUNDED_MMAP ? 4096 : 0, (uint64_t)reported, file);
      files++;
    }
  }
  CHECK(files == 3);
  fclose(golden);
}

static void what_is_of_many_kinds_is_read_by_several_at_once(enum fb_bounded_storage storage) {
  static const enum fb_buffer_data_type TYPES[] = {FB_DATA_BUFFER, FB_EVENT_BUFFER, FB_END_OF_PARTITION};
  struct fb_bounded_reader readers[3];
  struct fb_file_failure failure;
  struct fb_bounded_data data;
  uint8_t bytes[400];
  bool is_same;

  for (uint32_t i = 0; i < 60; i++) {
    enum fb_buffer_data_type type = i % 3 == 2 ? TYPES[i % 2] : FB_DATA_BUFFER;
    memset(bytes, (int)i + 1, sizeof bytes);
    add_content(type, type == FB_DATA_BUFFER && i % 5 == 0, bytes, type == FB_DATA_BUFFER ? i * 97 % 400 : 4);
  }
  make_file(&data, storage, 4096);
  CHECK(data.data_count + data.event_count == content_count && data.event_count == 10);
  for (int i = 0; i < 3; i++) CHECK(fb_bounded_reader_open(&readers[i], &data, &failure) == FB_OK);
  for (uint32_t i = 0; i < content_count; i++)
    for (int k = 0; k < 3; k++) CHECK(read_content(&readers[k], i, &is_same, &failure) == FB_BOUNDED_READ && is_same);
  for (int i = 0; i < 3; i++) {
    CHECK(read_content(&readers[i], 0, &is_same, &failure) == FB_BOUNDED_END);
    fb_bounded_reader_close(&readers[i]);
  }
  remove_file(&data);
}

/* Whole pages, four buffers in each; a file that is only mapped to be read has no gaps. */
static void no_buffer_crosses_a_region(enum fb_bounded_storage storage) {
  static uint8_t whole[1 << 15];
  static const uint8_t HEADER[] = {0, 0, 0, 0, 0xe8, 3, 0, 0};
  struct fb_bounded_data data;
  struct fb_file_failure failure;
  uint8_t bytes[1000];

  for (int i = 0; i < 20; i++) {
    memset(bytes, i, sizeof bytes);
    add_content(FB_DATA_BUFFER, false, bytes, sizeof bytes);
  }
  make_file(&data, storage, 4096);
  check_contents(&data);
  CHECK(load_file(whole, sizeof whole) == (storage == FB_BOUNDED_MMAP ? 5 * 4096 : 20 * 1008));
  if (storage == FB_BOUNDED_MMAP)
    for (size_t page = 0; page < 5; page++) CHECK(memcmp(whole + page * 4096, HEADER, sizeof HEADER) == 0);
  remove_file(&data);

  add_content(FB_DATA_BUFFER, false, whole, 4096);
  CHECK(fb_bounded_data_open(&data, storage, path, 4096, &failure) == FB_OK);
  CHECK(write_content(&data, contents, &failure) == FB_ETOO_LARGE && strstr(failure.text, "larger than a region"));
  remove_file(&data);
}

/* ---- faults ------------------------------------------------------------------------------------------- */

static void what_cannot_be_stored_is_refused(enum fb_bounded_storage storage) {
  struct fb_bounded_data data, other;
  struct fb_bounded_reader reader;
  struct fb_file_failure failure;

  add_content(FB_PRIORITIZED_EVENT_BUFFER, false, "barrier", 7);
  add_content(FB_DATA_BUFFER, false, "late", 4);
  CHECK(fb_bounded_data_open(&data, storage, path, 0, &failure) == FB_OK);
  CHECK(write_content(&data, &contents[0], &failure) == FB_EARGUMENT);
  CHECK(strstr(failure.text, "type that is not stored") != NULL && strstr(failure.text, path) != NULL);
  CHECK(fb_bounded_reader_open(&reader, &data, &failure) == FB_ESTATE);
  CHECK(strstr(failure.text, "still being written") != NULL);
  CHECK(fb_bounded_data_finish(&data, false, &failure) == FB_OK);
  CHECK(write_content(&data, &contents[1], &failure) == FB_ESTATE);
  CHECK(fb_bounded_data_open(&other, storage, path, 0, &failure) == FB_EIO && failure.error == EEXIST);
  remove_file(&data);
}

/* Each is data, of as many buffers as were written, or an error with its place in the file. */
static void truncations_and_flipped_bits_are_told(enum fb_bounded_storage storage) {
  static uint8_t whole[1 << 17];
  struct fb_file_failure failure;
  struct fb_bounded_data data;
  size_t size, used;
  uint32_t read, passed = 0;
  bool are_same;
  int code;

  add_content(FB_DATA_BUFFER, false, "0123456789", 10);
  add_content(FB_DATA_BUFFER, false, "", 0);
  add_content(FB_DATA_BUFFER, true, "more", 4);
  add_content(FB_END_OF_PARTITION, false, "\0\0\0\0", 4);
  make_file(&data, storage, storage == FB_BOUNDED_MMAP ? 4096 : 0);
  size = load_file(whole, sizeof whole);
  used = data.size;
  for (size_t cut = 0; cut < used; cut++) {
    store_file(whole, cut);
    code = read_contents(&data, &read, &are_same, &failure);
    CHECK(code == FB_ECORRUPT || code == FB_ETRUNCATED);
    CHECK(are_same && failure.offset <= used && strstr(failure.text, path) != NULL);
  }
  for (size_t at = 0; at < used; at++) {
    for (int bit = 0; bit < 8; bit++) {
      whole[at] ^= (uint8_t)(1 << bit);
      store_file(whole, size);
      whole[at] ^= (uint8_t)(1 << bit);
      code = read_contents(&data, &read, &are_same, &failure);
      CHECK(code < 0 || (read == content_count && !are_same));
      if (code == FB_BOUNDED_END) passed++;
      else CHECK(failure.offset <= used && strstr(failure.text, path) != NULL);
    }
  }
  CHECK(passed >= 8 * 14 && passed <= 8 * 14 + 3 * 3); /* the bytes of data, and bits that make one kind another */
  store_file(whole, size);
  check_contents(&data);
  remove_file(&data);
}

static void a_file_that_is_removed_under_a_reader_is_read_to_its_end(enum fb_bounded_storage storage) {
  struct fb_bounded_data data;
  struct fb_bounded_reader reader;
  struct fb_file_failure failure;
  uint8_t bytes[5000];
  bool is_same;

  for (int i = 0; i < 50; i++) {
    memset(bytes, i, sizeof bytes);
    add_content(FB_DATA_BUFFER, false, bytes, sizeof bytes);
  }
  make_file(&data, storage, 0);
  CHECK(fb_bounded_reader_open(&reader, &data, &failure) == FB_OK);
  for (uint32_t i = 0; i < content_count; i++) {
    CHECK(read_content(&reader, i, &is_same, &failure) == FB_BOUNDED_READ && is_same);
    if (i == 0) CHECK(unlink(path) == 0);
  }
  fb_bounded_reader_close(&reader);
  if (storage == FB_BOUNDED_FILE)
    CHECK(fb_bounded_reader_open(&reader, &data, &failure) == FB_ENOT_FOUND && strstr(failure.text, path) != NULL);
  remove_file(&data);
}

/* A disk of 1 MiB where one may be mounted, else a limit on the size of files. */
static void a_full_disk_is_said_and_kills_nobody(enum fb_bounded_storage storage) {
  struct rlimit limit, before;
  struct fb_file_failure failure;
  struct fb_bounded_data data;
  bool is_mounted = mount("none", folder, "tmpfs", 0, "size=1m") == 0;
  uint32_t written = 0;
  int code;

  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = 1 << 20;
  if (!is_mounted) CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0);
  add_content(FB_DATA_BUFFER, false, contents[0].bytes, 5000);
  CHECK(fb_bounded_data_open(&data, storage, path, 0, &failure) == FB_OK);
  while ((code = write_content(&data, contents, &failure)) == FB_OK) CHECK(++written < 300);
  CHECK(code == FB_EIO && (failure.error == ENOSPC || failure.error == EFBIG));
  CHECK(strstr(failure.text, path) != NULL && failure.offset > 0 && failure.offset <= 1 << 20);
  remove_file(&data);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  if (is_mounted) CHECK(umount(folder) == 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void memory_that_is_refused_is_said(void) {} /* a sanitizer takes address space as it likes */
#else
static void memory_that_is_refused_is_said(void) {
  struct rlimit limit, before;
  struct fb_file_failure failure;
  struct fb_bounded_data data;
  struct fb_buffer_slice slice;
  unsigned long pages;
  FILE* used = fopen("/proc/self/statm", "r");

  if (used == NULL) return;
  CHECK(fscanf(used, "%lu", &pages) == 1 && fclose(used) == 0);
  CHECK(fb_buffer_new_unpooled(NULL, 8 << 20, FB_DATA_BUFFER, &slice) == FB_OK);
  memset(slice.buffer->segment.data, 7, 8 << 20);
  CHECK(fb_bounded_data_open(&data, FB_BOUNDED_FILE_MMAP, path, 0, &failure) == FB_OK);
  for (int i = 0; i < 8; i++) CHECK(fb_bounded_data_write(&data, &slice, 1, &failure) == FB_OK);
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  limit = before;
  limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (32 << 20);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  CHECK(fb_bounded_data_finish(&data, false, &failure) == FB_ENOMEM && strstr(failure.text, path) != NULL);
  CHECK(setrlimit(RLIMIT_AS, &before) == 0);
  fb_buffer_slice_release(&slice);
  remove_file(&data);
}
#endif

int main(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/file", folder);
  files_are_those_of_flink_both_ways();
  memory_that_is_refused_is_said();
  for (int i = FB_BOUNDED_FILE; i <= FB_BOUNDED_FILE_MMAP; i++) {
    enum fb_bounded_storage storage = (enum fb_bounded_storage)i;
    for (int round = 0; round < 4; round++) what_was_written_is_read(storage, round % 2 == 0 ? 0 : 5000, round >= 2);
    what_is_of_many_kinds_is_read_by_several_at_once(storage);
    if (storage != FB_BOUNDED_FILE) no_buffer_crosses_a_region(storage);
    what_cannot_be_stored_is_refused(storage);
    truncations_and_flipped_bits_are_told(storage);
    a_file_that_is_removed_under_a_reader_is_read_to_its_end(storage);
    a_full_disk_is_said_and_kills_nobody(storage);
  }
  regions_name_the_place_and_hold_the_file();
  a_prepared_one_is_created_when_it_is_written();
  CHECK(rmdir(folder) == 0);
}
