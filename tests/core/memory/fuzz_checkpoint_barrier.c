/* Any bytes as an event: it is a barrier that can be made unaligned, of which only alignment and timeout change, or it is
 * refused. Input: 1 byte of data type, then the event. */
#include "memory/checkpoint_barrier.h"

#include <string.h>

#include "check.h"
#include "fuzz_replay.h"

enum { OPTIONS_SIZE = 9 };

/* The changed bytes lie together: UNALIGNED, and no timeout. */
static void check_change(const uint8_t* before, const uint8_t* after, size_t size) {
  static const uint8_t OPTIONS[OPTIONS_SIZE] = {2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  size_t place = 0;

  while (place + OPTIONS_SIZE <= size &&
         !(memcmp(after + place, OPTIONS, OPTIONS_SIZE) == 0 && memcmp(before, after, place) == 0 &&
           memcmp(before + place + OPTIONS_SIZE, after + place + OPTIONS_SIZE, size - place - OPTIONS_SIZE) == 0))
    place++;
  CHECK(place + OPTIONS_SIZE <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct fb_buffer_slice event, unaligned, again;
  int64_t id = 0, same_id = 0;
  int code;

  if (size < 1) return 0;
  CHECK(fb_buffer_new_unpooled(data + 1, size - 1, (enum fb_buffer_data_type)(2 + data[0] % 12), &event) == FB_OK);
  code = fb_checkpoint_barrier_as_unaligned(&event, &unaligned);
  CHECK(code == FB_OK || code == FB_ECORRUPT);
  fb_checkpoint_barrier_read(&event, &id);
  if (code == FB_OK) {
    CHECK(unaligned.size == event.size && unaligned.data_type == FB_PRIORITIZED_EVENT_BUFFER);
    check_change(fb_buffer_slice_data(&event), fb_buffer_slice_data(&unaligned), event.size);
    CHECK(fb_checkpoint_barrier_read(&unaligned, &same_id));
    CHECK(!fb_checkpoint_barrier_read(&event, &id) || same_id == id);
    CHECK(fb_checkpoint_barrier_as_unaligned(&unaligned, &again) == FB_OK);
    CHECK(memcmp(fb_buffer_slice_data(&again), fb_buffer_slice_data(&unaligned), event.size) == 0);
    fb_buffer_slice_release(&again);
    fb_buffer_slice_release(&unaligned);
  }
  fb_buffer_slice_release(&event);
  return 0;
}
