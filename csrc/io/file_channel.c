#define _GNU_SOURCE /* preadv2 */
#include "io/file_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif
#define PATH_SHOWN 240 /* bytes of a path in a message: its end tells it from others */

/* ---- failures -------------------------------------------------------------------------------------- */

/* What one who reads the message can do about it; empty: what the system said is all. */
static const char* advice_for(int code, int error) {
  if (code == FB_ETRUNCATED) return "; the file was cut off, or its writer did not come to its end";
  if (code == FB_ECORRUPT || code == FB_ETOO_LARGE) return "; the file is damaged, or of another kind";
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "; free space there, or name a directory on another disk";
    case EFBIG: return "; the limit for the size of a file is reached (ulimit -f)";
    case EMFILE: return "; this process has too many files open (ulimit -n)";
    case ENFILE: return "; the system has too many files open";
    case EROFS:
    case EACCES:
    case EPERM: return "; name a directory that this process may write to, or change who may use this one";
    case ENOENT: return "; somebody removed it, or its directory";
    case EEXIST: return "; it belongs to somebody else: name another path";
    default: return "";
  }
}

/* The system's words: strerror_r() returns them, or a code, as the C library likes. */
static inline const char* words_of_code(int failed, const char* words) { return failed == 0 ? words : "unknown error"; }
static inline const char* words_given(const char* given, const char* words) { return given != NULL ? given : words; }
#define SYSTEM_WORDS(result, words) _Generic((result), int: words_of_code, default: words_given)(result, words)

int fb_file_failure_set(struct fb_file_failure* failure, int code, int error, const char* doing, const char* path,
                        uint64_t offset, const char* why) {
  size_t length = strlen(path);
  const char* shown = length > PATH_SHOWN ? path + (length - PATH_SHOWN) : path;
  char words[96] = "";

  if (why == NULL && error != 0) why = SYSTEM_WORDS(strerror_r(error, words, sizeof words), words);
  if (why == NULL) why = fb_strerror(code);
  failure->code = code;
  failure->error = error;
  failure->offset = offset;
  snprintf(failure->text, sizeof failure->text, "%s %s%s at byte %" PRIu64 ": %s%s", doing, shown == path ? "" : "...",
           shown, offset, why, advice_for(code, error));
  return code;
}

const char* fb_file_failure_text(const struct fb_file_failure* failure) {
  return failure->text[0] != '\0' ? failure->text : fb_strerror(failure->code);
}

static int fail_system(const struct fb_file_channel* self, const char* doing, uint64_t offset,
                       struct fb_file_failure* failure) {
  int error = errno;
  return fb_file_failure_set(failure, error == ENOMEM ? FB_ENOMEM : FB_EIO, error, doing, self->path, offset, NULL);
}

static int fail_closed(const struct fb_file_channel* self, const char* doing, struct fb_file_failure* failure) {
  return fb_file_failure_set(failure, FB_ESTATE, 0, doing, self->path != NULL ? self->path : "a closed file", 0,
                             self->path != NULL ? "it is open for reading only" : NULL);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static int open_flags_of(enum fb_file_mode mode) {
  switch (mode) {
    case FB_FILE_CREATE: return O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    case FB_FILE_EXTEND: return O_RDWR | O_CLOEXEC;
    default: return O_RDONLY | O_CLOEXEC;
  }
}

static const char* const OPENING[] = {"cannot open", "cannot create", "cannot open for writing"};

int fb_file_channel_open(struct fb_file_channel* self, const char* path, enum fb_file_mode mode,
                         struct fb_file_failure* failure) {
  uint64_t size = 0;
  int code = FB_OK;

  *self = (struct fb_file_channel){.fd = -1, .path = strdup(path), .is_writable = mode != FB_FILE_READ};
  if (self->path == NULL) return fb_file_failure_set(failure, FB_ENOMEM, 0, OPENING[mode], path, 0, NULL);
  do self->fd = open(path, open_flags_of(mode), 0600);
  while (self->fd < 0 && errno == EINTR);
  if (self->fd < 0) code = fail_system(self, OPENING[mode], 0, failure);
  else if (mode == FB_FILE_EXTEND) code = fb_file_channel_get_size(self, &size, failure);
  if (code < 0) {
    if (self->fd >= 0) close(self->fd);
    free(self->path);
    *self = (struct fb_file_channel){0};
    return code;
  }
  self->position = size;
  return FB_OK;
}

static void forget_file(struct fb_file_channel* self) {
  free(self->path);
  *self = (struct fb_file_channel){0};
}

int fb_file_channel_close(struct fb_file_channel* self, struct fb_file_failure* failure) {
  int code = FB_OK;

  if (!fb_file_channel_is_open(self)) return FB_OK;
  /* After EINTR the descriptor is gone all the same, on Linux; another thread may have it already. */
  if (close(self->fd) < 0 && errno != EINTR) code = fail_system(self, "cannot close", self->position, failure);
  forget_file(self);
  return code;
}

void fb_file_channel_close_and_delete(struct fb_file_channel* self) {
  if (!fb_file_channel_is_open(self)) return;
  unlink(self->path); /* one that cannot be removed now is left to the sweep of its directory */
  close(self->fd);
  forget_file(self);
}

/* ---- writing --------------------------------------------------------------------------------------- */

/* Drops `size` bytes from the front of the parts; returns how many parts are used up. */
static size_t skip_parts(struct iovec* parts, size_t part_count, size_t size) {
  size_t done = 0;

  while (done < part_count && size >= parts[done].iov_len) size -= parts[done++].iov_len;
  if (done < part_count) {
    parts[done].iov_base = (uint8_t*)parts[done].iov_base + size;
    parts[done].iov_len -= size;
  }
  return done;
}

int fb_file_channel_write_all(struct fb_file_channel* self, struct iovec* parts, size_t part_count,
                              struct fb_file_failure* failure) {
  uint64_t at = self->position;

  if (!fb_file_channel_is_open(self) || !self->is_writable) return fail_closed(self, "cannot write", failure);
  for (size_t done = skip_parts(parts, part_count, 0); done < part_count;) {
    size_t left = part_count - done;
    ssize_t written = pwritev(self->fd, parts + done, (int)(left < IOV_MAX ? left : IOV_MAX), (off_t)at);

    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC; /* a system that takes nothing and does not say why would keep us here for ever */
    if (written <= 0) return fail_system(self, "cannot write", at, failure);
    at += (size_t)written;
    done += skip_parts(parts + done, left, (size_t)written);
  }
  self->position = at;
  return FB_OK;
}

int fb_file_channel_sync(struct fb_file_channel* self, struct fb_file_failure* failure) {
  int failed;

  if (!fb_file_channel_is_open(self)) return fail_closed(self, "cannot sync", failure);
  do failed = fsync(self->fd);
  while (failed < 0 && errno == EINTR);
  return failed < 0 ? fail_system(self, "cannot sync", self->position, failure) : FB_OK;
}

/* ---- reading --------------------------------------------------------------------------------------- */

int fb_file_channel_read_parts(const struct fb_file_channel* self, uint64_t offset, struct iovec* parts,
                               size_t part_count, size_t* read_size, struct fb_file_failure* failure) {
  *read_size = 0;
  if (!fb_file_channel_is_open(self)) return fail_closed(self, "cannot read", failure);
  for (size_t done = skip_parts(parts, part_count, 0); done < part_count;) {
    size_t left = part_count - done;
    ssize_t taken =
        preadv(self->fd, parts + done, (int)(left < IOV_MAX ? left : IOV_MAX), (off_t)(offset + *read_size));

    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return fail_system(self, "cannot read", offset + *read_size, failure);
    if (taken == 0) return FB_OK;
    *read_size += (size_t)taken;
    done += skip_parts(parts + done, left, (size_t)taken);
  }
  return FB_OK;
}

int fb_file_channel_read_exactly(const struct fb_file_channel* self, uint64_t offset, void* to, size_t size,
                                 struct fb_file_failure* failure) {
  struct iovec part = {.iov_base = to, .iov_len = size};
  size_t read_size;
  char why[96];
  int code = fb_file_channel_read_parts(self, offset, &part, 1, &read_size, failure);

  if (code < 0 || read_size == size) return code;
  snprintf(why, sizeof why, "the file ends here, %zu bytes more were expected", size - read_size);
  return fb_file_failure_set(failure, FB_ETRUNCATED, 0, "cannot read", self->path, offset + read_size, why);
}

int fb_file_channel_read_resident(const struct fb_file_channel* self, uint64_t offset, void* to, size_t size,
                                  size_t* read_size, struct fb_file_failure* failure) {
  *read_size = 0;
  if (!fb_file_channel_is_open(self)) return fail_closed(self, "cannot read", failure);
#ifdef RWF_NOWAIT
  struct iovec part = {.iov_base = to, .iov_len = size};
  ssize_t taken;

  do taken = preadv2(self->fd, &part, 1, (off_t)offset, RWF_NOWAIT);
  while (taken < 0 && errno == EINTR);
  if (taken >= 0) {
    *read_size = (size_t)taken;
    return 1;
  }
  /* Not in memory, or a file system or kernel that cannot tell. */
  if (errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return 0;
  return fail_system(self, "cannot read", offset, failure);
#else
  (void)offset, (void)to, (void)size;
  return 0;
#endif
}

int fb_file_channel_get_size(const struct fb_file_channel* self, uint64_t* size, struct fb_file_failure* failure) {
  struct stat status;

  if (!fb_file_channel_is_open(self)) return fail_closed(self, "cannot measure", failure);
  if (fstat(self->fd, &status) < 0) return fail_system(self, "cannot measure", 0, failure);
  *size = (uint64_t)status.st_size;
  return FB_OK;
}
