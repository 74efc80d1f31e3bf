#include "ground/data_view.h"

#include <string.h>

#include "check.h"

static void put(struct fb_data_output* output, const void* bytes, size_t size) {
  CHECK(fb_data_output_reserve(output, size) == FB_OK);
  memcpy(output->pos, bytes, size);
  output->pos += size;
}

static void bytes_that_fit_stay_in_the_borrowed_memory(void) {
  struct fb_data_output output = {0};
  uint8_t segment[8];

  fb_data_output_start(&output, segment, segment + sizeof segment);
  put(&output, "12345678", 8);
  CHECK(!fb_data_output_in_scratch(&output) && output.start == segment && output.scratch == NULL);
  CHECK(fb_data_output_size(&output) == 8 && memcmp(segment, "12345678", 8) == 0);
  fb_data_output_close(&output);
}

static void bytes_that_do_not_fit_move_on_to_the_scratch(void) {
  struct fb_data_output output = {0};
  uint8_t segment[8];

  fb_data_output_start(&output, segment, segment + sizeof segment);
  put(&output, "12345", 5);
  put(&output, "6789", 4);
  CHECK(fb_data_output_in_scratch(&output) && fb_data_output_size(&output) == 9);
  CHECK(memcmp(output.start, "123456789", 9) == 0);
  for (int i = 0; i < 1000; i++) put(&output, "abcdefghij", 10); /* growing keeps what is there */
  CHECK(fb_data_output_size(&output) == 10009 && memcmp(output.start, "123456789abcdefghij", 19) == 0);
  CHECK(memcmp(output.start + 9999, "abcdefghij", 10) == 0);

  /* The next record starts in the segment again, and the scratch is kept for later. */
  size_t capacity = output.scratch_capacity;
  fb_data_output_start(&output, segment, segment + sizeof segment);
  put(&output, "x", 1);
  CHECK(!fb_data_output_in_scratch(&output) && segment[0] == 'x' && output.scratch_capacity == capacity);
  put(&output, "12345678", 8);
  CHECK(fb_data_output_in_scratch(&output) && memcmp(output.start, "x12345678", 9) == 0);
  CHECK(output.scratch_capacity == capacity);
  fb_data_output_close(&output);
  CHECK(output.scratch == NULL);
  fb_data_output_close(&output);
}

static void scratch_can_be_used_from_the_start(void) {
  struct fb_data_output output = {0};

  for (int round = 0; round < 2; round++) {
    fb_data_output_start_scratch(&output);
    CHECK(fb_data_output_size(&output) == 0);
    put(&output, "abc", 3);
    CHECK(fb_data_output_in_scratch(&output) && memcmp(output.start, "abc", 3) == 0);
  }
  fb_data_output_close(&output);
}

static void record_of_2_gib_is_refused_and_what_is_written_stays(void) {
  struct fb_data_output output = {0};
  uint8_t segment[8];

  fb_data_output_start(&output, segment, segment + sizeof segment);
  put(&output, "1234", 4);
  CHECK(fb_data_output_reserve(&output, (size_t)INT32_MAX - 3) == FB_ETOO_LARGE);
  CHECK(fb_data_output_reserve(&output, SIZE_MAX) == FB_ETOO_LARGE);
  CHECK(output.start == segment && fb_data_output_size(&output) == 4 && output.scratch == NULL);
  put(&output, "5678", 4);
  CHECK(memcmp(segment, "12345678", 8) == 0);
  fb_data_output_close(&output);
}

static void oversized_scratch_is_pruned(void) {
  struct fb_data_output output = {0};

  fb_data_output_start_scratch(&output);
  CHECK(fb_data_output_reserve(&output, 5000) == FB_OK);
  size_t capacity = output.scratch_capacity;
  fb_data_output_prune(&output, capacity);
  CHECK(output.scratch_capacity == capacity && output.scratch != NULL);
  fb_data_output_prune(&output, capacity - 1);
  CHECK(output.scratch_capacity == 0 && output.scratch == NULL && output.start == NULL);
  fb_data_output_start_scratch(&output);
  put(&output, "abc", 3);
  CHECK(memcmp(output.start, "abc", 3) == 0);
  fb_data_output_close(&output);
}

static void input_says_what_is_left(void) {
  const uint8_t bytes[5] = {0};
  struct fb_data_input input = {.start = bytes, .pos = bytes + 2, .end = bytes + 5};
  CHECK(fb_data_input_left(&input) == 3);
}

int main(void) {
  bytes_that_fit_stay_in_the_borrowed_memory();
  bytes_that_do_not_fit_move_on_to_the_scratch();
  scratch_can_be_used_from_the_start();
  record_of_2_gib_is_refused_and_what_is_written_stays();
  oversized_scratch_is_pruned();
  input_says_what_is_left();
  return 0;
}
