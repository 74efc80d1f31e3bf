#include "wire/channel_persister.h"

#include <string.h>

#include "check.h"
#include "ground/byte_order.h"

struct fixture {
  struct fb_channel_persister persister;
  struct fb_persisting_budget budget;
  int32_t sequence; /* of the next that comes */
};

static void open_fixture(struct fixture* self) {
  *self = (struct fixture){0};
  atomic_init(&self->budget.left, 1000);
  fb_channel_persister_open(&self->persister);
}

static void close_fixture(struct fixture* self) { fb_channel_persister_close(&self->persister); }

static void show(struct fixture* self, const uint8_t* bytes, size_t size, enum fb_buffer_data_type type) {
  struct fb_buffer_slice slice;

  CHECK(fb_buffer_new_unpooled(bytes, size, type, &slice) == FB_OK);
  fb_channel_persister_see(&self->persister, &slice, self->sequence);
  self->sequence = (int32_t)((uint32_t)self->sequence + 1);
  CHECK(atomic_load(&slice.buffer->references) == 1); /* nothing is held on to */
  fb_buffer_slice_release(&slice);
}

static void show_data(struct fixture* self, const char* text) {
  show(self, (const uint8_t*)text, strlen(text), FB_DATA_BUFFER);
}

static void show_barrier(struct fixture* self, int64_t id, enum fb_buffer_data_type type) {
  uint8_t bytes[34] = {0, 0, 0, 1};

  fb_store_be64(bytes + 4, (uint64_t)id);
  show(self, bytes, sizeof bytes, type);
}

static int start(struct fixture* self, int64_t id) {
  return fb_channel_persister_start(&self->persister, id, &self->budget);
}

/* What is handed over, joined, is `text`. */
static void stop(struct fixture* self, const char* text) {
  struct fb_slice_list arrived = {0};
  size_t at = 0;

  CHECK(fb_channel_persister_stop(&self->persister, &arrived) == FB_OK);
  CHECK(arrived.size == strlen(text));
  for (uint32_t i = 0; i < arrived.count; i++) {
    CHECK(memcmp(fb_buffer_slice_data(&arrived.items[i]), text + at, arrived.items[i].size) == 0);
    at += arrived.items[i].size;
  }
  fb_slice_list_close(&arrived);
}

static void data_are_kept_from_the_start_until_the_barrier(void) {
  struct fixture f;

  open_fixture(&f);
  show_data(&f, "before");
  CHECK(start(&f, 7) == FB_OK);
  show_data(&f, "a");
  show(&f, (const uint8_t[]){0, 0, 0, 2}, 4, FB_EVENT_BUFFER); /* no data */
  show_data(&f, "");
  show_data(&f, "b");
  show_barrier(&f, 7, FB_PRIORITIZED_EVENT_BUFFER);
  show_data(&f, "behind");
  stop(&f, "ab");
  show_data(&f, "after");
  stop(&f, "");
  close_fixture(&f);
}

static void after_the_barrier_nothing_is_kept_but_what_stands_before_it_is_overtaken(void) {
  struct fixture f;

  open_fixture(&f);
  f.sequence = INT32_MAX - 1; /* the numbers wrap around while we look */
  show_data(&f, "before");
  show_data(&f, "before");
  show_barrier(&f, 7, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
  show_data(&f, "behind");
  CHECK(start(&f, 7) == FB_OK);
  show_data(&f, "later");
  CHECK(fb_channel_persister_is_overtaken(&f.persister, 7, INT32_MAX - 1));
  CHECK(fb_channel_persister_is_overtaken(&f.persister, 7, INT32_MAX));
  CHECK(!fb_channel_persister_is_overtaken(&f.persister, 7, INT32_MIN));     /* itself */
  CHECK(!fb_channel_persister_is_overtaken(&f.persister, 7, INT32_MIN + 1)); /* behind it */
  stop(&f, "");
  /* The next checkpoint's barrier will overtake all of it. */
  CHECK(start(&f, 8) == FB_OK);
  CHECK(fb_channel_persister_is_overtaken(&f.persister, 8, INT32_MIN + 1));
  show_data(&f, "x");
  stop(&f, "x");
  close_fixture(&f);
}

static void a_newer_barrier_ends_it_and_an_older_checkpoint_does_not_begin(void) {
  struct fixture f;

  open_fixture(&f);
  CHECK(start(&f, 7) == FB_OK);
  show_data(&f, "a");
  show_barrier(&f, 6, FB_PRIORITIZED_EVENT_BUFFER); /* late, of one that was given up */
  show_data(&f, "b");
  show_barrier(&f, 9, FB_PRIORITIZED_EVENT_BUFFER);
  show_data(&f, "c");
  CHECK(start(&f, 8) == FB_ESTATE);
  stop(&f, "ab");
  CHECK(start(&f, 9) == FB_OK);
  show_data(&f, "d");
  stop(&f, "");
  close_fixture(&f);
}

static void a_new_checkpoint_forgets_what_was_kept_for_another(void) {
  struct fixture f;

  open_fixture(&f);
  CHECK(start(&f, 1) == FB_OK);
  show_data(&f, "first");
  CHECK(start(&f, 2) == FB_OK);
  show_data(&f, "second");
  stop(&f, "second");
  CHECK(start(&f, 3) == FB_OK);
  show_data(&f, "third"); /* left: closed with the persister */
  close_fixture(&f);
}

static void more_than_the_budget_is_told_at_the_end(void) {
  struct fb_slice_list arrived = {0};
  struct fixture f;

  open_fixture(&f);
  atomic_store(&f.budget.left, 4);
  CHECK(start(&f, 1) == FB_OK);
  show_data(&f, "abc");
  show_data(&f, "de");
  CHECK(f.persister.arrived.count == 0); /* what is of no use takes no memory */
  show_data(&f, "f");
  CHECK(fb_channel_persister_stop(&f.persister, &arrived) == FB_ETOO_LARGE && arrived.count == 0);
  atomic_store(&f.budget.left, 3);
  CHECK(start(&f, 2) == FB_OK);
  show_data(&f, "abc");
  stop(&f, "abc");
  close_fixture(&f);
}

int main(void) {
  data_are_kept_from_the_start_until_the_barrier();
  after_the_barrier_nothing_is_kept_but_what_stands_before_it_is_overtaken();
  a_newer_barrier_ends_it_and_an_older_checkpoint_does_not_begin();
  a_new_checkpoint_forgets_what_was_kept_for_another();
  more_than_the_budget_is_told_at_the_end();
  return 0;
}
