/* How large a gate's senders should make their buffers, so that what is under way is consumed in about a target time.
 *
 * Three steps: throughput, in bytes per second of the time in which there was something to consume; a moving
 * average of the size that follows from it and from the number of buffers in use; and whether the new size differs
 * enough from the one announced last to be announced. The number of buffers stays, only their size changes.
 * Flink: ThroughputCalculator, BufferSizeEMA, BufferDebloater.
 *
 * Owner:   a plain value; there is nothing to close.
 * Threads: one. No clock is read: times are milliseconds of any clock that never goes back. */
#ifndef FB_BUFFER_DEBLOATER_H
#define FB_BUFFER_DEBLOATER_H

#include <stdbool.h>
#include <stdint.h>

struct fb_buffer_debloater_config {
  int64_t target_ms; /* how long it should take to consume what is under way */
  int32_t max_size;  /* bytes; what senders use before anything is announced */
  int32_t min_size;
  int32_t threshold_percent; /* changes by less are not announced, unless they reach a limit */
  int32_t samples;           /* how many calculations the average goes back, roughly */
};

struct fb_buffer_debloater {
  struct fb_buffer_debloater_config config;
  /* Throughput: what came in the time counted so far, and since when it is counted. */
  int64_t received_bytes;
  int64_t active_ms;
  int64_t active_since_ms; /* while is_active */
  bool is_active;
  int64_t throughput; /* bytes per second, as calculated last */
  /* Size. */
  double average_size;
  int32_t announced_size;
};

/* FB_EARGUMENT unless target_ms, samples >= 1, 0 < min_size <= max_size, 0 <= threshold_percent. */
int fb_buffer_debloater_open(struct fb_buffer_debloater* self, const struct fb_buffer_debloater_config* config);

/* Counts bytes that are about to be consumed, and the time from now on. */
void fb_buffer_debloater_receive(struct fb_buffer_debloater* self, uint32_t bytes, int64_t now_ms);
/* Nothing is there to consume: time stops counting until something is received. */
void fb_buffer_debloater_pause(struct fb_buffer_debloater* self, int64_t now_ms);
/* Bytes per second since the last call, which starts the next measurement; without any active time between them,
 * the same as then. */
int64_t fb_buffer_debloater_throughput(struct fb_buffer_debloater* self, int64_t now_ms);

/* The average after one more sample: `total_bytes` over `buffer_count` buffers. FB_EARGUMENT for a total below 0 or
 * for no buffers. */
int32_t fb_buffer_debloater_average(struct fb_buffer_debloater* self, int64_t total_bytes, uint32_t buffer_count);
/* Whether `size` is too close to the last announced one to be worth a message. */
bool fb_buffer_debloater_is_negligible(const struct fb_buffer_debloater* self, int32_t size);
/* The size to announce at this throughput (bytes per second, not below 0), or 0: none. */
int32_t fb_buffer_debloater_recalculate(struct fb_buffer_debloater* self, int64_t throughput, uint32_t buffers_in_use);

#endif
