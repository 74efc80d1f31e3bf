/* The flusher makes data readable in time, sleeps when there is none, and lets go of partitions safely. */
#include "check.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "partition/output_flusher.h"
#include "partition/pipelined_partition.h"

#define SEGMENTS 32

struct told {
  _Atomic int count; /* release by the flusher's thread, acquire here */
  struct fb_wakeup wakeup;
};

static void on_data(void* context, uint32_t index) {
  struct told* told = context;

  (void)index;
  atomic_fetch_add_explicit(&told->count, 1, memory_order_release);
  fb_wakeup_ring(&told->wakeup);
}

static void on_priority(void* context, uint32_t index, int32_t sequence) { (void)context, (void)index, (void)sequence; }

static int told_count(struct told* self) { return atomic_load_explicit(&self->count, memory_order_acquire); }

static void wait_until_told(struct told* self, int count) {
  while (told_count(self) < count) {
    uint64_t seen = fb_wakeup_seen(&self->wakeup);
    if (told_count(self) < count) CHECK(fb_wakeup_wait(&self->wakeup, seen, 20000));
  }
}

static void pause_ms(int64_t ms) {
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

struct fixture {
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partition;
  struct told told;
};

static void open_fixture(struct fixture* self, uint32_t n) {
  struct fb_buffer_pool_options options = {.min = n + 1, .max = FB_UNBOUNDED};
  struct fb_availability_listener listener = {on_data, on_priority, &self->told};
  struct fb_local_buffer_pool* pool;

  memset(self, 0, sizeof(*self));
  CHECK(fb_wakeup_open(&self->told.wakeup) == FB_OK);
  CHECK(fb_network_buffer_pool_open(SEGMENTS, 256, &self->network) == FB_OK);
  CHECK(fb_local_buffer_pool_open(self->network, &options, &pool) == FB_OK);
  CHECK(fb_pipelined_partition_open(FB_PIPELINED, n, pool, &self->partition) == FB_OK);
  for (uint32_t i = 0; i < n; i++)
    CHECK(fb_subpartition_attach(fb_pipelined_partition_queue(self->partition, i), listener.context,
                                 &(struct fb_view_options){.listener = listener}) == FB_OK);
}

static void close_fixture(struct fixture* self) {
  for (uint32_t i = 0; i < self->partition->subpartition_count; i++)
    fb_subpartition_detach(fb_pipelined_partition_queue(self->partition, i), NULL);
  fb_result_partition_close(self->partition);
  fb_result_partition_drop(self->partition);
  CHECK(fb_network_buffer_pool_available(self->network) == SEGMENTS);
  fb_network_buffer_pool_close(self->network);
  fb_wakeup_close(&self->told.wakeup);
}

/* Writes one byte; subpartition_count: to all. */
static void write_byte(struct fixture* self, uint32_t target) {
  const uint8_t* data = (const uint8_t*)"x";
  size_t size = 1;
  int code = target == self->partition->subpartition_count
                 ? fb_result_partition_broadcast(self->partition, &data, &size)
                 : fb_result_partition_emit(self->partition, target, &data, &size);

  CHECK(code == FB_OK);
  fb_result_partition_mark_written(self->partition, target);
}

static uint32_t poll_bytes(struct fixture* self, uint32_t subpartition) {
  struct fb_polled_buffer polled;
  uint32_t size = 0;

  while (fb_subpartition_poll(fb_pipelined_partition_queue(self->partition, subpartition), NULL, &polled) == 1) {
    size += polled.slice.size;
    fb_buffer_slice_release(&polled.slice);
  }
  return size;
}

static void only_what_was_written_is_flushed(void) {
  struct fb_output_flusher* flusher;
  struct fixture f;

  open_fixture(&f, 3);
  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
  CHECK(fb_output_flusher_add(flusher, f.partition, 0) == FB_EARGUMENT);
  CHECK(fb_output_flusher_add(flusher, f.partition, 5) == FB_OK);
  CHECK(fb_output_flusher_add(flusher, f.partition, 5) == FB_ESTATE);
  write_byte(&f, 1);
  wait_until_told(&f.told, 1);
  CHECK(fb_subpartition_is_available(fb_pipelined_partition_queue(f.partition, 1), true, NULL));
  CHECK(!fb_subpartition_is_available(fb_pipelined_partition_queue(f.partition, 0), true, NULL));
  CHECK(poll_bytes(&f, 1) == 1);
  write_byte(&f, 3); /* all three */
  wait_until_told(&f.told, 4);
  for (uint32_t i = 0; i < 3; i++) CHECK(poll_bytes(&f, i) == 1);
  fb_output_flusher_remove(flusher, f.partition);
  fb_output_flusher_remove(flusher, f.partition);
  CHECK(fb_output_flusher_partition_count(flusher) == 0);
  fb_output_flusher_close(flusher);
  close_fixture(&f);
}

static void thread_sleeps_while_nothing_is_written(void) {
  struct fb_output_flusher* flusher;
  uint64_t turns;
  struct fixture f;

  open_fixture(&f, 1);
  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
  CHECK(fb_output_flusher_add(flusher, f.partition, 2) == FB_OK);
  pause_ms(30);
  CHECK(fb_output_flusher_turn_count(flusher) == 0);
  write_byte(&f, 0);
  wait_until_told(&f.told, 1);
  /* Rung once, one flush, one more look an interval later (fewer turns on a busy machine); then it rests. */
  do {
    turns = fb_output_flusher_turn_count(flusher);
    pause_ms(100);
  } while (fb_output_flusher_turn_count(flusher) != turns);
  CHECK(turns >= 1);
  fb_output_flusher_close(flusher); /* lets go of the partition */
  CHECK(f.partition->on_written == NULL);
  close_fixture(&f);
}

/* The race that the mark leaves open, played by hand: bytes that are committed just after the flush looked,
 * while the writer still sees the mark and so does not mark again. */
static void commit_that_raced_with_a_flush_is_flushed_an_interval_later(void) {
  struct fb_output_flusher* flusher;
  struct fixture f;

  open_fixture(&f, 1);
  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
  CHECK(fb_output_flusher_add(flusher, f.partition, 30) == FB_OK);
  write_byte(&f, 0);
  wait_until_told(&f.told, 1);
  CHECK(poll_bytes(&f, 0) == 1);
  CHECK(fb_buffer_builder_append(&f.partition->unicast[0], (const uint8_t*)"y", 1) == 1);
  fb_buffer_builder_commit(&f.partition->unicast[0]); /* and no mark */
  wait_until_told(&f.told, 2);
  CHECK(poll_bytes(&f, 0) == 1);
  fb_output_flusher_remove(flusher, f.partition);
  fb_output_flusher_close(flusher);
  close_fixture(&f);
}

static void shorter_interval_is_not_kept_waiting_by_a_longer_one(void) {
  struct fb_output_flusher* flusher;
  struct fixture slow, fast;
  int64_t start_ms;

  open_fixture(&slow, 1);
  open_fixture(&fast, 1);
  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
  CHECK(fb_output_flusher_add(flusher, slow.partition, 60000) == FB_OK);
  CHECK(fb_output_flusher_add(flusher, fast.partition, 5) == FB_OK);
  write_byte(&slow, 0);
  pause_ms(5);
  start_ms = fb_wakeup_now_ms();
  write_byte(&fast, 0);
  wait_until_told(&fast.told, 1);
  CHECK(fb_wakeup_now_ms() - start_ms < 15000 && told_count(&slow.told) == 0);
  fb_output_flusher_remove(flusher, slow.partition);
  fb_output_flusher_remove(flusher, fast.partition);
  fb_output_flusher_close(flusher);
  close_fixture(&slow);
  close_fixture(&fast);
}

struct writer {
  struct fixture* fixture;
  struct fb_output_flusher* flusher;
  pthread_t thread;
};

static void* write_and_leave(void* argument) {
  struct writer* self = argument;

  for (int round = 0; round < 50; round++) {
    CHECK(fb_output_flusher_add(self->flusher, self->fixture->partition, 1) == FB_OK);
    for (uint32_t i = 0; i < 200; i++) {
      write_byte(self->fixture, i % 5);
      if (i % 50 == 0) pause_ms(1);
      poll_bytes(self->fixture, i % 4);
    }
    fb_output_flusher_remove(self->flusher, self->fixture->partition);
  }
  return NULL;
}

/* What the flusher knows of a partition is freed by remove(): a late flush is seen by the sanitizers. */
static void partitions_come_and_go_while_they_are_flushed(void) {
  struct fb_output_flusher* flusher;
  struct fixture fixtures[3];
  struct writer writers[3];

  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
  for (int i = 0; i < 3; i++) {
    open_fixture(&fixtures[i], 4);
    writers[i] = (struct writer){&fixtures[i], flusher, 0};
    CHECK(pthread_create(&writers[i].thread, NULL, write_and_leave, &writers[i]) == 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(writers[i].thread, NULL);
    close_fixture(&fixtures[i]);
  }
  fb_output_flusher_close(flusher);
}

static _Atomic int signals;

static void on_signal(int number) {
  (void)number;
  atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
}

/* A signal that the program's threads block waits for them: the flusher's thread takes none. */
static void signals_are_left_to_the_program(void) {
  sigset_t blocked, before, pending;
  struct fb_output_flusher* flusher;

  CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
  CHECK(fb_output_flusher_open(&flusher) == FB_OK);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1 && signals == 0);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  CHECK(signals == 1);
  fb_output_flusher_close(flusher);
}

int main(void) {
  signals_are_left_to_the_program();
  only_what_was_written_is_flushed();
  thread_sleeps_while_nothing_is_written();
  commit_that_raced_with_a_flush_is_flushed_an_interval_later();
  shorter_interval_is_not_kept_waiting_by_a_longer_one();
  partitions_come_and_go_while_they_are_flushed();
  return 0;
}
