/* Several input gates read as one: the inputs of a task that wants them all.
 *
 * Channels are numbered through: those of the first gate, then those of the second, and so on. Gates take turns
 * as channels do within each of them, so that neither a gate nor a channel starves; one whose next buffer is a
 * priority event goes first. Flink: UnionInputGate.
 *
 * Owner:   whoever opened it. The gates are borrowed; they ring its bell, so they are closed before it, and are
 *          polled through it only.
 * Threads: as the gates: one consuming task.
 * Waiting: all gates ring one bell, the union's or the task's. */
#ifndef FB_UNION_INPUT_GATE_H
#define FB_UNION_INPUT_GATE_H

#include "gate/input_gate.h"

struct fb_united_gate {
  struct fb_input_gate* gate;
  uint32_t first_channel; /* of the union: its channel 0 */
};

struct fb_union_input_gate {
  struct fb_united_gate* gates;
  uint32_t gate_count;
  uint32_t channel_count;
  uint32_t turn; /* the gate that is asked first */
  struct fb_wakeup own_wakeup;
  struct fb_wakeup* wakeup; /* own_wakeup, or the task's */
};

/* Joins gates whose partitions were not requested yet. FB_EARGUMENT: fewer than two, or one of them twice.
 * FB_ESTATE: one is closed, requested already, or rings another bell. FB_ENOMEM. After an error the gates are as
 * before. */
int fb_union_input_gate_open(struct fb_union_input_gate* self, struct fb_input_gate* const* gates, uint32_t gate_count);
/* After its gates were closed. Idempotent. */
void fb_union_input_gate_close(struct fb_union_input_gate* self);
/* Rings `wakeup` instead of the union's own. Before request_partitions(). */
void fb_union_input_gate_set_wakeup(struct fb_union_input_gate* self, struct fb_wakeup* wakeup);
/* As the gate's; *failed is a channel of the union. */
int fb_union_input_gate_request_partitions(struct fb_union_input_gate* self, uint32_t* failed);

/* As the gate's; item->channel_index is a channel of the union, and its gate is *gate_index, also for an error. */
int fb_union_input_gate_poll(struct fb_union_input_gate* self, struct fb_gate_item* item, uint32_t* gate_index);
/* Sleeps until something may be polled; returns whether a channel is queued. */
bool fb_union_input_gate_wait(struct fb_union_input_gate* self, int64_t timeout_ms);
/* The gate of a channel of the union, which exists; *local is the channel's index there. */
uint32_t fb_union_input_gate_find(const struct fb_union_input_gate* self, uint32_t channel_index, uint32_t* local);

/* Every gate is finished. */
bool fb_union_input_gate_is_finished(const struct fb_union_input_gate* self);
uint32_t fb_union_input_gate_queued_channels(struct fb_union_input_gate* self);

#endif
