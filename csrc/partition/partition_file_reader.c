#include "partition/partition_file_reader.h"

#include "ground/crc32.h"
#include "partition/buffer_header.h"

#define NO_MORE_REGIONS 0
#define TAIL_SIZE       16384u /* less memory than this is not worth a call of the system for a part of what follows */

int fb_partition_file_reader_open(struct fb_partition_file_reader* self, struct fb_partition_file* file,
                                  uint32_t subpartition, struct fb_file_failure* failure) {
  int code;

  *self = (struct fb_partition_file_reader){0};
  if (subpartition >= file->subpartition_count)
    return fb_file_failure_set(failure, FB_EARGUMENT, 0, "cannot read", file->data_path, 0, "no such subpartition");
  code = fb_partition_file_start_reading(file, failure);
  if (code != FB_OK) return code;
  fb_partition_file_retain(file);
  self->file = file;
  self->subpartition = subpartition;
  self->least = FB_READER_LEAST;
  return FB_OK;
}

void fb_partition_file_reader_close(struct fb_partition_file_reader* self) {
  if (self->file == NULL) return;
  fb_partition_file_stop_reading(self->file);
  fb_partition_file_drop(self->file);
  *self = (struct fb_partition_file_reader){0};
}

static int fail_data(const struct fb_partition_file_reader* self, int code, uint64_t offset, const char* why,
                     struct fb_file_failure* failure) {
  return fb_file_failure_set(failure, code, 0, "cannot read", self->file->data_path, offset, why);
}

int fb_partition_file_reader_find(struct fb_partition_file_reader* self, struct fb_file_failure* failure) {
  while (self->left == 0 && self->region < self->file->region_count) {
    struct fb_index_entry entry;
    int code = fb_partition_file_get_entry(self->file, self->region, self->subpartition, &entry, failure);
    if (code != FB_OK) return code;
    self->region++;
    self->offset = entry.offset;
    self->left = entry.size;
  }
  if (self->left > 0) return 1;
  if (self->last_type == FB_END_OF_PARTITION) return NO_MORE_REGIONS;
  return fail_data(self, FB_ETRUNCATED, self->offset, "the subpartition has no end of the partition", failure);
}

/* ---- blocks in memory ---------------------------------------------------------------------------- */

/* What one call works on. */
struct reading {
  uint8_t* memory;
  uint32_t at;   /* the next byte to look at */
  uint32_t end;  /* bytes read */
  uint32_t full; /* bytes there are */
  bool is_taken; /* something was given */
  fb_take_block take;
  void* context;
};

/* Counts bytes that come next, if anybody wants to know. */
static void sum_bytes(struct fb_partition_file_reader* self, const struct reading* reading, uint32_t size) {
  if (!self->is_summing) return;
  self->sum.size += size;
  self->sum.crc32 = fb_crc32(self->sum.crc32, reading->memory + reading->at, size);
}

static void advance(struct fb_partition_file_reader* self, struct reading* reading, uint32_t size) {
  reading->at += size;
  self->offset += size;
  self->left -= size;
}

static int give_block(struct fb_partition_file_reader* self, struct reading* reading, uint32_t size, uint8_t type,
                      bool is_compressed) {
  struct fb_file_block block = {
      .offset = reading->at, .size = size, .position = self->offset, .data_type = type, .is_compressed = is_compressed};

  if (fb_buffer_data_type_is_buffer(type)) sum_bytes(self, reading, size);
  advance(self, reading, size);
  self->last_type = type;
  reading->is_taken = true;
  return reading->take(reading->context, &block);
}

/* The next piece of a block that does not fit as a whole. Only the last one ends where the block ends. */
static int give_piece(struct fb_partition_file_reader* self, struct reading* reading) {
  uint32_t there = reading->end - reading->at;
  uint32_t size = there < self->block_left ? there : self->block_left;

  self->block_left -= size;
  return give_block(self, reading, size, self->block_left == 0 ? self->block_type : FB_DATA_BUFFER, false);
}

static int check_block(const struct fb_partition_file_reader* self, const uint8_t* bytes,
                       struct fb_buffer_header* header, struct fb_file_failure* failure) {
  if (self->last_type == FB_END_OF_PARTITION)
    return fail_data(self, FB_ECORRUPT, self->offset, "a block follows the end of the partition", failure);
  if (self->left < FB_BUFFER_HEADER_SIZE)
    return fail_data(self, FB_ECORRUPT, self->offset, "a block begins where its region ends", failure);
  if (fb_buffer_header_read(bytes, header) != FB_OK)
    return fail_data(self, FB_ECORRUPT, self->offset, "this is no header of a block", failure);
  if (header->size > self->left - FB_BUFFER_HEADER_SIZE)
    return fail_data(self, FB_ECORRUPT, self->offset, "a block is longer than what is left of its region", failure);
  return FB_OK;
}

static int check_stored_event(const struct fb_partition_file_reader* self, const struct reading* reading,
                              const struct fb_buffer_header* header, struct fb_file_failure* failure) {
  struct fb_buffer place = {.segment = {0}};
  struct fb_buffer_slice event = {.buffer = &place, .size = header->size, .data_type = header->data_type};

  if (!fb_buffer_data_type_is_event(header->data_type)) return FB_OK;
  fb_memory_segment_wrap(&place.segment, reading->memory + reading->at, header->size);
  if (fb_buffer_event_is_of_its_type(&event)) return FB_OK;
  return fail_data(self, FB_ECORRUPT, self->offset, "an event is not what its header says", failure);
}

/* Plain data are a stream, so a block of them may be given in pieces; every other block needs memory for all of it. */
static int start_large_block(struct fb_partition_file_reader* self, struct reading* reading,
                             const struct fb_buffer_header* header, struct fb_file_failure* failure) {
  if (!fb_buffer_data_type_is_buffer(header->data_type) || header->is_compressed) {
    if (header->size > FB_BLOCK_SIZE_MAX)
      return fail_data(self, FB_ETOO_LARGE, self->offset, "a block has more than 256 MiB", failure);
    self->least = FB_BUFFER_HEADER_SIZE + header->size;
    return FB_NEEDS_BUFFER;
  }
  sum_bytes(self, reading, FB_BUFFER_HEADER_SIZE);
  advance(self, reading, FB_BUFFER_HEADER_SIZE);
  self->block_left = header->size;
  self->block_type = header->data_type;
  return give_piece(self, reading);
}

/* Gives the blocks of a region that lie in memory. FB_OK: all bytes are used; FB_NEEDS_BUFFER: what follows is cut off. */
static int give_blocks(struct fb_partition_file_reader* self, struct reading* reading,
                       struct fb_file_failure* failure) {
  int code = FB_OK;

  if (self->block_left > 0) code = give_piece(self, reading);
  while (code == FB_OK && reading->at < reading->end) {
    uint32_t there = reading->end - reading->at;
    struct fb_buffer_header header;

    if (there < FB_BUFFER_HEADER_SIZE && there < self->left) return FB_NEEDS_BUFFER;
    code = check_block(self, reading->memory + reading->at, &header, failure);
    if (code != FB_OK) return code;
    if (header.size > there - FB_BUFFER_HEADER_SIZE) {
      bool is_first = !reading->is_taken && there == reading->full;
      return is_first ? start_large_block(self, reading, &header, failure) : FB_NEEDS_BUFFER;
    }
    if (fb_buffer_data_type_is_buffer(header.data_type)) sum_bytes(self, reading, FB_BUFFER_HEADER_SIZE);
    advance(self, reading, FB_BUFFER_HEADER_SIZE);
    code = check_stored_event(self, reading, &header, failure);
    if (code == FB_OK) code = give_block(self, reading, header.size, header.data_type, header.is_compressed);
  }
  return code;
}

int fb_partition_file_reader_read(struct fb_partition_file_reader* self, uint8_t* memory, uint32_t capacity,
                                  fb_take_block take, void* context, struct fb_file_failure* failure) {
  struct reading reading = {.memory = memory, .full = capacity, .take = take, .context = context};
  int code = FB_OK;

  if (capacity < self->least) return FB_NEEDS_BUFFER;
  self->least = FB_READER_LEAST;
  while (code == FB_OK && capacity - reading.at > FB_BUFFER_HEADER_SIZE) {
    uint32_t size = capacity - reading.at;

    code = fb_partition_file_reader_find(self, failure);
    if (code <= 0) return code;
    if (size > self->left) size = (uint32_t)self->left;
    else if (reading.is_taken && size < TAIL_SIZE) return 1;
    code = fb_file_channel_read_exactly(&self->file->data, self->offset, memory + reading.at, size, failure);
    if (code != FB_OK) return code;
    reading.end = reading.at + size;
    code = give_blocks(self, &reading, failure);
  }
  if (code < 0 || (code == FB_NEEDS_BUFFER && !reading.is_taken)) return code;
  code = fb_partition_file_reader_find(self, failure);
  return code;
}

int fb_partition_file_reader_skip(struct fb_partition_file_reader* self, struct fb_file_block* block,
                                  struct fb_file_failure* failure) {
  uint8_t bytes[FB_BUFFER_HEADER_SIZE];
  struct fb_buffer_header header;
  int code = fb_partition_file_reader_find(self, failure);

  if (code <= 0) return code;
  /* Too few of them are refused before they are looked at. */
  if (self->left >= sizeof bytes)
    code = fb_file_channel_read_exactly(&self->file->data, self->offset, bytes, sizeof bytes, failure);
  if (code < 0) return code;
  code = check_block(self, bytes, &header, failure);
  if (code != FB_OK) return code;
  *block = (struct fb_file_block){.size = header.size,
                                  .position = self->offset + FB_BUFFER_HEADER_SIZE,
                                  .data_type = header.data_type,
                                  .is_compressed = header.is_compressed};
  self->offset += FB_BUFFER_HEADER_SIZE + (uint64_t)header.size;
  self->left -= FB_BUFFER_HEADER_SIZE + (uint64_t)header.size;
  self->last_type = header.data_type;
  return 1;
}
