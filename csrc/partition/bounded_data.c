#define _GNU_SOURCE /* mremap, fallocate */
#include "partition/bounded_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ground/owner.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
  BUFFERS_PER_WRITE = 128,
  FIRST_GROWTH = 64 << 10,
  LARGEST_GROWTH = 4 << 20,
  WINDOW_SIZE = 256 << 10, /* mapped bytes that a reader looks after at once */
};

/* A part of the file that is mapped: what slices of it refer to. */
struct fb_bounded_region {
  struct fb_buffer root;
  uint8_t* mapping; /* from the page that `offset` is in */
  size_t mapped_size;
  uint64_t offset; /* of its first byte, in the file */
  uint64_t end;    /* behind its last buffer, in the file */
};

struct fb_bounded_file {
  struct fb_shared_file shared;
  struct fb_file_channel channel;
};

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static int fail_bounded(const struct fb_bounded_data* self, int code, const char* doing, uint64_t offset,
                        const char* why, struct fb_file_failure* failure) {
  return fb_file_failure_set(failure, code, 0, doing, self->path, offset, why);
}

/* ---- regions ----------------------------------------------------------------------------------------- */

static void unmap_region(struct fb_buffer* root) {
  struct fb_bounded_region* self = FB_OWNER(fb_bounded_region, root, root);

  if (self->mapping != NULL) munmap(self->mapping, self->mapped_size);
  free(self);
}

static void set_region_bytes(struct fb_bounded_region* self, size_t size) {
  fb_memory_segment_wrap(&self->root.segment, self->mapping + (self->offset % page_size()), size);
}

/* Adds a region with its first reference, not mapped yet. */
static struct fb_bounded_region* add_region(struct fb_bounded_data* self, uint64_t offset) {
  struct fb_bounded_region* region = calloc(1, sizeof *region);
  struct fb_bounded_region** grown = realloc(self->regions, (self->region_count + 1) * sizeof *grown);

  if (grown != NULL) self->regions = grown;
  if (region == NULL || grown == NULL) {
    free(region);
    return NULL;
  }
  region->offset = region->end = offset;
  fb_buffer_reset(&region->root, unmap_region, self);
  self->regions[self->region_count++] = region;
  return region;
}

static int map_region(struct fb_bounded_data* self, struct fb_bounded_region* region, size_t size, int protection,
                      struct fb_file_failure* failure) {
  size_t slack = (size_t)(region->offset % page_size());
  void* mapping;

  if (region->mapping != NULL) munmap(region->mapping, region->mapped_size);
  region->mapped_size = slack + size;
  mapping = mmap(NULL, region->mapped_size, protection, MAP_SHARED, self->file.fd, (off_t)(region->offset - slack));
  region->mapping = mapping == MAP_FAILED ? NULL : mapping;
  if (mapping == MAP_FAILED)
    return fb_file_failure_set(failure, FB_ENOMEM, errno, "cannot map", self->path, region->offset, NULL);
  set_region_bytes(region, size);
  return FB_OK;
}

/* Takes the blocks where the file system cannot do so by itself: the C library would write each of them on its own. */
static int write_zeros(struct fb_bounded_data* self, uint64_t from, uint64_t until, struct fb_file_failure* failure) {
  static const uint8_t ZEROS[FIRST_GROWTH];
  int code = FB_OK;

  self->file.position = from;
  while (self->file.position < until && code == FB_OK) {
    uint64_t left = until - self->file.position;
    struct iovec part = {.iov_base = (void*)ZEROS, .iov_len = left < sizeof ZEROS ? (size_t)left : sizeof ZEROS};
    code = fb_file_channel_write_all(&self->file, &part, 1, failure);
  }
  return code;
}

/* Blocks of the disk are taken at once: a mapping over a disk that is full would kill the process when it is written to. */
static int allocate_file(struct fb_bounded_data* self, uint64_t from, uint64_t until, struct fb_file_failure* failure) {
  int failed;

  do failed = fallocate(self->file.fd, 0, (off_t)from, (off_t)(until - from));
  while (failed < 0 && errno == EINTR);
  if (failed == 0) return FB_OK;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return write_zeros(self, from, until, failure);
  return fb_file_failure_set(failure, FB_EIO, errno, "cannot write", self->path, from, NULL);
}

/* ---- writing ----------------------------------------------------------------------------------------- */

int fb_bounded_data_prepare(struct fb_bounded_data* self, enum fb_bounded_storage storage, const char* path,
                            uint64_t region_limit, struct fb_file_failure* failure) {
  uint64_t most = (uint64_t)INT32_MAX + 1 - 2 * page_size(); /* with a slack at its start it stays below 2 GiB */

  memset(self, 0, sizeof *self);
  self->path = strdup(path);
  if (self->path == NULL || pthread_mutex_init(&self->lock, NULL) != 0) {
    free(self->path);
    self->path = NULL;
    return fb_file_failure_set(failure, FB_ENOMEM, 0, "cannot create", path, 0, NULL);
  }
  self->storage = storage;
  self->region_limit = region_limit == 0 || region_limit > most ? most : region_limit;
  return FB_OK;
}

static int open_for_writing(struct fb_bounded_data* self, struct fb_file_failure* failure) {
  int code = fb_file_channel_open(&self->file, self->path, self->is_created ? FB_FILE_EXTEND : FB_FILE_CREATE, failure);

  if (code == FB_OK) self->is_created = true;
  return code;
}

int fb_bounded_data_open(struct fb_bounded_data* self, enum fb_bounded_storage storage, const char* path,
                         uint64_t region_limit, struct fb_file_failure* failure) {
  int code = fb_bounded_data_prepare(self, storage, path, region_limit, failure);

  if (code == FB_OK) code = open_for_writing(self, failure);
  if (code != FB_OK) fb_bounded_data_close(self);
  return code;
}

int fb_bounded_data_park(struct fb_bounded_data* self, struct fb_file_failure* failure) {
  return fb_file_channel_close(&self->file, failure);
}

static int unpark(struct fb_bounded_data* self, struct fb_file_failure* failure) {
  int code = FB_OK;

  if (self->is_finished) return fail_bounded(self, FB_ESTATE, "cannot write", self->size, NULL, failure);
  if (!fb_file_channel_is_open(&self->file)) code = open_for_writing(self, failure);
  self->file.position = self->size;
  return code;
}

static void count_buffer(struct fb_bounded_data* self, const struct fb_buffer_slice* buffer) {
  if (fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)buffer->data_type)) self->data_count++;
  else self->event_count++;
  if (buffer->size > self->largest) self->largest = buffer->size;
  self->size += FB_BUFFER_HEADER_SIZE + buffer->size;
}

/* Where the next buffer of so many bytes goes; in a mapped file it may begin a region. */
static int place_buffer(struct fb_bounded_data* self, uint32_t size, struct fb_file_failure* failure) {
  uint64_t needed = FB_BUFFER_HEADER_SIZE + (uint64_t)size;

  if (needed > self->region_limit)
    return fail_bounded(self, FB_ETOO_LARGE, "cannot write", self->size, "a buffer is larger than a region", failure);
  if (self->size - self->region_start + needed > self->region_limit) self->region_start = self->size;
  if (self->region_count == 0 || self->regions[self->region_count - 1]->offset != self->region_start)
    if (add_region(self, self->region_start) == NULL)
      return fail_bounded(self, FB_ENOMEM, "cannot write", self->size, NULL, failure);
  self->regions[self->region_count - 1]->end = self->size + needed;
  return FB_OK;
}

static int write_batch(struct fb_bounded_data* self, const struct fb_buffer_slice* buffers, uint32_t count,
                       struct fb_file_failure* failure) {
  struct iovec parts[2 * BUFFERS_PER_WRITE];
  uint8_t headers[BUFFERS_PER_WRITE][FB_BUFFER_HEADER_SIZE];

  for (uint32_t i = 0; i < count; i++) {
    int code = fb_buffer_header_write(headers[i], &buffers[i]);
    if (code < 0)
      return fail_bounded(self, code, "cannot write", self->size, "it has a type that is not stored", failure);
    if (self->storage == FB_BOUNDED_FILE_MMAP) code = place_buffer(self, buffers[i].size, failure);
    if (code < 0) return code;
    parts[2 * i] = (struct iovec){.iov_base = headers[i], .iov_len = FB_BUFFER_HEADER_SIZE};
    parts[2 * i + 1] = (struct iovec){.iov_base = (void*)fb_buffer_slice_data(&buffers[i]), .iov_len = buffers[i].size};
    count_buffer(self, &buffers[i]);
  }
  return fb_file_channel_write_all(&self->file, parts, 2 * count, failure);
}

/* All pages of what is new in one step, not each when it is first touched. What cannot be brought comes then. */
static void bring_pages(struct fb_bounded_region* region, uint64_t from, uint64_t until) {
  uintptr_t first = (uintptr_t)region->root.segment.data + (uintptr_t)from;
  uintptr_t start = first - first % page_size();

  madvise((void*)start, (size_t)(until - from) + (first - start), MADV_POPULATE_WRITE);
}

/* Room for so many bytes in the region that is being written; all of it is the file's, so that nothing can fail later. */
static int grow_region(struct fb_bounded_data* self, struct fb_bounded_region* region, uint64_t needed,
                       struct fb_file_failure* failure) {
  uint64_t allocated = region->root.segment.size;
  uint64_t growth = allocated < FIRST_GROWTH ? FIRST_GROWTH : allocated < LARGEST_GROWTH ? allocated : LARGEST_GROWTH;
  uint64_t wanted = allocated + growth > needed ? allocated + growth : needed;
  int code;

  if (needed <= allocated) return FB_OK;
  if (wanted > self->region_limit) wanted = self->region_limit;
  code = unpark(self, failure);
  if (code == FB_OK) code = allocate_file(self, region->offset + allocated, region->offset + wanted, failure);
  if (code == FB_OK) code = map_region(self, region, (size_t)wanted, PROT_READ | PROT_WRITE, failure);
  if (code == FB_OK) bring_pages(region, allocated, wanted);
  return code;
}

static int write_mapped(struct fb_bounded_data* self, const struct fb_buffer_slice* buffer,
                        struct fb_file_failure* failure) {
  uint8_t header[FB_BUFFER_HEADER_SIZE];
  struct fb_bounded_region* region;
  uint8_t* to;
  int code = fb_buffer_header_write(header, buffer);

  if (code < 0)
    return fail_bounded(self, code, "cannot write", self->size, "it has a type that is not stored", failure);
  if (self->is_finished) return fail_bounded(self, FB_ESTATE, "cannot write", self->size, NULL, failure);
  if (self->region_count > 0 &&
      self->size - self->region_start + FB_BUFFER_HEADER_SIZE + buffer->size > self->region_limit)
    /* Flink maps whole regions; a file stays as long as they are. */
    self->size = self->region_start + self->regions[self->region_count - 1]->root.segment.size;
  code = place_buffer(self, buffer->size, failure);
  if (code < 0) return code;
  region = self->regions[self->region_count - 1];
  code = grow_region(self, region, region->end - region->offset, failure);
  if (code < 0) return code;
  to = region->root.segment.data + (self->size - region->offset);
  memcpy(to, header, sizeof header);
  if (buffer->size > 0) memcpy(to + sizeof header, fb_buffer_slice_data(buffer), buffer->size);
  count_buffer(self, buffer);
  return FB_OK;
}

int fb_bounded_data_write(struct fb_bounded_data* self, const struct fb_buffer_slice* buffers, uint32_t count,
                          struct fb_file_failure* failure) {
  int code = self->storage == FB_BOUNDED_MMAP ? FB_OK : unpark(self, failure);

  while (count > 0 && code == FB_OK) {
    uint32_t batch = self->storage == FB_BOUNDED_MMAP ? 1 : count < BUFFERS_PER_WRITE ? count : BUFFERS_PER_WRITE;
    code = batch == 1 && self->storage == FB_BOUNDED_MMAP ? write_mapped(self, buffers, failure)
                                                          : write_batch(self, buffers, batch, failure);
    buffers += batch;
    count -= batch;
  }
  return code;
}

int fb_bounded_data_finish(struct fb_bounded_data* self, bool syncs, struct fb_file_failure* failure) {
  int closed, code = FB_OK;

  if (self->is_finished) return FB_OK;
  if (syncs || self->storage == FB_BOUNDED_FILE_MMAP) code = unpark(self, failure);
  if (self->storage == FB_BOUNDED_FILE_MMAP)
    for (uint32_t i = 0; i < self->region_count && code == FB_OK; i++)
      code = map_region(self, self->regions[i], (size_t)(self->regions[i]->end - self->regions[i]->offset), PROT_READ,
                        failure);
  if (syncs && code == FB_OK) code = fb_file_channel_sync(&self->file, failure);
  closed = fb_file_channel_close(&self->file, failure);
  self->is_finished = true;
  return code < 0 ? code : closed;
}

void fb_bounded_data_delete(struct fb_bounded_data* self) {
  if (self->path == NULL || self->is_deleted) return;
  self->is_deleted = true;
  if (self->is_created) unlink(self->path); /* else it is not this one's */
}

void fb_bounded_data_close(struct fb_bounded_data* self) {
  struct fb_file_failure ignored;

  if (self->path == NULL) return;
  fb_file_channel_close(&self->file, &ignored);
  for (uint32_t i = 0; i < self->region_count; i++) fb_buffer_release(&self->regions[i]->root);
  free(self->regions);
  pthread_mutex_destroy(&self->lock);
  free(self->path);
  memset(self, 0, sizeof *self);
}

/* ---- readers: life ------------------------------------------------------------------------------------ */

static void free_bounded_file(struct fb_shared_file* shared) {
  struct fb_bounded_file* self = FB_OWNER(fb_bounded_file, shared, shared);
  struct fb_file_failure ignored;

  fb_file_channel_close(&self->channel, &ignored);
  free(self);
}

static int open_bounded_file(struct fb_bounded_data* self, struct fb_bounded_file** file,
                             struct fb_file_failure* failure) {
  struct fb_bounded_file* opened = calloc(1, sizeof *opened);
  int code;

  if (opened == NULL) return fail_bounded(self, FB_ENOMEM, "cannot open", 0, NULL, failure);
  code = fb_file_channel_open(&opened->channel, self->path, FB_FILE_READ, failure);
  if (code < 0) {
    free(opened);
    if (failure->error == ENOENT) code = failure->code = FB_ENOT_FOUND;
    return code;
  }
  fb_shared_file_open(&opened->shared, opened->channel.fd, opened->channel.path, free_bounded_file);
  *file = opened;
  return FB_OK;
}

/* All readers of a file share one descriptor, which is open while there are any. */
static int share_file(struct fb_bounded_data* self, struct fb_bounded_file** file, struct fb_file_failure* failure) {
  int code = FB_OK;

  pthread_mutex_lock(&self->lock);
  if (self->storage == FB_BOUNDED_FILE && self->shared == NULL) code = open_bounded_file(self, &self->shared, failure);
  if (code == FB_OK) {
    *file = self->shared;
    self->reader_count++;
  }
  pthread_mutex_unlock(&self->lock);
  return code;
}

int fb_bounded_reader_open(struct fb_bounded_reader* self, struct fb_bounded_data* data,
                           struct fb_file_failure* failure) {
  int code;

  memset(self, 0, sizeof *self);
  if (!data->is_finished) return fail_bounded(data, FB_ESTATE, "cannot read", 0, "it is still being written", failure);
  code = share_file(data, &self->file, failure);
  if (code < 0) return code;
  self->data = data;
  self->data_left = data->data_count;
  self->event_left = data->event_count;
  return FB_OK;
}

void fb_bounded_reader_close(struct fb_bounded_reader* self) {
  struct fb_bounded_data* data = self->data;
  struct fb_bounded_file* last = NULL;

  if (data == NULL) return;
  self->data = NULL;
  pthread_mutex_lock(&data->lock);
  if (--data->reader_count == 0) {
    last = data->shared;
    data->shared = NULL;
  }
  pthread_mutex_unlock(&data->lock);
  if (last != NULL) fb_shared_file_drop(&last->shared);
}

/* ---- readers: work ------------------------------------------------------------------------------------ */

static int fail_reading(const struct fb_bounded_reader* self, const char* why, struct fb_file_failure* failure) {
  return fail_bounded(self->data, FB_ECORRUPT, "cannot read", self->position, why, failure);
}

static int check_end(const struct fb_bounded_reader* self, struct fb_file_failure* failure) {
  if (self->data_left == 0 && self->event_left == 0) return FB_BOUNDED_END;
  return fail_reading(self, "it ends here, and not all buffers that were written have come", failure);
}

/* Reads the header and looks whether it can be that of a buffer before `end`. */
static int parse_header(struct fb_bounded_reader* self, const uint8_t* bytes, uint64_t end,
                        struct fb_buffer_header* header, struct fb_file_failure* failure) {
  bool is_data;

  if (fb_buffer_header_read(bytes, header) < 0) return fail_reading(self, "this is no header of a buffer", failure);
  if (header->size > self->data->largest || header->size > end - self->position - FB_BUFFER_HEADER_SIZE)
    return fail_reading(self, "the size of a buffer is larger than any that was written", failure);
  is_data = fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)header->data_type);
  if ((is_data ? self->data_left : self->event_left) == 0)
    return fail_reading(self, "there are more buffers of this kind than were written", failure);
  return FB_OK;
}

/* An end that is none would cut the channel short without a word. */
static bool is_plausible(const struct fb_buffer_slice* slice) {
  if (slice->data_type != FB_END_OF_PARTITION && slice->data_type != FB_END_OF_DATA) return true;
  return fb_buffer_event_is_of_its_type(slice);
}

/* Goes on behind the buffer, once nothing can fail any more. */
static void advance_reader(struct fb_bounded_reader* self, const struct fb_buffer_header* header) {
  self->position += FB_BUFFER_HEADER_SIZE + header->size;
  if (fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)header->data_type)) self->data_left--;
  else self->event_left--;
}

static int read_file_bytes(struct fb_bounded_reader* self, bool may_wait, uint64_t offset, uint8_t* to, size_t size,
                           struct fb_file_failure* failure) {
  size_t read_size;
  int code;

  if (size == 0) return FB_BOUNDED_READ;
  if (may_wait) {
    code = fb_file_channel_read_exactly(&self->file->channel, offset, to, size, failure);
    return code < 0 ? code : FB_BOUNDED_READ;
  }
  code = fb_file_channel_read_resident(&self->file->channel, offset, to, size, &read_size, failure);
  if (code < 0) return code;
  /* Less than asked for: the rest is on the disk, or nowhere; who may wait finds out. */
  return code == 1 && read_size == size ? FB_BOUNDED_READ : FB_BOUNDED_NOT_RESIDENT;
}

static int give_region(struct fb_bounded_reader* self, const struct fb_buffer_header* header,
                       struct fb_file_region* region) {
  fb_shared_file_retain(&self->file->shared);
  *region = (struct fb_file_region){
      .file = &self->file->shared, .offset = self->position + FB_BUFFER_HEADER_SIZE, .size = header->size};
  self->has_header = false;
  advance_reader(self, header);
  return FB_BOUNDED_READ;
}

static int read_from_file(struct fb_bounded_reader* self, bool may_wait, struct fb_buffer* into,
                          struct fb_buffer_slice* slice, struct fb_file_region* region,
                          struct fb_file_failure* failure) {
  uint64_t end = self->data->size;
  struct fb_buffer_header header;
  size_t rest;
  int step = FB_BOUNDED_READ;

  if (!self->has_header)
    step = read_file_bytes(self, may_wait, self->position, self->header, sizeof self->header, failure);
  if (step != FB_BOUNDED_READ) return step;
  self->has_header = true;
  step = parse_header(self, self->header, end, &header, failure);
  if (step < 0) return step;
  *slice = (struct fb_buffer_slice){
      .buffer = into, .size = header.size, .data_type = header.data_type, .is_compressed = header.is_compressed};
  if (region != NULL && fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)header.data_type)) {
    slice->buffer = NULL;
    return give_region(self, &header, region);
  }
  rest =
      end - self->position - FB_BUFFER_HEADER_SIZE - header.size >= FB_BUFFER_HEADER_SIZE ? FB_BUFFER_HEADER_SIZE : 0;
  step = read_file_bytes(self, may_wait, self->position + FB_BUFFER_HEADER_SIZE, into->segment.data, header.size + rest,
                         failure);
  if (step != FB_BOUNDED_READ) return step;
  if (!is_plausible(slice)) return fail_reading(self, "an event is not what its header says", failure);
  self->has_header = rest > 0;
  memcpy(self->header, into->segment.data + header.size, rest);
  advance_reader(self, &header);
  return FB_BOUNDED_READ;
}

/* Whether the file still goes so far: a mapping behind its end kills who touches it. */
static int check_length(const struct fb_bounded_reader* self, uint64_t until, struct fb_file_failure* failure) {
  struct stat status;

  /* A file that has no name any more cannot be cut off by it. */
  if (stat(self->data->path, &status) < 0 || (uint64_t)status.st_size >= until) return FB_OK;
  return fail_bounded(self->data, FB_ETRUNCATED, "cannot read", (uint64_t)status.st_size, "the file ends here",
                      failure);
}

static bool is_resident(uint8_t* from, size_t size) {
  unsigned char pages[WINDOW_SIZE / 4096 + 2];
  size_t count = (size + page_size() - 1) / page_size();

  if (count > sizeof pages || mincore(from, size, pages) < 0) return false;
  for (size_t i = 0; i < count; i++)
    if ((pages[i] & 1) == 0) return false;
  return true;
}

/* Sees to it that the mapped bytes up to `until` can be touched without a wait, and without a blow. */
static int check_window(struct fb_bounded_reader* self, const struct fb_bounded_region* region, bool may_wait,
                        uint64_t until, struct fb_file_failure* failure) {
  uint64_t ahead = self->position + WINDOW_SIZE;
  size_t page = page_size();
  uint8_t* from;
  size_t size;

  if (until <= self->checked_until) return FB_BOUNDED_READ;
  if (ahead > region->end) ahead = region->end;
  if (ahead > until) until = ahead;
  from = region->root.segment.data + (self->position - region->offset);
  size = (size_t)(until - self->position) + (uintptr_t)from % page;
  from -= (uintptr_t)from % page;
  if (!may_wait && !is_resident(from, size)) return FB_BOUNDED_NOT_RESIDENT;
  if (check_length(self, until, failure) < 0) return failure->code;
  if (may_wait && madvise(from, size, MADV_POPULATE_READ) < 0 && errno != EINVAL && errno != ENOSYS)
    return fb_file_failure_set(failure, errno == EFAULT ? FB_ETRUNCATED : FB_EIO, errno, "cannot read",
                               self->data->path, self->position, NULL);
  self->checked_until = until;
  return FB_BOUNDED_READ;
}

static int read_from_mapping(struct fb_bounded_reader* self, bool may_wait, struct fb_buffer_slice* slice,
                             struct fb_file_failure* failure) {
  struct fb_bounded_region* region = self->data->regions[self->region];
  struct fb_buffer_header header;
  const uint8_t* bytes;
  int step;

  if (self->position == region->end) {
    region = self->data->regions[++self->region];
    self->position = region->offset;
  }
  if (region->end - self->position < FB_BUFFER_HEADER_SIZE)
    return fail_reading(self, "it ends inside a header", failure);
  step = check_window(self, region, may_wait, self->position + FB_BUFFER_HEADER_SIZE, failure);
  if (step != FB_BOUNDED_READ) return step;
  bytes = region->root.segment.data + (self->position - region->offset);
  step = parse_header(self, bytes, region->end, &header, failure);
  if (step < 0) return step;
  step = check_window(self, region, may_wait, self->position + FB_BUFFER_HEADER_SIZE + header.size, failure);
  if (step != FB_BOUNDED_READ) return step;
  *slice = (struct fb_buffer_slice){
      .buffer = &region->root,
      .offset = (uint32_t)(self->position - region->offset + FB_BUFFER_HEADER_SIZE),
      .size = header.size,
      .data_type = header.data_type,
      .is_compressed = header.is_compressed,
  };
  if (!is_plausible(slice)) return fail_reading(self, "an event is not what its header says", failure);
  fb_buffer_slice_retain(slice);
  advance_reader(self, &header);
  return FB_BOUNDED_READ;
}

int fb_bounded_reader_next(struct fb_bounded_reader* self, bool may_wait, struct fb_buffer* into,
                           struct fb_buffer_slice* slice, struct fb_file_region* region,
                           struct fb_file_failure* failure) {
  uint64_t end = self->data->size;

  if (self->data->storage != FB_BOUNDED_FILE && self->data->region_count > 0)
    end = self->data->regions[self->data->region_count - 1]->end;
  if (self->position >= end) return check_end(self, failure);
  if (self->data->storage != FB_BOUNDED_FILE) return read_from_mapping(self, may_wait, slice, failure);
  if (end - self->position < FB_BUFFER_HEADER_SIZE) return fail_reading(self, "it ends inside a header", failure);
  return read_from_file(self, may_wait, into, slice, region, failure);
}
