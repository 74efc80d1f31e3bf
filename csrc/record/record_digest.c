#include "record/record_digest.h"

#include "ground/byte_order.h"

#define LENGTH_BYTES 4

/* Bytes of a record that began earlier; returns how many. */
static size_t take_missing(struct fb_record_digest* self, const uint8_t* data, size_t size) {
  size_t part = size < self->missing ? size : self->missing;

  fb_xxh64_add(&self->hash, data, part);
  self->missing -= (uint32_t)part;
  if (self->missing == 0) self->sum += fb_xxh64_value(&self->hash);
  return part;
}

static void begin_record(struct fb_record_digest* self, uint32_t size) {
  fb_xxh64_start(&self->hash);
  self->missing = size;
  if (size == 0) self->sum += fb_xxh64_value(&self->hash);
}

void fb_record_digest_add(struct fb_record_digest* self, const uint8_t* data, size_t size) {
  while (size > 0) {
    size_t part = 1;

    if (self->missing > 0) {
      part = take_missing(self, data, size);
    } else if (self->length_size > 0 || size < LENGTH_BYTES) {
      self->length[self->length_size++] = *data;
      if (self->length_size == LENGTH_BYTES) {
        self->length_size = 0;
        begin_record(self, fb_load_be32(self->length));
      }
    } else {
      uint32_t record_size = fb_load_be32(data);

      part = LENGTH_BYTES;
      if (record_size <= size - LENGTH_BYTES) {
        self->sum += fb_xxh64(data + LENGTH_BYTES, record_size);
        part += record_size;
      } else {
        begin_record(self, record_size);
      }
    }
    data += part;
    size -= part;
  }
}
