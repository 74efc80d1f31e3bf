#include "partition/partition_file.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "ground/byte_order.h"
#include "ground/crc32.h"
#include "partition/buffer_header.h"
#include "partition_files.h"

#define SUBPARTITIONS_MAX 1000

static char directory[256], base[300];
static struct bytes wanted[SUBPARTITIONS_MAX];
static uint64_t state = 42;

static uint32_t random_number(uint32_t limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % limit;
}

static void forget_wanted(void) {
  for (uint32_t i = 0; i < SUBPARTITIONS_MAX; i++) free_bytes(&wanted[i]);
}

static void drop_files(void) {
  drop_file(base, FB_PARTITION_DATA_SUFFIX);
  drop_file(base, FB_PARTITION_INDEX_SUFFIX);
  drop_file(base, FB_PARTITION_INDEX_PART_SUFFIX);
}

static bool has_any_file(void) {
  return has_file(base, FB_PARTITION_DATA_SUFFIX) || has_file(base, FB_PARTITION_INDEX_SUFFIX) ||
         has_file(base, FB_PARTITION_INDEX_PART_SUFFIX);
}

/* ---- writing ------------------------------------------------------------------------------------- */

static struct fb_buffer_slice new_buffer(uint32_t size, enum fb_buffer_data_type type) {
  struct fb_buffer_slice slice;
  uint8_t* bytes;

  CHECK(fb_buffer_new_unpooled(NULL, size, type, &slice) == FB_OK);
  bytes = slice.buffer->segment.data;
  for (uint32_t i = 0; i < size; i++) bytes[i] = (uint8_t)random_number(256);
  return slice;
}

/* What a reader should get: type, then the bytes; plain data as one stream, whatever the blocks. */
static void want(uint32_t subpartition, const struct fb_buffer_slice* slice) {
  if (fb_buffer_data_type_is_event(slice->data_type)) add_bytes(&wanted[subpartition], &slice->data_type, 1);
  add_bytes(&wanted[subpartition], fb_buffer_slice_data(slice), slice->size);
}

static void add_region(struct fb_partition_file_writer* writer, bool is_broadcast, uint32_t blocks, uint32_t size_max) {
  uint32_t n = writer->options.subpartition_count;
  struct fb_buffer_slice kept[64];
  struct fb_file_failure failure;
  uint32_t place = 0;

  CHECK(blocks <= 64 && fb_partition_file_writer_start_region(writer, is_broadcast, &failure) == FB_OK);
  for (uint32_t i = 0; i < blocks; i++) {
    uint32_t subpartition = fb_partition_file_writer_at(writer, place);
    kept[i] = new_buffer(random_number(size_max) + 1, FB_DATA_BUFFER);
    CHECK(fb_partition_file_writer_add(writer, is_broadcast ? 0 : subpartition, &kept[i], &failure) == FB_OK);
    if (!is_broadcast) want(subpartition, &kept[i]);
    for (uint32_t s = 0; is_broadcast && s < n; s++) want(s, &kept[i]);
    if (random_number(3) > 0 && place + 1 < n) place += 1 + random_number(n - place - 1) / 4;
  }
  CHECK(fb_partition_file_writer_finish_region(writer, &failure) == FB_OK);
  for (uint32_t i = 0; i < blocks; i++) fb_buffer_slice_release(&kept[i]);
}

static void add_end(struct fb_partition_file_writer* writer) {
  static const uint8_t END[4] = {0};
  struct fb_file_failure failure;
  struct fb_buffer_slice end;

  CHECK(fb_buffer_new_unpooled(END, 4, FB_END_OF_PARTITION, &end) == FB_OK);
  CHECK(fb_partition_file_writer_start_region(writer, true, &failure) == FB_OK);
  CHECK(fb_partition_file_writer_add(writer, 0, &end, &failure) == FB_OK);
  CHECK(fb_partition_file_writer_finish_region(writer, &failure) == FB_OK);
  for (uint32_t s = 0; s < writer->options.subpartition_count; s++) want(s, &end);
  fb_buffer_slice_release(&end);
}

static void open_writer(struct fb_partition_file_writer* writer, uint32_t n, uint32_t first, size_t cache_size) {
  struct fb_partition_file_writer_options options = {
      .subpartition_count = n, .first_subpartition = first, .index_cache_size = cache_size, .has_sums = true};
  struct fb_file_failure failure;
  CHECK(fb_partition_file_writer_open(writer, base, &options, &failure) == FB_OK);
}

static struct fb_partition_file* write_file(uint32_t n, uint32_t regions, uint32_t blocks, uint32_t size_max,
                                            size_t cache_size) {
  struct fb_partition_file_writer writer;
  struct fb_partition_file* file;
  struct fb_file_failure failure;

  forget_wanted();
  open_writer(&writer, n, random_number(n), cache_size);
  for (uint32_t i = 0; i < regions; i++) add_region(&writer, random_number(4) == 0, blocks, size_max);
  add_end(&writer);
  CHECK(!has_file(base, FB_PARTITION_INDEX_SUFFIX));
  CHECK(fb_partition_file_writer_finish(&writer, &file, &failure) == FB_OK);
  CHECK(writer.base_path == NULL && !has_file(base, FB_PARTITION_INDEX_PART_SUFFIX));
  CHECK(file->subpartition_count == n && file->region_count == regions + 1);
  return file;
}

/* ---- reading ------------------------------------------------------------------------------------- */

struct got {
  struct bytes bytes;
  const uint8_t* memory;
};

static int take_block(void* context, const struct fb_file_block* block) {
  struct got* got = context;
  if (fb_buffer_data_type_is_event(block->data_type)) add_bytes(&got->bytes, &block->data_type, 1);
  if (block->is_compressed) add_bytes(&got->bytes, "compressed", 10);
  add_bytes(&got->bytes, got->memory + block->offset, block->size);
  return FB_OK;
}

/* Reads a subpartition into memory of exactly `capacity` bytes at a time, or more where one block needs it. */
static int read_subpartition(struct fb_partition_file* file, uint32_t subpartition, uint32_t capacity, struct got* got,
                             struct fb_file_failure* failure) {
  struct fb_partition_file_reader reader;
  int code = fb_partition_file_reader_open(&reader, file, subpartition, failure);

  *got = (struct got){0};
  if (code != FB_OK) return code;
  reader.is_summing = true;
  do {
    uint32_t size = capacity > reader.least ? capacity : reader.least;
    uint8_t* memory = malloc(size);
    CHECK(memory != NULL);
    got->memory = memory;
    code = fb_partition_file_reader_read(&reader, memory, size, take_block, got, failure);
    free(memory);
  } while (code > 0);
  if (code == 0 && file->sums != NULL) {
    CHECK(reader.sum.size == file->sums[subpartition].size && reader.sum.crc32 == file->sums[subpartition].crc32);
  }
  fb_partition_file_reader_close(&reader);
  return code;
}

/* Headers alone tell where the same bytes lie. */
static void check_skipping(struct fb_partition_file* file, uint32_t subpartition) {
  struct fb_partition_file_reader reader;
  struct fb_file_failure failure;
  struct fb_file_block block;
  struct bytes bytes = {0};
  int code;

  CHECK(fb_partition_file_reader_open(&reader, file, subpartition, &failure) == FB_OK);
  while ((code = fb_partition_file_reader_skip(&reader, &block, &failure)) == 1) {
    uint8_t* memory = malloc(block.size);
    CHECK(memory != NULL);
    CHECK(fb_file_channel_read_exactly(&file->data, block.position, memory, block.size, &failure) == FB_OK);
    if (fb_buffer_data_type_is_event(block.data_type)) add_bytes(&bytes, &block.data_type, 1);
    add_bytes(&bytes, memory, block.size);
    free(memory);
  }
  CHECK(code == 0 && equal_bytes(&bytes, &wanted[subpartition]));
  free_bytes(&bytes);
  fb_partition_file_reader_close(&reader);
}

/* What the writer knows of the index is what it finds who opens it. */
static void check_index_sum(const struct fb_partition_file* file, const struct fb_partition_file* opened) {
  struct bytes index = get_file(base, FB_PARTITION_INDEX_SUFFIX);

  CHECK(file->index_size == index.size && file->index_crc32 == fb_crc32(0, index.data, index.size));
  CHECK(opened->index_size == file->index_size && opened->index_crc32 == file->index_crc32);
  CHECK(opened->sums == NULL);
  free_bytes(&index);
}

static void check_all(struct fb_partition_file* file, uint32_t capacity) {
  for (uint32_t s = 0; s < file->subpartition_count; s++) {
    struct fb_file_failure failure;
    struct got got;
    CHECK(read_subpartition(file, s, capacity, &got, &failure) == FB_OK);
    CHECK(equal_bytes(&got.bytes, &wanted[s]));
    free_bytes(&got.bytes);
    check_skipping(file, s);
  }
  CHECK(file->channel_users == 0 && !fb_file_channel_is_open(&file->data));
}

static void test_round_trip(void) {
  static const uint32_t COUNTS[] = {1, 2, 3, 24}, CAPACITIES[] = {64, 100, 4096, 1 << 20};
  for (uint32_t turn = 0; turn < 24; turn++) {
    uint32_t n = COUNTS[turn % 4];
    bool is_spilled = turn % 3 == 0;
    struct fb_partition_file* file = write_file(n, 1 + turn % 5, 20, turn % 2 ? 40 : 5000, is_spilled ? 16 : 0);
    struct fb_partition_file* opened;
    struct fb_file_failure failure;

    check_all(file, CAPACITIES[turn / 4 % 4]);
    CHECK((file->cached_index == NULL) == (is_spilled && file->region_count > 1));
    CHECK(fb_partition_file_open(base, turn % 2 ? n : 0, turn % 7 ? FB_INDEX_CACHE_SIZE : 0, &opened, &failure) ==
          FB_OK);
    CHECK(opened->subpartition_count == n && opened->region_count == 1 + turn % 5 + 1);
    check_index_sum(file, opened);
    fb_partition_file_drop(file);
    check_all(opened, CAPACITIES[turn / 8 % 4]);
    fb_partition_file_delete_on_drop(opened);
    fb_partition_file_drop(opened);
    CHECK(!has_any_file());
  }
}

/* The index is read once when the file is opened, and not again for any subpartition. */
static void test_index_reads(void) {
  struct fb_partition_file *file = write_file(SUBPARTITIONS_MAX, 20, 20, 300, 0), *opened;
  struct fb_file_failure failure;
  struct got got;

  fb_partition_file_drop(file);
  CHECK(fb_partition_file_open(base, 0, FB_INDEX_CACHE_SIZE, &opened, &failure) == FB_OK);
  for (uint32_t i = 0; i < 10; i++) {
    uint32_t subpartition = random_number(SUBPARTITIONS_MAX);
    CHECK(read_subpartition(opened, subpartition, 1 << 16, &got, &failure) == FB_OK);
    CHECK(equal_bytes(&got.bytes, &wanted[subpartition]));
    free_bytes(&got.bytes);
  }
  CHECK(atomic_load(&opened->index_reads) == 1);
  fb_partition_file_drop(opened);
  drop_files();
}

/* ---- damage -------------------------------------------------------------------------------------- */

/* It opens and reads to an end, or says where it does not. Returns whether all was as it had been written. */
static bool try_files(uint32_t count) {
  struct fb_partition_file* file;
  struct fb_file_failure failure;
  bool is_same = true;

  int code = fb_partition_file_open(base, count, FB_INDEX_CACHE_SIZE, &file, &failure);
  if (code != FB_OK) {
    CHECK(file == NULL && failure.code == code && strstr(failure.text, base) != NULL);
    return false;
  }
  CHECK(fb_partition_file_start_reading(file, &failure) == FB_OK);
  for (uint32_t s = 0; s < file->subpartition_count; s++) {
    struct got got;
    code = read_subpartition(file, s, 256, &got, &failure);
    CHECK(code <= 0);
    if (code < 0)
      CHECK(failure.code == code && strstr(failure.text, base) != NULL && strstr(failure.text, " byte ") != NULL);
    is_same &= code == FB_OK && equal_bytes(&got.bytes, &wanted[s]);
    free_bytes(&got.bytes);
  }
  fb_partition_file_stop_reading(file);
  fb_partition_file_drop(file);
  return is_same;
}

static void test_damage(const char* suffix, bool is_index) {
  struct bytes whole = get_file(base, suffix);

  CHECK(try_files(0) && try_files(3) && !try_files(2) && !try_files(1000));
  for (size_t size = 0; size < whole.size; size++) {
    put_file(base, suffix, whole.data, size);
    CHECK(!try_files(0));
  }
  add_bytes(&whole, "trailing and more", 16);
  put_file(base, suffix, whole.data, whole.size);
  CHECK(!try_files(0));
  whole.size -= 16;
  for (size_t at = 0; at < whole.size; at++) {
    uint8_t flip = (uint8_t)(1 << random_number(8));
    whole.data[at] ^= flip;
    put_file(base, suffix, whole.data, whole.size);
    /* Payload has no checksum here; but no bit of an index may be wrong unnoticed. */
    CHECK(!try_files(0));
    CHECK(!is_index || !try_files(3));
    whole.data[at] ^= flip;
  }
  put_file(base, suffix, whole.data, whole.size);
  CHECK(try_files(0));
  free_bytes(&whole);
}

static void test_every_truncation_and_flipped_byte(void) {
  fb_partition_file_drop(write_file(3, 2, 4, 20, 0));
  test_damage(FB_PARTITION_INDEX_SUFFIX, true);
  test_damage(FB_PARTITION_DATA_SUFFIX, false);
  drop_files();
}

static void test_cut_off_while_open(void) {
  struct fb_partition_file* file = write_file(3, 3, 5, 30, 0);
  struct fb_file_failure failure;
  struct got got;

  put_file(base, FB_PARTITION_DATA_SUFFIX, "", 0);
  CHECK(read_subpartition(file, 1, 4096, &got, &failure) == FB_ETRUNCATED && strstr(failure.text, base) != NULL);
  drop_file(base, FB_PARTITION_DATA_SUFFIX);
  CHECK(read_subpartition(file, 1, 4096, &got, &failure) == FB_ENOT_FOUND && strstr(failure.text, base) != NULL);
  fb_partition_file_drop(file);
  drop_files();
}

/* A valid index over data whose subpartition has no end. */
static void test_no_end(void) {
  struct fb_partition_file_writer writer;
  struct fb_partition_file* file;
  struct fb_file_failure failure;
  struct got got;

  forget_wanted();
  open_writer(&writer, 1, 0, 0);
  add_region(&writer, false, 3, 20);
  CHECK(fb_partition_file_writer_finish(&writer, &file, &failure) == FB_OK);
  CHECK(read_subpartition(file, 0, 4096, &got, &failure) == FB_ETRUNCATED);
  CHECK(equal_bytes(&got.bytes, &wanted[0]));
  free_bytes(&got.bytes);
  fb_partition_file_drop(file);
  drop_files();
}

/* More subpartitions than entries of the index are looked at at a time: 4 MiB are 262,144. */
static void test_many_subpartitions(void) {
  static const uint32_t COUNTS[] = {262143, 262144, 262145, 524288, 600000};

  for (uint32_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
    uint32_t subpartition = COUNTS[i] - 1;
    struct fb_partition_file_writer writer;
    struct fb_partition_file *written, *file;
    struct fb_file_failure failure;
    struct fb_index_entry entry, other;
    struct fb_buffer_slice record = new_buffer(30, FB_DATA_BUFFER), end = new_buffer(4, FB_END_OF_PARTITION);

    open_writer(&writer, COUNTS[i], 0, 0);
    CHECK(fb_partition_file_writer_start_region(&writer, false, &failure) == FB_OK);
    CHECK(fb_partition_file_writer_add(&writer, subpartition, &record, &failure) == FB_OK);
    CHECK(fb_partition_file_writer_finish_region(&writer, &failure) == FB_OK);
    CHECK(fb_partition_file_writer_start_region(&writer, true, &failure) == FB_OK);
    CHECK(fb_partition_file_writer_add(&writer, 0, &end, &failure) == FB_OK);
    CHECK(fb_partition_file_writer_finish_region(&writer, &failure) == FB_OK);
    CHECK(fb_partition_file_writer_finish(&writer, &written, &failure) == FB_OK);
    for (int is_cached = 0; is_cached < 2; is_cached++) {
      CHECK(fb_partition_file_open(base, 0, is_cached ? (size_t)1 << 30 : 0, &file, &failure) == FB_OK);
      CHECK(file->subpartition_count == COUNTS[i] && file->region_count == 2);
      CHECK(fb_partition_file_start_reading(file, &failure) == FB_OK);
      CHECK(fb_partition_file_get_entry(file, 0, subpartition, &entry, &failure) == FB_OK);
      CHECK(fb_partition_file_get_entry(file, 0, subpartition - 1, &other, &failure) == FB_OK);
      CHECK(entry.offset == 0 && entry.size == 30 + FB_BUFFER_HEADER_SIZE && other.size == 0);
      fb_partition_file_stop_reading(file);
      fb_partition_file_drop(file);
    }
    fb_partition_file_drop(written);
    fb_buffer_slice_release(&record);
    fb_buffer_slice_release(&end);
    drop_files();
  }
}

/* ---- writers that do not come to their end --------------------------------------------------------- */

static void test_unfinished(void) {
  struct fb_partition_file_writer writer, second;
  struct fb_partition_file_writer_options options = {.subpartition_count = 3};
  struct fb_partition_file* file;
  struct fb_file_failure failure;

  open_writer(&writer, 3, 1, 16);
  add_region(&writer, false, 10, 100);
  add_region(&writer, false, 10, 100);
  CHECK(has_file(base, FB_PARTITION_INDEX_PART_SUFFIX));
  /* What a killed writer leaves does not open, and nobody writes over it. */
  CHECK(fb_partition_file_open(base, 3, 0, &file, &failure) == FB_EIO && failure.error == ENOENT);
  CHECK(fb_partition_file_writer_open(&second, base, &options, &failure) == FB_EIO && failure.error == EEXIST);
  CHECK(second.base_path == NULL);
  fb_partition_file_writer_abort(&writer);
  fb_partition_file_writer_abort(&writer);
  CHECK(!has_any_file());
  options.first_subpartition = 3;
  CHECK(fb_partition_file_writer_open(&writer, base, &options, &failure) == FB_EARGUMENT);
}

static void test_order_is_kept(void) {
  struct fb_partition_file_writer writer;
  struct fb_buffer_slice slice = new_buffer(10, FB_DATA_BUFFER), barrier = new_buffer(10, FB_PRIORITIZED_EVENT_BUFFER);
  struct fb_file_failure failure;

  open_writer(&writer, 3, 1, 0);
  CHECK(fb_partition_file_writer_add(&writer, 1, &slice, &failure) == FB_EARGUMENT); /* no region */
  CHECK(fb_partition_file_writer_start_region(&writer, false, &failure) == FB_OK);
  CHECK(fb_partition_file_writer_add(&writer, 2, &slice, &failure) == FB_OK);
  CHECK(fb_partition_file_writer_add(&writer, 0, &slice, &failure) == FB_OK);
  CHECK(fb_partition_file_writer_add(&writer, 1, &slice, &failure) == FB_EARGUMENT);
  CHECK(fb_partition_file_writer_add(&writer, 3, &slice, &failure) == FB_EARGUMENT);
  CHECK(fb_partition_file_writer_add(&writer, 0, &barrier, &failure) == FB_EARGUMENT);
  fb_partition_file_writer_abort(&writer);
  fb_buffer_slice_release(&slice);
  fb_buffer_slice_release(&barrier);
}

/* The system takes no more bytes: as on a full disk. */
static void test_full_disk(void) {
  struct fb_partition_file_writer writer;
  struct rlimit before, limit;
  struct fb_file_failure failure;
  struct fb_buffer_slice slice = new_buffer(30000, FB_DATA_BUFFER);
  int code = FB_OK;

  signal(SIGXFSZ, SIG_IGN);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = 100000;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  open_writer(&writer, 3, 1, 16);
  CHECK(fb_partition_file_writer_start_region(&writer, false, &failure) == FB_OK);
  for (uint32_t i = 0; i < 1000 && code == FB_OK; i++)
    code = fb_partition_file_writer_add(&writer, 1, &slice, &failure);
  CHECK(code == FB_EIO && failure.error == EFBIG && strstr(failure.text, base) != NULL);
  CHECK(fb_partition_file_writer_flush(&writer, &failure) == FB_OK); /* nothing is kept for a second try */
  fb_partition_file_writer_abort(&writer);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(!has_any_file());
  fb_buffer_slice_release(&slice);
}

int main(void) {
  make_directory(directory, sizeof directory);
  snprintf(base, sizeof base, "%s/partition", directory);
  test_round_trip();
  test_index_reads();
  test_every_truncation_and_flipped_byte();
  test_cut_off_while_open();
  test_no_end();
  test_many_subpartitions();
  test_unfinished();
  test_order_is_kept();
  test_full_disk();
  forget_wanted();
  CHECK(rmdir(directory) == 0);
  return 0;
}
