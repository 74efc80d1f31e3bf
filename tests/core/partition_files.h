/* Partition files for C tests: a directory of one's own, files as bytes, and what a subpartition should hold. */
#ifndef FB_TEST_PARTITION_FILES_H
#define FB_TEST_PARTITION_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "partition/partition_file_reader.h"
#include "partition/partition_file_writer.h"

struct bytes {
  uint8_t* data;
  size_t size, capacity;
};

static inline void add_bytes(struct bytes* self, const void* data, size_t size) {
  if (self->capacity < self->size + size || self->data == NULL) {
    self->capacity = (self->size + size) * 2 + 16;
    self->data = realloc(self->data, self->capacity);
    CHECK(self->data != NULL);
  }
  if (size > 0) memcpy(self->data + self->size, data, size);
  self->size += size;
}

static inline void free_bytes(struct bytes* self) {
  free(self->data);
  *self = (struct bytes){0};
}

static inline bool equal_bytes(const struct bytes* left, const struct bytes* right) {
  return left->size == right->size && (left->size == 0 || memcmp(left->data, right->data, left->size) == 0);
}

/* A new directory, in memory where the system has one: these files live for microseconds. */
static inline void make_directory(char* path, size_t size) {
  const char* home = getenv("TMPDIR");
  snprintf(path, size, "%s/fb-partition-XXXXXX",
           home != NULL                    ? home
           : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                           : "/tmp");
  CHECK(mkdtemp(path) != NULL);
}

static inline void put_file(const char* base, const char* suffix, const void* data, size_t size) {
  char path[512];
  FILE* file;
  snprintf(path, sizeof path, "%s%s", base, suffix);
  file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static inline struct bytes get_file(const char* base, const char* suffix) {
  char path[512];
  uint8_t part[4096];
  struct bytes bytes = {0};
  size_t size;
  FILE* file;
  snprintf(path, sizeof path, "%s%s", base, suffix);
  file = fopen(path, "rb");
  CHECK(file != NULL);
  while ((size = fread(part, 1, sizeof part, file)) > 0) add_bytes(&bytes, part, size);
  fclose(file);
  return bytes;
}

static inline bool has_file(const char* base, const char* suffix) {
  char path[512];
  struct stat found;
  snprintf(path, sizeof path, "%s%s", base, suffix);
  return stat(path, &found) == 0;
}

static inline void drop_file(const char* base, const char* suffix) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", base, suffix);
  unlink(path);
}

#endif
