/* Any rows, watermarks and sessions of a snapshot: sessions of a key stay apart, each is given once for what it is, and
 * the table stays whole, whatever a snapshot says.
 *
 * Input: 1 byte of the gap, 1 byte of the lateness, then steps of 4 bytes: what it is, the key, and 2 bytes of a time;
 * a session of a snapshot has 2 more, of its length. */
#include "check.h"
#include "columns/session_slots.h"
#include "fuzz_replay.h"

#define KEYS  4
#define STEPS 512

/* A time near 0, or at the ends of time. */
static int64_t time_of(const uint8_t* data) {
  int64_t time = (int16_t)(data[0] | data[1] << 8);

  if (data[1] == 0x7f) return INT64_MAX - data[0];
  return data[1] == 0x80 ? INT64_MIN + data[0] : time;
}

static void check_apart(const struct fb_session_slots* table) {
  static int64_t slots[STEPS], keys[STEPS], starts[STEPS], ends[STEPS];
  static uint8_t given[STEPS];
  struct fb_session_spans spans = {keys, starts, ends, given};

  CHECK(table->open_count <= STEPS && table->count <= 2 * STEPS);
  fb_session_slots_all(table, slots);
  fb_session_slots_describe(table, slots, table->open_count, &spans);
  for (int64_t i = 0; i < table->open_count; i++)
    for (int64_t j = 0; j < i; j++) CHECK(keys[i] != keys[j] || starts[i] > ends[j] || starts[j] > ends[i]);
}

static void join_parts(struct fb_session_slots* table) {
  static int64_t parts[2 * STEPS];
  static uint32_t into[2 * STEPS];
  static int64_t changed[STEPS];

  CHECK(table->part_count <= 2 * STEPS);
  fb_session_slots_take_parts(table, parts, into);
  CHECK(fb_session_slots_changed_room(table) <= STEPS);
  fb_session_slots_take_changed(table, changed);
}

static void restore(struct fb_session_slots* table, uint32_t key, int64_t start, const uint8_t* data) {
  int64_t keys = key, end = (int64_t)((uint64_t)start + (uint64_t)(int64_t)(int16_t)(data[0] | data[1] << 8));
  uint8_t given = data[0] & 1;
  struct fb_session_spans spans = {&keys, &start, &end, &given};
  uint32_t slot;

  if (fb_session_slots_restore(table, &spans, 1, KEYS, &slot) == FB_OK) CHECK(slot < table->count);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static int64_t ended[STEPS];
  struct fb_session_slots table;

  if (size < 2) return 0;
  fb_session_slots_open(&table, 1 + data[0], data[1]);
  data += 2;
  size -= 2;
  for (int step = 0; step < STEPS && size >= 6; step++) {
    uint32_t key = data[1] % (KEYS + 1), slot;
    int64_t time = time_of(data + 2);
    switch (data[0] % 4) {
      case 0:
      case 1:
        if (fb_session_slots_add(&table, &key, &time, 1, KEYS, &slot) == FB_OK && table.late_count == 0)
          CHECK(slot < table.count);
        break;
      case 2:
        if (time >= table.watermark) CHECK(fb_session_slots_advance(&table, time, ended) <= STEPS);
        break;
      default:
        restore(&table, key, time, data + 4);
        data += 2;
        size -= 2;
    }
    if (step % 3 == 0) join_parts(&table);
    check_apart(&table);
    data += 4;
    size -= 4;
  }
  fb_session_slots_clear(&table);
  return 0;
}
