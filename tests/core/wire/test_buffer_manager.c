#include "wire/buffer_manager.h"

#include <sched.h>
#include <stdlib.h>

#include "check.h"
#include "pools.h"

#define SEGMENT_SIZE 64

/* A channel as its manager sees it. */
struct channel {
  struct fb_buffer_manager manager; /* the first member */
  _Atomic uint32_t references;
  _Atomic uint32_t credit; /* told so far */
  _Atomic uint32_t* closed;
  struct fb_buffer* brought; /* comes home when the manager is about to register with the pool */
  bool releases_at_credit;
};

struct fixture {
  struct fb_network_buffer_pool* network;
  struct fb_local_buffer_pool* pool;
  uint32_t segments;
  _Atomic uint32_t opened, closed; /* channels */
};

static void on_credit(struct fb_buffer_manager* manager, uint32_t count) {
  struct channel* self = (struct channel*)manager;

  CHECK(count > 0);
  atomic_fetch_add(&self->credit, count);
  if (!self->releases_at_credit) return;
  self->releases_at_credit = false;
  fb_buffer_manager_release(manager);
}

static void retain(struct fb_buffer_manager* manager) {
  struct channel* self = (struct channel*)manager;
  struct fb_buffer* brought = self->brought;

  CHECK(atomic_fetch_add(&self->references, 1) > 0);
  if (brought == NULL) return;
  self->brought = NULL;
  fb_buffer_release(brought);
}

static void drop(struct fb_buffer_manager* manager) {
  struct channel* self = (struct channel*)manager;
  uint32_t before = atomic_fetch_sub(&self->references, 1);

  CHECK(before > 0);
  if (before > 1) return;
  atomic_fetch_add(self->closed, 1);
  fb_buffer_manager_close(manager);
  free(self);
}

static const struct fb_buffer_manager_owner OWNER = {on_credit, retain, drop};

/* `floating` segments for all channels, and `others` besides. */
static void open_fixture(struct fixture* self, uint32_t floating, uint32_t others) {
  struct fb_buffer_pool_options options = {.min = floating, .max = floating};

  *self = (struct fixture){.segments = floating + others};
  CHECK(fb_network_buffer_pool_open(self->segments, SEGMENT_SIZE, &self->network) == FB_OK);
  CHECK(fb_local_buffer_pool_open(self->network, &options, &self->pool) == FB_OK);
  CHECK(fb_local_buffer_pool_reserve(self->pool, floating, 0) == FB_OK);
}

static struct channel* open_channel(struct fixture* self, uint32_t exclusive_count) {
  struct channel* channel = calloc(1, sizeof *channel);
  struct fb_buffer* exclusive[16];

  CHECK(channel != NULL && exclusive_count <= 16);
  CHECK(fb_buffer_manager_open(&channel->manager, &OWNER, self->network, self->pool) == FB_OK);
  atomic_store(&channel->references, 1);
  channel->closed = &self->closed;
  atomic_fetch_add(&self->opened, 1);
  CHECK(fb_network_buffer_pool_request_unpooled(self->network, exclusive_count, 0, exclusive) == FB_OK);
  fb_buffer_manager_add_exclusive(&channel->manager, exclusive, exclusive_count);
  return channel;
}

static void close_channel(struct channel* channel) {
  fb_buffer_manager_release(&channel->manager);
  drop(&channel->manager);
}

/* Every buffer is home, nobody holds a channel, and nothing is promised to anybody. */
static void close_fixture(struct fixture* self) {
  CHECK(atomic_load(&self->opened) == atomic_load(&self->closed));
  CHECK(used_of(self->pool) == 0);
  CHECK(fb_network_buffer_pool_required(self->network) == fb_local_buffer_pool_min(self->pool));
  fb_local_buffer_pool_close(self->pool);
  CHECK(fb_network_buffer_pool_required(self->network) == 0);
  CHECK(fb_network_buffer_pool_available(self->network) == self->segments);
  fb_network_buffer_pool_close(self->network);
}

static struct fb_buffer* take(struct channel* channel) {
  struct fb_buffer* buffer = fb_buffer_manager_take(&channel->manager);
  CHECK(buffer != NULL && atomic_load(&buffer->references) == 1);
  return buffer;
}

static struct fb_buffer* borrow(struct fixture* self) {
  struct fb_buffer* buffer;
  CHECK(fb_local_buffer_pool_request(self->pool, FB_NO_CHANNEL, &buffer) == FB_OK && buffer != NULL);
  return buffer;
}

static void expect(struct fixture* self, struct channel* channel, uint32_t available, uint32_t required,
                   uint32_t in_pool) {
  CHECK(fb_buffer_manager_available(&channel->manager) == available);
  CHECK(fb_buffer_manager_required(&channel->manager) == required);
  CHECK(fb_local_buffer_pool_stock(self->pool) == in_pool);
}

static void expect_waiting(struct channel* channel, bool is_waiting) {
  CHECK(channel->manager.is_waiting == is_waiting);
}

static void expect_credit(struct channel* channel, uint32_t credit) {
  CHECK(atomic_exchange(&channel->credit, 0) == credit);
}

/* ---- credit ------------------------------------------------------------------------------------------ */

/* Of 14 floating buffers two are lent elsewhere, and one of two exclusive ones holds data. */
static void fewer_buffers_than_required(void) {
  struct fb_buffer *exclusive, *lent[2];
  struct fixture f;
  struct channel* channel;

  open_fixture(&f, 14, 2);
  channel = open_channel(&f, 2);
  expect(&f, channel, 2, 0, 14);
  expect_credit(channel, 0); /* exclusive buffers are the credit of the request */
  exclusive = take(channel);
  for (int i = 0; i < 2; i++) lent[i] = borrow(&f);

  fb_buffer_manager_require(&channel->manager, 14 + 2);
  expect(&f, channel, 13, 16, 0), expect_waiting(channel, true), expect_credit(channel, 12);
  fb_buffer_manager_require(&channel->manager, 16 + 2);
  expect(&f, channel, 13, 18, 0), expect_waiting(channel, true), expect_credit(channel, 0);
  fb_buffer_release(exclusive);
  expect(&f, channel, 14, 18, 0), expect_waiting(channel, true), expect_credit(channel, 1);
  fb_buffer_release(lent[0]);
  expect(&f, channel, 15, 18, 0), expect_waiting(channel, true), expect_credit(channel, 1);
  fb_buffer_manager_require(&channel->manager, 13 + 2);
  expect(&f, channel, 15, 15, 0), expect_waiting(channel, true), expect_credit(channel, 0);
  fb_buffer_release(lent[1]); /* too late: the pool keeps it */
  expect(&f, channel, 15, 15, 1), expect_waiting(channel, false), expect_credit(channel, 0);
  fb_buffer_manager_require(&channel->manager, 15 + 2);
  expect(&f, channel, 16, 17, 0), expect_waiting(channel, true), expect_credit(channel, 1);
  close_channel(channel);
  close_fixture(&f);
}

/* As many as are required, and more, where less is required later: what is there stays, since it was announced. */
static void all_the_buffers_required(void) {
  for (uint32_t required = 14; required >= 12; required -= 2) {
    struct fb_buffer *exclusive, *lent;
    struct fixture f;
    struct channel* channel;

    open_fixture(&f, 14, 2);
    channel = open_channel(&f, 2);
    exclusive = take(channel);
    lent = borrow(&f);

    fb_buffer_manager_require(&channel->manager, 12 + 2);
    expect(&f, channel, 14, 14, 0), expect_waiting(channel, false), expect_credit(channel, 13);
    if (required < 14) fb_buffer_manager_require(&channel->manager, required);
    expect(&f, channel, 14, required, 0), expect_waiting(channel, false), expect_credit(channel, 0);
    fb_buffer_release(lent);
    expect(&f, channel, 14, required, 1), expect_credit(channel, 0);
    fb_buffer_release(exclusive); /* it stays, a floating one goes instead */
    expect(&f, channel, 14, required, 2), expect_waiting(channel, false), expect_credit(channel, 0);
    close_channel(channel);
    close_fixture(&f);
  }
}

static void a_blocked_channel_without_exclusive_buffers_gives_back_what_floats(void) {
  struct fixture f;
  struct channel *first, *second;

  open_fixture(&f, 8, 2);
  first = open_channel(&f, 2);
  second = open_channel(&f, 0);
  fb_buffer_manager_require(&first->manager, 2 + 2);
  fb_buffer_manager_require(&second->manager, 2);
  expect(&f, first, 4, 4, 4), expect(&f, second, 2, 2, 4);
  expect_credit(first, 2), expect_credit(second, 2);
  /* The barrier says that nothing is behind it. */
  fb_buffer_manager_require(&first->manager, 2);
  fb_buffer_manager_release_floating(&second->manager);
  expect(&f, first, 4, 2, 6), expect(&f, second, 0, 0, 6);
  expect_credit(first, 0), expect_credit(second, 0);
  fb_buffer_manager_require(&first->manager, 4 + 2);
  fb_buffer_manager_require(&second->manager, 4);
  expect(&f, first, 6, 6, 0), expect(&f, second, 4, 4, 0);
  expect_credit(first, 2), expect_credit(second, 4);
  close_channel(first);
  close_channel(second);
  close_fixture(&f);
}

static void each_buffer_taken_lowers_what_is_required(void) {
  struct fb_buffer* buffers[6];
  struct fixture f;
  struct channel* channel;
  uint32_t floating = 0;

  open_fixture(&f, 8, 2);
  channel = open_channel(&f, 2);
  fb_buffer_manager_require(&channel->manager, 4);
  for (uint32_t i = 0; i < 4; i++) {
    buffers[i] = take(channel);
    floating += buffers[i]->owner == f.pool;
    CHECK(floating == (i < 2 ? i + 1 : 2)); /* floating ones first */
    CHECK(fb_buffer_manager_required(&channel->manager) == 3 - i);
  }
  CHECK(fb_buffer_manager_take(&channel->manager) == NULL);
  CHECK(fb_buffer_manager_required(&channel->manager) == 0); /* and not below */
  expect_credit(channel, 2);
  for (uint32_t i = 0; i < 4; i++) fb_buffer_release(buffers[i]);
  expect(&f, channel, 2, 0, 8), expect_credit(channel, 2);
  close_channel(channel);
  close_fixture(&f);
}

static void any_backlog_asks_for_no_more_than_there_is(void) {
  struct fixture f;
  struct channel* channel;

  open_fixture(&f, 3, 1);
  channel = open_channel(&f, 1);
  fb_buffer_manager_require(&channel->manager, (uint32_t)INT32_MAX + 1);
  expect(&f, channel, 4, (uint32_t)INT32_MAX + 1, 0), expect_waiting(channel, true), expect_credit(channel, 3);
  fb_buffer_manager_require(&channel->manager, 0);
  expect(&f, channel, 4, 0, 0);
  close_channel(channel);
  close_fixture(&f);
}

/* ---- the pool ---------------------------------------------------------------------------------------- */

static void floating_buffers_are_shared_fairly(void) {
  struct fb_buffer* lent[12];
  struct channel* channels[4];
  struct fixture f;

  open_fixture(&f, 12, 0);
  for (int i = 0; i < 12; i++) lent[i] = borrow(&f);
  for (int i = 0; i < 4; i++) {
    channels[i] = open_channel(&f, 0);
    fb_buffer_manager_require(&channels[i]->manager, 8);
    expect_waiting(channels[i], true);
  }
  for (int i = 0; i < 12; i++) {
    fb_buffer_release(lent[i]);
    for (int j = 0; j < 4; j++)
      CHECK(fb_buffer_manager_available(&channels[j]->manager) == (uint32_t)((i + 4 - j) / 4)); /* in turn */
  }
  for (int i = 0; i < 4; i++) expect_credit(channels[i], 3);
  close_channel(channels[0]); /* its share goes to the others */
  for (int i = 1; i < 4; i++) expect_credit(channels[i], 1);
  for (int i = 1; i < 4; i++) close_channel(channels[i]);
  close_fixture(&f);
}

static void a_buffer_that_is_not_wanted_goes_to_the_next_who_waits(void) {
  struct fb_buffer* lent[2];
  struct channel *first, *second;
  struct fixture f;

  open_fixture(&f, 2, 0);
  for (int i = 0; i < 2; i++) lent[i] = borrow(&f);
  first = open_channel(&f, 0);
  second = open_channel(&f, 0);
  fb_buffer_manager_require(&first->manager, 1);
  fb_buffer_manager_require(&second->manager, 2);
  fb_buffer_manager_require(&first->manager, 0);
  fb_buffer_release(lent[0]);
  expect(&f, first, 0, 0, 0), expect_waiting(first, false), expect_credit(first, 0);
  expect(&f, second, 1, 2, 0), expect_waiting(second, true), expect_credit(second, 1);
  fb_buffer_manager_release(&second->manager); /* what it had goes home; nobody waits any more */
  expect(&f, second, 0, 0, 1);
  fb_buffer_release(lent[1]);
  expect(&f, second, 0, 0, 2), expect_credit(second, 0);
  drop(&second->manager);
  close_channel(first);
  close_fixture(&f);
}

/* The pool gets a buffer between its "none" and the registration, and refuses that. */
static void a_registration_that_is_refused_asks_again(void) {
  struct channel* channel;
  struct fixture f;

  open_fixture(&f, 1, 0);
  channel = open_channel(&f, 0);
  channel->brought = borrow(&f);
  fb_buffer_manager_require(&channel->manager, 1);
  CHECK(channel->brought == NULL);
  expect(&f, channel, 1, 1, 0), expect_waiting(channel, false), expect_credit(channel, 1);
  CHECK(atomic_load(&channel->references) == 1);
  close_channel(channel);
  close_fixture(&f);
}

static void one_offer_may_bring_several(void) {
  struct fb_buffer* lent[4];
  struct channel* channel;
  struct fixture f;

  open_fixture(&f, 4, 0);
  for (int i = 0; i < 4; i++) lent[i] = borrow(&f);
  channel = open_channel(&f, 0);
  fb_buffer_manager_require(&channel->manager, 3);
  /* While the manager registers anew, two more come home: the first is refused, the other found. */
  channel->brought = lent[1];
  fb_buffer_release(lent[0]);
  expect(&f, channel, 2, 3, 0), expect_waiting(channel, true), expect_credit(channel, 2);
  CHECK(atomic_load(&channel->references) == 2); /* one for the pool */
  for (int i = 2; i < 4; i++) fb_buffer_release(lent[i]);
  expect(&f, channel, 3, 3, 1), expect_waiting(channel, false), expect_credit(channel, 1);
  close_channel(channel);
  close_fixture(&f);
}

static void a_destroyed_pool_lends_nothing(void) {
  struct fb_buffer* lent;
  struct channel *waiting, *late;
  struct fixture f;

  open_fixture(&f, 2, 2);
  waiting = open_channel(&f, 1);
  late = open_channel(&f, 1);
  lent = borrow(&f);
  fb_buffer_manager_require(&waiting->manager, 9);
  CHECK(atomic_load(&waiting->references) == 3); /* ours, the exclusive buffer's, the pool's */
  fb_local_buffer_pool_destroy(f.pool);
  CHECK(atomic_load(&waiting->references) == 2);
  fb_buffer_manager_require(&late->manager, 9);
  CHECK(fb_buffer_manager_available(&late->manager) == 1 && !late->manager.is_waiting);
  fb_buffer_manager_require(&waiting->manager, 10);
  CHECK(fb_buffer_manager_available(&waiting->manager) == 2);
  fb_buffer_release(lent);
  close_channel(waiting);
  close_channel(late);
  CHECK(f.closed == 2 && fb_network_buffer_pool_available(f.network) == f.segments);
  CHECK(fb_network_buffer_pool_required(f.network) == 0);
  fb_local_buffer_pool_close(f.pool);
  fb_network_buffer_pool_close(f.network);
}

/* ---- release ----------------------------------------------------------------------------------------- */

static void what_is_out_at_the_release_comes_home_later(void) {
  struct fb_buffer* out[4];
  struct channel* channel;
  struct fixture f;

  open_fixture(&f, 4, 4);
  channel = open_channel(&f, 4);
  fb_buffer_manager_require(&channel->manager, 6);
  for (int i = 0; i < 4; i++) out[i] = take(channel); /* two of each kind */
  expect_credit(channel, 2);
  close_channel(channel);
  CHECK(f.closed == 0 && fb_network_buffer_pool_required(f.network) == 4 + 2);
  CHECK(fb_local_buffer_pool_stock(f.pool) == 2 && fb_network_buffer_pool_available(f.network) == 2);
  fb_buffer_release(out[0]);
  fb_buffer_release(out[1]);
  CHECK(fb_local_buffer_pool_stock(f.pool) == 4 && f.closed == 0);
  fb_buffer_release(out[2]);
  CHECK(f.closed == 0 && fb_network_buffer_pool_required(f.network) == 4 + 1);
  fb_buffer_release(out[3]);
  CHECK(f.closed == 1);
  close_fixture(&f);
}

static void what_is_out_comes_home_even_after_the_pools_were_closed(void) {
  struct fb_buffer* out[3];
  struct channel* channel;
  struct fixture f;

  open_fixture(&f, 2, 2);
  channel = open_channel(&f, 2);
  fb_buffer_manager_require(&channel->manager, 3);
  for (int i = 0; i < 3; i++) out[i] = take(channel);
  close_channel(channel);
  fb_local_buffer_pool_close(f.pool);
  fb_network_buffer_pool_close(f.network);
  for (int i = 0; i < 3; i++) {
    out[i]->segment.data[0] = 1; /* the memory is still there */
    fb_buffer_release(out[i]);
  }
  CHECK(f.closed == 1);
}

static void a_released_manager_gives_and_takes_nothing(void) {
  struct fb_buffer* lent;
  struct channel* channel;
  struct fixture f;

  open_fixture(&f, 2, 2);
  channel = open_channel(&f, 2);
  lent = borrow(&f);
  fb_buffer_manager_require(&channel->manager, 9);
  expect_credit(channel, 1);
  fb_buffer_manager_release(&channel->manager);
  fb_buffer_manager_release(&channel->manager);
  CHECK(atomic_load(&channel->references) == 1);
  fb_buffer_manager_require(&channel->manager, 9);
  CHECK(fb_buffer_manager_take(&channel->manager) == NULL);
  fb_buffer_release(lent);
  fb_buffer_manager_release_floating(&channel->manager);
  expect_credit(channel, 0);
  CHECK(fb_buffer_manager_available(&channel->manager) == 0);
  drop(&channel->manager);
  close_fixture(&f);
}

static void release_inside_the_news_of_credit(void) {
  for (int how = 0; how < 3; how++) {
    struct fb_buffer *lent, *exclusive;
    struct channel* channel;
    struct fixture f;

    open_fixture(&f, 2, 2);
    channel = open_channel(&f, 2);
    lent = borrow(&f);
    exclusive = take(channel);
    if (how == 1) fb_buffer_manager_require(&channel->manager, 9);
    channel->releases_at_credit = true;
    if (how == 0) fb_buffer_release(exclusive);           /* it comes home */
    else if (how == 1) fb_buffer_release(lent);           /* the pool offers one */
    else fb_buffer_manager_require(&channel->manager, 2); /* one was borrowed */
    CHECK(!channel->releases_at_credit && fb_buffer_manager_available(&channel->manager) == 0);
    if (how != 0) fb_buffer_release(exclusive);
    if (how != 1) fb_buffer_release(lent);
    CHECK(atomic_load(&channel->references) == 1);
    drop(&channel->manager);
    close_fixture(&f);
  }
}

/* One step of a life, with what it needs of the steps before. */
static void take_step(struct fixture* f, struct channel* channel, int step, struct fb_buffer** held) {
  switch (step) {
    case 0: held[0] = borrow(f); break;
    case 1: fb_buffer_manager_require(&channel->manager, 4); break;
    case 2: held[1] = take(channel); break;
    case 3: held[2] = take(channel); break;
    case 4: held[3] = take(channel); break;
    case 5: fb_buffer_manager_require(&channel->manager, 12); break;
    case 6: fb_buffer_release(held[0]), held[0] = NULL; break;
    case 7: fb_buffer_release(held[3]), held[3] = NULL; break;
    case 8: fb_buffer_manager_release_floating(&channel->manager); break;
    case 9: fb_buffer_manager_require(&channel->manager, 3); break;
    default: fb_buffer_release(held[1]), held[1] = NULL; break;
  }
}

static void release_at_every_point(void) {
  for (int last = 0; last <= 11; last++) {
    struct fb_buffer* held[4] = {NULL};
    struct channel* channel;
    struct fixture f;

    open_fixture(&f, 4, 2);
    channel = open_channel(&f, 2);
    for (int step = 0; step < last; step++) take_step(&f, channel, step, held);
    fb_buffer_manager_release(&channel->manager);
    CHECK(fb_buffer_manager_available(&channel->manager) == 0);
    if (last % 2 == 0) drop(&channel->manager);
    for (int i = 0; i < 4; i++)
      if (held[i] != NULL) fb_buffer_release(held[i]);
    if (last % 2 == 1) drop(&channel->manager);
    close_fixture(&f);
  }
}

/* ---- threads ----------------------------------------------------------------------------------------- */

struct race {
  struct channel* channel;
  struct fb_buffer* held[4];
  pthread_barrier_t start;
};

static void* recycle(void* argument) {
  struct race* race = argument;
  pthread_barrier_wait(&race->start);
  for (int i = 0; i < 4; i++) fb_buffer_release(race->held[i]);
  return NULL;
}

static void* require_and_take(void* argument) {
  struct race* race = argument;
  pthread_barrier_wait(&race->start);
  for (uint32_t i = 0; i < 8; i++) {
    struct fb_buffer* buffer;
    fb_buffer_manager_require(&race->channel->manager, i % 5);
    buffer = fb_buffer_manager_take(&race->channel->manager);
    if (buffer != NULL) fb_buffer_release(buffer);
  }
  drop(&race->channel->manager);
  return NULL;
}

static void* release_all(void* argument) {
  struct race* race = argument;
  pthread_barrier_wait(&race->start);
  sched_yield();
  close_channel(race->channel);
  return NULL;
}

/* Buffers come home, the pool offers, the I/O thread asks and takes, and the task releases, all at once: the
 * channel goes exactly once, and not before the last of them has left it. */
static void release_races_with_everything(void) {
  for (int round = 0; round < 3000; round++) {
    struct race race = {0};
    struct fixture f;
    pthread_t threads[3];
    void* (*const bodies[3])(void*) = {recycle, require_and_take, release_all};

    open_fixture(&f, 3, 3);
    race.channel = open_channel(&f, 3);
    for (int i = 0; i < 3; i++) race.held[i] = take(race.channel);
    race.held[3] = borrow(&f);
    retain(&race.channel->manager); /* for who asks and takes */
    CHECK(pthread_barrier_init(&race.start, NULL, 3) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, bodies[i], &race) == 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&race.start);
    close_fixture(&f);
  }
}

/* Nobody but the exclusive buffers themselves holds the channel while they come home. */
static void the_last_buffers_take_the_channel_with_them(void) {
  for (int round = 0; round < 3000; round++) {
    struct race race = {0};
    struct fixture f;
    pthread_t threads[2];

    open_fixture(&f, 1, 4);
    race.channel = open_channel(&f, 4);
    for (int i = 0; i < 4; i++) race.held[i] = take(race.channel);
    CHECK(pthread_barrier_init(&race.start, NULL, 2) == 0);
    CHECK(pthread_create(&threads[0], NULL, recycle, &race) == 0);
    CHECK(pthread_create(&threads[1], NULL, release_all, &race) == 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&race.start);
    close_fixture(&f);
  }
}

int main(void) {
  fewer_buffers_than_required();
  all_the_buffers_required();
  a_blocked_channel_without_exclusive_buffers_gives_back_what_floats();
  each_buffer_taken_lowers_what_is_required();
  any_backlog_asks_for_no_more_than_there_is();
  floating_buffers_are_shared_fairly();
  a_buffer_that_is_not_wanted_goes_to_the_next_who_waits();
  a_registration_that_is_refused_asks_again();
  one_offer_may_bring_several();
  a_destroyed_pool_lends_nothing();
  what_is_out_at_the_release_comes_home_later();
  what_is_out_comes_home_even_after_the_pools_were_closed();
  a_released_manager_gives_and_takes_nothing();
  release_inside_the_news_of_credit();
  release_at_every_point();
  release_races_with_everything();
  the_last_buffers_take_the_channel_with_them();
  return 0;
}
