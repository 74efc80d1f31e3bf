/* The memory into which all readers of partition files in a process read: a budget of bytes, shared fairly.
 *
 * Memory is lent in chunks; a chunk comes home with the last slice of it. Nobody gets more than a fair share while others
 * want some; who waited longest is first; and a consumer that holds nothing gets the little it needs to go on even when
 * the budget is used up: room for one block, mostly FB_READ_CHUNK_MIN. So readers of many partitions, of which one waits for
 * the other, do not stop each other, as they can in Flink until a time-out. That is left for blocks of more than
 * FB_READ_CHUNK_SURE bytes, as a last resort. Flink: BatchShuffleReadBufferPool.
 *
 * Nobody waits in vain. Of a consumer that was refused one of these holds:
 *   it holds memory   Its request is posted at the latest when the last of it comes home: at once if it waits for its own
 *                     share; if it stands in line, perhaps earlier, when its turn comes. What it holds is what its reader
 *                     can give, so who waits for the reader has something to take.
 *   it holds nothing  It was refused for a block of unusual size only. Its owner asks again every while, since no memory of
 *                     its own will call it, until it is granted or FB_ETIMEOUT.
 * A call is not a grant: the consumer keeps its place until it asks, and memory that was called for is not given to those
 * behind it. When it leaves the line (granted, refused for its share, closed), the next ones are called.
 *
 * Owner:   counted: open() gives a reference, consumers and chunks hold one each.
 * Threads: any. One lock, under which nothing is called but fb_io_executor_post(). */
#ifndef FB_READ_BUFFER_POOL_H
#define FB_READ_BUFFER_POOL_H

#include "io/io_executor.h"
#include "memory/buffer.h"

#define FB_READ_CHUNK_MIN ((uint32_t)4 << 10) /* bytes that are kept for every consumer */
#define FB_READ_CHUNK_SURE \
  ((uint32_t)128 << 10) /* who holds nothing gets so much in any case, if a block is as large */
#define FB_READ_CHUNK_MAX ((uint32_t)512 << 10)

struct fb_read_buffer_pool; /* opaque */
struct fb_read_consumer;    /* opaque: one reader's share */

/* `timeout_ms` without any movement in the pool fails a reader that waits. FB_EARGUMENT (less than one chunk), FB_ENOMEM. */
int fb_read_buffer_pool_open(uint64_t budget, int64_t timeout_ms, struct fb_read_buffer_pool** self);
void fb_read_buffer_pool_retain(struct fb_read_buffer_pool* self);
void fb_read_buffer_pool_drop(struct fb_read_buffer_pool* self);

/* `request` is posted to `executor` when memory may be there for somebody who was refused; both are borrowed until close().
 * FB_ENOMEM. */
int fb_read_buffer_pool_open_consumer(struct fb_read_buffer_pool* pool, struct fb_io_executor* executor,
                                      struct fb_io_request* request, struct fb_read_consumer** self);
/* Its request is not posted again by the pool. Chunks that are out stay valid. */
void fb_read_buffer_pool_close_consumer(struct fb_read_consumer* self);

/* Takes a chunk of `least` to `wanted` bytes, as large as is fair: *chunk = NULL if there is none now, and the consumer waits
 * in line. FB_ETIMEOUT: it has waited, and nothing moved, for the time-out. FB_ENOMEM. */
int fb_read_buffer_pool_request(struct fb_read_consumer* self, uint32_t least, uint32_t wanted,
                                struct fb_buffer** chunk);
bool fb_read_buffer_pool_holds_nothing(struct fb_read_consumer* self);
/* Sleeps until something came home or `timeout_ms` are over. */
void fb_read_buffer_pool_wait(struct fb_read_buffer_pool* self, int64_t timeout_ms);

struct fb_read_pool_usage {
  uint64_t budget;
  uint64_t used;   /* bytes in chunks that are out */
  uint64_t cached; /* bytes kept for the next ones */
  uint64_t peak;   /* highest `used` */
  uint32_t consumers;
  uint32_t waiting;
  uint64_t overdrafts; /* chunks granted over the budget */
};
void fb_read_buffer_pool_get_usage(struct fb_read_buffer_pool* self, struct fb_read_pool_usage* usage);

#endif
