/* Items leave in the order they came, those with priority before all others, wherever in the array they lie. */
#include "ground/ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

#define SIZE sizeof(struct item)

/* As large as what the queues hold, and of no power of two. */
struct item {
  uint32_t number;
  uint32_t others[6];
};

/* Sanitizers refuse memory as the system does, instead of ending the program. */
const char* __asan_default_options(void);
const char* __tsan_default_options(void);
const char* __asan_default_options(void) { return "allocator_may_return_null=1"; }
const char* __tsan_default_options(void) { return "allocator_may_return_null=1"; }

static struct item item_of(uint32_t number) {
  struct item item = {.number = number};
  for (uint32_t i = 0; i < 6; i++) item.others[i] = number + i;
  return item;
}

static void push(struct fb_ring* ring, uint32_t number, bool has_priority) {
  struct item* place = has_priority ? fb_ring_push_priority(ring, SIZE) : fb_ring_push(ring, SIZE);
  *place = item_of(number);
}

static bool has_at(const struct fb_ring* ring, uint32_t position, uint32_t number) {
  struct item expected = item_of(number);
  return memcmp(fb_ring_at(ring, position, SIZE), &expected, SIZE) == 0;
}

static void expect(const struct fb_ring* ring, const uint32_t* numbers, uint32_t count, uint32_t priority_count) {
  CHECK(ring->count == count && ring->priority_count == priority_count);
  for (uint32_t i = 0; i < count; i++) CHECK(has_at(ring, i, numbers[i]));
}
#define EXPECT(ring, priority_count, ...) \
  expect(ring, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), priority_count)

/* A ring with room for 8, whose first item comes to lie at `head` of the array. */
static struct fb_ring ring_from(uint32_t head) {
  struct fb_ring ring = {0};

  CHECK(fb_ring_reserve(&ring, 1, SIZE) == FB_OK && ring.capacity == 8);
  for (uint32_t i = 0; i < head; i++) {
    push(&ring, 1000 + i, false);
    fb_ring_pop(&ring);
  }
  CHECK(ring.head == head && ring.count == 0);
  return ring;
}

static void priority_items_stand_in_front_in_their_order(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_ring ring = ring_from(head);
    push(&ring, 1, false);
    push(&ring, 2, false);
    push(&ring, 10, true);
    push(&ring, 3, false);
    push(&ring, 11, true);
    push(&ring, 12, true);
    EXPECT(&ring, 3, 10, 11, 12, 1, 2, 3);
    fb_ring_pop(&ring);
    push(&ring, 13, true);
    EXPECT(&ring, 3, 11, 12, 13, 1, 2, 3);
    for (int i = 0; i < 4; i++) fb_ring_pop(&ring);
    EXPECT(&ring, 0, 2, 3);
    push(&ring, 14, true);
    EXPECT(&ring, 1, 14, 2, 3);
    fb_ring_close(&ring);
  }
}

static void it_grows_wherever_its_items_lie(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_ring ring = ring_from(head);
    for (uint32_t i = 0; i < 6; i++) push(&ring, i, false);
    push(&ring, 10, true);
    push(&ring, 11, true);
    CHECK(ring.count == ring.capacity);
    CHECK(fb_ring_reserve(&ring, 1, SIZE) == FB_OK && ring.capacity == 16);
    EXPECT(&ring, 2, 10, 11, 0, 1, 2, 3, 4, 5);
    push(&ring, 12, true);
    push(&ring, 6, false);
    EXPECT(&ring, 3, 10, 11, 12, 0, 1, 2, 3, 4, 5, 6);
    CHECK(fb_ring_reserve(&ring, 100, SIZE) == FB_OK && ring.capacity == 128);
    EXPECT(&ring, 3, 10, 11, 12, 0, 1, 2, 3, 4, 5, 6);
    fb_ring_close(&ring);
  }
}

static void room_that_is_there_is_used(void) {
  struct fb_ring ring = ring_from(5);
  void* items = ring.items;

  CHECK(fb_ring_reserve(&ring, 8, SIZE) == FB_OK && ring.capacity == 8 && ring.items == items && ring.head == 5);
  for (uint32_t i = 0; i < 6; i++) push(&ring, i, false);
  CHECK(fb_ring_reserve(&ring, 2, SIZE) == FB_OK && ring.capacity == 8);
  CHECK(fb_ring_reserve(&ring, 3, SIZE) == FB_OK && ring.capacity == 16);
  fb_ring_close(&ring);
}

static void one_is_taken_out_of_the_middle(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_ring ring = ring_from(head);
    for (uint32_t i = 0; i < 5; i++) push(&ring, i, false);
    push(&ring, 10, true);
    push(&ring, 11, true);
    fb_ring_remove(&ring, 3, SIZE);
    EXPECT(&ring, 2, 10, 11, 0, 2, 3, 4);
    fb_ring_remove(&ring, 1, SIZE);
    EXPECT(&ring, 1, 10, 0, 2, 3, 4);
    fb_ring_remove(&ring, 4, SIZE);
    EXPECT(&ring, 1, 10, 0, 2, 3);
    fb_ring_remove(&ring, 0, SIZE);
    EXPECT(&ring, 0, 0, 2, 3);
    fb_ring_close(&ring);
  }
}

/* Too many items, too many bytes to be counted, and more bytes than the system has. */
static void refused_memory_changes_nothing(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_ring ring = ring_from(head);
    const void* items = ring.items;
    push(&ring, 1, false);
    push(&ring, 2, false);
    push(&ring, 10, true);
    CHECK(fb_ring_reserve(&ring, UINT32_MAX, SIZE) == FB_ENOMEM);
    CHECK(fb_ring_reserve(&ring, ((uint32_t)1 << 31) - 2, SIZE) == FB_ENOMEM);
    CHECK(fb_ring_reserve(&ring, 8, SIZE_MAX / 16 + 1) == FB_ENOMEM);
    CHECK(fb_ring_reserve(&ring, 8, SIZE_MAX / 64) == FB_ENOMEM);
    CHECK(ring.items == items && ring.capacity == 8 && ring.head == (head + 7) % 8);
    EXPECT(&ring, 1, 10, 1, 2);
    fb_ring_close(&ring);
  }
}

static void a_closed_ring_can_be_used_again(void) {
  struct fb_ring ring = ring_from(3);

  push(&ring, 1, true);
  fb_ring_close(&ring);
  fb_ring_close(&ring);
  CHECK(ring.items == NULL && ring.capacity == 0 && ring.head == 0 && ring.count == 0 && ring.priority_count == 0);
  CHECK(fb_ring_reserve(&ring, 1, SIZE) == FB_OK);
  push(&ring, 2, false);
  EXPECT(&ring, 0, 2);
  fb_ring_close(&ring);
}

/* The same as two plain arrays, one for each kind. */
static void thousands_of_steps_keep_the_order(void) {
  enum { STEPS = 20000 };
  static uint32_t expected[2][STEPS];
  uint32_t first[2] = {0}, last[2] = {0};
  struct fb_ring ring = {0};

  srand(7);
  for (uint32_t step = 0; step < STEPS; step++) {
    bool has_priority = rand() % 5 == 0;
    if (rand() % 100 < (step < STEPS / 2 ? 60 : 40)) {
      CHECK(fb_ring_reserve(&ring, 1, SIZE) == FB_OK);
      push(&ring, step, has_priority);
      expected[has_priority][last[has_priority]++] = step;
    } else if (ring.count > 0) {
      bool is_priority = first[1] < last[1];
      CHECK(has_at(&ring, 0, expected[is_priority][first[is_priority]++]));
      fb_ring_pop(&ring);
    }
    CHECK(ring.priority_count == last[1] - first[1]);
    CHECK(ring.count == ring.priority_count + last[0] - first[0]);
  }
  CHECK(ring.capacity > 1000);
  fb_ring_close(&ring);
}

int main(void) {
  priority_items_stand_in_front_in_their_order();
  it_grows_wherever_its_items_lie();
  room_that_is_there_is_used();
  one_is_taken_out_of_the_middle();
  refused_memory_changes_nothing();
  a_closed_ring_can_be_used_again();
  thousands_of_steps_keep_the_order();
  return 0;
}
