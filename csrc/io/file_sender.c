#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* preadv2 */
#endif
#include "io/file_sender.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ground/owner.h"
#include "io/io_executor.h"

#ifdef __linux__
#include <sys/sendfile.h>
#include <sys/syscall.h>
#endif

#define BYTES_PER_CALL ((size_t)256 << 10)
#define PAGE_BYTES     4096 /* the smallest: with larger ones fewer are counted, and the disk's thread reads */

/* ---- from the system's memory --------------------------------------------------------------------------- */

#if defined(__linux__) && defined(RWF_NOWAIT)

/* One byte, without a wait. At the end of a file that was shortened there is nothing to wait for either. */
static bool is_byte_ready(int fd, uint64_t offset) {
  uint8_t byte;
  struct iovec range = {&byte, 1};
  ssize_t got;

  do got = preadv2(fd, &range, 1, (off_t)offset, RWF_NOWAIT);
  while (got < 0 && errno == EINTR);
  return got >= 0;
}

/* Whether no page is missing between the two ends; true where the system does not count them. */
static bool are_pages_ready(int fd, uint64_t offset, uint64_t size) {
#ifdef SYS_cachestat
  struct {
    uint64_t offset, size;
  } range = {offset, size};
  struct {
    uint64_t cached, dirty, written_back, evicted, recently_evicted;
  } figures = {0};
  uint64_t pages = (offset + size - 1) / PAGE_BYTES - offset / PAGE_BYTES + 1;

  if (syscall(SYS_cachestat, fd, &range, &figures, 0) == 0) return figures.cached >= pages;
#else
  (void)fd, (void)offset, (void)size;
#endif
  return true;
}

bool fb_file_sender_is_ready(const struct fb_file_region* region, uint32_t skipped) {
  uint64_t offset = region->offset + skipped, size = region->size - skipped;
  int fd = region->file->fd;

  return size == 0 ||
         (are_pages_ready(fd, offset, size) && is_byte_ready(fd, offset + size - 1) && is_byte_ready(fd, offset));
}

int64_t fb_file_sender_send(int socket, const struct fb_file_region* region, uint32_t skipped) {
  off_t offset = (off_t)(region->offset + skipped);
  size_t size = region->size - skipped;
  ssize_t sent;

  do sent = sendfile(socket, region->file->fd, &offset, size < BYTES_PER_CALL ? size : BYTES_PER_CALL);
  while (sent < 0 && errno == EINTR);
  if (sent > 0) return sent;
  if (sent == 0) return FB_ETRUNCATED;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : FB_EIO;
}

#else

bool fb_file_sender_is_ready(const struct fb_file_region* region, uint32_t skipped) {
  (void)region, (void)skipped;
  return false; /* nobody says so: the disk's thread reads */
}

int64_t fb_file_sender_send(int socket, const struct fb_file_region* region, uint32_t skipped) {
  (void)socket, (void)region, (void)skipped;
  errno = ENOTSUP;
  return FB_EIO;
}

#endif

/* ---- from the disk ---------------------------------------------------------------------------------------- */

struct fb_file_sender_read {
  struct fb_io_request request;
  struct fb_task task;
  _Atomic uint32_t owners; /* whoever waits for it, and the thread that has it at the time */
  struct fb_reactor* reactor;
  struct fb_file_region region; /* the rest of it; a reference */
  struct fb_buffer_slice slice;
  int code;
  int error;
  /* The I/O thread's; NULL: nobody waits any more. */
  void (*on_read)(void* context, int code, int error, struct fb_buffer_slice* slice);
  void* context;
};

static void drop_read(struct fb_file_sender_read* self) {
  /* Both halves: the last one sees all that the other did. */
  if (atomic_fetch_sub_explicit(&self->owners, 1, memory_order_acq_rel) != 1) return;
  fb_buffer_slice_release(&self->slice);
  fb_file_region_release(&self->region);
  free(self);
}

static void report_read(struct fb_task* task) {
  struct fb_file_sender_read* self = FB_OWNER(fb_file_sender_read, task, task);
  void (*on_read)(void*, int, int, struct fb_buffer_slice*) = self->on_read;

  if (on_read != NULL) {
    self->on_read = NULL;
    on_read(self->context, self->code, self->error, &self->slice);
    drop_read(self); /* for whoever waited */
  }
  drop_read(self);
}

static void read_region(struct fb_io_request* request) {
  struct fb_file_sender_read* self = FB_OWNER(fb_file_sender_read, request, request);
  uint8_t* to = self->slice.buffer->segment.data + self->slice.offset;
  size_t got = 0;

  while (got < self->region.size && self->code == FB_OK) {
    ssize_t more = pread(self->region.file->fd, to + got, self->region.size - got, (off_t)(self->region.offset + got));
    if (more > 0) {
      got += (size_t)more;
    } else if (more == 0) {
      self->code = FB_ETRUNCATED;
    } else if (errno != EINTR) {
      self->code = FB_EIO;
      self->error = errno;
    }
  }
  /* Refused: the reactor has stopped, and with it whoever waited. */
  if (fb_reactor_post(self->reactor, &self->task) < 0) drop_read(self);
}

int fb_file_sender_start_read(struct fb_reactor* reactor, const struct fb_file_region* region, uint32_t skipped,
                              void (*on_read)(void* context, int code, int error, struct fb_buffer_slice* slice),
                              void* context, struct fb_file_sender_read** read) {
  struct fb_io_executor* disk = fb_reactor_disk(reactor);
  struct fb_file_sender_read* self = disk != NULL ? calloc(1, sizeof *self) : NULL;
  int code;

  if (self == NULL) return FB_ENOMEM;
  code = fb_buffer_new_unpooled(NULL, region->size - skipped, FB_DATA_BUFFER, &self->slice);
  if (code < 0) {
    free(self);
    return code;
  }
  fb_shared_file_retain(region->file);
  self->region = (struct fb_file_region){region->file, region->offset + skipped, region->size - skipped};
  self->request.run = read_region;
  self->task.run = report_read;
  self->reactor = reactor;
  self->on_read = on_read;
  self->context = context;
  atomic_init(&self->owners, 2);
  code = fb_io_executor_post(disk, &self->request);
  if (code < 0) {
    drop_read(self);
    drop_read(self);
    return code;
  }
  *read = self;
  return FB_OK;
}

void fb_file_sender_forget(struct fb_file_sender_read* read) {
  read->on_read = NULL;
  drop_read(read);
}
