/* A file of data: written from its front by one, read anywhere by many.
 *
 * Every call that can fail takes a `struct fb_file_failure*`, the caller's own (never NULL), so that many threads may read
 * one channel and each has its own error. Calls go on after a signal, and after a system that took or gave less than asked.
 * Flink: FileChannel and FileUtils; AbstractFileIOChannel.
 *
 * Owner:   the channel owns its descriptor and its copy of the path; all-zero is closed.
 * Threads: one writer. Reads take no lock and move nothing: any number of threads, also while it is written. Open and close
 *          by the owner, when nobody else uses it. */
#ifndef FB_FILE_CHANNEL_H
#define FB_FILE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ground/errors.h"

#define FB_FILE_FAILURE_SIZE 512

/* What went wrong, complete for whoever shows it. */
struct fb_file_failure {
  int code;        /* FB_EIO; FB_ETRUNCATED: the file ends there; FB_ECORRUPT, FB_ETOO_LARGE; FB_ENOMEM; FB_ESTATE */
  int error;       /* errno; 0: the system did not complain */
  uint64_t offset; /* bytes from the start of the file */
  char text[FB_FILE_FAILURE_SIZE]; /* what, path, byte, the system's words, what to do */
};

enum fb_file_mode {
  FB_FILE_READ = 0,   /* an existing file, to be read */
  FB_FILE_CREATE = 1, /* a new file (FB_EIO with EEXIST if there is one), to be written and read */
  FB_FILE_EXTEND = 2, /* an existing file, to be written at its end and read */
};

struct fb_file_channel {
  char* path; /* NULL: closed */
  int fd;
  bool is_writable;
  uint64_t position; /* where the next write goes; the writer may set it */
};

/* FB_EIO, FB_ENOMEM: stays closed. */
int fb_file_channel_open(struct fb_file_channel* self, const char* path, enum fb_file_mode mode,
                         struct fb_file_failure* failure);
static inline bool fb_file_channel_is_open(const struct fb_file_channel* self) { return self->path != NULL; }

/* Writes all bytes of `parts` at `position` and moves it behind them. The array is used up: its entries change. After a
 * failure `position` is where it was, and the file may hold some bytes behind it. FB_EIO. */
int fb_file_channel_write_all(struct fb_file_channel* self, struct iovec* parts, size_t part_count,
                              struct fb_file_failure* failure);
/* FB_EIO; FB_ETRUNCATED: the file ends before `offset + size`; failure->offset is where. */
int fb_file_channel_read_exactly(const struct fb_file_channel* self, uint64_t offset, void* to, size_t size,
                                 struct fb_file_failure* failure);
/* Fills `parts` from `offset` on, until they are full or the file ends; *read_size says how far. The array is used up. */
int fb_file_channel_read_parts(const struct fb_file_channel* self, uint64_t offset, struct iovec* parts,
                               size_t part_count, size_t* read_size, struct fb_file_failure* failure);
/* Reads at most `size` bytes if the system has them in memory. 1: *read_size of them (0: the file ends); 0: it would have to
 * wait for the disk, or cannot say, and nothing was read. FB_EIO. */
int fb_file_channel_read_resident(const struct fb_file_channel* self, uint64_t offset, void* to, size_t size,
                                  size_t* read_size, struct fb_file_failure* failure);
/* Waits until what was written is on the disk. FB_EIO. */
int fb_file_channel_sync(struct fb_file_channel* self, struct fb_file_failure* failure);
/* Bytes in the file at this moment. FB_EIO. */
int fb_file_channel_get_size(const struct fb_file_channel* self, uint64_t* size, struct fb_file_failure* failure);

/* Closes it whatever happens. FB_EIO: the system lost bytes that it had taken. A closed one: FB_OK. */
int fb_file_channel_close(struct fb_file_channel* self, struct fb_file_failure* failure);
/* The same, and the file is gone. A file that is gone already is no failure. */
void fb_file_channel_close_and_delete(struct fb_file_channel* self);

/* Fills `failure` in, for users that find bytes wrong; `doing` as in "cannot read the index of"; returns `code`. `why` (may
 * be NULL) goes behind it, else the system's words for `error`. */
int fb_file_failure_set(struct fb_file_failure* failure, int code, int error, const char* doing, const char* path,
                        uint64_t offset, const char* why);
/* The text, or that of the code where there is none; never NULL. */
const char* fb_file_failure_text(const struct fb_file_failure* failure);

#endif
