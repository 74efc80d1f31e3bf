#include "partition/hash_data_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "partition/buffer_header.h"

#define NO_PART      UINT32_MAX
#define MERGED_SHARE 8 /* what merging writes again is at most this part of the rest */

struct fb_hash_part {
  struct fb_buffer_consumer consumer; /* until write() */
  struct fb_buffer_slice slice;       /* from then on */
  uint32_t next;
  uint32_t phase;
};

struct fb_hash_phase {
  uint64_t bytes; /* with headers, once */
  bool is_broadcast;
  bool is_merged; /* broadcast, but written with the subpartitions */
};

int fb_hash_data_buffer_open(struct fb_hash_data_buffer* self, uint32_t subpartition_count) {
  size_t lists = (size_t)subpartition_count + 1;

  *self = (struct fb_hash_data_buffer){.subpartition_count = subpartition_count};
  self->first = malloc(lists * sizeof *self->first);
  self->last = malloc(lists * sizeof *self->last);
  if (self->first == NULL || self->last == NULL) {
    fb_hash_data_buffer_close(self);
    return FB_ENOMEM;
  }
  memset(self->first, 0xff, lists * sizeof *self->first); /* NO_PART */
  memset(self->last, 0xff, lists * sizeof *self->last);
  return FB_OK;
}

static void forget_parts(struct fb_hash_data_buffer* self) {
  size_t lists = (size_t)self->subpartition_count + 1;

  for (uint32_t i = 0; i < self->part_count; i++) {
    fb_buffer_consumer_close(&self->parts[i].consumer);
    fb_buffer_slice_release(&self->parts[i].slice);
  }
  self->part_count = self->phase_count = 0;
  if (self->first != NULL) memset(self->first, 0xff, lists * sizeof *self->first);
  if (self->last != NULL) memset(self->last, 0xff, lists * sizeof *self->last);
}

void fb_hash_data_buffer_close(struct fb_hash_data_buffer* self) {
  forget_parts(self);
  free(self->parts);
  free(self->first);
  free(self->last);
  free(self->phases);
  *self = (struct fb_hash_data_buffer){0};
}

/* ---- gathering ----------------------------------------------------------------------------------- */

static int grow(void** items, uint32_t* capacity, uint32_t count, size_t item_size) {
  uint32_t wanted = *capacity > 0 ? *capacity * 2 : 16;
  void* grown;

  if (count < *capacity) return FB_OK;
  grown = realloc(*items, wanted * item_size);
  if (grown == NULL) return FB_ENOMEM;
  *items = grown;
  *capacity = wanted;
  return FB_OK;
}

int fb_hash_data_buffer_reserve(struct fb_hash_data_buffer* self) {
  int code = grow((void**)&self->parts, &self->part_capacity, self->part_count, sizeof *self->parts);
  return code == FB_OK ? grow((void**)&self->phases, &self->phase_capacity, self->phase_count, sizeof *self->phases)
                       : code;
}

void fb_hash_data_buffer_add(struct fb_hash_data_buffer* self, uint32_t target, struct fb_buffer_consumer* consumer) {
  bool is_broadcast = target == self->subpartition_count;
  uint32_t at = self->part_count++;

  if (self->phase_count == 0 || self->phases[self->phase_count - 1].is_broadcast != is_broadcast)
    self->phases[self->phase_count++] = (struct fb_hash_phase){.is_broadcast = is_broadcast};
  self->parts[at] = (struct fb_hash_part){.consumer = *consumer, .next = NO_PART, .phase = self->phase_count - 1};
  *consumer = (struct fb_buffer_consumer){0};
  if (self->first[target] == NO_PART) self->first[target] = at;
  else self->parts[self->last[target]].next = at;
  self->last[target] = at;
}

/* ---- writing ------------------------------------------------------------------------------------- */

static void compress_part(struct fb_buffer_slice* slice, const struct fb_hash_write* how) {
  uint8_t* data = slice->buffer->segment.data + slice->offset; /* nobody else has it */
  uint32_t size;

  if (how->codec == NULL || !fb_buffer_data_type_is_buffer(slice->data_type)) return;
  if (slice->is_compressed || slice->size == 0) return;
  size = fb_buffer_codec_compress_in_place(how->codec, data, slice->size, how->scratch);
  if (size == 0) return;
  slice->size = size;
  slice->is_compressed = true;
}

/* What was filled becomes slices. */
static void build_parts(struct fb_hash_data_buffer* self, const struct fb_hash_write* how) {
  for (uint32_t i = 0; i < self->part_count; i++) {
    struct fb_hash_part* part = &self->parts[i];

    fb_buffer_consumer_build(&part->consumer, &part->slice);
    fb_buffer_consumer_close(&part->consumer);
    compress_part(&part->slice, how);
    if (part->slice.size > 0) self->phases[part->phase].bytes += FB_BUFFER_HEADER_SIZE + (uint64_t)part->slice.size;
  }
}

/* Decides which broadcast phases are written with the subpartitions around them. */
static void merge_phases(struct fb_hash_data_buffer* self, const struct fb_hash_write* how) {
  uint64_t room = 0;

  for (uint32_t i = 0; i < self->phase_count; i++)
    if (!self->phases[i].is_broadcast) room += self->phases[i].bytes / MERGED_SHARE;
  for (uint32_t i = 0; how->merges_regions && i < self->phase_count; i++) {
    struct fb_hash_phase* phase = &self->phases[i];
    uint64_t copies = phase->bytes * (self->subpartition_count - 1);
    bool is_last = how->is_last && i == self->phase_count - 1;

    phase->is_merged = phase->is_broadcast && !is_last && copies <= room;
    if (phase->is_merged) room -= copies;
  }
}

static int write_part(const struct fb_hash_part* part, uint32_t subpartition, const struct fb_hash_write* how,
                      struct fb_file_failure* failure) {
  if (part->slice.size == 0) return FB_OK;
  return fb_partition_file_writer_add(how->writer, subpartition, &part->slice, failure);
}

/* The next part of a list before phase `end`, or NO_PART. */
static uint32_t part_before(const struct fb_hash_data_buffer* self, uint32_t at, uint32_t end) {
  return at != NO_PART && self->parts[at].phase < end ? at : NO_PART;
}

/* A subpartition's own parts, and between them the broadcast ones from `shared` on, in the order of their phases. */
static int write_subpartition(struct fb_hash_data_buffer* self, uint32_t subpartition, uint32_t shared, uint32_t end,
                              const struct fb_hash_write* how, struct fb_file_failure* failure) {
  int code = FB_OK;

  while (code == FB_OK) {
    uint32_t own = part_before(self, self->first[subpartition], end);
    uint32_t common = part_before(self, shared, end);
    bool is_own = own != NO_PART && (common == NO_PART || self->parts[own].phase < self->parts[common].phase);
    uint32_t at = is_own ? own : common;

    if (at == NO_PART) break;
    code = write_part(&self->parts[at], subpartition, how, failure);
    if (is_own) self->first[subpartition] = self->parts[at].next;
    else shared = self->parts[at].next;
  }
  return code;
}

/* One region of all phases before `end` that are not written yet; none of them is a broadcast one by itself. */
static int write_unicast_region(struct fb_hash_data_buffer* self, uint32_t end, const struct fb_hash_write* how,
                                struct fb_file_failure* failure) {
  uint32_t* shared = &self->first[self->subpartition_count];
  int code = fb_partition_file_writer_start_region(how->writer, false, failure);

  for (uint32_t place = 0; place < self->subpartition_count && code == FB_OK; place++)
    code = write_subpartition(self, fb_partition_file_writer_at(how->writer, place), *shared, end, how, failure);
  if (code == FB_OK) code = fb_partition_file_writer_finish_region(how->writer, failure);
  while (part_before(self, *shared, end) != NO_PART) *shared = self->parts[*shared].next;
  return code;
}

static int write_broadcast_region(struct fb_hash_data_buffer* self, uint32_t phase, const struct fb_hash_write* how,
                                  struct fb_file_failure* failure) {
  uint32_t* shared = &self->first[self->subpartition_count];
  int code = fb_partition_file_writer_start_region(how->writer, true, failure);

  for (; part_before(self, *shared, phase + 1) != NO_PART && code == FB_OK; *shared = self->parts[*shared].next)
    code = write_part(&self->parts[*shared], 0, how, failure);
  return code == FB_OK ? fb_partition_file_writer_finish_region(how->writer, failure) : code;
}

int fb_hash_data_buffer_write(struct fb_hash_data_buffer* self, const struct fb_hash_write* how,
                              struct fb_file_failure* failure) {
  uint32_t begin = 0;
  int code = FB_OK;

  build_parts(self, how);
  merge_phases(self, how);
  for (uint32_t phase = 0; phase < self->phase_count && code == FB_OK; phase++) {
    bool is_alone = self->phases[phase].is_broadcast && !self->phases[phase].is_merged;
    bool is_end = phase + 1 == self->phase_count;

    if (is_alone && phase > begin) code = write_unicast_region(self, phase, how, failure);
    if (is_alone && code == FB_OK) code = write_broadcast_region(self, phase, how, failure);
    if (is_alone) begin = phase + 1;
    else if (is_end) code = write_unicast_region(self, phase + 1, how, failure);
  }
  forget_parts(self);
  return code;
}
