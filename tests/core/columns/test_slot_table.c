#include "columns/slot_table.h"

#include <math.h>

#include "check.h"

#define ROWS ((int64_t)3000)

/* As random as those of a table: small ones would mix nothing, and each search would pass thousands of entries. */
static const uint64_t SEEDS[FB_SLOT_TABLE_SEEDS] = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9),
                                                    UINT64_C(0x94d049bb133111eb), UINT64_C(0xd6e8feb86659fd93)};

struct batch {
  struct fb_arrow_column row, columns[2];
  uint32_t slots[ROWS];
  int64_t new_rows[ROWS];
  int64_t new_count;
};

static void open_batch(struct batch* self, const char* one, const char* other) {
  memset(self, 0, sizeof *self);
  self->row = (struct fb_arrow_column){.path = "", .child_count = other == NULL ? 1 : 2, .children = self->columns};
  CHECK(fb_arrow_type_parse("+s", &self->row.arrow) == FB_OK);
  CHECK(fb_arrow_type_parse(one, &self->columns[0].arrow) == FB_OK);
  if (other != NULL) CHECK(fb_arrow_type_parse(other, &self->columns[1].arrow) == FB_OK);
}

static void find(struct fb_slot_table* table, struct batch* batch, int64_t offset, int64_t length) {
  batch->row.offset = offset;
  batch->row.length = length;
  CHECK(fb_slot_table_find_or_add(table, batch->slots, batch->new_rows, &batch->new_count) == FB_OK);
}

static void keys_have_the_slots_of_their_first_sight_while_the_index_grows(void) {
  static int64_t values[ROWS];
  static struct batch batch;
  struct fb_slot_table table;
  uint32_t expected = 0;

  open_batch(&batch, "l", NULL);
  batch.columns[0].values = (const uint8_t*)values;
  fb_slot_table_open(&table, &batch.row, SEEDS);
  for (int64_t round = 0; round < 100; round++) {
    for (int64_t i = 0; i < ROWS; i++) values[i] = (round * ROWS + i) * ((int64_t)1 << 32);
    find(&table, &batch, 0, ROWS);
    CHECK(batch.new_count == ROWS);
    for (int64_t i = 0; i < ROWS; i++) CHECK(batch.new_rows[i] == i && batch.slots[i] == expected++);
    for (int64_t i = 0; i < ROWS; i++) values[i] = (round * ROWS + i) / 2 * ((int64_t)1 << 32);
    find(&table, &batch, 0, ROWS);
    CHECK(batch.new_count == 0);
    for (int64_t i = 0; i < ROWS; i++) CHECK(batch.slots[i] == (uint32_t)((round * ROWS + i) / 2));
  }
  CHECK(table.count == 100 * ROWS && fb_slot_table_bytes(&table) < 40 * (size_t)table.count);
  fb_slot_table_clear(&table);
  CHECK(table.count == 0 && fb_slot_table_bytes(&table) == 0);
  find(&table, &batch, 7, 2);
  CHECK(batch.slots[0] == 0 && table.count == 2 - (values[7] == values[8]));
  fb_slot_table_clear(&table);
}

/* Seeds that mix nothing, as nobody has them: a key falls where its upper half says. All fall on the last entry, and go
 * round to the first ones, or on the first one, which those have taken. */
static void keys_of_one_hash_are_told_apart_while_the_index_grows(void) {
  static const uint64_t none[FB_SLOT_TABLE_SEEDS] = {0, 1, 0, 1};
  static uint64_t values[ROWS];
  static struct batch batch;
  struct fb_slot_table table;

  open_batch(&batch, "L", NULL);
  batch.columns[0].values = (const uint8_t*)values;
  fb_slot_table_open(&table, &batch.row, none);
  for (uint32_t round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < ROWS; i++) values[i] = (i % 3 == 0 ? 0 : (uint64_t)UINT32_MAX << 32) + i + round * ROWS;
    for (uint32_t turn = 0; turn < 2; turn++) {
      for (int64_t start = 0; start < ROWS; start += ROWS / 10) {
        find(&table, &batch, start, ROWS / 10);
        CHECK(batch.new_count == (turn == 0 ? ROWS / 10 : 0));
        for (uint32_t i = 0; i < ROWS / 10; i++) CHECK(batch.slots[i] == round * ROWS + start + i);
      }
    }
  }
  fb_slot_table_clear(&table);
}

/* How far the entries of an index lie from where they belong: the sum. */
static size_t distances_in(const struct fb_slot_index* index) {
  size_t sum = 0, count = index->entries == NULL ? 0 : (size_t)1 << index->bits;

  for (size_t i = 0; i < count; i++)
    if (index->entries[i] != 0) sum += (i - (size_t)(index->entries[i] >> (64 - index->bits))) & (count - 1);
  return sum;
}

/* What is a rule in keys is none in where they fall: with five of eight entries taken a key lies 0.8 from its place. */
static void keys_of_any_rule_are_spread(void) {
  static uint64_t values[ROWS];
  static struct batch batch;
  struct fb_slot_table table;

  open_batch(&batch, "L", NULL);
  batch.columns[0].values = (const uint8_t*)values;
  for (int rule = 0; rule < 70; rule++) {
    fb_slot_table_open(&table, &batch.row, SEEDS);
    for (uint64_t round = 0; round < 20; round++) {
      for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t number = round * ROWS + i;
        double real = (double)number / 8;
        values[i] = rule < 64 ? number << rule | number >> (64 - rule) % 64 : number * number;
        if (rule == 65) memcpy(&values[i], &real, 8);
        if (rule == 66) values[i] = number * UINT64_C(0x9e3779b97f4a7c15);
        if (rule == 67) values[i] = number % 256 << 56 | number / 256;
        if (rule == 68) values[i] = UINT64_MAX - number;
        if (rule == 69) values[i] = number << 32 | number;
      }
      find(&table, &batch, 0, ROWS);
    }
    CHECK(distances_in(&table.index) + distances_in(&table.older) < 2 * (size_t)table.count);
    fb_slot_table_clear(&table);
  }
}

static void null_is_a_key_and_nans_are_one(void) {
  double values[] = {0.0, -0.0, NAN, -NAN, 1.0, 5.0, 0.0};
  static const uint8_t all_but_4_and_5[] = {0x4f};
  static const uint32_t expected[] = {0, 1, 2, 2, 3, 3, 0};
  static struct batch batch;
  struct fb_slot_table table;

  open_batch(&batch, "g", NULL);
  batch.columns[0].values = (const uint8_t*)values;
  batch.columns[0].validity = all_but_4_and_5;
  fb_slot_table_open(&table, &batch.row, SEEDS);
  find(&table, &batch, 0, 7);
  CHECK(memcmp(batch.slots, expected, sizeof expected) == 0 && batch.new_count == 4 && table.count == 4);
  fb_slot_table_clear(&table);
}

static void keys_of_two_columns_are_told_apart_by_both_wherever_they_lie(void) {
  static const int32_t ends[] = {0, 1, 3, 4, 6, 6};
  static const int16_t numbers[] = {1, 1, 1, 1, 0};
  static const uint8_t all_but_4[] = {0x0f};
  static struct batch batch;
  struct fb_slot_table table;

  open_batch(&batch, "u", "s");
  batch.columns[0].offsets = (const uint8_t*)ends;
  batch.columns[0].values = (const uint8_t*)"aababab";
  batch.columns[1].values = (const uint8_t*)numbers;
  batch.columns[1].validity = all_but_4;
  fb_slot_table_open(&table, &batch.row, SEEDS);
  find(&table, &batch, 1, 4); /* "ab", "a", "ba", "" with null */
  CHECK(batch.new_count == 4 && batch.new_rows[3] == 3);
  find(&table, &batch, 0, 5);
  CHECK(batch.new_count == 0 && batch.slots[0] == 1 && batch.slots[1] == 0 && batch.slots[4] == 3);
  fb_slot_table_clear(&table);
}

static void what_has_no_place_in_a_key_is_told(void) {
  static const char* const TAKEN[] = {"b",   "c",   "L",   "f",       "g",   "u",      "Z",       "w:3",
                                      "w:0", "tdD", "ttn", "tsu:UTC", "tDn", "d:38,2", "d:9,2,32"};
  static const char* const REFUSED[] = {"n", "e", "vu", "vz", "+l", "+s", "tin", "+r"};
  struct fb_arrow_type type;

  for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
    CHECK(fb_arrow_type_parse(TAKEN[i], &type) == FB_OK && fb_slot_table_takes(&type));
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
    CHECK(fb_arrow_type_parse(REFUSED[i], &type) == FB_OK && !fb_slot_table_takes(&type));
}

int main(void) {
  keys_have_the_slots_of_their_first_sight_while_the_index_grows();
  keys_of_one_hash_are_told_apart_while_the_index_grows();
  keys_of_any_rule_are_spread();
  null_is_a_key_and_nans_are_one();
  keys_of_two_columns_are_told_apart_by_both_wherever_they_lie();
  what_has_no_place_in_a_key_is_told();
  return 0;
}
