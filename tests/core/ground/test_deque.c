/* Items leave in the order they came, those with priority before all others, wherever in the array they lie. */
#include "ground/deque.h"

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

static void push(struct fb_deque* deque, uint32_t number, bool has_priority) {
  struct item* place = has_priority ? fb_deque_push_priority(deque, SIZE) : fb_deque_push(deque, SIZE);
  *place = item_of(number);
}

static bool has_at(const struct fb_deque* deque, uint32_t position, uint32_t number) {
  struct item expected = item_of(number);
  return memcmp(fb_deque_at(deque, position, SIZE), &expected, SIZE) == 0;
}

static void expect(const struct fb_deque* deque, const uint32_t* numbers, uint32_t count, uint32_t priority_count) {
  CHECK(deque->count == count && deque->priority_count == priority_count);
  for (uint32_t i = 0; i < count; i++) CHECK(has_at(deque, i, numbers[i]));
}
#define EXPECT(deque, priority_count, ...) \
  expect(deque, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), priority_count)

/* A deque with room for 8, whose first item comes to lie at `head` of the array. */
static struct fb_deque deque_from(uint32_t head) {
  struct fb_deque deque = {0};

  CHECK(fb_deque_reserve(&deque, 1, SIZE) == FB_OK && deque.capacity == 8);
  for (uint32_t i = 0; i < head; i++) {
    push(&deque, 1000 + i, false);
    fb_deque_pop(&deque);
  }
  CHECK(deque.head == head && deque.count == 0);
  return deque;
}

static void priority_items_stand_in_front_in_their_order(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_deque deque = deque_from(head);
    push(&deque, 1, false);
    push(&deque, 2, false);
    push(&deque, 10, true);
    push(&deque, 3, false);
    push(&deque, 11, true);
    push(&deque, 12, true);
    EXPECT(&deque, 3, 10, 11, 12, 1, 2, 3);
    fb_deque_pop(&deque);
    push(&deque, 13, true);
    EXPECT(&deque, 3, 11, 12, 13, 1, 2, 3);
    for (int i = 0; i < 4; i++) fb_deque_pop(&deque);
    EXPECT(&deque, 0, 2, 3);
    push(&deque, 14, true);
    EXPECT(&deque, 1, 14, 2, 3);
    fb_deque_close(&deque);
  }
}

static void it_grows_wherever_its_items_lie(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_deque deque = deque_from(head);
    for (uint32_t i = 0; i < 6; i++) push(&deque, i, false);
    push(&deque, 10, true);
    push(&deque, 11, true);
    CHECK(deque.count == deque.capacity);
    CHECK(fb_deque_reserve(&deque, 1, SIZE) == FB_OK && deque.capacity == 16);
    EXPECT(&deque, 2, 10, 11, 0, 1, 2, 3, 4, 5);
    push(&deque, 12, true);
    push(&deque, 6, false);
    EXPECT(&deque, 3, 10, 11, 12, 0, 1, 2, 3, 4, 5, 6);
    CHECK(fb_deque_reserve(&deque, 100, SIZE) == FB_OK && deque.capacity == 128);
    EXPECT(&deque, 3, 10, 11, 12, 0, 1, 2, 3, 4, 5, 6);
    fb_deque_close(&deque);
  }
}

static void room_that_is_there_is_used(void) {
  struct fb_deque deque = deque_from(5);
  void* items = deque.items;

  CHECK(fb_deque_reserve(&deque, 8, SIZE) == FB_OK && deque.capacity == 8 && deque.items == items && deque.head == 5);
  for (uint32_t i = 0; i < 6; i++) push(&deque, i, false);
  CHECK(fb_deque_reserve(&deque, 2, SIZE) == FB_OK && deque.capacity == 8);
  CHECK(fb_deque_reserve(&deque, 3, SIZE) == FB_OK && deque.capacity == 16);
  fb_deque_close(&deque);
}

static void one_is_taken_out_of_the_middle(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_deque deque = deque_from(head);
    for (uint32_t i = 0; i < 5; i++) push(&deque, i, false);
    push(&deque, 10, true);
    push(&deque, 11, true);
    fb_deque_remove(&deque, 3, SIZE);
    EXPECT(&deque, 2, 10, 11, 0, 2, 3, 4);
    fb_deque_remove(&deque, 1, SIZE);
    EXPECT(&deque, 1, 10, 0, 2, 3, 4);
    fb_deque_remove(&deque, 4, SIZE);
    EXPECT(&deque, 1, 10, 0, 2, 3);
    fb_deque_remove(&deque, 0, SIZE);
    EXPECT(&deque, 0, 0, 2, 3);
    fb_deque_close(&deque);
  }
}

/* Too many items, too many bytes to be counted, and more bytes than the system has. */
static void refused_memory_changes_nothing(void) {
  for (uint32_t head = 0; head < 8; head++) {
    struct fb_deque deque = deque_from(head);
    const void* items = deque.items;
    push(&deque, 1, false);
    push(&deque, 2, false);
    push(&deque, 10, true);
    CHECK(fb_deque_reserve(&deque, UINT32_MAX, SIZE) == FB_ENOMEM);
    CHECK(fb_deque_reserve(&deque, ((uint32_t)1 << 31) - 2, SIZE) == FB_ENOMEM);
    CHECK(fb_deque_reserve(&deque, 8, SIZE_MAX / 16 + 1) == FB_ENOMEM);
    CHECK(fb_deque_reserve(&deque, 8, SIZE_MAX / 64) == FB_ENOMEM);
    CHECK(deque.items == items && deque.capacity == 8 && deque.head == (head + 7) % 8);
    EXPECT(&deque, 1, 10, 1, 2);
    fb_deque_close(&deque);
  }
}

static void a_closed_ring_can_be_used_again(void) {
  struct fb_deque deque = deque_from(3);

  push(&deque, 1, true);
  fb_deque_close(&deque);
  fb_deque_close(&deque);
  CHECK(deque.items == NULL && deque.capacity == 0 && deque.head == 0 && deque.count == 0 && deque.priority_count == 0);
  CHECK(fb_deque_reserve(&deque, 1, SIZE) == FB_OK);
  push(&deque, 2, false);
  EXPECT(&deque, 0, 2);
  fb_deque_close(&deque);
}

/* The same as two plain arrays, one for each kind. */
static void thousands_of_steps_keep_the_order(void) {
  enum { STEPS = 20000 };
  static uint32_t expected[2][STEPS];
  uint32_t first[2] = {0}, last[2] = {0};
  struct fb_deque deque = {0};

  srand(7);
  for (uint32_t step = 0; step < STEPS; step++) {
    bool has_priority = rand() % 5 == 0;
    if (rand() % 100 < (step < STEPS / 2 ? 60 : 40)) {
      CHECK(fb_deque_reserve(&deque, 1, SIZE) == FB_OK);
      push(&deque, step, has_priority);
      expected[has_priority][last[has_priority]++] = step;
    } else if (deque.count > 0) {
      bool is_priority = first[1] < last[1];
      CHECK(has_at(&deque, 0, expected[is_priority][first[is_priority]++]));
      fb_deque_pop(&deque);
    }
    CHECK(deque.priority_count == last[1] - first[1]);
    CHECK(deque.count == deque.priority_count + last[0] - first[0]);
  }
  CHECK(deque.capacity > 1000);
  fb_deque_close(&deque);
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
