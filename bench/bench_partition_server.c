/* How fast does a result partition of 32 KiB buffers leave through the server, to a client that reads with
 * plain recv and has given all credit? Compare connection_32k.blocking of bench_connection.c on the same machine.
 *
 *   bench_partition_server [channels, 1] [seconds, 1]
 *
 * Counterpart: StreamNetworkThroughputBenchmark of flink-benchmarks, the sending half. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "partition/pipelined_partition.h"
#include "wire/frame.h"
#include "wire/partition_server.h"

#define SEGMENT 32768

static void* produce(void* argument) {
  struct fb_result_partition* partition = argument;
  uint8_t* bytes = calloc(1, SEGMENT);

  for (uint32_t channel = 0;; channel = (channel + 1) % partition->subpartition_count) {
    const uint8_t* data = bytes;
    size_t size = SEGMENT;
    int code;
    while ((code = fb_result_partition_emit(partition, channel, &data, &size)) == FB_NEEDS_BUFFER)
      fb_result_partition_wait(partition, 100);
    if (code < 0 || fb_result_partition_is_released(partition)) break;
  }
  free(bytes);
  return NULL;
}

static int ask(const struct fb_tcp_address* address, uint32_t channels) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  if (fd < 0 || connect(fd, (const struct sockaddr*)&address->bytes, address->size) < 0) check(FB_EIO, "connect");
  for (uint32_t i = 0; i < channels; i++) {
    struct fb_frame frame = {.id = FB_PARTITION_REQUEST, .has_receiver = true, .credit = INT32_MAX};
    uint8_t bytes[FB_FRAME_HEAD_MAX];
    int size;

    frame.subpartition = frame.last_subpartition = (int32_t)i;
    memcpy(frame.receiver, &i, sizeof i);
    size = fb_frame_write_head(&frame, bytes);
    if (write(fd, bytes, (size_t)size) != size) check(FB_EIO, "write");
  }
  return fd;
}

int main(int argc, char** argv) {
  uint32_t channels = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
  double seconds = argc > 2 ? atof(argv[2]) : 1;
  static const uint8_t id[FB_PARTITION_ID_SIZE];
  struct fb_buffer_pool_options options = {.min = channels + 1, .max = FB_UNBOUNDED};
  struct fb_network_buffer_pool* network;
  struct fb_local_buffer_pool* pool;
  struct fb_result_partition* partition;
  struct fb_partition_manager* manager;
  struct fb_partition_server* server;
  struct fb_reactor* reactor;
  struct fb_reactor_counters before, after;
  struct fb_tcp_address address;
  uint8_t* memory = malloc(4 * SEGMENT);
  uint64_t bytes = 0;
  pthread_t producer;
  double start, end;
  int fd;

  check(fb_network_buffer_pool_open(2 * channels + 64, SEGMENT, &network), "pool");
  check(fb_local_buffer_pool_open(network, &options, &pool), "pool");
  check(fb_pipelined_partition_open(FB_PIPELINED, channels, pool, &partition), "partition");
  check(fb_reactor_open(&reactor), "reactor");
  check(fb_partition_manager_open(&manager), "manager");
  check(fb_tcp_address_resolve(&address, "127.0.0.1", 0), "address");
  check(fb_partition_server_open(reactor, manager, &address, NULL, &server), "server");
  check(fb_partition_manager_register(manager, id, partition), "register");
  fd = ask(&address, channels);
  pthread_create(&producer, NULL, produce, partition);
  fb_reactor_get_counters(reactor, &before);
  for (start = end = now_s(); end - start < seconds; end = now_s()) {
    ssize_t got = recv(fd, memory, 4 * SEGMENT, 0);
    if (got <= 0) check(FB_EIO, "recv");
    bytes += (uint64_t)got;
  }
  fb_reactor_get_counters(reactor, &after);
  printf("{\"name\": \"partition_server_32k.%u\", \"unit\": \"bytes/s\", \"rate\": %.4g, ", channels,
         (double)bytes / (end - start));
  printf("\"buffers_per_write\": %.2f}\n",
         (double)(after.bytes_written - before.bytes_written) / SEGMENT / (double)(after.writes - before.writes));
  close(fd);
  fb_result_partition_release(partition);
  pthread_join(producer, NULL);
  fb_partition_server_close(server);
  fb_reactor_close(reactor);
  fb_result_partition_close(partition);
  fb_result_partition_drop(partition);
  fb_partition_manager_close(manager);
  fb_network_buffer_pool_close(network);
  free(memory);
  return 0;
}
