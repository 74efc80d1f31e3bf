/* Any rows and windows of a snapshot: each window is full after its rows, and no slot is given out twice.
 *
 * Input: 1 byte of the size of a window, then steps of 3 bytes: what is done, a key, and how many rows of it. */
#include "check.h"
#include "columns/count_slots.h"
#include "fuzz_replay.h"

#define KEYS  6
#define BATCH 64
#define STEPS 256

static struct {
  int64_t rows;
  uint32_t slot;
} model[KEYS];
static uint32_t model_count;

static void add(struct fb_count_slots* table, const uint8_t* data) {
  uint32_t keys[BATCH] = {0}, slots[BATCH], key_count = data[0] & 64 ? KEYS + 1 : KEYS, step = data[0] & 128 ? 1 : 0;
  int64_t full_keys[BATCH], full_slots[BATCH], full_rows[BATCH], full_count = 0, wanted = 0, rows = data[2] % BATCH;
  struct fb_count_windows full = {full_keys, full_slots, full_rows};

  for (int64_t i = 0; i < rows; i++) keys[i] = (data[1] + step * (uint32_t)i) % key_count;
  for (int64_t i = 0; i < rows; i++)
    if (keys[i] == KEYS) {
      CHECK(fb_count_slots_add(table, keys, rows, KEYS, slots, &full, &full_count) == FB_EARGUMENT);
      return;
    }
  CHECK(fb_count_slots_add(table, keys, rows, KEYS, slots, &full, &full_count) == FB_OK);
  for (int64_t i = 0; i < rows; i++) {
    uint32_t key = keys[i];
    if (model[key].rows++ == 0) model[key].slot = model_count++;
    CHECK(slots[i] == model[key].slot);
    if (model[key].rows < table->size) continue;
    CHECK(wanted < full_count && full_keys[wanted] == key && full_slots[wanted] == model[key].slot);
    CHECK(full_rows[wanted++] == table->size);
    model[key].rows = 0;
  }
  CHECK(wanted == full_count);
}

static void restore(struct fb_count_slots* table, const uint8_t* data) {
  int64_t keys = (int8_t)data[1] % (KEYS + 1), rows = (int8_t)data[2], slots = -1;
  struct fb_count_windows windows = {&keys, &slots, &rows};
  bool is_right = keys >= 0 && keys < KEYS && rows > 0 && rows < table->size;

  CHECK(fb_count_slots_restore(table, &windows, 1, KEYS) == (is_right ? FB_OK : FB_EARGUMENT));
  if (!is_right) return;
  CHECK(slots == model_count);
  model[keys].rows = rows;
  model[keys].slot = model_count++;
}

static void check_whole(const struct fb_count_slots* table) {
  int64_t keys[KEYS], slots[KEYS], rows[KEYS], count = 0;
  struct fb_count_windows all = {keys, slots, rows};

  CHECK(table->open_count <= KEYS && table->count == model_count);
  fb_count_slots_all(table, &all);
  for (uint32_t key = 0; key < KEYS; key++) {
    if (model[key].rows == 0) continue;
    CHECK(count < table->open_count && keys[count] == key && slots[count] == model[key].slot);
    CHECK(rows[count++] == model[key].rows);
  }
  CHECK(count == table->open_count);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct fb_count_slots table;

  if (size < 1) return 0;
  for (uint32_t key = 0; key < KEYS; key++) model[key].rows = 0;
  model_count = 0;
  fb_count_slots_open(&table, 1 + data[0]);
  data++;
  size--;
  for (int step = 0; step < STEPS && size >= 3; step++, data += 3, size -= 3) {
    if (data[0] % 3 == 0) restore(&table, data);
    else add(&table, data);
    check_whole(&table);
  }
  fb_count_slots_clear(&table);
  return 0;
}
