/* Reads one subpartition of a partition file: the blocks of each region, one after another, into memory it is given.
 *
 * A call fills the memory as far as whole blocks fit; those of several regions lie behind each other. What is cut off at its
 * end is read again by the next call. Only a block of plain data that is larger than all of the memory is given in pieces.
 * Every header is checked against its region, events against their bytes. Flink: PartitionedFileReader.
 *
 * Owner:   holds a reference of the file, and its channels open (fb_partition_file_start_reading).
 * Threads: one at a time. */
#ifndef FB_PARTITION_FILE_READER_H
#define FB_PARTITION_FILE_READER_H

#include "memory/buffer.h"
#include "partition/partition_file.h"

#define FB_BLOCK_SIZE_MAX (256u << 20) /* bytes that must be read at once at most */

struct fb_partition_file_reader {
  struct fb_partition_file* file; /* NULL: closed */
  uint32_t subpartition;
  uint64_t region;        /* the next one to begin with */
  uint64_t offset;        /* in the data file: what is read next */
  uint64_t left;          /* bytes of this region's blocks that are not given yet */
  uint32_t block_left;    /* bytes of a block that is given in pieces */
  uint8_t block_type;     /* of that */
  uint8_t last_type;      /* of the block given last */
  uint32_t least;         /* bytes of memory without which read() gives nothing */
  bool is_summing;        /* the caller's wish, between open() and the first read() */
  struct fb_data_sum sum; /* of the data buffers that were given */
};

/* What read() gives: where the bytes of a buffer lie in the memory. */
struct fb_file_block {
  uint32_t offset;
  uint32_t size;
  uint64_t position; /* of these bytes in the file */
  uint8_t data_type; /* enum fb_buffer_data_type */
  bool is_compressed;
};
/* Takes one block; a negative code ends read() with it. */
typedef int (*fb_take_block)(void* context, const struct fb_file_block* block);

#define FB_READER_LEAST 64u /* bytes of memory below which nothing is read */

/* Opens the channels, if nobody else has. Codes as fb_partition_file_start_reading(); stays closed. */
int fb_partition_file_reader_open(struct fb_partition_file_reader* self, struct fb_partition_file* file,
                                  uint32_t subpartition, struct fb_file_failure* failure);
void fb_partition_file_reader_close(struct fb_partition_file_reader* self);

/* Finds the next bytes: `offset` and `left` say where they lie and how many follow each other there. 1: there are some; 0:
 * all was given, and the last was the end of the partition. FB_ETRUNCATED: the end is missing. */
int fb_partition_file_reader_find(struct fb_partition_file_reader* self, struct fb_file_failure* failure);
/* Reads into `memory` and gives what was read to `take`. 1: there may be more; 0: that was all; FB_NEEDS_BUFFER: the next
 * block has `least` bytes and needs more memory at once. FB_EIO, FB_ECORRUPT, FB_ETRUNCATED, FB_ETOO_LARGE, take()'s. */
int fb_partition_file_reader_read(struct fb_partition_file_reader* self, uint8_t* memory, uint32_t capacity,
                                  fb_take_block take, void* context, struct fb_file_failure* failure);
/* Goes over the next block without reading more than its header. 1: there was one, at `position`; 0: that was all. Not between
 * calls of read(). FB_EIO, FB_ECORRUPT, FB_ETRUNCATED. */
int fb_partition_file_reader_skip(struct fb_partition_file_reader* self, struct fb_file_block* block,
                                  struct fb_file_failure* failure);

#endif
