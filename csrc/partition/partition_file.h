/* A finished sort-merge partition on disk: one file of data, one index, for all subpartitions.
 *
 * <base>.shuffle.data: regions, one behind the other; in each the subpartitions, one behind the other, beginning with the
 * same one in every region; of each the blocks of buffer_header.h. A broadcast region has its blocks once.
 * <base>.shuffle.index: for each region, for each subpartition (by number), where its blocks begin and how many bytes they
 * have: two int64, little-endian. While a partition is written the index has another name (INDEX_PART_SUFFIX), so only a
 * finished one opens. Bytes as Flink's PartitionedFile.
 *
 * Nothing in the files names the number of subpartitions. The last region is a broadcast one with the end of the partition,
 * so its equal entries are counted.
 *
 * Owner:   counted. The files stay, unless delete_on_drop() was called before the last drop().
 * Threads: any. Channels are open while somebody reads. */
#ifndef FB_PARTITION_FILE_H
#define FB_PARTITION_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/file_channel.h"

#define FB_PARTITION_DATA_SUFFIX       ".shuffle.data"
#define FB_PARTITION_INDEX_SUFFIX      ".shuffle.index"
#define FB_PARTITION_INDEX_PART_SUFFIX ".shuffle.index.part"
#define FB_INDEX_ENTRY_SIZE            16u
#define FB_INDEX_CACHE_SIZE            ((size_t)4 << 20) /* bytes of an index that are kept in memory */

struct fb_index_entry {
  uint64_t offset; /* bytes from the start of the data file */
  uint64_t size;   /* bytes, headers of blocks included */
};

/* A subpartition's data buffers in the file, headers included, in the order in which they are read; events do not count. */
struct fb_data_sum {
  uint64_t size; /* bytes */
  uint32_t crc32;
};

struct fb_partition_file {
  _Atomic uint32_t references;
  _Atomic bool is_deleted; /* at the last drop */
  uint32_t subpartition_count;
  uint64_t region_count;
  uint64_t data_size;  /* bytes */
  uint64_t index_size; /* bytes */
  uint32_t index_crc32;
  struct fb_data_sum* sums; /* of each subpartition; NULL: its writer has not summed, or was another process's */
  char* data_path;
  char* index_path;
  uint8_t* cached_index;        /* as in the file; NULL: it is too large */
  _Atomic uint64_t index_reads; /* calls that read from the index file, since it was opened */
  pthread_mutex_t lock;         /* of what follows */
  uint32_t channel_users;
  struct fb_file_channel data;  /* open while there are users */
  struct fb_file_channel index; /* likewise, if it is not in memory */
};

/* Opens what somebody has finished, perhaps another process. The whole index is checked: regions and subpartitions must
 * follow each other without a gap and end where the data file ends. `subpartition_count` 0: it is found out.
 * FB_EIO (errno ENOENT: not there, or never finished), FB_ECORRUPT, FB_ETRUNCATED, FB_EARGUMENT, FB_ENOMEM. */
int fb_partition_file_open(const char* base_path, uint32_t subpartition_count, size_t cache_size,
                           struct fb_partition_file** self, struct fb_file_failure* failure);
/* For the writer: one that is known to be whole. Takes `cached_index` over (NULL: read it from the file) on success. */
int fb_partition_file_new(const char* base_path, uint32_t subpartition_count, uint64_t region_count, uint64_t data_size,
                          uint8_t* cached_index, struct fb_partition_file** self);
void fb_partition_file_retain(struct fb_partition_file* self);
void fb_partition_file_drop(struct fb_partition_file* self);
/* Both files go with the last reference. */
void fb_partition_file_delete_on_drop(struct fb_partition_file* self);

/* Opens the channels for one more reader. FB_ENOT_FOUND (a file is gone), FB_EIO, FB_ENOMEM. */
int fb_partition_file_start_reading(struct fb_partition_file* self, struct fb_file_failure* failure);
/* The last one closes them. */
void fb_partition_file_stop_reading(struct fb_partition_file* self);
/* Where a region has a subpartition's blocks; inside the data file for sure. Between start and stop, unless the index is in
 * memory. FB_EIO, FB_ETRUNCATED, FB_ECORRUPT. */
int fb_partition_file_get_entry(struct fb_partition_file* self, uint64_t region, uint32_t subpartition,
                                struct fb_index_entry* entry, struct fb_file_failure* failure);

/* `base` and `suffix` in one block for the caller to free. NULL without memory. */
char* fb_partition_file_path(const char* base_path, const char* suffix);

#endif
