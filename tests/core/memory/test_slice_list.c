#include "memory/slice_list.h"

#include <string.h>

#include "check.h"

static struct fb_buffer_slice new_slice(const char* text) {
  struct fb_buffer_slice slice;
  CHECK(fb_buffer_new_unpooled((const uint8_t*)text, strlen(text), FB_DATA_BUFFER, &slice) == FB_OK);
  return slice;
}

static bool is(const struct fb_buffer_slice* slice, const char* text) {
  return slice->size == strlen(text) && memcmp(fb_buffer_slice_data(slice), text, slice->size) == 0;
}

static uint32_t references(const struct fb_buffer_slice* slice) { return atomic_load(&slice->buffer->references); }

static void a_list_has_references_of_its_own(void) {
  struct fb_buffer_slice slice = new_slice("one");
  struct fb_slice_list list = {0};

  for (uint32_t i = 1; i <= 100; i++) {
    CHECK(fb_slice_list_add(&list, &slice) == FB_OK);
    CHECK(list.count == i && list.size == 3 * i && references(&slice) == i + 1);
  }
  fb_slice_list_close(&list);
  CHECK(list.count == 0 && list.size == 0 && references(&slice) == 1);
  fb_slice_list_close(&list);
  CHECK(fb_slice_list_add(&list, &slice) == FB_OK); /* it may be used again */
  fb_buffer_slice_release(&slice);
  CHECK(is(&list.items[0], "one"));
  fb_slice_list_close(&list);
}

static void a_copy_lets_the_buffer_go_home(void) {
  struct fb_buffer_slice slice = new_slice("two"), part;
  struct fb_slice_list list = {0};

  slice.is_compressed = true;
  slice.data_type = FB_DATA_BUFFER_WITH_CLEAR_END;
  CHECK(fb_buffer_slice_part(&slice, 1, 2, &part) == FB_OK);
  CHECK(fb_slice_list_add_copy(&list, &part) == FB_OK);
  CHECK(references(&slice) == 1);
  fb_buffer_slice_release(&slice);
  CHECK(list.count == 1 && list.size == 2 && is(&list.items[0], "wo"));
  CHECK(list.items[0].is_compressed && list.items[0].data_type == FB_DATA_BUFFER_WITH_CLEAR_END);
  fb_slice_list_close(&list);
}

static void lists_are_joined_in_their_order(void) {
  struct fb_buffer_slice first = new_slice("first"), second = new_slice("second");
  struct fb_slice_list list = {0}, other = {0};

  CHECK(fb_slice_list_move(&list, &other) == FB_OK && list.count == 0); /* of nothing */
  CHECK(fb_slice_list_reserve(&list, 1) == FB_OK && fb_slice_list_reserve(&other, 1) == FB_OK);
  fb_slice_list_push(&list, &first);
  fb_slice_list_push(&other, &second);
  CHECK(fb_slice_list_move(&list, &other) == FB_OK);
  CHECK(other.count == 0 && other.size == 0);
  CHECK(list.count == 2 && list.size == 11 && is(&list.items[0], "first") && is(&list.items[1], "second"));
  fb_slice_list_close(&other);
  fb_slice_list_close(&list);
}

int main(void) {
  a_list_has_references_of_its_own();
  a_copy_lets_the_buffer_go_home();
  lists_are_joined_in_their_order();
  return 0;
}
