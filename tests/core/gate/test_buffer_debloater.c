/* Buffer sizes follow the throughput, as Flink's own tests say they do. */
#include "gate/buffer_debloater.h"

#include "check.h"
#include "ground/errors.h"

static struct fb_buffer_debloater opened(int64_t target_ms, int32_t min_size, int32_t max_size, int32_t samples) {
  struct fb_buffer_debloater_config config = {target_ms, max_size, min_size, .threshold_percent = 25, samples};
  struct fb_buffer_debloater self;

  CHECK(fb_buffer_debloater_open(&self, &config) == FB_OK);
  return self;
}

/* ---- throughput ------------------------------------------------------------------------------------ */

static void throughput_is_bytes_over_active_time(void) {
  struct fb_buffer_debloater self = opened(1000, 50, 1000, 1);

  CHECK(fb_buffer_debloater_throughput(&self, 0) == 0);
  fb_buffer_debloater_receive(&self, 6666, 0);
  fb_buffer_debloater_receive(&self, 3333, 1);
  fb_buffer_debloater_receive(&self, 1, 34);
  CHECK(fb_buffer_debloater_throughput(&self, 100) == 10000 * 1000 / 100);
}

static void each_calculation_starts_anew_and_stays_while_no_time_passes(void) {
  struct fb_buffer_debloater self = opened(1000, 50, 1000, 1);

  fb_buffer_debloater_receive(&self, 666, 0);
  CHECK(fb_buffer_debloater_throughput(&self, 100) == 6660);
  CHECK(fb_buffer_debloater_throughput(&self, 100) == 6660);
  CHECK(fb_buffer_debloater_throughput(&self, 101) == 0); /* active, and nothing came */
}

static void idle_time_does_not_count(void) {
  struct fb_buffer_debloater self = opened(1000, 50, 1000, 1);

  fb_buffer_debloater_receive(&self, 7, 0);
  fb_buffer_debloater_pause(&self, 1);
  fb_buffer_debloater_pause(&self, 9);
  fb_buffer_debloater_receive(&self, 3, 10);
  CHECK(fb_buffer_debloater_throughput(&self, 11) == 5 * 1000);

  fb_buffer_debloater_receive(&self, 10, 12);
  fb_buffer_debloater_pause(&self, 12);
  CHECK(fb_buffer_debloater_throughput(&self, 20) == 10 * 1000); /* one ms since the calculation at 11 */
  CHECK(fb_buffer_debloater_throughput(&self, 90) == 10 * 1000); /* idle throughout: still the same */
}

static void receiving_again_and_again_does_not_restart_the_time(void) {
  struct fb_buffer_debloater self = opened(1000, 50, 1000, 1);

  fb_buffer_debloater_receive(&self, 10, 0);
  for (int64_t now_ms = 3; now_ms <= 9; now_ms += 3) fb_buffer_debloater_receive(&self, 0, now_ms);
  CHECK(fb_buffer_debloater_throughput(&self, 10) == 1000);
}

/* ---- size ------------------------------------------------------------------------------------------ */

static void the_average_goes_the_way_of_flinks(void) {
  struct fb_buffer_debloater self = opened(1000, 10, 200, 3);
  const struct {
    int64_t total;
    uint32_t buffers;
    int32_t expected;
  } steps[] = {{111, 13, 104}, {107, 7, 60}, {107, 7, 38}, {107, 7, 26}, {107, 7, 21}, {107, 7, 18}, {107, 13, 13},
               {107, 13, 11},  {333, 1, 16}, {333, 1, 24}, {333, 1, 36}, {333, 1, 54}, {333, 1, 81}, {333, 1, 122}};

  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    CHECK(fb_buffer_debloater_average(&self, steps[i].total, steps[i].buffers) == steps[i].expected);
}

static void the_average_stays_between_its_limits(void) {
  struct fb_buffer_debloater self = opened(1000, 10, 200, 3);
  const int32_t down[] = {100, 50, 25, 13, 10, 10};

  for (size_t i = 0; i < 6; i++) CHECK(fb_buffer_debloater_average(&self, 0, 1) == down[i]);
  self = opened(1000, 10, 200, 3);
  CHECK(fb_buffer_debloater_average(&self, 0, 1) == 100);
  CHECK(fb_buffer_debloater_average(&self, 1000, 1) == 150);
  CHECK(fb_buffer_debloater_average(&self, 1000, 1) == 200);
  CHECK(fb_buffer_debloater_average(&self, INT64_MAX, 1) == 200);
}

static void a_slow_average_does_not_get_stuck(void) {
  struct fb_buffer_debloater self = opened(1000, 16, 32 * 1024, 10000);

  self.average_size = 16;
  for (int i = 0; i < 10000; i++) fb_buffer_debloater_average(&self, 20000, 10);
  CHECK(fb_buffer_debloater_average(&self, 10000, 10) > 16);
}

static void impossible_arguments_change_nothing(void) {
  struct fb_buffer_debloater self = opened(1000, 100, 200, 2);
  struct fb_buffer_debloater_config good = self.config, bad[5];

  CHECK(fb_buffer_debloater_average(&self, -1, 1) == FB_EARGUMENT);
  CHECK(fb_buffer_debloater_average(&self, 1, 0) == FB_EARGUMENT);
  CHECK(fb_buffer_debloater_average(&self, 200, 1) == 200);
  for (int i = 0; i < 5; i++) bad[i] = good;
  bad[0].target_ms = 0;
  bad[1].samples = 0;
  bad[2].threshold_percent = -1;
  bad[3].min_size = 0;
  bad[4].min_size = 201;
  for (int i = 0; i < 5; i++) CHECK(fb_buffer_debloater_open(&self, &bad[i]) == FB_EARGUMENT);
}

/* ---- what is announced ----------------------------------------------------------------------------- */

static void the_size_follows_from_throughput_target_and_buffers(void) {
  const struct {
    int64_t target_ms;
    int32_t min_size, max_size;
    uint32_t buffers;
    int64_t throughput;
    int32_t expected;
  } cases[] = {
      {1000, 50, 2400, 0, 1200, 1200}, /* no buffers count as one */
      {1200, 50, 1100, 16, 3333, 250}, {1200, 250, 1100, 16, 3333, 250},       {1200, 50, 1100, 16, 0, 50},
      {7, 50, 1100, 16, 3333, 50},     {1200, 50, 248, 16, 3333, 0},           /* stays at its largest */
      {1200, 50, 250, 16, 3333, 0},    {INT32_MAX, 50, 1100, 1, INT64_MAX, 0}, /* the product would not fit */
  };

  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fb_buffer_debloater self = opened(cases[i].target_ms, cases[i].min_size, cases[i].max_size, 1);
    CHECK(fb_buffer_debloater_recalculate(&self, cases[i].throughput, cases[i].buffers) == cases[i].expected);
  }
}

static void the_limits_are_announced_however_near_they_are(void) {
  struct fb_buffer_debloater self = opened(1000, 50, 1100, 1);

  CHECK(fb_buffer_debloater_recalculate(&self, 500, 1) == 500);
  CHECK(fb_buffer_debloater_recalculate(&self, 1000, 1) == 1000);
  CHECK(fb_buffer_debloater_recalculate(&self, 2000, 1) == 1100);
  CHECK(fb_buffer_debloater_recalculate(&self, 2000, 1) == 0);

  self = opened(1000, 50, 1100, 1);
  CHECK(fb_buffer_debloater_recalculate(&self, 60, 1) == 60);
  CHECK(fb_buffer_debloater_recalculate(&self, 60, 1) == 0);
  CHECK(fb_buffer_debloater_recalculate(&self, 40, 1) == 50);
  CHECK(fb_buffer_debloater_recalculate(&self, 40, 1) == 0);
}

static void small_changes_are_not_announced(void) {
  struct fb_buffer_debloater_config config = {1000, 32768, 256, .threshold_percent = 30, .samples = 1};
  struct fb_buffer_debloater self;
  int32_t size = 16384, least = 16384 * 30 / 100;

  CHECK(fb_buffer_debloater_open(&self, &config) == FB_OK);
  CHECK(fb_buffer_debloater_recalculate(&self, size, 1) == size);
  for (int32_t change = 0; change < least; change += change < 3 ? 1 : least - 4) {
    CHECK(fb_buffer_debloater_is_negligible(&self, size + change));
    CHECK(fb_buffer_debloater_is_negligible(&self, size - change));
  }
  CHECK(!fb_buffer_debloater_is_negligible(&self, size - least));
  CHECK(!fb_buffer_debloater_is_negligible(&self, size + least));
  for (int32_t off = -1; off <= 1; off++) {
    CHECK(!fb_buffer_debloater_is_negligible(&self, 256 + off));
    CHECK(!fb_buffer_debloater_is_negligible(&self, 32768 + off));
  }
}

int main(void) {
  throughput_is_bytes_over_active_time();
  each_calculation_starts_anew_and_stays_while_no_time_passes();
  idle_time_does_not_count();
  receiving_again_and_again_does_not_restart_the_time();
  the_average_goes_the_way_of_flinks();
  the_average_stays_between_its_limits();
  a_slow_average_does_not_get_stuck();
  impossible_arguments_change_nothing();
  the_size_follows_from_throughput_target_and_buffers();
  the_limits_are_announced_however_near_they_are();
  small_changes_are_not_announced();
  return 0;
}
