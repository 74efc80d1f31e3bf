#include "record/channel_selector.h"

#include "ground/wide.h"

int fb_channel_selector_open(struct fb_channel_selector* self, enum fb_channel_selector_kind kind,
                             uint32_t channel_count, uint32_t max_parallelism, uint64_t seed) {
  bool is_keyed = kind == FB_SELECT_KEY_GROUP;

  if (channel_count == 0 || (uint32_t)kind >= FB_SELECT_KIND_COUNT) return FB_EARGUMENT;
  if (is_keyed && fb_key_group_check(max_parallelism, channel_count) < 0) return FB_EARGUMENT;

  *self = (struct fb_channel_selector){.kind = kind,
                                       .channel_count = channel_count,
                                       .channel = channel_count - 1,
                                       .max_parallelism = is_keyed ? max_parallelism : 0,
                                       .shift = UINT32_MAX,
                                       .random = seed};
  if (is_keyed && (max_parallelism & (max_parallelism - 1)) == 0)
    self->shift = (uint32_t)__builtin_ctz(max_parallelism);
  if (kind == FB_SELECT_REBALANCE)
    self->channel = (uint32_t)((fb_channel_selector_random(&self->random) >> 32) * channel_count >> 32);
  return FB_OK;
}

/* A loop without a branch inside, so that the compiler can take several hashes at once. */
static FB_WIDE_INLINE void select_by_shift(const struct fb_channel_selector* self, const int32_t* hashes, size_t count,
                                           uint32_t* channels) {
  uint32_t mask = self->max_parallelism - 1, channel_count = self->channel_count, shift = self->shift;

  for (size_t i = 0; i < count; i++) channels[i] = (fb_key_group_murmur(hashes[i]) & mask) * channel_count >> shift;
}
static FB_WIDE_TARGET void select_by_shift_wide(const struct fb_channel_selector* self, const int32_t* hashes,
                                                size_t count, uint32_t* channels) {
  select_by_shift(self, hashes, count, channels);
}

void fb_channel_selector_of_hashes(const struct fb_channel_selector* self, const int32_t* hashes, size_t count,
                                   uint32_t* channels) {
  if (self->shift == UINT32_MAX)
    for (size_t i = 0; i < count; i++) channels[i] = fb_channel_selector_of_hash(self, hashes[i]);
  else if (fb_wide_is_there()) select_by_shift_wide(self, hashes, count, channels);
  else select_by_shift(self, hashes, count, channels);
}

void fb_channel_selector_next_many(struct fb_channel_selector* self, size_t count, uint32_t* channels) {
  for (size_t i = 0; i < count; i++) channels[i] = fb_channel_selector_next(self);
}
