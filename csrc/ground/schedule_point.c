#include "ground/schedule_point.h"

#ifdef FB_HOSTILE_SCHEDULE

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Nothing here is locked or stored as elsewhere: that would be a point in a point. */

#define OFTEN_ONE_IN  24 /* points where threads often stay */
#define YIELDS_ONE_IN 32 /* passes of all others */
#define STAYS_MAX     10 /* at one point, until it counts as all others */
#define LONG_STAY_US  2000
#define SHORT_STAY_US 200

static uint64_t seed; /* 0: threads go as they like */
static uint32_t epoch, thread_count;
static const char* planted;

static __thread uint64_t random_state;
static __thread uint32_t known_epoch;

static uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x7fb5d329728ea185u;
  value = (value ^ (value >> 27)) * 0x81dadef4bc2dd44du;
  return value ^ (value >> 33);
}

static uint32_t hash_of(const char* name) {
  const char* slash = strrchr(name, '/'); /* the same in every checkout */
  uint32_t hash = 2166136261u;

  for (const char* at = slash != NULL ? slash + 1 : name; *at != 0; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
  return hash | 1;
}

static uint32_t random_below(uint32_t limit) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % limit;
}

static void stay(uint32_t most_us) {
  struct timespec time = {.tv_nsec = (long)random_below(most_us) * 1000};
  nanosleep(&time, NULL);
}

void fb_schedule_point_start(uint64_t number) {
  __atomic_store_n(&thread_count, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&seed, number, __ATOMIC_RELAXED);
  __atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE);
}

void fb_schedule_point_reach(struct fb_schedule_point* self) {
  uint64_t number = __atomic_load_n(&seed, __ATOMIC_RELAXED);
  uint32_t now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
  uint32_t hash = __atomic_load_n(&self->hash, __ATOMIC_RELAXED);

  if (number == 0) return;
  if (known_epoch != now) {
    known_epoch = now;
    random_state = mixed(number + (uint64_t)__atomic_fetch_add(&thread_count, 1, __ATOMIC_RELAXED) * 977);
  }
  if (hash == 0) __atomic_store_n(&self->hash, hash = hash_of(self->name), __ATOMIC_RELAXED);
  if (mixed(number ^ ((uint64_t)hash << 20)) % OFTEN_ONE_IN == 0 &&
      __atomic_load_n(&self->stays, __ATOMIC_RELAXED) / STAYS_MAX <= now && random_below(3) == 0) {
    __atomic_fetch_add(&self->stays, 1, __ATOMIC_RELAXED);
    stay(random_below(4) == 0 ? LONG_STAY_US : SHORT_STAY_US);
  } else if (random_below(YIELDS_ONE_IN) == 0) {
    sched_yield();
  }
}

void fb_schedule_point_plant(const char* name) { __atomic_store_n(&planted, name, __ATOMIC_RELEASE); }

bool fb_schedule_point_is_planted(const char* name) {
  const char* there = __atomic_load_n(&planted, __ATOMIC_ACQUIRE);
  return there != NULL && strcmp(there, name) == 0;
}

__attribute__((constructor)) static void read_environment(void) {
  const char* number = getenv("FB_SCHEDULE_SEED");

  fb_schedule_point_plant(getenv("FB_PLANT"));
  if (number != NULL) fb_schedule_point_start(strtoull(number, NULL, 0));
}

#endif
