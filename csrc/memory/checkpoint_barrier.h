/* What the network reads in the bytes of a checkpoint barrier, and the one change it makes to them.
 *
 * A barrier is an event that another process may have sent: every length in it is checked against its bytes.
 * Flink: EventSerializer, CheckpointBarrier.asUnaligned.
 *
 * Owner:   the slices are the caller's.
 * Threads: none of its own. */
#ifndef FB_CHECKPOINT_BARRIER_H
#define FB_CHECKPOINT_BARRIER_H

#include "memory/buffer.h"

/* Whether the event is a checkpoint barrier; *checkpoint_id if so. */
bool fb_checkpoint_barrier_read(const struct fb_buffer_slice* event, int64_t* checkpoint_id);

/* The same barrier as a priority event that overtakes what is queued: unaligned, without a timeout. Its reference is the
 * caller's. FB_ECORRUPT: these are no barrier's bytes. FB_ENOMEM. */
int fb_checkpoint_barrier_as_unaligned(const struct fb_buffer_slice* barrier, struct fb_buffer_slice* unaligned);

#endif
