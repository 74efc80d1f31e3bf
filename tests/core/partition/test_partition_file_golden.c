/* The bytes of Flink's sort-merge partitions, both ways: tests/golden/partition_file. */
#include "golden.h"
#include "ground/byte_order.h"
#include "partition/sort_merge_partition.h"
#include "partition_files.h"

#define LINE_MAX_SIZE 65536

static char directory[256], base[300], line[LINE_MAX_SIZE];

struct golden {
  char name[32];
  uint32_t subpartitions, segment_size, segments, first, is_hash, is_compressed, regions;
  struct fb_result_partition* partition;
  struct fb_partition_file* file;
  struct bytes* read; /* of each subpartition: type, compressed, size, bytes of each block */
  struct bytes* wanted;
};

static struct fb_read_buffer_pool* read_pool;
static struct fb_io_executor* executor;
static struct fb_network_buffer_pool* global;

static struct bytes from_hex(const char* text) {
  struct bytes bytes = {0};

  add_bytes(&bytes, "", 0);
  for (; text[0] != '\0' && text[0] != '-' && text[0] != '\n'; text += 2) {
    unsigned value;
    uint8_t byte;
    CHECK(sscanf(text, "%2x", &value) == 1);
    byte = (uint8_t)value;
    add_bytes(&bytes, &byte, 1);
  }
  return bytes;
}

static void open_partition(struct golden* self) {
  /* A record that is too large has a region of its own if the log cannot hold it; in place it is cut as memory ends. */
  bool is_large = strcmp(self->name, "large_record") == 0;
  uint32_t segments = is_large ? 2 * self->subpartitions - 1 : self->segments;
  struct fb_buffer_pool_options pool_options = {.min = segments, .max = segments};
  struct fb_sort_merge_options options = {.type = FB_BLOCKING_PERSISTENT,
                                          .subpartition_count = self->subpartitions,
                                          .base_path = base,
                                          .first_subpartition = self->first,
                                          .log_segments = is_large ? segments - 1 : segments / 2,
                                          .keeps_small_regions = true,
                                          .codec = self->is_compressed ? fb_buffer_codec_lz4() : NULL,
                                          .read_pool = read_pool,
                                          .executor = executor};
  struct fb_local_buffer_pool* pool;
  struct fb_file_failure failure;

  CHECK(fb_network_buffer_pool_open(segments, self->segment_size, &global) == FB_OK);
  CHECK(fb_local_buffer_pool_open(global, &pool_options, &pool) == FB_OK);
  CHECK(fb_sort_merge_partition_open(&options, pool, &self->partition, &failure) == FB_OK);
  CHECK(self->partition->takes_records == (is_large || !self->is_hash));
}

static void start_case(struct golden* self, const char* words) {
  *self = (struct golden){0};
  CHECK(sscanf(words, "%31s %u %u %u %u %u %u %u", self->name, &self->subpartitions, &self->segment_size,
               &self->segments, &self->first, &self->is_hash, &self->is_compressed, &self->regions) == 8);
  self->read = calloc(self->subpartitions, sizeof *self->read);
  self->wanted = calloc(self->subpartitions, sizeof *self->wanted);
  CHECK(self->read != NULL && self->wanted != NULL);
  open_partition(self);
}

static void emit(struct golden* self, const char* words) {
  struct bytes record = from_hex(strchr(words, ' ') + 1), framed = {0};
  int target = atoi(words), code;
  uint8_t length[4];
  const uint8_t* data;
  size_t size;

  fb_store_be32(length, (uint32_t)record.size);
  add_bytes(&framed, length, 4);
  add_bytes(&framed, record.data, record.size);
  data = framed.data;
  size = framed.size;
  do {
    code = target < 0 ? fb_result_partition_broadcast(self->partition, &data, &size)
                      : fb_result_partition_emit(self->partition, (uint32_t)target, &data, &size);
    if (code == FB_NEEDS_BUFFER) fb_result_partition_wait(self->partition, 100);
  } while (code == FB_NEEDS_BUFFER);
  CHECK(code == FB_OK);
  free_bytes(&record);
  free_bytes(&framed);
}

static void check_file(const char* suffix, const char* hex) {
  struct bytes written = get_file(base, suffix), golden = from_hex(hex);
  CHECK(equal_bytes(&written, &golden));
  free_bytes(&written);
  free_bytes(&golden);
}

static int take_block(void* context, const struct fb_file_block* block) {
  void** both = context; /* the subpartition's bytes, the memory */
  uint32_t words[3] = {block->data_type, block->is_compressed, block->size};
  add_bytes(both[0], words, sizeof words);
  add_bytes(both[0], (uint8_t*)both[1] + block->offset, block->size);
  return FB_OK;
}

static void read_subpartition(struct golden* self, uint32_t subpartition) {
  uint8_t memory[1024];
  void* both[2] = {&self->read[subpartition], memory};
  struct fb_partition_file_reader reader;
  struct fb_file_failure failure;
  int code;

  CHECK(fb_partition_file_reader_open(&reader, self->file, subpartition, &failure) == FB_OK);
  do {
    code = fb_partition_file_reader_read(&reader, memory, sizeof memory, take_block, both, &failure);
  } while (code == 1);
  CHECK(code == 0);
  fb_partition_file_reader_close(&reader);
}

static void check_data(struct golden* self, const char* hex) {
  static const uint8_t END_OF_DATA[5] = {0, 0, 0, 8, 0};

  CHECK(fb_result_partition_broadcast_event(self->partition, END_OF_DATA, 5, FB_END_OF_DATA) == FB_OK);
  CHECK(fb_result_partition_finish(self->partition) == FB_OK);
  fb_result_partition_close(self->partition);
  fb_result_partition_drop(self->partition);
  fb_network_buffer_pool_close(global);
  check_file(FB_PARTITION_DATA_SUFFIX, hex);
}

/* From here on Flink's own files are read. */
static void check_index(struct golden* self, const char* hex) {
  struct fb_file_failure failure;

  check_file(FB_PARTITION_INDEX_SUFFIX, hex);
  CHECK(fb_partition_file_open(base, 0, FB_INDEX_CACHE_SIZE, &self->file, &failure) == FB_OK);
  CHECK(self->file->subpartition_count == self->subpartitions && self->file->region_count == self->regions);
  for (uint32_t i = 0; i < self->subpartitions; i++) read_subpartition(self, i);
  fb_partition_file_delete_on_drop(self->file);
  fb_partition_file_drop(self->file);
}

static void add_block(struct golden* self, const char* words) {
  uint32_t subpartition, numbers[3];
  int place = 0;
  struct bytes bytes;

  CHECK(sscanf(words, "%u %u %u %n", &subpartition, &numbers[0], &numbers[1], &place) == 3);
  bytes = from_hex(words + place);
  numbers[2] = (uint32_t)bytes.size;
  add_bytes(&self->wanted[subpartition], numbers, sizeof numbers);
  add_bytes(&self->wanted[subpartition], bytes.data, bytes.size);
  free_bytes(&bytes);
}

static void end_case(struct golden* self) {
  for (uint32_t i = 0; i < self->subpartitions; i++) {
    CHECK(self->wanted[i].size > 0 && equal_bytes(&self->read[i], &self->wanted[i]));
    free_bytes(&self->read[i]);
    free_bytes(&self->wanted[i]);
  }
  free(self->read);
  free(self->wanted);
}

static void run_line(struct golden* self) {
  const char* words = strchr(line, ' ') != NULL ? strchr(line, ' ') + 1 : line;

  if (strncmp(line, "case", 4) == 0) start_case(self, words);
  else if (strncmp(line, "emit", 4) == 0) emit(self, words);
  else if (strncmp(line, "data", 4) == 0) check_data(self, words);
  else if (strncmp(line, "index", 5) == 0) check_index(self, words);
  else if (strncmp(line, "block", 5) == 0) add_block(self, words);
  else end_case(self);
}

int main(void) {
  FILE* golden = open_golden("partition_file/sort_merge.txt");
  struct golden self;
  uint32_t cases = 0;

  make_directory(directory, sizeof directory);
  snprintf(base, sizeof base, "%s/partition", directory);
  CHECK(fb_read_buffer_pool_open(1 << 20, 300000, &read_pool) == FB_OK);
  CHECK(fb_io_executor_open("golden test", &executor) == FB_OK);
  for (; fgets(line, sizeof line, golden) != NULL; cases += strncmp(line, "end", 3) == 0) run_line(&self);
  CHECK(cases == 6);
  fclose(golden);
  fb_io_executor_drop(executor);
  fb_read_buffer_pool_drop(read_pool);
  CHECK(rmdir(directory) == 0);
  return 0;
}
