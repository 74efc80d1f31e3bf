/* Files: all bytes or an error that says where, whatever the system does in between. */
#define _GNU_SOURCE
#include "io/file_channel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

static char folder[] = "/tmp/flinkbuf-test-XXXXXX";
static char path[64];

static void open_new(struct fb_file_channel* channel) {
  struct fb_file_failure failure;
  CHECK(fb_file_channel_open(channel, path, FB_FILE_CREATE, &failure) == FB_OK && fb_file_channel_is_open(channel));
}

static int write_text(struct fb_file_channel* channel, const char* text, struct fb_file_failure* failure) {
  struct iovec part = {.iov_base = (void*)text, .iov_len = strlen(text)};
  return fb_file_channel_write_all(channel, &part, 1, failure);
}

static void what_was_written_is_read(void) {
  struct fb_file_channel channel, reader, end;
  struct fb_file_failure failure;
  uint64_t size;
  char read[16] = "";

  open_new(&channel);
  CHECK(write_text(&channel, "0123", &failure) == FB_OK && write_text(&channel, "456789", &failure) == FB_OK);
  CHECK(channel.position == 10 && fb_file_channel_sync(&channel, &failure) == FB_OK);
  CHECK(fb_file_channel_open(&reader, path, FB_FILE_READ, &failure) == FB_OK);
  CHECK(fb_file_channel_read_exactly(&reader, 2, read, 8, &failure) == FB_OK && strcmp(read, "23456789") == 0);
  CHECK(write_text(&reader, "x", &failure) == FB_ESTATE && strstr(failure.text, "reading only") != NULL);
  CHECK(fb_file_channel_open(&end, path, FB_FILE_EXTEND, &failure) == FB_OK && end.position == 10);
  CHECK(write_text(&end, "ab", &failure) == FB_OK);
  channel.position = 1;
  CHECK(write_text(&channel, "_", &failure) == FB_OK);
  CHECK(fb_file_channel_get_size(&reader, &size, &failure) == FB_OK && size == 12);
  CHECK(fb_file_channel_read_exactly(&reader, 0, read, 12, &failure) == FB_OK && memcmp(read, "0_23456789ab", 12) == 0);
  CHECK(fb_file_channel_close(&end, &failure) == FB_OK && fb_file_channel_close(&end, &failure) == FB_OK);
  CHECK(fb_file_channel_close(&reader, &failure) == FB_OK);
  fb_file_channel_close_and_delete(&channel);
  fb_file_channel_close_and_delete(&channel);
  CHECK(access(path, F_OK) < 0 && errno == ENOENT);
}

static void file_that_ends_is_named_with_the_place(void) {
  struct fb_file_channel channel;
  struct fb_file_failure failure;
  struct iovec parts[2];
  size_t read_size;
  char read[16];

  open_new(&channel);
  CHECK(write_text(&channel, "0123456789", &failure) == FB_OK);
  CHECK(fb_file_channel_read_exactly(&channel, 4, read, 9, &failure) == FB_ETRUNCATED && failure.offset == 10);
  CHECK(strstr(failure.text, path) != NULL && strstr(failure.text, "byte 10: ") != NULL);
  CHECK(strstr(failure.text, "3 bytes more") != NULL);
  parts[0] = (struct iovec){.iov_base = read, .iov_len = 3};
  parts[1] = (struct iovec){.iov_base = read + 3, .iov_len = 13};
  CHECK(fb_file_channel_read_parts(&channel, 1, parts, 2, &read_size, &failure) == FB_OK && read_size == 9);
  CHECK(memcmp(read, "123456789", 9) == 0);
  CHECK(truncate(path, 4) == 0);
  CHECK(fb_file_channel_read_exactly(&channel, 0, read, 5, &failure) == FB_ETRUNCATED && failure.offset == 4);
  fb_file_channel_close_and_delete(&channel);
}

static void resident_bytes_need_no_wait(void) {
  struct fb_file_channel channel;
  struct fb_file_failure failure;
  size_t read_size;
  char read[16];
  int code;

  open_new(&channel);
  CHECK(write_text(&channel, "0123456789", &failure) == FB_OK);
  code = fb_file_channel_read_resident(&channel, 8, read, 8, &read_size, &failure);
  CHECK(code == 0 ? read_size == 0 : code == 1 && read_size == 2 && memcmp(read, "89", 2) == 0);
  fb_file_channel_close_and_delete(&channel);
}

static void many_parts_are_written_in_order(void) {
  enum { PARTS = 3000 }; /* more than one system call takes */
  static struct iovec parts[PARTS];
  static uint16_t numbers[PARTS], read[PARTS];
  struct fb_file_channel channel;
  struct fb_file_failure failure;
  size_t read_size;

  for (int round = 0; round < 2; round++) {
    open_new(&channel);
    for (uint16_t i = 0; i < PARTS; i++) {
      numbers[i] = i;
      parts[i] = (struct iovec){.iov_base = &numbers[i], .iov_len = i % 7 == 0 ? 0 : 2}; /* empty ones, too */
    }
    CHECK(fb_file_channel_write_all(&channel, parts, PARTS, &failure) == FB_OK);
    for (uint16_t i = 0; i < PARTS; i++) parts[i] = (struct iovec){.iov_base = &read[i], .iov_len = i % 7 == 0 ? 0 : 2};
    CHECK(fb_file_channel_read_parts(&channel, 0, parts, PARTS, &read_size, &failure) == FB_OK);
    CHECK(read_size == channel.position);
    for (uint16_t i = 0; i < PARTS; i++) CHECK(i % 7 == 0 || read[i] == i);
    fb_file_channel_close_and_delete(&channel);
  }
}

static void missing_and_existing_files_are_refused(void) {
  struct fb_file_channel channel, second;
  struct fb_file_failure failure;

  CHECK(fb_file_channel_open(&channel, path, FB_FILE_READ, &failure) == FB_EIO && failure.error == ENOENT);
  CHECK(strstr(failure.text, "No such file or directory; somebody removed it") != NULL);
  CHECK(!fb_file_channel_is_open(&channel) && strstr(failure.text, path) != NULL);
  open_new(&channel);
  CHECK(fb_file_channel_open(&second, path, FB_FILE_CREATE, &failure) == FB_EIO && failure.error == EEXIST);
  fb_file_channel_close_and_delete(&channel);
  CHECK(write_text(&channel, "x", &failure) == FB_ESTATE);
}

static void long_paths_are_shown_by_their_end(void) {
  struct fb_file_failure failure;
  char long_path[2000];

  memset(long_path, 'a', sizeof long_path);
  strcpy(long_path + sizeof long_path - 9, "/the_end");
  fb_file_failure_set(&failure, FB_ECORRUPT, 0, "cannot read", long_path, 7, "no such kind");
  CHECK(strstr(failure.text, "aaa/the_end at byte 7: no such kind; the file is damaged") != NULL);
}

/* The limit for a file's size stands for the full disk: the same way out, and no root is needed. */
static void write_that_does_not_fit_leaves_the_position(void) {
  static char bytes[8192];
  struct rlimit before, small;
  struct fb_file_channel channel;
  struct fb_file_failure failure;
  struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};

  signal(SIGXFSZ, SIG_IGN);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  small = before;
  small.rlim_cur = 5000;
  open_new(&channel);
  CHECK(write_text(&channel, "first", &failure) == FB_OK && setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK(fb_file_channel_write_all(&channel, &part, 1, &failure) == FB_EIO && failure.error == EFBIG);
  CHECK(channel.position == 5 && failure.offset == 5000 && strstr(failure.text, "at byte 5000") != NULL);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  part = (struct iovec){.iov_base = bytes, .iov_len = sizeof bytes};
  CHECK(fb_file_channel_write_all(&channel, &part, 1, &failure) == FB_OK && channel.position == 5 + sizeof bytes);
  fb_file_channel_close_and_delete(&channel);
}

static void on_alarm(int number) { (void)number; }

/* A signal every 50 us that cuts system calls short. */
static void signals_cut_nothing_off(void) {
  enum { SIZE = 1 << 20, ROUNDS = 20 };
  static uint8_t bytes[SIZE], read[SIZE];
  struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
  struct itimerval fast = {.it_interval = {.tv_usec = 50}, .it_value = {.tv_usec = 50}}, off = {0};
  struct fb_file_channel channel;
  struct fb_file_failure failure;

  for (int i = 0; i < SIZE; i++) bytes[i] = (uint8_t)(i * 31 + (i >> 9));
  open_new(&channel);
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &fast, NULL) == 0);
  for (int round = 0; round < ROUNDS; round++) {
    struct iovec part = {.iov_base = bytes, .iov_len = SIZE};
    CHECK(fb_file_channel_write_all(&channel, &part, 1, &failure) == FB_OK);
    CHECK(fb_file_channel_read_exactly(&channel, (uint64_t)round * SIZE, read, SIZE, &failure) == FB_OK);
    CHECK(memcmp(bytes, read, SIZE) == 0);
  }
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  fb_file_channel_close_and_delete(&channel);
}

static void too_many_open_files_are_said(void) {
  struct rlimit before, small;
  struct fb_file_channel channel;
  struct fb_file_failure failure;

  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  small = before;
  small.rlim_cur = 3;
  CHECK(setrlimit(RLIMIT_NOFILE, &small) == 0);
  CHECK(fb_file_channel_open(&channel, path, FB_FILE_CREATE, &failure) == FB_EIO && failure.error == EMFILE);
  CHECK(strstr(failure.text, "ulimit -n") != NULL && setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static void* read_often(void* argument) {
  const struct fb_file_channel* channel = argument;
  struct fb_file_failure failure;
  char read[4];

  for (int i = 0; i < 2000; i++) {
    CHECK(fb_file_channel_read_exactly(channel, 2, read, 4, &failure) == FB_OK && memcmp(read, "2345", 4) == 0);
    CHECK(fb_file_channel_read_exactly(channel, 1u << 30, read, 4, &failure) == FB_ETRUNCATED);
  }
  return NULL;
}

static void many_read_while_one_writes(void) {
  struct fb_file_channel channel;
  struct fb_file_failure failure;
  pthread_t threads[4];

  open_new(&channel);
  CHECK(write_text(&channel, "0123456789", &failure) == FB_OK);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, read_often, &channel) == 0);
  for (int i = 0; i < 500; i++) CHECK(write_text(&channel, "more", &failure) == FB_OK);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  fb_file_channel_close_and_delete(&channel);
}

int main(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/file", folder);
  what_was_written_is_read();
  file_that_ends_is_named_with_the_place();
  resident_bytes_need_no_wait();
  many_parts_are_written_in_order();
  missing_and_existing_files_are_refused();
  long_paths_are_shown_by_their_end();
  write_that_does_not_fit_leaves_the_position();
  signals_cut_nothing_off();
  too_many_open_files_are_said();
  many_read_while_one_writes();
  CHECK(rmdir(folder) == 0);
}
