#include "sort/record_sorter.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sort/record_merge.h"

enum {
  MIN_MEMORY_BYTES = 64 * 1024,
  MAX_BLOCK_BYTES = 4 * 1024 * 1024,
  MIN_RUN_BUFFER_BYTES = 4 * 1024,
  MAX_RUN_BUFFER_BYTES = 1024 * 1024,
  REFERENCE_BYTES = 2 * sizeof(struct fb_record_reference), /* and its place in the scratch that sorting needs */
  FIRST_REFERENCES = 256,
};

/* Records lie one behind the other as in a run. */
struct fb_sorter_block {
  struct fb_sorter_block* before;
  size_t used;
  size_t capacity;
  uint8_t data[];
};

/* ---- life ---------------------------------------------------------------------------------------------- */

int fb_record_sorter_open(struct fb_record_sorter* self, size_t memory_bytes, uint32_t max_fan_in) {
  memset(self, 0, sizeof(*self));
  if (memory_bytes < MIN_MEMORY_BYTES || max_fan_in < 2) return FB_EARGUMENT;
  self->memory_bytes = memory_bytes;
  self->max_fan_in = max_fan_in;
  self->last_timestamp = INT64_MIN;
  return FB_OK;
}

static void free_sorter_blocks(struct fb_record_sorter* self) {
  while (self->blocks != NULL) {
    struct fb_sorter_block* before = self->blocks->before;

    free(self->blocks);
    self->blocks = before;
  }
  self->block_bytes = 0;
}

static void free_sorter_memory(struct fb_record_sorter* self) {
  free_sorter_blocks(self);
  free(self->references);
  self->references = NULL;
  self->count = self->capacity = 0;
}

static void close_sorter_merge(struct fb_record_sorter* self) {
  if (self->merge != NULL) fb_record_merge_close(self->merge);
  free(self->merge);
  self->merge = NULL;
}

void fb_record_sorter_close(struct fb_record_sorter* self) {
  close_sorter_merge(self);
  free_sorter_memory(self);
  free(self->runs);
  free(self->base_path);
  fb_file_channel_close_and_delete(&self->file);
  memset(self, 0, sizeof(*self));
  self->is_finished = true;
}

int fb_record_sorter_set_path(struct fb_record_sorter* self, const char* base_path) {
  if (self->base_path != NULL) return FB_ESTATE;
  self->base_path = strdup(base_path);
  return self->base_path != NULL ? FB_OK : FB_ENOMEM;
}

size_t fb_record_sorter_used_bytes(const struct fb_record_sorter* self) {
  return self->block_bytes + self->capacity * REFERENCE_BYTES;
}

/* ---- adding -------------------------------------------------------------------------------------------- */

static size_t sorter_bytes_left(const struct fb_record_sorter* self) {
  size_t used = fb_record_sorter_used_bytes(self);

  return used < self->memory_bytes ? self->memory_bytes - used : 0;
}

/* Room for one reference more: twice as many, or as many as the budget has. */
static int grow_references(struct fb_record_sorter* self) {
  size_t more = self->capacity > 0 ? self->capacity : FIRST_REFERENCES;
  size_t affordable = sorter_bytes_left(self) / REFERENCE_BYTES;
  struct fb_record_reference* references;

  if (more > affordable / 2 && self->count > 0) more = affordable / 2; /* the rest is for their records */
  if (more == 0) return FB_NEEDS_BUFFER;
  references = realloc(self->references, (self->capacity + more) * sizeof(*references));
  if (references == NULL) return self->count > 0 ? FB_NEEDS_BUFFER : FB_ENOMEM;
  self->references = references;
  self->capacity += more;
  return FB_OK;
}

/* A block with room for `size` bytes. */
static int add_sorter_block(struct fb_record_sorter* self, size_t size) {
  size_t left = sorter_bytes_left(self), capacity = self->memory_bytes / 16;
  struct fb_sorter_block* block;

  if (capacity > MAX_BLOCK_BYTES) capacity = MAX_BLOCK_BYTES;
  if (capacity > left) capacity = left;
  if (capacity < sizeof(*block) + size) capacity = sizeof(*block) + size;
  if (capacity > left && self->count > 0) return FB_NEEDS_BUFFER;
  block = malloc(capacity);
  if (block == NULL) return self->count > 0 ? FB_NEEDS_BUFFER : FB_ENOMEM;
  block->before = self->blocks;
  block->used = 0;
  block->capacity = capacity - sizeof(*block);
  self->blocks = block;
  self->block_bytes += capacity;
  return FB_OK;
}

int fb_record_sorter_add(struct fb_record_sorter* self, const uint8_t* key, size_t key_size, int64_t timestamp,
                         const uint8_t* record, size_t record_size) {
  size_t size = FB_RECORD_RUN_HEAD + key_size + record_size;
  uint32_t sizes[2] = {(uint32_t)key_size, (uint32_t)record_size};
  uint8_t* to;
  int code;

  if (self->is_finished) return FB_ESTATE;
  if (key_size > INT32_MAX || record_size > INT32_MAX) return FB_ETOO_LARGE;
  if (self->count == self->capacity && (code = grow_references(self)) != FB_OK) return code;
  if (self->blocks == NULL || self->blocks->capacity - self->blocks->used < size) {
    if ((code = add_sorter_block(self, size)) != FB_OK) return code;
  }
  to = self->blocks->data + self->blocks->used;
  self->blocks->used += size;
  memcpy(to, sizes, sizeof(sizes));
  memcpy(to + 8, &timestamp, 8);
  if (key_size > 0) memcpy(to + FB_RECORD_RUN_HEAD, key, key_size);
  if (record_size > 0) memcpy(to + FB_RECORD_RUN_HEAD + key_size, record, record_size);
  self->references[self->count++] = (struct fb_record_reference){fb_record_order_prefix(key, key_size), to};
  self->is_by_time |= timestamp < self->last_timestamp;
  self->last_timestamp = timestamp;
  self->record_count++;
  return FB_RECORD;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static int sort_in_memory(struct fb_record_sorter* self) {
  struct fb_record_reference* scratch;

  if (self->count < 2) return FB_OK;
  scratch = malloc(self->count * sizeof(*scratch));
  if (scratch == NULL) return FB_ENOMEM;
  fb_record_order_sort(self->references, scratch, self->count, self->is_by_time);
  free(scratch);
  return FB_OK;
}

static int open_sort_file(struct fb_record_sorter* self, struct fb_file_channel* file) {
  char path[PATH_MAX];
  int length;

  if (self->base_path == NULL) return FB_ESTATE;
  length = snprintf(path, sizeof(path), "%s.sort.%u", self->base_path, self->file_number);
  if (length < 0 || (size_t)length >= sizeof(path)) {
    return fb_file_failure_set(&self->failure, FB_EIO, 0, "cannot make", self->base_path, 0, "the path is too long");
  }
  self->file_number++;
  return fb_file_channel_open(file, path, FB_FILE_CREATE, &self->failure);
}

static int note_run(struct fb_record_sorter* self, const struct fb_record_run* run) {
  if (self->run_count == self->run_capacity) {
    size_t capacity = self->run_capacity * 2 + 16;
    struct fb_record_run* runs = realloc(self->runs, capacity * sizeof(*runs));

    if (runs == NULL) return FB_ENOMEM;
    self->runs = runs;
    self->run_capacity = capacity;
  }
  self->runs[self->run_count++] = *run;
  return FB_OK;
}

static size_t run_buffer_bytes(const struct fb_record_sorter* self, size_t run_count) {
  size_t size = self->memory_bytes / (run_count + 1);

  if (size > MAX_RUN_BUFFER_BYTES) size = MAX_RUN_BUFFER_BYTES;
  return size < MIN_RUN_BUFFER_BYTES ? MIN_RUN_BUFFER_BYTES : size;
}

static int write_references(struct fb_record_sorter* self, struct fb_record_run_writer* writer) {
  struct fb_sorted_record record;
  int code = FB_OK;

  fb_record_run_writer_begin(writer);
  for (size_t i = 0; i < self->count && code == FB_OK; i++) {
    fb_record_order_read(self->references[i].at, &record);
    code = fb_record_run_writer_add(writer, &record, &self->failure);
  }
  return code == FB_OK ? fb_record_run_writer_end(writer, &self->failure) : code;
}

int fb_record_sorter_spill(struct fb_record_sorter* self) {
  struct fb_record_run_writer writer;
  int code;

  if (self->is_finished) return FB_ESTATE;
  if (self->count == 0) return FB_OK;
  if (!fb_file_channel_is_open(&self->file) && (code = open_sort_file(self, &self->file)) != FB_OK) return code;
  if ((code = sort_in_memory(self)) != FB_OK) return code;
  code = fb_record_run_writer_open(&writer, &self->file, run_buffer_bytes(self, 7));
  if (code != FB_OK) return code;
  if ((code = write_references(self, &writer)) == FB_OK) code = note_run(self, &writer.run);
  fb_record_run_writer_close(&writer);
  if (code != FB_OK) return code;
  free_sorter_blocks(self);
  self->count = 0; /* the references' room stays, unless it is most of the budget */
  if (self->capacity * REFERENCE_BYTES > self->memory_bytes / 2) free_sorter_memory(self);
  self->is_by_time = false;
  self->last_timestamp = INT64_MIN;
  return FB_OK;
}

/* Merges some runs into one, at the end of another file. */
static int merge_runs_into(struct fb_record_sorter* self, const struct fb_record_run* runs, uint32_t run_count,
                           struct fb_record_run_writer* writer) {
  struct fb_record_merge merge;
  struct fb_sorted_record record;
  int code =
      fb_record_merge_open(&merge, &self->file, runs, run_count, run_buffer_bytes(self, run_count + 1), &self->failure);

  if (code != FB_OK) return code;
  fb_record_run_writer_begin(writer);
  while ((code = fb_record_merge_next(&merge, &record, &self->failure)) == 1) {
    if ((code = fb_record_run_writer_add(writer, &record, &self->failure)) != FB_OK) break;
  }
  fb_record_merge_close(&merge);
  return code == FB_OK ? fb_record_run_writer_end(writer, &self->failure) : code;
}

/* One pass over all runs: each `max_fan_in` of them become one. */
static int merge_all_runs_once(struct fb_record_sorter* self, struct fb_record_run_writer* writer) {
  size_t made = 0;

  for (size_t first = 0; first < self->run_count; made++) {
    size_t count = self->run_count - first;
    int code;

    if (count > self->max_fan_in) count = self->max_fan_in;
    if ((code = merge_runs_into(self, self->runs + first, (uint32_t)count, writer)) != FB_OK) return code;
    self->runs[made] = writer->run; /* its own places have been read */
    first += count;
  }
  self->run_count = made;
  return FB_OK;
}

static int reduce_runs(struct fb_record_sorter* self) {
  while (self->run_count > self->max_fan_in) {
    struct fb_file_channel file = {0};
    struct fb_record_run_writer writer;
    int code = open_sort_file(self, &file);

    if (code != FB_OK) return code;
    code = fb_record_run_writer_open(&writer, &file, run_buffer_bytes(self, self->max_fan_in + 1));
    if (code == FB_OK) {
      code = merge_all_runs_once(self, &writer);
      fb_record_run_writer_close(&writer);
    }
    if (code != FB_OK) {
      fb_file_channel_close_and_delete(&file);
      return code;
    }
    fb_file_channel_close_and_delete(&self->file);
    self->file = file;
  }
  return FB_OK;
}

/* ---- the result ---------------------------------------------------------------------------------------- */

int fb_record_sorter_finish(struct fb_record_sorter* self) {
  int code;

  if (self->is_finished) return FB_ESTATE;
  if (self->run_count == 0) {
    code = sort_in_memory(self);
    self->is_finished = code == FB_OK;
    return code;
  }
  if ((code = fb_record_sorter_spill(self)) != FB_OK) return code;
  free_sorter_memory(self);
  if ((code = reduce_runs(self)) != FB_OK) return code;
  self->merge = calloc(1, sizeof(*self->merge));
  if (self->merge == NULL) return FB_ENOMEM;
  code = fb_record_merge_open(self->merge, &self->file, self->runs, (uint32_t)self->run_count,
                              run_buffer_bytes(self, self->run_count), &self->failure);
  if (code != FB_OK) {
    free(self->merge);
    self->merge = NULL;
    return code;
  }
  self->is_finished = true;
  return FB_OK;
}

int fb_record_sorter_next(struct fb_record_sorter* self, struct fb_sorted_record* record) {
  if (!self->is_finished) return FB_ESTATE;
  if (self->merge != NULL) return fb_record_merge_next(self->merge, record, &self->failure);
  if (self->read_place >= self->count) return 0;
  fb_record_order_read(self->references[self->read_place++].at, record);
  return 1;
}

bool fb_record_sorter_may_wait(const struct fb_record_sorter* self) {
  return self->merge != NULL && fb_record_merge_must_read(self->merge);
}
