/* Builders and consumers: what is seen when, by one thread and by two. */
#include "memory/buffer_builder.h"

#include <pthread.h>
#include <string.h>

#include "check.h"
#include "memory/local_buffer_pool.h"
#include "pools.h"

static struct fb_network_buffer_pool* pool;

static struct fb_buffer_builder new_builder(void) {
  struct fb_buffer_builder builder;
  struct fb_buffer* buffer;
  CHECK((buffer = take_segment(pool)) != NULL);
  fb_buffer_builder_open(&builder, buffer);
  return builder;
}

static struct fb_buffer_consumer new_consumer(struct fb_buffer_builder* builder, bool from_beginning) {
  struct fb_buffer_consumer consumer;
  CHECK(fb_buffer_builder_consumer(builder, from_beginning, &consumer) == FB_OK);
  return consumer;
}

static size_t append(struct fb_buffer_builder* builder, const char* text) {
  return fb_buffer_builder_append(builder, (const uint8_t*)text, strlen(text));
}

static void expect(struct fb_buffer_consumer* consumer, const char* text) {
  struct fb_buffer_slice slice;
  fb_buffer_consumer_build(consumer, &slice);
  CHECK(slice.size == strlen(text) && memcmp(fb_buffer_slice_data(&slice), text, slice.size) == 0);
  fb_buffer_slice_release(&slice);
}

static void finish_all(struct fb_buffer_builder* builder, struct fb_buffer_consumer* consumer) {
  fb_buffer_builder_close(builder);
  fb_buffer_builder_close(builder);
  if (consumer != NULL) fb_buffer_consumer_close(consumer);
  CHECK(fb_network_buffer_pool_available(pool) == 2);
}

static void appended_bytes_are_seen_after_commit(void) {
  struct fb_buffer_builder builder = new_builder();
  struct fb_buffer_consumer consumer = new_consumer(&builder, false);

  CHECK(append(&builder, "abc") == 3);
  expect(&consumer, "");
  CHECK(!fb_buffer_consumer_is_data_available(&consumer));
  fb_buffer_builder_commit(&builder);
  CHECK(fb_buffer_consumer_is_data_available(&consumer));
  append(&builder, "def");
  expect(&consumer, "abc");
  append(&builder, "g");
  fb_buffer_builder_commit(&builder);
  expect(&consumer, "defg");
  finish_all(&builder, &consumer);
}

static void what_does_not_fit_is_left(void) {
  struct fb_buffer_builder builder = new_builder();
  struct fb_buffer_consumer consumer = new_consumer(&builder, false);

  CHECK(append(&builder, "0123456789abcdefXYZ") == 16);
  CHECK(fb_buffer_builder_is_full(&builder) && append(&builder, "more") == 0);
  CHECK(fb_buffer_builder_finish(&builder) == 16);
  expect(&consumer, "0123456789abcdef");
  finish_all(&builder, &consumer);
}

static void a_consumer_starts_where_the_writer_is_or_at_the_beginning(void) {
  for (int from_beginning = 0; from_beginning < 2; from_beginning++) {
    struct fb_buffer_builder builder = new_builder();
    struct fb_buffer_consumer consumer, second;
    append(&builder, "old");
    consumer = new_consumer(&builder, from_beginning);
    CHECK(fb_buffer_builder_consumer(&builder, false, &second) == FB_ESTATE && second.buffer == NULL);
    expect(&consumer, ""); /* not even committed */
    append(&builder, "new");
    fb_buffer_builder_commit(&builder);
    expect(&consumer, from_beginning ? "oldnew" : "new");
    finish_all(&builder, &consumer);
  }
}

static void copies_read_on_their_own(void) {
  struct fb_buffer_builder builder = new_builder();
  struct fb_buffer_consumer consumer = new_consumer(&builder, false), copy, early;

  append(&builder, "ab");
  fb_buffer_builder_commit(&builder);
  expect(&consumer, "ab");
  fb_buffer_consumer_copy(&consumer, &copy);
  append(&builder, "cd");
  fb_buffer_builder_commit(&builder);
  expect(&copy, "cd");
  expect(&consumer, "cd");
  CHECK(fb_buffer_consumer_copy_at(&consumer, 1, &early) == FB_OK);
  expect(&early, "bcd");
  fb_buffer_consumer_close(&early);
  CHECK(fb_buffer_consumer_copy_at(&consumer, 5, &early) == FB_EARGUMENT && early.buffer == NULL);
  CHECK(fb_buffer_consumer_skip(&copy, 1) == FB_ESTATE);
  append(&builder, "ef");
  fb_buffer_builder_finish(&builder);
  CHECK(fb_buffer_consumer_skip(&copy, 1) == FB_OK && fb_buffer_consumer_is_finished(&copy));
  expect(&copy, "f");
  CHECK(!fb_buffer_consumer_is_finished(&consumer));
  fb_buffer_consumer_close(&copy);
  fb_buffer_consumer_close(&copy);
  finish_all(&builder, &consumer);
}

static void a_consumer_sees_the_end_at_its_next_build(void) {
  const char* texts[] = {"", "half", "0123456789abcdef"};

  for (int i = 0; i < 3; i++) {
    struct fb_buffer_builder builder = new_builder();
    struct fb_buffer_consumer consumer = new_consumer(&builder, false);
    append(&builder, texts[i]);
    CHECK(fb_buffer_builder_finish(&builder) == strlen(texts[i]));
    CHECK(fb_buffer_builder_finish(&builder) == strlen(texts[i]) && builder.is_finished);
    fb_buffer_builder_commit(&builder); /* does not undo the end */
    CHECK(!fb_buffer_consumer_is_finished(&consumer));
    CHECK(fb_buffer_consumer_is_data_available(&consumer) == (i > 0));
    expect(&consumer, texts[i]);
    CHECK(fb_buffer_consumer_is_finished(&consumer) && fb_buffer_consumer_committed(&consumer) == strlen(texts[i]));
    expect(&consumer, "");
    finish_all(&builder, &consumer);
  }
}

static void trim_shrinks_and_widens_within_what_is_written_and_the_segment(void) {
  struct fb_buffer_builder builder = new_builder();

  append(&builder, "0123");
  fb_buffer_builder_trim(&builder, 2);
  CHECK(fb_buffer_builder_is_full(&builder));
  fb_buffer_builder_trim(&builder, 6);
  CHECK(append(&builder, "456789") == 2 && fb_buffer_builder_is_full(&builder));
  fb_buffer_builder_trim(&builder, UINT32_MAX);
  CHECK(fb_buffer_builder_writable(&builder) == 10);
  finish_all(&builder, NULL);
}

static void slices_keep_the_segment(void) {
  struct fb_buffer_builder builder = new_builder();
  struct fb_buffer_consumer consumer = new_consumer(&builder, false);
  struct fb_buffer_slice slice;

  append(&builder, "kept");
  fb_buffer_builder_finish(&builder);
  fb_buffer_consumer_build(&consumer, &slice);
  fb_buffer_builder_close(&builder);
  fb_buffer_consumer_close(&consumer);
  CHECK(fb_network_buffer_pool_available(pool) == 1 && memcmp(fb_buffer_slice_data(&slice), "kept", 4) == 0);
  fb_buffer_slice_release(&slice);
  CHECK(fb_network_buffer_pool_available(pool) == 2);
}

static void a_consumer_of_a_slice_is_born_finished(void) {
  struct fb_buffer_consumer consumer, copy;
  struct fb_buffer_slice event, part, built;

  CHECK(fb_buffer_new_unpooled((const uint8_t*)"xxevent", 7, FB_EVENT_BUFFER, &event) == FB_OK);
  CHECK(fb_buffer_slice_part(&event, 2, 5, &part) == FB_OK); /* takes the reference along */
  fb_buffer_consumer_open(&consumer, &part);
  CHECK(part.buffer == NULL && fb_buffer_consumer_is_finished(&consumer));
  fb_buffer_consumer_copy(&consumer, &copy);
  fb_buffer_consumer_build(&consumer, &built);
  CHECK(built.size == 5 && built.data_type == FB_EVENT_BUFFER && memcmp(fb_buffer_slice_data(&built), "event", 5) == 0);
  fb_buffer_slice_release(&built);
  fb_buffer_consumer_close(&consumer);
  expect(&copy, "event");
  CHECK(!fb_buffer_consumer_is_data_available(&copy));
  fb_buffer_consumer_close(&copy);
  CHECK(fb_buffer_new_unpooled(NULL, 0, FB_EVENT_BUFFER, &event) == FB_OK);
  fb_buffer_consumer_open(&consumer, &event);
  CHECK(fb_buffer_consumer_is_finished(&consumer) && !fb_buffer_consumer_is_data_available(&consumer));
  fb_buffer_consumer_close(&consumer);
}

static void* write_slowly(void* argument) {
  struct fb_buffer_builder* builder = argument;
  for (uint8_t i = 0; i < 16; i++) {
    fb_buffer_builder_append(builder, &i, 1);
    fb_buffer_builder_commit(builder);
  }
  fb_buffer_builder_finish(builder);
  fb_buffer_builder_close(builder);
  return NULL;
}

static void a_reader_in_another_thread_sees_each_byte_once(void) {
  for (int round = 0; round < 200; round++) {
    struct fb_buffer_builder builder = new_builder();
    struct fb_buffer_consumer consumer = new_consumer(&builder, false);
    uint8_t next = 0;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, write_slowly, &builder) == 0);
    while (!fb_buffer_consumer_is_finished(&consumer)) {
      struct fb_buffer_slice slice;
      fb_buffer_consumer_build(&consumer, &slice);
      for (uint32_t i = 0; i < slice.size; i++) CHECK(fb_buffer_slice_data(&slice)[i] == next++);
      fb_buffer_slice_release(&slice);
    }
    CHECK(next == 16);
    pthread_join(thread, NULL);
    finish_all(&builder, &consumer);
  }
}

int main(void) {
  CHECK(fb_network_buffer_pool_open(2, 16, &pool) == FB_OK);
  appended_bytes_are_seen_after_commit();
  what_does_not_fit_is_left();
  a_consumer_starts_where_the_writer_is_or_at_the_beginning();
  copies_read_on_their_own();
  a_consumer_sees_the_end_at_its_next_build();
  trim_shrinks_and_widens_within_what_is_written_and_the_segment();
  slices_keep_the_segment();
  a_consumer_of_a_slice_is_born_finished();
  a_reader_in_another_thread_sees_each_byte_once();
  fb_network_buffer_pool_close(pool);
  return 0;
}
