#include "memory/checkpoint_barrier.h"

#include "ground/byte_order.h"

enum {
  BARRIER_TYPE = 1,
  ID_END = 12,       /* type, id */
  BARRIER_HEAD = 20, /* type, id, timestamp; then the kind */
  FIRST_SAVEPOINT = 1,
  LAST_SAVEPOINT = 3,
  LAST_KIND = 4,
  OPTIONS_SIZE = 9, /* alignment, timeout */
  UNALIGNED = 2,
};

bool fb_checkpoint_barrier_read(const struct fb_buffer_slice* event, int64_t* checkpoint_id) {
  const uint8_t* bytes;

  if (!fb_buffer_data_type_is_event((enum fb_buffer_data_type)event->data_type) || event->size < ID_END) return false;
  bytes = fb_buffer_slice_data(event);
  if (fb_load_be32(bytes) != BARRIER_TYPE) return false;
  *checkpoint_id = (int64_t)fb_load_be64(bytes + 4);
  return true;
}

/* Where alignment and timeout stand: behind the kind, a savepoint's format, and the location, whose length is -1 for the
 * default one. They need not be the last bytes, since Flink sends the whole array that it wrote the barrier into. */
static int find_options(const uint8_t* bytes, uint32_t size, uint32_t* place) {
  uint32_t at = BARRIER_HEAD + 1;
  int32_t length;
  uint8_t kind;

  if (size < at || fb_load_be32(bytes) != BARRIER_TYPE) return FB_ECORRUPT;
  kind = bytes[BARRIER_HEAD];
  if (kind > LAST_KIND) return FB_ECORRUPT;
  if (kind >= FIRST_SAVEPOINT && kind <= LAST_SAVEPOINT) at++;
  if (size < at + sizeof length + OPTIONS_SIZE) return FB_ECORRUPT;
  length = (int32_t)fb_load_be32(bytes + at);
  at += sizeof length;
  if (length < -1 || length > (int64_t)(size - at - OPTIONS_SIZE)) return FB_ECORRUPT;
  *place = length > 0 ? at + (uint32_t)length : at;
  return FB_OK;
}

int fb_checkpoint_barrier_as_unaligned(const struct fb_buffer_slice* barrier, struct fb_buffer_slice* unaligned) {
  uint32_t place;
  uint8_t* bytes;
  int code = find_options(fb_buffer_slice_data(barrier), barrier->size, &place);

  if (code == FB_OK)
    code = fb_buffer_new_unpooled(fb_buffer_slice_data(barrier), barrier->size, FB_PRIORITIZED_EVENT_BUFFER, unaligned);
  if (code < 0) return code;
  bytes = unaligned->buffer->segment.data + unaligned->offset + place;
  bytes[0] = UNALIGNED;
  fb_store_be64(bytes + 1, INT64_MAX);
  return FB_OK;
}
