/* Golden bytes: tests/golden/events, written by Flink for the same barrier with a timeout, and unaligned. */
#include "memory/checkpoint_barrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define HEAD  "00000001000000000000004d0000018bcfe5687b"
#define ZEROS "00000000" /* it travels in the whole array that Flink wrote it into (tests/golden/conversations) */

static const struct {
  const char *aligned, *unaligned;
} BARRIERS[] = {
    {HEAD "00ffffffff010000000000007530" ZEROS, HEAD "00ffffffff027fffffffffffffff" ZEROS},
    {HEAD "00000000050102030405010000000000007530" ZEROS, HEAD "00000000050102030405027fffffffffffffff" ZEROS},
    {HEAD "04000000050102030405010000000000007530", HEAD "04000000050102030405027fffffffffffffff"},
    {HEAD "0300000000050102030405017fffffffffffffff000000", HEAD "0300000000050102030405027fffffffffffffff000000"},
};

static const char* const OTHERS[] = {
    "",
    "00000001",
    HEAD "00",
    HEAD "00ffffffff0100000000000075",             /* one byte short of its options */
    HEAD "00000000060102030405010000000000007530", /* one byte short behind a location */
    HEAD "007fffffff010000000000007530" ZEROS,     /* a location longer than everything */
    HEAD "00fffffffe010000000000007530" ZEROS,     /* of a negative length */
    HEAD "05ffffffff010000000000007530" ZEROS,     /* of an unknown kind */
    HEAD "0100ffffffff0100000000000075",           /* a savepoint, one byte short */
};

static struct fb_buffer_slice from_hex(const char* digits, enum fb_buffer_data_type type) {
  size_t size = strlen(digits) / 2;
  struct fb_buffer_slice slice;
  unsigned value;

  CHECK(fb_buffer_new_unpooled(NULL, size, type, &slice) == FB_OK);
  for (size_t i = 0; i < size; i++) {
    CHECK(sscanf(digits + 2 * i, "%2x", &value) == 1);
    slice.buffer->segment.data[i] = (uint8_t)value;
  }
  return slice;
}

static void flinks_own_barriers_become_what_flink_makes_of_them(void) {
  for (size_t i = 0; i < sizeof BARRIERS / sizeof BARRIERS[0]; i++) {
    struct fb_buffer_slice aligned = from_hex(BARRIERS[i].aligned, FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER);
    struct fb_buffer_slice wanted = from_hex(BARRIERS[i].unaligned, FB_PRIORITIZED_EVENT_BUFFER);
    struct fb_buffer_slice unaligned;
    int64_t id = 0;

    CHECK(fb_checkpoint_barrier_read(&aligned, &id) && id == 77);
    CHECK(fb_checkpoint_barrier_as_unaligned(&aligned, &unaligned) == FB_OK);
    CHECK(unaligned.data_type == FB_PRIORITIZED_EVENT_BUFFER && unaligned.size == wanted.size);
    CHECK(memcmp(fb_buffer_slice_data(&unaligned), fb_buffer_slice_data(&wanted), wanted.size) == 0);
    fb_buffer_slice_release(&aligned);
    fb_buffer_slice_release(&wanted);
    fb_buffer_slice_release(&unaligned);
  }
}

static void what_is_no_barrier_is_refused(void) {
  for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
    struct fb_buffer_slice other = from_hex(OTHERS[i], FB_TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER), unaligned;
    CHECK(fb_checkpoint_barrier_as_unaligned(&other, &unaligned) == FB_ECORRUPT);
    fb_buffer_slice_release(&other);
  }
}

static void only_events_of_the_right_kind_are_barriers(void) {
  struct fb_buffer_slice data = from_hex(BARRIERS[0].aligned, FB_DATA_BUFFER);
  struct fb_buffer_slice marker = from_hex("00000004000000000000004d", FB_EVENT_BUFFER);
  struct fb_buffer_slice cut = from_hex("0000000100000000000000", FB_EVENT_BUFFER);
  int64_t id = 5;

  CHECK(!fb_checkpoint_barrier_read(&data, &id) && !fb_checkpoint_barrier_read(&marker, &id));
  CHECK(!fb_checkpoint_barrier_read(&cut, &id) && id == 5);
  fb_buffer_slice_release(&data);
  fb_buffer_slice_release(&marker);
  fb_buffer_slice_release(&cut);
}

int main(void) {
  flinks_own_barriers_become_what_flink_makes_of_them();
  what_is_no_barrier_is_refused();
  only_events_of_the_right_kind_are_barriers();
  return 0;
}
