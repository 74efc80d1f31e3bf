/* How fast a sort-merge partition is written and read, next to plain writes and reads of 256 KiB: one JSON line a case, for
 * bench_sort_merge_partition.py.
 *
 *   bench_sort_merge_partition [MiB [folder]]
 *
 * Counterpart in Flink: BlockingPartitionBenchmark, SortMergeResultPartition. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "ground/wakeup.h"
#include "partition/sort_merge_partition.h"

#define REPEATS      5
#define RECORD_SIZE  1024u
#define PLAIN_SIZE   ((size_t)256 << 10)
#define SEGMENT_SIZE 32768u

static uint64_t total; /* bytes */
static char base[512], plain_path[600];
static uint8_t* plain_buffer;
static struct fb_network_buffer_pool* global;
static struct fb_read_buffer_pool* read_pool;
static struct fb_io_executor* executor;

/* ---- the rival ------------------------------------------------------------------------------------- */

static double write_plain(void) {
  double start = now_s();
  int fd = open(plain_path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

  if (fd < 0) perror(plain_path), exit(1);
  for (uint64_t done = 0; done < total; done += PLAIN_SIZE)
    if (write(fd, plain_buffer, PLAIN_SIZE) != (ssize_t)PLAIN_SIZE) perror(plain_path), exit(1);
  close(fd);
  return now_s() - start;
}

static double read_plain(void) {
  double start = now_s();
  int fd = open(plain_path, O_RDONLY | O_CLOEXEC);
  uint64_t done = 0;
  ssize_t size;

  while ((size = read(fd, plain_buffer, PLAIN_SIZE)) > 0) done += (uint64_t)size;
  if (done != total) exit(1);
  close(fd);
  return now_s() - start;
}

/* ---- ours ------------------------------------------------------------------------------------------ */

static struct fb_result_partition* open_partition(uint32_t subpartitions, uint32_t segments) {
  struct fb_buffer_pool_options pool_options = {.min = segments, .max = segments};
  struct fb_sort_merge_options options = {.type = FB_BLOCKING,
                                          .subpartition_count = subpartitions,
                                          .base_path = base,
                                          .first_subpartition = FB_RANDOM_SUBPARTITION,
                                          .read_pool = read_pool,
                                          .executor = executor};
  struct fb_local_buffer_pool* pool;
  struct fb_result_partition* partition;
  struct fb_file_failure failure;

  check(fb_local_buffer_pool_open(global, &pool_options, &pool), "the pool");
  check(fb_sort_merge_partition_open(&options, pool, &partition, &failure), "the partition");
  return partition;
}

static void emit(struct fb_result_partition* partition, uint32_t subpartition, const uint8_t* data) {
  size_t size = RECORD_SIZE;
  int code;

  while ((code = fb_result_partition_emit(partition, subpartition, &data, &size)) == FB_NEEDS_BUFFER)
    fb_result_partition_wait(partition, 100);
  check(code, "a record");
}

static double write_partition(struct fb_result_partition* partition) {
  double start = now_s();
  uint32_t subpartition = 0;

  for (uint64_t done = 0; done < total; done += RECORD_SIZE) {
    emit(partition, subpartition, plain_buffer + done % PLAIN_SIZE);
    subpartition = (uint32_t)(((uint64_t)subpartition * 31 + done / RECORD_SIZE) % partition->subpartition_count);
  }
  check(fb_result_partition_finish(partition), "the end");
  return now_s() - start;
}

static void ring(void* context, uint32_t subpartition) {
  (void)subpartition;
  fb_wakeup_ring(context);
}

static uint64_t read_subpartition(struct fb_result_partition* partition, uint32_t subpartition,
                                  struct fb_wakeup* bell) {
  struct fb_view_options options = {.listener = {.on_data_available = ring, .context = bell}};
  struct fb_subpartition_view* view;
  struct fb_polled_buffer polled;
  uint64_t bytes = 0;
  bool is_end = false;

  check(fb_result_partition_create_view(partition, subpartition, &options, &view), "a view");
  while (!is_end) {
    uint64_t seen = fb_wakeup_seen(bell);
    int code = fb_subpartition_view_poll(view, &polled);
    check(code, "a buffer");
    if (code == 0) {
      fb_wakeup_wait(bell, seen, 10000);
      continue;
    }
    bytes += polled.slice.size;
    is_end = polled.slice.data_type == FB_END_OF_PARTITION;
    fb_buffer_slice_release(&polled.slice);
  }
  fb_subpartition_view_release(view);
  return bytes;
}

static double read_partition(struct fb_result_partition* partition) {
  struct fb_wakeup bell;
  uint64_t bytes = 0;
  double start;

  check(fb_wakeup_open(&bell), "a bell");
  start = now_s();
  for (uint32_t i = 0; i < partition->subpartition_count; i++) bytes += read_subpartition(partition, i, &bell);
  if (bytes < total) exit(1);
  start = now_s() - start;
  fb_wakeup_close(&bell);
  return start;
}

/* ---- cases ----------------------------------------------------------------------------------------- */

static void print_case(const char* work, const char* who, double* seconds) {
  sort_values(seconds, REPEATS);
  printf(
      "{\"case\": \"%s\", \"who\": \"%s\", \"bytes\": %llu, \"s_best\": %.6f, \"s_median\": %.6f, \"s_worst\": %.6f}\n",
      work, who, (unsigned long long)total, seconds[0], seconds[REPEATS / 2], seconds[REPEATS - 1]);
}

static void run_case(uint32_t subpartitions, uint32_t segments, const char* suffix) {
  double written[REPEATS], read[REPEATS], plain_written[REPEATS], plain_read[REPEATS];
  char work[64];

  for (uint32_t turn = 0; turn < REPEATS; turn++) {
    struct fb_result_partition* partition;

    plain_written[turn] = write_plain();
    plain_read[turn] = read_plain();
    unlink(plain_path);
    partition = open_partition(subpartitions, segments);
    written[turn] = write_partition(partition);
    read[turn] = read_partition(partition);
    fb_result_partition_drop(partition);
    fb_io_executor_close(executor); /* the file is gone before the next one is made */
    fb_io_executor_drop(executor);
    check(fb_io_executor_open("reader", &executor), "the executor");
  }
  snprintf(work, sizeof work, "write_%u%s", subpartitions, suffix);
  print_case(work, "flinkbuf", written);
  print_case(work, "plain", plain_written);
  snprintf(work, sizeof work, "read_%u%s", subpartitions, suffix);
  print_case(work, "flinkbuf", read);
  print_case(work, "plain", plain_read);
}

int main(int argc, char** argv) {
  total = (argc > 1 ? strtoull(argv[1], NULL, 10) : 256) << 20;
  snprintf(base, sizeof base, "%s/bench-%d", argc > 2 ? argv[2] : "/tmp", (int)getpid());
  snprintf(plain_path, sizeof plain_path, "%s.plain", base);
  plain_buffer = malloc(PLAIN_SIZE);
  if (plain_buffer == NULL) return 1;
  for (size_t i = 0; i < PLAIN_SIZE; i++) plain_buffer[i] = (uint8_t)(i * 31);
  check(fb_network_buffer_pool_open(2100, SEGMENT_SIZE, &global), "the pool");
  check(fb_read_buffer_pool_open(64 << 20, 300000, &read_pool), "the pool for reading");
  check(fb_io_executor_open("reader", &executor), "the executor");
  /* 16 MiB, as a partition collects unless it is told otherwise. With 64 MiB, more than a processor's cache, all that is
   * collected goes to memory and back, which the rival's one buffer does not. */
  run_case(1, 512, "");
  run_case(100, 512, "");
  run_case(100, 2048, "_64_mib");
  run_case(1000, 2048, "");
  run_case(1000, 512, "_log"); /* less than two buffers for each: a log of 16 MiB */
  fb_io_executor_close(executor);
  fb_io_executor_drop(executor);
  fb_read_buffer_pool_drop(read_pool);
  fb_network_buffer_pool_close(global);
  free(plain_buffer);
  return 0;
}
