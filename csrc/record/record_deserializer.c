#include "record/record_deserializer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define FIRST_SPANNING_BYTES 1024
/* So much is allocated on the word of a length alone; beyond it memory follows what really arrived. */
#define TRUSTED_BYTES       (64u << 10)
#define SPILL_FILE_ATTEMPTS 10
#define RANDOM_NAME_BYTES   20

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static size_t unread_size(const struct fb_record_deserializer* self) { return (size_t)(self->end - self->pos); }

/* ---- life ------------------------------------------------------------------------------------------ */

void fb_record_deserializer_open(struct fb_record_deserializer* self,
                                 const struct fb_record_deserializer_options* options) {
  *self = (struct fb_record_deserializer){.record_length = -1};
  if (options != NULL) self->options = *options;
  if (self->options.spill_threshold == 0) self->options.spill_threshold = FB_SPILL_THRESHOLD_BYTES;
  if (self->options.max_record_size == 0 || self->options.max_record_size > INT32_MAX)
    self->options.max_record_size = INT32_MAX;
}

static void forget_joined(struct fb_record_deserializer* self) {
  self->length_count = 0;
  self->record_length = -1;
  self->accumulated = 0;
}

static void close_spill_file(struct fb_record_deserializer* self) {
  if (self->is_spilling) close(self->spill_file);
  self->is_spilling = false;
}

/* Gives back what held the record handed out last. */
static void release_joined(struct fb_record_deserializer* self) {
  if (self->spilled != NULL) munmap(self->spilled, self->spilled_size);
  self->spilled = NULL;
  self->spilled_size = 0;
  if (self->spanning_capacity > FB_SPANNING_KEEP_BYTES) {
    free(self->spanning);
    self->spanning = NULL;
    self->spanning_capacity = 0;
  }
}

void fb_record_deserializer_clear(struct fb_record_deserializer* self) {
  close_spill_file(self);
  forget_joined(self);
  release_joined(self);
  self->pos = self->end;
  self->last_bytes = 0;
}

void fb_record_deserializer_close(struct fb_record_deserializer* self) {
  fb_record_deserializer_clear(self);
  free(self->spanning);
  *self = (struct fb_record_deserializer){.record_length = -1};
}

int fb_record_deserializer_set_next_buffer(struct fb_record_deserializer* self, const uint8_t* data, size_t size) {
  if (self->pos != self->end) return FB_ESTATE;
  self->stream_offset += self->buffer_size;
  self->buffer_size = size;
  if (size == 0) return FB_OK; /* `data` may be NULL then */
  self->pos = data;
  self->end = data + size;
  return FB_OK;
}

/* ---- spilling -------------------------------------------------------------------------------------- */

/* Creates one file under a random name and takes the name away again at once, so that nothing stays behind
 * even if the process is killed. Returns the descriptor, or -1 with errno. */
static int create_unlinked(const char* dir) {
  uint8_t random[RANDOM_NAME_BYTES];
  char path[PATH_MAX];
  int used = snprintf(path, sizeof path, "%s/", dir);

  if (used < 0 || (size_t)used >= sizeof path - 2 * RANDOM_NAME_BYTES - sizeof ".inputchannel") {
    errno = ENAMETOOLONG;
    return -1;
  }
  if (getentropy(random, sizeof random) < 0) return -1;
  for (size_t i = 0; i < sizeof random; i++, used += 2) snprintf(path + used, 3, "%02x", random[i]);
  memcpy(path + used, ".inputchannel", sizeof ".inputchannel");

  int file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 && unlink(path) < 0) {
    int cause = errno;
    close(file);
    errno = cause;
    return -1;
  }
  return file;
}

/* Starts anywhere in the list, so that many channels use all disks; a directory that fails is left for the
 * next one. */
static int open_spill_file(struct fb_record_deserializer* self) {
  const char* temporary = getenv("TMPDIR");
  const char* const usual[] = {temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp", NULL};
  const char* const* dirs = self->options.spill_dirs;
  uint32_t next = 0;
  size_t count = 0, failed = 0;

  if (dirs == NULL || dirs[0] == NULL) dirs = usual;
  while (dirs[count] != NULL) count++;
  if (count > 1 && getentropy(&next, sizeof next) < 0) next = 0;

  for (int attempt = 0; attempt < SPILL_FILE_ATTEMPTS && failed < count; attempt++) {
    int file = create_unlinked(dirs[(next + failed) % count]);
    if (file >= 0) {
      self->spill_file = file;
      self->is_spilling = true;
      return FB_OK;
    }
    self->io_errno = errno;
    if (errno != EEXIST) failed++;
  }
  return FB_EIO;
}

static int spill_record(struct fb_record_deserializer* self, size_t size) {
  if (!self->is_spilling && open_spill_file(self) < 0) return FB_EIO;
  while (size > 0) {
    ssize_t written = write(self->spill_file, self->pos, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      self->io_errno = written < 0 ? errno : EIO;
      return FB_EIO;
    }
    /* Counted piece by piece: what a full disk refused stays in the buffer and can be tried again. */
    self->pos += written;
    self->accumulated += (size_t)written;
    size -= (size_t)written;
  }
  return FB_OK;
}

static int map_spilled(struct fb_record_deserializer* self) {
  void* mapped = mmap(NULL, self->accumulated, PROT_READ, MAP_SHARED, self->spill_file, 0);
  if (mapped == MAP_FAILED) {
    self->io_errno = errno;
    return FB_EIO;
  }
  self->spilled = mapped;
  self->spilled_size = self->accumulated;
  close_spill_file(self);
  return FB_OK;
}

/* ---- joining --------------------------------------------------------------------------------------- */

static int grow_spanning(struct fb_record_deserializer* self, size_t needed) {
  if (needed <= self->spanning_capacity) return FB_OK;

  size_t wished = max_size(needed + needed / 2, TRUSTED_BYTES);
  size_t capacity = max_size(min_size(wished, (size_t)self->record_length), FIRST_SPANNING_BYTES);
  uint8_t* grown = realloc(self->spanning, capacity);
  if (grown == NULL) return FB_ENOMEM;
  self->spanning = grown;
  self->spanning_capacity = capacity;
  return FB_OK;
}

static int join_pieces(struct fb_record_deserializer* self, size_t size) {
  if ((uint64_t)self->record_length > self->options.spill_threshold) return spill_record(self, size);

  int code = grow_spanning(self, self->accumulated + size);
  if (code < 0) return code;
  memcpy(self->spanning + self->accumulated, self->pos, size);
  self->pos += size;
  self->accumulated += size;
  return FB_OK;
}

/* Takes the 4 length bytes, wherever they are cut. */
static int read_length(struct fb_record_deserializer* self) {
  size_t size = min_size(4 - self->length_count, unread_size(self));

  if (size > 0) { /* `pos` is NULL before the first buffer */
    memcpy(self->length_bytes + self->length_count, self->pos, size);
    self->pos += size;
    self->length_count += (uint32_t)size;
  }
  if (self->length_count < 4) return FB_NEEDS_INPUT;

  uint32_t length = fb_load_be32(self->length_bytes);
  if (length > INT32_MAX) return FB_ECORRUPT;
  if (length > self->options.max_record_size) return FB_ETOO_LARGE;
  self->record_length = length;
  return FB_RECORD;
}

static int hand_out_record(struct fb_record_deserializer* self, const uint8_t* data, const uint8_t** record,
                           size_t* size) {
  *record = data;
  *size = (size_t)self->record_length;
  self->last_bytes = 4 + (uint32_t)self->record_length;
  self->record_count++;
  forget_joined(self);
  return FB_RECORD;
}

int fb_record_deserializer_next_spanning(struct fb_record_deserializer* self, const uint8_t** record, size_t* size) {
  int code = FB_OK;

  if (self->length_count == 0) release_joined(self);
  if (self->record_length < 0 && (code = read_length(self)) != FB_RECORD) return code;

  size_t length = (size_t)self->record_length;
  if (self->accumulated == 0 && length <= unread_size(self)) {
    /* Only the length was cut off: the record itself lies in this buffer. */
    const uint8_t* data = self->pos;
    self->pos += length;
    return hand_out_record(self, data, record, size);
  }
  size_t missing = min_size(length - self->accumulated, unread_size(self));
  if (missing > 0 && (code = join_pieces(self, missing)) < 0) return code;
  if (self->accumulated < length) return FB_NEEDS_INPUT;
  if (!self->is_spilling) return hand_out_record(self, self->spanning, record, size);
  if ((code = map_spilled(self)) < 0) return code;
  return hand_out_record(self, self->spilled, record, size);
}

/* ---- where we are ---------------------------------------------------------------------------------- */

size_t fb_record_deserializer_pending(const struct fb_record_deserializer* self) {
  return self->length_count + self->accumulated;
}

uint64_t fb_record_deserializer_offset(const struct fb_record_deserializer* self) {
  uint64_t taken = self->stream_offset + self->buffer_size - unread_size(self);
  return taken - (self->length_count > 0 ? fb_record_deserializer_pending(self) : self->last_bytes);
}

/* Reads all of [offset, offset + size) of the spill file. */
static int read_spill_file(struct fb_record_deserializer* self, uint8_t* to, size_t size, uint64_t offset) {
  while (size > 0) {
    ssize_t got = pread(self->spill_file, to, size, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      self->io_errno = got < 0 ? errno : EIO;
      return FB_EIO;
    }
    to += got;
    offset += (uint64_t)got;
    size -= (size_t)got;
  }
  return FB_OK;
}

int64_t fb_record_deserializer_unconsumed(struct fb_record_deserializer* self, uint64_t from, uint8_t* to,
                                          size_t capacity) {
  struct {
    const uint8_t* data; /* NULL: in the spill file */
    size_t size;
  } parts[] = {
      {self->length_bytes, self->length_count},
      {self->is_spilling ? NULL : self->spanning, self->accumulated},
      {self->pos, unread_size(self)},
  };
  uint64_t total = 0;

  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    uint64_t start = from > total ? from - total : 0; /* in this part */
    total += parts[i].size;
    if (start >= parts[i].size || capacity == 0) continue;
    size_t size = min_size(parts[i].size - (size_t)start, capacity);
    if (parts[i].data != NULL) memcpy(to, parts[i].data + start, size);
    else if (read_spill_file(self, to, size, start) < 0) return FB_EIO;
    to += size;
    from += size;
    capacity -= size;
  }
  return (int64_t)total;
}
