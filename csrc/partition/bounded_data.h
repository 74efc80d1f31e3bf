/* The file of one subpartition of a hash-style blocking partition: buffers one behind the other, each behind its header.
 *
 * Written once by one, and read any number of times, by many at once, when it is finished. Three storages:
 *   FILE       written and read through the file; readers have buffers of their own.
 *   MMAP       written into mapped memory and read there; the file is as long as what is mapped.
 *   FILE_MMAP  written through the file, mapped when it is finished.
 * Mapped files consist of regions, none larger than a slice can name, and no buffer crosses their borders. What readers
 * take from a mapping is no copy; the mapping goes when the last slice of it does. Flink: BoundedData and its three kinds.
 *
 * Owner:   embedded in the partition; owns its file and regions. All-zero is closed. Readers hold the partition.
 * Threads: one writes and finishes; afterwards any number of readers, each used by one thread at a time. */
#ifndef FB_BOUNDED_DATA_H
#define FB_BOUNDED_DATA_H

#include <pthread.h>

#include "io/file_channel.h"
#include "io/file_region.h"
#include "partition/buffer_header.h"

enum fb_bounded_storage {
  FB_BOUNDED_FILE = 0,
  FB_BOUNDED_MMAP = 1,
  FB_BOUNDED_FILE_MMAP = 2,
};

struct fb_bounded_region;
struct fb_bounded_file;

struct fb_bounded_data {
  enum fb_bounded_storage storage;
  char* path;                         /* NULL: closed */
  struct fb_file_channel file;        /* the writer's; closed while it is parked, and when it is finished */
  struct fb_bounded_region** regions; /* of a mapped one */
  uint32_t region_count;
  uint32_t largest; /* bytes of the largest buffer */
  uint64_t region_limit;
  uint64_t region_start; /* byte of the file where the region that is being written begins */
  uint64_t size;         /* bytes of all buffers with their headers, and what regions left free at their ends */
  uint64_t data_count, event_count; /* buffers */
  bool is_created, is_finished, is_deleted;
  pthread_mutex_t lock;           /* of the two below */
  struct fb_bounded_file* shared; /* what readers of FILE have open; NULL: nobody reads */
  uint32_t reader_count;
};

/* Creates the file. `region_limit` bytes: 0 = the most there can be. FB_EIO, FB_ENOMEM. */
int fb_bounded_data_open(struct fb_bounded_data* self, enum fb_bounded_storage storage, const char* path,
                         uint64_t region_limit, struct fb_file_failure* failure);
/* The same, but the file is created by the first write: of thousands, each is then opened once less. FB_ENOMEM. */
int fb_bounded_data_prepare(struct fb_bounded_data* self, enum fb_bounded_storage storage, const char* path,
                            uint64_t region_limit, struct fb_file_failure* failure);
/* Writes buffers, which stay the caller's, with one system call where the storage allows. FB_EARGUMENT: one cannot be stored;
 * FB_EIO, FB_ENOMEM, FB_ESTATE (it is finished): what it holds afterwards is not to be read. */
int fb_bounded_data_write(struct fb_bounded_data* self, const struct fb_buffer_slice* buffers, uint32_t count,
                          struct fb_file_failure* failure);
/* Closes the descriptor until the next write: with many subpartitions there would be too many. */
int fb_bounded_data_park(struct fb_bounded_data* self, struct fb_file_failure* failure);
/* Ends writing; `syncs`: and waits until everything is on the disk. FB_EIO, FB_ENOMEM. */
int fb_bounded_data_finish(struct fb_bounded_data* self, bool syncs, struct fb_file_failure* failure);
/* Removes the file, if it is there. What readers have, they keep. Idempotent; one thread at a time, and nobody writes. */
void fb_bounded_data_delete(struct fb_bounded_data* self);
/* No reader is left. */
void fb_bounded_data_close(struct fb_bounded_data* self);

/* ---- readers -------------------------------------------------------------------------------------- */

#define FB_BOUNDED_HEADER_ROOM FB_BUFFER_HEADER_SIZE /* a read buffer has room for the next header, too */

enum fb_bounded_step {
  FB_BOUNDED_END = 0,
  FB_BOUNDED_READ = 1,         /* there is a buffer */
  FB_BOUNDED_NOT_RESIDENT = 2, /* it would have to wait for the disk */
};

struct fb_bounded_reader {
  struct fb_bounded_data* data; /* NULL: closed */
  struct fb_bounded_file* file; /* of FILE */
  uint64_t position;            /* of the next header */
  uint64_t checked_until;       /* mapped: bytes before it are in memory */
  uint32_t region;              /* mapped: where `position` is */
  uint64_t data_left;           /* buffers; at the end, and not before, both are 0 */
  uint64_t event_left;
  bool has_header;
  uint8_t header[FB_BUFFER_HEADER_SIZE]; /* of FILE, read along with what came before */
};

/* The data are finished. FB_ENOT_FOUND: the file is gone; FB_EIO, FB_ENOMEM. */
int fb_bounded_reader_open(struct fb_bounded_reader* self, struct fb_bounded_data* data,
                           struct fb_file_failure* failure);
void fb_bounded_reader_close(struct fb_bounded_reader* self);
/* Gives the next buffer. FILE: its bytes are read into `into`, which has room for `largest` + FB_BOUNDED_HEADER_ROOM bytes; or,
 * where `region` is not NULL and it is no event, only its place is given there, with a reference of the file. Mapped: the
 * slice gets a reference of its region. `may_wait`: for the disk. enum fb_bounded_step; FB_ECORRUPT, FB_ETRUNCATED, FB_EIO,
 * FB_ENOMEM. */
int fb_bounded_reader_next(struct fb_bounded_reader* self, bool may_wait, struct fb_buffer* into,
                           struct fb_buffer_slice* slice, struct fb_file_region* region,
                           struct fb_file_failure* failure);

#endif
