#include "gate/buffer_debloater.h"

#include <stdlib.h>

#include "ground/errors.h"

#define MS_PER_SECOND 1000

int fb_buffer_debloater_open(struct fb_buffer_debloater* self, const struct fb_buffer_debloater_config* config) {
  if (config->target_ms < 1 || config->samples < 1 || config->threshold_percent < 0) return FB_EARGUMENT;
  if (config->min_size < 1 || config->max_size < config->min_size) return FB_EARGUMENT;
  *self = (struct fb_buffer_debloater){
      .config = *config,
      .average_size = config->max_size,
      .announced_size = config->max_size,
  };
  return FB_OK;
}

/* ---- throughput ------------------------------------------------------------------------------------ */

void fb_buffer_debloater_receive(struct fb_buffer_debloater* self, uint32_t bytes, int64_t now_ms) {
  self->received_bytes += bytes;
  if (self->is_active) return;
  self->is_active = true;
  self->active_since_ms = now_ms;
}

void fb_buffer_debloater_pause(struct fb_buffer_debloater* self, int64_t now_ms) {
  if (self->is_active) self->active_ms += now_ms - self->active_since_ms;
  self->is_active = false;
}

int64_t fb_buffer_debloater_throughput(struct fb_buffer_debloater* self, int64_t now_ms) {
  if (self->is_active) self->active_ms += now_ms - self->active_since_ms;
  self->active_since_ms = now_ms;
  if (self->active_ms > 0)
    self->throughput = (int64_t)((double)self->received_bytes / (double)self->active_ms * MS_PER_SECOND);
  self->received_bytes = self->active_ms = 0;
  return self->throughput;
}

/* ---- size ------------------------------------------------------------------------------------------ */

int32_t fb_buffer_debloater_average(struct fb_buffer_debloater* self, int64_t total_bytes, uint32_t buffer_count) {
  double alpha = 2.0 / ((double)self->config.samples + 1), wanted;

  if (total_bytes < 0 || buffer_count == 0) return FB_EARGUMENT;
  /* At most twice the last size: it then grows no faster than it shrinks. */
  wanted = (double)total_bytes / buffer_count;
  if (wanted > 2 * self->average_size) wanted = 2 * self->average_size;
  self->average_size += alpha * (wanted - self->average_size);
  if (self->average_size > self->config.max_size) self->average_size = self->config.max_size;
  if (self->average_size < self->config.min_size) self->average_size = self->config.min_size;
  return (int32_t)(self->average_size + 0.5);
}

bool fb_buffer_debloater_is_negligible(const struct fb_buffer_debloater* self, int32_t size) {
  int32_t least = (int32_t)(self->announced_size * (self->config.threshold_percent / 100.0));

  if (size == self->announced_size) return true;
  /* The limits themselves are always worth it: nothing further will come. */
  if (size <= self->config.min_size || size >= self->config.max_size) return false;
  return abs(size - self->announced_size) < least;
}

int32_t fb_buffer_debloater_recalculate(struct fb_buffer_debloater* self, int64_t throughput, uint32_t buffers_in_use) {
  int64_t most = INT64_MAX / self->config.target_ms;
  int64_t total = (throughput < most ? throughput : most) * self->config.target_ms / MS_PER_SECOND;
  int32_t size = fb_buffer_debloater_average(self, total, buffers_in_use > 0 ? buffers_in_use : 1);

  if (size < 0 || fb_buffer_debloater_is_negligible(self, size)) return 0;
  self->announced_size = size;
  return size;
}
