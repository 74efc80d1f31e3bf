/* What it costs to request a segment and recycle it: one JSON line a case, for bench_local_buffer_pool.py.
 *
 *   bench_local_buffer_pool [rounds]
 *
 * Counterpart in Flink: NetworkBufferPool.requestPooledMemorySegment and LocalBufferPool.requestBuffer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/core/pools.h"
#include "bench.h"
#include "memory/buffer_builder.h"
#include "memory/local_buffer_pool.h"

#define REPEATS     7
#define MAX_THREADS 8

struct bench {
  const char* name;
  int threads;
  long rounds;
  uint32_t batch; /* buffers held at once */
  struct fb_network_buffer_pool* global;
  struct fb_local_buffer_pool* local; /* NULL: straight from the global pool */
};

static struct fb_buffer* request(const struct bench* bench) {
  struct fb_buffer* buffer;
  do {
    if (bench->local != NULL) fb_local_buffer_pool_request(bench->local, 0, &buffer);
    else buffer = take_segment(bench->global);
  } while (buffer == NULL);
  return buffer;
}

static void* run(void* argument) {
  const struct bench* bench = argument;
  struct fb_buffer* held[64];

  for (long i = 0; i < bench->rounds; i += bench->batch) {
    for (uint32_t j = 0; j < bench->batch; j++) held[j] = request(bench);
    for (uint32_t j = 0; j < bench->batch; j++) fb_buffer_release(held[j]);
  }
  return NULL;
}

/* Seconds of one run by all threads. */
static double measure(struct bench* bench) {
  pthread_t threads[MAX_THREADS];
  double start = now_s();

  for (int i = 1; i < bench->threads; i++) pthread_create(&threads[i], NULL, run, bench);
  run(bench);
  for (int i = 1; i < bench->threads; i++) pthread_join(threads[i], NULL);
  return now_s() - start;
}

static void report(struct bench bench) {
  double times[REPEATS];

  for (int i = 0; i < REPEATS; i++) times[i] = 1e9 * measure(&bench) / (double)(bench.rounds * bench.threads);
  sort_values(times, REPEATS);
  printf("{\"case\": \"%s\", \"threads\": %d, \"batch\": %u, \"ns_best\": %.2f, \"ns_median\": %.2f}\n", bench.name,
         bench.threads, bench.batch, times[0], times[REPEATS / 2]);
  fflush(stdout);
}

int main(int argument_count, char** arguments) {
  long rounds = argument_count > 1 ? atol(arguments[1]) : 2000000;
  struct fb_buffer_pool_options options = {
      .min = 16, .max = FB_UNBOUNDED, .channel_count = 4, .max_buffers_per_channel = 10, .max_overdraft = 5};
  struct fb_network_buffer_pool* global;
  struct fb_local_buffer_pool* local;

  check(fb_network_buffer_pool_open(1024, 32768, &global), "global pool");
  report((struct bench){"global", 1, rounds, 1, global, NULL});
  report((struct bench){"global", 1, rounds, 16, global, NULL});
  for (int threads = 2; threads <= MAX_THREADS; threads *= 2) {
    report((struct bench){"global", threads, rounds / 2, 1, global, NULL});
  }
  check(fb_local_buffer_pool_open(global, &options, &local), "local pool");
  report((struct bench){"local", 1, rounds, 1, global, local});
  report((struct bench){"local", 1, rounds, 16, global, local});
  for (int threads = 2; threads <= MAX_THREADS; threads *= 2) {
    report((struct bench){"local", threads, rounds / 2, 1, global, local});
  }
  fb_local_buffer_pool_close(local);
  fb_network_buffer_pool_close(global);
  return 0;
}
