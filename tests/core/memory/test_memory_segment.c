/* Access inside and outside a segment, open and freed; the bytes against Flink's are in test_memory_segment.py. */
#include "memory/memory_segment.h"

#include <string.h>

#include "check.h"

static void an_open_segment_is_zeroed_and_closing_twice_is_harmless(void) {
  struct fb_memory_segment segment;

  CHECK(fb_memory_segment_open(&segment, 100) == FB_OK && !fb_memory_segment_is_freed(&segment));
  for (int i = 0; i < 100; i++) CHECK(segment.data[i] == 0);
  fb_memory_segment_close(&segment);
  CHECK(fb_memory_segment_is_freed(&segment) && segment.size == 0);
  fb_memory_segment_close(&segment);
}

static void a_wrapped_segment_leaves_the_memory_alone(void) {
  uint8_t bytes[8] = {0};
  struct fb_memory_segment segment;

  fb_memory_segment_wrap(&segment, bytes, sizeof bytes);
  CHECK(fb_memory_segment_put_u64_be(&segment, 0, 1) == FB_OK);
  fb_memory_segment_close(&segment);
  CHECK(bytes[7] == 1);
}

static void accesses_outside_are_refused_and_do_nothing(void) {
  struct fb_memory_segment segment;
  size_t wrong[] = {9, 15, 16, 17, SIZE_MAX, SIZE_MAX - 6};
  uint64_t value = 7;
  uint8_t byte = 7;

  CHECK(fb_memory_segment_open(&segment, 16) == FB_OK);
  CHECK(fb_memory_segment_put_u64(&segment, 8, UINT64_MAX) == FB_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK(fb_memory_segment_get_u64(&segment, wrong[i], &value) == FB_EBOUNDS && value == 7);
    CHECK(fb_memory_segment_put_u64(&segment, wrong[i], 0) == FB_EBOUNDS);
  }
  CHECK(fb_memory_segment_get_u8(&segment, 16, &byte) == FB_EBOUNDS && byte == 7);
  CHECK(fb_memory_segment_get_u8(&segment, 15, &byte) == FB_OK && byte == 255);
  CHECK(fb_memory_segment_check(&segment, 16, 0) == FB_OK && fb_memory_segment_check(&segment, 17, 0) == FB_EBOUNDS);
  CHECK(fb_memory_segment_check(&segment, 0, SIZE_MAX) == FB_EBOUNDS);
  fb_memory_segment_close(&segment);
  CHECK(fb_memory_segment_get_u64(&segment, 0, &value) == FB_EFREED && value == 7);
  CHECK(fb_memory_segment_put_u8(&segment, 0, 1) == FB_EFREED);
  CHECK(fb_memory_segment_check(&segment, 0, 0) == FB_EFREED);
}

static void ranges_are_copied_compared_and_swapped(void) {
  struct fb_memory_segment one, two;
  struct fb_segment_range left, right;
  int32_t order;
  bool is_equal;

  CHECK(fb_memory_segment_open(&one, 1000) == FB_OK && fb_memory_segment_open(&two, 1000) == FB_OK);
  for (size_t i = 0; i < 1000; i++) one.data[i] = (uint8_t)(i * 31);
  CHECK(fb_memory_segment_copy_to(&one, 0, &two, 0, 1000) == FB_OK);
  left = (struct fb_segment_range){&one, 0, 1000};
  right = (struct fb_segment_range){&two, 0, 1000};
  CHECK(fb_memory_segment_equal_to(&left, &right, &is_equal) == FB_OK && is_equal);
  right.size = 993;
  CHECK(fb_memory_segment_compare(&left, &right, &order) == FB_OK && order == 7);
  CHECK(fb_memory_segment_equal_to(&left, &right, &is_equal) == FB_OK && !is_equal);
  CHECK(fb_memory_segment_compare(&right, &left, &order) == FB_OK && order == -7);
  CHECK(fb_memory_segment_swap_bytes(&one, 0, &one, 500, 500) == FB_OK);
  CHECK(memcmp(one.data, two.data + 500, 500) == 0 && memcmp(one.data + 500, two.data, 500) == 0);
  CHECK(fb_memory_segment_swap_bytes(&one, 0, &one, 499, 500) == FB_EARGUMENT);
  CHECK(fb_memory_segment_swap_bytes(&one, 0, &two, 501, 500) == FB_EBOUNDS);
  CHECK(fb_memory_segment_copy_to(&two, 0, &two, 1, 999) == FB_OK && two.data[999] == (uint8_t)(998 * 31));
  CHECK(fb_memory_segment_copy_to(&one, 990, &two, 0, 11) == FB_EBOUNDS);
  right.offset = 8;
  CHECK(fb_memory_segment_compare(&left, &right, &order) == FB_EBOUNDS);
  CHECK(memcmp(two.data + 1, "\0\37\76\135", 4) == 0);
  fb_memory_segment_close(&one);
  CHECK(fb_memory_segment_copy_to(&two, 0, &one, 0, 1) == FB_EFREED);
  fb_memory_segment_close(&two);
}

int main(void) {
  an_open_segment_is_zeroed_and_closing_twice_is_harmless();
  a_wrapped_segment_leaves_the_memory_alone();
  accesses_outside_are_refused_and_do_nothing();
  ranges_are_copied_compared_and_swapped();
  return 0;
}
