/* Index sequences of the partitioners, and key groups on channels. */
#include "record/channel_selector.h"

#include "check.h"

static struct fb_channel_selector opened(enum fb_channel_selector_kind kind, uint32_t count, uint64_t seed) {
  struct fb_channel_selector selector;
  CHECK(fb_channel_selector_open(&selector, kind, count, 128, seed) == FB_OK);
  return selector;
}

static void test_round_robin_and_rescale_start_at_channel_0(void) {
  for (int kind = FB_SELECT_ROUND_ROBIN; kind <= FB_SELECT_RESCALE; kind++) {
    struct fb_channel_selector selector = opened((enum fb_channel_selector_kind)kind, 4, 99);
    for (uint32_t i = 0; i < 10; i++) CHECK(fb_channel_selector_next(&selector) == i % 4);
  }
}

static void test_rebalance_goes_in_turns_from_a_start_that_the_seed_decides(void) {
  bool seen[5] = {false};

  for (uint64_t seed = 0; seed < 100; seed++) {
    struct fb_channel_selector selector = opened(FB_SELECT_REBALANCE, 5, seed);
    struct fb_channel_selector again = opened(FB_SELECT_REBALANCE, 5, seed);
    uint32_t start = fb_channel_selector_next(&selector);
    CHECK(start < 5 && start == fb_channel_selector_next(&again));
    seen[start] = true;
    for (uint32_t i = 1; i < 12; i++) CHECK(fb_channel_selector_next(&selector) == (start + i) % 5);
  }
  for (int i = 0; i < 5; i++) CHECK(seen[i]);
}

static void test_shuffle_is_even_and_repeats_with_its_seed(void) {
  struct fb_channel_selector selector = opened(FB_SELECT_SHUFFLE, 7, 1), again = selector;
  uint32_t counts[7] = {0};

  for (int i = 0; i < 70000; i++) {
    uint32_t channel = fb_channel_selector_next(&selector);
    CHECK(channel < 7 && channel == fb_channel_selector_next(&again));
    counts[channel]++;
  }
  for (int i = 0; i < 7; i++) CHECK(counts[i] > 9500 && counts[i] < 10500);
}

static void test_global_forward_and_single_channels_choose_0(void) {
  for (int kind = 0; kind < FB_SELECT_BROADCAST; kind++) {
    bool is_first = kind == FB_SELECT_GLOBAL || kind == FB_SELECT_FORWARD;
    struct fb_channel_selector selector = opened((enum fb_channel_selector_kind)kind, is_first ? 3 : 1, 5);
    CHECK(fb_channel_selector_is_blind(&selector));
    for (int i = 0; i < 5; i++) CHECK(fb_channel_selector_next(&selector) == 0);
  }
  for (int kind = FB_SELECT_BROADCAST; kind < FB_SELECT_KIND_COUNT; kind++) {
    struct fb_channel_selector selector = opened((enum fb_channel_selector_kind)kind, 2, 0);
    CHECK(!fb_channel_selector_is_blind(&selector));
  }
}

static void test_keyed_channels_are_those_of_the_formula(void) {
  const uint32_t maxima[] = {1, 7, 128, 1000, 32768};
  struct fb_channel_selector selector;
  int32_t hashes[200];
  uint32_t channels[200];

  for (size_t m = 0; m < sizeof maxima / sizeof *maxima; m++) {
    for (uint32_t n = 1; n <= maxima[m]; n += 1 + n / 2) {
      CHECK(fb_channel_selector_open(&selector, FB_SELECT_KEY_GROUP, n, maxima[m], 0) == FB_OK);
      for (int32_t i = 0; i < 200; i++) hashes[i] = (int32_t)((uint32_t)i * 2654435761u);
      fb_channel_selector_of_hashes(&selector, hashes, 200, channels);
      for (int i = 0; i < 200; i++) {
        uint32_t group = fb_key_group_of(hashes[i], maxima[m]);
        CHECK(channels[i] == fb_key_group_operator(group, maxima[m], n));
        CHECK(channels[i] == fb_channel_selector_of_hash(&selector, hashes[i]));
        CHECK(channels[i] < n);
      }
    }
  }
}

static void test_many_at_once_equals_one_by_one(void) {
  for (int kind = 0; kind < FB_SELECT_BROADCAST; kind++) {
    struct fb_channel_selector selector = opened((enum fb_channel_selector_kind)kind, 3, 11);
    struct fb_channel_selector again = selector;
    uint32_t channels[50];
    fb_channel_selector_next_many(&selector, 50, channels);
    for (int i = 0; i < 50; i++) CHECK(channels[i] == fb_channel_selector_next(&again));
  }
}

static void test_bad_arguments_write_nothing(void) {
  struct fb_channel_selector selector = {.channel_count = 77};

  CHECK(fb_channel_selector_open(&selector, FB_SELECT_GLOBAL, 0, 0, 0) == FB_EARGUMENT);
  CHECK(fb_channel_selector_open(&selector, FB_SELECT_KIND_COUNT, 1, 0, 0) == FB_EARGUMENT);
  CHECK(fb_channel_selector_open(&selector, FB_SELECT_KEY_GROUP, 129, 128, 0) == FB_EARGUMENT);
  CHECK(fb_channel_selector_open(&selector, FB_SELECT_KEY_GROUP, 1, 32769, 0) == FB_EARGUMENT);
  CHECK(fb_channel_selector_open(&selector, FB_SELECT_KEY_GROUP, 1, 0, 0) == FB_EARGUMENT);
  CHECK(selector.channel_count == 77);
}

int main(void) {
  test_round_robin_and_rescale_start_at_channel_0();
  test_rebalance_goes_in_turns_from_a_start_that_the_seed_decides();
  test_shuffle_is_even_and_repeats_with_its_seed();
  test_global_forward_and_single_channels_choose_0();
  test_keyed_channels_are_those_of_the_formula();
  test_many_at_once_equals_one_by_one();
  test_bad_arguments_write_nothing();
  return 0;
}
