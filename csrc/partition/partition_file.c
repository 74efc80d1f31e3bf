#include "partition/partition_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/byte_order.h"
#include "ground/crc32.h"

#define CHECK_SIZE ((size_t)4 << 20) /* bytes of the index that are checked at a time */

static struct fb_index_entry load_entry(const uint8_t* from) {
  return (struct fb_index_entry){.offset = fb_load_le64(from), .size = fb_load_le64(from + 8)};
}

static bool are_equal(const uint8_t* entry, const uint8_t* other) {
  return memcmp(entry, other, FB_INDEX_ENTRY_SIZE) == 0;
}

char* fb_partition_file_path(const char* base_path, const char* suffix) {
  size_t base_size = strlen(base_path), suffix_size = strlen(suffix) + 1;
  char* path = malloc(base_size + suffix_size);

  if (path == NULL) return NULL;
  memcpy(path, base_path, base_size);
  memcpy(path + base_size, suffix, suffix_size);
  return path;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void free_partition_file(struct fb_partition_file* self) {
  struct fb_file_failure ignored;

  fb_file_channel_close(&self->data, &ignored);
  fb_file_channel_close(&self->index, &ignored);
  free(self->cached_index);
  free(self->sums);
  free(self->data_path);
  free(self->index_path);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

int fb_partition_file_new(const char* base_path, uint32_t subpartition_count, uint64_t region_count, uint64_t data_size,
                          uint8_t* cached_index, struct fb_partition_file** self) {
  struct fb_partition_file* opened = calloc(1, sizeof *opened);

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  if (pthread_mutex_init(&opened->lock, NULL) != 0) {
    free(opened);
    return FB_ENOMEM;
  }
  atomic_init(&opened->references, 1);
  opened->subpartition_count = subpartition_count;
  opened->region_count = region_count;
  opened->data_size = data_size;
  opened->data_path = fb_partition_file_path(base_path, FB_PARTITION_DATA_SUFFIX);
  opened->index_path = fb_partition_file_path(base_path, FB_PARTITION_INDEX_SUFFIX);
  if (opened->data_path == NULL || opened->index_path == NULL) {
    free_partition_file(opened);
    return FB_ENOMEM;
  }
  opened->cached_index = cached_index;
  *self = opened;
  return FB_OK;
}

void fb_partition_file_retain(struct fb_partition_file* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

void fb_partition_file_drop(struct fb_partition_file* self) {
  if (self == NULL) return;
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  if (atomic_load_explicit(&self->is_deleted, memory_order_relaxed)) {
    /* The index first: what is left after a kill in between does not open. */
    unlink(self->index_path);
    unlink(self->data_path);
  }
  free_partition_file(self);
}

void fb_partition_file_delete_on_drop(struct fb_partition_file* self) {
  atomic_store_explicit(&self->is_deleted, true, memory_order_relaxed); /* the count orders it */
}

/* ---- checking an index ---------------------------------------------------------------------------- */

struct index_check {
  struct fb_partition_file* file;
  struct fb_file_failure* failure;
  uint64_t position; /* in the data file: where the next region must begin */
};

static int fail_index(const struct index_check* self, int code, uint64_t entry, const char* why) {
  return fb_file_failure_set(self->failure, code, 0, "cannot use the index", self->file->index_path,
                             entry * FB_INDEX_ENTRY_SIZE, why);
}

static bool is_broadcast_region(const uint8_t* entries, uint32_t count) {
  if (load_entry(entries).size == 0) return false;
  for (uint32_t i = 1; i < count; i++)
    if (!are_equal(entries, entries + (size_t)i * FB_INDEX_ENTRY_SIZE)) return false;
  return true;
}

/* The subpartition that was written first: the one whose predecessor by number does not end where it begins. */
static uint32_t first_written(const uint8_t* entries, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    struct fb_index_entry before = load_entry(entries + (size_t)(i - 1) * FB_INDEX_ENTRY_SIZE);
    struct fb_index_entry entry = load_entry(entries + (size_t)i * FB_INDEX_ENTRY_SIZE);
    if (before.offset + before.size != entry.offset) return i; /* a sum that wraps is found below */
  }
  return 0;
}

/* One region, whose first entry has number `first`. */
static int check_region(struct index_check* self, const uint8_t* entries, uint64_t first) {
  uint32_t count = self->file->subpartition_count;
  bool is_broadcast = is_broadcast_region(entries, count);
  uint32_t subpartition = is_broadcast ? 0 : first_written(entries, count);

  for (uint32_t i = 0; i < (is_broadcast ? 1 : count); i++) {
    struct fb_index_entry entry = load_entry(entries + (size_t)subpartition * FB_INDEX_ENTRY_SIZE);
    if (entry.offset != self->position)
      return fail_index(
          self, FB_ECORRUPT, first + subpartition,
          "it says that a subpartition begins elsewhere than the one before it ends; the file is corrupt, "
          "or no index of a partition: write the partition again");
    if (entry.size > self->file->data_size - self->position)
      return fail_index(self, FB_ETRUNCATED, first + subpartition,
                        "a subpartition ends behind the end of the data file, which is cut off, or belongs to another "
                        "index: write the partition again");
    self->position += entry.size;
    subpartition = subpartition + 1 == count ? 0 : subpartition + 1;
  }
  return FB_OK;
}

static int check_regions(struct index_check* self, const uint8_t* entries, uint64_t first_region, uint64_t count) {
  uint32_t n = self->file->subpartition_count;
  int code = FB_OK;

  for (uint64_t i = 0; i < count && code == FB_OK; i++)
    code = check_region(self, entries + (size_t)i * n * FB_INDEX_ENTRY_SIZE, (first_region + i) * n);
  return code;
}

static int check_index_end(struct index_check* self) {
  if (self->position == self->file->data_size) return FB_OK;
  return fb_file_failure_set(self->failure, FB_ECORRUPT, 0, "cannot use", self->file->data_path, self->position,
                             "it goes on behind the last region of its index, which is cut off, or belongs to another "
                             "data file: write the partition again");
}

/* ---- opening ------------------------------------------------------------------------------------- */

static int read_index(struct fb_partition_file* self, uint64_t offset, uint8_t* to, size_t size,
                      struct fb_file_failure* failure) {
  atomic_fetch_add_explicit(&self->index_reads, 1, memory_order_relaxed); /* a figure to look at */
  return fb_file_channel_read_exactly(&self->index, offset, to, size, failure);
}

/* How many of the last entries are equal: of the `size` bytes at `part`, those at its end that are as `last`. */
static uint64_t count_equal_at_end(const uint8_t* part, size_t size, const uint8_t* last) {
  uint64_t count = 0;

  while (size > 0 && are_equal(part + size - FB_INDEX_ENTRY_SIZE, last)) {
    size -= FB_INDEX_ENTRY_SIZE;
    count++;
  }
  return count;
}

/* From the end of the index towards its front, a part at a time, as long as all of it is equal. */
static int count_last_equal(struct fb_partition_file* self, uint64_t index_size, uint8_t* part, uint64_t* count,
                            struct fb_file_failure* failure) {
  uint8_t last[FB_INDEX_ENTRY_SIZE];
  uint64_t end = index_size;

  *count = 0;
  while (end > 0 && *count == (index_size - end) / FB_INDEX_ENTRY_SIZE) {
    size_t size = end < CHECK_SIZE ? (size_t)end : CHECK_SIZE;
    int code = FB_OK;

    end -= size;
    if (self->cached_index != NULL) memcpy(part, self->cached_index + end, size);
    else code = read_index(self, end, part, size, failure);
    if (code != FB_OK) return code;
    if (*count == 0) memcpy(last, part + size - FB_INDEX_ENTRY_SIZE, sizeof last);
    *count += count_equal_at_end(part, size, last);
  }
  return FB_OK;
}

static int find_subpartition_count(struct fb_partition_file* self, uint64_t index_size,
                                   struct fb_file_failure* failure) {
  uint8_t* part = malloc(index_size < CHECK_SIZE ? (size_t)index_size : CHECK_SIZE);
  uint64_t count = 0;
  int code = part == NULL ? FB_ENOMEM : count_last_equal(self, index_size, part, &count, failure);

  free(part);
  if (code == FB_OK && count > INT32_MAX)
    return fb_file_failure_set(failure, FB_ECORRUPT, 0, "cannot use the index", self->index_path, 0,
                               "it has more equal entries at its end than a partition has subpartitions");
  self->subpartition_count = (uint32_t)count;
  return code;
}

static int check_uncached(struct index_check* self) {
  size_t region_size = (size_t)self->file->subpartition_count * FB_INDEX_ENTRY_SIZE;
  uint64_t at_once = region_size < CHECK_SIZE ? CHECK_SIZE / region_size : 1;
  uint8_t* entries = malloc((size_t)at_once * region_size);
  int code = entries == NULL ? FB_ENOMEM : FB_OK;

  for (uint64_t region = 0; code == FB_OK && region < self->file->region_count; region += at_once) {
    uint64_t left = self->file->region_count - region, count = left < at_once ? left : at_once;
    code = read_index(self->file, region * region_size, entries, (size_t)count * region_size, self->failure);
    if (code != FB_OK) break;
    self->file->index_crc32 = fb_crc32(self->file->index_crc32, entries, (size_t)count * region_size);
    code = check_regions(self, entries, region, count);
  }
  free(entries);
  return code;
}

static int check_index(struct fb_partition_file* self, uint64_t index_size, struct fb_file_failure* failure) {
  struct index_check check = {.file = self, .failure = failure};
  uint64_t entries = index_size / FB_INDEX_ENTRY_SIZE;
  int code;

  if (index_size == 0 || index_size % FB_INDEX_ENTRY_SIZE != 0)
    return fail_index(
        &check, FB_ETRUNCATED, entries,
        "its size is no multiple of an entry's 16 bytes, or 0: it is cut off, or no index of a partition");
  if (self->subpartition_count == 0) {
    code = find_subpartition_count(self, index_size, failure);
    if (code != FB_OK) return code;
  }
  if (entries % self->subpartition_count != 0)
    return fail_index(
        &check, FB_ECORRUPT, entries,
        "its entries are no multiple of the number of subpartitions: it is cut off, or has another number "
        "of subpartitions");
  self->region_count = entries / self->subpartition_count;
  self->index_size = index_size;
  if (self->cached_index != NULL) self->index_crc32 = fb_crc32(0, self->cached_index, (size_t)index_size);
  code = self->cached_index != NULL ? check_regions(&check, self->cached_index, 0, self->region_count)
                                    : check_uncached(&check);
  return code == FB_OK ? check_index_end(&check) : code;
}

static int load_index(struct fb_partition_file* self, size_t cache_size, struct fb_file_failure* failure) {
  uint64_t index_size = 0;
  int code = fb_file_channel_get_size(&self->data, &self->data_size, failure);

  if (code == FB_OK) code = fb_file_channel_get_size(&self->index, &index_size, failure);
  if (code != FB_OK) return code;
  if (index_size > 0 && index_size <= cache_size) {
    self->cached_index = malloc((size_t)index_size);
    if (self->cached_index == NULL) return FB_ENOMEM;
    code = read_index(self, 0, self->cached_index, (size_t)index_size, failure);
  }
  return code == FB_OK ? check_index(self, index_size, failure) : code;
}

int fb_partition_file_open(const char* base_path, uint32_t subpartition_count, size_t cache_size,
                           struct fb_partition_file** self, struct fb_file_failure* failure) {
  struct fb_partition_file* opened;
  int code = fb_partition_file_new(base_path, subpartition_count, 0, 0, NULL, &opened);

  *self = NULL;
  *failure = (struct fb_file_failure){.code = code};
  if (code != FB_OK) return code;
  code = fb_file_channel_open(&opened->index, opened->index_path, FB_FILE_READ, failure);
  if (code == FB_OK) code = fb_file_channel_open(&opened->data, opened->data_path, FB_FILE_READ, failure);
  if (code == FB_OK) code = load_index(opened, cache_size, failure);
  if (code == FB_ENOMEM) fb_file_failure_set(failure, code, ENOMEM, "cannot read", opened->index_path, 0, NULL);
  if (code != FB_OK) {
    free_partition_file(opened);
    return code;
  }
  opened->channel_users = 1;
  fb_partition_file_stop_reading(opened);
  *self = opened;
  return FB_OK;
}

/* ---- reading ------------------------------------------------------------------------------------- */

static int open_both_channels(struct fb_partition_file* self, struct fb_file_failure* failure) {
  struct fb_file_failure ignored;
  uint64_t size = 0;
  int code = fb_file_channel_open(&self->data, self->data_path, FB_FILE_READ, failure);

  if (code == FB_OK && self->cached_index == NULL)
    code = fb_file_channel_open(&self->index, self->index_path, FB_FILE_READ, failure);
  if (code == FB_OK) code = fb_file_channel_get_size(&self->data, &size, failure);
  if (code == FB_OK && size < self->data_size)
    code = fb_file_failure_set(failure, FB_ETRUNCATED, 0, "cannot read", self->data_path, size,
                               "the file is shorter than it was: somebody has cut it off");
  if (code == FB_OK) return FB_OK;
  fb_file_channel_close(&self->data, &ignored);
  fb_file_channel_close(&self->index, &ignored);
  if (code == FB_EIO && failure->error == ENOENT) code = failure->code = FB_ENOT_FOUND;
  return code;
}

int fb_partition_file_start_reading(struct fb_partition_file* self, struct fb_file_failure* failure) {
  int code = FB_OK;

  pthread_mutex_lock(&self->lock);
  if (self->channel_users == 0) code = open_both_channels(self, failure);
  if (code == FB_OK) self->channel_users++;
  pthread_mutex_unlock(&self->lock);
  return code;
}

void fb_partition_file_stop_reading(struct fb_partition_file* self) {
  struct fb_file_channel data = {0}, index = {0};
  struct fb_file_failure ignored;

  pthread_mutex_lock(&self->lock);
  if (--self->channel_users == 0) {
    data = self->data;
    index = self->index;
    self->data = self->index = (struct fb_file_channel){0};
  }
  pthread_mutex_unlock(&self->lock);
  fb_file_channel_close(&data, &ignored);
  fb_file_channel_close(&index, &ignored);
}

int fb_partition_file_get_entry(struct fb_partition_file* self, uint64_t region, uint32_t subpartition,
                                struct fb_index_entry* entry, struct fb_file_failure* failure) {
  uint64_t at = (region * self->subpartition_count + subpartition) * FB_INDEX_ENTRY_SIZE;
  uint8_t bytes[FB_INDEX_ENTRY_SIZE];
  int code = FB_OK;

  if (self->cached_index != NULL) memcpy(bytes, self->cached_index + at, sizeof bytes);
  else code = read_index(self, at, bytes, sizeof bytes, failure);
  if (code != FB_OK) return code;
  *entry = load_entry(bytes);
  if (entry->offset <= self->data_size && entry->size <= self->data_size - entry->offset) return FB_OK;
  return fb_file_failure_set(failure, FB_ECORRUPT, 0, "cannot use the index", self->index_path, at,
                             "the entry lies outside the data file: somebody has changed it");
}
