/* A file that is read or written piece after piece by an executor, while its user goes on.
 *
 * Operations run in the order in which they were submitted. Each one comes back through take(), in the same order: the return
 * queue. The first failure stays: what was submitted behind it comes back undone with its code, and submit() refuses.
 * Without an executor operations are done in submit(). Flink: AsynchronousFileIOChannel, SynchronousFileIOChannel.
 *
 * Owner:   the channel owns its file and a reference of the executor; operations, and the bytes they name, are the user's,
 *          and stay where they are from submit() to take().
 * Threads: one submits, one takes (they may be two); the executor's does the work. */
#ifndef FB_IO_CHANNEL_H
#define FB_IO_CHANNEL_H

#include <pthread.h>

#include "ground/wakeup.h"
#include "io/file_channel.h"
#include "io/io_executor.h"

#define FB_IO_SEQUENTIAL UINT64_MAX /* an offset: behind the operation before it */

enum fb_io_operation_kind {
  FB_IO_WRITE = 0,
  FB_IO_READ = 1,    /* all of `size`, or FB_ETRUNCATED */
  FB_IO_READ_UP = 2, /* `size` bytes, or what there is before the end of the file */
};

struct fb_io_operation {
  enum fb_io_operation_kind kind;
  struct iovec parts[2]; /* the bytes; the second may be empty */
  uint64_t offset;       /* bytes from the file's start, or FB_IO_SEQUENTIAL; once done: where it was */
  size_t done_size;      /* bytes written or read */
  int code;
  struct fb_io_operation* next; /* the channel's */
  void* owner;                  /* the user's */
};

struct fb_io_operation_list {
  struct fb_io_operation* first;
  struct fb_io_operation** last_link;
};

struct fb_io_channel {
  struct fb_file_channel file;
  struct fb_io_executor* executor; /* NULL: none */
  struct fb_io_request request;
  struct fb_wakeup returned; /* rung for each operation that is done */
  pthread_mutex_t lock;      /* of what follows */
  struct fb_io_operation_list submitted, done;
  uint32_t outstanding_count; /* submitted, and not done */
  bool is_open;
  uint64_t position; /* of the next sequential operation; the worker's */
  struct fb_file_failure
      failure; /* the first one; code 0: none. Written once, before any operation comes back with it */
};

/* `executor` (retained) may be NULL. FB_EIO, FB_ENOMEM: stays closed. */
int fb_io_channel_open(struct fb_io_channel* self, const char* path, enum fb_file_mode mode,
                       struct fb_io_executor* executor, struct fb_file_failure* failure);
/* The code of the failure, if there was one: the operation is not taken. FB_ESTATE: closed, or its executor is. */
int fb_io_channel_submit(struct fb_io_channel* self, struct fb_io_operation* operation);
/* The first operation that is done; NULL: none is, within the time. timeout_ms < 0: no limit, while there are any under way. */
struct fb_io_operation* fb_io_channel_take(struct fb_io_channel* self, int64_t timeout_ms);
uint32_t fb_io_channel_outstanding(struct fb_io_channel* self);
/* Waits for what is under way, then closes the file, and deletes it if `deletes`. What is done can be taken before and
 * after. The first failure of all. Closing again does nothing. */
int fb_io_channel_close(struct fb_io_channel* self, bool deletes, struct fb_file_failure* failure);
/* Forgets a channel that is closed, and what nobody took. All-zero again. */
void fb_io_channel_discard(struct fb_io_channel* self);

#endif
