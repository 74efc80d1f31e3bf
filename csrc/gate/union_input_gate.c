#include "gate/union_input_gate.h"

#include <stdlib.h>

/* ---- life -------------------------------------------------------------------------------------------- */

static int check_gates(struct fb_input_gate* const* gates, uint32_t gate_count) {
  uint64_t channels = 0;

  if (gate_count < 2) return FB_EARGUMENT;
  for (uint32_t i = 0; i < gate_count; i++) {
    for (uint32_t k = 0; k < i; k++)
      if (gates[k] == gates[i]) return FB_EARGUMENT;
    if (!gates[i]->is_open || gates[i]->is_requested || gates[i]->wakeup != &gates[i]->own_wakeup) return FB_ESTATE;
    channels += gates[i]->channel_count;
  }
  return channels <= UINT32_MAX ? FB_OK : FB_EARGUMENT;
}

int fb_union_input_gate_open(struct fb_union_input_gate* self, struct fb_input_gate* const* gates,
                             uint32_t gate_count) {
  int code = check_gates(gates, gate_count);

  *self = (struct fb_union_input_gate){0};
  if (code < 0) return code;
  self->gates = calloc(gate_count, sizeof *self->gates);
  if (self->gates == NULL) return FB_ENOMEM;
  code = fb_wakeup_open(&self->own_wakeup);
  if (code < 0) {
    free(self->gates);
    *self = (struct fb_union_input_gate){0};
    return code;
  }
  self->gate_count = gate_count;
  for (uint32_t i = 0; i < gate_count; i++) {
    self->gates[i] = (struct fb_united_gate){gates[i], self->channel_count};
    self->channel_count += gates[i]->channel_count;
  }
  fb_union_input_gate_set_wakeup(self, &self->own_wakeup);
  return FB_OK;
}

void fb_union_input_gate_close(struct fb_union_input_gate* self) {
  if (self->gates == NULL) return;
  fb_wakeup_close(&self->own_wakeup);
  free(self->gates);
  *self = (struct fb_union_input_gate){0};
}

void fb_union_input_gate_set_wakeup(struct fb_union_input_gate* self, struct fb_wakeup* wakeup) {
  self->wakeup = wakeup;
  for (uint32_t i = 0; i < self->gate_count; i++) fb_input_gate_set_wakeup(self->gates[i].gate, wakeup);
}

int fb_union_input_gate_request_partitions(struct fb_union_input_gate* self, uint32_t* failed) {
  for (uint32_t i = 0; i < self->gate_count; i++) {
    int code = fb_input_gate_request_partitions(self->gates[i].gate, failed);
    *failed += self->gates[i].first_channel;
    if (code < 0) return code;
  }
  return FB_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------- */

/* Whose turn it is: a gate with a priority event, else the first with anything, else the first at all. */
static uint32_t choose_gate(struct fb_union_input_gate* self) {
  uint32_t chosen = self->turn;
  bool is_found = false;

  for (uint32_t step = 0; step < self->gate_count; step++) {
    uint32_t index = (self->turn + step) % self->gate_count;
    bool has_priority;
    bool has_data = fb_input_gate_has_data(self->gates[index].gate, &has_priority);

    if (has_priority) return index;
    if (has_data && !is_found) chosen = index;
    is_found |= has_data;
  }
  return chosen;
}

int fb_union_input_gate_poll(struct fb_union_input_gate* self, struct fb_gate_item* item, uint32_t* gate_index) {
  uint32_t first = choose_gate(self);

  /* A gate may have nothing in spite of what it said, and one that said nothing may have an error to tell. */
  for (uint32_t step = 0; step < self->gate_count; step++) {
    uint32_t index = (first + step) % self->gate_count;
    int code = fb_input_gate_poll(self->gates[index].gate, item);

    if (code == 0) continue;
    *gate_index = index;
    if (code < 0) {
      self->turn = index; /* who asks again is told again */
      if (!self->gates[index].gate->is_open) item->channel_index = 0;
    } else {
      self->turn = (index + 1) % self->gate_count;
      item->more_available = item->more_available || fb_union_input_gate_queued_channels(self) > 0;
    }
    item->channel_index += self->gates[index].first_channel;
    return code;
  }
  return 0;
}

bool fb_union_input_gate_wait(struct fb_union_input_gate* self, int64_t timeout_ms) {
  uint64_t seen = fb_wakeup_seen(self->wakeup);
  int64_t since_ms;
  uint64_t idle_ms;

  if (fb_union_input_gate_queued_channels(self) > 0) return true;
  since_ms = fb_wakeup_now_ms();
  fb_wakeup_wait(self->wakeup, seen, timeout_ms);
  idle_ms = (uint64_t)(fb_wakeup_now_ms() - since_ms);
  for (uint32_t i = 0; i < self->gate_count; i++)
    atomic_fetch_add_explicit(&self->gates[i].gate->idle_ms, idle_ms, memory_order_relaxed);
  return fb_union_input_gate_queued_channels(self) > 0;
}

uint32_t fb_union_input_gate_find(const struct fb_union_input_gate* self, uint32_t channel_index, uint32_t* local) {
  uint32_t index = self->gate_count - 1;

  while (channel_index < self->gates[index].first_channel) index--;
  *local = channel_index - self->gates[index].first_channel;
  return index;
}

bool fb_union_input_gate_is_finished(const struct fb_union_input_gate* self) {
  for (uint32_t i = 0; i < self->gate_count; i++)
    if (!fb_input_gate_is_finished(self->gates[i].gate)) return false;
  return true;
}

uint32_t fb_union_input_gate_queued_channels(struct fb_union_input_gate* self) {
  uint32_t count = 0;

  for (uint32_t i = 0; i < self->gate_count; i++)
    if (self->gates[i].gate->is_open) count += fb_input_gate_queued_channels(self->gates[i].gate);
  return count;
}
