/* Any two files as the index and the data of a partition: they open and every subpartition reads to an end, or it is said
 * where they are wrong; nothing outside of the data file is read.
 *
 * Input: 1 byte number of subpartitions (0: found out), 1 byte of memory for reading, 2 bytes little-endian size of the index,
 * the index, the data. */
#include <limits.h>

#include "fuzz_replay.h"
#include "ground/byte_order.h"
#include "partition_files.h"

struct given {
  uint64_t bytes;
  uint32_t capacity;
};

static int take_block(void* context, const struct fb_file_block* block) {
  struct given* given = context;

  CHECK(block->size <= given->capacity && block->offset <= given->capacity - block->size);
  given->bytes += block->size;
  return FB_OK;
}

static void check_failure(int code, const struct fb_file_failure* failure, const char* base) {
  if (code >= 0) return;
  CHECK(failure->code == code && strstr(failure->text, base) != NULL && strstr(failure->text, " byte ") != NULL);
}

static void read_all(struct fb_partition_file* file, uint32_t subpartition, uint32_t capacity, const char* base) {
  struct fb_partition_file_reader reader;
  struct fb_file_failure failure;
  struct given given = {0};
  int code = fb_partition_file_reader_open(&reader, file, subpartition, &failure);

  CHECK(code == FB_OK);
  do {
    uint8_t* memory;
    given.capacity = capacity > reader.least ? capacity : reader.least;
    CHECK(given.capacity <= file->data_size || given.capacity == capacity);
    memory = malloc(given.capacity);
    CHECK(memory != NULL);
    code = fb_partition_file_reader_read(&reader, memory, given.capacity, take_block, &given, &failure);
    free(memory);
  } while (code > 0);
  check_failure(code, &failure, base);
  CHECK(given.bytes <= file->data_size);
  fb_partition_file_reader_close(&reader);
}

static void skip_all(struct fb_partition_file* file, uint32_t subpartition, const char* base) {
  struct fb_partition_file_reader reader;
  struct fb_file_failure failure;
  struct fb_file_block block;
  int code;

  CHECK(fb_partition_file_reader_open(&reader, file, subpartition, &failure) == FB_OK);
  while ((code = fb_partition_file_reader_skip(&reader, &block, &failure)) == 1)
    CHECK(block.position <= file->data_size && block.size <= file->data_size - block.position);
  check_failure(code, &failure, base);
  fb_partition_file_reader_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static char directory[256], base[300];
  struct fb_partition_file* file;
  struct fb_file_failure failure;
  uint32_t index_size;
  int code;

  if (size < 4) return 0;
  index_size = fb_load_le16(data + 2);
  if (index_size > size - 4) return 0;
  if (directory[0] == 0) {
    make_directory(directory, sizeof directory);
    snprintf(base, sizeof base, "%s/partition", directory);
  }
  put_file(base, FB_PARTITION_INDEX_SUFFIX, data + 4, index_size);
  put_file(base, FB_PARTITION_DATA_SUFFIX, data + 4 + index_size, size - 4 - index_size);
  code = fb_partition_file_open(base, data[0], data[1] % 2 ? FB_INDEX_CACHE_SIZE : 0, &file, &failure);
  check_failure(code, &failure, base);
  for (uint32_t s = 0; code == FB_OK && s < file->subpartition_count && s < 64; s++) {
    read_all(file, s, FB_READER_LEAST + data[1], base);
    skip_all(file, s, base);
  }
  if (code == FB_OK) fb_partition_file_drop(file);
  return 0;
}
