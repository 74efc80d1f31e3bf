/* A ring is never lost, and a removed bell is not rung. */
#include "ground/wakeup.h"

#include "check.h"
#include "ground/errors.h"

#define ROUNDS 20000

struct ping_pong {
  struct fb_wakeup bells[2];
  _Atomic int ball; /* whose turn it is */
};

static void play(struct ping_pong* game, int me) {
  for (int i = 0; i < ROUNDS; i++) {
    for (;;) {
      uint64_t seen = fb_wakeup_seen(&game->bells[me]);
      if (atomic_load(&game->ball) == me) break;
      CHECK(fb_wakeup_wait(&game->bells[me], seen, 20000)); /* a lost ring would show as a time-out */
    }
    atomic_store(&game->ball, 1 - me);
    fb_wakeup_ring(&game->bells[1 - me]);
  }
}

static void* play_second(void* argument) {
  play(argument, 1);
  return NULL;
}

static void two_threads_wake_each_other_without_losing_a_ring(void) {
  struct ping_pong game = {.ball = 0};
  pthread_t thread;

  for (int i = 0; i < 2; i++) CHECK(fb_wakeup_open(&game.bells[i]) == FB_OK);
  CHECK(pthread_create(&thread, NULL, play_second, &game) == 0);
  play(&game, 0);
  pthread_join(thread, NULL);
  for (int i = 0; i < 2; i++) fb_wakeup_close(&game.bells[i]);
}

#define SLEEPERS 4

struct crowd {
  struct fb_wakeup bell, answer;
  _Atomic uint64_t heard[SLEEPERS];
  _Atomic int next;
};

static void* hear_all(void* argument) {
  struct crowd* crowd = argument;
  _Atomic uint64_t* heard = &crowd->heard[atomic_fetch_add(&crowd->next, 1)];

  while (atomic_load(heard) < ROUNDS / 4) {
    CHECK(fb_wakeup_wait(&crowd->bell, atomic_load(heard), 20000)); /* some sleep already, some are about to */
    atomic_store(heard, fb_wakeup_seen(&crowd->bell));
    fb_wakeup_ring(&crowd->answer);
  }
  return NULL;
}

static void a_ring_wakes_all_who_sleep_on_the_bell(void) {
  struct crowd crowd = {.next = 0};
  pthread_t threads[SLEEPERS];

  CHECK(fb_wakeup_open(&crowd.bell) == FB_OK && fb_wakeup_open(&crowd.answer) == FB_OK);
  for (int i = 0; i < SLEEPERS; i++) CHECK(pthread_create(&threads[i], NULL, hear_all, &crowd) == 0);
  for (uint64_t round = 1; round <= ROUNDS / 4; round++) {
    fb_wakeup_ring(&crowd.bell);
    for (int i = 0; i < SLEEPERS; i++) {
      uint64_t seen = fb_wakeup_seen(&crowd.answer);
      while (atomic_load(&crowd.heard[i]) < round) {
        CHECK(fb_wakeup_wait(&crowd.answer, seen, 20000));
        seen = fb_wakeup_seen(&crowd.answer);
      }
    }
  }
  for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
  fb_wakeup_close(&crowd.bell);
  fb_wakeup_close(&crowd.answer);
}

static void a_wait_ends_at_its_time_or_at_once_when_rung_before(void) {
  struct fb_wakeup bell;
  uint64_t seen;
  int64_t start;

  CHECK(fb_wakeup_open(&bell) == FB_OK);
  start = fb_wakeup_now_ms();
  CHECK(!fb_wakeup_wait(&bell, fb_wakeup_seen(&bell), 30));
  CHECK(fb_wakeup_now_ms() - start >= 29);
  CHECK(!fb_wakeup_wait(&bell, fb_wakeup_seen(&bell), 0));
  seen = fb_wakeup_seen(&bell);
  fb_wakeup_ring(&bell);
  CHECK(fb_wakeup_wait(&bell, seen, -1));
  CHECK(fb_wakeup_wait(&bell, seen, INT64_MAX));
  fb_wakeup_close(&bell);
  fb_wakeup_close(&bell);
}

static void a_list_rings_those_in_it(void) {
  struct fb_wakeup_list list;
  struct fb_wakeup bells[9];

  CHECK(fb_wakeup_list_open(&list) == FB_OK && fb_wakeup_list_is_empty(&list));
  fb_wakeup_list_ring(&list);
  for (int i = 0; i < 9; i++) {
    CHECK(fb_wakeup_open(&bells[i]) == FB_OK);
    CHECK(fb_wakeup_list_add(&list, &bells[i]) == FB_OK);
  }
  fb_wakeup_list_ring(&list);
  CHECK(fb_wakeup_list_remove(&list, &bells[3]) && !fb_wakeup_list_remove(&list, &bells[3]));
  fb_wakeup_list_ring(&list);
  for (int i = 0; i < 9; i++) {
    CHECK(fb_wakeup_seen(&bells[i]) == (i == 3 ? 1u : 2u));
    CHECK(fb_wakeup_list_remove(&list, &bells[i]) == (i != 3));
    fb_wakeup_close(&bells[i]);
  }
  CHECK(fb_wakeup_list_is_empty(&list));
  fb_wakeup_list_close(&list);
  fb_wakeup_list_close(&list);
}

static void* ring_until_told(void* argument) {
  struct {
    struct fb_wakeup_list list;
    _Atomic bool is_over;
  }* shared = argument;
  while (!atomic_load(&shared->is_over)) fb_wakeup_list_ring(&shared->list);
  return NULL;
}

static void a_bell_may_go_right_after_its_removal(void) {
  struct {
    struct fb_wakeup_list list;
    _Atomic bool is_over;
  } shared = {0};
  pthread_t thread;

  CHECK(fb_wakeup_list_open(&shared.list) == FB_OK);
  CHECK(pthread_create(&thread, NULL, ring_until_told, &shared) == 0);
  for (int i = 0; i < 2000; i++) {
    struct fb_wakeup bell;
    CHECK(fb_wakeup_open(&bell) == FB_OK);
    CHECK(fb_wakeup_list_add(&shared.list, &bell) == FB_OK);
    if (i % 100 == 0) fb_wakeup_wait(&bell, 0, -1);
    fb_wakeup_list_remove(&shared.list, &bell);
    fb_wakeup_close(&bell);
  }
  atomic_store(&shared.is_over, true);
  pthread_join(thread, NULL);
  fb_wakeup_list_close(&shared.list);
}

static void* ring_the_last_time(void* argument) {
  struct fb_wakeup_shared* bell = argument;

  for (int i = 0; i < 20; i++) fb_wakeup_ring(&bell->wakeup);
  fb_wakeup_shared_drop(bell);
  return NULL;
}

/* A task's bell goes with the last one who may ring it, which may be long after the task. */
static void a_shared_bell_lives_as_long_as_somebody_may_ring_it(void) {
  for (int round = 0; round < 300; round++) {
    struct fb_wakeup_shared* bell;
    pthread_t threads[SLEEPERS];

    CHECK(fb_wakeup_shared_open(&bell) == FB_OK && fb_wakeup_seen(&bell->wakeup) == 0);
    for (int i = 0; i < SLEEPERS; i++) {
      fb_wakeup_shared_retain(bell);
      CHECK(pthread_create(&threads[i], NULL, ring_the_last_time, bell) == 0);
    }
    if (round % 2 == 0) CHECK(fb_wakeup_wait(&bell->wakeup, 0, 20000));
    fb_wakeup_shared_drop(bell);
    for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
  }
}

int main(void) {
  two_threads_wake_each_other_without_losing_a_ring();
  a_ring_wakes_all_who_sleep_on_the_bell();
  a_wait_ends_at_its_time_or_at_once_when_rung_before();
  a_list_rings_those_in_it();
  a_bell_may_go_right_after_its_removal();
  a_shared_bell_lives_as_long_as_somebody_may_ring_it();
  return 0;
}
