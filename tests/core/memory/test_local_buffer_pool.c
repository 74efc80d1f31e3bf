/* The global pool and the local pools, by one thread; test_local_buffer_pool_threads.c has the rest. */
#include "memory/local_buffer_pool.h"

#include "check.h"
#include "pools.h"

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

static struct fb_local_buffer_pool* open_weighted(struct fb_network_buffer_pool* global, uint32_t expected,
                                                  uint32_t min, uint32_t max) {
  struct fb_buffer_pool_options options = {.min = min, .expected = expected, .max = max};
  struct fb_local_buffer_pool* pool;
  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_OK);
  return pool;
}

static struct fb_buffer* request(struct fb_local_buffer_pool* pool) {
  struct fb_buffer* buffer;
  CHECK(fb_local_buffer_pool_request(pool, FB_NO_CHANNEL, &buffer) == FB_OK);
  return buffer;
}

static uint32_t available(struct fb_network_buffer_pool* pool) { return fb_network_buffer_pool_available(pool); }

/* ---- the global pool ---------------------------------------------------------------------------------- */

static void arguments_are_checked(void) {
  struct fb_network_buffer_pool* pool = (void*)1;

  CHECK(fb_network_buffer_pool_open(4, 0, &pool) == FB_EARGUMENT && pool == NULL);
  CHECK(fb_network_buffer_pool_open(4, (uint32_t)INT32_MAX + 1, &pool) == FB_EARGUMENT);
  CHECK(fb_network_buffer_pool_open(UINT32_MAX, 64, &pool) == FB_EARGUMENT);
  CHECK(fb_network_buffer_pool_open((uint32_t)INT32_MAX, (uint32_t)INT32_MAX, &pool) == FB_ENOMEM && pool == NULL);
}

static void totals_follow_requests_and_are_zero_after_destroy(void) {
  struct fb_network_buffer_pool* pool = open_global(4);
  struct fb_buffer* buffer;

  CHECK(fb_network_buffer_pool_total(pool) == 4 && available(pool) == 4);
  CHECK((buffer = take_segment(pool)) != NULL);
  CHECK(buffer->segment.size == 64 && available(pool) == 3);
  buffer->segment.data[63] = 1;
  fb_buffer_release(buffer);
  CHECK(available(pool) == 4);
  buffer = take_segment(pool);
  fb_network_buffer_pool_destroy(pool);
  CHECK(fb_network_buffer_pool_is_destroyed(pool));
  CHECK(fb_network_buffer_pool_total(pool) == 0 && available(pool) == 0);
  CHECK(take_segment(pool) == NULL);
  fb_network_buffer_pool_close(pool);
  buffer->segment.data[0] = 1; /* still ours */
  fb_buffer_release(buffer);
}

static void segments_are_apart_and_all_come_out_once(void) {
  struct fb_network_buffer_pool* pool = open_global(5);
  struct fb_buffer* buffers[5];

  for (int i = 0; i < 5; i++) CHECK((buffers[i] = take_segment(pool)) != NULL);
  CHECK(take_segment(pool) == NULL);
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < i; j++) {
      ptrdiff_t apart = buffers[i]->segment.data - buffers[j]->segment.data;
      CHECK(apart >= 64 || apart <= -64);
    }
  }
  for (int i = 0; i < 5; i++) fb_buffer_release(buffers[i]);
  CHECK(available(pool) == 5);
  fb_network_buffer_pool_close(pool);
}

/* Whoever writes to many channels in turn is at the same place of many segments. */
static void the_same_places_of_large_segments_share_no_set_of_the_cache(void) {
  struct fb_network_buffer_pool* pool;
  struct fb_buffer* buffers[64];
  bool is_taken[64] = {false};

  CHECK(fb_network_buffer_pool_open(64, 32 * 1024, &pool) == FB_OK);
  for (int i = 0; i < 64; i++) {
    CHECK((buffers[i] = take_segment(pool)) != NULL && buffers[i]->segment.size == 32 * 1024);
    size_t set = (uintptr_t)buffers[i]->segment.data / 64 % 64;
    CHECK((uintptr_t)buffers[i]->segment.data % 64 == 0 && !is_taken[set]);
    is_taken[set] = true;
    memset(buffers[i]->segment.data, i + 1, 32 * 1024);
  }
  for (int i = 0; i < 64; i++) {
    CHECK(buffers[i]->segment.data[0] == i + 1 && buffers[i]->segment.data[32 * 1024 - 1] == i + 1);
    fb_buffer_release(buffers[i]);
  }
  fb_network_buffer_pool_close(pool);
}

static void creating_after_destroy_is_refused(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_buffer_pool_options options = {.min = 2, .max = 2};
  struct fb_local_buffer_pool* pool;
  struct fb_buffer* buffers[2];

  fb_network_buffer_pool_destroy(global);
  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_EDESTROYED && pool == NULL);
  CHECK(fb_network_buffer_pool_request_unpooled(global, 2, 0, buffers) == FB_EDESTROYED);
  fb_network_buffer_pool_close(global);
}

static void unpooled_requests_are_guaranteed_or_refused_whole(void) {
  struct fb_network_buffer_pool* pool = open_global(8);
  struct fb_buffer* buffers[8];

  CHECK(fb_network_buffer_pool_request_unpooled(pool, 0, 0, buffers) == FB_OK);
  CHECK(fb_network_buffer_pool_request_unpooled(pool, 4, 0, buffers) == FB_OK);
  CHECK(available(pool) == 4 && fb_network_buffer_pool_required(pool) == 4);
  CHECK(fb_network_buffer_pool_request_unpooled(pool, 5, 0, buffers + 4) == FB_EBUFFERS);
  CHECK(available(pool) == 4 && fb_network_buffer_pool_required(pool) == 4);
  fb_buffer_release(buffers[3]); /* one by itself, three in a batch */
  CHECK(available(pool) == 5 && fb_network_buffer_pool_required(pool) == 3);
  fb_network_buffer_pool_recycle_unpooled(pool, buffers, 3);
  CHECK(available(pool) == 8 && fb_network_buffer_pool_required(pool) == 0);
  fb_network_buffer_pool_close(pool);
}

static void an_unpooled_request_that_times_out_loses_nothing(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_local_buffer_pool* pool = open_local(global, 1, FB_UNBOUNDED);
  struct fb_buffer *held[3], *buffers[3];

  for (int i = 0; i < 3; i++) CHECK((held[i] = request(pool)) != NULL);
  CHECK(fb_network_buffer_pool_request_unpooled(global, 3, 20, buffers) == FB_ETIMEOUT);
  CHECK(fb_network_buffer_pool_required(global) == 1);
  CHECK(fb_local_buffer_pool_size(pool) == 4); /* shared out anew */
  for (int i = 0; i < 3; i++) fb_buffer_release(held[i]);
  fb_local_buffer_pool_close(pool);
  CHECK(available(global) == 4);
  fb_network_buffer_pool_close(global);
}

static void destroying_all_pools_leaves_the_global_one_alive(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_local_buffer_pool *fixed = open_local(global, 2, 2), *other = open_local(global, 2, FB_UNBOUNDED), *whole;
  struct fb_buffer *one = request(fixed), *two = request(other), *none;

  fb_network_buffer_pool_destroy_pools(global);
  CHECK(fb_local_buffer_pool_is_destroyed(fixed) && fb_local_buffer_pool_is_destroyed(other));
  CHECK(!fb_network_buffer_pool_is_destroyed(global));
  CHECK(fb_network_buffer_pool_pool_count(global) == 0 && fb_network_buffer_pool_required(global) == 0);
  CHECK(fb_local_buffer_pool_request(fixed, FB_NO_CHANNEL, &none) == FB_EDESTROYED);
  CHECK(available(global) == 8);
  fb_buffer_release(one);
  fb_buffer_release(two);
  CHECK(available(global) == 10);
  whole = open_local(global, 10, 10);
  fb_local_buffer_pool_close(whole);
  fb_local_buffer_pool_close(fixed);
  fb_local_buffer_pool_close(other);
  fb_network_buffer_pool_close(global);
}

static void buffers_may_outlive_every_handle(void) {
  for (int order = 0; order < 2; order++) {
    struct fb_network_buffer_pool* global = open_global(6);
    struct fb_local_buffer_pool* pool = open_local(global, 2, 4);
    struct fb_buffer *local = request(pool), *direct, *unpooled[2];

    direct = take_segment(global);
    CHECK(fb_network_buffer_pool_request_unpooled(global, 2, 0, unpooled) == FB_OK);
    if (order == 0) fb_local_buffer_pool_close(pool);
    fb_network_buffer_pool_close(global);
    if (order == 1) fb_local_buffer_pool_close(pool);
    direct->segment.data[0] = local->segment.data[0] = unpooled[0]->segment.data[0] = 1;
    fb_buffer_release(unpooled[0]);
    fb_buffer_release(order == 0 ? direct : local);
    fb_buffer_release(order == 0 ? local : direct);
    fb_buffer_release(unpooled[1]); /* the last one frees all: the sanitizer would say otherwise */
  }
}

static void usage_counts_what_pools_may_ask_for(void) {
  struct fb_network_buffer_pool *global = open_global(10), *empty;
  struct fb_local_buffer_pool *bounded = open_local(global, 2, 5), *unbounded;

  CHECK(fb_network_buffer_pool_usage_percent(global) == 50);
  unbounded = open_weighted(global, 8, 2, FB_UNBOUNDED);
  CHECK(fb_network_buffer_pool_usage_percent(global) == 130);
  fb_local_buffer_pool_close(bounded);
  CHECK(fb_network_buffer_pool_usage_percent(global) == 80);
  fb_local_buffer_pool_close(unbounded);
  fb_network_buffer_pool_close(global);
  CHECK(fb_network_buffer_pool_open(0, 64, &empty) == FB_OK);
  CHECK(fb_network_buffer_pool_usage_percent(empty) == 0 && fb_network_buffer_pool_total(empty) == 0);
  fb_network_buffer_pool_close(empty);
}

/* ---- sharing out -------------------------------------------------------------------------------------- */

static void shares_follow_weights_within_bounds(void) {
  struct fb_network_buffer_pool* global = open_global(20);
  struct fb_local_buffer_pool *one = open_weighted(global, 8, 2, 10), *two = open_weighted(global, 4, 2, FB_UNBOUNDED);

  CHECK(fb_local_buffer_pool_size(one) == 10 && fb_local_buffer_pool_size(two) == 10);
  fb_local_buffer_pool_close(one);
  CHECK(fb_local_buffer_pool_size(two) == 20);
  fb_local_buffer_pool_close(two);
  fb_network_buffer_pool_close(global);

  global = open_global(100);
  one = open_weighted(global, 20, 5, 20);
  two = open_weighted(global, 40, 10, FB_UNBOUNDED);
  CHECK(fb_local_buffer_pool_size(one) == 20 && fb_local_buffer_pool_size(two) == 80);
  fb_local_buffer_pool_close(one);
  fb_local_buffer_pool_close(two);
  fb_network_buffer_pool_close(global);

  global = open_global(9);
  one = open_weighted(global, 5, 4, 5);
  two = open_weighted(global, 2, 1, 4);
  CHECK(fb_local_buffer_pool_size(one) == 5 && fb_local_buffer_pool_size(two) == 4);
  fb_local_buffer_pool_close(one);
  fb_local_buffer_pool_close(two);
  fb_network_buffer_pool_close(global);
}

static void shares_add_up_and_fixed_pools_get_no_more(void) {
  struct fb_network_buffer_pool* global = open_global(97);
  struct fb_local_buffer_pool *fixed = open_local(global, 7, 7), *pools[5];
  uint32_t sum = 7;

  for (uint32_t i = 0; i < 5; i++) pools[i] = open_weighted(global, 3 * i + 1, i + 1, FB_UNBOUNDED);
  for (uint32_t i = 0; i < 5; i++) {
    CHECK(fb_local_buffer_pool_size(pools[i]) >= i + 1);
    sum += fb_local_buffer_pool_size(pools[i]);
  }
  CHECK(sum == 97 && fb_local_buffer_pool_size(fixed) == 7);
  for (int i = 0; i < 5; i++) fb_local_buffer_pool_close(pools[i]);
  fb_local_buffer_pool_close(fixed);
  CHECK(available(global) == 97 && fb_network_buffer_pool_required(global) == 0);
  fb_network_buffer_pool_close(global);
}

static void more_than_the_total_cannot_be_guaranteed(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_local_buffer_pool *pool = open_local(global, 7, FB_UNBOUNDED), *more;
  struct fb_buffer_pool_options options = {.min = 4, .max = 4}, wrong = {.min = 3, .max = 2}, none = {.max = 2};

  CHECK(fb_local_buffer_pool_open(global, &options, &more) == FB_EBUFFERS && more == NULL);
  CHECK(fb_local_buffer_pool_open(global, &wrong, &more) == FB_EARGUMENT);
  CHECK(fb_local_buffer_pool_open(global, &none, &more) == FB_EARGUMENT);
  CHECK(fb_network_buffer_pool_required(global) == 7);
  fb_local_buffer_pool_close(pool);
  fb_network_buffer_pool_close(global);
}

/* ---- a local pool ------------------------------------------------------------------------------------- */

static void one_segment_is_kept_in_stock(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_local_buffer_pool* pool = open_local(global, 4, 4);
  struct fb_buffer* buffers[4];

  CHECK(available(global) == 9 && fb_local_buffer_pool_is_available(pool));
  for (uint32_t i = 0; i < 4; i++) {
    CHECK((buffers[i] = request(pool)) != NULL);
    CHECK(available(global) == 10 - (i + 2 < 4 ? i + 2 : 4));
  }
  CHECK(!fb_local_buffer_pool_is_available(pool) && request(pool) == NULL);
  for (int i = 0; i < 4; i++) fb_buffer_release(buffers[i]);
  CHECK(fb_local_buffer_pool_is_available(pool) && fb_local_buffer_pool_stock(pool) == 4);
  fb_local_buffer_pool_close(pool);
  CHECK(available(global) == 10);
  fb_network_buffer_pool_close(global);
}

static void shrinking_returns_idle_segments_at_once_and_used_ones_later(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_local_buffer_pool* pool = open_local(global, 2, FB_UNBOUNDED);
  struct fb_buffer* buffers[6];

  CHECK(fb_local_buffer_pool_size(pool) == 10);
  for (int i = 0; i < 6; i++) buffers[i] = request(pool);
  fb_buffer_release(buffers[5]);
  CHECK(requested_of(pool) == 7 && used_of(pool) == 5);
  CHECK(fb_local_buffer_pool_set_size(pool, 1) == FB_EARGUMENT);
  CHECK(fb_local_buffer_pool_set_size(pool, 3) == FB_OK);
  CHECK(requested_of(pool) == 5 && available(global) == 5);
  CHECK(!fb_local_buffer_pool_is_available(pool));
  for (int i = 0; i < 5; i++) {
    fb_buffer_release(buffers[i]);
    CHECK(requested_of(pool) == (i < 2 ? 4u - (uint32_t)i : 3u));
    CHECK(fb_local_buffer_pool_is_available(pool) == (i >= 2));
  }
  CHECK(fb_local_buffer_pool_set_size(pool, 10) == FB_OK);
  fb_local_buffer_pool_close(pool);
  CHECK(available(global) == 10);
  fb_network_buffer_pool_close(global);
}

static void a_destroyed_pool_never_fetches(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_local_buffer_pool* pool = open_local(global, 2, FB_UNBOUNDED);
  struct fb_buffer* buffer = request(pool);

  fb_local_buffer_pool_destroy(pool);
  fb_local_buffer_pool_destroy(pool);
  CHECK(!fb_local_buffer_pool_is_available(pool) && available(global) == 9);
  CHECK(fb_local_buffer_pool_set_size(pool, 5) == FB_OK);
  CHECK(available(global) == 9 && requested_of(pool) == 1);
  CHECK(fb_local_buffer_pool_reserve(pool, 2, 0) == FB_EDESTROYED);
  fb_buffer_release(buffer);
  CHECK(available(global) == 10 && requested_of(pool) == 0);
  fb_local_buffer_pool_close(pool);
  fb_network_buffer_pool_close(global);
}

static void a_channel_at_its_quota_makes_the_pool_unavailable_but_refuses_nothing(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_buffer_pool_options options = {.min = 8, .max = 8, .channel_count = 2, .max_buffers_per_channel = 2};
  struct fb_local_buffer_pool* pool;
  struct fb_buffer* buffers[5];

  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_OK);
  for (int i = 0; i < 3; i++) CHECK(fb_local_buffer_pool_request(pool, 0, &buffers[i]) == FB_OK && buffers[i] != NULL);
  CHECK(!fb_local_buffer_pool_is_available(pool));
  for (int i = 3; i < 5; i++) CHECK(fb_local_buffer_pool_request(pool, 1, &buffers[i]) == FB_OK && buffers[i] != NULL);
  fb_buffer_release(buffers[0]);
  fb_buffer_release(buffers[1]);
  CHECK(!fb_local_buffer_pool_is_available(pool)); /* channel 1 */
  fb_buffer_release(buffers[3]);
  CHECK(fb_local_buffer_pool_is_available(pool));
  fb_buffer_release(buffers[2]);
  fb_buffer_release(buffers[4]);
  fb_local_buffer_pool_close(pool);
  fb_network_buffer_pool_close(global);
}

static void overdraft_is_for_full_pools_only_and_goes_home_first(void) {
  struct fb_network_buffer_pool* global = open_global(10);
  struct fb_buffer_pool_options options = {.min = 2, .max = 2, .max_overdraft = 2};
  struct fb_local_buffer_pool* pool;
  struct fb_buffer_pool_usage usage;
  struct fb_buffer* buffers[4];

  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_OK);
  for (int i = 0; i < 4; i++) CHECK((buffers[i] = request(pool)) != NULL);
  CHECK(request(pool) == NULL && available(global) == 6);
  CHECK(!fb_local_buffer_pool_is_available(pool));
  fb_local_buffer_pool_get_usage(pool, &usage);
  CHECK(usage.requested == 4 && usage.peak == 4 && usage.overdrafts == 2 && usage.granted == 4 && usage.refused == 1);
  fb_buffer_release(buffers[0]);
  fb_buffer_release(buffers[1]);
  CHECK(available(global) == 8 && !fb_local_buffer_pool_is_available(pool));
  fb_buffer_release(buffers[2]);
  CHECK(available(global) == 8 && fb_local_buffer_pool_is_available(pool));
  fb_buffer_release(buffers[3]);
  fb_local_buffer_pool_close(pool);
  fb_network_buffer_pool_close(global);
}

static void a_pool_that_found_the_global_one_empty_is_refilled_when_it_is_not(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_local_buffer_pool* pool = open_local(global, 2, FB_UNBOUNDED);
  struct fb_buffer *taken[3], *held;
  struct fb_wakeup bell;
  uint64_t seen;

  CHECK(fb_wakeup_open(&bell) == FB_OK);
  CHECK(fb_local_buffer_pool_add_wakeup(pool, &bell) == FB_OK);
  for (int i = 0; i < 3; i++) CHECK((taken[i] = take_segment(global)) != NULL);
  held = request(pool);
  CHECK(!fb_local_buffer_pool_is_available(pool));
  seen = fb_wakeup_seen(&bell);
  fb_buffer_release(taken[0]);
  CHECK(fb_local_buffer_pool_is_available(pool) && available(global) == 0);
  CHECK(fb_wakeup_wait(&bell, seen, 0));
  fb_local_buffer_pool_remove_wakeup(pool, &bell);
  fb_buffer_release(held);
  fb_buffer_release(taken[1]);
  fb_buffer_release(taken[2]);
  fb_local_buffer_pool_close(pool);
  CHECK(available(global) == 4);
  fb_network_buffer_pool_close(global);
  fb_wakeup_close(&bell);
}

static void reserved_segments_are_counted(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_local_buffer_pool* pool = open_local(global, 3, FB_UNBOUNDED);
  struct fb_buffer* taken[2];

  CHECK(fb_local_buffer_pool_reserve(pool, 4, 0) == FB_EARGUMENT);
  CHECK(fb_local_buffer_pool_reserve(pool, 2, 0) == FB_OK);
  CHECK(requested_of(pool) == 2 && fb_local_buffer_pool_stock(pool) == 2);
  for (int i = 0; i < 2; i++) CHECK((taken[i] = take_segment(global)) != NULL);
  CHECK(fb_local_buffer_pool_reserve(pool, 3, 10) == FB_ETIMEOUT);
  CHECK(requested_of(pool) == 2);
  fb_buffer_release(taken[0]);
  CHECK(fb_local_buffer_pool_reserve(pool, 3, 10) == FB_OK);
  fb_buffer_release(taken[1]);
  fb_local_buffer_pool_close(pool);
  CHECK(available(global) == 4);
  fb_network_buffer_pool_close(global);
}

/* ---- listeners ---------------------------------------------------------------------------------------- */

struct listener {
  struct fb_buffer_listener base;
  struct fb_buffer* got;
  int asked, destroyed;
  bool wants;
};

static bool on_buffer(struct fb_buffer_listener* self, struct fb_buffer* buffer) {
  struct listener* listener = (struct listener*)self;
  listener->asked++;
  if (listener->wants) listener->got = buffer;
  return listener->wants;
}

static void on_destroyed(struct fb_buffer_listener* self) { ((struct listener*)self)->destroyed++; }

static struct listener new_listener(bool wants) {
  return (struct listener){.base = {on_buffer, on_destroyed, NULL}, .wants = wants};
}

static void listeners_are_served_in_turn_and_a_refused_buffer_goes_on(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_local_buffer_pool* pool = open_local(global, 1, 1);
  struct listener one = new_listener(true), two = new_listener(true), unwilling = new_listener(false);
  struct fb_buffer* held;

  CHECK(!fb_local_buffer_pool_add_listener(pool, &one.base)); /* there is stock */
  held = request(pool);
  CHECK(fb_local_buffer_pool_add_listener(pool, &unwilling.base));
  CHECK(fb_local_buffer_pool_add_listener(pool, &one.base));
  CHECK(fb_local_buffer_pool_add_listener(pool, &two.base));
  fb_buffer_release(held);
  CHECK(unwilling.asked == 1 && unwilling.got == NULL && one.got != NULL && two.asked == 0);
  fb_buffer_release(one.got);
  CHECK(two.got != NULL && one.asked == 1);
  CHECK(!fb_local_buffer_pool_remove_listener(pool, &two.base));
  fb_buffer_release(two.got);
  CHECK(fb_local_buffer_pool_stock(pool) == 1 && two.asked == 1);
  held = request(pool);
  CHECK(fb_local_buffer_pool_add_listener(pool, &one.base));
  CHECK(fb_local_buffer_pool_add_listener(pool, &two.base));
  CHECK(fb_local_buffer_pool_remove_listener(pool, &two.base));
  fb_local_buffer_pool_destroy(pool);
  fb_local_buffer_pool_destroy(pool);
  CHECK(one.destroyed == 1 && two.destroyed == 0);
  CHECK(!fb_local_buffer_pool_add_listener(pool, &one.base));
  fb_buffer_release(held);
  CHECK(one.asked == 1 && available(global) == 4);
  fb_local_buffer_pool_close(pool);
  fb_network_buffer_pool_close(global);
}

static void a_listener_hears_of_segments_that_come_from_the_global_pool_too(void) {
  struct fb_network_buffer_pool* global = open_global(2);
  struct fb_local_buffer_pool* pool = open_local(global, 1, FB_UNBOUNDED);
  struct listener one = new_listener(true);
  struct fb_buffer *taken, *held;

  CHECK((taken = take_segment(global)) != NULL);
  held = request(pool);
  CHECK(fb_local_buffer_pool_add_listener(pool, &one.base));
  fb_buffer_release(taken);
  CHECK(one.got != NULL);
  fb_buffer_release(one.got);
  fb_buffer_release(held);
  fb_local_buffer_pool_close(pool);
  CHECK(available(global) == 2);
  fb_network_buffer_pool_close(global);
}

static void quota_is_lowered_once_when_a_listener_refuses(void) {
  struct fb_network_buffer_pool* global = open_global(4);
  struct fb_buffer_pool_options options = {.min = 3, .max = 3, .channel_count = 1, .max_buffers_per_channel = 2};
  struct listener unwilling = new_listener(false);
  struct fb_local_buffer_pool* pool;
  struct fb_buffer_pool_usage usage;
  struct fb_buffer* buffers[3];

  CHECK(fb_local_buffer_pool_open(global, &options, &pool) == FB_OK);
  for (int i = 0; i < 3; i++) CHECK(fb_local_buffer_pool_request(pool, 0, &buffers[i]) == FB_OK);
  CHECK(fb_local_buffer_pool_add_listener(pool, &unwilling.base));
  fb_buffer_release(buffers[0]); /* 3 -> 2: still at its quota */
  fb_local_buffer_pool_get_usage(pool, &usage);
  CHECK(unwilling.asked == 1 && usage.full_channels == 1 && usage.stock == 1);
  CHECK(!fb_local_buffer_pool_is_available(pool));
  fb_buffer_release(buffers[1]);
  CHECK(fb_local_buffer_pool_is_available(pool));
  fb_buffer_release(buffers[2]);
  fb_local_buffer_pool_close(pool);
  fb_network_buffer_pool_close(global);
}

int main(void) {
  arguments_are_checked();
  totals_follow_requests_and_are_zero_after_destroy();
  segments_are_apart_and_all_come_out_once();
  the_same_places_of_large_segments_share_no_set_of_the_cache();
  creating_after_destroy_is_refused();
  unpooled_requests_are_guaranteed_or_refused_whole();
  an_unpooled_request_that_times_out_loses_nothing();
  destroying_all_pools_leaves_the_global_one_alive();
  buffers_may_outlive_every_handle();
  usage_counts_what_pools_may_ask_for();
  shares_follow_weights_within_bounds();
  shares_add_up_and_fixed_pools_get_no_more();
  more_than_the_total_cannot_be_guaranteed();
  one_segment_is_kept_in_stock();
  shrinking_returns_idle_segments_at_once_and_used_ones_later();
  a_destroyed_pool_never_fetches();
  a_channel_at_its_quota_makes_the_pool_unavailable_but_refuses_nothing();
  overdraft_is_for_full_pools_only_and_goes_home_first();
  a_pool_that_found_the_global_one_empty_is_refilled_when_it_is_not();
  reserved_segments_are_counted();
  listeners_are_served_in_turn_and_a_refused_buffer_goes_on();
  a_listener_hears_of_segments_that_come_from_the_global_pool_too();
  quota_is_lowered_once_when_a_listener_refuses();
  return 0;
}
