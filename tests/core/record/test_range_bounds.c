/* Between which bounds a key lies, compared with a look at each of them. */
#include "record/range_bounds.h"

#include <string.h>

#include "check.h"

static uint32_t count_below(const uint8_t (*keys)[12], const size_t* sizes, uint32_t count, const uint8_t* key,
                            size_t size) {
  uint32_t below = 0;

  for (uint32_t i = 0; i < count; i++) {
    int order = memcmp(keys[i], key, sizes[i] < size ? sizes[i] : size);
    below += order < 0 || (order == 0 && sizes[i] < size);
  }
  return below;
}

static void test_a_key_is_above_as_many_bounds_as_compare_below_it(void) {
  for (uint32_t seed = 1; seed < 200; seed++) {
    struct fb_range_bounds bounds = {0};
    uint8_t keys[300][12];
    size_t sizes[300];
    uint32_t state = seed * 2654435761u, count = 0;
    for (uint32_t i = 0; i < 300; i++) { /* a few bytes that differ, so that many begin alike */
      uint8_t key[12] = {1, 7, 7, 7, 7, 7, 7, (uint8_t)(state >> 30), (uint8_t)(i / 4), (uint8_t)(i % 4), 0, 0};
      size_t size = seed % 3 == 0 ? 9 : 10 + (state >> 29) % 3;
      state = state * 1664525u + 1013904223u;
      int code = fb_range_bounds_add(&bounds, key, size);
      CHECK(code == FB_OK || code == FB_EARGUMENT);
      CHECK(bounds.count == count + (code == FB_OK));
      if (code == FB_OK) {
        memcpy(keys[count], key, 12);
        sizes[count++] = size;
      }
    }
    for (uint32_t i = 0; i < 600; i++) {
      uint8_t key[12] = {(uint8_t)(i % 50 == 0 ? 2 : 1),
                         7,
                         7,
                         7,
                         7,
                         7,
                         7,
                         (uint8_t)(state >> 30),
                         (uint8_t)(i / 8),
                         (uint8_t)(i % 8),
                         0,
                         0};
      size_t size = seed % 3 == 0 ? 9 : 9 + (state >> 29) % 4;
      state = state * 1664525u + 1013904223u;
      uint32_t expected = count_below(keys, sizes, count, key, size);
      CHECK(fb_range_bounds_find(&bounds, key, size) == expected);
    }
    fb_range_bounds_close(&bounds);
  }
}

static void test_words_are_found_without_their_bytes(void) {
  struct fb_range_bounds bounds = {0};
  const uint8_t null_key[] = {0}, low[9] = {1, 0, 0, 0, 0, 0, 0, 0, 5}, high[9] = {1, 0xff};

  CHECK(fb_range_bounds_add(&bounds, null_key, 1) == FB_OK);
  CHECK(fb_range_bounds_add(&bounds, low, 9) == FB_OK && fb_range_bounds_add(&bounds, high, 9) == FB_OK);
  CHECK(bounds.are_words);
  CHECK(fb_range_bounds_find_word(&bounds, 0, 0) == 0);
  CHECK(fb_range_bounds_find_word(&bounds, 1, 5) == 1 && fb_range_bounds_find_word(&bounds, 1, 6) == 2);
  CHECK(fb_range_bounds_find_word(&bounds, 1, UINT64_MAX) == 3 && fb_range_bounds_find_word(&bounds, 2, 0) == 3);
  CHECK(fb_range_bounds_find(&bounds, null_key, 1) == 0);
  fb_range_bounds_close(&bounds);
  fb_range_bounds_close(&bounds);
}

static void test_a_bound_that_does_not_rise_is_refused(void) {
  struct fb_range_bounds bounds = {0};

  CHECK(fb_range_bounds_find(&bounds, (const uint8_t*)"b", 1) == 0);
  CHECK(fb_range_bounds_add(&bounds, (const uint8_t*)"b", 0) == FB_EARGUMENT);
  CHECK(fb_range_bounds_add(&bounds, (const uint8_t*)"b", 1) == FB_OK);
  CHECK(fb_range_bounds_add(&bounds, (const uint8_t*)"b", 1) == FB_EARGUMENT);
  CHECK(fb_range_bounds_add(&bounds, (const uint8_t*)"a", 1) == FB_EARGUMENT);
  CHECK(bounds.count == 1);
  fb_range_bounds_close(&bounds);
}

int main(void) {
  test_a_key_is_above_as_many_bounds_as_compare_below_it();
  test_words_are_found_without_their_bytes();
  test_a_bound_that_does_not_rise_is_refused();
  return 0;
}
