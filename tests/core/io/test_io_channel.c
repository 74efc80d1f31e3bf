/* Operations come back in order, with or without a thread; the first failure stays. */
#include "io/io_channel.h"

#include <string.h>
#include <unistd.h>

#include "check.h"

enum { OPERATIONS = 500 };

static char folder[] = "/tmp/flinkbuf-test-XXXXXX";
static char path[64];
static uint8_t bytes[OPERATIONS][16];
static struct fb_io_operation operations[OPERATIONS];

static void prepare(enum fb_io_operation_kind kind) {
  for (int i = 0; i < OPERATIONS; i++) {
    if (kind == FB_IO_WRITE) memset(bytes[i], i, sizeof bytes[i]);
    else memset(bytes[i], 0, sizeof bytes[i]);
    operations[i] = (struct fb_io_operation){.kind = kind, .offset = FB_IO_SEQUENTIAL};
    operations[i].parts[0] = (struct iovec){.iov_base = bytes[i], .iov_len = 10};
    operations[i].parts[1] = (struct iovec){.iov_base = bytes[i] + 10, .iov_len = 6};
  }
}

static void what_was_written_is_read(struct fb_io_executor* executor) {
  struct fb_io_channel channel;
  struct fb_file_failure failure;

  prepare(FB_IO_WRITE);
  CHECK(fb_io_channel_open(&channel, path, FB_FILE_CREATE, executor, &failure) == FB_OK);
  for (int i = 0; i < OPERATIONS; i++) CHECK(fb_io_channel_submit(&channel, &operations[i]) == FB_OK);
  for (int i = 0; i < OPERATIONS / 2; i++) CHECK(fb_io_channel_take(&channel, -1) == &operations[i]);
  CHECK(fb_io_channel_close(&channel, false, &failure) == FB_OK);
  CHECK(fb_io_channel_submit(&channel, &operations[0]) == FB_ESTATE);
  for (int i = OPERATIONS / 2; i < OPERATIONS; i++) CHECK(fb_io_channel_take(&channel, 0) == &operations[i]);
  CHECK(fb_io_channel_take(&channel, -1) == NULL && operations[7].offset == 7 * 16 && operations[7].done_size == 16);
  fb_io_channel_discard(&channel);

  prepare(FB_IO_READ);
  CHECK(fb_io_channel_open(&channel, path, FB_FILE_READ, executor, &failure) == FB_OK);
  for (int i = 0; i < OPERATIONS; i++) CHECK(fb_io_channel_submit(&channel, &operations[i]) == FB_OK);
  for (int i = 0; i < OPERATIONS; i++) {
    CHECK(fb_io_channel_take(&channel, -1) == &operations[i] && operations[i].code == FB_OK);
    for (int k = 0; k < 16; k++) CHECK(bytes[i][k] == (uint8_t)i);
  }
  CHECK(fb_io_channel_close(&channel, true, &failure) == FB_OK && access(path, F_OK) < 0);
  fb_io_channel_discard(&channel);
  fb_io_channel_discard(&channel);
}

static void first_failure_stays(struct fb_io_executor* executor) {
  struct fb_io_channel channel;
  struct fb_file_failure failure;
  int taken = 0;

  prepare(FB_IO_READ);
  CHECK(fb_io_channel_open(&channel, path, FB_FILE_CREATE, executor, &failure) == FB_OK);
  operations[1].kind = FB_IO_WRITE;
  operations[1].offset = 0;
  operations[0].kind = FB_IO_READ_UP; /* nothing is there yet, which is no failure */
  for (int i = 0; i < OPERATIONS; i++)
    if (fb_io_channel_submit(&channel, &operations[i]) < 0) break;
  for (struct fb_io_operation* done; (done = fb_io_channel_take(&channel, -1)) != NULL; taken++) {
    CHECK(done == &operations[taken]);
    CHECK(done->code == (taken < 2 ? FB_OK : FB_ETRUNCATED));
  }
  CHECK(taken > 2 && fb_io_channel_outstanding(&channel) == 0);
  CHECK(fb_io_channel_submit(&channel, &operations[0]) == FB_ETRUNCATED);
  CHECK(fb_io_channel_close(&channel, true, &failure) == FB_ETRUNCATED && failure.offset == 16);
  CHECK(fb_io_channel_close(&channel, true, &failure) == FB_OK);
  fb_io_channel_discard(&channel);
}

int main(void) {
  struct fb_io_executor* executor;

  CHECK(mkdtemp(folder) != NULL && fb_io_executor_open("test", &executor) == FB_OK);
  snprintf(path, sizeof path, "%s/file", folder);
  what_was_written_is_read(executor);
  what_was_written_is_read(NULL);
  first_failure_stays(executor);
  first_failure_stays(NULL);
  fb_io_executor_drop(executor);
  CHECK(rmdir(folder) == 0);
}
