/* Which channel a record goes to, as far as that takes no look into the record.
 *
 * Everything is inline: the record loop pays about a nanosecond. Only a keyed selector needs something of the
 * record, and that is the hash of its key (key_group.h); a user's function is up to the caller.
 * Flink: ChannelSelector and the StreamPartitioners.
 *
 * Owner:   nothing to free. Threads: one at a time, the one that writes. */
#ifndef FB_CHANNEL_SELECTOR_H
#define FB_CHANNEL_SELECTOR_H

#include <stdbool.h>

#include "record/key_group.h"

enum fb_channel_selector_kind {
  FB_SELECT_GLOBAL,      /* channel 0 */
  FB_SELECT_FORWARD,     /* channel 0: there is only one */
  FB_SELECT_ROUND_ROBIN, /* 0, 1, .. n - 1, 0, .. */
  FB_SELECT_RESCALE,     /* the same, over the channels of this producer's own consumers */
  FB_SELECT_REBALANCE,   /* the same from a random start, so that producers do not go in step */
  FB_SELECT_SHUFFLE,     /* uniformly random */
  FB_SELECT_BROADCAST,   /* every channel: asking for one is an error of the caller */
  FB_SELECT_KEY_GROUP,   /* of_hash() */
  FB_SELECT_CUSTOM,      /* the caller asks the user's function */
  FB_SELECT_RANGE,       /* the caller asks range_bounds.h */
  FB_SELECT_KIND_COUNT
};

struct fb_channel_selector {
  enum fb_channel_selector_kind kind;
  uint32_t channel_count;
  uint32_t channel;         /* the last one chosen by turns; channel_count - 1 before the first 0 */
  uint32_t max_parallelism; /* KEY_GROUP: how many key groups; else 0 */
  uint32_t shift;           /* KEY_GROUP: log2(max_parallelism) where it is whole, else UINT32_MAX */
  uint64_t random;          /* SHUFFLE: state of the generator */
};

/* `seed` decides REBALANCE's start and SHUFFLE's sequence; `max_parallelism` is for KEY_GROUP, elsewhere
 * ignored. FB_EARGUMENT: no channels, or channel_count > max_parallelism, or max_parallelism > 32768;
 * nothing is written. */
int fb_channel_selector_open(struct fb_channel_selector* self, enum fb_channel_selector_kind kind,
                             uint32_t channel_count, uint32_t max_parallelism, uint64_t seed);

/* The next number of the splitmix64 sequence. */
static inline uint64_t fb_channel_selector_random(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);

  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Whether next() knows the channel without seeing the record. */
static inline bool fb_channel_selector_is_blind(const struct fb_channel_selector* self) {
  return self->kind < FB_SELECT_BROADCAST;
}

/* The channel of the next record; only for a blind selector. */
static inline uint32_t fb_channel_selector_next(struct fb_channel_selector* self) {
  if (self->kind <= FB_SELECT_FORWARD) return 0;
  if (self->kind == FB_SELECT_SHUFFLE)
    return (uint32_t)((fb_channel_selector_random(&self->random) >> 32) * self->channel_count >> 32);
  self->channel = self->channel + 1 < self->channel_count ? self->channel + 1 : 0;
  return self->channel;
}

/* The channel of a key's hash code; only for KEY_GROUP. */
static inline uint32_t fb_channel_selector_of_hash(const struct fb_channel_selector* self, int32_t hash) {
  uint32_t mixed = fb_key_group_murmur(hash);

  if (self->shift != UINT32_MAX) return (mixed & (self->max_parallelism - 1)) * self->channel_count >> self->shift;
  return fb_key_group_operator(mixed % self->max_parallelism, self->max_parallelism, self->channel_count);
}

/* of_hash() of each hash, or the channel of each of `count` records. `channels` may be the memory of
 * `hashes`. */
void fb_channel_selector_of_hashes(const struct fb_channel_selector* self, const int32_t* hashes, size_t count,
                                   uint32_t* channels);
void fb_channel_selector_next_many(struct fb_channel_selector* self, size_t count, uint32_t* channels);

#endif
