/* Reference counts, slices and event buffers. */
#include "memory/buffer.h"

#include <pthread.h>
#include <string.h>

#include "check.h"

static void an_event_buffer_holds_a_copy(void) {
  uint8_t bytes[] = "an event";
  struct fb_buffer_slice event;

  CHECK(fb_buffer_new_unpooled(bytes, 8, FB_END_OF_PARTITION, &event) == FB_OK);
  bytes[0] = 'x';
  CHECK(event.size == 8 && event.data_type == FB_END_OF_PARTITION && !event.is_compressed);
  CHECK(memcmp(fb_buffer_slice_data(&event), "an event", 8) == 0);
  fb_buffer_slice_release(&event);
  fb_buffer_slice_release(&event); /* an empty slice is left alone */
  CHECK(event.buffer == NULL);
  CHECK(fb_buffer_new_unpooled(NULL, 0, FB_EVENT_BUFFER, &event) == FB_OK && event.size == 0);
  fb_buffer_slice_release(&event);
  CHECK(fb_buffer_new_unpooled(bytes, 8, FB_NONE, &event) == FB_EARGUMENT && event.buffer == NULL);
  CHECK(fb_buffer_new_unpooled(bytes, 8, FB_DATA_TYPE_COUNT, &event) == FB_EARGUMENT);
  CHECK(fb_buffer_new_unpooled(bytes, (size_t)INT32_MAX + 1, FB_EVENT_BUFFER, &event) == FB_EARGUMENT);
}

static void a_part_of_a_part_names_the_root(void) {
  struct fb_buffer_slice whole, part, inner;

  CHECK(fb_buffer_new_unpooled((const uint8_t*)"0123456789", 10, FB_DATA_BUFFER, &whole) == FB_OK);
  CHECK(fb_buffer_slice_part(&whole, 2, 6, &part) == FB_OK);
  CHECK(fb_buffer_slice_part(&part, 1, 3, &inner) == FB_OK);
  CHECK(inner.buffer == whole.buffer && memcmp(fb_buffer_slice_data(&inner), "345", 3) == 0);
  CHECK(fb_buffer_slice_part(&part, 6, 0, &inner) == FB_OK && inner.size == 0);
  CHECK(fb_buffer_slice_part(&part, 4, 3, &inner) == FB_EBOUNDS);
  CHECK(fb_buffer_slice_part(&part, 7, 0, &inner) == FB_EBOUNDS);
  CHECK(fb_buffer_slice_part(&part, 2, UINT32_MAX, &inner) == FB_EBOUNDS);
  fb_buffer_slice_release(&whole);
  CHECK(fb_buffer_slice_part(&whole, 0, 0, &inner) == FB_EREFERENCES);
}

static void data_types_have_the_numbers_and_flags_of_flink(void) {
  CHECK(fb_buffer_data_type_is_buffer(FB_DATA_BUFFER) && fb_buffer_data_type_is_buffer(FB_DATA_BUFFER_WITH_CLEAR_END));
  CHECK(!fb_buffer_data_type_is_buffer(FB_NONE) && !fb_buffer_data_type_is_event(FB_NONE));
  for (int number = FB_EVENT_BUFFER; number < FB_DATA_TYPE_COUNT; number++) {
    enum fb_buffer_data_type type = (enum fb_buffer_data_type)number;
    CHECK(fb_buffer_data_type_is_event(type) == (type != FB_DATA_BUFFER_WITH_CLEAR_END));
    CHECK(!(fb_buffer_data_type_has_priority(type) && fb_buffer_data_type_requires_announcement(type)));
  }
  CHECK(fb_buffer_data_type_blocks_upstream(FB_RECOVERY_COMPLETION) &&
        !fb_buffer_data_type_blocks_upstream(FB_END_OF_DATA));
}

static _Atomic int recycled;
static void count(struct fb_buffer* self) {
  CHECK(self->segment.data[0] == 8);
  atomic_fetch_add(&recycled, 1);
}

static void* retain_and_release(void* argument) {
  struct fb_buffer* buffer = argument;
  for (int i = 0; i < 10000; i++) {
    fb_buffer_retain(buffer);
    fb_buffer_release(buffer);
  }
  fb_buffer_release(buffer);
  return NULL;
}

static void the_recycler_runs_once_whoever_is_last(void) {
  for (int round = 0; round < 20; round++) {
    uint8_t bytes[1] = {8};
    struct fb_buffer buffer = {.recycle = count};
    pthread_t threads[4];
    atomic_init(&buffer.references, 4);
    fb_memory_segment_wrap(&buffer.segment, bytes, 1);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, retain_and_release, &buffer) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(atomic_load(&recycled) == round + 1);
  }
}

static bool fits(enum fb_buffer_data_type type, const char* bytes, size_t size) {
  struct fb_buffer_slice event;
  bool does;

  CHECK(fb_buffer_new_unpooled((const uint8_t*)bytes, size, type, &event) == FB_OK);
  does = fb_buffer_event_is_of_its_type(&event);
  fb_buffer_slice_release(&event);
  return does;
}

static void events_are_of_the_kind_that_their_data_type_says(void) {
  CHECK(fits(FB_END_OF_PARTITION, "\0\0\0\0", 4) && !fits(FB_END_OF_PARTITION, "\0\0\0\0", 3));
  CHECK(!fits(FB_END_OF_PARTITION, "\0\0\0\0x", 5) && !fits(FB_END_OF_PARTITION, "\0\0\0\10\1", 5));
  CHECK(fits(FB_END_OF_DATA, "\0\0\0\10\1", 5) && !fits(FB_END_OF_DATA, "\0\0\0\0", 4));
  CHECK(fits(FB_ALIGNED_CHECKPOINT_BARRIER, "\0\0\0\1_", 5) && !fits(FB_ALIGNED_CHECKPOINT_BARRIER, "\0\0\0\2", 4));
  CHECK(fits(FB_EVENT_BUFFER, "\0\0\0\2", 4) && fits(FB_EVENT_BUFFER, "\0\0\0\4________", 12));
  CHECK(fits(FB_EVENT_BUFFER, "\0\0\0\3\0\1x", 7) && fits(FB_EVENT_BUFFER, "\0\0\0\1_", 5));
  CHECK(!fits(FB_EVENT_BUFFER, "\0\0\0\0", 4) && !fits(FB_EVENT_BUFFER, "\0\0\0\10\1", 5));
  CHECK(!fits(FB_EVENT_BUFFER, "\0\0\0\4_", 5) && !fits(FB_EVENT_BUFFER, "\0\0\0\40 a record", 12));
  CHECK(fits(FB_PRIORITIZED_EVENT_BUFFER, "\0\0\0\0", 4) && !fits(FB_PRIORITIZED_EVENT_BUFFER, "\0\0\0\40", 4));
}

int main(void) {
  events_are_of_the_kind_that_their_data_type_says();
  an_event_buffer_holds_a_copy();
  a_part_of_a_part_names_the_root();
  data_types_have_the_numbers_and_flags_of_flink();
  the_recycler_runs_once_whoever_is_last();
  return 0;
}
