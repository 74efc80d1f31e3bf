/* Writes the two files of a sort-merge partition, region after region.
 *
 * In a region subpartitions come in one fixed order, a rotation, so that the readers of many producers do not all begin with
 * the same ones. Blocks are gathered: small ones are copied one behind the other, large ones stay where they are until a
 * system call takes many of them. The index is kept in memory as long as it is small. Flink: PartitionedFileWriter.
 *
 * Owner:   the writer owns both files until finish() or abort(); all-zero is closed.
 * Threads: one.
 * Crash:   the index gets its name in finish(), when all data are in the file: nothing else ever opens. */
#ifndef FB_PARTITION_FILE_WRITER_H
#define FB_PARTITION_FILE_WRITER_H

#include "memory/buffer.h"
#include "partition/partition_file.h"

struct fb_partition_file_writer_options {
  uint32_t subpartition_count;
  uint32_t first_subpartition; /* in every region */
  size_t index_cache_size;     /* bytes; 0: FB_INDEX_CACHE_SIZE */
  bool is_synced;              /* finish() waits for the disk */
  bool has_sums;               /* the file that finish() gives has sums */
};

struct fb_partition_file_writer {
  char* base_path; /* NULL: closed */
  struct fb_partition_file_writer_options options;
  struct fb_file_channel data;
  struct fb_file_channel index; /* open once the index has become too large for memory */
  uint8_t* index_bytes;         /* entries that are not in the index file */
  size_t index_size;            /* bytes of these */
  size_t index_capacity;
  uint32_t index_crc32;     /* of what is in the index file */
  uint64_t index_written;   /* bytes of that */
  struct fb_data_sum* sums; /* of each subpartition; NULL: not asked for */
  uint64_t region_count;    /* finished ones */
  uint64_t position;        /* bytes written, or gathered to be */
  /* the region that is being written */
  bool is_in_region;
  bool is_broadcast;
  uint64_t region_start;
  uint32_t place; /* in the order: of the subpartition that is being written */
  /* what is gathered */
  struct iovec* parts;
  uint32_t part_count;
  uint8_t* staging; /* headers and small blocks */
  size_t staged;
  size_t gathered; /* bytes */
  /* figures */
};

/* Creates the data file. FB_EIO (EEXIST: there is one), FB_EARGUMENT, FB_ENOMEM: stays closed. */
int fb_partition_file_writer_open(struct fb_partition_file_writer* self, const char* base_path,
                                  const struct fb_partition_file_writer_options* options,
                                  struct fb_file_failure* failure);

/* The region's blocks are for all subpartitions, or each for one. */
int fb_partition_file_writer_start_region(struct fb_partition_file_writer* self, bool is_broadcast,
                                          struct fb_file_failure* failure);
/* Adds one buffer as a block; in a region, subpartitions come in the file's order. What it names stays valid and unchanged
 * until flush() or finish_region(). FB_EARGUMENT: it cannot be stored; FB_EIO. */
int fb_partition_file_writer_add(struct fb_partition_file_writer* self, uint32_t subpartition,
                                 const struct fb_buffer_slice* buffer, struct fb_file_failure* failure);
/* The same for blocks of one subpartition that lie one behind the other already, headers included. */
int fb_partition_file_writer_add_blocks(struct fb_partition_file_writer* self, uint32_t subpartition,
                                        const uint8_t* blocks, size_t size, struct fb_file_failure* failure);
/* Writes what is gathered. FB_EIO. */
int fb_partition_file_writer_flush(struct fb_partition_file_writer* self, struct fb_file_failure* failure);
/* Ends the region and writes it. Without blocks there was none. */
int fb_partition_file_writer_finish_region(struct fb_partition_file_writer* self, struct fb_file_failure* failure);

/* The subpartition that comes at `place` of a region. */
static inline uint32_t fb_partition_file_writer_at(const struct fb_partition_file_writer* self, uint32_t place) {
  uint64_t number = (uint64_t)place + self->options.first_subpartition;
  uint32_t count = self->options.subpartition_count;
  return (uint32_t)(number < count ? number : number - count);
}

/* Puts the index in its place and closes the writer: the partition is whole. After a failure abort() is due. */
int fb_partition_file_writer_finish(struct fb_partition_file_writer* self, struct fb_partition_file** file,
                                    struct fb_file_failure* failure);
/* Closes the writer and removes what it has written. A closed one is left alone. */
void fb_partition_file_writer_abort(struct fb_partition_file_writer* self);

#endif
