/* How fast do 32 KiB buffers go from a result partition of one process into the input gate of another, next to
 * blocking send and recv of the same bytes in the same run?
 *
 *   bench_partition_client [channels, 1] [seconds, 1]
 *
 * Counterpart: StreamNetworkThroughputBenchmark of flink-benchmarks, without records. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "gate/input_gate.h"
#include "partition/pipelined_partition.h"
#include "wire/partition_server.h"

#define SEGMENT             32768
#define BUFFERS_PER_CHANNEL 2
#define FLOATING            8

static const uint8_t ID[FB_PARTITION_ID_SIZE];

static struct fb_local_buffer_pool* open_pool(struct fb_network_buffer_pool* network, uint32_t min, uint32_t max) {
  struct fb_buffer_pool_options options = {.min = min, .max = max};
  struct fb_local_buffer_pool* pool;

  check(fb_local_buffer_pool_open(network, &options, &pool), "pool");
  return pool;
}

/* Writes to every segment once: memory that was never written is one page of zeros to whoever reads it. */
static void fill_segments(struct fb_network_buffer_pool* network, uint32_t count) {
  struct fb_buffer** buffers = calloc(count, sizeof(*buffers));

  for (uint32_t i = 0; i < count; i++) {
    check(fb_network_buffer_pool_request_unpooled(network, 1, 0, &buffers[i]), "segment");
    memset(buffers[i]->segment.data, (int)i, SEGMENT);
  }
  for (uint32_t i = 0; i < count; i++) fb_buffer_release(buffers[i]);
  free(buffers);
}

/* One buffer as it lies in memory, as the rival sends its own: the network is measured, not who fills buffers. */
static void send_buffer(struct fb_result_partition* partition, uint32_t channel) {
  struct fb_buffer_builder* builder = &partition->unicast[channel];
  int code;

  while ((code = fb_result_partition_open_unicast(partition, channel)) == FB_NEEDS_BUFFER)
    fb_result_partition_wait(partition, 100);
  check(code, "open");
  builder->position = builder->capacity;
  fb_buffer_builder_commit(builder);
  fb_result_partition_finish_unicast(partition, channel);
}

/* The producing process: sends buffers until it is killed. */
static void produce(uint32_t channels, int tell) {
  struct fb_network_buffer_pool* network;
  struct fb_result_partition* partition;
  struct fb_partition_manager* manager;
  struct fb_partition_server* server;
  struct fb_reactor* reactor;
  struct fb_tcp_address address;

  check(fb_network_buffer_pool_open(4 * channels + 64, SEGMENT, &network), "pool");
  fill_segments(network, 4 * channels + 64);
  check(fb_pipelined_partition_open(FB_PIPELINED_BOUNDED, channels,
                                    open_pool(network, channels + 1, channels * BUFFERS_PER_CHANNEL + FLOATING),
                                    &partition),
        "partition");
  check(fb_reactor_open(&reactor), "reactor");
  check(fb_partition_manager_open(&manager), "manager");
  check(fb_tcp_address_resolve(&address, "127.0.0.1", 0), "address");
  check(fb_partition_server_open(reactor, manager, &address, NULL, &server), "server");
  check(fb_partition_manager_register(manager, ID, partition), "register");
  if (write(tell, &address, sizeof address) != sizeof address) check(FB_EIO, "pipe");
  for (uint32_t channel = 0;; channel = (channel + 1) % channels) send_buffer(partition, channel);
}

/* The rival: sends 32 KiB after 32 KiB to whoever connects. */
static void send_plain(int tell) {
  struct fb_tcp_address address;
  uint8_t* bytes = calloc(1, SEGMENT);
  int one = 1, listener, fd;

  check(fb_tcp_address_resolve(&address, "127.0.0.1", 0), "address");
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (const struct sockaddr*)&address.bytes, address.size) < 0 || listen(listener, 1) < 0 ||
      getsockname(listener, (struct sockaddr*)&address.bytes, &address.size) < 0)
    check(FB_EIO, "listen");
  if (write(tell, &address, sizeof address) != sizeof address) check(FB_EIO, "pipe");
  fd = accept(listener, NULL, NULL);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  while (send(fd, bytes, SEGMENT, 0) > 0) continue;
  exit(0);
}

static pid_t start(void (*run)(uint32_t channels, int tell), uint32_t channels, struct fb_tcp_address* address) {
  int fds[2];
  pid_t child = -1;

  if (pipe(fds) < 0 || (child = fork()) < 0) check(FB_EIO, "fork");
  if (child == 0) {
    if (run != NULL) run(channels, fds[1]);
    else send_plain(fds[1]);
    exit(0);
  }
  if (read(fds[0], address, sizeof *address) != sizeof *address) check(FB_EIO, "pipe");
  return child;
}

static double receive_plain(double seconds) {
  struct fb_tcp_address address;
  pid_t child = start(NULL, 0, &address);
  uint8_t* memory = malloc(SEGMENT);
  double begun, end, bytes = 0;
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  if (connect(fd, (const struct sockaddr*)&address.bytes, address.size) < 0) check(FB_EIO, "connect");
  for (begun = end = now_s(); end - begun < seconds; end = now_s()) {
    ssize_t got = recv(fd, memory, SEGMENT, 0);
    if (got <= 0) check(FB_EIO, "recv");
    bytes += (double)got;
  }
  close(fd);
  kill(child, SIGKILL);
  free(memory);
  return bytes / (end - begun);
}

static double receive_buffers(uint32_t channels, double seconds) {
  struct fb_tcp_address address;
  pid_t child = start(produce, channels, &address);
  struct fb_partition_client_options options = {.max_data = SEGMENT};
  struct fb_network_buffer_pool* network;
  struct fb_gate_network net = {0};
  struct fb_input_gate gate;
  struct fb_reactor* reactor;
  double begun, end, bytes = 0;
  uint32_t failed;

  check(fb_network_buffer_pool_open(4 * channels + 64, SEGMENT, &network), "pool");
  check(fb_reactor_open(&reactor), "reactor");
  check(fb_partition_client_open(reactor, &options, &net.client), "client");
  check(fb_partition_manager_open(&net.manager), "manager");
  net.network_pool = network;
  net.pool = open_pool(network, 1, FLOATING);
  check(fb_input_gate_open(&gate, channels), "gate");
  check(fb_input_gate_set_network(&gate, &net), "network");
  for (uint32_t i = 0; i < channels; i++) {
    struct fb_remote_source source = {.address = address, .subpartition_index = i};
    uint8_t id[FB_CHANNEL_ID_SIZE] = {0};
    memcpy(id, &i, sizeof i);
    check(fb_input_gate_set_remote(&gate, i, &source, id, BUFFERS_PER_CHANNEL, -1), "channel");
  }
  check(fb_input_gate_request_partitions(&gate, &failed), "request");
  for (begun = end = now_s(); end - begun < seconds; end = now_s()) {
    struct fb_gate_item item;
    int code = fb_input_gate_poll(&gate, &item);
    check(code, "poll");
    if (code == 0) {
      fb_input_gate_wait(&gate, 100);
      continue;
    }
    bytes += item.slice.size;
    fb_buffer_slice_release(&item.slice);
  }
  kill(child, SIGKILL);
  fb_input_gate_close(&gate);
  fb_partition_client_close(net.client);
  fb_partition_manager_close(net.manager);
  fb_reactor_close(reactor);
  fb_network_buffer_pool_close(network);
  return bytes / (end - begun);
}

int main(int argc, char** argv) {
  uint32_t channels = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
  double seconds = argc > 2 ? atof(argv[2]) : 1;
  double ours = 0, plain = 0;

  signal(SIGCHLD, SIG_IGN);
  for (int i = 0; i < 5; i++) { /* in turns, the best of each: a busy machine only ever takes away */
    double rate = receive_buffers(channels, seconds / 5);
    if (rate > ours) ours = rate;
    rate = receive_plain(seconds / 5);
    if (rate > plain) plain = rate;
  }
  printf("{\"name\": \"partition_client_32k.%u\", \"unit\": \"bytes/s\", \"rate\": %.4g}\n", channels, ours);
  printf("{\"name\": \"partition_client_32k.blocking\", \"unit\": \"bytes/s\", \"rate\": %.4g, \"ratio\": %.2f}\n",
         plain, ours / plain);
  return 0;
}
