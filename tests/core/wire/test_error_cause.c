/* Causes are Java's bytes, and what a cause says can be read from any of them. */
#include "wire/error_cause.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Of the causes in tests/golden/netty_frames: bytes and FNV-1a. */
#define BOOM_SIZE      430
#define BOOM_HASH      0x38443d5e0ad26486u
#define NOT_FOUND_SIZE 1919
#define NOT_FOUND_HASH 0xdbc1e89c02f4955eu

static const uint8_t PARTITION[60] = {
    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x91, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
    0x09, 0,    0,    0,    1,    0x09, 0x28, 0x47, 0x66, 0x85, 0xa4, 0xc3, 0xe2, 0x01, 0x20,
    0x3f, 0x5e, 0x7d, 0x9c, 0xbb, 0xda, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x11, 0x09,
    0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x19, 0,    0,    0,    2,    0,    0,    0,    3,
};

static uint64_t hash_of(const struct fb_buffer_slice* slice) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < slice->size; i++) hash = (hash ^ fb_buffer_slice_data(slice)[i]) * 0x100000001b3u;
  return hash;
}

static bool is_text(const char* text, size_t size, const char* expected) {
  return text != NULL && size == strlen(expected) && memcmp(text, expected, size) == 0;
}

static struct fb_error_cause read_cause(const struct fb_buffer_slice* slice) {
  struct fb_error_cause cause;
  fb_error_cause_read(fb_buffer_slice_data(slice), slice->size, &cause);
  return cause;
}

static void a_message_becomes_the_bytes_of_java(void) {
  struct fb_buffer_slice slice;
  struct fb_error_cause cause;

  CHECK(fb_error_cause_new("boom", &slice) == FB_OK);
  CHECK(slice.size == BOOM_SIZE && hash_of(&slice) == BOOM_HASH);
  cause = read_cause(&slice);
  CHECK(is_text(cause.class_name, cause.class_size, "java.lang.IllegalStateException"));
  CHECK(is_text(cause.message, cause.message_size, "boom") && !cause.is_partition_not_found);
  CHECK(cause.is_plain);
  fb_buffer_slice_release(&slice);
}

static void a_missing_partition_becomes_the_bytes_of_flink(void) {
  struct fb_buffer_slice slice;
  struct fb_error_cause cause;

  CHECK(fb_error_cause_new_not_found(PARTITION, &slice) == FB_OK);
  CHECK(slice.size == NOT_FOUND_SIZE && hash_of(&slice) == NOT_FOUND_HASH);
  cause = read_cause(&slice);
  CHECK(cause.is_partition_not_found && !cause.is_plain);
  CHECK(is_text(cause.message, cause.message_size,
                "Partition 112233445566779199aabbccddeeff09#1@0928476685a4c3e201203f5e7d9cbbda_"
                "0102030405060711090a0b0c0d0e0f19_2_3 not found."));
  fb_buffer_slice_release(&slice);
}

static void long_and_foreign_messages_are_made_to_fit(void) {
  char text[3000];
  struct fb_buffer_slice slice;
  struct fb_error_cause cause;

  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = 0;
  CHECK(fb_error_cause_new(text, &slice) == FB_OK);
  cause = read_cause(&slice);
  CHECK(cause.message_size == 1000 && cause.message[999] == 'x');
  fb_buffer_slice_release(&slice);
  CHECK(fb_error_cause_new("caf\xc3\xa9", &slice) == FB_OK);
  cause = read_cause(&slice);
  CHECK(is_text(cause.message, cause.message_size, "caf??"));
  fb_buffer_slice_release(&slice);
}

/* Cut anywhere, in a block of exactly that size; and with every byte changed. */
static void damaged_causes_are_read_as_far_as_they_go(void) {
  struct fb_buffer_slice slice;

  CHECK(fb_error_cause_new_not_found(PARTITION, &slice) == FB_OK);
  for (uint32_t size = 0; size < slice.size; size++) {
    uint8_t* copy = malloc(size + 1);
    struct fb_error_cause cause;

    CHECK(copy != NULL);
    memcpy(copy + 1, fb_buffer_slice_data(&slice), size);
    fb_error_cause_read(copy + 1, size, &cause);
    CHECK(cause.message == NULL || cause.message + cause.message_size <= (char*)copy + 1 + size);
    for (uint32_t at = 0; at < size && size == slice.size - 1; at++) {
      copy[1 + at] ^= 0xff;
      fb_error_cause_read(copy + 1, size, &cause);
      copy[1 + at] ^= 0xff;
    }
    free(copy);
  }
  fb_buffer_slice_release(&slice);
}

int main(void) {
  a_message_becomes_the_bytes_of_java();
  a_missing_partition_becomes_the_bytes_of_flink();
  long_and_foreign_messages_are_made_to_fit();
  damaged_causes_are_read_as_far_as_they_go();
  return 0;
}
