#include "wire/channel_persister.h"

void fb_channel_persister_open(struct fb_channel_persister* self) {
  *self = (struct fb_channel_persister){.last_barrier_id = INT64_MIN};
}

void fb_channel_persister_close(struct fb_channel_persister* self) { fb_slice_list_close(&self->arrived); }

static void keep(struct fb_channel_persister* self, const struct fb_buffer_slice* data) {
  if (self->failure < 0) return;
  /* Relaxed: a count that the channels share, no partner. */
  if (atomic_fetch_sub_explicit(&self->budget->left, data->size, memory_order_relaxed) < data->size)
    self->failure = FB_ETOO_LARGE;
  else self->failure = fb_slice_list_add_copy(&self->arrived, data);
  if (self->failure < 0) fb_slice_list_close(&self->arrived); /* of no use without the rest */
}

void fb_channel_persister_look_at(struct fb_channel_persister* self, const struct fb_buffer_slice* slice,
                                  int32_t sequence_number) {
  int64_t checkpoint_id;

  if (fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)slice->data_type)) {
    if (slice->size > 0) keep(self, slice);
    return;
  }
  if (!fb_checkpoint_barrier_read(slice, &checkpoint_id) || checkpoint_id <= self->last_barrier_id) return;
  self->last_barrier_id = checkpoint_id;
  self->last_barrier_sequence = sequence_number;
  /* It is this checkpoint's, or that of one which will take its place. */
  if (checkpoint_id >= self->checkpoint_id) self->is_persisting = false;
}

int fb_channel_persister_start(struct fb_channel_persister* self, int64_t checkpoint_id,
                               struct fb_persisting_budget* budget) {
  if (checkpoint_id < self->last_barrier_id) return FB_ESTATE;
  fb_slice_list_close(&self->arrived);
  self->failure = FB_OK;
  self->checkpoint_id = checkpoint_id;
  self->budget = budget;
  self->is_persisting = checkpoint_id > self->last_barrier_id;
  return FB_OK;
}

bool fb_channel_persister_is_overtaken(const struct fb_channel_persister* self, int64_t checkpoint_id,
                                       int32_t sequence_number) {
  if (self->last_barrier_id != checkpoint_id) return true;
  /* Numbers wrap around, but never are two that are in the channel at the same time 2^31 apart. */
  return (int32_t)((uint32_t)sequence_number - (uint32_t)self->last_barrier_sequence) < 0;
}

int fb_channel_persister_stop(struct fb_channel_persister* self, struct fb_slice_list* arrived) {
  int code = self->failure;

  if (code == FB_OK) code = fb_slice_list_move(arrived, &self->arrived);
  fb_slice_list_close(&self->arrived);
  self->failure = FB_OK;
  self->is_persisting = false;
  return code;
}
