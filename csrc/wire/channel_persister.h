/* Which buffers of one input channel belong to an unaligned checkpoint: all that its barrier has overtaken, wherever on
 * this side they are, and all that arrive until it does.
 *
 * It is shown everything that the channel brings, in order. While a checkpoint waits for the channel's barrier it keeps
 * copies of the data: buffers that it held on to would be missing as credit, and a sender without credit may never come
 * to send the barrier. Flink: ChannelStatePersister, RemoteInputChannel.checkpointStarted.
 *
 * Owner:   the copies are in a list of its own, until stop() hands them over. All-zero but for open().
 * Threads: one at a time; that of a remote channel is guarded by the channel's lock. */
#ifndef FB_CHANNEL_PERSISTER_H
#define FB_CHANNEL_PERSISTER_H

#include "memory/checkpoint_barrier.h"
#include "memory/slice_list.h"

/* Bytes that the channels of a gate may still keep for the checkpoint that runs. */
struct fb_persisting_budget {
  _Atomic int64_t left;
};

struct fb_channel_persister {
  int64_t last_barrier_id; /* the newest that this channel has brought; INT64_MIN: none yet */
  int32_t last_barrier_sequence;
  int64_t checkpoint_id; /* that began last */
  bool is_persisting;
  int failure; /* FB_OK; FB_ENOMEM; FB_ETOO_LARGE: the budget is used up */
  struct fb_slice_list arrived;
  struct fb_persisting_budget* budget; /* while it is persisting */
};

void fb_channel_persister_open(struct fb_channel_persister* self);
void fb_channel_persister_close(struct fb_channel_persister* self);

/* For see(): what is rare. */
void fb_channel_persister_look_at(struct fb_channel_persister* self, const struct fb_buffer_slice* slice,
                                  int32_t sequence_number);
/* The channel has brought this. */
static inline void fb_channel_persister_see(struct fb_channel_persister* self, const struct fb_buffer_slice* slice,
                                            int32_t sequence_number) {
  if (self->is_persisting || fb_buffer_data_type_is_event((enum fb_buffer_data_type)slice->data_type))
    fb_channel_persister_look_at(self, slice, sequence_number);
}

/* A checkpoint begins; what an older one has kept is dropped. FB_ESTATE: the channel has brought the barrier of a newer
 * one, and nothing begins. */
int fb_channel_persister_start(struct fb_channel_persister* self, int64_t checkpoint_id,
                               struct fb_persisting_budget* budget);
/* Whether data with this number, brought before start(), belong to the checkpoint. */
bool fb_channel_persister_is_overtaken(const struct fb_channel_persister* self, int64_t checkpoint_id,
                                       int32_t sequence_number);
/* It ends: moves what was kept behind `arrived`. Then FB_OK, or FB_ENOMEM and FB_ETOO_LARGE: something is missing. */
int fb_channel_persister_stop(struct fb_channel_persister* self, struct fb_slice_list* arrived);

#endif
