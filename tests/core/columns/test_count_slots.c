#include "columns/count_slots.h"

#include "check.h"

#define ROWS 10

static void rows_fill_the_windows_of_their_keys(void) {
  uint32_t keys[ROWS] = {0, 1, 0, 0, 1, 0, 0, 1, 2, 0}, slots[ROWS];
  uint32_t wanted[ROWS] = {0, 1, 0, 0, 1, 2, 2, 1, 3, 2};
  int64_t full_keys[ROWS], full_slots[ROWS], full_rows[ROWS], count;
  struct fb_count_windows full = {full_keys, full_slots, full_rows};
  struct fb_count_slots table, again;

  fb_count_slots_open(&table, 3);
  CHECK(fb_count_slots_add(&table, keys, ROWS, 2, slots, &full, &count) == FB_EARGUMENT && table.count == 0);
  CHECK(fb_count_slots_add(&table, keys, ROWS, 3, slots, &full, &count) == FB_OK);
  for (int i = 0; i < ROWS; i++) CHECK(slots[i] == wanted[i]);
  CHECK(count == 3 && full_slots[0] == 0 && full_slots[1] == 1 && full_slots[2] == 2);
  CHECK(full_keys[0] == 0 && full_keys[1] == 1 && full_keys[2] == 0 && full_rows[2] == 3);
  CHECK(table.open_count == 1 && table.count == 4);

  CHECK(fb_count_slots_add(&table, keys, 2, 3, slots, &full, &count) == FB_OK && count == 0 && table.open_count == 3);
  fb_count_slots_all(&table, &full);
  CHECK(full_keys[0] == 0 && full_keys[2] == 2 && full_rows[0] == 1 && full_slots[2] == 3);

  fb_count_slots_open(&again, 3);
  CHECK(fb_count_slots_restore(&again, &full, 3, 2) == FB_EARGUMENT);
  CHECK(fb_count_slots_restore(&again, &full, 3, 3) == FB_OK && again.open_count == 3 && full_slots[2] == 2);
  CHECK(fb_count_slots_add(&again, keys, 4, 3, slots, &full, &count) == FB_OK);
  CHECK(count == 1 && full_slots[0] == 0 && slots[3] == 3 && slots[1] == 1);
  CHECK(fb_count_slots_bytes(&again) > 0);
  fb_count_slots_clear(&again);
  fb_count_slots_clear(&table);
  CHECK(table.count == 0 && fb_count_slots_bytes(&table) == 0);
}

int main(void) {
  rows_fill_the_windows_of_their_keys();
  return 0;
}
