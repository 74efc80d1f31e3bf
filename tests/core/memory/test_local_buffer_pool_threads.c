/* The pools under many threads: nothing lost, nobody forgotten, nothing touched after its end. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "memory/local_buffer_pool.h"
#include "pools.h"

#define ROUNDS 1024

static struct fb_network_buffer_pool* open_global(uint32_t count) {
  struct fb_network_buffer_pool* pool;
  CHECK(fb_network_buffer_pool_open(count, 64, &pool) == FB_OK);
  return pool;
}

static struct fb_local_buffer_pool* open_local(struct fb_network_buffer_pool* global, uint32_t min, uint32_t max) {
  struct fb_buffer_pool_options options = {.min = min, .max = max};
  struct fb_local_buffer_pool* pool;
  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_OK);
  return pool;
}

static void run_all(int count, void* (*body)(void*), void* argument) {
  pthread_t threads[128];
  for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, body, argument) == 0);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void sleep_ms(int64_t time) {
  struct timespec span = {.tv_sec = time / 1000, .tv_nsec = time % 1000 * 1000000};
  nanosleep(&span, NULL);
}

/* Marks the bytes as ours and looks whether they stay so. */
static void use(struct fb_buffer* buffer) {
  static _Thread_local char mine;
  char* self = &mine;
  memcpy(buffer->segment.data, &self, sizeof self);
  sched_yield();
  CHECK(memcmp(buffer->segment.data, &self, sizeof self) == 0);
}

static void* request_and_recycle(void* argument) {
  struct fb_buffer* buffer;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(fb_local_buffer_pool_request_blocking(argument, FB_NO_CHANNEL, -1, &buffer) == FB_OK && buffer != NULL);
    if (i % 64 == 0) use(buffer);
    fb_buffer_release(buffer);
  }
  return NULL;
}

static void many_threads_share_one_local_pool(void) {
  struct fb_network_buffer_pool* global = open_global(64);
  struct fb_local_buffer_pool* pool = open_local(global, 8, 16);

  run_all(128, request_and_recycle, pool);
  CHECK(used_of(pool) == 0 && fb_local_buffer_pool_is_available(pool));
  fb_local_buffer_pool_close(pool);
  CHECK(fb_network_buffer_pool_available(global) == 64);
  fb_network_buffer_pool_close(global);
}

static void* take_and_give(void* argument) {
  struct fb_buffer* held[3];
  for (int i = 0; i < 4 * ROUNDS; i++) {
    for (int j = 0; j < 3; j++) {
      held[j] = take_segment(argument);
      if (held[j] != NULL && i % 16 == 0) use(held[j]);
    }
    CHECK(fb_network_buffer_pool_available(argument) <= 7);
    for (int j = 0; j < 3; j++) {
      if (held[j] != NULL) fb_buffer_release(held[j]);
    }
  }
  return NULL;
}

static void the_free_list_never_gives_a_segment_twice(void) {
  struct fb_network_buffer_pool* global = open_global(7);
  run_all(6, take_and_give, global);
  CHECK(fb_network_buffer_pool_available(global) == 7);
  fb_network_buffer_pool_close(global);
}

struct handover {
  struct fb_network_buffer_pool* global;
  _Atomic int holding;
  _Atomic bool may_go;
};

/* There is always one for each thread; but a look through the parts of the free list may miss one that is given back
 * behind it, so who gets none asks again. */
static struct fb_buffer* request_one(struct fb_network_buffer_pool* global) {
  struct fb_buffer* taken;

  do {
    taken = take_segment(global);
  } while (taken == NULL);
  return taken;
}

/* Competes with the others, so that each comes to use a part of the free list of its own; then keeps one segment. */
static void* compete_and_hold(void* argument) {
  struct handover* handover = argument;
  struct fb_buffer* held;

  for (int i = 0; i < 16 * ROUNDS; i++) fb_buffer_release(request_one(handover->global));
  held = request_one(handover->global);
  atomic_fetch_add(&handover->holding, 1);
  while (!atomic_load(&handover->may_go)) sleep_ms(1);
  sleep_ms(5);
  fb_buffer_release(held);
  return NULL;
}

static void what_any_thread_returned_is_in_reach_of_every_other(void) {
  struct handover handover = {.global = open_global(6)};
  struct fb_buffer* buffers[6];
  pthread_t threads[6];

  for (int i = 0; i < 6; i++) CHECK(pthread_create(&threads[i], NULL, compete_and_hold, &handover) == 0);
  while (atomic_load(&handover.holding) < 6) sleep_ms(1);
  CHECK(fb_network_buffer_pool_available(handover.global) == 0);
  CHECK(take_segment(handover.global) == NULL);
  atomic_store(&handover.may_go, true);
  /* Most likely asleep when they come, one by one, from six threads. */
  CHECK(fb_network_buffer_pool_request_unpooled(handover.global, 6, 20000, buffers) == FB_OK);
  CHECK(fb_network_buffer_pool_available(handover.global) == 0);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  fb_network_buffer_pool_recycle_unpooled(handover.global, buffers, 6);
  CHECK(fb_network_buffer_pool_available(handover.global) == 6);
  fb_network_buffer_pool_close(handover.global);
}

struct pair {
  struct fb_network_buffer_pool* global;
  struct fb_local_buffer_pool* pools[2];
  _Atomic int turn;
};

static void* hunger(void* argument) {
  struct pair* pair = argument;
  return request_and_recycle(pair->pools[atomic_fetch_add(&pair->turn, 1) % 2]);
}

static void hungry_pools_never_forget_a_waiter(void) {
  struct pair pair = {.global = open_global(3)};

  for (int i = 0; i < 2; i++) pair.pools[i] = open_local(pair.global, 1, FB_UNBOUNDED);
  run_all(8, hunger, &pair);
  for (int i = 0; i < 2; i++) fb_local_buffer_pool_close(pair.pools[i]);
  CHECK(fb_network_buffer_pool_available(pair.global) == 3);
  fb_network_buffer_pool_close(pair.global);
}

static void* request_until_destroyed(void* argument) {
  struct fb_buffer* buffer;
  CHECK(fb_local_buffer_pool_request_blocking(argument, FB_NO_CHANNEL, -1, &buffer) == FB_EDESTROYED);
  CHECK(buffer == NULL);
  return NULL;
}

static void destroy_wakes_blocked_requesters(void) {
  for (int how = 0; how < 3; how++) {
    struct fb_network_buffer_pool* global = open_global(2);
    struct fb_local_buffer_pool* pool = open_local(global, 2, 2);
    struct fb_buffer *held[2], *none;
    struct fb_buffer_pool_usage usage = {0};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) CHECK(fb_local_buffer_pool_request(pool, FB_NO_CHANNEL, &held[i]) == FB_OK);
    CHECK(fb_local_buffer_pool_request_blocking(pool, FB_NO_CHANNEL, 10, &none) == FB_ETIMEOUT);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, request_until_destroyed, pool) == 0);
    while (usage.blocked < 2) fb_local_buffer_pool_get_usage(pool, &usage);
    /* Closed: the sleepers' own pins keep the memory until they are out. */
    if (how == 0) fb_local_buffer_pool_destroy(pool);
    else if (how == 1) fb_local_buffer_pool_close(pool);
    else fb_network_buffer_pool_destroy(global);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) fb_buffer_release(held[i]);
    if (how != 1) fb_local_buffer_pool_close(pool);
    fb_network_buffer_pool_close(global);
  }
}

static void* ask_for_unpooled(void* argument) {
  struct fb_buffer* buffers[3];
  CHECK(fb_network_buffer_pool_request_unpooled(argument, 3, 20000, buffers) == FB_OK);
  fb_network_buffer_pool_recycle_unpooled(argument, buffers, 3);
  return NULL;
}

static void an_unpooled_request_waits_for_what_pools_hold_in_excess(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_local_buffer_pool* pool = open_local(global, 1, FB_UNBOUNDED);
  struct fb_buffer* held[4];
  pthread_t thread;

  for (int i = 0; i < 4; i++) CHECK(fb_local_buffer_pool_request(pool, FB_NO_CHANNEL, &held[i]) == FB_OK);
  CHECK(pthread_create(&thread, NULL, ask_for_unpooled, global) == 0);
  while (fb_local_buffer_pool_size(pool) != 1) sched_yield();
  sleep_ms(5);
  for (int i = 0; i < 4; i++) fb_buffer_release(held[i]);
  pthread_join(thread, NULL);
  CHECK(fb_network_buffer_pool_required(global) == 1 && fb_local_buffer_pool_size(pool) == 4);
  fb_local_buffer_pool_close(pool);
  CHECK(fb_network_buffer_pool_available(global) == 4);
  fb_network_buffer_pool_close(global);
}

static void* come_and_go(void* argument) {
  struct fb_network_buffer_pool* global = argument;
  struct fb_buffer_pool_options options = {
      .min = 1, .max = FB_UNBOUNDED, .channel_count = 2, .max_buffers_per_channel = 2, .max_overdraft = 2};

  for (uint32_t i = 0; i < 200; i++) {
    struct fb_buffer *held[4] = {NULL}, *unpooled[2];
    struct fb_local_buffer_pool* pool;
    if (fb_local_buffer_pool_open(global, &options, &pool) != FB_OK) continue;
    for (uint32_t j = 0; j < 4; j++) CHECK(fb_local_buffer_pool_request(pool, j % 2, &held[j]) == FB_OK);
    if (fb_network_buffer_pool_request_unpooled(global, 2, 1, unpooled) == FB_OK) {
      fb_network_buffer_pool_recycle_unpooled(global, unpooled, 2);
    }
    CHECK(fb_network_buffer_pool_usage_percent(global) > 0);
    if (i % 2 == 0) fb_local_buffer_pool_close(pool); /* the buffers come home later */
    for (int j = 0; j < 4; j++) {
      if (held[j] != NULL) fb_buffer_release(held[j]);
    }
    if (i % 2 == 1) fb_local_buffer_pool_close(pool);
  }
  return NULL;
}

static void pools_come_and_go_while_others_work(void) {
  struct fb_network_buffer_pool* global = open_global(12);

  run_all(6, come_and_go, global);
  CHECK(fb_network_buffer_pool_available(global) == 12 && fb_network_buffer_pool_required(global) == 0);
  CHECK(fb_network_buffer_pool_pool_count(global) == 0);
  fb_network_buffer_pool_close(global);
}

static void* release_later(void* argument) {
  sched_yield();
  fb_buffer_release(argument);
  return NULL;
}

static void the_last_buffer_may_come_home_during_or_after_close(void) {
  for (int round = 0; round < 200; round++) {
    struct fb_network_buffer_pool* global = open_global(3);
    struct fb_local_buffer_pool* pool = open_local(global, 1, 2);
    struct fb_buffer *local, *direct;
    pthread_t threads[2];

    CHECK(fb_local_buffer_pool_request(pool, FB_NO_CHANNEL, &local) == FB_OK && local != NULL);
    CHECK((direct = take_segment(global)) != NULL);
    CHECK(pthread_create(&threads[0], NULL, release_later, local) == 0);
    CHECK(pthread_create(&threads[1], NULL, release_later, direct) == 0);
    fb_local_buffer_pool_close(pool);
    fb_network_buffer_pool_close(global);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  }
}

struct server {
  struct fb_buffer_listener base;
  struct fb_local_buffer_pool* pool;
  _Atomic int served;
};

static bool serve(struct fb_buffer_listener* self, struct fb_buffer* buffer) {
  struct server* server = (struct server*)self;
  atomic_fetch_add(&server->served, 1);
  fb_buffer_release(buffer); /* back into the pool that calls us: no lock is held */
  return true;
}

static void ignore(struct fb_buffer_listener* self) { (void)self; }

static void* register_again_and_again(void* argument) {
  struct fb_local_buffer_pool* pool = argument;
  for (int i = 0; i < 200; i++) {
    struct server server = {.base = {serve, ignore, NULL}, .pool = pool};
    struct fb_buffer* buffer;
    CHECK(fb_local_buffer_pool_request_blocking(pool, FB_NO_CHANNEL, -1, &buffer) == FB_OK);
    if (!fb_local_buffer_pool_add_listener(pool, &server.base)) {
      fb_buffer_release(buffer);
      continue;
    }
    fb_buffer_release(buffer);
    if (!fb_local_buffer_pool_remove_listener(pool, &server.base)) {
      while (atomic_load(&server.served) == 0) sched_yield();
    }
  }
  return NULL;
}

static void listeners_may_call_back_into_the_pool(void) {
  struct fb_network_buffer_pool* global = open_global(2);
  struct fb_local_buffer_pool* pool = open_local(global, 2, 2);

  run_all(4, register_again_and_again, pool);
  CHECK(used_of(pool) == 0);
  fb_local_buffer_pool_close(pool);
  CHECK(fb_network_buffer_pool_available(global) == 2);
  fb_network_buffer_pool_close(global);
}

int main(void) {
  many_threads_share_one_local_pool();
  the_free_list_never_gives_a_segment_twice();
  what_any_thread_returned_is_in_reach_of_every_other();
  hungry_pools_never_forget_a_waiter();
  destroy_wakes_blocked_requesters();
  an_unpooled_request_waits_for_what_pools_hold_in_excess();
  pools_come_and_go_while_others_work();
  the_last_buffer_may_come_home_during_or_after_close();
  listeners_may_call_back_into_the_pool();
  return 0;
}
