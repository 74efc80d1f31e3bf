#include "sort/record_sorter.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

static char folder[] = "/tmp/test_record_sorter_XXXXXX";
static char base[128];

/* What a record of these tests holds: when it was added. */
struct added {
  uint32_t number;
};

static uint32_t random_state = 1;

static uint32_t next_random(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

static void open_sorter(struct fb_record_sorter* self, size_t memory_bytes, uint32_t max_fan_in) {
  CHECK(fb_record_sorter_open(self, memory_bytes, max_fan_in) == FB_OK);
  CHECK(fb_record_sorter_set_path(self, base) == FB_OK);
}

static void add(struct fb_record_sorter* self, const char* key, size_t key_size, int64_t timestamp, uint32_t number) {
  struct added added = {number};
  int code =
      fb_record_sorter_add(self, (const uint8_t*)key, key_size, timestamp, (const uint8_t*)&added, sizeof(added));

  if (code == FB_NEEDS_BUFFER) {
    CHECK(fb_record_sorter_spill(self) == FB_OK);
    code = fb_record_sorter_add(self, (const uint8_t*)key, key_size, timestamp, (const uint8_t*)&added, sizeof(added));
  }
  CHECK(code == FB_RECORD);
}

static uint32_t number_of(const struct fb_sorted_record* record) {
  struct added added;

  CHECK(record->record_size == sizeof(added));
  memcpy(&added, record->record, sizeof(added));
  return added.number;
}

static size_t make_key(char* key, uint32_t kinds) {
  static const char* prefixes[] = {"", "a", "abcdefg", "abcdefgh", "abcdefghijklmnop", "\xff", "\x7f"};
  const char* prefix = prefixes[next_random() % 7];
  size_t size = strlen(prefix);

  memcpy(key, prefix, size);
  if (next_random() % 4 > 0) {
    uint32_t tail = next_random() % kinds;

    memcpy(key + size, &tail, sizeof(tail));
    size += next_random() % (sizeof(tail) + 1);
  }
  return size;
}

static bool is_file(uint32_t number) {
  char path[160];

  snprintf(path, sizeof(path), "%s.sort.%u", base, number);
  return access(path, F_OK) == 0;
}

static void memory_and_runs_stay_within_what_was_given(void) {
  for (uint32_t max_fan_in = 2; max_fan_in <= 128; max_fan_in *= 8) {
    struct fb_record_sorter self;
    char key[64];

    open_sorter(&self, 64 * 1024, max_fan_in);
    for (uint32_t i = 0; i < 20000; i++) {
      add(&self, key, make_key(key, 50), (int64_t)(next_random() % 5) - 2, i);
      CHECK(fb_record_sorter_used_bytes(&self) <= 64 * 1024);
    }
    CHECK(fb_record_sorter_finish(&self) == FB_OK);
    CHECK(self.run_count > 0 && self.run_count <= max_fan_in);
    fb_record_sorter_close(&self);
    CHECK(!is_file(0));
  }
}

static void a_record_larger_than_all_memory_is_sorted(void) {
  struct fb_record_sorter self;
  struct fb_sorted_record record;
  size_t size = 300 * 1024;
  uint8_t* large = malloc(size);

  CHECK(large != NULL);
  open_sorter(&self, 64 * 1024, 4);
  for (uint8_t i = 0; i < 6; i++) {
    uint8_t key = (uint8_t)(5 - i);

    memset(large, key, size);
    int code = fb_record_sorter_add(&self, &key, 1, 0, large, size);
    if (code == FB_NEEDS_BUFFER) {
      CHECK(fb_record_sorter_spill(&self) == FB_OK);
      code = fb_record_sorter_add(&self, &key, 1, 0, large, size);
    }
    CHECK(code == FB_RECORD);
  }
  CHECK(fb_record_sorter_finish(&self) == FB_OK);
  for (uint8_t i = 0; i < 6; i++) {
    CHECK(fb_record_sorter_next(&self, &record) == 1);
    CHECK(record.key_size == 1 && record.key[0] == i && record.record_size == size);
    memset(large, i, size);
    CHECK(memcmp(record.record, large, size) == 0);
  }
  CHECK(fb_record_sorter_next(&self, &record) == 0);
  fb_record_sorter_close(&self);
  free(large);
}

static void wrong_calls_are_refused(void) {
  struct fb_record_sorter self;
  struct fb_sorted_record record;

  CHECK(fb_record_sorter_open(&self, 1000, 8) == FB_EARGUMENT);
  CHECK(fb_record_sorter_open(&self, 1 << 20, 1) == FB_EARGUMENT);
  CHECK(fb_record_sorter_open(&self, 1 << 20, 8) == FB_OK);
  add(&self, "a", 1, 0, 0);
  CHECK(fb_record_sorter_next(&self, &record) == FB_ESTATE);
  CHECK(fb_record_sorter_spill(&self) == FB_ESTATE); /* nobody said where */
  CHECK(fb_record_sorter_add(&self, (const uint8_t*)"a", 1, 0, (const uint8_t*)"", (size_t)1 << 31) == FB_ETOO_LARGE);
  CHECK(fb_record_sorter_finish(&self) == FB_OK);
  CHECK(fb_record_sorter_finish(&self) == FB_ESTATE);
  CHECK(fb_record_sorter_spill(&self) == FB_ESTATE);
  CHECK(fb_record_sorter_add(&self, (const uint8_t*)"a", 1, 0, (const uint8_t*)"", 0) == FB_ESTATE);
  CHECK(fb_record_sorter_next(&self, &record) == 1 && number_of(&record) == 0);
  CHECK(fb_record_sorter_next(&self, &record) == 0);
  fb_record_sorter_close(&self);
  CHECK(fb_record_sorter_set_path(&self, base) == FB_OK);
  CHECK(fb_record_sorter_set_path(&self, base) == FB_ESTATE);
  fb_record_sorter_close(&self);
}

/* A sorter with many runs, not finished. */
static void open_spilled(struct fb_record_sorter* self) {
  char key[64];

  open_sorter(self, 64 * 1024, 128);
  for (uint32_t i = 0; i < 20000; i++) add(self, key, make_key(key, 50), 0, i);
}

static int read_to_failure(struct fb_record_sorter* self) {
  struct fb_sorted_record record;
  int code = fb_record_sorter_finish(self);

  while (code == FB_OK || code == 1) {
    code = fb_record_sorter_next(self, &record);
    if (code == 0) return 0;
  }
  return code;
}

static void a_run_that_was_cut_off_is_named_with_its_place(void) {
  struct fb_record_sorter self;
  struct fb_sorted_record record;
  char path[160];
  uint64_t end;
  int code = 1;

  open_spilled(&self);
  snprintf(path, sizeof(path), "%s.sort.0", base);
  CHECK(fb_record_sorter_finish(&self) == FB_OK);
  end = self.runs[self.run_count - 1].offset + self.runs[self.run_count - 1].size - 10;
  CHECK(truncate(path, (off_t)end) == 0);
  while (code == 1) code = fb_record_sorter_next(&self, &record);
  CHECK(code == FB_ETRUNCATED && self.failure.code == FB_ETRUNCATED);
  CHECK(strstr(self.failure.text, path) != NULL && self.failure.offset == end);
  fb_record_sorter_close(&self);
  CHECK(!is_file(0));
}

static void lengths_that_cannot_be_are_found(void) {
  struct fb_record_sorter self;
  char path[160];
  uint32_t length = 0x7fffffff;

  open_spilled(&self);
  snprintf(path, sizeof(path), "%s.sort.0", base);
  int file = open(path, O_WRONLY);
  CHECK(file >= 0 && pwrite(file, &length, sizeof(length), (off_t)self.runs[1].offset) == sizeof(length));
  CHECK(close(file) == 0);
  CHECK(read_to_failure(&self) == FB_ECORRUPT);
  CHECK(strstr(self.failure.text, path) != NULL && self.failure.offset == self.runs[1].offset);
  fb_record_sorter_close(&self);
}

static void a_disk_that_is_full_is_named(void) {
  struct fb_record_sorter self;
  struct rlimit limit, before;
  char key[64];
  int code = FB_RECORD;

  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = 100000;
  signal(SIGXFSZ, SIG_IGN);
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  open_sorter(&self, 64 * 1024, 128);
  for (uint32_t i = 0; i < 20000 && code == FB_RECORD; i++) {
    size_t size = make_key(key, 50);

    code = fb_record_sorter_add(&self, (const uint8_t*)key, size, 0, (const uint8_t*)&i, sizeof(i));
    if (code == FB_NEEDS_BUFFER) code = fb_record_sorter_spill(&self) == FB_OK ? FB_RECORD : self.failure.code;
  }
  CHECK(code == FB_EIO && strstr(self.failure.text, ".sort.0") != NULL && self.failure.error != 0);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  fb_record_sorter_close(&self);
  CHECK(!is_file(0));
}

static void prefixes_order_as_keys_do(void) {
  static const char* keys[] = {"", "\0", "\0\0", "a", "a\0", "abcdefg", "abcdefg\0", "abcdefgh", "b", "\xff"};
  static const uint8_t sizes[] = {0, 1, 2, 1, 2, 7, 8, 8, 1, 1};

  for (size_t i = 0; i < 10; i++) {
    for (size_t j = 0; j < 10; j++) {
      uint64_t one = fb_record_order_prefix((const uint8_t*)keys[i], sizes[i]);
      uint64_t other = fb_record_order_prefix((const uint8_t*)keys[j], sizes[j]);
      int order = fb_record_order_compare_keys((const uint8_t*)keys[i], sizes[i], (const uint8_t*)keys[j], sizes[j]);

      if (one != other) CHECK((one < other) == (order < 0));
      if (one == other && (one & 0xff) < 8) CHECK(i == j);
    }
  }
}

int main(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(base, sizeof(base), "%s/run", folder);
  prefixes_order_as_keys_do();
  memory_and_runs_stay_within_what_was_given();
  a_record_larger_than_all_memory_is_sorted();
  wrong_calls_are_refused();
  a_run_that_was_cut_off_is_named_with_its_place();
  lengths_that_cannot_be_are_found();
  a_disk_that_is_full_is_named();
  CHECK(rmdir(folder) == 0); /* nothing is left in it */
  return 0;
}
