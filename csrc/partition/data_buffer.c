#include "partition/data_buffer.h"

#include <stdlib.h>
#include <string.h>

#define NO_ENTRY UINT64_MAX

/* What stands before each record in the log. It never leaves the process, so it is in the host's order. */
struct entry {
  uint32_t data_type;
  uint32_t length; /* bytes of the record */
  uint64_t next;   /* address of the same subpartition's next entry, or NO_ENTRY */
};
#define ENTRY_BYTES sizeof(struct entry)
_Static_assert(sizeof(struct entry) == 16, "Flink's index entry is 16 bytes");

/* ---- life ------------------------------------------------------------------------------------------ */

int fb_data_buffer_open(struct fb_data_buffer* self, uint32_t subpartition_count, uint8_t* const* segments,
                        uint32_t segment_count, uint32_t segment_size) {
  *self = (struct fb_data_buffer){0};
  if (subpartition_count == 0 || segment_count == 0 || segment_size < ENTRY_BYTES) return FB_EARGUMENT;

  self->segments = calloc(segment_count, sizeof *self->segments);
  self->first_entries = calloc(subpartition_count, sizeof *self->first_entries);
  self->last_entries = calloc(subpartition_count, sizeof *self->last_entries);
  if (self->segments == NULL || self->first_entries == NULL || self->last_entries == NULL) {
    fb_data_buffer_close(self);
    return FB_ENOMEM;
  }
  memcpy(self->segments, segments, segment_count * sizeof *segments);
  self->segment_count = segment_count;
  self->segment_size = segment_size;
  self->subpartition_count = subpartition_count;
  fb_data_buffer_reset(self);
  return FB_OK;
}

void fb_data_buffer_close(struct fb_data_buffer* self) {
  free(self->segments);
  free(self->first_entries);
  free(self->last_entries);
  *self = (struct fb_data_buffer){0};
}

void fb_data_buffer_reset(struct fb_data_buffer* self) {
  size_t bytes = self->subpartition_count * sizeof *self->first_entries;

  memset(self->first_entries, 0xff, bytes); /* NO_ENTRY */
  memset(self->last_entries, 0xff, bytes);
  self->write_segment = self->write_offset = 0;
  self->record_count = self->total_bytes = 0;
  self->is_finished = false;
  self->order = NULL;
  self->read_order = 0;
  self->read_entry = NO_ENTRY;
  self->read_record_bytes = 0;
}

/* ---- the log --------------------------------------------------------------------------------------- */

static uint8_t* entry_at(const struct fb_data_buffer* self, uint64_t address) {
  return self->segments[address >> 32] + (uint32_t)address;
}

/* Whether `size` bytes and their entry fit in what is left; a rest too short for an entry is lost. */
static bool has_segment_room(const struct fb_data_buffer* self, size_t size) {
  uint64_t rest = self->segment_size - self->write_offset;
  uint64_t whole = self->segment_count - self->write_segment - 1;
  uint64_t room = (rest >= ENTRY_BYTES ? rest : 0) + whole * self->segment_size;

  return room >= ENTRY_BYTES && room - ENTRY_BYTES >= size;
}

/* Where the log stands, moved to a place that has at least `size` bytes in one piece. There is room. */
static uint8_t* write_place(struct fb_data_buffer* self, uint32_t size) {
  if (self->segment_size - self->write_offset < size) {
    self->write_segment++;
    self->write_offset = 0;
  }
  return self->segments[self->write_segment] + self->write_offset;
}

static void write_bytes(struct fb_data_buffer* self, const uint8_t* data, size_t size) {
  while (size > 0) {
    uint8_t* to = write_place(self, 1);
    uint32_t rest = self->segment_size - self->write_offset;
    uint32_t part = size < rest ? (uint32_t)size : rest;
    memcpy(to, data, part);
    self->write_offset += part;
    data += part;
    size -= part;
  }
}

int fb_data_buffer_append(struct fb_data_buffer* self, uint32_t subpartition, enum fb_buffer_data_type type,
                          const uint8_t* data, size_t size) {
  if (self->is_finished) return FB_ESTATE;
  if (size == 0 || subpartition >= self->subpartition_count) return FB_EARGUMENT;
  if (size > UINT32_MAX) return FB_ETOO_LARGE;
  if (!has_segment_room(self, size)) return FB_NEEDS_BUFFER;

  struct entry entry = {.data_type = type, .length = (uint32_t)size, .next = NO_ENTRY};
  uint8_t* to = write_place(self, ENTRY_BYTES);
  uint64_t address = (uint64_t)self->write_segment << 32 | self->write_offset;
  uint64_t last = self->last_entries[subpartition];

  memcpy(to, &entry, ENTRY_BYTES);
  self->write_offset += (uint32_t)ENTRY_BYTES;
  if (last == NO_ENTRY) self->first_entries[subpartition] = address;
  else memcpy(entry_at(self, last) + offsetof(struct entry, next), &address, sizeof address);
  self->last_entries[subpartition] = address;
  write_bytes(self, data, size);
  self->record_count++;
  self->total_bytes += size;
  return FB_RECORD;
}

/* ---- reading --------------------------------------------------------------------------------------- */

static uint32_t subpartition_at(const struct fb_data_buffer* self, uint32_t position) {
  return self->order != NULL ? self->order[position] : position;
}

void fb_data_buffer_finish(struct fb_data_buffer* self, const uint32_t* order) {
  if (self->is_finished) return;
  self->is_finished = true;
  self->order = order;
  self->read_entry = self->first_entries[subpartition_at(self, 0)];
}

/* Copies bytes [from, from + size) of the record at `address`. */
static void read_stored(const struct fb_data_buffer* self, uint64_t address, uint32_t from, uint8_t* to,
                        uint32_t size) {
  uint64_t segment = address >> 32;
  uint64_t offset = (uint32_t)address + ENTRY_BYTES + from;

  if (offset >= self->segment_size) {
    segment += offset / self->segment_size;
    offset %= self->segment_size;
  }
  while (size > 0) {
    uint64_t rest = self->segment_size - offset;
    uint32_t part = size < rest ? size : (uint32_t)rest;
    memcpy(to, self->segments[segment] + offset, part);
    to += part;
    size -= part;
    segment++;
    offset = 0;
  }
}

/* Moves on to the next subpartition that has something. false: there is none. */
static bool find_entry(struct fb_data_buffer* self) {
  while (self->read_entry == NO_ENTRY) {
    if (self->subpartition_count - self->read_order <= 1) return false;
    self->read_order++;
    self->read_entry = self->first_entries[subpartition_at(self, self->read_order)];
  }
  return true;
}

uint32_t fb_data_buffer_read(struct fb_data_buffer* self, uint8_t* to, uint32_t capacity, uint32_t* subpartition,
                             enum fb_buffer_data_type* type) {
  uint32_t filled = 0;

  if (!self->is_finished || !find_entry(self)) return 0;
  *subpartition = subpartition_at(self, self->read_order);
  while (self->read_entry != NO_ENTRY && filled < capacity) {
    struct entry entry;
    memcpy(&entry, entry_at(self, self->read_entry), ENTRY_BYTES);
    if (filled == 0) *type = (enum fb_buffer_data_type)entry.data_type;
    else if (entry.data_type != *type || fb_buffer_data_type_is_event(*type))
      break; /* an event has a buffer of its own */

    uint32_t left = entry.length - self->read_record_bytes;
    uint32_t part = left < capacity - filled ? left : capacity - filled;
    read_stored(self, self->read_entry, self->read_record_bytes, to + filled, part);
    filled += part;
    self->read_record_bytes += part;
    if (part < left) break;
    self->read_entry = entry.next;
    self->read_record_bytes = 0;
  }
  return filled;
}
