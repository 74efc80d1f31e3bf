#include "partition/partition_file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/byte_order.h"
#include "ground/crc32.h"
#include "partition/buffer_header.h"

#define PART_LIMIT    1024u /* what one system call takes */
#define STAGING_SIZE  ((size_t)128 << 10)
#define COPIED_SIZE   1024u             /* up to here a copy is cheaper than one more part for the system */
#define GATHERED_SIZE ((size_t)8 << 20) /* bytes that are written at once */

/* ---- life ---------------------------------------------------------------------------------------- */

static void close_writer(struct fb_partition_file_writer* self) {
  struct fb_file_failure ignored;

  fb_file_channel_close(&self->data, &ignored);
  fb_file_channel_close(&self->index, &ignored);
  free(self->base_path);
  free(self->index_bytes);
  free(self->parts);
  free(self->staging);
  free(self->sums);
  *self = (struct fb_partition_file_writer){0};
}

static int fail_writer(const struct fb_partition_file_writer* self, int code, int error,
                       struct fb_file_failure* failure) {
  const char* path = self->data.path != NULL ? self->data.path : self->base_path;
  return fb_file_failure_set(failure, code, error, "cannot write", path, self->position, NULL);
}

static int create_data_file(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  char* path = fb_partition_file_path(self->base_path, FB_PARTITION_DATA_SUFFIX);
  int code = FB_ENOMEM;

  if (path != NULL) code = fb_file_channel_open(&self->data, path, FB_FILE_CREATE, failure);
  else fail_writer(self, code, ENOMEM, failure);
  free(path);
  return code;
}

int fb_partition_file_writer_open(struct fb_partition_file_writer* self, const char* base_path,
                                  const struct fb_partition_file_writer_options* options,
                                  struct fb_file_failure* failure) {
  uint32_t count = options->subpartition_count;
  int code;

  *self = (struct fb_partition_file_writer){0};
  if (count == 0 || count > INT32_MAX || options->first_subpartition >= count)
    return fb_file_failure_set(failure, FB_EARGUMENT, 0, "cannot write", base_path, 0,
                               "the first subpartition must be one of its 1 to 2147483647");
  self->base_path = strdup(base_path);
  self->options = *options;
  if (self->options.index_cache_size == 0) self->options.index_cache_size = FB_INDEX_CACHE_SIZE;
  self->parts = calloc(PART_LIMIT, sizeof *self->parts);
  self->staging = malloc(STAGING_SIZE);
  if (options->has_sums) self->sums = calloc(count, sizeof *self->sums);
  if (self->base_path == NULL || self->parts == NULL || self->staging == NULL ||
      (options->has_sums && self->sums == NULL)) {
    close_writer(self);
    return fb_file_failure_set(failure, FB_ENOMEM, ENOMEM, "cannot write", base_path, 0, NULL);
  }
  code = create_data_file(self, failure);
  if (code != FB_OK) close_writer(self);
  return code;
}

static void remove_file(const char* base_path, const char* suffix) {
  char* path = fb_partition_file_path(base_path, suffix);

  if (path == NULL) return;
  unlink(path);
  free(path);
}

void fb_partition_file_writer_abort(struct fb_partition_file_writer* self) {
  if (self->base_path == NULL) return;
  if (self->index.path != NULL) fb_file_channel_close_and_delete(&self->index);
  fb_file_channel_close_and_delete(&self->data);
  close_writer(self);
}

/* ---- blocks -------------------------------------------------------------------------------------- */

int fb_partition_file_writer_flush(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  int code = FB_OK;

  if (self->part_count > 0) {
    code = fb_file_channel_write_all(&self->data, self->parts, self->part_count, failure);
  }
  self->part_count = 0;
  self->staged = self->gathered = 0;
  return code;
}

/* Room for `size` bytes in the staging area and for two more parts. */
static int make_gathering_room(struct fb_partition_file_writer* self, size_t size, struct fb_file_failure* failure) {
  if (self->part_count + 2 <= PART_LIMIT && STAGING_SIZE - self->staged >= size && self->gathered < GATHERED_SIZE)
    return FB_OK;
  return fb_partition_file_writer_flush(self, failure);
}

/* What begins where the last part ends makes it longer. */
static void gather_part(struct fb_partition_file_writer* self, const uint8_t* data, size_t size) {
  struct iovec* last = self->part_count > 0 ? &self->parts[self->part_count - 1] : NULL;

  if (last != NULL && (uint8_t*)last->iov_base + last->iov_len == data) last->iov_len += size;
  else self->parts[self->part_count++] = (struct iovec){.iov_base = (void*)(uintptr_t)data, .iov_len = size};
  self->gathered += size;
  self->position += size;
}

static uint8_t* entry_of(struct fb_partition_file_writer* self, uint32_t subpartition) {
  size_t region_size = (size_t)self->options.subpartition_count * FB_INDEX_ENTRY_SIZE;
  return self->index_bytes + (self->index_size - region_size) + (size_t)subpartition * FB_INDEX_ENTRY_SIZE;
}

/* The subpartitions from where the region is up to `subpartition` have no more blocks. FB_EARGUMENT: that one is over. */
static int move_to(struct fb_partition_file_writer* self, uint32_t subpartition) {
  uint32_t count = self->options.subpartition_count;
  uint32_t first = self->options.first_subpartition;
  uint32_t place = subpartition >= first ? subpartition - first : subpartition + count - first;

  if (place < self->place) return FB_EARGUMENT;
  while (self->place < place)
    fb_store_le64(entry_of(self, fb_partition_file_writer_at(self, ++self->place)), self->position);
  return FB_OK;
}

static int start_block(struct fb_partition_file_writer* self, uint32_t subpartition, struct fb_file_failure* failure) {
  if (self->is_in_region && subpartition < self->options.subpartition_count &&
      (self->is_broadcast || move_to(self, subpartition) == FB_OK))
    return FB_OK;
  return fb_file_failure_set(failure, FB_EARGUMENT, 0, "cannot write", self->data.path, self->position,
                             "subpartitions come in the order of the file, in a region");
}

static void count_block(struct fb_partition_file_writer* self, uint32_t subpartition, uint64_t size) {
  uint8_t* entry = entry_of(self, subpartition);
  if (!self->is_broadcast) fb_store_le64(entry + 8, fb_load_le64(entry + 8) + size);
}

/* What is written once for all is read by each of them. */
static void sum_block(struct fb_partition_file_writer* self, uint32_t subpartition, const uint8_t* header,
                      const uint8_t* data, size_t size) {
  uint32_t first = self->is_broadcast ? 0 : subpartition;
  uint32_t last = self->is_broadcast ? self->options.subpartition_count - 1 : subpartition;

  for (uint32_t i = first; i <= last; i++) {
    struct fb_data_sum* sum = &self->sums[i];
    sum->size += FB_BUFFER_HEADER_SIZE + size;
    sum->crc32 = fb_crc32(fb_crc32(sum->crc32, header, FB_BUFFER_HEADER_SIZE), data, size);
  }
}

/* The same for blocks that lie one behind the other; they were made here, so their headers are right. */
static void sum_blocks(struct fb_partition_file_writer* self, uint32_t subpartition, const uint8_t* blocks,
                       size_t size) {
  struct fb_buffer_header header;

  for (size_t at = 0; at < size; at += FB_BUFFER_HEADER_SIZE + header.size) {
    if (fb_buffer_header_read(blocks + at, &header) != FB_OK) return;
    if (fb_buffer_data_type_is_buffer(header.data_type))
      sum_block(self, subpartition, blocks + at, blocks + at + FB_BUFFER_HEADER_SIZE, header.size);
  }
}

int fb_partition_file_writer_add(struct fb_partition_file_writer* self, uint32_t subpartition,
                                 const struct fb_buffer_slice* buffer, struct fb_file_failure* failure) {
  bool is_copied = buffer->size <= COPIED_SIZE;
  size_t staged = FB_BUFFER_HEADER_SIZE + (is_copied ? buffer->size : 0);
  int code = start_block(self, subpartition, failure);
  uint8_t* to;

  if (code == FB_OK) code = make_gathering_room(self, staged, failure);
  if (code != FB_OK) return code;
  to = self->staging + self->staged;
  if (fb_buffer_header_write(to, buffer) != FB_OK)
    return fb_file_failure_set(failure, FB_EARGUMENT, 0, "cannot write", self->data.path, self->position,
                               "a buffer of this data type cannot be stored in a file");
  if (is_copied && buffer->size > 0) memcpy(to + FB_BUFFER_HEADER_SIZE, fb_buffer_slice_data(buffer), buffer->size);
  if (self->sums != NULL && fb_buffer_data_type_is_buffer(buffer->data_type))
    sum_block(self, subpartition, to, fb_buffer_slice_data(buffer), buffer->size);
  gather_part(self, to, staged);
  self->staged += staged;
  if (!is_copied) gather_part(self, fb_buffer_slice_data(buffer), buffer->size);
  count_block(self, subpartition, FB_BUFFER_HEADER_SIZE + (uint64_t)buffer->size);
  return FB_OK;
}

int fb_partition_file_writer_add_blocks(struct fb_partition_file_writer* self, uint32_t subpartition,
                                        const uint8_t* blocks, size_t size, struct fb_file_failure* failure) {
  int code = start_block(self, subpartition, failure);

  if (code == FB_OK) code = make_gathering_room(self, 0, failure);
  if (code != FB_OK) return code;
  if (self->sums != NULL) sum_blocks(self, subpartition, blocks, size);
  gather_part(self, blocks, size);
  count_block(self, subpartition, size);
  return FB_OK;
}

/* ---- regions and their index --------------------------------------------------------------------- */

static int open_index_file(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  char* path = fb_partition_file_path(self->base_path, FB_PARTITION_INDEX_PART_SUFFIX);
  int code = FB_ENOMEM;

  if (path != NULL) code = fb_file_channel_open(&self->index, path, FB_FILE_CREATE, failure);
  else fail_writer(self, code, ENOMEM, failure);
  free(path);
  return code;
}

static int write_index(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  struct iovec part = {.iov_base = self->index_bytes, .iov_len = self->index_size};
  int code = self->index.path == NULL ? open_index_file(self, failure) : FB_OK;

  if (code != FB_OK || self->index_size == 0) return code;
  self->index_crc32 = fb_crc32(self->index_crc32, self->index_bytes, self->index_size);
  self->index_written += self->index_size;
  return fb_file_channel_write_all(&self->index, &part, 1, failure);
}

/* Room for the entries of one more region. An index that becomes too large for memory goes to its file. */
static int make_index_room(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  size_t region_size = (size_t)self->options.subpartition_count * FB_INDEX_ENTRY_SIZE;
  size_t capacity = self->index_capacity * 2;
  uint8_t* bytes;

  if (self->index_size > 0 && self->index_size + region_size > self->options.index_cache_size) {
    int code = write_index(self, failure);
    if (code != FB_OK) return code;
    self->index_size = 0;
  }
  if (self->index_capacity - self->index_size >= region_size) return FB_OK;
  if (capacity < self->index_size + region_size) capacity = self->index_size + region_size;
  bytes = realloc(self->index_bytes, capacity);
  if (bytes == NULL) return fail_writer(self, FB_ENOMEM, ENOMEM, failure);
  self->index_bytes = bytes;
  self->index_capacity = capacity;
  return FB_OK;
}

int fb_partition_file_writer_start_region(struct fb_partition_file_writer* self, bool is_broadcast,
                                          struct fb_file_failure* failure) {
  size_t region_size = (size_t)self->options.subpartition_count * FB_INDEX_ENTRY_SIZE;
  int code = make_index_room(self, failure);

  if (code != FB_OK) return code;
  memset(self->index_bytes + self->index_size, 0, region_size);
  self->index_size += region_size;
  self->is_in_region = true;
  self->is_broadcast = is_broadcast;
  self->region_start = self->position;
  self->place = 0;
  fb_store_le64(entry_of(self, self->options.first_subpartition), self->position);
  return FB_OK;
}

static void spread_broadcast(struct fb_partition_file_writer* self) {
  for (uint32_t i = 0; i < self->options.subpartition_count; i++) {
    fb_store_le64(entry_of(self, i), self->region_start);
    fb_store_le64(entry_of(self, i) + 8, self->position - self->region_start);
  }
}

int fb_partition_file_writer_finish_region(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  if (!self->is_in_region) return FB_OK;
  if (self->position == self->region_start) {
    self->index_size -= (size_t)self->options.subpartition_count * FB_INDEX_ENTRY_SIZE;
  } else {
    if (self->is_broadcast) spread_broadcast(self);
    else move_to(self, fb_partition_file_writer_at(self, self->options.subpartition_count - 1));
    self->region_count++;
  }
  self->is_in_region = false;
  return fb_partition_file_writer_flush(self, failure);
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* The directory's own entry for the file must be on the disk, too. Not every file system can; then it is not asked to. */
static void sync_directory(const char* base_path) {
  const char* slash = strrchr(base_path, '/');
  char* directory = slash == NULL ? strdup(".") : strndup(base_path, (size_t)(slash - base_path) + 1);
  int fd = directory == NULL ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  free(directory);
  if (fd < 0) return;
  (void)!fsync(fd);
  close(fd);
}

static int name_index(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  char* from = fb_partition_file_path(self->base_path, FB_PARTITION_INDEX_PART_SUFFIX);
  char* to = fb_partition_file_path(self->base_path, FB_PARTITION_INDEX_SUFFIX);
  int code = FB_OK;

  if (from == NULL || to == NULL) code = fail_writer(self, FB_ENOMEM, ENOMEM, failure);
  else if (rename(from, to) != 0) code = fb_file_failure_set(failure, FB_EIO, errno, "cannot name", to, 0, NULL);
  free(from);
  free(to);
  return code;
}

/* Both files are closed, and have their names. */
static int end_files(struct fb_partition_file_writer* self, struct fb_file_failure* failure) {
  int code = self->options.is_synced ? fb_file_channel_sync(&self->data, failure) : FB_OK;

  if (code == FB_OK) code = write_index(self, failure);
  if (code == FB_OK && self->options.is_synced) code = fb_file_channel_sync(&self->index, failure);
  if (code == FB_OK) code = fb_file_channel_close(&self->data, failure);
  if (code == FB_OK) code = fb_file_channel_close(&self->index, failure);
  if (code == FB_OK) code = name_index(self, failure);
  if (code == FB_OK && self->options.is_synced) sync_directory(self->base_path);
  return code;
}

static void tell_sums(struct fb_partition_file_writer* self, struct fb_partition_file* file) {
  file->index_size = self->index_written;
  file->index_crc32 = self->index_crc32;
  file->sums = self->sums;
  self->sums = NULL;
}

int fb_partition_file_writer_finish(struct fb_partition_file_writer* self, struct fb_partition_file** file,
                                    struct fb_file_failure* failure) {
  uint32_t count = self->options.subpartition_count;
  bool is_cached = self->index.path == NULL; /* all of it */
  int code = self->is_in_region ? fb_partition_file_writer_finish_region(self, failure) : FB_OK;

  *file = NULL;
  if (code == FB_OK) code = end_files(self, failure);
  if (code == FB_OK) {
    code = fb_partition_file_new(self->base_path, count, self->region_count, self->position,
                                 is_cached ? self->index_bytes : NULL, file);
    if (code != FB_OK) fail_writer(self, code, ENOMEM, failure);
    else tell_sums(self, *file);
  }
  if (code != FB_OK) {
    /* Closed channels no longer know their names. */
    remove_file(self->base_path, FB_PARTITION_INDEX_SUFFIX);
    remove_file(self->base_path, FB_PARTITION_INDEX_PART_SUFFIX);
    remove_file(self->base_path, FB_PARTITION_DATA_SUFFIX);
  }
  if (code == FB_OK && is_cached) self->index_bytes = NULL;
  close_writer(self);
  return code;
}
