#include "record/record_serializer.h"

#include <string.h>

#include "check.h"

/* A buffer of `size` bytes that belongs to no pool. */
static void keep(struct fb_buffer* self) { (void)self; }

static void open_builder(struct fb_buffer_builder* builder, struct fb_buffer* buffer, size_t size) {
  *buffer = (struct fb_buffer){.references = 1, .recycle = keep};
  CHECK(fb_memory_segment_open(&buffer->segment, size) == FB_OK);
  fb_buffer_builder_open(builder, buffer);
}

static void close_builder(struct fb_buffer_builder* builder, struct fb_buffer* buffer) {
  fb_buffer_builder_close(builder);
  fb_memory_segment_close(&buffer->segment);
}

static void put(struct fb_record_serializer* self, const char* text) {
  size_t size = strlen(text);
  CHECK(fb_data_output_reserve(&self->output, size) == FB_OK);
  memcpy(self->output.pos, text, size);
  self->output.pos += size;
}

static void record_that_fits_is_framed_in_place_and_committed(void) {
  struct fb_record_serializer self = {0};
  struct fb_buffer buffer;
  struct fb_buffer_builder builder;

  open_builder(&builder, &buffer, 16);
  CHECK(fb_record_serializer_begin(&self, &builder) == FB_OK);
  put(&self, "abc");
  CHECK(builder.position == 0 && atomic_load(&buffer.position_marker) == 0); /* nothing to see before end() */
  CHECK(fb_record_serializer_end(&self, &builder) == FB_RECORD);
  CHECK(builder.position == 7 && atomic_load(&buffer.position_marker) == 7);

  CHECK(fb_record_serializer_begin(&self, &builder) == FB_OK);
  put(&self, "defgh");
  CHECK(fb_record_serializer_end(&self, &builder) == FB_RECORD);
  CHECK(builder.position == 16 && memcmp(buffer.segment.data, "\0\0\0\3abc\0\0\0\5defgh", 16) == 0);
  CHECK(self.output.scratch == NULL);

  fb_record_serializer_close(&self);
  close_builder(&builder, &buffer);
}

static void record_that_does_not_fit_is_framed_in_the_scratch(size_t segment_size) {
  struct fb_record_serializer self = {0};
  struct fb_buffer buffer;
  struct fb_buffer_builder builder;

  open_builder(&builder, &buffer, segment_size);
  CHECK(fb_record_serializer_begin(&self, &builder) == FB_OK);
  put(&self, "abcdefghi");
  CHECK(fb_record_serializer_end(&self, &builder) == FB_NEEDS_BUFFER);
  CHECK(builder.position == 0 && atomic_load(&buffer.position_marker) == 0);
  CHECK(fb_data_output_size(&self.output) == 13);
  CHECK(memcmp(self.output.start, "\0\0\0\11abcdefghi", 13) == 0);
  fb_record_serializer_close(&self);
  close_builder(&builder, &buffer);
}

static void abandoned_record_leaves_no_trace(void) {
  struct fb_record_serializer self = {0};
  struct fb_buffer buffer;
  struct fb_buffer_builder builder;

  open_builder(&builder, &buffer, 8);
  CHECK(fb_record_serializer_begin(&self, &builder) == FB_OK);
  put(&self, "xx"); /* the encoder fails here */
  CHECK(fb_record_serializer_begin(&self, &builder) == FB_OK);
  CHECK(fb_record_serializer_end(&self, &builder) == FB_RECORD);
  CHECK(builder.position == 4 && memcmp(buffer.segment.data, "\0\0\0\0", 4) == 0);
  fb_record_serializer_close(&self);
  close_builder(&builder, &buffer);
}

static void record_can_be_framed_without_a_builder(void) {
  struct fb_record_serializer self = {0};
  uint8_t memory[6];

  CHECK(fb_record_serializer_begin_at(&self, memory, memory + sizeof memory) == FB_OK);
  put(&self, "ab");
  CHECK(fb_record_serializer_frame(&self) == 6 && memcmp(memory, "\0\0\0\2ab", 6) == 0);

  CHECK(fb_record_serializer_begin_at(&self, NULL, NULL) == FB_OK);
  put(&self, "ab");
  CHECK(fb_data_output_in_scratch(&self.output));
  CHECK(fb_record_serializer_frame(&self) == 6 && memcmp(self.output.start, "\0\0\0\2ab", 6) == 0);
  fb_record_serializer_close(&self);
}

int main(void) {
  record_that_fits_is_framed_in_place_and_committed();
  for (size_t size = 1; size <= 12; size++) record_that_does_not_fit_is_framed_in_the_scratch(size);
  abandoned_record_leaves_no_trace();
  record_can_be_framed_without_a_builder();
  return 0;
}
