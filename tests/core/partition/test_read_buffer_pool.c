#include "partition/read_buffer_pool.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "check.h"

#define KIB ((uint32_t)1024)

static struct fb_io_executor* executor;
static _Atomic uint32_t calls;

struct user {
  struct fb_io_request request;
  struct fb_read_consumer* consumer;
  _Atomic uint32_t calls;
};

static void count_call(struct fb_io_request* request) {
  atomic_fetch_add(&((struct user*)request)->calls, 1); /* the first member */
  atomic_fetch_add(&calls, 1);
}

static void open_user(struct user* self, struct fb_read_buffer_pool* pool) {
  memset(self, 0, sizeof *self);
  self->request.run = count_call;
  CHECK(fb_read_buffer_pool_open_consumer(pool, executor, &self->request, &self->consumer) == FB_OK);
}

static void close_user(struct user* self) {
  fb_read_buffer_pool_close_consumer(self->consumer);
  fb_io_executor_cancel(executor, &self->request);
}

static uint32_t request(struct user* self, uint32_t least, uint32_t wanted, struct fb_buffer** chunk) {
  CHECK(fb_read_buffer_pool_request(self->consumer, least, wanted, chunk) == FB_OK);
  if (*chunk != NULL) memset((*chunk)->segment.data, 0xab, (*chunk)->segment.size);
  return *chunk == NULL ? 0 : (uint32_t)(*chunk)->segment.size;
}

static struct fb_read_pool_usage usage_of(struct fb_read_buffer_pool* pool) {
  struct fb_read_pool_usage usage;
  fb_read_buffer_pool_get_usage(pool, &usage);
  return usage;
}

static void wait_for_calls(uint32_t count) {
  while (atomic_load(&calls) < count) sched_yield();
}

static void test_one_consumer_gets_all_it_wants(void) {
  struct fb_read_buffer_pool* pool;
  struct fb_buffer* chunks[3];
  struct user user;

  CHECK(fb_read_buffer_pool_open(1024 * KIB, 1000, &pool) == FB_OK);
  open_user(&user, pool);
  CHECK(request(&user, 64, 512 * KIB, &chunks[0]) == 512 * KIB);
  CHECK(request(&user, 64, 5000, &chunks[1]) == 8 * KIB);
  CHECK(request(&user, 64, 512 * KIB, &chunks[2]) == 256 * KIB); /* what is left, as a size that can be used again */
  CHECK(usage_of(pool).used == 776 * KIB);
  for (uint32_t i = 0; i < 3; i++) fb_buffer_release(chunks[i]);
  CHECK(usage_of(pool).used == 0 && usage_of(pool).cached == 776 * KIB && usage_of(pool).peak == 776 * KIB);
  CHECK(request(&user, 64, 512 * KIB, &chunks[0]) == 512 * KIB && usage_of(pool).cached == 264 * KIB);
  /* A chunk outlives its consumer, and the pool's handle. */
  close_user(&user);
  CHECK(usage_of(pool).cached == 0 && usage_of(pool).consumers == 0);
  fb_read_buffer_pool_drop(pool);
  fb_buffer_release(chunks[0]);
}

/* Nobody has more than a share; a reader that is refused is called when its own memory comes home. */
static void test_shares(void) {
  struct fb_read_buffer_pool* pool;
  struct fb_buffer *first, *second, *none;
  struct user users[4];
  uint32_t before;

  CHECK(fb_read_buffer_pool_open(1024 * KIB, 1000, &pool) == FB_OK);
  for (uint32_t i = 0; i < 4; i++) open_user(&users[i], pool);
  CHECK(request(&users[0], 64, 512 * KIB, &first) == 256 * KIB);
  CHECK(request(&users[0], 64, 512 * KIB, &none) == 0 && usage_of(pool).waiting == 0);
  CHECK(request(&users[1], 64, 512 * KIB, &second) == 256 * KIB);
  before = atomic_load(&calls);
  fb_buffer_release(second);
  CHECK(atomic_load(&calls) == before);
  fb_buffer_release(first);
  wait_for_calls(before + 1);
  for (uint32_t i = 0; i < 4; i++) close_user(&users[i]);
  fb_read_buffer_pool_drop(pool);
}

/* However many hold their memory and wait for others, each gets the little it needs: no circle of readers stands still. */
static void test_everybody_goes_on(void) {
  enum { USERS = 1000 };
  static struct user users[USERS];
  static struct fb_buffer* chunks[USERS];
  struct fb_read_buffer_pool* pool;
  struct fb_buffer* large;

  CHECK(fb_read_buffer_pool_open(1024 * KIB, 1000, &pool) == FB_OK);
  open_user(&users[0], pool);
  CHECK(request(&users[0], 64, 512 * KIB, &large) == 512 * KIB);
  for (uint32_t i = 1; i < USERS; i++) open_user(&users[i], pool);
  for (uint32_t i = 1; i < USERS; i++) CHECK(request(&users[i], 64, 512 * KIB, &chunks[i]) == 4 * KIB);
  CHECK(usage_of(pool).used == 512 * KIB + (USERS - 1) * 4 * KIB && usage_of(pool).overdrafts > 0);
  for (uint32_t i = 1; i < USERS; i++) fb_buffer_release(chunks[i]);
  fb_buffer_release(large);
  for (uint32_t i = 0; i < USERS; i++) close_user(&users[i]);
  CHECK(usage_of(pool).used == 0);
  fb_read_buffer_pool_drop(pool);
}

/* Beyond twice the budget one waits in line, is called when something comes home, and gives up when nothing ever does. */
static void test_line_and_time_out(void) {
  struct fb_read_buffer_pool *pool, *impatient;
  struct fb_buffer *held[4], *none;
  struct user users[3];
  uint32_t before;

  CHECK(fb_read_buffer_pool_open(256 * KIB, 3600000, &pool) == FB_OK);
  for (uint32_t i = 0; i < 3; i++) open_user(&users[i], pool);
  CHECK(request(&users[0], 256 * KIB, 256 * KIB, &held[0]) == 256 * KIB);
  CHECK(request(&users[1], 256 * KIB, 256 * KIB, &held[1]) == 256 * KIB); /* over the budget: it holds nothing */
  CHECK(request(&users[2], 256 * KIB, 256 * KIB, &none) == 0 && usage_of(pool).waiting == 1);
  CHECK(fb_read_buffer_pool_holds_nothing(users[2].consumer) && !fb_read_buffer_pool_holds_nothing(users[1].consumer));
  CHECK(request(&users[2], 256 * KIB, 256 * KIB, &none) == 0 && usage_of(pool).waiting == 1);
  before = atomic_load(&calls);
  fb_buffer_release(held[0]);
  wait_for_calls(before + 1);
  CHECK(usage_of(pool).waiting == 1 && request(&users[2], 256 * KIB, 256 * KIB, &held[2]) == 256 * KIB);
  fb_buffer_release(held[1]);
  fb_buffer_release(held[2]);
  for (uint32_t i = 0; i < 3; i++) close_user(&users[i]);
  fb_read_buffer_pool_drop(pool);

  CHECK(fb_read_buffer_pool_open(4 * KIB, 0, &impatient) == FB_OK);
  for (uint32_t i = 0; i < 3; i++) open_user(&users[i], impatient);
  CHECK(request(&users[0], 1024 * KIB, 1024 * KIB, &held[0]) == 1024 * KIB); /* nobody else has anything */
  CHECK(request(&users[1], 1024 * KIB, 1024 * KIB, &none) == 0);
  CHECK(fb_read_buffer_pool_request(users[1].consumer, 1024 * KIB, 1024 * KIB, &none) == FB_ETIMEOUT && none == NULL);
  fb_buffer_release(held[0]);
  CHECK(request(&users[1], 1024 * KIB, 1024 * KIB, &held[1]) == 1024 * KIB);
  fb_buffer_release(held[1]);
  for (uint32_t i = 0; i < 3; i++) close_user(&users[i]);
  fb_read_buffer_pool_drop(impatient);
}

/* Until all requests that were posted have run. */
static void settle(void) {
  while (fb_io_executor_pending_count(executor) > 0) sched_yield();
}

static uint32_t take_calls(struct user* self) {
  settle();
  return atomic_exchange(&self->calls, 0);
}

enum { FIRST, SECOND, LARGE, OTHER, LINE_USERS };

/* FIRST and SECOND hold 16 KiB each and stand in line for more; LARGE and OTHER have all the rest. */
struct line {
  struct fb_read_buffer_pool* pool;
  struct user users[LINE_USERS];
  struct fb_buffer* held[LINE_USERS];
};

static void open_line(struct line* self) {
  struct fb_buffer* none;

  CHECK(fb_read_buffer_pool_open(256 * KIB, 0, &self->pool) == FB_OK);
  for (uint32_t i = 0; i < LINE_USERS; i++) open_user(&self->users[i], self->pool);
  CHECK(request(&self->users[FIRST], 64, 16 * KIB, &self->held[FIRST]) == 16 * KIB);
  CHECK(request(&self->users[SECOND], 64, 16 * KIB, &self->held[SECOND]) == 16 * KIB);
  CHECK(request(&self->users[LARGE], 128 * KIB, 128 * KIB, &self->held[LARGE]) == 128 * KIB);
  CHECK(request(&self->users[OTHER], 96 * KIB, 96 * KIB, &self->held[OTHER]) == 128 * KIB);
  CHECK(request(&self->users[FIRST], 64, 48 * KIB, &none) == 0);
  CHECK(request(&self->users[SECOND], 64, 48 * KIB, &none) == 0 && usage_of(self->pool).waiting == 2);
  CHECK(take_calls(&self->users[FIRST]) == 0 && take_calls(&self->users[SECOND]) == 0);
}

static void give_back(struct line* self, uint32_t index) {
  fb_buffer_release(self->held[index]);
  self->held[index] = NULL;
}

static void close_line(struct line* self) {
  for (uint32_t i = 0; i < LINE_USERS; i++) {
    if (self->held[i] != NULL) give_back(self, i);
    close_user(&self->users[i]);
  }
  CHECK(usage_of(self->pool).used == 0 && usage_of(self->pool).waiting == 0);
  fb_read_buffer_pool_drop(self->pool);
}

/* Whoever is before it: nobody else would call it, and its reader has nothing left to give. */
static void test_what_holds_nothing_any_more_is_called(void) {
  struct line line;

  open_line(&line);
  give_back(&line, SECOND);
  CHECK(take_calls(&line.users[SECOND]) == 1);
  CHECK(request(&line.users[SECOND], 64, 48 * KIB, &line.held[SECOND]) >= 4 * KIB);
  CHECK(usage_of(line.pool).waiting == 1);
  give_back(&line, FIRST);
  CHECK(take_calls(&line.users[FIRST]) >= 1);
  CHECK(request(&line.users[FIRST], 64, 48 * KIB, &line.held[FIRST]) >= 4 * KIB);
  close_line(&line);
}

/* Between the call and the question nobody else gets what it was called for. */
static void test_what_was_called_keeps_its_place(void) {
  struct fb_buffer *none, *more;
  struct line line;

  open_line(&line);
  CHECK(request(&line.users[OTHER], 64, 48 * KIB, &none) == 0); /* it waits for its own share */
  give_back(&line, LARGE);
  CHECK(take_calls(&line.users[FIRST]) == 1 && usage_of(line.pool).waiting == 2);
  CHECK(take_calls(&line.users[SECOND]) == 1 || request(&line.users[SECOND], 64, 48 * KIB, &none) == 0);
  CHECK(request(&line.users[FIRST], 64, 32 * KIB, &more) == 32 * KIB);
  CHECK(usage_of(line.pool).waiting == 1);
  fb_buffer_release(more);
  close_line(&line);
}

/* It never comes to ask: the next one is called in its place. */
static void test_what_leaves_the_line_calls_the_next(void) {
  struct fb_buffer* more;
  struct line line;

  open_line(&line);
  give_back(&line, LARGE);
  take_calls(&line.users[FIRST]);
  CHECK(request(&line.users[LARGE], 64 * KIB, 64 * KIB, &line.held[LARGE]) == 64 * KIB);
  give_back(&line, FIRST);
  close_user(&line.users[FIRST]);
  CHECK(take_calls(&line.users[SECOND]) >= 1);
  CHECK(request(&line.users[SECOND], 64, 32 * KIB, &more) == 32 * KIB);
  fb_buffer_release(more);
  open_user(&line.users[FIRST], line.pool);
  close_line(&line);
}

static void test_arguments(void) {
  struct fb_read_buffer_pool* pool;
  CHECK(fb_read_buffer_pool_open(4 * KIB - 1, 1000, &pool) == FB_EARGUMENT && pool == NULL);
  CHECK(fb_read_buffer_pool_open(4 * KIB, -1, &pool) == FB_EARGUMENT);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void* use_pool(void* context) {
  struct fb_read_buffer_pool* pool = context;

  for (uint32_t round = 0; round < 20; round++) {
    struct fb_buffer* chunks[4] = {0};
    struct user user;
    open_user(&user, pool);
    for (uint32_t i = 0; i < 100; i++) {
      struct fb_buffer** slot = &chunks[i % 4];
      if (*slot != NULL) fb_buffer_release(*slot);
      *slot = NULL;
      if (fb_read_buffer_pool_request(user.consumer, 64, (i % 7 + 1) * 10 * KIB, slot) != FB_OK) abort();
      if (*slot != NULL) (*slot)->segment.data[(*slot)->segment.size - 1] = 1;
    }
    close_user(&user);
    for (uint32_t i = 0; i < 4; i++)
      if (chunks[i] != NULL) fb_buffer_release(chunks[i]);
  }
  return NULL;
}

static void test_threads(void) {
  struct fb_read_buffer_pool* pool;
  pthread_t threads[8];

  CHECK(fb_read_buffer_pool_open(256 * KIB, 3600000, &pool) == FB_OK);
  for (uint32_t i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, use_pool, pool) == 0);
  for (uint32_t i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(usage_of(pool).used == 0 && usage_of(pool).waiting == 0 && usage_of(pool).peak <= 512 * KIB);
  fb_read_buffer_pool_drop(pool);
}

int main(void) {
  CHECK(fb_io_executor_open("pool test", &executor) == FB_OK);
  test_arguments();
  test_one_consumer_gets_all_it_wants();
  test_shares();
  test_everybody_goes_on();
  test_line_and_time_out();
  test_what_holds_nothing_any_more_is_called();
  test_what_was_called_keeps_its_place();
  test_what_leaves_the_line_calls_the_next();
  test_threads();
  fb_io_executor_close(executor);
  fb_io_executor_drop(executor);
  return 0;
}
