/* What writing a record into a result partition costs in C, and what its mark for the flusher adds.
 *
 *   bench_result_partition ROUNDS
 *
 * One JSON line a case: nanoseconds a record, the best and the median of 7 repeats. The reader polls in the
 * same thread whenever a buffer is full. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "partition/output_flusher.h"
#include "partition/pipelined_partition.h"

#define REPEATS  7
#define CHANNELS 8
#define SEGMENT  32768

struct bench {
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partition;
  struct fb_output_flusher* flusher;
  uint64_t bytes_read;
};

static void ignore(void* context, uint32_t index) { (void)context, (void)index; }
static void ignore_priority(void* context, uint32_t index, int32_t sequence) {
  (void)context, (void)index, (void)sequence;
}

static void open_bench(struct bench* self, bool is_flushed) {
  struct fb_buffer_pool_options options = {.min = CHANNELS + 1, .max = FB_UNBOUNDED};
  struct fb_availability_listener listener = {ignore, ignore_priority, NULL};
  struct fb_local_buffer_pool* pool;

  *self = (struct bench){0};
  check(fb_network_buffer_pool_open(64, SEGMENT, &self->network), "network pool");
  check(fb_local_buffer_pool_open(self->network, &options, &pool), "local pool");
  check(fb_pipelined_partition_open(FB_PIPELINED, CHANNELS, pool, &self->partition), "partition");
  for (uint32_t i = 0; i < CHANNELS; i++)
    check(fb_subpartition_attach(fb_pipelined_partition_queue(self->partition, i), listener.context,
                                 &(struct fb_view_options){.listener = listener}),
          "view");
  if (!is_flushed) return;
  check(fb_output_flusher_open(&self->flusher), "flusher");
  check(fb_output_flusher_add(self->flusher, self->partition, 100), "flusher");
}

static void close_bench(struct bench* self) {
  fb_output_flusher_close(self->flusher);
  for (uint32_t i = 0; i < CHANNELS; i++)
    fb_subpartition_detach(fb_pipelined_partition_queue(self->partition, i), NULL);
  fb_result_partition_close(self->partition);
  fb_result_partition_drop(self->partition);
  fb_network_buffer_pool_close(self->network);
}

static void drain(struct bench* self, uint32_t channel) {
  struct fb_polled_buffer polled;

  while (fb_subpartition_poll(fb_pipelined_partition_queue(self->partition, channel), NULL, &polled) == 1) {
    self->bytes_read += polled.slice.size;
    fb_buffer_slice_release(&polled.slice);
  }
}

/* As the record writer does: encode behind the builder's position, commit, mark. */
static void write_in_place(struct bench* self, uint64_t rounds, bool is_marked) {
  for (uint64_t i = 0; i < rounds; i++) {
    uint32_t channel = (uint32_t)(i % CHANNELS);
    struct fb_buffer_builder* builder = &self->partition->unicast[channel];

    if (builder->buffer == NULL) check(fb_result_partition_open_unicast(self->partition, channel), "open");
    if (builder->buffer == NULL) check(FB_ENOMEM, "open");
    memcpy(builder->data + builder->position, &i, sizeof(i));
    builder->position += (uint32_t)sizeof(i);
    fb_buffer_builder_commit(builder);
    if (fb_buffer_builder_is_full(builder)) {
      fb_result_partition_finish_unicast(self->partition, channel);
      drain(self, channel);
    }
    if (is_marked) fb_result_partition_mark_written(self->partition, channel);
  }
}

static void emit(struct bench* self, uint64_t rounds, size_t size, bool is_broadcast) {
  static const uint8_t record[128];

  for (uint64_t i = 0; i < rounds; i++) {
    uint32_t channel = (uint32_t)(i % CHANNELS);
    const uint8_t* data = record;
    size_t left = size;
    uint64_t before = self->partition->total_buffers;

    check(is_broadcast ? fb_result_partition_broadcast(self->partition, &data, &left)
                       : fb_result_partition_emit(self->partition, channel, &data, &left),
          "emit");
    if (left > 0) check(FB_ENOMEM, "emit");
    if (self->partition->total_buffers == before) continue;
    for (uint32_t at = 0; at < CHANNELS; at++)
      if (is_broadcast || at == channel) drain(self, at);
  }
}

static void run(const char* name, int kind, uint64_t rounds) {
  double ns[REPEATS];

  for (int repeat = 0; repeat < REPEATS; repeat++) {
    struct bench bench;
    double start;

    open_bench(&bench, kind == 1);
    start = now_s();
    if (kind <= 1) write_in_place(&bench, rounds, kind == 1);
    if (kind >= 2) emit(&bench, rounds, kind == 3 ? 104 : 12, kind == 4);
    ns[repeat] = 1e9 * (now_s() - start) / (double)rounds;
    close_bench(&bench);
  }
  sort_values(ns, REPEATS);
  printf("{\"case\": \"%s\", \"ns_best\": %.2f, \"ns_median\": %.2f}\n", name, ns[0], ns[REPEATS / 2]);
}

int main(int argc, char** argv) {
  uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;

  if (rounds == 0) return 2;
  run("in_place_8_bytes", 0, rounds);
  run("in_place_8_bytes_marked", 1, rounds);
  run("emit_12_bytes", 2, rounds);
  run("emit_104_bytes", 3, rounds);
  run("broadcast_12_bytes_to_8", 4, rounds);
  return 0;
}
